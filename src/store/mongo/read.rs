//! Reading the index: postings of a digest and keys, pages of buckets, texts of candidates.
//!
//! All in the caller's session, so that within a transaction or a snapshot they show one instant. Bounded: a key gives
//! its [`POSTINGS_PER_KEY`] earliest records and says whether there are more, whatever the length of its posting list; a bucket
//! is read whole, but gives at most so many.

use std::collections::HashMap;

use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use mongodb::{ClientSession, SessionCursor};

use super::Shared;
use super::documents::{
    self, BLOCKS, BucketNumber, COLLECTIONS, Number, PageDocument, RECORDS, RecordDocument, SIGNATURES,
    SignatureDocument, damaged,
};
use super::retry::Trouble;
use super::server::Topology;
use super::write::Highest;
use crate::collection::CollectionName;
use crate::index::{POSTINGS_PER_KEY, looked_up};
use crate::record::RecordId;
use crate::schemes::Signature;
use crate::schemes::probes::{self, Probe};
use crate::schemes::profile::{Digest, PostingKey};
use crate::store::{GenerationId, Seq};
use crate::verdict::Fingerprint;

/// Documents of one reply: more than a lookup at radius 3 reads, unless a bucket is huge.
const BATCH: u32 = 1000;

/// Records with any of the keys asked for that are read at once. The index gives them in no useful order, so where there are more
/// each key is asked for its earliest. No more than a key's own limit: no list needs to be cut then.
const FEW: usize = POSTINGS_PER_KEY;

/// Part of a generation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) number: Number,
    pub(super) generation: GenerationId,
}

/// What a collection's document says of the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pointer {
    pub(super) number: Number,
    pub(super) generation: GenerationId,
    /// The generations beside the live one, ascending.
    pub(super) others: Vec<GenerationId>,
    pub(super) empty: bool,
}

impl Pointer {
    /// What of a collection's document it is read from.
    pub(super) fn projection() -> Document {
        doc! { "number": 1, "generation": 1, "others.id": 1, "empty": 1 }
    }

    pub(super) fn decode(document: &RawDocument) -> crate::store::Result<Self> {
        let mut others = Vec::new();
        if let Some(RawBsonRef::Array(array)) = document.get("others").map_err(damaged)? {
            for other in array {
                let other = other.map_err(damaged)?.as_document().map(|other| other.get_i32("id"));
                let id = other.ok_or_else(|| damaged("a generation is not a document"))?.map_err(damaged)?;
                others.push(id as GenerationId);
            }
        }
        Ok(Self {
            number: document.get_i32("number").map_err(damaged)?,
            generation: document.get_i32("generation").map_err(damaged)? as GenerationId,
            others,
            empty: document.get_bool("empty").map_err(damaged)?,
        })
    }
}

/// A record under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Posting {
    pub(super) id: String,
    pub(super) seq: Seq,
}

/// The earliest records under a key, one more than may be used if there are more.
pub(super) type Postings = Vec<Posting>;

/// Answers about a digest and keys, and the pointer at the same instant; `None` when there is no such collection.
#[derive(Debug, Default)]
pub(super) struct Filed {
    pub(super) pointer: Option<Pointer>,
    pub(super) digest: Postings,
    /// In the order of the keys asked.
    pub(super) keys: Vec<Postings>,
}

/// What the buckets of a fingerprint hold.
#[derive(Debug, Default)]
pub(super) struct Buckets {
    /// Records within the radius, each once.
    pub(super) near: Vec<(String, Fingerprint)>,
    /// The highest page of each bucket that has one, and how often it was pushed to.
    pub(super) highest: Highest,
}

impl Shared {
    /// The pointer of a collection and the postings of a digest and of keys. One round trip on a replica set, two where the keys
    /// are shared by many.
    pub(super) async fn filed(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        place: Place,
        digest: Option<&Digest>,
        keys: &[PostingKey],
    ) -> Result<Filed, Trouble> {
        let keys: Vec<i64> = looked_up(keys).0.map(|key| key.key as i64).collect();
        let digest = digest.map(|digest| within(place, doc! { "digest": documents::digest_value(digest) }));
        if self.topology == Topology::Cluster || !self.options.joins {
            return self.one_by_one(session, name, place, digest, &keys).await;
        }
        let (filed, few) = self.joined(session, name, place, digest, &keys).await?;
        match few {
            _ if filed.pointer.is_none() => Ok(Filed { keys: vec![Vec::new(); keys.len()], ..filed }),
            Some(few) => Ok(Filed { keys: by_key(few, &keys), ..filed }),
            None => Ok(Filed { keys: self.each_bounded(session, name, place, &keys).await?, ..filed }),
        }
    }

