//! Backups of the running service: asked for, listed, stopped, streamed.

use std::io;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use utoipa::ToSchema;

use crate::config::auth::Scope;
use crate::http::auth::{Administrator, ShownKey};
use crate::http::observe::stream_place;
use crate::http::problem::Problem;
use crate::http::query::{Nothing, Params};
use crate::http::routes::accepted;
use crate::http::state::App;
use crate::snapshots::{Kept, Refusal, Run, Streamed};

/// How often to see whether the key of a stream is good yet, while nothing is sent.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What there is.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Snapshots {
    /// In the directory of the configuration, oldest first.
    pub items: Vec<Kept>,
    /// The one that is being taken, or was taken last since the service was started.
    pub run: Option<Run>,
}

/// List the snapshots
///
/// With the one that is being taken, and how far it is.
#[utoipa::path(get, path = "/v1/admin/snapshots", operation_id = "listSnapshots", tag = "admin",
    responses((status = 200, description = "the snapshots", body = Snapshots)))]
pub async fn list(_: Administrator, State(app): State<App>, _: Params<Nothing>) -> Result<Json<Snapshots>, Problem> {
    let snapshots = app.snapshots.clone();
    // Reads files.
    let listed = tokio::task::spawn_blocking(move || (snapshots.kept(), snapshots.run())).await;
    let (items, run) = listed.map_err(|error| Problem::internal(error.to_string()))?;
    Ok(Json(Snapshots { items: items.map_err(Refusal::from)?, run }))
}

/// Take a snapshot
///
/// Of everything the service keeps, as it is at this moment: every change that was answered before is in it, none that is sent
/// after the answer. Into the directory of the configuration (`snapshots.dir`), beside the work; what an earlier snapshot has is not
/// written again. One at a time.
#[utoipa::path(post, path = "/v1/admin/snapshots", operation_id = "takeSnapshot", tag = "admin",
    responses((status = 202, description = "begun; `Location` tells how far it is", body = Run),
        (status = 409, description = "`snapshot_running`: there is one; `snapshots_off`: there is no directory for it; \
            `not_supported`: the records are in MongoDB")))]
pub async fn begin(_: Administrator, State(app): State<App>, _: Params<Nothing>) -> Result<Response, Problem> {
    let run = app.snapshots.begin().await?;
    Ok(accepted("/v1/admin/snapshots", run))
}

/// Tell the snapshot that is being taken to stop
///
/// Nothing is left of it but files that the next one uses.
#[utoipa::path(post, path = "/v1/admin/snapshots/cancel", operation_id = "cancelSnapshot", tag = "admin",
    responses((status = 200, description = "it was told", body = Run),
        (status = 409, description = "`no_snapshot`: none is being taken")))]
pub async fn cancel(_: Administrator, State(app): State<App>, _: Params<Nothing>) -> Result<Json<Run>, Problem> {
    Ok(Json(app.snapshots.cancel()?))
}

/// Take a snapshot as a stream
///
/// The whole snapshot as one file, of this moment; nothing is written on this machine. It is whole if its end is there: `doppel
/// snapshot verify FILE` reads it, `doppel snapshot restore` makes a data directory of it. One at a time.
#[utoipa::path(get, path = "/v1/admin/snapshots/stream", operation_id = "streamSnapshot", tag = "admin",
    responses((status = 200, description = "the snapshot", body = String, content_type = "application/octet-stream"),
        (status = 409, description = "`snapshot_running`: there is one; `not_supported`: the records are in MongoDB")))]
pub async fn stream(
    administrator: Administrator,
    State(app): State<App>,
    _: Params<Nothing>,
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

/// The next piece, as long as the caller's key is good.
async fn next(app: &App, streamed: &mut Streamed, caller: Option<&ShownKey>) -> Option<io::Result<Bytes>> {
    loop {
        if !app.keys.still_allows(caller, Scope::Admin) {
            // It has ended where there is none.
            let _ = app.snapshots.cancel();
            return Some(Err(io::Error::other("the key was revoked or has expired since this was begun")));
        }
        tokio::select! {
            piece = streamed.next() => return piece,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            Refusal::Running => Self::new(StatusCode::CONFLICT, "snapshot_running", detail),
            Refusal::Off => Self::new(StatusCode::CONFLICT, "snapshots_off", detail),
            Refusal::Stopping => Self::shutting_down(),
            Refusal::Idle => Self::new(StatusCode::CONFLICT, "no_snapshot", detail),
            Refusal::Engine(error) => error.into(),
            Refusal::Failed(doppel_snapshot::Error::Store(error)) => error.into(),
            Refusal::Failed(_) => Self::internal(detail),
        }
    }
}
