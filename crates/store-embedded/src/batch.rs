//! A batch that the committer builds: it settles each change and adds the operations of the change.
//!
//! To settle a change means to decide its outcome, which may depend on the outcomes of earlier changes; the earlier changes are settled
//! first. The batch that stores or removes a record also adds it to all generations or removes it from all.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::collection::Collection;
use super::conclude::conclude;
use super::decisions;
use super::disk::Disk;
use super::generation::keeps_signatures;
use super::keys;
use super::keyspaces::{Space, WriteOp};
use super::layout::{self, IndexEntry};
use super::pending::{PendingRegistration, PendingRemoval};
use super::pipeline::{
    AfterCommit, Barrier, ChangeAnswer, ChangeEffect, ChangeReply, ContentUpdate, ExclusiveWork, JudgedRegistration,
    PipelineChange, RecordChange, RecordRemoval, RegistrationOutcome, Rollback,
};
use doppel_core::record::RecordId;
use doppel_store::changes::{LoggedChange, LoggedKind};
use doppel_store::{CollectionNumber, RegisterOutcome, RemovalCondition, Result, Seq, StoreError};

/// Size in bytes at which a batch is closed. One sync of 8 MiB takes about as long as writing it, and a memtable of 64 MiB holds
/// several batches.
const MAX_BATCH_BYTES: usize = 8 << 20;
/// Number of changes at which a batch is closed, so that the first change does not wait long.
const MAX_BATCH_CHANGES: usize = 1024;

/// The steps for a change after its batch is published or has failed.
struct SettledChange {
    rollback: Option<Rollback>,
    answer: AfterCommit,
}

/// The highest number and the count of a collection that the batch changes.
struct CollectionNumbers {
    collection: Arc<Collection>,
    highest: Seq,
    count: u64,
}

/// The batch that is being built.
#[derive(Default)]
pub(super) struct CommitBatch {
    ops: Vec<WriteOp>,
    bytes: usize,
    after: Vec<SettledChange>,
    numbers: HashMap<CollectionNumber, CollectionNumbers>,
}

