//! The page about quality: it compares decisions of people with the findings, and shows the effect of another threshold. The engine
//! computes all counts.

use askama::Template;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

use crate::form::FormFields;
use crate::page::{self, DeskSection, PageFrame, with_query};
use crate::pages::work_actions;
use crate::view::chart::StackChart;
use crate::view::numbers::count;
use crate::visitor::{AdminVisitor, LeadVisitor, ReadingVisitor};
use crate::words::{QualityWords, WorkDone};
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_engine::quality::{
    BANDS, CollectionQuality, DecisionCounts, DuplicateThreshold, ExamplePair, MOST_DECISIONS, MOST_NUMBERS, WhatIf,
};
use doppel_engine::tasks::{Reindex, Work};
use doppel_findings::percent;
use doppel_http::extract::InCollection;
use doppel_http::problem::Problem;
use doppel_http::state::App;

#[derive(Template)]
#[template(path = "quality.html")]
struct QualityPage {
    frame: PageFrame,
    words: &'static QualityWords,
    place: String,
    partial: Option<String>,
    precision: Option<String>,
    missed: Option<String>,
    decided: Option<StackChart>,
    bands: Vec<BandLine>,
    sum: BandLine,
    recorded: Option<StackChart>,
    recorded_of: String,
    recorded_partial: Option<String>,
    recorded_bands: Vec<(String, String)>,
    threshold: Option<String>,
    is_wrong: bool,
    what_if: Option<TriedThreshold>,
    may_admin: bool,
}

/// A band of probability.
struct BandLine {
    name: String,
    same: String,
    not_same: String,
    share: String,
    interval: String,
}

