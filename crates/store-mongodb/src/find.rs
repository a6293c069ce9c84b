//! Lookups that store nothing. Each lookup reads the index and the texts in one snapshot.

use std::time::Instant;

use mongodb::ClientSession;
use mongodb::bson::{Document, doc};
use mongodb::options::SessionOptions;
use serde::Deserialize;

use super::SharedStore;
use super::documents::{RECORDS, RecordDocument, damaged, seq_of};
use super::full_lists::KnownLists;
use super::postings::{FiledPostings, PostingQuery};
use super::propose::{JudgeContext, ProposedHits, RecordSeqs, RecordSignatures, RecordTexts, dismiss};
use super::read::{BucketContents, BucketQuery, CollectionPointer, GenerationKey};
use super::retry::TxnError;
use doppel_core::collection::{ChannelPosition, CollectionName, SimhashChannel};
use doppel_core::index::ProposalOrder;
use doppel_core::record::RecordId;
use doppel_store::rules::plan::check_live;
use doppel_store::stages::{RegistrationStage, StageSpan};
use doppel_store::{CandidateJudge, LookupEnd, LookupQuery, LookupResult, Result, Seq, StoreError, StoredRecord};

/// Number of texts that are read at once if any one match is enough.
const FIRST_TEXTS: usize = 16;

/// A lookup whose candidates are judged.
#[derive(Clone, Copy)]
struct JudgedLookup<'a> {
    place: GenerationKey,
    query: &'a LookupQuery,
    judge: &'a dyn CandidateJudge,
    until: LookupEnd,
}
impl SharedStore {
    pub(super) async fn find(
        &self,
        query: &LookupQuery,
        judge: &dyn CandidateJudge,
        until: LookupEnd,
    ) -> Result<LookupResult> {
        let known = self.known(&query.collection).await?;
        let place = GenerationKey {
            number: known.number,
            generation: query.generation,
            order: ProposalOrder::of(&known.state.settings),
        };
        let found = self.read(self.deadline(), || self.look_up(query, place, judge, until)).await;
        if matches!(found, Err(StoreError::StaleGeneration { .. } | StoreError::UnknownCollection(_))) {
            self.cache.forget(&query.collection);
        }
        if matches!(found, Err(StoreError::UnknownCollection(_))) {
            self.full_lists.forget_all(known.number);
        }
        found
    }

    async fn look_up(
        &self,
        query: &LookupQuery,
        place: GenerationKey,
        judge: &dyn CandidateJudge,
        until: LookupEnd,
    ) -> std::result::Result<LookupResult, TxnError> {
        let began = Instant::now();
        let mut session = self.snapshot().await?;
        let session = &mut session;
        let keys = query.signed.as_ref().map_or(&[][..], |signed| &signed.keys);
        let mut question = PostingQuery::default();
        question.add(query.digest.as_ref(), keys);
        let known = self.full_lists.known(place, question.keys());
        let mut answer = KnownLists::answer(known.as_ref(), &mut question);
        let (centre, within) = query.hamming.map(|hamming| (hamming.centre, hamming.within)).unzip();
        let SimhashChannel { position, radius } = within.unwrap_or_default();
        let around = BucketQuery::around(&[centre], radius);
        let mut finds = question.finds(place);
        let lists = finds.len();
        finds.push(CollectionPointer::find(&query.collection));
        finds.extend(known.as_ref().map(|known| known.find(place.number)));
        if until != LookupEnd::FirstMatch {
            // If the digest has a match, the blocks are not needed.
            finds.extend(around.find(place));
        }
        let mut found = self.find_all(session, finds).await?;
        let mut others = found.split_off(lists).into_iter();
        let pointer = CollectionPointer::found(&others.next().unwrap_or_default())?;
        let taken = if known.is_some() { others.next() } else { None };
        let pages = others.next();
        let pointer = pointer.filter(|pointer| pointer.number == place.number);
        let pointer = pointer.ok_or_else(|| StoreError::UnknownCollection(query.collection.clone()))?;
        check_live(place.generation, pointer.generation)?;
        answer.extend(self.filed(session, place, &question, found).await?);
        if let (Some(known), Some(taken)) = (&known, taken) {
            self.check_known(session, place, known, &pointer, &taken, &mut answer).await?;
        }
        self.full_lists.keep(place, known.as_ref(), pointer.commits, answer.lists());
        let lookup = JudgedLookup { place, query, judge, until };
        let filed = answer.of(query.digest.as_ref(), keys);
        if until == LookupEnd::FirstMatch && !filed.digest.is_empty() {
            let exact = FiledPostings { digest: filed.digest, order: filed.order, ..FiledPostings::default() };
            let hits = ProposedHits::gather(exact, &[], BucketContents::default(), ChannelPosition::default());
            let found = self.judge_hits(session, lookup, hits, &[], began).await?;
            if !found.matches.is_empty() {
                return Ok(found);
            }
        }
        let began = if until == LookupEnd::FirstMatch { Instant::now() } else { began };
        let buckets = self.buckets(session, place, &around, pages).await?.pop().unwrap_or_default();
        let hits = ProposedHits::gather(filed, keys, buckets, position);
        self.judge_hits(session, lookup, hits, &query.confirmed, began).await
    }

