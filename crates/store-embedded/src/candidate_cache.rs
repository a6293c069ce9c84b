//! A cache of stored records that matched a registration or a lookup.
//!
//! The copies of a letter that thousands of people send match the same few hundred earlier records, and without the cache most of the work
//! would be to read these records from disk and to decode them again. A record that was read and did not match is rarely a candidate again,
//! so that the cache does not keep it.
//!
//! A cached record is valid for the view from which it was read, and for all later views until the next change of the record. The
//! publication of a change removes the record from the cache before readers see the new view ([`CandidateCache::publish`]), so that a
//! reader never finds an older record than its view has. A reader whose view is older than the cached record reads from disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::unsync::Cache;

use doppel_store::{CollectionNumber, Seq, StoredRecord};

/// Maximum size of the cache in bytes: the 256 earliest copies of some dozens of letters of usual length.
const BYTES: u64 = 16 << 20;
/// Number of shards, each with its own lock: threads rarely wait for each other.
const SHARDS: usize = 16;
/// Approximate size of a cached record without its content, in bytes.
const BARE: usize = 400;

/// The number of a published view. A later view has a higher number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ViewNumber(u64);

type RecordPosition = (CollectionNumber, Seq);

/// A record, and the view from which it was read.
#[derive(Clone)]
struct CachedRecord {
    record: Arc<StoredRecord>,
    from: ViewNumber,
}

#[derive(Clone)]
struct ByteWeighter;

impl Weighter<RecordPosition, CachedRecord> for ByteWeighter {
    fn weight(&self, _position: &RecordPosition, cached: &CachedRecord) -> u64 {
        (BARE + cached.record.content.bytes()) as u64
    }
}

struct CacheShard {
    records: Cache<RecordPosition, CachedRecord, ByteWeighter>,
    /// The latest view that changed a record of this shard.
    changed: ViewNumber,
}

/// The cache, see the module.
pub(super) struct CandidateCache {
    shards: Box<[Mutex<CacheShard>]>,
    /// Number of the last published view.
    published: AtomicU64,
    /// The records that commits have changed since the last publication.
    changed: Mutex<Vec<RecordPosition>>,
}

impl CandidateCache {
    pub(super) fn new() -> Self {
        let shard = || {
            let bytes = BYTES / SHARDS as u64;
            let records = Cache::with_weighter((bytes / (2 * BARE as u64)) as usize, bytes, ByteWeighter);
            Mutex::new(CacheShard { records, changed: ViewNumber::default() })
        };
        let shards = (0..SHARDS).map(|_| shard()).collect();
        Self { shards, published: AtomicU64::new(0), changed: Mutex::default() }
    }

    fn shard(&self, position: RecordPosition) -> &Mutex<CacheShard> {
        &self.shards[position.1.0 as usize % SHARDS]
    }

    /// Returns the number of the last published view.
    pub(super) fn published(&self) -> ViewNumber {
        ViewNumber(self.published.load(Ordering::Acquire))
    }

    /// Returns a record as the view `view` has it, if the cache has this state of the record.
    pub(super) fn get(&self, view: ViewNumber, position: RecordPosition) -> Option<Arc<StoredRecord>> {
        let shard = self.shard(position).lock();
        let cached = shard.records.get(&position).filter(|cached| cached.from <= view);
        cached.map(|cached| Arc::clone(&cached.record))
    }

    /// Adds a record that was read from the view `view`, unless a record of its shard has changed after this view.
    pub(super) fn insert(&self, view: ViewNumber, position: RecordPosition, record: Arc<StoredRecord>) {
        let mut shard = self.shard(position).lock();
        if shard.changed <= view {
            shard.records.insert(position, CachedRecord { record, from: view });
        }
    }

