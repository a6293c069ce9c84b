//! Settling: what a change comes to when all before it have come to something, and what must be written for it.
//!
//! The writer does it, in line order, for as many changes as make a batch. Generations beside the live one are kept up here: a
//! record is filed in all of them, and leaves all of them, in the batch that stores or removes it.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::decisions;
use super::disk::{Disk, Op, Space};
use super::generations::keeps_signatures;
use super::keys;
use super::layout::{self, IndexEntry};
use super::line::{Collection, Fate, Leaving, Pending, Undo};
use super::writer::{Conclusion, Job, Outcome, Reply, Settlement};
use doppel_core::record::RecordId;
use doppel_store::{GenerationId, Registered, Result, Seq, StoreError};

/// A batch is closed when it holds this much: one sync of 8 MiB takes about as long as writing it, and a memtable of
/// 64 MiB holds several.
const MAX_BATCH_BYTES: usize = 8 << 20;
/// ... or this many changes, so that the first in it does not wait for long.
const MAX_BATCH_CHANGES: usize = 1024;

/// What happens to a change after its batch is published.
pub(super) struct After {
    pub(super) collection: Option<Arc<Collection>>,
    pub(super) undo: Undo,
    pub(super) answer: Box<dyn FnOnce(Option<StoreError>) + Send>,
}

/// The batch being built.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) ops: Vec<Op>,
    bytes: usize,
    pub(super) after: Vec<After>,
    /// Highest seq and change of count, per collection touched.
    pub(super) numbers: HashMap<u32, (Arc<Collection>, Seq, u64)>,
}

impl Batch {
    fn push(&mut self, op: Op) {
        self.bytes += op.bytes();
        self.ops.push(op);
    }

    fn count(&mut self, collection: &Arc<Collection>, seq: Seq, change: i64) {
        let start = || (Arc::clone(collection), 0, collection.count.load(Ordering::Relaxed));
        let entry = self.numbers.entry(collection.number).or_insert_with(start);
        entry.1 = entry.1.max(seq);
        entry.2 = entry.2.saturating_add_signed(change);
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MAX_BATCH_BYTES || self.after.len() >= MAX_BATCH_CHANGES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.after.is_empty()
    }

    /// Answers with `result` when the batch is published.
    fn answer(&mut self, collection: Option<Arc<Collection>>, undo: Undo, reply: Reply, result: Result<Outcome>) {
        self.after.push(After { collection, undo, answer: answer(reply, result) });
    }
}

/// Takes what is now published, or came to nothing, off the sequencer's lists and out of the index. After publication,
/// so that a lookup finds a record until the moment it finds its successor.
pub(super) fn leave_line(collection: &Collection, undo: Undo) {
    let mut line = collection.line.lock();
    // Perhaps not the one it was sequenced in: what is pending and what leaves is carried over to another.
    let generation = collection.live();
    if let Some(pending) = &undo.coming {
        line.pending.remove(&pending.record.seq);
        if let Some(signed) = pending.signed_for(generation.id)
            && !pending.fate.is(true)
        {
            generation.remove(pending.record.seq, &IndexEntry::of(signed, false));
        }
    }
    let Some(mut leaving) = undo.leaving else { return };
    // The mark may be another's by now: of a change begun when this one had come to nothing.
    if line.leaving.get(&leaving.seq).is_some_and(|mark| Arc::ptr_eq(mark, &leaving.fate)) {
        line.leaving.remove(&leaving.seq);
    }
    if !leaving.fate.is(true) {
        return;
    }
    if let Some(entry) = leaving.entry(generation.id) {
        generation.remove(leaving.seq, entry);
    }
    if let Some(coming) = collection.activation.lock().as_mut() {
        let entries = leaving.entries.drain(..).filter(|(id, _)| *id == coming.generation.id);
        coming.removed.extend(entries.map(|(_, entry)| (leaving.seq, entry)));
    }
}

pub(super) fn settle(disk: &Disk, collection: Option<Arc<Collection>>, job: Job, batch: &mut Batch) {
    match (job, collection) {
        (Job::Register(settlement), Some(collection)) => settle_registration(disk, collection, *settlement, batch),
        (Job::Update { record, value, filings, reply }, Some(collection)) => {
            let (number, seq) = (collection.number, record.seq);
            batch.push(Op::Put(Space::Records, layout::record_key(number, seq).to_vec(), value));
            for (generation, value) in filings {
                batch.push(Op::Put(Space::Signatures, layout::signature_key(number, generation, seq).to_vec(), value));
            }
            batch.answer(None, Undo::default(), reply, Ok(Outcome::Registered(Registered::Updated(*record))));
        }
        (Job::Remove { id, undo, reply }, Some(collection)) => {
            settle_removal(disk, collection, &id, undo, reply, batch);
        }
        (Job::Void(undo), collection) => {
            fates(&undo, false);
            batch.after.push(After { collection, undo, answer: Box::new(|_| {}) });
        }
        (Job::Barrier { ops, then, reply }, _) => {
            ops.into_iter().for_each(|op| batch.push(op));
            let answer = Box::new(move |error: Option<StoreError>| {
                let result = error.map_or(Ok(Outcome::Done), Err);
                if result.is_ok() {
                    then();
                }
                let _ = reply.send(result);
            });
            batch.after.push(After { collection: None, undo: Undo::default(), answer });
        }
        (Job::Alone(work), _) => {
            let (ops, answer) = work(disk);
            ops.into_iter().for_each(|op| batch.push(op));
            batch.after.push(After { collection: None, undo: Undo::default(), answer });
        }
        (Job::Register(_) | Job::Update { .. } | Job::Remove { .. }, None) => {}
    }
}

