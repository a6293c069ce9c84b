//! Several finds in one command.
//!
//! What a registration must know lies in several collections, and a round trip for each would be most of the time that it takes. So a
//! replica set is asked with one aggregation that joins what is found to one document. Joining costs the server about as much again
//! for each document; for many of them a round trip each is cheaper. Transactions of clusters do not join sharded collections: these
//! are asked one find after the other.

use mongodb::ClientSession;
use mongodb::bson::{Document, RawBsonRef, RawDocumentBuf, doc};
use mongodb::options::Hint;

use super::Shared;
use super::documents::{COLLECTIONS, damaged};
use super::read::next;
use super::retry::TxnError;
use super::server::Topology;

/// Documents of one reply of a find. It ends at 16 MB anyway.
const BATCH: u32 = 10_000;

/// A find of bounded size: finds that share a command must stay below the 16 MB of a document together.
#[derive(Clone, Debug)]
pub(super) struct Find {
    collection: &'static str,
    filter: Document,
    projection: Document,
    /// What it finds comes in this order; in none if it is empty.
    sort: Document,
    limit: i64,
    /// The index to use.
    index: Option<&'static str>,
}

impl Find {
    /// At most `limit` of the documents in `collection` that `filter` finds; of each what `projection` says.
    pub(super) fn new(collection: &'static str, filter: Document, projection: Document, limit: usize) -> Self {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Self { collection, filter, projection, sort: Document::new(), limit, index: None }
    }

    /// The first in this order.
    pub(super) fn sorted(self, sort: Document) -> Self {
        Self { sort, ..self }
    }

    /// By this index, where it is a command of its own. Where several would do, the server tries them all, again and again if what is
    /// asked differs much in size.
    pub(super) fn by(self, index: &'static str) -> Self {
        Self { index: Some(index), ..self }
    }

    /// A stage that joins what it finds, as `name`.
    fn joined(self, name: &str) -> Document {
        let mut stages = vec![doc! { "$match": self.filter }];
        if !self.sort.is_empty() {
            stages.push(doc! { "$sort": self.sort });
        }
        stages.extend([doc! { "$limit": self.limit }, doc! { "$project": self.projection }]);
        doc! { "$lookup": { "from": self.collection, "as": name, "pipeline": stages } }
    }
}

impl Shared {
    /// What each of `finds` finds, in their order. One round trip, on a cluster one for each; none for no finds.
    pub(super) async fn find_all(
        &self,
        session: &mut ClientSession,
        finds: Vec<Find>,
    ) -> Result<Vec<Vec<RawDocumentBuf>>, TxnError> {
        let number = finds.len();
        if number <= 1 || self.topology != Topology::ReplicaSet || !self.options.joins {
            return self.find_apart(session, finds).await;
        }
        let name = |at: usize| format!("f{at}");
        // Joined to one document, whichever it is.
        let one = [doc! { "$limit": 1 }, doc! { "$project": { "_id": 1 } }];
        let joins = finds.into_iter().enumerate().map(|(at, find)| find.joined(&name(at)));
        let asked = self.in_session(COLLECTIONS);
        let asked = asked.aggregate(one.into_iter().chain(joins)).session(&mut *session);
        let mut cursor = asked.with_type::<RawDocumentBuf>().await?;
        let joined = next(&mut cursor, session).await?.unwrap_or_default();
        let mut all = Vec::with_capacity(number);
        for at in 0..number {
            let Some(RawBsonRef::Array(found)) = joined.get(name(at)).map_err(damaged)? else {
                all.push(Vec::new());
                continue;
            };
            let found = found.into_iter().map(|found| {
                let found = found.map_err(damaged)?.as_document().map(ToOwned::to_owned);
                found.ok_or_else(|| damaged("what was joined is not a document"))
            });
            all.push(found.collect::<doppel_store::Result<_>>()?);
        }
        Ok(all)
    }

    /// As [`Shared::find_all`], with a round trip for each.
    pub(super) async fn find_apart(
        &self,
        session: &mut ClientSession,
        finds: Vec<Find>,
    ) -> Result<Vec<Vec<RawDocumentBuf>>, TxnError> {
        let mut all = Vec::with_capacity(finds.len());
        for find in finds {
            all.push(self.find_one_by_one(session, find).await?);
        }
        Ok(all)
    }

    async fn find_one_by_one(&self, session: &mut ClientSession, find: Find) -> Result<Vec<RawDocumentBuf>, TxnError> {
        let Find { collection, filter, projection, sort, limit, index } = find;
        let documents = self.in_session(collection);
        let asked = documents.find(filter).projection(projection).limit(limit).batch_size(BATCH);
        let asked = if sort.is_empty() { asked } else { asked.sort(sort) };
        let asked = if let Some(index) = index { asked.hint(Hint::Name(index.into())) } else { asked };
        let mut cursor = asked.session(&mut *session).await?;
        let mut found = Vec::new();
        while let Some(document) = next(&mut cursor, session).await? {
            found.push(document);
        }
        Ok(found)
    }
}
