//! The inbox: the arrived records, newest first. The page shows one of them next to the record that it seems to repeat.
//!
//! Several clerks can share the queue. A decision contains the number of rulings that the clerk saw, so the clerk learns if another clerk
//! decided first.

use askama::Template;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

use crate::form::FormFields;
use crate::page::{self, DeskSection, PageFrame, with_query};
use crate::pages::pair::PageContext;
use crate::view::VerdictBadge;
use crate::view::pair::{PairView, RecordCard};
use crate::view::row::RowReader;
use crate::visitor::{PageVisitor, ReadingVisitor};
use crate::words::{InboxWords, RecordWords};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::verdict::VerdictKind;
use doppel_engine::Error;
use doppel_engine::answers::RecordView;
use doppel_engine::arrivals::{Arrival, ArrivalFilter, Arrivals};
use doppel_http::cursor;
use doppel_http::extract::InCollection;
use doppel_http::problem::Problem;
use doppel_http::state::App;
use doppel_store::Seq;

/// Records on a page: as many as a clerk reads without a break.
const ON_A_PAGE: usize = 30;

/// The filter of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum InboxFilter {
    /// Repeats without a decision.
    #[default]
    Undecided,
    /// All repeats.
    Repeats,
    /// All records.
    All,
}

impl InboxFilter {
    const ALL: [Self; 3] = [Self::Undecided, Self::Repeats, Self::All];

    /// Returns the name of the filter in a query.
    fn value(self) -> &'static str {
        match self {
            Self::Undecided => "undecided",
            Self::Repeats => "repeats",
            Self::All => "all",
        }
    }

    fn name(self, words: &InboxWords) -> &'static str {
        match self {
            Self::Undecided => words.undecided,
            Self::Repeats => words.repeats,
            Self::All => words.all,
        }
    }

    fn verdicts(self) -> Vec<VerdictKind> {
        match self {
            Self::All => Vec::new(),
            Self::Undecided | Self::Repeats => vec![VerdictKind::ExactDuplicate, VerdictKind::NearDuplicate],
        }
    }
}

/// The place in the queue.
#[derive(Clone, Debug, Default)]
struct InboxPlace {
    show: InboxFilter,
    since: String,
    /// The start of this page of the queue; `None` for the first page.
    before: Option<Seq>,
    /// The id of the selected record.
    at: Option<String>,
}

impl InboxPlace {
    fn of(uri: &Uri) -> Result<Self, Problem> {
        let form = FormFields::parse(uri.query().unwrap_or_default().as_bytes())?;
        let show = form.choice("show", |given| InboxFilter::ALL.into_iter().find(|show| show.value() == given))?;
        Ok(Self {
            show: show.unwrap_or_default(),
            since: form.text("since").unwrap_or_default().to_owned(),
            before: form.choice("before", cursor::decode)?,
            at: form.raw("at").filter(|at| !at.is_empty()).map(str::to_owned),
        })
    }

    fn href(&self, collection: &CollectionName) -> String {
        let before = self.before.map(cursor::encode).unwrap_or_default();
        let at = self.at.as_deref().unwrap_or_default();
        let parameters = [("show", self.show.value()), ("since", &self.since), ("before", &before), ("at", at)];
        with_query(&page::below(collection, DeskSection::Inbox.path()), &parameters)
    }

    fn at(&self, id: &RecordId) -> Self {
        Self { at: Some(id.to_string()), ..self.clone() }
    }

    fn before(&self, before: Option<Seq>) -> Self {
        Self { before, at: None, ..self.clone() }
    }
}

#[derive(Template)]
#[template(path = "inbox.html")]
struct InboxPage {
    frame: PageFrame,
    words: &'static InboxWords,
    record: &'static RecordWords,
    since: String,
    shows: Vec<(&'static str, &'static str, bool)>,
    problem: Option<&'static str>,
    lines: Vec<InboxLine>,
    current: Option<SelectedRecord>,
    next_page: Option<String>,
    first_page: Option<String>,
}

/// A record of the queue.
struct InboxLine {
    href: String,
    card: RecordCard,
    badge: VerdictBadge,
    stored_at: String,
    is_current: bool,
}

/// The selected record.
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

