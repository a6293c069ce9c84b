//! Sketches of many sets in a bounded number of bytes: new sketches replace the oldest ones that nobody compared lately.
//!
//! A sketch is found by its owner and number. There are sixty-four shards. Each shard is a ring of words with its own
//! lock, and a table of the positions in the ring where entries begin: 30 bytes for each entry besides the sketch. A
//! lookup holds a lock for reading during the comparison, which takes well below a microsecond. An entry contains its
//! owner and its length in words, its number, and the sketch.
//!
//! A sketch that is forgotten or replaced leaves a gap. A shard is copied without its gaps when they are an eighth of
//! its ring. So the memory depends only on the remembered sketches, and a gap replaces no sketch.
//!
//! Keys propose their earliest records, so that a full ring must not forget the oldest sketches only because they are
//! old: a sketch that was compared since the ring came by last stays for another round (the clock algorithm). The marks
//! take one bit for each cache line of a ring.

use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashTable;
use parking_lot::RwLock;

const SHARDS: usize = 64;
/// Number of words before the sketch of an entry.
const HEAD: usize = 2;
/// The owner of a gap in the ring.
const NOBODY: u32 = u32::MAX;
/// An entry takes at most the shard's size divided by this number.
const LARGEST: usize = 16;
/// Number of words in a cache line.
const LINE: usize = 8;
/// A ring grows by its length divided by this number.
const GROWTH: usize = 8;
/// If a ring needs room, its gaps are at most its length divided by this number.
const MOST_GAPS: usize = 8;
/// Largest number of compared sketches that a new sketch passes over. So the search for room takes microseconds at most.
const MOST_PASSED: usize = 32;

/// A bounded set of sketches, see the module.
#[derive(Debug)]
pub struct Sketches {
    shards: Box<[RwLock<Shard>]>,
    /// Maximum number of words in a shard's ring.
    most: usize,
}

#[derive(Debug, Default)]
struct Shard {
    /// Positions in `ring` where entries begin.
    places: HashTable<u32>,
    ring: Vec<u64>,
    /// Position of the next entry after the ring has reached its full length. The entries from here on are the oldest.
    next: usize,
    /// Number of words in `ring` that belong to no entry.
    gaps: usize,
    /// One bit for each [`LINE`] of the ring: true if an entry that begins there was compared. The entry of a text
    /// takes a line at least. Empty while the ring has less than half of its full length.
    compared: Vec<AtomicU64>,
}

fn hash(owner: u32, number: u64) -> u64 {
    let product = u128::from(number ^ u64::from(owner) << 40) * 0x9e37_79b9_7f4a_7c15;
    (product >> 64) as u64 ^ product as u64
}

/// Returns the hash of the entry that begins at `at`.
fn hash_in(ring: &[u64], at: usize) -> u64 {
    hash((ring[at] >> 32) as u32, ring[at + 1])
}

fn shard_of(hash: u64) -> usize {
    (hash >> 32) as usize % SHARDS
}

