//! Opening: the in-memory indexes are built again from the `signatures` keyspace, on all cores.
//!
//! The seqs of a collection are cut into as many stretches as there are cores; each thread reads and decodes its own, and the
//! index takes them in seq order, because its slots are. Reading is ahead by one piece per thread, which bounds memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Options;
use super::disk::{Disk, Space};
use super::layout::{self, CollectionEntry, IndexEntry};
use super::line::{Collection, Generation};
use crate::collection::CollectionName;
use crate::index::{Entry, GenerationIndex};
use crate::store::{GenerationId, Result, Seq, StoreError};

/// Records a thread decodes before it hands them over: a few megabytes.
const PIECE: usize = 16_384;

/// How far a rebuild has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Records of all collections filed so far.
    pub done: u64,
    /// Records of all collections.
    pub total: u64,
}

/// All collections with their indexes.
pub(super) fn collections(disk: &Disk, options: &Options) -> Result<BTreeMap<CollectionName, Arc<Collection>>> {
    let view = disk.view();
    let mut found = Vec::new();
    for entry in disk.prefix(&view, Space::Meta, layout::PREFIX_COLLECTION) {
        let (_, value) = entry?;
        let entry: CollectionEntry = serde_json::from_slice(&value)
            .map_err(|error| StoreError::Internal(format!("the settings of a collection cannot be read: {error}")))?;
        let numbers = disk.get(&view, Space::Meta, &layout::numbers_key(entry.number))?;
        let numbers = numbers.map(|bytes| layout::decode_numbers(&bytes)).transpose()?.unwrap_or((1, 0));
        found.push((entry, numbers));
    }
    let mut progress = Progress { done: 0, total: found.iter().map(|(_, (_, count))| count).sum() };
    let mut collections = BTreeMap::new();
    for (CollectionEntry { number, state }, (next_seq, count)) in found {
        let index = rebuild(disk, number, state.generation, next_seq, &mut |records| {
            (options.progress)(Progress { done: progress.done + records, ..progress });
        })?;
        progress.done += count;
        let generation = Generation::new(state.generation, &state.settings, index);
        let name = state.name.clone();
        collections.insert(name, Arc::new(Collection::new(number, state, generation, next_seq, count)));
    }
    Ok(collections)
}

/// Builds one generation's index; `filed` is told how many records are in, now and then.
pub(super) fn rebuild(
    disk: &Disk,
    number: u32,
    generation: GenerationId,
    next_seq: Seq,
    filed: &mut dyn FnMut(u64),
) -> Result<GenerationIndex> {
    let index = GenerationIndex::new();
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let stretch = next_seq.div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|at| {
                let (sender, receiver) = crossbeam_channel::bounded(64);
                let (from, to) = (at * stretch, ((at + 1) * stretch).min(next_seq));
                scope.spawn(move || read_stretch(disk, number, generation, from, to, &sender));
                receiver
            })
            .collect();
        // The first damaged piece ends the loading; what was loaded by then is thrown away with it.
        let mut failure = None;
        let pieces = readers.into_iter().flatten().map_while(|piece| piece.map_err(|error| failure = Some(error)).ok());
        let loaded = index.load(pieces.flatten(), |records| filed(records as u64));
        loaded.map_err(|error| StoreError::Limit(error.to_string()))?;
        if let Some(error) = failure {
            return Err(error);
        }
        Ok(index)
    })
}

type Piece = Result<Vec<Entry>>;

fn read_stretch(
    disk: &Disk,
    number: u32,
    generation: GenerationId,
    from: Seq,
    to: Seq,
    sender: &crossbeam_channel::Sender<Piece>,
) {
    let view = disk.view();
    let (from, to) = (layout::signature_key(number, generation, from), layout::signature_key(number, generation, to));
    let mut piece = Vec::with_capacity(PIECE);
    for entry in disk.range(&view, Space::Signatures, &from, &to) {
        let decoded = entry.and_then(|(key, value)| {
            let IndexEntry { digest_key, fingerprint, keys, .. } = layout::decode_entry(&value)?;
            Ok(Entry { seq: layout::seq_of_key(&key)?, digest_key, fingerprint, keys })
        });
        match decoded {
            Ok(decoded) => piece.push(decoded),
            Err(error) => {
                let _ = sender.send(Err(error));
                return;
            }
        }
        if piece.len() == PIECE && sender.send(Ok(std::mem::replace(&mut piece, Vec::with_capacity(PIECE)))).is_err() {
            return;
        }
    }
    let _ = sender.send(Ok(piece));
}
