//! A cache of the posting lists that the batches of a collection have read.
//!
//! Successive batches need the lists of popular keys, and a list changes only by new records. The cache adds the records of this
//! instance itself. It reads the records of other instances by seq, and drops all lists if the log shows that another instance
//! removed a record from lists. Of the lists that were not used recently, only long lists stay, because reading a list again costs
//! a document for each of its records, and there are fewer long lists.
//!
//! The transaction that has its turn owns the cache of the collection, and returns it only after a majority has confirmed its commit. The
//! cache therefore contains nothing that can be rolled back.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use mongodb::ClientSession;
use mongodb::bson::doc;
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::SharedStore;
use super::documents::{self, CHANGES, SIGNATURES, StoredNumber, seq_value};
use super::interned::{InternedLists, LIST_BYTES};
use super::postings::{
    ListKey, ListsByKey, PostingAnswer, PostingList, RecordPosting, append, posting, stored_list_keys,
};
use super::read::{GenerationKey, next};
use super::retry::{CallDeadline, TxnError};
use doppel_store::{GenerationId, Seq};

/// Approximate number of bytes of the lists of recent batches in each collection; the lists of earlier batches may have the same number of
/// bytes again. A short list costs little to read again, and the next batch waits some milliseconds while the long lists of earlier batches
/// are moved.
const MOST_RECENT: usize = 8 << 20;
/// Approximate number of bytes of long lists that a collection keeps in addition: for a collection of a million letters, this is enough for
/// most of the lists that are used.
const MOST_LONG: usize = 160 << 20;
/// Number of postings from which on a list is long.
const LONG: usize = 8;
/// Largest number of bytes of all collections together.
const MOST_IN_ALL: usize = 256 << 20;
/// Size in bytes of a posting without the characters of its id: the entry in the list, the reference counts of the id, and the
/// overhead of the allocator. Each list that was read has separate ids.
const POSTING_BYTES: usize = size_of::<RecordPosting>() + 32;
/// Longest wait for lists that are read ahead, because the next batch would begin by reading the same lists. In a large collection
/// with an empty cache, reading takes some hundred milliseconds.
const MOST_WAIT: Duration = Duration::from_secs(2);
/// Largest number of records of other instances that are read to update a cache. For more records, reading the lists again is
/// cheaper.
const MOST_BEHIND: usize = 1024;

/// The cached lists of one collection.
#[derive(Debug, Default)]
pub(super) struct PostingCache {
    generation: GenerationId,
    /// The commit up to which all lists are complete.
    as_of: Seq,
    recent: SizedLists,
    /// Lists that earlier batches used and recent batches did not use.
    earlier: SizedLists,
    /// Long lists that were used even earlier.
    long: InternedLists,
    bounds: CacheBounds,
    /// An update that is applied when the cache is taken next.
    pending: Option<Box<PendingUpdate>>,
}

/// The limits of a cache.
#[derive(Clone, Copy, Debug)]
struct CacheBounds {
    /// See [`MOST_RECENT`].
    most_recent: usize,
    /// See [`MOST_LONG`].
    most_long: usize,
    /// See [`LONG`].
    long: usize,
}

impl Default for CacheBounds {
    fn default() -> Self {
        Self { most_recent: MOST_RECENT, most_long: MOST_LONG, long: LONG }
    }
}

/// An update of a cache that is applied when the cache is taken next.
#[derive(Debug)]
struct PendingUpdate {
    updates: Vec<CacheUpdate>,
    /// Size of the lists of the updates in bytes.
    bytes: usize,
    reading: ReadAheadTask,
}

/// The task that reads lists ahead. The task stops if this value is dropped.
pub(super) type ReadAheadTask = AbortOnDropHandle<Option<ListsAsOf>>;

/// Records that other instances added, by the keys of their lists, in order.
#[derive(Debug, Default)]
pub(super) struct FiledByOthers(HashMap<ListKey, Vec<RecordPosting>>);