impl Sketches {
    /// Creates a set with room for `bytes` bytes of entries. Memory is allocated when it is needed.
    pub fn new(bytes: usize) -> Self {
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        Self { shards, most: bytes / SHARDS / size_of::<u64>() }
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard> {
        &self.shards[shard_of(hash)]
    }

    /// Applies `with` to the sketch of `number`, if it is remembered. O(1) and the cost of `with`.
    pub fn compare<T>(&self, owner: u32, number: u64, with: impl FnOnce(&[u64]) -> T) -> Option<T> {
        let hash = hash(owner, number);
        let shard = self.shard(hash).read();
        let at = shard.find(hash, owner, number)?;
        shard.mark(at);
        Some(with(&shard.ring[at + HEAD..at + shard.length(at)]))
    }

    /// Loads the remembered sketches of `numbers` into the cache, for the comparisons that follow. The sketches are
    /// loaded at the same time and not one after the other, so call this for as many sketches as will be compared.
    pub fn fetch(&self, owner: u32, numbers: impl Iterator<Item = u64>) {
        // All locks are taken first: between two lookups, a lock would make the processor wait for the memory that it
        // loads.
        let shards: [_; SHARDS] = std::array::from_fn(|at| self.shards[at].read());
        let mut loaded = 0;
        for number in numbers {
            let hash = hash(owner, number);
            let shard = &shards[shard_of(hash)];
            let Some(at) = shard.find(hash, owner, number) else { continue };
            let rest = shard.ring[at..at + shard.length(at)].iter().skip(LINE).step_by(LINE);
            loaded = rest.fold(loaded, |loaded, word| loaded ^ word);
        }
        std::hint::black_box(loaded);
    }

    /// Remembers the sketch of `number`, unless it is remembered already. `sketch` is called only if it is needed.
    pub fn remember(&self, owner: u32, number: u64, sketch: impl FnOnce() -> Vec<u64>) {
        let hash = hash(owner, number);
        let shard = self.shard(hash);
        if owner == NOBODY || shard.read().find(hash, owner, number).is_some() {
            return;
        }
        let sketch = sketch();
        let mut shard = shard.write();
        if self.has_room(&sketch) && shard.find(hash, owner, number).is_none() {
            shard.add(hash, owner, number, &sketch, self.most);
        }
    }

    /// Replaces the sketch of `number`, if one is remembered and `change` returns another sketch for it.
    pub fn change(&self, owner: u32, number: u64, change: impl FnOnce(&[u64]) -> Option<Vec<u64>>) {
        let hash = hash(owner, number);
        let mut shard = self.shard(hash).write();
        let Some(at) = shard.find(hash, owner, number) else { return };
        let changed = change(&shard.ring[at + HEAD..at + shard.length(at)]);
        if let Some(sketch) = changed.filter(|sketch| self.has_room(sketch)) {
            shard.remove(hash, at);
            shard.add(hash, owner, number, &sketch, self.most);
        }
    }

    /// Returns the numbers of the remembered sketches of `owner`, in no order. O(all entries), 8 bytes for each number.
    pub fn numbers(&self, owner: u32) -> Vec<u64> {
        let mut numbers = Vec::new();
        for shard in &self.shards {
            let shard = shard.read();
            let entries = shard.places.iter().map(|&at| at as usize);
            numbers.extend(entries.filter(|&at| shard.owner(at) == owner).map(|at| shard.ring[at + 1]));
        }
        numbers
    }

    /// Forgets the sketches of `owner` with `numbers`, and frees their memory. O(numbers), and the copying of shards
    /// that have many gaps afterwards. A lookup waits at most for the copying of one shard.
    pub fn forget(&self, owner: u32, numbers: &[u64]) {
        for &number in numbers {
            let hash = hash(owner, number);
            let mut shard = self.shard(hash).write();
            if let Some(at) = shard.find(hash, owner, number) {
                shard.remove(hash, at);
            }
        }
        self.shards.iter().for_each(|shard| shard.write().close_gaps());
    }

    /// Forgets the sketches of the owners that `keeps` refuses, and frees their memory. O(all entries).
    pub fn retain_owners(&self, keeps: impl Fn(u32) -> bool) {
        for shard in &self.shards {
            let mut shard = shard.write();
            let places = shard.places.iter().map(|&at| at as usize);
            let forgotten: Vec<usize> = places.filter(|&at| !keeps(shard.owner(at))).collect();
            for at in forgotten {
                let hash = hash_in(&shard.ring, at);
                shard.remove(hash, at);
            }
            shard.close_gaps();
        }
    }

    /// True if a sketch does not exceed the maximum size of an entry.
    fn has_room(&self, sketch: &[u64]) -> bool {
        (sketch.len() + HEAD) * LARGEST <= self.most
    }

    /// Returns the number of allocated bytes.
    pub fn memory_usage(&self) -> usize {
        let each = self.shards.iter().map(|shard| {
            let shard = shard.read();
            (shard.ring.capacity() + shard.compared.capacity()) * size_of::<u64>() + shard.places.allocation_size()
        });
        size_of_val(&*self.shards) + each.sum::<usize>()
    }
}

impl Shard {
    fn length(&self, at: usize) -> usize {
        self.ring[at] as u32 as usize
    }

    fn owner(&self, at: usize) -> u32 {
        (self.ring[at] >> 32) as u32
    }

    fn find(&self, hash: u64, owner: u32, number: u64) -> Option<usize> {
        let place = self.places.find(hash, |&place| {
            let at = place as usize;
            self.owner(at) == owner && self.ring[at + 1] == number
        });
        place.map(|&at| at as usize)
    }

    fn add(&mut self, hash: u64, owner: u32, number: u64, sketch: &[u64], most: usize) {
        let length = HEAD + sketch.len();
        let at = self.room(length, most);
        self.ring[at] = u64::from(owner) << 32 | length as u64;
        self.ring[at + 1] = number;
        self.ring[at + HEAD..at + length].copy_from_slice(sketch);
        let ring = &self.ring;
        self.places.insert_unique(hash, at as u32, |&at| hash_in(ring, at as usize));
    }

