//! Examines ids and pairs in a directory, and reports damages that could not be read.

use super::collection::Collection;
use super::keys;
use super::keyspaces::Space;
use super::layout;
use super::scan::{DamageKind, Damages};
use super::shared_state::SharedState;
use super::store::EmbeddedStore;
use doppel_store::{CollectionNumber, ExaminationReport, Result, Seq, Store as _, StoreError};

const NAMELESS: &str = "its name and settings cannot be read: damaged on disk; it gets a name from its number and the settings of a new \
                        collection";
const UNCOUNTED: &str =
    "its number of records cannot be read: damaged on disk; the records that can be read are counted";

struct ExaminedCollection<'a> {
    shared: &'a SharedState,
    collection: &'a Collection,
    name: String,
    report: &'a mut ExaminationReport,
}

impl EmbeddedStore {
    /// Adds the faults of ids and pairs to `report`, and all damages that were skipped since the store was opened. It reads the records
    /// once. It needs a store that was opened with [`super::EmbeddedOptions::damages`].
    ///
    /// # Errors
    /// If the directory cannot be read at all.
    pub async fn examine_rest(&self, report: &mut ExaminationReport) -> Result<()> {
        let shared = self.shared()?;
        for state in self.collections().await? {
            let collection = shared.collection(&state.name)?;
            let name = state.name.to_string();
            let mut examined = ExaminedCollection { shared: &shared, collection: &collection, name, report };
            examined.ids()?;
            examined.pairs()?;
        }
        self.report_damages(report)
    }

    /// Adds all damages that were skipped since the store was opened to `report`.
    ///
    /// # Errors
    /// If the store is closed.
    pub fn report_damages(&self, report: &mut ExaminationReport) -> Result<()> {
        let shared = self.shared()?;
        let names: Vec<(CollectionNumber, String)> = {
            let collections = shared.collections.read();
            collections.iter().map(|(name, collection)| (collection.number, name.to_string())).collect()
        };
        for damage in shared.disk.damages().map(Damages::all).unwrap_or_default() {
            let name = names.iter().find(|(number, _)| *number == damage.number).map(|(_, name)| name.clone());
            let record = damage.seq.map_or_else(|| "*".to_owned(), |seq| format!("seq {seq}"));
            let fault = fault(damage.what);
            report.faults.push((name.unwrap_or_else(|| "*".to_owned()), record, fault));
        }
        Ok(())
    }
}

fn fault(what: DamageKind) -> String {
    match what {
        DamageKind::In(space) => format!("{} cannot be read: damaged on disk", content(space)),
        DamageKind::Name => NAMELESS.into(),
        DamageKind::Count => UNCOUNTED.into(),
    }
}

fn content(space: Space) -> &'static str {
    match space {
        Space::Meta => "some of the settings",
        Space::Records => "the record",
        Space::Ids => "some of the ids",
        Space::Signatures => "the index entry",
        Space::Decisions => "some of the decisions",
        Space::Tasks => "some of the tasks",
        Space::Pairs => "the list of pairs",
    }
}

impl ExaminedCollection<'_> {
    fn fault(&mut self, at: String, fault: &str) {
        self.report.faults.push((self.name.clone(), at, fault.to_owned()));
    }

    /// Checks that every record is found by its id, and that every id leads to its record.
    fn ids(&mut self) -> Result<()> {
        let disk = &self.shared.disk;
        let number = self.collection.number;
        let view = disk.view();
        let mut own = 0;
        for entry in disk.range(
            &view,
            Space::Records,
            &layout::record_key(number, Seq(0)),
            &layout::record_key(number, Seq::MAX),
        ) {
            let (key, value) = entry?;
            let seq = layout::seq_of_key(&key)?;
            let Ok(record) = layout::decode_record(seq, &value, false) else { continue };
            match disk.seq_of(&view, number, &record.id) {
                Ok(Some(found)) if found == seq => own += 1,
                Ok(_) => self.fault(record.id.to_string(), "the id does not lead to the record"),
                Err(_) => self.fault(record.id.to_string(), "the entry of the id cannot be read: damaged on disk"),
            }
        }
        let mut all = 0;
        for entry in disk.prefix(&view, Space::Ids, &number.0.to_be_bytes()) {
            match entry.and_then(|(_, value)| layout::decode_seq(&value)) {
                Ok(_) => all += 1,
                Err(_) => self.fault("*".to_owned(), "an entry of an id cannot be read: damaged on disk"),
            }
        }
        if all > own {
            self.fault("*".to_owned(), &format!("{} ids do not lead to their record", all - own));
        }
        Ok(())
    }

    /// Checks that the lists of pairs contain only earlier records.
    fn pairs(&mut self) -> Result<()> {
        let disk = &self.shared.disk;
        let number = self.collection.number;
        let view = disk.view();
        let generations = self.collection.sequencer.lock().generations();
        for generation in generations {
            let from = layout::signature_key(number, generation, Seq(0));
            let to = layout::signature_key(number, generation, Seq::MAX);
            for entry in disk.range(&view, Space::Pairs, &from, &to) {
                let (at, value) = entry?;
                let seq = layout::seq_of_key(&at)?;
                let fault = match keys::decode_pairs(&value) {
                    Ok(earlier) if earlier.iter().all(|other| *other > Seq(0) && *other < seq) => continue,
                    Ok(_) => "the list of pairs contains later records",
                    Err(StoreError::Internal(_)) => "the list of pairs cannot be read",
                    Err(error) => return Err(error),
                };
                self.fault(format!("seq {seq}"), &format!("{fault} in generation {generation}"));
            }
        }
        Ok(())
    }
}
