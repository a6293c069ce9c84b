//! The shape of every document, and the only place that knows it.
//!
//! ```text
//! collections {_id: name, number, generation, profile, settings, created_at, empty}
//! records     {_id: {c, id}, seq, g, digest, fingerprint?, row, verdict, duplicate_of_seq?, stored_at}
//! signatures  {_id: {c, g, id}, seq, digest, fingerprint?, keys: [Int64], pages?: [4], signed}
//! blocks      {c, g, b, p, blockName, n, info: [{hashcode: Int64, textname: id}]}
//! latches     {_id: {c, g, k}, n}
//! ```
//! `c` is the collection's number, given once and never again, so that nothing of a dropped collection can come back under
//! its name; `g` is the generation; `b` = block × 65,536 + value; `p` numbers the pages of a bucket from 0. 64-bit values are
//! Int64 in two's complement. `row` is the client's JSON, byte for byte; `signed` is the encoding of `schemes::encoding`.

use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, Document, RawBsonRef, RawDocument, deserialize_from_bson, doc, serialize_to_bson};

use crate::collection::CollectionName;
use crate::record::RecordId;
use crate::schemes::probes;
use crate::schemes::profile::{Digest, Signed};
use crate::store::{CollectionState, GenerationId, Result, Seq, StoreError, StoredRecord};
use crate::verdict::{Fingerprint, Verdict, VerdictKind};

pub(super) const COLLECTIONS: &str = "collections";
pub(super) const RECORDS: &str = "records";
pub(super) const SIGNATURES: &str = "signatures";
pub(super) const BLOCKS: &str = "blocks";
pub(super) const LATCHES: &str = "latches";
/// Numbers of dropped collections that are still being swept.
pub(super) const DROPPED: &str = "dropped";
/// Counters and locks.
pub(super) const META: &str = "meta";

/// Entries a page holds. Pushing into a page of 128 entries costs about as much as into an empty one; from 512 on the
/// rewriting of the document shows.
pub(super) const PAGE_ENTRIES: i32 = 128;

/// The number of a collection.
pub(super) type Number = i32;

/// Number of a bucket: block × 65,536 + value.
pub(super) type BucketNumber = i32;

/// The bucket of block `block` with this value.
pub(super) fn bucket(block: u8, value: u16) -> BucketNumber {
    i32::from(block) << 16 | i32::from(value)
}

/// The four buckets of a fingerprint, ascending.
pub(super) fn buckets(fingerprint: Fingerprint) -> [BucketNumber; 4] {
    [0, 1, 2, 3].map(|block| bucket(block, probes::block(fingerprint.0, block)))
}

/// A bucket's name for readers: `Q1:9f3c` is block 1 (the most significant) with the value 0x9f3c.
fn bucket_name(bucket: BucketNumber) -> String {
    format!("Q{}:{:04x}", (bucket >> 16) + 1, bucket & 0xFFFF)
}

/// A collection as stored.
#[derive(Clone, Debug)]
pub(super) struct CollectionDocument {
    pub(super) number: Number,
    pub(super) state: CollectionState,
    /// No record was ever committed since it was created or found empty; see `admin`.
    pub(super) empty: bool,
}

impl CollectionDocument {
    pub(super) fn encode(&self) -> Result<Document> {
        let Self { number, state, empty } = self;
        let CollectionState { name, settings, generation, profile, created_at, .. } = state;
        Ok(doc! {
            "_id": name.as_str(), "number": number, "generation": *generation as i32, "profile": profile,
            "settings": serialize_to_bson(settings).map_err(damaged)?, "created_at": created_at, "empty": empty,
        })
    }

    pub(super) fn decode(document: &Document) -> Result<Self> {
        let text = |key: &str| document.get_str(key).map_err(damaged);
        let settings = document.get("settings").cloned().unwrap_or(Bson::Null);
        let state = CollectionState {
            name: CollectionName::new(text("_id")?).map_err(damaged)?,
            settings: deserialize_from_bson(settings).map_err(damaged)?,
            generation: document.get_i32("generation").map_err(damaged)? as GenerationId,
            profile: text("profile")?.to_owned(),
            created_at: text("created_at")?.to_owned(),
            live_since: None,
            scan_end: 0,
            others: Vec::new(),
        };
        let number = document.get_i32("number").map_err(damaged)?;
        Ok(Self { number, state, empty: document.get_bool("empty").map_err(damaged)? })
    }
}

