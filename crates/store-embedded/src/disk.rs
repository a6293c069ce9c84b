//! An open database: its keyspaces, its commits, and the view of readers.
//!
//! **Atomicity across keyspaces** was verified in the source of fjall 3.1.13: a batch is one journal entry (start, items of any
//! keyspace, end with checksum) with one lock; recovery drops a batch without its end marker; a journal file is deleted only after
//! every keyspace in it has flushed it. `WriteBatch::commit` with `PersistMode::SyncAll` appends, syncs, and only then changes the
//! memtables. Therefore, nothing must be repaired after a crash.
//!
//! Readers use [`Disk::view`], a snapshot that is taken after the last sync: they see only durable data, and see all keyspaces at
//! the same moment.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use fjall::{AbstractTree as _, Database, Keyspace, PersistMode, Readable, Snapshot};
use parking_lot::Mutex;

use super::candidate_cache::{CandidateCache, ViewNumber};
use super::directory;
use super::errors::{io, unavailable};
use super::failpoints::{fails, point};
use super::free_space::filled_up;
use super::inspect::{self, InspectedDirectory};
use super::keys::GenerationKey;
use super::keyspaces::{NAMES, Space, WriteOp, create_options};
use super::layout::{self, FORMAT, FORMAT_RECORDS_ONLY, FORMAT_WITHOUT_CHANGES, FORMAT_WITHOUT_EVENTS};
use super::manifest::{self, DirectoryState, Manifest, ManifestWriter};
use super::opening::{check_keyspaces, database, open_error, tell_dropped};
use super::options::{EmbeddedOptions, OpeningMode, Workers};
use super::scan::{Damages, Scan, ScanSource};
use doppel_core::record::RecordId;
use doppel_core::verdict::Fingerprint;
use doppel_store::{CollectionNumber, GenerationId, Result, Seq, StoreError, StoredRecord};

/// Number of written and not merged tables at which commits wait. At a somewhat larger number, the engine blocks a commit, for ever if its
/// workers have failed; a wait here can be ended.
const TABLES_BEHIND: usize = 28;
/// Number of full and not written memtables at which commits wait; see [`TABLES_BEHIND`].
const MEMTABLES_BEHIND: usize = 3;
/// Time between two checks of whether the engine has caught up.
const CATCHING_UP: Duration = Duration::from_millis(10);

pub(super) struct Disk {
    db: Database,
    spaces: Vec<Keyspace>,
    view: ArcSwap<PublishedView>,
    candidates: CandidateCache,
    failed: AtomicBool,
    stopping: AtomicBool,
    /// Bytes on disk at the last measurement.
    measured: AtomicU64,
    workers: Workers,
    unannounced: bool,
    damages: Option<Damages>,
    /// The files that the next opening requires. The last field, because it is dropped last: its drop writes the manifest after everything
    /// else is closed.
    marks: ManifestWriter,
}

/// A published state of the database, with its number.
pub(super) struct PublishedView {
    pub(super) snapshot: Arc<Snapshot>,
    number: ViewNumber,
}