impl FiledByOthers {
    fn add(&mut self, posting: &RecordPosting, keys: BTreeSet<ListKey>) {
        for key in keys {
            self.0.entry(key).or_default().push(posting.clone());
        }
    }
}

/// The commits after the last moment at which a cache was up to date.
#[derive(Debug)]
pub(super) enum CommitsBehind {
    /// Other instances added these records, and removed none.
    Filed(FiledByOthers),
    /// The cache must not be used.
    Unknown,
}

/// The lists of a generation after a commit.
#[derive(Debug)]
pub(super) struct ListsAsOf {
    pub(super) generation: GenerationId,
    pub(super) as_of: Seq,
    pub(super) lists: ListsByKey,
}

/// The input of [`PostingCache::update`]: the lists that one commit, or one round of a batch, read, and the entries that it added.
#[derive(Debug)]
pub(super) struct CacheUpdate {
    pub(super) generation: GenerationId,
    /// The number of the previous commit.
    pub(super) before: Seq,
    pub(super) commit: Seq,
    pub(super) behind: CommitsBehind,
    /// The lists that the batch used, with the records that it added.
    pub(super) answer: PostingAnswer,
    /// The keys of the lists from which the batch removed records.
    pub(super) taken_from: Vec<ListKey>,
}

/// Lists, and their approximate size in bytes.
#[derive(Debug, Default)]
struct SizedLists {
    lists: ListsByKey,
    bytes: usize,
}

/// Returns the size of a posting of a list in bytes. The ids of a collection have similar lengths, so that the first id of the list
/// represents all.
fn posting_bytes(list: &PostingList) -> usize {
    POSTING_BYTES + list.first().map_or(0, |posting| posting.id.len())
}

fn list_bytes(list: &PostingList) -> usize {
    LIST_BYTES + list.len() * posting_bytes(list)
}

impl SizedLists {
    fn insert(&mut self, key: ListKey, list: Arc<PostingList>) {
        self.remove(&key);
        self.bytes += list_bytes(&list);
        self.lists.insert(key, list);
    }

    fn remove(&mut self, key: &ListKey) {
        if let Some(list) = self.lists.remove(key) {
            self.bytes -= list_bytes(&list);
        }
    }

    /// Adds a record that is later than all others, if the list is cached.
    fn add(&mut self, key: &ListKey, posting: &RecordPosting) {
        if let Some(list) = self.lists.get_mut(key)
            && append(list, posting)
        {
            self.bytes += posting_bytes(list);
        }
    }
}

impl PostingCache {
    /// Returns a list with the records of `behind`.
    pub(super) fn get(&self, key: &ListKey, behind: &FiledByOthers) -> Option<Arc<PostingList>> {
        let mut list = Arc::clone(self.kept(key)?);
        for posting in behind.0.get(key).into_iter().flatten() {
            append(&mut list, posting);
        }
        Some(list)
    }

    /// True if the list is cached.
    pub(super) fn has(&self, key: &ListKey) -> bool {
        self.kept(key).is_some()
    }

    /// Returns a list as it was after the commit `as_of`.
    fn kept(&self, key: &ListKey) -> Option<&Arc<PostingList>> {
        self.recent.lists.get(key).or_else(|| self.earlier.lists.get(key)).or_else(|| self.long.get(key))
    }

    /// Schedules updates with lists that are being read. They are applied when the cache is taken next.
    pub(super) fn update_later(&mut self, updates: Vec<CacheUpdate>, reading: ReadAheadTask) {
        let lists = updates.iter().flat_map(|update| update.answer.lists());
        let bytes = lists.map(|(_, list)| list_bytes(list)).sum();
        self.pending = Some(Box::new(PendingUpdate { updates, bytes, reading }));
    }

    /// Applies a scheduled update. Waits for the lists that are being read, at most [`MOST_WAIT`] and until the deadline.
    pub(super) async fn settled(mut self, deadline: CallDeadline) -> Self {
        if let Some(pending) = self.pending.take() {
            let PendingUpdate { updates, reading, .. } = *pending;
            let until = deadline.at().min(tokio::time::Instant::now() + MOST_WAIT);
            let read = tokio::time::timeout_at(until, reading).await;
            self.update_all(updates, read.ok().and_then(Result::ok).flatten());
        }
        self
    }

