//! The search page: it finds records by words and filters, and marks the words in the texts.

use askama::Template;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

use crate::filled_form::filled_form;
use crate::form::FormFields;
use crate::page::{self, DeskSection, PageFrame, with_query};
use crate::pages::pair::PageContext;
use crate::view::VerdictBadge;
use crate::view::csv::RecordTable;
use crate::view::marked::{MarkReason, MarkedPiece, pieces};
use crate::view::numbers::count;
use crate::view::row::RowFacts;
use crate::visitor::PageVisitor;
use crate::words::{RecordWords, SearchWords};
use doppel_core::collection::{CollectionName, Role};
use doppel_engine::Error;
use doppel_engine::answers::RecordView;
use doppel_http::problem::Problem;
use doppel_http::query::read_filled;
use doppel_http::routes::filters::VERDICTS;
use doppel_http::routes::rows::RowParams;
use doppel_http::routes::search::{FieldFragment, FoundList, FoundRecord, SearchParams, find};

/// Largest number of rows of a file.
const MOST_ROWS: usize = 1_000;
/// Number of records that a file reads at once.
const READ_AT_ONCE: usize = 100;
/// The paths of the page and of the file, below the path of the collection.
const PAGE: &str = "search";
const FILE: &str = "search.csv";

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage {
    frame: PageFrame,
    words: &'static SearchWords,
    record: &'static RecordWords,
    asked: FilledForm,
    has_category: bool,
    has_status: bool,
    has_unit: bool,
    has_identity: bool,
    verdicts: Vec<(&'static str, &'static str)>,
    problem: Option<String>,
    found: Option<SearchResults>,
}

filled_form! {
    /// The values of the form of the search.
    FilledForm { q, from, to, identity, category, status, unit, verdict, order }
}

struct SearchResults {
    total: String,
    behind: Option<String>,
    ignored: Option<String>,
    records: Vec<SearchLine>,
    next: Option<String>,
    first: Option<String>,
    /// The path of the file with the result.
    file: String,
}

/// A record of the result.
struct SearchLine {
    href: String,
    id: String,
    badge: VerdictBadge,
    facts: RowFacts,
    same_petitioner: Option<String>,
    fragments: Vec<ShownFragment>,
}

/// A piece of a text with marked words.
struct ShownFragment {
    field: String,
    is_cut: bool,
    pieces: Vec<MarkedPiece>,
}

/// Shows the records that a search finds.
///
/// # Errors
/// 403; 404 for an unknown collection. The page shows errors in the search.
pub async fn show(context: PageContext, uri: Uri) -> Result<Response, Problem> {
    let PageContext { app, visitor, collection, reader, .. } = &context;
    let asked = FilledForm::of(&FormFields::of_query(&uri)?);
    let found = match read_filled::<SearchParams>(uri.query().unwrap_or_default()) {
        Ok(params) => find(app, collection, params, RowParams::default()).await,
        Err(problem) => Err(problem),
    };
    let (status, problem, found) = match found {
        Ok(list) => (StatusCode::OK, None, Some(self::found(&context, &asked, list).await?)),
        Err(problem) => (problem.status(), Some(told(visitor, &problem)), None),
    };
    let words = visitor.words();
    let record = &words.record;
    let page = SearchPage {
        frame: PageFrame::of(visitor, collection, DeskSection::Search, words.search.title),
        words: &words.search,
        record,
        asked,
        has_category: reader.has(Role::Whole) || reader.has(Role::Category),
        has_status: reader.has(Role::Status),
        has_unit: reader.has(Role::Unit),
        has_identity: reader.has(Role::Identity),
        verdicts: VERDICTS.map(|(kind, value)| (value, record.finding.verdict(kind))).to_vec(),
        problem,
        found,
    };
    page::html(status, &page)
}

