//! Several finds in one command.
//!
//! A registration needs documents of several MongoDB collections, and a round trip for each would take most of the time of the
//! registration. For a replica set, one aggregation therefore joins the results to one document. Joining costs the server about as
//! much again for each document, so that separate round trips are cheaper for many documents. A transaction on a cluster cannot
//! join sharded collections; there, each find is a separate command.

use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf, doc};
use mongodb::options::Hint;

use super::SharedStore;
use super::documents::{COLLECTIONS, damaged};
use super::retry::TxnError;
use super::server::ServerTopology;

/// Largest number of documents in one reply of a find. A reply has at most 16 MB in any case.
const BATCH: u32 = 10_000;
/// Largest number of bytes that the finds of one command may return. The results are one document, which has at most 16 MiB.
const MOST_BYTES: usize = 15 << 20;
/// Largest number of finds in one command: a pipeline has at most a thousand stages.
const MOST_FINDS: usize = 128;

/// A find whose result has a bounded size.
#[derive(Clone, Debug)]
pub(super) struct BoundedFind {
    collection: &'static str,
    filter: Document,
    projection: Document,
    /// The field of an array, and the values that a join returns of it. The array itself may have any length.
    values: Option<(&'static str, Vec<Bson>)>,
    /// Largest size in bytes of one document in a join.
    bytes: usize,
    /// The order of the documents; empty for any order.
    sort: Document,
    limit: i64,
    /// The index to use.
    index: Option<&'static str>,
}

impl BoundedFind {
    /// Returns a find of at most `limit` documents in `collection` that match `filter`, each of at most `bytes` bytes, with the
    /// fields of `projection`.
    pub(super) fn new(
        collection: &'static str,
        filter: Document,
        projection: Document,
        limit: usize,
        bytes: usize,
    ) -> Self {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let sort = Document::new();
        let values = None;
        let index = None;
        Self { collection, filter, projection, values, bytes, sort, limit, index }
    }

    /// Restricts the array `field` to these values in a join.
    pub(super) fn only(self, field: &'static str, values: Vec<Bson>) -> Self {
        Self { values: Some((field, values)), ..self }
    }

    /// Returns the largest possible size of the result in bytes.
    fn most_bytes(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX).saturating_mul(self.bytes)
    }

    /// Sorts the documents. The limit then returns the first documents of this order.
    pub(super) fn sorted(self, sort: Document) -> Self {
        Self { sort, ..self }
    }

    /// Names the index for a separate command. If several indexes are possible, the server otherwise tries all of them, and tries them
    /// again whenever the size of the values differs much.
    pub(super) fn by(self, index: &'static str) -> Self {
        Self { index: Some(index), ..self }
    }

    /// Returns a stage that joins the result as the field `name`.
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

/// Documents of a result in one buffer, because there may be thousands.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundRows {
    bytes: Vec<u8>,
    /// The offset of the end of each document.
    ends: Vec<usize>,
    /// True if the documents have the order of the named index.
    by_index: bool,
}

impl FoundRows {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// True if the documents are sorted by the index that the find requests. False for a join, which requests no index, and on a cluster, whose
    /// shards return documents in no common order.
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

impl SharedStore {
    /// Returns the results of `finds` in their order. One round trip, or more if all results together may be larger than a
    /// document; on a cluster, one round trip for each find; none without finds.
    pub(super) async fn find_all(
        &self,
        session: &mut ClientSession,
        finds: Vec<BoundedFind>,
    ) -> Result<Vec<FoundRows>, TxnError> {
        if self.topology != ServerTopology::ReplicaSet || !self.options.joins {
            return self.find_apart(session, finds).await;
        }
        let mut all = Vec::with_capacity(finds.len());
        for finds in commands(finds) {
            all.extend(self.find_joined(session, finds).await?);
        }
        Ok(all)
    }

