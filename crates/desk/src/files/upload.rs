//! Uploads: the service streams a file to disk within the limits, and then inspects it.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::multipart::Field;
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tempfile::{NamedTempFile, TempPath};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::folder::failed;
use super::{FileJob, JobProgress, JobState, MOST_BYTES, SAMPLES, UPLOAD_TIME, UploadedFiles, is_upload, too_many};
use crate::tokens::BrowserSecret;
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_http::pace::BodyPace;
use doppel_http::problem::Problem;
use doppel_http::state::App;
use doppel_sources::tables::{TableError, TableProperties, TableRow};

/// Largest number of bytes of a form in addition to its file.
const FORM_BYTES: u64 = 64 << 10;
/// Largest length of a shown file name, in characters.
const NAME_CHARS: usize = 120;

/// Returns the form of a request that sends a file, before its body is read.
///
/// # Errors
/// 400 or 415 for another body; 413 if its `Content-Length` is too large.
pub async fn form_of(app: &App, request: Request) -> Result<Multipart, Problem> {
    if !is_upload(&request) {
        let detail = "send a file as multipart/form-data";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorCode::FileMissing, detail));
    }
    check_length(request.headers())?;
    Multipart::from_request(request, app).await.map_err(|_| {
        let detail = "the form is not multipart/form-data with a boundary";
        Problem::new(StatusCode::BAD_REQUEST, ErrorCode::MalformedBody, detail)
    })
}

fn check_length(headers: &HeaderMap) -> Result<(), Problem> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    match length {
        Some(length) if length > MOST_BYTES + FORM_BYTES => {
            Err(too_large().with_header(header::CONNECTION, HeaderValue::from_static("close")))
        }
        _ => Ok(()),
    }
}

fn too_large() -> Problem {
    let detail = format!("the file has more than {} MiB; divide it, or have it imported", MOST_BYTES >> 20);
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::FileTooLarge, detail)
}

/// Largest number of bytes of a text field before the file.
const MOST_TEXT_BYTES: usize = 1_024;

/// Reads the first field of a form, a short text with the given name.
///
/// # Errors
/// 400 if the form is broken or begins with another field; 408; 413 if the text is too long.
pub async fn first_text(app: &App, form: &mut Multipart, name: &str) -> Result<String, Problem> {
    let field = next(form.next_field(), app).await?.filter(|field| field.name() == Some(name));
    let mut field = field.ok_or_else(|| malformed(format!("the form does not begin with the field {name}")))?;
    let mut bytes = Vec::new();
    while let Some(piece) = next(field.chunk(), app).await? {
        bytes.extend_from_slice(&piece);
        if bytes.len() > MOST_TEXT_BYTES {
            let detail = format!("the field {name} has more than {MOST_TEXT_BYTES} bytes");
            return Err(Problem::at(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::BodyTooLarge, "", detail));
        }
    }
    String::from_utf8(bytes).map_err(|_| malformed(format!("the field {name} is not UTF-8")))
}

fn malformed(detail: String) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, ErrorCode::MalformedBody, detail)
}

/// Receives the file of a form and adds it to the files.
///
/// # Errors
/// 400, 408 and 413; 422 with a code for the fault of the file; 503 if too many files are being received or processed; 507 if the disk is
/// full.
pub async fn take(
    app: &App,
    files: &UploadedFiles,
    owner: &str,
    collection: CollectionName,
    mut form: Multipart,
) -> Result<Arc<FileJob>, Problem> {
    let place = files.coming.clone().try_acquire_owned().map_err(|_| too_many("too many files are being uploaded"))?;
    let file = files.folder.file()?;
    let max = app.limits().max_line_bytes;
    while let Some(field) = next(form.next_field(), app).await? {
        if field.name() != Some("file") {
            continue;
        }
        let name: String = field.file_name().unwrap_or_default().chars().filter(|sign| !sign.is_control()).collect();
        let (file, hash) = receive(field, file, app).await?;
        let file = Arc::new(file.into_temp_path());
        let seen = inspected(&file, None, max, place).await?;
        let name: String = name.rsplit(['/', '\\']).next().unwrap_or_default().chars().take(NAME_CHARS).collect();
        let given = GivenFile { owner: owner.to_owned(), collection, name, hash, file };
        return files.keep(new_job(given, seen)?);
    }
    Err(wrong(ErrorCode::FileMissing, "no file was chosen"))
}

/// Reads another sheet of the workbook of `job` before the work on it begins. The returned job replaces `job`.
///
/// # Errors
/// 409 if the work on the file has begun; 422 if the workbook has no sheet of this name or the sheet has no rows; 503.
pub async fn choose_sheet(
    app: &App,
    files: &UploadedFiles,
    job: &Arc<FileJob>,
    sheet: &str,
) -> Result<Arc<FileJob>, Problem> {
    if !matches!(job.state(), JobState::New) {
        return Err(has_begun());
    }
    let file = job.input.lock().clone().ok_or_else(has_begun)?;
    let place = files.coming.clone().try_acquire_owned().map_err(|_| too_many("too many files are being uploaded"))?;
    let seen = inspected(&file, Some(sheet.to_owned()), app.limits().max_line_bytes, place).await?;
    let FileJob { owner, collection, name, hash, .. } = &**job;
    let [owner, name, hash] = [owner, name, hash].map(String::clone);
    let chosen = new_job(GivenFile { owner, collection: collection.clone(), name, hash, file }, seen)?;
    files.remove(job);
    files.keep(chosen)
}

fn has_begun() -> Problem {
    Problem::conflict(ErrorCode::FileBegun, "the work on this file has begun; upload it again")
}

/// A file that was received completely.
struct GivenFile {
    owner: String,
    collection: CollectionName,
    name: String,
    hash: String,
    file: Arc<TempPath>,
}