/// `_id` of a record.
pub(super) fn record_key(number: Number, id: &RecordId) -> Document {
    doc! { "c": number, "id": id.as_str() }
}

/// `_id` of a signature.
pub(super) fn signature_key(number: Number, generation: GenerationId, id: &RecordId) -> Document {
    doc! { "c": number, "g": generation as i32, "id": id.as_str() }
}

/// The filter of all signatures of a generation.
pub(super) fn signatures_of(number: Number, generation: GenerationId) -> Document {
    doc! { "_id.c": number, "_id.g": generation as i32 }
}

/// What of a record changes when it is registered anew, but for seq and verdict.
pub(super) fn record_content(generation: GenerationId, signed: &Signed, row: &str, now: &str) -> Document {
    let mut content = doc! {
        "g": generation as i32, "digest": digest_value(&signed.digest), "row": row, "stored_at": now,
    };
    if let Some(fingerprint) = signed.fingerprint() {
        content.insert("fingerprint", fingerprint.0 as i64);
    }
    content
}

/// A verdict, and the seq of the record it names.
pub(super) fn verdict_content(seq: Seq, verdict: &Verdict, original: Option<Seq>) -> Result<Document> {
    let mut content = doc! { "seq": seq as i64, "verdict": serialize_to_bson(verdict).map_err(damaged)? };
    if let Some(original) = original {
        content.insert("duplicate_of_seq", original as i64);
    }
    Ok(content)
}

/// A verdict that says nothing yet.
pub(super) fn blank_verdict() -> Verdict {
    let kind = VerdictKind::Original;
    Verdict { kind, duplicate_of: None, fingerprint: None, generation: 0, similar: Vec::new(), truncated: false }
}

/// A record, and the fingerprint its current generation gave it.
#[derive(Clone, Debug)]
pub(super) struct RecordDocument {
    pub(super) record: StoredRecord,
    pub(super) generation: GenerationId,
    pub(super) fingerprint: Option<Fingerprint>,
}

impl RecordDocument {
    /// Reads a record; the verdict is blank where it was projected away.
    pub(super) fn decode(raw: &RawDocument) -> Result<Self> {
        let verdict = match raw.get("verdict").map_err(damaged)? {
            Some(RawBsonRef::Document(verdict)) => {
                mongodb::bson::deserialize_from_slice(verdict.as_bytes()).map_err(damaged)?
            }
            _ => blank_verdict(),
        };
        let id = raw.get_document("_id").and_then(|key| key.get_str("id")).map_err(damaged)?;
        let record = StoredRecord {
            id: RecordId::new(id).map_err(damaged)?,
            seq: raw.get_i64("seq").map_err(damaged)? as Seq,
            row: raw.get_str("row").map_err(damaged)?.into(),
            digest: digest_of(raw)?,
            verdict,
            duplicate_of_seq: optional_i64(raw, "duplicate_of_seq")?.map(|seq| seq as Seq),
            stored_at: raw.get_str("stored_at").map_err(damaged)?.to_owned(),
        };
        let generation = raw.get_i32("g").map_err(damaged)? as GenerationId;
        Ok(Self { record, generation, fingerprint: fingerprint_of(raw)? })
    }
}

/// A signature as stored.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SignatureDocument {
    pub(super) id: RecordId,
    pub(super) generation: GenerationId,
    pub(super) seq: Seq,
    pub(super) digest: Digest,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) keys: Vec<u64>,
    /// The page of each of the fingerprint's four buckets.
    pub(super) pages: Option<[i32; 4]>,
    /// Decodes to the signatures of all channels; its keys are empty.
    pub(super) signed: Option<Signed>,
}

