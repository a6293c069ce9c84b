//! The form of keys and values on disk. No other module depends on it.
//!
//! All integers in keys are big-endian, so that the order of bytes is the order of numbers; integers in values are little-endian.
//!
//! | keyspace | key | value |
//! |---|---|---|
//! | `meta` | `format` | u32: [`FORMAT`] |
//! | `meta` | `next` | u32: the next collection number |
//! | `meta` | `keys` | JSON of the keys and their version; earlier programs write it back without members that they do not know |
//! | `meta` | `accounts` | JSON of the accounts, written with `keys`; earlier programs do not read or write it |
//! | `meta` | `c/` name | JSON of [`CollectionEntry`] |
//! | `meta` | `n/` number u32 | next seq u64, number of records u64 |
//! | `meta` | `t/` number u32 | empty: the collection is dropped, its ranges must still be deleted |
//! | `records` | number u32, seq u64 | see [`encode_record`] |
//! | `ids` | number u32, id | seq u64 |
//! | `signatures` | number u32, generation u32, seq u64 | see [`encode_entry`] |
//!
//! `keys` describes generations, pairs, decisions, tasks and document frequencies. Values of `records` and `signatures` begin with
//! a version byte, so that a later version of the program can read old values without rewriting them.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use doppel_core::collection::ChannelPosition;
use doppel_core::record::RecordId;
use doppel_core::schemes::Signature;
use doppel_core::schemes::encoding::{put_signature, take_signature};
use doppel_core::schemes::profile::{Digest, PostingKey, Signed};
use doppel_core::verdict::{Fingerprint, Verdict};
use doppel_store::content::RecordContent;
use doppel_store::{CollectionNumber, CollectionState, GenerationId, Result, Seq, StoreError, StoredRecord};

/// The version of the directory format. It is raised if an older program could misread the directory.
pub(super) const FORMAT: u32 = 4;
/// The format without the judgement `same_event`, which an older program could not read. Opening such a directory converts it to [`FORMAT`].
pub(super) const FORMAT_WITHOUT_EVENTS: u32 = 3;
/// The format without a log of changes. An older program would not log its changes, so that opening such a directory converts it to
/// [`FORMAT`].
pub(super) const FORMAT_WITHOUT_CHANGES: u32 = 2;
/// The format without generations, pairs, decisions and tasks. An older program would not update them with the records, so that
/// opening such a directory converts it to [`FORMAT`].
pub(super) const FORMAT_RECORDS_ONLY: u32 = 1;
const RECORD: u8 = 2;
/// The layout of a record with hashes instead of a row. It is written only in collections that keep no texts; an earlier program
/// refuses such a collection as a whole.
const RECORD_WITHOUT_TEXT: u8 = 3;
/// The previous layout of records, which did not contain the generation of the digest. It can still be read.
const RECORD_BARE_DIGEST: u8 = 1;
const ENTRY: u8 = 2;
/// The previous layout of entries, whose counts had only 16 bits, too few for a channel with many keys. It can still be read.
const ENTRY_SHORT_COUNTS: u8 = 1;

pub(super) const KEY_FORMAT: &[u8] = b"format";
pub(super) const KEY_NEXT_COLLECTION: &[u8] = b"next";
pub(super) const KEY_RING: &[u8] = b"keys";
pub(super) const ACCOUNTS: &[u8] = b"accounts";
pub(super) const PREFIX_COLLECTION: &[u8] = b"c/";
pub(super) const PREFIX_TOMBSTONE: &[u8] = b"t/";
const PREFIX_NUMBERS: &[u8] = b"n/";

/// The entry of a collection in `meta`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CollectionEntry {
    /// The prefix of its keys. A number is never used twice.
    pub(super) number: CollectionNumber,
    /// The number of the next generation, which was never used before; 0 if only the live generation was ever begun.
    #[serde(default)]
    pub(super) next_generation: GenerationId,
    pub(super) state: CollectionState,
}

