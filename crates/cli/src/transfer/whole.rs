//! An exported collection in memory, for measurements.

use std::path::Path;

use anyhow::{anyhow, bail};

use super::restore::{ExportReader, header_of};
use super::{ExportEnd, ExportLine};
use doppel_core::collection::Settings;
use doppel_core::record::Row;
use doppel_eval::dataset::LabelledSet;
use doppel_eval::decided::PairDecision;
use doppel_store::decisions::Judgement;

/// The content of a file of `doppel export`.
pub(crate) struct ExportedCollection {
    pub(crate) settings: Settings,
    /// The records in their order.
    pub(crate) set: LabelledSet,
    /// The decisions about pairs of records that hold.
    pub(crate) decided: Vec<PairDecision>,
}

/// Reads a file of `doppel export`.
///
/// # Errors
/// The file is no export or is incomplete.
pub(crate) fn whole(file: &Path) -> anyhow::Result<ExportedCollection> {
    let name = file.display().to_string();
    let mut input = ExportReader::open(&name)?;
    let settings = header_of(input.next()?, &name)?.settings;
    let mut set = LabelledSet::default();
    let mut decided = Vec::new();
    let mut read = ExportEnd::default();
    loop {
        match input.next()? {
            Some(ExportLine::Decision(line)) => {
                read.decisions += 1;
                let same = match line.rulings.last().map(|ruling| ruling.judgement) {
                    Some(Judgement::Same) => true,
                    Some(Judgement::SameEvent | Judgement::NotSame) => false,
                    Some(Judgement::Withdrawn) | None => continue,
                };
                decided.push(PairDecision { a: line.a, b: line.b, same });
            }
            Some(ExportLine::Handling(_)) => read.handlings += 1,
            Some(ExportLine::Record(line)) => {
                read.records += 1;
                let row = Row::parse(line.row.get().as_bytes()).map_err(|error| error.to_string());
                let added = row.and_then(|row| set.add_as(line.id, row));
                added.map_err(|error| anyhow!("{name}, record {}: {error}", read.records))?;
            }
            Some(ExportLine::End(end)) if end == read => return Ok(ExportedCollection { settings, set, decided }),
            Some(ExportLine::DoppelExport(_)) => bail!("{name}: a second header"),
            Some(ExportLine::End(_)) | None => bail!("{name} ends early: export it again"),
        }
    }
}
