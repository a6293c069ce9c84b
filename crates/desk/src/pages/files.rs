//! The pages for checking a file: upload, choice of the fields, progress, and download.

use std::sync::Arc;

use askama::Template;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Path, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use tokio_util::io::ReaderStream;

use crate::DeskState;
use crate::files::{self, FileJob, JobEnd, JobProgress, JobResult, MOST_BYTES, ROUTE, SAMPLES, UploadPlan, upload};
use crate::form::FormFields;
use crate::page::{self, DeskSection, PageFrame, SeeOther};
use crate::view::numbers::count;
use crate::view::row::RowReader;
use crate::visitor::{PageVisitor, ReadingVisitor};
use crate::words::FilesWords;
use doppel_core::collection::{Role, Settings};
use doppel_core::columns::{ColumnKind, kind_of};
use doppel_core::error_code::ErrorCode;
use doppel_core::verdict::VerdictKind;
use doppel_engine::arrivals;
use doppel_findings::output;
use doppel_http::extract::InCollection;
use doppel_http::permits::arrival;
use doppel_http::problem::Problem;
use doppel_http::state::App;
use doppel_sources::tables::TableLayout;
use doppel_sources::tables::columns::{ColumnTarget, guess};

/// Largest length of a shown example of a cell, in characters.
const SAMPLE_CHARS: usize = 60;
/// Number of the latest records that are read to find the fields in use.
const LATEST: usize = 8;

/// Returns the routes of these pages.
pub fn routes() -> Router<App> {
    Router::new()
        // The upload has its own limit: it is streamed, never held in memory.
        .route(ROUTE, get(list).post(take).layer(DefaultBodyLimit::disable()))
        .route("/console/{collection}/files/{file}", get(show))
        .route("/console/{collection}/files/{file}/sheet", post(choose_sheet))
        .route("/console/{collection}/files/{file}/start", post(start))
        .route("/console/{collection}/files/{file}/stop", post(stop))
        .route("/console/{collection}/files/{file}/remove", post(remove))
        .route("/console/{collection}/files/{file}/result", get(result))
}

#[derive(Template)]
#[template(path = "files.html")]
struct ListPage {
    frame: PageFrame,
    words: &'static FilesWords,
    file_hint: String,
    jobs: Vec<FileListLine>,
}

struct FileListLine {
    href: String,
    name: String,
    rows: String,
    how_far: &'static str,
}

#[derive(Template)]
#[template(path = "file.html")]
struct FilePage {
    frame: PageFrame,
    words: &'static FilesWords,
    path: String,
    /// The path of the inbox of the collection.
    inbox: String,
    name: String,
    read_as: String,
    /// The other sheets of the workbook, which the visitor can choose.
    other_sheets: Vec<String>,
    columns: Option<ColumnsView>,
    work: Option<WorkView>,
}

/// The form for the fields of the columns.
struct ColumnsView {
    columns: Vec<ColumnView>,
    options: Vec<(String, String)>,
    may_register: bool,
    registers: bool,
    wrong: Option<String>,
}

struct ColumnView {
    name: String,
    samples: Vec<String>,
    chosen: String,
}

/// The progress of the work.
struct WorkView {
    how_far: &'static str,
    is_busy: bool,
    /// True if rows were registered, so that the inbox has new records.
    is_registered: bool,
    /// The error that ended the work; `None` without an error.
    problem: Option<&'static str>,
    done: u64,
    rows: u64,
    progress: String,
    /// A sentence with the columns that are not used, if there are any.
    unused: Option<String>,
    numbers: Vec<(&'static str, String)>,
    refusals: Vec<(u64, String)>,
    refused_more: Option<String>,
    /// The text of the link to the resulting file.
    result: Option<String>,
}

/// Returns the path of the page of a file.
pub(super) fn path(job: &FileJob) -> String {
    page::below(&job.collection, &format!("files/{}", job.id))
}

/// A file of the visitor, which the path names.
pub struct OwnFile {
    visitor: ReadingVisitor,
    desk: Arc<DeskState>,
    job: Arc<FileJob>,
}

impl FromRequestParts<App> for OwnFile {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let visitor = ReadingVisitor::from_request_parts(parts, app).await?;
        let InCollection(collection) = InCollection::from_request_parts(parts, app).await?;
        let path = Path::<(String, String)>::from_request_parts(parts, app).await;
        let Path((_, id)) = path.map_err(|error| Problem::internal(error.to_string()))?;
        let desk = parts.extensions.get::<Arc<DeskState>>().cloned();
        let desk = desk.ok_or_else(|| Problem::internal("a page outside the desk"))?;
        let job = desk.files.get(&id, visitor.caller(), &collection)?;
        Ok(Self { visitor, desk, job })
    }
}

