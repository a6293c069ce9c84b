//! Decisions: one document a pair, with all its rulings.
//!
//! A change reads the collection's number in its own transaction, so that none is written under the number of a collection
//! that was dropped and made again.

use async_trait::async_trait;
use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::ReturnDocument;

use super::documents::{
    COLLECTIONS, DECISIONS, Number, damaged, decision_key, decode_decision, encode_ruling, naming_first, naming_second,
};
use super::retry::{End, Trouble, Work, check_reply, is_duplicate_key};
use super::{MongoStore, Shared};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::decisions::{Decision, Decisions, RecordPair, Ruling, check_rulings};
use doppel_store::{Result, StoreError};

#[async_trait]
impl Decisions for MongoStore {
    async fn decide(&self, name: &CollectionName, pair: RecordPair, ruling: Ruling) -> Result<Decision> {
        let (shared, name) = (self.shared.clone(), name.clone());
        let deciding = async move {
            let mut work = Deciding { shared: &shared, name: &name, pair: &pair, ruling: encode_ruling(&ruling) };
            shared.retry.transact(&shared.client, shared.deadline(), &mut work).await
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

    async fn decisions_of(&self, name: &CollectionName, id: &RecordId) -> Result<Vec<Decision>> {
        let number = self.shared.known(name).await?.number;
        // Lower ids first: where `id` is the higher one, the other comes before it.
        let mut found = self.shared.decisions(naming_second(number, id), None).await?;
        found.extend(self.shared.decisions(naming_first(number, id), None).await?);
        Ok(found)
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
            let rulings = decision.rulings.iter().map(encode_ruling).map(Bson::from).collect();
            let mut work = Putting { shared: &shared, name: &name, pair: &decision.pair, rulings };
            shared.retry.transact(&shared.client, shared.deadline(), &mut work).await
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

    /// The number of a collection as the transaction sees it.
    pub(super) async fn number_in(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
    ) -> std::result::Result<Number, Trouble> {
        let collections = self.documents(COLLECTIONS);
        let found = collections.find_one(doc! { "_id": name.as_str() }).projection(doc! { "number": 1 });
        match found.session(&mut *session).await? {
            Some(found) => Ok(found.get_i32("number").map_err(damaged)?),
            None => Err(StoreError::UnknownCollection(name.clone()).into()),
        }
    }

    /// Removes all decisions that name `id`. One round trip.
    pub(super) async fn forget_decisions(
        &self,
        session: &mut ClientSession,
        number: Number,
        id: &RecordId,
    ) -> std::result::Result<(), Trouble> {
        let filters = [naming_first(number, id), naming_second(number, id)];
        let deletes: Vec<Document> = filters.map(|filter| doc! { "q": filter, "limit": 0 }).into();
        let command = doc! { "delete": DECISIONS, "deletes": deletes };
        check_reply(&self.database.run_command(command).session(&mut *session).await?)
    }
}

/// Adds a ruling.
struct Deciding<'a> {
    shared: &'a Shared,
    name: &'a CollectionName,
    pair: &'a RecordPair,
    ruling: Document,
}

#[async_trait]
impl Work for Deciding<'_> {
    type Answer = Decision;

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<End<Decision>, Trouble> {
        let Self { shared, name, pair, ruling } = self;
        let key = doc! { "_id": decision_key(shared.number_in(session, name).await?, pair) };
        let decisions = shared.documents(DECISIONS);
        let change = doc! { "$push": { "rulings": ruling.clone() } };
        let changed = decisions.find_one_and_update(key, change).upsert(true).return_document(ReturnDocument::After);
        let decided = match changed.session(&mut *session).await {
            Ok(Some(document)) => decode_decision(&document)?,
            Ok(None) => return Err(damaged("a ruling left no decision").into()),
            // Another ruled about the same pair for the first time.
            Err(error) if is_duplicate_key(&error) => return Err(Trouble::Changed),
            Err(error) => return Err(error.into()),
        };
        check_rulings(decided.rulings.len() - 1)?;
        Ok(End::Commit(decided))
    }
}

/// Puts a whole decision.
struct Putting<'a> {
    shared: &'a Shared,
    name: &'a CollectionName,
    pair: &'a RecordPair,
    rulings: Vec<Bson>,
}

#[async_trait]
impl Work for Putting<'_> {
    type Answer = ();

    async fn attempt(&mut self, session: &mut ClientSession) -> std::result::Result<End<()>, Trouble> {
        let Self { shared, name, pair, rulings } = self;
        let key = doc! { "_id": decision_key(shared.number_in(session, name).await?, pair) };
        let decisions = shared.documents(DECISIONS);
        let put = decisions.update_one(key, doc! { "$set": { "rulings": &*rulings } }).upsert(true);
        match put.session(&mut *session).await {
            Ok(_) => Ok(End::Commit(())),
            Err(error) if is_duplicate_key(&error) => Err(Trouble::Changed),
            Err(error) => Err(error.into()),
        }
    }
}
