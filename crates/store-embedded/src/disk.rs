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
use std::time::Duration;

use arc_swap::ArcSwap;
use fjall::{AbstractTree as _, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};
use parking_lot::Mutex;

use super::directory;
use super::errors::{io, unavailable};
use super::failpoints::{fails, point};
use super::free_space::filled_up;
use super::inspect::{self, Found};
use super::keyspaces::{NAMES, Op, Space};
use super::layout::{self, FORMAT, FORMAT_RECORDS_ONLY, FORMAT_WITHOUT_CHANGES};
use super::manifest::{self, Manifest, Marks, State};
use super::opening::{check_keyspaces, database, open_error, tell_dropped};
use super::options::{EmbeddedOptions, Opening, Workers};
use super::scan::{Damages, Scan};
use doppel_core::record::RecordId;
use doppel_core::verdict::Fingerprint;
use doppel_store::{CollectionNumber, GenerationId, Result, Seq, StoreError, StoredRecord};

/// The engine blocks a commit, for ever if its workers have failed, at somewhat more tables written and not merged, or memtables
/// full and not written. Commits wait here before that, where the wait can be ended.
const TABLES_BEHIND: usize = 28;
const MEMTABLES_BEHIND: usize = 3;
/// How often to look whether it has caught up.
const CATCHING_UP: Duration = Duration::from_millis(10);

/// An open database.
pub(super) struct Disk {
    db: Database,
    spaces: Vec<Keyspace>,
    view: ArcSwap<Snapshot>,
    failed: AtomicBool,
    stopping: AtomicBool,
    /// Bytes on disk when last measured.
    measured: AtomicU64,
    workers: Workers,
    unannounced: bool,
    damages: Option<Damages>,
    /// What must be there at the next opening. Last: it is written anew when all else is closed.
    marks: Marks,
}

/// How a commit failed.
#[derive(Debug)]
pub(super) enum CommitError {
    /// Nothing was written.
    Refused(String),
    /// Some of it may have reached the disk; opening again will show.
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

/// Writes down that the directory is no longer as it was closed, before anything changes in it: workers clear journals away at once.
/// Where that could not be written no journal may be deleted.
fn announce(dir: &Path) -> std::io::Result<()> {
    match Manifest::read(dir)?.filter(|manifest| manifest.state == State::Closed) {
        Some(closed) => Manifest { state: State::Open, ..closed }.write(dir),
        None => Ok(()),
    }
}

impl Disk {
    /// Opens or creates the database in `dir`, which is made if it may be.
    ///
    /// # Errors
    /// [`StoreError::Internal`] with the directory, what is wrong with it, and the remedy. Then nothing was changed in it.
    pub(super) fn open(dir: &Path, options: &EmbeddedOptions, (opening, workers): (Opening, Workers)) -> Result<Self> {
        let found = inspect::inspect(dir, opening)?;
        let refused = |error: std::io::Error| {
            StoreError::Internal(format!("{} cannot be written: {error}; choose another data directory", dir.display()))
        };
        if found.is_new {
            create_private(dir).map_err(refused)?;
            Manifest::creating().write(dir).map_err(refused)?;
        }
        let announced = announce(dir);
        if let Err(error) = &announced {
            tracing::warn!(%error, file = manifest::NAME, "a file cannot be written; tables are not merged until it can");
        }
        let (workers, unannounced) = if announced.is_ok() { (workers, false) } else { (Workers::Held, true) };
        let db = database(dir, options, workers)?;
        check_keyspaces(dir, &db, &found)?;
        let space = |name| db.keyspace(name, KeyspaceCreateOptions::default).map_err(|error| open_error(dir, error));
        let spaces = NAMES.map(space).into_iter().collect::<Result<Vec<_>>>()?;
        let view = ArcSwap::from_pointee(db.snapshot());
        let (failed, stopping) = (AtomicBool::new(false), AtomicBool::new(false));
        let manifest = Mutex::new(Manifest::creating());
        let marks = Marks {
            dir: dir.to_owned(),
            identity: directory::identity(dir),
            manifest,
            orderly: AtomicBool::new(false),
        };
        let (measured, damages) = (AtomicU64::new(0), options.damages.clone());
        let disk = Self { db, spaces, view, failed, stopping, measured, workers, unannounced, damages, marks };
        disk.check_format(dir, &found)?;
        tell_dropped(dir, &found);
        match disk.mark(dir) {
            // Until it says so, what is stored would count as nothing.
            Err(error) if found.is_new => return Err(refused(error)),
            Err(error) => {
                tracing::warn!(%error, file = manifest::NAME, "a file cannot be written; the one before stands");
            }
            Ok(()) => {}
        }
        disk.measure();
        Ok(disk)
    }

