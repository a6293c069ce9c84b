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

/// Merge the events of several records
///
/// Give one record of each event. A record without an event counts as an event with one record. doppel makes a `same_event` decision about the
/// first record of the first event and the first record of each further event. A repetition of the request makes no further decisions.
#[utoipa::path(post, path = "/v1/collections/{collection}/events/_merge", operation_id = "mergeEvents", tag = "events",
    params(("collection" = CollectionName, Path), RuleParams),
    request_body = RegroupInput,
    responses((status = 200, description = "the decisions and the resulting event", body = EventRegrouping),
        (status = 409, description = "`rejected_pair`: a person decided that two records of these events are different matters; `not_compared`: a record has no text, or is too old to be kept in memory; `text_not_kept`: the collection stores no text"),
        (status = 503, description = "`events_not_ready`: the service is still reading the records; repeat the request after `Retry-After`")))]
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
/// doppel makes a `not_same` decision about each of `records` and each other member of the event. It makes no decision about two of `records`, so
/// that they can form an event themselves. To remove one record from the event, give only this record.
#[utoipa::path(post, path = "/v1/collections/{collection}/events/{id}/_split", operation_id = "splitEvent", tag = "events",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "id of any record of the event"), RuleParams),
    request_body = RegroupInput,
    responses((status = 200, description = "the decisions and the resulting events", body = EventRegrouping),
        (status = 404, description = "`no_event`: the record is in no event"),
        (status = 409, description = "`too_many_links`: there are more than 1,000 pairs of one of these records and another member; `text_not_kept`: the collection stores no text"),
        (status = 503, description = "`events_not_ready`: the service is still reading the records; repeat the request after `Retry-After`")))]
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
/// doppel makes a `same_event` decision about the first record of the event and each other member, so that they stay together even if new records
/// arrive. A member that duplicates or decisions already connect with the first record needs no decision. One request makes at most 1,000
/// decisions; repeat the request until `decisions` is 0.
#[utoipa::path(post, path = "/v1/collections/{collection}/events/{id}/_confirm", operation_id = "confirmEvent", tag = "events",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "id of any record of the event"), RuleParams),
    request_body = AuthorInput,
    responses((status = 200, description = "the decisions and the event", body = EventRegrouping),
        (status = 404, description = "`no_event`: the record is in no event"),
        (status = 409, description = "`rejected_pair`: a person has decided in the meantime that two members are different matters; `text_not_kept`: the collection stores no text"),
        (status = 503, description = "`events_not_ready`: the service is still reading the records; repeat the request after `Retry-After`")))]
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

/// A step in the handling of an event.
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
/// A step has at least one of status, unit and note. The steps stay with the event when its members change, when the collection is reindexed, and
/// when its first record is deleted. If two events are merged, the new event has the steps of both. A step that equals the last step and follows it
/// within ten minutes counts as a repetition of the request and adds nothing.
#[utoipa::path(post, path = "/v1/collections/{collection}/events/{id}/handling", operation_id = "handleEvent", tag = "events",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "id of any record of the event"), RuleParams),
    request_body = HandlingInput,
    responses((status = 200, description = "the event with its new handling", body = EventView),
        (status = 404, description = "`no_event`: the record is in no event"),
        (status = 409, description = "`too_many_steps`: the event has 1,000 steps, the maximum; `handling_changed`: other requests changed the handling at the same time; `text_not_kept`: the collection stores no text"),
        (status = 503, description = "`events_not_ready`: the service is still reading the records; repeat the request after `Retry-After`")))]
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