fn how_far(job: &FileJob, words: &FilesWords) -> &'static str {
    match job.state() {
        files::JobState::New => words.is_new,
        files::JobState::Waiting => words.is_waiting,
        files::JobState::Running => words.is_running,
        files::JobState::Ended(JobResult { how: JobEnd::Whole, .. }) => words.is_whole,
        files::JobState::Ended(JobResult { how: JobEnd::Stopped, .. }) => words.is_stopped,
        files::JobState::Ended(JobResult { how: JobEnd::Failed(_), .. }) => words.is_failed,
    }
}

/// Shows the upload form and the list of the visitor's files.
///
/// # Errors
/// 403; 404 for an unknown collection.
pub async fn list(
    visitor: ReadingVisitor,
    State(app): State<App>,
    Extension(desk): Extension<Arc<DeskState>>,
    InCollection(collection): InCollection,
) -> Result<Response, Problem> {
    app.engine.collection(&collection).await?;
    let words = &visitor.words().files;
    let jobs = desk.files.of(visitor.caller(), &collection);
    let page = ListPage {
        frame: PageFrame::of(&visitor, &collection, DeskSection::Files, words.title),
        words,
        file_hint: (words.file_hint)(MOST_BYTES >> 20),
        jobs: jobs
            .into_iter()
            .map(|job: Arc<FileJob>| FileListLine {
                href: path(&job),
                name: job.name.clone(),
                rows: count(job.rows),
                how_far: how_far(&job, words),
            })
            .collect(),
    };
    page::html(StatusCode::OK, &page)
}

/// Receives a file.
///
/// # Errors
/// 403, 404; 409 if the collection keeps no text; the errors of [`upload::take`].
pub async fn take(
    visitor: ReadingVisitor,
    State(app): State<App>,
    Extension(desk): Extension<Arc<DeskState>>,
    InCollection(collection): InCollection,
    request: Request,
) -> Result<Response, Problem> {
    app.engine
        .check_keeps_text(&collection, "the desk keeps a file until it is processed; use doppel check or import")
        .await?;
    let form = upload::form_of(&app, request).await?;
    let taking = upload::take(&app, &desk.files, visitor.caller(), collection, form);
    let job = arrival(&app, taking).await?;
    Ok(SeeOther::to(path(&job)).into_response())
}

/// Shows the form for the columns, or the progress of the work.
///
/// # Errors
/// 403, 404.
pub async fn show(OwnFile { visitor, job, .. }: OwnFile, State(app): State<App>) -> Result<Response, Problem> {
    let columns = match job.state() {
        files::JobState::New => {
            let found = app.engine.collection(&job.collection).await?;
            let settings = found.settings;
            let fields = fields(&app, &settings, &job).await?;
            let names: Vec<String> = fields.iter().map(|(name, _)| name.clone()).collect();
            let targets = guess(&job.table.header, &settings, &names);
            // The first file of a collection is nearly always its register.
            let registers = found.records == 0 && visitor.may_write();
            Some(columns(&visitor, &job, &fields, &targets, registers, None))
        }
        _ => None,
    };
    page::html(StatusCode::OK, &file_page(&visitor, &job, columns))
}

