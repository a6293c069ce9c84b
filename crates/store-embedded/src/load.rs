//! Rebuilds the in-memory indexes from the `signatures` keyspace when a directory is opened, on all cores, in bounded memory.
//!
//! The seqs of a collection are cut into short ranges, which the threads take by turns: each reads and decodes its own, and the
//! index receives them in seq order, because its slots ascend with seqs. A thread is ahead by at most [`AHEAD`] pieces of
//! [`PIECE_BYTES`], whatever the size of the collection.
//!
//! A record whose index entry is damaged is left out, counted and named in the log by its seq: no lookup finds it until it is
//! registered again, which files it anew, and everything else is served.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender};
use fjall::Snapshot;
use parking_lot::Mutex;

use super::collection::Collection;
use super::disk::Disk;
use super::errors::unavailable;
use super::generation::Generation;
use super::keyspaces::Space;
use super::layout::{self, CollectionEntry, IndexEntry};
use super::options::{EmbeddedOptions, LoadProgress};
use super::recovered_collections;
use doppel_core::collection::CollectionName;
use doppel_core::index::{Entry, GenerationIndex};
use doppel_store::keys::KeyRing;
use doppel_store::tasks::TaskState;
use doppel_store::{CollectionNumber, GenerationId, Result, Seq, StoreError};

/// Seqs in a range: a few megabytes of usual records.
const RANGE: u64 = 16_384;
/// A piece is sent when it has this many bytes of keys, or at the end of a range.
const PIECE_BYTES: usize = 4 << 20;
/// Pieces of each thread that wait to be received.
const AHEAD: usize = 2;
/// Damaged entries of a collection that are named in the log; the others are only counted.
const NAMED: u64 = 20;

/// All tasks that are published, by id.
pub(super) type TaskList = Arc<Mutex<BTreeMap<String, TaskState>>>;

/// Reads all tasks.
pub(super) fn tasks(disk: &Disk) -> Result<TaskList> {
    let mut tasks = BTreeMap::new();
    for entry in disk.prefix(&disk.view(), Space::Tasks, &[]) {
        let (_, value) = entry?;
        let task = serde_json::from_slice(&value)
            .map_err(|error| StoreError::Internal(format!("a task on disk cannot be read: {error}")));
        let task: Option<TaskState> = disk.tolerate((Space::Tasks, CollectionNumber::default(), Seq(0)), task)?;
        tasks.extend(task.map(|task| (task.id.clone(), task)));
    }
    Ok(Arc::new(Mutex::new(tasks)))
}

/// The keys of callers that are published.
pub(super) type Ring = Arc<Mutex<KeyRing>>;

/// Reads the keys of callers.
pub(super) fn key_ring(disk: &Disk) -> Result<Ring> {
    let Some(value) = disk.get(&disk.view(), Space::Meta, layout::KEY_RING)? else { return Ok(Ring::default()) };
    let ring = serde_json::from_slice(&value)
        .map_err(|error| StoreError::Internal(format!("the keys of callers on disk cannot be read: {error}")));
    let ring = disk.tolerate((Space::Meta, CollectionNumber::default(), Seq(0)), ring)?;
    Ok(Arc::new(Mutex::new(ring.unwrap_or_default())))
}

/// All collections with their indexes.
pub(super) fn collections(disk: &Disk, options: &EmbeddedOptions) -> Result<BTreeMap<CollectionName, Arc<Collection>>> {
    let view = disk.view();
    let mut entries = Vec::new();
    for entry in disk.prefix(&view, Space::Meta, layout::PREFIX_COLLECTION) {
        let (_, value) = entry?;
        let entry = serde_json::from_slice(&value)
            .map_err(|error| StoreError::Internal(format!("the settings of a collection cannot be read: {error}")));
        let entry: Option<CollectionEntry> =
            disk.tolerate((Space::Meta, CollectionNumber::default(), Seq(0)), entry)?;
        entries.extend(entry);
    }
    recovered_collections::add(disk, &view, &mut entries)?;
    let mut found = Vec::new();
    for mut entry in entries {
        entry.state.number = entry.number;
        let numbers = numbers(disk, &view, entry.number)?;
        found.push((entry, numbers));
    }
    let mut progress = LoadProgress { done: 0, total: found.iter().map(|(_, (_, count))| count).sum() };
    let mut collections = BTreeMap::new();
    for (entry, (next_seq, count)) in found {
        let state = &entry.state;
        // Only of the live one: standby generations stay on disk.
        let index = rebuild(disk, entry.number, state.generation, next_seq, &mut |records| {
            (options.on_progress)(LoadProgress { done: progress.done + records, ..progress });
        })?;
        progress.done += count;
        let filed = index.len() as u64;
        if filed != count {
            let collection = state.name.as_str();
            tracing::error!(
                collection,
                counted = count,
                found = filed,
                "the data directory has lost records, or was changed from outside: it counts more or fewer than are found in \
                 it; restore it from a backup, or run doppel doctor to see more"
            );
        }
        let generation = Generation::new(state.generation, &state.settings, index);
        let name = state.name.clone();
        collections.insert(name, Arc::new(Collection::new(entry, generation, (next_seq, count))));
    }
    Ok(collections)
}

