//! The report of a week or month: records, repeats, frequent events, places, progress and decisions. It is made for
//! paper, and it can be saved as a workbook.

use askama::Template;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use jiff::civil::Date;

use crate::form::FormFields;
use crate::page::{self, DeskSection, PageFrame, with_query};
use crate::pages::events::{no_events_text, waiting};
use crate::pages::pair::PageContext;
use crate::pages::statistics::{chosen_time, time_choices, time_value};
use crate::view::counts::{CountsView, share};
use crate::view::event::EventLine;
use crate::view::numbers::count;
use crate::view::period::{DayPeriod, ReportKind};
use crate::words::{DeskWords, EventsWords, ReportWords, StatisticsWords};
use doppel_core::collection::CollectionName;
use doppel_core::events::FrequencyRule;
use doppel_engine::Error;
use doppel_engine::events::PeriodEvents;
use doppel_engine::period_counts::{
    CountedTime, CountsAnswer, JudgementCounts, PeriodCounts, PeriodQuestion, RecordTally,
};
use doppel_http::problem::Problem;
use doppel_service::clock;

/// Largest number of values, events and places that the page lists.
const MOST_ON_PAGE: usize = 20;

/// The path of a report below the path of its collection.
const PATH: &str = "report";

#[derive(Template)]
#[template(path = "report.html")]
struct ReportPage {
    frame: PageFrame,
    words: &'static ReportWords,
    statistics: &'static StatisticsWords,
    events_words: &'static EventsWords,
    /// The action of the form.
    action: String,
    kind: &'static str,
    date: String,
    links: Vec<(String, &'static str)>,
    times: Vec<(&'static str, &'static str, bool)>,
    hint: &'static str,
    export: String,
    report: PeriodReport,
}

pub struct PeriodReport {
    /// The most important numbers.
    pub summary: Vec<SummaryLine>,
    pub view: CountsView,
    /// The frequent events and the places, or the reason why the report has none.
    pub found: Result<ReportEvents, MissingEvents>,
}

/// The reason why a report has no events.
pub struct MissingEvents {
    /// The text for the reader.
    pub message: String,
    /// The error: the events are still being found, or the collection keeps no text.
    pub error: Error,
}

/// An important number of a report.
pub struct SummaryLine {
    pub label: &'static str,
    pub number: u64,
    /// The number of which it is a part, if its share is shown.
    pub of: Option<u64>,
}

impl SummaryLine {
    /// Returns the number, with its share.
    pub fn shown(&self) -> String {
        match self.of.filter(|of| *of > 0) {
            Some(of) => format!("{} ({})", count(self.number), share(self.number, of)),
            None => count(self.number),
        }
    }
}

/// The frequent events and the places of a report.
pub struct ReportEvents {
    /// The rule for frequent events.
    pub hint: String,
    /// The events by their number of reports in the period, the largest first.
    pub events: Vec<ReportEvent>,
    /// Note that there are more events.
    pub more: Option<String>,
    /// Note that early records are not compared.
    pub left_out: Option<String>,
    /// The places by the number of records that name them, the largest first.
    pub places: Vec<ReportPlace>,
}

/// A frequent event of a report.
pub struct ReportEvent {
    /// The description of the event.
    pub line: EventLine,
    /// Number of its reports in the period.
    pub in_period: u64,
    pub reports: u64,
    /// Number of its petitioners.
    pub people: u64,
}

impl ReportEvent {
    /// Returns the number of its reports in the period.
    pub fn shown_in_period(&self) -> String {
        count(self.in_period)
    }
}

pub struct ReportPlace {
    /// The path of the events of the period at the place.
    pub href: String,
    pub name: String,
    /// Number of records of the period that name the place.
    pub records: u64,
}

impl ReportPlace {
    /// Returns the number of records that name the place.
    pub fn shown_records(&self) -> String {
        count(self.records)
    }
}

/// The parameters of a report.
#[derive(Clone, Copy)]
pub struct ReportRequest {
    pub kind: ReportKind,
    pub period: DayPeriod,
    by: Option<CountedTime>,
}

fn known_day(text: &str) -> Option<Date> {
    let day = text.parse().ok()?;
    DayPeriod::new(day, day).map(|period| period.first)
}

impl ReportRequest {
    /// Reads the parameters of a report. Without a date, the period contains `today`.
    ///
    /// # Errors
    /// 422 for an unknown choice, or for a date that cannot be read.
    fn of(form: &FormFields, today: Date) -> Result<Self, Problem> {
        let kind = form.choice("period", &ReportKind::NAMES)?.unwrap_or_default();
        let day = form.parsed("date", "give a date such as 2024-03-01", known_day)?.unwrap_or(today);
        Ok(Self { kind, period: kind.period(day), by: chosen_time(form)? })
    }