fn file_page(visitor: &PageVisitor, job: &FileJob, columns: Option<ColumnsView>) -> FilePage {
    let words = &visitor.words().files;
    let other_sheets: Vec<String> = job.table.sheets.others().map(|sheet| sheet.name.clone()).collect();
    let read_as = match &job.table.layout {
        TableLayout::Csv { encoding, separator } => {
            let separator = if *separator == b'\t' { "Tab".to_owned() } else { char::from(*separator).to_string() };
            (words.read_as_text)(&count(job.rows), encoding.name(), &separator)
        }
        TableLayout::Sheet { sheet, .. } => (words.read_as_sheet)(&count(job.rows), sheet, &other_sheets),
    };
    FilePage {
        frame: PageFrame::of(visitor, &job.collection, DeskSection::Files, job.name.clone()),
        words,
        path: path(job),
        inbox: page::below(&job.collection, DeskSection::Inbox.path()),
        name: job.name.clone(),
        read_as,
        other_sheets,
        work: if columns.is_some() { None } else { Some(work(visitor, job)) },
        columns,
    }
}

/// Returns the possible fields of a column: the fields in use, and the fields that have the name of a column.
async fn fields(app: &App, settings: &Settings, job: &FileJob) -> Result<Vec<(String, Role)>, Problem> {
    let latest = app.engine.arrivals(&job.collection, &arrivals::ArrivalFilter::default(), None, LATEST).await?;
    let rows = latest.items.iter().filter_map(|arrival| arrival.record.read());
    let used = RowReader::of(settings).form_fields(&rows.collect::<Vec<_>>());
    let mut fields: Vec<(String, Role)> = used.iter().map(|field| (field.name.clone(), field.role)).collect();
    let mut kinds: Vec<(Role, bool)> = used.iter().map(|field| (field.role, field.is_long)).collect();
    // For each kind of field that the latest records lack: the fields with the name of a column; otherwise the first field of the kind. A person
    // may have a name, a telephone number and an identity number, so that these fields do not replace each other.
    let titles = settings.titles();
    let in_use = kinds.clone();
    for (field, is_title) in settings.fields.iter().zip(titles).filter(|(field, _)| field.role != Role::Ignore) {
        let kind = (field.role, field.role == Role::Text && !is_title);
        let is_number = matches!(kind_of(&field.name), Some(ColumnKind::Phone | ColumnKind::IdentityNumber));
        let is_field = fields.iter().any(|(name, _)| *name == field.name);
        if job.table.header.contains(&field.name) && !is_field && (is_number || !in_use.contains(&kind)) {
            fields.push((field.name.clone(), field.role));
            kinds.push(kind);
        }
    }
    let usual = RowReader::of(settings).form_fields(&[]);
    let missing = usual.into_iter().filter(|field| !kinds.contains(&(field.role, field.is_long)));
    fields.extend(missing.map(|field| (field.name, field.role)));
    Ok(fields)
}

fn written(target: &ColumnTarget) -> String {
    match target {
        ColumnTarget::Id => "id".into(),
        ColumnTarget::Own => "own".into(),
        ColumnTarget::Unused => String::new(),
        ColumnTarget::Field(name) => format!("field:{name}"),
    }
}

/// Parses the target of the column at `at` from a form. A column that the form does not have is not used.
///
/// # Errors
/// 422 for an unknown target, for example a field that the settings lost after the page was shown.
fn target(at: usize, form: &FormFields, settings: &Settings) -> Result<ColumnTarget, Problem> {
    let text = chosen_target(at, form);
    match (text, text.strip_prefix("field:")) {
        ("", _) => Ok(ColumnTarget::Unused),
        ("id", _) => Ok(ColumnTarget::Id),
        ("own", _) => Ok(ColumnTarget::Own),
        (_, Some(name)) if settings.fields.iter().any(|field| field.name == name) => {
            Ok(ColumnTarget::Field(name.into()))
        }
        _ => {
            let detail = "the column cannot have this meaning; load the page again";
            Err(Problem::invalid_at(format!("/column.{at}"), ErrorCode::InvalidValue, detail))
        }
    }
}

