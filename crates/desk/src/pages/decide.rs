//! The action that stores a decision about two records. Several pages send its form.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::cookies::{self, SetCookie};
use crate::flash::{self, FlashMessage};
use crate::form::FormFields;
use crate::page::{self, PageFrame, SeeOther};
use crate::pages::pair::PageContext;
use crate::pages::regroup_plan::AS_OF;
use crate::view::pair::{DecideBox, RecordCard};
use crate::visitor::{PageVisitor, WritingVisitor};
use crate::words::{DecideWords, RecordWords};
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::record::RecordId;
use doppel_engine::decisions::{DecisionOutcome, DecisionView, Opinion};
use doppel_http::extract::InCollection;
use doppel_http::problem::Problem;
use doppel_http::state::App;
use doppel_store::Seq;
use doppel_store::decisions::{Judgement, SeenState};

/// Lifetime of the cookie with the name of the deciding person, in seconds: a month. The cookie is used only if no keys are configured.
const NAME_SECONDS: u32 = 30 * 24 * 60 * 60;

struct DecisionForm {
    a: RecordId,
    b: RecordId,
    judgement: Judgement,
    seen: SeenState,
}

impl DecisionForm {
    fn read(form: &FormFields) -> Result<Self, Problem> {
        let known = [Judgement::Same, Judgement::SameEvent, Judgement::NotSame, Judgement::Withdrawn];
        let judgement = known.into_iter().find(|known| form.text("judgement") == Some(value(*known)));
        let judgement =
            judgement.ok_or_else(|| invalid_field("judgement", "give same, same_event, not_same or withdrawn"))?;
        let rulings = form.text("seen").and_then(|seen| seen.parse().ok());
        // A form that takes a decision back shows no texts, so that a replaced record does not matter.
        let as_of = form.position(AS_OF)?.unwrap_or(Seq::MAX);
        Ok(Self {
            a: record_id(form, "a")?,
            b: record_id(form, "b")?,
            judgement,
            seen: SeenState { rulings: rulings.ok_or_else(|| invalid_field("seen", "give a number"))?, as_of },
        })
    }
}

fn record_id(form: &FormFields, field: &str) -> Result<RecordId, Problem> {
    RecordId::new(form.raw(field).unwrap_or_default()).map_err(|reason| invalid_field(field, &reason))
}

fn invalid_field(field: &str, detail: &str) -> Problem {
    Problem::invalid_at(format!("/{field}"), ErrorCode::InvalidValue, detail)
}

/// Returns the name of a judgement in forms.
pub fn value(judgement: Judgement) -> &'static str {
    match judgement {
        Judgement::Same => "same",
        Judgement::SameEvent => "same_event",
        Judgement::NotSame => "not_same",
        Judgement::Withdrawn => "withdrawn",
    }
}

/// Stores a decision, unless another person has decided about the pair or a record was replaced since the page was made.
///
/// # Errors
/// 403, 404, 422. A decision of another person and the text of a replaced record are shown on a page with status 409.
pub async fn decide(
    visitor: WritingVisitor,
    State(app): State<App>,
    InCollection(collection): InCollection,
    form: FormFields,
) -> Result<Response, Problem> {
    let DecisionForm { a, b, judgement, seen } = DecisionForm::read(&form)?;
    let opinion = Opinion {
        judgement,
        by: Some(visitor.by(form.text("by").or(visitor.name.as_deref()))),
        note: form.text("note").map(str::to_owned),
    };
    let engine = app.engine.clone();
    let name = collection.clone();
    let pair = (a.clone(), b.clone());
    let deciding = async move { engine.decide_having_seen(&name, (&pair.0, &pair.1), opinion, seen).await };
    let back = page::local(form.raw("back"));
    let words = &visitor.words().decide;
    let (messages, decision) = match app.detached(deciding).await? {
        DecisionOutcome::Stored(decision) => {
            return Ok(done(&visitor, collection, a, b, &decision, back, form.text("by")));
        }
        DecisionOutcome::Meanwhile(decision) => ([words.meanwhile, words.meanwhile_advice], Some(decision)),
        DecisionOutcome::Replaced(decision) => ([words.replaced, words.replaced_advice], decision),
    };
    let as_of = app.engine.last_change(&collection).await?;
    let context = PageContext::of(app, visitor.0, collection).await?;
    let PageContext { visitor, collection, reader, .. } = &context;
    let decide =
        DecideBox::new(visitor, collection, &a, &b, decision.as_ref(), as_of, reader).returning_to(back.clone());
    meanwhile(&context, [&a, &b], messages, decide, back).await
}

fn done(
    visitor: &PageVisitor,
    collection: CollectionName,
    a: RecordId,
    b: RecordId,
    decision: &DecisionView,
    back: String,
    by: Option<&str>,
) -> Response {
    let seen = decision.history.len();
    let before = decision.history.iter().rev().nth(1).map_or(Judgement::Withdrawn, |ruling| ruling.judgement);
    let decided = flash::DecidedNotice { collection, a, b, judgement: decision.judgement, before, seen };
    named(SeeOther::to(back).telling(&FlashMessage::Decided(decided)), visitor, by).into_response()
}

/// Returns an answer that stores the name `by` in a cookie for later forms. If keys are configured, returns the answer unchanged.
pub(super) fn named(answer: SeeOther, visitor: &PageVisitor, by: Option<&str>) -> SeeOther {
    match by.filter(|_| visitor.is_open) {
        Some(name) => answer.with(SetCookie::for_seconds(cookies::NAME, name, NAME_SECONDS)),
        None => answer,
    }
}

#[derive(Template)]
#[template(path = "meanwhile.html")]
struct MeanwhilePage {
    frame: PageFrame,
    words: &'static DecideWords,
    record: &'static RecordWords,
    heading: &'static str,
    advice: &'static str,
    cards: Vec<RecordCard>,
    decide: DecideBox,
    back: String,
}

async fn meanwhile(
    context: &PageContext,
    pair: [&RecordId; 2],
    [heading, advice]: [&'static str; 2],
    decide: DecideBox,
    back: String,
) -> Result<Response, Problem> {
    let words = context.visitor.words();
    let mut cards = Vec::new();
    for id in pair {
        cards.extend(context.card(id).await?);
    }
    let page = MeanwhilePage {
        frame: PageFrame { collection: Some(context.collection.clone()), ..PageFrame::new(&context.visitor, heading) },
        words: &words.decide,
        record: &words.record,
        heading,
        advice,
        cards,
        decide,
        back,
    };
    page::html(StatusCode::CONFLICT, &page)
}
