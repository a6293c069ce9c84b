//! The in-memory index of one generation.
//!
//! Each record gets a [`Slot`]. Slots ascend with the seq, so that the lowest slot is the earliest record. The index stores a fingerprint
//! under its four 16-bit blocks (`block`), and the posting keys and the digest in a posting index (`posting`). Lookups run at the
//! same time as inserts. Only one writer at a time, the store's sequencer, changes the index.
//!
//! ```text
//! generation       insert, remove and propose, for all parts
//! rank             adds up the proposals of the parts and applies the limits
//! load             fills an index from stored entries, on all cores
//! slots            slot → seq, fingerprint, live                 16 bytes a record
//! block            fingerprint → slots, any radius 0 to 15       40 bytes a record, and room to grow
//!   bucket         the fingerprints with one value of one block
//!   run            a contiguous list of fingerprints, which a lookup scans
//!   probes         the buckets that contain all fingerprints within a radius
//! posting          64-bit key → slots                            9 to 12 bytes a key and record
//!   table          one shard of the posting index
//! locks            many locks, each allocated at the first write
//! batched_locks    takes several locks at once, to wait for memory only once
//!
//! join             all pairs of near fingerprints in a batch
//!   distinct       the fingerprints, sorted
//!   layers         partitions all fingerprints, on all cores
//!   pieces         chooses the bits by which a set is partitioned
//!   split          partitions a set on one thread until the parts are small enough to compare
//! single_pass      single-pass clustering, the baseline for `join`
//! groups           groups of records that are connected by pairs, in a generation or in a batch
//!   bridges        pairs without which a group would fall apart
//!   pieces         divides a large component at single links
//!   sparse         a few pairs of a component with the same single links as all pairs
//!   batch          the groups of pairs that nobody changes, in memory that depends on the members only
//!   group          the description of a group
//! ```

mod batched_locks;
mod block;
mod bucket;
mod generation;
pub mod groups;
pub mod join;
mod load;
mod locks;
mod posting;
pub mod probes;
pub mod rank;
mod run;
pub mod single_pass;
mod slots;
mod table;
#[cfg(test)]
mod tests;

pub use generation::{GenerationIndex, IndexFull, MemoryUsage};
pub use load::Entry;

use crate::collection::{ChannelPosition, MatchScope, Settings, SimhashChannel};
use crate::numbers::Seq;
use crate::schemes::profile::{PostingKey, Signed};
use crate::verdict::Fingerprint;

/// Number of records that a key proposes: the first records in the [`ProposalOrder`]. A key with more records is *common*. The same in
/// every store.
pub const POSTINGS_PER_KEY: usize = 256;
/// Number of records that a common key proposes if at most half of the query's keys of the channel are common. The keys of a widely used form
/// then propose only a few records, and the keys that are particular to the record propose the others. The same in every store.
pub const POSTINGS_PER_COMMON_KEY: usize = 16;
/// Largest number of candidates of a query that are verified. The same in every store.
pub const MAX_CANDIDATES: usize = 256;

/// Largest number of posting keys of a query that are looked up; see [`looked_up`]. The presets make some hundred keys at most. Each key may
/// propose [`POSTINGS_PER_KEY`] records. The same in every store.
pub const MAX_KEYS: usize = 4_096;

/// Returns the posting keys of a query that are looked up. If there are more than [`MAX_KEYS`], these are the first keys of each channel, the
/// same number for each channel. The second value is true if some keys are left out.
pub fn looked_up(keys: &[PostingKey]) -> (impl Iterator<Item = &PostingKey>, bool) {
    let cut = keys.len() > MAX_KEYS;
    let share = if cut { MAX_KEYS / by_channel(keys).count().clamp(1, MAX_KEYS) } else { MAX_KEYS };
    (by_channel(keys).flat_map(move |keys| keys.iter().take(share)).take(MAX_KEYS), cut)
}

fn by_channel(keys: &[PostingKey]) -> impl Iterator<Item = &[PostingKey]> {
    keys.chunk_by(|a, b| a.channel == b.channel)
}

/// Counts the keys and the common keys of a query, by channel. The counts decide how many records a common key proposes.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommonKeys([(u16, u16); 16]);

impl CommonKeys {
    /// Counts a key of the channel `via` that `postings` records have. Returns true if the key is common.
    pub fn note(&mut self, via: Via, postings: usize) -> bool {
        let (keys, common) = &mut self.0[via.0.trailing_zeros() as usize & 15];
        let is_common = postings > POSTINGS_PER_KEY;
        *keys += 1;
        *common += u16::from(is_common);
        is_common
    }

    /// Returns how many records a common key of the channel `via` proposes. All keys of the query must have been counted before.
    pub fn limit(&self, via: Via) -> usize {
        let (keys, common) = self.0[via.0.trailing_zeros() as usize & 15];
        if 2 * common <= keys { POSTINGS_PER_COMMON_KEY } else { POSTINGS_PER_KEY }
    }
}

