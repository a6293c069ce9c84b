//! The list of the events of a collection. Without its form it is also the report of a period, for printing.

use askama::Template;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

use crate::filled_form::filled_form;
use crate::form::FormFields;
use crate::page::{self, DeskSection, PageFrame, with_query};
use crate::pages::pair::PageContext;
use crate::view::event::EventLine;
use crate::view::numbers::count;
use crate::visitor::PageVisitor;
use crate::words::{EventsWords, RecordWords};
use doppel_core::collection::CollectionName;
use doppel_core::events::{FrequencyRule, FrequencyState};
use doppel_engine::Error;
use doppel_engine::events::handling::HandlingStatus;
use doppel_engine::events::{EventCursor, EventOrder, EventPage, EventSelection};
use doppel_http::problem::Problem;
use doppel_http::query::read_filled;
use doppel_http::routes::events::{EventListParams, RuleParams, cursor_after};
use doppel_service::clock;

/// Number of events on a page: more than most offices have in a week, so that the report of a week is one page.
const PER_PAGE: usize = 100;
/// The part of the collection with the page.
const PAGE: &str = "events";
/// The periods of the links to frequent events, in days.
const PERIODS: [u32; 2] = [7, 30];
#[derive(Template)]
#[template(path = "events.html")]
struct EventsPage {
    frame: PageFrame,
    words: &'static EventsWords,
    asked: EventsForm,
    usual: FrequencyRule,
    lists: Vec<(String, String, bool)>,
    states: Vec<(&'static str, &'static str)>,
    statuses: Vec<(&'static str, &'static str)>,
    orders: Vec<(&'static str, &'static str)>,
    /// The filled-in filters with their labels. They replace the form on paper.
    conditions: Vec<(&'static str, String)>,
    /// The path of the list as a workbook.
    export: String,
    record: &'static RecordWords,
    problem: Option<String>,
    found: Option<ShownEvents>,
}

filled_form! {
    /// The values of the form of the list.
    EventsForm { state, status, order, reports, days, from, to, place, category }
}

impl EventsForm {
    /// Returns the filters that have a value, with their labels.
    fn conditions(&self, words: &EventsWords) -> Vec<(&'static str, String)> {
        let state = FrequencyState::NAMES.iter().find(|(_, value)| *value == self.state);
        let status = HandlingStatus::NAMES.iter().find(|(_, value)| *value == self.status);
        let filters = [
            (words.status, status.map_or("", |(status, _)| (words.status_of)(*status))),
            (words.state, state.map_or("", |(state, _)| (words.state_of)(*state))),
            (words.from, &self.from),
            (words.to, &self.to),
            (words.place, &self.place),
            (words.category, &self.category),
        ];
        let given = filters.into_iter().filter(|(_, value)| !value.is_empty());
        given.map(|(label, value)| (label, value.to_owned())).collect()
    }
}

/// A part of the list.
struct ShownEvents {
    total: String,
    left_out: Option<String>,
    events: Vec<EventLine>,
    next: Option<String>,
    first: Option<String>,
}

/// The page that replaces an empty list of events.
#[derive(Template)]
#[template(path = "no_events.html")]
struct NoEventsPage {
    frame: PageFrame,
    words: &'static EventsWords,
    message: String,
    /// Number of records that were read, and of all records, while the events are being found.
    progress: Option<(u64, u64)>,
}

/// Shows the list.
///
/// # Errors
/// 403; 404 for an unknown collection. The page shows errors in the form.
pub async fn show(context: PageContext, uri: Uri) -> Result<Response, Problem> {
    let PageContext { app, visitor, collection, .. } = &context;
    let query = uri.query().unwrap_or_default();
    let form = FormFields::parse(query.as_bytes())?;
    let asked = EventsForm::of(&form);
    match selected(&context, query).await {
        Ok((selection, after)) => {
            let rule = selection.rule;
            match app.engine.events(collection, selection, after, PER_PAGE).await {
                Ok(found) => {
                    let shown = shown(&context, &asked, rule, found).await?;
                    page::html(StatusCode::OK, &events_page(&context, asked, None, Some(shown)))
                }
                Err(error) => no_events(visitor, collection, error),
            }
        }
        Err(problem) => {
            let said = told(visitor, &problem);
            page::html(problem.status(), &events_page(&context, asked, Some(said), None))
        }
    }
}

/// Returns the selection of a query, and the position at which the list continues.
///
/// # Errors
/// 404 for an unknown collection; 422 for values that cannot be read.
pub async fn selected(context: &PageContext, query: &str) -> Result<(EventSelection, Option<EventCursor>), Problem> {
    let (params, rule): (EventListParams, RuleParams) = read_filled(query)?;
    Ok((params.selection(&context.app, &context.collection, rule).await?, params.cursor))
}

/// Shows that the events are not found yet, or that the collection keeps no text.
///
/// # Errors
/// The problem of another error.
pub fn no_events(visitor: &PageVisitor, collection: &CollectionName, error: Error) -> Result<Response, Problem> {
    let words = &visitor.words().events;
    let frame = PageFrame::of(visitor, collection, DeskSection::Events, words.title);
    match (no_events_text(words, &error), error) {
        (Some(message), Error::EventsNotReady { done, all, .. }) => waiting(frame, message, done, all),
        (Some(message), _) => page::html(StatusCode::OK, &NoEventsPage { frame, words, message, progress: None }),
        (None, error) => Err(error.into()),
    }
}

/// Returns the text for an error that explains why the collection has no events; `None` for other errors.
pub fn no_events_text(words: &EventsWords, error: &Error) -> Option<String> {
    match error {
        Error::EventsNotReady { done, all, .. } => Some((words.not_ready)(&count(*done), &count(*all))),
        Error::TextNotKept(..) => Some(words.no_text.to_owned()),
        _ => None,
    }
}

/// Shows that the records of a collection are being read: `done` of `all`. The page tries again by itself.
///
/// # Errors
/// 500 if the template fails, which is a bug.
pub fn waiting(frame: PageFrame, message: String, done: u64, all: u64) -> Result<Response, Problem> {
    let words = &frame.words().events;
    let page = NoEventsPage { frame, words, message, progress: Some((done, all)) };
    page::html(StatusCode::SERVICE_UNAVAILABLE, &page)
}

fn events_page(
    context: &PageContext,
    asked: EventsForm,
    problem: Option<String>,
    found: Option<ShownEvents>,
) -> EventsPage {
    let words = &context.visitor.words().events;
    EventsPage {
        frame: PageFrame::of(&context.visitor, &context.collection, DeskSection::Events, words.title),
        words,
        usual: FrequencyRule::default(),
        lists: lists(context, &asked),
        states: FrequencyState::NAMES.map(|(state, value)| (value, (words.state_of)(state))).to_vec(),
        statuses: HandlingStatus::NAMES.map(|(status, value)| (value, (words.status_of)(status))).to_vec(),
        orders: EventOrder::NAMES.map(|(order, value)| (value, (words.order_of)(order))).to_vec(),
        conditions: asked.conditions(words),
        export: asked.href(&context.collection, "events.xlsx", ""),
        record: &context.visitor.words().record,
        asked,
        problem,
        found,
    }
}

/// Returns the links to usual lists: path, name, and true if this page is the list.
fn lists(context: &PageContext, asked: &EventsForm) -> Vec<(String, String, bool)> {
    let words = &context.visitor.words().events;
    let place = asked.href(&context.collection, PAGE, "");
    let all = EventsForm::default().href(&context.collection, PAGE, "");
    let mut lists = vec![(all, words.all.to_owned())];
    for days in PERIODS {
        let begin = context.reader.clock.stretches(clock::timestamp(), days, days);
        let from = begin.first().map_or_else(String::new, |begin| context.reader.clock.date(*begin));
        let frequent = EventsForm { state: "frequent".to_owned(), from, ..EventsForm::default() };
        lists.push((frequent.href(&context.collection, PAGE, ""), (words.recent)(days)));
    }
    lists.into_iter().map(|(href, name)| (href.clone(), name, href == place)).collect()
}

/// Returns the message for an error in the form, with the names of the wrong fields.
fn told(visitor: &PageVisitor, problem: &Problem) -> String {
    let words = &visitor.words().events;
    let labels = [
        ("?state", words.state),
        ("?order", words.order),
        ("?reports", words.least),
        ("?days", words.days),
        ("?from", words.from),
        ("?to", words.to),
    ];
    page::in_words_with_fields(problem, &visitor.words().problem, &labels)
}

async fn shown(
    context: &PageContext,
    asked: &EventsForm,
    rule: FrequencyRule,
    found: EventPage,
) -> Result<ShownEvents, Problem> {
    let PageContext { visitor, collection, reader, .. } = context;
    let words = visitor.words();
    let EventPage { items, next, total, left_out, .. } = found;
    let unnamed = items.iter().filter(|event| event.name.is_empty()).map(|event| &event.id);
    let facts = context.facts(unnamed).await?;
    let lines = items.iter().map(|event| {
        let title = facts.get(&event.id).map(|facts| facts.title.as_str());
        EventLine::new(words, collection, &reader.clock, rule, event, title)
    });
    Ok(ShownEvents {
        total: (words.events.total)(&count(total as u64), rule.reports, rule.days),
        left_out: (left_out > 0).then(|| (words.events.left_out)(&count(left_out))),
        events: lines.collect(),
        next: next.map(|next| asked.href(collection, PAGE, &cursor_after(next))),
        first: (!asked.cursor.is_empty()).then(|| asked.href(collection, PAGE, "")),
    })
}
