//! One opened database: its keyspaces, its commits, and the view that readers see.
//!
//! **Atomicity across keyspaces** was read in the source of fjall 3.1.13, not assumed: a batch is one journal entry
//! (start, items of any keyspace, end with checksum) under one lock; recovery drops a batch without its end marker; a
//! journal file is deleted only when every keyspace in it has flushed it. `WriteBatch::commit` with
//! `PersistMode::SyncAll` appends, syncs, and only then applies to the memtables. So there is nothing to repair after a
//! crash.
//!
//! Readers use [`Disk::view`], a snapshot taken after the last sync: nothing shows before it is durable, and all
//! keyspaces show the same instant.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};

use super::layout::{self, FORMAT, FORMAT_RECORDS_ONLY};
use crate::record::RecordId;
use crate::store::{GenerationId, Result, Seq, StoreError, StoredRecord};
use crate::verdict::Fingerprint;

/// Seconds after which a refused caller may try again.
pub(super) const RETRY_AFTER_S: u32 = 2;

/// The keyspaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Meta,
    Records,
    Ids,
    Signatures,
    Decisions,
    Tasks,
    Pairs,
}

/// Their names, in the same order.
const NAMES: [&str; 7] = ["meta", "records", "ids", "signatures", "decisions", "tasks", "pairs"];

/// One change of one key.
#[derive(Debug)]
pub(super) enum Op {
    Put(Space, Vec<u8>, Vec<u8>),
    Delete(Space, Vec<u8>),
}

impl Op {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Put(_, key, value) => key.len() + value.len(),
            Self::Delete(_, key) => key.len(),
        }
    }
}

/// An open database.
pub(super) struct Disk {
    db: Database,
    spaces: Vec<Keyspace>,
    view: ArcSwap<Snapshot>,
    failed: AtomicBool,
    stopping: AtomicBool,
    /// Bytes on disk when last measured.
    measured: AtomicU64,
}

/// How a commit failed.
#[derive(Debug)]
pub(super) enum CommitError {
    /// Nothing was written.
    Refused(String),
    /// Some of it may have reached the disk; opening again will tell.
    Open(String),
}

impl CommitError {
    pub(super) fn answer(&self) -> StoreError {
        match self {
            Self::Refused(reason) => unavailable(reason),
            Self::Open(reason) => StoreError::Unknown(reason.clone()),
        }
    }
}

pub(super) fn unavailable(reason: impl Into<String>) -> StoreError {
    StoreError::Unavailable { reason: reason.into(), retry_after_s: RETRY_AFTER_S }
}

pub(super) fn io(error: impl Into<fjall::Error>) -> StoreError {
    StoreError::Internal(format!("reading the data directory failed: {}", error.into()))
}

impl Disk {
    /// Opens or creates the database in `dir`, which exists.
    pub(super) fn open(dir: &Path, cache_bytes: u64) -> Result<Self> {
        let db = Database::builder(dir).cache_size(cache_bytes).open().map_err(|error| open_error(dir, error))?;
        let space = |name| db.keyspace(name, KeyspaceCreateOptions::default).map_err(|error| open_error(dir, error));
        let spaces = NAMES.map(space).into_iter().collect::<Result<Vec<_>>>()?;
        let view = ArcSwap::from_pointee(db.snapshot());
        let (failed, stopping) = (AtomicBool::new(false), AtomicBool::new(false));
        let disk = Self { db, spaces, view, failed, stopping, measured: AtomicU64::new(0) };
        disk.check_format(dir)?;
        disk.measure();
        Ok(disk)
    }

    fn check_format(&self, dir: &Path) -> Result<()> {
        let found = self.get(&self.view(), Space::Meta, layout::KEY_FORMAT)?;
        match found.map(|bytes| layout::decode_u32(&bytes, "format version")).transpose()? {
            Some(FORMAT) => Ok(()),
            // Nothing in it need be written anew.
            Some(FORMAT_RECORDS_ONLY) => self.set_format(),
            Some(newer) if newer > FORMAT => Err(StoreError::Internal(format!(
                "{} has format {newer}, this program knows up to {FORMAT}; run the newer program version, or restore a \
                 backup made before the upgrade",
                dir.display()
            ))),
            Some(other) => Err(StoreError::Internal(format!(
                "{} has format {other}, which no version writes; restore it from a backup",
                dir.display()
            ))),
            None => self.set_format(),
        }
    }

    /// Says that the directory is of today's format: a program that does not know it refuses to open it.
    fn set_format(&self) -> Result<()> {
        let value = FORMAT.to_le_bytes().to_vec();
        self.commit(vec![Op::Put(Space::Meta, layout::KEY_FORMAT.to_vec(), value)]).map_err(|error| error.answer())?;
        self.publish();
        Ok(())
    }

    fn keyspace(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }

