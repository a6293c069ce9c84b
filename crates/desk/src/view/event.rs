//! The description of an event in lists, on its page, and on the pages of its records.

use crate::page::{self, with_query};
use crate::view::numbers::count;
use crate::view::time::ZonedClock;
use crate::words::DeskWords;
use doppel_core::collection::CollectionName;
use doppel_core::events::{FrequencyRule, FrequencyState};
use doppel_engine::events::handling::HandlingStatus;
use doppel_engine::events::{EventView, EventWindow};

/// The description of an event.
#[derive(Clone, Debug)]
pub struct EventLine {
    /// The path of the event's page, with the rule.
    pub href: String,
    /// The name of the event; if it has none, the title of its first member.
    pub name: String,
    /// The most usual category.
    pub category: Option<String>,
    pub reports: String,
    /// Number of petitioners.
    pub people: String,
    /// Number of anonymous records.
    pub anonymous: String,
    /// Date of the first report; empty if no report has a time.
    pub first: String,
    /// Date of the latest report; empty if no report has a time.
    pub last: String,
    /// The CSS class for the colour of the state.
    pub class: &'static str,
    /// The state under the rule.
    pub state: &'static str,
    /// The status of the handling.
    pub status: &'static str,
    /// The unit that handles the event.
    pub unit: Option<String>,
    /// The number of reports in the days with the most reports, and the dates of these days.
    pub window: Option<(String, String)>,
    pub places: String,
}

impl EventLine {
    /// Creates the description of an event of `collection`. `title` is the title of its first member.
    pub fn new(
        words: &DeskWords,
        collection: &CollectionName,
        clock: &ZonedClock,
        rule: FrequencyRule,
        event: &EventView,
        title: Option<&str>,
    ) -> Self {
        let named = [event.name.as_str(), title.unwrap_or_default()].into_iter().find(|name| !name.is_empty());
        Self {
            href: event_path(collection, event, rule),
            name: named.unwrap_or(words.events.unnamed).to_owned(),
            category: event.category.clone(),
            reports: count(event.reports as u64),
            people: count(event.petitioners as u64),
            anonymous: count(event.anonymous as u64),
            first: event.first_time.as_deref().map_or_else(String::new, |time| clock.date_text(time)),
            last: event.last_time.as_deref().map_or_else(String::new, |time| clock.date_text(time)),
            class: match event.frequency {
                FrequencyState::Frequent => "repeat",
                FrequencyState::NotReached => "first",
                FrequencyState::NoDates => "short",
            },
            state: (words.events.state_of)(event.frequency),
            status: (words.events.status_of)(
                event.handling.as_ref().map_or_else(HandlingStatus::default, |handling| handling.status),
            ),
            unit: event.handling.as_ref().and_then(|handling| handling.unit.clone()),
            window: event.window.as_ref().map(|window| window_texts(words, clock, rule, window)),
            places: event.places.join("、"),
        }
    }
}

/// Returns the path of the page of an event. The query contains the rule unless it is the default rule.
fn event_path(collection: &CollectionName, event: &EventView, rule: FrequencyRule) -> String {
    let path = page::event(collection, &event.id);
    let usual = FrequencyRule::default();
    if (rule.reports, rule.days) == (usual.reports, usual.days) {
        return path;
    }
    with_query(&path, &[("reports", &rule.reports.to_string()), ("days", &rule.days.to_string())])
}

fn window_texts(words: &DeskWords, clock: &ZonedClock, rule: FrequencyRule, window: &EventWindow) -> (String, String) {
    let first = clock.date_text(&window.first_time);
    let last = clock.date_text(&window.last_time);
    let dates = if first == last { first } else { (words.group.span)(&first, &last) };
    ((words.events.within)(rule.days, window.reports), dates)
}
