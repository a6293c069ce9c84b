//! The work on a file. One thread reads the rows, tasks check or register several rows at once, and another thread finishes the rows in
//! their order and writes them. A few dozen rows are in memory at a time, independent of the size of the file.

use std::io::{self, BufWriter, IntoInnerError};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, StreamExt};
use tempfile::NamedTempFile;
use tokio::sync::mpsc;

use super::folder::failed;
use super::plan::UploadPlan;
use super::upload::unreadable;
use super::{FileJob, JobEnd, JobResult, JobState, MOST_NAMED, UploadedFiles};
use crate::DeskState;
use doppel_core::record::Row;
use doppel_core::verdict::{Verdict, VerdictKind};
use doppel_engine::answers::Registration;
use doppel_engine::idempotency::{IdempotencyKey, RegistrationId};
use doppel_engine::replay::Replay;
use doppel_engine::{Error, IfDuplicate, Position, Series};
use doppel_findings::output::TableOutput;
use doppel_findings::within::{CheckedRow, PlacedRows};
use doppel_findings::{EarlierRow, FindingWords, RowFinding, RowIds, RowRefusal};
use doppel_http::permits::next_permit;
use doppel_http::problem::Problem;
use doppel_http::routes::records::{count_failure, count_registration};
use doppel_http::state::App;
use doppel_service::shutdown::Phase;
use doppel_sources::tables::{RowFault, TableError, TableRow};
use doppel_store::StoreError;

/// Largest number of rows in process at once: enough to share the syncs of the store, and few compared with the requests of people who
/// wait.
const MOST_UNDER_WAY: usize = 16;
/// Capacity of the two queues: rows that are read and not begun, and rows that are processed and not written.
const MOST_WAITING: usize = 16;
/// Bytes of memory for the sketches of texts while a file is compared with itself. This is enough for all rows of the largest file in most
/// cases.
const SKETCH_BYTES: usize = 16 << 20;
/// The caller of registrations from files. It separates their idempotency keys from the keys of API callers.
const CALLER: &str = "a file of the desk";

enum RowOutcome {
    /// The row is above the header.
    Above,
    Header,
    /// The row is no data: it repeats the header, or contains totals.
    NoData(RowRefusal),
    Refused(RowRefusal),
    Checked(Box<CheckedRow>),
    Registered(Box<Registration>),
}

type FinishedRow = Result<(TableRow, RowOutcome), Problem>;

/// Starts the work on a file, which begins when fewer than [`MOST_RUNNING`](super::MOST_RUNNING) files are being processed. `words` are the
/// texts in the language of the resulting file.
pub fn start(app: &App, desk: Arc<DeskState>, job: &Arc<FileJob>, plan: UploadPlan, words: FindingWords) {
    {
        let mut state = job.state.lock();
        if !matches!(*state, JobState::New) {
            return;
        }
        *state = JobState::Waiting;
        let mut progress = job.progress.lock();
        progress.registers = plan.registers;
        progress.unused = plan.unused();
    }
    let app = app.clone();
    let job = Arc::clone(job);
    let writes = app.writes.clone();
    writes.spawn(async move {
        let ended = work(&app, &desk.files, &job, plan, words).await.unwrap_or_else(|problem| {
            note_failure(&problem);
            JobResult { how: JobEnd::Failed(problem), result: None }
        });
        *job.input.lock() = None;
        *job.state.lock() = JobState::Ended(ended);
    });
}

fn note_failure(problem: &Problem) {
    if let Some(cause) = problem.cause() {
        tracing::error!(cause, "a file of the desk failed");
    }
}

