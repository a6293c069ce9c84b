//! The statistics page: the number of records that arrived each day, by verdict, and the share of repeats.

use askama::Template;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

use crate::form::FormFields;
use crate::page::{self, DeskSection, PageFrame, with_query};
use crate::view::chart::{StackPart, stacks};
use crate::view::numbers::count;
use crate::view::row::RowReader;
use crate::visitor::ReadingVisitor;
use crate::words::{GroupsWords, RecordWords, StatisticsWords};
use doppel_core::verdict::VerdictKind;
use doppel_engine::intake::{ByVerdict, Intake, MOST_COUNTED};
use doppel_findings::percent;
use doppel_http::extract::InCollection;
use doppel_http::problem::Problem;
use doppel_http::state::App;
use doppel_service::clock;

/// The offered numbers of days.
const WINDOWS: [u32; 3] = [7, 30, 90];
/// The default number of days.
const FIRST_WINDOW: u32 = 30;

/// The verdicts from the bottom to the top of a column, each with its CSS class.
const KINDS: [(VerdictKind, &str); 4] = [
    (VerdictKind::Original, "first"),
    (VerdictKind::NearDuplicate, "near"),
    (VerdictKind::ExactDuplicate, "exact"),
    (VerdictKind::TooShort, "short"),
];

#[derive(Template)]
#[template(path = "statistics.html")]
struct StatisticsPage {
    frame: PageFrame,
    words: &'static StatisticsWords,
    groups: &'static GroupsWords,
    windows: Vec<(String, String, bool)>,
    partial: Option<String>,
    kinds: Vec<(&'static str, &'static str)>,
    chart: Option<DayChart>,
    days: Vec<DayLine>,
    sum: DayLine,
    own: Vec<(&'static str, String)>,
}

/// The chart.
struct DayChart {
    stacks: Vec<Vec<StackPart>>,
    /// A description of the chart in text.
    title: String,
    most: String,
    first: String,
    last: String,
}

/// A day of the table.
struct DayLine {
    day: String,
    numbers: Vec<String>,
    total: String,
    share: String,
}

/// Shows the statistics.
///
/// # Errors
/// 403; 404 for an unknown collection.
pub async fn show(
    visitor: ReadingVisitor,
    State(app): State<App>,
    InCollection(collection): InCollection,
    uri: Uri,
) -> Result<Response, Problem> {
    let form = FormFields::parse(uri.query().unwrap_or_default().as_bytes())?;
    let days = form.choice("days", |days| days.parse().ok().filter(|days| WINDOWS.contains(days)))?;
    let days = days.unwrap_or(FIRST_WINDOW);
    let found = app.engine.collection(&collection).await?;
    let text = app.engine.text_statistics(&collection).await?;
    let reader = RowReader::of(&found.settings);
    let begins = reader.clock.stretches(clock::timestamp(), days, 1);
    let intake = app.engine.intake(&collection, &begins).await?;
    let words = visitor.words();
    let own = &words.statistics;
    let groups = &words.groups;
    let record = &words.record;
    let dates: Vec<String> = begins.iter().map(|begin| reader.clock.date(*begin)).collect();
    let earliest = intake.earliest.filter(|_| !intake.is_complete);
    let page = StatisticsPage {
        frame: PageFrame::of(&visitor, &collection, DeskSection::Statistics, own.title),
        words: own,
        groups,
        windows: WINDOWS
            .map(|other: u32| {
                let place = page::below(&collection, DeskSection::Statistics.path());
                (with_query(&place, &[("days", &other.to_string())]), (groups.days)(other), other == days)
            })
            .to_vec(),
        partial: earliest.map(|time| (own.partial)(&reader.clock.show(time), &count(MOST_COUNTED))),
        kinds: KINDS.map(|(kind, class)| (class, record.finding.verdict(kind))).to_vec(),
        chart: chart(&intake, &dates, own, record),
        sum: line(own.sum.to_owned(), &sum(&intake.parts)),
        days: dates.into_iter().zip(&intake.parts).rev().map(|(day, part)| line(day, part)).collect(),
        own: vec![
            (own.records, count(found.records)),
            (own.frequent, count(text.entries as u64)),
            (own.sampled, count(u64::from(text.sampled))),
        ],
    };
    page::html(StatusCode::OK, &page)
}

fn number(part: &ByVerdict, kind: VerdictKind) -> u64 {
    match kind {
        VerdictKind::Original => part.original,
        VerdictKind::NearDuplicate => part.near,
        VerdictKind::ExactDuplicate => part.exact,
        VerdictKind::TooShort => part.too_short,
    }
}

fn sum(parts: &[ByVerdict]) -> ByVerdict {
    parts.iter().fold(ByVerdict::default(), |sum, part| ByVerdict {
        original: sum.original + part.original,
        exact: sum.exact + part.exact,
        near: sum.near + part.near,
        too_short: sum.too_short + part.too_short,
    })
}

fn line(day: String, part: &ByVerdict) -> DayLine {
    let total = part.total();
    DayLine {
        day,
        numbers: KINDS.map(|(kind, _)| count(number(part, kind))).to_vec(),
        total: count(total),
        share: if total == 0 { String::new() } else { share_of_duplicates(part) },
    }
}

fn share_of_duplicates(part: &ByVerdict) -> String {
    format!("{}%", percent((part.exact + part.near) as f64 / part.total() as f64))
}

/// Returns `None` if no records arrived.
fn chart(intake: &Intake, dates: &[String], words: &StatisticsWords, record: &RecordWords) -> Option<DayChart> {
    let most = intake.parts.iter().map(ByVerdict::total).max().filter(|most| *most > 0)?;
    let columns: Vec<Vec<(&'static str, u64)>> =
        intake.parts.iter().map(|part| KINDS.map(|(kind, class)| (class, number(part, kind))).to_vec()).collect();
    let sum = sum(&intake.parts);
    let said: Vec<String> = KINDS
        .iter()
        .map(|(kind, _)| format!("{} {}", record.finding.verdict(*kind), count(number(&sum, *kind))))
        .collect();
    Some(DayChart {
        stacks: stacks(&columns),
        title: format!("{}: {}", words.intake, said.join(", ")),
        most: count(most),
        first: dates.first().cloned().unwrap_or_default(),
        last: dates.last().cloned().unwrap_or_default(),
    })
}