impl SignatureDocument {
    pub(super) fn encode(&self, number: Number) -> Document {
        let Self { id, generation, seq, digest, fingerprint, keys, pages, signed } = self;
        let mut document = doc! {
            "_id": signature_key(number, *generation, id), "seq": *seq as i64, "digest": digest_value(digest),
            "keys": keys.iter().map(|key| Bson::Int64(*key as i64)).collect::<Vec<_>>(),
        };
        if let Some(fingerprint) = fingerprint {
            document.insert("fingerprint", fingerprint.0 as i64);
        }
        if let Some(pages) = pages {
            document.insert("pages", pages.to_vec());
        }
        if let Some(signed) = signed {
            document.insert("signed", Binary { subtype: BinarySubtype::Generic, bytes: signed.encode() });
        }
        document
    }

    pub(super) fn decode(raw: &RawDocument) -> Result<Self> {
        let key = raw.get_document("_id").map_err(damaged)?;
        let mut keys = Vec::new();
        for item in raw.get_array("keys").map_err(damaged)? {
            match item.map_err(damaged)? {
                RawBsonRef::Int64(key) => keys.push(key as u64),
                _ => return Err(damaged("a posting key is not an Int64")),
            }
        }
        Ok(Self {
            id: RecordId::new(key.get_str("id").map_err(damaged)?).map_err(damaged)?,
            generation: key.get_i32("g").map_err(damaged)? as GenerationId,
            seq: raw.get_i64("seq").map_err(damaged)? as Seq,
            digest: digest_of(raw)?,
            fingerprint: fingerprint_of(raw)?,
            keys,
            pages: pages_of(raw)?,
            signed: signed_of(raw)?,
        })
    }

    /// The buckets with their pages; empty without a fingerprint.
    pub(super) fn places(&self) -> Vec<(BucketNumber, i32)> {
        match (self.fingerprint, self.pages) {
            (Some(fingerprint), Some(pages)) => buckets(fingerprint).into_iter().zip(pages).collect(),
            _ => Vec::new(),
        }
    }
}

fn pages_of(raw: &RawDocument) -> Result<Option<[i32; 4]>> {
    let Some(RawBsonRef::Array(array)) = raw.get("pages").map_err(damaged)? else { return Ok(None) };
    let pages = array.into_iter().map(|item| item.ok().and_then(|item| item.as_i32())).collect::<Option<Vec<_>>>();
    let pages = pages.and_then(|pages| <[i32; 4]>::try_from(pages).ok());
    pages.map(Some).ok_or_else(|| damaged("a signature does not name four pages"))
}

/// The signatures of a signature document, for judges that compare them.
pub(super) fn signed_of(raw: &RawDocument) -> Result<Option<Signed>> {
    let Some(RawBsonRef::Binary(binary)) = raw.get("signed").map_err(damaged)? else { return Ok(None) };
    Signed::decode(binary.bytes).map(Some).ok_or_else(|| damaged("the signatures of a record cannot be read"))
}

/// One entry of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) fingerprint: Fingerprint,
    pub(super) id: &'a str,
}

/// A page as read: entries are decoded as they are walked, without copying.
pub(super) struct PageDocument<'a> {
    pub(super) bucket: BucketNumber,
    pub(super) page: i32,
    /// Entries ever pushed; never lowered.
    pub(super) pushed: i32,
    entries: Option<&'a mongodb::bson::RawArray>,
}

impl<'a> PageDocument<'a> {
    /// What to ask for.
    pub(super) fn projection() -> Document {
        doc! { "_id": 0, "b": 1, "p": 1, "n": 1, "info": 1 }
    }

    pub(super) fn decode(raw: &'a RawDocument) -> Result<Self> {
        let (mut bucket, mut page, mut pushed, mut entries) = (None, None, None, None);
        for element in raw {
            let (key, value) = element.map_err(damaged)?;
            match (key.as_str(), value) {
                ("b", RawBsonRef::Int32(value)) => bucket = Some(value),
                ("p", RawBsonRef::Int32(value)) => page = Some(value),
                ("n", RawBsonRef::Int32(value)) => pushed = Some(value),
                ("info", RawBsonRef::Array(value)) => entries = Some(value),
                _ => {}
            }
        }
        match (bucket, page, pushed) {
            (Some(bucket), Some(page), Some(pushed)) => Ok(Self { bucket, page, pushed, entries }),
            _ => Err(damaged("a page lacks b, p or n")),
        }
    }

