//! The summary of the command.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::columns::ColumnUses;
use crate::line_report::counts;
use crate::warnings::WarningCounts;
use doppel_texts as texts;

#[derive(Debug, Default, Serialize)]
pub(super) struct DedupSummary {
    /// The word for the compared items.
    pub(super) unit: &'static str,
    /// Number of compared records.
    pub(super) records: u64,
    /// Number of refused lines.
    pub(super) rejected: u64,
    /// Number of rows that are no data, by code.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) left_out: BTreeMap<String, u64>,
    /// The use of the members of records; `None` for fingerprints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) columns: Option<ColumnUses>,
    /// Number of records with a warning, by code.
    #[serde(skip_serializing_if = "WarningCounts::is_empty")]
    pub(super) warned: WarningCounts,
    /// Number of found pairs; for fingerprints, pairs of different fingerprints.
    pub(super) pairs: u64,
    /// Number of pairs of exact duplicates; for fingerprints, number of fingerprints with an equal one.
    pub(super) exact: u64,
    /// Number of groups with at least two members.
    pub(super) groups: u64,
    /// Number of records in groups.
    pub(super) grouped: u64,
    /// Size of the largest group.
    pub(super) largest: u64,
    /// Number of large groups with few pairs.
    pub(super) chained: u64,
    /// Number of records for which a limit reduced the candidates.
    pub(super) truncated: u64,
    /// Number of records in the survivors file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) survivors: Option<u64>,
    /// Seconds of each phase.
    pub(super) seconds: Vec<(&'static str, f64)>,
    /// Largest memory of the process in bytes, if the system tells it.
    pub(super) peak_memory_bytes: Option<u64>,
}

impl DedupSummary {
    /// Counts a group.
    pub(super) fn group(&mut self, size: u64, chained: bool) {
        self.groups += 1;
        self.grouped += size;
        self.largest = self.largest.max(size);
        self.chained += u64::from(chained);
    }

    /// Returns the summary for people. `listed` names the file with refused lines.
    pub(super) fn table(&self, listed: &str) -> String {
        let Self { unit, records, rejected, pairs, exact, groups, grouped, largest, chained, .. } = self;
        let exact = match *unit {
            "records" => format!("{exact} of exact duplicates"),
            _ => format!("besides, {exact} fingerprints have an equal one"),
        };
        let warned: String = self.warned.lines().map(|line| format!("warned     {line}\n")).collect();
        let left_out = counts(&self.left_out);
        let left_out =
            left_out.map(|counts| format!("left out   {counts} (rows that are no data)\n")).unwrap_or_default();
        let (used, unused) = self.columns.as_ref().map(ColumnUses::lines).unzip();
        let used = used.map(|used| format!("columns    {used}\n")).unwrap_or_default();
        let unused = unused.flatten().map(|unused| format!("not used   {unused}\n")).unwrap_or_default();
        let mut text = format!(
            "read       {records} {unit}\n{used}{unused}{warned}{left_out}rejected   {rejected}{listed}\npairs      {pairs}; {exact}\n"
        );
        text += &format!("groups     {groups} with {grouped} {unit}, the largest with {largest}");
        text += &if *chained == 0 { "\n".to_owned() } else { format!("; {chained} chained: look at their bridges\n") };
        if self.truncated > 0 {
            text += &format!("truncated  {} records had more candidates than are compared\n", self.truncated);
        }
        if let Some(survivors) = self.survivors {
            text += &format!("survivors  {survivors}\n");
        }
        let seconds: Vec<_> =
            self.seconds.iter().map(|(phase, seconds)| format!("{} {seconds:.2} s", texts::said(phase))).collect();
        text += &format!("time       {}\n", seconds.join(", "));
        if let Some(bytes) = self.peak_memory_bytes {
            text += &format!("memory     {} MB at most\n", bytes / 1_000_000);
        }
        text
    }
}

/// Returns the largest memory of this process in bytes (Linux).
pub(super) fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1024)
}