impl CollectionEntry {
    /// Returns the number of the next generation.
    pub(super) fn next_generation(&self) -> GenerationId {
        let highest =
            self.state.others.iter().map(|other| other.id).max().unwrap_or(GenerationId(0)).max(self.state.generation);
        self.next_generation.max(highest.next())
    }
}

/// The data of a record that the index and a removal need.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct IndexEntry {
    pub(super) digest_key: u64,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) keys: Vec<PostingKey>,
    /// Stored only if the judge needs signatures. The keys alone are sufficient to rebuild the index.
    pub(super) signatures: Vec<Option<Signature>>,
}

impl IndexEntry {
    pub(super) fn of(signed: &Signed, with_signatures: bool) -> Self {
        let signatures = if with_signatures { signed.signatures.clone() } else { Vec::new() };
        Self {
            digest_key: signed.digest.key(),
            fingerprint: signed.fingerprint(),
            keys: signed.keys.clone(),
            signatures,
        }
    }
}

/// Returns the number of the collection in a key that begins with a number; `None` if the key is too short.
pub(super) fn number_of_key(key: &[u8]) -> Option<CollectionNumber> {
    key.first_chunk().map(|number| CollectionNumber(u32::from_be_bytes(*number)))
}

pub(super) fn collection_key(name: &str) -> Vec<u8> {
    [PREFIX_COLLECTION, name.as_bytes()].concat()
}

pub(super) fn numbers_key(number: CollectionNumber) -> Vec<u8> {
    [PREFIX_NUMBERS, &number.0.to_be_bytes()].concat()
}

pub(super) fn tombstone_key(number: CollectionNumber) -> Vec<u8> {
    [PREFIX_TOMBSTONE, &number.0.to_be_bytes()].concat()
}

pub(super) fn id_key(number: CollectionNumber, id: &RecordId) -> Vec<u8> {
    [&number.0.to_be_bytes(), id.as_str().as_bytes()].concat()
}

pub(super) fn record_key(number: CollectionNumber, seq: Seq) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&number.0.to_be_bytes());
    key[4..].copy_from_slice(&seq.0.to_be_bytes());
    key
}

/// Returns the record of a [`record_key`].
pub(super) fn record_of_key(key: &[u8]) -> Option<(CollectionNumber, Seq)> {
    let (number, seq) = key.split_first_chunk()?;
    Some((CollectionNumber(u32::from_be_bytes(*number)), Seq(u64::from_be_bytes(seq.try_into().ok()?))))
}

pub(super) fn signature_key(number: CollectionNumber, generation: GenerationId, seq: Seq) -> [u8; 16] {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&number.0.to_be_bytes());
    key[4..8].copy_from_slice(&generation.0.to_be_bytes());
    key[8..].copy_from_slice(&seq.0.to_be_bytes());
    key
}

/// Returns the generation of a key of `signatures`.
pub(super) fn generation_of_key(key: &[u8]) -> Option<GenerationId> {
    Some(GenerationId(u32::from_be_bytes(key.get(4..8)?.try_into().ok()?)))
}

/// Returns the seq at the end of a key of `records` or `signatures`.
pub(super) fn seq_of_key(key: &[u8]) -> Result<Seq> {
    let tail = key.len().checked_sub(8).map(|at| &key[at..]);
    tail.and_then(|bytes| bytes.try_into().ok())
        .map(|bytes| Seq(u64::from_be_bytes(bytes)))
        .ok_or_else(|| damaged("key"))
}

pub(super) fn encode_numbers(next_seq: Seq, count: u64) -> [u8; 16] {
    let mut value = [0; 16];
    value[..8].copy_from_slice(&next_seq.0.to_le_bytes());
    value[8..].copy_from_slice(&count.to_le_bytes());
    value
}

pub(super) fn decode_numbers(bytes: &[u8]) -> Result<(Seq, u64)> {
    let mut reader = ValueReader(bytes, "collection numbers");
    Ok((Seq(reader.u64()?), reader.u64()?))
}

pub(super) fn decode_u32(bytes: &[u8], what: &'static str) -> Result<u32> {
    ValueReader(bytes, what).u32()
}

