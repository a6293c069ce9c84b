//! Standby generations, from their announcement to their removal. They are on disk only, each under its number in `signatures` and
//! `pairs`, and as complete as the live one.
//!
//! A registration has signatures for all generations, a removal deletes them in all (`batch`). Announcing a generation changes,
//! under the sequencer's lock, what registrations must be signed for, and then waits until all that was sequenced before is
//! published: that is what is to be filed. Filing is an exclusive change (`exclusive`) of bounded size, so that registrations in
//! between wait no longer than for each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::admin::{DdlGuard, put_state, tombstone};
use super::collection::Collection;
use super::disk::Disk;
use super::exclusive::Exclusive;
use super::failpoints::point;
use super::free_space::Reserve;
use super::generation::keeps_signatures;
use super::judging::blocking;
use super::keys;
use super::keyspaces::{Op, Space};
use super::layout::{self, IndexEntry};
use super::pipeline::{AnswerReceiver, Rollback, Ticket};
use super::sequencer;
use super::shared_state::SharedState;
use super::store::EmbeddedStore;
use super::sweep::{self, Swept};
use doppel_core::collection::CollectionName;
use doppel_core::index::Entry;
use doppel_store::generations::{Filing, GenerationSpec, GenerationState, Generations, Pairs, Phase};
use doppel_store::{CollectionState, GenerationId, Result, Seq};

/// Records filed, or lists of pairs put, in one batch: looking up so many takes the committer a few milliseconds.
const MAX_FILED: usize = 256;
/// ... or so many bytes of them.
const MAX_FILED_BYTES: usize = 1 << 20;

impl SharedState {
    /// Writes and then shows `state`, when all that is sequenced so far is published.
    fn change_generations(
        &self,
        collection: &Arc<Collection>,
        state: CollectionState,
        mut ops: Vec<Op>,
        then: impl FnOnce() + Send + 'static,
    ) -> Result<AnswerReceiver> {
        let mut sequencer = collection.sequencer.lock();
        ops.push(put_state(collection.number, sequencer.next_generation, &state)?);
        sequencer.standby = state.standby_ids();
        let ticket = Ticket::next(&mut sequencer, Rollback::nothing(collection), &self.committer);
        drop(sequencer);
        let (shown, state) = (Arc::clone(collection), Arc::new(state));
        let on_published = Box::new(move || {
            shown.show(state);
            then();
        });
        Ok(ticket.deliver_barrier(ops, on_published))
    }

    /// Begins to wait for all changes of a collection that are sequenced so far.
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
            // From here on registrations are refused that are not signed for it, so the end of the scan is at most one that is.
            sequencer.standby.push(id);
            begun
        };
        let (id, statistics) = (begun.id, spec.statistics);
        let put = |value| Op::Put(Space::Meta, keys::statistics_key(collection.number, id), value);
        let ops = (!statistics.is_empty()).then(|| put(statistics)).into_iter().collect();
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
        let then = move || {
            point("generation::completed");
            drop(guard);
        };
        self.change_generations(&collection, state, Vec::new(), then).map(Some)
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
        let (disk, committer, number) = (Arc::clone(&self.disk), self.committer.clone(), collection.number);
        let then = move || {
            point("generation::dropped");
            sweep::begin(&disk, &committer, Swept::Generation(number, id));
            drop(guard);
        };
        let ops = vec![tombstone(number, id)];
        self.change_generations(&collection, state, ops, then).map(Some)
    }

    fn filed(&self, collection: &Collection, id: GenerationId, after: Seq, limit: usize) -> Result<Vec<Entry>> {
        let entries = self.of_generation(collection, Space::Signatures, id, after);
        let filed = entries.map(|entry| {
            let (key, value) = entry?;
            let seq = layout::seq_of_key(&key)?;
            // A damaged entry is none: opening has said so.
            let Some(IndexEntry { digest_key, fingerprint, keys, .. }) = layout::decode_entry(&value)? else {
                return Ok(None);
            };
            Ok(Some(Entry { seq, digest_key, fingerprint, keys }))
        });
        filed.filter_map(Result::transpose).take(limit).collect()
    }

    fn pairs(&self, collection: &Collection, id: GenerationId, after: Seq, limit: usize) -> Result<Vec<Pairs>> {
        let entries = self.of_generation(collection, Space::Pairs, id, after);
        let pairs = entries.map(|entry| {
            let (key, value) = entry?;
            let seq = layout::seq_of_key(&key)?;
            let earlier = self.disk.tolerate((Space::Pairs, collection.number, seq), keys::decode_pairs(&value))?;
            Ok(earlier.map(|earlier| Pairs { seq, earlier }))
        });
        pairs.filter_map(Result::transpose).take(limit).collect()
    }

    /// Keys and values of a generation with a seq above `after`; nothing if it is gone.
    fn of_generation(
        &self,
        collection: &Collection,
        space: Space,
        id: GenerationId,
        after: Seq,
    ) -> impl Iterator<Item = Result<fjall::KvPair>> + use<> {
        let key = |seq| layout::signature_key(collection.number, id, seq);
        let there = collection.sequencer.lock().generations().contains(&id);
        let from = (there && after < Seq::MAX).then(|| after.next());
        let view = self.disk.view();
        from.into_iter().flat_map({
            let ranges = from.map(|from| self.disk.range(&view, space, &key(from), &key(Seq::MAX)));
            let mut ranges = ranges.into_iter();
            move |_| ranges.next().into_iter().flatten()
        })
    }
}