impl CommitBatch {
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MAX_BATCH_BYTES || self.after.len() >= MAX_BATCH_CHANGES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.after.is_empty()
    }

    /// Settles a change. All earlier changes of its collection are settled.
    pub(super) fn add(&mut self, disk: &Disk, change: PipelineChange) {
        match change {
            PipelineChange::Record(change) => self.add_record(disk, *change),
            PipelineChange::Cancelled(rollback) => {
                rollback.settle(false);
                self.after.push(SettledChange { rollback: Some(rollback), answer: Box::new(|_| {}) });
            }
            PipelineChange::Barrier(barrier) => self.add_barrier(barrier),
            PipelineChange::Exclusive(work) => self.add_exclusive(disk, work),
        }
    }

    /// Returns all operations of the batch, including the numbers of the changed collections.
    pub(super) fn take_ops(&mut self) -> Vec<WriteOp> {
        let mut ops = std::mem::take(&mut self.ops);
        ops.extend(self.numbers.values().map(|CollectionNumbers { collection, count, .. }| collection.numbers(*count)));
        ops
    }

    /// Shows the new counts after the publication.
    pub(super) fn show_counts(&self) {
        for CollectionNumbers { collection, count, highest } in self.numbers.values() {
            collection.count.store(*count, Ordering::Release);
            collection.published.send_replace(*highest);
        }
    }

    /// Ends all changes after the batch is published, or has failed with `error`.
    pub(super) fn end(self, error: impl Fn() -> Option<StoreError>) {
        for SettledChange { rollback, answer } in self.after {
            let error = error();
            if let (Some(rollback), None) = (rollback, &error) {
                leave_memory(rollback);
            }
            answer(error);
        }
    }

    fn push(&mut self, op: WriteOp) {
        self.bytes += op.bytes();
        self.ops.push(op);
    }

    /// Records the number of a change, and by how much the change alters the number of records.
    fn count(&mut self, collection: &Arc<Collection>, number: Seq, change: i64) {
        let numbers = self.numbers.entry(collection.number).or_insert_with(|| {
            let count = collection.count.load(Ordering::Relaxed);
            CollectionNumbers { collection: Arc::clone(collection), highest: Seq(0), count }
        });
        numbers.highest = numbers.highest.max(number);
        numbers.count = numbers.count.saturating_add_signed(change);
    }

    /// Logs a change that cannot be seen from the records.
    fn log(&mut self, collection: &Collection, number: Seq, id: &RecordId, kind: LoggedKind) -> Result<()> {
        self.push(keys::logged(collection.number, &LoggedChange { number, id: id.clone(), kind })?);
        Ok(())
    }

    fn add_barrier(&mut self, Barrier { ops, on_published, reply }: Barrier) {
        ops.into_iter().for_each(|op| self.push(op));
        let answer = Box::new(move |error: Option<StoreError>| {
            let result = error.map_or(Ok(ChangeAnswer::Done), Err);
            if result.is_ok() {
                on_published();
            }
            // The caller may have stopped waiting.
            let _ = reply.send(result);
        });
        self.after.push(SettledChange { rollback: None, answer });
    }

    fn add_exclusive(&mut self, disk: &Disk, work: ExclusiveWork) {
        let (ops, answer) = work(disk);
        ops.into_iter().for_each(|op| self.push(op));
        self.after.push(SettledChange { rollback: None, answer });
    }

    fn add_record(&mut self, disk: &Disk, RecordChange { effect, mut rollback, reply }: RecordChange) {
        let result = match effect {
            ChangeEffect::Register(judged) => self.register(disk, judged, &mut rollback),
            ChangeEffect::Update(update) => self.update(&rollback.collection, update),
            ChangeEffect::Remove(removal) => self.remove(disk, &removal, &mut rollback),
        };
        let is_nothing = matches!(
            &result,
            Ok(ChangeAnswer::Registered(RegisterOutcome::Skipped(_)) | ChangeAnswer::Removed(false)) | Err(_)
        );
        rollback.settle(!is_nothing);
        self.after.push(SettledChange { rollback: Some(rollback), answer: answer(reply, result) });
    }

    fn update(&mut self, collection: &Arc<Collection>, update: ContentUpdate) -> Result<ChangeAnswer> {
        let ContentUpdate { record, value, number, filings } = update;
        self.log(collection, number, &record.id, LoggedKind::Updated { seq: record.seq })?;
        self.count(collection, number, 0);
        self.push(WriteOp::Put(Space::Records, layout::record_key(collection.number, record.seq).to_vec(), value));
        for (generation, value) in filings {
            let key = layout::signature_key(collection.number, generation, record.seq).to_vec();
            self.push(WriteOp::Put(Space::Signatures, key, value));
        }
        Ok(ChangeAnswer::Registered(RegisterOutcome::Updated(record)))
    }

    fn register(
        &mut self,
        disk: &Disk,
        mut judged: JudgedRegistration,
        rollback: &mut Rollback,
    ) -> Result<ChangeAnswer> {
        let conclusion = judged.conclusion.take().unwrap_or_else(|| conclude(&mut judged));
        let (record, value, earlier) = match conclusion {
            RegistrationOutcome::Skip(verdict) => {
                return Ok(ChangeAnswer::Registered(RegisterOutcome::Skipped(verdict)));
            }
            RegistrationOutcome::Fail(error) => return Err(error),
            RegistrationOutcome::Store { record, value, earlier } => (record, value, earlier),
        };
        let Rollback { collection, removal, .. } = rollback;
        let number = collection.number;
        let seq = record.seq;
        let replaces = removal.is_some();
        if replaces {
            self.log(collection, seq, &record.id, LoggedKind::Replaced)?;
        }
        self.delete_removed(disk, collection, removal);
        self.push(WriteOp::Put(Space::Records, layout::record_key(number, seq).to_vec(), value));
        self.push(WriteOp::Put(Space::Ids, layout::id_key(number, &record.id), seq.0.to_le_bytes().to_vec()));
        self.file(collection, &judged.pending, judged.judge.needs_signatures());
        if !earlier.is_empty() {
            let key = layout::signature_key(number, judged.pending.generation, seq).to_vec();
            self.push(WriteOp::Put(Space::Pairs, key, keys::encode_pairs(&earlier)));
        }
        self.count(collection, seq, i64::from(!replaces));
        let registered = if replaces { RegisterOutcome::Replaced(record) } else { RegisterOutcome::Created(record) };
        Ok(ChangeAnswer::Registered(registered))
    }

    /// Removes a record if its condition holds: from the records, from every generation, and from the decisions.
    fn remove(&mut self, disk: &Disk, what: &RecordRemoval, rollback: &mut Rollback) -> Result<ChangeAnswer> {
        let RecordRemoval { id, number, condition } = what;
        let Rollback { collection, removal, .. } = rollback;
        let number = *number;
        if let Some(condition) = condition
            && !holds(disk, collection, id, condition)?
        {
            return Ok(ChangeAnswer::Removed(false));
        }
        // A decision is in a separate batch, so that all earlier decisions are published.
        let decisions = delete_decisions(disk, collection.number, id)?;
        self.log(collection, number, id, LoggedKind::Removed)?;
        decisions.into_iter().for_each(|op| self.push(op));
        self.push(WriteOp::Delete(Space::Ids, layout::id_key(collection.number, id)));
        self.delete_removed(disk, collection, removal);
        self.count(collection, number, -1);
        Ok(ChangeAnswer::Removed(true))
    }

    /// Adds a record to every generation.
    fn file(&mut self, collection: &Collection, pending: &PendingRegistration, with_signatures: bool) {
        let state = collection.state();
        for (generation, signed) in pending.signatures() {
            let key = layout::signature_key(collection.number, generation, pending.record.seq).to_vec();
            let is_live = generation == pending.generation;
            let standby = state.others.iter().find(|other| other.id == generation);
            // A generation that was announced just now is not in the state yet; its signatures are then stored, to be safe.
            let keeps = !is_live && standby.is_none_or(|other| keeps_signatures(&other.settings));
            let entry = IndexEntry::of(signed, with_signatures || keeps);
            self.push(WriteOp::Put(Space::Signatures, key, layout::encode_entry(&entry)));
        }
    }

    /// Deletes a removed or replaced record in every generation. An entry that was added after the change was sequenced is read
    /// from disk, because the index that is being built from it must also remove it.
    fn delete_removed(&mut self, disk: &Disk, collection: &Collection, removal: &mut Option<PendingRemoval>) {
        let Some(PendingRemoval { seq, entries, .. }) = removal else { return };
        let number = collection.number;
        let seq = *seq;
        self.push(WriteOp::Delete(Space::Records, layout::record_key(number, seq).to_vec()));
        let generations = collection.sequencer.lock().generations();
        for generation in generations {
            if !entries.iter().any(|(id, _)| *id == generation)
                && let Ok(Some(entry)) = disk.entry(&disk.view(), number, generation, seq)
            {
                entries.push((generation, entry));
            }
            let key = layout::signature_key(number, generation, seq).to_vec();
            self.push(WriteOp::Delete(Space::Pairs, key.clone()));
            self.push(WriteOp::Delete(Space::Signatures, key));
        }
    }
}

