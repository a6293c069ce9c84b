//! Compares the index with a brute-force model, and runs readers at the same time as a writer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use proptest::prelude::*;

use super::block::BlockTuning;
use super::bucket::BucketLimits;
use super::*;

/// Small limits, so that a few records cause every shape of a bucket, and lookups use probes from the first record.
const TINY: BlockTuning = BlockTuning { shape: BucketLimits { split_above: 6, widen_above: 20 }, slots_per_probe: 0 };

/// The inserted records in slot order; `None` for a removed record.
#[derive(Default)]
struct IndexModel(Vec<Option<Entry>>);

impl IndexModel {
    fn live(&self) -> impl Iterator<Item = (u32, &Entry)> {
        self.0.iter().enumerate().filter_map(|(slot, entry)| Some((slot as u32, entry.as_ref()?)))
    }

    fn propose(&self, lookup: &Lookup<'_>) -> Proposals {
        let mut truncated = false;
        let mut hits = BTreeMap::<u32, (Via, u64)>::new();
        let mut key = |via: Via, near: bool, most: usize, slots: Vec<u32>| {
            truncated |= slots.len() > POSTINGS_PER_KEY;
            let counts = weight(if near { 1 } else { slots.len() });
            for slot in slots.into_iter().take(most) {
                let hit = hits.entry(slot).or_default();
                *hit = (hit.0.with(via), hit.1 + counts);
            }
        };
        if let Some(digest) = lookup.digest_key {
            let slots = self.slots_where(|entry| entry.digest_key == digest);
            key(Via::EXACT, false, POSTINGS_PER_KEY, slots);
        }
        if let Some(hamming) = lookup.hamming {
            let slots = self.slots_where(|entry| entry.fingerprint.is_some_and(|f| hamming.contains(f)));
            key(Via::channel(hamming.within.position), true, POSTINGS_PER_KEY, slots);
        }
        let mut proposing: Vec<(ChannelPosition, Vec<u32>)> = Vec::new();
        for own in lookup.keys {
            let slots = self.slots_where(|entry| entry.keys.contains(own));
            proposing.push((own.channel, slots));
        }
        for (channel, slots) in proposing.clone() {
            let lengths = proposing.iter().filter(|(other, _)| *other == channel).map(|(_, slots)| slots.len());
            let (common, rarer): (Vec<_>, Vec<_>) = lengths.partition(|length| *length > 256);
            let most = if slots.len() > 256 && rarer.len() >= common.len() { 16 } else { 256 };
            key(Via::channel(channel), false, most, slots);
        }
        let (mut exact, mut others): (Vec<_>, Vec<_>) =
            hits.into_iter().partition(|(_, (via, _))| via.contains(Via::EXACT));
        others.sort_by_key(|&(slot, (_, counts))| (std::cmp::Reverse(counts), slot));
        truncated |= others.len() > MAX_CANDIDATES;
        others.truncate(MAX_CANDIDATES);
        exact.append(&mut others);
        let items = exact.into_iter().map(|(slot, (via, _))| {
            let entry = self.0[slot as usize].as_ref().expect("live");
            Proposal { slot: Slot(slot), seq: entry.seq, via, fingerprint: entry.fingerprint }
        });
        Proposals { items: items.collect(), truncated }
    }

    fn slots_where(&self, holds: impl Fn(&Entry) -> bool) -> Vec<u32> {
        self.live().filter(|(_, entry)| holds(entry)).map(|(slot, _)| slot).collect()
    }
}

fn insert(index: &GenerationIndex, model: &mut IndexModel, entry: Entry) {
    let slot = index.insert(entry.seq, entry.digest_key, entry.fingerprint, &entry.keys).unwrap();
    assert_eq!(slot.0 as usize, model.0.len(), "slots ascend");
    model.0.push(Some(entry));
}