/// Files what is still there and not filed yet.
fn file(
    disk: &Disk,
    collection: &Collection,
    (name, generation): (&CollectionName, GenerationId),
    batch: BTreeMap<Seq, (doppel_core::record::RecordId, Vec<u8>)>,
) -> Result<Exclusive<u64>> {
    collection.check_not_dropped(name)?;
    let state = collection.state();
    let mut ops = Vec::new();
    // In one that is complete, all is filed.
    if state.standby(generation)?.phase == Phase::Building {
        let view = disk.view();
        for (seq, (id, value)) in batch {
            let key = layout::signature_key(collection.number, generation, seq);
            let there = disk.seq_of(&view, collection.number, &id)? == Some(seq);
            if there && disk.get(&view, Space::Signatures, &key)?.is_none() {
                ops.push(Op::Put(Space::Signatures, key.to_vec(), value));
            }
        }
    }
    let filed = ops.len() as u64;
    Ok(Exclusive { ops, on_published: Box::new(|| point("generation::filed")), value: filed })
}

/// Puts the pairs of records that are filed.
fn put_pairs(
    disk: &Disk,
    collection: &Collection,
    (name, generation): (&CollectionName, GenerationId),
    batch: BTreeMap<Seq, Vec<Seq>>,
) -> Result<Exclusive<()>> {
    collection.check_not_dropped(name)?;
    if !collection.sequencer.lock().generations().contains(&generation) {
        return Err(collection.state().lacks(generation));
    }
    let view = disk.view();
    let mut ops = Vec::new();
    for (seq, earlier) in batch {
        let key = layout::signature_key(collection.number, generation, seq).to_vec();
        if earlier.is_empty() {
            ops.push(Op::Delete(Space::Pairs, key));
        } else if disk.get(&view, Space::Signatures, &key)?.is_some() {
            ops.push(Op::Put(Space::Pairs, key, keys::encode_pairs(&earlier)));
        }
    }
    Ok(Exclusive::written(ops, ()))
}

#[async_trait]
impl Generations for EmbeddedStore {
    async fn wait_until_settled(&self, name: &CollectionName) -> Result<()> {
        let answer = self.shared()?.begin_barrier(name)?;
        self.answered(answer).await.map(drop)
    }

    async fn begin_generation(&self, spec: GenerationSpec) -> Result<GenerationState> {
        let guard = self.ddl_guard().await?;
        let (begun, answer) = self.writable(Reserve::Double)?.begin_generation(spec, guard)?;
        self.answered(answer).await.map(|_| begun)
    }

    async fn file(&self, name: &CollectionName, generation: GenerationId, batch: Vec<Filing>) -> Result<u64> {
        let keep = {
            let shared = self.shared()?;
            let state = shared.collection(name)?.state();
            keeps_signatures(&state.standby(generation)?.settings)
        };
        let mut batch = batch.into_iter().peekable();
        let mut filed = 0;
        while batch.peek().is_some() {
            let (mut piece, mut bytes) = (BTreeMap::new(), 0);
            while bytes < MAX_FILED_BYTES
                && piece.len() < MAX_FILED
                && let Some(Filing { id, seq, signed }) = batch.next()
            {
                let value = layout::encode_entry(&IndexEntry::of(&signed, keep));
                bytes += value.len();
                piece.insert(seq, (id, value));
            }
            let prepare = |shared: &SharedState| {
                let (collection, name) = (shared.collection(name)?, name.clone());
                Ok(move |disk: &Disk| file(disk, &collection, (&name, generation), piece))
            };
            filed += self.exclusive(Reserve::Double, prepare).await?;
        }
        Ok(filed)
    }

    async fn complete_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<()> {
        let guard = self.ddl_guard().await?;
        let begun = self.writable(Reserve::Last)?.complete_generation(name, generation, guard)?;
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
        let begun = self.writable(Reserve::Last)?.complete_pairs(name, generation, guard)?;
        self.answered_if_begun(begun).await.map(drop)
    }

    async fn drop_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<bool> {
        let guard = self.ddl_guard().await?;
        let begun = self.writable(Reserve::Last)?.drop_generation(name, generation, guard)?;
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

    async fn put_pairs(&self, name: &CollectionName, generation: GenerationId, pairs: Vec<Pairs>) -> Result<()> {
        let mut pairs = pairs.into_iter().peekable();
        loop {
            let mut piece = BTreeMap::new();
            while piece.len() < MAX_FILED
                && let Some(Pairs { seq, earlier }) = pairs.next()
            {
                piece.insert(seq, earlier);
            }
            let prepare = |shared: &SharedState| {
                let (collection, name) = (shared.collection(name)?, name.clone());
                Ok(move |disk: &Disk| put_pairs(disk, &collection, (&name, generation), piece))
            };
            self.exclusive::<(), _>(Reserve::Whole, prepare).await?;
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
    ) -> Result<Vec<Pairs>> {
        let shared = self.shared()?;
        let collection = shared.collection(name)?;
        blocking(|| shared.pairs(&collection, generation, after, limit))
    }
}
