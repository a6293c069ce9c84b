//! Removing: the same steps as registering, so that a registration that could match either sees the record or does not name it.

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::{Bson, doc};

use super::Shared;
use super::admin::Known;
use super::documents::{RECORDS, RecordDocument, SIGNATURES, SignatureDocument, record_key, signature_key};
use super::latches::Latches;
use super::read::Place;
use super::register::simhash_channel;
use super::retry::{End, Trouble, Work};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::{GenerationId, Result, Seq, StoreError};

struct Removing<'a> {
    shared: &'a Shared,
    name: &'a CollectionName,
    place: Place,
    /// The generations beside the live one.
    beside: Vec<GenerationId>,
    id: &'a RecordId,
    stored: RecordDocument,
    signatures: Vec<SignatureDocument>,
    latches: Latches,
}

impl Shared {
    /// Removes a record; where `exactly` is given, only if that is its seq.
    pub(super) async fn remove(&self, name: &CollectionName, id: &RecordId, exactly: Option<Seq>) -> Result<bool> {
        let deadline = self.deadline();
        loop {
            let known = self.known(name).await?;
            let place = Place { number: known.number, generation: known.state.generation };
            let stored = self.read(deadline, || self.stored(place.number, id)).await?;
            let Some(stored) = stored.filter(|stored| exactly.is_none_or(|seq| stored.record.seq == seq)) else {
                return Ok(false);
            };
            let generations = || known.generations().map(|(generation, _)| generation);
            let signatures = self.read(deadline, || self.filings(place.number, generations(), id)).await?;
            let latches = latches_of(&known, &signatures);
            let mut turn = self.queue.join(place.number, &latches, id);
            turn.come(deadline).await?;
            let beside = generations().skip(1).collect();
            let mut work = Removing { shared: self, name, place, beside, id, stored, signatures, latches };
            let removed = self.retry.transact(&self.client, deadline, &mut work).await;
            drop(turn);
            match removed {
                Ok(true) => return Ok(true),
                // Replaced, filed or removed by another meanwhile: look again. Ends at the deadline, or with the record.
                Ok(false) => {}
                Err(StoreError::StaleGeneration { .. }) => self.cache.forget(name),
                Err(error) => return Err(error),
            }
        }
    }
}

fn latches_of(known: &Known, signatures: &[SignatureDocument]) -> Latches {
    let mut latches = Latches::default();
    for filed in signatures {
        let found = known.generations().find(|(generation, _)| *generation == filed.generation);
        latches.add_filed(found.map_or(0, |(_, settings)| simhash_channel(settings).0), filed);
    }
    latches
}

#[async_trait]
impl Work for Removing<'_> {
    /// Whether the record was still the one that was looked at.
    type Answer = bool;

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<End<bool>, Trouble> {
        let Self { shared, name, place, beside, id, stored, signatures, latches } = self;
        let filed = stored.filed.map(|filed| filed as i32);
        let filter = doc! { "_id": record_key(place.number, id), "seq": stored.record.seq as i64, "filed": filed };
        let deleted = shared.documents(RECORDS).delete_one(filter).session(&mut *session).await?;
        if deleted.deleted_count == 0 {
            return Ok(End::Abort(false));
        }
        shared.take_latches(session, place.number, latches).await?;
        let pointer = shared.pointer(session, name).await?;
        Shared::check_pointer(pointer.as_ref(), *place, Some(beside), name)?;
        let places: Vec<_> = signatures.iter().flat_map(SignatureDocument::places).collect();
        shared.move_entries(session, place.number, id, &places, &[]).await?;
        let generations = std::iter::once(place.generation).chain(beside.iter().copied());
        let keys = generations.map(|generation| Bson::from(signature_key(place.number, generation, id)));
        let filter = doc! { "_id": { "$in": keys.collect::<Vec<_>>() } };
        shared.documents(SIGNATURES).delete_many(filter).session(&mut *session).await?;
        shared.forget_decisions(session, place.number, id).await?;
        Ok(End::Commit(true))
    }
}
