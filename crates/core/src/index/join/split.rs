//! One thread's part of a join: partitions a set by pieces until what falls together is few, and compares that.

use super::Tuning;
use super::pieces::{Path, Piece, Plan, cut};

/// Pairs gathered before they are reported.
const BATCH: usize = 4_096;

/// Buffers of a thread. `report` is given pairs, takes them out, and says whether to go on.
pub(super) struct Worker<R> {
    radius: u32,
    /// Pieces in each of which a pair must differ to be reported here.
    apart: Vec<u64>,
    /// One set and its offsets for each depth of the recursion.
    buffers: Vec<Buffer>,
    depth: usize,
    found: Vec<(u64, u64)>,
    report: R,
    stopped: bool,
    tuning: Tuning,
}

#[derive(Default)]
struct Buffer {
    values: Vec<u64>,
    ends: Vec<u32>,
}

impl<R: FnMut(&mut Vec<(u64, u64)>) -> bool> Worker<R> {
    pub(super) fn new(radius: u32, apart: &[u64], tuning: Tuning, report: R) -> Self {
        let (buffers, found) = (Vec::new(), Vec::new());
        Self { radius, apart: apart.to_vec(), buffers, depth: 0, found, report, stopped: false, tuning }
    }

    /// Reports what was found and not reported.
    pub(super) fn flush(&mut self) {
        self.stopped |= !(self.report)(&mut self.found);
    }

    /// Finds the pairs of `set` that agree in `piece`. All of `set` have the same upper `known` bits of the piece's code.
    pub(super) fn split(&mut self, set: &[u64], piece: Piece, known: u32, path: Path) {
        if set.len() <= self.tuning.few {
            return self.compare_all(set, path);
        }
        // No more slots than the piece has values left, nor many more than there are entries.
        let width = (set.len().ilog2() + 1).min((piece.width + 2).saturating_sub(known)).max(1);
        let slot = |value: u64| (piece.code(value) << known >> (64 - width)) as usize;
        if self.depth == self.buffers.len() {
            self.buffers.push(Buffer::default());
        }
        let mut buffer = std::mem::take(&mut self.buffers[self.depth]);
        buffer.fill(set, 1 << width, slot);
        self.depth += 1;
        let mut start = 0;
        for &end in &buffer.ends {
            let end = end as usize;
            if end - start > 1 {
                self.join(&buffer.values[start..end], path);
            }
            start = end;
        }
        self.depth -= 1;
        self.buffers[self.depth] = buffer;
    }

    /// Finds the pairs of `set`.
    fn join(&mut self, set: &[u64], path: Path) {
        if set.len() <= self.tuning.few {
            return self.compare_all(set, path);
        }
        let (any, all) = set.iter().fold((0, u64::MAX), |(any, all), &value| (any | value, all & value));
        let vary = any & !all & !path.same;
        if self.stopped || self.apart.iter().any(|piece| piece & vary == 0) {
            return;
        }
        let Some(Plan { region, count }) = Plan::of(set.len(), vary, path, self.radius, self.tuning.file) else {
            return self.compare_all(set, path);
        };
        let (before, mut path) = (self.apart.len(), path);
        for mask in cut(region, count) {
            self.split(set, Piece::new(mask), 0, path.agreeing(mask));
            self.apart.push(mask);
            path = path.differing(mask);
        }
        self.apart.truncate(before);
    }

    /// Compares each with each.
    pub(super) fn compare_all(&mut self, set: &[u64], path: Path) {
        for (at, &a) in set.iter().enumerate() {
            for &b in &set[..at] {
                if (a ^ b).count_ones() <= self.radius {
                    self.hit(a, b, path.same);
                }
            }
            if self.stopped {
                return;
            }
        }
    }

    /// Notes a pair within the radius, if this is the place to report it.
    #[cold]
    fn hit(&mut self, a: u64, b: u64, same: u64) {
        let differ = a ^ b;
        if differ & same == 0 && differ != 0 && self.apart.iter().all(|piece| differ & piece != 0) {
            self.found.push((a, b));
            if self.found.len() >= BATCH {
                self.flush();
            }
        }
    }
}

impl Buffer {
    /// Sorts `set` into slots; `ends` says where each ends.
    fn fill(&mut self, set: &[u64], slots: usize, slot: impl Fn(u64) -> usize) {
        self.ends.clear();
        self.ends.resize(slots, 0);
        set.iter().for_each(|&value| self.ends[slot(value)] += 1);
        let mut start = 0;
        for end in &mut self.ends {
            let count = *end;
            *end = start;
            start += count;
        }
        self.values.resize(set.len(), 0);
        for &value in set {
            let at = &mut self.ends[slot(value)];
            self.values[*at as usize] = value;
            *at += 1;
        }
    }
}
