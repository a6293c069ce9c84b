//! Decisions about many repeats of the inbox in one step: all exact copies, all above a probability, or all of the same petitioner.
//!
//! A preview lists the pairs and changes nothing. The form of the preview names the state of the pairs and the latest record that the preview took
//! into account, so that records that arrive later belong to no batch. If a record or a decision has changed since, the batch does nothing and
//! shows a new preview. One step withdraws all decisions of a batch.

use std::collections::BTreeSet;
use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Response;

use crate as console;
use crate::form::FormFields;
use crate::page::{self, DeskSection, PageFrame};
use crate::pages::inbox::shown_probability;
use crate::pages::inbox_place::{InboxFilter, InboxPlace};
use crate::pages::pair::PageContext;
use crate::pages::regroup::PlannedAction;
use crate::pages::regroup_plan::{AS_OF, PlannedDecision, SeenChanges};
use crate::view::numbers::count;
use crate::view::pair::RecordCard;
use crate::view::row::RowFacts;
use crate::visitor::LeadVisitor;
use crate::words::{BatchWords, DecideWords, InboxWords, RecordWords};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::schemes::hash::city64_bytes;
use doppel_engine::Engine;
use doppel_engine::queue::{QueueFilter, QueueOrder, QueuedRecord, repeats_same_text};
use doppel_http::cursor::CursorList;
use doppel_http::extract::InCollection;
use doppel_http::problem::Problem;
use doppel_http::state::App;
use doppel_store::Seq;
use doppel_store::decisions::Judgement;

/// Largest number of pairs that one batch decides. Such a batch takes some seconds, because each decision is on disk before the batch ends.
pub const MOST_PAIRS: usize = 1_000;
/// Largest number of pairs that a preview lists. The others are counted.
const MOST_LISTED: usize = 200;

/// The repeats that a batch decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchKind {
    /// Repeats with the same text as the record that they repeat.
    Exact,
    /// Repeats with at least this probability, in per cent.
    Above(u8),
    /// Repeats of a record of the same petitioner.
    SamePetitioner,
}

impl BatchKind {
    /// The offered kinds.
    pub(super) const ALL: [Self; 6] =
        [Self::Exact, Self::Above(99), Self::Above(95), Self::Above(90), Self::Above(80), Self::SamePetitioner];

    /// Returns the name of the kind in a query.
    pub(super) fn value(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Above(99) => "above-99",
            Self::Above(95) => "above-95",
            Self::Above(90) => "above-90",
            Self::Above(_) => "above-80",
            Self::SamePetitioner => "petitioner",
        }
    }

    /// Returns the name of the kind on the page.
    pub(super) fn name(self, words: &InboxWords) -> String {
        match self {
            Self::Exact => words.batch_exact.to_owned(),
            Self::Above(percent) => (words.batch_above)(percent),
            Self::SamePetitioner => words.batch_petitioner.to_owned(),
        }
    }

    /// Restricts the selection of the inbox to the repeats of this kind.
    fn narrow(self, wanted: QueueFilter) -> QueueFilter {
        match self {
            Self::Exact => QueueFilter { same_text: true, ..wanted },
            Self::Above(percent) => {
                let least = f64::from(percent) / 100.0;
                QueueFilter { least: Some(wanted.least.map_or(least, |given| given.max(least))), ..wanted }
            }
            Self::SamePetitioner => QueueFilter { same_petitioner: true, ..wanted },
        }
    }
}

struct BatchPlan {
    kind: BatchKind,
    place: InboxPlace,
    /// The pairs: at most [`MOST_PAIRS`].
    pairs: Vec<QueuedRecord>,
    /// True if more records of this part of the queue are of this kind.
    has_more: bool,
    /// The part of the queue that follows.
    earlier: Option<Seq>,
    /// The latest record that belongs to the plan.
    up_to: Option<Seq>,
    /// The changes that the visitor has seen.
    seen: SeenChanges,
    /// Hash of the pairs with their numbers of rulings.
    state: String,
}