    /// Runs `commit`, which changes or removes the records `changed`. Readers do not see the commit before the next publication, which waits
    /// until `commit` has returned.
    pub(super) fn commit<T>(&self, changed: impl Iterator<Item = RecordPosition>, commit: impl FnOnce() -> T) -> T {
        let mut all = self.changed.lock();
        all.extend(changed);
        commit()
    }

    /// Removes the records that have changed, and publishes the next view with `publish`. One publication at a time.
    pub(super) fn publish(&self, publish: impl FnOnce(ViewNumber)) {
        let mut changed = self.changed.lock();
        let next = ViewNumber(self.published.load(Ordering::Relaxed) + 1);
        for position in changed.drain(..) {
            let mut shard = self.shard(position).lock();
            shard.changed = next;
            shard.records.remove(&position);
        }
        publish(next);
        self.published.store(next.0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use doppel_core::record::RecordId;
    use doppel_core::schemes::profile::Digest;
    use doppel_core::verdict::Verdict;
    use doppel_store::GenerationId;
    use doppel_store::content::RecordContent;

    use super::*;

    const NUMBER: CollectionNumber = CollectionNumber(1);

    fn record(seq: u64, content: &str) -> Arc<StoredRecord> {
        Arc::new(StoredRecord {
            id: RecordId::new(&format!("r{seq}")).unwrap(),
            seq: Seq(seq),
            content: RecordContent::Row(content.into()),
            digest: Digest([0; 32]),
            digest_generation: GenerationId(1),
            verdict: Verdict::blank(),
            duplicate_of_seq: None,
            stored_at: String::new(),
        })
    }

    /// Returns the content of the record 7 in a view.
    fn content(cache: &CandidateCache, view: ViewNumber) -> Option<String> {
        cache.get(view, (NUMBER, Seq(7)))?.content.row().map(|row| row.to_string())
    }

    fn publish(cache: &CandidateCache, changed: &[u64]) -> ViewNumber {
        cache.commit(changed.iter().map(|&seq| (NUMBER, Seq(seq))), || ());
        cache.publish(|_| ());
        cache.published()
    }

    #[test]
    fn a_view_finds_records_in_its_own_state_only() {
        let cache = CandidateCache::new();
        let at = (NUMBER, Seq(7));
        let first = publish(&cache, &[]);
        cache.insert(first, at, record(7, "one"));
        let second = publish(&cache, &[8]);
        assert_eq!(content(&cache, second).as_deref(), Some("one"), "the record has not changed");
        let third = publish(&cache, &[7]);
        assert_eq!([first, second, third].map(|view| content(&cache, view)), [None, None, None]);
        cache.insert(second, at, record(7, "one"));
        assert_eq!(content(&cache, third), None, "an older view adds no record that has changed since");
        cache.insert(third, at, record(7, "two"));
        assert_eq!((content(&cache, third).as_deref(), content(&cache, second)), (Some("two"), None));
    }

    #[test]
    fn a_changed_record_is_gone_before_its_view_is_published() {
        let cache = CandidateCache::new();
        let at = (NUMBER, Seq(7));
        let view = publish(&cache, &[]);
        cache.insert(view, at, record(7, "one"));
        cache.commit([at].into_iter(), || ());
        assert!(cache.get(view, at).is_some(), "readers do not see the commit yet");
        cache.publish(|next| {
            assert_eq!((content(&cache, view), content(&cache, next)), (None, None));
            cache.insert(view, at, record(7, "one"));
            assert_eq!(content(&cache, next), None);
        });
    }

    #[test]
    fn the_cache_is_bounded_by_its_bytes() {
        let cache = CandidateCache::new();
        let view = publish(&cache, &[]);
        let text = "a".repeat(10_000);
        for seq in 0..10_000 {
            cache.insert(view, (NUMBER, Seq(seq)), record(seq, &text));
        }
        let kept = (0..10_000).filter(|&seq| cache.get(view, (NUMBER, Seq(seq))).is_some()).count();
        assert!((1_000..=BYTES as usize / 10_000).contains(&kept), "{kept}");
    }
}
