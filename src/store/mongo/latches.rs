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
//! Conflicts cost a whole attempt, so transactions of this process queue for their latches before they begin
//! ([`Queue`]); only other instances are left to conflict with.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use super::documents::{self, Number};
use super::retry::Deadline;
use crate::schemes::probes;
use crate::schemes::profile::Digest;
use crate::store::{GenerationId, Result, StoreError};
use crate::verdict::Fingerprint;

const FOLD: u64 = (1 << 20) - 1;
/// Blocks are 0 to 2^18 − 1.
const DIGESTS: i32 = 1 << 20;
const KEYS: i32 = 2 << 20;

/// Stands for all fingerprints where the radius is great.
const ALL_FINGERPRINTS: i32 = 1 << 18;
/// Greatest radius whose probed blocks are latched one by one: 188 of them.
const MAX_LATCHED_RADIUS: u8 = 8;

/// The latches of what a record puts into the index, ascending, each once. `radius` is that of the `simhash` channel.
pub(super) fn latches(
    digest: &Digest,
    fingerprint: Option<Fingerprint>,
    radius: u8,
    keys: impl Iterator<Item = u64>,
) -> Vec<i32> {
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
    found.sort_unstable();
    found.dedup();
    found
}

type Name = (Number, GenerationId, i32);

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
    /// Waits for all `latches` (ascending), at most until the deadline. First come, first served.
    pub(super) async fn turn(
        &self,
        number: Number,
        generation: GenerationId,
        latches: &[i32],
        deadline: Deadline,
    ) -> Result<Turn> {
        let mut turn = Turn { held: Vec::with_capacity(latches.len()), waiting: Arc::clone(&self.waiting) };
        for &latch in latches {
            let name = (number, generation, latch);
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
            let share = |x: &[i32], y: &[i32]| x.iter().any(|latch| y.contains(latch));
            let of = |digest: usize, fingerprint: Option<u64>, keys: &[u64]| {
                latches(&Digest(digests[digest]), fingerprint.map(Fingerprint), radius, keys.iter().copied())
            };
            prop_assert!(share(&of(0, Some(a), &[]), &of(1, Some(b), &[])));
            prop_assert!(share(&of(0, None, &[key]), &of(1, None, &[other, key])));
            prop_assert!(share(&of(0, None, &[key]), &of(0, Some(a), &[other])));
            prop_assert!(of(0, Some(a), &[key, other]).is_sorted_by(|x, y| x < y));
        }
    }

    #[tokio::test]
    async fn a_latch_is_held_by_one_and_forgotten_when_nobody_wants_it() {
        let queue = Queue::default();
        let soon = || Deadline::after(Duration::from_millis(20));
        let first = queue.turn(1, 1, &[3, 5], soon()).await.unwrap();
        assert!(queue.turn(1, 1, &[5, 9], soon()).await.is_err());
        assert!(queue.turn(1, 2, &[5], soon()).await.is_ok());
        drop(first);
        let again = queue.turn(1, 1, &[3, 5, 9], soon()).await.unwrap();
        drop(again);
        assert!(queue.waiting.lock().is_empty());
    }
}
