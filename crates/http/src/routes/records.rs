//! Records: register, read, list, delete.

#![expect(unused_qualifications, reason = "written by utoipa's macro around parameter structs")]

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Reader, Writer};
use crate::cursor::CursorList;
use crate::extract::{IdempotentRequest, InCollection, InRecord, RowBody};
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters, QueryParameters, QueryReader};
use crate::routes::filters::FilterParams;
use crate::routes::rows::RowParams;
use crate::routes::{Timed, created, segment};
use crate::state::App;
use crate::wording;
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::record::{RecordId, Row};
use doppel_engine::IfDuplicate;
use doppel_engine::answers::{Outcome, RecordView, Registration};
use doppel_engine::idempotency::RegistrationId;
use doppel_store::Seq;

/// The default and the largest number of records in one answer.
const LIST_LIMITS: (u64, u64) = (100, 1000);

/// Options of a registration.
#[derive(Clone, Copy, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RegisterParams {
    /// `keep` stores a duplicate like any other record. `skip` does not store it; the response names the stored record. The default is `keep`.
    #[param(value_type = Option<String>, pattern = "^(keep|skip)$")]
    pub if_duplicate: IfDuplicate,
}

impl QueryParameters for RegisterParams {
    fn read(query: &mut QueryReader) -> Self {
        let choices = [(IfDuplicate::Keep, "keep"), (IfDuplicate::Skip, "skip")];
        let chosen = query.choice("if_duplicate", &choices);
        Self { if_duplicate: chosen.unwrap_or(IfDuplicate::Keep) }
    }
}

/// Register a record under an id
///
/// A client can repeat the request safely: for the same row the response is 200 with the stored verdict. A different row replaces the record. If
/// the collection does not exist, it is created with the preset `default` and with a field for each member of the row that has a usual name, unless
/// the configuration does not allow this. If no member is known to contain text, the record is refused (422 `no_content`) and the collection is not
/// created.
#[utoipa::path(put, path = "/v1/collections/{collection}/records/{id}", operation_id = "putRecord", tag = "records",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "record id, percent-encoded"), RegisterParams),
    request_body(content = Object, description = "the row: a flat JSON object with the fields of the record"),
    responses((status = 201, description = "the record was registered under a new id", body = Timed<Registration>),
        (status = 200, description = "the record was replaced, updated, unchanged, or skipped as a duplicate", body = Timed<Registration>)))]
pub async fn put(
    _: Writer,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    CheckedParameters(params): CheckedParameters<RegisterParams>,
    RowBody(row): RowBody,
) -> Result<Response, Problem> {
    register(&app, collection, RegistrationId::Id(id), row, params).await
}

/// Register a record
///
/// The record gets the `id` of the row. If the row has none, the record gets a new UUIDv7.
///
/// If the row has an `id`, a client can repeat the request safely, like `PUT`. Without an `id`, every request creates a record, unless it has an
/// `Idempotency-Key`. The id is then computed from the key: a request with the same row and the same key gets the first response again (200,
/// `unchanged`), and a request with another row and the same key is refused (409 `idempotency_key_reused`). A key is valid in one collection, for
/// one caller, as long as its record exists.
#[utoipa::path(post, path = "/v1/collections/{collection}/records", operation_id = "postRecord", tag = "records",
    params(("collection" = CollectionName, Path), RegisterParams,
        ("Idempotency-Key" = Option<String>, Header, description = "identifies this registration if the row has no id; 1 to 255 printable ASCII characters")),
    request_body(content = Object, description = "the row: a flat JSON object with the fields of the record"),
    responses((status = 201, description = "the record was registered under a new id", body = Timed<Registration>),
        (status = 200, description = "the record was replaced, updated, unchanged, or skipped as a duplicate", body = Timed<Registration>)))]
pub async fn post(
    _: Writer,
    State(app): State<App>,
    InCollection(collection): InCollection,
    CheckedParameters(params): CheckedParameters<RegisterParams>,
    IdempotentRequest(key): IdempotentRequest,
    RowBody(row): RowBody,
) -> Result<Response, Problem> {
    register(&app, collection, key.map_or(RegistrationId::Own, RegistrationId::Key), row, params).await
}

async fn register(
    app: &App,
    collection: CollectionName,
    under: RegistrationId,
    row: Row,
    params: RegisterParams,
) -> Result<Response, Problem> {
    let started = Instant::now();
    let name = collection.clone();
    let result =
        app.with_engine(|engine| async move { engine.register(&name, under, row, params.if_duplicate).await }).await;
    let mut registration = result.inspect(count_registration).inspect_err(count_failure)?;
    // The record is stored. A failure to read the handling of its matches is not a failure of the registration.
    if let Err(error) = app.engine.show_handling(&collection, &mut registration.verdict.similar).await {
        tracing::debug!(%error, "the handling of the matches cannot be read");
    }
    wording::translate(&mut registration.warnings);
    let status = status_of(registration.outcome);
    let location = registration.id.as_ref().filter(|_| status == StatusCode::CREATED);
    let location = location.map(|id| format!("/v1/collections/{collection}/records/{}", segment(id.as_str())));
    let answer = Timed::since(started, registration);
    Ok(match location {
        Some(location) => created(&location, answer),
        None => (status, Json(answer)).into_response(),
    })
}