async fn work(
    app: &App,
    files: &UploadedFiles,
    job: &Arc<FileJob>,
    plan: UploadPlan,
    words: FindingWords,
) -> Result<JobResult, Problem> {
    let turn = files.turns.clone();
    let _turn = tokio::select! {
        turn = turn.acquire_owned() => turn.map_err(|_| Problem::shutting_down())?,
        () = job.stop.cancelled() => return Ok(JobResult { how: JobEnd::Stopped, result: None }),
        () = app.shutdown.reached(Phase::Draining) => return Err(Problem::shutting_down()),
    };
    *job.state.lock() = JobState::Running;
    let folder = files.folder.path()?.to_owned();
    let file = files.folder.file()?;
    let registers = plan.registers;
    let replay = if registers { None } else { Some(Arc::new(app.engine.replay(&job.collection, SKETCH_BYTES).await?)) };
    let (give_rows, rows) = mpsc::channel(MOST_WAITING);
    let (give_done, done) = mpsc::channel(MOST_WAITING);
    let reading = read(job, give_rows)?;
    let finisher = RowFinisher { job: Arc::clone(job), words, folder, replay: replay.clone() };
    let writing = tokio::task::spawn_blocking(move || finisher.finish(done, file));
    let mut pump = RowPump::new(app, job, plan, replay);
    let stopped = pump.run(rows, give_done).await;
    let read = reading.await.map_err(|error| crash_problem(&error))?;
    let (failure, file) = writing.await.map_err(|error| crash_problem(&error))?.map_err(failed)?;
    let how = match (failure, read) {
        (Some(problem), _) => JobEnd::Failed(problem),
        (None, Err(error)) => JobEnd::Failed(unreadable(error)),
        (None, Ok(())) if stopped => JobEnd::Stopped,
        (None, Ok(())) => JobEnd::Whole,
    };
    if let JobEnd::Failed(problem) = &how {
        note_failure(problem);
    }
    if registers && matches!(how, JobEnd::Whole) {
        // The rows are registered whether this succeeds or not.
        let app = app.clone();
        let collection = job.collection.clone();
        let writes = app.writes.clone();
        writes.spawn(async move { app.end_batch(&collection).await });
    }
    let is_empty = !matches!(how, JobEnd::Whole) && job.progress.lock().done == 0;
    let result = (!is_empty).then(|| Arc::new(file.into_temp_path()));
    Ok(JobResult { how, result })
}

fn crash_problem(error: &tokio::task::JoinError) -> Problem {
    Problem::internal(format!("working on a file: {error}"))
}

/// Starts the thread that reads the rows. It ends at the end of the table or when the receiver is dropped.
fn read(
    job: &Arc<FileJob>,
    give: mpsc::Sender<TableRow>,
) -> Result<tokio::task::JoinHandle<Result<(), TableError>>, Problem> {
    let input = job.input.lock().clone().ok_or_else(|| Problem::internal("a file was worked on before"))?;
    let job = Arc::clone(job);
    Ok(tokio::task::spawn_blocking(move || {
        job.table.rows(&input, |row| match give.blocking_send(row) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        })
    }))
}

/// Checks or registers the rows of a file.
struct RowPump {
    app: App,
    job: Arc<FileJob>,
    plan: Arc<UploadPlan>,
    replay: Option<Arc<Replay>>,
    key: IdempotencyKey,
    series: Series,
    /// The ids of the rows that are registered.
    ids: RowIds,
}

impl RowPump {
    fn new(app: &App, job: &Arc<FileJob>, plan: UploadPlan, replay: Option<Arc<Replay>>) -> Self {
        let key = IdempotencyKey::new(CALLER, &job.hash);
        let series = Series::default();
        Self {
            app: app.clone(),
            job: Arc::clone(job),
            plan: Arc::new(plan),
            replay,
            key,
            series,
            ids: RowIds::default(),
        }
    }

