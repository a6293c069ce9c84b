//! Reads keys and values in order; skips what cannot be read, if the store was opened so.

use std::collections::BTreeSet;
use std::sync::Arc;

use fjall::{Keyspace, KvPair, Readable, Snapshot};
use parking_lot::Mutex;

use super::errors::io;
use super::keyspaces::Space;
use super::layout;
use doppel_store::{CollectionNumber, Result, Seq};

/// Seqs that are tried where nothing says how far the damage goes: more than a block of a table has.
const TRIED: usize = 1_024;

/// What could not be read and was skipped.
#[derive(Clone, Debug, Default)]
pub struct Damages(Arc<Mutex<BTreeSet<Damage>>>);

/// Something that cannot be read: its collection and, where it is known, its seq.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Damage {
    pub(super) number: CollectionNumber,
    pub(super) what: Damaged,
    pub(super) seq: Option<Seq>,
}

/// What cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Damaged {
    /// Something in a keyspace.
    In(Space),
    /// Name and settings of a collection.
    Name,
    /// How many records a collection has, and the seq of its next one.
    Count,
}

impl Damages {
    pub(super) fn note(&self, space: Space, number: CollectionNumber, seq: Option<Seq>) {
        self.0.lock().insert(Damage { number, what: Damaged::In(space), seq });
    }

    /// Notes what cannot be read of a collection as a whole.
    pub(super) fn note_collection(&self, what: Damaged, number: CollectionNumber) {
        self.0.lock().insert(Damage { number, what, seq: None });
    }

    /// All of them, each once.
    pub(super) fn all(&self) -> Vec<Damage> {
        self.0.lock().iter().copied().collect()
    }
}

/// Keys and values in order.
pub(super) struct Scan {
    found: Option<fjall::Iter>,
    skipping: Option<Skipping>,
}

/// How to continue after what cannot be read.
struct Skipping {
    view: Arc<Snapshot>,
    keyspace: Keyspace,
    space: Space,
    damages: Damages,
    number: CollectionNumber,
    /// Where keys end with a seq.
    by_seq: Option<BySeq>,
}

struct BySeq {
    /// What precedes the seq in each key.
    before: Vec<u8>,
    /// The seq to continue with.
    next: Seq,
    /// The first that no record has yet; `None` where that cannot be read.
    end: Option<Seq>,
    /// The first key not wanted.
    to: Vec<u8>,
}

impl Scan {
    /// Ends with the first error.
    pub(super) fn strict(found: fjall::Iter) -> Self {
        Self { found: Some(found), skipping: None }
    }

    /// Notes what cannot be read and continues after it, up to the seq `end` or the key `to`; it ends there where keys have no seq.
    /// Without `end` it continues where the tables can be read again.
    pub(super) fn skipping(
        found: fjall::Iter,
        (view, keyspace): (Arc<Snapshot>, Keyspace),
        (space, damages): (Space, Damages),
        (from, to): (&[u8], &[u8]),
        end: Option<Seq>,
    ) -> Self {
        let length = match space {
            Space::Records => Some(4),
            Space::Signatures | Space::Pairs => Some(8),
            _ => None,
        };
        let by_seq = length.and_then(|length| {
            let (before, rest) = from.split_at_checked(length)?;
            // There is no seq 0.
            let next = rest.first_chunk().copied().map_or(1, u64::from_be_bytes).max(1);
            Some(BySeq { before: before.to_vec(), next: Seq(next), end, to: to.to_vec() })
        });
        let number = by_seq.as_ref().and_then(|_| layout::number_of_key(from)).unwrap_or_default();
        Self { found: Some(found), skipping: Some(Skipping { view, keyspace, space, damages, number, by_seq }) }
    }
}

impl Iterator for Scan {
    type Item = Result<KvPair>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(found) = &mut self.found {
            match (found.next()?.into_inner(), &mut self.skipping) {
                (Ok(pair), Some(Skipping { by_seq: Some(by_seq), .. })) => {
                    by_seq.next = layout::seq_of_key(&pair.0).map_or(Seq::MAX, Seq::next);
                    return Some(Ok(pair));
                }
                (Err(_), Some(_)) => self.found = None,
                (read, _) => return Some(read.map_err(io)),
            }
        }
        let (pair, rest) = self.skipping.as_mut()?.step()?;
        self.found = Some(rest);
        Some(Ok(pair))
    }
}

impl Skipping {
    /// The next that can be read, and the way on from there.
    fn step(&mut self) -> Option<(KvPair, fjall::Iter)> {
        let Some(by_seq) = &mut self.by_seq else {
            self.damages.note(self.space, self.number, None);
            return None;
        };
        let end = by_seq.end.unwrap_or_else(|| by_seq.end_of_damage(&self.view, &self.keyspace));
        while by_seq.next < end {
            let (seq, key) = (by_seq.next, by_seq.key(by_seq.next));
            if key >= by_seq.to {
                return None;
            }
            let mut rest = self.view.range(&self.keyspace, key.clone()..by_seq.to.clone());
            if let Ok(pair) = rest.next()?.into_inner() {
                by_seq.next = layout::seq_of_key(&pair.0).map_or(Seq::MAX, Seq::next);
                return Some((pair, rest));
            }
            by_seq.next = seq.next();
            match self.view.get(&self.keyspace, &key) {
                Ok(Some(value)) => {
                    let rest = self.view.range(&self.keyspace, by_seq.key(by_seq.next)..by_seq.to.clone());
                    return Some(((key.into(), value), rest));
                }
                Ok(None) => {}
                Err(_) => self.damages.note(self.space, self.number, Some(seq)),
            }
        }
        if by_seq.end.is_none() {
            self.damages.note(self.space, self.number, None);
        }
        None
    }
}

impl BySeq {
    fn key(&self, seq: Seq) -> Vec<u8> {
        [&self.before[..], &seq.0.to_be_bytes()].concat()
    }

    /// The seq up to which it is worth trying each: just behind the first, found by bisection, from which reading can begin again;
    /// [`TRIED`] on where the damage reaches the last key wanted. At most 65 reads of a block.
    fn end_of_damage(&self, view: &Snapshot, keyspace: &Keyspace) -> Seq {
        let is_damaged = |seq| {
            let first = view.range(keyspace, self.key(seq)..self.to.clone()).next();
            first.is_some_and(|first| first.into_inner().is_err())
        };
        let wanted_below = self.to.strip_prefix(&self.before[..]).and_then(|rest| rest.first_chunk().copied());
        let last = wanted_below.map_or(Seq::MAX, |seq| Seq(u64::from_be_bytes(seq)).before(1));
        if self.next >= last || is_damaged(last) {
            return self.next.after(TRIED).min(last.next());
        }
        let (mut low, mut high) = (self.next, last);
        while low < high {
            let middle = Seq(low.0 + (high.0 - low.0) / 2);
            if is_damaged(middle) { low = middle.next() } else { high = middle }
        }
        low.next()
    }
}
