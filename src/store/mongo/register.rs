//! Registering: the five steps of the module, with what to do when the id is taken.

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::{Document, doc};

use super::Shared;
use super::admin::Known;
use super::documents::{
    self, COLLECTIONS, RECORDS, RecordDocument, SIGNATURES, SignatureDocument, record_content, record_key,
    verdict_content,
};
use super::latches::latches;
use super::propose::Hits;
use super::read::{Buckets, Place, Pointer};
use super::retry::{self, Deadline, End, Trouble, Work};
use super::write::pages_for;
use crate::collection::{Channel, Settings};
use crate::index::Via;
use crate::record::Row;
use crate::store::{Judge, Mode, Registered, Registration, Result, Seq, StoreError, StoredRecord};
use crate::verdict::{Match, Verdict, VerdictKind};

/// Radius and position of the `simhash` channel.
pub(super) fn simhash_channel(settings: &Settings) -> (u8, u8) {
    let found = settings.channels.iter().enumerate().find_map(|(position, channel)| match channel {
        Channel::Simhash(params) => Some((params.radius, position as u8)),
        _ => None,
    });
    found.unwrap_or((0, 0))
}

/// What stands under the id already.
struct Old {
    seq: Seq,
    signature: Option<SignatureDocument>,
}

/// How an attempt ended.
enum Outcome {
    Done(Box<Registered>),
    /// The id is not as it was thought to be: taken, or taken by other content, or free.
    Otherwise,
}

struct Registering<'a> {
    shared: &'a Shared,
    known: &'a Known,
    registration: &'a Registration,
    judge: &'a dyn Judge,
    old: Option<Old>,
    latches: Vec<i32>,
}

impl Shared {
    pub(super) async fn register(&self, registration: &Registration, judge: &dyn Judge) -> Result<Registered> {
        let deadline = self.deadline();
        let known = self.current(registration).await?;
        let place = Place { number: known.number, generation: registration.generation };
        let mut old = None;
        loop {
            let latches = self.latches_of(&known, registration, old.as_ref());
            let turn = self.queue.turn(place.number, place.generation, &latches, deadline).await?;
            let mut work = Registering { shared: self, known: &known, registration, judge, old, latches };
            let outcome = self.retry.transact(&self.client, deadline, &mut work).await;
            drop(turn);
            match outcome {
                Ok(Outcome::Done(registered)) => return Ok(*registered),
                Ok(Outcome::Otherwise) => {}
                Err(error) => {
                    if matches!(error, StoreError::StaleGeneration { .. } | StoreError::UnknownCollection(_)) {
                        self.cache.forget(&registration.collection);
                    }
                    return Err(error);
                }
            }
            let stored = self.read(deadline, || self.stored(place.number, &registration.id)).await?;
            old = match stored {
                None => None,
                Some(stored) if stored.record.digest == registration.signed.digest => {
                    match self.update_content(place, stored, registration, deadline).await? {
                        Some(registered) => return Ok(registered),
                        None => None,
                    }
                }
                Some(stored) => {
                    let signature = self.read(deadline, || self.signature(place, &registration.id)).await?;
                    Some(Old { seq: stored.record.seq, signature })
                }
            };
        }
    }

    /// The collection, if it is of the generation that signed the record.
    async fn current(&self, registration: &Registration) -> Result<std::sync::Arc<Known>> {
        let known = self.known(&registration.collection).await?;
        if known.state.generation == registration.generation {
            return Ok(known);
        }
        self.cache.forget(&registration.collection);
        let known = self.known(&registration.collection).await?;
        let live = known.state.generation;
        if live == registration.generation {
            return Ok(known);
        }
        Err(StoreError::StaleGeneration { given: registration.generation, live })
    }

    fn latches_of(&self, known: &Known, registration: &Registration, old: Option<&Old>) -> Vec<i32> {
        let signed = &registration.signed;
        let (radius, _) = simhash_channel(&known.state.settings);
        let mut all = latches(&signed.digest, signed.fingerprint(), radius, signed.keys.iter().map(|key| key.key));
        if let Some(Old { signature: Some(old), .. }) = old {
            all.extend(latches(&old.digest, old.fingerprint, radius, old.keys.iter().copied()));
            all.sort_unstable();
            all.dedup();
        }
        all
    }

