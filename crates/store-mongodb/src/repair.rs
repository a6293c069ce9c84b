//! Repairs the records that the doctor reported: deletes the entries and the signature of a record and, if the record exists,
//! stores them again. Seq and verdict do not change.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::doc;

use super::SharedStore;
use super::doctor::{ExaminedGeneration, is_of};
use super::documents::{
    self, CHANGES, PageKey, RECORDS, REFILED, RecordDocument, SIGNATURES, SignatureDocument, encode_change, record_key,
    signature_key,
};
use super::read::GenerationKey;
use super::retry::{TransactionEnd, TransactionWork, TxnError};
use super::write::IndexWrites;
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::{Profile, Signed};
use doppel_core::schemes::statistics::Statistics;
use doppel_store::changes::{LoggedChange, LoggedKind};
use doppel_store::{Result, Seq, StoreError};

impl SharedStore {
    /// Returns the profile of a generation with its stored statistics, because the choice of posting keys may depend on them.
    pub(super) async fn profile(&self, place: GenerationKey, settings: &Settings) -> Result<Profile> {
        let statistics = self.statistics(place.number, place.generation).await?;
        let statistics = statistics.map(|bytes| {
            Statistics::decode(&bytes)
                .map(Arc::new)
                .ok_or_else(|| documents::damaged("the statistics of a generation cannot be read"))
        });
        Ok(Profile::compile(settings, statistics.transpose()?))
    }

    /// Stores the signature and entries of a record again in one generation. `pages` are the pages with wrong entries of the
    /// record.
    pub(super) async fn mend(
        &self,
        name: &CollectionName,
        examined: &ExaminedGeneration<'_>,
        id: &RecordId,
        pages: BTreeSet<PageKey>,
    ) -> Result<()> {
        let profile = self.profile(examined.place, examined.settings).await?;
        let mut work = RepairTransaction { shared: self, name, examined, id, pages, profile };
        self.transact_queued(examined.place.number, &mut work).await
    }
}

struct RepairTransaction<'a> {
    shared: &'a SharedStore,
    name: &'a CollectionName,
    examined: &'a ExaminedGeneration<'a>,
    id: &'a RecordId,
    pages: BTreeSet<PageKey>,
    profile: Profile,
}

impl RepairTransaction<'_> {
    /// Returns the stored signatures if they belong to this version of the record; otherwise computes them from its text.
    fn sign(&self, record: &RecordDocument, signature: Option<&SignatureDocument>) -> Result<Signed> {
        let profile = &self.profile;
        if let Some(stored) = signature.filter(|signature| is_of(signature, record))
            && let Some(mut signed) = stored.signed.clone()
        {
            signed.keys = match self.examined.checks_keys() {
                true => profile.keys(&signed.signatures),
                false => stored.keys.clone(),
            };
            return Ok(signed);
        }
        let row =
            record.record.content.read().ok_or_else(|| {
                StoreError::Internal(format!("record {} cannot be signed again; put it again", self.id))
            })?;
        Ok(profile.sign_stored(self.id, &row).1)
    }
}

impl RepairTransaction<'_> {
    /// Logs that the lists of the record changed, because instances cache lists.
    async fn log(
        &self,
        session: &mut ClientSession,
        number: Seq,
        kind: LoggedKind,
    ) -> std::result::Result<(), TxnError> {
        let change = LoggedChange { number, id: self.id.clone(), kind };
        let mut change = encode_change(self.examined.place.number, &change)?;
        change.insert(REFILED, true);
        self.shared.insert(session, CHANGES, &[change]).await
    }
}

#[async_trait]
impl TransactionWork for RepairTransaction<'_> {
    type Answer = ();

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<TransactionEnd<()>, TxnError> {
        let shared = self.shared;
        let place = self.examined.place;
        let id = self.id;
        let last = shared.latch(session, self.name, place.number).await?.commits;
        let (record, signature) = shared.both(session, place, id).await?;
        // A record that the reindex has not added yet is not repaired.
        let record = record.filter(|_| signature.is_some() || !self.examined.is_building);
        let signed = record.as_ref().map(|record| self.sign(record, signature.as_ref())).transpose()?;
        let mut from = self.pages.clone();
        from.extend(signature.iter().flat_map(SignatureDocument::places));
        let from: Vec<_> = from.into_iter().map(|page| (page, id.clone())).collect();
        shared.take_entries(session, place.number, &from).await?;
        let (Some(record), Some(signed)) = (record, signed) else {
            shared.remove_empty_pages(session, place.number, &from).await?;
            let key = doc! { "_id": signature_key(place.number, place.generation, id) };
            shared.documents(SIGNATURES).delete_one(key).session(&mut *session).await?;
            // In a generation that is being built, a missing signature does not mean that the record was removed.
            if !self.examined.is_building {
                self.log(session, last, LoggedKind::Removed).await?;
            }
            return Ok(TransactionEnd::Commit(()));
        };
        let seq = record.record.seq;
        let mut highest = shared.highest_pages(session, place, signed.fingerprint().into_iter()).await?;
        let pairs = signature.filter(|old| old.seq == seq).map(|old| old.pairs).unwrap_or_default();
        let mut layout = IndexWrites::default();
        layout.file(id, seq, &signed, place.generation, pairs, &mut highest);
        shared.push_entries(session, place.number, &layout).await?;
        shared.remove_empty_pages(session, place.number, &from).await?;
        shared.put_signatures(session, place.number, &layout.signatures, true).await?;
        if record.record.digest_generation == place.generation {
            let digest = doc! { "$set": { "digest": documents::digest_value(&signed.digest) } };
            let key = doc! { "_id": record_key(place.number, id) };
            shared.documents(RECORDS).update_one(key, digest).session(&mut *session).await?;
        }
        self.log(session, last, LoggedKind::Updated { seq }).await?;
        Ok(TransactionEnd::Commit(()))
    }
}