    /// Updates the cache after the commit of a batch, with the update of each of its rounds in their order. The lists `read` ahead are
    /// used if they were read just before or just after the commit.
    pub(super) fn update_all(&mut self, updates: Vec<CacheUpdate>, mut read: Option<ListsAsOf>) {
        for update in updates {
            let own = read.take_if(|read| read.as_of == update.before || read.as_of == update.commit);
            self.update(update, own);
        }
    }

    /// Updates the cache after a commit. The lists `read` ahead are used if they were read just before or just after this commit.
    fn update(&mut self, update: CacheUpdate, read: Option<ListsAsOf>) {
        let CacheUpdate { generation, before, commit, behind, answer, taken_from } = update;
        let mut read = read.filter(|read| read.generation == generation);
        match behind {
            CommitsBehind::Filed(records) if self.generation == generation => {
                for (key, postings) in &records.0 {
                    postings.iter().for_each(|posting| self.add(key, posting));
                }
            }
            _ => *self = Self { generation, bounds: self.bounds, ..Self::default() },
        }
        if let Some(read) = read.take_if(|read| read.as_of == before) {
            self.keep(read.lists);
        }
        self.as_of = commit;
        let (lists, others) = answer.into_parts();
        others.iter().for_each(|(key, posting)| self.add(key, posting));
        self.keep(lists);
        for key in &taken_from {
            self.recent.remove(key);
            self.earlier.remove(key);
            self.long.remove(key);
        }
        if let Some(read) = read.filter(|read| read.as_of == commit) {
            self.keep(read.lists);
        }
        if self.recent.bytes > self.bounds.most_recent {
            let recent = std::mem::take(&mut self.recent);
            let oldest = std::mem::replace(&mut self.earlier, recent);
            self.keep_long(oldest);
        }
        if self.long.bytes() > self.bounds.most_long {
            self.long.halve();
        }
    }

    /// Keeps the long lists among lists that were not used recently.
    fn keep_long(&mut self, SizedLists { lists, .. }: SizedLists) {
        let long = lists.into_iter().filter(|(_, list)| list.len() >= self.bounds.long);
        long.for_each(|(key, list)| self.long.add(key, &list));
    }

    /// Stores lists, and replaces older versions of them.
    fn keep(&mut self, lists: ListsByKey) {
        for (key, list) in lists {
            if self.long.get(&key).is_some() {
                self.long.put(key, list);
                continue;
            }
            self.earlier.remove(&key);
            self.recent.insert(key, list);
        }
    }

    fn add(&mut self, key: &ListKey, posting: &RecordPosting) {
        self.recent.add(key, posting);
        self.earlier.add(key, posting);
        self.long.append(key, posting);
    }

    fn bytes(&self) -> usize {
        self.recent.bytes
            + self.earlier.bytes
            + self.long.bytes()
            + self.pending.as_ref().map_or(0, |pending| pending.bytes)
    }
}

/// The caches of all collections, the least recently used first.
#[derive(Debug, Default)]
pub(super) struct PostingCaches(Mutex<VecDeque<StoredCache>>);

#[derive(Debug)]
struct StoredCache {
    number: StoredNumber,
    /// The size when the cache was returned last.
    bytes: usize,
    /// `None` while a transaction owns it.
    cache: Option<PostingCache>,
}

impl PostingCaches {
    /// Takes the cache of a collection, or an empty cache if it has none. Only the transaction that has its turn may call this.
    pub(super) fn take(&self, number: StoredNumber) -> PostingCache {
        let mut all = self.0.lock();
        let Some(kept) = all.iter_mut().find(|kept| kept.number == number) else { return PostingCache::default() };
        // The cache is missing if the batch that owned it failed.
        kept.cache.take().unwrap_or_else(|| {
            kept.bytes = 0;
            PostingCache::default()
        })
    }

