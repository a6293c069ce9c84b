//! Reads the document frequencies of a collection, and counts them again.

use axum::Json;
use axum::extract::State;

use crate::auth::{Administrator, Reader};
use crate::extract::InCollection;
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters};
use crate::state::App;
use doppel_core::collection::CollectionName;
use doppel_engine::answers::TextStatistics;

/// Read the present text statistics
///
/// Text that is common in a collection is no evidence that two records concern the same matter. The statistics are counted automatically when the collection
/// has 64, 256, 1,024, … records, four times as many each time, and at the end of an import.
#[utoipa::path(get, path = "/v1/collections/{collection}/statistics", operation_id = "getStatistics", tag = "admin",
    params(("collection" = CollectionName, Path)),
    responses((status = 200, description = "the statistics in force", body = TextStatistics)))]
pub async fn get(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    _: CheckedParameters<NoParameters>,
) -> Result<Json<TextStatistics>, Problem> {
    Ok(Json(app.engine.text_statistics(&collection).await?))
}

/// Count statistics of text again
///
/// All records are counted. The answer is sent when the new statistics are in use. The collection is then reindexed in the background, so that
/// its groups and keys follow.
#[utoipa::path(post, path = "/v1/collections/{collection}/statistics", operation_id = "countStatistics", tag = "admin",
    params(("collection" = CollectionName, Path)),
    responses((status = 200, description = "the statistics now in force", body = TextStatistics)))]
pub async fn count(
    _: Administrator,
    State(app): State<App>,
    InCollection(collection): InCollection,
    _: CheckedParameters<NoParameters>,
) -> Result<Json<TextStatistics>, Problem> {
    let counted = app.with_engine(|engine| async move {
        engine.recount(&collection).await?;
        engine.text_statistics(&collection).await
    });
    Ok(Json(counted.await?))
}
