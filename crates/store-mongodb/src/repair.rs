//! Mending what the doctor found: a record's entries and signature are taken away and, if the record is there, made anew. Seq
//! and verdict stay.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::doc;

use super::Shared;
use super::doctor::{Examined, is_of};
use super::documents::{
    self, CHANGES, Page, RECORDS, REFILED, RecordDocument, SIGNATURES, SignatureDocument, encode_change, record_key,
    signature_key,
};
use super::read::GenerationKey;
use super::retry::{End, TxnError, Work};
use super::write::IndexWrites;
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::{Profile, Signed};
use doppel_core::schemes::statistics::Statistics;
use doppel_store::changes::{LoggedChange, LoggedKind};
use doppel_store::{Result, Seq, StoreError};

impl Shared {
    /// The profile of a generation, with the statistics frozen with it: which words are keys may depend on them.
    pub(super) async fn profile(&self, place: GenerationKey, settings: &Settings) -> Result<Profile> {
        let statistics = self.statistics(place.number, place.generation).await?;
        let statistics = statistics.map(|bytes| {
            let damaged = || documents::damaged("the statistics of a generation cannot be read");
            Statistics::decode(&bytes).map(Arc::new).ok_or_else(damaged)
        });
        Ok(Profile::compile(settings, statistics.transpose()?))
    }

    /// Files a record anew in one generation. `pages` hold entries of it that are in the wrong place.
    pub(super) async fn mend(
        &self,
        name: &CollectionName,
        examined: &Examined<'_>,
        id: &RecordId,
        pages: BTreeSet<Page>,
    ) -> Result<()> {
        let profile = self.profile(examined.place, examined.settings).await?;
        let mut work = Mending { shared: self, name, examined, id, pages, profile };
        self.transact_queued(examined.place.number, &mut work).await
    }
}

struct Mending<'a> {
    shared: &'a Shared,
    name: &'a CollectionName,
    examined: &'a Examined<'a>,
    id: &'a RecordId,
    pages: BTreeSet<Page>,
    profile: Profile,
}

impl Mending<'_> {
    /// The record's signatures: those stored, if they are of this version of it, else made again from its text.
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
        let unreadable = || StoreError::Internal(format!("record {} cannot be signed again; put it again", self.id));
        let row = record.record.content.read().ok_or_else(unreadable)?;
        Ok(profile.sign_stored(self.id, &row).1)
    }
}

impl Mending<'_> {
    /// Logs that the record is filed otherwise now: instances remember what is filed where.
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
impl Work for Mending<'_> {
    type Answer = ();

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<End<()>, TxnError> {
        let (shared, place, id) = (self.shared, self.examined.place, self.id);
        let last = shared.latch(session, self.name, place.number).await?.commits;
        let (record, signature) = shared.both(session, place, id).await?;
        // What a reindex has not filed yet is no business of the doctor's.
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
            // What a generation that is being built has not filed yet is stored all the same.
            if !self.examined.is_building {
                self.log(session, last, LoggedKind::Removed).await?;
            }
            return Ok(End::Commit(()));
        };
        let seq = record.record.seq;
        let mut highest = shared.highest_pages(session, place, signed.fingerprint().into_iter()).await?;
        let pairs = signature.filter(|old| old.seq == seq).map(|old| old.pairs).unwrap_or_default();
        let mut layout = IndexWrites::default();
        layout.file((id, seq, &signed), place.generation, pairs, &mut highest);
        shared.push_entries(session, place.number, &layout).await?;
        shared.remove_empty_pages(session, place.number, &from).await?;
        shared.put_signatures(session, place.number, &layout.signatures, true).await?;
        if record.record.digest_generation == place.generation {
            let digest = doc! { "$set": { "digest": documents::digest_value(&signed.digest) } };
            let key = doc! { "_id": record_key(place.number, id) };
            shared.documents(RECORDS).update_one(key, digest).session(&mut *session).await?;
        }
        self.log(session, last, LoggedKind::Updated { seq }).await?;
        Ok(End::Commit(()))
    }
}
