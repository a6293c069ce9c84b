//! Registering: the five steps of the module, with what to do when the id is taken.

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::{Document, doc};

use super::Shared;
use super::admin::Known;
use super::documents::{
    self, COLLECTIONS, Number, RECORDS, RecordDocument, SignatureDocument, record_content, record_key, verdict_content,
};
use super::latches::Latches;
use super::propose::Hits;
use super::read::{Buckets, Place, Pointer};
use super::retry::{self, Deadline, End, Trouble, Work};
use super::write::pages_for;
use crate::collection::{Channel, CollectionName, Settings};
use crate::index::Via;
use crate::schemes::profile::Signed;
use crate::store::{GenerationId, Judge, Mode, Registered, Registration, Result, Seq, StoreError, StoredRecord};
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
pub(super) struct Old {
    seq: Seq,
    /// See [`RecordDocument::filed`].
    filed: Option<GenerationId>,
    /// In every generation that it is filed in.
    signatures: Vec<SignatureDocument>,
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
    latches: Latches,
    /// The seq to try first.
    first: Option<Seq>,
}

impl Registration {
    /// The generations that it is signed for, the live one first.
    pub(super) fn generations(&self) -> impl Iterator<Item = (GenerationId, &Signed)> {
        let others = self.others.iter().map(|(generation, signed)| (*generation, signed.as_ref()));
        std::iter::once((self.generation, self.signed.as_ref())).chain(others)
    }

    /// The generations beside the live one that it is signed for.
    pub(super) fn beside(&self) -> Vec<GenerationId> {
        self.others.iter().map(|(generation, _)| *generation).collect()
    }
}

impl Shared {
    pub(super) async fn register(&self, registration: &Registration, judge: &dyn Judge) -> Result<Registered> {
        let deadline = self.deadline();
        let known = self.current(registration).await?;
        let place = Place { number: known.number, generation: registration.generation };
        let mut old = None;
        loop {
            let latches = latches_of(&known, registration, old.as_ref());
            let mut turn = self.queue.join(place.number, &latches, &registration.id);
            turn.come(deadline).await?;
            // Those of a series get theirs in its order, unless they have to begin again.
            let first = Some(self.next_seq(0));
            self.tell_placed(place.number, registration, deadline).await?;
            let mut work = Registering { shared: self, known: &known, registration, judge, old, latches, first };
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
            old = match self.read(deadline, || self.stored(place.number, &registration.id)).await? {
                None => None,
                Some(stored) => match self.look_at_old(&known, place, stored, registration, deadline).await? {
                    Looked::Ended(registered) => return Ok(registered),
                    Looked::Gone => None,
                    Looked::Differs(old) => Some(old),
                },
            };
        }
    }

    /// Lets the next of a series go ahead: what could match this one has a latch in common with it, and stands behind it in the
    /// queue until it has committed; what could not may commit first. Where the id is taken the next must wait for the end,
    /// for other latches are needed then.
    async fn tell_placed(&self, number: Number, registration: &Registration, deadline: Deadline) -> Result<()> {
        if registration.placed.is_awaited() && !self.read(deadline, || self.is_stored(number, &registration.id)).await?
        {
            registration.placed.signal();
        }
        Ok(())
    }

    /// What is to be done with the record under the id.
    async fn look_at_old(
        &self,
        known: &Known,
        place: Place,
        stored: RecordDocument,
        registration: &Registration,
        deadline: Deadline,
    ) -> Result<Looked> {
        let as_live =
            stored.record.digest_generation == place.generation && stored.record.digest == registration.signed.digest;
        if as_live && registration.others.is_empty() {
            return self.keep(place, stored, registration, Vec::new(), deadline).await;
        }
        let generations = || known.generations().map(|(generation, _)| generation);
        let signatures = self.read(deadline, || self.filings(place.number, generations(), &registration.id)).await?;
        if !reads_the_same(&stored, &signatures, registration) {
            return Ok(Looked::Differs(Old { seq: stored.record.seq, filed: stored.filed, signatures }));
        }
        let filed = |generation: GenerationId| signatures.iter().any(|filed| filed.generation == generation);
        let missing = registration.generations().filter(|(generation, _)| !filed(*generation)).collect();
        self.keep(place, stored, registration, missing, deadline).await
    }

