//! The form of every document. No other module depends on the form.
//!
//! ```text
//! collections {_id: name, number, generation, last_generation, profile, settings, created_at, live_since?, scan_end, commits,
//!              decided?, forgotten?, frequencies?, hash_key?, others: [{id, settings, profile, phase, created_at, scan_end}]}
//! records     {_id: {c, id}, seq, g, digest, fingerprint?, row, hashes?, verdict, duplicate_of_seq?, stored_at}
//! signatures  {_id: {c, g, id}, seq, digest, fingerprint?, keys: [Int64], key_counts: [Int32], pages?: [4], pairs?: [Int64],
//!              signed}
//! blocks      {c, g, b, p, blockName, n, info: [{hashcode: Int64, textname: id}]}
//! statistics  {_id: {c, g, n}, data}, {_id: {c, f: version}, data}
//! decisions   {_id: {c, a, b}, rulings: [{judgement, by?, note?, at, original?}]}
//! changes     {_id: {c, n}, kind, id, seq?: Int64, other?, judgement?}
//! checkpoints {_id: {c, name}, version, value}
//! tasks       {_id: id, collection, kind, status, open, version, state}
//! dropped     {_id: number or {c, g}}
//! waiting     {_id: {c, i: instance}, at}
//! ```
//! `c` is the number of the collection. A number is used only once, so that a new collection of the same name never shows documents
//! of a dropped collection. `g` is the generation; `b` = block × 65,536 + value; `p` numbers the pages of a bucket from 0. 64-bit
//! values are stored as Int64 in two's complement. `row` is the JSON of the client, byte for byte. If the collection keeps no
//! texts, `row` is empty and `hashes` {row, identity?, time?} replaces it. `signed` has the encoding of `schemes::encoding`.
//! `statistics` contains the word frequencies that a generation began with, in pieces, and the document frequencies of collections
//! (`f`). MongoDB also compares the names of the fields of keys: every `f` is less than every `g`, so that a range over the pieces
//! of a generation contains no `f`, and a range over a collection contains both.
//! `commits` is the number of commits of a collection, `decided` is the last commit that changed a decision, `waiting` lists the
//! instances that wait for a commit (see `latch`). `changes` contains the changes that the records themselves do not show, by the
//! number `n` of the commit; `forgotten` is the highest number that was deleted from it (see `changes`).

mod change;
mod collection;
mod decision;
mod frequencies;
mod pages;
mod record;
mod signature;
mod task;

use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Document, RawBsonRef, RawDocument, doc};

use doppel_core::index::probes;
use doppel_core::record::RecordId;
use doppel_core::schemes::profile::Digest;
use doppel_core::verdict::Fingerprint;
use doppel_store::{GenerationId, Result, Seq, StoreError};

pub(super) use self::change::{REFILED, changes_between, decode_change, encode_change, took_lists};
pub(super) use self::collection::{CollectionDocument, keep_of};
pub(super) use self::decision::{decision_key, decode_decision, encode_ruling, naming_first, naming_second};
pub(super) use self::frequencies::{encode_frequencies, frequencies_except, frequencies_key};
pub(super) use self::pages::{PageDocument, PageKey, page, page_key, pull_statement, push_statement};
pub(super) use self::record::{RecordDocument, record_content, verdict_content};
pub(super) use self::signature::{SignatureDocument, filed_of, filed_projection, pairs_of, seqs_value, signed_of};
pub(super) use self::task::{decode_task, encode_task};

pub(super) const COLLECTIONS: &str = "collections";
pub(super) const RECORDS: &str = "records";
pub(super) const SIGNATURES: &str = "signatures";
pub(super) const BLOCKS: &str = "blocks";
/// Word frequencies of generations and document frequencies of collections.
pub(super) const STATISTICS: &str = "statistics";
pub(super) const WAITING: &str = "waiting";
pub(super) const DECISIONS: &str = "decisions";
/// The log of the change feed.
pub(super) const CHANGES: &str = "changes";
/// Named values: the positions of followers, the handling of events, the progress of webhooks.
pub(super) const VALUES: &str = "checkpoints";
pub(super) const TASKS: &str = "tasks";
/// Dropped collections and generations whose documents are still being deleted.
pub(super) const DROPPED: &str = "dropped";
/// Counters and locks.
pub(super) const META: &str = "meta";