    /// Returns the position where `length` words may be written: at the end while the ring grows, later in the place of
    /// the oldest entries.
    fn room(&mut self, length: usize, most: usize) -> usize {
        if self.next != 0 || self.ring.len() + length > self.ring.capacity() {
            self.close_gaps();
        }
        let end = self.ring.len();
        // Sketches are marked for a while before the first one is forgotten.
        if self.compared.is_empty() && 2 * end >= most {
            self.compared.resize_with(most.div_ceil(LINE * u64::BITS as usize), AtomicU64::default);
        }
        if self.next == 0 && end + length <= most {
            if end + length > self.ring.capacity() {
                self.ring.reserve_exact((end / GROWTH).clamp(length, most - end));
            }
            self.ring.resize(end + length, 0);
            return end;
        }
        let at = self.oldest(length);
        self.clear(at, at + length);
        self.gaps -= length;
        // This is never 0. The value 0 means that the ring has not been filled yet.
        self.next = at + length;
        at
    }

    /// Returns the position of the oldest entries that take `length` words or more and were not compared since the last
    /// round. Passes over at most [`MOST_PASSED`] compared entries.
    fn oldest(&mut self, length: usize) -> usize {
        let mut begin = self.next;
        let mut end = begin;
        let mut passed = 0;
        while end - begin < length {
            if end == self.ring.len() {
                self.clear(begin, end);
                (begin, end) = (0, 0);
            }
            let at = end;
            end += self.length(at);
            if passed < MOST_PASSED && self.owner(at) != NOBODY && self.take_mark(at) {
                passed += 1;
                begin = end;
            }
        }
        begin
    }

