//! Adds up the proposals of the parts of the index for one lookup, and applies the limits.
//!
//! A hit is a slot that one key proposed. Hits are sorted by slot and merged. Exact hits come first; the others are ordered by weight and then by
//! seq, in the [`ProposalOrder`]. O(h log h) for h hits. Each thread keeps the buffers, so that a lookup allocates only its
//! answer.

use std::cell::Cell;

use super::{MAX_CANDIDATES, POSTINGS_PER_KEY, ProposalOrder, Via, weight};

/// A slot that one key proposed, or after merging all keys that proposed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The slot of the record.
    pub slot: u32,
    /// The sources that proposed the record.
    pub via: Via,
    /// The sum of the keys' [`weight`]s.
    pub weight: u64,
}

/// The buffers of a lookup.
#[derive(Default)]
pub struct Scratch {
    /// The slots that keys proposed.
    pub hits: Vec<Hit>,
    /// The slots with a near fingerprint; see [`Scratch::take_near`].
    pub near: Vec<u32>,
    /// True if a limit left out proposals.
    pub truncated: bool,
}

thread_local! {
    static SCRATCH: Cell<Scratch> = const { Cell::new(Scratch { hits: Vec::new(), near: Vec::new(), truncated: false }) };
}

/// Number of hits for which a thread keeps memory between lookups: the largest number in a typical lookup (96 keys of 256 records).
const KEPT: usize = 32_768;

impl Scratch {
    /// Runs `lookup` with the empty buffers of this thread.
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

    /// Moves the lowest [`POSTINGS_PER_KEY`] slots of `near` to the hits, as hits of the channel `via`.
    pub fn take_near(&mut self, via: Via) {
        self.near.sort_unstable();
        self.near.dedup();
        self.truncated |= self.near.len() > POSTINGS_PER_KEY;
        let near = self.near.drain(..).take(POSTINGS_PER_KEY);
        self.hits.extend(near.map(|slot| Hit { slot, via, weight: weight(1) }));
    }

    /// Merges the hits and keeps the best ones: all exact hits, then the [`MAX_CANDIDATES`] heaviest of the others, hits of equal weight in
    /// `order`.
    pub fn rank(&mut self, order: ProposalOrder) -> &[Hit] {
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
            let exact = hits.iter().filter(|hit| hit.via.contains(Via::EXACT)).count();
            if hits.len() > exact + MAX_CANDIDATES {
                self.truncated = true;
                hits.select_nth_unstable_by_key(exact + MAX_CANDIDATES, |hit| ranks(hit, order));
                hits.truncate(exact + MAX_CANDIDATES);
            }
            hits.sort_unstable_by_key(|hit| ranks(hit, order));
            hits[..exact].sort_unstable_by_key(|hit| order.place(hit.slot));
        }
        hits
    }
}

/// Ranks exact hits first, then the heaviest, then the first in `order`.
fn ranks(hit: &Hit, order: ProposalOrder) -> (bool, std::cmp::Reverse<u64>, u32) {
    (!hit.via.contains(Via::EXACT), std::cmp::Reverse(hit.weight), order.place(hit.slot))
}
