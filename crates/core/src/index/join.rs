//! Finds all pairs of fingerprints of a batch within a Hamming radius, each once.
//!
//! If fingerprints are divided into r + 1 disjoint pieces, two fingerprints within radius r agree in at least one piece. (This is the rule
//! of `probes`, with enough pieces that no bit needs to be flipped.) The batch is therefore partitioned by each piece in turn, and only
//! fingerprints in the same part are compared. A large part is not compared but partitioned again: its fingerprints agree in one piece, so
//! that the remaining bits in which they differ are divided into new pieces (`split`). A popular value of a piece then costs one more
//! partition instead of a quadratic scan.
//!
//! A pair that agrees in several pieces is found several times and reported only for the first of these pieces: while the join works on piece j,
//! a pair must differ in each earlier piece. This also reduces the number of new pieces: if a pair differs in j pieces, at most r − j other bits
//! can differ.
//!
//! [`Distinct`] stores equal fingerprints once, with the list of their places. Ten thousand copies of a letter are one value with ten thousand
//! places, and the caller decides what to do with their fifty million pairs.
//!
//! Cost for n fingerprints: [`Distinct`] sorts them; it takes 12 bytes a fingerprint, and as much again while it sorts. [`join`] makes r + 1
//! passes on all cores, with some ten nanoseconds for each fingerprint, and further partitions inside the caches of the processor. The time is
//! nearly linear in n, apart from reporting. The copies take at most the given memory (with 8 bytes a fingerprint, each pass runs at once; with
//! less, in several parts), and each thread takes a few megabytes.

mod distinct;
mod layers;
mod pieces;
mod split;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use rayon::prelude::*;

pub use self::distinct::{Distinct, TooMany};
use self::layers::Partition;
use self::pieces::{BitPiece, CutPlan, JoinPath};
use self::split::JoinWorker;

/// Largest radius of a join. With a larger radius many fingerprints are near by chance, so that a pair means little, and pieces of 7 bits make
/// large parts.
pub const MAX_RADIUS: u8 = 7;

/// Largest number of groups of a partition: a processor can write to this number of places without misses in its page table cache.
const MAX_GROUPS: usize = 1 << 10;
/// A large group with more than a 16th of all entries is divided among all threads and not copied.
const LARGE_SHARE: usize = 16;

/// Sizes at which the join changes its method. They do not change its results.
#[derive(Clone, Copy, Debug)]
struct JoinTuning {
    /// Largest set that is compared directly, each entry with each.
    few: usize,
    /// Number of entries that a thread takes at a time, so that they and their copies stay in its cache.
    group: usize,
    /// A group with at most this number of entries is never large.
    large: usize,
    /// Nanoseconds to sort an entry into a group. A comparison of two entries takes about one nanosecond.
    file: f64,
}

impl JoinTuning {
    const DEFAULT: Self = Self { few: 24, group: 1 << 16, large: 1 << 20, file: 6.0 };
}

/// Two different fingerprints within the radius, as positions in [`Distinct`], the lower first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NearPair {
    /// Position of the lower fingerprint.
    pub a: u32,
    /// Position of the higher fingerprint.
    pub b: u32,
    /// Number of different bits, at least 1.
    pub distance: u8,
}

/// The receiver of the pairs. Several threads call it, in no order.
pub trait Sink: Sync {
    /// Receives pairs, at most some thousands at a time. Returns `Break` to end the join early.
    fn take(&self, pairs: &[NearPair]) -> ControlFlow<()>;

    /// Receives the progress from time to time, as a part of `total`.
    fn progress(&self, _done: u64, _total: u64) {}
}

/// A receiver that keeps all pairs in memory.
#[derive(Debug, Default)]
pub struct AllPairs(Mutex<Vec<NearPair>>);

impl AllPairs {
    /// Returns the pairs, in no order.
    pub fn into_pairs(self) -> Vec<NearPair> {
        self.0.into_inner()
    }
}

impl Sink for AllPairs {
    fn take(&self, pairs: &[NearPair]) -> ControlFlow<()> {
        self.0.lock().extend_from_slice(pairs);
        ControlFlow::Continue(())
    }
}

/// Passes every pair of different fingerprints within `radius` (at most [`MAX_RADIUS`]) to `sink`, each once. Copies take at most `memory` bytes
/// at a time, or one group if a group is larger. Returns `Break` if the sink ended the join.
pub fn join(distinct: &Distinct, radius: u8, memory: usize, sink: &impl Sink) -> ControlFlow<()> {
    join_tuned(distinct, radius, memory, sink, JoinTuning::DEFAULT)
}

fn join_tuned(distinct: &Distinct, radius: u8, memory: usize, sink: &impl Sink, tuning: JoinTuning) -> ControlFlow<()> {
    let radius = radius.min(MAX_RADIUS);
    if radius == 0 {
        return ControlFlow::Continue(());
    }
    let total = distinct.len() as u64 * (u64::from(radius) + 1);
    let run = JoinRun {
        distinct,
        radius: radius.into(),
        memory,
        tuning,
        sink,
        done: AtomicU64::new(0),
        total,
        stop: AtomicBool::new(false),
    };
    run.join_filtered(&[], JoinPath::new(), &mut Vec::new());
    if run.stop.into_inner() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// The state of one join.
struct JoinRun<'a, S> {
    distinct: &'a Distinct,
    radius: u32,
    memory: usize,
    tuning: JoinTuning,
    sink: &'a S,
    done: AtomicU64,
    total: u64,
    stop: AtomicBool,
}