    /// The pointer, the postings of the digest, and all records that have any of the keys, unless they are many. One command.
    async fn joined(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        place: Place,
        digest: Option<Document>,
        keys: &[i64],
    ) -> Result<(Filed, Option<Vec<Keyed>>), Trouble> {
        let mut pipeline = vec![doc! { "$project": Pointer::projection() }];
        pipeline.extend(digest.map(|digest| postings("digest", digest)));
        if !keys.is_empty() {
            let stages = vec![
                doc! { "$match": within(place, doc! { "keys": { "$in": keys } }) },
                doc! { "$limit": FEW as i32 + 1 },
                doc! { "$project": {
                    "_id": 0, "i": "$_id.id", "s": "$seq", "k": { "$setIntersection": ["$keys", keys] }
                } },
            ];
            pipeline.push(doc! { "$lookup": { "from": SIGNATURES, "as": "keyed", "pipeline": stages } });
        }
        let Some(found) = self.beside_collection(session, name, pipeline).await? else {
            return Ok((Filed::default(), None));
        };
        let filed = Filed { pointer: Some(Pointer::decode(&found)?), ..Filed::default() };
        let filed = Filed { digest: list(&found, "digest", posting)?, ..filed };
        let keyed = list(&found, "keyed", Keyed::decode)?;
        Ok((filed, (keyed.len() <= FEW).then_some(keyed)))
    }

    /// The earliest records of each key: each list an index range of bounded length, whatever is behind it. One command.
    async fn each_bounded(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        place: Place,
        keys: &[i64],
    ) -> Result<Vec<Postings>, Trouble> {
        let lists = keys.iter().enumerate();
        let lists = lists.map(|(at, key)| postings(&format!("l{at}"), within(place, doc! { "keys": key })));
        let pipeline = std::iter::once(doc! { "$project": { "_id": 1 } }).chain(lists).collect();
        let Some(found) = self.beside_collection(session, name, pipeline).await? else {
            return Ok(vec![Vec::new(); keys.len()]);
        };
        let lists = (0..keys.len()).map(|at| list(&found, &format!("l{at}"), posting));
        Ok(lists.collect::<crate::store::Result<_>>()?)
    }

    /// A collection's document with what is joined to it; `None` when there is no such collection.
    async fn beside_collection(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        mut pipeline: Vec<Document>,
    ) -> Result<Option<RawDocumentBuf>, Trouble> {
        pipeline.insert(0, doc! { "$match": { "_id": name.as_str() } });
        let collections = self.raw(COLLECTIONS);
        let asked = collections.aggregate(pipeline).session(&mut *session);
        let mut cursor = asked.with_type::<RawDocumentBuf>().await?;
        next(&mut cursor, session).await
    }

    /// For clusters, whose transactions do not join sharded collections: a command for each list.
    async fn one_by_one(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
        place: Place,
        digest: Option<Document>,
        keys: &[i64],
    ) -> Result<Filed, Trouble> {
        let pointer = self.pointer(session, name).await?;
        let digest = match digest {
            Some(filter) => self.earliest(session, filter).await?,
            None => Vec::new(),
        };
        let mut lists = Vec::with_capacity(keys.len());
        for key in keys {
            lists.push(self.earliest(session, within(place, doc! { "keys": key })).await?);
        }
        Ok(Filed { pointer, digest, keys: lists })
    }