fn new_job(given: GivenFile, seen: InspectedFile) -> Result<FileJob, Problem> {
    let GivenFile { owner, collection, name, hash, file } = given;
    Ok(FileJob {
        id: BrowserSecret::random()?.text()[..32].to_owned(),
        owner,
        collection,
        name,
        table: seen.table,
        rows: seen.rows,
        width: seen.width,
        samples: seen.samples,
        hash,
        made: Instant::now(),
        input: Mutex::new(Some(file)),
        state: Mutex::new(JobState::New),
        progress: Mutex::new(JobProgress::default()),
        stop: CancellationToken::new(),
    })
}

/// Inspects a file on another thread. `place` is free again afterwards, also if the caller stops waiting.
async fn inspected(
    file: &Arc<TempPath>,
    sheet: Option<String>,
    max: usize,
    place: OwnedSemaphorePermit,
) -> Result<InspectedFile, Problem> {
    let file = Arc::clone(file);
    let looked = tokio::task::spawn_blocking(move || {
        let _place = place;
        inspect(&file, sheet.as_deref(), max)
    })
    .await;
    looked.map_err(|error| Problem::internal(format!("looking at a file: {error}")))?
}

/// Returns the next part of a form, or an error if no bytes arrive within the time limit for bodies.
async fn next<T>(
    part: impl Future<Output = Result<Option<T>, axum::extract::multipart::MultipartError>>,
    app: &App,
) -> Result<Option<T>, Problem> {
    match tokio::time::timeout(app.limits().body_timeout(), part).await {
        Ok(Ok(part)) => Ok(part),
        Ok(Err(_)) => {
            let detail = "the form is incomplete or is no form; send it again";
            Err(Problem::new(StatusCode::BAD_REQUEST, ErrorCode::MalformedBody, detail))
        }
        Err(_) => {
            let detail = format!("nothing came for {} ms; send it again", app.limits().body_timeout_ms);
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, ErrorCode::BodyTimeout, detail))
        }
    }
}

fn too_slow(app: &App) -> Problem {
    let least = app.limits().min_stream_bytes_per_s;
    let detail =
        format!("the file comes at less than {least} bytes a second (limits.min_stream_bytes_per_s); send it again");
    Problem::new(StatusCode::REQUEST_TIMEOUT, ErrorCode::BodyTimeout, detail)
}

/// Writes an uploaded file to disk while it arrives. Returns the file and its hash.
async fn receive(mut field: Field<'_>, file: NamedTempFile, app: &App) -> Result<(NamedTempFile, String), Problem> {
    let mut file = file;
    let mut hash = Sha256::new();
    let mut bytes = 0_u64;
    // The whole request has the same time limit, so that only the pace matters here.
    let mut pace = BodyPace::begin(tokio::time::Instant::now(), UPLOAD_TIME);
    loop {
        let due = pace.due(app.limits().least_pace());
        let piece = tokio::time::timeout_at(due, next(field.chunk(), app)).await;
        let Some(piece) = piece.map_err(|_| too_slow(app))?? else { break };
        pace.note(piece.len());
        bytes += piece.len() as u64;
        if bytes > MOST_BYTES {
            return Err(too_large());
        }
        hash.update(&piece);
        // A write may block here: pieces have some kilobytes and go to the page cache of the system.
        file.write_all(&piece).map_err(failed)?;
    }
    if bytes == 0 {
        return Err(wrong(ErrorCode::FileMissing, "no file was chosen, or it is empty"));
    }
    file.flush().map_err(failed)?;
    let hash: [u8; 32] = hash.finalize().into();
    Ok((file, doppel_config::auth::encode(&hash)))
}

/// The result of the inspection of a file.
struct InspectedFile {
    table: TableProperties,
    rows: u64,
    width: usize,
    samples: Vec<TableRow>,
}

fn inspect(path: &Path, sheet: Option<&str>, max: usize) -> Result<InspectedFile, Problem> {
    let table = TableProperties::open_sheet(path, sheet, max).map_err(unreadable)?;
    let mut rows = 0;
    let mut width = table.header.len();
    let mut samples = Vec::new();
    let counted = table.rows(path, |row| {
        width = width.max(row.cells.len());
        if row.number > table.header_row {
            rows += 1;
            if samples.len() < SAMPLES && row.fault.is_none() {
                samples.push(row);
            }
        }
        ControlFlow::Continue(())
    });
    counted.map_err(unreadable)?;
    if rows == 0 {
        return Err(wrong(ErrorCode::FileEmpty, "the file has no rows below the names of its columns"));
    }
    Ok(InspectedFile { table, rows, width, samples })
}

fn wrong(code: ErrorCode, detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
}

/// Returns the problem for a table that cannot be read.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn unreadable(error: TableError) -> Problem {
    let code = match &error {
        TableError::NoHeader => ErrorCode::FileEmpty,
        TableError::TooManyColumns => ErrorCode::FileColumns,
        TableError::OldWorkbook => ErrorCode::FileOld,
        TableError::TooLarge(_) | TableError::TooLargeWhole => return too_large(),
        TableError::OverLimit { .. } | TableError::TooMuchMemory(_) | TableError::TooSlow(_) => {
            ErrorCode::FileOverLimit
        }
        TableError::Busy => return too_many("too many workbooks are being read"),
        TableError::Unknown | TableError::Separator | TableError::NoWorkbook | TableError::IsWorkbook => {
            ErrorCode::FileUnknownKind
        }
        TableError::NoSheet(_) => ErrorCode::FileNoSheet,
        TableError::Damaged => ErrorCode::FileDamaged,
        TableError::Io(error) => return Problem::internal(format!("a file of the desk: {error}")),
    };
    wrong(code, error.to_string())
}