    /// Returns the results of `finds` with one command.
    async fn find_joined(
        &self,
        session: &mut ClientSession,
        finds: Vec<BoundedFind>,
    ) -> Result<Vec<FoundRows>, TxnError> {
        let number = finds.len();
        if number == 1 {
            return self.find_apart(session, finds).await;
        }
        // The results are joined to any one document of the collection.
        let one = [doc! { "$limit": 1 }, doc! { "$project": { "_id": 1 } }];
        let joins = finds.into_iter().enumerate().map(|(at, find)| find.joined(&join_name(at)));
        let asked = self.in_session(COLLECTIONS);
        let asked = asked.aggregate(one.into_iter().chain(joins)).session(&mut *session);
        let mut cursor = asked.with_type::<RawDocumentBuf>().await?;
        // Without any collection, there is no document to join to, and nothing to find.
        if !cursor.advance(session).await? {
            return Ok(vec![FoundRows::default(); number]);
        }
        let joined = cursor.current();
        let mut all = Vec::with_capacity(number);
        for at in 0..number {
            let found = joined.get(join_name(at)).map_err(damaged)?.and_then(|found| found.as_array());
            let found = found.ok_or_else(|| damaged("a join lacks the result of a find"))?;
            let mut rows = FoundRows::default();
            for row in found {
                let row = row.map_err(damaged)?.as_document();
                rows.push(row.ok_or_else(|| damaged("a joined value is not a document"))?);
            }
            all.push(rows);
        }
        Ok(all)
    }

    /// Returns the results of `finds` with a round trip for each; see [`SharedStore::find_all`].
    pub(super) async fn find_apart(
        &self,
        session: &mut ClientSession,
        finds: Vec<BoundedFind>,
    ) -> Result<Vec<FoundRows>, TxnError> {
        let mut all = Vec::with_capacity(finds.len());
        for find in finds {
            all.push(self.find_one(session, find).await?);
        }
        Ok(all)
    }

    pub(super) async fn find_one(&self, session: &mut ClientSession, find: BoundedFind) -> Result<FoundRows, TxnError> {
        let BoundedFind { collection, filter, projection, sort, limit, index, .. } = find;
        let by_index = index.is_some() && sort.is_empty() && self.topology == ServerTopology::ReplicaSet;
        let documents = self.in_session(collection);
        let asked = documents.find(filter).projection(projection).limit(limit).batch_size(BATCH);
        let asked = if sort.is_empty() { asked } else { asked.sort(sort) };
        let asked = if let Some(index) = index { asked.hint(Hint::Name(index.into())) } else { asked };
        let mut cursor = asked.session(&mut *session).await?;
        let mut rows = FoundRows { by_index, ..FoundRows::default() };
        while cursor.advance(session).await? {
            rows.push(cursor.current());
        }
        Ok(rows)
    }
}

/// Returns the name of the field for the result of the find at position `at`.
fn join_name(at: usize) -> String {
    format!("f{at}")
}
/// Groups finds into commands, in their order. Each command has as many finds as one document certainly holds, at least one.
fn commands(finds: Vec<BoundedFind>) -> Vec<Vec<BoundedFind>> {
    let mut commands: Vec<Vec<BoundedFind>> = Vec::new();
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
    fn the_results_of_one_command_fit_in_one_document() {
        assert_eq!(sizes(vec![find(1, 1); 300]), [128, 128, 44]);
        assert_eq!(sizes(vec![find(1024, 5 << 10); 7]), [3, 3, 1]);
        assert_eq!(sizes(vec![find(1, 1), find(1024, 1 << 20), find(1, 1), find(1, 1)]), [1, 1, 2]);
        assert!(sizes(Vec::new()).is_empty());
    }

    fn find(limit: usize, bytes: usize) -> BoundedFind {
        BoundedFind::new("records", doc! {}, doc! { "_id": 1 }, limit, bytes)
    }

    fn sizes(finds: Vec<BoundedFind>) -> Vec<usize> {
        commands(finds).iter().map(Vec::len).collect()
    }
}
