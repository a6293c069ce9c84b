//! Reads keys and values in order. It skips damages if the store was opened so that it skips damages.

use std::collections::BTreeSet;
use std::sync::Arc;

use fjall::{Keyspace, KvPair, Readable, Snapshot};
use parking_lot::Mutex;

use super::errors::io;
use super::keyspaces::Space;
use super::layout;
use doppel_store::{CollectionNumber, Result, Seq};

/// Number of seqs that are tried if the end of the damage is unknown: more than a block of a table contains.
const TRIED: usize = 1_024;

/// The damages that were skipped.
#[derive(Clone, Debug, Default)]
pub struct Damages(Arc<Mutex<BTreeSet<NotedDamage>>>);

/// A damage: its collection and, if it is known, its seq.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NotedDamage {
    pub(super) number: CollectionNumber,
    pub(super) what: DamageKind,
    pub(super) seq: Option<Seq>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DamageKind {
    /// An entry of a keyspace.
    In(Space),
    /// Name and settings of a collection.
    Name,
    /// Number of records of a collection, and its next seq.
    Count,
}

impl Damages {
    pub(super) fn note(&self, space: Space, number: CollectionNumber, seq: Option<Seq>) {
        self.0.lock().insert(NotedDamage { number, what: DamageKind::In(space), seq });
    }

    /// Notes a damage that concerns a collection as a whole.
    pub(super) fn note_collection(&self, what: DamageKind, number: CollectionNumber) {
        self.0.lock().insert(NotedDamage { number, what, seq: None });
    }

    /// Returns all damages, each once.
    pub(super) fn all(&self) -> Vec<NotedDamage> {
        self.0.lock().iter().copied().collect()
    }
}

/// The keyspace that a scan reads, and the place where it notes damages.
pub(super) struct ScanSource {
    pub(super) view: Arc<Snapshot>,
    pub(super) keyspace: Keyspace,
    pub(super) space: Space,
    pub(super) damages: Damages,
}

/// An iterator over keys and values in order.
pub(super) struct Scan {
    found: Option<fjall::Iter>,
    skipping: Option<DamageSkipper>,
}

/// The state for continuing after a damage.
struct DamageSkipper {
    view: Arc<Snapshot>,
    keyspace: Keyspace,
    space: Space,
    damages: Damages,
    number: CollectionNumber,
    /// Present if the keys end with a seq.
    by_seq: Option<BySeq>,
}

struct BySeq {
    /// The part of each key before the seq.
    before: Vec<u8>,
    /// The seq at which to continue.
    next: Seq,
    /// The first seq that no record has yet; `None` if it cannot be read.
    end: Option<Seq>,
    /// The first key behind the range.
    to: Vec<u8>,
}

impl Scan {
    /// Returns a scan that ends with the first error.
    pub(super) fn strict(found: fjall::Iter) -> Self {
        Self { found: Some(found), skipping: None }
    }

    /// Returns a scan that notes damages and continues behind them, up to the seq `end` or the key `to`. If keys contain no seq, it
    /// ends at the first damage. Without `end`, it continues where the tables can be read again.
    pub(super) fn skipping(found: fjall::Iter, source: ScanSource, from: &[u8], to: &[u8], end: Option<Seq>) -> Self {
        let ScanSource { view, keyspace, space, damages } = source;
        let length = match space {
            Space::Records => Some(4),
            Space::Signatures | Space::Pairs => Some(8),
            _ => None,
        };
        let by_seq = length.and_then(|length| {
            let (before, rest) = from.split_at_checked(length)?;
            // No record has seq 0.
            let next = rest.first_chunk().copied().map_or(1, u64::from_be_bytes).max(1);
            Some(BySeq { before: before.to_vec(), next: Seq(next), end, to: to.to_vec() })
        });
        let number = by_seq.as_ref().and_then(|_| layout::number_of_key(from)).unwrap_or_default();
        Self { found: Some(found), skipping: Some(DamageSkipper { view, keyspace, space, damages, number, by_seq }) }
    }
}

impl Iterator for Scan {
    type Item = Result<KvPair>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(found) = &mut self.found {
            match (found.next()?.into_inner(), &mut self.skipping) {
                (Ok(pair), Some(DamageSkipper { by_seq: Some(by_seq), .. })) => {
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

impl DamageSkipper {
    /// Returns the next pair that can be read, and the iterator behind it.
    fn step(&mut self) -> Option<(KvPair, fjall::Iter)> {
        let Some(by_seq) = &mut self.by_seq else {
            self.damages.note(self.space, self.number, None);
            return None;
        };
        let end = by_seq.end.unwrap_or_else(|| by_seq.end_of_damage(&self.view, &self.keyspace));
        while by_seq.next < end {
            let seq = by_seq.next;
            let key = by_seq.key(by_seq.next);
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

    /// Finds by bisection the first seq from which reading succeeds again, and returns the seq behind it. Each seq up to the returned seq
    /// is then tried. If the damage reaches the end of the range, [`TRIED`] seqs are tried. At most 65 reads of a block.
    fn end_of_damage(&self, view: &Snapshot, keyspace: &Keyspace) -> Seq {
        let wanted_below = self.to.strip_prefix(&self.before[..]).and_then(|rest| rest.first_chunk().copied());
        let last = wanted_below.map_or(Seq::MAX, |seq| Seq(u64::from_be_bytes(seq)).before(1));
        if self.next >= last || self.is_damaged_from(view, keyspace, last) {
            return self.next.after(TRIED).min(last.next());
        }
        let mut low = self.next;
        let mut high = last;
        while low < high {
            let middle = Seq(low.0 + (high.0 - low.0) / 2);
            if self.is_damaged_from(view, keyspace, middle) { low = middle.next() } else { high = middle }
        }
        low.next()
    }

    /// True if the first read from `seq` on fails.
    fn is_damaged_from(&self, view: &Snapshot, keyspace: &Keyspace, seq: Seq) -> bool {
        let first = view.range(keyspace, self.key(seq)..self.to.clone()).next();
        first.is_some_and(|first| first.into_inner().is_err())
    }
}