fn remove(index: &GenerationIndex, model: &mut IndexModel, slot: usize) {
    let removed = model.0[slot].take();
    let entry = removed.clone().unwrap_or_else(|| entry(0, 0, Some(0), &[]));
    let there = index.remove(Slot(slot as u32), entry.digest_key, entry.fingerprint, &entry.keys);
    assert_eq!(there, removed.is_some());
}

fn entry(seq: u64, digest_key: u64, fingerprint: Option<u64>, keys: &[u64]) -> Entry {
    let keys = keys.iter().map(|&key| posting(1, key)).collect();
    Entry { seq: Seq(seq), digest_key, fingerprint: fingerprint.map(Fingerprint), keys }
}

/// Makes a lookup by the digest, the fingerprint and all posting keys of an entry.
fn lookup(entry: &Entry, radius: u8) -> Lookup<'_> {
    let hamming = entry.fingerprint.map(|fingerprint| hamming(fingerprint, radius));
    Lookup { digest_key: Some(entry.digest_key), hamming, keys: &entry.keys, ..Lookup::default() }
}

fn hamming(centre: Fingerprint, radius: u8) -> HammingRange {
    HammingRange { centre, within: SimhashChannel::first(radius) }
}

fn posting(channel: u8, key: u64) -> PostingKey {
    PostingKey { channel: ChannelPosition(channel), key }
}

/// Generates fingerprints near one of three centres, so that neighbours at every distance, twins and full buckets are frequent.
fn fingerprints() -> impl Strategy<Value = u64> {
    let centre = prop::sample::select(vec![0, 0x1234_5678_9abc_def0_u64, u64::MAX]);
    (centre, prop::collection::vec(0..64_u32, 0..12))
        .prop_map(|(centre, bits)| bits.into_iter().fold(centre, |fingerprint, bit| fingerprint ^ (1 << bit)))
}

fn entries() -> impl Strategy<Value = Entry> {
    (0..20_u64, prop::option::weighted(0.9, fingerprints()), prop::collection::btree_set(0..30_u64, 0..6))
        .prop_map(|(digest, fingerprint, keys)| entry(0, digest, fingerprint, &keys.into_iter().collect::<Vec<_>>()))
}

fn apply(index: &GenerationIndex, model: &mut IndexModel, steps: Vec<(Entry, Option<prop::sample::Index>)>) {
    for (seq, (mut entry, removal)) in steps.into_iter().enumerate() {
        entry.seq = Seq(10 * seq as u64 + 1);
        insert(index, model, entry);
        if let Some(removal) = removal {
            remove(index, model, removal.index(model.0.len()));
        }
    }
}