/// Next seq and live records of a collection.
fn numbers(disk: &Disk, view: &Arc<Snapshot>, number: CollectionNumber) -> Result<(Seq, u64)> {
    let stored = disk.get(view, Space::Meta, &layout::numbers_key(number));
    let stored = stored.and_then(|bytes| bytes.map(|bytes| layout::decode_numbers(&bytes)).transpose());
    match (stored, disk.damages()) {
        (Err(_) | Ok(None), Some(damages)) => recovered_collections::count(disk, view, number, damages),
        (stored, _) => Ok(stored?.unwrap_or((Seq(1), 0))),
    }
}

/// Builds one generation's index; `on_progress` is called now and then with the number of records in it.
pub(super) fn rebuild(
    disk: &Disk,
    number: CollectionNumber,
    generation: GenerationId,
    next_seq: Seq,
    on_progress: &mut dyn FnMut(u64),
) -> Result<GenerationIndex> {
    let index = GenerationIndex::new();
    fill(disk, (number, generation), next_seq, &index, on_progress).map(|()| index)
}

/// Files in `index`, which is empty, what a generation has below `next_seq`. Each range as it is published when it is read.
///
/// # Errors
/// Also when the store is being closed meanwhile.
pub(super) fn fill(
    disk: &Disk,
    (number, generation): (CollectionNumber, GenerationId),
    next_seq: Seq,
    index: &GenerationIndex,
    on_progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let damaged = AtomicU64::new(0);
    let ranges = next_seq.0.div_ceil(RANGE);
    let result = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|first| {
                let (sender, receiver) = crossbeam_channel::bounded(AHEAD);
                let reader = Reader { disk, number, generation, next_seq, damaged: &damaged, sender };
                let mut own = (first..ranges).step_by(threads as usize);
                scope.spawn(move || own.all(|range| reader.read(range)));
                receiver
            })
            .collect();
        // The first piece that cannot be read ends the loading; what was loaded by then is thrown away with it.
        let mut failure = None;
        let loaded = index.load(in_order(readers, ranges, &mut failure), |records| on_progress(records as u64));
        loaded?;
        failure.map_or(Ok(()), Err)
    });
    let damaged = damaged.into_inner();
    if damaged > 0 {
        tracing::error!(
            collection = number.0,
            damaged,
            "index entries are damaged; lookups do not find these records until each is registered again under its id"
        );
    }
    result
}

/// What a reader sends: some entries in seq order, and whether its range ends with them.
type Piece = Result<(Vec<Entry>, bool)>;

/// The entries of all ranges, in order.
fn in_order(
    readers: Vec<Receiver<Piece>>,
    ranges: u64,
    failure: &mut Option<StoreError>,
) -> impl Iterator<Item = Entry> {
    let mut range = 0;
    let pieces = std::iter::from_fn(move || {
        if range == ranges {
            return None;
        }
        let ended = || Err(StoreError::Internal("a thread that reads index entries ended early".into()));
        let piece = readers[(range % readers.len() as u64) as usize].recv().unwrap_or_else(|_| ended());
        let (entries, last) = piece.map_err(|error| *failure = Some(error)).ok()?;
        range += u64::from(last);
        Some(entries)
    });
    pieces.fuse().flatten()
}

/// Reads every so many-th range.
struct Reader<'a> {
    disk: &'a Disk,
    number: CollectionNumber,
    generation: GenerationId,
    next_seq: Seq,
    damaged: &'a AtomicU64,
    sender: Sender<Piece>,
}

