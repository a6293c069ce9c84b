//! What was read of stored records to judge them, kept for the next record that they are candidates for.
//!
//! Where many letters come about one event, each is compared with the same few hundred earlier ones: nearly all of the work is to
//! parse, normalise and cut these again. A seq that names one content for ever names one reading too.

use std::sync::{Arc, OnceLock};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::context::Context;
use doppel_core::schemes::profile::Digest;
use doppel_core::similarity::{Named, ShingleSet};
use doppel_core::text::Document;
use doppel_store::{GenerationId, Seq, StoredRecord};

/// Most bytes of all that is kept: those of some 5,000 letters of usual length, which is a dozen events at once.
const BYTES: u64 = 32 << 20;
/// Bytes of a reading without its texts, nearly.
const BARE: usize = 512;
/// Bytes of a reading by bytes of its texts: the text, eight bytes for a shingle, of which there is one for three bytes of a Chinese
/// text, and its letters once more in what it names.
const BY_TEXT: usize = 5;

/// A stored record as one generation reads it.
pub(super) struct ReadRecord {
    pub(super) document: Document,
    /// Its digest in that generation; `None` where it has no content there.
    pub(super) digest: Option<Digest>,
    shingles: OnceLock<ShingleSet>,
    named: OnceLock<Named>,
}

impl ReadRecord {
    /// Reads a record as the live generation does; `None` where it cannot be read, or no text is kept. The stored digest may be another
    /// generation's, which reads other fields; then the text is digested again. O(length).
    pub(super) fn of(record: &StoredRecord, context: &Context) -> Option<Self> {
        let document = context.profile.read(&record.content.read()?).ok()?;
        let digest = match record.digest_generation == context.state.generation {
            true => Some(record.digest),
            false => (!document.is_empty()).then(|| context.profile.exact_digest(&document)),
        };
        Some(Self { document, digest, shingles: OnceLock::new(), named: OnceLock::new() })
    }

    /// The shingles of its text, made by `make` the first time.
    pub(super) fn shingles(&self, make: impl FnOnce(&str) -> ShingleSet) -> &ShingleSet {
        self.shingles.get_or_init(|| make(&self.document.joined()))
    }

    /// What its text names, found by `find` the first time.
    pub(super) fn named(&self, find: impl FnOnce(&str) -> Named) -> &Named {
        self.named.get_or_init(|| find(&self.document.joined()))
    }
}

#[derive(Clone)]
struct Bytes;

impl Weighter<Key, Arc<ReadRecord>> for Bytes {
    fn weight(&self, _key: &Key, reading: &Arc<ReadRecord>) -> u64 {
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
    fn key(&self, seq: Seq) -> Key {
        (self.owner, self.state.generation, seq)
    }

    /// What is kept of the record `seq`, which names one content for ever.
    pub(super) fn kept(&self, seq: Seq) -> Option<Arc<ReadRecord>> {
        self.read_records.get(self.key(seq))
    }

    /// Reads a record, or takes what is kept of it, and keeps it: its seq must name one content for ever.
    pub(super) fn keep(&self, record: &StoredRecord) -> Option<Arc<ReadRecord>> {
        self.kept(record.seq).or_else(|| {
            let read = Arc::new(ReadRecord::of(record, self)?);
            self.read_records.insert(self.key(record.seq), Arc::clone(&read));
            Some(read)
        })
    }
}

/// Owner (`Context::owner`), generation and seq.
type Key = (u32, GenerationId, Seq);

/// See the module. Those used least go first.
pub(super) struct ReadRecords(Cache<Key, Arc<ReadRecord>, Bytes>);

impl ReadRecords {
    /// With room for as many as there may be, or for fewer where `bytes` are.
    pub(super) fn new(bytes: u64) -> Self {
        let bytes = bytes.min(BYTES);
        Self(Cache::with_weighter((bytes / (BARE as u64 * 8)) as usize, bytes, Bytes))
    }

    fn get(&self, key: Key) -> Option<Arc<ReadRecord>> {
        self.0.get(&key)
    }

    fn insert(&self, key: Key, reading: Arc<ReadRecord>) {
        self.0.insert(key, reading);
    }

    /// Bytes of all that is kept, nearly.
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
        Arc::new(ReadRecord { document, digest: None, shingles: OnceLock::new(), named: OnceLock::new() })
    }

    #[test]
    fn what_is_kept_is_bounded_by_its_bytes() {
        let read_records = ReadRecords::new(4 << 20);
        for seq in (0..10_000).map(Seq) {
            read_records.insert((1, GenerationId(1), seq), reading(1_500));
        }
        let kept = (0..10_000).map(Seq).filter(|&seq| read_records.get((1, GenerationId(1), seq)).is_some()).count();
        assert!((300..=524).contains(&kept), "{kept}");
        assert!(read_records.memory_usage() <= 4 << 20);
        read_records.insert((1, GenerationId(2), Seq(1)), reading(4 << 20));
        assert!(read_records.get((1, GenerationId(2), Seq(1))).is_none(), "one that would drive out all others");
    }

    #[test]
    fn generations_read_for_themselves() {
        let read_records = ReadRecords::default();
        read_records.insert((1, GenerationId(1), Seq(7)), reading(10));
        assert!(read_records.get((1, GenerationId(1), Seq(7))).is_some());
        assert!(
            read_records.get((1, GenerationId(2), Seq(7))).is_none()
                && read_records.get((2, GenerationId(1), Seq(7))).is_none()
        );
    }
}
