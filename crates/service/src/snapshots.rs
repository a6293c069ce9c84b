//! Snapshots of the store by the running service: one at a time, to the configured directory or as a stream to a client.
//!
//! A snapshot is not a task (`doppel_engine::tasks`). A task works on one collection, is stored with the collection, survives its process and
//! continues from its checkpoint. A snapshot contains the whole store and cannot continue after an interruption, because its moment has passed. A
//! stored task would also become part of the snapshot, and a restored store would start the task again. The progress is therefore kept only in
//! memory, and the list of snapshots is the content of the directory.
//!
//! A thread of low priority reads the store. Registrations and a reindex continue.

mod schedule;
mod stream;

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

pub use self::stream::SnapshotReceiver;
use self::stream::{LIMITS, SENT_AT_ONCE};
use doppel_config as config;
use doppel_engine::Engine;
use doppel_snapshot::{
    Error, ListedSnapshot, Repository, SnapshotLabel, SnapshotProgress, SnapshotSink, StreamWriter, take,
};
use doppel_store::SnapshotReader;
use doppel_store::snapshot::CollectionAt;

/// The niceness that is added to the thread, so that requests come first.
const NICENESS: i32 = 10;
/// Name and version of the program, for the manifest.
pub const WRITTEN_BY: &str = concat!("doppel ", env!("CARGO_PKG_VERSION"));

/// The status of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The snapshot is in progress.
    Processing,
    /// The snapshot is complete and on disk, or was sent completely.
    Succeeded,
    /// The snapshot failed; see `error`.
    Failed,
    /// The snapshot was cancelled.
    Canceled,
}

/// The destination of a snapshot. `directory`: the configured directory. `stream`: the client that requested the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotDestination {
    /// The configured directory.
    Directory,
    /// The client that requested the stream.
    Stream,
}

/// The snapshot in progress, or the last snapshot since the start of the service.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SnapshotRun {
    /// The status.
    pub status: RunStatus,
    /// The destination of the snapshot.
    pub to: SnapshotDestination,
    /// The time to which the content of the snapshot belongs (RFC 3339, UTC).
    #[schema(format = DateTime)]
    pub taken_at: String,
    /// The time at which the snapshot ended (RFC 3339, UTC); `null` before.
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
    /// The name of the snapshot; `null` until it is complete.
    pub id: Option<String>,
    /// Number of records in all collections at the time of the snapshot.
    pub records: u64,
    /// Number of keys that were read from the store: records, ids, index entries and others.
    pub entries: u64,
    /// Size in bytes of the read keys and their values.
    pub bytes: u64,
    /// Number of bytes written so far, after compression. Data of earlier snapshots is not written again.
    pub new_bytes: u64,
    /// The error of a failed snapshot; `null` otherwise.
    pub error: Option<String>,
}

/// A snapshot in the directory of the configuration.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StoredSnapshot {
    /// The name of the snapshot.
    pub id: String,
    /// The time to which the content of the snapshot belongs (RFC 3339, UTC); `null` if the snapshot cannot be read.
    #[schema(format = DateTime)]
    pub taken_at: Option<String>,
    /// Number of records in all collections at the time of the snapshot; `null` if the snapshot cannot be read.
    pub records: Option<u64>,
    /// The state of each collection in the snapshot.
    pub collections: Vec<CollectionAt>,
    /// Size in bytes of all files of the snapshot, some of which other snapshots may share; `null` if the snapshot cannot be read.
    pub stored_bytes: Option<u64>,
    /// The reason why the snapshot cannot be read; `null` otherwise.
    pub error: Option<String>,
}

