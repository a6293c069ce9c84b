//! Reading the postings of digests and keys, with the pointer of the collection at the same instant.
//!
//! A digest and a key give their [`POSTINGS_PER_KEY`] earliest records and say whether there are more, whatever the length of
//! their lists: what is read is bounded.

use std::collections::HashMap;

use mongodb::ClientSession;
use mongodb::bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};

use super::Shared;
use super::documents::{self, COLLECTIONS, SIGNATURES, damaged};
use super::read::{Place, Pointer, next};
use super::retry::Trouble;
use super::server::Topology;
use doppel_core::collection::CollectionName;
use doppel_core::index::{POSTINGS_PER_KEY, looked_up};
use doppel_core::schemes::profile::{Digest, PostingKey};
use doppel_store::Seq;

/// Records with any of the keys of one question that are read at once. The index gives them in no useful order, so where there
/// are more each key is asked for its earliest. No more than a key's own limit: no list needs to be cut then.
const FEW: usize = POSTINGS_PER_KEY;
/// Lists joined by one command: ids of 256 bytes in all of them stay below the 16 MB of a document.
const LISTS: usize = 128;

/// A record under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Posting {
    pub(super) id: String,
    pub(super) seq: Seq,
}

/// The earliest records under a key, one more than may be used if there are more.
pub(super) type Postings = Vec<Posting>;

/// What is asked for one record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) digest: Option<&'a Digest>,
    pub(super) keys: &'a [PostingKey],
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, Default)]
pub(super) struct Filed {
    pub(super) digest: Postings,
    /// In the order of the keys asked.
    pub(super) keys: Vec<Postings>,
}

/// A [`Question`] as the database is asked.
struct Asked {
    digest: Option<Document>,
    keys: Vec<i64>,
}

impl Asked {
    fn of(place: Place, question: &Question<'_>) -> Self {
        let digest = question.digest.map(|digest| within(place, doc! { "digest": documents::digest_value(digest) }));
        Self { digest, keys: looked_up(question.keys).0.map(|key| key.key as i64).collect() }
    }
}

impl Shared {
    /// Whether several lists are read by one command. Transactions of clusters do not join sharded collections.
    pub(super) fn joins_lists(&self) -> bool {
        self.topology == Topology::ReplicaSet && self.options.joins
    }

