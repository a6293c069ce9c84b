//! The change feed.

#![expect(unused_qualifications, reason = "written by utoipa's macro around parameter structs")]

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use utoipa::IntoParams;

use crate::auth::Reader;
use crate::extract::InCollection;
use crate::keys::no_longer;
use crate::permits::{give_permit_back, watcher_place};
use crate::problem::Problem;
use crate::query::{CheckedParameters, QueryParameters, QueryReader};
use crate::state::App;
use doppel_config::auth::Scope;
use doppel_core::collection::CollectionName;
use doppel_engine::changes::ChangeList;
use doppel_service::shutdown::Phase;
use doppel_store::Seq;

/// The default and the largest number of changes in one answer.
const LIST_LIMITS: (u64, u64) = (100, 1000);
/// Longest wait for a change, in seconds. It is less than the default time limit of a request.
pub const LONGEST_WAIT_S: u64 = 25;

/// The part of the feed to read.
#[derive(Clone, Copy, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ChangeParams {
    /// Only changes with a greater `number`. The default is 0: all changes that are kept.
    #[param(value_type = Option<u64>)]
    pub since: Seq,
    /// Largest number of changes in the response, 1 to 1000. The default is 100.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 1000)]
    pub limit: u64,
    /// Longest time in seconds to wait for a change if there is none yet, 0 to 25. The default is 0. The wait ends early if too many clients wait
    /// (`limits.max_watchers`).
    #[param(value_type = Option<u8>, minimum = 0, maximum = 25)]
    pub wait_s: u64,
}

impl QueryParameters for ChangeParams {
    fn read(query: &mut QueryReader) -> Self {
        Self {
            since: query.number("since", 0, i64::MAX as u64).map_or(Seq(0), Seq),
            limit: query.number("limit", 1, LIST_LIMITS.1).unwrap_or(LIST_LIMITS.0),
            wait_s: query.number("wait_s", 0, LONGEST_WAIT_S).unwrap_or(0),
        }
    }
}

/// Follow the changes of a collection
///
/// Returns every change of a record and every decision, in commit order. Send `next_since` as `since` of the next request to miss no change.
/// Records that exist are always listed. Removals, replacements, updates and decisions are listed only if they are among the latest
/// `collections.changes_kept` changes (see the configuration).
///
/// To start, send a first request, then read all records (`GET …/records`) and all decisions, and continue from `next_since` of the first response.
/// You can also start with `since=0` if no change has been deleted yet.
#[utoipa::path(get, path = "/v1/collections/{collection}/changes", operation_id = "listChanges", tag = "records",
    params(("collection" = CollectionName, Path), ChangeParams),
    responses((status = 200, description = "the changes, oldest first; an empty list if nothing changed in the waiting time", body = ChangeList),
        (status = 410, description = "`changes_forgotten`: some changes after `since` were deleted; read all records and decisions, then continue from `begin_at`")))]
pub async fn list(
    reader: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    CheckedParameters(params): CheckedParameters<ChangeParams>,
) -> Result<Json<ChangeList>, Problem> {
    let limit = params.limit as usize;
    let list = app.engine.changes(&collection, params.since, limit).await?;
    if !list.items.is_empty() || params.wait_s == 0 {
        return Ok(Json(list));
    }
    let place = watcher_place(&app, &reader.0);
    let _held = place.clone().drop_guard();
    // A request that waits must not hold a permit.
    give_permit_back();
    let until =
        tokio::time::Instant::now() + Duration::from_secs(params.wait_s).min(app.limits().request_timeout() / 2);
    let mut list = list;
    while list.items.is_empty() {
        tokio::select! {
            changed = app.engine.changed(&collection, list.next_since) => changed?,
            () = tokio::time::sleep_until(until) => break,
            // Another caller took the place. Nothing has changed until now.
            () = place.cancelled() => break,
            () = app.shutdown.reached(Phase::Grace) => break,
        }
        list = app.engine.changes(&collection, list.next_since, limit).await?;
    }
    if !app.keys.still_allows(reader.0.key.as_ref(), Scope::Read) {
        return Err(no_longer());
    }
    Ok(Json(list))
}
