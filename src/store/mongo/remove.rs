//! Removing: the same steps as registering, so that a registration that could match either sees the record or does not name it.

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::doc;

use super::Shared;
use super::documents::{RECORDS, SIGNATURES, SignatureDocument, record_key, signature_key};
use super::latches::latches;
use super::read::Place;
use super::register::simhash_channel;
use super::retry::{End, Trouble, Work};
use crate::collection::CollectionName;
use crate::record::RecordId;
use crate::store::{Result, Seq, StoreError};

struct Removing<'a> {
    shared: &'a Shared,
    name: &'a CollectionName,
    place: Place,
    id: &'a RecordId,
    seq: Seq,
    signature: Option<SignatureDocument>,
    latches: Vec<i32>,
}

impl Shared {
    pub(super) async fn remove(&self, name: &CollectionName, id: &RecordId) -> Result<bool> {
        let deadline = self.deadline();
        loop {
            let known = self.known(name).await?;
            let place = Place { number: known.number, generation: known.state.generation };
            let Some(stored) = self.read(deadline, || self.stored(place.number, id)).await? else { return Ok(false) };
            let signature = self.read(deadline, || self.signature(place, id)).await?;
            let (radius, _) = simhash_channel(&known.state.settings);
            let latches = signature.as_ref().map(|signature| {
                latches(&signature.digest, signature.fingerprint, radius, signature.keys.iter().copied())
            });
            let latches = latches.unwrap_or_default();
            let turn = self.queue.turn(place.number, place.generation, &latches, deadline).await?;
            let seq = stored.record.seq;
            let mut work = Removing { shared: self, name, place, id, seq, signature, latches };
            let removed = self.retry.transact(&self.client, deadline, &mut work).await;
            drop(turn);
            match removed {
                Ok(true) => return Ok(true),
                // Replaced or removed by another meanwhile: look again. Ends at the deadline, or with the record.
                Ok(false) => {}
                Err(StoreError::StaleGeneration { .. }) => self.cache.forget(name),
                Err(error) => return Err(error),
            }
        }
    }
}

#[async_trait]
impl Work for Removing<'_> {
    /// Whether the record was still the one that was looked at.
    type Answer = bool;

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<End<bool>, Trouble> {
        let Self { shared, name, place, id, seq, signature, latches } = self;
        let filter = doc! { "_id": record_key(place.number, id), "seq": *seq as i64 };
        let deleted = shared.documents(RECORDS).delete_one(filter).session(&mut *session).await?;
        if deleted.deleted_count == 0 {
            return Ok(End::Abort(false));
        }
        shared.take_latches(session, *place, latches).await?;
        let filed = shared.filed(session, name, *place, None, &[]).await?;
        Self::check(filed.pointer, *place, name)?;
        let places = signature.as_ref().map(SignatureDocument::places).unwrap_or_default();
        shared.move_entries(session, *place, id, &places, None).await?;
        let key = signature_key(place.number, place.generation, id);
        shared.documents(SIGNATURES).delete_one(doc! { "_id": key }).session(&mut *session).await?;
        Ok(End::Commit(true))
    }
}

impl Removing<'_> {
    fn check(pointer: Option<super::read::Pointer>, place: Place, name: &CollectionName) -> Result<()> {
        Shared::check_pointer(pointer, place, name).map(drop)
    }
}
