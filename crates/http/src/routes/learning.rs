//! Learns from decisions: fits the evidence model, and uses the fitted model.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use utoipa::ToSchema;

use crate::auth::{Administrator, AdministratorIn};
use crate::extract::InCollection;
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters};
use crate::routes::admin::{collection, started};
use crate::routes::input::ObjectReader;
use crate::state::App;
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::evidence::LearnedModel;
use doppel_engine::learning::LearnedEvidence;
use doppel_engine::tasks::Task;

/// The collection whose decisions are used to fit the evidence model.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct LearnInput {
    /// The collection whose decisions are read.
    collection: CollectionName,
}

/// The evidence model to use.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct ModelInput {
    /// The `model` of a response of `learnEvidence`; `null` for the model of doppel.
    #[schema(required = true)]
    model: Option<LearnedModel>,
    /// True to make the new generation live as soon as it is complete; otherwise it can be compared first. The default is false.
    #[schema(default = false)]
    activate: Option<bool>,
}

/// Fit the evidence model to decisions
///
/// Fits the coefficients to the decisions of people about pairs of this collection. The prior is the model of doppel. The fitted model and the
/// model of doppel are evaluated on decisions that were left out of the fit. At least five `same` and five `not_same` decisions are required. The
/// request changes nothing.
#[utoipa::path(post, path = "/v1/admin/evidence", operation_id = "learnEvidence", tag = "admin", request_body = LearnInput,
    responses((status = 200, description = "the fitted model, and the figures of the fitted model and of the model of doppel", body = LearnedEvidence),
        (status = 404, description = "the collection does not exist"),
        (status = 409, description = "`conflict`: there are too few decisions")))]
pub async fn learn(
    administrator: AdministratorIn,
    State(app): State<App>,
    _: CheckedParameters<NoParameters>,
    mut input: ObjectReader,
) -> Result<Json<LearnedEvidence>, Problem> {
    let collection = collection(&mut input, administrator.reach());
    input.finish()?;
    Ok(Json(app.engine.learn_evidence(&collection?).await?))
}

/// Replace the evidence model
///
/// Builds a generation whose settings contain the model in `verify.model`. Compare the generation with the live one before you activate it. To undo
/// the change, activate the previous generation.
#[utoipa::path(put, path = "/v1/collections/{collection}/model", operation_id = "useModel", tag = "admin",
    params(("collection" = CollectionName, Path)),
    request_body = ModelInput,
    responses((status = 202, description = "the task was created; `Location` is its path", body = Task),
        (status = 404, description = "the collection does not exist"),
        (status = 409, description = "`task_running`: the collection has an unfinished task; `conflict`: the collection has a newer generation that is not live")))]
pub async fn use_model(
    _: Administrator,
    State(app): State<App>,
    InCollection(collection): InCollection,
    _: CheckedParameters<NoParameters>,
    mut input: ObjectReader,
) -> Result<Response, Problem> {
    if !input.has("model") {
        input.refuse::<()>("model", ErrorCode::MissingKey, "give a model, or null for the model of doppel");
    }
    let model = input.take("model");
    let activate = input.truth("activate").unwrap_or(false);
    input.finish()?;
    let model: Option<LearnedModel> = model.map(serde_json::from_value).transpose().map_err(|_| {
        let detail = "give the model of an answer of POST /v1/admin/evidence, or null for the model of doppel";
        Problem::invalid_at("/model", ErrorCode::InvalidModel, detail)
    })?;
    Ok(started(app.with_engine(|engine| async move { engine.use_model(&collection, model, activate).await }).await?))
}