impl BatchPlan {
    /// Plans the batch that a query or a form describes.
    async fn of(engine: &Engine, collection: &CollectionName, form: &FormFields) -> Result<Self, Problem> {
        let kind = form.choice("kind", &BatchKind::ALL.map(|kind| (kind, kind.value())))?;
        let kind = kind.unwrap_or(BatchKind::Exact);
        let seen = SeenChanges::of(engine, collection, form).await?;
        let given = form.position("up_to")?;
        let place = InboxPlace { show: InboxFilter::Undecided, ..InboxPlace::of(form)? };
        let wanted = kind.narrow(place.wanted(engine, collection).await?);
        let wanted = QueueFilter { up_to: given, ..wanted };
        let queue = engine.queue(collection, &wanted, QueueOrder::Newest, place.before).await?;
        let has_more = queue.records.len() > MOST_PAIRS;
        let mut pairs = queue.records;
        pairs.truncate(MOST_PAIRS);
        let up_to = given.or_else(|| pairs.first().map(|newest| newest.seq));
        let state = state(&pairs);
        Ok(Self { kind, place, pairs, has_more, earlier: queue.next, up_to, seen, state })
    }

    /// Returns the hidden fields of the form: the batch and the state that the preview shows.
    fn fields(&self) -> Vec<(&'static str, String)> {
        let mut fields = self.place.fields();
        fields.push(("kind", self.kind.value().to_owned()));
        fields.push(("state", self.state.clone()));
        fields.push((AS_OF, CursorList::DeskForms.encode_seq(self.seen.now)));
        fields.extend(self.up_to.map(|up_to| ("up_to", CursorList::DeskForms.encode_seq(up_to))));
        fields
    }

    /// Returns the decisions about all pairs except the pairs whose record is in `left_out`.
    fn decisions(self, left_out: &BTreeSet<&str>) -> Vec<PlannedDecision> {
        let chosen = self.pairs.into_iter().filter(|record| !left_out.contains(record.id.as_str()));
        let decisions = chosen.filter_map(|record| {
            let repeats = record.repeats?;
            Some(PlannedDecision {
                one: record.id,
                other: repeats.id,
                seen: repeats.rulings,
                before: repeats.judgement,
            })
        });
        decisions.collect()
    }
}

fn state(pairs: &[QueuedRecord]) -> String {
    let texts = pairs.iter().map(|record| {
        let repeats = record.repeats.as_ref().map(|repeats| (&repeats.id, repeats.rulings));
        format!("{:?}", (&record.id, record.seq, repeats))
    });
    format!("{:016x}", city64_bytes(texts.collect::<Vec<_>>().join("\n").as_bytes()))
}

