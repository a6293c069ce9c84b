//! Backups of what the running service keeps: one at a time, into the directory of the configuration or to whoever reads a stream.
//!
//! A snapshot is no task (`doppel_engine::tasks`). A task is work on one collection, stored with it, so that it survives its process
//! and goes on from its checkpoint. A snapshot is of the whole store; one that was cut short is of no use and cannot go on, since
//! the moment it showed is gone; and stored, it would be within itself, to be begun anew by whoever restores it. So how far it is
//! is kept here, in memory, and what there is of snapshots is what the directory holds.
//!
//! It is read by a thread of its own, of low priority. Registrations go on, and so does a reindex.

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

pub use self::stream::Streamed;
use self::stream::{LIMITS, SENT_AT_ONCE};
use crate::config;
use doppel_engine::Engine;
use doppel_snapshot::{Error, Label, Listed, Progress, Repository, Sink, StreamWriter, take};
use doppel_store::SnapshotReader;
use doppel_store::snapshot::CollectionAt;

/// Added to the priority of the thread (`nice`): requests come first.
const NICENESS: i32 = 10;
/// What wrote them, for who looks at one later.
pub(crate) const WRITTEN_BY: &str = concat!("doppel ", env!("CARGO_PKG_VERSION"));

/// How a snapshot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It is being taken.
    Processing,
    /// It is whole, and on disk or sent.
    Succeeded,
    /// It is not, see `error`.
    Failed,
    /// Somebody told it to stop.
    Canceled,
}

/// Where a snapshot goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Destination {
    /// The directory of the configuration.
    Directory,
    /// Whoever asked for the stream.
    Stream,
}

/// The snapshot that is being taken, or was taken last since the service was started.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Run {
    /// How it stands.
    pub status: RunStatus,
    /// Where it goes.
    pub to: Destination,
    /// The moment that it shows.
    #[schema(format = DateTime)]
    pub taken_at: String,
    /// When it ended.
    #[schema(format = DateTime)]
    pub finished_at: Option<String>,
    /// Its name, once it is whole.
    pub id: Option<String>,
    /// Records of all collections at that moment.
    pub records: u64,
    /// Keys and values of the store that were read so far: records, ids, index entries and all else.
    pub entries: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Bytes written so far, compressed: what no earlier snapshot has.
    pub new_bytes: u64,
    /// Why it failed.
    pub error: Option<String>,
}

/// A snapshot in the directory.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Kept {
    /// Its name.
    pub id: String,
    /// The moment that it shows.
    #[schema(format = DateTime)]
    pub taken_at: Option<String>,
    /// Records of all collections at that moment.
    pub records: Option<u64>,
    /// How far each collection had come.
    pub collections: Vec<CollectionAt>,
    /// Bytes of all files that it needs, which it may share with others.
    pub stored_bytes: Option<u64>,
    /// Why it cannot be read.
    pub error: Option<String>,
}

