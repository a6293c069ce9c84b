//! Document frequencies of shingles and of names in a collection.
//!
//! Text that most records of a collection repeat is no evidence that two records concern the same matter. Only *frequent* text needs to be known
//! for this: text that fewer than one record in [`RARE_RECORDS`] contains has the full weight and is not stored. The frequencies are counted
//! over a sample of at most [`SAMPLE_RECORDS`] records with lossy counting (Manku and Motwani 2002), so that memory and time do not grow with
//! the collection.
//!
//! Before enough records are counted, a built-in list of the phrases in letters and orders counts as [`BUILT_IN_RECORDS`] records. The list
//! is added to the counts, so that the counts soon weigh more than the list.

use std::collections::BinaryHeap;
use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;

use super::built_in;
use super::encoding::{ByteInput, put_long, put_number};
use super::hash::{city64, city64_bytes};

/// Text is rare if at most one record in this number contains it. Rare text has the full weight.
pub const RARE_RECORDS: f64 = 1024.0;
/// Share of the records above which the weight falls faster than the logarithm.
const COMMON_SHARE: f64 = 0.005;
/// Largest number of records that are counted. Text at the limit of rareness is then in 8 of them, so that its frequency is known within a
/// factor of about 1.4.
pub const SAMPLE_RECORDS: usize = 8_192;
/// Number of records that the built-in list counts as.
const BUILT_IN_RECORDS: f64 = 1_000.0;
/// Width in characters of the shingles whose frequencies decide which sampled shingles are rare.
pub const SAMPLED_SHINGLE: u8 = 3;
/// Largest number of entries; the most frequent entries are kept. They take about a megabyte in memory and two thirds of a megabyte on
/// disk.
pub const MAX_ENTRIES: usize = 1 << 17;
/// Number of records between two prunings. The counts of fewer records are exact.
const PRUNED_EVERY: u32 = 2_048;
/// Number of counted codes that causes an earlier pruning. They take about 40 MB.
const MAX_COUNTED: usize = 1 << 20;

/// The factor between −log2 of a share and its level. The level of [`RARE_RECORDS`] is 241.
const LEVELS_PER_BIT: f64 = 24.0;
/// The first byte of [`Counter::encode`].
const FORMAT: u8 = 3;

/// The records of a collection that are counted: the records with the lowest hashes, at most [`SAMPLE_RECORDS`]. The choice and the order
/// of the count do not depend on the order of the records.
#[derive(Debug)]
pub struct CountedSample<T> {
    /// The hash and the place of each chosen record, the highest hash first.
    chosen: BinaryHeap<(u64, T)>,
}

impl<T: Ord> Default for CountedSample<T> {
    fn default() -> Self {
        Self { chosen: BinaryHeap::new() }
    }
}

impl<T: Ord> CountedSample<T> {
    /// Adds a record, by its row as JSON.
    pub fn add(&mut self, row: &str, place: T) {
        let hash = city64_bytes(row.as_bytes());
        if self.chosen.len() == SAMPLE_RECORDS {
            if self.chosen.peek().is_some_and(|(highest, _)| *highest <= hash) {
                return;
            }
            self.chosen.pop();
        }
        self.chosen.push((hash, place));
    }

    /// Returns the places of the chosen records in the order in which they are counted.
    pub fn into_places(self) -> Vec<T> {
        self.chosen.into_sorted_vec().into_iter().map(|(_, place)| place).collect()
    }
}

/// Smallest number of records that are counted: fewer records add little to the built-in list.
pub const FIRST_COUNT: u64 = 64;
/// Factor between the numbers of records of two successive counts. Each count is followed by a reindex, so that all reindexes together
/// index a record at most 4/3 times.
const COUNTED_AGAIN_AT: u64 = 4;

/// Returns the number of records whose document frequencies apply to a collection that grew to `records` records one by one, counted from
/// its first record: 64, 256, 1,024 and so on; 0 for a smaller collection. The result depends only on `records`, so that the same records
/// in the same order are always judged by the same frequencies. If records come together as a batch, all of them are counted
/// ([`counted_of_batch`]).
pub fn counted_of(records: u64) -> u64 {
    let next = next_count(records);
    if next == FIRST_COUNT { 0 } else { next / COUNTED_AGAIN_AT }
}