    fn mark(&self, dir: &Path) -> std::io::Result<()> {
        let keyspaces = self.spaces.iter().map(|space| space.id()).collect();
        let manifest = Manifest::of(dir, State::Open, keyspaces)?;
        manifest.write(dir)?;
        *self.marks.manifest.lock() = manifest;
        Ok(())
    }

    fn check_format(&self, dir: &Path, found: &Found) -> Result<()> {
        let format = self.get(&self.view(), Space::Meta, layout::KEY_FORMAT);
        let format =
            format.and_then(|bytes| bytes.map(|bytes| layout::decode_u32(&bytes, "format version")).transpose());
        let Some(format) = self.tolerate((Space::Meta, CollectionNumber::default(), Seq(0)), format)? else {
            return Ok(());
        };
        match format {
            Some(FORMAT) => Ok(()),
            // Nothing in it need be written anew.
            Some(FORMAT_RECORDS_ONLY | FORMAT_WITHOUT_CHANGES) => self.set_format(),
            Some(newer) if newer > FORMAT => Err(StoreError::Internal(format!(
                "{} has format {newer}, this program knows up to {FORMAT}; run the newer program version, or restore a \
                 backup made before the upgrade",
                dir.display()
            ))),
            Some(other) => Err(StoreError::Internal(format!(
                "{} has format {other}, which no version writes; restore it from a backup",
                dir.display()
            ))),
            None if found.is_new => self.set_format(),
            None => Err(inspect::damaged(dir, "what says its format is gone, and so may be records")),
        }
    }

