//! The inbox: the arrived records in the order that the clerk chose. The page shows one record next to the earlier record that it seems to repeat.
//!
//! Several clerks can share the queue. A decision contains the number of rulings that the clerk saw, so the clerk learns if another clerk
//! decided first.

use askama::Template;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

use crate::form::FormFields;
use crate::page::{self, DeskSection, PageFrame};
use crate::pages::inbox_place::{InboxFilter, InboxPlace, ProbabilityBand};
use crate::pages::pair::PageContext;
use crate::view::VerdictBadge;
use crate::view::numbers::count;
use crate::view::pair::{PairView, RecordCard};
use crate::visitor::PageVisitor;
use crate::words::{InboxWords, RecordWords, SearchWords};
use doppel_core::collection::{CollectionName, Role};
use doppel_core::error_code::ErrorCode;
use doppel_core::verdict::VerdictKind;
use doppel_engine::Error;
use doppel_engine::answers::RecordView;
use doppel_engine::arrivals::Arrival;
use doppel_engine::queue::{MOST_WALKED, QueuedRecord, RecordQueue, probability, repeats_same_text};
use doppel_findings::percent;
use doppel_http::extract::InCollection;
use doppel_http::problem::Problem;
use doppel_store::Seq;

/// Records on a page: as many as a clerk reads without a break.
const ON_A_PAGE: usize = 30;

/// The choices of a select field: value, name, and true if it is chosen.
type Choices = Vec<(&'static str, &'static str, bool)>;

#[derive(Template)]
#[template(path = "inbox.html")]
struct InboxPage {
    frame: PageFrame,
    words: &'static InboxWords,
    record: &'static RecordWords,
    search: &'static SearchWords,
    place: InboxPlace,
    shows: Choices,
    orders: Choices,
    verdicts: Choices,
    bands: Choices,
    problem: Option<&'static str>,
    total: Option<String>,
    lines: Vec<InboxLine>,
    current: Option<SelectedRecord>,
    batch: Option<BatchForm>,
    /// The path of the file with the queue; `None` if the queue is empty.
    file: Option<String>,
    next_page: Option<String>,
    first_page: Option<String>,
    earlier: Option<String>,
}

/// The form that leads to the preview of a batch of decisions.
struct BatchForm {
    action: String,
    fields: Vec<(&'static str, String)>,
    choices: Vec<(&'static str, String)>,
}

/// A record of the queue.
struct InboxLine {
    href: String,
    card: RecordCard,
    badge: VerdictBadge,
    probability: Option<String>,
    stored_at: String,
    is_current: bool,
}

struct SelectedRecord {
    card: RecordCard,
    badge: VerdictBadge,
    position: String,
    pair: Option<PairView>,
    /// The reason why the record is not compared with another record.
    alone: &'static str,
    text: String,
    previous: Option<String>,
    next: Option<String>,
}

/// The records on one page of the queue.
struct QueuePage<'a> {
    place: &'a InboxPlace,
    items: Vec<Arrival>,
    /// The number of the selected record on the page.
    at: usize,
    /// The next page of the same part of the queue, or the next part.
    next: Option<InboxPlace>,
}

/// Shows the queue.
///
/// # Errors
/// 403; 404 for an unknown collection.
pub async fn show(context: PageContext, uri: Uri) -> Result<Response, Problem> {
    let place = InboxPlace::of(&FormFields::of_query(&uri)?)?;
    let PageContext { app, visitor, collection, .. } = &context;
    let words = visitor.words();
    let (filter, problem) = match place.wanted(&app.engine, collection).await {
        Err(Error::Invalid(violations)) => {
            let without_conditions = InboxPlace { show: place.show, ..InboxPlace::default() };
            let is_backward = violations.iter().all(|found| found.code == ErrorCode::OutOfRange);
            let problem = if is_backward { words.inbox.wrong_order } else { words.inbox.wrong_since };
            (without_conditions.wanted(&app.engine, collection).await?, Some(problem))
        }
        filter => (filter?, None),
    };
    let queue = app.engine.queue(collection, &filter, place.order, place.before).await?;
    let page = queue_page(&context, &place, &queue).await?;
    let current = current(&context, &page).await?;
    let shown = InboxPage {
        frame: PageFrame::of(visitor, collection, DeskSection::Inbox, words.inbox.title),
        words: &words.inbox,
        record: &words.record,
        search: &words.search,
        shows: InboxFilter::ALL.map(|show| (show.value(), show.name(&words.inbox), show == place.show)).to_vec(),
        orders: InboxPlace::ORDERS
            .map(|(order, value)| (value, (words.inbox.order_name)(order), order == place.order))
            .to_vec(),
        verdicts: verdicts(&place, &words.record, place.show),
        bands: ProbabilityBand::ALL
            .map(|band| (band.value(), band.name(&words.inbox), Some(band) == place.band))
            .to_vec(),
        problem,
        total: (!queue.records.is_empty() || queue.next.is_some()).then(|| total(&queue, &place, &words.inbox)),
        lines: page
            .items
            .iter()
            .enumerate()
            .map(|(number, arrival)| line(&context, &place, arrival, number == page.at))
            .collect(),
        current,
        batch: batch(visitor, collection, &place, &queue),
        file: (!queue.records.is_empty()).then(|| place.file(collection)),
        next_page: page.next.as_ref().filter(|next| next.before == place.before).map(|next| next.href(collection)),
        first_page: (place.before.is_some() || place.page > 1).then(|| place.first().href(collection)),
        earlier: queue.next.map(|next| place.before(next).href(collection)),
        place: place.clone(),
    };
    page::html(if problem.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK }, &shown)
}

