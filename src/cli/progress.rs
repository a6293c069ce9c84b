//! How far a command is.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

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