    /// Calls `see` with every entry, in order of commit. O(entries).
    pub(super) fn walk(&self, mut see: impl FnMut(Entry<'a>)) -> Result<()> {
        let Some(entries) = self.entries else { return Ok(()) };
        for item in entries {
            let RawBsonRef::Document(item) = item.map_err(damaged)? else {
                return Err(damaged("an entry of a page is not a document"));
            };
            let (mut hashcode, mut textname) = (None, None);
            for element in item {
                match element.map_err(damaged)? {
                    (key, RawBsonRef::Int64(value)) if key.as_str() == "hashcode" => hashcode = Some(value),
                    (key, RawBsonRef::String(value)) if key.as_str() == "textname" => textname = Some(value),
                    _ => {}
                }
            }
            match (hashcode, textname) {
                (Some(hashcode), Some(id)) => see(Entry { fingerprint: Fingerprint(hashcode as u64), id }),
                _ => return Err(damaged("an entry of a page lacks hashcode or textname")),
            }
        }
        Ok(())
    }
}

/// One statement of an update command: files an entry on a page, which is created if needed.
pub(super) fn push_statement(
    at: (Number, GenerationId, BucketNumber, i32),
    fingerprint: Fingerprint,
    id: &RecordId,
) -> Document {
    let update = doc! {
        "$push": { "info": { "hashcode": fingerprint.0 as i64, "textname": id.as_str() } },
        "$inc": { "n": 1 },
        "$setOnInsert": { "blockName": bucket_name(at.2) },
    };
    doc! { "q": page_key(at), "u": update, "upsert": true }
}

/// A whole page, for filling in bulk.
pub(super) fn page(
    at: (Number, GenerationId, BucketNumber, i32),
    entries: impl Iterator<Item = (Fingerprint, String)>,
) -> Document {
    let entries = entries.map(|(fingerprint, id)| doc! { "hashcode": fingerprint.0 as i64, "textname": id });
    let entries: Vec<Bson> = entries.map(Bson::from).collect();
    let mut page = page_key(at);
    page.extend(doc! { "blockName": bucket_name(at.2), "n": entries.len() as i32, "info": entries });
    page
}

/// One statement of an update command: takes a record's entries off a page.
pub(super) fn pull_statement(at: (Number, GenerationId, BucketNumber, i32), id: &RecordId) -> Document {
    doc! { "q": page_key(at), "u": { "$pull": { "info": { "textname": id.as_str() } } } }
}

fn page_key((number, generation, bucket, page): (Number, GenerationId, BucketNumber, i32)) -> Document {
    doc! { "c": number, "g": generation as i32, "b": bucket, "p": page }
}

/// `_id` of a latch.
pub(super) fn latch_key(number: Number, generation: GenerationId, latch: i32) -> Document {
    doc! { "c": number, "g": generation as i32, "k": latch }
}

/// A digest as stored.
pub(super) fn digest_value(digest: &Digest) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: digest.0.to_vec() }
}

pub(super) fn digest_of(raw: &RawDocument) -> Result<Digest> {
    let bytes = raw.get_binary("digest").map_err(damaged)?.bytes;
    bytes.try_into().map(Digest).map_err(|_| damaged("a digest does not have 32 bytes"))
}

fn fingerprint_of(raw: &RawDocument) -> Result<Option<Fingerprint>> {
    Ok(optional_i64(raw, "fingerprint")?.map(|bits| Fingerprint(bits as u64)))
}

fn optional_i64(raw: &RawDocument, key: &str) -> Result<Option<i64>> {
    match raw.get(key).map_err(damaged)? {
        None | Some(RawBsonRef::Null) => Ok(None),
        Some(RawBsonRef::Int64(value)) => Ok(Some(value)),
        Some(_) => Err(damaged(format!("{key} is not an Int64"))),
    }
}

/// A document is not what this module writes.
pub(super) fn damaged(reason: impl std::fmt::Display) -> StoreError {
    StoreError::Internal(format!("a document in the database is not as expected: {reason}; run doppel doctor"))
}
