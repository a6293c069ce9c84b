//! The writes of a batch. Each member adds its documents; after all members are judged, each document is written once.

use std::collections::BTreeMap;

use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, doc};

use super::{BatchRound, TxnResult};
use crate::commit::plan::StoredVersion;
use crate::commit::preceding::PrecedingMembers;
use crate::documents::{
    CHANGES, PageKey, RECORDS, SIGNATURES, encode_change, record_content, record_key, signature_key, verdict_content,
};
use crate::postings::{ListKey, list_keys};
use crate::read::{CollectionPointer, GenerationKey};
use crate::write::IndexWrites;
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::Signed;
use doppel_store::changes::{LoggedChange, LoggedKind};
use doppel_store::rules::conclude::RegistrationConclusion;
use doppel_store::{GenerationId, RegisterOutcome, Registration, Result as StoreResult, Seq, StoredRecord};

/// The documents to be written.
#[derive(Default)]
pub(super) struct BatchWrites {
    new_records: Vec<Document>,
    changed_records: Vec<Document>,
    removed_records: Vec<Document>,
    layout: IndexWrites,
    removed_signatures: Vec<Bson>,
    /// Keys of the lists that lose a record.
    pub(super) taken_from: Vec<ListKey>,
    /// Pages that lose entries of a record.
    taken_entries: Vec<(PageKey, RecordId)>,
    removed: Vec<RecordId>,
    logged: Vec<LoggedChange>,
}

/// A record that must also be added to standby generations.
pub(super) struct StandbyFiling<'a> {
    pub(super) registration: &'a Registration,
    pub(super) seq: Seq,
    pub(super) generations: Vec<GenerationId>,
}

/// A record to be stored.
pub(super) struct PutRecord<'a> {
    pub(super) registration: &'a Registration,
    pub(super) old: Option<StoredVersion>,
    pub(super) seq: Seq,
}

impl PutRecord<'_> {
    /// Adds the documents of the record to `writes` and returns the outcome.
    pub(super) fn put(
        self,
        conclusion: RegistrationConclusion,
        place: GenerationKey,
        near: usize,
        earlier: &mut PrecedingMembers,
        writes: &mut BatchWrites,
    ) -> TxnResult<RegisterOutcome> {
        let Self { registration, old, seq } = self;
        let (verdict, duplicate_of_seq, pairs) = match conclusion {
            RegistrationConclusion::Skip(verdict) => return Ok(RegisterOutcome::Skipped(verdict)),
            RegistrationConclusion::Store { verdict, duplicate_of_seq, earlier } => {
                (verdict, duplicate_of_seq, earlier)
            }
        };
        let Registration { id, signed, content, now, .. } = registration;
        let mut document = doc! { "_id": record_key(place.number, id) };
        document.extend(record_content(place.generation, signed, content, now)?);
        document.extend(verdict_content(seq, &verdict, duplicate_of_seq)?);
        if let Some(old) = &old {
            earlier.remove(id.as_str(), near);
            writes.take_away(place, id, old);
            writes.log(seq, id, LoggedKind::Replaced);
            let key = doc! { "_id": record_key(place.number, id) };
            writes.changed_records.push(doc! { "q": key, "u": document });
        } else {
            writes.new_records.push(document);
        }
        writes.layout.file(id, seq, signed, place.generation, pairs, &mut earlier.highest);
        let record = registration.record(seq, verdict, duplicate_of_seq);
        earlier.put(registration, record.clone());
        Ok(if old.is_some() { RegisterOutcome::Replaced(record) } else { RegisterOutcome::Created(record) })
    }
}

/// Adds the new content of a record whose text is unchanged to `writes`. Returns the record with this content.
pub(super) fn update(
    place: GenerationKey,
    registration: &Registration,
    old: StoredVersion,
    earlier: &mut PrecedingMembers,
    writes: &mut BatchWrites,
) -> TxnResult<StoredRecord> {
    let Registration { id, content, signed, now, .. } = registration;
    let content = record_content(place.generation, signed, content, now)?;
    let mut change = doc! { "$set": content };
    if signed.fingerprint().is_none() {
        change.insert("$unset", doc! { "fingerprint": "" });
    }
    writes.changed_records.push(doc! { "q": { "_id": record_key(place.number, id) }, "u": change });
    let record = registration.updated(old.record.record);
    let filed = old.signatures.iter().find(|filed| filed.generation == place.generation);
    earlier.update(record.clone(), filed);
    Ok(record)
}

