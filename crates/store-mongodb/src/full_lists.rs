//! Full posting lists: the earliest records of keys that many records share, cached for lookups and registrations.
//!
//! New records are later than all stored records, so that a full list changes only if a record is removed from lists. Lists of the latest
//! records are therefore not cached. The log of
//! changes shows this: a user of the cache reads, in the snapshot of its other reads, whether a record was removed since the lists
//! were right. If so, all lists of the collection are dropped. A lookup in a large collection reads most of its documents for a few
//! such keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use mongodb::ClientSession;
use mongodb::bson::doc;
use parking_lot::Mutex;

use super::SharedStore;
use super::documents::{CHANGES, StoredNumber, changes_between, took_lists};
use super::finds::{BoundedFind, FoundRows};
use super::interned::InternedLists;
use super::postings::{LIMIT, ListKey, ListsByKey, PostingAnswer, PostingQuery, RecordPosting};
use super::read::{CollectionPointer, GenerationKey};
use super::retry::TxnError;
use doppel_core::index::ProposalOrder;
use doppel_store::{GenerationId, Seq};

/// Largest size of the lists of all collections in bytes: about thirty thousand keys.
const MOST_BYTES: usize = 256 << 20;
/// Largest number of commits for which a registration checks whether the lists are still right. Lookups always check.
const MOST_BEHIND: u64 = 10_000;
/// Largest size in bytes of the read part of a logged change.
const CHANGE_BYTES: usize = 128;

/// The full lists of all collections.
#[derive(Debug)]
pub(super) struct FullLists {
    most_bytes: usize,
    all: Mutex<HashMap<StoredNumber, CachedFullLists>>,
    epochs: AtomicU64,
}

#[derive(Debug)]
struct CachedFullLists {
    generation: GenerationId,
    /// Distinguishes these lists from the lists before the last drop.
    epoch: u64,
    /// The commit after which all lists are right.
    as_of: Seq,
    lists: InternedLists,
}

/// The lists that were cached when a lookup began.
#[derive(Debug)]
pub(super) struct KnownLists {
    epoch: u64,
    as_of: Seq,
    lists: ListsByKey,
}

impl KnownLists {
    /// Removes the cached lists from `question` and returns them.
    pub(super) fn answer(known: Option<&Self>, question: &mut PostingQuery) -> PostingAnswer {
        question.answer_from(|key| known.and_then(|known| known.lists.get(key).cloned()))
    }

    /// True if there are cached lists.
    pub(super) fn has_any(&self) -> bool {
        !self.lists.is_empty()
    }

    /// True if checking the lists in the snapshot of `pointer` costs little.
    pub(super) fn is_recent(&self, pointer: &CollectionPointer) -> bool {
        pointer.commits.0.saturating_sub(self.as_of.0) <= MOST_BEHIND
    }

    /// Returns the find of a change that removed a record from lists after the lists were last right.
    pub(super) fn find(&self, number: StoredNumber) -> BoundedFind {
        let mut taken = changes_between(number, self.as_of, Seq(i64::MAX as u64));
        taken.insert("$or", took_lists());
        BoundedFind::new(CHANGES, taken, doc! { "_id": 1 }, 1, CHANGE_BYTES)
    }

    /// True if the lists are right in the snapshot of `pointer`, or after its latch in a transaction. `taken` is the result of
    /// [`KnownLists::find`].
    fn is_right(&self, pointer: &CollectionPointer, taken: &FoundRows) -> bool {
        // Another server may show an earlier moment.
        taken.is_empty() && (pointer.forgotten..=pointer.commits).contains(&self.as_of)
    }
}

impl Default for FullLists {
    fn default() -> Self {
        Self { most_bytes: MOST_BYTES, all: Mutex::default(), epochs: AtomicU64::new(0) }
    }
}

impl FullLists {
    /// Returns the cached lists of `keys`.
    pub(super) fn known<'k>(
        &self,
        place: GenerationKey,
        keys: impl Iterator<Item = &'k ListKey>,
    ) -> Option<KnownLists> {
        if place.order == ProposalOrder::LatestFirst {
            return None;
        }
        let all = self.all.lock();
        let kept = all.get(&place.number).filter(|kept| kept.generation == place.generation)?;
        let lists = keys.filter_map(|key| Some((*key, Arc::clone(kept.lists.get(key)?))));
        Some(KnownLists { epoch: kept.epoch, as_of: kept.as_of, lists: lists.collect() })
    }

    /// Drops all lists of a collection if they are still the lists of `known`.
    fn forget(&self, number: StoredNumber, known: &KnownLists) {
        let mut all = self.all.lock();
        if all.get(&number).is_some_and(|kept| kept.epoch == known.epoch) {
            all.remove(&number);
        }
    }

    /// Removes a dropped collection.
    pub(super) fn forget_all(&self, number: StoredNumber) {
        self.all.lock().remove(&number);
    }

    /// Caches the full lists among `lists`. They were read after the commit `as_of`, and `known` was right at that commit.
    pub(super) fn keep<'l>(
        &self,
        place: GenerationKey,
        known: Option<&KnownLists>,
        as_of: Seq,
        lists: impl Iterator<Item = (&'l ListKey, &'l Arc<Vec<RecordPosting>>)>,
    ) {
        if place.order == ProposalOrder::LatestFirst {
            return;
        }
        let mut all = self.all.lock();
        let kept = match (all.get_mut(&place.number), known) {
            (Some(kept), Some(known)) if kept.epoch == known.epoch => kept,
            // Another caller has started new lists meanwhile, perhaps at a later moment.
            (Some(kept), _) if kept.generation == place.generation => return,
            _ => {
                let epoch = self.epochs.fetch_add(1, Ordering::Relaxed);
                let lists = InternedLists::default();
                all.insert(place.number, CachedFullLists { generation: place.generation, epoch, as_of, lists });
                let Some(kept) = all.get_mut(&place.number) else { return };
                kept
            }
        };
        kept.as_of = kept.as_of.max(as_of);
        lists.filter(|(_, list)| list.len() >= LIMIT).for_each(|(key, list)| kept.lists.add(*key, list));
        while all.values().map(|kept| kept.lists.bytes()).sum::<usize>() > self.most_bytes {
            let Some((&number, largest)) = all.iter_mut().max_by_key(|(_, kept)| kept.lists.bytes()) else { return };
            let before = largest.lists.bytes();
            largest.lists.halve();
            // For example, because there is only one list.
            if largest.lists.bytes() >= before {
                all.remove(&number);
            }
        }
    }

    /// Returns the approximate size of all lists in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.all.lock().values().map(|kept| kept.lists.bytes()).sum()
    }
}

