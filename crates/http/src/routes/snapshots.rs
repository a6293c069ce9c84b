//! Takes, lists, cancels and streams snapshots of the running service.

use std::io;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::{Administrator, ShownKey};
use crate::permits::stream_place;
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters};
use crate::routes::accepted;
use crate::state::App;
use doppel_config::auth::Scope;
use doppel_core::error_code::ErrorCode;
use doppel_service::snapshots::{SnapshotReceiver, SnapshotRefusal, SnapshotRun, StoredSnapshot};

/// Interval at which the key of a stream is checked while nothing is sent.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The list of snapshots, and the snapshot in progress.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Snapshots {
    /// The snapshots in the directory of the configuration, oldest first.
    pub items: Vec<StoredSnapshot>,
    /// The snapshot in progress, or the last snapshot since the start of the service; `null` if there is none.
    pub run: Option<SnapshotRun>,
}

/// List the snapshots
///
/// The response also shows the progress of the snapshot that is being taken.
#[utoipa::path(get, path = "/v1/admin/snapshots", operation_id = "listSnapshots", tag = "admin",
    responses((status = 200, description = "the snapshots", body = Snapshots)))]
pub async fn list(
    _: Administrator,
    State(app): State<App>,
    _: CheckedParameters<NoParameters>,
) -> Result<Json<Snapshots>, Problem> {
    let snapshots = app.snapshots.clone();
    // Reading files would block the thread.
    let listed = tokio::task::spawn_blocking(move || (snapshots.kept(), snapshots.run())).await;
    let (items, run) = listed.map_err(|error| Problem::internal(error.to_string()))?;
    Ok(Json(Snapshots { items: items.map_err(SnapshotRefusal::from)?, run }))
}

/// Take a snapshot
///
/// The snapshot contains all data of the service at this moment: every change whose response was sent before this request, and no change that was
/// requested after the response. It is written to the directory `snapshots.dir` of the configuration while the service answers requests. Data of an
/// earlier snapshot is not written again. Only one snapshot can be taken at a time.
#[utoipa::path(post, path = "/v1/admin/snapshots", operation_id = "takeSnapshot", tag = "admin",
    responses((status = 202, description = "the snapshot was started; `GET` of `Location` shows its progress", body = SnapshotRun),
        (status = 409, description = "`snapshot_running`: another snapshot is being taken; `snapshots_off`: the configuration has no directory for snapshots; `not_supported`: the records are in MongoDB")))]
pub async fn begin(
    _: Administrator,
    State(app): State<App>,
    _: CheckedParameters<NoParameters>,
) -> Result<Response, Problem> {
    let run = app.snapshots.begin().await?;
    Ok(accepted("/v1/admin/snapshots", run))
}

/// Cancel the snapshot that is being taken
///
/// Only files that the next snapshot can use are kept.
#[utoipa::path(post, path = "/v1/admin/snapshots/cancel", operation_id = "cancelSnapshot", tag = "admin",
    responses((status = 200, description = "the cancellation was requested; the body is the state of the snapshot", body = SnapshotRun),
        (status = 409, description = "`no_snapshot`: no snapshot is being taken")))]
pub async fn cancel(
    _: Administrator,
    State(app): State<App>,
    _: CheckedParameters<NoParameters>,
) -> Result<Json<SnapshotRun>, Problem> {
    Ok(Json(app.snapshots.cancel()?))
}

/// Take a snapshot as a stream
///
/// Returns a snapshot of this moment as one file. The service writes nothing to its disk. The file is complete only if the client received its end:
/// check the file with `doppel snapshot verify FILE`. `doppel snapshot restore` creates a data directory from it. Only one snapshot can be taken at
/// a time.
#[utoipa::path(get, path = "/v1/admin/snapshots/stream", operation_id = "streamSnapshot", tag = "admin",
    responses((status = 200, description = "the snapshot", body = String, content_type = "application/octet-stream"),
        (status = 409, description = "`snapshot_running`: another snapshot is being taken; `not_supported`: the records are in MongoDB")))]
pub async fn stream(
    administrator: Administrator,
    State(app): State<App>,
    _: CheckedParameters<NoParameters>,
) -> Result<Response, Problem> {
    let place = stream_place(&app, &administrator.0)?;
    let streamed = app.snapshots.stream().await?;
    let pieces = stream::unfold(Some((app, streamed, place, administrator.0.key)), |state| async move {
        let (app, mut streamed, place, caller) = state?;
        let piece = next(&app, &mut streamed, caller.as_ref()).await?;
        let going_on = piece.is_ok().then_some((app, streamed, place, caller));
        Some((piece, going_on))
    });
    let mut response = Body::from_stream(pieces).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    let name = HeaderValue::from_static("attachment; filename=\"doppel.snapshot\"");
    headers.insert(header::CONTENT_DISPOSITION, name);
    Ok(response)
}

/// Returns the next piece while the key of the caller is valid.
async fn next(app: &App, streamed: &mut SnapshotReceiver, caller: Option<&ShownKey>) -> Option<io::Result<Bytes>> {
    loop {
        if !app.keys.still_allows(caller, Scope::Admin) {
            // Cancelling fails if the snapshot has already ended.
            let _ = app.snapshots.cancel();
            return Some(Err(io::Error::other("the key was revoked or has expired since the request began")));
        }
        tokio::select! {
            piece = streamed.next() => return piece,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

impl From<SnapshotRefusal> for Problem {
    fn from(refusal: SnapshotRefusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            SnapshotRefusal::Running => Self::conflict(ErrorCode::SnapshotRunning, detail),
            SnapshotRefusal::Off => Self::conflict(ErrorCode::SnapshotsOff, detail),
            SnapshotRefusal::Stopping => Self::shutting_down(),
            SnapshotRefusal::Idle => Self::conflict(ErrorCode::NoSnapshot, detail),
            SnapshotRefusal::Engine(error) => error.into(),
            SnapshotRefusal::Failed(doppel_snapshot::Error::Store(error)) => error.into(),
            SnapshotRefusal::Failed(_) => Self::internal(detail),
        }
    }
}