    /// Processes all rows, or stops early. Returns true if a person or the shutdown stopped the work.
    async fn run(&mut self, mut rows: mpsc::Receiver<TableRow>, done: mpsc::Sender<FinishedRow>) -> bool {
        let stop = self.job.stop.clone();
        let app = self.app.clone();
        let mut under_way: FuturesOrdered<BoxFuture<'static, FinishedRow>> = FuturesOrdered::new();
        let mut ended = false;
        let mut stopped = false;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled(), if !ended => (ended, stopped) = (true, true),
                () = app.shutdown.reached(Phase::Draining), if !ended => (ended, stopped) = (true, true),
                Some(row) = under_way.next(), if !under_way.is_empty() => {
                    if done.send(row).await.is_err() {
                        return stopped;
                    }
                }
                row = rows.recv(), if !ended && under_way.len() < MOST_UNDER_WAY => match row {
                    Some(row) => under_way.push_back(self.begin(row).await),
                    None => ended = true,
                },
                else => return stopped,
            }
        }
    }

    async fn begin(&mut self, row: TableRow) -> BoxFuture<'static, FinishedRow> {
        let header = self.job.table.header_row;
        if row.number <= header {
            let what = if row.number == header { RowOutcome::Header } else { RowOutcome::Above };
            return ready(Ok((row, what)));
        }
        if let Some(fault) = row.fault.clone().filter(RowFault::is_left_out) {
            return ready(Ok((row, RowOutcome::NoData(RowRefusal::Row(fault)))));
        }
        let record = match self.plan.row(&row).and_then(|record| self.once(record, row.number)) {
            Ok(record) => record,
            Err(refusal) => return ready(Ok((row, RowOutcome::Refused(refusal)))),
        };
        let Some(permit) = next_permit(self.app.clone(), record.json().len()).await else {
            return ready(Err(Problem::shutting_down()));
        };
        let app = self.app.clone();
        let job = Arc::clone(&self.job);
        let task = match self.replay.clone() {
            Some(replay) => app.writes.clone().spawn(async move {
                let _permit = permit;
                let outcome = check(&app, &job, replay, record).await;
                settled(row, outcome)
            }),
            None => {
                let key = self.key.of_line(row.number);
                let position = self.series.next_position();
                app.writes.clone().spawn(async move {
                    let _permit = permit;
                    let outcome = register(&app, &job, record, key, position).await;
                    settled(row, outcome)
                })
            }
        };
        async { task.await.unwrap_or_else(|error| Err(Problem::internal(format!("a row: {error}")))) }.boxed()
    }

    /// Returns the record, or a refusal if an earlier row of the file has the same id: registering it would replace the earlier record.
    fn once(&mut self, record: Row, number: u64) -> Result<Row, RowRefusal> {
        let Some(id) = record.id().filter(|_| self.plan.registers) else { return Ok(record) };
        match self.ids.first(id, number) {
            first if first == number => Ok(record),
            first => Err(RowRefusal::SameId(first)),
        }
    }
}

fn ready(done: FinishedRow) -> BoxFuture<'static, FinishedRow> {
    std::future::ready(done).boxed()
}

/// Turns an error of a single row into a refusal of this row. An error of the service is returned and ends the work.
fn settled(row: TableRow, outcome: Result<RowOutcome, Error>) -> FinishedRow {
    match outcome {
        Ok(outcome) => Ok((row, outcome)),
        Err(Error::Invalid(violations)) => Ok((row, RowOutcome::Refused(RowRefusal::of(&violations)))),
        Err(Error::Store(StoreError::IdTaken(_))) => Ok((row, RowOutcome::Refused(RowRefusal::Otherwise))),
        Err(error) => Err(error.into()),
    }
}

async fn check(app: &App, job: &FileJob, replay: Arc<Replay>, row: Row) -> Result<RowOutcome, Error> {
    let found = app.engine.check(&job.collection, row.clone(), false).await?.found;
    let signing = tokio::task::spawn_blocking(move || CheckedRow::new(&replay, row, found));
    Ok(RowOutcome::Checked(Box::new(signing.await.map_err(|_| Error::Crashed)??)))
}

async fn register(
    app: &App,
    job: &FileJob,
    row: Row,
    key: IdempotencyKey,
    position: Position,
) -> Result<RowOutcome, Error> {
    if let Some(id) = row.id() {
        match app.engine.stored_row(&job.collection, id).await {
            Ok(stored) if !stored.same_content(&row) => {
                position.pass().await;
                return Ok(RowOutcome::Refused(RowRefusal::Stored));
            }
            Ok(_) | Err(Error::UnknownRecord(..)) => (),
            Err(error) => {
                position.pass().await;
                return Err(error);
            }
        }
    }
    let name = &job.collection;
    let under = RegistrationId::Key(key);
    let registered = app.engine.register_in_series(name, under, row, IfDuplicate::Keep, position).await;
    match &registered {
        Ok(registration) => count_registration(registration),
        Err(Error::Invalid(_)) => (),
        Err(error) => count_failure(&Problem::internal(error.to_string())),
    }
    registered.map(|registration| RowOutcome::Registered(Box::new(registration)))
}