/// A condition: the fingerprint falls into this group of this piece.
#[derive(Clone, Copy)]
struct GroupFilter {
    piece: BitPiece,
    bits: u32,
    group: usize,
}

impl GroupFilter {
    fn passes(&self, value: u64) -> bool {
        self.piece.group(value, self.bits) == self.group
    }
}

impl<'a, S: Sink> JoinRun<'a, S> {
    /// Joins the fingerprints that pass all `filters`. `path` describes the bits in which they agree; a pair must differ in each piece of
    /// `apart`. All cores work on each partition, and only the partition is in memory.
    fn join_filtered(&self, filters: &[GroupFilter], path: JoinPath, apart: &mut Vec<u64>) {
        let (count, vary) = self.survey(filters);
        let Some(CutPlan { region, count: pieces }) =
            CutPlan::of(count, vary & !path.same, path, self.radius, self.tuning.file)
        else {
            let values = self.distinct.values_from(0..self.distinct.len());
            let set: Vec<u64> = values.filter(|&value| passes_all(filters, value)).collect();
            let mut worker = self.worker(apart);
            worker.compare_all(&set, path);
            worker.flush();
            return;
        };
        let before = apart.len();
        let mut path = path;
        for mask in pieces::cut(region, pieces) {
            let piece = BitPiece::new(mask);
            self.join_piece(filters, count, piece, path.agreeing(mask), apart);
            apart.push(mask);
            path = path.differing(mask);
        }
        apart.truncate(before);
    }

    /// Joins the fingerprints that pass all `filters` and agree in `piece`. `path` contains the piece already.
    fn join_piece(&self, filters: &[GroupFilter], count: usize, piece: BitPiece, path: JoinPath, apart: &mut Vec<u64>) {
        let groups = (count / self.tuning.group).next_power_of_two().clamp(1, MAX_GROUPS);
        let bits = groups.trailing_zeros();
        let group_of = |value: u64| passes_all(filters, value).then(|| piece.group(value, bits));
        let sizes = Partition::sizes(self.distinct, groups, group_of);
        let most = self.tuning.large.max(self.distinct.len() / LARGE_SHARE);
        let mut first = 0;
        while first < groups && !self.stopped() {
            let mut bytes = 0;
            let fitting = sizes[first..].iter().take_while(|&&size| {
                bytes += if size > most { 0 } else { size * size_of::<u64>() };
                bytes <= self.memory
            });
            let end = first + fitting.count().max(1);
            let layers = Partition::of(self.distinct, end - first, |value| {
                let wanted = group_of(value).filter(|group| (first..end).contains(group) && sizes[*group] <= most);
                wanted.map(|group| group - first)
            });
            (0..end - first).into_par_iter().for_each_init(
                || (self.worker(apart), Vec::new()),
                |(worker, set), group| {
                    if !self.stopped() {
                        layers.gather(group, set);
                        worker.split(set, piece, bits, path);
                        worker.flush();
                        self.advance(set.len(), filters);
                    }
                },
            );
            first = end;
        }
        for group in (0..groups).filter(|&group| sizes[group] > most) {
            if !self.stopped() {
                let filters = [filters, &[GroupFilter { piece, bits, group }]].concat();
                self.join_filtered(&filters, path, apart);
                self.advance(sizes[group], &filters[1..]);
            }
        }
    }

    /// Returns the number of distinct values that pass, and the bits in which they differ.
    fn survey(&self, filters: &[GroupFilter]) -> (usize, u64) {
        let surveys = self.distinct.chunks().map(|range| {
            let values = self.distinct.values_from(range).filter(|&value| passes_all(filters, value));
            values.fold((0, 0, u64::MAX), |(count, any, all), value| (count + 1, any | value, all & value))
        });
        let (count, any, all) = surveys.reduce(|| (0, 0, u64::MAX), |a, b| (a.0 + b.0, a.1 | b.1, a.2 & b.2));
        (count, any & !all)
    }

    fn worker<'w>(&'w self, apart: &[u64]) -> JoinWorker<impl FnMut(&mut Vec<(u64, u64)>) -> bool + use<'w, 'a, S>> {
        let mut near = Vec::new();
        JoinWorker::new(self.radius, apart, self.tuning, move |found| {
            near.clear();
            near.extend(found.drain(..).filter_map(|(a, b)| self.near(a.min(b), a.max(b))));
            if !self.stopped() && !near.is_empty() && self.sink.take(&near).is_break() {
                self.stop.store(true, Ordering::Relaxed);
            }
            !self.stopped()
        })
    }

    fn near(&self, a: u64, b: u64) -> Option<NearPair> {
        let distance = (a ^ b).count_ones() as u8;
        Some(NearPair { a: self.distinct.position(a)?, b: self.distinct.position(b)?, distance })
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reports progress for entries of the whole batch. Entries of a large group are reported when the group is complete.
    fn advance(&self, entries: usize, filters: &[GroupFilter]) {
        if filters.is_empty() {
            let done = self.done.fetch_add(entries as u64, Ordering::Relaxed) + entries as u64;
            self.sink.progress(done, self.total);
        }
    }
}

fn passes_all(filters: &[GroupFilter], value: u64) -> bool {
    filters.iter().all(|filter| filter.passes(value))
}