/// Number of entries that are added to a page. An insert into a page of 128 entries costs about as much as into an empty page; from
/// 512 entries on, rewriting the document takes measurable time.
pub(super) const PAGE_ENTRIES: i32 = 128;

/// The number of a collection as it is stored.
pub(super) type StoredNumber = i32;

/// The number of a bucket: block × 65,536 + value.
pub(super) type BucketNumber = i32;

/// The number of buckets: four blocks of 16 bits.
pub(super) const BUCKETS: usize = 4 << 16;

/// Returns the bucket of block `block` with this value.
pub(super) fn bucket(block: u8, value: u16) -> BucketNumber {
    i32::from(block) << 16 | i32::from(value)
}

/// Returns the four buckets of a fingerprint, in ascending order.
pub(super) fn buckets(fingerprint: Fingerprint) -> [BucketNumber; 4] {
    [0, 1, 2, 3].map(|block| bucket(block, probes::block(fingerprint.0, block)))
}

/// Returns the name of a bucket for people: `Q1:9f3c` is block 1 (the most significant) with the value 0x9f3c.
fn bucket_name(bucket: BucketNumber) -> String {
    format!("Q{}:{:04x}", (bucket >> 16) + 1, bucket & 0xFFFF)
}

/// Returns the `_id` of a record.
pub(super) fn record_key(number: StoredNumber, id: &RecordId) -> Document {
    doc! { "c": number, "id": id.as_str() }
}

/// Returns the `_id` of a signature.
pub(super) fn signature_key(number: StoredNumber, generation: GenerationId, id: &RecordId) -> Document {
    doc! { "c": number, "g": generation.0 as i32, "id": id.as_str() }
}

/// Returns the filter of all signatures of a generation.
pub(super) fn signatures_of(number: StoredNumber, generation: GenerationId) -> Document {
    doc! { "_id.c": number, "_id.g": generation.0 as i32 }
}

/// Decodes a generation.
pub(super) fn generation_of(stored: i32) -> GenerationId {
    GenerationId(stored as u32)
}

/// Encodes a seq.
pub(super) fn seq_value(seq: Seq) -> i64 {
    seq.0 as i64
}

/// Decodes a seq.
pub(super) fn seq_of(stored: i64) -> Seq {
    Seq(stored as u64)
}

/// Returns the `_id` of a document of a generation.
pub(super) fn generation_key(number: StoredNumber, generation: GenerationId) -> Document {
    doc! { "c": number, "g": generation.0 as i32 }
}

/// Encodes a digest.
pub(super) fn digest_value(digest: &Digest) -> Binary {
    binary(&digest.0)
}

fn binary(bytes: &[u8]) -> Binary {
    Binary { subtype: BinarySubtype::Generic, bytes: bytes.to_vec() }
}

pub(super) fn digest_of(raw: &RawDocument) -> Result<Digest> {
    let bytes = raw.get_binary("digest").map_err(damaged)?.bytes;
    bytes.try_into().map(Digest).map_err(|_| damaged("a digest does not have 32 bytes"))
}

fn fingerprint_of(raw: &RawDocument) -> Result<Option<Fingerprint>> {
    Ok(optional_i64(raw, "fingerprint")?.map(|bits| Fingerprint(bits as u64)))
}

pub(super) fn optional_i64(raw: &RawDocument, key: &str) -> Result<Option<i64>> {
    match raw.get(key).map_err(damaged)? {
        None | Some(RawBsonRef::Null) => Ok(None),
        Some(RawBsonRef::Int64(value)) => Ok(Some(value)),
        Some(_) => Err(damaged(format!("{key} is not an Int64"))),
    }
}

/// Returns the error that a document does not have the expected form.
pub(super) fn damaged(reason: impl std::fmt::Display) -> StoreError {
    StoreError::Internal(format!("a document in the database is not as expected: {reason}; run doppel doctor"))
}
