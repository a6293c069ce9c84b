//! Lookups that store nothing: `check` finds out whether a row is a duplicate, `similar` lists similar records.

#![expect(unused_qualifications, reason = "written by utoipa's macro around parameter structs")]

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use utoipa::IntoParams;

use crate::auth::Reader;
use crate::extract::{InCollection, InRecord, RowBody};
use crate::problem::Problem;
use crate::query::{CheckedParameters, QueryParameters, QueryReader};
use crate::routes::filters::FilterParams;
use crate::routes::rows::RowParams;
use crate::routes::{Timed, window};
use crate::state::App;
use crate::wording;
use doppel_core::collection::{CollectionName, Radius};
use doppel_core::error_code::ErrorCode;
use doppel_core::record::RecordId;
use doppel_core::verdict::Fingerprint;
use doppel_engine::answers::{Check, SimilarList};
use doppel_engine::record_filter::RecordFilter;
use doppel_engine::{MatchFilter, SimilarSelection};

/// The default and the largest number of similar records in an answer. The largest number is the number of records that one search
/// verifies.
const SIMILAR_LIMITS: (u64, u64) = (20, 256);

/// The extent of the search.
#[derive(Clone, Copy, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct CheckParams {
    /// `true`: stop at the first match. It may not be the best match.
    #[param(value_type = Option<bool>)]
    pub first: bool,
}

impl QueryParameters for CheckParams {
    fn read(query: &mut QueryReader) -> Self {
        Self { first: query.parsed("first", ErrorCode::InvalidParameter, "give true or false").unwrap_or(false) }
    }
}

/// Largest number of ids in `exclude`. One search does not verify more records.
const MOST_EXCLUDED: usize = 256;

/// Check whether a row is a duplicate
///
/// Returns the best match and stores nothing. With `first=true` the search stops at the first match and is faster. A collection that does not exist
/// yet has no duplicates; if the configuration does not allow registrations to create collections, the response is 404.
#[utoipa::path(post, path = "/v1/collections/{collection}/check", operation_id = "checkRow", tag = "search",
    params(("collection" = CollectionName, Path), CheckParams, RowParams),
    request_body(content = Object, description = "the row: a flat JSON object with the fields of the record"),
    responses((status = 200, description = "the best match, if there is a match", body = Timed<Check>)))]
pub async fn check(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    CheckedParameters((params, rows)): CheckedParameters<(CheckParams, RowParams)>,
    RowBody(row): RowBody,
) -> Result<Json<Timed<Check>>, Problem> {
    let started = Instant::now();
    let mut answer = app.engine.check(&collection, row, params.first).await?;
    wording::translate(&mut answer.warnings);
    app.engine.show_handling(&collection, &mut answer.found).await?;
    rows.show_matches(&app, &collection, &mut answer.found).await?;
    Ok(Json(Timed::since(started, answer)))
}

/// The number of similar records.
#[derive(Clone, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SimilarParams {
    /// Largest number of records in the response, 1 to 256. The default is 20.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 256)]
    pub limit: u64,
    /// `true`: also lists records on the same form about other matters. They follow the matches and have `template` true. The default is false.
    #[param(value_type = Option<bool>)]
    pub templates: bool,
    /// Only records that were submitted at this time or later, in one of the forms of the times of the collection. Records without a time are left
    /// out.
    #[param(value_type = Option<String>)]
    pub from: Option<String>,
    /// Only records that were submitted before this time. Records without a time are left out.
    #[param(value_type = Option<String>)]
    pub to: Option<String>,
    /// Only records of this petitioner. One of the record's `identity` values must be equal to this value after normalization.
    #[param(value_type = Option<String>)]
    pub identity: Option<String>,
    /// Only records with at least this `similarity`, 0 to 1.
    #[param(value_type = Option<f64>, minimum = 0, maximum = 1)]
    pub min_similarity: Option<f64>,
    /// Leaves out the records with these ids, separated by commas; at most 256.
    #[param(value_type = Option<String>)]
    pub exclude: Vec<RecordId>,
}

impl QueryParameters for SimilarParams {
    fn read(query: &mut QueryReader) -> Self {
        const SIMILARITY: &str = "give a number from 0 to 1";
        let templates = query.parsed("templates", ErrorCode::InvalidParameter, "give true or false").unwrap_or(false);
        let from = query.take("from");
        let to = query.take("to");
        let min_similarity = query.parsed::<f64>("min_similarity", ErrorCode::InvalidParameter, SIMILARITY);
        if min_similarity.is_some_and(|least| !(0.0..=1.0).contains(&least)) {
            query.refuse("min_similarity", ErrorCode::OutOfRange, SIMILARITY);
        }
        let identity = query.take("identity");
        let exclude = excluded(query);
        Self { limit: limit(query), templates, from, to, identity, min_similarity, exclude }
    }
}

fn excluded(query: &mut QueryReader) -> Vec<RecordId> {
    let Some(list) = query.take("exclude") else { return Vec::new() };
    let ids: Result<Vec<RecordId>, String> = list.split(',').take(MOST_EXCLUDED + 1).map(RecordId::new).collect();
    match ids {
        Ok(ids) if ids.len() <= MOST_EXCLUDED => return ids,
        Ok(_) => query.refuse("exclude", ErrorCode::OutOfRange, &format!("give at most {MOST_EXCLUDED} ids")),
        Err(reason) => query.refuse("exclude", ErrorCode::InvalidId, &reason),
    }
    Vec::new()
}

fn limit(query: &mut QueryReader) -> u64 {
    query.number("limit", 1, SIMILAR_LIMITS.1).unwrap_or(SIMILAR_LIMITS.0)
}

