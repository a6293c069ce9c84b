//! An exported collection in memory, for measurements.

use std::path::Path;

use anyhow::{anyhow, bail};

use super::restore::Input;
use super::{End, Line};
use doppel_core::collection::Settings;
use doppel_core::record::Row;
use doppel_lab::eval::dataset::Dataset;
use doppel_lab::eval::decided::Decided;
use doppel_store::decisions::Judgement;

/// The content of a file of `doppel export`.
pub(in crate::cli) struct Whole {
    /// The settings of the collection.
    pub(in crate::cli) settings: Settings,
    /// The records in their order.
    pub(in crate::cli) set: Dataset,
    /// The decisions about pairs of records that hold.
    pub(in crate::cli) decided: Vec<Decided>,
}

/// Reads a file of `doppel export`.
///
/// # Errors
/// The file is no export or is incomplete.
pub(in crate::cli) fn whole(file: &Path) -> anyhow::Result<Whole> {
    let name = file.display().to_string();
    let mut input = Input::open(&name)?;
    let settings = input.header()?.settings;
    let mut set = Dataset::default();
    let mut decided = Vec::new();
    let mut read = End::default();
    loop {
        match input.next()? {
            Some(Line::Decision(line)) => {
                read.decisions += 1;
                let same = match line.rulings.last().map(|ruling| ruling.judgement) {
                    Some(Judgement::Same) => true,
                    Some(Judgement::NotSame) => false,
                    Some(Judgement::Withdrawn) | None => continue,
                };
                decided.push(Decided { a: line.a, b: line.b, same });
            }
            Some(Line::Record(line)) => {
                read.records += 1;
                let row = Row::parse(line.row.get().as_bytes()).map_err(|error| error.to_string());
                let added = row.and_then(|row| set.add_as(line.id, row));
                added.map_err(|error| anyhow!("{name}, record {}: {error}", read.records))?;
            }
            Some(Line::End(end)) if end == read => return Ok(Whole { settings, set, decided }),
            Some(Line::DoppelExport(_)) => bail!("{name}: a second header"),
            Some(Line::End(_)) | None => bail!("{name} ends early: export it again"),
        }
    }
}
