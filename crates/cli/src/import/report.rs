//! The output of an import for people: progress and the summary.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::deliver::LineResponses;
use super::input::{LineBatch, RecordInput};
use crate::columns::ColumnUses;
use crate::line_report::{LineReport, NamedCounts, RejectionReason, RejectsFile};
use crate::warnings::{RecordWarning, WarningCounts};
use doppel_core::verdict::VerdictKind;
use doppel_engine::answers::Outcome;

/// Counts, prints and writes the events of an import.
pub(super) struct ImportReport {
    pub(super) lines: LineReport,
    /// The last finished line of each file.
    done: Vec<u64>,
    /// Number of lines that were finished.
    count: u64,
    /// Number of lines that a dry run would send.
    pub(super) to_send: u64,
    verdicts: NamedCounts<VerdictKind>,
    outcomes: NamedCounts<Outcome>,
}

impl ImportReport {
    pub(super) fn new(input: &RecordInput, rejects: RejectsFile) -> Self {
        let lines = LineReport::of_input(input, rejects, "");
        let mut done = vec![0; lines.names.len()];
        if let Some(first) = done.first_mut() {
            *first = input.skip_lines;
        }
        let verdicts = NamedCounts::of_verdicts();
        Self { lines, done, count: 0, to_send: 0, verdicts, outcomes: NamedCounts::of_outcomes() }
    }

    /// Records that the lines of `batch` were checked without sending them.
    pub(super) fn checked(&mut self, batch: &LineBatch) {
        self.count += batch.lines.len() as u64;
        batch.lines.iter().for_each(|line| self.done[line.file] = line.number);
        self.show(batch.read_bytes);
    }

    /// Records the lines of `batch` up to the first line without an answer.
    pub(super) fn note(&mut self, batch: &LineBatch, answers: &LineResponses) -> anyhow::Result<()> {
        for (line, answer) in batch.lines.iter().zip(answers) {
            match (&line.content, answer) {
                (Ok(_), None) => break,
                (Err(why), _) => self.lines.reject(line.place(), why.into())?,
                (Ok(json), Some(answer)) => match (answer.outcome, answer.verdict) {
                    (Some(outcome), Some(verdict)) => {
                        self.verdicts.add(&verdict);
                        self.outcomes.add(&outcome);
                        self.lines.warn(line.place(), answer.warnings.iter().map(RecordWarning::from));
                    }
                    _ => {
                        let refusal = &answer.refusal;
                        let pointer = refusal.errors.first().map_or("", |at| at.pointer.as_str());
                        let why =
                            RejectionReason { code: &refusal.code, pointer, detail: &refusal.detail, text: Some(json) };
                        self.lines.reject(line.place(), why)?;
                    }
                },
            }
            self.count += 1;
            self.done[line.file] = line.number;
        }
        self.lines.rejects.flush()?;
        self.show(batch.read_bytes);
        Ok(())
    }

    fn show(&self, read_bytes: u64) {
        let rejected = self.lines.rejects.count;
        let text = format!("{} lines, {:.0} records/s, {rejected} rejected", self.count, self.rate());
        self.lines.progress.told(read_bytes, text);
    }

    fn rate(&self) -> f64 {
        self.verdicts.total() as f64 / self.lines.seconds().max(0.001)
    }

    /// Prints a message on standard error without disturbing the progress bar.
    pub(super) fn say(&self, text: &str) {
        self.lines.say(text);
    }

    /// True if a line was finished.
    pub(super) fn any_done(&self) -> bool {
        self.count > 0
    }

    /// Completes the rejects file. If the import ended early, keeps the lines so far and prints their path.
    pub(super) fn close_rejects(&mut self, done: bool) -> anyhow::Result<()> {
        if done {
            return self.lines.rejects.finish();
        }
        if let Some(path) = self.lines.rejects.cut_short()?.map(Path::to_owned) {
            let path = path.display();
            self.say(&format!(
                "the lines rejected so far are in {path}; the earlier file stays; to continue, give --rejects {path}"
            ));
        }
        Ok(())
    }

    /// Returns the summary for people. `dry` is true for a dry run.
    pub(super) fn sum(&self, dry: bool) -> String {
        let done = match dry {
            true => format!("to send   {}; nothing was sent\n", self.to_send),
            false => format!("stored    {}\nof these  {}\n", self.verdicts, self.outcomes),
        };
        let rate = if dry { String::new() } else { format!(", {:.0} records/s", self.rate()) };
        let LineReport { rejects, .. } = &self.lines;
        format!(
            "read      {} lines in {:.1} s{rate}\n{}{done}{}{}rejected  {}{}\n",
            self.count,
            self.lines.seconds(),
            self.lines.column_lines(),
            self.lines.warning_lines(),
            rejects.left_out_line(),
            rejects.count,
            rejects.listed()
        )
    }

    /// Returns the number of records that replaced an earlier record with the same id.
    pub(super) fn replaced(&self) -> u64 {
        self.outcomes.of(&Outcome::Replaced)
    }

    /// Returns the summary for programs.
    pub(super) fn summary(&self, dry: bool) -> ImportSummary<'_> {
        let LineReport { rejects, .. } = &self.lines;
        ImportSummary {
            dry_run: dry,
            lines: self.count,
            seconds: self.lines.seconds(),
            to_send: dry.then_some(self.to_send),
            verdicts: &self.verdicts,
            outcomes: &self.outcomes,
            columns: self.lines.uses.as_ref(),
            warned: &self.lines.warned,
            left_out: &rejects.left_out,
            rejected: rejects.count,
            rejects: rejects.at.as_deref().filter(|_| rejects.count > 0),
        }
    }

    /// Returns the progress of each file and the options for resuming an import that ended early.
    pub(super) fn resume(&self) -> String {
        let last = self.done.iter().rposition(|line| *line > 0);
        let mut text = String::new();
        for (index, (name, line)) in self.lines.names.iter().zip(&self.done).enumerate() {
            let whole = last.is_some_and(|last| index < last);
            let line = if whole { "all".to_owned() } else { line.to_string() };
            text += &format!("{name}: {line} lines done\n");
        }
        match last {
            None => text + "nothing is done; run the same command again",
            Some(last) => {
                let rest = self.lines.names[last..].join(" ");
                text + &format!("to continue, run it again with: --skip-lines {} {rest}", self.done[last])
            }
        }
    }
}

/// The summary for programs.
#[derive(Serialize)]
pub(super) struct ImportSummary<'a> {
    dry_run: bool,
    lines: u64,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_send: Option<u64>,
    verdicts: &'a NamedCounts<VerdictKind>,
    outcomes: &'a NamedCounts<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    columns: Option<&'a ColumnUses>,
    warned: &'a WarningCounts,
    left_out: &'a BTreeMap<String, u64>,
    rejected: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    rejects: Option<&'a Path>,
}