fn verdicts(place: &InboxPlace, words: &RecordWords, show: InboxFilter) -> Choices {
    let kinds = InboxPlace::VERDICTS.into_iter();
    let offered =
        kinds.filter(|(kind, _)| show == InboxFilter::All || kind.is_duplicate() || place.verdict == Some(*kind));
    offered.map(|(kind, value)| (value, words.finding.verdict(kind), place.verdict == Some(kind))).collect()
}

fn total(queue: &RecordQueue, place: &InboxPlace, words: &InboxWords) -> String {
    let numbers =
        (words.total)(&count(queue.records.len() as u64), &count(queue.exact as u64), &count(queue.near as u64));
    match queue.next.is_some() || place.before.is_some() {
        true => format!("{numbers}{}", (words.part)(&count(MOST_WALKED))),
        false => numbers,
    }
}

/// Returns the form for a batch if the visitor may decide and the queue has duplicates.
fn batch(
    visitor: &PageVisitor,
    collection: &CollectionName,
    place: &InboxPlace,
    queue: &RecordQueue,
) -> Option<BatchForm> {
    let words = &visitor.words().inbox;
    (visitor.may_lead() && queue.exact + queue.near > 0).then(|| BatchForm {
        action: page::below(collection, "batch"),
        fields: place.fields(),
        choices: super::batch::BatchKind::ALL.map(|kind| (kind.value(), kind.name(words))).to_vec(),
    })
}

async fn queue_page<'a>(
    context: &PageContext,
    place: &'a InboxPlace,
    queue: &RecordQueue,
) -> Result<QueuePage<'a>, Problem> {
    let skip = (place.page - 1).saturating_mul(ON_A_PAGE).min(queue.records.len());
    let seqs: Vec<Seq> =
        queue.records.iter().skip(skip).take(ON_A_PAGE).map(|record: &QueuedRecord| record.seq).collect();
    let items = context.app.engine.arrivals_at(&context.collection, &seqs).await?;
    let at = items.iter().position(|arrival| Some(arrival.record.id.as_str()) == place.at.as_deref()).unwrap_or(0);
    let has_more = queue.records.len() > skip + seqs.len();
    let next = match queue.next {
        _ if has_more => Some(place.page(place.page + 1)),
        Some(next) => Some(place.before(next)),
        None => None,
    };
    Ok(QueuePage { place, items, at, next })
}

