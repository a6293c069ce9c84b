//! Measures the index of a generation: nanoseconds per lookup, insertion and loaded record, and bytes per record. The baseline is a flat
//! scan over all fingerprints in the same run. Everything except loading uses one thread.
//!
//! `cargo bench --bench lookup` uses 100,000 records; `DOPPEL_BENCH_RECORDS=1000000,10000000` sets other numbers. The bench measures times
//! itself, because the distribution over single lookups matters here, and because an index of 10 million records should not be built twice.

#![allow(clippy::disallowed_methods, reason = "a bench makes its own time, files and settings")]
#![allow(clippy::print_stdout, reason = "a bench reports on the terminal")]

use std::hint::black_box;
use std::time::Instant;

use doppel_core::collection::SimhashChannel;
use doppel_core::index::{Entry, GenerationIndex, HammingRange, Lookup, Slot};
use doppel_core::verdict::Fingerprint;
use doppel_lab::bench::synthetic::{self, KEYS, entry, fingerprint};

const LOOKUPS: u64 = 40_000;
/// Number of items that are timed together.
const BATCH: usize = 64;

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
    println!("  load                  {:8.2} s on all cores", started.elapsed().as_secs_f64());
    let usage = index.memory_usage();
    let each = |bytes: usize| bytes as f64 / records as f64;
    println!(
        "  bytes a record        {:8.1} (blocks {:.1}, postings {:.1}, slots {:.1})",
        each(usage.total()),
        each(usage.blocks),
        each(usage.postings),
        each(usage.slots)
    );
    for radius in [3, 7, 11] {
        let queries = queries(records, skewed_percent, if radius == 3 { LOOKUPS } else { 512 });
        timed(&format!("lookup, radius {radius}"), &queries, |&query| {
            let hamming = HammingRange { centre: query, within: SimhashChannel::first(radius) };
            black_box(index.propose(&Lookup { hamming: Some(hamming), ..Lookup::default() }));
        });
    }
    let new: Vec<Entry> = (0..LOOKUPS).map(|n| entry(records + n, skewed_percent, KEYS)).collect();
    timed("lookup, whole record", &new, |entry| {
        let hamming = entry.fingerprint.map(|centre| HammingRange { centre, within: SimhashChannel::first(3) });
        black_box(index.propose(&Lookup {
            digest_key: Some(entry.digest_key),
            hamming,
            keys: &entry.keys,
            ..Lookup::default()
        }));
    });
    timed("insert", &new, |e| {
        black_box(index.insert(e.seq, e.digest_key, e.fingerprint, &e.keys).expect("room for it"));
    });
    timed("remove", &new, |e| {
        index.remove(Slot((e.seq.0 - 1) as u32), e.digest_key, e.fingerprint, &e.keys);
    });
    drop(index);
    let flat: Vec<u64> = (0..records).map(|n| fingerprint(n, skewed_percent).0).collect();
    timed("flat scan, radius 3", &queries(records, skewed_percent, 2 * BATCH as u64), |query| {
        black_box(flat.iter().filter(|&&other| (other ^ query.0).count_ones() <= 3).count());
    });
}

fn queries(records: u64, skewed_percent: u64, count: u64) -> Vec<Fingerprint> {
    (0..count).map(|n| synthetic::query(n, records, skewed_percent)).collect()
}

/// Runs `work` for all items. The first half is timed in batches, which gives the cost of an item without the cost of reading the clock:
/// the median batch, and the best batch (because other programs may use the cores). The second half is timed item by item, which gives the
/// distribution; these figures include the reading of the clock.
fn timed<T>(name: &str, items: &[T], mut work: impl FnMut(&T)) {
    let nanos = |items: &[T], work: &mut dyn FnMut(&T)| {
        let started = Instant::now();
        items.iter().for_each(work);
        started.elapsed().as_nanos() as u64
    };
    let (first, second) = items.split_at(items.len() / 2);
    let mut batches: Vec<u64> = first.chunks_exact(BATCH).map(|batch| nanos(batch, &mut work) / BATCH as u64).collect();
    let mut each: Vec<u64> = second.chunks(1).map(|one| nanos(one, &mut work)).collect();
    batches.sort_unstable();
    each.sort_unstable();
    let at = |of: &[u64], percent: usize| of[(of.len() - 1) * percent / 100];
    println!(
        "  {name:20} {:9} ns each in the median batch (best {}); one by one p50 {}, p99 {}",
        at(&batches, 50),
        batches[0],
        at(&each, 50),
        at(&each, 99)
    );
}