/// The way in which a commit failed.
#[derive(Debug)]
pub(super) enum CommitError {
    /// Nothing was written.
    Refused(String),
    /// A part of the batch may have reached the disk; opening the database again shows this part.
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

/// Writes into the manifest that the directory is open, before anything in the directory changes, because workers delete journals at once.
/// If this write fails, no journal may be deleted.
fn announce(dir: &Path) -> std::io::Result<()> {
    match Manifest::read(dir)?.filter(|manifest| manifest.state == DirectoryState::Closed) {
        Some(closed) => Manifest { state: DirectoryState::Open, ..closed }.write(dir),
        None => Ok(()),
    }
}

impl Disk {
    /// Opens or creates the database in `dir`.
    ///
    /// # Errors
    /// [`StoreError::Internal`] with the directory, the fault and the remedy. The directory is then unchanged.
    pub(super) fn open(dir: &Path, options: &EmbeddedOptions, mode: OpeningMode) -> Result<Self> {
        let OpeningMode { opening, workers } = mode;
        let found = inspect::inspect(dir, opening)?;
        if found.is_new {
            create_private(dir).map_err(|error| not_writable(dir, &error))?;
            Manifest::creating().write(dir).map_err(|error| not_writable(dir, &error))?;
        }
        let announced = announce(dir);
        if let Err(error) = &announced {
            tracing::warn!(%error, file = manifest::NAME, "a file cannot be written; tables are not merged until it can");
        }
        let (workers, unannounced) = if announced.is_ok() { (workers, false) } else { (Workers::Held, true) };
        let db = database(dir, options, workers)?;
        check_keyspaces(dir, &db, &found)?;
        let space = |name| db.keyspace(name, create_options).map_err(|error| open_error(dir, error));
        let spaces = NAMES.map(space).into_iter().collect::<Result<Vec<_>>>()?;
        let candidates = CandidateCache::new();
        let first = PublishedView { snapshot: Arc::new(db.snapshot()), number: candidates.published() };
        let view = ArcSwap::from_pointee(first);
        let failed = AtomicBool::new(false);
        let stopping = AtomicBool::new(false);
        let manifest = Mutex::new(Manifest::creating());
        let marks = ManifestWriter {
            dir: dir.to_owned(),
            identity: directory::identity(dir),
            manifest,
            orderly: AtomicBool::new(false),
        };
        let measured = AtomicU64::new(0);
        let damages = options.damages.clone();
        let disk =
            Self { db, spaces, view, candidates, failed, stopping, measured, workers, unannounced, damages, marks };
        disk.check_format(dir, &found)?;
        tell_dropped(dir, &found);
        match disk.mark(dir) {
            // Until the manifest is written, the stored records would count as not stored.
            Err(error) if found.is_new => return Err(not_writable(dir, &error)),
            Err(error) => {
                tracing::warn!(%error, file = manifest::NAME, "a file cannot be written; its previous content remains");
            }
            Ok(()) => {}
        }
        disk.measure();
        Ok(disk)
    }

    fn mark(&self, dir: &Path) -> std::io::Result<()> {
        let keyspaces = self.spaces.iter().map(|space| space.id()).collect();
        let manifest = Manifest::of(dir, DirectoryState::Open, keyspaces)?;
        manifest.write(dir)?;
        *self.marks.manifest.lock() = manifest;
        Ok(())
    }

    fn check_format(&self, dir: &Path, found: &InspectedDirectory) -> Result<()> {
        let format = self.get(&self.view(), Space::Meta, layout::KEY_FORMAT);
        let format =
            format.and_then(|bytes| bytes.map(|bytes| layout::decode_u32(&bytes, "format version")).transpose());
        let Some(format) = self.tolerate((Space::Meta, CollectionNumber::default(), Seq(0)), format)? else {
            return Ok(());
        };
        match format {
            Some(FORMAT) => Ok(()),
            // The existing entries do not need to be written again.
            Some(FORMAT_RECORDS_ONLY | FORMAT_WITHOUT_CHANGES | FORMAT_WITHOUT_EVENTS) => self.set_format(),
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
            None => Err(inspect::damaged(dir, "the entry of its format is missing, and records may also be missing")),
        }
    }

