//! The in-memory index of one generation.
//!
//! A record takes a [`Slot`], in seq order, so that "earliest" means "lowest slot". Its fingerprint is filed under four
//! 16-bit blocks (`block`), its posting keys and its digest in one posting index (`posting`). Lookups run beside
//! inserts; one writer at a time (the store's sequencer) changes the index.
//!
//! ```text
//! generation       insert, remove, propose: the parts together
//! rank             adds up what the parts propose, and applies the limits
//! load             fills an index from stored entries, on all cores
//! slots            slot → seq, fingerprint, live                 16 bytes a record
//! block            fingerprint → slots, any radius 0 to 15       40 bytes a record and room to grow
//!   bucket         one value of one block: a run, or runs by further bits
//!   run            contiguous fingerprints, scanned
//!   probes         which buckets to look into, so that nothing within a radius is missed
//! posting          64-bit key → slots                            9 to 12 bytes a key and record
//!   table          one shard of it
//! locks            many locks, made when first written to
//! batched_locks    several of them at once, to wait for memory once
//!
//! join             all pairs of a batch of fingerprints
//!   distinct       sorted, equal ones together
//!   layers         a partition by all cores
//!   pieces         what to cut, and into what
//!   split          a partition by one thread, down to what is compared
//! single_pass      the baseline that it is measured against
//! groups           what hangs together by pairs, and how; of a generation or of a batch
//!   bridges        pairs on which a group hangs
//!   pieces         crowds that one such pair links are two groups
//!   group          what is said of a group
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

use crate::collection::{ChannelPosition, SimhashChannel};
use crate::numbers::Seq;
use crate::schemes::profile::{PostingKey, Signed};
use crate::verdict::Fingerprint;

/// A key proposes its this many earliest records: beyond that it is common. The same in every store.
pub const POSTINGS_PER_KEY: usize = 256;
/// ... and of a key that is common, this many, where at least half of the query's keys of that channel are not: a form that
/// thousands filled in then proposes some of them, and what is particular to the record the others. The same in every store.
pub const POSTINGS_PER_COMMON_KEY: usize = 16;
/// At most this many candidates of a query are verified. The same in every store.
pub const MAX_CANDIDATES: usize = 256;

/// At most this many posting keys of a query are looked up, see [`looked_up`]; presets make some hundred at most. Each
/// may propose [`POSTINGS_PER_KEY`] records. The same in every store.
pub const MAX_KEYS: usize = 4_096;

/// The posting keys of a query that are looked up: all, or, if they are more than [`MAX_KEYS`], the first of each channel,
/// as many of one as of the other. Also whether some are left out.
pub fn looked_up(keys: &[PostingKey]) -> (impl Iterator<Item = &PostingKey>, bool) {
    let channels = || keys.chunk_by(|a, b| a.channel == b.channel);
    let cut = keys.len() > MAX_KEYS;
    let share = if cut { MAX_KEYS / channels().count().clamp(1, MAX_KEYS) } else { MAX_KEYS };
    (channels().flat_map(move |keys| keys.iter().take(share)).take(MAX_KEYS), cut)
}

/// How many keys of each channel a query has, and how many of these are common: decides how many records these propose.
#[derive(Clone, Copy, Debug, Default)]
pub struct CommonKeys([(u16, u16); 16]);

impl CommonKeys {
    /// Notes a key of the channel `via` that `postings` records have; whether it is common.
    pub fn note(&mut self, via: Via, postings: usize) -> bool {
        let (keys, common) = &mut self.0[via.0.trailing_zeros() as usize & 15];
        let is_common = postings > POSTINGS_PER_KEY;
        *keys += 1;
        *common += u16::from(is_common);
        is_common
    }

    /// How many records a common key of the channel `via` proposes, once all keys are noted.
    pub fn limit(&self, via: Via) -> usize {
        let (keys, common) = self.0[via.0.trailing_zeros() as usize & 15];
        if 2 * common <= keys { POSTINGS_PER_COMMON_KEY } else { POSTINGS_PER_KEY }
    }
}

/// What a shared key with `postings` records counts in ranking: 1/min(`postings`, [`POSTINGS_PER_KEY`]), in units of 2^-40, so
/// that sums do not depend on the order of adding. A Simhash match counts as a key of one record.
pub fn weight(postings: usize) -> u64 {
    (1 << 40) / postings.clamp(1, POSTINGS_PER_KEY) as u64
}

/// A record's place in one generation's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub u32);

/// Which parts of the index proposed a candidate: one bit per channel, one for the exact stage, one for decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Via(u16);

impl Via {
    /// The exact stage.
    pub const EXACT: Self = Self(1 << 15);
    /// A person's decision.
    pub const DECISION: Self = Self(1 << 14);

    /// The channel at a position of the settings.
    pub fn channel(ChannelPosition(position): ChannelPosition) -> Self {
        debug_assert!(position < 14, "channels are few");
        Self(1 << position)
    }

    /// Both together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is in it.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What is looked up.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookup<'a> {
    /// Key of the digest, for the exact stage.
    pub digest_key: Option<u64>,
    /// Fingerprints near one.
    pub ball: Option<Ball>,
    /// Posting keys.
    pub keys: &'a [PostingKey],
}

impl<'a> Lookup<'a> {
    /// What is looked up for a signed record.
    pub fn of(signed: &'a Signed, simhash: Option<SimhashChannel>) -> Self {
        Self { digest_key: Some(signed.digest.key()), ball: Ball::of(signed, simhash), keys: &signed.keys }
    }
}

/// The fingerprints near one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ball {
    /// The one.
    pub centre: Fingerprint,
    /// How near, and which channel says so.
    pub within: SimhashChannel,
}

impl Ball {
    /// Around the fingerprint of a signed record, if it has one.
    pub fn of(signed: &Signed, simhash: Option<SimhashChannel>) -> Option<Self> {
        Some(Self { centre: signed.fingerprint()?, within: simhash? })
    }

    /// Whether a fingerprint lies in it.
    pub fn contains(&self, fingerprint: Fingerprint) -> bool {
        self.centre.distance(fingerprint) <= self.within.radius.0
    }
}

/// A record proposed by the index.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proposal {
    /// Its slot.
    pub slot: Slot,
    /// Its seq.
    pub seq: Seq,
    /// What proposed it.
    pub via: Via,
    /// Its fingerprint, if it has one.
    pub fingerprint: Option<Fingerprint>,
}

/// The proposals of a lookup, best first: exact ones, then by Σ 1/min(posting length, [`POSTINGS_PER_KEY`]) over the shared
/// keys (a Simhash match counts 1), ties by lowest seq.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Proposals {
    /// At most [`MAX_CANDIDATES`], besides at most [`POSTINGS_PER_KEY`] exact ones, which cost no verification.
    pub items: Vec<Proposal>,
    /// Whether a limit cut something off.
    pub truncated: bool,
}