/// Downloads the records that a search finds as a CSV file, at most [`MOST_ROWS`] of them in the order of the page.
///
/// # Errors
/// 403; 404 for an unknown collection; 422 for a search that cannot be read.
pub async fn export(context: PageContext, uri: Uri) -> Result<Response, Problem> {
    let PageContext { app, visitor, collection, reader, .. } = &context;
    read_filled::<SearchParams>(uri.query().unwrap_or_default())?;
    let asked = FilledForm::of(&FormFields::of_query(&uri)?);
    let mut table = RecordTable::new(visitor.words(), &[]);
    let mut rows = 0;
    let mut behind = 0;
    let mut cursor = Some(String::new());
    while let Some(from) = cursor.take_if(|_| rows < MOST_ROWS) {
        let part = asked.href(collection, FILE, &from);
        let query = part.split_once('?').map_or("", |(_, query)| query);
        let params = read_filled::<SearchParams>(&format!("{query}&limit={READ_AT_ONCE}"))?;
        let list = find(app, collection, params, RowParams::default()).await?;
        for found in &list.items {
            if let Some(record) = record_of(&context, found).await? {
                let verdict = context.badge(&record).await?.says;
                table.row(&record, verdict, record.verdict.duplicate_of.as_ref(), reader, &[]);
            }
        }
        rows += list.items.len();
        behind = list.as_of.behind;
        cursor = list.next;
    }
    if behind > 0 {
        table.note(&(visitor.words().search.behind)(&count(behind)));
    }
    if cursor.is_some() {
        table.note(visitor.words().inbox.not_in_file);
    }
    Ok(table.download(&format!("{collection}-search")))
}

/// Returns a found record; `None` if it was deleted after the search.
async fn record_of(context: &PageContext, found: &FoundRecord) -> Result<Option<RecordView>, Problem> {
    match context.app.engine.record(&context.collection, &found.id).await {
        Err(Error::UnknownRecord(..)) => Ok(None),
        record => Ok(Some(record?)),
    }
}

/// Returns the message for an error in a search, with the names of the wrong fields.
fn told(visitor: &PageVisitor, problem: &Problem) -> String {
    let words = visitor.words();
    let search = &words.search;
    let names = [
        ("?from", search.from),
        ("?to", search.to),
        ("?q", search.question),
        ("?verdict", search.verdict),
        ("?order", search.order),
    ];
    page::in_words_with_fields(problem, &words.problem, &names)
}

async fn found(context: &PageContext, asked: &FilledForm, list: FoundList) -> Result<SearchResults, Problem> {
    let words = &context.visitor.words().search;
    let collection = &context.collection;
    let behind = list.as_of.behind;
    let mut records = Vec::new();
    for found in list.items {
        let (facts, badge) = shown(context, &found).await?;
        records.push(line(context, facts, badge, found));
    }
    Ok(SearchResults {
        total: (words.total)(&count(list.total.count), list.total.exact),
        ignored: (!list.ignored.is_empty()).then(|| (words.ignored)(&list.ignored)),
        behind: (behind > 0).then(|| (words.behind)(&count(behind))),
        records,
        next: list.next.map(|cursor| asked.href(collection, PAGE, &cursor)),
        first: (!asked.cursor.is_empty()).then(|| asked.href(collection, PAGE, "")),
        file: asked.href(collection, FILE, ""),
    })
}

/// Returns the facts and the badge of a record.
async fn shown(context: &PageContext, found: &FoundRecord) -> Result<(RowFacts, VerdictBadge), Problem> {
    match record_of(context, found).await? {
        Some(record) => Ok((context.reader.facts_of(&record), context.badge(&record).await?)),
        None => Ok((RowFacts::default(), VerdictBadge::new(&context.visitor.words().record, found.verdict, None))),
    }
}

fn line(context: &PageContext, mut facts: RowFacts, badge: VerdictBadge, found: FoundRecord) -> SearchLine {
    let collection = &context.collection;
    let reader = &context.reader;
    if let Some(time) = &found.time {
        facts.time = Some(reader.clock.show_text(time));
    }
    let same_petitioner = facts
        .petitioner
        .as_ref()
        .map(|petitioner| with_query(&page::below(collection, PAGE), &[("identity", petitioner.as_str())]));
    SearchLine {
        href: page::case(collection, &found.id),
        id: found.id.to_string(),
        badge,
        facts,
        same_petitioner,
        fragments: found.fragments.into_iter().map(fragment).collect(),
    }
}

fn fragment(found: FieldFragment) -> ShownFragment {
    let start = found.at.start;
    let marks = found
        .marked
        .iter()
        .map(|range| (range.start.saturating_sub(start)..range.end.saturating_sub(start), MarkReason::Found));
    let pieces = pieces(&found.text, &marks.collect::<Vec<_>>());
    ShownFragment { field: found.field, is_cut: start > 0, pieces }
}
