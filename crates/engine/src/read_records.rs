//! A cache of stored records that were read and normalised for comparisons.
//!
//! If many letters concern one event, each new letter is compared with the same few hundred earlier letters, and nearly all of the work is to
//! parse, normalise and cut them again. If the content of a seq never changes, the result can be stored under the seq.

use std::sync::{Arc, OnceLock};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::context::Context;
use doppel_core::schemes::hash::city64_bytes;
use doppel_core::schemes::profile::Digest;
use doppel_core::similarity::{NamesInText, ShingleSet, TokenText};
use doppel_core::text::Document;
use doppel_core::text::objects::NamedObject;
use doppel_store::{GenerationId, Seq, StoredRecord};

/// Largest size of the cache in bytes: some 3,000 letters of usual length, as many as a dozen events have at once.
const BYTES: u64 = 32 << 20;
/// Approximate size of an entry without its texts, in bytes.
const BARE: usize = 512;
/// Size of an entry in multiples of the bytes of its texts: the text, a shingle of eight bytes and a token of sixteen for each three bytes of a
/// Chinese text, and the characters of the text once more in the names.
const BY_TEXT: usize = 10;

/// A stored record in the form in which one generation reads it.
pub(super) struct ReadRecord {
    pub(super) document: Document,
    /// The digest of the record in that generation; `None` if the record has no content there.
    pub(super) digest: Option<Digest>,
    /// Hash of the stored content. An update that keeps the compared text keeps the seq, too, and changes the petitioner, the time or the
    /// status.
    content: u64,
    shingles: OnceLock<ShingleSet>,
    named: OnceLock<NamesInText>,
    tokens: OnceLock<TokenText>,
}

impl ReadRecord {
    /// Reads a record as the live generation does; `None` if the record cannot be read or the collection keeps no text. If another generation made
    /// the stored digest, that generation may have read other fields, so that the text is digested again. O(length).
    pub(super) fn of(record: &StoredRecord, context: &Context) -> Option<Self> {
        let document = context.profile.read(&record.content.read()?).ok()?;
        let digest = match record.digest_generation == context.state.generation {
            true => Some(record.digest),
            false => (!document.is_empty()).then(|| context.profile.exact_digest(&document)),
        };
        Some(Self {
            document,
            digest,
            content: content_hash(record),
            shingles: OnceLock::new(),
            named: OnceLock::new(),
            tokens: OnceLock::new(),
        })
    }

    /// Returns the shingles of its text; the first call makes them with `make`.
    pub(super) fn shingles(&self, make: impl FnOnce(&str) -> ShingleSet) -> &ShingleSet {
        self.shingles.get_or_init(|| make(&self.document.joined()))
    }

    /// Returns the names in its text, with its contacts; the first call finds the names with `find`.
    pub(super) fn named(&self, find: impl FnOnce(&str) -> NamesInText) -> &NamesInText {
        self.named.get_or_init(|| find(&self.document.joined()).with_contacts(&self.document.contacts))
    }

    /// Returns the tokens of its text; the first call makes them with `make`.
    pub(super) fn tokens(&self, make: impl FnOnce(&str) -> TokenText) -> &TokenText {
        self.tokens.get_or_init(|| make(&self.document.joined()))
    }

    /// Returns the objects that its text names, if they were found before.
    pub(super) fn known_objects(&self) -> Option<&[NamedObject]> {
        self.named.get().map(NamesInText::objects)
    }
}

#[derive(Clone)]
struct ByteWeighter;

impl Weighter<RecordKey, Arc<ReadRecord>> for ByteWeighter {
    fn weight(&self, _key: &RecordKey, reading: &Arc<ReadRecord>) -> u64 {
        let texts = reading
            .document
            .fields
            .iter()
            .map(|field| field.text.len() + field.removed.as_ref().map_or(0, |removed| removed.whole.len()))
            .sum::<usize>();
        (BARE + BY_TEXT * texts) as u64
    }
}

