//! The part of a join that one thread does: it partitions a set until the groups are small, and compares the values in each group.

use super::JoinTuning;
use super::pieces::{BitPiece, CutPlan, JoinPath, cut};

/// Number of pairs that are reported together.
const BATCH: usize = 4_096;

/// The buffers of a thread. `report` takes the found pairs out of a list, and returns false to end the join.
pub(super) struct JoinWorker<R> {
    radius: u32,
    /// The pieces in each of which a pair must differ to be reported here.
    apart: Vec<u64>,
    /// One buffer for each depth of the recursion.
    buffers: Vec<SplitBuffer>,
    depth: usize,
    found: Vec<(u64, u64)>,
    report: R,
    stopped: bool,
    tuning: JoinTuning,
}

#[derive(Default)]
struct SplitBuffer {
    values: Vec<u64>,
    ends: Vec<u32>,
}

impl<R: FnMut(&mut Vec<(u64, u64)>) -> bool> JoinWorker<R> {
    pub(super) fn new(radius: u32, apart: &[u64], tuning: JoinTuning, report: R) -> Self {
        Self {
            radius,
            apart: apart.to_vec(),
            buffers: Vec::new(),
            depth: 0,
            found: Vec::new(),
            report,
            stopped: false,
            tuning,
        }
    }

    /// Reports the pairs that were found and not reported yet.
    pub(super) fn flush(&mut self) {
        self.stopped |= !(self.report)(&mut self.found);
    }

    /// Finds the pairs of `set` that agree in `piece`. All values have the same upper `known` bits of the piece's code.
    pub(super) fn split(&mut self, set: &[u64], piece: BitPiece, known: u32, path: JoinPath) {
        if set.len() <= self.tuning.few {
            return self.compare_all(set, path);
        }
        // There are not more slots than remaining values of the piece, and not many more than entries.
        let width = (set.len().ilog2() + 1).min((piece.width + 2).saturating_sub(known)).max(1);
        if self.depth == self.buffers.len() {
            self.buffers.push(SplitBuffer::default());
        }
        let mut buffer = std::mem::take(&mut self.buffers[self.depth]);
        buffer.fill(set, 1 << width, |value| (piece.code(value) << known >> (64 - width)) as usize);
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
    fn join(&mut self, set: &[u64], path: JoinPath) {
        if set.len() <= self.tuning.few {
            return self.compare_all(set, path);
        }
        let (any, all) = set.iter().fold((0, u64::MAX), |(any, all), &value| (any | value, all & value));
        let vary = any & !all & !path.same;
        if self.stopped || self.apart.iter().any(|piece| piece & vary == 0) {
            return;
        }
        let Some(CutPlan { region, count }) = CutPlan::of(set.len(), vary, path, self.radius, self.tuning.file) else {
            return self.compare_all(set, path);
        };
        let before = self.apart.len();
        let mut path = path;
        for mask in cut(region, count) {
            self.split(set, BitPiece::new(mask), 0, path.agreeing(mask));
            self.apart.push(mask);
            path = path.differing(mask);
        }
        self.apart.truncate(before);
    }

    /// Compares each value with each.
    pub(super) fn compare_all(&mut self, set: &[u64], path: JoinPath) {
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

    /// Adds a pair within the radius to the found pairs, unless it is reported at another place of the recursion.
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

impl SplitBuffer {
    /// Sorts `set` by slot, and sets the end of each slot.
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