/// Why none was begun.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// There is one.
    #[error("a snapshot is being taken; wait for its end (GET /v1/admin/snapshots), or cancel it")]
    Running,
    /// There is nowhere to put it.
    #[error("the service has no directory for snapshots; set snapshots.dir in its configuration, or read the stream")]
    Off,
    /// The service ends.
    #[error("the service is stopping")]
    Stopping,
    /// There is none to be told.
    #[error("no snapshot is being taken")]
    Idle,
    /// The store, or the directory, does not let it.
    #[error(transparent)]
    Failed(#[from] Error),
    /// The store cannot be asked.
    #[error(transparent)]
    Engine(#[from] doppel_engine::Error),
}

/// See the module. Cheap to clone: all clones are one.
#[derive(Clone)]
pub struct Snapshots(Arc<Shared>);

struct Shared {
    engine: Engine,
    dir: Option<PathBuf>,
    every: Option<Duration>,
    keep: usize,
    state: Mutex<State>,
    /// Whether there was a repository in the directory: then a new one is never made there, since the old one is on a volume that is away.
    was_there: AtomicBool,
    /// Whether one is being taken.
    busy: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    run: Option<Run>,
    /// Of the one that is being taken.
    under_way: Option<UnderWay>,
    /// None is begun any more.
    is_closed: bool,
}

/// What a snapshot that is being taken looks at.
#[derive(Clone, Default)]
struct UnderWay {
    progress: Arc<Progress>,
    /// Ends a stream also while it waits for whoever reads it.
    stopped: CancellationToken,
}

impl UnderWay {
    fn stop(&self) {
        self.progress.stop();
        self.stopped.cancel();
    }
}

impl Snapshots {
    /// Of what `engine` keeps.
    pub fn new(engine: Engine, config: &config::Snapshots) -> Self {
        let config::Snapshots { dir, every_hours, keep } = config;
        let dir = (!dir.as_os_str().is_empty()).then(|| dir.clone());
        let every = (*every_hours > 0).then(|| Duration::from_secs(u64::from(*every_hours) * 3_600));
        let was_there = AtomicBool::new(dir.as_deref().is_some_and(Repository::is_in));
        let (busy, state) = (watch::Sender::new(false), Mutex::default());
        Self(Arc::new(Shared { engine, dir, every, keep: *keep, state, was_there, busy }))
    }

    /// The one that is being taken, or was taken last.
    pub fn run(&self) -> Option<Run> {
        let state = self.0.state.lock();
        let mut run = state.run.clone()?;
        if let Some(under_way) = &state.under_way {
            run.read(&under_way.progress);
        }
        Some(run)
    }

    /// Those in the directory, oldest first; none where there is no directory yet. Reads their manifests.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn kept(&self) -> Result<Vec<Kept>, Error> {
        let Some(dir) = self.0.dir.as_deref().filter(|dir| Repository::is_in(dir)) else { return Ok(Vec::new()) };
        let listed = Repository::open(dir)?.list()?;
        Ok(listed.into_iter().map(Kept::of).collect())
    }

    /// Begins one into the directory, of this moment.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn begin(&self) -> Result<Run, Refusal> {
        let dir = self.0.dir.clone().ok_or(Refusal::Off)?;
        let taking = self.taking(Destination::Directory).await?;
        let (shared, begun) = (Arc::clone(&self.0), taking.run.clone());
        taking.start(move |taking| {
            let repository = shared.repository(&dir)?;
            let id = taking.take(&mut repository.writer()?)?;
            shared.prune(&repository);
            Ok(id)
        })?;
        Ok(begun)
    }

    /// Begins one of this moment, for whoever reads what is returned.
    ///
    /// # Errors
    /// [`Refusal`].
    pub async fn stream(&self) -> Result<Streamed, Refusal> {
        let taking = self.taking(Destination::Stream).await?;
        let stopped = taking.under_way.stopped.clone();
        let (sending, say_end, streamed) = stream::stream(stopped.clone(), LIMITS);
        taking.start(move |taking| {
            let mut writer = StreamWriter::new(BufWriter::with_capacity(SENT_AT_ONCE, sending), "the stream");
            let taken = match taking.take(&mut writer) {
                Err(_) if stopped.is_cancelled() => Err(Error::Stopped),
                taken => taken,
            };
            // Whoever has hung up learns nothing any more. What was gathered of one that is not whole is not sent.
            let _ = say_end.send(taken.as_ref().map(drop).map_err(ToString::to_string));
            drop(writer.into_inner().into_parts());
            taken
        })?;
        Ok(streamed)
    }

    /// Tells the one that is being taken to stop.
    ///
    /// # Errors
    /// [`Refusal::Idle`].
    pub fn cancel(&self) -> Result<Run, Refusal> {
        match &self.0.state.lock().under_way {
            Some(under_way) => under_way.stop(),
            None => return Err(Refusal::Idle),
        }
        self.run().ok_or(Refusal::Idle)
    }

    /// Tells the one that is being taken to stop, and waits until it has. From here on none is begun.
    pub async fn close(&self) {
        self.0.state.lock().is_closed = true;
        // Whether there is one or not.
        let _ = self.cancel();
        self.ended().await;
    }

    async fn ended(&self) {
        // The sender is in `self`.
        let _ = self.0.busy.subscribe().wait_for(|busy| !busy).await;
    }

    /// The right to take one, with a reader of this moment.
    async fn taking(&self, to: Destination) -> Result<Taking, Refusal> {
        let mut is_first = false;
        self.0.busy.send_if_modified(|busy| {
            is_first = !*busy;
            *busy = true;
            is_first
        });
        if !is_first {
            return Err(Refusal::Running);
        }
        let turn = Turn(Arc::clone(&self.0));
        let reader = self.0.engine.snapshot().await?;
        let records = reader.moment().collections.iter().map(|collection| collection.records).sum();
        let run = Run {
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
            return Err(Refusal::Stopping);
        }
        (state.run, state.under_way) = (Some(run.clone()), Some(under_way.clone()));
        drop(state);
        Ok(Taking { turn, reader, run, under_way })
    }
}

