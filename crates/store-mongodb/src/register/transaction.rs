//! The transaction: the five steps of the module, for one registration or for several that have no latch in common.
//!
//! Several go through each step together, mostly with one command for all; none of them can match another, so each is judged as if
//! it were alone. One that replaces a record or may leave nothing behind goes alone.

use std::sync::Arc;

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::{Document, doc};

use super::{Entrant, Outcome, simhash_channel};
use crate::Shared;
use crate::documents::{self, COLLECTIONS, RECORDS, SignatureDocument, record_content, record_key, verdict_content};
use crate::latches::Latches;
use crate::postings::Question;
use crate::propose::Hits;
use crate::read::Place;
use crate::retry::{self, End, Trouble, Work};
use crate::write::{Filing, pages_for};
use doppel_core::verdict::{Match, Verdict, VerdictKind};
use doppel_store::{Mode, Registered, Result as StoreResult, Seq, StoredRecord};

type Result<T> = std::result::Result<T, Trouble>;

/// Registrations of one place, with no latch in common.
pub(super) struct Registering<'a> {
    shared: &'a Shared,
    entrants: Vec<Arc<Entrant>>,
}

/// What was concluded of a registration's matches.
struct Conclusion {
    verdict: Verdict,
    /// The seqs of all matches, ascending.
    earlier: Vec<Seq>,
    /// The highest seq that was read.
    highest: Seq,
    /// The pages that the entries go to in the live generation.
    pages: Option<[i32; 4]>,
}

impl Conclusion {
    fn is_duplicate(&self) -> bool {
        matches!(self.verdict.kind, VerdictKind::ExactDuplicate | VerdictKind::NearDuplicate)
    }

    fn original(&self) -> Option<Seq> {
        self.verdict.duplicate_of.as_ref().and(self.earlier.first().copied())
    }
}

#[async_trait]
impl Work for Registering<'_> {
    /// In the order of the entrants.
    type Answer = Vec<Outcome>;

    async fn attempt(&mut self, session: &mut ClientSession) -> Result<End<Vec<Outcome>>> {
        let Some(place) = self.entrants.first().map(|entrant| entrant.place()) else {
            return Ok(End::Abort(Vec::new()));
        };
        let mut seqs: Vec<Seq> = self.entrants.iter().map(|entrant| entrant.draw_seq(self.shared)).collect();
        if !self.put_records(session, place, &seqs).await? {
            return Ok(End::Abort(self.entrants.iter().map(|_| Outcome::Otherwise).collect()));
        }
        let mut latches = Latches::default();
        self.entrants.iter().for_each(|entrant| latches.add_all(&entrant.latches));
        self.shared.take_latches(session, place.number, &latches).await?;
        let conclusions = self.conclude(session, place).await?;
        if let ([entrant], [conclusion]) = (&self.entrants[..], &conclusions[..])
            && entrant.registration.mode == Mode::SkipDuplicate
            && conclusion.is_duplicate()
        {
            let skipped = Registered::Skipped(conclusion.verdict.clone());
            return Ok(End::Abort(vec![Outcome::Done(Box::new(skipped))]));
        }
        for (seq, conclusion) in seqs.iter_mut().zip(&conclusions) {
            if conclusion.highest >= *seq {
                *seq = self.shared.next_seq(conclusion.highest);
            }
        }
        self.put_index(session, place, &seqs, &conclusions).await?;
        self.put_verdicts(session, place, &seqs, &conclusions).await?;
        let done = self.entrants.iter().zip(seqs).zip(conclusions);
        let done = done.map(|((entrant, seq), conclusion)| {
            let record = stored(entrant, seq, conclusion);
            let replaced = entrant.old.is_some();
            Outcome::Done(Box::new(if replaced { Registered::Replaced(record) } else { Registered::Created(record) }))
        });
        Ok(End::Commit(done.collect()))
    }
}

impl<'a> Registering<'a> {
    pub(super) fn of(shared: &'a Shared, entrants: Vec<Arc<Entrant>>) -> Self {
        Self { shared, entrants }
    }

