//! Adds up what the parts of the index propose for one lookup, and applies the limits.
//!
//! One hit is a slot that one key proposed. Hits are sorted by slot and merged; exact ones come first, the others by
//! weight, then seq (which is the order of slots). O(h log h) for h hits; the buffers are kept per thread, so that a
//! lookup allocates nothing but its answer.

use std::cell::Cell;

use super::{MAX_CANDIDATES, POSTINGS_PER_KEY, Via, weight};

/// A slot proposed by one key, or, merged, by all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Of the record.
    pub slot: u32,
    /// What proposed it.
    pub via: Via,
    /// Σ of [`weight`].
    pub weight: u64,
}

/// Buffers of a lookup.
#[derive(Default)]
pub struct Scratch {
    /// What keys proposed.
    pub hits: Vec<Hit>,
    /// Slots whose fingerprints are near, of one channel: see [`Scratch::take_near`].
    pub near: Vec<u32>,
    /// Whether a limit cut the proposals short.
    pub truncated: bool,
}

thread_local! {
    static SCRATCH: Cell<Scratch> = const { Cell::new(Scratch { hits: Vec::new(), near: Vec::new(), truncated: false }) };
}

/// Hits a thread's buffer keeps room for between lookups: the most a usual lookup has (96 keys of 256 records).
const KEPT: usize = 32_768;

impl Scratch {
    /// Runs `lookup` with this thread's buffers, empty.
    pub fn with<T>(lookup: impl FnOnce(&mut Self) -> T) -> T {
        let mut scratch = SCRATCH.take();
        scratch.hits.clear();
        scratch.near.clear();
        scratch.truncated = false;
        let answer = lookup(&mut scratch);
        scratch.hits.shrink_to(KEPT);
        scratch.near.shrink_to(KEPT);
        SCRATCH.set(scratch);
        answer
    }

    /// Turns the slots in `near` into hits of the channel `via`: the lowest [`POSTINGS_PER_KEY`] of them.
    pub fn take_near(&mut self, via: Via) {
        self.near.sort_unstable();
        self.near.dedup();
        self.truncated |= self.near.len() > POSTINGS_PER_KEY;
        let near = self.near.drain(..).take(POSTINGS_PER_KEY);
        self.hits.extend(near.map(|slot| Hit { slot, via, weight: weight(1) }));
    }

    /// Merges the hits and leaves the best, in order: exact ones, then the [`MAX_CANDIDATES`] of most weight.
    pub fn rank(&mut self) -> &[Hit] {
        let hits = &mut self.hits;
        if hits.len() > 1 {
            hits.sort_unstable_by_key(|hit| hit.slot);
            hits.dedup_by(|hit, kept| {
                let same = hit.slot == kept.slot;
                if same {
                    kept.via = kept.via.with(hit.via);
                    kept.weight += hit.weight;
                }
                same
            });
            let order = |hit: &Hit| (!hit.via.contains(Via::EXACT), std::cmp::Reverse(hit.weight), hit.slot);
            let exact = hits.iter().filter(|hit| hit.via.contains(Via::EXACT)).count();
            if hits.len() > exact + MAX_CANDIDATES {
                self.truncated = true;
                hits.select_nth_unstable_by_key(exact + MAX_CANDIDATES, order);
                hits.truncate(exact + MAX_CANDIDATES);
            }
            hits.sort_unstable_by_key(order);
            hits[..exact].sort_unstable_by_key(|hit| hit.slot);
        }
        hits
    }
}
