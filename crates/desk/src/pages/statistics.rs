//! The statistics page: the records of a period by day or month, by verdict and by the values of the office's own fields, and the shares of
//! repeats.

use askama::Template;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use jiff::civil::Date;

use crate::form::{FormFields, name_of};
use crate::page::{self, DeskSection, PageFrame, with_query};
use crate::pages::events::waiting;
use crate::view::counts::CountsView;
use crate::view::numbers::count;
use crate::view::period::{DayPeriod, MOST_YEARS};
use crate::view::row::RowReader;
use crate::visitor::ReadingVisitor;
use crate::words::StatisticsWords;
use doppel_core::collection::CollectionName;
use doppel_engine::period_counts::{CountedTime, CountsAnswer, PeriodQuestion};
use doppel_http::extract::InCollection;
use doppel_http::problem::Problem;
use doppel_http::state::App;
use doppel_service::clock;

/// The offered numbers of days.
const WINDOWS: [u32; 3] = [7, 30, 90];
/// The default number of days.
const FIRST_WINDOW: u32 = 30;
/// Largest number of values of a table.
const MOST_VALUES: usize = 50;
/// The times by which records are counted, and their names in queries.
const TIMES: [(CountedTime, &str); 2] = [(CountedTime::Own, "time"), (CountedTime::Receipt, "receipt")];

#[derive(Template)]
#[template(path = "statistics.html")]
struct StatisticsPage {
    frame: PageFrame,
    words: &'static StatisticsWords,
    windows_label: &'static str,
    windows: Vec<(String, String, bool)>,
    times: Vec<(&'static str, &'static str, bool)>,
    hint: &'static str,
    from: String,
    to: String,
    problem: Option<String>,
    report: String,
    view: CountsView,
    own: Vec<(&'static str, String)>,
}

/// Returns the choice of the time by which records are counted.
///
/// # Errors
/// 422 for an unknown choice.
pub fn chosen_time(form: &FormFields) -> Result<Option<CountedTime>, Problem> {
    form.choice("by", &TIMES)
}

/// Returns the choices of the time by which records are counted: value, name, and true if it is chosen.
pub fn time_choices(words: &StatisticsWords, chosen: CountedTime) -> Vec<(&'static str, &'static str, bool)> {
    TIMES.map(|(time, value)| (value, (words.time_of)(time), time == chosen)).to_vec()
}

/// Returns the name of a time in a query.
pub fn time_value(time: CountedTime) -> &'static str {
    name_of(&TIMES, time)
}

/// Shows the statistics.
///
/// # Errors
/// 403; 404 for an unknown collection; 422 for an unknown choice. The page shows errors in the dates.
pub async fn show(
    visitor: ReadingVisitor,
    State(app): State<App>,
    InCollection(collection): InCollection,
    uri: Uri,
) -> Result<Response, Problem> {
    let form = FormFields::of_query(&uri)?;
    let days = form.choice("days", &WINDOWS.map(|days| (days, days)))?;
    let asked_time = chosen_time(&form)?;
    let found = app.engine.collection(&collection).await?;
    let clock = RowReader::of(&found.settings).clock;
    let today = clock.day(clock::timestamp());
    let asked = asked_period(&form, days, today);
    let period = asked.unwrap_or(DayPeriod::ending(today, FIRST_WINDOW));
    let words = visitor.words();
    let own = &words.statistics;
    let question =
        PeriodQuestion { by: asked_time, begins: period.begins(), end: period.end(), most_values: MOST_VALUES };
    let counts = match app.engine.period_counts(&collection, question).await? {
        CountsAnswer::Counted(counts) => counts,
        CountsAnswer::Reading(done, all) => {
            let frame = PageFrame::of(&visitor, &collection, DeskSection::Statistics, own.title);
            return waiting(frame, (own.reading)(&count(done), &count(all)), done, all);
        }
    };
    let text = app.engine.text_statistics(&collection).await?;
    let by = asked_time.map_or("", time_value);
    let place = page::below(&collection, DeskSection::Statistics.path());
    let mut view = CountsView::new(words, period, &counts);
    view.latest = period.earlier_day(counts.span).map(|last| {
        let last = last.to_string();
        (with_query(&place, &[("by", by), ("to", &last)]), (own.latest)(&last))
    });
    let page = StatisticsPage {
        frame: PageFrame::of(&visitor, &collection, DeskSection::Statistics, own.title),
        words: own,
        windows_label: words.groups.window,
        windows: windows(&place, by, period, today, words.groups.days),
        times: time_choices(own, counts.by),
        hint: (own.hint_of)(counts.by),
        from: asked.map_or_else(|| form.owned("from"), |period| period.first.to_string()),
        to: asked.map_or_else(|| form.owned("to"), |period| period.last.to_string()),
        problem: asked.is_none().then(|| (own.wrong_period)(MOST_YEARS)),
        report: report_path(&collection, by, &form, period),
        view,
        own: vec![
            (own.records, count(found.records)),
            (own.frequent, count(text.entries as u64)),
            (own.sampled, count(u64::from(text.sampled))),
        ],
    };
    page::html(if asked.is_none() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK }, &page)
}

/// Returns the period of a form; `None` if its dates are wrong.
fn asked_period(form: &FormFields, days: Option<u32>, today: Date) -> Option<DayPeriod> {
    let last = match form.text("to") {
        Some(to) => to.parse().ok()?,
        None => today,
    };
    match form.text("from") {
        Some(from) => DayPeriod::new(from.parse().ok()?, last),
        None => {
            let period = DayPeriod::ending(last, days.unwrap_or(FIRST_WINDOW));
            DayPeriod::new(period.first, period.last)
        }
    }
}

/// Returns the links to the usual periods: path, name, and true if this page shows the period.
fn windows(
    place: &str,
    by: &str,
    period: DayPeriod,
    today: Date,
    name: fn(u32) -> String,
) -> Vec<(String, String, bool)> {
    let links = WINDOWS.map(|days: u32| {
        let href = with_query(place, &[("by", by), ("days", &days.to_string())]);
        (href, name(days), period == DayPeriod::ending(today, days))
    });
    links.to_vec()
}

/// Returns the path of the report of the week in which the chosen period ends.
fn report_path(collection: &CollectionName, by: &str, form: &FormFields, period: DayPeriod) -> String {
    let last = period.last.to_string();
    let date = if form.text("to").is_some() { last.as_str() } else { "" };
    with_query(&page::below(collection, "report"), &[("by", by), ("date", date)])
}
