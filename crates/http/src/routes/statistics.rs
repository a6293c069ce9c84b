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

/// Read the text statistics in use
///
/// Text that is common in a collection is weak evidence that two records concern the same matter. doppel counts the statistics automatically when
/// the collection has 64, 256, 1,024, … records (four times as many each time), and at the end of an import.
#[utoipa::path(get, path = "/v1/collections/{collection}/statistics", operation_id = "getStatistics", tag = "admin",
    params(("collection" = CollectionName, Path)),
    responses((status = 200, description = "the statistics in use", body = TextStatistics)))]
pub async fn get(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    _: CheckedParameters<NoParameters>,
) -> Result<Json<TextStatistics>, Problem> {
    Ok(Json(app.engine.text_statistics(&collection).await?))
}

/// Count the text statistics again
///
/// doppel counts all records. The response is sent when the new statistics are in use. The collection is then reindexed in the background, so that
/// its groups and its index use the new statistics.
#[utoipa::path(post, path = "/v1/collections/{collection}/statistics", operation_id = "countStatistics", tag = "admin",
    params(("collection" = CollectionName, Path)),
    responses((status = 200, description = "the new statistics, which are now in use", body = TextStatistics)))]
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