impl Shared {
    /// Where snapshots are kept.
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

    /// Removes what is beyond the number to keep. The snapshot that was just taken is there whether that succeeds or not.
    fn prune(&self, repository: &Repository) {
        if self.keep == 0 {
            return;
        }
        match repository.prune(self.keep) {
            Ok(pruned) if pruned.snapshots.is_empty() => {}
            Ok(pruned) => {
                let (snapshots, bytes) = (pruned.snapshots.len(), pruned.bytes);
                tracing::info!(snapshots, bytes, "old snapshots were removed");
            }
            Err(error) => tracing::warn!(%error, "old snapshots could not be removed"),
        }
    }
}

/// The right to take a snapshot; given back when it is dropped.
struct Turn(Arc<Shared>);

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.under_way = None;
        // A thread that panicked has not noted how it ended.
        if let Some(run) = state.run.as_mut().filter(|run| run.status == RunStatus::Processing) {
            (run.status, run.finished_at) = (RunStatus::Failed, Some(crate::clock::now()));
            run.error = Some("it ended before it was done; see the log".into());
            metrics::counter!("doppel_snapshots_total", "status" => "failed").increment(1);
        }
        drop(state);
        self.0.busy.send_replace(false);
    }
}

/// A snapshot to be taken.
struct Taking {
    turn: Turn,
    reader: Box<dyn SnapshotReader>,
    run: Run,
    under_way: UnderWay,
}

impl Taking {
    /// Has `work` done on a thread of its own, which notes how it ended.
    fn start(self, work: impl FnOnce(&mut Self) -> Result<String, Error> + Send + 'static) -> Result<(), Refusal> {
        let mut taking = self;
        let run = move || {
            // Counts for this thread alone; without it, it works all the same.
            let _ = rustix::process::nice(NICENESS);
            let ended = work(&mut taking);
            taking.note(ended);
        };
        let started = std::thread::Builder::new().name("snapshot".into()).spawn(run);
        started.map(drop).map_err(|error| Error::Io { what: "a thread for it".into(), error }.into())
    }

    /// Its name, when it is whole.
    fn take(&mut self, sink: &mut dyn Sink) -> Result<String, Error> {
        let label = Label { taken_at: self.run.taken_at.clone(), written_by: WRITTEN_BY.into() };
        let taken = take(&mut *self.reader, sink, label, &self.under_way.progress)?;
        Ok(taken.manifest.id.to_string())
    }

    fn note(self, ended: Result<String, Error>) {
        let Self { turn, reader, mut run, under_way } = self;
        drop(reader);
        run.read(&under_way.progress);
        run.finished_at = Some(crate::clock::now());
        let (entries, bytes, new_bytes) = (run.entries, run.bytes, run.new_bytes);
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

impl Run {
    fn read(&mut self, progress: &Progress) {
        (self.entries, self.bytes, self.new_bytes) = (progress.entries(), progress.bytes(), progress.new_bytes());
    }
}

impl Kept {
    fn of(Listed { id, manifest }: Listed) -> Self {
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
                let (taken_at, records, collections, stored_bytes) = (None, None, Vec::new(), None);
                Self { id, taken_at, records, collections, stored_bytes, error: Some(error.to_string()) }
            }
        }
    }
}
