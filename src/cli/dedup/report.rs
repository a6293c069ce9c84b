//! What the user sees at the end.

use serde::Serialize;

use crate::cli::columns::Uses;
use crate::cli::warnings::Warned;

/// What was found.
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    /// What the records are called.
    pub(super) unit: &'static str,
    /// Records compared.
    pub(super) records: u64,
    /// Lines refused.
    pub(super) rejected: u64,
    /// What members of the records are used as what; of fingerprints, none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) columns: Option<Uses>,
    /// Records compared with a warning, by code.
    #[serde(skip_serializing_if = "Warned::is_empty")]
    pub(super) warned: Warned,
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
        let warned: String = self.warned.lines().map(|line| format!("warned     {line}\n")).collect();
        let (used, unused) = self.columns.as_ref().map(Uses::lines).unzip();
        let used = used.map(|used| format!("columns    {used}\n")).unwrap_or_default();
        let unused = unused.flatten().map(|unused| format!("not used   {unused}\n")).unwrap_or_default();
        let mut text = format!(
            "read       {records} {unit}\n{used}{unused}{warned}rejected   {rejected}{listed}\npairs      {pairs}; {exact}\n"
        );
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
