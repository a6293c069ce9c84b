//! Several finds in one command.
//!
//! What a registration must know lies in several collections, and a round trip for each would be most of the time that it takes. So a
//! replica set is asked with one aggregation that joins what is found to one document. Joining costs the server about as much again
//! for each document; for many of them a round trip each is cheaper. Transactions of clusters do not join sharded collections: these
//! are asked one find after the other.

use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use mongodb::options::Hint;

use super::Shared;
use super::documents::{COLLECTIONS, damaged};
use super::retry::TxnError;
use super::server::Topology;

/// Documents of one reply of a find. It ends at 16 MB anyway.
const BATCH: u32 = 10_000;
/// Bytes that finds of one command may find together, at worst: they come as one document, which ends at 16 MiB.
const MOST_BYTES: usize = 15 << 20;
/// Finds of one command: a pipeline has at most a thousand stages.
const MOST_FINDS: usize = 128;

/// A find of bounded size.
#[derive(Clone, Debug)]
pub(super) struct Find {
    collection: &'static str,
    filter: Document,
    projection: Document,
    /// Of an array, which may be of any length, only these values are joined.
    values: Option<(&'static str, Vec<Bson>)>,
    /// Bytes of one document as it is joined, at most.
    bytes: usize,
    /// What it finds comes in this order; in none if it is empty.
    sort: Document,
    limit: i64,
    /// The index to use.
    index: Option<&'static str>,
}

impl Find {
    /// At most `limit` of the documents in `collection` that `filter` finds, and that have at most so many bytes; of each what
    /// `projection` says.
    pub(super) fn new(
        collection: &'static str,
        filter: Document,
        projection: Document,
        (limit, bytes): (usize, usize),
    ) -> Self {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let (sort, values, index) = (Document::new(), None, None);
        Self { collection, filter, projection, values, bytes, sort, limit, index }
    }

    /// Where it is joined, of the array `field` only these values.
    pub(super) fn only(self, field: &'static str, values: Vec<Bson>) -> Self {
        Self { values: Some((field, values)), ..self }
    }

    /// Bytes of all that it finds, at most.
    fn most_bytes(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX).saturating_mul(self.bytes)
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
    fn joined(mut self, name: &str) -> Document {
        if let Some((field, values)) = self.values {
            let only = doc! { "input": format!("${field}"), "cond": { "$in": ["$$this", values] } };
            self.projection.insert(field, doc! { "$filter": only });
        }
        let mut stages = vec![doc! { "$match": self.filter }];
        if !self.sort.is_empty() {
            stages.push(doc! { "$sort": self.sort });
        }
        stages.extend([doc! { "$limit": self.limit }, doc! { "$project": self.projection }]);
        doc! { "$lookup": { "from": self.collection, "as": name, "pipeline": stages } }
    }
}

/// Documents that were found, one behind the other: there may be thousands.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    /// Whether they come in the order of the index that was named.
    by_index: bool,
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Whether they surely come in the order of the index that their find names: not where they were joined, which names none, nor
    /// from a cluster, whose servers each have an order of their own.
    pub(super) fn are_by_index(&self) -> bool {
        self.by_index
    }

    fn push(&mut self, row: &RawDocument) {
        self.bytes.extend_from_slice(row.as_bytes());
        self.ends.push(self.bytes.len());
    }

    #[cfg(test)]
    pub(super) fn made_up(documents: &[&Document], by_index: bool) -> Self {
        let mut rows = Self { by_index, ..Self::default() };
        documents.iter().for_each(|row| rows.push(&RawDocumentBuf::try_from(*row).expect("a row")));
        rows
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = doppel_store::Result<&RawDocument>> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(&start, &end)| RawDocument::from_bytes(&self.bytes[start..end]).map_err(damaged))
    }
}

impl Shared {
    /// What each of `finds` finds, in their order. One round trip, and more where all together could be larger than a document; on a
    /// cluster one for each; none for no finds.
    pub(super) async fn find_all(&self, session: &mut ClientSession, finds: Vec<Find>) -> Result<Vec<Rows>, TxnError> {
        if self.topology != Topology::ReplicaSet || !self.options.joins {
            return self.find_apart(session, finds).await;
        }
        let mut all = Vec::with_capacity(finds.len());
        for finds in commands(finds) {
            all.extend(self.find_joined(session, finds).await?);
        }
        Ok(all)
    }

