//! Writes the input as a table, with the duplicate of each record.

use std::path::Path;

use anyhow::Context as _;

use super::DedupArgs;
use crate::import::input::{InputLine, RecordInput};
use crate::output::OutputFile;
use crate::progress::CommandProgress;
use crate::spool::{ResultTable, RowSpool};
use doppel_core::verdict::{Relation, VerdictKind};
use doppel_engine::replay::BatchMatches;
use doppel_findings::output::TableForm;
use doppel_findings::{FindingWords, RowFinding};

/// Marks a record without an earlier duplicate.
const NONE: u32 = u32::MAX;

/// The finding for a record. It has 12 bytes.
#[derive(Clone, Copy)]
struct RecordFinding {
    kind: VerdictKind,
    relation: Option<Relation>,
    /// Position of the earlier record that this record repeats.
    earlier: u32,
    /// NaN if the similarity was not verified.
    similarity: f32,
}

/// All lines of the input, and the findings for the lines that are records.
pub(super) struct GivenBack {
    spool: RowSpool,
    /// For each record: the index of its line in the spool.
    lines: Vec<u32>,
    found: Vec<RecordFinding>,
}

impl GivenBack {
    /// Creates the table for the lines of `input`, whose columns are planned. An eighth of `--memory` is for lines.
    pub(super) fn new(input: &RecordInput, args: &DedupArgs, dir: &Path) -> Self {
        let spool = RowSpool::new(input, (dir, args.memory / 8), FindingWords(args.language));
        Self { spool, lines: Vec::new(), found: Vec::new() }
    }

    /// Stores a line. `refused` is the code of the refusal if the line is no record.
    pub(super) fn keep(&mut self, line: &InputLine, refused: Option<&str>) -> anyhow::Result<()> {
        if refused.is_none() {
            self.lines.push(self.spool.len() as u32);
        }
        self.spool.push(line, refused)
    }

    /// Adds the next record, without a finding.
    pub(super) fn signed(&mut self, too_short: bool) {
        let kind = if too_short { VerdictKind::TooShort } else { VerdictKind::Original };
        self.found.push(RecordFinding { kind, relation: None, earlier: NONE, similarity: f32::NAN });
    }

    /// Records the matches of a record. The finding is the earliest match with the same content, otherwise the earliest match.
    pub(super) fn found(&mut self, position: u32, found: &BatchMatches) {
        let matches = found.matches().iter().enumerate();
        let Some((at, best)) = matches.min_by_key(|(_, found)| (!found.is_exact(), found.seq)) else { return };
        self.found[position as usize] = RecordFinding {
            kind: if best.is_exact() { VerdictKind::ExactDuplicate } else { VerdictKind::NearDuplicate },
            relation: found.relation(at),
            earlier: (best.seq.0 - 1) as u32,
            similarity: best.similarity.map_or(f32::NAN, |share| share as f32),
        };
    }

    /// Checks that all rows fit into a table of the format `form`.
    pub(super) fn fits(&self, form: &TableForm) -> anyhow::Result<()> {
        self.spool.fits(form)
    }

    /// Writes the table. The caller gives the file its name later.
    pub(super) fn write(
        self,
        out: OutputFile,
        form: &TableForm,
        dir: &Path,
        progress: &CommandProgress,
    ) -> anyhow::Result<ResultTable> {
        let mut table = self.spool.begin(out, form, dir)?;
        let mut found = self.found.iter();
        for at in 0..self.spool.len() {
            let entry = self.spool.entry(at)?;
            let said = match &entry.content {
                Err(refusal) => Err(refusal.clone()),
                Ok(_) => Ok(self.finding(found.next().context("a record was not compared")?)?),
            };
            table.put(&entry, &said)?;
            progress.at(at as u64 + 1);
        }
        Ok(table)
    }

    fn finding(&self, found: &RecordFinding) -> anyhow::Result<RowFinding> {
        let RecordFinding { kind, relation, earlier, similarity } = *found;
        let of = match earlier {
            NONE => None,
            position => Some(self.spool.earlier(self.lines[position as usize] as usize)?),
        };
        let similarity = (!similarity.is_nan()).then_some(f64::from(similarity));
        Ok(RowFinding { kind, of, similarity, relation, registered: None })
    }
}
