//! A batch that the committer builds: each change is settled, and what must be written for it is added.
//!
//! To settle a change is to decide its outcome, which may depend on that of changes before it: they are settled. In the batch that
//! stores or removes a record it is filed in all generations, or removed from all.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::collection::Collection;
use super::conclude::conclude;
use super::decisions;
use super::disk::Disk;
use super::generation::keeps_signatures;
use super::keys;
use super::keyspaces::{Op, Space};
use super::layout::{self, IndexEntry};
use super::pending::{PendingRegistration, PendingRemoval};
use super::pipeline::{
    AfterCommit, Answer, Barrier, Change, Conclusion, Effect, ExclusiveWork, JudgedRegistration, RecordChange, Removal,
    Reply, Rollback, Update,
};
use doppel_core::record::RecordId;
use doppel_store::changes::{LoggedChange, LoggedKind};
use doppel_store::{CollectionNumber, GenerationId, Registered, RemovalCondition, Result, Seq, StoreError};

/// A batch is closed when it holds this much: one sync of 8 MiB takes about as long as writing it, and a memtable of
/// 64 MiB holds several.
const MAX_BATCH_BYTES: usize = 8 << 20;
/// ... or this many changes, so that the first in it does not wait for long.
const MAX_BATCH_CHANGES: usize = 1024;

/// What happens to a change after its batch is published, or has failed.
struct After {
    rollback: Option<Rollback>,
    answer: AfterCommit,
}

/// Highest number and count of a collection touched.
struct Numbers {
    collection: Arc<Collection>,
    highest: Seq,
    count: u64,
}

/// The batch being built.
#[derive(Default)]
pub(super) struct Batch {
    ops: Vec<Op>,
    bytes: usize,
    after: Vec<After>,
    numbers: HashMap<CollectionNumber, Numbers>,
}