pub(super) fn decode_seq(bytes: &[u8]) -> Result<Seq> {
    ValueReader(bytes, "id").u64().map(Seq)
}

/// Encodes a record: version, digest (32 bytes), the generation of the digest (u32), seq of `duplicate_of` (0: none), id (u16
/// length), time (u16 length), verdict as JSON (u32 length), then the row. A record without text ([`RECORD_WITHOUT_TEXT`]) ends
/// with the JSON of its [`ContentHashes`](doppel_store::content::ContentHashes) instead.
pub(super) fn encode_record(record: &StoredRecord) -> Result<Vec<u8>> {
    let verdict = serde_json::to_vec(&record.verdict).map_err(|error| StoreError::Internal(error.to_string()))?;
    let id = record.id.as_str().as_bytes();
    let time = record.stored_at.as_bytes();
    let (version, content) = match &record.content {
        RecordContent::Row(row) => (RECORD, Cow::Borrowed(row.as_bytes())),
        RecordContent::Hashes(hashes) => {
            let hashes = serde_json::to_vec(hashes).map_err(|error| StoreError::Internal(error.to_string()))?;
            (RECORD_WITHOUT_TEXT, Cow::Owned(hashes))
        }
    };
    let mut value = Vec::with_capacity(64 + id.len() + time.len() + verdict.len() + content.len());
    value.push(version);
    value.extend_from_slice(&record.digest.0);
    value.extend_from_slice(&record.digest_generation.0.to_le_bytes());
    value.extend_from_slice(&record.duplicate_of_seq.unwrap_or(Seq(0)).0.to_le_bytes());
    value.extend_from_slice(&(id.len() as u16).to_le_bytes());
    value.extend_from_slice(id);
    value.extend_from_slice(&(time.len() as u16).to_le_bytes());
    value.extend_from_slice(time);
    value.extend_from_slice(&(verdict.len() as u32).to_le_bytes());
    value.extend_from_slice(&verdict);
    value.extend_from_slice(&content);
    Ok(value)
}

/// Decodes a record. Without `with_verdict`, the verdict is blank: judges do not read it, and parsing it would cost more than
/// everything else.
pub(super) fn decode_record(seq: Seq, bytes: &[u8], with_verdict: bool) -> Result<StoredRecord> {
    let mut reader = ValueReader(bytes, "record");
    let (bare_digest, has_text) = match reader.u8()? {
        RECORD => (false, true),
        RECORD_WITHOUT_TEXT => (false, false),
        RECORD_BARE_DIGEST => (true, true),
        version => return Err(reader.unknown(version, RECORD_WITHOUT_TEXT)),
    };
    let digest = Digest(reader.take(32)?.try_into().map_err(|_| damaged("record"))?);
    // The verdict does not contain the generation of the digest, because a later update may have used another generation.
    let digest_generation = GenerationId(if bare_digest { 0 } else { reader.u32()? });
    let duplicate_of_seq = Some(Seq(reader.u64()?)).filter(|seq| *seq != Seq(0));
    let length = usize::from(reader.u16()?);
    let id = RecordId::new(reader.text(length)?).map_err(|_| damaged("record"))?;
    let length = usize::from(reader.u16()?);
    let stored_at = reader.text(length)?.to_owned();
    let length = reader.u32()? as usize;
    let verdict = reader.take(length)?;
    let verdict =
        if with_verdict { serde_json::from_slice(verdict).map_err(|_| damaged("verdict"))? } else { Verdict::blank() };
    let content = match has_text {
        true => RecordContent::Row(Arc::from(reader.text(reader.0.len())?)),
        false => RecordContent::Hashes(serde_json::from_slice(reader.0).map_err(|_| damaged("record"))?),
    };
    Ok(StoredRecord { id, seq, content, digest, digest_generation, verdict, duplicate_of_seq, stored_at })
}

const HAS_FINGERPRINT: u8 = 1;
const HAS_SIGNATURES: u8 = 2;

