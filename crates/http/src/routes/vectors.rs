//! The vectors of a collection: shows the progress of computing them, and pauses, resumes and cancels this work.

use axum::Json;
use axum::extract::State;
use utoipa::ToSchema;

use crate::auth::{Administrator, Reader};
use crate::extract::InCollection;
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters};
use crate::routes::input::ObjectReader;
use crate::routes::search::service;
use crate::state::App;
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_search::vectors::{VectorsAction, VectorsView};

/// The request to pause, resume or cancel the creation of vectors.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct VectorsInput {
    /// The action.
    action: VectorsAction,
}

/// Read the state of the vectors of a collection
///
/// An office can connect a model that turns texts into vectors (`search.embedder`). The vectors improve the ranking of related records. They affect
/// nothing else.
#[utoipa::path(get, path = "/v1/collections/{collection}/vectors", operation_id = "getVectors", tag = "search",
    params(("collection" = CollectionName, Path)),
    responses((status = 200, description = "the state at this instance", body = VectorsView),
        (status = 409, description = "`search_disabled`: search is turned off; `vectors_disabled`: the configuration has no model; `text_not_kept`: the collection stores no text")))]
pub async fn get(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    _: CheckedParameters<NoParameters>,
) -> Result<Json<VectorsView>, Problem> {
    Ok(Json(service(&app)?.vectors(&collection).await?))
}

/// Pause, resume or cancel the creation of vectors
///
/// If the server of the configuration changes to another model, this instance creates the vectors of all records again and uses the earlier vectors
/// until the new ones are complete. `cancel` discards the new vectors until `resume`, or until the server changes to yet another model.
#[utoipa::path(post, path = "/v1/collections/{collection}/vectors", operation_id = "changeVectors", tag = "admin",
    params(("collection" = CollectionName, Path)),
    request_body = VectorsInput,
    responses((status = 200, description = "the state after the action", body = VectorsView),
        (status = 409, description = "`search_disabled`: search is turned off; `vectors_disabled`: the configuration has no model; `text_not_kept`: the collection stores no text")))]
pub async fn change(
    _: Administrator,
    State(app): State<App>,
    InCollection(collection): InCollection,
    _: CheckedParameters<NoParameters>,
    mut input: ObjectReader,
) -> Result<Json<VectorsView>, Problem> {
    if !input.has("action") {
        input.refuse::<()>("action", ErrorCode::MissingKey, "give pause, resume or cancel");
    }
    let action = input.word("action", "pause, resume or cancel");
    input.finish()?;
    let action: VectorsAction = action.ok_or_else(|| Problem::invalid(Vec::new()))?;
    Ok(Json(service(&app)?.change_vectors(&collection, action).await?))
}
