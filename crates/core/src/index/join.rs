//! All pairs: every two fingerprints of a batch within a Hamming radius, each reported once.
//!
//! Two fingerprints within radius r, cut into r + 1 disjoint pieces, agree in at least one of them: the rule of the blocks
//! (`probes`), with as many pieces as need no flipped bits. So the batch is partitioned by each piece in turn, and
//! only what falls together is compared. What falls together in numbers is not compared but cut again: those that agree
//! in a piece are still to be within r in the bits in which they differ at all, so these are cut into pieces anew (`split`).
//! Popular values of a piece then cost a further cut and no quadratic scan.
//!
//! A pair that agrees in several pieces is met several times, and reported under the first: a set reached by piece j
//! carries the pieces before j along, and a pair must differ in each. That is known before it is met, so the pieces left
//! need to be fewer: with j pieces that differ, r − j bits at most can differ elsewhere.
//!
//! Equal fingerprints are one: [`Distinct`] keeps the list of places where each occurs, so ten thousand copies of a letter are one
//! value with ten thousand places, and what becomes of their fifty million pairs is the caller's choice.
//!
//! Cost for n fingerprints: [`Distinct`] sorts, 12 bytes each and as much again while it does. [`join`] takes r + 1 passes over
//! them on all cores, some ten nanoseconds each, and as many cuts within the processor's caches; close to linear in n, apart from
//! reporting. It takes at most the memory it is given for copies (8 bytes a fingerprint make each pass one; with less they
//! are done in parts), and a few megabytes a thread.

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
use self::layers::Layers;
use self::pieces::{Path, Piece, Plan};
use self::split::Worker;

/// Greatest radius of a join: above, so much of a stock is near by chance that pairs mean little, and pieces of 7 bits cut little.
pub const MAX_RADIUS: u8 = 7;

/// Most groups of a partition: what a processor can write to at once without waiting for its tables of pages.
const MAX_GROUPS: usize = 1 << 10;
/// A group of more entries than this share of all is not left to one thread, nor copied, if it is large at all.
const LARGE_SHARE: usize = 16;

/// Sizes at which the way of going on changes. What is found does not depend on them.
#[derive(Clone, Copy, Debug)]
struct Tuning {
    /// So few are compared each with each, without thinking.
    few: usize,
    /// Entries that a thread takes at a time: they and their copies stay in its cache.
    group: usize,
    /// A group of more entries than this may be large.
    large: usize,
    /// Nanoseconds to file an entry under a piece; to compare it with another takes about one.
    file: f64,
}

impl Tuning {
    const DEFAULT: Self = Self { few: 24, group: 1 << 16, large: 1 << 20, file: 6.0 };
}

/// Two different fingerprints within the radius, by their positions in [`Distinct`], the lower first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NearPair {
    /// Position of the lower fingerprint.
    pub a: u32,
    /// Position of the higher.
    pub b: u32,
    /// Bits in which they differ, at least 1.
    pub distance: u8,
}

/// Where pairs go. Called from several threads, in no order.
pub trait Sink: Sync {
    /// Takes pairs, at most some thousands at a time; `Break` ends the join early.
    fn take(&self, pairs: &[NearPair]) -> ControlFlow<()>;

    /// Told now and then how much of the work is done.
    fn progress(&self, _done: u64, _total: u64) {}
}

/// Keeps all pairs in memory.
#[derive(Debug, Default)]
pub struct AllPairs(Mutex<Vec<NearPair>>);

