//! Generations beside the live one: on disk only, each under its number in `signatures` and `pairs`.
//!
//! A registration brings its signatures for all there are, a removal deletes them in all (`settle`). Announcing one changes,
//! under the sequencer's lock, what registrations must bring, and then waits in line until all sequenced before are
//! published: they are what is to be filed. Filing, like all that depends on what is stored, goes to the writer in batches of
//! its own (`alone`), small enough that registrations in between wait no longer than for each other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::EmbeddedStore;
use super::admin::{Answer, Turn, put_state, tombstone};
use super::alone::{Change, check_there};
use super::candidates::blocking;
use super::disk::{Disk, Op, Space};
use super::keys;
use super::layout::{self, IndexEntry};
use super::line::{Collection, Undo};
use super::shared_state::SharedState;
use super::space::Reserve;
use super::sweep::{self, Swept};
use super::writer::Job;
use doppel_core::collection::{Channel, CollectionName, Settings};
use doppel_store::generations::{Filed, Filing, GenerationSpec, GenerationState, Generations, Pairs, Phase};
use doppel_store::{CollectionState, GenerationId, Result, Seq};

/// Records filed in one batch, and lists of pairs put: looking up so many takes the writer a few milliseconds.
const MAX_FILED: usize = 256;
/// ... or so many bytes of them.
const MAX_FILED_BYTES: usize = 1 << 20;

/// Whether signatures are stored in a generation beside the live one, not only keys. Judges know what they need, but none is
/// asked about it: so they are kept unless it is plain that the keys are enough.
pub(super) fn keeps_signatures(settings: &Settings) -> bool {
    !settings.channels.iter().all(|channel| match channel {
        Channel::Simhash(_) => true,
        Channel::Shingle(params) => params.t == 0.0,
        _ => false,
    })
}

/// The same state with other generations beside the live one.
fn with_others(state: &CollectionState, others: Vec<GenerationState>) -> Arc<CollectionState> {
    Arc::new(CollectionState { others, ..state.clone() })
}

impl SharedState {
    /// Writes and then shows `state`, when all that is sequenced so far is published.
    fn change_generations(
        &self,
        collection: &Arc<Collection>,
        state: Arc<CollectionState>,
        mut ops: Vec<Op>,
        then: impl FnOnce() + Send + 'static,
    ) -> Result<Answer> {
        let (reply, answer) = oneshot::channel();
        let mut line = collection.line.lock();
        ops.push(put_state(collection.number, line.next_generation, &state)?);
        line.others = state.others.iter().map(|other| other.id).collect();
        let ticket = line.ticket(collection, &self.writer, Undo::default());
        drop(line);
        let shown = Arc::clone(collection);
        let then = Box::new(move || {
            shown.show(state);
            then();
        });
        ticket.deliver(|_| Job::Barrier { ops, then, reply });
        Ok(answer)
    }

    fn begin_generation(&self, spec: GenerationSpec, turn: Turn) -> Result<(GenerationState, Answer)> {
        let collection = self.collection(&spec.collection)?;
        let state = collection.state();
        state.check_room()?;
        let GenerationSpec { settings, profile, statistics, now, .. } = spec;
        let mut line = collection.line.lock();
        let id = line.next_generation;
        line.next_generation += 1;
        // From here on registrations are refused that are not signed for it, so the end of the scan is at most one that is.
        line.others.push(id);
        let scan_end = line.next_seq;
        drop(line);
        let phase = Phase::Building;
        let begun = GenerationState { id, settings, profile, phase, created_at: now, scan_end };
        let others = state.others.iter().cloned().chain([begun.clone()]).collect();
        let put = |value| Op::Put(Space::Meta, keys::statistics_key(collection.number, id), value);
        let ops = (!statistics.is_empty()).then(|| put(statistics)).into_iter().collect();
        let answer = self.change_generations(&collection, with_others(&state, others), ops, move || {
            super::point("generation::announced");
            drop(turn);
        })?;
        Ok((begun, answer))
    }

    fn complete_generation(&self, name: &CollectionName, id: GenerationId, turn: Turn) -> Result<Option<Answer>> {
        let collection = self.collection(name)?;
        let state = collection.state();
        if state.beside(id)?.phase == Phase::Ready {
            return Ok(None);
        }
        let mut others = state.others.clone();
        others.iter_mut().filter(|other| other.id == id).for_each(|other| other.phase = Phase::Ready);
        let then = move || {
            super::point("generation::completed");
            drop(turn);
        };
        self.change_generations(&collection, with_others(&state, others), Vec::new(), then).map(Some)
    }

    fn drop_generation(&self, name: &CollectionName, id: GenerationId, turn: Turn) -> Result<Option<Answer>> {
        let collection = self.collection(name)?;
        let state = collection.state();
        state.check_not_live(id)?;
        if state.beside(id).is_err() {
            return Ok(None);
        }
        let others = state.others.iter().filter(|other| other.id != id).cloned().collect();
        let (disk, writer, number) = (Arc::clone(&self.disk), self.writer.clone(), collection.number);
        let then = move || {
            super::point("generation::dropped");
            sweep::begin(&disk, &writer, Swept::Generation(number, id));
            drop(turn);
        };
        let ops = vec![tombstone(number, id)];
        self.change_generations(&collection, with_others(&state, others), ops, then).map(Some)
    }

