//! The input as a table, with what each record repeats.

use std::path::Path;

use anyhow::Context as _;

use super::Args;
use crate::cli::import::input::{Input, Line};
use crate::cli::output::Output;
use crate::cli::progress::Progress;
use crate::cli::spool::{Spool, Table};
use crate::findings::output::Form;
use crate::findings::{Finding, Refusal};
use doppel_core::verdict::{Match, Relation, VerdictKind};

/// No earlier record.
const NONE: u32 = u32::MAX;

/// What was found for a record. 12 bytes.
#[derive(Clone, Copy)]
struct Found {
    kind: VerdictKind,
    relation: Option<Relation>,
    /// Position of the record that it repeats.
    earlier: u32,
    /// NaN where it was not verified.
    similarity: f32,
}

/// All lines as they came, and what was found for those that are records.
pub(super) struct GivenBack {
    spool: Spool,
    /// By position of records: which line of the spool.
    lines: Vec<u32>,
    found: Vec<Found>,
}

impl GivenBack {
    /// For the lines of `input`, whose columns are planned; an eighth of the memory given holds lines.
    pub(super) fn new(input: &Input, args: &Args, dir: &Path) -> Self {
        let spool = Spool::new(input, (dir, args.memory / 8), args.language.words());
        Self { spool, lines: Vec::new(), found: Vec::new() }
    }

    /// Keeps a line, and the code of why it is no record if it is none.
    pub(super) fn keep(&mut self, line: &Line, refused: Option<&str>) -> anyhow::Result<()> {
        if refused.is_none() {
            self.lines.push(self.spool.len() as u32);
        }
        self.spool.push(line, refused)
    }

    /// The next record is signed.
    pub(super) fn signed(&mut self, too_short: bool) {
        let kind = if too_short { VerdictKind::TooShort } else { VerdictKind::Original };
        self.found.push(Found { kind, relation: None, earlier: NONE, similarity: f32::NAN });
    }

    /// Notes the matches of a record: of those with the same content the earliest, else the earliest.
    pub(super) fn found(&mut self, position: u32, matches: &[Match]) {
        let Some(best) = matches.iter().min_by_key(|found| (!found.is_exact(), found.seq)) else { return };
        self.found[position as usize] = Found {
            kind: if best.is_exact() { VerdictKind::ExactDuplicate } else { VerdictKind::NearDuplicate },
            relation: best.relation,
            earlier: (best.seq.0 - 1) as u32,
            similarity: best.similarity.map_or(f32::NAN, |share| share as f32),
        };
    }

    /// Whether all rows fit in a table written as `form`.
    pub(super) fn fits(&self, form: &Form) -> anyhow::Result<()> {
        self.spool.fits(form)
    }

    /// Writes the table, which gets its name later.
    pub(super) fn write(self, out: Output, form: &Form, dir: &Path, progress: &Progress) -> anyhow::Result<Table> {
        let mut table = self.spool.begin(out, form, dir)?;
        let mut found = self.found.iter();
        for at in 0..self.spool.len() {
            let entry = self.spool.entry(at)?;
            match &entry.content {
                Err(why) => table.put_refused(&entry, why)?,
                Ok(_) => {
                    let found = found.next().context("a record was not compared")?;
                    table.put(&entry, &Ok::<_, Refusal>(self.finding(found)?))?;
                    progress.at(at as u64 + 1);
                }
            }
        }
        Ok(table)
    }

    fn finding(&self, found: &Found) -> anyhow::Result<Finding> {
        let Found { kind, relation, earlier, similarity } = *found;
        let of = match earlier {
            NONE => None,
            position => Some(self.spool.earlier(self.lines[position as usize] as usize)?),
        };
        let similarity = (!similarity.is_nan()).then_some(f64::from(similarity));
        Ok(Finding { kind, of, similarity, relation, registered: None })
    }
}
