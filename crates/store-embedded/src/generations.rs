//! Standby generations, from their announcement to their removal. They are on disk only, each with its number in `signatures` and `pairs`.
//! They are as complete as the live generation.
//!
//! A registration contains signatures for all generations, and a removal deletes entries in all (`batch`). Announcing a generation changes
//! the list of required generations with the lock of the sequencer, and then waits until all earlier changes are published. The records
//! that are then published must be added. Adding them is an exclusive change (`exclusive`) of bounded size, so that registrations wait for
//! it no longer than they wait for each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::admin::{DdlGuard, put_state, tombstone};
use super::collection::Collection;
use super::disk::Disk;
use super::exclusive::ExclusiveChange;
use super::failpoints::point;
use super::free_space::SpaceReserve;
use super::generation::keeps_signatures;
use super::judging::blocking;
use super::keys;
use super::keyspaces::{Space, WriteOp};
use super::layout::{self, IndexEntry};
use super::pipeline::{AnswerReceiver, Rollback, Ticket};
use super::sequencer;
use super::shared_state::SharedState;
use super::store::EmbeddedStore;
use super::sweep::{self, DroppedKeys};
use doppel_core::collection::CollectionName;
use doppel_core::index::Entry;
use doppel_store::generations::{
    FiledSignatures, GenerationPhase, GenerationSpec, GenerationState, GenerationStore, RecordMatches,
};
use doppel_store::{CollectionState, GenerationId, Result, Seq};

/// Largest number of records or lists of pairs in one batch: the committer needs a few milliseconds to read this number.
const MAX_FILED: usize = 256;
/// Largest size in bytes of the records in one batch.
const MAX_FILED_BYTES: usize = 1 << 20;

impl SharedState {
    /// Writes and then shows `state`, after all changes that are sequenced until now are published.
    fn change_generations(
        &self,
        collection: &Arc<Collection>,
        state: CollectionState,
        mut ops: Vec<WriteOp>,
        then: impl FnOnce() + Send + 'static,
    ) -> Result<AnswerReceiver> {
        let mut sequencer = collection.sequencer.lock();
        ops.push(put_state(collection.number, sequencer.next_generation, &state)?);
        sequencer.standby = state.standby_ids();
        let ticket = Ticket::next(&mut sequencer, Rollback::nothing(collection), &self.committer);
        drop(sequencer);
        let shown = Arc::clone(collection);
        let state = Arc::new(state);
        let on_published = Box::new(move || {
            shown.show(state);
            then();
        });
        Ok(ticket.deliver_barrier(ops, on_published))
    }

    /// Starts to wait for all changes of a collection that are sequenced until now.
    fn begin_barrier(&self, name: &CollectionName) -> Result<AnswerReceiver> {
        let collection = self.collection(name)?;
        let ticket = sequencer::barrier(&collection, &self.committer);
        Ok(ticket.deliver_barrier(Vec::new(), Box::new(|| {})))
    }

    fn begin_generation(&self, spec: GenerationSpec, guard: DdlGuard) -> Result<(GenerationState, AnswerReceiver)> {
        let collection = self.collection(&spec.collection)?;
        let (begun, state) = {
            let mut sequencer = collection.sequencer.lock();
            let id = sequencer.next_generation;
            let begun = collection.state().begin(id, &spec, sequencer.next_seq)?;
            sequencer.next_generation = id.next();
            // From now on, registrations without signatures for the new generation are refused. The end of the scan is therefore not above
            // the first registration with such signatures.
            sequencer.standby.push(id);
            begun
        };
        let id = begun.id;
        let statistics = spec.statistics;
        let has_statistics = !statistics.is_empty();
        let put = WriteOp::Put(Space::Meta, keys::statistics_key(collection.number, id), statistics);
        let ops = if has_statistics { vec![put] } else { Vec::new() };
        let answer = self.change_generations(&collection, state, ops, move || {
            point("generation::announced");
            drop(guard);
        })?;
        Ok((begun, answer))
    }

    fn complete_generation(
        &self,
        name: &CollectionName,
        id: GenerationId,
        guard: DdlGuard,
    ) -> Result<Option<AnswerReceiver>> {
        let collection = self.collection(name)?;
        let Some(state) = collection.state().complete(id)? else { return Ok(None) };
        let completed = self.change_generations(&collection, state, Vec::new(), move || {
            point("generation::completed");
            drop(guard);
        });
        completed.map(Some)
    }

    fn complete_pairs(
        &self,
        name: &CollectionName,
        id: GenerationId,
        guard: DdlGuard,
    ) -> Result<Option<AnswerReceiver>> {
        let collection = self.collection(name)?;
        let Some(state) = collection.state().complete_pairs(id)? else { return Ok(None) };
        self.change_generations(&collection, state, Vec::new(), move || drop(guard)).map(Some)
    }