    fn filed(&self, collection: &Collection, id: GenerationId, after: Seq, limit: usize) -> Result<Vec<Filed>> {
        let entries = self.of_generation(collection, Space::Signatures, id, after);
        let filed = entries.map(|entry| {
            let (key, value) = entry?;
            let seq = layout::seq_of_key(&key)?;
            // A damaged entry is none: opening has said so.
            let Some(IndexEntry { digest_key, fingerprint, keys, .. }) = layout::decode_entry(&value)? else {
                return Ok(None);
            };
            Ok(Some(Filed { seq, digest_key, fingerprint, keys }))
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
        let there = collection.line.lock().generations().contains(&id);
        let from = after.checked_add(1).filter(|_| there);
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
) -> Result<Change<u64>> {
    check_there(collection, name)?;
    let state = collection.state();
    let mut ops = Vec::new();
    // In one that is complete, all is filed.
    if state.beside(generation)?.phase == Phase::Building {
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
    Ok(Change { ops, then: Box::new(|| super::point("generation::filed")), value: filed })
}

/// Puts the pairs of records that are filed.
fn put_pairs(
    disk: &Disk,
    collection: &Collection,
    (name, generation): (&CollectionName, GenerationId),
    batch: BTreeMap<Seq, Vec<Seq>>,
) -> Result<Change<()>> {
    check_there(collection, name)?;
    if !collection.line.lock().generations().contains(&generation) {
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
    Ok(Change::written(ops, ()))
}

/// Longest that a registration is judged and settled, on a busy machine: many candidates of the largest size take a second.
const SETTLING: Duration = Duration::from_secs(2);

impl EmbeddedStore {
    /// Waits for the writer's answer; whether there was anything to do.
    pub(super) async fn settle(&self, begun: Option<Answer>) -> Result<bool> {
        match begun {
            Some(answer) => self.answered(answer).await.map(|_| true),
            None => Ok(false),
        }
    }
}

#[async_trait]
impl Generations for EmbeddedStore {
    fn settling(&self) -> Duration {
        SETTLING
    }

    async fn begin_generation(&self, spec: GenerationSpec) -> Result<GenerationState> {
        let turn = self.turn().await?;
        let (begun, answer) = self.writable(Reserve::Double)?.begin_generation(spec, turn)?;
        self.answered(answer).await.map(|_| begun)
    }

    async fn file(&self, name: &CollectionName, generation: GenerationId, batch: Vec<Filing>) -> Result<u64> {
        let keep = {
            let core = self.core()?;
            let state = core.collection(name)?.state();
            keeps_signatures(&state.beside(generation)?.settings)
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
            let prepare = |core: &SharedState| {
                let (collection, name) = (core.collection(name)?, name.clone());
                Ok(move |disk: &Disk| file(disk, &collection, (&name, generation), piece))
            };
            filed += self.alone(Reserve::Double, prepare).await?;
        }
        Ok(filed)
    }

    async fn complete_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<()> {
        let turn = self.turn().await?;
        let begun = self.writable(Reserve::Last)?.complete_generation(name, generation, turn)?;
        self.settle(begun).await.map(drop)
    }

    async fn activate_generation(
        &self,
        name: &CollectionName,
        generation: GenerationId,
    ) -> Result<Arc<CollectionState>> {
        self.activate(name, generation).await
    }

    async fn drop_generation(&self, name: &CollectionName, generation: GenerationId) -> Result<bool> {
        let turn = self.turn().await?;
        let begun = self.writable(Reserve::Last)?.drop_generation(name, generation, turn)?;
        self.settle(begun).await
    }

    async fn statistics(&self, name: &CollectionName, generation: GenerationId) -> Result<Option<Vec<u8>>> {
        let core = self.core()?;
        let collection = core.collection(name)?;
        if !collection.line.lock().generations().contains(&generation) {
            return Ok(None);
        }
        let found =
            core.disk.get(&core.disk.view(), Space::Meta, &keys::statistics_key(collection.number, generation))?;
        Ok(found.map(|bytes| bytes.to_vec()))
    }

    async fn filed(
        &self,
        name: &CollectionName,
        generation: GenerationId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Filed>> {
        let core = self.core()?;
        let collection = core.collection(name)?;
        blocking(|| core.filed(&collection, generation, after, limit))
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
            let prepare = |core: &SharedState| {
                let (collection, name) = (core.collection(name)?, name.clone());
                Ok(move |disk: &Disk| put_pairs(disk, &collection, (&name, generation), piece))
            };
            self.alone::<(), _>(Reserve::Whole, prepare).await?;
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
        let core = self.core()?;
        let collection = core.collection(name)?;
        blocking(|| core.pairs(&collection, generation, after, limit))
    }
}
