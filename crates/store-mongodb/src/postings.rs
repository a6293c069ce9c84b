//! Reading the postings of digests and keys, with the pointer of the collection at the same instant.
//!
//! A digest and a key give their [`POSTINGS_PER_KEY`] earliest records and say whether there are more, whatever the length of
//! their lists: what is read is bounded.

use std::collections::{BTreeSet, HashMap};

use mongodb::ClientSession;
use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};

use super::Shared;
use super::documents::{self, COLLECTIONS, SIGNATURES, damaged};
use super::read::{Place, Pointer, next};
use super::retry::Trouble;
use super::server::Topology;
use doppel_core::collection::CollectionName;
use doppel_core::index::{POSTINGS_PER_KEY, looked_up};
use doppel_core::schemes::profile::{Digest, PostingKey};
use doppel_store::Seq;

/// Records with any of the digests or keys asked for that are read at once. The index gives them in no useful order, so where there
/// are more each digest and key is asked for its earliest.
const FEW: usize = POSTINGS_PER_KEY;
/// The same for several records together.
const FEW_IN_ALL: usize = 16 * FEW;
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

/// The digests and keys that are asked for, of one record or of several.
#[derive(Clone, Debug, Default)]
pub(super) struct Question {
    records: usize,
    digests: BTreeSet<[u8; 32]>,
    keys: BTreeSet<i64>,
}

impl Question {
    /// Adds what is asked for one record.
    pub(super) fn add(&mut self, digest: Option<&Digest>, keys: &[PostingKey]) {
        self.records += 1;
        self.digests.extend(digest.map(|digest| digest.0));
        self.keys.extend(looked_up(keys).0.map(|key| key.key as i64));
    }
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    digests: HashMap<[u8; 32], Postings>,
    keys: HashMap<i64, Postings>,
}

/// What is filed under the digest and the keys of one record.
#[derive(Clone, Debug, Default)]
pub(super) struct Filed {
    pub(super) digest: Postings,
    /// In the order of the keys asked.
    pub(super) keys: Vec<Postings>,
}

impl Answer {
    /// The part of one record.
    pub(super) fn of(&self, digest: Option<&Digest>, keys: &[PostingKey]) -> Filed {
        let digest = digest.and_then(|digest| self.digests.get(&digest.0)).cloned().unwrap_or_default();
        let keys = looked_up(keys).0.map(|key| self.keys.get(&(key.key as i64)).cloned().unwrap_or_default());
        Filed { digest, keys: keys.collect() }
    }

    /// Adds a record that comes after all others.
    pub(super) fn add(&mut self, posting: &Posting, digest: &Digest, keys: &[PostingKey]) {
        let digests = self.digests.entry(digest.0).or_default();
        let lists = std::iter::once(digests);
        let mut add = |list: &mut Postings| {
            if list.len() < LIMIT && list.last() != Some(posting) {
                list.push(posting.clone());
            }
        };
        lists.for_each(&mut add);
        keys.iter().for_each(|key| add(self.keys.entry(key.key as i64).or_default()));
    }

    /// Takes a record away; whether all lists are still whole: one that had been cut off lacks the next now.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        let mut whole = true;
        for list in self.digests.values_mut().chain(self.keys.values_mut()) {
            let before = list.len();
            list.retain(|posting| posting.id != id);
            whole &= before < LIMIT || list.len() == before;
        }
        whole
    }
}

impl Shared {
    /// Whether several lists are read by one command. Transactions of clusters do not join sharded collections.
    pub(super) fn joins_lists(&self) -> bool {
        self.topology == Topology::ReplicaSet && self.options.joins
    }

