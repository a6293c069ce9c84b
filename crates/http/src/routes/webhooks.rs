//! Webhooks: their states. A request cannot name an address.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::Administrator;
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters};
use crate::state::App;
use doppel_service::webhooks::{WebhookState, states};

/// The list of webhooks.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookList {
    /// The webhooks, in the order of the configuration.
    items: Vec<WebhookState>,
}

/// List the webhooks with their deliveries
///
/// Lists each `[[webhook]]` of the configuration with its collections: the position in the changes, the last error and the latest messages. The
/// response contains no addresses and no secrets.
#[utoipa::path(get, path = "/v1/admin/webhooks", operation_id = "listWebhooks", tag = "admin",
    responses((status = 200, description = "the webhooks", body = WebhookList)))]
pub async fn list(
    _: Administrator,
    State(app): State<App>,
    _: CheckedParameters<NoParameters>,
) -> Result<Json<WebhookList>, Problem> {
    Ok(Json(WebhookList { items: states(&app.engine, &app.webhooks).await? }))
}