/// The reasons why no snapshot was begun.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotRefusal {
    #[error("a snapshot is being taken; wait for its end (GET /v1/admin/snapshots), or cancel it")]
    Running,
    #[error("the service has no directory for snapshots; set snapshots.dir in its configuration, or read the stream")]
    Off,
    #[error("the service is stopping")]
    Stopping,
    #[error("no snapshot is being taken")]
    Idle,
    #[error(transparent)]
    Failed(#[from] Error),
    #[error(transparent)]
    Engine(#[from] doppel_engine::Error),
}

/// Takes the snapshots of the service. A clone is cheap, and all clones share their state.
#[derive(Clone)]
pub struct Snapshots(Arc<Shared>);

struct Shared {
    engine: Engine,
    dir: Option<PathBuf>,
    every: Option<Duration>,
    keep: usize,
    state: Mutex<State>,
    /// True if there was a repository in the directory. If it is missing later, its volume is not mounted, and no new repository is created.
    was_there: AtomicBool,
    /// True while a snapshot is in progress.
    busy: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    run: Option<SnapshotRun>,
    /// The controls of the snapshot in progress.
    under_way: Option<UnderWay>,
    /// True after [`Snapshots::close`]: no snapshot is begun any more.
    is_closed: bool,
}

/// The controls of a snapshot in progress.
#[derive(Clone, Default)]
struct UnderWay {
    progress: Arc<SnapshotProgress>,
    /// Ends a stream, also while it waits for its reader.
    stopped: CancellationToken,
}

impl UnderWay {
    fn stop(&self) {
        self.progress.stop();
        self.stopped.cancel();
    }
}

impl Snapshots {
    /// Makes the snapshots of the store of `engine`.
    pub fn new(engine: Engine, config: &config::SnapshotsConfig) -> Self {
        let config::SnapshotsConfig { dir, every_hours, keep } = config;
        let dir = (!dir.as_os_str().is_empty()).then(|| dir.clone());
        let every = (*every_hours > 0).then(|| Duration::from_secs(u64::from(*every_hours) * 3_600));
        let was_there = AtomicBool::new(dir.as_deref().is_some_and(Repository::is_in));
        let busy = watch::Sender::new(false);
        let state = Mutex::default();
        Self(Arc::new(Shared { engine, dir, every, keep: *keep, state, was_there, busy }))
    }

    /// Returns the snapshot in progress, or the last snapshot.
    pub fn run(&self) -> Option<SnapshotRun> {
        let state = self.0.state.lock();
        let mut run = state.run.clone()?;
        if let Some(under_way) = &state.under_way {
            run.read(&under_way.progress);
        }
        Some(run)
    }

    /// Returns the snapshots in the directory, oldest first; an empty list if the directory does not exist. Reads their manifests.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn kept(&self) -> Result<Vec<StoredSnapshot>, Error> {
        let Some(dir) = self.0.dir.as_deref().filter(|dir| Repository::is_in(dir)) else { return Ok(Vec::new()) };
        let listed = Repository::open(dir)?.list()?;
        Ok(listed.into_iter().map(StoredSnapshot::of).collect())
    }

    /// Begins a snapshot of this moment, to the directory.
    ///
    /// # Errors
    /// [`SnapshotRefusal`].
    pub async fn begin(&self) -> Result<SnapshotRun, SnapshotRefusal> {
        let dir = self.0.dir.clone().ok_or(SnapshotRefusal::Off)?;
        let taking = self.taking(SnapshotDestination::Directory).await?;
        let shared = Arc::clone(&self.0);
        let begun = taking.run.clone();
        taking.start(move |taking| {
            let repository = shared.repository(&dir)?;
            let id = taking.take(&mut repository.writer()?)?;
            shared.prune(&repository);
            Ok(id)
        })?;
        Ok(begun)
    }

    /// Begins a snapshot of this moment, and returns it as a stream.
    ///
    /// # Errors
    /// [`SnapshotRefusal`].
    pub async fn stream(&self) -> Result<SnapshotReceiver, SnapshotRefusal> {
        let taking = self.taking(SnapshotDestination::Stream).await?;
        let stopped = taking.under_way.stopped.clone();
        let (sending, say_end, streamed) = stream::stream(stopped.clone(), LIMITS);
        taking.start(move |taking| {
            let mut writer = StreamWriter::new(BufWriter::with_capacity(SENT_AT_ONCE, sending), "the stream");
            let taken = match taking.take(&mut writer) {
                Err(_) if stopped.is_cancelled() => Err(Error::Stopped),
                taken => taken,
            };
            // Sending fails if the client has hung up. The rest of an incomplete snapshot is not sent.
            let _ = say_end.send(taken.as_ref().map(drop).map_err(ToString::to_string));
            drop(writer.into_inner().into_parts());
            taken
        })?;
        Ok(streamed)
    }

    /// Cancels the snapshot in progress.
    ///
    /// # Errors
    /// [`SnapshotRefusal::Idle`].
    pub fn cancel(&self) -> Result<SnapshotRun, SnapshotRefusal> {
        match &self.0.state.lock().under_way {
            Some(under_way) => under_way.stop(),
            None => return Err(SnapshotRefusal::Idle),
        }
        self.run().ok_or(SnapshotRefusal::Idle)
    }

    /// Cancels the snapshot in progress and waits for its end. No snapshot begins afterwards.
    pub async fn close(&self) {
        self.0.state.lock().is_closed = true;
        // This fails if no snapshot is in progress.
        let _ = self.cancel();
        self.ended().await;
    }

    async fn ended(&self) {
        // Waiting cannot fail, because `self` contains the sender.
        let _ = self.0.busy.subscribe().wait_for(|busy| !busy).await;
    }

    /// Takes the turn for a snapshot, and makes a reader of this moment.
    async fn taking(&self, to: SnapshotDestination) -> Result<Taking, SnapshotRefusal> {
        let mut is_first = false;
        self.0.busy.send_if_modified(|busy| {
            is_first = !*busy;
            *busy = true;
            is_first
        });
        if !is_first {
            return Err(SnapshotRefusal::Running);
        }
        let turn = Turn(Arc::clone(&self.0));
        let reader = self.0.engine.snapshot().await?;
        let records = reader.moment().collections.iter().map(|collection| collection.records).sum();
        let run = SnapshotRun {
            status: RunStatus::Processing,
            to,
            taken_at: crate::clock::now(),
            finished_at: None,
            id: None,
            records,
            entries: 0,
            bytes: 0,
            new_bytes: 0,
            error: None,
        };
        let under_way = UnderWay::default();
        let mut state = self.0.state.lock();
        if state.is_closed {
            return Err(SnapshotRefusal::Stopping);
        }
        (state.run, state.under_way) = (Some(run.clone()), Some(under_way.clone()));
        drop(state);
        Ok(Taking { turn, reader, run, under_way })
    }
}

