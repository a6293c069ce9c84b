//! The output of a check for people: progress and the summary.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::columns::ColumnUses;
use crate::import::input::RecordInput;
use crate::line_report::{LinePlace, LineReport, NamedCounts, RejectionReason, RejectsFile};
use crate::progress::CommandProgress;
use crate::warnings::WarningCounts;
use doppel_core::collection::CollectionName;
use doppel_core::verdict::VerdictKind;
use doppel_engine::answers::Outcome;
use doppel_findings::{RowFinding, RowRefusal};

/// Counts and shows the events of a check.
pub(super) struct CheckReport {
    pub(super) lines: LineReport,
    registers: bool,
    /// Number of rows that were read and can be compared.
    pub(super) readable: u64,
    /// Number of rows that could be read and are refused by the collection.
    refused: u64,
    verdicts: NamedCounts<VerdictKind>,
    outcomes: NamedCounts<Outcome>,
}

impl CheckReport {
    pub(super) fn new(input: &RecordInput, registers: bool) -> Self {
        let lines = LineReport::of_input(input, RejectsFile::default(), "reading");
        let verdicts = NamedCounts::of_verdicts();
        Self { lines, registers, readable: 0, refused: 0, verdicts, outcomes: NamedCounts::of_outcomes() }
    }

    pub(super) fn progress(&self) -> Arc<CommandProgress> {
        Arc::clone(&self.lines.progress)
    }

    pub(super) fn say(&self, text: &str) {
        self.lines.say(text);
    }

    /// Warns that there are no records to check against.
    pub(super) fn say_missing(&self, collection: &CollectionName, to: &str) {
        self.say(&format!(
            "{to} has no collection {collection}: the rows are only compared with each other, by the default settings; is the name right?"
        ));
    }

    /// Records a row with the id of an earlier row.
    pub(super) fn refuse_id(&mut self, at: LinePlace) -> anyhow::Result<()> {
        self.readable -= 1;
        let detail = "an earlier row has this id; give every row its own";
        self.lines.reject(at, RejectionReason { code: "repeated_id", pointer: "/id", detail, text: None })
    }

    /// Begins the phase after reading, with the number of rows.
    pub(super) fn compares(&self, rows: u64) {
        self.lines.progress.phase(if self.registers { "registering" } else { "checking" }, Some(rows));
    }

    /// Records the finding for a row. `done` is the number of finished rows.
    pub(super) fn note(&mut self, said: &Result<RowFinding, RowRefusal>, done: u64) {
        match said {
            Ok(finding) => self.verdicts.add(&finding.kind),
            Err(_) => self.refused += 1,
        }
        self.lines.progress.at(done);
    }

    pub(super) fn registered(&mut self, outcome: Outcome) {
        self.outcomes.add(&outcome);
    }

    /// Returns the number of refused rows.
    pub(super) fn rejected(&self) -> u64 {
        self.lines.rejects.count + self.refused
    }

    fn rows(&self) -> u64 {
        self.readable + self.lines.rejects.count
    }

    /// Ends the progress of a check that ended early, and tells which rows are registered.
    pub(super) fn cut_short(&self) {
        self.lines.progress.finish();
        let registered = self.outcomes.total();
        if self.registers {
            self.say(&format!(
                "no table is written; {registered} rows are registered, and perhaps some more; run it again: registered rows keep their verdicts"
            ));
        }
    }

    /// Returns the summary for people. A dry run has no `out`.
    pub(super) fn table(&self, out: Option<&Path>) -> String {
        let Self { lines, verdicts, outcomes, .. } = self;
        let done = match out {
            None => format!("to check  {}; nothing was sent\n", self.readable),
            Some(_) if self.registers => format!("stored    {verdicts}\nof these  {outcomes}\n"),
            Some(_) => format!("found     {verdicts}; nothing was stored\n"),
        };
        let written = out.map(|path| format!("written   {}\n", path.display())).unwrap_or_default();
        let rows = self.rows();
        let seconds = lines.seconds();
        let rejected = self.rejected();
        let columns = lines.column_lines();
        let warned = lines.warning_lines();
        let left_out = lines.rejects.left_out_line();
        format!(
            "read      {rows} rows in {seconds:.1} s\n{columns}{done}{warned}{left_out}rejected  {rejected}\n{written}"
        )
    }

    /// Returns the summary for programs.
    pub(super) fn summary<'a>(&'a self, out: Option<&'a Path>) -> CheckSummary<'a> {
        CheckSummary {
            dry_run: out.is_none(),
            registered: self.registers,
            rows: self.rows(),
            seconds: self.lines.seconds(),
            to_check: out.is_none().then_some(self.readable),
            verdicts: &self.verdicts,
            outcomes: self.registers.then_some(&self.outcomes),
            columns: self.lines.uses.as_ref(),
            warned: &self.lines.warned,
            rejected: self.rejected(),
            out,
        }
    }
}

/// The summary for programs.
#[derive(Serialize)]
pub(super) struct CheckSummary<'a> {
    dry_run: bool,
    registered: bool,
    rows: u64,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_check: Option<u64>,
    verdicts: &'a NamedCounts<VerdictKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcomes: Option<&'a NamedCounts<Outcome>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    columns: Option<&'a ColumnUses>,
    warned: &'a WarningCounts,
    rejected: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<&'a Path>,
}
