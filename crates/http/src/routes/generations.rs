//! Generations of a collection: list, compare, activate, drop.

#![expect(unused_qualifications, reason = "written by utoipa's macro around parameter structs")]

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Administrator, Reader};
use crate::extract::{InCollection, InGeneration};
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters, QueryParameters, QueryReader};
use crate::routes::admin::begin;
use crate::state::App;
use doppel_core::collection::CollectionName;
use doppel_engine::compare::Comparison;
use doppel_engine::generations::Generation;
use doppel_engine::tasks::{Activate, Task, Work};

/// The default and the largest number of examples in a comparison.
const EXAMPLES: (u64, u64) = (20, 1000);

/// The generations of a collection.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct GenerationList {
    /// The generations in ascending order of their numbers. One of them is live.
    pub items: Vec<Generation>,
    /// Always `null`, because the list has only one page.
    pub next: Option<String>,
}

/// List the generations of a collection
#[utoipa::path(get, path = "/v1/collections/{collection}/generations", operation_id = "listGenerations", tag = "admin",
    params(("collection" = CollectionName, Path)),
    responses((status = 200, description = "all generations of the collection", body = GenerationList)))]
pub async fn list(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    _: CheckedParameters<NoParameters>,
) -> Result<Json<GenerationList>, Problem> {
    Ok(Json(GenerationList { items: app.engine.generations(&collection).await?, next: None }))
}

/// Delete a generation that is not live
#[utoipa::path(delete, path = "/v1/collections/{collection}/generations/{generation}", operation_id = "deleteGeneration", tag = "admin",
    params(("collection" = CollectionName, Path), ("generation" = u32, Path)),
    responses((status = 204, description = "the generation was deleted"),
        (status = 404, description = "the collection does not exist, or has no generation with this number (`unknown_generation`)"),
        (status = 409, description = "`generation_live`: the generation is live; `generation_building`: a task is building the generation")))]
pub async fn delete(
    _: Administrator,
    State(app): State<App>,
    InGeneration(collection, generation): InGeneration,
    _: CheckedParameters<NoParameters>,
) -> Result<StatusCode, Problem> {
    app.with_engine(|engine| async move { engine.drop_generation(&collection, generation).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Make a generation live
///
/// The generation becomes live within a moment. The task then finds the matching pairs among the records that were registered while another
/// generation was live. The previous live generation is kept.
#[utoipa::path(post, path = "/v1/collections/{collection}/generations/{generation}/activate", operation_id = "activateGeneration", tag = "admin",
    params(("collection" = CollectionName, Path), ("generation" = u32, Path)),
    responses((status = 202, description = "the task was created; `Location` is its path", body = Task),
        (status = 404, description = "the collection does not exist, or has no generation with this number (`unknown_generation`)"),
        (status = 409, description = "`task_running`: the collection has an unfinished task")))]
pub async fn activate(
    _: Administrator,
    State(app): State<App>,
    InGeneration(collection, generation): InGeneration,
    _: CheckedParameters<NoParameters>,
) -> Result<Response, Problem> {
    begin(&app, collection, Work::Activate(Activate { generation })).await
}

/// The number of examples.
#[derive(Clone, Copy, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct CompareParams {
    /// Largest number of examples of gained pairs, and also of lost pairs, 0 to 1000. The default is 20.
    #[param(value_type = Option<u16>, minimum = 0, maximum = 1000)]
    pub examples: u64,
}

impl QueryParameters for CompareParams {
    fn read(query: &mut QueryReader) -> Self {
        Self { examples: query.number("examples", 0, EXAMPLES.1).unwrap_or(EXAMPLES.0) }
    }
}

/// Compare a generation with the live one
///
/// Returns the pairs that only this generation finds, and the pairs that only the live generation finds. Activation of the generation would cause
/// these changes.
#[utoipa::path(get, path = "/v1/collections/{collection}/generations/{generation}/compare", operation_id = "compareGeneration", tag = "admin",
    params(("collection" = CollectionName, Path), ("generation" = u32, Path), CompareParams),
    responses((status = 200, description = "the comparison", body = Comparison),
        (status = 404, description = "the collection does not exist, or has no generation with this number (`unknown_generation`)"),
        (status = 409, description = "`generation_live`: the generation is live; `generation_building`: the generation is not complete yet")))]
pub async fn compare(
    _: Reader,
    State(app): State<App>,
    InGeneration(collection, generation): InGeneration,
    CheckedParameters(params): CheckedParameters<CompareParams>,
) -> Result<Json<Comparison>, Problem> {
    Ok(Json(app.engine.compare_generations(&collection, generation, params.examples as usize).await?))
}
