//! Questions that store nothing: is it a duplicate, what is similar.

#![expect(unused_qualifications, reason = "written by utoipa's macro around parameter structs")]

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use utoipa::IntoParams;

use crate::http::auth::Reader;
use crate::http::extract::{InCollection, InRecord, RowBody};
use crate::http::problem::Problem;
use crate::http::query::{Nothing, Parameters, Params, Query};
use crate::http::routes::Timed;
use crate::http::state::App;
use doppel_core::collection::{CollectionName, Radius};
use doppel_core::record::RecordId;
use doppel_core::verdict::Fingerprint;
use doppel_engine::Wanted;
use doppel_engine::answers::{Check, SimilarList};

/// Similar records in an answer, unless asked otherwise, and at most: no more than that are ever verified.
const SIMILAR_LIMITS: (u64, u64) = (20, 256);

/// Ask whether a row is a duplicate
///
/// Stops at the first match and stores nothing.
#[utoipa::path(post, path = "/v1/collections/{collection}/check", operation_id = "checkRow", tag = "search",
    params(("collection" = CollectionName, Path)),
    request_body(content = Object, description = "the row: a flat JSON object of the record's fields"),
    responses((status = 200, description = "whether there is any match", body = Timed<Check>)))]
pub async fn check(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    _: Params<Nothing>,
    RowBody(row): RowBody,
) -> Result<Json<Timed<Check>>, Problem> {
    let started = Instant::now();
    let answer = app.engine.check(&collection, row).await?;
    Ok(Json(Timed::since(started, answer)))
}

/// How many similar records.
#[derive(Clone, Copy, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SimilarParams {
    /// Most records in the answer, 1 to 256; 20 unless given.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 256)]
    pub limit: u64,
    /// `true`: also records of the same form about another matter, behind the matches and marked `template`.
    #[param(value_type = Option<bool>)]
    pub templates: bool,
}

impl Parameters for SimilarParams {
    fn read(query: &mut Query) -> Self {
        let templates = query.parsed("templates", "invalid_parameter", "give true or false");
        Self { limit: limit(query), templates: templates.unwrap_or(false) }
    }
}

fn limit(query: &mut Query) -> u64 {
    query.number("limit", 1, SIMILAR_LIMITS.1).unwrap_or(SIMILAR_LIMITS.0)
}

impl SimilarParams {
    fn wanted(self) -> Wanted {
        Wanted { limit: self.limit as usize, templates: self.templates }
    }
}

/// Find all records similar to a row
///
/// Best first. Stores nothing. A row whose `id` is stored does not find itself.
#[utoipa::path(post, path = "/v1/collections/{collection}/similar", operation_id = "listSimilarToRow", tag = "search",
    params(("collection" = CollectionName, Path), SimilarParams),
    request_body(content = Object, description = "the row: a flat JSON object of the record's fields"),
    responses((status = 200, description = "the matches", body = Timed<SimilarList>)))]
pub async fn similar(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    Params(params): Params<SimilarParams>,
    RowBody(row): RowBody,
) -> Result<Json<Timed<SimilarList>>, Problem> {
    let started = Instant::now();
    let answer = app.engine.similar(&collection, row, params.wanted()).await?;
    Ok(Json(Timed::since(started, answer)))
}

/// Find all records similar to a stored one
#[utoipa::path(get, path = "/v1/collections/{collection}/records/{id}/similar", operation_id = "listSimilarToRecord", tag = "search",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "record id, percent-encoded"), SimilarParams),
    responses((status = 200, description = "the matches", body = Timed<SimilarList>)))]
pub async fn similar_to(
    _: Reader,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    Params(params): Params<SimilarParams>,
) -> Result<Json<Timed<SimilarList>>, Problem> {
    let started = Instant::now();
    let answer = app.engine.similar_to(&collection, &id, params.wanted()).await?;
    Ok(Json(Timed::since(started, answer)))
}

/// A fingerprint and how far around it to look.
#[derive(Clone, Copy, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct FingerprintParams {
    /// 16 lower-case hexadecimal digits.
    #[param(value_type = String, pattern = "^[0-9a-f]{16}$", required = true)]
    pub fingerprint: Fingerprint,
    /// Greatest Hamming distance, 0 to 15; the collection's own unless given.
    #[param(value_type = Option<u8>, minimum = 0, maximum = 15)]
    pub radius: Option<u8>,
    /// Most records in the answer, 1 to 256; 20 unless given.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 256)]
    pub limit: u64,
}

impl Parameters for FingerprintParams {
    fn read(query: &mut Query) -> Self {
        const EXPECTED: &str = "a fingerprint is 16 lower-case hexadecimal digits";
        let fingerprint = match query.take("fingerprint") {
            None => {
                query.refuse("fingerprint", "missing_parameter", EXPECTED);
                None
            }
            Some(text) => text.parse().map_err(|_| query.refuse("fingerprint", "invalid_fingerprint", EXPECTED)).ok(),
        };
        Self {
            // A refused one never reaches the handler.
            fingerprint: fingerprint.unwrap_or(Fingerprint(0)),
            radius: query.number("radius", 0, 15).map(|radius| radius as u8),
            limit: limit(query),
        }
    }
}

/// Find all records near a fingerprint
///
/// Nearest first, by fingerprint alone: nothing is verified.
#[utoipa::path(get, path = "/v1/collections/{collection}/similar", operation_id = "listSimilarToFingerprint", tag = "search",
    params(("collection" = CollectionName, Path), FingerprintParams),
    responses((status = 200, description = "the records within the radius", body = Timed<SimilarList>)))]
pub async fn similar_to_fingerprint(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    Params(params): Params<FingerprintParams>,
) -> Result<Json<Timed<SimilarList>>, Problem> {
    let started = Instant::now();
    let FingerprintParams { fingerprint, radius, limit } = params;
    let answer =
        app.engine.similar_to_fingerprint(&collection, fingerprint, radius.map(Radius), limit as usize).await?;
    Ok(Json(Timed::since(started, answer)))
}