    /// Returns the same request for another period.
    fn of_kind(self, kind: ReportKind, day: Date) -> Self {
        Self { kind, period: kind.period(day), ..self }
    }

    /// Returns the URL of the report at a path below the path of its collection.
    fn href(self, collection: &CollectionName, path: &str) -> String {
        let date = self.period.first.to_string();
        let parameters =
            [("period", self.kind.value()), ("date", date.as_str()), ("by", self.by.map_or("", time_value))];
        with_query(&page::below(collection, path), &parameters)
    }

    fn question(&self, period: DayPeriod, most_values: usize) -> PeriodQuestion {
        PeriodQuestion { by: self.by, begins: period.begins(), end: period.end(), most_values }
    }
}

/// A report that is ready, or the page that is shown until then.
pub enum ReportAnswer {
    Ready(Box<PeriodReport>, CountedTime),
    /// The page.
    Waiting(Response),
}

impl PageContext {
    /// Makes the report that a URL asks for, with at most `most` values, events and places.
    ///
    /// # Errors
    /// 404 if the collection does not exist any more; 422 for an unknown choice or date.
    pub async fn report(&self, uri: &Uri, most: usize) -> Result<(ReportRequest, ReportAnswer), Problem> {
        let form = FormFields::of_query(uri)?;
        let asked = ReportRequest::of(&form, self.reader.clock.day(clock::timestamp()))?;
        Ok((asked, self.report_of(asked, most).await?))
    }

    async fn report_of(&self, asked: ReportRequest, most: usize) -> Result<ReportAnswer, Problem> {
        let engine = &self.app.engine;
        let words = self.visitor.words();
        let period = asked.period;
        let counts = match engine.period_counts(&self.collection, asked.question(period, most)).await? {
            CountsAnswer::Counted(counts) => counts,
            CountsAnswer::Reading(done, all) => {
                let title = (words.report.title_of)(asked.kind);
                let frame = PageFrame::of(&self.visitor, &self.collection, DeskSection::Statistics, title);
                let message = (words.statistics.reading)(&count(done), &count(all));
                return Ok(ReportAnswer::Waiting(waiting(frame, message, done, all)?));
            }
        };
        let before = asked.kind.period(period.day_before());
        let before = match engine.period_counts(&self.collection, asked.question(before, 0)).await? {
            CountsAnswer::Counted(before) => Some(RecordTally::sum(&before.parts)),
            CountsAnswer::Reading(..) => None,
        };
        let window = period.window(&self.reader.clock);
        let decisions = engine.decision_counts(&self.collection, window).await?;
        let rule = FrequencyRule::default();
        let found = match engine.period_events(&self.collection, window, rule, most).await {
            Ok(found) => Ok(self.report_events(found, rule, period).await?),
            Err(error) => match no_events_text(&words.events, &error) {
                Some(message) => Err(MissingEvents { message, error }),
                None => return Err(error.into()),
            },
        };
        let mut view = CountsView::new(words, period, &counts);
        view.latest = period.earlier_day(counts.span).map(|last| {
            let latest = asked.of_kind(asked.kind, last);
            (latest.href(&self.collection, PATH), (words.statistics.latest)(&last.to_string()))
        });
        let report = PeriodReport { summary: summary(words, &counts, before, decisions), view, found };
        Ok(ReportAnswer::Ready(Box::new(report), counts.by))
    }

