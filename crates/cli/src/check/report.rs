//! The output of a check for people: progress, refused rows, and the summary.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use crate::columns::{ColumnNames, ColumnUses};
use crate::import::lines::LineRefusal;
use crate::import::report::{
    OUTCOMES, RejectionReason, RejectsFile, VERDICTS, all, counted, outcome_name, verdict_name,
};
use crate::output::CommandOutputs;
use crate::progress::CommandProgress;
use crate::warnings::{RecordWarning, WarningCounts};
use doppel_core::collection::Field;
use doppel_core::violation::Violation;
use doppel_engine::answers::Outcome;
use doppel_findings::{RowFinding, RowRefusal};

/// Counts and shows the events of a check.
pub(super) struct CheckReport {
    names: Vec<String>,
    registers: bool,
    began: Instant,
    columns: ColumnNames,
    uses: Option<ColumnUses>,
    /// Number of rows that were read and can be compared.
    readable: u64,
    /// Number of rows that could be read and are refused by the collection.
    refused: u64,
    verdicts: BTreeMap<&'static str, u64>,
    outcomes: BTreeMap<&'static str, u64>,
    warned: WarningCounts,
    rejects: RejectsFile,
    progress: Arc<CommandProgress>,
}

impl CheckReport {
    pub(super) fn new(
        names: Vec<String>,
        outputs: &CommandOutputs,
        registers: bool,
        total_bytes: Option<u64>,
    ) -> anyhow::Result<Self> {
        let progress = if total_bytes.is_some() { CommandProgress::new() } else { CommandProgress::of_bytes() };
        progress.phase("reading", total_bytes);
        Ok(Self {
            names,
            registers,
            began: Instant::now(),
            columns: ColumnNames::default(),
            uses: None,
            readable: 0,
            refused: 0,
            verdicts: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            warned: WarningCounts::default(),
            rejects: RejectsFile::open(outputs, None, false, false)?,
            progress: Arc::new(progress),
        })
    }

    pub(super) fn progress(&self) -> Arc<CommandProgress> {
        Arc::clone(&self.progress)
    }

    pub(super) fn say(&self, text: &str) {
        self.progress.say(text);
    }

    /// Records new columns, and warns of columns that are not used.
    pub(super) fn columns(&mut self, new: &[String], fields: &[Field]) {
        self.columns.note(new.iter().map(String::as_str));
        let uses = self.columns.uses(fields);
        if let Some(warning) = uses.warning(new) {
            self.say(&warning);
        }
        self.uses = Some(uses);
    }

    /// Records the number of bytes read.
    pub(super) fn read(&self, bytes: u64) {
        self.progress.at(bytes);
    }

    /// Records a row that can be compared, with warnings about values that cannot be read.
    pub(super) fn would_take(&mut self, at: (usize, u64), warnings: &[Violation]) {
        let (file, line) = at;
        self.readable += 1;
        let progress = &self.progress;
        let warnings = warnings.iter().map(RecordWarning::from);
        self.warned.note((&self.names[file], line), warnings, |text| progress.say(text));
    }

    /// Records a row that cannot be compared.
    pub(super) fn refuse(&mut self, at: (usize, u64), refusal: &LineRefusal) -> anyhow::Result<()> {
        let LineRefusal { code, pointer, detail, text: _ } = refusal;
        self.note_refused(at, RejectionReason { code, pointer, detail, text: None })
    }

    /// Records a row with the id of an earlier row.
    pub(super) fn refuse_id(&mut self, at: (usize, u64)) -> anyhow::Result<()> {
        self.readable -= 1;
        let detail = "an earlier row has this id; give every row its own";
        self.note_refused(at, RejectionReason { code: "repeated_id", pointer: "/id", detail, text: None })
    }

    fn note_refused(&mut self, at: (usize, u64), why: RejectionReason<'_>) -> anyhow::Result<()> {
        let (file, line) = at;
        let progress = &self.progress;
        self.rejects.note((&self.names[file], line), why, |text| progress.say(text))
    }

