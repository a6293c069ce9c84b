//! Posting lists that batches of a collection have read, kept for the next batch.
//!
//! A key that many records share is asked for by batch after batch, and its list is the same but for what was filed since. What this
//! instance files it adds by itself. What others filed is read by seq, and where they took something away, everything is forgotten:
//! the log of changes says so.
//!
//! A cache belongs to whoever has the turn of the collection, and is handed on only after a commit that a majority has confirmed: so it
//! holds nothing that can be rolled back.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use mongodb::ClientSession;
use mongodb::bson::doc;
use parking_lot::Mutex;

use super::Shared;
use super::documents::{self, CHANGES, Number, SIGNATURES, seq_value};
use super::postings::{Answer, ListKey, ListsByKey, Posting, Postings, append, posting, stored_list_keys};
use super::read::{GenerationKey, next};
use super::retry::TxnError;
use doppel_store::{GenerationId, Seq};

/// Postings that a collection keeps, about: those of its last batches, and as many of earlier ones. 24 bytes each, and their ids.
const MOST_RECENT: usize = 1 << 20;
/// Postings that all collections keep together.
const MOST_IN_ALL: usize = 1 << 22;
/// What an entry of the map takes, in postings.
const LIST_OVERHEAD: usize = 5;
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
}

/// A record filed by another instance, and under what.
type FiledRecord = (Posting, BTreeSet<ListKey>);

/// What was committed since a cache was up to date.
#[derive(Debug)]
pub(super) enum Behind {
    /// These records were filed, and nothing else happened.
    Filed(Vec<FiledRecord>),
    /// The cache is of no use.
    Unknown,
}

/// What a cache becomes once a batch is committed.
#[derive(Debug)]
pub(super) struct CacheUpdate {
    pub(super) generation: GenerationId,
    /// The number of the commit.
    pub(super) commit: Seq,
    pub(super) behind: Behind,
    /// The lists that were asked for, with what the batch filed under them.
    pub(super) answer: Answer,
    /// What the batch took records from.
    pub(super) taken_from: Vec<ListKey>,
}

/// Lists, and about how many postings they are.
#[derive(Debug, Default)]
struct Lists {
    lists: ListsByKey,
    size: usize,
}

impl Lists {
    fn insert(&mut self, key: ListKey, list: Arc<Postings>) {
        self.remove(&key);
        self.size += list.len() + LIST_OVERHEAD;
        self.lists.insert(key, list);
    }

    fn remove(&mut self, key: &ListKey) {
        if let Some(list) = self.lists.remove(key) {
            self.size -= list.len() + LIST_OVERHEAD;
        }
    }

    /// Adds a record that comes after all others, where the list is kept.
    fn add(&mut self, key: &ListKey, posting: &Posting) {
        if let Some(list) = self.lists.get_mut(key)
            && append(list, posting)
        {
            self.size += 1;
        }
    }
}

impl PostingCache {
    /// A list as it stands after what is `behind`.
    pub(super) fn get(&self, key: &ListKey, behind: &[FiledRecord]) -> Option<Arc<Postings>> {
        let list = self.recent.lists.get(key).or_else(|| self.earlier.lists.get(key))?;
        let mut list = Arc::clone(list);
        for (posting, keys) in behind {
            if keys.contains(key) {
                append(&mut list, posting);
            }
        }
        Some(list)
    }

    /// Makes it that of after the commit.
    pub(super) fn update(&mut self, update: CacheUpdate) {
        let CacheUpdate { generation, commit, behind, answer, taken_from } = update;
        match behind {
            Behind::Filed(records) if self.generation == generation => {
                for (posting, keys) in &records {
                    keys.iter().for_each(|key| self.add(key, posting));
                }
            }
            _ => *self = Self { generation, ..Self::default() },
        }
        self.as_of = commit;
        let (lists, others) = answer.into_parts();
        others.iter().for_each(|(key, posting)| self.add(key, posting));
        for (key, list) in lists {
            self.earlier.remove(&key);
            self.recent.insert(key, list);
        }
        for key in &taken_from {
            self.recent.remove(key);
            self.earlier.remove(key);
        }
        if self.recent.size > MOST_RECENT {
            self.earlier = std::mem::take(&mut self.recent);
        }
    }

    fn add(&mut self, key: &ListKey, posting: &Posting) {
        self.recent.add(key, posting);
        self.earlier.add(key, posting);
    }

    fn size(&self) -> usize {
        self.recent.size + self.earlier.size
    }
}

/// The caches of all collections, least recently used first.
#[derive(Debug, Default)]
pub(super) struct PostingCaches(Mutex<VecDeque<(Number, PostingCache)>>);

impl PostingCaches {
    /// Takes the cache of a collection, an empty one if there is none. For whoever has its turn.
    pub(super) fn take(&self, number: Number) -> PostingCache {
        let mut all = self.0.lock();
        let at = all.iter().position(|(of, _)| *of == number);
        at.and_then(|at| all.remove(at)).map(|(_, cache)| cache).unwrap_or_default()
    }