fn steps(most: usize) -> impl Strategy<Value = Vec<(Entry, Option<prop::sample::Index>)>> {
    prop::collection::vec((entries(), prop::option::weighted(0.3, any::<prop::sample::Index>())), 1..most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn proposals_equal_those_of_brute_force_at_every_radius(steps in steps(160), queries in prop::collection::vec(entries(), 4)) {
        let index = GenerationIndex::with_tuning(TINY);
        let mut model = IndexModel::default();
        apply(&index, &mut model, steps);
        for (query, radius) in queries.iter().flat_map(|query| (0..=15).map(move |radius| (query, radius))) {
            prop_assert_eq!(index.propose(&lookup(query, radius)), model.propose(&lookup(query, radius)));
        }
    }

    #[test]
    fn scanning_all_slots_proposes_the_same_as_probing(steps in steps(80), query in entries(), radius in 0..=15_u8) {
        let scan = BlockTuning { slots_per_probe: usize::MAX / 10_000, ..TINY };
        let index = GenerationIndex::with_tuning(scan);
        let mut model = IndexModel::default();
        apply(&index, &mut model, steps);
        prop_assert_eq!(index.propose(&lookup(&query, radius)), model.propose(&lookup(&query, radius)));
    }

    #[test]
    fn after_removals_an_index_equals_one_without_the_removed_records(steps in steps(200)) {
        let index = GenerationIndex::with_tuning(TINY);
        let mut model = IndexModel::default();
        apply(&index, &mut model, steps);
        // The other index needs the same slots, so that an empty record takes the slot of each removed record, and is removed at once.
        let fresh = GenerationIndex::with_tuning(TINY);
        let mut seq = Seq(0);
        for kept in &model.0 {
            seq = seq.next();
            let kept = kept.clone().unwrap_or_else(|| entry(0, u64::MAX, None, &[]));
            let slot = fresh.insert(seq, kept.digest_key, kept.fingerprint, &kept.keys).unwrap();
            if kept.digest_key == u64::MAX {
                fresh.remove(slot, kept.digest_key, None, &[]);
            }
        }
        prop_assert_eq!(index.len(), fresh.len());
        prop_assert_eq!(index.blocks.entries(&index.slots), fresh.blocks.entries(&fresh.slots));
        prop_assert_eq!(index.blocks.counts(), fresh.blocks.counts());
        prop_assert_eq!(index.postings.postings(), fresh.postings.postings());
    }

    #[test]
    fn loading_gives_the_same_index_as_inserting(steps in steps(200)) {
        let entries: Vec<Entry> =
            steps.into_iter().zip(1..).map(|((entry, _), seq)| Entry { seq: Seq(seq), ..entry }).collect();
        let index = GenerationIndex::with_tuning(TINY);
        let loaded = GenerationIndex::with_tuning(TINY);
        let mut model = IndexModel::default();
        let mut progress = 0;
        prop_assert_eq!(loaded.load(entries.clone(), |count| progress = count), Ok(entries.len()));
        prop_assert_eq!(progress, entries.len());
        entries.into_iter().for_each(|entry| insert(&index, &mut model, entry));
        prop_assert_eq!(index.blocks.entries(&index.slots), loaded.blocks.entries(&loaded.slots));
        prop_assert_eq!(index.blocks.counts(), loaded.blocks.counts());
        prop_assert_eq!(index.postings.postings(), loaded.postings.postings());
    }

    #[test]
    fn after_the_removal_of_all_records_only_the_slot_table_remains(steps in steps(200)) {
        let index = GenerationIndex::with_tuning(TINY);
        let mut model = IndexModel::default();
        let empty = index.memory_usage();
        apply(&index, &mut model, steps);
        prop_assert!(index.memory_usage().total() > empty.total());
        (0..model.0.len()).rev().for_each(|slot| remove(&index, &mut model, slot));
        let left = index.memory_usage();
        prop_assert!(index.is_empty());
        prop_assert_eq!(index.blocks.counts(), (0, 0));
        prop_assert!(index.postings.postings().is_empty());
        // The locks stay allocated, and the maps of twins keep their memory. Tables and buckets free their memory.
        prop_assert_eq!(left.postings, index.postings.locks_memory_usage());
        prop_assert!(left.blocks < empty.blocks + 64 * 8_192, "{} {}", left.blocks, empty.blocks);
    }
}

#[test]
fn splitting_and_widening_a_popular_bucket_loses_no_record() {
    let shape = BucketLimits { split_above: 300, widen_above: 2_000 };
    let index = GenerationIndex::with_tuning(BlockTuning { shape, slots_per_probe: 0 });
    for n in 0..5_000 {
        index.insert(Seq(n + 1), n, Some(popular(n)), &[]).unwrap();
    }
    for n in (0..5_000).step_by(7) {
        for flips in [0_u64, 1 << 63 | 1 << 20, 0b111, 1 << 47 | 1 << 31 | 1 << 15] {
            let query = hamming(Fingerprint(popular(n).0 ^ flips), 3);
            let found = index.propose(&Lookup { hamming: Some(query), ..Lookup::default() });
            assert!(found.items.iter().any(|item| item.seq == Seq(n + 1)), "{n} with {flips:x}");
        }
    }
    for n in 0..5_000 {
        assert!(index.remove(Slot(n as u32), n, Some(popular(n)), &[]));
    }
    assert_eq!(index.blocks.counts(), (0, 0));
}

/// Returns a fingerprint whose first block all others have, too. A multiplier spreads the other bits.
fn popular(n: u64) -> Fingerprint {
    Fingerprint((0xabcd << 48) | (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16))
}

#[test]
fn a_key_proposes_its_256_earliest_records_and_reports_truncation() {
    let index = GenerationIndex::new();
    let twin = Fingerprint(42);
    let key = [posting(1, 7)];
    for seq in 1..=256 {
        index.insert(Seq(seq), 5, Some(twin), &key).unwrap();
    }
    let ways = [
        Lookup { digest_key: Some(5), ..Lookup::default() },
        Lookup { hamming: Some(hamming(twin, 3)), ..Lookup::default() },
        Lookup { keys: &key, ..Lookup::default() },
    ];
    for way in &ways {
        let found = index.propose(way);
        assert_eq!((found.items.len(), found.truncated), (256, false));
    }
    index.insert(Seq(257), 5, Some(twin), &key).unwrap();
    for way in &ways {
        let found = index.propose(way);
        assert!(found.truncated);
        assert!(found.items.iter().map(|item| item.seq).eq((1..=256).map(Seq)));
    }
    index.remove(Slot(0), 5, Some(twin), &key);
    for way in &ways {
        let found = index.propose(way);
        assert!(!found.truncated);
        assert!(found.items.iter().map(|item| item.seq).eq((2..=257).map(Seq)));
    }
}

#[test]
fn a_key_proposes_its_latest_records_first_if_the_collection_wants_them() {
    let index = GenerationIndex::new();
    let key = [posting(1, 7)];
    for seq in 1..=300 {
        index.insert(Seq(seq), 5, None, &key).unwrap();
    }
    let order = ProposalOrder::LatestFirst;
    // No record has a key of the shard of the other key.
    let by_digest = index.propose(&Lookup { digest_key: Some(5), order, ..Lookup::default() });
    let by_key = index.propose(&Lookup { keys: &key, order, ..Lookup::default() });
    let common = index.propose(&Lookup { keys: &[posting(1, 7), posting(1, 8)], order, ..Lookup::default() });
    for (found, count) in [(by_digest, 256), (by_key, 256), (common, 16)] {
        assert!(found.truncated);
        let latest: Vec<u64> = found.items.iter().map(|item| item.seq.0).collect();
        assert_eq!(latest, (301 - count..=300).rev().collect::<Vec<_>>());
    }
}

#[test]
fn a_common_key_proposes_few_records_if_the_other_keys_of_the_query_are_rarer() {
    let index = GenerationIndex::new();
    let key = posting;
    for seq in 1..=300 {
        index.insert(Seq(seq), seq, None, &[key(1, 1), key(2, 1), key(1, 100 + seq / 2)]).unwrap();
    }
    assert_eq!(truncated(&index, &[key(1, 1)]), earliest(256));
    // The records of the rarer key come first.
    let found = truncated(&index, &[key(1, 1), key(1, 240)]);
    assert_eq!(found, [&[Seq(280), Seq(281)], &earliest(16)[..]].concat());
    let found = truncated(&index, &[key(1, 1), key(1, 9)]);
    assert_eq!(found, earliest(16), "a key without records is rarer, too");
    let found = truncated(&index, &[key(1, 9), key(2, 1)]);
    assert_eq!(found, earliest(256), "the keys of another channel do not count");
}

/// Returns the proposals of a lookup, and checks that the lookup left out some proposals.
fn truncated(index: &GenerationIndex, keys: &[PostingKey]) -> Vec<Seq> {
    let found = index.propose(&Lookup { keys, ..Lookup::default() });
    assert!(found.truncated);
    found.items.iter().map(|item| item.seq).collect()
}

fn earliest(count: u64) -> Vec<Seq> {
    (1..=count).map(Seq).collect()
}

#[test]
fn exact_proposals_come_first_and_do_not_count_as_candidates() {
    let index = GenerationIndex::new();
    for seq in 1..=200 {
        index.insert(Seq(seq), 9, None, &[posting(2, 1)]).unwrap();
    }
    // 300 records, of which each two share a rarer key.
    for seq in 201..=500 {
        index.insert(Seq(seq), seq, None, &[posting(2, 1_000 + seq / 2)]).unwrap();
    }
    let keys: Vec<PostingKey> = (1_100..=1_250).chain([1]).map(|key| posting(2, key)).collect();
    let found = index.propose(&Lookup { digest_key: Some(9), keys: &keys, ..Lookup::default() });
    assert!(found.truncated, "300 candidates are more than 256");
    assert_eq!(found.items.len(), 200 + 256);
    assert!(found.items[..200].iter().all(|item| item.via == Via::EXACT.with(Via::channel(ChannelPosition(2)))));
    assert!(found.items[200..].iter().all(|item| item.via == Via::channel(ChannelPosition(2)) && item.seq > Seq(200)));
}

#[test]
fn a_hundred_thousand_identical_records_are_one_entry() {
    let index = GenerationIndex::new();
    let twin = Fingerprint(0x0123_4567_89ab_cdef);
    let entries = (1..=100_000).map(|seq| entry(seq, seq, Some(twin.0), &[]));
    index.load(entries, |_| ()).unwrap();
    assert_eq!(index.blocks.counts(), (4, 1));
    let found = index.propose(&Lookup { hamming: Some(hamming(twin, 3)), ..Lookup::default() });
    assert!(found.truncated && found.items.iter().map(|item| item.seq).eq((1..=256).map(Seq)));
    (0..1_000).for_each(|slot| assert!(index.remove(Slot(slot), u64::from(slot) + 1, Some(twin), &[])));
    let found = index.propose(&Lookup { hamming: Some(hamming(twin, 3)), ..Lookup::default() });
    assert!(found.items.iter().map(|item| item.seq).eq((1_001..=1_256).map(Seq)));
}

#[test]
fn a_digest_key_and_an_equal_key_of_a_channel_do_not_share_postings() {
    let index = GenerationIndex::new();
    index.insert(Seq(1), 77, None, &[]).unwrap();
    let keys = [posting(0, 77)];
    assert_eq!(index.propose(&Lookup { keys: &keys, ..Lookup::default() }), Proposals::default());
}

#[test]
fn a_second_removal_has_no_effect() {
    let index = GenerationIndex::new();
    let slot = index.insert(Seq(3), 1, Some(Fingerprint(8)), &[]).unwrap();
    assert!(index.is_live(slot));
    assert!(index.remove(slot, 1, Some(Fingerprint(8)), &[]));
    assert!(!index.remove(slot, 1, Some(Fingerprint(8)), &[]));
    assert!(!index.is_live(slot) && index.is_empty());
    assert_eq!(index.seq(slot), Some(Seq(3)));
    assert_eq!(index.seq(Slot(1)), None);
    assert!(!index.remove(Slot(1), 1, None, &[]));
}

#[test]
fn readers_find_records_inserted_before_them_and_none_removed_before_them() {
    const RECORDS: u64 = 6_000;
    let index = GenerationIndex::with_tuning(TINY);
    let inserted = AtomicUsize::new(0);
    let removed = AtomicUsize::new(0);
    let done = AtomicBool::new(false);
    let read = |start: u64| {
        let mut random = start;
        while !done.load(Ordering::Acquire) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let low = removed.load(Ordering::Acquire) as u64;
            let high = inserted.load(Ordering::Acquire) as u64;
            if low >= high {
                continue;
            }
            let query = numbered_entry(low + (random >> 33) % (high - low));
            let ways = [
                Lookup { digest_key: Some(query.digest_key), ..Lookup::default() },
                Lookup { hamming: Some(hamming(query.fingerprint.unwrap(), 3)), ..Lookup::default() },
                Lookup { keys: &query.keys, ..Lookup::default() },
            ];
            for way in ways {
                let found = index.propose(&way);
                let still_there = removed.load(Ordering::Acquire) as u64 + 1 < query.seq.0;
                let sees = found.items.iter().any(|item| item.seq == query.seq);
                assert!(sees || !still_there || found.truncated, "{query:?} is lost");
                assert!(found.items.iter().all(|item| item.seq.0 > low), "a removed record came back");
            }
        }
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(|| read(1)), scope.spawn(|| read(2))];
        for n in 0..RECORDS {
            let entry = numbered_entry(n);
            index.insert(entry.seq, entry.digest_key, entry.fingerprint, &entry.keys).unwrap();
            inserted.store(n as usize + 1, Ordering::Release);
            if n >= 250 {
                let entry = numbered_entry(n - 250);
                index.remove(Slot(n as u32 - 250), entry.digest_key, entry.fingerprint, &entry.keys);
                removed.store(n as usize - 249, Ordering::Release);
            }
        }
        done.store(true, Ordering::Release);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    assert_eq!(index.len(), 250);
    assert!(index.live_seqs().is_sorted_by(|a, b| a < b) && index.live_seqs().count() == 250);
}

