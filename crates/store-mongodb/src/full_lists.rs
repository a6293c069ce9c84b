//! Posting lists that are full: the earliest records of a key that many share, kept for lookups and registrations.
//!
//! What is filed comes after all that is there, so that a full list stays as it is until a record is taken from lists. Of that the log of
//! changes tells: who uses lists reads, in the snapshot of its other reads, whether anything was taken since they were known to be right,
//! and if so, all are forgotten. A lookup in a large stock reads most of its rows for a few such keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use mongodb::ClientSession;
use mongodb::bson::doc;
use parking_lot::Mutex;

use super::Shared;
use super::documents::{CHANGES, Number, changes_between, took_lists};
use super::finds::{Find, Rows};
use super::interned::InternedLists;
use super::postings::{Answer, LIMIT, ListKey, ListsByKey, Posting, PostingQuery};
use super::read::{GenerationKey, Pointer};
use super::retry::TxnError;
use doppel_store::{GenerationId, Seq};

/// Bytes that the lists of all collections take: of some thirty thousand keys.
const MOST_BYTES: usize = 256 << 20;
/// Commits since it was known to be right, beyond which a registration does not ask whether it still is: lookups do.
const MOST_BEHIND: u64 = 10_000;
/// Bytes of what is read of a change.
const CHANGE_BYTES: usize = 128;

/// Full lists, by collection.
#[derive(Debug)]
pub(super) struct FullLists {
    most_bytes: usize,
    all: Mutex<HashMap<Number, Kept>>,
    epochs: AtomicU64,
}

#[derive(Debug)]
struct Kept {
    generation: GenerationId,
    /// Which beginning this is: another one after everything was forgotten.
    epoch: u64,
    /// The commit as of which all lists are right.
    as_of: Seq,
    lists: InternedLists,
}

/// What was known when a lookup began.
#[derive(Debug)]
pub(super) struct Known {
    epoch: u64,
    as_of: Seq,
    lists: ListsByKey,
}

impl Known {
    /// Takes out of `question` what is known; the answer as far as it goes.
    pub(super) fn answer(known: Option<&Self>, question: &mut PostingQuery) -> Answer {
        question.answer_from(|key| known.and_then(|known| known.lists.get(key).cloned()))
    }

    /// Whether any of what was asked is known.
    pub(super) fn has_any(&self) -> bool {
        !self.lists.is_empty()
    }

    /// Whether it is little work to find out, at the instant that `pointer` is of, if it is still right.
    pub(super) fn is_recent(&self, pointer: &Pointer) -> bool {
        pointer.commits.0.saturating_sub(self.as_of.0) <= MOST_BEHIND
    }

    /// Finds a change since then that took a record from lists, if there is one.
    pub(super) fn find(&self, number: Number) -> Find {
        let mut taken = changes_between(number, self.as_of, Seq(i64::MAX as u64));
        taken.insert("$or", took_lists());
        Find::new(CHANGES, taken, doc! { "_id": 1 }, (1, CHANGE_BYTES))
    }

    /// Whether the lists are right at the instant that `pointer` is of, in a transaction that of its latch, where `taken` is what [`Known::find`] found there.
    fn is_right(&self, pointer: &Pointer, taken: &Rows) -> bool {
        // Another server may show an earlier instant.
        taken.is_empty() && (pointer.forgotten..=pointer.commits).contains(&self.as_of)
    }
}

impl Default for FullLists {
    fn default() -> Self {
        Self { most_bytes: MOST_BYTES, all: Mutex::default(), epochs: AtomicU64::new(0) }
    }
}

impl FullLists {
    /// What is known of `keys`.
    pub(super) fn known<'k>(&self, place: GenerationKey, keys: impl Iterator<Item = &'k ListKey>) -> Option<Known> {
        let all = self.all.lock();
        let kept = all.get(&place.number).filter(|kept| kept.generation == place.generation)?;
        let lists = keys.filter_map(|key| Some((*key, Arc::clone(kept.lists.get(key)?))));
        Some(Known { epoch: kept.epoch, as_of: kept.as_of, lists: lists.collect() })
    }

    /// Forgets everything of a collection, if it is still what was known.
    fn forget(&self, number: Number, known: &Known) {
        let mut all = self.all.lock();
        if all.get(&number).is_some_and(|kept| kept.epoch == known.epoch) {
            all.remove(&number);
        }
    }

    /// Forgets a collection that was dropped.
    pub(super) fn forget_all(&self, number: Number) {
        self.all.lock().remove(&number);
    }

    /// Keeps those of `lists` that are full, as they were read at the commit `as_of`, at which what was `known` was right.
    pub(super) fn keep<'l>(
        &self,
        place: GenerationKey,
        (known, as_of): (Option<&Known>, Seq),
        lists: impl Iterator<Item = (&'l ListKey, &'l Arc<Vec<Posting>>)>,
    ) {
        let mut all = self.all.lock();
        let kept = match (all.get_mut(&place.number), known) {
            (Some(kept), Some(known)) if kept.epoch == known.epoch => kept,
            // Somebody else began anew meanwhile, maybe at a later instant.
            (Some(kept), _) if kept.generation == place.generation => return,
            _ => {
                let epoch = self.epochs.fetch_add(1, Ordering::Relaxed);
                let lists = InternedLists::default();
                all.insert(place.number, Kept { generation: place.generation, epoch, as_of, lists });
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
            // A single list, say.
            if largest.lists.bytes() >= before {
                all.remove(&number);
            }
        }
    }

    /// Bytes of all, about.
    pub(super) fn memory_bytes(&self) -> usize {
        self.all.lock().values().map(|kept| kept.lists.bytes()).sum()
    }
}

