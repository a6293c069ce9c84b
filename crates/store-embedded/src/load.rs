//! Rebuilds the indexes in memory from the keyspace `signatures` when a directory is opened, on all cores and with bounded memory.
//!
//! The seqs of a collection are divided into short ranges, which the threads take in turn: each thread reads and decodes its
//! ranges, and the index receives the entries in the order of seqs, because its slots ascend with seqs. A thread is ahead by at
//! most [`AHEAD`] pieces of [`PIECE_BYTES`], for any size of the collection.
//!
//! A record whose index entry is damaged is omitted, counted, and logged with its seq. Lookups do not find it until it is
//! registered again, which writes a new entry; all other records are served.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender};
use fjall::Snapshot;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::collection::Collection;
use super::disk::Disk;
use super::errors::unavailable;
use super::generation::Generation;
use super::keys::GenerationKey;
use super::keyspaces::Space;
use super::layout::{self, CollectionEntry, IndexEntry};
use super::options::{EmbeddedOptions, LoadProgress};
use super::recovered_collections;
use doppel_core::collection::CollectionName;
use doppel_core::index::{Entry, GenerationIndex};
use doppel_store::keys::KeyRing;
use doppel_store::tasks::TaskState;
use doppel_store::{CollectionNumber, GenerationId, Result, Seq, StoreError};

/// Number of seqs in a range: a few megabytes of typical records.
const RANGE: u64 = 16_384;
/// Number of bytes of keys after which a piece is sent. A piece is also sent at the end of a range.
const PIECE_BYTES: usize = 4 << 20;
/// Largest number of pieces of each thread that wait to be received.
const AHEAD: usize = 2;
/// Largest number of damaged entries of a collection that are logged; further damaged entries are only counted.
const NAMED: u64 = 20;

/// All published tasks, by id.
pub(super) type TaskList = Arc<Mutex<BTreeMap<String, TaskState>>>;

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

/// The published keys of callers and accounts of people.
pub(super) type SharedKeyRing = Arc<Mutex<KeyRing>>;

pub(super) fn key_ring(disk: &Disk) -> Result<SharedKeyRing> {
    let ring: KeyRing = part_of_ring(disk, layout::KEY_RING, "the keys of callers")?;
    let accounts = part_of_ring(disk, layout::ACCOUNTS, "the accounts of people")?;
    Ok(Arc::new(Mutex::new(KeyRing { accounts, ..ring })))
}

/// Reads one of the two values of the key ring; an empty value if it was never stored.
fn part_of_ring<T: DeserializeOwned + Default>(disk: &Disk, key: &[u8], what: &str) -> Result<T> {
    let Some(value) = disk.get(&disk.view(), Space::Meta, key)? else {
        return Ok(T::default());
    };
    let part = serde_json::from_slice(&value)
        .map_err(|error| StoreError::Internal(format!("{what} on disk cannot be read: {error}")));
    let part = disk.tolerate((Space::Meta, CollectionNumber::default(), Seq(0)), part)?;
    Ok(part.unwrap_or_default())
}

/// Reads all collections and builds their indexes.
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
        // Only the index of the live generation is built; standby generations stay on disk.
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
                "the number of records in the data directory differs from its count: it has lost records, or was changed from outside; \
                 restore it from a backup, or run doppel doctor to see more"
            );
        }
        let generation = Generation::new(state.generation, &state.settings, index);
        let name = state.name.clone();
        collections.insert(name, Arc::new(Collection::new(entry, generation, next_seq, count)));
    }
    Ok(collections)
}

/// Reads the next seq and the number of records of a collection.
fn numbers(disk: &Disk, view: &Arc<Snapshot>, number: CollectionNumber) -> Result<(Seq, u64)> {
    let stored = disk.get(view, Space::Meta, &layout::numbers_key(number));
    let stored = stored.and_then(|bytes| bytes.map(|bytes| layout::decode_numbers(&bytes)).transpose());
    match (stored, disk.damages()) {
        (Err(_) | Ok(None), Some(damages)) => recovered_collections::count(disk, view, number, damages),
        (stored, _) => Ok(stored?.unwrap_or((Seq(1), 0))),
    }
}

/// Builds the index of one generation. Calls `on_progress` from time to time with the number of records in the index.
pub(super) fn rebuild(
    disk: &Disk,
    number: CollectionNumber,
    generation: GenerationId,
    next_seq: Seq,
    on_progress: &mut dyn FnMut(u64),
) -> Result<GenerationIndex> {
    let index = GenerationIndex::new();
    let key = GenerationKey { number, generation };
    fill(disk, key, next_seq, &index, on_progress).map(|()| index)
}

/// Adds the published records of a generation below `next_seq` to `index`, which is empty. Each range is read in the state of the moment at
/// which its read begins.
///
/// # Errors
/// Also if the store is closed meanwhile.
pub(super) fn fill(
    disk: &Disk,
    key: GenerationKey,
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
                let reader = RangeReader { disk, key, next_seq, damaged: &damaged, sender };
                let mut own = (first..ranges).step_by(threads as usize);
                scope.spawn(move || own.all(|range| reader.read(range)));
                receiver
            })
            .collect();
        // If a piece cannot be read, the loading ends and the loaded part is dropped.
        let mut failure = None;
        let loaded = index.load(in_order(readers, ranges, &mut failure), |records| on_progress(records as u64));
        loaded?;
        failure.map_or(Ok(()), Err)
    });
    let damaged = damaged.into_inner();
    if damaged > 0 {
        tracing::error!(
            collection = key.number.0,
            damaged,
            "index entries are damaged; lookups do not find these records until each is registered again under its id"
        );
    }
    result
}

