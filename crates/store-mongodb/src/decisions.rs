//! Decisions: one document for each pair, with all its rulings.
//!
//! A change of a decision takes the latch of the collection. The change therefore has a place in the order of commits, and no
//! change uses the number of a collection that was dropped and created again.

use std::collections::{BTreeMap, HashMap, HashSet};

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::{Document, doc};

use super::documents::{
    CHANGES, COLLECTIONS, DECISIONS, RECORDS, RecordDocument, StoredNumber, damaged, decision_key, decode_decision,
    encode_change, encode_ruling, naming_first, naming_second, record_key, seq_of, seq_value,
};
use super::read::among;
use super::retry::{TransactionEnd, TransactionWork, TxnError, check_reply};
use super::{MongoStore, SharedStore, server};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::changes::{LoggedChange, LoggedKind};
use doppel_store::decisions::{Decision, DecisionStore, Judgement, RecordPair, Ruling, RulingOutcome, SeenState};
use doppel_store::rules::ruling::{PairSeqs, RulingPlan, plan};
use doppel_store::{KeptDuplicate, Registration, Result, Seq};

#[async_trait]
impl DecisionStore for MongoStore {
    async fn decide(
        &self,
        name: &CollectionName,
        pair: RecordPair,
        ruling: Ruling,
        seen: Option<SeenState>,
    ) -> Result<RulingOutcome> {
        let shared = self.shared.clone();
        let name = name.clone();
        let deciding = async move {
            let number = shared.known(&name).await?.number;
            let mut work = DecisionTransaction { shared: &shared, name: &name, number, pair: &pair, ruling, seen };
            let done = shared.transact_queued(number, &mut work).await;
            shared.cache.forget(&name);
            let (ruled, last) = done?;
            shared.counts.committed(number, last, 1, 0);
            Ok(ruled)
        };
        self.detached(deciding).await
    }

    async fn drop_orphaned_decision(&self, name: &CollectionName, pair: &RecordPair) -> Result<bool> {
        let shared = self.shared.clone();
        let name = name.clone();
        let pair = pair.clone();
        let dropping = async move {
            let number = shared.known(&name).await?.number;
            let mut work = DroppingOrphan { shared: &shared, name: &name, number, pair: &pair };
            let done = shared.transact_queued(number, &mut work).await;
            shared.cache.forget(&name);
            let (dropped, last) = done?;
            shared.counts.committed(number, last, 1, 0);
            Ok(dropped)
        };
        self.detached(dropping).await
    }

    async fn decision(&self, name: &CollectionName, pair: &RecordPair) -> Result<Option<Decision>> {
        let shared = &self.shared;
        let number = shared.known(name).await?.number;
        let found = shared.read(shared.deadline(), || async {
            Ok(shared.documents(DECISIONS).find_one(doc! { "_id": decision_key(number, pair) }).await?)
        });
        found.await?.as_ref().map(decode_decision).transpose()
    }

    async fn decisions_as_of(&self, name: &CollectionName) -> Result<Option<Seq>> {
        Ok(Some(self.shared.known(name).await?.decided))
    }

    async fn decisions_of(&self, name: &CollectionName, id: &RecordId) -> Result<Vec<Decision>> {
        let number = self.shared.known(name).await?.number;
        // Decisions are sorted by key. Decisions with `id` as the higher id come first, because their lower id is lower than `id`.
        let either = doc! { "$or": [naming_second(number, id), naming_first(number, id)] };
        self.shared.decisions(either, None).await
    }

    async fn decisions(
        &self,
        name: &CollectionName,
        after: Option<&RecordPair>,
        limit: usize,
    ) -> Result<Vec<Decision>> {
        let number = self.shared.known(name).await?.number;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let from = after.map_or_else(|| doc! { "c": number }, |pair| decision_key(number, pair));
        let filter = doc! { "_id": { "$gt": from, "$lt": { "c": number + 1 } } };
        self.shared.decisions(filter, Some(i64::try_from(limit).unwrap_or(i64::MAX))).await
    }

    async fn put_decision(&self, name: &CollectionName, decision: Decision) -> Result<()> {
        let shared = self.shared.clone();
        let name = name.clone();
        let putting = async move {
            let number = shared.known(&name).await?.number;
            let mut work = PutTransaction { shared: &shared, name: &name, number, decision: &decision };
            let done = shared.transact_queued(number, &mut work).await;
            shared.cache.forget(&name);
            shared.counts.committed(number, done?, 1, 0);
            Ok(())
        };
        self.detached(putting).await
    }
}

impl SharedStore {
    /// Reads decisions in the order of pairs.
    async fn decisions(&self, filter: Document, limit: Option<i64>) -> Result<Vec<Decision>> {
        let reading = self.read(self.deadline(), || async {
            let decisions = self.documents(DECISIONS);
            let listed = decisions.find(filter.clone()).sort(doc! { "_id": 1 });
            let mut cursor = match limit {
                Some(limit) => listed.limit(limit).await?,
                None => listed.await?,
            };
            let mut found = Vec::new();
            while cursor.advance().await? {
                found.push(decode_decision(&cursor.deserialize_current()?)?);
            }
            Ok(found)
        });
        reading.await
    }