    /// The pointer of a collection (`None` when there is no such collection), and what is filed under all digests and keys. One
    /// round trip on a replica set, and one more for every [`LISTS`] digests and keys where they are shared by many.
    pub(super) async fn filed(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        place: Place,
        question: &Question,
    ) -> Result<(Option<Pointer>, Answer), Trouble> {
        let digests: Vec<Bson> =
            question.digests.iter().map(|d| Bson::from(documents::digest_value(&Digest(*d)))).collect();
        let keys: Vec<i64> = question.keys.iter().copied().collect();
        if !self.joins_lists() {
            let pointer = self.pointer(session, name).await?;
            let mut answer = Answer::default();
            for digest in &question.digests {
                let list = self.earliest(session, within(place, of_digest(digest))).await?;
                answer.digests.insert(*digest, list);
            }
            for key in keys {
                answer.keys.insert(key, self.earliest(session, within(place, doc! { "keys": key })).await?);
            }
            return Ok((pointer, answer));
        }
        let most = (FEW * question.records).min(FEW_IN_ALL);
        let mut stages = vec![doc! { "$project": Pointer::projection() }];
        if !digests.is_empty() {
            stages.push(few("d", most, within(place, doc! { "digest": { "$in": digests } }), doc! { "d": "$digest" }));
        }
        if !keys.is_empty() {
            stages.push(few("k", most, within(place, doc! { "keys": { "$in": &keys } }), doc! { "k": "$keys" }));
        }
        let Some(found) = self.beside_collection(session, name, stages).await? else {
            return Ok((None, Answer::default()));
        };
        let digested = list(&found, "d", |item| Ok((posting(item)?, digest_of(item)?)))?;
        let keyed = list(&found, "k", Keyed::decode)?;
        let mut answer = Answer::default();
        if digested.len() > most {
            let filters = question.digests.iter().map(|digest| (*digest, of_digest(digest)));
            answer.digests = self.each_bounded(session, name, place, filters).await?;
        } else {
            digested.into_iter().for_each(|(posting, digest)| answer.digests.entry(digest).or_default().push(posting));
        }
        if keyed.len() > most {
            let filters = keys.iter().map(|key| (*key, doc! { "keys": key }));
            answer.keys = self.each_bounded(session, name, place, filters).await?;
        } else {
            answer.keys = by_key(keyed, &question.keys);
        }
        answer.digests.values_mut().chain(answer.keys.values_mut()).for_each(cut);
        Ok((Pointer::decode(&found).map(Some)?, answer))
    }

    /// The earliest records of each digest or key: each list an index range of bounded length, whatever is behind it.
    async fn each_bounded<K: Copy + Eq + std::hash::Hash>(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        place: Place,
        filters: impl Iterator<Item = (K, Document)>,
    ) -> Result<HashMap<K, Postings>, Trouble> {
        let filters: Vec<(K, Document)> = filters.collect();
        let mut all = HashMap::with_capacity(filters.len());
        for filters in filters.chunks(LISTS) {
            let lists = filters.iter().enumerate();
            let lists = lists.map(|(at, (_, filter))| postings(&format!("l{at}"), within(place, filter.clone())));
            let stages = std::iter::once(doc! { "$project": { "_id": 1 } }).chain(lists).collect();
            let found = self.beside_collection(session, name, stages).await?.unwrap_or_default();
            for (at, (key, _)) in filters.iter().enumerate() {
                all.insert(*key, list(&found, &format!("l{at}"), posting)?);
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

    /// The earliest records whose signatures `filter` finds.
    async fn earliest(&self, session: &mut ClientSession, filter: Document) -> Result<Postings, Trouble> {
        let signatures = self.in_session(SIGNATURES);
        let asked = signatures.find(filter).projection(doc! { "seq": 1 });
        let asked = asked.sort(doc! { "seq": 1 }).limit(LIMIT as i64).session(&mut *session);
        let mut cursor = asked.await?;
        let mut list = Vec::new();
        while let Some(found) = next(&mut cursor, session).await? {
            let id = found.get_document("_id").and_then(|key| key.get_str("id")).map_err(damaged)?;
            list.push(Posting { id: id.to_owned(), seq: found.get_i64("seq").map_err(damaged)? as Seq });
        }
        Ok(list)
    }
}

/// Postings of a list: one more than may be used, so that it shows whether there are more.
const LIMIT: usize = POSTINGS_PER_KEY + 1;

fn of_digest(digest: &[u8; 32]) -> Document {
    doc! { "digest": documents::digest_value(&Digest(*digest)) }
}

fn digest_of(item: &RawDocument) -> doppel_store::Result<[u8; 32]> {
    let bytes = item.get_binary("d").map_err(damaged)?.bytes;
    bytes.try_into().map_err(|_| damaged("a digest does not have 32 bytes"))
}

/// The earliest of a list, in order.
fn cut(list: &mut Postings) {
    list.sort_unstable_by_key(|posting| posting.seq);
    list.truncate(LIMIT);
}

/// A stage that joins the records that `filter` finds as `name`, with more of each; one beyond `most` shows that there are more.
fn few(name: &str, most: usize, filter: Document, more: Document) -> Document {
    let mut project = doc! { "_id": 0, "i": "$_id.id", "s": "$seq" };
    project.extend(more);
    let stages = vec![doc! { "$match": filter }, doc! { "$limit": most as i32 + 1 }, doc! { "$project": project }];
    doc! { "$lookup": { "from": SIGNATURES, "as": name, "pipeline": stages } }
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
        doc! { "$limit": LIMIT as i32 },
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

/// A record with its keys.
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
fn by_key(records: Vec<Keyed>, keys: &BTreeSet<i64>) -> HashMap<i64, Postings> {
    let mut lists: HashMap<i64, Postings> = HashMap::new();
    for Keyed { posting, keys: own } in records {
        for key in own.into_iter().filter(|key| keys.contains(key)) {
            let list = lists.entry(key).or_default();
            // A key may stand twice in a record.
            if list.last() != Some(&posting) {
                list.push(posting.clone());
            }
        }
    }
    lists
}