#[test]
fn a_query_of_very_many_keys_looks_up_the_first_keys_of_every_channel() {
    let many: Vec<PostingKey> = keys(65_536, 1).chain(keys(100, 2)).chain(keys(65_536, 3)).collect();
    let (taken, cut) = looked_up(&many);
    let share = MAX_KEYS as u64 / 3;
    assert!(cut && taken.copied().eq(keys(share, 1).chain(keys(100, 2)).chain(keys(share, 3))));
    let few = &many[..MAX_KEYS];
    let (taken, cut) = looked_up(few);
    assert!(!cut && taken.eq(few));
    let index = GenerationIndex::new();
    index.insert(Seq(1), 1, None, &many[share as usize..MAX_KEYS]).unwrap();
    index.insert(Seq(2), 2, None, &many[..1]).unwrap();
    let found = index.propose(&Lookup { keys: &many, ..Lookup::default() });
    assert!(found.truncated);
    assert_eq!(found.items.iter().map(|item| item.seq).collect::<Vec<_>>(), [Seq(2)]);
}

#[test]
fn an_empty_index_needs_less_than_20_kilobytes() {
    let empty = GenerationIndex::new().memory_usage();
    assert!(empty.total() < 20_000, "{empty:?}");
}

#[test]
fn an_index_of_one_record_needs_less_than_48_kilobytes() {
    let index = GenerationIndex::new();
    let keys: Vec<PostingKey> = keys(20, 1).collect();
    index.insert(Seq(1), 1, Some(Fingerprint(0x0123_4567_89ab_cdef)), &keys).unwrap();
    assert!(index.memory_usage().total() < 48_000, "{:?}", index.memory_usage());
    let loaded = GenerationIndex::new();
    loaded.load([Entry { keys, ..entry(1, 1, Some(0x0123_4567_89ab_cdef), &[]) }], |_| ()).unwrap();
    assert!(loaded.memory_usage().total() < 48_000, "{:?}", loaded.memory_usage());
}

/// Returns entry number `n` of a sequence with few fingerprints and keys, so that twins, split buckets and lists come and go all the time.
fn numbered_entry(n: u64) -> Entry {
    entry(n + 1, n, Some(0xfeed_0000_0000_0000 | ((n % 97) << 20) | (n % 3)), &[n % 41, 100 + n])
}

/// Returns the first `count` keys of a channel.
fn keys(count: u64, channel: u8) -> impl Iterator<Item = PostingKey> {
    (0..count).map(move |key| posting(channel, key + (u64::from(channel) << 32)))
}