    /// Reads and judges the candidates `hits`. `began` is the time at which the search for them began.
    async fn judge_hits(
        &self,
        session: &mut ClientSession,
        lookup: JudgedLookup<'_>,
        mut hits: ProposedHits,
        confirmed: &[RecordId],
        began: Instant,
    ) -> std::result::Result<LookupResult, TxnError> {
        let JudgedLookup { place, query, judge, until } = lookup;
        let mut texts = RecordTexts::new();
        self.learn(session, place, std::slice::from_mut(&mut hits), &mut texts, &mut RecordSeqs::new()).await?;
        // A majority has confirmed all records of the snapshot, so that no seq changes its content.
        let mut ranked = hits.ranked(confirmed, query.except.as_ref());
        let context = JudgeContext { judge, immutable: Seq::MAX };
        dismiss(&mut ranked.items, context);
        let proposed = StageSpan::since(began);
        judge.took(RegistrationStage::Propose, proposed);
        let mut signatures = RecordSignatures::new();
        let mut found = LookupResult { matches: Vec::new(), truncated: ranked.truncated };
        let at_once = if until == LookupEnd::FirstMatch { FIRST_TEXTS } else { ranked.items.len().max(1) };
        for items in ranked.items.chunks(at_once) {
            let judged = self.judged(session, place, items, &mut texts, &mut signatures, context).await?;
            found.matches.extend(judged);
            if until == LookupEnd::FirstMatch && !found.matches.is_empty() {
                found.matches.truncate(1);
                break;
            }
        }
        judge.took(RegistrationStage::Verify, StageSpan::since(proposed.ended));
        Ok(found)
    }

    /// Starts a session whose reads all show the same moment.
    pub(super) async fn snapshot(&self) -> std::result::Result<ClientSession, TxnError> {
        let options = SessionOptions::builder().snapshot(true).build();
        Ok(self.client.start_session().with_options(options).await?)
    }

    pub(super) async fn record(&self, name: &CollectionName, id: &RecordId) -> Result<Option<StoredRecord>> {
        let number = self.known(name).await?.number;
        let stored = self.read(self.deadline(), || self.stored(number, id)).await?;
        Ok(stored.map(|stored| stored.record))
    }

    pub(super) async fn records(&self, name: &CollectionName, after: Seq, limit: usize) -> Result<Vec<StoredRecord>> {
        let (Ok(after), true) = (i64::try_from(after.0), limit > 0) else { return Ok(Vec::new()) };
        self.in_order(name, doc! { "$gt": after }, i64::try_from(limit).unwrap_or(i64::MAX)).await
    }

    pub(super) async fn records_at(&self, name: &CollectionName, seqs: &[Seq]) -> Result<Vec<StoredRecord>> {
        let seqs: Vec<i64> = seqs.iter().filter_map(|seq| i64::try_from(seq.0).ok()).collect();
        if seqs.is_empty() { Ok(Vec::new()) } else { self.in_order(name, doc! { "$in": seqs }, 0).await }
    }

    /// Returns the seqs of this list under which records are stored, ascending. It only reads the index of seqs.
    pub(super) async fn stored_seqs(&self, name: &CollectionName, seqs: &[Seq]) -> Result<Vec<Seq>> {
        #[derive(Deserialize)]
        struct StoredSeq {
            seq: i64,
        }
        let seqs: Vec<i64> = seqs.iter().filter_map(|seq| i64::try_from(seq.0).ok()).collect();
        if seqs.is_empty() {
            return Ok(Vec::new());
        }
        let number = self.known(name).await?.number;
        let reading = self.read(self.deadline(), || async {
            let records = self.raw(RECORDS);
            let asked = records.find(doc! { "_id.c": number, "seq": { "$in": &seqs } }).sort(doc! { "seq": 1 });
            let mut cursor = asked.projection(doc! { "_id": 0, "seq": 1 }).await?;
            let mut found = Vec::new();
            while cursor.advance().await? {
                let read: StoredSeq =
                    mongodb::bson::deserialize_from_slice(cursor.current().as_bytes()).map_err(damaged)?;
                found.push(seq_of(read.seq));
            }
            Ok(found)
        });
        reading.await
    }

    /// Reads records whose seq matches `which`, in the order of seqs; at most `limit` records, unless `limit` is 0.
    async fn in_order(&self, name: &CollectionName, which: Document, limit: i64) -> Result<Vec<StoredRecord>> {
        let number = self.known(name).await?.number;
        let reading = self.read(self.deadline(), || async {
            let filter = doc! { "_id.c": number, "seq": which.clone() };
            let records = self.raw(RECORDS);
            let mut cursor = records.find(filter).sort(doc! { "seq": 1 }).limit(limit).await?;
            let mut found = Vec::new();
            while cursor.advance().await? {
                found.push(RecordDocument::decode(cursor.current())?.record);
            }
            Ok(found)
        });
        reading.await
    }
}