/// Returns the number of records whose document frequencies apply to a batch of `records` records: all of them, or 0 if there are too few to be
/// counted. The frequencies do not depend on the order of the records.
pub fn counted_of_batch(records: u64) -> u64 {
    if records < FIRST_COUNT { 0 } else { records }
}

/// A collection of more than [`SAMPLE_RECORDS`] records is counted again at the end of a batch if at least one record in this number is not
/// counted. All recounts together then index a record at most eight times, whatever the size of the batches. A smaller collection is indexed in
/// a second or two, and is counted again after each batch.
const UNCOUNTED_SHARE: u64 = 8;

/// True if a collection is counted again at the end of a batch. It has `records` records, and the first `counted` were counted before.
pub fn is_recounted_after_batch(records: u64, counted: u64) -> bool {
    let uncounted = records.saturating_sub(counted);
    let is_small = records <= SAMPLE_RECORDS as u64;
    counted_of_batch(records) > 0 && uncounted > 0 && (is_small || uncounted * UNCOUNTED_SHARE >= records)
}

/// Returns the number of records with which a collection is counted again after a count of its first `counted` records.
pub fn next_count(counted: u64) -> u64 {
    let mut next = FIRST_COUNT;
    while next <= counted && next <= u64::MAX / COUNTED_AGAIN_AT {
        next *= COUNTED_AGAIN_AT;
    }
    next
}

/// Number of bits of an entry's hash. In a full table an entry has the same hash as another entry with a probability of 1 in 10^7.
const HASH_BITS: u32 = 40;
const TAG_BITS: u32 = 24;

/// The kinds of counted text: the widths of shingles (bit `w` for `w` characters), and names (bit 0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedKinds(u64);

impl CountedKinds {
    /// Makes a set of shingle widths, from 1 to 63 characters, with or without names.
    pub fn of(widths: impl IntoIterator<Item = u8>, names: bool) -> Self {
        Self(widths.into_iter().fold(names.into(), |kinds, width| kinds | 1 << width.min(63)))
    }

    /// True if this set contains all kinds of `other`.
    pub fn include(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }
}

/// Returns the code under which a name is counted. A shingle is counted under its own code.
pub fn name_code(name: &str) -> u64 {
    city64(name) ^ 0x6e61_6d65
}