/// Encodes an index entry. Layout: version; flags; digest key; fingerprint, if flagged; number of keys (u32); runs of keys of one channel:
/// channel (u8), length (u32), the keys (8 bytes each); signatures, if flagged: number (u8), then for each signature a tag (0 none, 1
/// fingerprint, 2 hashes with u32 length; higher tags: see `schemes::encoding`) and its words.
///
/// The keys are stored instead of their sources, so that opening needs no profile and no hashing. A key needs 8 bytes: keys are hashes and
/// cannot be compressed.
pub(super) fn encode_entry(entry: &IndexEntry) -> Vec<u8> {
    let mut value = Vec::with_capacity(24 + entry.keys.len() * 8);
    let mut flags = 0;
    flags |= if entry.fingerprint.is_some() { HAS_FINGERPRINT } else { 0 };
    flags |= if entry.signatures.is_empty() { 0 } else { HAS_SIGNATURES };
    value.extend_from_slice(&[ENTRY, flags]);
    value.extend_from_slice(&entry.digest_key.to_le_bytes());
    if let Some(fingerprint) = entry.fingerprint {
        value.extend_from_slice(&fingerprint.0.to_le_bytes());
    }
    value.extend_from_slice(&(entry.keys.len() as u32).to_le_bytes());
    for run in entry.keys.chunk_by(|a, b| a.channel == b.channel) {
        value.push(run[0].channel.0);
        value.extend_from_slice(&(run.len() as u32).to_le_bytes());
        value.extend(run.iter().flat_map(|key| key.key.to_le_bytes()));
    }
    if !entry.signatures.is_empty() {
        encode_signatures(&entry.signatures, &mut value);
    }
    value
}

fn encode_signatures(signatures: &[Option<Signature>], value: &mut Vec<u8>) {
    value.push(signatures.len() as u8);
    for signature in signatures {
        match signature {
            None => value.push(0),
            Some(Signature::Fingerprint(fingerprint)) => {
                value.push(1);
                value.extend_from_slice(&fingerprint.0.to_le_bytes());
            }
            Some(Signature::Hashes(hashes)) => {
                value.push(2);
                value.extend_from_slice(&(hashes.len() as u32).to_le_bytes());
                value.extend(hashes.iter().flat_map(|hash| hash.to_le_bytes()));
            }
            Some(other) => put_signature(value, Some(other)),
        }
    }
}

/// Decodes an index entry. Returns `None` if the value is damaged, because this concerns only one record. A layout of a later
/// version is an error, because it concerns all records.
pub(super) fn decode_entry(bytes: &[u8]) -> Result<Option<IndexEntry>> {
    let mut reader = ValueReader(bytes, "signature");
    match reader.u8() {
        Ok(version @ (ENTRY | ENTRY_SHORT_COUNTS)) => Ok(read_entry(reader, version == ENTRY_SHORT_COUNTS).ok()),
        Ok(version) => Err(reader.unknown(version, ENTRY)),
        Err(_) => Ok(None),
    }
}

fn read_entry(mut reader: ValueReader<'_>, short_counts: bool) -> Result<IndexEntry> {
    let flags = reader.u8()?;
    let digest_key = reader.u64()?;
    let fingerprint = if flags & HAS_FINGERPRINT == 0 { None } else { Some(Fingerprint(reader.u64()?)) };
    let total = reader.count(short_counts)?;
    // A damaged count must not allocate more memory than the value can fill.
    let mut keys = Vec::with_capacity(total.min(reader.0.len() / 8));
    while keys.len() < total {
        let channel = ChannelPosition(reader.u8()?);
        let length = reader.count(short_counts)?;
        for _ in 0..length {
            keys.push(PostingKey { channel, key: reader.u64()? });
        }
    }
    let signatures = if flags & HAS_SIGNATURES == 0 { Vec::new() } else { decode_signatures(&mut reader)? };
    // Remaining bytes mean that a count was wrong.
    if keys.len() != total || !reader.0.is_empty() {
        return Err(damaged("signature"));
    }
    Ok(IndexEntry { digest_key, fingerprint, keys, signatures })
}

