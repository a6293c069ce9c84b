//! Files of letters: a clerk gives one, says which column is what, and gets it back with what was found for each row.
//!
//! [`upload`] streams a file into a folder of the desk's own ([`Folder`]) and finds out how it is written; [`plan`] makes rows of
//! records of rows of the table; [`run`] takes them through the collection and, where they are only checked, through one another;
//! [`crate::findings`] writes the table that is given back. The file is read from disk each time, never held.
//!
//! What is kept is in memory and in the folder, belongs to whoever gave it, and is gone after a day or a restart.

mod folder;
pub mod plan;
mod run;
pub mod upload;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use parking_lot::Mutex;
use tempfile::TempPath;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::console::ROOT;
use crate::findings::Refusal;
use crate::http::problem::Problem;
use doppel_core::collection::CollectionName;
use doppel_sources::tables::{Table, TableRow};

pub use folder::Folder;
pub use plan::Plan;
pub use run::start;

/// The route that takes files.
pub const ROUTE: &str = "/console/{collection}/files";
/// Time for a file to come and be looked at: the largest one over a line of 1 Mbit/s.
pub const UPLOAD_TIME: Duration = Duration::from_secs(10 * 60);
/// Largest file, in bytes: some 60,000 letters of usual length as CSV; what an office has in more is imported.
pub const MOST_BYTES: u64 = 64 << 20;
/// Files that come at once: each takes its size of the disk before it is known to be any use.
pub const MOST_COMING: usize = 4;
/// Files worked on at once, so that others are served beside them; the next waits.
pub const MOST_RUNNING: usize = 2;
/// Files kept. Each takes at most some three times [`MOST_BYTES`] of the disk.
pub const MOST_KEPT: usize = 20;
/// So long a file is kept: until the next working day.
pub const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// So many rows that were not taken are named on the page; all of them are in the file.
pub const MOST_NAMED: usize = 100;
/// So many rows show what is in a column.
pub const SAMPLES: usize = 3;

/// Whether a request sends a file to [`ROUTE`].
pub fn is_upload(request: &Request) -> bool {
    let media = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_multipart = media.is_some_and(|media| media.to_ascii_lowercase().starts_with("multipart/form-data"));
    let below = request.uri().path().strip_prefix(ROOT).and_then(|path| path.strip_prefix('/'));
    let takes_files = below.and_then(|path| path.strip_suffix("/files")).is_some_and(|name| !name.contains('/'));
    *request.method() == Method::POST && is_multipart && takes_files
}

/// A file that somebody gave.
pub struct Job {
    /// Names it.
    pub id: String,
    /// The name of the key of who gave it.
    owner: String,
    /// Which collection it is for.
    pub collection: CollectionName,
    /// What it was called.
    pub name: String,
    /// How it is written.
    pub table: Table,
    /// How many rows it has below its header.
    pub rows: u64,
    /// How many cells its longest row has.
    width: usize,
    /// The first rows.
    pub samples: Vec<TableRow>,
    /// The hash of its bytes.
    hash: String,
    made: Instant,
    /// Where it is, until it was worked on.
    input: Mutex<Option<Arc<TempPath>>>,
    state: Mutex<State>,
    progress: Mutex<Progress>,
    stop: CancellationToken,
}

/// How far a file is.
#[derive(Clone)]
pub enum State {
    /// Nobody said yet which column is what.
    New,
    /// Waits for others.
    Waiting,
    /// Is worked on.
    Running,
    /// There is something to take home.
    Ended(Ended),
}

/// What became of a file.
#[derive(Clone)]
pub struct Ended {
    /// How.
    pub how: End,
    /// The file that is given back.
    pub result: Option<Arc<TempPath>>,
}

/// How it ended.
#[derive(Clone, Debug)]
pub enum End {
    /// All rows.
    Whole,
    /// Somebody stopped it, or the service did.
    Stopped,
    /// It could not go on.
    Failed(Problem),
}

/// What was done so far.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Whether rows are registered.
    pub registers: bool,
    /// Rows done.
    pub done: u64,
    /// Of these, those with the same text as an earlier one.
    pub exact: u64,
    /// Those like an earlier one.
    pub near: u64,
    /// Those like none.
    pub original: u64,
    /// Those too short to be compared.
    pub too_short: u64,
    /// Those that are new records.
    pub created: u64,
    /// Those that were not taken.
    pub refused: u64,
    /// The first of these, by their numbers.
    pub refusals: Vec<(u64, Refusal)>,
}

impl Job {
    /// How far it is.
    pub fn state(&self) -> State {
        self.state.lock().clone()
    }

    /// What was done so far.
    pub fn progress(&self) -> Progress {
        self.progress.lock().clone()
    }

    /// Ends it after the rows that are under way.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    fn is_busy(&self) -> bool {
        matches!(*self.state.lock(), State::Waiting | State::Running)
    }
}

/// The files that are kept.
pub struct Files {
    folder: Folder,
    kept: Mutex<VecDeque<Arc<Job>>>,
    coming: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

impl Files {
    /// None yet; in this folder.
    pub fn new(folder: Folder) -> Self {
        let (coming, turns) = (Semaphore::new(MOST_COMING), Semaphore::new(MOST_RUNNING));
        Self { folder, kept: Mutex::default(), coming: Arc::new(coming), turns: Arc::new(turns) }
    }

    /// Keeps a file, instead of the oldest that nobody works on where there are too many.
    ///
    /// # Errors
    /// 503 where all are worked on.
    fn keep(&self, job: Job) -> Result<Arc<Job>, Problem> {
        self.forget_old();
        let mut kept = self.kept.lock();
        if kept.len() >= MOST_KEPT {
            let idle = kept.iter().position(|job| !job.is_busy());
            let idle = idle.ok_or_else(|| too_many("as many files are worked on as may be"))?;
            kept.remove(idle);
        }
        let job = Arc::new(job);
        kept.push_back(Arc::clone(&job));
        Ok(job)
    }

    /// Forgets what was kept for long enough.
    pub fn forget_old(&self) {
        self.kept.lock().retain(|job| job.is_busy() || job.made.elapsed() < KEPT_FOR);
    }

    /// The file `id` of `owner`.
    ///
    /// # Errors
    /// 404 where they have none such.
    pub fn get(&self, id: &str, owner: &str, collection: &CollectionName) -> Result<Arc<Job>, Problem> {
        let found = self.of(owner, collection).into_iter().find(|job| job.id == id);
        found.ok_or_else(|| {
            let detail = "there is no such file, or it is not kept any more; give it again";
            Problem::at(StatusCode::NOT_FOUND, "file_unknown", "/path/file", detail)
        })
    }

    /// The files of `owner`, the latest first.
    pub fn of(&self, owner: &str, collection: &CollectionName) -> Vec<Arc<Job>> {
        self.forget_old();
        let kept = self.kept.lock();
        let own = kept.iter().rev().filter(|job| job.owner == owner && job.collection == *collection);
        own.cloned().collect()
    }

    /// Forgets a file; one that is worked on is stopped first and forgotten when it has ended.
    pub fn remove(&self, job: &Arc<Job>) {
        job.stop();
        self.kept.lock().retain(|kept| !Arc::ptr_eq(kept, job));
    }
}

fn too_many(detail: &str) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "file_busy", format!("{detail}; send it again in a minute"))
}
