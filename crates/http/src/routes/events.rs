//! Events: the records about one real-world problem, even if their words differ.

#![expect(unused_qualifications, reason = "written by utoipa's macro around parameter structs")]

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::auth::Reader;
use crate::cursor::CursorList;
use crate::extract::{InCollection, InRecord};
use crate::problem::Problem;
use crate::query::{CheckedParameters, QueryParameters, QueryReader};
use crate::routes::rows::RowParams;
use crate::routes::window;
use crate::state::App;
use doppel_core::collection::CollectionName;
use doppel_core::events::{FrequencyRule, FrequencyState};
use doppel_core::record::RecordId;
use doppel_engine::events::handling::HandlingStatus;
use doppel_engine::events::{EventCursor, EventDetail, EventOrder, EventPage, EventSelection, EventView};
use doppel_store::Seq;

/// The default and the largest number of events in one answer.
const LIST_LIMITS: (u64, u64) = (20, 200);
/// The largest number of reports and of days in a rule.
const MOST_REPORTS: u64 = 100_000;
const MOST_DAYS: u64 = 366;

/// The rule for frequent events.
#[derive(Clone, Copy, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RuleParams {
    /// Number of reports that make an event frequent: at least this many within `days` consecutive days. The default is 3.
    #[param(value_type = Option<u32>, minimum = 2, maximum = 100000)]
    pub reports: usize,
    /// Number of consecutive days, in the time zone of the collection. The default is 3.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 366)]
    pub days: u32,
}

impl QueryParameters for RuleParams {
    fn read(query: &mut QueryReader) -> Self {
        let usual = FrequencyRule::default();
        let reports = query.number("reports", 2, MOST_REPORTS).map_or(usual.reports, |reports| reports as usize);
        let days = query.number("days", 1, MOST_DAYS).map_or(usual.days, |days| days as u32);
        Self { reports, days }
    }
}

impl From<RuleParams> for FrequencyRule {
    fn from(RuleParams { reports, days }: RuleParams) -> Self {
        Self { reports, days }
    }
}

/// The events to list, and their order.
#[derive(Clone, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct EventListParams {
    /// `frequent`: frequent events first, ordered by the number of reports in their window. `size`: events with the most reports first. `recent`:
    /// events with the latest report first. The default is `frequent`.
    #[param(value_type = Option<String>, pattern = "^(frequent|size|recent)$")]
    pub order: EventOrder,
    /// Only events with this result of the frequency test.
    #[param(value_type = Option<FrequencyState>)]
    pub state: Option<FrequencyState>,
    /// Only events whose handling has this status. An event without handling has the status `open`.
    #[param(value_type = Option<HandlingStatus>)]
    pub status: Option<HandlingStatus>,
    /// Only events with at least this many reports. The default is 1, which includes events with one report that other records cite.
    #[param(value_type = Option<u32>, minimum = 1)]
    pub min_reports: usize,
    /// Only events with a report at this time or later. The time is in RFC 3339, or a local time such as `2024-03-01` in the time zone of the
    /// collection.
    #[param(value_type = Option<String>)]
    pub from: Option<String>,
    /// Only events with a report before this time, in the same forms as `from`.
    #[param(value_type = Option<String>)]
    pub to: Option<String>,
    /// Only events with a record that contains this place name.
    #[param(value_type = Option<String>)]
    pub place: Option<String>,
    /// Only events whose most frequent category is this one.
    #[param(value_type = Option<String>)]
    pub category: Option<String>,
    /// Largest number of events in the response, 1 to 200. The default is 20.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 200)]
    pub limit: usize,
    /// The `next` of an earlier response with the same other parameters, to continue there.
    #[param(value_type = Option<String>)]
    pub cursor: Option<EventCursor>,
}

impl QueryParameters for EventListParams {
    fn read(query: &mut QueryReader) -> Self {
        Self {
            order: query.choice("order", &EventOrder::NAMES).unwrap_or_default(),
            state: query.choice("state", &FrequencyState::NAMES),
            status: query.choice("status", &HandlingStatus::NAMES),
            min_reports: query.number("min_reports", 1, u64::from(u32::MAX)).unwrap_or(1) as usize,
            from: query.take("from"),
            to: query.take("to"),
            place: query.take("place").filter(|place| !place.trim().is_empty()),
            category: query.take("category").filter(|category| !category.trim().is_empty()),
            limit: query.number("limit", 1, LIST_LIMITS.1).unwrap_or(LIST_LIMITS.0) as usize,
            cursor: query
                .cursor(|text| CursorList::Events.decode(text))
                .map(|[rank, first]| EventCursor { rank, first: Seq(first) }),
        }
    }
}