    fn drop_generation(
        &self,
        name: &CollectionName,
        id: GenerationId,
        guard: DdlGuard,
    ) -> Result<Option<AnswerReceiver>> {
        let collection = self.collection(name)?;
        let Some(state) = collection.state().without(id)? else { return Ok(None) };
        let disk = Arc::clone(&self.disk);
        let committer = self.committer.clone();
        let number = collection.number;
        let ops = vec![tombstone(number, id)];
        let dropped = self.change_generations(&collection, state, ops, move || {
            point("generation::dropped");
            sweep::begin(&disk, &committer, DroppedKeys::Generation(number, id));
            drop(guard);
        });
        dropped.map(Some)
    }

    fn filed(&self, collection: &Collection, id: GenerationId, after: Seq, limit: usize) -> Result<Vec<Entry>> {
        let entries = self.of_generation(collection, Space::Signatures, id, after);
        let filed = entries.map(|entry| {
            let (key, value) = entry?;
            let seq = layout::seq_of_key(&key)?;
            // A damaged entry counts as missing. Opening the directory reported it.
            let Some(IndexEntry { digest_key, fingerprint, keys, .. }) = layout::decode_entry(&value)? else {
                return Ok(None);
            };
            Ok(Some(Entry { seq, digest_key, fingerprint, keys }))
        });
        filed.filter_map(Result::transpose).take(limit).collect()
    }

    fn pairs(&self, collection: &Collection, id: GenerationId, after: Seq, limit: usize) -> Result<Vec<RecordMatches>> {
        let entries = self.of_generation(collection, Space::Pairs, id, after);
        let pairs = entries.map(|entry| {
            let (key, value) = entry?;
            let seq = layout::seq_of_key(&key)?;
            let earlier = self.disk.tolerate((Space::Pairs, collection.number, seq), keys::decode_pairs(&value))?;
            Ok(earlier.map(|earlier| RecordMatches { seq, earlier }))
        });
        pairs.filter_map(Result::transpose).take(limit).collect()
    }

    /// Returns the keys and values of a generation with seqs above `after`; nothing if the generation does not exist.
    fn of_generation(
        &self,
        collection: &Collection,
        space: Space,
        id: GenerationId,
        after: Seq,
    ) -> impl Iterator<Item = Result<fjall::KvPair>> + use<> {
        let number = collection.number;
        let there = collection.sequencer.lock().generations().contains(&id);
        let from = (there && after < Seq::MAX).then(|| after.next());
        let view = self.disk.view();
        from.into_iter().flat_map({
            let ranges = from.map(|from| {
                let first = layout::signature_key(number, id, from);
                self.disk.range(&view, space, &first, &layout::signature_key(number, id, Seq::MAX))
            });
            let mut ranges = ranges.into_iter();
            move |_| ranges.next().into_iter().flatten()
        })
    }
}

/// The id of a record and its encoded index entry.
type EncodedEntry = (doppel_core::record::RecordId, Vec<u8>);

/// Adds the records of `batch` that still exist and that the generation does not contain yet.
fn file(
    disk: &Disk,
    collection: &Collection,
    name: &CollectionName,
    generation: GenerationId,
    batch: BTreeMap<Seq, EncodedEntry>,
) -> Result<ExclusiveChange<u64>> {
    collection.check_not_dropped(name)?;
    let state = collection.state();
    let mut ops = Vec::new();
    // A complete generation contains all records.
    if state.standby(generation)?.phase == GenerationPhase::Building {
        let view = disk.view();
        for (seq, (id, value)) in batch {
            let key = layout::signature_key(collection.number, generation, seq);
            let there = disk.seq_of(&view, collection.number, &id)? == Some(seq);
            if there && disk.get(&view, Space::Signatures, &key)?.is_none() {
                ops.push(WriteOp::Put(Space::Signatures, key.to_vec(), value));
            }
        }
    }
    let filed = ops.len() as u64;
    Ok(ExclusiveChange { ops, on_published: Box::new(|| point("generation::filed")), value: filed })
}

/// Stores the pairs of records that the generation contains.
fn put_pairs(
    disk: &Disk,
    collection: &Collection,
    name: &CollectionName,
    generation: GenerationId,
    batch: BTreeMap<Seq, Vec<Seq>>,
) -> Result<ExclusiveChange<()>> {
    collection.check_not_dropped(name)?;
    if !collection.sequencer.lock().generations().contains(&generation) {
        return Err(collection.state().lacks(generation));
    }
    let view = disk.view();
    let mut ops = Vec::new();
    for (seq, earlier) in batch {
        let key = layout::signature_key(collection.number, generation, seq).to_vec();
        if earlier.is_empty() {
            ops.push(WriteOp::Delete(Space::Pairs, key));
        } else if disk.get(&view, Space::Signatures, &key)?.is_some() {
            ops.push(WriteOp::Put(Space::Pairs, key, keys::encode_pairs(&earlier)));
        }
    }
    Ok(ExclusiveChange::written(ops, ()))
}