/// Returns the weight of a shared key that `postings` records have: 1/min(`postings`, [`POSTINGS_PER_KEY`]), as an integer in units of 2^-40, so
/// that sums do not depend on the order of addition. A Simhash match weighs as much as a key of one record.
pub fn weight(postings: usize) -> u64 {
    (1 << 40) / postings.clamp(1, POSTINGS_PER_KEY) as u64
}

/// The number of a record in the index of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// The set of sources that proposed a candidate: one bit for each channel, one for the exact stage, one for decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Via(u16);

impl Via {
    /// The exact stage.
    pub const EXACT: Self = Self(1 << 15);
    /// A person's decision.
    pub const DECISION: Self = Self(1 << 14);

    /// The channel at this position of the settings.
    pub fn channel(position: ChannelPosition) -> Self {
        debug_assert!(position.0 < 14, "channels are few");
        Self(1 << position.0)
    }

    /// Returns the union of both sets.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if this set contains all sources of `other`.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The order in which a key proposes its records, and in which records of equal weight are ranked. Near fingerprints are always proposed in
/// the order of [`ProposalOrder::EarliestFirst`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProposalOrder {
    /// The earliest records first: the original of many copies is among them.
    #[default]
    EarliestFirst,
    /// The latest records first. For a collection in which old records (`match.days`) or closed records (`match.closed`) do not match: the
    /// earliest records of a common key are of no use there.
    LatestFirst,
}

impl ProposalOrder {
    /// Returns the order of a generation with these settings.
    pub fn of(settings: &Settings) -> Self {
        let MatchScope { days, closed, .. } = &settings.scope;
        if days.is_some() || !closed.is_empty() { Self::LatestFirst } else { Self::EarliestFirst }
    }

    /// Calls `each` with the first `limit` of some slots, which ascend.
    fn first(self, slots: impl DoubleEndedIterator<Item = u32>, limit: usize, each: impl FnMut(u32)) {
        match self {
            Self::EarliestFirst => slots.take(limit).for_each(each),
            Self::LatestFirst => slots.rev().take(limit).for_each(each),
        }
    }

    /// Returns a number for a slot that ascends in this order.
    fn place(self, slot: u32) -> u32 {
        match self {
            Self::EarliestFirst => slot,
            Self::LatestFirst => !slot,
        }
    }
}

/// A query to the index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lookup<'a> {
    /// The key of the digest, for the exact stage.
    pub digest_key: Option<u64>,
    /// The fingerprints to find by Hamming distance.
    pub hamming: Option<HammingRange>,
    /// The posting keys.
    pub keys: &'a [PostingKey],
    /// The order of the proposals.
    pub order: ProposalOrder,
}

impl<'a> Lookup<'a> {
    /// Makes the query that finds candidates for a signed record.
    pub fn of(signed: &'a Signed, simhash: Option<SimhashChannel>, order: ProposalOrder) -> Self {
        Self {
            digest_key: Some(signed.digest.key()),
            hamming: HammingRange::of(signed, simhash),
            keys: &signed.keys,
            order,
        }
    }
}

/// A Hamming ball: all fingerprints within a radius of one fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HammingRange {
    /// The fingerprint in the centre.
    pub centre: Fingerprint,
    /// The channel, which sets the radius.
    pub within: SimhashChannel,
}

impl HammingRange {
    /// Makes the ball around the fingerprint of a signed record. `None` if the record has no fingerprint or the profile has no Simhash channel.
    pub fn of(signed: &Signed, simhash: Option<SimhashChannel>) -> Option<Self> {
        Some(Self { centre: signed.fingerprint()?, within: simhash? })
    }

    /// True if the ball contains the fingerprint.
    pub fn contains(&self, fingerprint: Fingerprint) -> bool {
        self.centre.distance(fingerprint) <= self.within.radius.0
    }
}

/// A record that the index proposes as a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// The slot of the record.
    pub slot: Slot,
    /// The seq of the record.
    pub seq: Seq,
    /// The sources that proposed the record.
    pub via: Via,
    /// The fingerprint of the record, if it has one.
    pub fingerprint: Option<Fingerprint>,
}

/// The proposals of a lookup, best first. Exact proposals come first; the others are ordered by Σ 1/min(number of records,
/// [`POSTINGS_PER_KEY`]) over the shared keys (a Simhash match counts 1), and if the sums are equal, in the [`ProposalOrder`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Proposals {
    /// At most [`MAX_CANDIDATES`] proposals, and in addition at most [`POSTINGS_PER_KEY`] exact proposals, which need no verification.
    pub items: Vec<Proposal>,
    /// True if a limit left out proposals.
    pub truncated: bool,
}