    /// Marks an entry as compared, if the ring will be full soon.
    fn mark(&self, at: usize) {
        let Some(marks) = self.compared.get(at / LINE / u64::BITS as usize) else { return };
        let bit = 1 << (at / LINE % u64::BITS as usize);
        if marks.load(Ordering::Relaxed) & bit == 0 {
            marks.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Removes the mark of an entry. Returns true if the entry had one.
    fn take_mark(&mut self, at: usize) -> bool {
        let Some(marks) = self.compared.get_mut(at / LINE / u64::BITS as usize) else { return false };
        let bit = 1 << (at / LINE % u64::BITS as usize);
        let is_marked = *marks.get_mut() & bit != 0;
        *marks.get_mut() &= !bit;
        is_marked
    }

    /// Forgets the entries that begin between `from` and `to`. The rest of the last one becomes a gap.
    fn clear(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        let mut at = from;
        while at < to {
            let end = at + self.length(at);
            if self.owner(at) != NOBODY {
                self.remove(hash_in(&self.ring, at), at);
            }
            at = end;
        }
        if at > to {
            self.leave_gap(to, at - to);
        }
        self.leave_gap(from, to - from);
    }

    /// Forgets the entry at `at` and turns its words into a gap.
    fn remove(&mut self, hash: u64, at: usize) {
        if let Ok(entry) = self.places.find_entry(hash, |&place| place as usize == at) {
            entry.remove();
        }
        self.gaps += self.length(at);
        self.leave_gap(at, self.length(at));
    }

    /// Copies the entries without the gaps between them, in the order of their age, if there are many gaps. O(entries).
    fn close_gaps(&mut self) {
        if self.gaps == 0 || self.gaps * MOST_GAPS < self.ring.len() {
            return;
        }
        let kept = self.ring.len() - self.gaps;
        let mut ring = Vec::with_capacity(kept + kept / GROWTH);
        let mut places = HashTable::with_capacity(self.places.len());
        // The oldest entries begin at `next`. A ring that has not been filled yet begins with them, and its `next` is
        // 0.
        for (from, to) in [(self.next, self.ring.len()), (0, self.next)] {
            let mut at = from;
            while at < to {
                let end = at + self.length(at);
                if self.owner(at) != NOBODY {
                    places.insert_unique(hash_in(&self.ring, at), ring.len() as u32, |&at| hash_in(&ring, at as usize));
                    ring.extend_from_slice(&self.ring[at..end]);
                }
                at = end;
            }
        }
        *self = Self { places, ring, next: 0, gaps: 0, compared: Vec::new() };
    }

    fn leave_gap(&mut self, at: usize, length: usize) {
        self.ring[at] = u64::from(NOBODY) << 32 | length as u64;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(number: u64) -> Vec<u64> {
        (0..number % 9 + 1).map(|n| number * 100 + n).collect()
    }

    #[test]
    fn what_is_remembered_is_found_by_owner_and_number() {
        let sketches = Sketches::new(1 << 20);
        sketches.remember(1, 7, || words(7));
        sketches.remember(1, 7, || unreachable!("it is remembered"));
        assert_eq!(sketches.compare(1, 7, <[u64]>::to_vec), Some(words(7)));
        assert_eq!(sketches.compare(2, 7, <[u64]>::to_vec), None);
        assert_eq!(sketches.compare(1, 8, <[u64]>::to_vec), None);
    }

    #[test]
    fn fetching_changes_nothing() {
        let sketches = Sketches::new(1 << 20);
        (0..100).for_each(|number| sketches.remember(1, number, || words(number)));
        sketches.fetch(1, 0..200);
        assert!((0..100).all(|number| sketches.compare(1, number, <[u64]>::to_vec) == Some(words(number))));
        assert_eq!(sketches.compare(1, 150, |_| ()), None);
    }

    #[test]
    fn beyond_the_bound_the_oldest_are_forgotten() {
        let most = 256 << 10;
        let sketches = Sketches::new(most);
        for number in 0..100_000 {
            sketches.remember(1, number, || words(number));
        }
        let kept: Vec<u64> = (0..100_000).filter(|&number| sketches.compare(1, number, |_| ()).is_some()).collect();
        let first = kept[0];
        assert!(kept.len() > most / 8 / 11 && first > 90_000, "{} kept, from {first}", kept.len());
        assert!(kept.iter().all(|&number| sketches.compare(1, number, <[u64]>::to_vec) == Some(words(number))));
        assert!(sketches.memory_usage() < most * 2, "{}", sketches.memory_usage());
    }

    #[test]
    fn beyond_the_bound_those_that_are_compared_stay() {
        let sketches = Sketches::new(256 << 10);
        let mut forgotten = 0;
        for number in 500..100_000 {
            sketches.remember(1, number, || words(8));
            if number % 100 == 0 {
                for compared in 0..500 {
                    if sketches.compare(1, compared, |_| ()).is_none() {
                        forgotten += 1;
                        sketches.remember(1, compared, || words(8));
                    }
                }
            }
        }
        // The ring is filled some twenty times. Each of these sketches is remembered once, before the first comparison.
        assert_eq!(forgotten, 500);
        let late = (99_000..100_000).filter(|&number| sketches.compare(1, number, |_| ()).is_some()).count();
        assert!(late > 900, "{late}");
    }

    #[test]
    fn one_that_would_drive_out_many_is_not_remembered() {
        let sketches = Sketches::new(64 << 10);
        sketches.remember(1, 1, || vec![0; 100]);
        assert_eq!(sketches.compare(1, 1, |_| ()), None);
    }

    #[test]
    fn what_is_changed_is_changed_and_what_is_unknown_is_not() {
        let sketches = Sketches::new(1 << 20);
        sketches.change(1, 7, |_| unreachable!("it is not remembered"));
        sketches.remember(1, 7, || words(7));
        sketches.change(1, 7, |_| None);
        assert_eq!(sketches.compare(1, 7, <[u64]>::to_vec), Some(words(7)));
        sketches.change(1, 7, |sketch| Some([sketch, &[9]].concat()));
        assert_eq!(sketches.compare(1, 7, <[u64]>::to_vec), Some([words(7), vec![9]].concat()));
        sketches.change(1, 7, |_| Some(vec![0; 1 << 20]));
        assert_eq!(
            sketches.compare(1, 7, <[u64]>::to_vec),
            Some([words(7), vec![9]].concat()),
            "one too large is none"
        );
    }

    #[test]
    fn what_is_forgotten_drives_out_nothing() {
        let most = 256 << 10;
        let sketches = Sketches::new(most);
        // A shard has room for about 50 of these entries.
        (0..1_000).for_each(|number| sketches.remember(1, number, || words(8)));
        for number in 1_000..100_000 {
            sketches.remember(1, number, || words(8));
            if number % 100 == 99 {
                sketches.forget(1, &(number - 99..=number).collect::<Vec<_>>());
            }
        }
        let kept = (0..1_000).filter(|&number| sketches.compare(1, number, <[u64]>::to_vec) == Some(words(8))).count();
        assert_eq!(kept, 1_000);
    }

    #[test]
    fn owners_are_forgotten_and_their_memory_is_given_back() {
        let sketches = Sketches::new(1 << 30);
        let empty = sketches.memory_usage();
        (0..100_000).for_each(|number| sketches.remember((number % 4) as u32, number, || words(number)));
        let full = sketches.memory_usage();
        sketches.retain_owners(|owner| owner == 2);
        assert_eq!((sketches.numbers(2).len(), sketches.numbers(1).len()), (25_000, 0));
        assert!((2..100_000).step_by(4).all(|n| sketches.compare(2, n, <[u64]>::to_vec) == Some(words(n))));
        assert!(sketches.memory_usage() - empty < (full - empty) * 2 / 5, "{}", sketches.memory_usage());
        sketches.retain_owners(|_| false);
        assert!(sketches.memory_usage() - empty < 64 << 10, "{}", sketches.memory_usage());
    }

    /// One step of the property test of forgetting.
    #[derive(Clone, Debug)]
    enum SketchStep {
        Remember(u64),
        Change(u64),
        Forget(Vec<u64>),
    }

    fn step() -> impl Strategy<Value = SketchStep> {
        prop_oneof![
            10 => (0u64..20_000).prop_map(SketchStep::Remember),
            4 => (0u64..20_000).prop_map(SketchStep::Change),
            1 => prop::collection::vec(0u64..20_000, 0..200).prop_map(SketchStep::Forget),
        ]
    }

    /// Returns the maximum number of bytes for this number of entries: twice the size of the entries, with their
    /// positions in a table that has just grown.
    fn most_bytes(words: usize, entries: usize) -> usize {
        2 * words * size_of::<u64>() + 16 * entries + (64 << 10)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]
        #[test]
        fn memory_follows_what_is_remembered(
            steps in prop::collection::vec(step(), 0..4000), rounds in 1u64..20,
        ) {
            let sketches = Sketches::new(1 << 30);
            let mut expected = std::collections::HashMap::new();
            for round in 0..rounds {
                for step in &steps {
                    match step {
                        SketchStep::Remember(number) => {
                            sketches.remember(1, *number, || words(*number));
                            expected.entry(*number).or_insert_with(|| words(*number));
                        }
                        SketchStep::Change(number) => {
                            sketches.change(1, *number, |_| Some(words(number + round + 1)));
                            if let Some(known) = expected.get_mut(number) {
                                *known = words(number + round + 1);
                            }
                        }
                        SketchStep::Forget(numbers) => {
                            sketches.forget(1, numbers);
                            numbers.iter().for_each(|number| drop(expected.remove(number)));
                        }
                    }
                }
                let used: usize = expected.values().map(|sketch| sketch.len() + HEAD).sum();
                let most = most_bytes(used, expected.len());
                prop_assert!(sketches.memory_usage() <= most, "{} of {most}", sketches.memory_usage());
            }
            let mut numbers = sketches.numbers(1);
            numbers.sort_unstable();
            prop_assert!(numbers.iter().eq(expected.keys().collect::<std::collections::BTreeSet<_>>()));
            for (number, sketch) in expected {
                prop_assert_eq!(sketches.compare(1, number, <[u64]>::to_vec), Some(sketch));
            }
        }

        #[test]
        fn what_is_found_is_what_was_remembered_last(
            numbers in prop::collection::vec((0u32..3, 0u64..1000, any::<bool>()), 0..6000),
        ) {
            let sketches = Sketches::new(96 << 10);
            let mut last = std::collections::HashMap::new();
            for &(owner, number, change) in &numbers {
                let seed = number + u64::from(owner);
                let before = sketches.compare(owner, number, <[u64]>::to_vec);
                let changes = change && before.is_some();
                if changes {
                    sketches.change(owner, number, |_| Some(words(seed + 1)));
                } else {
                    sketches.remember(owner, number, || words(seed));
                }
                let expected = if changes { words(seed + 1) } else { before.unwrap_or_else(|| words(seed)) };
                prop_assert_eq!(sketches.compare(owner, number, <[u64]>::to_vec), Some(expected.clone()));
                last.insert((owner, number), expected);
            }
            for (owner, number, _) in numbers {
                let found = sketches.compare(owner, number, <[u64]>::to_vec);
                prop_assert!(found.is_none_or(|found| found == last[&(owner, number)]));
            }
        }
    }
}
