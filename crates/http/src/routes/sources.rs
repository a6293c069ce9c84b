//! Databases from which collections are filled: their states, and the import of all rows. A request can only name configured databases; it
//! cannot contain the address of a database.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::Administrator;
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters};
use crate::routes::accepted;
use crate::routes::input::ObjectReader;
use crate::state::App;
use doppel_core::error_code::ErrorCode;
use doppel_service::follow::{AskError, SourceState};

/// The sources.
#[derive(Debug, Serialize, ToSchema)]
pub struct SourceList {
    /// The sources, sorted by name.
    items: Vec<SourceState>,
}

/// The source whose rows are imported.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct ImportInput {
    /// The name of a source of the configuration.
    #[schema(min_length = 1, max_length = 64)]
    source: String,
}

/// List the databases from which collections are filled
///
/// Lists each `[[source]]` of the configuration with its position, its delay and its last error. The response contains no rows and no passwords.
#[utoipa::path(get, path = "/v1/admin/sources", operation_id = "listSources", tag = "admin",
    responses((status = 200, description = "the sources", body = SourceList)))]
pub async fn list(_: Administrator, State(app): State<App>, _: CheckedParameters<NoParameters>) -> Json<SourceList> {
    Json(SourceList { items: app.sources.states(&app.engine).await })
}

/// Import all rows of a configured database
///
/// Registers the rows in the order of their ids, while the service answers other requests. `GET /v1/admin/sources` shows the progress. Rows that
/// are already registered and have not changed stay as they are. If the service stops during an import, the import continues after the next start.
#[utoipa::path(post, path = "/v1/admin/import", operation_id = "startImport", tag = "admin", request_body = ImportInput,
    responses((status = 202, description = "the import was requested; `GET` of `Location` shows its progress", body = SourceState),
        (status = 404, description = "`unknown_source`: no source of the configuration has this name"),
        (status = 409, description = "`conflict`: an import of this source is not finished")))]
pub async fn import(
    _: Administrator,
    State(app): State<App>,
    _: CheckedParameters<NoParameters>,
    mut input: ObjectReader,
) -> Result<Response, Problem> {
    let source = input.text("source");
    input.finish()?;
    let named = source
        .ok_or_else(|| Problem::invalid_at("/source", ErrorCode::MissingKey, "name a source of the configuration"))?;
    match app.sources.ask_import(&app.engine, &named).await {
        Ok(state) => Ok(accepted("/v1/admin/sources", state)),
        Err(AskError::Unknown(_)) => {
            let detail = "no source of the configuration has this name; GET /v1/admin/sources lists them";
            Err(Problem::unknown(ErrorCode::UnknownSource, "/source", detail))
        }
        Err(AskError::Engine(error)) => Err(error.into()),
    }
}