impl Context {
    fn key(&self, seq: Seq) -> RecordKey {
        (self.owner, self.state.generation, seq)
    }

    /// Returns the cached record `seq`. Its text is current; other fields may have been updated since.
    pub(super) fn kept(&self, seq: Seq) -> Option<Arc<ReadRecord>> {
        self.read_records.get(self.key(seq))
    }

    /// Returns a record from the cache, or reads the record and adds it to the cache. The compared text of its seq must never change.
    pub(super) fn keep(&self, record: &StoredRecord) -> Option<Arc<ReadRecord>> {
        self.kept(record.seq).filter(|read| read.content == content_hash(record)).or_else(|| {
            let read = Arc::new(ReadRecord::of(record, self)?);
            self.read_records.insert(self.key(record.seq), Arc::clone(&read));
            Some(read)
        })
    }
}

fn content_hash(record: &StoredRecord) -> u64 {
    record.content.row().map_or(0, |row| city64_bytes(row.as_bytes()))
}

/// Owner (`Context::owner`), generation and seq.
type RecordKey = (u32, GenerationId, Seq);

/// The cache of read records. The least used records are removed first.
pub(super) struct ReadRecords(Cache<RecordKey, Arc<ReadRecord>, ByteWeighter>);

impl ReadRecords {
    /// Creates a cache of `bytes` bytes, at most [`BYTES`].
    pub(super) fn new(bytes: u64) -> Self {
        let bytes = bytes.min(BYTES);
        Self(Cache::with_weighter((bytes / (BARE as u64 * 8)) as usize, bytes, ByteWeighter))
    }

    fn get(&self, key: RecordKey) -> Option<Arc<ReadRecord>> {
        self.0.get(&key)
    }

    fn insert(&self, key: RecordKey, reading: Arc<ReadRecord>) {
        self.0.insert(key, reading);
    }

    /// Returns the approximate size of all cached records, in bytes.
    pub(super) fn memory_usage(&self) -> u64 {
        self.0.weight()
    }
}

impl Default for ReadRecords {
    fn default() -> Self {
        Self::new(BYTES)
    }
}

#[cfg(test)]
mod tests {
    use doppel_core::collection::Role;
    use doppel_core::text::DocumentField;

    use super::*;

    fn reading(bytes: usize) -> Arc<ReadRecord> {
        let text = "a".repeat(bytes);
        let field =
            DocumentField { position: 0, role: Role::Text, text, removed: None, merged: None, line_ends: Vec::new() };
        let document = Document { fields: vec![field], ..Document::default() };
        Arc::new(ReadRecord {
            document,
            digest: None,
            content: 0,
            shingles: OnceLock::new(),
            named: OnceLock::new(),
            tokens: OnceLock::new(),
        })
    }

    #[test]
    fn the_cache_is_bounded_by_its_bytes() {
        let read_records = ReadRecords::new(4 << 20);
        for seq in (0..10_000).map(Seq) {
            read_records.insert((1, GenerationId(1), seq), reading(1_500));
        }
        let kept = (0..10_000).map(Seq).filter(|&seq| read_records.get((1, GenerationId(1), seq)).is_some()).count();
        assert!((170..=270).contains(&kept), "{kept}");
        assert!(read_records.memory_usage() <= 4 << 20);
        read_records.insert((1, GenerationId(2), Seq(1)), reading(4 << 20));
        assert!(read_records.get((1, GenerationId(2), Seq(1))).is_none(), "the record is as large as the cache");
    }

    #[test]
    fn a_cached_record_belongs_to_one_generation() {
        let read_records = ReadRecords::default();
        read_records.insert((1, GenerationId(1), Seq(7)), reading(10));
        assert!(read_records.get((1, GenerationId(1), Seq(7))).is_some());
        assert!(
            read_records.get((1, GenerationId(2), Seq(7))).is_none()
                && read_records.get((2, GenerationId(1), Seq(7))).is_none()
        );
    }
}