/// Finishes a table and returns its file after all bytes were written.
fn whole(output: TableOutput<BufWriter<NamedTempFile>>) -> io::Result<NamedTempFile> {
    output.finish()?.into_inner().map_err(IntoInnerError::into_error)
}

/// Finishes rows in their order and writes them to the resulting file.
struct RowFinisher {
    job: Arc<FileJob>,
    words: FindingWords,
    folder: PathBuf,
    replay: Option<Arc<Replay>>,
}

impl RowFinisher {
    /// Writes all rows of `done`. Returns the problem that ended the work early, if any, and the file with the finished rows.
    fn finish(
        self,
        mut done: mpsc::Receiver<FinishedRow>,
        file: NamedTempFile,
    ) -> io::Result<(Option<Problem>, NamedTempFile)> {
        let form = (&self.job.table.layout).into();
        let mut output = TableOutput::new(&form, BufWriter::new(file), &self.folder, self.job.width)?;
        let mut within = self.replay.clone().map(|replay| PlacedRows::new(replay, &self.folder));
        let mut ids = RowIds::default();
        while let Some(done) = done.blocking_recv() {
            let (row, outcome) = match done {
                Ok(done) => done,
                Err(problem) => return Ok((Some(problem), whole(output)?)),
            };
            let said = match outcome {
                RowOutcome::Above => {
                    output.row(row.number, &row.cells, None)?;
                    continue;
                }
                RowOutcome::Header => {
                    output.row(row.number, &row.cells, Some(&self.words.headings()))?;
                    continue;
                }
                RowOutcome::NoData(reason) => {
                    output.row(row.number, &row.cells, Some(&self.words.added_cells(&Err(reason))))?;
                    let mut progress = self.job.progress.lock();
                    progress.done += 1;
                    progress.no_data += 1;
                    continue;
                }
                RowOutcome::Refused(refusal) => Err(refusal),
                RowOutcome::Checked(checked) => {
                    let within = within.as_mut().ok_or(io::ErrorKind::InvalidInput)?;
                    Ok(within.finding(row.number, *checked, |number| io::Result::Ok(EarlierRow::Row(number)))?)
                }
                RowOutcome::Registered(registration) => Ok(registered(*registration, row.number, &mut ids)),
            };
            output.row(row.number, &row.cells, Some(&self.words.added_cells(&said)))?;
            self.note(row.number, said);
        }
        Ok((None, whole(output)?))
    }

    fn note(&self, number: u64, said: Result<RowFinding, RowRefusal>) {
        let mut progress = self.job.progress.lock();
        progress.done += 1;
        let finding = match said {
            Ok(finding) => finding,
            Err(refusal) => {
                progress.refused += 1;
                if progress.refusals.len() < MOST_NAMED {
                    progress.refusals.push((number, refusal));
                }
                return;
            }
        };
        match finding.kind {
            VerdictKind::ExactDuplicate => progress.exact += 1,
            VerdictKind::NearDuplicate => progress.near += 1,
            VerdictKind::Original => progress.original += 1,
            VerdictKind::TooShort => progress.too_short += 1,
        }
        progress.created += u64::from(finding.registered.is_some_and(|(_, is_new)| is_new));
    }
}

/// Returns the finding for a registered row. `ids` are the ids of the earlier rows.
fn registered(registration: Registration, number: u64, ids: &mut RowIds) -> RowFinding {
    let Registration { verdict, outcome, id, .. } = registration;
    let Verdict { kind, duplicate_of, similar, .. } = verdict;
    let finding = RowFinding::registered(kind, duplicate_of.as_ref(), &similar, id.clone(), outcome, |id| {
        ids.get(id).map(EarlierRow::Row)
    });
    if let Some(id) = id {
        ids.first(&id, number);
    }
    finding
}
