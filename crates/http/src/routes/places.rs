//! The places that an office knows: read and replace the list of a collection.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::{Administrator, Reader};
use crate::extract::{CsvText, InCollection};
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters};
use crate::routes::accepted;
use crate::routes::admin::task_path;
use crate::routes::forms::ActivateParams;
use crate::state::App;
use crate::wording;
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::facts::{parse_places, places_to_csv};
use doppel_core::violation::Violation;
use doppel_engine::tasks::Task;

/// The task that builds the generation with a new list of places.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PlacesTask {
    /// The task.
    #[serde(flatten)]
    pub task: Task,
    /// Number of places in the new list.
    pub places: usize,
    /// Number of aliases of these places.
    pub aliases: usize,
    /// `common_alias`: an alias of a place that is neither a district nor a town occurs in at least one in ten of the latest 500 records, so it is
    /// probably an ordinary word. At most 50.
    pub warnings: Vec<Violation>,
}

/// Read the list of places
///
/// Returns the list of the live generation as CSV with the columns `name`, `kind`, `aliases` (separated by `|`) and `parent`.
#[utoipa::path(get, path = "/v1/collections/{collection}/places", operation_id = "getPlaces", tag = "collections",
    params(("collection" = CollectionName, Path)),
    responses((status = 200, description = "the places", body = String, content_type = "text/csv")))]
pub async fn list(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    _: CheckedParameters<NoParameters>,
) -> Result<Response, Problem> {
    // The byte order mark tells spreadsheets that the file is UTF-8.
    let csv = format!("\u{feff}{}", places_to_csv(&app.engine.places(&collection).await?));
    Ok(([(header::CONTENT_TYPE, "text/csv; charset=utf-8")], csv).into_response())
}

/// Replace the list of places
///
/// The body is CSV in UTF-8 with the columns `name`, `kind`, `aliases` (separated by `|`) and `parent`. Only `name` is required. Kinds are `place`,
/// `district`, `town`, `village`, `road`, `estate`, `school`, `organisation` and `product`. When names in texts are compared, an alias counts as
/// the name of its place. The request builds a generation whose settings contain the list in `text.places`. Compare the generation with the live
/// one before you activate it. To undo the change, activate the previous generation.
#[utoipa::path(put, path = "/v1/collections/{collection}/places", operation_id = "setPlaces", tag = "admin",
    params(("collection" = CollectionName, Path), ActivateParams),
    request_body(content = String, content_type = "text/csv", description = "the places: a line of column names, then one line for each place"),
    responses((status = 202, description = "the task was created; `Location` is its path", body = PlacesTask),
        (status = 404, description = "the collection does not exist"),
        (status = 409, description = "`task_running`: the collection has an unfinished task; `conflict`: the collection has a newer generation that is not live")))]
pub async fn replace(
    _: Administrator,
    State(app): State<App>,
    InCollection(collection): InCollection,
    CheckedParameters(ActivateParams { activate }): CheckedParameters<ActivateParams>,
    CsvText(csv): CsvText,
) -> Result<Response, Problem> {
    let places =
        parse_places(&csv).map_err(|error| Problem::invalid_at("", ErrorCode::InvalidValue, error.to_string()))?;
    let count = places.len();
    let aliases = places.iter().map(|place| place.aliases.len()).sum();
    let mut warnings = app.engine.common_aliases(&collection, places.clone()).await?;
    wording::translate(&mut warnings);
    let task = app.with_engine(|engine| async move { engine.set_places(&collection, places, activate).await }).await?;
    Ok(accepted(&task_path(&task), PlacesTask { task, places: count, aliases, warnings }))
}
