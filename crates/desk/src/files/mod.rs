//! Files of letters. A clerk uploads a file, chooses the field for each column, and downloads the file with the findings for each row.
//!
//! [`upload`] streams a file into the desk's own folder ([`UploadFolder`]) and detects its format. [`plan`] turns rows of the table into rows of
//! records. [`run`] checks or registers these rows in the collection; rows that are only checked are also compared with each other.
//! [`doppel_findings`] writes the resulting table. Each step reads the file from disk and never holds the whole file in memory.
//!
//! The files and their states are kept in memory and in the folder. A file belongs to the person who uploaded it, and is removed after a
//! day or a restart.

mod folder;
pub mod plan;
mod run;
pub mod upload;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::Request;
use axum::http::{Method, header};
use parking_lot::Mutex;
use tempfile::TempPath;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::ROOT;
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_findings::RowRefusal;
use doppel_http::problem::Problem;
use doppel_sources::tables::{TableProperties, TableRow};

pub use folder::UploadFolder;
pub use plan::UploadPlan;
pub use run::start;

/// The route for uploads.
pub const ROUTE: &str = "/console/{collection}/files";
/// The route for uploads from the start page. No collection has the name `-`.
pub const START_ROUTE: &str = "/console/-/files";
/// Time for the upload and the inspection of a file: enough for the largest file over a line of 1 Mbit/s.
pub const UPLOAD_TIME: Duration = Duration::from_secs(10 * 60);
/// Largest size of a file in bytes: about 60,000 letters of usual length as CSV. An office imports larger files with the command line.
pub const MOST_BYTES: u64 = 64 << 20;
/// Largest number of uploads at the same time. Each upload takes disk space before the service knows whether the file is usable.
pub const MOST_COMING: usize = 4;
/// Largest number of files that are processed at the same time, so that other requests are still served. Further files wait.
pub const MOST_RUNNING: usize = 2;
/// Largest number of files that are kept. Each takes at most about three times [`MOST_BYTES`] of disk space.
pub const MOST_KEPT: usize = 20;
/// Time for which a file is kept: 24 hours, so that the result of an afternoon can be downloaded the next morning.
pub const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// Largest number of refused rows that the page lists. The resulting file contains all of them.
pub const MOST_NAMED: usize = 100;
/// Number of rows that the page shows as examples of the content of each column.
pub const SAMPLES: usize = 3;

/// True if a request uploads a file to [`ROUTE`] or [`START_ROUTE`].
pub fn is_upload(request: &Request) -> bool {
    let media = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let is_multipart = media.is_some_and(|media| media.to_ascii_lowercase().starts_with("multipart/form-data"));
    let below = request.uri().path().strip_prefix(ROOT).and_then(|path| path.strip_prefix('/'));
    let takes_files = below.and_then(|path| path.strip_suffix("/files")).is_some_and(|name| !name.contains('/'));
    *request.method() == Method::POST && is_multipart && takes_files
}

/// A file that somebody uploaded, with the state of the work on it.
pub struct FileJob {
    /// Random id of the file.
    pub id: String,
    /// Name of the key of the person who uploaded the file.
    owner: String,
    /// The collection that the file is compared with.
    pub collection: CollectionName,
    /// Name of the file at its upload.
    pub name: String,
    /// Format and header of the table.
    pub table: TableProperties,
    /// Number of rows below the header.
    pub rows: u64,
    /// Number of cells of the longest row.
    width: usize,
    /// The first rows below the header, as examples.
    pub samples: Vec<TableRow>,
    /// Hash of the bytes of the file.
    hash: String,
    made: Instant,
    /// Path of the uploaded file; `None` after the work has ended.
    input: Mutex<Option<Arc<TempPath>>>,
    state: Mutex<JobState>,
    progress: Mutex<JobProgress>,
    stop: CancellationToken,
}

/// The stage of the work on a file.
#[derive(Clone)]
pub enum JobState {
    /// The clerk has not yet chosen the fields of the columns.
    New,
    /// The file waits until the work on other files has ended.
    Waiting,
    /// The work is running.
    Running,
    /// The work has ended.
    Ended(JobResult),
}

/// The result of the work on a file.
#[derive(Clone)]
pub struct JobResult {
    /// The reason of the end.
    pub how: JobEnd,
    /// The resulting file; `None` until it is complete.
    pub result: Option<Arc<TempPath>>,
}