/// The effect of another threshold.
struct TriedThreshold {
    sentences: Vec<String>,
    lists: Vec<(&'static str, Vec<ExampleLine>)>,
}

/// An example pair.
struct ExampleLine {
    href: String,
    name: String,
    alike: String,
    said: Option<&'static str>,
}

/// Shows the page.
///
/// # Errors
/// 403; 404 for an unknown collection.
pub async fn show(
    visitor: ReadingVisitor,
    _: LeadVisitor,
    State(app): State<App>,
    InCollection(collection): InCollection,
    uri: Uri,
) -> Result<Response, Problem> {
    let form = FormFields::of_query(&uri)?;
    let asked = threshold(&form);
    let is_wrong = form.text("duplicate").is_some() && asked.is_none();
    let found = app.engine.quality(&collection, asked).await?;
    let words = &visitor.words().quality;
    let total: u64 = found.recorded.iter().sum();
    let shown = found.what_if.as_ref().map(|tried| tried.threshold).or(found.threshold);
    let page = QualityPage {
        frame: PageFrame::of(&visitor, &collection, DeskSection::Quality, words.title),
        words,
        place: page::below(&collection, DeskSection::Quality.path()),
        partial: (!found.has_all_decisions).then(|| (words.not_all_decisions)(&count(MOST_DECISIONS as u64))),
        precision: precision(&found.counts.found, words),
        missed: found
            .counts
            .recall_at_most()
            .map(|recall| (words.missed_are)(&count(found.counts.missed.same), &percent(recall).to_string())),
        decided: decided_chart(&found, words),
        bands: found.counts.bands.iter().enumerate().map(|(at, said)| line(band_name(at), said)).collect(),
        sum: line(String::new(), &sum(&found.counts.bands)),
        recorded: recorded_chart(&found.recorded, words),
        recorded_of: (words.recorded_of)(&count(total)),
        recorded_partial: (!found.has_all_recorded).then(|| (words.not_all_recorded)(&count(MOST_NUMBERS))),
        recorded_bands: found.recorded.iter().enumerate().map(|(at, pairs)| (band_name(at), count(*pairs))).collect(),
        threshold: shown.map(|DuplicateThreshold(duplicate)| duplicate.to_string()),
        is_wrong,
        what_if: found.what_if.as_ref().map(|tried| TriedThreshold::new(tried, &collection, words)),
        may_admin: visitor.may_admin(),
    };
    page::html(if is_wrong { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK }, &page)
}

/// Builds a generation with another threshold. The live generation stays live.
///
/// # Errors
/// 403; 404 for an unknown collection; 422 if the threshold is invalid, or if the collection does not verify.
pub async fn try_out(
    _: AdminVisitor,
    State(app): State<App>,
    InCollection(collection): InCollection,
    form: FormFields,
) -> Result<Response, Problem> {
    let asked = threshold(&form).ok_or_else(|| invalid_threshold("give a number from 0 to 1"))?;
    let mut settings = app.engine.settings(&collection).await?;
    let verify = settings.verify.as_ref().ok_or_else(|| invalid_threshold("the collection does not verify"))?;
    settings.verify = Some(asked.over(verify));
    let settings = Some(Box::new(settings));
    let work = Work::Reindex(Reindex {
        settings,
        activate: false,
        keep_previous: true,
        records_per_second: None,
        counts_all: true,
    });
    work_actions::begin(&app, &collection, work, WorkDone::Trying).await
}

fn invalid_threshold(detail: &str) -> Problem {
    Problem::invalid_at("/duplicate", ErrorCode::InvalidValue, detail)
}

/// Returns the threshold of a form; `None` if it is missing or not between 0 and 1.
fn threshold(form: &FormFields) -> Option<DuplicateThreshold> {
    let duplicate: f64 = form.text("duplicate")?.parse().ok()?;
    (0.0..=1.0).contains(&duplicate).then_some(DuplicateThreshold(duplicate))
}

/// Returns the lower edge of a band in per cent.
fn edge(at: usize) -> usize {
    at * 100 / BANDS
}

fn band_name(at: usize) -> String {
    format!("{}–{}%", edge(at), edge(at + 1))
}

fn sum(bands: &[DecisionCounts]) -> DecisionCounts {
    bands.iter().fold(DecisionCounts::default(), |sum, said| DecisionCounts {
        same: sum.same + said.same,
        not_same: sum.not_same + said.not_same,
    })
}

fn precision(found: &DecisionCounts, words: &QualityWords) -> Option<String> {
    let (share, (least, most)) = found.precision()?;
    let [of_100, least, most] = [share, least, most].map(|share| percent(share).to_string());
    Some((words.precision_is)([&count(found.total()), &count(found.same), &of_100, &least, &most]))
}

fn line(name: String, said: &DecisionCounts) -> BandLine {
    let precision = said.precision();
    BandLine {
        name,
        same: count(said.same),
        not_same: count(said.not_same),
        share: precision.map(|(share, _)| percent(share).to_string()).unwrap_or_default(),
        interval: precision
            .map(|(_, (least, most))| format!("{}–{}", percent(least), percent(most)))
            .unwrap_or_default(),
    }
}

fn chart(title: String, columns: &[Vec<(&'static str, u64)>]) -> Option<StackChart> {
    StackChart::new(title, columns, (0..BANDS).map(|at| (at, edge(at).to_string())))
}

/// Returns `None` if there are no decisions.
fn decided_chart(found: &CollectionQuality, words: &QualityWords) -> Option<StackChart> {
    let columns: Vec<_> =
        found.counts.bands.iter().map(|said| vec![("first", said.same), ("near", said.not_same)]).collect();
    let all = sum(&found.counts.bands);
    let said = format!("{} {}, {} {}", words.same, count(all.same), words.not_same, count(all.not_same));
    chart(format!("{}: {said}", words.by_similarity), &columns)
}

/// Returns `None` if there are no findings.
fn recorded_chart(bands: &[u64], words: &QualityWords) -> Option<StackChart> {
    let columns: Vec<_> = bands.iter().map(|pairs| vec![("first", *pairs)]).collect();
    chart(format!("{}: {}", words.recorded, count(bands.iter().sum())), &columns)
}

impl TriedThreshold {
    fn new(tried: &WhatIf, collection: &CollectionName, words: &QualityWords) -> Self {
        let WhatIf { decided, of_decided, recorded, of_recorded, missed_accepted, .. } = tried;
        let [fall, of] = [decided.total(), *of_decided].map(count);
        let [same, not_same] = [decided.same, decided.not_same].map(count);
        Self {
            sentences: vec![
                (words.decided_fall)([&fall, &of, &same, &not_same]),
                (words.recorded_fall)(&count(*recorded), &count(*of_recorded)),
                (words.missed_accepted)(&count(*missed_accepted)),
            ],
            lists: vec![
                (words.falling, example_lines(&tried.falling, collection, words)),
                (words.staying, example_lines(&tried.staying, collection, words)),
            ],
        }
    }
}

fn example_lines(examples: &[ExamplePair], collection: &CollectionName, words: &QualityWords) -> Vec<ExampleLine> {
    let lines = examples.iter().map(|example| ExampleLine {
        href: with_query(&page::case(collection, &example.later), &[("with", example.earlier.as_str())]),
        name: format!("{} · {}", example.later, example.earlier),
        alike: (words.alike)(&percent(example.probability).to_string()),
        said: example.said.map(|same| if same { words.same } else { words.not_same }),
    });
    lines.collect()
}