    /// The collection, if its generations are those that signed the record.
    async fn current(&self, registration: &Registration) -> Result<std::sync::Arc<Known>> {
        let beside = registration.beside();
        let fits = |known: &Known| {
            let others = known.state.others.iter().map(|other| other.id);
            known.state.generation == registration.generation && others.eq(beside.iter().copied())
        };
        let known = self.known(&registration.collection).await?;
        if fits(&known) {
            return Ok(known);
        }
        self.cache.forget(&registration.collection);
        let known = self.known(&registration.collection).await?;
        if fits(&known) {
            return Ok(known);
        }
        Err(StoreError::StaleGeneration { given: registration.generation, live: known.state.generation })
    }

    /// Refuses when the collection is gone, or another generation is live, or others stand beside it than `beside` where
    /// that matters.
    pub(super) fn check_pointer<'a>(
        pointer: Option<&'a Pointer>,
        place: Place,
        beside: Option<&[GenerationId]>,
        name: &CollectionName,
    ) -> Result<&'a Pointer> {
        let Some(pointer) = pointer.filter(|pointer| pointer.number == place.number) else {
            return Err(StoreError::UnknownCollection(name.clone()));
        };
        if pointer.generation == place.generation && beside.is_none_or(|beside| beside == pointer.others) {
            return Ok(pointer);
        }
        Err(StoreError::StaleGeneration { given: place.generation, live: pointer.generation })
    }
}

/// Whether every generation that has the record filed reads the same text in it as before.
fn reads_the_same(stored: &RecordDocument, signatures: &[SignatureDocument], registration: &Registration) -> bool {
    let filed = |generation| signatures.iter().find(|filed| filed.generation == generation);
    let same =
        |filed: &SignatureDocument, signed: &Signed| filed.seq == stored.record.seq && filed.digest == signed.digest;
    filed(registration.generation).is_some_and(|live| same(live, &registration.signed))
        && registration.generations().all(|(generation, signed)| filed(generation).is_none_or(|it| same(it, signed)))
}

/// What came of looking at the record under the id.
pub(super) enum Looked {
    Ended(Registered),
    /// It changed meanwhile.
    Gone,
    /// Its content is another.
    Differs(Old),
}

/// The latches of all that a registration changes, in all generations, and of the decisions that it rests on.
fn latches_of(known: &Known, registration: &Registration, old: Option<&Old>) -> Latches {
    let radius_in = |generation| {
        let found = known.generations().find(|(known, _)| *known == generation);
        found.map_or(0, |(_, settings)| simhash_channel(settings).0)
    };
    let mut all = Latches::default();
    for (generation, signed) in registration.generations() {
        all.add(generation, radius_in(generation), signed);
    }
    for filed in old.iter().flat_map(|old| &old.signatures) {
        all.add_filed(radius_in(filed.generation), filed);
    }
    for id in &registration.confirmed {
        all.add_pair(&registration.id, id);
    }
    all
}

