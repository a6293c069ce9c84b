//! Handlers, one file per subject.

pub mod accounts;
pub mod admin;
pub mod arrivals;
pub mod bulk;
pub mod changes;
pub mod collections;
pub mod decisions;
pub mod event_decisions;
pub mod events;
mod expected;
pub mod explain;
pub mod filters;
pub mod forms;
pub mod generations;
pub mod groups;
pub mod input;
pub mod keys;
pub mod learning;
pub mod lookup;
pub mod operations;
pub mod places;
pub mod records;
pub mod rows;
#[cfg(feature = "search")]
pub mod search;
pub mod settings;
pub mod snapshots;
pub mod sources;
pub mod statistics;
pub mod tasks;
#[cfg(feature = "search")]
pub mod vectors;
pub mod webhooks;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::Problem;
use crate::state::App;
use doppel_core::collection::CollectionName;
use doppel_engine::Error;
use doppel_engine::tasks::Window;

/// An answer with the time its making took.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Timed<T> {
    /// The answer.
    #[serde(flatten)]
    pub answer: T,
    /// Processing time in microseconds, from the end of the request to this response.
    pub took_us: u64,
}

impl<T> Timed<T> {
    /// Wraps `answer` with the time since `started`.
    pub fn since(started: std::time::Instant, answer: T) -> Self {
        Self { answer, took_us: started.elapsed().as_micros() as u64 }
    }
}

/// Parses the times `from` and `to` of a query in the same way as the times of the collection's records.
async fn window(
    app: &App,
    collection: &CollectionName,
    from: Option<&str>,
    to: Option<&str>,
) -> Result<Window, Problem> {
    let window = app.engine.window(collection, from, to).await;
    window.map_err(|error| match error {
        Error::Invalid(mut violations) => {
            violations.iter_mut().for_each(|found| found.pointer = found.pointer.replacen('/', "?", 1));
            Problem::invalid(violations)
        }
        error => error.into(),
    })
}

/// Makes a response 201 with the path of the new resource.
fn created(location: &str, body: impl Serialize) -> Response {
    let mut response = (StatusCode::CREATED, Json(body)).into_response();
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Makes a response 202 with the path at which the progress is shown.
fn accepted(location: &str, body: impl Serialize) -> Response {
    let mut response = (StatusCode::ACCEPTED, Json(body)).into_response();
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Percent-encodes a record id as one path segment.
fn segment(id: &str) -> String {
    const KEPT: &percent_encoding::AsciiSet =
        &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    percent_encoding::utf8_percent_encode(id, KEPT).to_string()
}
