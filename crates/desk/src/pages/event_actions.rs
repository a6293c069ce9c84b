//! Actions on an event: confirming the event, removing records, merging the event with another event, and adding a step to its handling. One step
//! withdraws all decisions of an action.

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
use crate::visitor::{LeadVisitor, WritingVisitor};
use doppel_core::events::FrequencyRule;
use doppel_core::record::RecordId;
use doppel_engine::events::handling::{HandlingStatus, HandlingStep};
use doppel_engine::events::regroup::EventAction;
use doppel_http::extract::InRecord;
use doppel_http::problem::Problem;
use doppel_http::state::App;

/// The kind of a decision about an event. Each kind has its own route.
#[derive(Clone, Copy, Debug)]
pub enum EventActionKind {
    /// All members of the event report this event.
    Confirm,
    /// The chosen records do not belong to the event.
    Remove,
    /// The event of the record and the event of the record that the form names become one event.
    Merge,
}

/// Makes the decisions of an action on an event.
///
/// # Errors
/// 403; 404 if a record does not exist; 409 for too many pairs, or if a person decided that two records of merged events are different
/// matters; 422 if no record or all records are chosen, or if the form names no valid record; 503 while the events are not found yet.
pub async fn act(
    visitor: LeadVisitor,
    State(app): State<App>,
    Extension(desk): Extension<Arc<console::DeskState>>,
    Extension(kind): Extension<EventActionKind>,
    InRecord(collection, id): InRecord,
    form: FormFields,
) -> Result<Response, Problem> {
    let action = match kind {
        EventActionKind::Confirm => EventAction::Confirm(id),
        EventActionKind::Remove => {
            let records = form.all("record").filter_map(|record| RecordId::new(record).ok()).collect();
            EventAction::Split { of: id, records }
        }
        EventActionKind::Merge => EventAction::Merge(vec![id, record_id("with", &form)?]),
    };
    let SeenChanges { as_of, .. } = SeenChanges::of(&app.engine, &collection, &form).await?;
    let pairs = app.engine.event_decisions(&collection, &action).await?;
    let decisions = planned(&app.engine, &collection, pairs).await?;
    let back = page::local(form.raw("back"));
    let planned = PlannedAction { collection, judgement: action.judgement(), decisions, original: None, as_of, back };
    planned.carry_out(&app, desk, &visitor, &form).await
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
    let step = HandlingStep {
        status: form.choice("status", &HandlingStatus::NAMES)?,
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