/// Shows the queue.
///
/// # Errors
/// 403; 404 for an unknown collection.
pub async fn show(
    visitor: ReadingVisitor,
    State(app): State<App>,
    InCollection(collection): InCollection,
    uri: Uri,
) -> Result<Response, Problem> {
    let place = InboxPlace::of(&uri)?;
    let words = visitor.words();
    let reader = RowReader::of(&app.engine.collection(&collection).await?.settings);
    let since = Some(place.since.as_str()).filter(|since| !since.is_empty());
    let (window, problem) = match app.engine.window(&collection, since, None).await {
        Err(Error::Invalid(_)) => (Default::default(), Some(words.inbox.wrong_since)),
        window => (window?, None),
    };
    let wanted = ArrivalFilter {
        verdicts: place.show.verdicts(),
        since: window.from,
        undecided: place.show == InboxFilter::Undecided,
        ..ArrivalFilter::default()
    };
    let found = app.engine.arrivals(&collection, &wanted, place.before, ON_A_PAGE).await?;
    let at =
        found.items.iter().position(|arrival| Some(arrival.record.id.as_str()) == place.at.as_deref()).unwrap_or(0);
    let context = PageContext { app: &app, visitor: &visitor, collection: &collection, reader: &reader };
    let current = current(&context, &place, &found, at).await?;
    let page = InboxPage {
        frame: PageFrame::of(&visitor, &collection, DeskSection::Inbox, words.inbox.title),
        words: &words.inbox,
        record: &words.record,
        since: place.since.clone(),
        shows: InboxFilter::ALL.map(|show| (show.value(), show.name(&words.inbox), show == place.show)).to_vec(),
        problem,
        lines: found
            .items
            .iter()
            .enumerate()
            .map(|(number, arrival)| line(&context, &place, arrival, number == at))
            .collect(),
        current,
        next_page: found.next.map(|next| place.before(Some(next)).href(&collection)),
        first_page: place.before.is_some().then(|| place.before(None).href(&collection)),
    };
    page::html(if problem.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK }, &page)
}

fn line(context: &PageContext<'_>, place: &InboxPlace, arrival: &Arrival, is_current: bool) -> InboxLine {
    let record = &arrival.record;
    InboxLine {
        href: place.at(&record.id).href(context.collection),
        card: card(context, arrival),
        badge: badge(context, arrival),
        stored_at: context.reader.clock.show_text(&record.stored_at),
        is_current,
    }
}

fn badge(context: &PageContext<'_>, arrival: &Arrival) -> VerdictBadge {
    let decided = arrival.decision.as_ref().map(|decision| decision.judgement);
    VerdictBadge::new(&context.visitor.words().record, arrival.record.verdict.kind, decided)
}

fn card(context: &PageContext<'_>, arrival: &Arrival) -> RecordCard {
    RecordCard::new(context.collection, &arrival.record.id, context.reader.facts_of(&arrival.record))
}

async fn current(
    context: &PageContext<'_>,
    place: &InboxPlace,
    found: &Arrivals,
    at: usize,
) -> Result<Option<SelectedRecord>, Problem> {
    let Some(arrival) = found.items.get(at) else { return Ok(None) };
    let record = &arrival.record;
    let words = &context.visitor.words().inbox;
    let next = neighbour_path(Some(at + 1), place, &found.items, context.collection)
        .or_else(|| found.next.map(|next| place.before(Some(next)).href(context.collection)));
    let pair = pair(context, arrival).await?.map(|mut pair| {
        // After a decision, the page shows the next record; after the last record of all, it shows this page again.
        let back = next.clone().unwrap_or_else(|| InboxPlace { at: None, ..place.clone() }.href(context.collection));
        pair.decide = pair.decide.map(|decide| decide.then(back));
        pair
    });
    let card = card(context, arrival);
    Ok(Some(SelectedRecord {
        text: card.facts.excerpt.clone(),
        card,
        badge: badge(context, arrival),
        position: (words.position)(at + 1, found.items.len()),
        pair,
        alone: match record {
            _ if record.original_gone => words.original_gone,
            RecordView { row: None, .. } => context.visitor.words().problem.text_not_kept,
            _ => words.no_repeat,
        },
        previous: neighbour_path(at.checked_sub(1), place, &found.items, context.collection),
        next,
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

async fn pair(context: &PageContext<'_>, arrival: &Arrival) -> Result<Option<PairView>, Problem> {
    let verdict = &arrival.record.verdict;
    let Some(original) = &verdict.duplicate_of else { return Ok(None) };
    let relation = verdict.similar.iter().find(|found| found.id == *original).and_then(|found| found.relation);
    match context.stored(&arrival.record.id, original, relation).await {
        // The record was deleted after the list was made.
        Err(problem) if problem.code() == "unknown_record" => Ok(None),
        pair => pair,
    }
}

/// Redirects from the start page of a collection to its inbox.
pub async fn first(_: PageVisitor, InCollection(collection): InCollection) -> page::SeeOther {
    page::SeeOther::to(page::below(&collection, DeskSection::Inbox.path()))
}