#[async_trait]
impl Work for Registering<'_> {
    type Answer = Outcome;

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<End<Outcome>, Trouble> {
        let (shared, registration) = (self.shared, self.registration);
        let place = Place { number: self.known.number, generation: registration.generation };
        let first = self.first.take().unwrap_or_else(|| shared.next_seq(0));
        if !self.put_record(session, place, first).await? {
            return Ok(End::Abort(Outcome::Otherwise));
        }
        shared.take_latches(session, place.number, &self.latches).await?;
        let Conclusion { verdict, earlier, highest, pages } = self.conclude(session, place).await?;
        let original = verdict.duplicate_of.as_ref().and(earlier.first().copied());
        let duplicate = matches!(verdict.kind, VerdictKind::ExactDuplicate | VerdictKind::NearDuplicate);
        if registration.mode == Mode::SkipDuplicate && duplicate {
            return Ok(End::Abort(Outcome::Done(Box::new(Registered::Skipped(verdict)))));
        }
        let seq = if highest < first { first } else { shared.next_seq(highest) };
        self.put_index(session, place, seq, pages, earlier).await?;
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
    /// The seqs of all matches, ascending.
    earlier: Vec<Seq>,
    /// The highest seq that was read.
    highest: Seq,
    /// The pages that the entries go to in the live generation.
    pages: Option<[i32; 4]>,
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
                // Filed by a reindex since it was looked at, it has entries that are not known here.
                let filed = old.filed.map(|filed| filed as i32);
                let filter = doc! { "_id": record_key(place.number, id), "seq": old.seq as i64, "filed": filed };
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
    async fn conclude(&self, session: &mut ClientSession, place: Place) -> std::result::Result<Conclusion, Trouble> {
        let (shared, Registration { collection, id, signed, confirmed, .. }) = (self.shared, self.registration);
        let filed = shared.filed(session, collection, place, Some(&signed.digest), &signed.keys).await?;
        let beside = self.registration.beside();
        let pointer = Shared::check_pointer(filed.pointer.as_ref(), place, Some(&beside), collection)?;
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
                let pages = pages_for(fingerprint, &buckets.highest);
                (buckets, Some(pages))
            }
        };
        let sparse = Via::sparse(&self.known.state.settings);
        let hits = Hits::gather(filed, &signed.keys, buckets, channel, sparse);
        let mut ranked = shared.ranked(session, place, hits).await?;
        ranked.confirm(confirmed);
        ranked.items.retain(|item| item.id != id.as_str());
        let mut texts = ranked.take_texts();
        let matches = shared.judged(session, place, &ranked.items, &mut texts, self.judge).await?;
        let mut earlier: Vec<Seq> = matches.iter().map(|found: &Match| found.seq).collect();
        earlier.sort_unstable();
        let verdict = self.judge.conclude(matches, ranked.truncated);
        let highest = ranked.highest.max(earlier.last().copied().unwrap_or(0));
        Ok(Conclusion { verdict, earlier, highest, pages })
    }

    /// Step 4: the entries and the signatures, in every generation.
    async fn put_index(
        &self,
        session: &mut ClientSession,
        place: Place,
        seq: Seq,
        pages: Option<[i32; 4]>,
        earlier: Vec<Seq>,
    ) -> std::result::Result<(), Trouble> {
        let (shared, Registration { id, signed, others, .. }) = (self.shared, self.registration);
        let live = SignatureDocument::of(id, place.generation, seq, signed, pages);
        let mut signatures = vec![SignatureDocument { pairs: earlier, ..live }];
        for (generation, signed) in others {
            let place = Place { generation: *generation, ..place };
            signatures.push(shared.lay_out(session, place, id, seq, signed).await?);
        }
        let old = self.old.iter().flat_map(|old| &old.signatures);
        let from: Vec<_> = old.flat_map(SignatureDocument::places).collect();
        shared.move_entries(session, place.number, id, &from, &signatures).await?;
        shared.put_signatures(session, place.number, &signatures, self.old.is_some()).await
    }

    fn record(&self, seq: Seq, verdict: Verdict, original: Option<Seq>) -> StoredRecord {
        let Registration { id, row, signed, now, .. } = self.registration;
        StoredRecord {
            id: id.clone(),
            seq,
            row: row.json().clone(),
            digest: signed.digest,
            digest_generation: self.registration.generation,
            verdict,
            duplicate_of_seq: original,
            stored_at: now.clone(),
        }
    }
}
