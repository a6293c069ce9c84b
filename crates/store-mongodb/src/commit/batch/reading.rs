//! The reads of a batch before it judges: the records with the ids, the postings of the members, and the texts and signatures of the
//! candidates that must be judged. A small batch reads everything at once, as if all members had to be judged; a large batch first reads
//! the stored records.

use std::collections::HashSet;
use std::time::Instant;

use hashbrown::HashMap;
use mongodb::ClientSession;
use mongodb::bson::{Bson, doc};

use super::{BatchRound, TxnResult, ranked};
use crate::commit::plan::{MemberPlan, StoredVersion};
use crate::commit::preceding::PrecedingMembers;
use crate::commit::{RecordChange, ahead};
use crate::documents::{
    COLLECTIONS, CollectionDocument, RECORDS, RecordDocument, SIGNATURES, SignatureDocument, signature_key,
};
use crate::finds::BoundedFind;
use crate::full_lists::KnownLists;
use crate::posting_cache::CommitsBehind;
use crate::postings::{PostingAnswer, PostingQuery};
use crate::propose::{JudgeContext, dismiss, judge_together, on_all_cores};
use crate::read::{BucketContents, BucketQuery, CollectionPointer, GenerationKey, among, next};
use doppel_core::collection::Retention;
use doppel_core::index::ProposalOrder;
use doppel_core::record::{MAX_ID_BYTES, RecordId};
use doppel_core::schemes::profile::Signed;
use doppel_store::{GenerationId, Registration};

/// Largest number of members of a batch that reads everything at once. Members that are stored already are then read in vain, which
/// costs less than another round trip.
pub(super) const READ_AT_ONCE: usize = 16;

/// Largest number of members that one thread judges alone.
const ONE_THREAD: usize = 4;

/// The postings and buckets of the members.
pub(super) struct BatchReads {
    pub(super) answer: PostingAnswer,
    /// In the order of the members.
    buckets: Vec<BucketContents>,
}