    /// The digest is the same: the content is updated where it differs, seq and verdict stay. `None` when the record changed
    /// meanwhile.
    async fn update_content(
        &self,
        place: Place,
        stored: RecordDocument,
        registration: &Registration,
        deadline: Deadline,
    ) -> Result<Option<Registered>> {
        let mut record = stored.record;
        if Row::parse(record.row.as_bytes()).is_ok_and(|row| row.same_content(&registration.row)) {
            return Ok(Some(Registered::Unchanged(record)));
        }
        let filter = doc! {
            "_id": record_key(place.number, &record.id), "seq": record.seq as i64, "row": record.row.as_ref(),
        };
        let change = doc! { "$set": { "row": registration.row.json().as_ref(), "stored_at": &registration.now } };
        let records = self.documents(RECORDS);
        match super::admin::within(deadline, records.update_one(filter, change).into_future()).await? {
            Ok(updated) if updated.matched_count == 0 => Ok(None),
            Ok(_) => {
                record.row = registration.row.json().clone();
                record.stored_at.clone_from(&registration.now);
                Ok(Some(Registered::Updated(record)))
            }
            Err(error) if retry::is_away(&error) => Err(StoreError::Unknown(retry::summary(&error))),
            Err(error) => Err(retry::fatal(&error)),
        }
    }

    /// The signature of a record. Outside a transaction.
    pub(super) async fn signature(
        &self,
        place: Place,
        id: &crate::record::RecordId,
    ) -> std::result::Result<Option<SignatureDocument>, Trouble> {
        let key = documents::signature_key(place.number, place.generation, id);
        let found = self.raw(SIGNATURES).find_one(doc! { "_id": key }).await?;
        Ok(found.map(|found| SignatureDocument::decode(&found)).transpose()?)
    }

    /// Refuses when the collection is gone or another generation is live.
    pub(super) fn check_pointer(
        pointer: Option<Pointer>,
        place: Place,
        name: &crate::collection::CollectionName,
    ) -> Result<Pointer> {
        match pointer {
            Some(pointer) if pointer.number == place.number && pointer.generation == place.generation => Ok(pointer),
            Some(pointer) if pointer.number == place.number => {
                Err(StoreError::StaleGeneration { given: place.generation, live: pointer.generation })
            }
            _ => Err(StoreError::UnknownCollection(name.clone())),
        }
    }
}

#[async_trait]
impl Work for Registering<'_> {
    type Answer = Outcome;

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<End<Outcome>, Trouble> {
        let (shared, registration) = (self.shared, self.registration);
        let place = Place { number: self.known.number, generation: registration.generation };
        let first = shared.next_seq(0);
        if !self.put_record(session, place, first).await? {
            return Ok(End::Abort(Outcome::Otherwise));
        }
        shared.take_latches(session, place, &self.latches).await?;
        let (conclusion, pages) = self.conclude(session, place).await?;
        let Conclusion { verdict, original, highest } = conclusion;
        let duplicate = matches!(verdict.kind, VerdictKind::ExactDuplicate | VerdictKind::NearDuplicate);
        if registration.mode == Mode::SkipDuplicate && duplicate {
            return Ok(End::Abort(Outcome::Done(Box::new(Registered::Skipped(verdict)))));
        }
        let seq = if highest < first { first } else { shared.next_seq(highest) };
        self.put_index(session, place, seq, pages).await?;
        let content = verdict_content(seq, &verdict, original)?;
        let filter = doc! { "_id": record_key(place.number, &registration.id) };
        let records = shared.documents(RECORDS);
        let noted = records.update_one(filter, doc! { "$set": content });
        match noted.session(&mut *session).await {
            Ok(_) => {}
            // Another instance gave the same seq at the same microsecond.
            Err(error) if retry::is_duplicate_key(&error) => return Err(Trouble::Changed),
            Err(error) => return Err(error.into()),
        }
        let record = self.record(seq, verdict, original);
        let registered = if self.old.is_some() { Registered::Replaced(record) } else { Registered::Created(record) };
        Ok(End::Commit(Outcome::Done(Box::new(registered))))
    }
}

/// What was concluded of the matches.
struct Conclusion {
    verdict: Verdict,
    original: Option<Seq>,
    /// The highest seq that was read.
    highest: Seq,
}