fn mixed(code: u64) -> u64 {
    let mixed = (code ^ code >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> (64 - HASH_BITS)
}

/// The weights by level. The weight is the logarithm of the rarity, and 1 for rare text. For common text it also falls with the share.
static WEIGHTS: LazyLock<[f32; 256]> = LazyLock::new(|| {
    std::array::from_fn(|level| {
        let share = share_of(level as u8);
        let rarity = (-share.ln() / RARE_RECORDS.ln()).min(1.0);
        (rarity * (COMMON_SHARE / share).min(1.0)).max(MIN_WEIGHT) as f32
    })
});
/// The weight of text that every record contains. It is not zero, so that records that contain only such text can be compared.
const MIN_WEIGHT: f64 = 1e-4;

fn level_of(share: f64) -> u8 {
    (1.0 - LEVELS_PER_BIT * share.clamp(1e-9, 1.0).log2()).round().min(255.0) as u8
}

fn share_of(level: u8) -> f64 {
    (-(f64::from(level) - 1.0).max(0.0) / LEVELS_PER_BIT).exp2()
}

/// One version of the document frequencies of a collection. It never changes, and all threads read it.
#[derive(Clone, Debug)]
pub struct Frequencies {
    version: u32,
    kinds: CountedKinds,
    /// Number of counted records.
    sampled: u32,
    /// Number of records in the collection when they were counted.
    records: u64,
    /// A hash table with open addressing, at most half full. A word contains a tag of the hash (24 bits) and a level (8 bits, never 0); 0 is a
    /// free place.
    table: Box<[u32]>,
    entries: usize,
}

impl Frequencies {
    /// Returns the built-in frequencies, which are version 0.
    pub fn built_in() -> Arc<Self> {
        static BUILT_IN: LazyLock<Arc<Frequencies>> = LazyLock::new(|| {
            Arc::new(Frequencies::of(0, CountedKinds::of([SAMPLED_SHINGLE], true), 0, 0, Counter::default().entries()))
        });
        Arc::clone(&BUILT_IN)
    }

    fn of(
        version: u32,
        kinds: CountedKinds,
        sampled: u32,
        records: u64,
        entries: impl ExactSizeIterator<Item = (u64, u8)>,
    ) -> Self {
        let slots = (entries.len() * 2).next_power_of_two().max(64);
        let mut table = vec![0; slots].into_boxed_slice();
        let count = entries.len();
        for (hash, level) in entries {
            let (mut at, tag) = place(hash, slots);
            while table[at] != 0 {
                at = (at + 1) & (slots - 1);
            }
            table[at] = tag << 8 | u32::from(level);
        }
        Self { version, kinds, sampled, records, table, entries: count }
    }

    fn level(&self, code: u64) -> Option<u8> {
        let (mut at, tag) = place(mixed(code), self.table.len());
        loop {
            match self.table[at] {
                0 => return None,
                entry if entry >> 8 == tag => return Some(entry as u8),
                _ => at = (at + 1) & (self.table.len() - 1),
            }
        }
    }

    /// Returns the weight of the text with this code: above 0 and at most 1, and 1 if at most one record in [`RARE_RECORDS`] contains it. Takes
    /// some nanoseconds.
    #[inline]
    pub fn weight(&self, code: u64) -> f32 {
        self.level(code).map_or(1.0, |level| WEIGHTS[usize::from(level)])
    }

    /// Returns the share of the records that contain the text with this code; `None` for rare text.
    pub fn share(&self, code: u64) -> Option<f64> {
        self.level(code).map(share_of)
    }

    /// Returns the kinds of text that were counted. Text of other kinds seems rare.
    pub fn kinds(&self) -> CountedKinds {
        self.kinds
    }

    /// The version of the collection's frequencies; 0 for the built-in frequencies.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Number of records in the collection when they were counted.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Number of records that were counted.
    pub fn sampled(&self) -> u32 {
        self.sampled
    }

    /// True if records of a collection were counted; false for the built-in frequencies.
    pub fn are_counted(&self) -> bool {
        self.sampled > 0
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Memory in bytes.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.table)
    }

    /// Decodes bytes of [`Counter::encode`] as version `version`. Returns `None` for any other bytes. Never panics, and allocates no more memory
    /// than the bytes can justify.
    pub fn decode(version: u32, bytes: &[u8]) -> Option<Self> {
        let mut input = ByteInput(bytes);
        if input.byte()? != FORMAT {
            return None;
        }
        let kinds = CountedKinds(input.long()?);
        let sampled = input.number()?;
        let records = input.long()?;
        let count = input.number()? as usize;
        if count > MAX_ENTRIES || count > input.0.len() / 2 {
            return None;
        }
        let mut entries = Vec::with_capacity(count);
        let mut hash = 0_u64;
        for number in 0..count {
            let step = input.long().filter(|step| number == 0 || *step > 0)?;
            hash = hash.checked_add(step).filter(|hash| hash >> HASH_BITS == 0)?;
            entries.push((hash, input.byte().filter(|level| *level > 0)?));
        }
        input.0.is_empty().then(|| Self::of(version, kinds, sampled, records, entries.into_iter()))
    }
}

/// Returns the first place at which a hash is searched, and its tag. The place and the tag use bits from opposite ends of the hash, so that
/// they are nearly independent.
fn place(hash: u64, slots: usize) -> (usize, u32) {
    (hash as usize & (slots - 1), (hash >> (HASH_BITS - TAG_BITS)) as u32)
}

/// Counts in how many records each code occurs.
#[derive(Debug, Default)]
pub struct Counter {
    kinds: CountedKinds,
    records: u32,
    /// For each code, the counted records, and the largest number of records that may have been pruned before.
    counts: HashMap<u64, (u32, u32)>,
    /// The largest count that was removed by pruning.
    pruned: u32,
}

impl Counter {
    /// Makes a counter for text of these kinds.
    pub fn new(kinds: CountedKinds) -> Self {
        Self { kinds, ..Self::default() }
    }

