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
//! ([`Queue`]); only other instances are left to conflict with. They stand in line for all their latches from the same moment on,
//! so that those with a latch in common go in the order in which they came, and nobody waits in a circle.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use super::documents::{self, Number, SignatureDocument};
use super::retry::Deadline;
use doppel_core::record::RecordId;
use doppel_core::schemes::hash::city64_bytes;
use doppel_core::schemes::probes;
use doppel_core::schemes::profile::{Digest, Signed};
use doppel_core::verdict::Fingerprint;
use doppel_store::decisions::RecordPair;
use doppel_store::{GenerationId, Result, StoreError};

const FOLD: u64 = (1 << 20) - 1;
/// Blocks are 0 to 2^18 − 1.
const DIGESTS: i32 = 1 << 20;
const KEYS: i32 = 2 << 20;
/// Of no generation in particular: decisions hold in all of them.
const PAIRS: Latch = (0, 3 << 20);
/// Only stood in line for: the database keeps ids apart by itself.
const IDS: Latch = (0, 4 << 20);

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
        let Some(pair) = RecordPair::new(one.clone(), other.clone()) else { return };
        // No id holds a control character.
        self.extend(PAIRS.0, [folded(PAIRS, &format!("{}\0{}", pair.a(), pair.b()))]);
    }

    /// Adds those of another registration.
    pub(super) fn add_all(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
        self.0.sort_unstable();
        self.0.dedup();
    }

    fn extend(&mut self, generation: GenerationId, numbers: impl IntoIterator<Item = i32>) {
        self.0.extend(numbers.into_iter().map(|number| (generation, number)));
        self.0.sort_unstable();
        self.0.dedup();
    }
}

/// The number of `text` from `first` on.
fn folded((_, first): Latch, text: &str) -> i32 {
    first + (city64_bytes(text.as_bytes()) & FOLD) as i32
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
type Waiting = Arc<Mutex<HashMap<Name, Arc<tokio::sync::Mutex<()>>>>>;

/// Turns of this process at latches.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Waiting,
}

/// A place in the queue, and the turn once it has come; dropping it lets the next ones go on.
pub(super) struct Turn {
    held: Vec<(Name, Claim)>,
    waiting: Waiting,
}

/// A latch, or a place in the line for it.
enum Claim {
    Held(#[expect(dead_code, reason = "kept until it is dropped")] OwnedMutexGuard<()>),
    Awaited(Pin<Box<dyn Future<Output = OwnedMutexGuard<()>> + Send + Sync>>),
}

impl Claim {
    fn of(mutex: &Arc<tokio::sync::Mutex<()>>) -> Self {
        if let Ok(guard) = Arc::clone(mutex).try_lock_owned() {
            return Self::Held(guard);
        }
        // Asked for once, it stands in line. Tokio would not let a task ask for very many at a time.
        let mut awaited = Box::pin(tokio::task::unconstrained(Arc::clone(mutex).lock_owned()));
        match awaited.as_mut().now_or_never() {
            Some(guard) => Self::Held(guard),
            None => Self::Awaited(awaited),
        }
    }
}

impl Queue {
    /// Stands in line for all `latches` and for the id: whoever comes later and wants one of them comes after.
    pub(super) fn join(&self, number: Number, latches: &Latches, id: &RecordId) -> Turn {
        let own = (IDS.0, folded(IDS, id.as_str()));
        let mut waiting = self.waiting.lock();
        let names = latches.0.iter().copied().chain([own]).map(|latch| (number, latch));
        let held = names.map(|name| (name, Claim::of(waiting.entry(name).or_default()))).collect();
        Turn { held, waiting: Arc::clone(&self.waiting) }
    }
}

impl Turn {
    /// Waits until nobody is ahead, at most until the deadline. First come, first served.
    pub(super) async fn come(&mut self, deadline: Deadline) -> Result<()> {
        for (_, claim) in &mut self.held {
            if let Claim::Awaited(awaited) = claim {
                let guard = tokio::time::timeout_at(deadline.at(), awaited.as_mut()).await;
                *claim = Claim::Held(guard.map_err(|_| StoreError::Unavailable {
                    reason: "too many registrations of the same passage are waiting".into(),
                    retry_after_s: 1,
                })?);
            }
        }
        Ok(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        for (name, claim) in self.held.drain(..) {
            drop(claim);
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

    fn latches(generation: GenerationId, numbers: &[i32]) -> Latches {
        let mut latches = Latches::default();
        latches.extend(generation, numbers.iter().copied());
        latches
    }

    async fn turn(queue: &Queue, latches: Latches, id: &str) -> Result<Turn> {
        let mut turn = queue.join(1, &latches, &RecordId::new(id).unwrap());
        turn.come(Deadline::after(Duration::from_millis(20))).await.map(|()| turn)
    }

    #[tokio::test]
    async fn a_latch_is_held_by_one_and_forgotten_when_nobody_wants_it() {
        let queue = Queue::default();
        let first = turn(&queue, latches(1, &[3, 5]), "a").await.unwrap();
        assert!(turn(&queue, latches(1, &[5, 9]), "b").await.is_err());
        assert!(turn(&queue, latches(1, &[7]), "a").await.is_err(), "the same id");
        assert!(turn(&queue, latches(2, &[5]), "b").await.is_ok());
        drop(first);
        let again = turn(&queue, latches(1, &[3, 5, 9]), "a").await.unwrap();
        drop(again);
        assert!(queue.waiting.lock().is_empty());
    }

    #[tokio::test]
    async fn turns_come_in_the_order_of_joining_whichever_latch_is_free_first() {
        let queue = Queue::default();
        let soon = || Deadline::after(Duration::from_millis(20));
        let join = |numbers: &[i32], id: &str| queue.join(1, &latches(1, numbers), &RecordId::new(id).unwrap());
        // More than tokio lets a task ask for at a time.
        let many: Vec<i32> = (0..400).collect();
        let first = join(&many, "a");
        let (mut second, mut third, mut fourth) = (join(&many, "b"), join(&[399, 500], "c"), join(&[0, 500], "d"));
        assert!(third.come(soon()).await.is_err(), "the second stands before it");
        drop(first);
        assert!(third.come(soon()).await.is_err());
        second.come(soon()).await.unwrap();
        drop(second);
        third.come(soon()).await.unwrap();
        assert!(fourth.come(soon()).await.is_err());
        drop(third);
        fourth.come(soon()).await.unwrap();
        drop(fourth);
        assert!(queue.waiting.lock().is_empty());
    }
}