    /// Step 1: the records, with verdicts yet to come; whether the ids were as expected.
    async fn put_records(&self, session: &mut ClientSession, place: Place, seqs: &[Seq]) -> Result<bool> {
        let records = self.shared.documents(RECORDS);
        let mut documents = Vec::with_capacity(seqs.len());
        for (entrant, seq) in self.entrants.iter().zip(seqs) {
            documents.push(blank_record(entrant, place, *seq)?);
        }
        let put = match (&self.entrants[..], &mut documents[..]) {
            ([entrant], [document]) if let Some(old) = &entrant.old => {
                // Filed by a reindex since it was looked at, it has entries that are not known here.
                let filed = old.filed.map(|filed| filed as i32);
                let key = record_key(place.number, &entrant.registration.id);
                let filter = doc! { "_id": key, "seq": old.seq as i64, "filed": filed };
                let replaced = records.replace_one(filter, std::mem::take(document)).session(&mut *session).await;
                replaced.map(|replaced| replaced.matched_count == 1)
            }
            _ => records.insert_many(documents).session(&mut *session).await.map(|_| true),
        };
        match put {
            Ok(as_expected) => Ok(as_expected),
            Err(error) if retry::is_duplicate_key(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Step 3: what the index says, judged; and the pages that the entries go to.
    async fn conclude(&self, session: &mut ClientSession, place: Place) -> Result<Vec<Conclusion>> {
        let (shared, first) = (self.shared, &self.entrants[0]);
        let settings = &first.known.state.settings;
        let signed = || self.entrants.iter().map(|entrant| &entrant.registration.signed);
        let questions: Vec<_> =
            signed().map(|signed| Question { digest: Some(&signed.digest), keys: &signed.keys }).collect();
        let collection = &first.registration.collection;
        let (pointer, filed) = shared.filed(session, collection, place, &questions).await?;
        let beside = first.registration.standby();
        let pointer = Shared::check_pointer(pointer.as_ref(), place, Some(&beside), collection)?;
        if pointer.empty {
            let filter: Document = doc! { "_id": collection.as_str() };
            let filled = doc! { "$set": { "empty": false } };
            shared.documents(COLLECTIONS).update_one(filter, filled).session(&mut *session).await?;
        }
        let (radius, channel) = simhash_channel(settings);
        let fingerprints: Vec<_> = signed().map(|signed| signed.fingerprint()).collect();
        let buckets = shared.buckets(session, place, &fingerprints, radius).await?;
        let of_fingerprint = fingerprints.iter().zip(&buckets);
        let pages: Vec<_> = of_fingerprint
            .map(|(fingerprint, buckets)| fingerprint.map(|fingerprint| pages_for(fingerprint, &buckets.highest)))
            .collect();
        let hits = filed.into_iter().zip(buckets).zip(signed());
        let hits = hits.map(|((filed, buckets), signed)| Hits::gather(filed, &signed.keys, buckets, channel));
        let mut ranked = shared.ranked(session, place, hits.collect()).await?;
        for (entrant, ranked) in self.entrants.iter().zip(&mut ranked) {
            let id = entrant.registration.id.as_str();
            ranked.confirm(&entrant.registration.confirmed);
            ranked.items.retain(|item| item.id != id);
            shared.dismiss(ranked, entrant.judge.as_ref());
        }
        shared.complete(session, place, &mut ranked).await?;
        let mut conclusions = Vec::with_capacity(ranked.len());
        for ((entrant, mut ranked), pages) in self.entrants.iter().zip(ranked).zip(pages) {
            let mut texts = ranked.take_texts();
            let judge = entrant.judge.as_ref();
            let matches = shared.judged(session, place, &ranked.items, &mut texts, judge).await?;
            let mut earlier: Vec<Seq> = matches.iter().map(|found: &Match| found.seq).collect();
            earlier.sort_unstable();
            let verdict = judge.conclude(matches, ranked.truncated);
            let highest = ranked.highest.max(earlier.last().copied().unwrap_or(0));
            conclusions.push(Conclusion { verdict, earlier, highest, pages });
        }
        Ok(conclusions)
    }

    /// Step 4: the entries and the signatures, in every generation.
    async fn put_index(
        &self,
        session: &mut ClientSession,
        place: Place,
        seqs: &[Seq],
        conclusions: &[Conclusion],
    ) -> Result<()> {
        let (shared, first) = (self.shared, &self.entrants[0].registration);
        let mut signatures = Vec::new();
        for ((entrant, seq), Conclusion { pages, earlier, .. }) in self.entrants.iter().zip(seqs).zip(conclusions) {
            let registration = &entrant.registration;
            let live = SignatureDocument::of(&registration.id, place.generation, *seq, &registration.signed, *pages);
            signatures.push(SignatureDocument { pairs: earlier.clone(), ..live });
        }
        for (at, (generation, _)) in first.others.iter().enumerate() {
            let filings = self.entrants.iter().zip(seqs).filter_map(|(entrant, seq)| {
                let (_, signed) = entrant.registration.others.get(at)?;
                Some(Filing { id: &entrant.registration.id, seq: *seq, signed })
            });
            let place = Place { generation: *generation, ..place };
            signatures.extend(shared.lay_out(session, place, &filings.collect::<Vec<_>>()).await?);
        }
        // Only one that is alone has something to take away.
        let old = self.entrants.iter().filter_map(|entrant| entrant.old.as_ref()).flat_map(|old| &old.signatures);
        let from: Vec<_> = old.flat_map(SignatureDocument::places).collect();
        shared.move_entries(session, place.number, &first.id, &from, &signatures).await?;
        let replace = self.entrants.iter().any(|entrant| entrant.old.is_some());
        shared.put_signatures(session, place.number, &signatures, replace).await
    }

    async fn put_verdicts(
        &self,
        session: &mut ClientSession,
        place: Place,
        seqs: &[Seq],
        conclusions: &[Conclusion],
    ) -> Result<()> {
        let mut statements = Vec::with_capacity(seqs.len());
        for ((entrant, seq), conclusion) in self.entrants.iter().zip(seqs).zip(conclusions) {
            let content = verdict_content(*seq, &conclusion.verdict, conclusion.original())?;
            let key = record_key(place.number, &entrant.registration.id);
            statements.push(doc! { "q": { "_id": key }, "u": { "$set": content } });
        }
        // A duplicate key means here that another instance gave the same seq at the same microsecond: a conflict.
        self.shared.update(session, RECORDS, statements).await
    }
}

fn blank_record(entrant: &Entrant, place: Place, seq: Seq) -> StoreResult<Document> {
    let registration = &entrant.registration;
    let mut document = doc! { "_id": record_key(place.number, &registration.id) };
    let row = registration.row.json();
    document.extend(record_content(place.generation, &registration.signed, row, &registration.now));
    document.extend(verdict_content(seq, &documents::blank_verdict(), None)?);
    Ok(document)
}

fn stored(entrant: &Entrant, seq: Seq, conclusion: Conclusion) -> StoredRecord {
    let duplicate_of_seq = conclusion.original();
    let registration = &entrant.registration;
    StoredRecord {
        id: registration.id.clone(),
        seq,
        row: registration.row.json().clone(),
        digest: registration.signed.digest,
        digest_generation: registration.generation,
        verdict: conclusion.verdict,
        duplicate_of_seq,
        stored_at: registration.now.clone(),
    }
}