/// True if the condition of a removal holds, apart from the version of the removed record.
fn holds(disk: &Disk, collection: &Collection, id: &RecordId, condition: &RemovalCondition) -> Result<bool> {
    if !condition.allows(&collection.state()) {
        return Ok(false);
    }
    let Some(kept) = &condition.kept else { return Ok(true) };
    // The removal is in a separate batch, so that all earlier changes are published.
    let view = disk.view();
    let number = collection.number;
    let seq = disk.seq_of(&view, number, &kept.id)?;
    let stored = seq.map(|seq| disk.record(&view, number, seq, true)).transpose()?.flatten();
    let decisions = decisions::naming(disk, &view, number, id)?;
    Ok(kept.holds(stored.as_ref(), id, &decisions))
}

/// Returns the operations that delete the decisions about a record, and their backlinks.
fn delete_decisions(disk: &Disk, number: CollectionNumber, id: &RecordId) -> Result<Vec<WriteOp>> {
    let mut ops = Vec::new();
    let view = disk.view();
    for prefix in keys::decisions_naming(number, id) {
        for entry in disk.prefix(&view, Space::Decisions, &prefix) {
            let pair = keys::pair_of_key(&entry?.0)?;
            ops.push(WriteOp::Delete(Space::Decisions, keys::decision_key(number, &pair)));
            ops.push(WriteOp::Delete(Space::Decisions, keys::decision_backlink(number, &pair)));
        }
    }
    Ok(ops)
}

/// Removes a change that is published or has failed from the lists of the sequencer, and removes records that do not exist any more
/// from the index. This happens after the publication, so that a lookup finds a record until it finds its replacement.
fn leave_memory(rollback: Rollback) {
    let Rollback { collection, registration, removal } = rollback;
    if registration.is_none() && removal.is_none() {
        return;
    }
    let mut state = collection.sequencer.lock();
    // This may differ from the generation in which the change was sequenced, because an activation takes over pending changes.
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
    // The entry may belong to a change that began after this change had failed.
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

/// Releases claim and permit before it sends the answer, so that the caller can change the record again at once.
fn answer(reply: ChangeReply, result: Result<ChangeAnswer>) -> AfterCommit {
    let ChangeReply { reply, claim, permit } = reply;
    Box::new(move |error| {
        drop((claim, permit));
        // The caller may have stopped waiting.
        let _ = reply.send(error.map_or(result, Err));
    })
}