    /// Counts one more record with these codes. Each code must occur only once.
    pub fn observe(&mut self, codes: impl IntoIterator<Item = u64>) {
        for code in codes {
            self.counts.entry(code).or_insert((0, self.pruned)).0 += 1;
        }
        self.records += 1;
        let is_full = self.counts.len() > MAX_COUNTED;
        if is_full || self.records.is_multiple_of(PRUNED_EVERY) {
            self.pruned += 1;
            let pruned = self.pruned;
            self.counts.retain(|_, (count, missed)| *count + *missed > pruned);
        }
    }

    /// Number of counted records.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Returns the hashes of frequent text, ascending, with their levels. Includes the built-in list.
    fn entries(&self) -> std::vec::IntoIter<(u64, u8)> {
        let all = f64::from(self.records) + BUILT_IN_RECORDS;
        let built_in = built_in::counts();
        let counted = self.counts.iter().map(|(code, (count, _))| {
            let before = built_in.get(code).copied().unwrap_or_default();
            (*code, (f64::from(*count) + before) / all)
        });
        let others = built_in.iter().filter(|(code, _)| !self.counts.contains_key(*code));
        let others = others.map(|(code, count)| (*code, *count / all));
        let known = counted.chain(others).filter(|(_, share)| share * RARE_RECORDS > 1.0);
        let mut entries: Vec<(u64, f64)> = known.map(|(code, share)| (mixed(code), share)).collect();
        entries.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        entries.truncate(MAX_ENTRIES);
        entries.sort_unstable_by_key(|(hash, _)| *hash);
        entries.dedup_by_key(|(hash, _)| *hash);
        let entries: Vec<_> = entries.into_iter().map(|(hash, share)| (hash, level_of(share))).collect();
        entries.into_iter()
    }