    /// Begins the phase after reading, with the number of rows.
    pub(super) fn compares(&self, rows: u64) {
        self.progress.phase(if self.registers { "registering" } else { "checking" }, Some(rows));
    }

    /// Records the finding for a row. `done` is the number of finished rows.
    pub(super) fn note(&mut self, said: &Result<RowFinding, RowRefusal>, done: u64) {
        match said {
            Ok(finding) => *self.verdicts.entry(verdict_name(finding.kind)).or_default() += 1,
            Err(_) => self.refused += 1,
        }
        self.progress.at(done);
    }

    pub(super) fn registered(&mut self, outcome: Outcome) {
        *self.outcomes.entry(outcome_name(outcome)).or_default() += 1;
    }

    fn rejected(&self) -> u64 {
        self.rejects.count + self.refused
    }

    /// True if a row was refused.
    pub(super) fn any_refused(&self) -> bool {
        self.rejected() > 0
    }

    fn rows(&self) -> u64 {
        self.readable + self.rejects.count
    }

    /// Ends the progress of a check that ended early, and tells which rows are registered.
    pub(super) fn cut_short(&self) {
        self.progress.finish();
        let registered: u64 = self.outcomes.values().sum();
        if self.registers {
            self.say(&format!(
                "no table is written; {registered} rows are registered, and perhaps some more; run it again: registered rows keep their verdicts"
            ));
        }
    }

    /// Returns the summary for people. A dry run has no `out`.
    pub(super) fn table(&self, out: Option<&Path>) -> String {
        self.progress.finish();
        let (used, unused) = self.uses.as_ref().map(ColumnUses::lines).unzip();
        let used = used.map(|used| format!("columns   {used}\n")).unwrap_or_default();
        let unused = unused.flatten().map(|unused| format!("not used  {unused}\n")).unwrap_or_default();
        let verdicts = counted(&VERDICTS.map(verdict_name), &self.verdicts);
        let done = match out {
            None => format!("to check  {}; nothing was asked\n", self.readable),
            Some(_) if self.registers => {
                let outcomes = counted(&OUTCOMES.map(outcome_name), &self.outcomes);
                format!("stored    {verdicts}\nof these  {outcomes}\n")
            }
            Some(_) => format!("found     {verdicts}; nothing was stored\n"),
        };
        let written = out.map(|path| format!("written   {}\n", path.display())).unwrap_or_default();
        let rows = self.rows();
        let seconds = self.began.elapsed().as_secs_f64();
        let rejected = self.rejected();
        let warned: String = self.warned.lines().map(|line| format!("warned    {line}\n")).collect();
        let left_out = self.rejects.left_out_line();
        format!(
            "read      {rows} rows in {seconds:.1} s\n{used}{unused}{done}{warned}{left_out}rejected  {rejected}\n{written}"
        )
    }

    /// Returns the summary as a JSON object.
    pub(super) fn json(&self, out: Option<&Path>) -> anyhow::Result<String> {
        self.progress.finish();
        let summary = CheckSummary {
            dry_run: out.is_none(),
            registered: self.registers,
            rows: self.rows(),
            seconds: self.began.elapsed().as_secs_f64(),
            to_check: out.is_none().then_some(self.readable),
            verdicts: all(&VERDICTS.map(verdict_name), &self.verdicts),
            outcomes: self.registers.then(|| all(&OUTCOMES.map(outcome_name), &self.outcomes)),
            columns: self.uses.as_ref(),
            warned: &self.warned,
            rejected: self.rejected(),
            out,
        };
        Ok(serde_json::to_string_pretty(&summary)? + "\n")
    }
}

/// The summary for programs.
#[derive(Serialize)]
struct CheckSummary<'a> {
    dry_run: bool,
    registered: bool,
    rows: u64,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_check: Option<u64>,
    verdicts: BTreeMap<&'static str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcomes: Option<BTreeMap<&'static str, u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    columns: Option<&'a ColumnUses>,
    warned: &'a WarningCounts,
    rejected: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<&'a Path>,
}
