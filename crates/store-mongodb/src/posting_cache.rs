//! Posting lists that batches of a collection have read, kept for the next batch.
//!
//! A key that many records share is asked for by batch after batch, and its list is the same but for what was filed since. What this
//! instance files it adds by itself. What others filed is read by seq, and where they took something away, everything is forgotten:
//! the log of changes says so. Of lists that were not asked for lately the long ones stay: a list costs a row for each of its records to read
//! again, and there are fewer of them.
//!
//! A cache belongs to whoever has the turn of the collection, and is handed on only after a commit that a majority has confirmed: so it
//! holds nothing that can be rolled back.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use mongodb::ClientSession;
use mongodb::bson::doc;
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::Shared;
use super::documents::{self, CHANGES, Number, SIGNATURES, seq_value};
use super::interned::{InternedLists, LIST_BYTES};
use super::postings::{Answer, ListKey, ListsByKey, Posting, Postings, append, posting, stored_list_keys};
use super::read::{GenerationKey, next};
use super::retry::{Deadline, TxnError};
use doppel_store::{GenerationId, Seq};

/// Bytes that a collection keeps, about: of lists of its last batches, and as many of earlier ones. A list of few records costs little to
/// read again, and the next batch waits while the long ones among a generation of them are put elsewhere: some milliseconds.
const MOST_RECENT: usize = 8 << 20;
/// Bytes of long lists that a collection keeps besides, about: of a million letters most of those that are asked for.
const MOST_LONG: usize = 160 << 20;
/// Postings from which on a list is long.
const LONG: usize = 8;
/// Bytes that all collections keep together.
const MOST_IN_ALL: usize = 256 << 20;
/// Bytes of a posting besides the characters of its id: the list's part, the counts before the id, what the allocator adds. Each
/// list that was read has ids of its own.
const POSTING_BYTES: usize = size_of::<Posting>() + 32;
/// Longest wait for what is read beside a batch: the next one would begin by reading the same. Of a large stock, and with nothing in the
/// cache, it takes some hundred milliseconds.
const MOST_WAIT: Duration = Duration::from_secs(2);
/// Records of others that are read to go on with a cache. Behind more, reading lists anew is less work.
const MOST_BEHIND: usize = 1024;

/// The lists of one collection.
#[derive(Debug, Default)]
pub(super) struct PostingCache {
    generation: GenerationId,
    /// The commit up to which all lists are complete.
    as_of: Seq,
    recent: Lists,
    /// Asked for before the recent ones, and not since.
    earlier: Lists,
    /// Long ones that were asked for before those.
    long: InternedLists,
    bounds: Bounds,
    /// What it becomes when it is taken next.
    pending: Option<Box<Pending>>,
}

/// How much a cache keeps.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// See [`MOST_RECENT`].
    most_recent: usize,
    /// See [`MOST_LONG`].
    most_long: usize,
    /// See [`LONG`].
    long: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { most_recent: MOST_RECENT, most_long: MOST_LONG, long: LONG }
    }
}

/// What a cache becomes when it is taken next.
#[derive(Debug)]
struct Pending {
    update: CacheUpdate,
    /// Bytes of the lists of the update.
    bytes: usize,
    reading: Reading,
}

/// Lists that are being read beside a batch; given up where it is dropped.
pub(super) type Reading = AbortOnDropHandle<Option<ListsAsOf>>;

/// Records that other instances filed, by what they stand under, in order.
#[derive(Debug, Default)]
pub(super) struct FiledByOthers(HashMap<ListKey, Vec<Posting>>);

impl FiledByOthers {
    fn add(&mut self, posting: &Posting, keys: BTreeSet<ListKey>) {
        for key in keys {
            self.0.entry(key).or_default().push(posting.clone());
        }
    }
}

/// What was committed since a cache was up to date.
#[derive(Debug)]
pub(super) enum Behind {
    /// These records were filed, and nothing else happened.
    Filed(FiledByOthers),
    /// The cache is of no use.
    Unknown,
}

/// Lists of a generation as they stood after a commit.
#[derive(Debug)]
pub(super) struct ListsAsOf {
    pub(super) generation: GenerationId,
    pub(super) as_of: Seq,
    pub(super) lists: ListsByKey,
}

/// What a cache becomes once a batch is committed.
#[derive(Debug)]
pub(super) struct CacheUpdate {
    pub(super) generation: GenerationId,
    /// The number of the commit before it.
    pub(super) before: Seq,
    /// The number of the commit.
    pub(super) commit: Seq,
    pub(super) behind: Behind,
    /// The lists that were asked for, with what the batch filed under them.
    pub(super) answer: Answer,
    /// What the batch took records from.
    pub(super) taken_from: Vec<ListKey>,
}

