//! Adds up the proposals of the parts of the index for one lookup, and applies the limits.
//!
//! A hit is a slot that one key proposed. Hits are sorted by slot and merged. Exact hits come first; the others are ordered by weight and then
//! by seq, in the [`ProposalOrder`]. O(h log h) for h hits. Each thread keeps the buffers, so that a lookup allocates only its answer.
//!
//! All keys of a letter that thousands of people sent propose the same records. The hits of such keys are merged as soon as a key ends
//! ([`Scratch::end_key`]), so that sorting takes only as long as for one key.

use std::cell::Cell;
use std::ops::Range;

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
    /// Ranges of the hits of earlier keys, with which the hits of a later key are compared; see [`Scratch::end_key`].
    runs: Vec<Range<usize>>,
    /// Position in `hits` where the hits of the present key begin.
    begin: usize,
}

thread_local! {
    static SCRATCH: Cell<Scratch> = const {
        Cell::new(Scratch { hits: Vec::new(), near: Vec::new(), truncated: false, runs: Vec::new(), begin: 0 })
    };
}

/// Smallest number of hits of a key that are compared with those of earlier keys: sorting fewer hits costs as little as comparing them.
const LEAST_RUN: usize = 32;
/// Number of different runs of hits with which the hits of a key are compared. The keys of a mass letter propose one run, or a few runs if
/// the letter shares phrases with other letters. A comparison of different runs usually ends at the first hit.
const RUNS: usize = 8;

/// Number of hits for which a thread keeps memory between lookups: the largest number in a typical lookup (96 keys of 256 records).
const KEPT: usize = 32_768;

impl Scratch {
    /// Runs `lookup` with the empty buffers of this thread.
    pub fn with<T>(lookup: impl FnOnce(&mut Self) -> T) -> T {
        let mut scratch = SCRATCH.take();
        scratch.hits.clear();
        scratch.near.clear();
        scratch.truncated = false;
        scratch.runs.clear();
        scratch.begin = 0;
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
        self.end_key();
    }

    /// Ends the hits of one key. If an earlier key proposed the same slots in the same order, adds the new hits to the hits of that key.
    /// This does not change the result of [`Scratch::rank`]. O(hits of the key).
    pub fn end_key(&mut self) {
        let run = self.begin..self.hits.len();
        self.begin = run.end;
        if run.len() < LEAST_RUN {
            return;
        }
        let (before, own) = self.hits.split_at_mut(run.start);
        let is_same = |other: &&Range<usize>| {
            let other = &before[other.start..other.end];
            other.len() == own.len() && other.iter().zip(&*own).all(|(a, b)| a.slot == b.slot)
        };
        let Some(same) = self.runs.iter().find(is_same).cloned() else {
            if self.runs.len() < RUNS {
                self.runs.push(run);
            }
            return;
        };
        for (kept, hit) in before[same].iter_mut().zip(own) {
            kept.via = kept.via.with(hit.via);
            kept.weight += hit.weight;
        }
        self.hits.truncate(run.start);
        self.begin = run.start;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::collection::ChannelPosition;

    /// Ranks the hits of some keys. A key proposes every `step`-th of the first slots.
    fn ranked(keys: &[(u32, u32, u8)], order: ProposalOrder, merges: bool) -> (Vec<Hit>, bool) {
        Scratch::with(|scratch| {
            for &(step, count, channel) in keys {
                let via = Via::channel(ChannelPosition(channel));
                let slots = (0..count).map(|slot| slot * step);
                scratch.hits.extend(slots.map(|slot| Hit { slot, via, weight: weight(count as usize) }));
                if merges {
                    scratch.end_key();
                }
            }
            (scratch.rank(order).to_vec(), scratch.truncated)
        })
    }

    proptest! {
        #[test]
        fn keys_that_propose_the_same_records_change_nothing(
            keys in prop::collection::vec((1u32..4, prop::sample::select(vec![3, 40, 256, 300]), 0u8..3), 0..20),
            latest in any::<bool>(),
        ) {
            let order = if latest { ProposalOrder::LatestFirst } else { ProposalOrder::EarliestFirst };
            prop_assert_eq!(ranked(&keys, order, true), ranked(&keys, order, false));
        }
    }

    #[test]
    fn the_keys_of_a_mass_letter_take_the_memory_of_one_key() {
        let hits = Scratch::with(|scratch| {
            for channel in 0..100 {
                let via = Via::channel(ChannelPosition(channel % 3));
                scratch.hits.extend((0..256).map(|slot| Hit { slot, via, weight: weight(256) }));
                scratch.end_key();
            }
            scratch.hits.len()
        });
        assert_eq!(hits, 256);
    }
}
