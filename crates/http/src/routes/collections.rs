//! Collections: create, change, read, list, delete.

#![expect(unused_qualifications, reason = "written by utoipa's macro around parameter structs")]

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Administrator, Reader, ReaderIn};
use crate::cursor::CursorList;
use crate::extract::{InCollection, JsonBytes};
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters, QueryParameters, QueryReader};
use crate::routes::created;
use crate::routes::records::count_failure;
use crate::routes::settings::{self, SettingsInput};
use crate::state::App;
use doppel_core::collection::CollectionName;
use doppel_engine::answers::Collection;

/// The default and the largest number of collections in one answer.
const MOST_LISTED: u64 = 1000;

/// One page of the list of collections.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CollectionList {
    /// The collections, sorted by name.
    pub items: Vec<ListedCollection>,
    /// The value of `cursor` for the next page; `null` on the last page.
    pub next: Option<String>,
}

/// A collection in a list. Its settings do not contain `text.places`, because this list can have a size of a megabyte.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ListedCollection {
    /// The name of the collection.
    #[serde(flatten)]
    pub collection: Collection,
    /// Number of places in `text.places`. Read them with `GET /v1/collections/{collection}/places`.
    pub places: usize,
}

impl From<Collection> for ListedCollection {
    fn from(mut collection: Collection) -> Self {
        let places = std::mem::take(&mut collection.settings.text.places).len();
        Self { collection, places }
    }
}

/// The part of the list to return.
#[derive(Clone, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Largest number of collections in the response, 1 to 1000. The default is 1000.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 1000)]
    pub limit: usize,
    /// The `next` of an earlier response, to continue there.
    #[param(value_type = Option<String>)]
    pub cursor: Option<CollectionName>,
}

impl QueryParameters for ListParams {
    fn read(query: &mut QueryReader) -> Self {
        let limit = query.number("limit", 1, MOST_LISTED).unwrap_or(MOST_LISTED) as usize;
        let cursor = query.cursor(|text| CollectionName::new(&CursorList::Collections.decode_texts(text)?.0).ok());
        Self { limit, cursor }
    }
}

/// List collections
#[utoipa::path(get, path = "/v1/collections", operation_id = "listCollections", tag = "collections", params(ListParams),
    responses((status = 200, description = "one page of the list", body = CollectionList)))]
pub async fn list(
    reader: ReaderIn,
    State(app): State<App>,
    CheckedParameters(params): CheckedParameters<ListParams>,
) -> Result<Json<CollectionList>, Problem> {
    let listed = app.engine.collections(params.cursor.as_ref(), params.limit, |name| reader.reach().includes(name));
    let (items, next) = listed.await?;
    let items = items.into_iter().map(ListedCollection::from).collect();
    let next = next.map(|name| CursorList::Collections.encode_texts(name.as_str(), "-"));
    Ok(Json(CollectionList { items, next }))
}

/// Create a collection or change its settings
///
/// An empty body `{}` gives the preset `default`. Each key of the body replaces the same key of the preset. Settings that determine signatures can
/// only be changed while the collection has no records (409 otherwise). `verify` and `time_zone` can be changed at any time, except during a
/// reindex, because the reindex has its own settings (409 `task_running`: repeat the request when the task has ended).
#[utoipa::path(put, path = "/v1/collections/{collection}", operation_id = "putCollection", tag = "collections",
    params(("collection" = CollectionName, Path)), request_body = SettingsInput,
    responses((status = 201, description = "the collection was created", body = Collection),
        (status = 200, description = "the settings were changed, or were already the same", body = Collection)))]
pub async fn put(
    _: Administrator,
    State(app): State<App>,
    InCollection(name): InCollection,
    _: CheckedParameters<NoParameters>,
    JsonBytes(body): JsonBytes,
) -> Result<Response, Problem> {
    let settings = settings::read(&body)?;
    let location = format!("/v1/collections/{name}");
    let change = app.with_engine(|engine| async move { engine.put_collection(&name, settings).await }).await;
    match change.inspect_err(count_failure)? {
        (collection, true) => Ok(created(&location, collection)),
        (collection, false) => Ok(Json(collection).into_response()),
    }
}

/// Read a collection
#[utoipa::path(get, path = "/v1/collections/{collection}", operation_id = "getCollection", tag = "collections",
    params(("collection" = CollectionName, Path)),
    responses((status = 200, description = "the collection, with the defaults of its settings", body = Collection)))]
pub async fn get(
    _: Reader,
    State(app): State<App>,
    InCollection(name): InCollection,
    _: CheckedParameters<NoParameters>,
) -> Result<Json<Collection>, Problem> {
    Ok(Json(app.engine.collection(&name).await?))
}

/// Delete a collection and all its data
#[utoipa::path(delete, path = "/v1/collections/{collection}", operation_id = "deleteCollection", tag = "collections",
    params(("collection" = CollectionName, Path)), responses((status = 204, description = "deleted")))]
pub async fn delete(
    _: Administrator,
    State(app): State<App>,
    InCollection(name): InCollection,
    _: CheckedParameters<NoParameters>,
) -> Result<StatusCode, Problem> {
    let removal = app.with_engine(|engine| async move { engine.drop_collection(&name).await }).await;
    removal.inspect_err(count_failure)?;
    Ok(StatusCode::NO_CONTENT)
}