impl BatchRound<'_> {
    /// Starts to read the lists that the waiting changes need and the cache will not contain; lists of the latest records are not
    /// cached. It starts only once, even if the
    /// batch is attempted several times.
    pub(super) fn read_ahead(&self, place: GenerationKey, behind: &CommitsBehind, answer: &PostingAnswer) {
        if self.reading.get().is_some() || place.order == ProposalOrder::LatestFirst {
            return;
        }
        let waiting = self.shared.commits.waiting(place.number);
        // A small batch reads its lists in one command with everything else.
        if waiting.len() <= READ_AT_ONCE {
            return;
        }
        let is_kept = matches!(behind, CommitsBehind::Filed(_));
        let mut question = PostingQuery::of(waiting.iter().filter_map(|member| Some(&*member.registration()?.signed)));
        question.leave_out(|key| (is_kept && self.cache.is_some_and(|cache| cache.has(key))) || answer.has(key));
        if !question.is_empty() {
            self.reading.get_or_init(|| ahead::start(self.shared, self.name, place, waiting, question));
        }
    }

    /// Returns the records about which people made decisions after their registrations began. One round trip if there was a
    /// decision, otherwise none.
    pub(super) async fn overruled(
        &self,
        session: &mut ClientSession,
        pointer: &CollectionPointer,
    ) -> TxnResult<HashSet<RecordId>> {
        let registrations = self.members.iter().filter_map(|member| member.registration());
        let outdated: Vec<&Registration> =
            registrations.filter(|it| it.decisions_as_of.is_some_and(|known| known < pointer.decided)).collect();
        match outdated.is_empty() {
            true => Ok(HashSet::new()),
            false => self.shared.overruled(session, pointer.number, &outdated).await,
        }
    }

    /// Returns the records that must not be removed, because a condition of the removal, apart from the version of the record, does not
    /// hold any more. No round trip if no removal has a condition; one round trip for a retention, and two for a duplicate of a kept
    /// record.
    pub(super) async fn forbidden(
        &self,
        session: &mut ClientSession,
        pointer: &CollectionPointer,
    ) -> TxnResult<HashSet<RecordId>> {
        let removals = self.members.iter().filter_map(|member| Some((member.id(), member.condition()?)));
        let mut forbidden = HashSet::new();
        let mut retention = None;
        for (id, condition) in removals {
            if condition.collection.0 != pointer.number as u32 {
                forbidden.insert(id.clone());
                continue;
            }
            if condition.retention.is_some() {
                if retention.is_none() {
                    retention = Some(self.retention(session).await?);
                }
                if retention != Some(condition.retention) {
                    forbidden.insert(id.clone());
                    continue;
                }
            }
            if let Some(kept) = &condition.kept
                && !self.shared.is_kept(session, pointer.number, id, kept).await?
            {
                forbidden.insert(id.clone());
            }
        }
        Ok(forbidden)
    }

    /// Reads the retention of the collection.
    async fn retention(&self, session: &mut ClientSession) -> TxnResult<Option<Retention>> {
        let collections = self.shared.documents(COLLECTIONS);
        let collection = collections.find_one(doc! { "_id": self.name.as_str() }).session(&mut *session).await?;
        let decoded = collection.map(|document| CollectionDocument::decode(&document)).transpose()?;
        Ok(decoded.and_then(|collection| collection.state.settings.retention))
    }

    /// Reads whether any of the records `ids` is stored, and the postings and buckets of the members with the signatures `signed`.
    /// One round trip for a small batch; for a large batch one for each kind of document, and more for keys that many records
    /// share.
    pub(super) async fn read(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        pointer: &CollectionPointer,
        ids: &[&str],
        signed: &[Option<&Signed>],
        behind: &CommitsBehind,
    ) -> TxnResult<(bool, BatchReads)> {
        let mut question = PostingQuery::of(signed.iter().copied().flatten());
        let mut answer = match (behind, self.cache) {
            (CommitsBehind::Filed(records), Some(cache)) => question.answer_from(|key| cache.get(key, records)),
            (CommitsBehind::Unknown, _) | (_, None) => PostingAnswer::default(),
        };
        let known = self.shared.full_lists.known(place, question.keys()).filter(|known| known.is_recent(pointer));
        answer.extend(KnownLists::answer(known.as_ref(), &mut question));
        let fingerprints: Vec<_> = signed.iter().map(|signed| signed.and_then(Signed::fingerprint)).collect();
        let around = BucketQuery::around(&fingerprints, self.simhash(place.generation).radius);
        let mut finds = question.finds(place);
        let lists = finds.len();
        let is_small = signed.len() <= READ_AT_ONCE;
        let known = known.filter(KnownLists::has_any);
        finds.extend(known.as_ref().map(|known| known.find(place.number)));
        let pages = if is_small { around.find(place) } else { None };
        let have_pages = pages.is_some();
        finds.extend(pages);
        if !ids.is_empty() {
            finds.push(BoundedFind::new(
                RECORDS,
                among(place.number, ids),
                doc! { "_id": 1 },
                ids.len(),
                MAX_ID_BYTES + 64,
            ));
        }
        let mut found = match is_small {
            true => self.shared.find_all(session, finds).await?,
            false => self.shared.find_apart(session, finds).await?,
        };
        let mut others = found.split_off(lists).into_iter();
        answer.extend(self.shared.filed(session, place, &question, found).await?);
        if let Some(known) = known {
            let taken = others.next().unwrap_or_default();
            self.shared.check_known(session, place, &known, pointer, &taken, &mut answer).await?;
        }
        let pages = if have_pages { others.next() } else { None };
        let buckets = self.shared.buckets(session, place, &around, pages).await?;
        let any_there = others.next().is_some_and(|there| !there.is_empty());
        Ok((any_there, BatchReads { answer, buckets }))
    }

    /// Reads the records that are stored under `ids`, with their signatures. Two round trips.
    pub(super) async fn old(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        others: &[GenerationId],
        ids: &[&str],
    ) -> TxnResult<HashMap<String, StoredVersion>> {
        let mut found = HashMap::new();
        let records = self.shared.in_session(RECORDS);
        let mut cursor = records.find(among(place.number, ids)).session(&mut *session).await?;
        while cursor.advance(session).await? {
            let record = RecordDocument::decode(cursor.current())?;
            found.insert(record.record.id.as_str().to_owned(), StoredVersion { record, signatures: Vec::new() });
        }
        let keys = found.values().flat_map(|old| {
            let generations = std::iter::once(&place.generation).chain(others);
            generations.map(|generation| Bson::from(signature_key(place.number, *generation, &old.record.record.id)))
        });
        let filter = doc! { "_id": { "$in": keys.collect::<Vec<_>>() } };
        let signatures = self.shared.in_session(SIGNATURES);
        let filed = signatures.find(filter).projection(doc! { "signed": 0, "pairs": 0 });
        let mut cursor = filed.session(&mut *session).await?;
        while let Some(signature) = next(&mut cursor, session).await? {
            let signature = SignatureDocument::decode(&signature)?;
            if let Some(old) = found.get_mut(signature.id.as_str()) {
                old.signatures.push(signature);
            }
        }
        Ok(found)
    }

    /// Reads the candidates of all members that must be judged, and judges them against the stored records. Returns the result, the
    /// buckets of each member in the order of the members, and the time at which the candidates were known. Two round trips for any
    /// size of the batch, and one more if a limit cuts a lookup or if judges compare signatures.
    pub(super) async fn look_up(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        plans: &[MemberPlan<'_>],
        signed: &[Option<&Signed>],
        BatchReads { answer, buckets }: BatchReads,
    ) -> TxnResult<(PrecedingMembers, Vec<BucketContents>, Instant)> {
        let simhash = self.simhash(place.generation);
        let mut earlier = PrecedingMembers::of(answer);
        buckets.iter().for_each(|buckets| earlier.highest.extend(&buckets.highest));
        // All texts that will be compared, except texts that the members themselves change.
        let asked: Vec<_> = signed.iter().zip(&buckets).filter_map(|(signed, own)| Some(((*signed)?, own))).collect();
        let mut hits = on_all_cores(&asked, ONE_THREAD, |(signed, own)| earlier.hits(signed, (*own).clone(), simhash));
        let mut texts = std::mem::take(&mut earlier.texts);
        self.shared.learn(session, place, &mut hits, &mut texts, &mut earlier.seqs).await?;
        let judges = self.members.iter().zip(plans).enumerate().filter_map(|(at, (member, plan))| {
            match (&member.change, plan) {
                (RecordChange::Register { registration, judge }, MemberPlan::Put(..)) => {
                    Some((at, registration, judge.as_ref()))
                }
                _ => None,
            }
        });
        let proposals: Vec<_> = hits.into_iter().zip(judges).collect();
        let filtered = on_all_cores(&proposals, ONE_THREAD, |(hits, (_, registration, judge))| {
            let mut items = ranked(hits, registration).items;
            let dismissed = dismiss(&mut items, JudgeContext { judge: *judge, immutable: self.confirmed });
            (items, dismissed)
        });
        let mut members = Vec::new();
        let mut asked = Vec::new();
        for ((items, dismissed), (_, (at, _, judge))) in filtered.into_iter().zip(&proposals) {
            dismissed.iter().for_each(|item| earlier.note(*at, item, None));
            members.extend(items.iter().map(|_| *at));
            asked.extend(items.into_iter().map(|item| (*judge, item)));
        }
        let proposed = Instant::now();
        let ids = asked.iter().map(|(_, item)| &*item.id);
        self.shared.read_texts(session, place, ids, &mut texts).await?;
        let signed = asked.iter().filter(|(judge, _)| judge.needs_signatures()).map(|(_, item)| &*item.id);
        self.shared.read_signatures(session, place, signed, &mut earlier.signatures).await?;
        let judged = judge_together(&asked, &texts, &earlier.signatures, self.confirmed);
        for ((at, (_, item)), judged) in members.into_iter().zip(&asked).zip(judged) {
            // A record without a stored text may be stored by a member.
            if texts.contains_key(&item.id) {
                earlier.note(at, item, judged);
            }
        }
        earlier.texts = texts;
        Ok((earlier, buckets, proposed))
    }
}
