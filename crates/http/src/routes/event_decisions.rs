//! Decisions of people about whole events, and the handling of events.

use axum::Json;
use axum::extract::State;
use utoipa::ToSchema;

use crate::auth::Writer;
use crate::extract::{InCollection, InRecord};
use crate::problem::Problem;
use crate::query::CheckedParameters;
use crate::routes::events::RuleParams;
use crate::routes::groups::{AuthorInput, RegroupInput, problem_of_named, read_author, regroup_input};
use crate::routes::input::ObjectReader;
use crate::state::App;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_engine::events::EventView;
use doppel_engine::events::handling::{HandlingStatus, HandlingStep};
use doppel_engine::events::regroup::{EventAction, EventRegrouping};

/// Declare the events of several records one event
///
/// Give one record of each event; a record without an event counts as an event of one. The first record of each further event is decided to
/// report one event with the first record of the first one (`same_event`). Sending the request again makes no further decisions.
#[utoipa::path(post, path = "/v1/collections/{collection}/events/_merge", operation_id = "mergeEvents", tag = "events",
    params(("collection" = CollectionName, Path), RuleParams),
    request_body = RegroupInput,
    responses((status = 200, description = "the decisions and the resulting event", body = EventRegrouping),
        (status = 409, description = "`rejected_pair`: a person decided that two records of these events are different matters; `not_compared`: a record has no text or is too early to be held in memory; `text_not_kept`: the collection keeps no text"),
        (status = 503, description = "`events_not_ready`: the records are being read; ask again later")))]
pub async fn merge(
    _: Writer,
    State(app): State<App>,
    InCollection(collection): InCollection,
    CheckedParameters(rule): CheckedParameters<RuleParams>,
    input: ObjectReader,
) -> Result<Json<EventRegrouping>, Problem> {
    let (records, author) = regroup_input(input)?;
    let engine = app.engine.clone();
    let named = records.clone();
    let action = EventAction::Merge(records);
    let merging = async move { Ok(engine.regroup_events(&collection, &action, &author, rule.into()).await) };
    app.detached(merging).await?.map(Json).map_err(|error| problem_of_named(error, &named))
}

/// Separate records from their event
///
/// Each of `records` and each other member of the event are declared different matters (`not_same`). No decision is made about two named
/// records, so that they can be an event of their own. To remove one record from the event, name only this one.
#[utoipa::path(post, path = "/v1/collections/{collection}/events/{id}/_split", operation_id = "splitEvent", tag = "events",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "id of any record of the event"), RuleParams),
    request_body = RegroupInput,
    responses((status = 200, description = "the decisions and the resulting events", body = EventRegrouping),
        (status = 404, description = "`no_event`: the record is in no event"),
        (status = 409, description = "`too_many_links`: the records and the other members have more than 1000 pairs; `text_not_kept`: the collection keeps no text"),
        (status = 503, description = "`events_not_ready`: the records are being read; ask again later")))]
pub async fn split(
    _: Writer,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    CheckedParameters(rule): CheckedParameters<RuleParams>,
    input: ObjectReader,
) -> Result<Json<EventRegrouping>, Problem> {
    let (records, author) = regroup_input(input)?;
    let engine = app.engine.clone();
    let action = EventAction::Split { of: id, records };
    let splitting = async move { engine.regroup_events(&collection, &action, &author, rule.into()).await };
    Ok(Json(app.detached(splitting).await?))
}

/// Confirm an event
///
/// Its members are decided to report one event with its first record (`same_event`), so that they stay together even if new records come. Members
/// that duplicates or decisions join with the first record need no decision. One request makes at most 1000 decisions; send it again until
/// `decisions` is 0.
#[utoipa::path(post, path = "/v1/collections/{collection}/events/{id}/_confirm", operation_id = "confirmEvent", tag = "events",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "id of any record of the event"), RuleParams),
    request_body = AuthorInput,
    responses((status = 200, description = "the decisions and the event", body = EventRegrouping),
        (status = 404, description = "`no_event`: the record is in no event"),
        (status = 409, description = "`rejected_pair`: a person decided meanwhile that two members are different matters; `text_not_kept`: the collection keeps no text"),
        (status = 503, description = "`events_not_ready`: the records are being read; ask again later")))]
pub async fn confirm(
    _: Writer,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    CheckedParameters(rule): CheckedParameters<RuleParams>,
    mut input: ObjectReader,
) -> Result<Json<EventRegrouping>, Problem> {
    let author = read_author(&mut input);
    input.finish()?;
    let engine = app.engine.clone();
    let action = EventAction::Confirm(id);
    let confirming = async move { engine.regroup_events(&collection, &action, &author, rule.into()).await };
    Ok(Json(app.detached(confirming).await?))
}

/// A step of the handling of an event.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct HandlingInput {
    /// The new status.
    status: Option<HandlingStatus>,
    /// The unit that handles the event from now on.
    unit: Option<String>,
    /// A note.
    note: Option<String>,
    /// The person who makes the step.
    by: Option<String>,
}

/// Add a step to the handling of an event
///
/// A step has at least one of status, unit and note. The steps stay with the event when it is regrouped, when the collection is indexed anew, and
/// when its first record is deleted; an event that is merged with another one has the steps of both. An equal step within ten minutes of the last
/// one is a repetition of the request and adds nothing.
#[utoipa::path(post, path = "/v1/collections/{collection}/events/{id}/handling", operation_id = "handleEvent", tag = "events",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "id of any record of the event"), RuleParams),
    request_body = HandlingInput,
    responses((status = 200, description = "the event with its present handling", body = EventView),
        (status = 404, description = "`no_event`: the record is in no event"),
        (status = 409, description = "`too_many_steps`: a thousand steps are kept, the most there can be; `handling_changed`: others changed it at the same time; `text_not_kept`: the collection keeps no text"),
        (status = 503, description = "`events_not_ready`: the records are being read; ask again later")))]
pub async fn handle(
    _: Writer,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    CheckedParameters(rule): CheckedParameters<RuleParams>,
    mut input: ObjectReader,
) -> Result<Json<EventView>, Problem> {
    let status = input.word::<HandlingStatus>("status", "open, assigned, answered or closed");
    let unit = input.text("unit");
    let note = input.text("note");
    let by = input.text("by");
    input.finish()?;
    let step = HandlingStep { status, unit, note, by, at: String::new() };
    let engine = app.engine.clone();
    let handling = async move { engine.handle_event(&collection, &id, step, rule.into()).await };
    Ok(Json(app.detached(handling).await?))
}