impl BatchWrites {
    /// Removes the signatures and entries of a record in every generation.
    fn take_away(&mut self, place: GenerationKey, id: &RecordId, old: &StoredVersion) {
        for filed in &old.signatures {
            if filed.generation == place.generation {
                self.taken_from.extend(list_keys(&filed.digest, &filed.keys));
            }
            self.removed_signatures.push(signature_key(place.number, filed.generation, id).into());
            self.taken_entries.extend(filed.places().into_iter().map(|page| (page, id.clone())));
        }
    }

    /// Logs a change that cannot be seen from the records.
    pub(super) fn log(&mut self, number: Seq, id: &RecordId, kind: LoggedKind) {
        self.logged.push(LoggedChange { number, id: id.clone(), kind });
    }

    pub(super) fn remove(&mut self, place: GenerationKey, id: &RecordId, old: &StoredVersion) {
        self.take_away(place, id, old);
        self.removed_records.push(record_key(place.number, id));
        self.removed.push(id.clone());
    }
}

impl BatchRound<'_> {
    /// Adds the records to standby generations. One round trip for each generation.
    pub(super) async fn file_standby(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        all: Vec<StandbyFiling<'_>>,
        writes: &mut BatchWrites,
    ) -> TxnResult<()> {
        let mut by_generation: BTreeMap<GenerationId, Vec<(&RecordId, Seq, &Signed)>> = BTreeMap::new();
        for StandbyFiling { registration, seq, generations } in &all {
            for (generation, signed) in registration.generations().filter(|(id, _)| generations.contains(id)) {
                by_generation.entry(generation).or_default().push((&registration.id, *seq, signed));
            }
        }
        for (generation, filings) in by_generation {
            let fingerprints = filings.iter().filter_map(|(_, _, signed)| signed.fingerprint());
            let mut highest =
                self.shared.highest_pages(session, GenerationKey { generation, ..place }, fingerprints).await?;
            for (id, seq, signed) in filings {
                writes.layout.file(id, seq, signed, generation, Vec::new(), &mut highest);
            }
        }
        Ok(())
    }

    /// Writes every document once. At most one round trip for each collection and kind of change.
    pub(super) async fn write(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        pointer: &CollectionPointer,
        writes: BatchWrites,
    ) -> TxnResult<()> {
        let shared = self.shared;
        let BatchWrites { new_records, changed_records, removed_records, .. } = &writes;
        if !new_records.is_empty() {
            shared.insert(session, RECORDS, new_records).await?;
        }
        shared.update(session, RECORDS, changed_records.clone()).await?;
        shared.delete(session, RECORDS, removed_records.iter().cloned().map(Bson::from).collect()).await?;
        shared.delete(session, SIGNATURES, writes.removed_signatures).await?;
        let signatures: Vec<Document> =
            writes.layout.signatures.iter().map(|signature| signature.encode(place.number)).collect();
        if !signatures.is_empty() {
            shared.insert(session, SIGNATURES, &signatures).await?;
        }
        // Old entries are removed before new ones are added, because an entry may return to its page.
        shared.take_entries(session, place.number, &writes.taken_entries).await?;
        shared.push_entries(session, place.number, &writes.layout).await?;
        shared.remove_empty_pages(session, place.number, &writes.taken_entries).await?;
        let logged = writes.logged.iter().map(|change| encode_change(place.number, change));
        let logged = logged.collect::<StoreResult<Vec<_>>>()?;
        if !logged.is_empty() {
            shared.insert(session, CHANGES, &logged).await?;
        }
        if !writes.removed.is_empty() && pointer.decided > Seq(0) {
            shared.forget_decisions(session, self.name, place.number, &writes.removed, pointer.commits).await?;
        }
        Ok(())
    }
}
