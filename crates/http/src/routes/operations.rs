//! Handlers of the routes for operators and load balancers: liveness, readiness, metrics, version and the API documentation.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::Reader;
use crate::build;
use crate::openapi;
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters};
use crate::state::App;
use doppel_service::shutdown::Phase;

/// The state of the service.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Status {
    /// `alive` or `ready`.
    pub status: &'static str,
}

/// Check that the process is alive
///
/// No key is required. If this request fails, restart the process.
#[utoipa::path(get, path = "/livez", operation_id = "getLiveness", tag = "operations", security(()),
    responses((status = 200, description = "the process is alive", body = Status)))]
pub async fn livez(_: CheckedParameters<NoParameters>) -> Json<Status> {
    Json(Status { status: "alive" })
}

/// Check that the service accepts requests
///
/// No key is required. The response is 503 while the service is stopping or while its store accepts no writes.
#[utoipa::path(get, path = "/readyz", operation_id = "getReadiness", tag = "operations", security(()),
    responses((status = 200, description = "the service accepts requests", body = Status)))]
pub async fn readyz(State(app): State<App>, _: CheckedParameters<NoParameters>) -> Result<Json<Status>, Problem> {
    if app.shutdown.phase() != Phase::Serving {
        return Err(Problem::shutting_down());
    }
    app.engine.ready().await?;
    Ok(Json(Status { status: "ready" }))
}

/// Read the metrics in the format of Prometheus
///
/// If the configuration has keys, the scope `read` is required, because the number of records is not public.
#[utoipa::path(get, path = "/metrics", operation_id = "getMetrics", tag = "operations",
    responses((status = 200, description = "the metrics in the Prometheus text format", body = String, content_type = "text/plain")))]
pub async fn metrics(_: Reader, State(app): State<App>, _: CheckedParameters<NoParameters>) -> Response {
    if let Ok(usage) = app.engine.usage().await {
        metrics::gauge!("doppel_records").set(usage.records as f64);
        metrics::gauge!("doppel_index_bytes").set(usage.index_bytes as f64);
        metrics::gauge!("doppel_sketch_bytes").set(app.engine.sketch_bytes() as f64);
        metrics::gauge!("doppel_read_record_bytes").set(app.engine.read_record_bytes() as f64);
        metrics::gauge!("doppel_store_disk_bytes").set(usage.disk_bytes as f64);
        metrics::gauge!("doppel_store_free_bytes").set(usage.free_bytes as f64);
    }
    #[cfg(feature = "search")]
    if let Some(search) = &app.search
        && let Ok(usage) = search.usage().await
    {
        metrics::gauge!("doppel_search_memory_bytes").set(usage.memory_bytes as f64);
        metrics::gauge!("doppel_search_disk_bytes").set(usage.disk_bytes as f64);
        metrics::gauge!("doppel_search_behind").set(usage.behind as f64);
        if let Some(vectors) = search.vector_usage().await {
            metrics::gauge!("doppel_vectors").set(vectors.vectors as f64);
            metrics::gauge!("doppel_vectors_missing").set(vectors.missing as f64);
            metrics::gauge!("doppel_vectors_behind").set(vectors.behind as f64);
            metrics::gauge!("doppel_vectors_memory_bytes").set(vectors.memory_bytes as f64);
            metrics::gauge!("doppel_vectors_disk_bytes").set(vectors.disk_bytes as f64);
        }
    }
    if let Some(tls) = &app.tls {
        metrics::gauge!("doppel_tls_certificate_expires_in_seconds").set(tls.seconds_left() as f64);
    }
    doppel_service::observe::measure_process();
    let text = app.metrics.render();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

/// The running program.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Version {
    /// The name of the program: `doppel`.
    pub name: &'static str,
    /// The version of the program.
    pub version: &'static str,
    /// The commit from which the program was built; `unknown` if it was not available during the build.
    pub commit: &'static str,
}

/// The first paths of the API.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Welcome {
    /// The name of the program: `doppel`.
    pub name: &'static str,
    /// The path of the documentation pages of the API.
    pub docs: &'static str,
    /// The path of the OpenAPI document.
    pub openapi: &'static str,
    /// The path of the list of collections.
    pub collections: &'static str,
    /// The path of the readiness check.
    pub ready: &'static str,
}

/// List the first paths of the API
///
/// No key is required. A browser is redirected to the desk.
#[utoipa::path(get, path = "/", operation_id = "getWelcome", tag = "operations", security(()),
    responses((status = 200, description = "the first paths of the API", body = Welcome),
        (status = 303, description = "for a browser: `Location` is /console, or /docs/ if the service has no desk")))]
pub async fn root(State(app): State<App>, headers: HeaderMap, _: CheckedParameters<NoParameters>) -> Response {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepted.contains("text/html") {
        return Redirect::to(if app.pages.is_some() { "/console" } else { "/docs/" }).into_response();
    }
    Json(Welcome {
        name: build::NAME,
        docs: "/docs/",
        openapi: "/openapi.yaml",
        collections: "/v1/collections",
        ready: "/readyz",
    })
    .into_response()
}

/// Read the version of the program
///
/// No key is required.
#[utoipa::path(get, path = "/version", operation_id = "getVersion", tag = "operations", security(()),
    responses((status = 200, description = "the name, the version and the commit of the program", body = Version)))]
pub async fn version(_: CheckedParameters<NoParameters>) -> Json<Version> {
    Json(Version { name: build::NAME, version: build::VERSION, commit: build::commit() })
}

/// Read this OpenAPI document
///
/// No key is required. `/docs` shows this document as pages for people.
#[utoipa::path(get, path = "/openapi.yaml", operation_id = "getDescription", tag = "operations", security(()),
    responses((status = 200, description = "the OpenAPI document", body = String, content_type = "application/yaml")))]
pub async fn openapi_yaml(_: CheckedParameters<NoParameters>) -> Result<Response, Problem> {
    let yaml = openapi::yaml().map_err(|error| Problem::internal(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, "application/yaml; charset=utf-8")], yaml).into_response())
}

/// Read this OpenAPI document as JSON
///
/// No key is required.
#[utoipa::path(get, path = "/openapi.json", operation_id = "getDescriptionAsJson", tag = "operations", security(()),
    responses((status = 200, description = "the OpenAPI document", body = Object, content_type = "application/json")))]
pub async fn openapi_json(_: CheckedParameters<NoParameters>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], openapi::json()).into_response()
}
