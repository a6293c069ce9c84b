//! Latches: what makes registrations that could match take turns.
//!
//! Every transaction that changes the index first increments the latches of all that it changes: two transactions with a
//! latch in common conflict, so the later one sees what the earlier one did. Two records that match share a
//! block value, a digest or a posting key, hence a latch; digests and keys are folded to 20 bits, which only makes a few
//! more take turns than need to. Taken in ascending order, in one command.
//!
//! Beyond radius 3 matching fingerprints need not share a block value: there a registration takes the latches of all blocks that
//! it probes, since one of these is a block of any match. Where that would be hundreds (beyond radius 8) one latch stands for
//! all fingerprints of the generation, and registrations of the whole generation take turns.
//!
//! A transaction takes the latches of every generation that it files in: one that still takes the old generation for the live
//! one has a latch in common with one that already looks up the new. Records that match by decision share no key, but
//! the latch of their pair.
//!
//! Conflicts cost a whole attempt, so transactions of this process queue for their latches before they begin
//! ([`Queue`]); only other instances are left to conflict with.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use super::documents::{self, Number, SignatureDocument};
use super::retry::Deadline;
use crate::record::RecordId;
use crate::schemes::hash::city64_bytes;
use crate::schemes::probes;
use crate::schemes::profile::{Digest, Signed};
use crate::store::decisions::Pair;
use crate::store::{GenerationId, Result, StoreError};
use crate::verdict::Fingerprint;

const FOLD: u64 = (1 << 20) - 1;
/// Blocks are 0 to 2^18 − 1.
const DIGESTS: i32 = 1 << 20;
const KEYS: i32 = 2 << 20;
/// Of no generation in particular: decisions hold in all of them.
const PAIRS: Latch = (0, 3 << 20);

/// A latch: its generation and its number there.
pub(super) type Latch = (GenerationId, i32);

/// Stands for all fingerprints where the radius is great.
const ALL_FINGERPRINTS: i32 = 1 << 18;
/// Greatest radius whose probed blocks are latched one by one: 188 of them.
const MAX_LATCHED_RADIUS: u8 = 8;

/// Latches to be taken, ascending, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Latches(Vec<Latch>);

impl Latches {
    pub(super) fn as_slice(&self) -> &[Latch] {
        &self.0
    }

    /// Adds those of what a record signed as `signed` puts into a generation. `radius` is that of its `simhash` channel.
    pub(super) fn add(&mut self, generation: GenerationId, radius: u8, signed: &Signed) {
        let keys = signed.keys.iter().map(|key| key.key);
        self.extend(generation, numbers(&signed.digest, signed.fingerprint(), radius, keys));
    }

    /// Adds those of what a generation has filed of a record.
    pub(super) fn add_filed(&mut self, radius: u8, filed: &SignatureDocument) {
        let keys = filed.keys.iter().map(|key| key.key);
        self.extend(filed.generation, numbers(&filed.digest, filed.fingerprint, radius, keys));
    }

    /// Adds that of two records that match by decision.
    pub(super) fn add_pair(&mut self, one: &RecordId, other: &RecordId) {
        let Some(pair) = Pair::new(one.clone(), other.clone()) else { return };
        // No id holds a control character.
        let hash = city64_bytes(format!("{}\0{}", pair.a(), pair.b()).as_bytes());
        let (generation, first) = PAIRS;
        self.extend(generation, [first + (hash & FOLD) as i32]);
    }

    fn extend(&mut self, generation: GenerationId, numbers: impl IntoIterator<Item = i32>) {
        self.0.extend(numbers.into_iter().map(|number| (generation, number)));
        self.0.sort_unstable();
        self.0.dedup();
    }
}

/// The numbers of the latches of what a record puts into one generation.
fn numbers(digest: &Digest, fingerprint: Option<Fingerprint>, radius: u8, keys: impl Iterator<Item = u64>) -> Vec<i32> {
    let mut found = vec![DIGESTS + (digest.key() & FOLD) as i32];
    match fingerprint {
        Some(_) if radius > MAX_LATCHED_RADIUS => found.push(ALL_FINGERPRINTS),
        Some(fingerprint) => {
            found.extend(documents::buckets(fingerprint));
            let probes = probes::probes(radius).iter();
            found.extend(probes.map(|probe| documents::bucket(probe.block, probe.value(fingerprint.0))));
        }
        None => {}
    }
    found.extend(keys.map(|key| KEYS + (key & FOLD) as i32));
    found
}