/// Lists, and about how many bytes they take.
#[derive(Debug, Default)]
struct Lists {
    lists: ListsByKey,
    bytes: usize,
}

/// Bytes of a posting of a list. Ids of a collection are about as long as each other: the first of the list stands for all.
fn posting_bytes(list: &Postings) -> usize {
    POSTING_BYTES + list.first().map_or(0, |posting| posting.id.len())
}

fn list_bytes(list: &Postings) -> usize {
    LIST_BYTES + list.len() * posting_bytes(list)
}

impl Lists {
    fn insert(&mut self, key: ListKey, list: Arc<Postings>) {
        self.remove(&key);
        self.bytes += list_bytes(&list);
        self.lists.insert(key, list);
    }

    fn remove(&mut self, key: &ListKey) {
        if let Some(list) = self.lists.remove(key) {
            self.bytes -= list_bytes(&list);
        }
    }

    /// Adds a record that comes after all others, where the list is kept.
    fn add(&mut self, key: &ListKey, posting: &Posting) {
        if let Some(list) = self.lists.get_mut(key)
            && append(list, posting)
        {
            self.bytes += posting_bytes(list);
        }
    }
}

impl PostingCache {
    /// A list as it stands after what is `behind`.
    pub(super) fn get(&self, key: &ListKey, behind: &FiledByOthers) -> Option<Arc<Postings>> {
        let mut list = Arc::clone(self.kept(key)?);
        for posting in behind.0.get(key).into_iter().flatten() {
            append(&mut list, posting);
        }
        Some(list)
    }

    /// Whether a list is kept.
    pub(super) fn has(&self, key: &ListKey) -> bool {
        self.kept(key).is_some()
    }

    /// A list as it stood at `as_of`.
    fn kept(&self, key: &ListKey) -> Option<&Arc<Postings>> {
        self.recent.lists.get(key).or_else(|| self.earlier.lists.get(key)).or_else(|| self.long.get(key))
    }

    /// It becomes that of after the commit when it is taken next, with what is being read beside it, which may take as long.
    pub(super) fn update_later(&mut self, update: CacheUpdate, reading: Reading) {
        let bytes = update.answer.lists().map(|(_, list)| list_bytes(list)).sum();
        self.pending = Some(Box::new(Pending { update, bytes, reading }));
    }

    /// As it is to be by now. Waits for what is being read, at most [`MOST_WAIT`], and not beyond the deadline.
    pub(super) async fn settled(mut self, deadline: Deadline) -> Self {
        if let Some(pending) = self.pending.take() {
            let Pending { update, reading, .. } = *pending;
            let until = deadline.at().min(tokio::time::Instant::now() + MOST_WAIT);
            let read = tokio::time::timeout_at(until, reading).await;
            self.update(update, read.ok().and_then(Result::ok).flatten());
        }
        self
    }