    /// What each of `finds` finds, by one command.
    async fn find_joined(&self, session: &mut ClientSession, finds: Vec<Find>) -> Result<Vec<Rows>, TxnError> {
        let number = finds.len();
        if number == 1 {
            return self.find_apart(session, finds).await;
        }
        let name = |at: usize| format!("f{at}");
        // Joined to one document, whichever it is.
        let one = [doc! { "$limit": 1 }, doc! { "$project": { "_id": 1 } }];
        let joins = finds.into_iter().enumerate().map(|(at, find)| find.joined(&name(at)));
        let asked = self.in_session(COLLECTIONS);
        let asked = asked.aggregate(one.into_iter().chain(joins)).session(&mut *session);
        let mut cursor = asked.with_type::<RawDocumentBuf>().await?;
        // Without any collection there is nothing to join to, and nothing to find.
        if !cursor.advance(session).await? {
            return Ok(vec![Rows::default(); number]);
        }
        let joined = cursor.current();
        let mut all = Vec::with_capacity(number);
        for at in 0..number {
            let found = joined.get(name(at)).map_err(damaged)?.and_then(|found| found.as_array());
            let found = found.ok_or_else(|| damaged("what was asked was not joined"))?;
            let mut rows = Rows::default();
            for row in found {
                let row = row.map_err(damaged)?.as_document();
                rows.push(row.ok_or_else(|| damaged("what was joined is not a document"))?);
            }
            all.push(rows);
        }
        Ok(all)
    }

    /// As [`Shared::find_all`], with a round trip for each.
    pub(super) async fn find_apart(
        &self,
        session: &mut ClientSession,
        finds: Vec<Find>,
    ) -> Result<Vec<Rows>, TxnError> {
        let mut all = Vec::with_capacity(finds.len());
        for find in finds {
            all.push(self.find_one(session, find).await?);
        }
        Ok(all)
    }

    /// What `find` finds.
    pub(super) async fn find_one(&self, session: &mut ClientSession, find: Find) -> Result<Rows, TxnError> {
        let Find { collection, filter, projection, sort, limit, index, .. } = find;
        let by_index = index.is_some() && sort.is_empty() && self.topology == Topology::ReplicaSet;
        let documents = self.in_session(collection);
        let asked = documents.find(filter).projection(projection).limit(limit).batch_size(BATCH);
        let asked = if sort.is_empty() { asked } else { asked.sort(sort) };
        let asked = if let Some(index) = index { asked.hint(Hint::Name(index.into())) } else { asked };
        let mut cursor = asked.session(&mut *session).await?;
        let mut rows = Rows { by_index, ..Rows::default() };
        while cursor.advance(session).await? {
            rows.push(cursor.current());
        }
        Ok(rows)
    }
}

/// Parts finds in commands, in their order: as many in each as a document surely holds, one at least.
fn commands(finds: Vec<Find>) -> Vec<Vec<Find>> {
    let mut commands: Vec<Vec<Find>> = Vec::new();
    let mut bytes = 0;
    for find in finds {
        bytes += find.most_bytes();
        match commands.last_mut() {
            Some(last) if bytes <= MOST_BYTES && last.len() < MOST_FINDS => last.push(find),
            _ => {
                bytes = find.most_bytes();
                commands.push(vec![find]);
            }
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_finds_is_at_most_a_document() {
        let find = |limit, bytes| Find::new("records", doc! {}, doc! { "_id": 1 }, (limit, bytes));
        let sizes = |finds| commands(finds).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(vec![find(1, 1); 300]), [128, 128, 44]);
        assert_eq!(sizes(vec![find(1024, 5 << 10); 7]), [3, 3, 1]);
        assert_eq!(sizes(vec![find(1, 1), find(1024, 1 << 20), find(1, 1), find(1, 1)]), [1, 1, 2]);
        assert!(sizes(Vec::new()).is_empty());
    }
}