fn columns(
    visitor: &PageVisitor,
    job: &FileJob,
    fields: &[(String, Role)],
    targets: &[ColumnTarget],
    registers: bool,
    wrong: Option<String>,
) -> ColumnsView {
    let words = visitor.words();
    let mut options = vec![(String::new(), words.files.unused.to_owned()), ("id".into(), words.files.id.into())];
    options.extend(fields.iter().map(|(name, role): &(String, Role)| {
        let label = words.record.fields.iter().find(|(field, _)| field == name).map(|(_, label)| (*label).to_owned());
        let label = label.unwrap_or_else(|| format!("{name} · {}", (words.record.role)(*role)));
        (written(&ColumnTarget::Field(name.clone())), label)
    }));
    options.push(("own".into(), words.files.own.into()));
    let columns = targets
        .iter()
        .enumerate()
        .map(|(at, target): (usize, &ColumnTarget)| ColumnView {
            name: column_name(at, job, &words.files),
            samples: samples_of(at, &job.samples),
            chosen: written(target),
        })
        .collect();
    ColumnsView { columns, options, may_register: visitor.may_write(), registers, wrong }
}

fn column_name(at: usize, job: &FileJob, words: &FilesWords) -> String {
    match job.table.header[at].as_str() {
        "" => (words.unnamed)(at + 1),
        name => name.to_owned(),
    }
}

fn samples_of(at: usize, rows: &[doppel_sources::tables::TableRow]) -> Vec<String> {
    let cells = rows.iter().take(SAMPLES).map(move |row| row.cells.get(at));
    cells.map(|cell| cell.map_or_else(String::new, |cell| shortened(&cell.text))).collect()
}

fn shortened(text: &str) -> String {
    crate::view::marked::beginning(text.trim(), SAMPLE_CHARS)
}

fn work(visitor: &PageVisitor, job: &FileJob) -> WorkView {
    let all = visitor.words();
    let words = &all.files;
    let record = &all.record;
    let state = job.state();
    let progress = job.progress();
    let kinds = [
        (VerdictKind::ExactDuplicate, progress.exact),
        (VerdictKind::NearDuplicate, progress.near),
        (VerdictKind::Original, progress.original),
        (VerdictKind::TooShort, progress.too_short),
    ];
    let mut numbers: Vec<_> =
        kinds.into_iter().map(|(kind, number)| (record.finding.verdict(kind), count(number))).collect();
    numbers.push((record.finding.refused(), count(progress.refused)));
    if progress.no_data > 0 {
        numbers.push((words.no_data, count(progress.no_data)));
    }
    if progress.registers {
        numbers.push((words.created, count(progress.created)));
    }
    let (result, problem) = match &state {
        files::JobState::Ended(JobResult { how, result }) => {
            let says = match how {
                JobEnd::Whole => words.download.to_owned(),
                _ => (words.download_part)(&count(progress.done)),
            };
            let problem = match how {
                JobEnd::Failed(problem) => Some(page::in_words(problem, &all.problem)),
                _ => None,
            };
            (result.is_some().then_some(says), problem)
        }
        _ => (None, None),
    };
    let JobProgress { done, created, refused, refusals, unused, .. } = progress;
    let unused: Vec<String> = unused.into_iter().map(|at| column_name(at, job, words)).collect();
    let named = refusals.len();
    WorkView {
        how_far: how_far(job, words),
        is_busy: matches!(state, files::JobState::Waiting | files::JobState::Running),
        is_registered: matches!(state, files::JobState::Ended(_)) && created > 0,
        problem,
        done,
        rows: job.rows,
        progress: (words.progress)(&count(done), &count(job.rows)),
        unused: (!unused.is_empty()).then(|| (words.unused_columns)(&unused)),
        numbers,
        refusals: refusals.into_iter().map(|(number, refusal)| (number, record.finding.refusal(&refusal))).collect(),
        refused_more: (refused > named as u64).then(|| (words.refused_more)(named, &count(refused))),
        result,
    }
}

