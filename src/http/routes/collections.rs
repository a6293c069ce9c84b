//! Collections: create, change, read, list, delete.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::collection::CollectionName;
use crate::engine::answers::Collection;
use crate::http::auth::{Administrator, Reader};
use crate::http::extract::{InCollection, JsonBytes};
use crate::http::problem::Problem;
use crate::http::query::{Nothing, Params};
use crate::http::routes::created;
use crate::http::routes::records::count_failure;
use crate::http::routes::settings::{self, SettingsInput};
use crate::http::state::App;

/// All collections.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CollectionList {
    /// The collections, by name.
    pub items: Vec<Collection>,
    /// Always `null`: there is one part only.
    pub next: Option<String>,
}

/// List collections
#[utoipa::path(get, path = "/v1/collections", tag = "collections",
    responses((status = 200, description = "all collections, by name", body = CollectionList)))]
pub async fn list(_: Reader, State(app): State<App>, _: Params<Nothing>) -> Result<Json<CollectionList>, Problem> {
    Ok(Json(CollectionList { items: app.engine.collections().await?, next: None }))
}

/// Create a collection or change its settings
///
/// `{}` gives the preset `default`; keys given replace those of the preset. What changes signatures can only be changed
/// while the collection has no records (409 otherwise); `verify` and `time_zone` at any time but while a reindex runs, which
/// brings settings of its own (409 `task_running`: again when it has ended).
#[utoipa::path(put, path = "/v1/collections/{collection}", tag = "collections",
    params(("collection" = CollectionName, Path)), request_body = SettingsInput,
    responses((status = 201, description = "created", body = Collection),
        (status = 200, description = "changed, or the same as before", body = Collection)))]
pub async fn put(
    _: Administrator,
    State(app): State<App>,
    InCollection(name): InCollection,
    _: Params<Nothing>,
    JsonBytes(body): JsonBytes,
) -> Result<Response, Problem> {
    let settings = settings::read(&body)?;
    let location = format!("/v1/collections/{name}");
    let engine = app.engine.clone();
    let change = app.detached(async move { engine.put_collection(&name, settings).await }).await;
    match change.inspect_err(count_failure)? {
        (collection, true) => Ok(created(&location, collection)),
        (collection, false) => Ok(Json(collection).into_response()),
    }
}

/// Read a collection
#[utoipa::path(get, path = "/v1/collections/{collection}", tag = "collections",
    params(("collection" = CollectionName, Path)),
    responses((status = 200, description = "the collection, defaults filled in", body = Collection)))]
pub async fn get(
    _: Reader,
    State(app): State<App>,
    InCollection(name): InCollection,
    _: Params<Nothing>,
) -> Result<Json<Collection>, Problem> {
    Ok(Json(app.engine.collection(&name).await?))
}

/// Delete a collection with everything in it
#[utoipa::path(delete, path = "/v1/collections/{collection}", tag = "collections",
    params(("collection" = CollectionName, Path)), responses((status = 204, description = "deleted")))]
pub async fn delete(
    _: Administrator,
    State(app): State<App>,
    InCollection(name): InCollection,
    _: Params<Nothing>,
) -> Result<StatusCode, Problem> {
    let engine = app.engine.clone();
    let removal = app.detached(async move { engine.drop_collection(&name).await }).await;
    removal.inspect_err(count_failure)?;
    Ok(StatusCode::NO_CONTENT)
}