impl Batch {
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MAX_BATCH_BYTES || self.after.len() >= MAX_BATCH_CHANGES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.after.is_empty()
    }

    /// Settles a change. Those before it, of its collection, are settled.
    pub(super) fn add(&mut self, disk: &Disk, change: Change) {
        match change {
            Change::Record(change) => self.add_record(disk, *change),
            Change::Cancelled(rollback) => {
                rollback.settle(false);
                self.after.push(After { rollback: Some(rollback), answer: Box::new(|_| {}) });
            }
            Change::Barrier(barrier) => self.add_barrier(barrier),
            Change::Exclusive(work) => self.add_exclusive(disk, work),
        }
    }

    /// All that is to be written: what was added, and the numbers of the collections touched.
    pub(super) fn take_ops(&mut self) -> Vec<Op> {
        let mut ops = std::mem::take(&mut self.ops);
        ops.extend(self.numbers.values().map(|Numbers { collection, count, .. }| collection.numbers(*count)));
        ops
    }

    /// Shows the counts of what is published.
    pub(super) fn show_counts(&self) {
        for Numbers { collection, count, highest } in self.numbers.values() {
            collection.count.store(*count, Ordering::Release);
            collection.published.send_replace(*highest);
        }
    }

    /// Ends all changes: the batch is published, or has failed with `error`.
    pub(super) fn end(self, error: impl Fn() -> Option<StoreError>) {
        for After { rollback, answer } in self.after {
            let error = error();
            if let (Some(rollback), None) = (rollback, &error) {
                leave_memory(rollback);
            }
            answer(error);
        }
    }

    fn push(&mut self, op: Op) {
        self.bytes += op.bytes();
        self.ops.push(op);
    }

    /// Notes the number of a change, and by how many records it changes their count.
    fn count(&mut self, collection: &Arc<Collection>, number: Seq, change: i64) {
        let start = || {
            let count = collection.count.load(Ordering::Relaxed);
            Numbers { collection: Arc::clone(collection), highest: Seq(0), count }
        };
        let numbers = self.numbers.entry(collection.number).or_insert_with(start);
        numbers.highest = numbers.highest.max(number);
        numbers.count = numbers.count.saturating_add_signed(change);
    }

    /// Logs a change that the records do not show by themselves.
    fn log(&mut self, collection: &Collection, number: Seq, id: &RecordId, kind: LoggedKind) -> Result<()> {
        self.push(keys::logged(collection.number, &LoggedChange { number, id: id.clone(), kind })?);
        Ok(())
    }

    fn add_barrier(&mut self, Barrier { ops, on_published, reply }: Barrier) {
        ops.into_iter().for_each(|op| self.push(op));
        let answer = Box::new(move |error: Option<StoreError>| {
            let result = error.map_or(Ok(Answer::Done), Err);
            if result.is_ok() {
                on_published();
            }
            // Who asked may have stopped waiting.
            let _ = reply.send(result);
        });
        self.after.push(After { rollback: None, answer });
    }

    fn add_exclusive(&mut self, disk: &Disk, work: ExclusiveWork) {
        let (ops, answer) = work(disk);
        ops.into_iter().for_each(|op| self.push(op));
        self.after.push(After { rollback: None, answer });
    }

    fn add_record(&mut self, disk: &Disk, RecordChange { effect, mut rollback, reply }: RecordChange) {
        let result = match effect {
            Effect::Register(judged) => self.register(disk, judged, &mut rollback),
            Effect::Update(update) => self.update(&rollback.collection, update),
            Effect::Remove(removal) => self.remove(disk, &removal, &mut rollback),
        };
        let is_nothing =
            matches!(&result, Ok(Answer::Registered(Registered::Skipped(_)) | Answer::Removed(false)) | Err(_));
        rollback.settle(!is_nothing);
        self.after.push(After { rollback: Some(rollback), answer: answer(reply, result) });
    }

    fn update(&mut self, collection: &Arc<Collection>, update: Update) -> Result<Answer> {
        let Update { record, value, number, filings } = update;
        self.log(collection, number, &record.id, LoggedKind::Updated { seq: record.seq })?;
        self.count(collection, number, 0);
        self.push(Op::Put(Space::Records, layout::record_key(collection.number, record.seq).to_vec(), value));
        for (generation, value) in filings {
            let key = layout::signature_key(collection.number, generation, record.seq).to_vec();
            self.push(Op::Put(Space::Signatures, key, value));
        }
        Ok(Answer::Registered(Registered::Updated(record)))
    }

    fn register(&mut self, disk: &Disk, mut judged: JudgedRegistration, rollback: &mut Rollback) -> Result<Answer> {
        let conclusion = judged.conclusion.take().unwrap_or_else(|| conclude(&judged));
        let (record, value, earlier) = match conclusion {
            Conclusion::Skip(verdict) => return Ok(Answer::Registered(Registered::Skipped(verdict))),
            Conclusion::Fail(error) => return Err(error),
            Conclusion::Store { record, value, earlier } => (record, value, earlier),
        };
        let Rollback { collection, removal, .. } = rollback;
        let (number, seq) = (collection.number, record.seq);
        let replaces = removal.is_some();
        if replaces {
            self.log(collection, seq, &record.id, LoggedKind::Replaced)?;
        }
        self.delete_removed(disk, collection, removal);
        self.push(Op::Put(Space::Records, layout::record_key(number, seq).to_vec(), value));
        self.push(Op::Put(Space::Ids, layout::id_key(number, &record.id), seq.0.to_le_bytes().to_vec()));
        self.file(collection, &judged.pending, judged.judge.needs_signatures());
        if !earlier.is_empty() {
            let key = layout::signature_key(number, judged.pending.generation, seq).to_vec();
            self.push(Op::Put(Space::Pairs, key, keys::encode_pairs(&earlier)));
        }
        self.count(collection, seq, i64::from(!replaces));
        let registered = if replaces { Registered::Replaced(record) } else { Registered::Created(record) };
        Ok(Answer::Registered(registered))
    }

    /// Removes a record if its condition holds: from the records, from every generation, and from what people decided.
    fn remove(&mut self, disk: &Disk, what: &Removal, rollback: &mut Rollback) -> Result<Answer> {
        let (Removal { id, number, condition }, Rollback { collection, removal, .. }) = (what, rollback);
        let number = *number;
        if let Some(condition) = condition
            && !holds(disk, collection, id, condition)?
        {
            return Ok(Answer::Removed(false));
        }
        // A decision has a batch of its own, so that those of before are all published.
        let decisions = delete_decisions(disk, collection.number, id)?;
        self.log(collection, number, id, LoggedKind::Removed)?;
        decisions.into_iter().for_each(|op| self.push(op));
        self.push(Op::Delete(Space::Ids, layout::id_key(collection.number, id)));
        self.delete_removed(disk, collection, removal);
        self.count(collection, number, -1);
        Ok(Answer::Removed(true))
    }

    /// Files a record in every generation.
    fn file(&mut self, collection: &Collection, pending: &PendingRegistration, with_signatures: bool) {
        let state = collection.state();
        let keeps = |id: GenerationId| {
            let standby = state.others.iter().find(|other| other.id == id);
            // One that was announced just now is not shown yet: kept to be safe.
            id != pending.generation && standby.is_none_or(|other| keeps_signatures(&other.settings))
        };
        for (generation, signed) in pending.signatures() {
            let key = layout::signature_key(collection.number, generation, pending.record.seq).to_vec();
            let entry = IndexEntry::of(signed, with_signatures || keeps(generation));
            self.push(Op::Put(Space::Signatures, key, layout::encode_entry(&entry)));
        }
    }

    /// Deletes a removed or replaced record, in every generation. An entry that was filed after the change was sequenced is
    /// looked up: the index that is built from it must lose it, too.
    fn delete_removed(&mut self, disk: &Disk, collection: &Collection, removal: &mut Option<PendingRemoval>) {
        let Some(PendingRemoval { seq, entries, .. }) = removal else { return };
        let (number, seq) = (collection.number, *seq);
        self.push(Op::Delete(Space::Records, layout::record_key(number, seq).to_vec()));
        let generations = collection.sequencer.lock().generations();
        for generation in generations {
            if !entries.iter().any(|(id, _)| *id == generation)
                && let Ok(Some(entry)) = disk.entry(&disk.view(), number, generation, seq)
            {
                entries.push((generation, entry));
            }
            let key = layout::signature_key(number, generation, seq).to_vec();
            self.push(Op::Delete(Space::Pairs, key.clone()));
            self.push(Op::Delete(Space::Signatures, key));
        }
    }
}