impl SimilarParams {
    async fn wanted(
        self,
        app: &App,
        collection: &CollectionName,
        record: RecordFilter,
    ) -> Result<SimilarSelection, Problem> {
        let Self { limit, templates, from, to, identity, min_similarity, exclude } = self;
        let window = window(app, collection, from.as_deref(), to.as_deref()).await?;
        let filter = MatchFilter { window, identity, min_similarity, exclude, record };
        Ok(SimilarSelection { limit: limit as usize, templates, filter })
    }
}

async fn show_rows(app: &App, name: &CollectionName, list: &mut SimilarList, rows: RowParams) -> Result<(), Problem> {
    app.engine.show_handling(name, &mut list.similar).await?;
    rows.show_matches(app, name, &mut list.similar).await
}

/// Find all records that are similar to a row
///
/// The best matches are first. Nothing is stored. If a record with the `id` of the row is stored, it is not in the list.
///
/// The filters (`from`, `to`, `identity`, `min_similarity`, `exclude`, `category`, `status`, `unit`, `verdict`) are applied to the found records
/// before `limit`. `truncated` is true if the search was stopped early, or if more than `limit` records pass the filters.
#[utoipa::path(post, path = "/v1/collections/{collection}/similar", operation_id = "listSimilarToRow", tag = "search",
    params(("collection" = CollectionName, Path), SimilarParams, FilterParams, RowParams),
    request_body(content = Object, description = "the row: a flat JSON object with the fields of the record"),
    responses((status = 200, description = "the similar records", body = Timed<SimilarList>)))]
pub async fn similar(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    CheckedParameters((params, filters, rows)): CheckedParameters<(SimilarParams, FilterParams, RowParams)>,
    RowBody(row): RowBody,
) -> Result<Json<Timed<SimilarList>>, Problem> {
    let started = Instant::now();
    let wanted = params.wanted(&app, &collection, filters.into()).await?;
    let mut answer = app.engine.similar(&collection, row, wanted).await?;
    wording::translate(&mut answer.warnings);
    show_rows(&app, &collection, &mut answer, rows).await?;
    Ok(Json(Timed::since(started, answer)))
}

/// Find all records that are similar to a stored record
#[utoipa::path(get, path = "/v1/collections/{collection}/records/{id}/similar", operation_id = "listSimilarToRecord", tag = "search",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "record id, percent-encoded"), SimilarParams, FilterParams, RowParams),
    responses((status = 200, description = "the similar records", body = Timed<SimilarList>)))]
pub async fn similar_to(
    _: Reader,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    CheckedParameters((params, filters, rows)): CheckedParameters<(SimilarParams, FilterParams, RowParams)>,
) -> Result<Json<Timed<SimilarList>>, Problem> {
    let started = Instant::now();
    let wanted = params.wanted(&app, &collection, filters.into()).await?;
    let mut answer = app.engine.similar_to(&collection, &id, wanted).await?;
    show_rows(&app, &collection, &mut answer, rows).await?;
    Ok(Json(Timed::since(started, answer)))
}

/// A fingerprint and the distance within which records are found.
#[derive(Clone, Copy, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FingerprintParams {
    /// 16 lower-case hexadecimal digits.
    #[param(value_type = String, pattern = "^[0-9a-f]{16}$", required = true)]
    pub fingerprint: Fingerprint,
    /// Largest Hamming distance in bits, 0 to 15. The default is the radius of the `simhash` channel of the collection.
    #[param(value_type = Option<u8>, minimum = 0, maximum = 15)]
    pub radius: Option<u8>,
    /// Largest number of records in the response, 1 to 256. The default is 20.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 256)]
    pub limit: u64,
}

impl QueryParameters for FingerprintParams {
    fn read(query: &mut QueryReader) -> Self {
        const EXPECTED: &str = "a fingerprint is 16 lower-case hexadecimal digits";
        let fingerprint = match query.take("fingerprint") {
            None => {
                query.refuse("fingerprint", ErrorCode::MissingParameter, EXPECTED);
                None
            }
            Some(text) => {
                text.parse().map_err(|_| query.refuse("fingerprint", ErrorCode::InvalidFingerprint, EXPECTED)).ok()
            }
        };
        Self {
            // A request without a valid fingerprint is refused before the handler.
            fingerprint: fingerprint.unwrap_or(Fingerprint(0)),
            radius: query.number("radius", 0, 15).map(|radius| radius as u8),
            limit: limit(query),
        }
    }
}

/// Find all records with a similar fingerprint
///
/// The records with the smallest Hamming distance are first. Only the fingerprints are compared; the texts are not verified.
#[utoipa::path(get, path = "/v1/collections/{collection}/similar", operation_id = "listSimilarToFingerprint", tag = "search",
    params(("collection" = CollectionName, Path), FingerprintParams, RowParams),
    responses((status = 200, description = "the records within the radius", body = Timed<SimilarList>)))]
pub async fn similar_to_fingerprint(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    CheckedParameters((params, rows)): CheckedParameters<(FingerprintParams, RowParams)>,
) -> Result<Json<Timed<SimilarList>>, Problem> {
    let started = Instant::now();
    let FingerprintParams { fingerprint, radius, limit } = params;
    let wanted = SimilarSelection::matches(limit as usize);
    let mut answer = app.engine.similar_to_fingerprint(&collection, fingerprint, radius.map(Radius), wanted).await?;
    show_rows(&app, &collection, &mut answer, rows).await?;
    Ok(Json(Timed::since(started, answer)))
}