    /// Writes `ops` as one atomic batch and syncs it. Returns after the sync; readers see it after [`Disk::publish`].
    pub(super) fn commit(&self, ops: Vec<Op>) -> std::result::Result<(), CommitError> {
        super::point("store::before_append");
        if super::fails("store::commit_error") {
            return Err(CommitError::Refused("the commit failed".into()));
        }
        let mut batch = self.db.batch();
        for op in ops {
            match op {
                Op::Put(space, key, value) => batch.insert(self.keyspace(space), key, value),
                Op::Delete(space, key) => batch.remove(self.keyspace(space), key),
            }
        }
        #[cfg(feature = "failpoints")]
        if super::fails("store::split_append_and_sync") {
            batch.commit().map_err(commit_error)?;
            super::point("store::between_append_and_sync");
            return self.db.persist(PersistMode::SyncAll).map_err(commit_error);
        }
        batch.durability(Some(PersistMode::SyncAll)).commit().map_err(commit_error)
    }

    /// Lets readers see everything committed so far.
    pub(super) fn publish(&self) {
        self.view.store(Arc::new(self.db.snapshot()));
    }

    /// Syncs once more, for an orderly end.
    pub(super) fn sync(&self) -> Result<()> {
        self.db.persist(PersistMode::SyncAll).map_err(io)
    }

    /// The last published state.
    pub(super) fn view(&self) -> Arc<Snapshot> {
        self.view.load_full()
    }

    /// Whether `view` is still the last published state.
    pub(super) fn is_current(&self, view: &Arc<Snapshot>) -> bool {
        Arc::ptr_eq(view, &self.view.load())
    }

    /// No more writes until opened again.
    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Tells work that can wait until the next opening to end.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Bytes on disk when last measured: an answer that waits for nobody.
    pub(super) fn bytes(&self) -> u64 {
        self.measured.load(Ordering::Relaxed)
    }

    /// Looks how many bytes are on disk. Waits for whoever writes the journal, so that only the writer should ask.
    pub(super) fn measure(&self) {
        if let Ok(bytes) = self.db.disk_space() {
            self.measured.store(bytes, Ordering::Relaxed);
        }
    }

    pub(super) fn get(&self, view: &Snapshot, space: Space, key: &[u8]) -> Result<Option<fjall::UserValue>> {
        view.get(self.keyspace(space), key).map_err(io)
    }

    /// The seq under which `id` is stored.
    pub(super) fn seq_of(&self, view: &Snapshot, number: u32, id: &RecordId) -> Result<Option<Seq>> {
        let found = self.get(view, Space::Ids, &layout::id_key(number, id))?;
        found.map(|bytes| layout::decode_seq(&bytes)).transpose()
    }

    /// The record with `seq`; its verdict only if wanted.
    pub(super) fn record(
        &self,
        view: &Snapshot,
        number: u32,
        seq: Seq,
        with_verdict: bool,
    ) -> Result<Option<StoredRecord>> {
        let found = self.get(view, Space::Records, &layout::record_key(number, seq))?;
        found.map(|bytes| layout::decode_record(seq, &bytes, with_verdict)).transpose()
    }

    /// The index entry of the record with `seq`, if it is there and can be read.
    pub(super) fn entry(
        &self,
        view: &Snapshot,
        number: u32,
        generation: GenerationId,
        seq: Seq,
    ) -> Result<Option<layout::IndexEntry>> {
        let found = self.get(view, Space::Signatures, &layout::signature_key(number, generation, seq))?;
        Ok(found.map(|bytes| layout::decode_entry(&bytes)).transpose()?.flatten())
    }

    /// The fingerprint of the record with `seq`, if its index entry has one and can be read.
    pub(super) fn fingerprint(
        &self,
        view: &Snapshot,
        (number, generation): (u32, GenerationId),
        seq: Seq,
    ) -> Result<Option<Fingerprint>> {
        Ok(self.entry(view, number, generation, seq)?.and_then(|entry| entry.fingerprint))
    }

    /// Keys and values from `from` up to, not including, `to`, in order.
    pub(super) fn range(
        &self,
        view: &Snapshot,
        space: Space,
        from: &[u8],
        to: &[u8],
    ) -> impl Iterator<Item = Result<fjall::KvPair>> + use<> {
        view.range(self.keyspace(space), from.to_vec()..to.to_vec()).map(|guard| guard.into_inner().map_err(io))
    }

    /// Keys and values that begin with `prefix`, in order.
    pub(super) fn prefix(
        &self,
        view: &Snapshot,
        space: Space,
        prefix: &[u8],
    ) -> impl Iterator<Item = Result<fjall::KvPair>> + use<> {
        view.prefix(self.keyspace(space), prefix).map(|guard| guard.into_inner().map_err(io))
    }
}

fn commit_error(error: fjall::Error) -> CommitError {
    match error {
        // Said before anything is written.
        fjall::Error::Poisoned => CommitError::Refused("the last write to the data directory failed".into()),
        error => CommitError::Open(format!("writing to the data directory failed: {error}")),
    }
}

fn open_error(dir: &Path, error: fjall::Error) -> StoreError {
    let dir = dir.display();
    match error {
        fjall::Error::Locked => StoreError::Internal(format!(
            "{dir} is in use by another process; stop that process, or give this one another data directory"
        )),
        fjall::Error::InvalidVersion(_) => StoreError::Internal(format!(
            "{dir} was written by another version of the storage engine; run the program version that wrote it"
        )),
        error => StoreError::Internal(format!(
            "{dir} cannot be opened: {error}; check that it is a readable and writable directory of this program"
        )),
    }
}
