//! Actions on an event: confirming it, removing records from it, merging it with another one, and adding a step to its handling. One step takes all
//! decisions of an action back.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};

use crate as console;
use crate::flash::FlashMessage;
use crate::form::FormFields;
use crate::page::{self, SeeOther};
use crate::pages::decide::named;
use crate::pages::regroup::PlannedAction;
use crate::pages::regroup_plan::{SeenChanges, planned, record_id};
use crate::visitor::{LeadVisitor, PageVisitor, WritingVisitor};
use doppel_core::collection::CollectionName;
use doppel_core::events::FrequencyRule;
use doppel_core::record::RecordId;
use doppel_engine::events::handling::{HandlingStatus, HandlingStep};
use doppel_engine::events::regroup::EventAction;
use doppel_http::extract::InRecord;
use doppel_http::problem::Problem;
use doppel_http::state::App;

/// Decides that all members of an event report this event.
///
/// # Errors
/// 403, 404; 503 while the events are not found yet.
pub async fn confirm(
    visitor: LeadVisitor,
    State(app): State<App>,
    Extension(desk): Extension<Arc<console::DeskState>>,
    InRecord(collection, id): InRecord,
    form: FormFields,
) -> Result<Response, Problem> {
    carry_out(&app, desk, &visitor, collection, EventAction::Confirm(id), &form).await
}

/// Removes the chosen records from an event.
///
/// # Errors
/// 403, 404; 409 for too many pairs; 422 if no record or all records are chosen; 503 while the events are not found yet.
pub async fn remove(
    visitor: LeadVisitor,
    State(app): State<App>,
    Extension(desk): Extension<Arc<console::DeskState>>,
    InRecord(collection, id): InRecord,
    form: FormFields,
) -> Result<Response, Problem> {
    let records: Vec<RecordId> = form.all("record").filter_map(|record| RecordId::new(record).ok()).collect();
    carry_out(&app, desk, &visitor, collection, EventAction::Split { of: id, records }, &form).await
}

/// Merges the event of a record with the event of the record that the form names.
///
/// # Errors
/// 403; 404 if a record does not exist; 409 if a person decided that two records of the events are different matters; 422; 503 while the
/// events are not found yet.
pub async fn merge(
    visitor: LeadVisitor,
    State(app): State<App>,
    Extension(desk): Extension<Arc<console::DeskState>>,
    InRecord(collection, id): InRecord,
    form: FormFields,
) -> Result<Response, Problem> {
    let other = record_id("with", &form)?;
    carry_out(&app, desk, &visitor, collection, EventAction::Merge(vec![id, other]), &form).await
}

/// Adds a step to the handling of an event.
///
/// # Errors
/// 403, 404; 409 if the history is full; 422 for a step that says nothing or an unknown status; 503 while the events are not found yet.
pub async fn handle(
    visitor: WritingVisitor,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    form: FormFields,
) -> Result<Response, Problem> {
    let names = |name: &str| HandlingStatus::NAMES.iter().find(|(_, known)| *known == name).map(|(status, _)| *status);
    let step = HandlingStep {
        status: form.choice("status", names)?,
        unit: form.text("unit").map(str::to_owned),
        note: form.text("note").map(str::to_owned),
        by: Some(visitor.by(form.text("by").or(visitor.name.as_deref()))),
        at: String::new(),
    };
    let engine = app.engine.clone();
    let handling = async move { engine.handle_event(&collection, &id, step, FrequencyRule::default()).await };
    app.detached(handling).await?;
    let answer = SeeOther::to(page::local(form.raw("back"))).telling(&FlashMessage::StepAdded);
    Ok(named(answer, &visitor, form.text("by")).into_response())
}

async fn carry_out(
    app: &App,
    desk: Arc<console::DeskState>,
    visitor: &PageVisitor,
    collection: CollectionName,
    action: EventAction,
    form: &FormFields,
) -> Result<Response, Problem> {
    let SeenChanges { as_of, .. } = SeenChanges::of(&app.engine, &collection, form).await?;
    let pairs = app.engine.event_decisions(&collection, &action).await?;
    let decisions = planned(&app.engine, &collection, pairs).await?;
    let back = page::local(form.raw("back"));
    PlannedAction { collection, judgement: action.judgement(), decisions, original: None, as_of, back }
        .carry_out(app, desk, visitor, form)
        .await
}