    /// Returns a cache, and drops caches of other collections if all together are too large.
    pub(super) fn put(&self, number: StoredNumber, cache: PostingCache) {
        let mut all = self.0.lock();
        all.retain(|kept| kept.number != number);
        all.push_back(StoredCache { number, bytes: cache.bytes(), cache: Some(cache) });
        let mut bytes: usize = all.iter().map(|kept| kept.bytes).sum();
        let mut given_up = Vec::new();
        while bytes > MOST_IN_ALL
            && let Some(at) = all.iter().take(all.len() - 1).position(|kept| kept.cache.is_some())
            && let Some(kept) = all.remove(at)
        {
            bytes -= kept.bytes;
            given_up.push(kept);
        }
        // Freeing much memory takes time, and happens after the lock is released.
        drop(all);
        drop(given_up);
    }

    /// Removes a dropped collection.
    pub(super) fn forget(&self, number: StoredNumber) {
        self.0.lock().retain(|kept| kept.number != number);
    }

    /// Returns the approximate size of all caches in bytes. For a cache that a transaction owns, it is the size that the cache had before.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.lock().iter().map(|kept| kept.bytes).sum()
    }
}

impl SharedStore {
    /// Reads the records that other instances committed up to `last` after the last moment at which the cache was up to date. At most two
    /// round trips; none if there are no such commits.
    pub(super) async fn behind(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        cache: &PostingCache,
        last: Seq,
        forgotten: Seq,
    ) -> Result<CommitsBehind, TxnError> {
        if cache.bytes() == 0 || cache.generation != place.generation || cache.as_of < forgotten || cache.as_of > last {
            return Ok(CommitsBehind::Unknown);
        }
        let mut filed = FiledByOthers::default();
        if cache.as_of == last {
            return Ok(CommitsBehind::Filed(filed));
        }
        let mut taken = documents::changes_between(place.number, cache.as_of, last);
        taken.insert("$or", documents::took_lists());
        let changes = self.in_session(CHANGES);
        if changes.find_one(taken).projection(doc! { "_id": 1 }).session(&mut *session).await?.is_some() {
            return Ok(CommitsBehind::Unknown);
        }
        let since = doc! { "$gt": seq_value(cache.as_of), "$lte": seq_value(last) };
        let of_others = doc! { "_id.c": place.number, "_id.g": place.generation.0 as i32, "seq": since };
        let signatures = self.in_session(SIGNATURES);
        let asked = signatures.find(of_others).projection(doc! { "seq": 1, "digest": 1, "keys": 1 });
        let asked = asked.sort(doc! { "seq": 1 }).limit(MOST_BEHIND as i64 + 1);
        let mut cursor = asked.session(&mut *session).await?;
        let mut records = 0;
        while let Some(found) = next(&mut cursor, session).await? {
            filed.add(&posting(&found)?, stored_list_keys(&found)?);
            records += 1;
        }
        Ok(if records > MOST_BEHIND { CommitsBehind::Unknown } else { CommitsBehind::Filed(filed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postings::{LIMIT, PostingQuery, list_keys};
    use doppel_core::collection::ChannelPosition;
    use doppel_core::schemes::profile::{Digest, PostingKey};
    use proptest::prelude::*;

    /// Records by seq, each with its digest and keys.
    type Stored = std::collections::BTreeMap<Seq, (Digest, Vec<PostingKey>)>;

    fn posting_of(seq: Seq) -> RecordPosting {
        RecordPosting { id: format!("r{seq}").into(), seq }
    }

    fn lists_of(record: &(Digest, Vec<PostingKey>)) -> BTreeSet<ListKey> {
        list_keys(&record.0, &record.1)
    }

    fn list_of(stored: &Stored, key: &ListKey) -> Arc<PostingList> {
        let filed = stored.iter().filter(|(_, record)| lists_of(record).contains(key));
        Arc::new(filed.take(LIMIT).map(|(seq, _)| posting_of(*seq)).collect())
    }

    fn record(drawn: DrawnRecord) -> (Digest, Vec<PostingKey>) {
        let (digest, keys) = drawn;
        let keys = keys.into_iter().map(|key| PostingKey { channel: ChannelPosition(1), key: u64::from(key) });
        (Digest([digest; 32]), keys.collect())
    }

    /// The digest and the keys of a record.
    type DrawnRecord = (u8, Vec<u8>);

    /// Generates kinds of batches with the digest and the keys of each record. All arguments are upper bounds (exclusive).
    fn steps(
        digests: u8,
        keys: u8,
        records: usize,
        batches: usize,
    ) -> impl Strategy<Value = Vec<(u8, Vec<DrawnRecord>)>> {
        let record = (0..digests, prop::collection::vec(0..keys, 0..4));
        prop::collection::vec((0..8_u8, prop::collection::vec(record, 1..records)), 1..batches)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// After any commits of this instance and of others, a cached list equals the stored list.
        #[test]
        fn cached_lists_equal_stored_lists(
            // Either many lists, some of which are not used for some time, or a few lists that become full.
            steps in prop_oneof![steps(3, 16, 12, 40), steps(2, 4, 40, 30)],
        ) {
            let bounds = CacheBounds { most_recent: 1 << 10, most_long: 3 << 10, long: 2 };
            let mut cache = PostingCache { bounds, ..PostingCache::default() };
            let generation = GenerationId(1);
            let mut stored = Stored::new();
            let mut last = Seq(0);
            let mut taken_by_others = false;
            for (kind, records) in steps {
                let records: Vec<_> = records.into_iter().map(record).collect();
                let is_own = kind < 6;
                // A batch of another instance, which may remove the earliest record.
                if !is_own {
                    taken_by_others |= kind == 7 && stored.pop_first().is_some();
                    for record in records {
                        last = last.next();
                        stored.insert(last, record);
                    }
                    continue;
                }
                let since = stored.range(cache.as_of.next()..);
                let mut filed = FiledByOthers::default();
                since.for_each(|(seq, record)| filed.add(&posting_of(*seq), lists_of(record)));
                let behind = match taken_by_others || cache.bytes() == 0 {
                    true => CommitsBehind::Unknown,
                    false => CommitsBehind::Filed(filed),
                };
                taken_by_others = false;
                let mut question = PostingQuery::default();
                records.iter().for_each(|(digest, keys)| question.add(Some(digest), keys));
                let mut answer = match &behind {
                    CommitsBehind::Filed(records) => question.answer_from(|key| cache.get(key, records)),
                    CommitsBehind::Unknown => PostingAnswer::default(),
                };
                let kept = answer.clone().into_parts().0;
                for (key, list) in kept {
                    prop_assert_eq!(list, list_of(&stored, &key));
                }
                // The database returns the other lists.
                answer.extend(question.answer_from(|key| Some(list_of(&stored, key))));
                let mut taken_from = Vec::new();
                let stored_before = stored.clone();
                if kind == 5 && let Some((seq, gone)) = stored.pop_first() {
                    answer.remove(&posting_of(seq).id);
                    taken_from.extend(lists_of(&gone));
                }
                let before = last;
                // All lists, read ahead: just before the batch, just after it, or earlier.
                let outdated = ListsByKey::from([(ListKey::Key(1), Arc::default())]);
                let mut read = match kind {
                    1 => Some(ListsAsOf { generation, as_of: before.before(1), lists: outdated }),
                    2 | 5 => Some(read_all(&stored_before, before)),
                    _ => None,
                };
                for (digest, keys) in records {
                    last = last.next();
                    answer.add(&posting_of(last), &digest, &keys);
                    stored.insert(last, (digest, keys));
                }
                if kind == 3 {
                    read = Some(read_all(&stored, last));
                }
                cache.update(CacheUpdate { generation, before, commit: last, behind, answer, taken_from }, read);
                for (key, list) in cache.recent.lists.iter().chain(&cache.earlier.lists).chain(cache.long.iter()) {
                    prop_assert_eq!(list, &list_of(&stored, key));
                }
                prop_assert_eq!(
                    cache.bytes(),
                    counted_bytes(&cache.recent) + counted_bytes(&cache.earlier) + cache.long.counted_bytes()
                );
            }
        }
    }

    #[test]
    fn unused_lists_and_unused_caches_are_dropped() {
        let short = list_of_length(LONG - 1);
        let long = list_of_length(250);
        let mut cache = PostingCache::default();
        let many = more_than_recent(&short);
        use_lists(&mut cache, &short, 0..many);
        let first = ListKey::Key(0);
        let none = FiledByOthers::default();
        assert!(cache.get(&first, &none).is_some());
        use_lists(&mut cache, &short, many..2 * many);
        use_lists(&mut cache, &short, 2 * many..3 * many);
        assert!(cache.get(&first, &none).is_none() && cache.bytes() <= 2 * MOST_RECENT + MOST_RECENT / 4);

        // Long lists stay longer if there is space.
        let bounds = CacheBounds { most_long: 8 << 20, ..CacheBounds::default() };
        let mut cache = PostingCache { bounds, ..PostingCache::default() };
        let many = more_than_recent(&long);
        (0..2).for_each(|time| use_lists(&mut cache, &long, time * many..(time + 1) * many));
        assert!((0..many).all(|key| cache.get(&ListKey::Key(key), &none).as_ref() == Some(&long)));
        (2..9).for_each(|time| use_lists(&mut cache, &long, time * many..(time + 1) * many));
        assert!(cache.long.len() > many as usize / 2 && cache.long.bytes() <= bounds.most_long);

        let caches = PostingCaches::default();
        for number in 0..8 {
            let mut cache = caches.take(number);
            (0..9).for_each(|time| use_lists(&mut cache, &long, time * many..(time + 1) * many));
            caches.put(number, cache);
        }
        assert!(caches.memory_bytes() <= MOST_IN_ALL);
        assert_eq!((caches.take(0).bytes(), caches.take(7).bytes() > 0), (0, true), "the last ones are kept");
        assert!(caches.memory_bytes() > 0);
        (0..8).for_each(|number| caches.forget(number));
        assert_eq!(caches.memory_bytes(), 0, "dropped collections have no cache");
    }

    fn list_of_length(length: usize) -> Arc<PostingList> {
        Arc::new((1..=length as u64).map(|seq| posting_of(Seq(seq))).collect())
    }

    /// Updates a cache after a batch that used the lists of `keys`, which all contain the postings `list`.
    fn use_lists(cache: &mut PostingCache, list: &Arc<PostingList>, keys: std::ops::Range<i64>) {
        let mut question = PostingQuery::default();
        let keys: Vec<_> = keys.map(|key| PostingKey { channel: ChannelPosition(1), key: key as u64 }).collect();
        keys.chunks(16).for_each(|keys| question.add(None, keys));
        let answer = question.answer_from(|_| Some(Arc::clone(list)));
        let update = CacheUpdate {
            generation: GenerationId::default(),
            before: Seq(249),
            commit: Seq(250),
            behind: CommitsBehind::Filed(FiledByOthers::default()),
            answer,
            taken_from: Vec::new(),
        };
        cache.update(update, None);
    }

    /// Returns a number of copies of the list that exceed the limit of recent lists.
    fn more_than_recent(list: &Arc<PostingList>) -> i64 {
        (MOST_RECENT / list_bytes(list)) as i64 + 1
    }

    /// Returns the lists of all stored keys.
    fn read_all(stored: &Stored, as_of: Seq) -> ListsAsOf {
        let keys = stored.values().flat_map(lists_of).chain([ListKey::Key(3)]);
        let lists = keys.map(|key| (key, list_of(stored, &key))).collect();
        ListsAsOf { generation: GenerationId(1), as_of, lists }
    }

    fn counted_bytes(lists: &SizedLists) -> usize {
        lists.lists.values().map(|list| list_bytes(list)).sum()
    }
}