    /// Fills a keyspace that has nothing of its own with pairs in the order of their keys, past the journal.
    pub(super) fn ingest(
        &self,
        space: Space,
        fill: impl FnOnce(&mut dyn FnMut(Vec<u8>, Vec<u8>) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let mut ingestion = self.keyspace(space).start_ingestion().map_err(io)?;
        fill(&mut |key, value| ingestion.write(key, value).map_err(io))?;
        ingestion.finish().map_err(io)
    }

    /// After [`Disk::ingest`]: whether there is what says the format, and that it is one this program knows. Leaves a write in the
    /// journal, from which the engine goes on counting at the next opening.
    pub(super) fn check_ingested(&self) -> Result<()> {
        self.publish();
        self.check_format(&self.marks.dir, &Found::default())?;
        self.set_format()?;
        self.sync()
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
        point("store::before_append");
        if fails("store::commit_error") {
            return Err(CommitError::Refused("the commit failed".into()));
        }
        self.wait_until_cleared()?;
        let mut batch = self.db.batch();
        for op in ops {
            match op {
                Op::Put(space, key, value) => batch.insert(self.keyspace(space), key, value),
                Op::Delete(space, key) => batch.remove(self.keyspace(space), key),
            }
        }
        #[cfg(feature = "failpoints")]
        if fails("store::split_append_and_sync") {
            batch.commit().map_err(commit_error)?;
            point("store::between_append_and_sync");
            if fails("store::sync_finds_no_room") {
                return Err(commit_error(std::io::Error::from(std::io::ErrorKind::StorageFull).into()));
            }
            return self.db.persist(PersistMode::SyncAll).map_err(commit_error);
        }
        batch.durability(Some(PersistMode::SyncAll)).commit().map_err(commit_error)?;
        self.marks.follow();
        Ok(())
    }

    /// Waits while the engine has so much to merge and write that it would block the commit.
    fn wait_until_cleared(&self) -> std::result::Result<(), CommitError> {
        while self.is_behind() {
            if self.workers == Workers::Held || self.is_stopping() || self.has_crashed() {
                return Err(CommitError::Refused("the storage engine does not merge tables any more".into()));
            }
            std::thread::sleep(CATCHING_UP);
        }
        Ok(())
    }

    /// Whether commits would wait, or do.
    pub(super) fn is_behind(&self) -> bool {
        let behind = |space: &Keyspace| {
            space.tree.sealed_memtable_count() >= MEMTABLES_BEHIND || space.tree.l0_run_count() >= TABLES_BEHIND
        };
        self.spaces.iter().any(behind)
    }

    /// Whether something that writes in the background has failed, so that no commit can succeed. Waits for whoever writes the
    /// journal, so that only the committer should ask.
    pub(super) fn has_crashed(&self) -> bool {
        fails("store::worker_crash") || self.db.persist(PersistMode::Buffer).is_err()
    }

    /// Whether tables are not merged because the directory's manifest could not be written.
    pub(super) fn is_unannounced(&self) -> bool {
        self.unannounced
    }

    /// Whether the manifest can be written by now.
    pub(super) fn announce(&self) -> bool {
        announce(&self.marks.dir).is_ok()
    }

    /// Whether it merges tables in the background.
    pub(super) fn workers(&self) -> Workers {
        self.workers
    }

    /// What was skipped because it cannot be read, if the store was opened so.
    pub(super) fn damages(&self) -> Option<&Damages> {
        self.damages.as_ref()
    }

    /// Skips what cannot be read, if the store was opened so. Seq 0 stands for none.
    pub(super) fn tolerate<T>(&self, at: (Space, CollectionNumber, Seq), read: Result<T>) -> Result<Option<T>> {
        match (read, &self.damages) {
            (Err(_), Some(damages)) => {
                damages.note(at.0, at.1, Some(at.2).filter(|seq| *seq > Seq(0)));
                Ok(None)
            }
            (read, _) => read.map(Some),
        }
    }

    /// Lets readers see everything committed so far.
    pub(super) fn publish(&self) {
        self.view.store(Arc::new(self.db.snapshot()));
    }

    /// Syncs once more, for an orderly end. What was acknowledged was synced before: a database that takes no more writes has
    /// nothing left to sync.
    pub(super) fn sync(&self) -> Result<()> {
        match self.db.persist(PersistMode::SyncAll) {
            Err(fjall::Error::Poisoned) => {
                tracing::warn!("the data directory is closed after a write in the background had failed");
                Ok(())
            }
            synced => synced.map_err(io),
        }
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

    /// Ends work that can wait until the next opening.
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

    /// Looks how many bytes are on disk. Waits for whoever writes the journal, so that only the committer should ask.
    pub(super) fn measure(&self) {
        if let Ok(bytes) = self.db.disk_space() {
            self.measured.store(bytes, Ordering::Relaxed);
        }
    }

    pub(super) fn get(&self, view: &Snapshot, space: Space, key: &[u8]) -> Result<Option<fjall::UserValue>> {
        view.get(self.keyspace(space), key).map_err(io)
    }

    /// The seq under which `id` is stored.
    pub(super) fn seq_of(&self, view: &Snapshot, number: CollectionNumber, id: &RecordId) -> Result<Option<Seq>> {
        let found = self.get(view, Space::Ids, &layout::id_key(number, id))?;
        found.map(|bytes| layout::decode_seq(&bytes)).transpose()
    }

    /// The record with `seq`; its verdict only if wanted.
    pub(super) fn record(
        &self,
        view: &Snapshot,
        number: CollectionNumber,
        seq: Seq,
        with_verdict: bool,
    ) -> Result<Option<StoredRecord>> {
        let found = self.get(view, Space::Records, &layout::record_key(number, seq))?;
        found.map(|bytes| layout::decode_record(seq, &bytes, with_verdict)).transpose()
    }

    /// True if a record has `seq`.
    pub(super) fn has_record(&self, view: &Snapshot, number: CollectionNumber, seq: Seq) -> Result<bool> {
        view.contains_key(self.keyspace(Space::Records), layout::record_key(number, seq)).map_err(io)
    }

    /// The index entry of the record with `seq`, if it is there and can be read.
    pub(super) fn entry(
        &self,
        view: &Snapshot,
        number: CollectionNumber,
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
        (number, generation): (CollectionNumber, GenerationId),
        seq: Seq,
    ) -> Result<Option<Fingerprint>> {
        Ok(self.entry(view, number, generation, seq)?.and_then(|entry| entry.fingerprint))
    }

    /// The first key at or behind `from`.
    pub(super) fn first_from(&self, view: &Snapshot, space: Space, from: &[u8]) -> Result<Option<fjall::UserKey>> {
        let first = view.range(self.keyspace(space), from.to_vec()..).next();
        first.map(|first| first.key().map_err(io)).transpose()
    }

    /// All keys and values from `from` on, in order, up to the first that cannot be read, whether the store skips such or not.
    pub(super) fn from(&self, view: &Snapshot, space: Space, from: &[u8]) -> fjall::Iter {
        view.range(self.keyspace(space), from.to_vec()..)
    }

    /// The last key that begins with `prefix`.
    pub(super) fn last_key(&self, view: &Snapshot, space: Space, prefix: &[u8]) -> Result<Option<fjall::UserKey>> {
        let last = view.prefix(self.keyspace(space), prefix).next_back();
        last.map(|last| last.key().map_err(io)).transpose()
    }

    /// Values whose keys begin with `prefix`, from the last one backwards, up to the first that cannot be read.
    pub(super) fn last_first(
        &self,
        view: &Snapshot,
        space: Space,
        prefix: &[u8],
    ) -> impl Iterator<Item = fjall::UserValue> {
        view.prefix(self.keyspace(space), prefix).rev().map_while(|found| found.value().ok())
    }

    /// Keys and values from `from` up to, not including, `to`, in order.
    pub(super) fn range(&self, view: &Arc<Snapshot>, space: Space, from: &[u8], to: &[u8]) -> Scan {
        let found = view.range(self.keyspace(space), from.to_vec()..to.to_vec());
        self.scan(view, space, (from, to), found)
    }

    /// Keys and values that begin with `prefix`, in order.
    pub(super) fn prefix(&self, view: &Arc<Snapshot>, space: Space, prefix: &[u8]) -> Scan {
        let found = view.prefix(self.keyspace(space), prefix);
        let to = [prefix, &[u8::MAX; 16]].concat();
        self.scan(view, space, (prefix, &to), found)
    }

    fn scan(&self, view: &Arc<Snapshot>, space: Space, keys: (&[u8], &[u8]), found: fjall::Iter) -> Scan {
        let Some(damages) = &self.damages else { return Scan::strict(found) };
        let number = layout::number_of_key(keys.0).unwrap_or_default();
        let numbers = self.get(view, Space::Meta, &layout::numbers_key(number)).ok().flatten();
        let end = numbers.and_then(|bytes| layout::decode_numbers(&bytes).ok()).map(|(next, _)| next);
        let source = (Arc::clone(view), self.keyspace(space).clone());
        Scan::skipping(found, source, (space, damages.clone()), keys, end)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let orderly = !self.has_failed() && !self.has_crashed();
        self.marks.orderly.store(orderly, Ordering::Release);
    }
}

fn create_private(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn commit_error(error: fjall::Error) -> CommitError {
    if let fjall::Error::Io(error) = &error
        && let Some(why) = filled_up(error)
    {
        return CommitError::Open(why.into());
    }
    match error {
        // Said before anything is written.
        fjall::Error::Poisoned => CommitError::Refused("the last write to the data directory failed".into()),
        error => CommitError::Open(format!("writing to the data directory failed: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_called_open_before_anything_changes_in_it_or_nothing_does() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let closed = Manifest { state: State::Closed, keyspaces: vec![1, 2], journals: Vec::new() };
        closed.write(dir.path()).expect("a write");
        let part = dir.path().join(manifest::NAME_BEFORE);
        std::fs::create_dir(&part).expect("what keeps it from being written");
        assert!(announce(dir.path()).is_err());
        assert_eq!(Manifest::read(dir.path()).expect("a reading"), Some(closed.clone()));
        std::fs::remove_dir(&part).expect("it is there");
        assert!(announce(dir.path()).is_ok());
        assert_eq!(Manifest::read(dir.path()).expect("a reading"), Some(Manifest { state: State::Open, ..closed }));
    }
}