/// One page of the list of events.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EventList {
    /// The events.
    pub items: Vec<EventView>,
    /// The value of `cursor` for the next page; `null` on the last page.
    pub next: Option<String>,
    /// Number of all events that meet the conditions.
    pub total: usize,
    /// The number of the last change that the events contain.
    #[schema(value_type = u64)]
    pub as_of: Seq,
    /// Number of records that are in no event because the service keeps at most `limits.max_event_records` records in memory. Only the latest
    /// records are compared.
    pub left_out: u64,
}

impl EventListParams {
    /// Returns the selection of these parameters.
    ///
    /// # Errors
    /// 404 for an unknown collection; 422 for a time that cannot be read.
    pub async fn selection(
        &self,
        app: &App,
        collection: &CollectionName,
        rule: RuleParams,
    ) -> Result<EventSelection, Problem> {
        Ok(EventSelection {
            order: self.order,
            rule: rule.into(),
            frequency: self.state,
            status: self.status,
            min_reports: self.min_reports,
            window: window(app, collection, self.from.as_deref(), self.to.as_deref()).await?,
            place: self.place.clone(),
            category: self.category.clone(),
        })
    }
}

/// Returns the `cursor` that continues a list after `after`.
pub fn cursor_after(after: EventCursor) -> String {
    CursorList::Events.encode([after.rank, after.first.0])
}

/// List the events of a collection
///
/// An event is a set of records about one real-world problem. They concern the same object and the same kind of problem, and do not contradict each
/// other; the petitioners and the words may differ. An event contains whole groups of duplicates, unless a person has separated their members. A
/// record that cites the number of another record of its event does not count as a report. The events contain every record that was registered
/// before the request, unless reading the new changes takes more than two seconds: `as_of` is the number of the last change that they contain.
///
/// The first request after a start reads all records of the collection. It waits at most five seconds. If more time is needed, the response is 503
/// `events_not_ready` with the progress, and the service continues to read the records.
#[utoipa::path(get, path = "/v1/collections/{collection}/events", operation_id = "listEvents", tag = "events",
    params(("collection" = CollectionName, Path), EventListParams, RuleParams, RowParams),
    responses((status = 200, description = "one page of the list", body = EventList),
        (status = 409, description = "`text_not_kept`: the collection stores no text"),
        (status = 503, description = "`events_not_ready`: the service is still reading the records; repeat the request after `Retry-After`")))]
pub async fn list(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    CheckedParameters((params, rule, rows)): CheckedParameters<(EventListParams, RuleParams, RowParams)>,
) -> Result<Json<EventList>, Problem> {
    let selection = params.selection(&app, &collection, rule).await?;
    let page = app.engine.events(&collection, selection, params.cursor, params.limit).await?;
    let EventPage { mut items, next, total, as_of, left_out } = page;
    rows.show(&app, &collection, &mut items, |event| (&event.id, &mut event.row)).await?;
    Ok(Json(EventList { items, next: next.map(cursor_after), total, as_of, left_out }))
}

/// Read the event of a record
///
/// The response contains the strongest link of each member with another member, the values on which the members agree or contradict each other
/// (`facts`), and the kinds of places that no member names (`unknown`).
#[utoipa::path(get, path = "/v1/collections/{collection}/events/{id}", operation_id = "getEvent", tag = "events",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "id of any record of the event"), RuleParams, RowParams),
    responses((status = 200, description = "the event with its members", body = EventDetail),
        (status = 404, description = "`no_event`: no other record reports the same problem"),
        (status = 409, description = "`text_not_kept`: the collection stores no text"),
        (status = 503, description = "`events_not_ready`: the service is still reading the records; repeat the request after `Retry-After`")))]
pub async fn get(
    _: Reader,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    CheckedParameters((rule, rows)): CheckedParameters<(RuleParams, RowParams)>,
) -> Result<Json<EventDetail>, Problem> {
    let mut event = app.engine.event_of(&collection, &id, rule.into()).await?;
    if let Some(columns) = rows.columns() {
        let ids: Vec<RecordId> = event.members.iter().map(|member| member.id.clone()).collect();
        event.rows = Some(app.engine.rows(&collection, &ids, &columns).await?);
    }
    Ok(Json(event))
}