impl Shared {
    /// Forgets what was `known` and reads it anew into `answer`, where it is not right at the instant that `pointer` is of; `taken` is what
    /// [`Known::find`] found there. No round trip where it is right.
    pub(super) async fn check_known(
        &self,
        session: &mut ClientSession,
        place: GenerationKey,
        (known, pointer, taken): (&Known, &Pointer, &Rows),
        answer: &mut Answer,
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

    /// Bytes of a list, besides its ids.
    const LIST_BYTES: usize = LIMIT * size_of::<Posting>() + 96;

    fn place(number: Number) -> GenerationKey {
        GenerationKey { number, generation: GenerationId(1) }
    }

    fn lists(keys: std::ops::Range<i64>, length: usize) -> ListsByKey {
        let posting = |at: usize| Posting { id: format!("r{at}").into(), seq: Seq(at as u64) };
        let list = Arc::new((0..length).map(posting).collect::<Vec<_>>());
        keys.map(|key| (ListKey::Key(key), Arc::clone(&list))).collect()
    }

    #[test]
    fn lists_that_are_full_are_kept_from_one_instant_to_a_later_one() {
        let (full, key) = (FullLists::default(), ListKey::Key(1));
        full.keep(place(7), (None, Seq(10)), lists(1..2, LIMIT).iter());
        full.keep(place(8), (None, Seq(10)), lists(1..2, LIMIT - 1).iter());
        let known = full.known(place(7), [&key].into_iter()).expect("it began");
        assert_eq!((known.as_of, known.lists[&key].len()), (Seq(10), LIMIT));
        assert!(full.known(place(8), [&key].into_iter()).expect("it began").lists.is_empty(), "one that is not full");
        // Another one began without knowing: it may have read before.
        full.keep(place(7), (None, Seq(9)), lists(2..3, LIMIT).iter());
        full.keep(place(7), (Some(&known), Seq(12)), lists(3..4, LIMIT).iter());
        let keys = [ListKey::Key(1), ListKey::Key(2), ListKey::Key(3)];
        let later = full.known(place(7), keys.iter()).expect("it is there");
        assert_eq!((later.as_of, later.lists.len()), (Seq(12), 2));
        // Something was taken; who still knows the old ones adds nothing to what begins anew.
        full.forget(7, &later);
        full.keep(place(7), (Some(&later), Seq(20)), lists(4..5, LIMIT).iter());
        full.keep(place(7), (Some(&known), Seq(15)), lists(5..6, LIMIT).iter());
        full.forget(7, &known);
        let anew = full.known(place(7), [ListKey::Key(4), ListKey::Key(5)].iter()).expect("it began anew");
        assert_eq!((anew.as_of, anew.lists.len()), (Seq(20), 1));
        let other = GenerationKey { generation: GenerationId(2), ..place(7) };
        assert!(full.known(other, keys.iter()).is_none());
        full.forget_all(7);
        assert!(full.known(place(7), keys.iter()).is_none());
    }

    #[test]
    fn all_lists_together_take_a_bounded_number_of_bytes() {
        let most_bytes = 4 << 20;
        let full = FullLists { most_bytes, ..FullLists::default() };
        let many = (most_bytes / LIST_BYTES) as i64;
        full.keep(place(1), (None, Seq(1)), lists(0..many / 2, LIMIT).iter());
        let before = full.memory_bytes();
        assert!((most_bytes / 3..most_bytes).contains(&before));
        full.keep(place(2), (None, Seq(1)), lists(0..many, LIMIT).iter());
        assert!((most_bytes / 3..=most_bytes).contains(&full.memory_bytes()));
        assert!(full.known(place(1), [].into_iter()).is_some());
        // Many collections of one list each.
        let full = FullLists { most_bytes: 10 * LIST_BYTES, ..FullLists::default() };
        (0..40).for_each(|number| full.keep(place(number), (None, Seq(1)), lists(1..2, LIMIT).iter()));
        assert!(full.memory_bytes() <= 10 * LIST_BYTES);
    }
}
