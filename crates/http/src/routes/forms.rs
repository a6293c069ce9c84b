//! Forms of a collection: read the common text of a group, propose groups that look like forms, add and remove a form.

#![expect(unused_qualifications, reason = "written by utoipa's macro around parameter structs")]

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Administrator, AdministratorIn, Reader};
use crate::extract::{InForm, InRecord};
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters, QueryParameters, QueryReader};
use crate::routes::admin::{collection, started};
use crate::routes::input::ObjectReader;
use crate::state::App;
use doppel_core::collection::{CollectionName, Form};
use doppel_core::error_code::ErrorCode;
use doppel_core::record::RecordId;
use doppel_engine::forms::{GroupForm, ProposedForms};
use doppel_engine::tasks::Task;

/// The group or the passages from which a form is made.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct FormInput {
    /// The id of a record of a group. The passages of the form are the passages that the records of this group share. Give either this or
    /// `passages`.
    group: Option<RecordId>,
    /// The passages of the form. Each passage has 6 to 2000 letters, digits or Han characters. Give either this or `group`.
    #[schema(min_items = 1, max_items = 64)]
    passages: Option<Vec<String>>,
    /// True to make the new generation live as soon as it is complete; otherwise it can be compared first. The default is false.
    #[schema(default = false)]
    activate: Option<bool>,
}

/// The request to propose forms.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct ProposedFormsInput {
    /// The name of the collection.
    collection: CollectionName,
}

/// Whether the change takes effect at once.
#[derive(Clone, Copy, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ActivateParams {
    /// True to make the new generation live as soon as it is complete. The default is false.
    #[param(value_type = Option<bool>)]
    pub activate: bool,
}

impl QueryParameters for ActivateParams {
    fn read(query: &mut QueryReader) -> Self {
        Self { activate: query.parsed("activate", ErrorCode::InvalidParameter, "give true or false").unwrap_or(false) }
    }
}

/// Read the text that the records of a group share
///
/// If the group is a form (for example, an invitation that differs only in the name of the person), add the form with `PUT …/forms/{form}`.
#[utoipa::path(get, path = "/v1/collections/{collection}/groups/{id}/form", operation_id = "getGroupForm", tag = "groups",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "id of any record of the group")),
    responses((status = 200, description = "the shared passages, and the text that people filled in, for some records", body = GroupForm)))]
pub async fn of_group(
    _: Reader,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    _: CheckedParameters<NoParameters>,
) -> Result<Json<GroupForm>, Problem> {
    Ok(Json(app.engine.group_form(&collection, &id).await?))
}

/// Propose groups that look like forms
///
/// Reads the largest groups of ten or more records. A group is proposed if its records share most of their text and differ in the rest. Letters
/// that many people signed look the same, so a person must decide whether a group is a form. The request changes nothing.
#[utoipa::path(post, path = "/v1/admin/forms", operation_id = "proposeForms", tag = "admin", request_body = ProposedFormsInput,
    responses((status = 200, description = "the proposals", body = ProposedForms),
        (status = 404, description = "the collection does not exist")))]
pub async fn propose(
    administrator: AdministratorIn,
    State(app): State<App>,
    _: CheckedParameters<NoParameters>,
    mut input: ObjectReader,
) -> Result<Json<ProposedForms>, Problem> {
    let collection = collection(&mut input, administrator.reach());
    input.finish()?;
    Ok(Json(app.engine.proposed_forms(&collection?).await?))
}

/// Add or replace a form
///
/// Builds a generation whose settings contain the form in `verify.forms`. The form replaces an earlier form with the same name. Two records on the
/// same form are compared only by the text that people filled in. Compare the generation with the live one before you activate it. To undo the
/// change, activate the previous generation.
#[utoipa::path(put, path = "/v1/collections/{collection}/forms/{form}", operation_id = "teachForm", tag = "admin",
    params(("collection" = CollectionName, Path), ("form" = String, Path, description = "name of the form")),
    request_body = FormInput,
    responses((status = 202, description = "the task was created; `Location` is its path", body = Task),
        (status = 404, description = "the collection or the record does not exist; `ungrouped`: the record is in no group"),
        (status = 409, description = "`task_running`: the collection has an unfinished task; `conflict`: the collection has a newer generation that is not live")))]
pub async fn teach(
    _: Administrator,
    State(app): State<App>,
    InForm(collection, name): InForm,
    _: CheckedParameters<NoParameters>,
    mut input: ObjectReader,
) -> Result<Response, Problem> {
    let group = input.word::<RecordId>("group", "the id of a record");
    let passages = input.word::<Vec<String>>("passages", "a list of passages");
    let activate = input.truth("activate").unwrap_or(false);
    input.finish()?;
    let passages = match (group, passages) {
        (Some(group), None) => {
            let passages = app.engine.group_form(&collection, &group).await?.passages;
            if passages.is_empty() {
                let detail = "the records of the group share no passage";
                return Err(Problem::invalid_at("/group", ErrorCode::NoPassages, detail));
            }
            passages
        }
        (None, Some(passages)) => passages,
        _ => return Err(Problem::invalid_at("", ErrorCode::OneOf, "give either group or passages")),
    };
    let form = Form { name, passages };
    Ok(started(app.with_engine(|engine| async move { engine.teach_form(&collection, form, activate).await }).await?))
}

/// Remove a form
///
/// Builds a generation whose settings do not contain the form.
#[utoipa::path(delete, path = "/v1/collections/{collection}/forms/{form}", operation_id = "forgetForm", tag = "admin",
    params(("collection" = CollectionName, Path), ("form" = String, Path, description = "name of the form"), ActivateParams),
    responses((status = 202, description = "the task was created; `Location` is its path", body = Task),
        (status = 404, description = "the collection does not exist, or has no form with this name (`unknown_form`)"),
        (status = 409, description = "`task_running`: the collection has an unfinished task; `conflict`: the collection has a newer generation that is not live")))]
pub async fn forget(
    _: Administrator,
    State(app): State<App>,
    InForm(collection, name): InForm,
    CheckedParameters(ActivateParams { activate }): CheckedParameters<ActivateParams>,
) -> Result<Response, Problem> {
    Ok(started(app.with_engine(|engine| async move { engine.forget_form(&collection, &name, activate).await }).await?))
}