impl SharedStore {
    /// Drops the lists `known` if they are not right in the snapshot of `pointer`, and reads them again into `answer`. `taken` is
    /// the result of [`KnownLists::find`]. No round trip if they are right.
    pub(super) async fn check_known(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        known: &KnownLists,
        pointer: &CollectionPointer,
        taken: &FoundRows,
        answer: &mut PostingAnswer,
    ) -> Result<(), TxnError> {
        if !known.is_right(pointer, taken) {
            self.full_lists.forget(place.number, known);
            let outdated = PostingQuery::of_lists(known.lists.keys().copied());
            let found = self.find_all(session, outdated.finds(place)).await?;
            answer.extend(self.filed(session, place, &outdated, found).await?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size in bytes of a list without its ids.
    const LIST_BYTES: usize = LIMIT * size_of::<RecordPosting>() + 96;

    fn place(number: StoredNumber) -> GenerationKey {
        GenerationKey { number, generation: GenerationId(1), order: ProposalOrder::default() }
    }

    fn lists(keys: std::ops::Range<i64>, length: usize) -> ListsByKey {
        let list: Vec<RecordPosting> =
            (0..length).map(|at| RecordPosting { id: format!("r{at}").into(), seq: Seq(at as u64) }).collect();
        let list = Arc::new(list);
        keys.map(|key| (ListKey::Key(key), Arc::clone(&list))).collect()
    }

    #[test]
    fn full_lists_are_kept_for_later_moments() {
        let full = FullLists::default();
        let key = ListKey::Key(1);
        full.keep(place(7), None, Seq(10), lists(1..2, LIMIT).iter());
        full.keep(place(8), None, Seq(10), lists(1..2, LIMIT - 1).iter());
        let known = full.known(place(7), [&key].into_iter()).expect("it began");
        assert_eq!((known.as_of, known.lists[&key].len()), (Seq(10), LIMIT));
        assert!(
            full.known(place(8), [&key].into_iter()).expect("it began").lists.is_empty(),
            "a list that is not full is not cached"
        );
        // A caller that knew no lists may have read earlier lists.
        full.keep(place(7), None, Seq(9), lists(2..3, LIMIT).iter());
        full.keep(place(7), Some(&known), Seq(12), lists(3..4, LIMIT).iter());
        let keys = [ListKey::Key(1), ListKey::Key(2), ListKey::Key(3)];
        let later = full.known(place(7), keys.iter()).expect("it is there");
        assert_eq!((later.as_of, later.lists.len()), (Seq(12), 2));
        // A record was removed. A caller that knows the old lists adds nothing to the new lists.
        full.forget(7, &later);
        full.keep(place(7), Some(&later), Seq(20), lists(4..5, LIMIT).iter());
        full.keep(place(7), Some(&known), Seq(15), lists(5..6, LIMIT).iter());
        full.forget(7, &known);
        let anew = full.known(place(7), [ListKey::Key(4), ListKey::Key(5)].iter()).expect("it began anew");
        assert_eq!((anew.as_of, anew.lists.len()), (Seq(20), 1));
        let other = GenerationKey { generation: GenerationId(2), ..place(7) };
        assert!(full.known(other, keys.iter()).is_none());
        full.forget_all(7);
        assert!(full.known(place(7), keys.iter()).is_none());
    }

    #[test]
    fn the_size_of_all_lists_together_is_bounded() {
        let most_bytes = 4 << 20;
        let full = FullLists { most_bytes, ..FullLists::default() };
        let many = (most_bytes / LIST_BYTES) as i64;
        full.keep(place(1), None, Seq(1), lists(0..many / 2, LIMIT).iter());
        let before = full.memory_bytes();
        assert!((most_bytes / 3..most_bytes).contains(&before));
        full.keep(place(2), None, Seq(1), lists(0..many, LIMIT).iter());
        assert!((most_bytes / 3..=most_bytes).contains(&full.memory_bytes()));
        assert!(full.known(place(1), [].into_iter()).is_some());
        // Many collections with one list each.
        let full = FullLists { most_bytes: 10 * LIST_BYTES, ..FullLists::default() };
        (0..40).for_each(|number| full.keep(place(number), None, Seq(1), lists(1..2, LIMIT).iter()));
        assert!(full.memory_bytes() <= 10 * LIST_BYTES);
    }
}