    async fn report_events(
        &self,
        found: PeriodEvents,
        rule: FrequencyRule,
        period: DayPeriod,
    ) -> Result<ReportEvents, Problem> {
        let words = self.visitor.words();
        let unnamed = found.events.iter().filter(|(event, _)| event.name.is_empty()).map(|(event, _)| &event.id);
        let facts = self.facts(unnamed.collect::<Vec<_>>()).await?;
        let events = found.events.iter().map(|(event, reports)| {
            let title = facts.get(&event.id).map(|facts| facts.title.as_str());
            ReportEvent {
                line: EventLine::new(words, &self.collection, &self.reader.clock, rule, event, title),
                in_period: *reports as u64,
                reports: event.reports as u64,
                people: event.petitioners as u64,
            }
        });
        let path = page::below(&self.collection, DeskSection::Events.path());
        let places = found.places.into_iter().map(|(name, records)| {
            let dates = [period.first, period.end()].map(|day| day.to_string());
            let href = with_query(&path, &[("place", &name), ("from", &dates[0]), ("to", &dates[1])]);
            ReportPlace { href, name, records: records as u64 }
        });
        let more = found.total - found.events.len();
        Ok(ReportEvents {
            hint: (words.report.frequent_hint)(rule.reports, rule.days),
            events: events.collect(),
            more: (more > 0).then(|| (words.report.more_events)(more)),
            left_out: (found.left_out > 0).then(|| (words.events.left_out)(&count(found.left_out))),
            places: places.collect(),
        })
    }
}

fn summary(
    words: &DeskWords,
    counts: &PeriodCounts,
    before: Option<RecordTally>,
    decisions: Option<JudgementCounts>,
) -> Vec<SummaryLine> {
    let own = &words.report;
    let sum = RecordTally::sum(&counts.parts);
    let total = sum.total();
    let mut summary = vec![
        SummaryLine { label: own.received, number: total, of: None },
        SummaryLine { label: words.statistics.repeats, number: sum.repeats(), of: Some(total) },
    ];
    if sum.replied > 0 {
        summary.push(SummaryLine { label: words.statistics.replied, number: sum.replied, of: Some(total) });
    }
    let before = before.map(|before| SummaryLine { label: own.before, number: before.total(), of: None });
    summary.extend(before);
    if let Some(JudgementCounts { same, same_event, not_same }) = decisions {
        let made = [(own.same, same), (own.same_event, same_event), (own.not_same, not_same)];
        summary.extend(made.map(|(label, number)| SummaryLine { label, number, of: None }));
    }
    summary
}

/// Shows the report.
///
/// # Errors
/// 403; 404 for an unknown collection; 422 for an unknown choice or date.
pub async fn show(context: PageContext, uri: Uri) -> Result<Response, Problem> {
    let (asked, answer) = context.report(&uri, MOST_ON_PAGE).await?;
    let (report, by) = match answer {
        ReportAnswer::Ready(report, by) => (report, by),
        ReportAnswer::Waiting(page) => return Ok(page),
    };
    let PageContext { visitor, collection, .. } = &context;
    let words = visitor.words();
    let own = &words.report;
    let ReportRequest { kind, period, .. } = asked;
    let days = (own.days)(&period.first.to_string(), &period.last.to_string());
    let other = if kind == ReportKind::Week { ReportKind::Month } else { ReportKind::Week };
    let links = [
        (asked.of_kind(kind, period.day_before()), (own.previous)(kind)),
        (asked.of_kind(kind, period.end()), (own.next)(kind)),
        (asked.of_kind(other, period.last), (own.title_of)(other)),
    ];
    let page = ReportPage {
        frame: PageFrame::of(visitor, collection, DeskSection::Statistics, format!("{} {days}", (own.title_of)(kind))),
        words: own,
        statistics: &words.statistics,
        events_words: &words.events,
        action: page::below(collection, PATH),
        kind: kind.value(),
        date: period.first.to_string(),
        links: links.map(|(link, name)| (link.href(collection, PATH), name)).to_vec(),
        times: time_choices(&words.statistics, by),
        hint: (words.statistics.hint_of)(by),
        export: asked.href(collection, "report.xlsx"),
        report: *report,
    };
    page::html(StatusCode::OK, &page)
}