impl Registering<'_> {
    /// Step 1: the record, with a verdict yet to come; whether the id was as expected.
    async fn put_record(
        &self,
        session: &mut ClientSession,
        place: Place,
        seq: Seq,
    ) -> std::result::Result<bool, Trouble> {
        let Registration { id, row, signed, now, .. } = self.registration;
        let mut document = doc! { "_id": record_key(place.number, id) };
        document.extend(record_content(place.generation, signed, row.json(), now));
        document.extend(verdict_content(seq, &documents::blank_verdict(), None)?);
        let records = self.shared.documents(RECORDS);
        let put = match &self.old {
            None => records.insert_one(document).session(&mut *session).await.map(|_| true),
            Some(old) => {
                let filter = doc! { "_id": record_key(place.number, id), "seq": old.seq as i64 };
                let replaced = records.replace_one(filter, document).session(&mut *session).await;
                replaced.map(|replaced| replaced.matched_count == 1)
            }
        };
        match put {
            Ok(as_expected) => Ok(as_expected),
            Err(error) if retry::is_duplicate_key(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Step 3: what the index says, judged; and the pages that the entries go to.
    async fn conclude(
        &self,
        session: &mut ClientSession,
        place: Place,
    ) -> std::result::Result<(Conclusion, Option<[i32; 4]>), Trouble> {
        let (shared, Registration { collection, id, signed, .. }) = (self.shared, self.registration);
        let filed = shared.filed(session, collection, place, Some(&signed.digest), &signed.keys).await?;
        let pointer = Shared::check_pointer(filed.pointer, place, collection)?;
        if pointer.empty {
            let filter: Document = doc! { "_id": collection.as_str() };
            let filled = doc! { "$set": { "empty": false } };
            shared.documents(COLLECTIONS).update_one(filter, filled).session(&mut *session).await?;
        }
        let (radius, channel) = simhash_channel(&self.known.state.settings);
        let (buckets, pages) = match signed.fingerprint() {
            None => (Buckets::default(), None),
            Some(fingerprint) => {
                let buckets = shared.buckets(session, place, fingerprint, radius).await?;
                let pages = pages_for(fingerprint, &buckets);
                (buckets, Some(pages))
            }
        };
        let sparse = Via::sparse(&self.known.state.settings);
        let hits = Hits::gather(filed, &signed.keys, buckets, channel, sparse);
        let mut ranked = shared.ranked(session, place, hits).await?;
        ranked.items.retain(|item| item.id != id.as_str());
        let mut texts = ranked.take_texts();
        let matches = shared.judged(session, place, &ranked.items, &mut texts, self.judge).await?;
        let earliest = matches.iter().map(|found: &Match| found.seq).min();
        let verdict = self.judge.conclude(matches, ranked.truncated);
        let original = verdict.duplicate_of.as_ref().and(earliest);
        Ok((Conclusion { verdict, original, highest: ranked.highest }, pages))
    }

    /// Step 4: the entries and the signature.
    async fn put_index(
        &self,
        session: &mut ClientSession,
        place: Place,
        seq: Seq,
        pages: Option<[i32; 4]>,
    ) -> std::result::Result<(), Trouble> {
        let Registration { id, signed, .. } = self.registration;
        let old = self.old.as_ref().and_then(|old| old.signature.as_ref());
        let from = old.map(SignatureDocument::places).unwrap_or_default();
        let fingerprint = signed.fingerprint();
        self.shared.move_entries(session, place, id, &from, fingerprint.zip(pages)).await?;
        let signature = SignatureDocument {
            id: id.clone(),
            generation: place.generation,
            seq,
            digest: signed.digest,
            fingerprint,
            keys: signed.keys.iter().map(|key| key.key).collect(),
            pages,
            signed: Some(signed.as_ref().clone()),
        };
        self.shared.put_signature(session, place, &signature, self.old.is_some()).await
    }

    fn record(&self, seq: Seq, verdict: Verdict, original: Option<Seq>) -> StoredRecord {
        let Registration { id, row, signed, now, .. } = self.registration;
        StoredRecord {
            id: id.clone(),
            seq,
            row: row.json().clone(),
            digest: signed.digest,
            verdict,
            duplicate_of_seq: original,
            stored_at: now.clone(),
        }
    }
}