impl Shared {
    /// Opens the repository in `dir`, or creates it if the folder never had one.
    fn repository(&self, dir: &Path) -> Result<Repository, Error> {
        if self.was_there.load(Ordering::Relaxed) {
            return match Repository::is_in(dir) {
                true => Repository::open(dir),
                false => Err(Error::Refused(format!(
                    "{} held snapshots and holds none now: mount its volume, or restart the service to begin anew there",
                    dir.display()
                ))),
            };
        }
        let repository = Repository::open_or_create(dir)?;
        self.was_there.store(true, Ordering::Relaxed);
        Ok(repository)
    }

    /// Removes old snapshots beyond the configured number. The new snapshot is complete even if this fails.
    fn prune(&self, repository: &Repository) {
        if self.keep == 0 {
            return;
        }
        match repository.prune(self.keep) {
            Ok(pruned) if pruned.snapshots.is_empty() => {}
            Ok(pruned) => {
                let snapshots = pruned.snapshots.len();
                let bytes = pruned.bytes;
                tracing::info!(snapshots, bytes, "old snapshots were removed");
            }
            Err(error) => tracing::warn!(%error, "old snapshots could not be removed"),
        }
    }
}

/// The right to take a snapshot. Dropping it gives the right back.
struct Turn(Arc<Shared>);

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.under_way = None;
        // A thread that panicked has not recorded its end.
        if let Some(run) = state.run.as_mut().filter(|run| run.status == RunStatus::Processing) {
            (run.status, run.finished_at) = (RunStatus::Failed, Some(crate::clock::now()));
            run.error = Some("it ended before it was done; see the log".into());
            metrics::counter!("doppel_snapshots_total", "status" => "failed").increment(1);
        }
        drop(state);
        self.0.busy.send_replace(false);
    }
}

