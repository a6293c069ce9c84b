//! Reads the document frequencies of a collection, and counts them again.

use axum::Json;
use axum::extract::State;

use crate::http::auth::{Administrator, Reader};
use crate::http::extract::InCollection;
use crate::http::problem::Problem;
use crate::http::query::{CheckedParameters, NoParameters};
use crate::http::state::App;
use doppel_core::collection::CollectionName;
use doppel_engine::answers::TextStatistics;

/// Read the present text statistics
///
/// Text that is common in a collection is no evidence that two records concern the same matter. The statistics are counted again automatically when the collection
/// has doubled, and some time after it has grown by a quarter.
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
/// The answer is sent when the new statistics are in use. Groups are updated in the background. If by the new statistics a quarter of the
/// keys belong to common text, the collection is reindexed, unless the configuration says otherwise.
#[utoipa::path(post, path = "/v1/collections/{collection}/statistics", operation_id = "countStatistics", tag = "admin",
    params(("collection" = CollectionName, Path)),
    responses((status = 200, description = "the statistics now in force", body = TextStatistics)))]
pub async fn count(
    _: Administrator,
    State(app): State<App>,
    InCollection(collection): InCollection,
    _: CheckedParameters<NoParameters>,
) -> Result<Json<TextStatistics>, Problem> {
    let engine = app.engine.clone();
    let counted = app.detached(async move {
        engine.count_frequencies(&collection).await?;
        let now = engine.text_statistics(&collection).await?;
        engine.follow_frequencies_later(&collection);
        Ok(now)
    });
    Ok(Json(counted.await?))
}