    /// Makes it that of after the commit, with what was `read` beside it, if that is of the instant before or after.
    pub(super) fn update(&mut self, update: CacheUpdate, read: Option<ListsAsOf>) {
        let CacheUpdate { generation, before, commit, behind, answer, taken_from } = update;
        let mut read = read.filter(|read| read.generation == generation);
        match behind {
            Behind::Filed(records) if self.generation == generation => {
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

    /// Keeps the long ones among lists that were not asked for lately.
    fn keep_long(&mut self, Lists { lists, .. }: Lists) {
        let long = lists.into_iter().filter(|(_, list)| list.len() >= self.bounds.long);
        long.for_each(|(key, list)| self.long.add(key, &list));
    }

    /// Keeps lists, in place of those that it has.
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

    fn add(&mut self, key: &ListKey, posting: &Posting) {
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

/// The caches of all collections, least recently used first.
#[derive(Debug, Default)]
pub(super) struct PostingCaches(Mutex<VecDeque<Kept>>);

/// What is kept of a collection.
#[derive(Debug)]
struct Kept {
    number: Number,
    /// As when it was put here last.
    bytes: usize,
    /// `None` while somebody has it.
    cache: Option<PostingCache>,
}

impl PostingCaches {
    /// Takes the cache of a collection, an empty one if there is none. For whoever has its turn.
    pub(super) fn take(&self, number: Number) -> PostingCache {
        let mut all = self.0.lock();
        let Some(kept) = all.iter_mut().find(|kept| kept.number == number) else { return PostingCache::default() };
        // Where the batch that had it failed, it is gone.
        kept.cache.take().unwrap_or_else(|| {
            kept.bytes = 0;
            PostingCache::default()
        })
    }

    /// Puts it back, and gives up those of other collections where all together are too large.
    pub(super) fn put(&self, number: Number, cache: PostingCache) {
        let mut all = self.0.lock();
        all.retain(|kept| kept.number != number);
        all.push_back(Kept { number, bytes: cache.bytes(), cache: Some(cache) });
        let mut bytes: usize = all.iter().map(|kept| kept.bytes).sum();
        let mut given_up = Vec::new();
        while bytes > MOST_IN_ALL
            && let Some(at) = all.iter().take(all.len() - 1).position(|kept| kept.cache.is_some())
            && let Some(kept) = all.remove(at)
        {
            bytes -= kept.bytes;
            given_up.push(kept);
        }
        // Giving back what is large takes its time.
        drop(all);
        drop(given_up);
    }

    /// Forgets a collection that was dropped.
    pub(super) fn forget(&self, number: Number) {
        self.0.lock().retain(|kept| kept.number != number);
    }

    /// Bytes of all, about; those of one that somebody has as they were.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.lock().iter().map(|kept| kept.bytes).sum()
    }
}

impl Shared {
    /// What was committed up to `last` since a cache was up to date. None or two round trips.
    pub(super) async fn behind(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        cache: &PostingCache,
        (last, forgotten): (Seq, Seq),
    ) -> Result<Behind, TxnError> {
        if cache.bytes() == 0 || cache.generation != place.generation || cache.as_of < forgotten || cache.as_of > last {
            return Ok(Behind::Unknown);
        }
        let mut filed = FiledByOthers::default();
        if cache.as_of == last {
            return Ok(Behind::Filed(filed));
        }
        let mut taken = documents::changes_between(place.number, cache.as_of, last);
        taken.insert("$or", documents::took_lists());
        let changes = self.in_session(CHANGES);
        if changes.find_one(taken).projection(doc! { "_id": 1 }).session(&mut *session).await?.is_some() {
            return Ok(Behind::Unknown);
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
        Ok(if records > MOST_BEHIND { Behind::Unknown } else { Behind::Filed(filed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postings::{LIMIT, PostingQuery, list_keys};
    use doppel_core::collection::ChannelPosition;
    use doppel_core::schemes::profile::{Digest, PostingKey};
    use proptest::prelude::*;

    /// Records by seq: the digest and the keys of each.
    type Stored = std::collections::BTreeMap<Seq, (Digest, Vec<PostingKey>)>;

    fn posting_of(seq: Seq) -> Posting {
        Posting { id: format!("r{seq}").into(), seq }
    }

    fn stands_on((digest, keys): &(Digest, Vec<PostingKey>)) -> BTreeSet<ListKey> {
        list_keys(digest, keys)
    }

    fn list_of(stored: &Stored, key: &ListKey) -> Arc<Postings> {
        let filed = stored.iter().filter(|(_, record)| stands_on(record).contains(key));
        Arc::new(filed.take(LIMIT).map(|(seq, _)| posting_of(*seq)).collect())
    }

    fn record((digest, keys): Drawn) -> (Digest, Vec<PostingKey>) {
        let key = |key: u8| PostingKey { channel: ChannelPosition(1), key: u64::from(key) };
        (Digest([digest; 32]), keys.into_iter().map(key).collect())
    }

    /// The digest and the keys of a record.
    type Drawn = (u8, Vec<u8>);

    /// Kinds of batches with the digest and the keys of each record: so many digests and keys, records at most and batches at most.
    fn steps(
        (digests, keys): (u8, u8),
        (records, batches): (usize, usize),
    ) -> impl Strategy<Value = Vec<(u8, Vec<Drawn>)>> {
        let record = (0..digests, prop::collection::vec(0..keys, 0..4));
        prop::collection::vec((0..8_u8, prop::collection::vec(record, 1..records)), 1..batches)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// Whatever is committed by this instance and by others, a list that is kept is the one that is stored.
        #[test]
        fn what_is_kept_is_what_is_stored(
            // Many lists, of which some are not asked for for a while; or a few that become full.
            steps in prop_oneof![steps((3, 16), (12, 40)), steps((2, 4), (40, 30))],
        ) {
            let bounds = Bounds { most_recent: 1 << 10, most_long: 3 << 10, long: 2 };
            let mut cache = PostingCache { bounds, ..PostingCache::default() };
            let (generation, mut stored, mut last) = (GenerationId(1), Stored::new(), Seq(0));
            let mut taken_by_others = false;
            for (kind, records) in steps {
                let records: Vec<_> = records.into_iter().map(record).collect();
                let is_own = kind < 6;
                // A batch of another instance, which may take away the earliest record.
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
                since.for_each(|(seq, record)| filed.add(&posting_of(*seq), stands_on(record)));
                let behind = match taken_by_others || cache.bytes() == 0 {
                    true => Behind::Unknown,
                    false => Behind::Filed(filed),
                };
                taken_by_others = false;
                let mut question = PostingQuery::default();
                records.iter().for_each(|(digest, keys)| question.add(Some(digest), keys));
                let mut answer = match &behind {
                    Behind::Filed(records) => question.answer_from(|key| cache.get(key, records)),
                    Behind::Unknown => Answer::default(),
                };
                let kept = answer.clone().into_parts().0;
                for (key, list) in kept {
                    prop_assert_eq!(list, list_of(&stored, &key));
                }
                // The database says the rest.
                answer.extend(question.answer_from(|key| Some(list_of(&stored, key))));
                let (mut taken_from, stored_before) = (Vec::new(), stored.clone());
                if kind == 5 && let Some((seq, gone)) = stored.pop_first() {
                    answer.remove(&posting_of(seq).id);
                    taken_from.extend(stands_on(&gone));
                }
                let before = last;
                // All lists, read beside the batch: at the instant before it, after it, or earlier.
                let read_all = |stored: &Stored, as_of: Seq| {
                    let keys = stored.values().flat_map(stands_on).chain([ListKey::Key(3)]);
                    let lists = keys.map(|key| (key, list_of(stored, &key))).collect();
                    ListsAsOf { generation, as_of, lists }
                };
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
                let bytes = |lists: &Lists| lists.lists.values().map(|list| list_bytes(list)).sum::<usize>();
                prop_assert_eq!(
                    cache.bytes(),
                    bytes(&cache.recent) + bytes(&cache.earlier) + cache.long.counted_bytes()
                );
            }
        }
    }

    #[test]
    fn lists_that_are_not_asked_for_any_more_go_and_so_do_caches() {
        let list = |length: usize| Arc::new((1..=length as u64).map(|seq| posting_of(Seq(seq))).collect::<Postings>());
        let (short, long) = (list(LONG - 1), list(250));
        let ask = |cache: &mut PostingCache, list: &Arc<Postings>, keys: std::ops::Range<i64>| {
            let mut question = PostingQuery::default();
            let keys: Vec<_> = keys.map(|key| PostingKey { channel: ChannelPosition(1), key: key as u64 }).collect();
            keys.chunks(16).for_each(|keys| question.add(None, keys));
            let answer = question.answer_from(|_| Some(Arc::clone(list)));
            let behind = Behind::Filed(FiledByOthers::default());
            let (generation, commit) = (GenerationId::default(), Seq(250));
            let before = Seq(249);
            cache.update(CacheUpdate { generation, before, commit, behind, answer, taken_from: Vec::new() }, None);
        };
        let enough = |list: &Arc<Postings>| (MOST_RECENT / list_bytes(list)) as i64 + 1;
        let (mut cache, many) = (PostingCache::default(), enough(&short));
        ask(&mut cache, &short, 0..many);
        let (first, none) = (ListKey::Key(0), FiledByOthers::default());
        assert!(cache.get(&first, &none).is_some());
        ask(&mut cache, &short, many..2 * many);
        ask(&mut cache, &short, 2 * many..3 * many);
        assert!(cache.get(&first, &none).is_none() && cache.bytes() <= 2 * MOST_RECENT + MOST_RECENT / 4);

        // Long ones stay longer, as far as there is room.
        let bounds = Bounds { most_long: 8 << 20, ..Bounds::default() };
        let (mut cache, many) = (PostingCache { bounds, ..PostingCache::default() }, enough(&long));
        (0..2).for_each(|time| ask(&mut cache, &long, time * many..(time + 1) * many));
        assert!((0..many).all(|key| cache.get(&ListKey::Key(key), &none).as_ref() == Some(&long)));
        (2..9).for_each(|time| ask(&mut cache, &long, time * many..(time + 1) * many));
        assert!(cache.long.len() > many as usize / 2 && cache.long.bytes() <= bounds.most_long);

        let caches = PostingCaches::default();
        for number in 0..8 {
            let mut cache = caches.take(number);
            (0..9).for_each(|time| ask(&mut cache, &long, time * many..(time + 1) * many));
            caches.put(number, cache);
        }
        assert!(caches.memory_bytes() <= MOST_IN_ALL);
        assert_eq!((caches.take(0).bytes(), caches.take(7).bytes() > 0), (0, true), "the last ones are kept");
        assert!(caches.memory_bytes() > 0);
        (0..8).for_each(|number| caches.forget(number));
        assert_eq!(caches.memory_bytes(), 0, "what is dropped is forgotten");
    }
}
