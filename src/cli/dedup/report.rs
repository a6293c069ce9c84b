//! What the user sees: how far it is, and the sum at the end.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::cli::import::report::say_beside;

/// Between two lines of progress where there is no terminal.
const EVERY: Duration = Duration::from_secs(5);

/// A bar on a terminal, a line now and then elsewhere. One phase at a time.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    phase: &'static str,
    total: u64,
    began: Instant,
    said: Instant,
}

impl Progress {
    pub(super) fn new() -> Self {
        let style = ProgressStyle::with_template("{msg:10} {bar:30} {percent}%, {eta} left");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(0).with_style(style));
        let now = Instant::now();
        Self { bar, phase: "", total: 0, began: now, said: now }
    }

    /// Begins a phase of so many steps, if that is known; returns how long the one before took, in seconds.
    pub(super) fn phase(&mut self, phase: &'static str, total: Option<u64>) -> f64 {
        let seconds = self.began.elapsed().as_secs_f64();
        (self.phase, self.total, self.began) = (phase, total.unwrap_or(0), Instant::now());
        if let Some(bar) = &self.bar {
            bar.set_length(self.total);
            bar.set_position(0);
            bar.set_message(phase);
            bar.reset_eta();
        }
        seconds
    }

    /// So many steps of the phase are done.
    pub(super) fn at(&mut self, done: u64) {
        match &self.bar {
            Some(bar) => bar.set_position(done),
            None if self.said.elapsed() >= EVERY => {
                self.said = Instant::now();
                let share = if self.total == 0 { 0.0 } else { 100.0 * done as f64 / self.total as f64 };
                self.say(&format!("{}: {share:.0} %", self.phase));
            }
            None => (),
        }
    }

    /// So much of the phase is done.
    pub(super) fn share(&mut self, done: u64, total: u64) {
        self.total = total;
        if let Some(bar) = &self.bar {
            bar.set_length(total);
        }
        self.at(done);
    }

    /// Says something on standard error.
    pub(super) fn say(&self, text: &str) {
        say_beside(self.bar.as_ref(), text);
    }

    /// The last phase is over; how long it took, in seconds.
    pub(super) fn finish(&mut self) -> f64 {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.began.elapsed().as_secs_f64()
    }
}

/// What was found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    /// What the records are called.
    pub(super) unit: &'static str,
    /// Records compared.
    pub(super) records: u64,
    /// Lines refused.
    pub(super) rejected: u64,
    /// Pairs found; of fingerprints, between different ones.
    pub(super) pairs: u64,
    /// Pairs of exact duplicates; of fingerprints, those that have an equal one.
    pub(super) exact: u64,
    /// Groups of at least two.
    pub(super) groups: u64,
    /// Records in groups.
    pub(super) grouped: u64,
    /// Size of the largest group.
    pub(super) largest: u64,
    /// Groups that are large and thin.
    pub(super) chained: u64,
    /// Records of which a limit cut the candidates short.
    pub(super) truncated: u64,
    /// Records written to the survivors file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) survivors: Option<u64>,
    /// Seconds of each phase.
    pub(super) seconds: Vec<(&'static str, f64)>,
    /// Most memory the process had at any time, where the system tells.
    pub(super) peak_memory_bytes: Option<u64>,
}

impl Summary {
    /// Counts a group.
    pub(super) fn group(&mut self, size: u64, chained: bool) {
        self.groups += 1;
        self.grouped += size;
        self.largest = self.largest.max(size);
        self.chained += u64::from(chained);
    }

    /// For people. `listed` says where refused lines are.
    pub(super) fn table(&self, listed: &str) -> String {
        let Self { unit, records, rejected, pairs, exact, groups, grouped, largest, chained, .. } = self;
        let exact = match *unit {
            "records" => format!("{exact} of exact duplicates"),
            _ => format!("besides, {exact} fingerprints have an equal one"),
        };
        let mut text =
            format!("read       {records} {unit}\nrejected   {rejected}{listed}\npairs      {pairs}; {exact}\n");
        text += &format!("groups     {groups} with {grouped} {unit}, the largest with {largest}");
        text += &if *chained == 0 { "\n".to_owned() } else { format!("; {chained} chained: look at their bridges\n") };
        if self.truncated > 0 {
            text += &format!("truncated  {} records had more candidates than are compared\n", self.truncated);
        }
        if let Some(survivors) = self.survivors {
            text += &format!("survivors  {survivors}\n");
        }
        let seconds: Vec<_> = self.seconds.iter().map(|(phase, seconds)| format!("{phase} {seconds:.2} s")).collect();
        text += &format!("time       {}\n", seconds.join(", "));
        if let Some(bytes) = self.peak_memory_bytes {
            text += &format!("memory     {} MB at most\n", bytes / 1_000_000);
        }
        text
    }
}

/// The most memory this process had at any time (Linux).
pub(super) fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}