/// A removal: from the records, from every generation, and from what people decided.
fn settle_removal(
    disk: &Disk,
    collection: Arc<Collection>,
    id: &RecordId,
    mut undo: Undo,
    reply: Reply,
    batch: &mut Batch,
) {
    // A decision has a batch of its own, so that those of before are all published.
    let forgotten = decisions::forget(disk, collection.number, id);
    let result = match forgotten {
        Ok(ops) => {
            ops.into_iter().for_each(|op| batch.push(op));
            batch.push(Op::Delete(Space::Ids, layout::id_key(collection.number, id)));
            delete_leaving(disk, &collection, &mut undo, batch);
            batch.count(&collection, 0, -1);
            Ok(Outcome::Removed(true))
        }
        Err(error) => Err(error),
    };
    fates(&undo, result.is_ok());
    batch.answer(Some(collection), undo, reply, result);
}

fn settle_registration(disk: &Disk, collection: Arc<Collection>, mut settlement: Settlement, batch: &mut Batch) {
    let conclusion = settlement.ready.take().unwrap_or_else(|| {
        let panicked = || Conclusion::Fail(StoreError::Internal("concluding a verdict panicked".into()));
        catch_unwind(AssertUnwindSafe(|| settlement.conclude())).unwrap_or_else(|_| panicked())
    });
    let Settlement { work, mut undo, .. } = settlement;
    let stored = matches!(conclusion, Conclusion::Store { .. });
    fates(&undo, stored);
    let result = match conclusion {
        Conclusion::Skip(verdict) => Ok(Outcome::Registered(Registered::Skipped(verdict))),
        Conclusion::Fail(error) => Err(error),
        Conclusion::Store { record, value, earlier } => {
            let (number, seq) = (collection.number, record.seq);
            delete_leaving(disk, &collection, &mut undo, batch);
            batch.push(Op::Put(Space::Records, layout::record_key(number, seq).to_vec(), value));
            batch.push(Op::Put(Space::Ids, layout::id_key(number, &record.id), seq.to_le_bytes().to_vec()));
            if let Some(pending) = &undo.coming {
                file(&collection, pending, work.judge.needs_signatures(), batch);
                if !earlier.is_empty() {
                    let key = layout::signature_key(number, pending.generation, seq).to_vec();
                    batch.push(Op::Put(Space::Pairs, key, keys::encode_pairs(&earlier)));
                }
            }
            batch.count(&collection, seq, i64::from(!work.replaces));
            let registered = if work.replaces { Registered::Replaced(record) } else { Registered::Created(record) };
            Ok(Outcome::Registered(registered))
        }
    };
    batch.answer(Some(collection), undo, work.reply, result);
}

/// Files a record in every generation.
fn file(collection: &Collection, pending: &Pending, with_signatures: bool, batch: &mut Batch) {
    let state = collection.state();
    let keeps = |id: GenerationId| {
        let beside = state.others.iter().find(|other| other.id == id);
        // One that was announced just now is not shown yet: kept to be safe.
        id != pending.generation && beside.is_none_or(|other| keeps_signatures(&other.settings))
    };
    for (generation, signed) in pending.signatures() {
        let key = layout::signature_key(collection.number, generation, pending.record.seq).to_vec();
        let entry = IndexEntry::of(signed, with_signatures || keeps(generation));
        batch.push(Op::Put(Space::Signatures, key, layout::encode_entry(&entry)));
    }
}

/// Deletes what goes out, in every generation. One that was filed after the change was sequenced is looked up: the index that
/// is built from it must lose it, too.
fn delete_leaving(disk: &Disk, collection: &Collection, undo: &mut Undo, batch: &mut Batch) {
    let Some(Leaving { seq, entries, .. }) = &mut undo.leaving else { return };
    let (number, seq) = (collection.number, *seq);
    batch.push(Op::Delete(Space::Records, layout::record_key(number, seq).to_vec()));
    let generations = collection.line.lock().generations();
    for generation in generations {
        if !entries.iter().any(|(id, _)| *id == generation)
            && let Ok(Some(entry)) = disk.entry(&disk.view(), number, generation, seq)
        {
            entries.push((generation, entry));
        }
        let key = layout::signature_key(number, generation, seq).to_vec();
        batch.push(Op::Delete(Space::Pairs, key.clone()));
        batch.push(Op::Delete(Space::Signatures, key));
    }
}

fn fates(undo: &Undo, done: bool) {
    let coming = undo.coming.iter().map(|pending| &pending.fate);
    let leaving = undo.leaving.iter().map(|leaving| &leaving.fate);
    coming.chain(leaving).for_each(|fate: &Arc<Fate>| fate.settle(done));
}

/// Lets the next claimant in before the answer goes out, so that a caller who hears of its change finds the way free.
fn answer(reply: Reply, result: Result<Outcome>) -> Box<dyn FnOnce(Option<StoreError>) + Send> {
    Box::new(move |error| {
        let Reply { reply, _claim, _permit } = reply;
        drop((_claim, _permit));
        let _ = reply.send(error.map_or(result, Err));
    })
}