fn decode_signatures(reader: &mut ValueReader<'_>) -> Result<Vec<Option<Signature>>> {
    let count = reader.u8()?;
    let mut signatures = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let mut rest = reader.0;
        signatures.push(match reader.u8()? {
            0 => None,
            1 => Some(Signature::Fingerprint(Fingerprint(reader.u64()?))),
            2 => {
                let length = reader.u32()?;
                let hashes: Result<Vec<u64>> = (0..length).map(|_| reader.u64()).collect();
                Some(Signature::Hashes(hashes?.into()))
            }
            _ => {
                let signature = take_signature(&mut rest).ok_or_else(|| damaged("signature"))?;
                reader.0 = rest;
                signature
            }
        });
    }
    Ok(signatures)
}

/// Reads values from the beginning of bytes. Missing bytes are an error, so that damaged data cannot cause a panic.
struct ValueReader<'a>(&'a [u8], &'static str);

impl<'a> ValueReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count).ok_or_else(|| damaged(self.1))?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| damaged(self.1))
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a count, which has 16 bits in an old layout and 32 bits otherwise.
    fn count(&mut self, is_short: bool) -> Result<usize> {
        if is_short { self.u16().map(usize::from) } else { self.u32().map(|count| count as usize) }
    }

    fn text(&mut self, length: usize) -> Result<&'a str> {
        std::str::from_utf8(self.take(length)?).map_err(|_| damaged(self.1))
    }

    fn unknown(&self, version: u8, known: u8) -> StoreError {
        StoreError::Internal(format!(
            "a {} has layout {version}, this program knows {known}; use the program version that wrote it",
            self.1
        ))
    }
}

