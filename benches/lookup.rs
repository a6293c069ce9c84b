//! The index of a generation: nanoseconds a lookup, an insertion and a loaded record, and bytes a record; beside a flat scan
//! over all fingerprints in the same run. One thread but for loading.
//!
//! `cargo bench --bench lookup` takes 100,000 records; `DOPPEL_BENCH_RECORDS=1000000,10000000` others. It measures by itself:
//! the distribution over single lookups matters here, and a 10 M index is not built twice.

#![allow(clippy::print_stdout, reason = "a bench reports on the terminal")]

use std::hint::black_box;
use std::time::Instant;

use doppel::index::{Entry, GenerationIndex, Probe, Slot};
use doppel::schemes::profile::PostingKey;
use doppel::verdict::Fingerprint;

const KEYS: u64 = 12;
const LOOKUPS: u64 = 20_000;

/// The finaliser of splitmix64: number n of a random sequence.
fn random(n: u64) -> u64 {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Record `n`'s fingerprint: random, or, of `skewed_percent`, with one of 16 popular values in one of the blocks.
fn fingerprint(n: u64, skewed_percent: u64) -> Fingerprint {
    let (bits, choice) = (random(n), random(!n));
    if choice % 100 >= skewed_percent {
        return Fingerprint(bits);
    }
    let shift = 16 * (choice >> 20 & 3);
    Fingerprint(bits & !(0xffff << shift) | (random(choice >> 40 & 15) & 0xffff) << shift)
}

/// Distinct keys but for one in eight, which a few other records share.
fn entry(n: u64, skewed_percent: u64, keys: u64) -> Entry {
    let key = |i: u64| if i % 8 == 7 { random(n / 4 * 100 + i) } else { random(n * 100 + i) };
    Entry {
        seq: n + 1,
        digest_key: random(n ^ 1 << 60),
        fingerprint: Some(fingerprint(n, skewed_percent)),
        keys: (0..keys).map(|i| PostingKey { channel: 1, key: key(i) }).collect(),
    }
}

fn main() {
    let sizes = std::env::var("DOPPEL_BENCH_RECORDS").unwrap_or_else(|_| "100000".into());
    for records in sizes.split(',').filter_map(|size| size.trim().parse().ok()) {
        for skewed_percent in [0, 30] {
            measure(records, skewed_percent);
        }
    }
}

fn measure(records: u64, skewed_percent: u64) {
    println!("{records} records, {skewed_percent} % of them with popular blocks");
    let index = GenerationIndex::new();
    let started = Instant::now();
    index.load((0..records).map(|n| entry(n, skewed_percent, KEYS)), |_| ()).expect("room for them");
    println!("  load                 {:9.2} s on all cores", started.elapsed().as_secs_f64());
    let usage = index.memory_usage();
    let each = |bytes: usize| bytes as f64 / records as f64;
    println!(
        "  bytes a record       {:9.1} (blocks {:.1}, postings {:.1}, slots {:.1})",
        each(usage.total()),
        each(usage.blocks),
        each(usage.postings),
        each(usage.slots)
    );
    for radius in [3, 7, 11] {
        let name = format!("lookup, radius {radius}");
        let count = if radius == 3 { LOOKUPS } else { 300 };
        timed(&name, count, |n| {
            // One in four is near a record; the others are like records, but new.
            let planted = fingerprint(n * 7919 % records, skewed_percent).0 ^ 1 << (n % 64) ^ 1 << (n / 2 % 64);
            let new = fingerprint(records + n, skewed_percent).0;
            let query = Fingerprint(if n % 4 == 0 { planted } else { new });
            black_box(index.propose(&Probe { digest_key: None, fingerprint: Some((query, radius, 0)), keys: &[] }));
        });
    }
    timed("lookup, whole record", LOOKUPS, |n| {
        let entry = entry(records + n, skewed_percent, KEYS);
        let fingerprint = entry.fingerprint.map(|f| (f, 3, 0));
        black_box(index.propose(&Probe { digest_key: Some(entry.digest_key), fingerprint, keys: &entry.keys }));
    });
    timed("insert", LOOKUPS, |n| {
        let e = entry(records + n, skewed_percent, KEYS);
        index.insert(e.seq, e.digest_key, e.fingerprint, &e.keys).expect("room for it");
    });
    timed("remove", LOOKUPS, |n| {
        let e = entry(records + n, skewed_percent, KEYS);
        index.remove(Slot((records + n) as u32), e.digest_key, e.fingerprint, &e.keys);
    });
    drop(index);
    let flat: Vec<u64> = (0..records).map(|n| fingerprint(n, skewed_percent).0).collect();
    timed("flat scan, radius 3", 20, |n| {
        let query = random(records + n);
        black_box(flat.iter().filter(|&&other| (other ^ query).count_ones() <= 3).count());
    });
}

/// Runs `work` for 0..count one by one and reports the distribution.
fn timed(name: &str, count: u64, mut work: impl FnMut(u64)) {
    let started = Instant::now();
    let mut each: Vec<u64> = (0..count)
        .map(|n| {
            let started = Instant::now();
            work(n);
            started.elapsed().as_nanos() as u64
        })
        .collect();
    let mean = started.elapsed().as_nanos() as u64 / count;
    each.sort_unstable();
    let at = |share: f64| each[(share * (count - 1) as f64) as usize];
    println!("  {name:20} {mean:9} ns mean, p50 {}, p99 {}, most {}", at(0.5), at(0.99), at(1.0));
}