    /// Fills an empty keyspace with pairs in the order of their keys, without the journal.
    pub(super) fn ingest(
        &self,
        space: Space,
        fill: impl FnOnce(&mut dyn FnMut(Vec<u8>, Vec<u8>) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let mut ingestion = self.keyspace(space).start_ingestion().map_err(io)?;
        fill(&mut |key, value| ingestion.write(key, value).map_err(io))?;
        ingestion.finish().map_err(io)
    }

    /// Checks after [`Disk::ingest`] that the entry of the format exists and that this program knows the format. Leaves a write in
    /// the journal, from which the engine continues its numbering at the next opening.
    pub(super) fn check_ingested(&self) -> Result<()> {
        self.publish();
        self.check_format(&self.marks.dir, &InspectedDirectory::default())?;
        self.set_format()?;
        self.sync()
    }

    /// Writes the current format, so that a program that does not know it refuses to open the directory.
    fn set_format(&self) -> Result<()> {
        let value = FORMAT.to_le_bytes().to_vec();
        self.commit(vec![WriteOp::Put(Space::Meta, layout::KEY_FORMAT.to_vec(), value)])
            .map_err(|error| error.answer())?;
        self.publish();
        Ok(())
    }

    fn keyspace(&self, space: Space) -> &Keyspace {
        &self.spaces[space as usize]
    }

    /// Writes `ops` as one atomic batch and syncs it. Returns after the sync. Readers see the batch after [`Disk::publish`].
    pub(super) fn commit(&self, ops: Vec<WriteOp>) -> std::result::Result<(), CommitError> {
        point("store::before_append");
        if fails("store::commit_error") {
            return Err(CommitError::Refused("the commit failed".into()));
        }
        self.wait_until_cleared()?;
        let changed: Vec<_> = ops.iter().filter_map(WriteOp::record).collect();
        let mut batch = self.db.batch();
        for op in ops {
            match op {
                WriteOp::Put(space, key, value) => batch.insert(self.keyspace(space), key, value),
                WriteOp::Delete(space, key) => batch.remove(self.keyspace(space), key),
            }
        }
        self.candidates.commit(changed.into_iter(), || self.commit_batch(batch))?;
        self.marks.follow();
        Ok(())
    }

    fn commit_batch(&self, batch: fjall::OwnedWriteBatch) -> std::result::Result<(), CommitError> {
        #[cfg(feature = "failpoints")]
        if fails("store::split_append_and_sync") {
            batch.commit().map_err(commit_error)?;
            point("store::between_append_and_sync");
            if fails("store::sync_finds_no_room") {
                return Err(commit_error(std::io::Error::from(std::io::ErrorKind::StorageFull).into()));
            }
            return self.db.persist(PersistMode::SyncAll).map_err(commit_error);
        }
        batch.durability(Some(PersistMode::SyncAll)).commit().map_err(commit_error)
    }

    /// Waits while the engine would block a commit because it is behind with merging and writing.
    fn wait_until_cleared(&self) -> std::result::Result<(), CommitError> {
        while self.is_behind() {
            if self.workers == Workers::Held || self.is_stopping() || self.has_crashed() {
                return Err(CommitError::Refused(
                    "the storage engine does not merge tables any more; restart the service".into(),
                ));
            }
            std::thread::sleep(CATCHING_UP);
        }
        Ok(())
    }

    /// True if commits would wait.
    pub(super) fn is_behind(&self) -> bool {
        self.spaces.iter().any(|space| {
            space.tree.sealed_memtable_count() >= MEMTABLES_BEHIND || space.tree.l0_run_count() >= TABLES_BEHIND
        })
    }

    /// True if a background thread of the engine has failed, so that no commit can succeed. It waits for the writer of the journal,
    /// so that only the committer should call it.
    pub(super) fn has_crashed(&self) -> bool {
        fails("store::worker_crash") || self.db.persist(PersistMode::Buffer).is_err()
    }

    /// True if tables are not merged because the manifest of the directory could not be written.
    pub(super) fn is_unannounced(&self) -> bool {
        self.unannounced
    }

    /// Tries to write the manifest. Returns true if it succeeded.
    pub(super) fn announce(&self) -> bool {
        announce(&self.marks.dir).is_ok()
    }

    /// Returns whether tables are merged in the background.
    pub(super) fn workers(&self) -> Workers {
        self.workers
    }

    /// Returns the damages that were skipped, if the store was opened so that it skips damages.
    pub(super) fn damages(&self) -> Option<&Damages> {
        self.damages.as_ref()
    }

    /// Skips a damaged entry, if the store was opened so that it skips damages. Seq 0 means no seq.
    pub(super) fn tolerate<T>(&self, at: (Space, CollectionNumber, Seq), read: Result<T>) -> Result<Option<T>> {
        match (read, &self.damages) {
            (Err(_), Some(damages)) => {
                damages.note(at.0, at.1, Some(at.2).filter(|seq| *seq > Seq(0)));
                Ok(None)
            }
            (read, _) => read.map(Some),
        }
    }

    /// Makes all commits visible for readers.
    pub(super) fn publish(&self) {
        self.candidates.publish(|number| {
            self.view.store(Arc::new(PublishedView { snapshot: Arc::new(self.db.snapshot()), number }));
        });
    }

    /// Syncs before the database is closed. Acknowledged changes were synced before; in a failed database there is nothing left to sync.
    pub(super) fn sync(&self) -> Result<()> {
        match self.db.persist(PersistMode::SyncAll) {
            Err(fjall::Error::Poisoned) => {
                tracing::warn!("the data directory is closed after a write in the background had failed");
                Ok(())
            }
            synced => synced.map_err(io),
        }
    }

    /// Returns the last published state.
    pub(super) fn view(&self) -> Arc<Snapshot> {
        Arc::clone(&self.view.load().snapshot)
    }

    /// Returns the last published state with its number, for [`Disk::candidate`].
    pub(super) fn numbered_view(&self) -> Arc<PublishedView> {
        self.view.load_full()
    }

    /// True if `view` is still the last published state.
    pub(super) fn is_current(&self, view: &Arc<Snapshot>) -> bool {
        Arc::ptr_eq(view, &self.view.load().snapshot)
    }

    /// Stops writes until the database is opened again.
    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Stops background work, which the next opening continues.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Returns the bytes on disk at the last measurement, without waiting.
    pub(super) fn bytes(&self) -> u64 {
        self.measured.load(Ordering::Relaxed)
    }

    /// Measures the bytes on disk. It waits for the writer of the journal, so that only the committer should call it.
    pub(super) fn measure(&self) {
        if let Ok(bytes) = self.db.disk_space() {
            self.measured.store(bytes, Ordering::Relaxed);
        }
    }

    pub(super) fn get(&self, view: &Snapshot, space: Space, key: &[u8]) -> Result<Option<fjall::UserValue>> {
        view.get(self.keyspace(space), key).map_err(io)
    }

    /// Reads the seq of the record with this id.
    pub(super) fn seq_of(&self, view: &Snapshot, number: CollectionNumber, id: &RecordId) -> Result<Option<Seq>> {
        let found = self.get(view, Space::Ids, &layout::id_key(number, id))?;
        found.map(|bytes| layout::decode_seq(&bytes)).transpose()
    }

    /// Reads the record with `seq`; its verdict only if `with_verdict` is true.
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

    /// Reads a record for a judge, without its verdict: from the cache of matching records, or from disk.
    pub(super) fn candidate(
        &self,
        view: &PublishedView,
        number: CollectionNumber,
        seq: Seq,
    ) -> Result<Option<Arc<StoredRecord>>> {
        match self.candidates.get(view.number, (number, seq)) {
            Some(cached) => Ok(Some(cached)),
            None => Ok(self.record(&view.snapshot, number, seq, false)?.map(Arc::new)),
        }
    }

    /// Keeps a record that matched in the cache. It was read from `view`.
    pub(super) fn keep_candidate(&self, view: &PublishedView, number: CollectionNumber, record: Arc<StoredRecord>) {
        self.candidates.insert(view.number, (number, record.seq), record);
    }

    /// True if a record has `seq`.
    pub(super) fn has_record(&self, view: &Snapshot, number: CollectionNumber, seq: Seq) -> Result<bool> {
        view.contains_key(self.keyspace(Space::Records), layout::record_key(number, seq)).map_err(io)
    }

    /// Reads the index entry of the record with `seq`, if it exists and can be read.
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

    /// Reads the fingerprint of the record with `seq`, if its index entry has one and can be read.
    pub(super) fn fingerprint(&self, view: &Snapshot, key: GenerationKey, seq: Seq) -> Result<Option<Fingerprint>> {
        Ok(self.entry(view, key.number, key.generation, seq)?.and_then(|entry| entry.fingerprint))
    }

    /// Returns the first key that is not less than `from`.
    pub(super) fn first_from(&self, view: &Snapshot, space: Space, from: &[u8]) -> Result<Option<fjall::UserKey>> {
        let first = view.range(self.keyspace(space), from.to_vec()..).next();
        first.map(|first| first.key().map_err(io)).transpose()
    }

    /// Returns all keys and values from `from` on, in order, up to the first error. It never skips damages.
    pub(super) fn from(&self, view: &Snapshot, space: Space, from: &[u8]) -> fjall::Iter {
        view.range(self.keyspace(space), from.to_vec()..)
    }

    /// Returns the last key that begins with `prefix`.
    pub(super) fn last_key(&self, view: &Snapshot, space: Space, prefix: &[u8]) -> Result<Option<fjall::UserKey>> {
        let last = view.prefix(self.keyspace(space), prefix).next_back();
        last.map(|last| last.key().map_err(io)).transpose()
    }

    /// Returns the values whose keys begin with `prefix`, from the last one backwards, up to the first error.
    pub(super) fn last_first(
        &self,
        view: &Snapshot,
        space: Space,
        prefix: &[u8],
    ) -> impl Iterator<Item = fjall::UserValue> {
        view.prefix(self.keyspace(space), prefix).rev().map_while(|found| found.value().ok())
    }

    /// Returns the keys and values from `from` up to, not including, `to`, in order.
    pub(super) fn range(&self, view: &Arc<Snapshot>, space: Space, from: &[u8], to: &[u8]) -> Scan {
        let found = view.range(self.keyspace(space), from.to_vec()..to.to_vec());
        self.scan(view, space, from, to, found)
    }

    /// Returns the keys and values that begin with `prefix`, in order.
    pub(super) fn prefix(&self, view: &Arc<Snapshot>, space: Space, prefix: &[u8]) -> Scan {
        let found = view.prefix(self.keyspace(space), prefix);
        let to = [prefix, &[u8::MAX; 16]].concat();
        self.scan(view, space, prefix, &to, found)
    }

    fn scan(&self, view: &Arc<Snapshot>, space: Space, from: &[u8], to: &[u8], found: fjall::Iter) -> Scan {
        let Some(damages) = &self.damages else { return Scan::strict(found) };
        let number = layout::number_of_key(from).unwrap_or_default();
        let numbers = self.get(view, Space::Meta, &layout::numbers_key(number)).ok().flatten();
        let end = numbers.and_then(|bytes| layout::decode_numbers(&bytes).ok()).map(|(next, _)| next);
        let keyspace = self.keyspace(space).clone();
        let source = ScanSource { view: Arc::clone(view), keyspace, space, damages: damages.clone() };
        Scan::skipping(found, source, from, to, end)
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

fn not_writable(dir: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Internal(format!("{} cannot be written: {error}; choose another data directory", dir.display()))
}

fn commit_error(error: fjall::Error) -> CommitError {
    if let fjall::Error::Io(error) = &error
        && let Some(why) = filled_up(error)
    {
        return CommitError::Open(why.into());
    }
    match error {
        // fjall returns this error before it writes anything.
        fjall::Error::Poisoned => CommitError::Refused("the last write to the data directory failed".into()),
        error => CommitError::Open(format!("writing to the data directory failed: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_states_open_before_anything_changes_in_the_directory() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let closed = Manifest { state: DirectoryState::Closed, keyspaces: vec![1, 2], journals: Vec::new() };
        closed.write(dir.path()).expect("a write");
        let part = dir.path().join(manifest::NAME_BEFORE);
        std::fs::create_dir(&part).expect("an obstacle for the write");
        assert!(announce(dir.path()).is_err());
        assert_eq!(Manifest::read(dir.path()).expect("a reading"), Some(closed.clone()));
        std::fs::remove_dir(&part).expect("it is there");
        assert!(announce(dir.path()).is_ok());
        assert_eq!(
            Manifest::read(dir.path()).expect("a reading"),
            Some(Manifest { state: DirectoryState::Open, ..closed })
        );
    }
}