fn damaged(what: &str) -> StoreError {
    StoreError::Internal(format!("a {what} on disk cannot be read; restore the data directory from a backup"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::schemes::hash::Md5;
    use doppel_core::schemes::terms::{Term, Terms};
    use doppel_store::content::{ContentHashes, KeyedHash};

    fn entry() -> IndexEntry {
        let keys = [(1, 4), (1, 5), (2, 6)];
        IndexEntry {
            digest_key: 0x0102,
            fingerprint: Some(Fingerprint(3)),
            keys: keys.map(|(channel, key)| PostingKey { channel: ChannelPosition(channel), key }).to_vec(),
            signatures: vec![
                None,
                Some(Signature::Hashes([7, 8].into())),
                Some(Signature::Fingerprint(Fingerprint(9))),
                Some(Signature::Minima([5, 3].into())),
                Some(Signature::Digest(Md5([1; 16]))),
                Some(Signature::Digests([Md5([2; 16]), Md5([3; 16])].into())),
                Some(Signature::DigestTerms(Md5([4; 16]), Terms([Term { hash: 6, weight: 300 }].into()))),
                Some(Signature::Terms(Terms([Term { hash: 7, weight: 1 }, Term { hash: 8, weight: 2 }].into()))),
            ],
        }
    }

    fn record() -> StoredRecord {
        StoredRecord {
            id: RecordId::new("编号").expect("a valid id"),
            seq: Seq(5),
            content: RecordContent::Row("{\"title\":\"路灯不亮\"}".into()),
            digest: Digest([7; 32]),
            digest_generation: GenerationId(4),
            verdict: Verdict { duplicate_of: RecordId::new("first").ok(), ..Verdict::blank() },
            duplicate_of_seq: Some(Seq(2)),
            stored_at: "2026-01-01T00:00:00Z".into(),
        }
    }

    #[test]
    fn encoded_values_decode_to_themselves() {
        assert_eq!(decode_entry(&encode_entry(&entry())).expect("a known layout"), Some(entry()));
        let bare = IndexEntry { digest_key: 1, fingerprint: None, keys: Vec::new(), signatures: Vec::new() };
        assert_eq!(decode_entry(&encode_entry(&bare)).expect("a known layout"), Some(bare));
        let value = encode_record(&record()).expect("a value");
        let decoded = decode_record(Seq(5), &value, true).expect("a record");
        assert_eq!(format!("{decoded:?}"), format!("{:?}", record()));
        let candidate = decode_record(Seq(5), &value, false).expect("a record");
        assert_eq!((candidate.content, candidate.verdict), (record().content, Verdict::blank()));
        let hashes = ContentHashes { row: KeyedHash([8; 32]), identity: vec![KeyedHash([9; 32])], time: None };
        let without_text = StoredRecord { content: RecordContent::Hashes(Box::new(hashes)), ..record() };
        let decoded = decode_record(Seq(5), &encode_record(&without_text).expect("a value"), true).expect("a record");
        assert_eq!(format!("{decoded:?}"), format!("{without_text:?}"));
    }

    #[test]
    fn the_layout_of_an_index_entry_is_fixed() {
        let plain = IndexEntry { signatures: Vec::new(), keys: entry().keys[..1].to_vec(), ..entry() };
        let head = [&0x0102_u64.to_le_bytes()[..], &3_u64.to_le_bytes()].concat();
        let key = 4_u64.to_le_bytes();
        let expected = [&[2, 1][..], &head[..], &[1, 0, 0, 0, 1, 1, 0, 0, 0], &key].concat();
        assert_eq!(encode_entry(&plain), expected);
        let before = [&[1, 1][..], &head[..], &[1, 0, 1, 1, 0], &key].concat();
        assert_eq!(decode_entry(&before).expect("a known layout"), Some(plain), "the previous layout is still read");
        assert!(decode_entry(&[3, 0]).is_err(), "a later layout is an error");
    }

    #[test]
    fn a_record_of_the_previous_layout_is_still_read() {
        let value = encode_record(&record()).expect("a value");
        let before = [&[1][..], &value[1..33], &value[37..]].concat();
        let decoded = decode_record(Seq(5), &before, true).expect("a record");
        assert_eq!(
            format!("{decoded:?}"),
            format!("{:?}", StoredRecord { digest_generation: GenerationId(0), ..record() })
        );
        let later = [&[4][..], &value[1..]].concat();
        assert!(decode_record(Seq(5), &later, true).is_err(), "a later layout is an error");
    }

    #[test]
    fn an_entry_with_the_largest_number_of_keys_decodes_to_itself() {
        let keys = (0..8u8)
            .flat_map(|channel| (0..=65_536u64).map(move |key| PostingKey { channel: ChannelPosition(channel), key }));
        let entry = IndexEntry { keys: keys.collect(), ..entry() };
        assert!(decode_entry(&encode_entry(&entry)).expect("a known layout") == Some(entry));
    }

    #[test]
    fn a_value_that_is_too_short_or_too_long_is_damaged_and_causes_no_panic() {
        let value = encode_entry(&entry());
        assert!((0..value.len()).all(|end| is_damaged_entry(&value[..end])));
        assert!(is_damaged_entry(&[&value[..], &[0]].concat()));
        let value = encode_record(&record()).expect("a value");
        let row = record().content.bytes();
        assert!((0..value.len() - row).all(|end| decode_record(Seq(5), &value[..end], true).is_err()));
    }

    fn is_damaged_entry(value: &[u8]) -> bool {
        decode_entry(value).expect("a known layout").is_none()
    }

    #[test]
    fn keys_sort_as_their_numbers_do() {
        assert!(
            record_key(CollectionNumber(1), Seq(255)) < record_key(CollectionNumber(1), Seq(256))
                && record_key(CollectionNumber(1), Seq(u64::MAX)) < record_key(CollectionNumber(2), Seq(0))
        );
        assert!(
            signature_key(CollectionNumber(1), GenerationId(1), Seq(u64::MAX))
                < signature_key(CollectionNumber(1), GenerationId(2), Seq(0))
        );
        assert_eq!(seq_of_key(&signature_key(CollectionNumber(1), GenerationId(2), Seq(77))).expect("a key"), Seq(77));
    }
}