/// A snapshot that has its turn.
struct Taking {
    turn: Turn,
    reader: Box<dyn SnapshotReader>,
    run: SnapshotRun,
    under_way: UnderWay,
}

impl Taking {
    /// Runs `work` on a new thread, which records the result.
    fn start(
        self,
        work: impl FnOnce(&mut Self) -> Result<String, Error> + Send + 'static,
    ) -> Result<(), SnapshotRefusal> {
        let mut taking = self;
        let run = move || {
            // This changes only the priority of this thread. If it fails, the thread works with its usual priority.
            let _ = rustix::process::nice(NICENESS);
            let ended = work(&mut taking);
            taking.note(ended);
        };
        let started = std::thread::Builder::new().name("snapshot".into()).spawn(run);
        started.map(drop).map_err(|error| Error::Io { file: "the thread that takes the snapshot".into(), error }.into())
    }

    /// Takes the snapshot and returns its name.
    fn take(&mut self, sink: &mut dyn SnapshotSink) -> Result<String, Error> {
        let label = SnapshotLabel { taken_at: self.run.taken_at.clone(), written_by: WRITTEN_BY.into() };
        let taken = take(&mut *self.reader, sink, label, &self.under_way.progress)?;
        Ok(taken.manifest.id.to_string())
    }

    fn note(self, ended: Result<String, Error>) {
        let Self { turn, reader, mut run, under_way } = self;
        drop(reader);
        run.read(&under_way.progress);
        run.finished_at = Some(crate::clock::now());
        let entries = run.entries;
        let bytes = run.bytes;
        let new_bytes = run.new_bytes;
        let status = match &ended {
            Ok(_) => "succeeded",
            Err(Error::Stopped) => "canceled",
            Err(_) => "failed",
        };
        metrics::counter!("doppel_snapshots_total", "status" => status).increment(1);
        match ended {
            Ok(id) => {
                tracing::info!(id, entries, bytes, new_bytes, "a snapshot was taken");
                (run.status, run.id) = (RunStatus::Succeeded, Some(id));
            }
            Err(Error::Stopped) => {
                tracing::info!(entries, bytes, "a snapshot was stopped");
                run.status = RunStatus::Canceled;
            }
            Err(error) => {
                tracing::error!(%error, entries, bytes, "a snapshot failed");
                (run.status, run.error) = (RunStatus::Failed, Some(error.to_string()));
            }
        }
        let mut state = turn.0.state.lock();
        (state.run, state.under_way) = (Some(run), None);
    }
}

impl SnapshotRun {
    fn read(&mut self, progress: &SnapshotProgress) {
        (self.entries, self.bytes, self.new_bytes) = (progress.entries(), progress.bytes(), progress.new_bytes());
    }
}

impl StoredSnapshot {
    fn of(ListedSnapshot { id, manifest }: ListedSnapshot) -> Self {
        let id = id.to_string();
        match manifest {
            Ok(manifest) => Self {
                id,
                records: Some(manifest.records()),
                stored_bytes: Some(manifest.stored_bytes()),
                taken_at: Some(manifest.taken_at),
                collections: manifest.store.collections,
                error: None,
            },
            Err(error) => {
                let taken_at = None;
                let records = None;
                let collections = Vec::new();
                let stored_bytes = None;
                Self { id, taken_at, records, collections, stored_bytes, error: Some(error.to_string()) }
            }
        }
    }
}
