//! Decisions: one document a pair, with all its rulings.
//!
//! A change takes the collection's latch, so that it has its place in the order of commits, and none is written under the number of
//! a collection that was dropped and made again.

use std::collections::{BTreeMap, HashMap, HashSet};

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::{Document, doc};
use mongodb::options::ReturnDocument;

use super::documents::{
    CHANGES, COLLECTIONS, DECISIONS, Number, damaged, decision_key, decode_decision, encode_change, encode_ruling,
    naming_first, naming_second, seq_value,
};
use super::retry::{End, TxnError, Work, check_reply};
use super::{MongoStore, Shared, server};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::changes::{LoggedChange, LoggedKind};
use doppel_store::decisions::{Decision, Decisions, Judgement, RecordPair, Ruling, check_rulings};
use doppel_store::{Registration, Result, Seq};

#[async_trait]
impl Decisions for MongoStore {
    async fn decide(&self, name: &CollectionName, pair: RecordPair, ruling: Ruling) -> Result<Decision> {
        let (shared, name) = (self.shared.clone(), name.clone());
        let deciding = async move {
            let number = shared.known(&name).await?.number;
            let mut work = Deciding { shared: &shared, name: &name, number, pair: &pair, ruling };
            let done = shared.transact_queued(number, &mut work).await;
            shared.cache.forget(&name);
            let (decision, last) = done?;
            shared.counts.committed(number, last, 1, 0);
            Ok(decision)
        };
        self.detached(deciding).await
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
        // By their keys: where `id` is the higher one, the other comes first, and is the lower one.
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
        let (shared, name) = (self.shared.clone(), name.clone());
        let putting = async move {
            let number = shared.known(&name).await?.number;
            let mut work = Putting { shared: &shared, name: &name, number, decision: &decision };
            let done = shared.transact_queued(number, &mut work).await;
            shared.cache.forget(&name);
            shared.counts.committed(number, done?, 1, 0);
            Ok(())
        };
        self.detached(putting).await
    }
}

impl Shared {
    /// Decisions in order of pairs.
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

    /// Those of `registrations` that rest on decisions of which one was changed, by their ids. One round trip.
    pub(super) async fn overruled(
        &self,
        session: &mut ClientSession,
        number: Number,
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
            let (a, b) = (decision.pair.a(), decision.pair.b());
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

    /// Takes the latch for a change of a decision, notes that as the last one, and logs it; the number of
    /// the commit.
    async fn latch_decisions(
        &self,
        session: &mut ClientSession,
        (name, number): (&CollectionName, Number),
        pair: &RecordPair,
        judgement: Judgement,
    ) -> std::result::Result<Seq, TxnError> {
        let last = self.latch(session, name, number).await?.commits;
        self.note_decision(session, name, last).await?;
        let kind = LoggedKind::Decided { other: pair.b().clone(), judgement };
        let logged = encode_change(number, &LoggedChange { number: last, id: pair.a().clone(), kind })?;
        self.insert(session, CHANGES, &[logged]).await?;
        Ok(last)
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

    /// Removes all decisions that name one of `ids`, by the commit `last`. One round trip, and one more where there were any.
    pub(super) async fn forget_decisions(
        &self,
        session: &mut ClientSession,
        (name, number): (&CollectionName, Number),
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

/// Adds a ruling.
struct Deciding<'a> {
    shared: &'a Shared,
    name: &'a CollectionName,
    number: Number,
    pair: &'a RecordPair,
    ruling: Ruling,
}

#[async_trait]
impl Work for Deciding<'_> {
    /// With the number of the commit.
    type Answer = (Decision, Seq);

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<End<(Decision, Seq)>, TxnError> {
        let Self { shared, name, number, pair, ruling } = self;
        let last = shared.latch_decisions(session, (name, *number), pair, ruling.judgement).await?;
        let key = doc! { "_id": decision_key(*number, pair) };
        let decisions = shared.documents(DECISIONS);
        let change = doc! { "$push": { "rulings": encode_ruling(ruling) } };
        let changed = decisions.find_one_and_update(key, change).upsert(true).return_document(ReturnDocument::After);
        let decided = match changed.session(&mut *session).await {
            Ok(Some(document)) => decode_decision(&document)?,
            Ok(None) => return Err(damaged("a ruling left no decision").into()),
            Err(error) => return Err(error.into()),
        };
        check_rulings(decided.rulings.len() - 1)?;
        Ok(End::Commit((decided, last)))
    }
}

/// Puts a whole decision.
struct Putting<'a> {
    shared: &'a Shared,
    name: &'a CollectionName,
    number: Number,
    decision: &'a Decision,
}

#[async_trait]
impl Work for Putting<'_> {
    /// The number of the commit.
    type Answer = Seq;

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<End<Seq>, TxnError> {
        let Self { shared, name, number, decision: Decision { pair, rulings } } = self;
        let judgement = rulings.last().map_or(Judgement::Withdrawn, |ruling| ruling.judgement);
        let last = shared.latch_decisions(session, (name, *number), pair, judgement).await?;
        let key = doc! { "_id": decision_key(*number, pair) };
        let decisions = shared.documents(DECISIONS);
        let rulings: Vec<Document> = rulings.iter().map(encode_ruling).collect();
        let put = decisions.update_one(key, doc! { "$set": { "rulings": rulings } }).upsert(true);
        match put.session(&mut *session).await {
            Ok(_) => Ok(End::Commit(last)),
            Err(error) => Err(error.into()),
        }
    }
}