impl AllPairs {
    /// The pairs, in no order.
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

/// Gives `sink` every pair of different fingerprints within `radius` (clamped to [`MAX_RADIUS`]), each once. `memory` bounds
/// the bytes that copies take at a time; a value of a piece that is more popular than fits is copied all the same.
/// `Break` if the sink wanted no more.
pub fn join(distinct: &Distinct, radius: u8, memory: usize, sink: &impl Sink) -> ControlFlow<()> {
    join_tuned(distinct, radius, memory, sink, Tuning::DEFAULT)
}

fn join_tuned(distinct: &Distinct, radius: u8, memory: usize, sink: &impl Sink, tuning: Tuning) -> ControlFlow<()> {
    let radius = radius.min(MAX_RADIUS);
    if radius == 0 {
        return ControlFlow::Continue(());
    }
    let total = distinct.len() as u64 * (u64::from(radius) + 1);
    let run = Run {
        distinct,
        radius: radius.into(),
        memory,
        tuning,
        sink,
        done: AtomicU64::new(0),
        total,
        stop: AtomicBool::new(false),
    };
    run.join_filtered(&[], Path::new(), &mut Vec::new());
    if run.stop.into_inner() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// One join.
struct Run<'a, S> {
    distinct: &'a Distinct,
    radius: u32,
    memory: usize,
    tuning: Tuning,
    sink: &'a S,
    done: AtomicU64,
    total: u64,
    stop: AtomicBool,
}

/// A part of the fingerprints: those that one piece files in one group.
#[derive(Clone, Copy)]
struct Filter {
    piece: Piece,
    bits: u32,
    group: usize,
}

impl Filter {
    fn passes(&self, value: u64) -> bool {
        self.piece.group(value, self.bits) == self.group
    }
}

impl<'a, S: Sink> Run<'a, S> {
    /// Joins the fingerprints that pass all `filters` and agree in what `path` says, where they differ in each of `apart`.
    /// All cores work on each partition; nothing but the partition is kept meanwhile.
    fn join_filtered(&self, filters: &[Filter], path: Path, apart: &mut Vec<u64>) {
        let passes = |value: u64| filters.iter().all(|filter| filter.passes(value));
        let (count, vary) = self.survey(&passes);
        let Some(Plan { region, count: pieces }) =
            Plan::of(count, vary & !path.same, path, self.radius, self.tuning.file)
        else {
            let set: Vec<u64> = self.distinct.values_from(0..self.distinct.len()).filter(|&v| passes(v)).collect();
            let mut worker = self.worker(apart);
            worker.compare_all(&set, path);
            worker.flush();
            return;
        };
        let (before, mut path) = (apart.len(), path);
        for mask in pieces::cut(region, pieces) {
            let piece = Piece::new(mask);
            self.join_piece(filters, count, piece, path.agreeing(mask), apart);
            apart.push(mask);
            path = path.differing(mask);
        }
        apart.truncate(before);
    }

    /// Joins those that agree in `piece`, which `path` knows already.
    fn join_piece(&self, filters: &[Filter], count: usize, piece: Piece, path: Path, apart: &mut Vec<u64>) {
        let groups = (count / self.tuning.group).next_power_of_two().clamp(1, MAX_GROUPS);
        let bits = groups.trailing_zeros();
        let passes = |value: u64| filters.iter().all(|filter| filter.passes(value));
        let group_of = |value: u64| passes(value).then(|| piece.group(value, bits));
        let sizes = Layers::sizes(self.distinct, groups, group_of);
        let large = |size: usize| size > self.tuning.large.max(self.distinct.len() / LARGE_SHARE);
        let mut first = 0;
        while first < groups && !self.stopped() {
            let mut bytes = 0;
            let fitting = sizes[first..].iter().take_while(|&&size| {
                bytes += if large(size) { 0 } else { size * size_of::<u64>() };
                bytes <= self.memory
            });
            let end = first + fitting.count().max(1);
            let wanted = |value: u64| {
                group_of(value).filter(|group| (first..end).contains(group) && !large(sizes[*group])).map(|g| g - first)
            };
            let layers = Layers::of(self.distinct, end - first, wanted);
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
        for group in (0..groups).filter(|&group| large(sizes[group])) {
            if !self.stopped() {
                let filters = [filters, &[Filter { piece, bits, group }]].concat();
                self.join_filtered(&filters, path, apart);
                self.advance(sizes[group], &filters[1..]);
            }
        }
    }

    /// How many distinct values pass, and the bits in which they vary.
    fn survey(&self, passes: &(impl Fn(u64) -> bool + Sync)) -> (usize, u64) {
        let each = |range: std::ops::Range<usize>| {
            let values = self.distinct.values_from(range).filter(|&value| passes(value));
            values.fold((0, 0, u64::MAX), |(count, any, all), value| (count + 1, any | value, all & value))
        };
        let both = |a: (usize, u64, u64), b: (usize, u64, u64)| (a.0 + b.0, a.1 | b.1, a.2 & b.2);
        let (count, any, all) = self.distinct.chunks().map(each).reduce(|| (0, 0, u64::MAX), both);
        (count, any & !all)
    }

    fn worker<'w>(&'w self, apart: &[u64]) -> Worker<impl FnMut(&mut Vec<(u64, u64)>) -> bool + use<'w, 'a, S>> {
        let mut near = Vec::new();
        let report = move |found: &mut Vec<(u64, u64)>| {
            near.clear();
            near.extend(found.drain(..).filter_map(|(a, b)| self.near(a.min(b), a.max(b))));
            if !self.stopped() && !near.is_empty() && self.sink.take(&near).is_break() {
                self.stop.store(true, Ordering::Relaxed);
            }
            !self.stopped()
        };
        Worker::new(self.radius, apart, self.tuning, report)
    }

    fn near(&self, a: u64, b: u64) -> Option<NearPair> {
        let distance = (a ^ b).count_ones() as u8;
        Some(NearPair { a: self.distinct.position(a)?, b: self.distinct.position(b)?, distance })
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Counts entries done by a piece of the whole; those of parts of it are counted with their part.
    fn advance(&self, entries: usize, filters: &[Filter]) {
        if filters.is_empty() {
            let done = self.done.fetch_add(entries as u64, Ordering::Relaxed) + entries as u64;
            self.sink.progress(done, self.total);
        }
    }
}