/// The message of a reader: some entries in the order of seqs, and true if the range ends with them.
type ReadPiece = Result<(Vec<Entry>, bool)>;

/// Returns the entries of all ranges, in order.
fn in_order(
    readers: Vec<Receiver<ReadPiece>>,
    ranges: u64,
    failure: &mut Option<StoreError>,
) -> impl Iterator<Item = Entry> {
    let mut range = 0;
    let pieces = std::iter::from_fn(move || {
        if range == ranges {
            return None;
        }
        let received = readers[(range % readers.len() as u64) as usize].recv();
        let piece = received
            .unwrap_or_else(|_| Err(StoreError::Internal("a thread that reads index entries ended early".into())));
        let (entries, last) = piece.map_err(|error| *failure = Some(error)).ok()?;
        range += u64::from(last);
        Some(entries)
    });
    pieces.fuse().flatten()
}

/// Reads ranges of a generation in one thread.
struct RangeReader<'a> {
    disk: &'a Disk,
    key: GenerationKey,
    next_seq: Seq,
    damaged: &'a AtomicU64,
    sender: Sender<ReadPiece>,
}

impl RangeReader<'_> {
    /// Sends the entries of a range. Returns true if more ranges are wanted.
    fn read(&self, range: u64) -> bool {
        if self.disk.is_stopping() {
            let _ = self.sender.send(Err(unavailable("the store is closed or being opened again")));
            return false;
        }
        let from = self.signature_key(range * RANGE);
        let to = self.signature_key((range + 1) * RANGE);
        let view = self.disk.view();
        let mut piece = Vec::new();
        let mut bytes = 0;
        for entry in self.disk.range(&view, Space::Signatures, &from, &to) {
            match entry.and_then(|(key, value)| self.decode(&key, &value)) {
                Ok(Some(entry)) => {
                    bytes += size_of_val(&entry.keys[..]);
                    piece.push(entry);
                }
                Ok(None) => {}
                Err(error) => {
                    // The receiver may have ended.
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

    /// Returns the key of the entry with this seq, or of the end of the generation.
    fn signature_key(&self, seq: u64) -> [u8; 16] {
        layout::signature_key(self.key.number, self.key.generation, Seq(seq).min(self.next_seq))
    }

    fn decode(&self, key: &[u8], value: &[u8]) -> Result<Option<Entry>> {
        let seq = layout::seq_of_key(key)?;
        let Some(IndexEntry { digest_key, fingerprint, keys, .. }) = layout::decode_entry(value)? else {
            if self.damaged.fetch_add(1, Ordering::Relaxed) < NAMED {
                let collection = self.key.number.0;
                let generation = self.key.generation.0;
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
    use crate::keyspaces::WriteOp;
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
    fn records_load_in_the_order_of_seqs_and_a_damaged_entry_does_not_stop_the_loading() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let disk = Disk::open(dir.path(), &EmbeddedOptions::default(), FRESH).expect("an empty directory opens");
        // The seqs are in one range, in several ranges, and at the ends of ranges. Each large record fills a piece.
        let seqs = [1, 2, 3, RANGE - 1, RANGE, 2 * RANGE + 7, 5 * RANGE, 9 * RANGE - 1].map(Seq);
        let large = PIECE_BYTES as u64 / size_of::<PostingKey>() as u64 + 1;
        let encoded = |seq| layout::encode_entry(&entry(seq, if seq < Seq(4) { large } else { 3 }));
        let mut ops: Vec<WriteOp> = seqs.iter().map(|seq| put_entry(*seq, encoded(*seq))).collect();
        ops.push(put_entry(Seq(RANGE + 1), encoded(Seq(9))[..20].to_vec()));
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
            let lookup = Lookup { keys: last.as_slice(), ..Lookup::default() };
            let found: Vec<Seq> = index.propose(&lookup).items.iter().map(|proposal| proposal.seq).collect();
            assert_eq!(found, [seq]);
        }
    }

    fn put_entry(seq: Seq, value: Vec<u8>) -> WriteOp {
        let key = layout::signature_key(CollectionNumber(1), GenerationId(1), seq);
        WriteOp::Put(Space::Signatures, key.to_vec(), value)
    }

    #[test]
    fn an_entry_of_a_later_layout_stops_the_loading_with_a_remedy() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let disk = Disk::open(dir.path(), &EmbeddedOptions::default(), FRESH).expect("an empty directory opens");
        let key = layout::signature_key(CollectionNumber(1), GenerationId(1), Seq(1)).to_vec();
        disk.commit(vec![WriteOp::Put(Space::Signatures, key, vec![200, 0])]).expect("a commit");
        disk.publish();
        let error = rebuild(&disk, CollectionNumber(1), GenerationId(1), Seq(2), &mut |_| ())
            .err()
            .expect("it does not load")
            .to_string();
        assert!(error.contains("layout 200") && error.contains("program version"), "{error}");
    }
}