impl Reader<'_> {
    /// Sends the entries of a range; whether more are wanted.
    fn read(&self, range: u64) -> bool {
        if self.disk.is_stopping() {
            let _ = self.sender.send(Err(unavailable("the store is closed or being opened again")));
            return false;
        }
        let key = |seq| layout::signature_key(self.number, self.generation, Seq(seq).min(self.next_seq));
        let (from, to) = (key(range * RANGE), key((range + 1) * RANGE));
        let view = self.disk.view();
        let (mut piece, mut bytes) = (Vec::new(), 0);
        for entry in self.disk.range(&view, Space::Signatures, &from, &to) {
            match entry.and_then(|(key, value)| self.decode(&key, &value)) {
                Ok(Some(entry)) => {
                    bytes += size_of_val(&entry.keys[..]);
                    piece.push(entry);
                }
                Ok(None) => {}
                Err(error) => {
                    // Nobody need be receiving any more.
                    let _ = self.sender.send(Err(error));
                    return false;
                }
            }
            if bytes >= PIECE_BYTES {
                bytes = 0;
                if self.sender.send(Ok((std::mem::take(&mut piece), false))).is_err() {
                    return false;
                }
            }
        }
        self.sender.send(Ok((piece, true))).is_ok()
    }

    fn decode(&self, key: &[u8], value: &[u8]) -> Result<Option<Entry>> {
        let seq = layout::seq_of_key(key)?;
        let Some(IndexEntry { digest_key, fingerprint, keys, .. }) = layout::decode_entry(value)? else {
            if self.damaged.fetch_add(1, Ordering::Relaxed) < NAMED {
                let (collection, generation) = (self.number.0, self.generation.0);
                tracing::error!(collection, generation, seq = seq.0, "an index entry is damaged");
            }
            return Ok(None);
        };
        Ok(Some(Entry { seq, digest_key, fingerprint, keys }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspaces::Op;
    use crate::options::FRESH;
    use doppel_core::index::{Lookup, Slot};
    use doppel_core::schemes::profile::PostingKey;

    fn entry(seq: Seq, keys: u64) -> IndexEntry {
        let keys = (0..keys)
            .map(|key| PostingKey {
                channel: doppel_core::collection::ChannelPosition(1),
                key: seq.0 * 1_000_003 + key,
            })
            .collect();
        IndexEntry { digest_key: seq.0, fingerprint: None, keys, signatures: Vec::new() }
    }

    #[test]
    fn records_come_back_in_seq_order_wherever_they_lie_and_a_damaged_one_stops_none() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let disk = Disk::open(dir.path(), &EmbeddedOptions::default(), FRESH).expect("an empty directory opens");
        // In one range, in several, at their edges; the large ones fill a piece each.
        let seqs = [1, 2, 3, RANGE - 1, RANGE, 2 * RANGE + 7, 5 * RANGE, 9 * RANGE - 1].map(Seq);
        let large = PIECE_BYTES as u64 / size_of::<PostingKey>() as u64 + 1;
        let put = |seq, value| {
            Op::Put(Space::Signatures, layout::signature_key(CollectionNumber(1), GenerationId(1), seq).to_vec(), value)
        };
        let value = |seq| layout::encode_entry(&entry(seq, if seq < Seq(4) { large } else { 3 }));
        let mut ops: Vec<Op> = seqs.iter().map(|seq| put(*seq, value(*seq))).collect();
        ops.push(put(Seq(RANGE + 1), value(Seq(9))[..20].to_vec()));
        disk.commit(ops).expect("a commit");
        disk.publish();
        let mut filed = 0;
        let index =
            rebuild(&disk, CollectionNumber(1), GenerationId(1), Seq(9 * RANGE), &mut |records| filed = records)
                .expect("it loads");
        assert_eq!((filed, index.len()), (8, 8));
        for (slot, seq) in (0..).zip(seqs) {
            assert_eq!(index.seq(Slot(slot)), Some(seq));
            let last = entry(seq, if seq < Seq(4) { large } else { 3 }).keys.last().copied();
            let lookup = Lookup { digest_key: None, ball: None, keys: last.as_slice() };
            let found: Vec<Seq> = index.propose(&lookup).items.iter().map(|proposal| proposal.seq).collect();
            assert_eq!(found, [seq]);
        }
    }

    #[test]
    fn an_entry_of_a_later_layout_stops_the_loading_with_a_remedy() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let disk = Disk::open(dir.path(), &EmbeddedOptions::default(), FRESH).expect("an empty directory opens");
        let key = layout::signature_key(CollectionNumber(1), GenerationId(1), Seq(1)).to_vec();
        disk.commit(vec![Op::Put(Space::Signatures, key, vec![200, 0])]).expect("a commit");
        disk.publish();
        let error = rebuild(&disk, CollectionNumber(1), GenerationId(1), Seq(2), &mut |_| ())
            .err()
            .expect("it does not load")
            .to_string();
        assert!(error.contains("layout 200") && error.contains("program version"), "{error}");
    }
}