fn line(context: &PageContext, place: &InboxPlace, arrival: &Arrival, is_current: bool) -> InboxLine {
    let record = &arrival.record;
    InboxLine {
        href: place.at(&record.id).href(&context.collection),
        card: card(context, arrival),
        badge: badge(context, arrival),
        probability: shown_probability(record),
        stored_at: context.reader.clock.show_text(&record.stored_at),
        is_current,
    }
}

/// Returns the probability of a duplicate in per cent; `None` for a duplicate with the same text.
pub(super) fn shown_probability(record: &RecordView) -> Option<String> {
    let verdict = &record.verdict;
    let probability = probability(verdict).filter(|_| !repeats_same_text(verdict));
    probability.map(|probability| format!("{}%", percent(probability)))
}

/// Returns the badge of an arrival. It describes the pair that the line shows: a record with the same text as another repeat only resembles the
/// first record.
fn badge(context: &PageContext, arrival: &Arrival) -> VerdictBadge {
    let decided = arrival.decision.as_ref().map(|decision| decision.judgement);
    let kind = match arrival.record.verdict.kind {
        VerdictKind::ExactDuplicate if !repeats_same_text(&arrival.record.verdict) => VerdictKind::NearDuplicate,
        kind => kind,
    };
    VerdictBadge::new(&context.visitor.words().record, kind, decided)
}

fn card(context: &PageContext, arrival: &Arrival) -> RecordCard {
    RecordCard::new(&context.collection, &arrival.record.id, context.reader.facts_of(&arrival.record))
}

async fn current(context: &PageContext, page: &QueuePage<'_>) -> Result<Option<SelectedRecord>, Problem> {
    let QueuePage { place, items, at, next } = page;
    let Some(arrival) = items.get(*at) else { return Ok(None) };
    let record = &arrival.record;
    let words = &context.visitor.words().inbox;
    let neighbour = neighbour_path(Some(at + 1), place, items, &context.collection);
    let pair = pair(context, arrival).await?.map(|mut pair| {
        // After a decision, the page shows the next record. A decided record leaves the undecided ones, so that the next record is on the
        // same page.
        let stays = place.show == InboxFilter::Undecided && items.len() > 1;
        let after = match (&neighbour, next) {
            (Some(neighbour), _) => neighbour.clone(),
            (None, Some(next)) if !stays => next.href(&context.collection),
            _ => InboxPlace { at: None, ..(*place).clone() }.href(&context.collection),
        };
        pair.decide = pair.decide.map(|decide| decide.returning_to(after));
        pair
    });
    let card = card(context, arrival);
    Ok(Some(SelectedRecord {
        text: card.facts.excerpt.clone(),
        card,
        badge: badge(context, arrival),
        position: (words.position)(at + 1, items.len()),
        pair,
        alone: match record {
            _ if record.original_gone => words.original_gone,
            RecordView { row: None, .. } => context.visitor.words().problem.text_not_kept,
            _ => words.no_repeat,
        },
        previous: neighbour_path(at.checked_sub(1), place, items, &context.collection),
        next: neighbour.or_else(|| next.as_ref().map(|next| next.href(&context.collection))),
    }))
}

fn neighbour_path(
    number: Option<usize>,
    place: &InboxPlace,
    items: &[Arrival],
    collection: &CollectionName,
) -> Option<String> {
    let arrival = items.get(number?)?;
    Some(place.at(&arrival.record.id).href(collection))
}

async fn pair(context: &PageContext, arrival: &Arrival) -> Result<Option<PairView>, Problem> {
    let verdict = &arrival.record.verdict;
    let Some(original) = &verdict.duplicate_of else { return Ok(None) };
    let relation = verdict.similar.iter().find(|found| found.id == *original).and_then(|found| found.relation);
    match context.stored(&arrival.record.id, original, relation).await {
        // The record was deleted after the list was made.
        Err(problem) if problem.code() == ErrorCode::UnknownRecord => Ok(None),
        pair => pair,
    }
}

/// Redirects from the start page of a collection to its inbox.
pub async fn first(_: PageVisitor, InCollection(collection): InCollection) -> page::SeeOther {
    page::SeeOther::to(page::below(&collection, DeskSection::Inbox.path()))
}