    /// Encodes the frequencies: a format byte, then LEB128 numbers: the kinds, the counted records, the records of the collection, the number of
    /// entries. Then for each entry, ascending by hash, the difference from the hash before (the first from 0), and its level in one byte.
    /// About five bytes an entry. Equal counts give equal bytes.
    pub fn encode(&self, records: u64) -> Vec<u8> {
        let entries = self.entries();
        let mut out = Vec::with_capacity(16 + 5 * entries.len());
        out.push(FORMAT);
        put_long(&mut out, self.kinds.0);
        put_number(&mut out, self.records);
        put_long(&mut out, records);
        put_number(&mut out, entries.len() as u32);
        let mut before = 0;
        for (hash, level) in entries {
            put_long(&mut out, hash - before);
            out.push(level);
            before = hash;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_sample_of_a_large_collection_does_not_depend_on_its_order() {
        let count = 3 * SAMPLE_RECORDS as u64;
        let [one, other] = [|at: u64| at, |at: u64| at * 7_919].map(|order| {
            let mut sample = CountedSample::default();
            for at in 0..count {
                let number = order(at) % count;
                sample.add(&format!("{{\"id\":\"{number}\"}}"), number);
            }
            sample.into_places()
        });
        assert_eq!(one.len(), SAMPLE_RECORDS);
        assert!(one == other);
        assert!(!one.is_sorted(), "rows are counted in the order of their hashes");
    }

    fn counted(records: u32, each: impl Fn(u32) -> Vec<u64>) -> Frequencies {
        let mut counter = Counter::default();
        (0..records).for_each(|number| counter.observe(each(number)));
        Frequencies::decode(1, &counter.encode(records.into())).unwrap()
    }

    #[test]
    fn common_text_weighs_little_and_rare_text_weighs_one() {
        let found = counted(5_000, |n| {
            let tenth = if n % 10 == 0 { 2 } else { 1 << 40 | u64::from(n) };
            let hundredth = if n % 100 == 0 { 3 } else { 2 << 40 | u64::from(n) };
            vec![1, tenth, hundredth, 3 << 40 | u64::from(n)]
        });
        let weights = [1, 2, 3, 3 << 40 | 77].map(|code| found.weight(code));
        assert!(weights[0] < 0.001 && weights[1] < 0.03 && weights[2] > 0.2 && weights[2] < 0.5, "{weights:?}");
        assert_eq!(weights[3], 1.0);
        assert!((found.share(2).unwrap() - 500.0 / 6_000.0).abs() < 0.003);
        assert_eq!(found.share(3 << 40 | 77), None);
    }

    #[test]
    fn a_collection_is_counted_at_fixed_numbers_of_records() {
        let counts = [0, 63, 64, 255, 256, 1_023, 1_024, 20_000, 1_000_000].map(counted_of);
        assert_eq!(counts, [0, 0, 64, 64, 256, 256, 1_024, 16_384, 262_144]);
        assert_eq!([0, 63, 64, 300, 4_096].map(next_count), [64, 64, 256, 1_024, 16_384]);
        assert_eq!([0, 63, 64, 300].map(counted_of_batch), [0, 0, 64, 300]);
        let recounted = [(63, 0), (64, 64), (64, 63), (16_000, 14_001), (16_000, 14_000), (100, 200)];
        assert_eq!(
            recounted.map(|(all, counted)| is_recounted_after_batch(all, counted)),
            [false, false, true, false, true, false]
        );
        assert!(counted_of(u64::MAX) <= u64::MAX / 4);
    }

    #[test]
    fn memory_does_not_grow_with_the_number_of_records() {
        let mut counter = Counter::default();
        for record in 0..SAMPLE_RECORDS as u64 {
            counter.observe((0..200).map(|n| if n < 100 { n } else { record << 20 | n }));
        }
        assert!(counter.counts.len() < 250_000, "{}", counter.counts.len());
        let found = Frequencies::decode(1, &counter.encode(1 << 40)).unwrap();
        assert!((0..100).all(|code| found.share(code).unwrap() > 0.8));
        assert!(found.memory_usage() < 1 << 20);
    }

    #[test]
    fn memory_does_not_grow_with_the_length_of_records() {
        let mut counter = Counter::default();
        for record in 0..300_u64 {
            counter.observe((0..20_000).map(|n| if n < 100 { n } else { record << 20 | n }));
            assert!(counter.counts.len() <= MAX_COUNTED + 20_000);
        }
        let found = Frequencies::decode(1, &counter.encode(300)).unwrap();
        assert!((0..100).all(|code| found.share(code).unwrap() > 0.2));
    }

    #[test]
    fn before_anything_is_counted_official_phrases_are_common_and_the_rest_is_rare() {
        let built_in = Frequencies::built_in();
        let official = mean_weight(&built_in, "请有关部门核实处理");
        assert!(official < 0.3, "{official}");
        assert!(mean_weight(&built_in, "红石坡水塔后墙裂缝") > 0.95);
    }

    fn mean_weight(frequencies: &Frequencies, text: &str) -> f32 {
        let codes = crate::text::shingles::codes(text, 3);
        codes.iter().map(|&code| frequencies.weight(code)).sum::<f32>() / codes.len() as f32
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn encoded_frequencies_are_decoded_and_other_bytes_are_refused(
            codes in prop::collection::vec(prop::collection::hash_set(0u64..300, 0..20), 0..50),
            cut: prop::sample::Index, garbage: Vec<u8>,
        ) {
            let mut counter = Counter::new(CountedKinds::of([3, 5], true));
            codes.iter().for_each(|codes| counter.observe(codes.iter().copied()));
            let bytes = counter.encode(7);
            let read = Frequencies::decode(3, &bytes).unwrap();
            let kinds = read.kinds();
            prop_assert!(kinds.include(CountedKinds::of([3], true)) && kinds.include(CountedKinds::of([3, 5], false)));
            prop_assert!(!kinds.include(CountedKinds::of([4], false)));
            prop_assert_eq!((read.version(), read.records(), read.sampled()), (3, 7, codes.len() as u32));
            for code in 0..300 {
                let count = codes.iter().filter(|codes| codes.contains(&code)).count() as f64;
                let share = count / (codes.len() as f64 + BUILT_IN_RECORDS);
                match read.share(code) {
                    Some(known) => prop_assert!((known / share - 1.0).abs() < 0.03),
                    None => prop_assert!(share * RARE_RECORDS <= 1.0),
                }
            }
            prop_assert!(Frequencies::decode(3, &bytes[..cut.index(bytes.len())]).is_none());
            prop_assert!(Frequencies::decode(3, &[&bytes[..], &[0]].concat()).is_none());
            let _ = Frequencies::decode(3, &[&[FORMAT], &garbage[..]].concat());
        }
    }
}