type Name = (Number, Latch);

/// Turns of this process at latches.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Arc<Mutex<HashMap<Name, Arc<tokio::sync::Mutex<()>>>>>,
}

/// Latches held in the queue; dropping it lets the next ones go on.
pub(super) struct Turn {
    held: Vec<(Name, Option<OwnedMutexGuard<()>>)>,
    waiting: Arc<Mutex<HashMap<Name, Arc<tokio::sync::Mutex<()>>>>>,
}

impl Queue {
    /// Waits for all `latches`, at most until the deadline. First come, first served.
    pub(super) async fn turn(&self, number: Number, latches: &Latches, deadline: Deadline) -> Result<Turn> {
        let mut turn = Turn { held: Vec::with_capacity(latches.0.len()), waiting: Arc::clone(&self.waiting) };
        for &latch in &latches.0 {
            let name = (number, latch);
            let mutex = Arc::clone(self.waiting.lock().entry(name).or_default());
            // Noted before it is waited for, so that a caller that gives up leaves nothing behind.
            turn.held.push((name, None));
            let guard = tokio::time::timeout_at(deadline.at(), mutex.lock_owned()).await;
            let guard = guard.map_err(|_| StoreError::Unavailable {
                reason: "too many registrations of the same passage are waiting".into(),
                retry_after_s: 1,
            })?;
            if let Some((_, held)) = turn.held.last_mut() {
                *held = Some(guard);
            }
        }
        Ok(turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        for (name, guard) in self.held.drain(..) {
            drop(guard);
            // Whoever waits has a copy of its own; copies are only made under this lock.
            if waiting.get(&name).is_some_and(|mutex| Arc::strong_count(mutex) == 1) {
                waiting.remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn records_that_share_a_block_a_digest_or_a_key_share_a_latch(
            a: u64, radius in 0..=15u8, flips in prop::collection::vec(0..64u32, 0..=15), key: u64, other: u64,
            digests: [[u8; 32]; 2],
        ) {
            let b = flips.iter().take(radius.into()).fold(a, |bits, flip| bits ^ (1 << flip));
            let share = |x: &[Latch], y: &[Latch]| x.iter().any(|latch| y.contains(latch));
            let of = |digest: usize, fingerprint: Option<u64>, keys: &[u64]| {
                let digest = Digest(digests[digest]);
                let mut latches = Latches::default();
                latches.extend(1, numbers(&digest, fingerprint.map(Fingerprint), radius, keys.iter().copied()));
                latches.0
            };
            prop_assert!(share(&of(0, Some(a), &[]), &of(1, Some(b), &[])));
            prop_assert!(share(&of(0, None, &[key]), &of(1, None, &[other, key])));
            prop_assert!(share(&of(0, None, &[key]), &of(0, Some(a), &[other])));
            prop_assert!(of(0, Some(a), &[key, other]).is_sorted_by(|x, y| x < y));
        }
    }

    #[test]
    fn a_pair_has_one_latch_whichever_end_is_registered() {
        let id = |text: &str| RecordId::new(text).unwrap();
        let of = |one: &str, other: &str| {
            let mut latches = Latches::default();
            latches.add_pair(&id(one), &id(other));
            latches
        };
        assert_eq!(of("a", "b"), of("b", "a"));
        assert_ne!(of("a", "b"), of("a", "c"));
        assert!(of("a", "a").as_slice().is_empty());
    }

    #[tokio::test]
    async fn a_latch_is_held_by_one_and_forgotten_when_nobody_wants_it() {
        let queue = Queue::default();
        let soon = || Deadline::after(Duration::from_millis(20));
        let of = |generation, numbers: &[i32]| {
            let mut latches = Latches::default();
            latches.extend(generation, numbers.iter().copied());
            latches
        };
        let first = queue.turn(1, &of(1, &[3, 5]), soon()).await.unwrap();
        assert!(queue.turn(1, &of(1, &[5, 9]), soon()).await.is_err());
        assert!(queue.turn(1, &of(2, &[5]), soon()).await.is_ok());
        drop(first);
        let again = queue.turn(1, &of(1, &[3, 5, 9]), soon()).await.unwrap();
        drop(again);
        assert!(queue.waiting.lock().is_empty());
    }
}