    /// The earliest records whose signatures `filter` finds.
    async fn earliest(&self, session: &mut ClientSession, filter: Document) -> Result<Postings, Trouble> {
        let signatures = self.raw(SIGNATURES);
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

    /// The pointer of a collection; `None` when there is no such collection.
    pub(super) async fn pointer(
        &self,
        session: &mut ClientSession,
        name: &CollectionName,
    ) -> Result<Option<Pointer>, Trouble> {
        let asked = self.raw(COLLECTIONS);
        let asked = asked.find_one(doc! { "_id": name.as_str() }).projection(Pointer::projection());
        let found = asked.session(&mut *session).await?;
        Ok(found.map(|found| Pointer::decode(&found)).transpose()?)
    }

    /// The highest page of each of `buckets` (in any order) that has one. One round trip, and for each bucket one index
    /// entry and one page, however many it has.
    pub(super) async fn highest_pages(
        &self,
        session: &mut ClientSession,
        place: Place,
        buckets: Vec<BucketNumber>,
    ) -> Result<Highest, Trouble> {
        let pipeline = vec![
            doc! { "$match": { "c": place.number, "g": place.generation as i32, "b": { "$in": buckets } } },
            // Sorted and grouped so, the index is walked from bucket to bucket.
            doc! { "$sort": { "c": -1, "g": -1, "b": -1, "p": -1 } },
            doc! { "$group": { "_id": "$b", "p": { "$first": "$p" }, "n": { "$first": "$n" } } },
        ];
        let asked = self.raw(BLOCKS);
        let asked = asked.aggregate(pipeline).batch_size(BATCH * 10).session(&mut *session);
        let mut cursor = asked.with_type::<RawDocumentBuf>().await?;
        let mut found = Highest::new();
        while cursor.advance(session).await? {
            let highest = cursor.current();
            let number = |key: &str| highest.get_i32(key).map_err(damaged);
            found.insert(number("_id")?, (number("p")?, number("n")?));
        }
        Ok(found)
    }

    /// Reads the buckets that may hold fingerprints within `radius`, and those the fingerprint itself belongs to. One round
    /// trip (more where they hold more than 16 MB). O(entries in the buckets).
    pub(super) async fn buckets(
        &self,
        session: &mut ClientSession,
        place: Place,
        fingerprint: Fingerprint,
        radius: u8,
    ) -> Result<Buckets, Trouble> {
        let probed = probes::probes(radius).iter();
        let probed = probed.map(|probe: &Probe| documents::bucket(probe.block, probe.value(fingerprint.0)));
        let mut numbers: Vec<BucketNumber> = probed.chain(documents::buckets(fingerprint)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let filter = doc! { "c": place.number, "g": place.generation as i32, "b": { "$in": numbers } };
        let blocks = self.raw(BLOCKS);
        let asked = blocks.find(filter).projection(PageDocument::projection()).batch_size(BATCH);
        let mut cursor = asked.sort(doc! { "b": 1, "p": 1 }).session(&mut *session).await?;
        let mut found = Buckets::default();
        let mut seen = std::collections::HashSet::new();
        let mut taken = (-1, 0);
        while cursor.advance(session).await? {
            let page = PageDocument::decode(cursor.current())?;
            // Ascending pages: the last one seen is the highest.
            found.highest.insert(page.bucket, (page.page, page.pushed));
            if taken.0 != page.bucket {
                taken = (page.bucket, 0);
            }
            page.walk(|entry| {
                if taken.1 <= POSTINGS_PER_KEY && fingerprint.distance(entry.fingerprint) <= radius {
                    taken.1 += 1;
                    if seen.insert(entry.id.to_owned()) {
                        found.near.push((entry.id.to_owned(), entry.fingerprint));
                    }
                }
            })?;
        }
        Ok(found)
    }

    /// The seqs of records. One round trip.
    pub(super) async fn seqs(
        &self,
        session: &mut ClientSession,
        number: Number,
        ids: &[&str],
    ) -> Result<HashMap<String, Seq>, Trouble> {
        let records = self.raw(RECORDS);
        let asked = records.find(among(number, ids)).projection(doc! { "seq": 1 }).batch_size(BATCH * 10);
        let mut cursor = asked.session(&mut *session).await?;
        let mut found = HashMap::with_capacity(ids.len());
        while let Some(record) = next(&mut cursor, session).await? {
            let id = record.get_document("_id").and_then(|key| key.get_str("id")).map_err(damaged)?;
            found.insert(id.to_owned(), record.get_i64("seq").map_err(damaged)? as Seq);
        }
        Ok(found)
    }

    /// Records with their texts, without their verdicts, as the generation sees them. One round trip, or two where some of
    /// them were registered under another generation.
    pub(super) async fn texts(
        &self,
        session: &mut ClientSession,
        place: Place,
        ids: &[&str],
    ) -> Result<HashMap<String, RecordDocument>, Trouble> {
        let records = self.raw(RECORDS);
        let asked = records.find(among(place.number, ids)).projection(doc! { "verdict": 0 }).batch_size(BATCH);
        let mut cursor = asked.session(&mut *session).await?;
        let mut found = HashMap::with_capacity(ids.len());
        let mut elsewhere = HashMap::new();
        while cursor.advance(session).await? {
            let record = RecordDocument::decode(cursor.current())?;
            let list = if record.record.digest_generation == place.generation { &mut found } else { &mut elsewhere };
            list.insert(record.record.id.as_str().to_owned(), record);
        }
        if !elsewhere.is_empty() {
            let ids: Vec<&str> = elsewhere.keys().map(String::as_str).collect();
            let all = self.raw(SIGNATURES);
            let asked = all.find(signatures_among(place, &ids)).projection(doc! { "digest": 1, "fingerprint": 1 });
            let mut cursor = asked.batch_size(BATCH).session(&mut *session).await?;
            while let Some(signature) = next(&mut cursor, session).await? {
                let id = signature.get_document("_id").and_then(|key| key.get_str("id")).map_err(damaged)?;
                if let Some(mut record) = elsewhere.remove(id) {
                    record.see_as(place.generation, &signature)?;
                    found.insert(id.to_owned(), record);
                }
            }
        }
        Ok(found)
    }

    /// The signatures of records, for judges that compare them. One round trip.
    pub(super) async fn signatures(
        &self,
        session: &mut ClientSession,
        place: Place,
        ids: &[&str],
    ) -> Result<HashMap<String, Vec<Option<Signature>>>, Trouble> {
        let all = self.raw(SIGNATURES);
        let asked = all.find(signatures_among(place, ids)).projection(doc! { "signed": 1 });
        let mut cursor = asked.batch_size(BATCH).session(&mut *session).await?;
        let mut found = HashMap::with_capacity(ids.len());
        while let Some(signature) = next(&mut cursor, session).await? {
            let id = signature.get_document("_id").and_then(|key| key.get_str("id")).map_err(damaged)?;
            let signed = documents::signed_of(&signature)?;
            found.insert(id.to_owned(), signed.map(|signed| signed.signatures).unwrap_or_default());
        }
        Ok(found)
    }

    /// What is stored under an id. Outside a transaction.
    pub(super) async fn stored(&self, number: Number, id: &RecordId) -> Result<Option<RecordDocument>, Trouble> {
        let found = self.raw(RECORDS).find_one(doc! { "_id": documents::record_key(number, id) }).await?;
        Ok(found.map(|found| RecordDocument::decode(&found)).transpose()?)
    }

    /// Whether there is a record under the id. Outside a transaction.
    pub(super) async fn is_stored(&self, number: Number, id: &RecordId) -> Result<bool, Trouble> {
        let key = doc! { "_id": documents::record_key(number, id) };
        Ok(self.raw(RECORDS).find_one(key).projection(doc! { "_id": 1 }).await?.is_some())
    }

    /// What the generations have filed of a record, without signatures and pairs, in no particular order. Outside a
    /// transaction.
    pub(super) async fn filings(
        &self,
        number: Number,
        generations: impl Iterator<Item = GenerationId>,
        id: &RecordId,
    ) -> Result<Vec<SignatureDocument>, Trouble> {
        let keys: Vec<Bson> =
            generations.map(|generation| Bson::from(documents::signature_key(number, generation, id))).collect();
        let signatures = self.raw(SIGNATURES);
        let filed = signatures.find(doc! { "_id": { "$in": keys } }).projection(doc! { "signed": 0, "pairs": 0 });
        let mut cursor = filed.await?;
        let mut found = Vec::new();
        while cursor.advance().await? {
            found.push(SignatureDocument::decode(cursor.current())?);
        }
        Ok(found)
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

/// The filter of what a generation has filed of records.
pub(super) fn signatures_among(place: Place, ids: &[&str]) -> Document {
    let keys = ids.iter().map(|id| doc! { "c": place.number, "g": place.generation as i32, "id": *id });
    doc! { "_id": { "$in": keys.map(Bson::from).collect::<Vec<_>>() } }
}

pub(super) fn among(number: Number, ids: &[&str]) -> Document {
    let keys: Vec<Bson> = ids.iter().map(|id| Bson::from(doc! { "c": number, "id": *id })).collect();
    doc! { "_id": { "$in": keys } }
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
    decode: impl Fn(&RawDocument) -> crate::store::Result<T>,
) -> crate::store::Result<Vec<T>> {
    let Some(RawBsonRef::Array(items)) = found.get(name).map_err(damaged)? else { return Ok(Vec::new()) };
    let items = items.into_iter().map(|item| {
        let item = item.map_err(damaged)?;
        decode(item.as_document().ok_or_else(|| damaged("a posting is not a document"))?)
    });
    items.collect()
}

fn posting(item: &RawDocument) -> crate::store::Result<Posting> {
    let id = item.get_str("i").map_err(damaged)?.to_owned();
    Ok(Posting { id, seq: item.get_i64("s").map_err(damaged)? as Seq })
}

/// A record with those of the keys asked for that it has.
struct Keyed {
    posting: Posting,
    keys: Vec<i64>,
}

impl Keyed {
    fn decode(item: &RawDocument) -> crate::store::Result<Self> {
        let keys = item.get_array("k").map_err(damaged)?.into_iter();
        let keys = keys.map(|key| key.map_err(damaged)?.as_i64().ok_or_else(|| damaged("a key is not a number")));
        Ok(Self { posting: posting(item)?, keys: keys.collect::<crate::store::Result<_>>()? })
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
    // Two channels may share a key.
    keys.iter().map(|key| lists.get(key).cloned().unwrap_or_default()).collect()
}

pub(super) async fn next(
    cursor: &mut SessionCursor<RawDocumentBuf>,
    session: &mut ClientSession,
) -> Result<Option<RawDocumentBuf>, Trouble> {
    if !cursor.advance(session).await? {
        return Ok(None);
    }
    Ok(Some(cursor.current().to_owned()))
}
