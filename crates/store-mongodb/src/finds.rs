//! Several finds in one command.
//!
//! What a registration must know lies in several collections, and a round trip for each would be most of the time that it takes. So a
//! replica set is asked with one aggregation that joins what is found to one document. Joining costs the server about as much again
//! for each document; for many of them a round trip each is cheaper. Transactions of clusters do not join sharded collections: these
//! are asked one find after the other.

use mongodb::ClientSession;
use mongodb::bson::{Document, RawBsonRef, RawDocumentBuf, doc};

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
}

impl Find {
    /// At most `limit` of the documents in `collection` that `filter` finds; of each what `projection` says.
    pub(super) fn new(collection: &'static str, filter: Document, projection: Document, limit: usize) -> Self {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Self { collection, filter, projection, sort: Document::new(), limit }
    }

    /// The first in this order.
    pub(super) fn sorted(self, sort: Document) -> Self {
        Self { sort, ..self }
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
    /// What each of `finds` finds; nothing for one that is not there. One round trip if there is any, on a cluster one for each.
    pub(super) async fn find_those<const N: usize>(
        &self,
        session: &mut ClientSession,
        finds: [Option<Find>; N],
    ) -> Result<[Vec<RawDocumentBuf>; N], TxnError> {
        let is_there = finds.each_ref().map(Option::is_some);
        let mut found = self.find_all(session, finds.into_iter().flatten().collect()).await?.into_iter();
        Ok(is_there.map(|is_there| if is_there { found.next().unwrap_or_default() } else { Vec::new() }))
    }

    /// As [`Shared::find_those`], with a round trip for each.
    pub(super) async fn find_apart<const N: usize>(
        &self,
        session: &mut ClientSession,
        finds: [Option<Find>; N],
    ) -> Result<[Vec<RawDocumentBuf>; N], TxnError> {
        let mut all = [const { Vec::new() }; N];
        for (find, found) in finds.into_iter().zip(&mut all) {
            if let Some(find) = find {
                *found = self.find_one_by_one(session, find).await?;
            }
        }
        Ok(all)
    }

    /// What each of `finds` finds, in their order. One round trip, on a cluster one for each; none for no finds.
    pub(super) async fn find_all(
        &self,
        session: &mut ClientSession,
        finds: Vec<Find>,
    ) -> Result<Vec<Vec<RawDocumentBuf>>, TxnError> {
        let number = finds.len();
        let mut all = Vec::with_capacity(number);
        if number <= 1 || self.topology != Topology::ReplicaSet || !self.options.joins {
            for find in finds {
                all.push(self.find_one_by_one(session, find).await?);
            }
            return Ok(all);
        }
        let name = |at: usize| format!("f{at}");
        // Joined to one document, whichever it is.
        let one = [doc! { "$limit": 1 }, doc! { "$project": { "_id": 1 } }];
        let joins = finds.into_iter().enumerate().map(|(at, find)| find.joined(&name(at)));
        let asked = self.in_session(COLLECTIONS);
        let asked = asked.aggregate(one.into_iter().chain(joins)).session(&mut *session);
        let mut cursor = asked.with_type::<RawDocumentBuf>().await?;
        let joined = next(&mut cursor, session).await?.unwrap_or_default();
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

    async fn find_one_by_one(&self, session: &mut ClientSession, find: Find) -> Result<Vec<RawDocumentBuf>, TxnError> {
        let Find { collection, filter, projection, sort, limit } = find;
        let documents = self.in_session(collection);
        let asked = documents.find(filter).projection(projection).limit(limit).batch_size(BATCH);
        let asked = if sort.is_empty() { asked } else { asked.sort(sort) };
        let mut cursor = asked.session(&mut *session).await?;
        let mut found = Vec::new();
        while let Some(document) = next(&mut cursor, session).await? {
            found.push(document);
        }
        Ok(found)
    }
}
