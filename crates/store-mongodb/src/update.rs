//! A record registered again with a text that no generation reads differently: seq and verdict stay, the content is updated
//! where it differs.
//!
//! An update reads the list of generations in its transaction as registering does, and files the record in those that have not
//! got it yet: what a reindex signed before the update must not be filed after it.

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::doc;

use super::Shared;
use super::documents::{RECORDS, RecordDocument, record_content, record_key};
use super::read::Place;
use super::register::Looked;
use super::retry::{Deadline, End, Trouble, Work};
use super::write::Filing;
use doppel_core::schemes::profile::Signed;
use doppel_store::{GenerationId, Registered, Registration, Result};

impl Shared {
    /// Updates the content if it differs. `missing` are the generations that have not filed the record.
    pub(super) async fn keep(
        &self,
        place: Place,
        stored: RecordDocument,
        registration: &Registration,
        missing: Vec<(GenerationId, &Signed)>,
        deadline: Deadline,
    ) -> Result<Looked> {
        if registration.is_of(&stored.record.row) {
            return Ok(Looked::Ended(Registered::Unchanged(stored.record)));
        }
        let mut work = Updating { shared: self, place, stored, registration, missing };
        if !self.retry.transact(&self.client, deadline, &mut work).await? {
            return Ok(Looked::Gone);
        }
        let mut record = work.stored.record;
        (record.digest, record.digest_generation) = (registration.signed.digest, registration.generation);
        record.row = registration.row.json().clone();
        record.stored_at.clone_from(&registration.now);
        Ok(Looked::Ended(Registered::Updated(record)))
    }
}

struct Updating<'a> {
    shared: &'a Shared,
    place: Place,
    stored: RecordDocument,
    registration: &'a Registration,
    missing: Vec<(GenerationId, &'a Signed)>,
}

#[async_trait]
impl Work for Updating<'_> {
    /// Whether the record was still as it was looked at.
    type Answer = bool;

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<End<bool>, Trouble> {
        let Self { shared, place, stored, registration, missing } = self;
        let Registration { collection, id, row, signed, now, .. } = *registration;
        let pointer = shared.pointer(session, collection).await?;
        Shared::check_pointer(pointer.as_ref(), *place, Some(&registration.standby()), collection)?;
        let (seq, filed) = (stored.record.seq, stored.filed.map(|filed| filed as i32));
        let filter = doc! {
            "_id": record_key(place.number, id), "seq": seq as i64, "row": stored.record.row.as_ref(), "filed": filed,
        };
        let mut content = record_content(place.generation, signed, row.json(), now);
        // Whoever looked at the record before must look again.
        if let Some(newest) = missing.iter().map(|(generation, _)| *generation).max() {
            content.insert("filed", newest as i32);
        }
        let mut change = doc! { "$set": content };
        if signed.fingerprint().is_none() {
            change.insert("$unset", doc! { "fingerprint": "" });
        }
        let updated = shared.documents(RECORDS).update_one(filter, change).session(&mut *session).await?;
        if updated.matched_count == 0 {
            return Ok(End::Abort(false));
        }
        let mut signatures = Vec::with_capacity(missing.len());
        for (generation, signed) in missing.iter() {
            let place = Place { generation: *generation, ..*place };
            signatures.extend(shared.lay_out(session, place, &[Filing { id, seq, signed }]).await?);
        }
        if !signatures.is_empty() {
            shared.move_entries(session, place.number, id, &[], &signatures).await?;
            shared.put_signatures(session, place.number, &signatures, false).await?;
        }
        Ok(End::Commit(true))
    }
}