/// True if the condition of a removal holds, apart from the version of the removed record.
fn holds(disk: &Disk, collection: &Collection, id: &RecordId, condition: &RemovalCondition) -> Result<bool> {
    if !condition.allows(&collection.state()) {
        return Ok(false);
    }
    let Some(kept) = &condition.kept else { return Ok(true) };
    // The removal has a batch to itself: all changes before it are published.
    let (view, number) = (disk.view(), collection.number);
    let seq = disk.seq_of(&view, number, &kept.id)?;
    let stored = seq.map(|seq| disk.record(&view, number, seq, true)).transpose()?.flatten();
    let decisions = decisions::naming(disk, &view, number, id)?;
    Ok(kept.holds(stored.as_ref(), id, &decisions))
}

/// What deletes the decisions about a record, and what leads to them.
fn delete_decisions(disk: &Disk, number: CollectionNumber, id: &RecordId) -> Result<Vec<Op>> {
    let mut ops = Vec::new();
    let view = disk.view();
    for prefix in keys::decisions_naming(number, id) {
        for entry in disk.prefix(&view, Space::Decisions, &prefix) {
            let pair = keys::pair_of_key(&entry?.0)?;
            ops.push(Op::Delete(Space::Decisions, keys::decision_key(number, &pair)));
            ops.push(Op::Delete(Space::Decisions, keys::decision_backlink(number, &pair)));
        }
    }
    Ok(ops)
}

/// Removes what is now published, or came to nothing, from the sequencer's lists, and from the index what does not exist any
/// more. After publication, so that a lookup finds a record until the moment it finds its successor.
fn leave_memory(rollback: Rollback) {
    let Rollback { collection, registration, removal } = rollback;
    if registration.is_none() && removal.is_none() {
        return;
    }
    let mut state = collection.sequencer.lock();
    // Perhaps not the one it was sequenced in: activating a generation takes over what is pending.
    let live = collection.live();
    if let Some(pending) = registration {
        state.registrations.remove(&pending.record.seq);
        if let Some(signed) = pending.signed_for(live.id)
            && !pending.outcome.is_committed()
        {
            live.remove(pending.record.seq, &IndexEntry::of(signed, false));
        }
    }
    let Some(mut removal) = removal else { return };
    // The entry may be another's by now: of a change begun when this one had come to nothing.
    if state.removals.get(&removal.seq).is_some_and(|outcome| Arc::ptr_eq(outcome, &removal.outcome)) {
        state.removals.remove(&removal.seq);
    }
    if !removal.outcome.is_committed() {
        return;
    }
    if let Some(entry) = removal.entry(live.id) {
        live.remove(removal.seq, entry);
    }
    if let Some(activation) = collection.activation.lock().as_mut() {
        let entries = removal.entries.drain(..).filter(|(id, _)| *id == activation.generation.id);
        activation.removed.extend(entries.map(|(_, entry)| (removal.seq, entry)));
    }
}

/// Releases claim and permit before the answer goes out, so that a caller who has it can change the record at once.
fn answer(Reply { reply, claim, permit }: Reply, result: Result<Answer>) -> AfterCommit {
    Box::new(move |error| {
        drop((claim, permit));
        // Who asked may have stopped waiting.
        let _ = reply.send(error.map_or(result, Err));
    })
}