/// Reads another sheet of a workbook, before the work on it begins.
///
/// # Errors
/// 403, 404; the errors of [`upload::choose_sheet`].
pub async fn choose_sheet(
    OwnFile { desk, job, .. }: OwnFile,
    State(app): State<App>,
    form: FormFields,
) -> Result<Response, Problem> {
    let sheet = form.raw("sheet").unwrap_or_default();
    let chosen = upload::choose_sheet(&app, &desk.files, &job, sheet).await?;
    Ok(SeeOther::to(path(&chosen)).into_response())
}

/// Starts the work on a file.
///
/// # Errors
/// 403, also if the rows are to be registered and the key does not allow it; 404. The page shows errors in the choice of fields.
pub async fn start(
    OwnFile { visitor, desk, job }: OwnFile,
    State(app): State<App>,
    form: FormFields,
) -> Result<Response, Problem> {
    let registers = form.text("do") == Some("register");
    if registers && !visitor.may_write() {
        let detail = "the key does not have the scope \"write\", which registering needs";
        return Err(Problem::new(StatusCode::FORBIDDEN, ErrorCode::MissingScope, detail));
    }
    let settings = app.engine.collection(&job.collection).await?.settings;
    let targets = (0..job.table.header.len()).map(|at| target(at, &form, &settings));
    let targets = targets.collect::<Result<Vec<_>, _>>()?;
    let plan = UploadPlan::new(&job.table, targets, registers, &settings);
    if let Err(wrong) = plan.check(&settings) {
        let fields = fields(&app, &settings, &job).await?;
        let wrong = Some((visitor.words().files.wrong_plan)(&wrong));
        let columns = columns(&visitor, &job, &fields, &plan.targets, registers, wrong);
        return page::html(StatusCode::UNPROCESSABLE_ENTITY, &file_page(&visitor, &job, Some(columns)));
    }
    files::start(&app, desk, &job, plan, visitor.words().record.finding);
    Ok(SeeOther::to(path(&job)).into_response())
}

fn chosen_target(at: usize, form: &FormFields) -> &str {
    form.raw(&format!("column.{at}")).unwrap_or_default()
}

/// Stops the work after the rows that are being processed.
///
/// # Errors
/// 403, 404.
pub async fn stop(OwnFile { job, .. }: OwnFile, _: FormFields) -> Result<Response, Problem> {
    job.stop();
    Ok(SeeOther::to(path(&job)).into_response())
}

/// Removes a file.
///
/// # Errors
/// 403, 404.
pub async fn remove(OwnFile { desk, job, .. }: OwnFile, _: FormFields) -> Result<Response, Problem> {
    desk.files.remove(&job);
    Ok(SeeOther::to(page::below(&job.collection, DeskSection::Files.path())).into_response())
}

/// Sends the resulting file.
///
/// # Errors
/// 403, 404; 409 if there is no result yet.
pub async fn result(OwnFile { visitor, job, .. }: OwnFile) -> Result<Response, Problem> {
    let files::JobState::Ended(JobResult { how, result: Some(place) }) = job.state() else {
        return Err(Problem::conflict(ErrorCode::FileUnfinished, "there is no result of this file yet"));
    };
    let file = tokio::fs::File::open(&*place).await.map_err(|error| file_problem(&error))?;
    let length = file.metadata().await.map_err(|error| file_problem(&error))?.len();
    let (media, ending) = output::kind(&job.table.layout);
    let words = &visitor.words().files;
    let suffix = match how {
        JobEnd::Whole => words.suffix.to_owned(),
        _ => (words.suffix_part)(job.progress().done),
    };
    let stem = job.name.rsplit_once('.').map_or(job.name.as_str(), |(stem, _)| stem);
    let name = page::segment(&format!("{stem}{suffix}.{ending}"));
    let disposition = format!("attachment; filename=\"result.{ending}\"; filename*=UTF-8''{name}");
    let disposition = HeaderValue::try_from(disposition).unwrap_or(HeaderValue::from_static("attachment"));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media)),
        (header::CONTENT_LENGTH, HeaderValue::from(length)),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    Ok((headers, Body::from_stream(ReaderStream::new(file))).into_response())
}

fn file_problem(error: &std::io::Error) -> Problem {
    Problem::internal(format!("a file of the desk: {error}"))
}