#[derive(Template)]
#[template(path = "batch.html")]
struct BatchPage {
    frame: PageFrame,
    words: &'static BatchWords,
    record: &'static RecordWords,
    decide: &'static DecideWords,
    /// The repeats that the batch decides, in words.
    which: String,
    is_outdated: bool,
    decisions: Option<String>,
    more: Option<String>,
    not_listed: Option<String>,
    lines: Vec<BatchLine>,
    action: String,
    fields: Vec<(&'static str, String)>,
    asks_name: Option<String>,
    back: String,
    earlier: Option<String>,
}

/// A pair of the list.
struct BatchLine {
    id: String,
    card: RecordCard,
    original: RecordCard,
    compare: String,
    probability: Option<String>,
    is_same_text: bool,
}

/// Shows the decisions of a batch.
///
/// # Errors
/// 403, 404, 422.
pub async fn preview(
    visitor: LeadVisitor,
    State(app): State<App>,
    InCollection(collection): InCollection,
    uri: Uri,
) -> Result<Response, Problem> {
    let form = FormFields::of_query(&uri)?;
    let plan = BatchPlan::of(&app.engine, &collection, &form).await?;
    show(&PageContext::of(app, visitor.0, collection).await?, &plan, StatusCode::OK).await
}

/// Makes the decisions of a batch.
///
/// # Errors
/// 403, 404, 422. If the pairs changed since the preview, the response is a new preview with status 409.
pub async fn decide(
    visitor: LeadVisitor,
    State(app): State<App>,
    Extension(desk): Extension<Arc<console::DeskState>>,
    InCollection(collection): InCollection,
    form: FormFields,
) -> Result<Response, Problem> {
    let plan = BatchPlan::of(&app.engine, &collection, &form).await?;
    if form.raw("state") != Some(plan.state.as_str()) || plan.pairs.is_empty() {
        return show(&PageContext::of(app, visitor.0, collection).await?, &plan, StatusCode::CONFLICT).await;
    }
    let back = plan.place.first().href(&collection);
    let left_out: BTreeSet<&str> = form.all("leave").collect();
    let as_of = plan.seen.as_of;
    let decisions = plan.decisions(&left_out);
    let action = PlannedAction { collection, judgement: Judgement::Same, decisions, original: None, as_of, back };
    action.carry_out(&app, desk, &visitor, &form).await
}

async fn show(context: &PageContext, plan: &BatchPlan, status: StatusCode) -> Result<Response, Problem> {
    let PageContext { visitor, collection, .. } = context;
    let words = visitor.words();
    let own = &words.batch;
    let pairs = plan.pairs.len();
    let batch = page::below(collection, "batch");
    let earlier = plan.earlier.map(|next| {
        let mut fields = plan.place.before(next).fields();
        fields.push(("kind", plan.kind.value().to_owned()));
        let parameters: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        page::with_query(&batch, &parameters)
    });
    let page = BatchPage {
        frame: PageFrame::of(visitor, collection, DeskSection::Inbox, own.title),
        words: own,
        record: &words.record,
        decide: &words.decide,
        which: plan.kind.name(&words.inbox),
        is_outdated: status == StatusCode::CONFLICT,
        decisions: (pairs > 0).then(|| (own.decisions)(&count(pairs as u64))),
        more: plan.has_more.then(|| (own.more)(&count(MOST_PAIRS as u64))),
        not_listed: pairs.checked_sub(MOST_LISTED + 1).map(|more| (own.not_listed)(&count(more as u64 + 1))),
        lines: lines(context, &plan.pairs[..pairs.min(MOST_LISTED)]).await?,
        action: batch,
        fields: plan.fields(),
        asks_name: visitor.is_open.then(|| visitor.name.clone().unwrap_or_default()),
        back: plan.place.href(collection),
        earlier,
    };
    page::html(status, &page)
}

async fn lines(context: &PageContext, pairs: &[QueuedRecord]) -> Result<Vec<BatchLine>, Problem> {
    let seqs: Vec<Seq> = pairs.iter().map(|record| record.seq).collect();
    let arrivals = context.app.engine.arrivals_at(&context.collection, &seqs).await?;
    let originals: Vec<RecordId> =
        arrivals.iter().filter_map(|arrival| arrival.record.verdict.duplicate_of.clone()).collect();
    let facts = context.facts(&originals).await?;
    let mut lines = Vec::with_capacity(arrivals.len());
    for arrival in &arrivals {
        let record = &arrival.record;
        let Some(original) = &record.verdict.duplicate_of else { continue };
        let earlier: RowFacts =
            facts.get(original).cloned().unwrap_or_else(|| context.reader.without_text(original, None));
        let card = RecordCard::new(&context.collection, &record.id, context.reader.facts_of(record));
        lines.push(BatchLine {
            id: record.id.to_string(),
            compare: page::with_query(&card.href, &[("with", original.as_str())]),
            card,
            original: RecordCard::new(&context.collection, original, earlier),
            probability: shown_probability(record),
            is_same_text: repeats_same_text(&record.verdict),
        });
    }
    Ok(lines)
}