/// The reason why the work on a file ended.
#[derive(Clone, Debug)]
pub enum JobEnd {
    /// All rows were processed.
    Whole,
    /// A person or the shutdown of the service stopped the work.
    Stopped,
    /// An error stopped the work.
    Failed(Problem),
}

/// Counts of the processed rows.
#[derive(Clone, Debug, Default)]
pub struct JobProgress {
    /// True if the rows are registered.
    pub registers: bool,
    /// The positions of the columns that are not used.
    pub unused: Vec<usize>,
    /// Number of rows processed.
    pub done: u64,
    /// Number of rows with the same text as an earlier row or record.
    pub exact: u64,
    /// Number of rows similar to an earlier row or record.
    pub near: u64,
    /// Number of rows that are similar to no earlier row or record.
    pub original: u64,
    /// Number of rows that are too short for a comparison.
    pub too_short: u64,
    /// Number of rows that became new records.
    pub created: u64,
    /// Number of rows that are no data: repeated headers and totals.
    pub no_data: u64,
    /// Number of rows that were refused.
    pub refused: u64,
    /// The first refused rows, each with its row number. At most [`MOST_NAMED`].
    pub refusals: Vec<(u64, RowRefusal)>,
}

impl FileJob {
    /// Returns the stage of the work.
    pub fn state(&self) -> JobState {
        self.state.lock().clone()
    }

    /// Returns the counts so far.
    pub fn progress(&self) -> JobProgress {
        self.progress.lock().clone()
    }

    /// Stops the work after the rows that are being processed.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    fn is_busy(&self) -> bool {
        matches!(*self.state.lock(), JobState::Waiting | JobState::Running)
    }
}

pub struct UploadedFiles {
    folder: UploadFolder,
    kept: Mutex<VecDeque<Arc<FileJob>>>,
    coming: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

impl UploadedFiles {
    /// Creates an empty list of files that are stored in `folder`.
    pub fn new(folder: UploadFolder) -> Self {
        let coming = Semaphore::new(MOST_COMING);
        let turns = Semaphore::new(MOST_RUNNING);
        Self { folder, kept: Mutex::default(), coming: Arc::new(coming), turns: Arc::new(turns) }
    }

    /// Adds a file. If the list is full, the oldest file that is not being processed is dropped.
    ///
    /// # Errors
    /// 503 if the list is full and all its files are waiting or being processed.
    fn keep(&self, job: FileJob) -> Result<Arc<FileJob>, Problem> {
        self.forget_old();
        let mut kept = self.kept.lock();
        if kept.len() >= MOST_KEPT {
            let idle = kept.iter().position(|job| !job.is_busy());
            let idle = idle.ok_or_else(|| too_many("too many files are being processed"))?;
            kept.remove(idle);
        }
        let job = Arc::new(job);
        kept.push_back(Arc::clone(&job));
        Ok(job)
    }

    /// Drops files that are older than [`KEPT_FOR`] and not being processed.
    pub fn forget_old(&self) {
        self.kept.lock().retain(|job| job.is_busy() || job.made.elapsed() < KEPT_FOR);
    }

    /// Returns the file `id` of `owner` in a collection.
    ///
    /// # Errors
    /// 404 if `owner` has no such file in this collection.
    pub fn get(&self, id: &str, owner: &str, collection: &CollectionName) -> Result<Arc<FileJob>, Problem> {
        let found = self.of(owner, collection).into_iter().find(|job| job.id == id);
        found.ok_or_else(|| {
            let detail = "there is no such file, or it is no longer kept; upload it again";
            Problem::unknown(ErrorCode::FileUnknown, "/path/file", detail)
        })
    }

    /// Returns the files of `owner` in a collection, the latest first.
    pub fn of(&self, owner: &str, collection: &CollectionName) -> Vec<Arc<FileJob>> {
        self.forget_old();
        let kept = self.kept.lock();
        let own = kept.iter().rev().filter(|job| job.owner == owner && job.collection == *collection);
        own.cloned().collect()
    }

    /// Drops a file. If the file is being processed, the work is stopped, and the file is deleted when the work has ended.
    pub fn remove(&self, job: &Arc<FileJob>) {
        job.stop();
        self.kept.lock().retain(|kept| !Arc::ptr_eq(kept, job));
    }
}

fn too_many(detail: &str) -> Problem {
    Problem::unavailable(ErrorCode::FileBusy, format!("{detail}; send it again in a minute"))
}