    /// The pointer of a collection (`None` when there is no such collection), and the answers in the order of the questions. One
    /// round trip on a replica set, and one more for each question whose keys are shared by many.
    pub(super) async fn filed(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        place: Place,
        questions: &[Question<'_>],
    ) -> Result<(Option<Pointer>, Vec<Filed>), Trouble> {
        let asked: Vec<Asked> = questions.iter().map(|question| Asked::of(place, question)).collect();
        let mut all = Vec::with_capacity(asked.len());
        if !self.joins_lists() {
            let pointer = self.pointer(session, name).await?;
            for Asked { digest, keys } in asked {
                all.push(self.one_by_one(session, place, digest, &keys).await?);
            }
            return Ok((pointer, all));
        }
        let Some(found) = self.joined(session, name, place, &asked).await? else {
            return Ok((None, vec![Filed::default(); asked.len()]));
        };
        for (at, Asked { keys, .. }) in asked.iter().enumerate() {
            let digest = list(&found, &format!("d{at}"), posting)?;
            let keyed = list(&found, &format!("k{at}"), Keyed::decode)?;
            let keys = match keyed.len() <= FEW {
                true => by_key(keyed, keys),
                false => self.each_bounded(session, name, place, keys).await?,
            };
            all.push(Filed { digest, keys });
        }
        Ok((Some(Pointer::decode(&found)?), all))
    }

    /// The pointer, and for each question the postings of its digest and the records that have any of its keys, as far as they are
    /// few. One command.
    async fn joined(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        place: Place,
        asked: &[Asked],
    ) -> Result<Option<RawDocumentBuf>, Trouble> {
        let mut stages = vec![doc! { "$project": Pointer::projection() }];
        for (at, Asked { digest, keys }) in asked.iter().enumerate() {
            stages.extend(digest.clone().map(|digest| postings(&format!("d{at}"), digest)));
            if !keys.is_empty() {
                let any = vec![
                    doc! { "$match": within(place, doc! { "keys": { "$in": keys } }) },
                    doc! { "$limit": FEW as i32 + 1 },
                    doc! { "$project": {
                        "_id": 0, "i": "$_id.id", "s": "$seq", "k": { "$setIntersection": ["$keys", keys] }
                    } },
                ];
                stages.push(doc! { "$lookup": { "from": SIGNATURES, "as": format!("k{at}"), "pipeline": any } });
            }
        }
        self.beside_collection(session, name, stages).await
    }

    /// The earliest records of each key: each list an index range of bounded length, whatever is behind it.
    async fn each_bounded(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        place: Place,
        keys: &[i64],
    ) -> Result<Vec<Postings>, Trouble> {
        let mut all = Vec::with_capacity(keys.len());
        for keys in keys.chunks(LISTS) {
            let lists = keys.iter().enumerate();
            let lists = lists.map(|(at, key)| postings(&format!("l{at}"), within(place, doc! { "keys": key })));
            let stages = std::iter::once(doc! { "$project": { "_id": 1 } }).chain(lists).collect();
            let found = self.beside_collection(session, name, stages).await?.unwrap_or_default();
            for at in 0..keys.len() {
                all.push(list(&found, &format!("l{at}"), posting)?);
            }
        }
        Ok(all)
    }

    /// A collection's document with what is joined to it; `None` when there is no such collection.
    async fn beside_collection(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        mut stages: Vec<Document>,
    ) -> Result<Option<RawDocumentBuf>, Trouble> {
        stages.insert(0, doc! { "$match": { "_id": name.as_str() } });
        let collections = self.in_session(COLLECTIONS);
        let asked = collections.aggregate(stages).session(&mut *session);
        let mut cursor = asked.with_type::<RawDocumentBuf>().await?;
        next(&mut cursor, session).await
    }

    /// For clusters, whose transactions do not join sharded collections: a command for each list.
    async fn one_by_one(
        &self,
        session: &mut ClientSession,
        place: Place,
        digest: Option<Document>,
        keys: &[i64],
    ) -> Result<Filed, Trouble> {
        let mut filed = Filed::default();
        if let Some(filter) = digest {
            filed.digest = self.earliest(session, filter).await?;
        }
        for key in keys {
            filed.keys.push(self.earliest(session, within(place, doc! { "keys": key })).await?);
        }
        Ok(filed)
    }

    /// The earliest records whose signatures `filter` finds.
    async fn earliest(&self, session: &mut ClientSession, filter: Document) -> Result<Postings, Trouble> {
        let signatures = self.in_session(SIGNATURES);
        let asked = signatures.find(filter).projection(doc! { "seq": 1 });
        let asked = asked.sort(doc! { "seq": 1 }).limit(i64::from(limit())).session(&mut *session);
        let mut cursor = asked.await?;
        let mut list = Vec::new();
        while let Some(found) = next(&mut cursor, session).await? {
            let id = found.get_document("_id").and_then(|key| key.get_str("id")).map_err(damaged)?;
            list.push(Posting { id: id.to_owned(), seq: found.get_i64("seq").map_err(damaged)? as Seq });
        }
        Ok(list)
    }
}

fn limit() -> i32 {
    POSTINGS_PER_KEY as i32 + 1
}

fn within(place: Place, what: Document) -> Document {
    let mut filter = doc! { "_id.c": place.number, "_id.g": place.generation as i32 };
    filter.extend(what);
    filter
}

/// A stage that joins the earliest records whose signatures `filter` finds, as `name`.
fn postings(name: &str, filter: Document) -> Document {
    let stages = vec![
        doc! { "$match": filter },
        doc! { "$sort": { "seq": 1 } },
        doc! { "$limit": limit() },
        doc! { "$project": { "_id": 0, "i": "$_id.id", "s": "$seq" } },
    ];
    doc! { "$lookup": { "from": SIGNATURES, "as": name, "pipeline": stages } }
}

/// What was joined as `name`; nothing if nothing was.
fn list<T>(
    found: &RawDocument,
    name: &str,
    decode: impl Fn(&RawDocument) -> doppel_store::Result<T>,
) -> doppel_store::Result<Vec<T>> {
    let Some(RawBsonRef::Array(items)) = found.get(name).map_err(damaged)? else { return Ok(Vec::new()) };
    let items = items.into_iter().map(|item| {
        let item = item.map_err(damaged)?;
        decode(item.as_document().ok_or_else(|| damaged("a posting is not a document"))?)
    });
    items.collect()
}

fn posting(item: &RawDocument) -> doppel_store::Result<Posting> {
    let id = item.get_str("i").map_err(damaged)?.to_owned();
    Ok(Posting { id, seq: item.get_i64("s").map_err(damaged)? as Seq })
}

/// A record with those of the keys asked for that it has.
struct Keyed {
    posting: Posting,
    keys: Vec<i64>,
}

impl Keyed {
    fn decode(item: &RawDocument) -> doppel_store::Result<Self> {
        let keys = item.get_array("k").map_err(damaged)?.into_iter();
        let keys = keys.map(|key| key.map_err(damaged)?.as_i64().ok_or_else(|| damaged("a key is not a number")));
        Ok(Self { posting: posting(item)?, keys: keys.collect::<doppel_store::Result<_>>()? })
    }
}

/// The postings of each of `keys`, of all records that have any of them.
fn by_key(mut records: Vec<Keyed>, keys: &[i64]) -> Vec<Postings> {
    records.sort_unstable_by_key(|record| record.posting.seq);
    let mut lists: HashMap<i64, Postings> = HashMap::new();
    for Keyed { posting, keys } in records {
        for key in keys {
            lists.entry(key).or_default().push(posting.clone());
        }
    }
    keys.iter().map(|key| lists.get(key).cloned().unwrap_or_default()).collect()
}