    /// Puts it back, and gives up those of others where all are too large.
    pub(super) fn put(&self, number: Number, cache: PostingCache) {
        let mut all = self.0.lock();
        all.push_back((number, cache));
        let mut size: usize = all.iter().map(|(_, cache)| cache.size()).sum();
        while size > MOST_IN_ALL
            && let Some((_, given_up)) = all.pop_front()
        {
            size -= given_up.size();
        }
    }

    /// Bytes of all, about.
    pub(super) fn memory_bytes(&self) -> usize {
        let size: usize = self.0.lock().iter().map(|(_, cache)| cache.size()).sum();
        size * size_of::<Posting>()
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
        if cache.size() == 0 || cache.generation != place.generation || cache.as_of < forgotten || cache.as_of > last {
            return Ok(Behind::Unknown);
        }
        let mut filed = Vec::new();
        if cache.as_of == last {
            return Ok(Behind::Filed(filed));
        }
        let mut taken = documents::changes_between(place.number, cache.as_of, last);
        taken.insert("kind", doc! { "$ne": "decided" });
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
        while let Some(found) = next(&mut cursor, session).await? {
            filed.push((posting(&found)?, stored_list_keys(&found)?));
        }
        Ok(if filed.len() > MOST_BEHIND { Behind::Unknown } else { Behind::Filed(filed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postings::{PostingQuery, list_keys};
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
        let mut list = Arc::default();
        filed.for_each(|(seq, _)| _ = append(&mut list, &posting_of(*seq)));
        list
    }

    fn record((digest, keys): (u8, Vec<u8>)) -> (Digest, Vec<PostingKey>) {
        let key = |key: u8| PostingKey { channel: ChannelPosition(1), key: u64::from(key) };
        (Digest([digest; 32]), keys.into_iter().map(key).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Whatever is committed by this instance and by others, a list that is kept is the one that is stored.
        #[test]
        fn what_is_kept_is_what_is_stored(
            steps in prop::collection::vec(
                (0..8_u8, prop::collection::vec((0..2_u8, prop::collection::vec(0..4_u8, 0..4)), 1..40)), 1..30),
        ) {
            let (generation, mut cache, mut stored, mut last) = (GenerationId(1), PostingCache::default(), Stored::new(), Seq(0));
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
                let behind: Vec<FiledRecord> =
                    since.map(|(seq, record)| (posting_of(*seq), stands_on(record))).collect();
                let behind = match taken_by_others || cache.size() == 0 {
                    true => Behind::Unknown,
                    false => Behind::Filed(behind),
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
                let mut taken_from = Vec::new();
                if kind == 5 && let Some((seq, gone)) = stored.pop_first() {
                    answer.remove(&posting_of(seq).id);
                    taken_from.extend(stands_on(&gone));
                }
                for (digest, keys) in records {
                    last = last.next();
                    answer.add(&posting_of(last), &digest, &keys);
                    stored.insert(last, (digest, keys));
                }
                cache.update(CacheUpdate { generation, commit: last, behind, answer, taken_from });
                for (key, list) in cache.recent.lists.iter().chain(&cache.earlier.lists) {
                    prop_assert_eq!(list, &list_of(&stored, key));
                }
                let size = |lists: &Lists| lists.lists.values().map(|list| list.len() + LIST_OVERHEAD).sum::<usize>();
                prop_assert_eq!(cache.size(), size(&cache.recent) + size(&cache.earlier));
            }
        }
    }

    #[test]
    fn lists_that_are_not_asked_for_any_more_go_and_so_do_caches() {
        let full: Arc<Postings> = Arc::new((1..=250).map(|seq| posting_of(Seq(seq))).collect());
        let ask = |cache: &mut PostingCache, keys: std::ops::Range<i64>| {
            let mut question = PostingQuery::default();
            let keys: Vec<_> = keys.map(|key| PostingKey { channel: ChannelPosition(1), key: key as u64 }).collect();
            keys.chunks(16).for_each(|keys| question.add(None, keys));
            let answer = question.answer_from(|_| Some(Arc::clone(&full)));
            let behind = Behind::Filed(Vec::new());
            let (generation, commit) = (GenerationId::default(), Seq(250));
            cache.update(CacheUpdate { generation, commit, behind, answer, taken_from: Vec::new() });
        };
        let mut cache = PostingCache::default();
        let (first, many) = (ListKey::Key(0), (MOST_RECENT / 250) as i64);
        ask(&mut cache, 0..many);
        assert!(cache.get(&first, &[]).is_some());
        ask(&mut cache, many..2 * many);
        ask(&mut cache, 2 * many..3 * many);
        assert!(cache.get(&first, &[]).is_none() && cache.size() <= 2 * MOST_RECENT + MOST_RECENT / 4);

        let caches = PostingCaches::default();
        for number in 0..8 {
            let mut cache = caches.take(number);
            ask(&mut cache, 0..many);
            caches.put(number, cache);
        }
        assert!(caches.memory_bytes() <= MOST_IN_ALL * size_of::<Posting>());
        assert_eq!((caches.take(0).size(), caches.take(7).size() > 0), (0, true), "the last ones are kept");
    }
}