#[async_trait]
impl GenerationStore for EmbeddedStore {
    async fn wait_until_settled(&self, name: &CollectionName) -> Result<()> {
        let answer = self.shared()?.begin_barrier(name)?;
        self.answered(answer).await.map(drop)
    }

    async fn begin_generation(&self, spec: GenerationSpec) -> Result<GenerationState> {
        let guard = self.ddl_guard().await?;
        let (begun, answer) = self.writable(SpaceReserve::Double)?.begin_generation(spec, guard)?;
        self.answered(answer).await.map(|_| begun)
    }

    async fn file(&self, name: &CollectionName, generation: GenerationId, batch: Vec<FiledSignatures>) -> Result<u64> {
        let keep = {
            let shared = self.shared()?;
            let state = shared.collection(name)?.state();
            keeps_signatures(&state.standby(generation)?.settings)
        };
        let mut batch = batch.into_iter().peekable();
        let mut filed = 0;
        while batch.peek().is_some() {
            let mut piece = BTreeMap::new();
            let mut bytes = 0;
            while bytes < MAX_FILED_BYTES
                && piece.len() < MAX_FILED
                && let Some(FiledSignatures { id, seq, signed }) = batch.next()
            {
                let value = layout::encode_entry(&IndexEntry::of(&signed, keep));
                bytes += value.len();
                piece.insert(seq, (id, value));
            }
            let added = self.exclusive(SpaceReserve::Double, |shared: &SharedState| {
                let collection = shared.collection(name)?;
                let name = name.clone();
                Ok(move |disk: &Disk| file(disk, &collection, &name, generation, piece))
            });
            filed += added.await?;
        }
        Ok(filed)
    }

    async fn complete_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<()> {
        let guard = self.ddl_guard().await?;
        let begun = self.writable(SpaceReserve::Last)?.complete_generation(name, generation, guard)?;
        self.answered_if_begun(begun).await.map(drop)
    }

    async fn activate_generation(
        &self,
        name: &CollectionName,
        generation: GenerationId,
    ) -> Result<Arc<CollectionState>> {
        self.activate(name, generation).await
    }

    async fn complete_pairs(&self, name: &CollectionName, generation: GenerationId) -> Result<()> {
        let guard = self.ddl_guard().await?;
        let begun = self.writable(SpaceReserve::Last)?.complete_pairs(name, generation, guard)?;
        self.answered_if_begun(begun).await.map(drop)
    }

    async fn drop_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<bool> {
        let guard = self.ddl_guard().await?;
        let begun = self.writable(SpaceReserve::Last)?.drop_generation(name, generation, guard)?;
        self.answered_if_begun(begun).await
    }

    async fn statistics(&self, name: &CollectionName, generation: GenerationId) -> Result<Option<Vec<u8>>> {
        let shared = self.shared()?;
        let collection = shared.collection(name)?;
        if !collection.sequencer.lock().generations().contains(&generation) {
            return Ok(None);
        }
        let key = keys::statistics_key(collection.number, generation);
        let found = shared.disk.get(&shared.disk.view(), Space::Meta, &key);
        let found = shared.disk.tolerate((Space::Meta, collection.number, Seq(0)), found)?.flatten();
        Ok(found.map(|bytes| bytes.to_vec()))
    }

    async fn filed(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        let shared = self.shared()?;
        let collection = shared.collection(name)?;
        blocking(|| shared.filed(&collection, generation, after, limit))
    }

    async fn put_pairs(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        pairs: Vec<RecordMatches>,
    ) -> Result<()> {
        let mut pairs = pairs.into_iter().peekable();
        loop {
            let mut piece = BTreeMap::new();
            while piece.len() < MAX_FILED
                && let Some(RecordMatches { seq, earlier }) = pairs.next()
            {
                piece.insert(seq, earlier);
            }
            let put = self.exclusive::<(), _>(SpaceReserve::Whole, |shared: &SharedState| {
                let collection = shared.collection(name)?;
                let name = name.clone();
                Ok(move |disk: &Disk| put_pairs(disk, &collection, &name, generation, piece))
            });
            put.await?;
            if pairs.peek().is_none() {
                return Ok(());
            }
        }
    }

    async fn pairs(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<RecordMatches>> {
        let shared = self.shared()?;
        let collection = shared.collection(name)?;
        blocking(|| shared.pairs(&collection, generation, after, limit))
    }
}