    /// Returns the ids of the `registrations` that used decisions which were changed later. One round trip.
    pub(super) async fn overruled(
        &self,
        session: &mut ClientSession,
        number: StoredNumber,
        registrations: &[&Registration],
    ) -> std::result::Result<HashSet<RecordId>, TxnError> {
        let about = registrations.iter().flat_map(|it| [naming_first(number, &it.id), naming_second(number, &it.id)]);
        let about = doc! { "$or": about.collect::<Vec<_>>() };
        let mut cursor = self.in_session(DECISIONS).find(about).session(&mut *session).await?;
        let mut stand: HashMap<RecordId, BTreeMap<RecordId, bool>> = HashMap::new();
        while cursor.advance(session).await? {
            let decision: Document =
                mongodb::bson::deserialize_from_slice(cursor.current().as_bytes()).map_err(damaged)?;
            let decision = decode_decision(&decision)?;
            let Some(same) = decision.same() else { continue };
            let a = decision.pair.a();
            let b = decision.pair.b();
            stand.entry(a.clone()).or_default().insert(b.clone(), same);
            stand.entry(b.clone()).or_default().insert(a.clone(), same);
        }
        let none = BTreeMap::new();
        let overruled = registrations.iter().filter(|registration| {
            let confirmed = registration.confirmed.iter().map(|id| (id, &true));
            let known: BTreeMap<_, _> = confirmed.chain(registration.refused.iter().map(|id| (id, &false))).collect();
            !known.into_iter().eq(stand.get(&registration.id).unwrap_or(&none))
        });
        Ok(overruled.map(|registration| registration.id.clone()).collect())
    }

    /// True if the conditions for removing the record `id` as a duplicate still hold: the kept record and the decisions. Two round
    /// trips.
    pub(super) async fn is_kept(
        &self,
        session: &mut ClientSession,
        number: StoredNumber,
        id: &RecordId,
        kept: &KeptDuplicate,
    ) -> std::result::Result<bool, TxnError> {
        let key = doc! { "_id": record_key(number, &kept.id) };
        let stored = self.in_session(RECORDS).find_one(key).session(&mut *session).await?;
        let stored = stored.map(|raw| RecordDocument::decode(&raw)).transpose()?;
        let about = doc! { "$or": [naming_second(number, id), naming_first(number, id)] };
        let mut cursor = self.documents(DECISIONS).find(about).session(&mut *session).await?;
        let mut decisions = Vec::new();
        while cursor.advance(session).await? {
            decisions.push(decode_decision(&cursor.deserialize_current()?)?);
        }
        Ok(kept.holds(stored.as_ref().map(|stored| &stored.record), id, &decisions))
    }

    /// Reads the rulings about a pair and the seqs of its records. Two round trips.
    async fn ruled(
        &self,
        session: &mut ClientSession,
        number: StoredNumber,
        pair: &RecordPair,
    ) -> std::result::Result<(Vec<Ruling>, PairSeqs), TxnError> {
        let key = doc! { "_id": decision_key(number, pair) };
        let decision = self.documents(DECISIONS).find_one(key).session(&mut *session).await?;
        let rulings = decision.as_ref().map(decode_decision).transpose()?.map_or_else(Vec::new, |found| found.rulings);
        let ids = [pair.a(), pair.b()];
        let records = self.documents(RECORDS);
        let found = records.find(among(number, &ids.map(RecordId::as_str)));
        let mut cursor = found.projection(doc! { "_id": 1, "seq": 1 }).session(&mut *session).await?;
        let mut seqs = HashMap::new();
        while cursor.advance(session).await? {
            let found: Document = cursor.deserialize_current()?;
            let id = found.get_document("_id").and_then(|key| key.get_str("id")).map_err(damaged)?;
            seqs.insert(id.to_owned(), seq_of(found.get_i64("seq").map_err(damaged)?));
        }
        Ok((rulings, PairSeqs { a: seqs.get(pair.a().as_str()).copied(), b: seqs.get(pair.b().as_str()).copied() }))
    }

    /// Logs the change of a decision by the commit `last`, and notes this commit in the document of the collection. The caller has
    /// taken the latch.
    async fn log_decision(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        number: StoredNumber,
        pair: &RecordPair,
        judgement: Judgement,
        last: Seq,
    ) -> std::result::Result<(), TxnError> {
        self.note_decision(session, name, last).await?;
        let kind = LoggedKind::Decided { other: pair.b().clone(), judgement };
        let logged = encode_change(number, &LoggedChange { number: last, id: pair.a().clone(), kind })?;
        self.insert(session, CHANGES, &[logged]).await
    }

    async fn note_decision(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        last: Seq,
    ) -> std::result::Result<(), TxnError> {
        let noted = doc! { "$set": { "decided": seq_value(last) } };
        self.documents(COLLECTIONS).update_one(doc! { "_id": name.as_str() }, noted).session(&mut *session).await?;
        Ok(())
    }