/// The status of a registration: 201 for a new record, 200 otherwise.
pub fn status_of(outcome: Outcome) -> StatusCode {
    match outcome {
        Outcome::Created => StatusCode::CREATED,
        Outcome::Replaced | Outcome::Updated | Outcome::Unchanged | Outcome::Skipped => StatusCode::OK,
    }
}

/// Counts a registration and its verdict.
pub fn count_registration(registration: &Registration) {
    use doppel_core::verdict::VerdictKind;
    let outcome = match registration.outcome {
        Outcome::Created => "created",
        Outcome::Replaced => "replaced",
        Outcome::Updated => "updated",
        Outcome::Unchanged => "unchanged",
        Outcome::Skipped => "skipped",
    };
    metrics::counter!("doppel_registrations_total", "outcome" => outcome).increment(1);
    let kind = match registration.verdict.kind {
        VerdictKind::Original => "original",
        VerdictKind::ExactDuplicate => "exact_duplicate",
        VerdictKind::NearDuplicate => "near_duplicate",
        VerdictKind::TooShort => "too_short",
    };
    metrics::counter!("doppel_verdicts_total", "verdict" => kind).increment(1);
    if registration.verdict.truncated {
        metrics::counter!("doppel_verdicts_truncated_total").increment(1);
    }
}

/// Counts a write that failed because of an error of the service.
pub fn count_failure(problem: &Problem) {
    if problem.status().is_server_error() {
        metrics::counter!("doppel_store_writes_failed_total", "code" => problem.code().as_str()).increment(1);
    }
}

/// Read a record with its verdict
#[utoipa::path(get, path = "/v1/collections/{collection}/records/{id}", operation_id = "getRecord", tag = "records",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "record id, percent-encoded"), RowParams),
    responses((status = 200, description = "the record", body = RecordView)))]
pub async fn get(
    _: Reader,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    CheckedParameters(rows): CheckedParameters<RowParams>,
) -> Result<Json<RecordView>, Problem> {
    let mut record = app.engine.record(&collection, &id).await?;
    rows.show_matches(&app, &collection, &mut record.verdict.similar).await?;
    Ok(Json(record))
}

/// Delete a record
///
/// Deletes the content, the verdict and the index entries of the record.
#[utoipa::path(delete, path = "/v1/collections/{collection}/records/{id}", operation_id = "deleteRecord", tag = "records",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "record id, percent-encoded")),
    responses((status = 204, description = "deleted")))]
pub async fn delete(
    _: Writer,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    _: CheckedParameters<NoParameters>,
) -> Result<StatusCode, Problem> {
    let removal = app.with_engine(|engine| async move { engine.remove(&collection, &id).await }).await;
    removal.inspect_err(count_failure)?;
    Ok(StatusCode::NO_CONTENT)
}

/// The part of the list to return.
#[derive(Clone, Copy, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Largest number of records in the response, 1 to 1000. The default is 100.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 1000)]
    pub limit: u64,
    /// The `next` of an earlier response, to continue there. Cannot be combined with `since`.
    #[param(value_type = Option<String>)]
    pub cursor: Option<Seq>,
    /// Only records with a greater `seq`. Cannot be combined with `cursor`.
    #[param(value_type = Option<u64>)]
    pub since: Option<Seq>,
}

impl QueryParameters for ListParams {
    fn read(query: &mut QueryReader) -> Self {
        let limit = query.number("limit", 1, LIST_LIMITS.1).unwrap_or(LIST_LIMITS.0);
        let given = query.holds("cursor");
        let since = query.number("since", 0, u64::MAX).map(Seq);
        let cursor = query.cursor(|text| CursorList::Records.decode_seq(text));
        if given && since.is_some() {
            query.refuse("since", ErrorCode::InvalidParameter, "give cursor or since, not both");
        }
        Self { limit, cursor, since }
    }
}

/// One page of the list of records.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RecordList {
    /// The records in ascending order of `seq`.
    pub items: Vec<RecordView>,
    /// The value of `cursor` for the next page; `null` on the last page.
    pub next: Option<String>,
}

/// List records in the order in which they were stored
///
/// With `category`, `status`, `unit` or `verdict` a page may have fewer records than `limit`, or none, and a `next` that is not `null`: one request
/// reads at most 10,000 records.
#[utoipa::path(get, path = "/v1/collections/{collection}/records", operation_id = "listRecords", tag = "records",
    params(("collection" = CollectionName, Path), ListParams, FilterParams, RowParams),
    responses((status = 200, description = "one page of the list", body = RecordList)))]
pub async fn list(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    CheckedParameters((params, filters, rows)): CheckedParameters<(ListParams, FilterParams, RowParams)>,
) -> Result<Json<RecordList>, Problem> {
    let after = params.cursor.or(params.since).unwrap_or_default();
    let mut page = app.engine.records(&collection, &filters.into(), after, params.limit as usize).await?;
    let matches = page.items.iter_mut().flat_map(|record| &mut record.verdict.similar);
    rows.show_matches(&app, &collection, matches).await?;
    Ok(Json(RecordList { items: page.items, next: page.next.map(|seq| CursorList::Records.encode_seq(seq)) }))
}