    /// Deletes all decisions about the records `ids`, in the commit `last`. One round trip, and one more if there were decisions.
    pub(super) async fn forget_decisions(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        number: StoredNumber,
        ids: &[RecordId],
        last: Seq,
    ) -> std::result::Result<(), TxnError> {
        let filters = ids.iter().flat_map(|id| [naming_first(number, id), naming_second(number, id)]);
        let deletes: Vec<Document> = filters.map(|filter| doc! { "q": filter, "limit": 0 }).collect();
        let command = doc! { "delete": DECISIONS, "deletes": deletes };
        let reply = self.database.run_command(command).session(&mut *session).await?;
        check_reply(&reply)?;
        if server::whole(&reply, "n").unwrap_or(0) > 0 {
            self.note_decision(session, name, last).await?;
        }
        Ok(())
    }
}

/// The transaction that adds a ruling.
struct DecisionTransaction<'a> {
    shared: &'a SharedStore,
    name: &'a CollectionName,
    number: StoredNumber,
    pair: &'a RecordPair,
    ruling: Ruling,
    /// The state of the pair that the caller had seen.
    seen: Option<SeenState>,
}

#[async_trait]
impl TransactionWork for DecisionTransaction<'_> {
    /// The result, and the number of the commit.
    type Answer = (RulingOutcome, Seq);

    async fn attempt(
        &mut self,
        session: &mut ClientSession,
    ) -> std::result::Result<TransactionEnd<(RulingOutcome, Seq)>, TxnError> {
        let Self { shared, name, number, pair, ruling, seen } = self;
        // The latch is taken first, so that no other change of the collection is committed between the reads and this commit.
        let last = shared.latch(session, name, *number).await?.commits;
        let (mut rulings, stored) = shared.ruled(session, *number, pair).await?;
        let planned = plan(pair, &rulings, stored, ruling, *seen)?;
        if planned == RulingPlan::Add {
            shared.log_decision(session, name, *number, pair, ruling.judgement, last).await?;
            let key = doc! { "_id": decision_key(*number, pair) };
            let change = doc! { "$push": { "rulings": encode_ruling(ruling) } };
            let decisions = shared.documents(DECISIONS);
            let changed = decisions.update_one(key, change).upsert(true);
            changed.session(&mut *session).await?;
            rulings.push(ruling.clone());
        }
        let decision = Decision { pair: pair.clone(), rulings };
        // It commits even if nothing was added, because the results of the reads are certain only after a majority has confirmed a
        // later commit.
        Ok(TransactionEnd::Commit((planned.answer(decision), last)))
    }
}

/// The transaction that deletes a decision if one of its records does not exist.
struct DroppingOrphan<'a> {
    shared: &'a SharedStore,
    name: &'a CollectionName,
    number: StoredNumber,
    pair: &'a RecordPair,
}

#[async_trait]
impl TransactionWork for DroppingOrphan<'_> {
    /// True if a decision was deleted; and the number of the commit.
    type Answer = (bool, Seq);

    async fn attempt(
        &mut self,
        session: &mut ClientSession,
    ) -> std::result::Result<TransactionEnd<(bool, Seq)>, TxnError> {
        let Self { shared, name, number, pair } = self;
        let last = shared.latch(session, name, *number).await?.commits;
        let (rulings, stored) = shared.ruled(session, *number, pair).await?;
        let is_orphaned = !rulings.is_empty() && stored.missing(pair).is_some();
        if is_orphaned {
            shared.log_decision(session, name, *number, pair, Judgement::Withdrawn, last).await?;
            let key = doc! { "_id": decision_key(*number, pair) };
            shared.documents(DECISIONS).delete_one(key).session(&mut *session).await?;
        }
        Ok(TransactionEnd::Commit((is_orphaned, last)))
    }
}

/// The transaction that stores a whole decision.
struct PutTransaction<'a> {
    shared: &'a SharedStore,
    name: &'a CollectionName,
    number: StoredNumber,
    decision: &'a Decision,
}

#[async_trait]
impl TransactionWork for PutTransaction<'_> {
    /// The number of the commit.
    type Answer = Seq;

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<TransactionEnd<Seq>, TxnError> {
        let Self { shared, name, number, decision: Decision { pair, rulings } } = self;
        let judgement = rulings.last().map_or(Judgement::Withdrawn, |ruling| ruling.judgement);
        let last = shared.latch(session, name, *number).await?.commits;
        shared.log_decision(session, name, *number, pair, judgement, last).await?;
        let key = doc! { "_id": decision_key(*number, pair) };
        let decisions = shared.documents(DECISIONS);
        let rulings: Vec<Document> = rulings.iter().map(encode_ruling).collect();
        let put = decisions.update_one(key, doc! { "$set": { "rulings": rulings } }).upsert(true);
        match put.session(&mut *session).await {
            Ok(_) => Ok(TransactionEnd::Commit(last)),
            Err(error) => Err(error.into()),
        }
    }
}
