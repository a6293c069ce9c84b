//! Decisions about a whole group: cutting the group at a pair, and declaring all its records one matter.
//!
//! Each action has a preview, which shows the decisions and the resulting groups and changes nothing. The form of the action names the state that
//! the preview showed. If the group or a decision has changed since, the action does nothing and shows the new state. One step withdraws all
//! decisions of an action.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate as console;
use crate::flash::{FlashMessage, RegroupedNotice};
use crate::form::FormFields;
use crate::page::{self, DeskSection, PageFrame, SeeOther, with_query};
use crate::pages::decide::named;
use crate::pages::pair::PageContext;
use crate::pages::regroup_plan::{GroupAction, GroupActionKind, PlannedDecision, RegroupPlan};
use crate::undo::MadeDecision;
use crate::view::pair::RecordCard;
use crate::visitor::{LeadVisitor, PageVisitor};
use crate::words::{DecideWords, RecordWords, RegroupWords};
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::record::RecordId;
use doppel_engine::decisions::{DecisionOutcome, Opinion};
use doppel_engine::{Engine, Error};
use doppel_http::extract::{InCollection, InRecord};
use doppel_http::problem::Problem;
use doppel_http::state::App;
use doppel_service::clock;
use doppel_store::Seq;
use doppel_store::decisions::{Judgement, SeenState};

/// Largest number of records that a preview lists. The others are counted.
const MOST_LISTED: usize = 100;
#[derive(Template)]
#[template(path = "regroup.html")]
struct RegroupPage {
    frame: PageFrame,
    words: &'static RegroupWords,
    record: &'static RecordWords,
    decide: &'static DecideWords,
    title: &'static str,
    button: &'static str,
    is_outdated: bool,
    decisions: String,
    is_nothing: bool,
    against: Vec<(String, String)>,
    touched: Vec<RecordCard>,
    after: Vec<GroupAfter>,
    /// The record that becomes the original, in words.
    original: Option<String>,
    stays: bool,
    can_be_done: bool,
    action: String,
    fields: Vec<(&'static str, String)>,
    asks_name: Option<String>,
    back: String,
}

/// A group after the action.
struct GroupAfter {
    heading: String,
    cards: Vec<RecordCard>,
    more: Option<String>,
}

/// Shows the effect of an action on a group.
///
/// # Errors
/// 403, 404; 409 if the group is too large; 422 if the address names no valid pair or original.
pub async fn show(
    visitor: LeadVisitor,
    State(app): State<App>,
    Extension(kind): Extension<GroupActionKind>,
    InRecord(collection, id): InRecord,
    uri: Uri,
) -> Result<Response, Problem> {
    let form = FormFields::of_query(&uri)?;
    let plan = RegroupPlan::of(&app.engine, &collection, &id, GroupAction::read(kind, &form)?, &form).await?;
    preview(&PageContext::of(app, visitor.0, collection).await?, plan, StatusCode::OK).await
}

/// Carries out an action on a group if its effect is still the effect that the preview showed.
///
/// # Errors
/// 403, 404; 409 if the group is too large; 422. A changed state is shown on a page with status 409.
pub async fn act(
    visitor: LeadVisitor,
    State(app): State<App>,
    Extension(desk): Extension<Arc<console::DeskState>>,
    Extension(kind): Extension<GroupActionKind>,
    InRecord(collection, id): InRecord,
    form: FormFields,
) -> Result<Response, Problem> {
    let plan = RegroupPlan::of(&app.engine, &collection, &id, GroupAction::read(kind, &form)?, &form).await?;
    if form.raw("state") != Some(plan.state.as_str()) || !plan.can_be_done() {
        return preview(&PageContext::of(app, visitor.0, collection).await?, plan, StatusCode::CONFLICT).await;
    }
    let back = page::group(&collection, &plan.group);
    let judgement = plan.action.judgement();
    let original = plan.action.original().cloned();
    let action =
        PlannedAction { collection, judgement, decisions: plan.decisions, original, as_of: plan.seen.as_of, back };
    action.carry_out(&app, desk, &visitor, &form).await
}

async fn preview(context: &PageContext, plan: RegroupPlan, status: StatusCode) -> Result<Response, Problem> {
    let PageContext { visitor, collection, .. } = context;
    let words = visitor.words();
    let own = &words.regroup;
    let place = page::group(collection, &plan.group);
    let (title, button, action) = match &plan.action {
        GroupAction::Cut(..) => (own.cut_title, own.do_cut, format!("{place}/cut")),
        GroupAction::Join => (own.join_title, own.do_join, format!("{place}/join")),
        GroupAction::Merge(_) => (own.merge_title, own.do_merge, format!("{place}/merge")),
    };
    let against = plan.against.iter().map(|(one, other)| {
        let href = with_query(&page::case(collection, one), &[("with", other.as_str())]);
        (href, format!("{one} · {other}"))
    });
    let page = RegroupPage {
        frame: PageFrame::of(visitor, collection, DeskSection::Groups, title),
        words: own,
        record: &words.record,
        decide: &words.decide,
        title,
        button,
        is_outdated: status == StatusCode::CONFLICT,
        decisions: (own.decisions)(plan.decisions.len(), (words.decide.judgement)(plan.action.judgement())),
        is_nothing: plan.decisions.is_empty(),
        against: against.collect(),
        touched: touched(context, &plan).await?,
        after: after(context, &plan).await?,
        original: match plan.action.original() {
            Some(original) => context.card(original).await?.map(|card| (own.original)(&card.facts.title, &card.id)),
            None => None,
        },
        stays: plan.is_held_together(),
        can_be_done: plan.can_be_done(),
        action,
        fields: plan.fields(),
        asks_name: visitor.is_open.then(|| visitor.name.clone().unwrap_or_default()),
        back: place,
    };
    page::html(status, &page)
}

/// Returns the records that the decisions would be about.
async fn touched(context: &PageContext, plan: &RegroupPlan) -> Result<Vec<RecordCard>, Problem> {
    let mut ids: Vec<&RecordId> = plan.decisions.iter().flat_map(|planned| [&planned.one, &planned.other]).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut cards = Vec::with_capacity(ids.len());
    for id in ids.into_iter().take(MOST_LISTED) {
        cards.extend(context.card(id).await?);
    }
    Ok(cards)
}

async fn after(context: &PageContext, plan: &RegroupPlan) -> Result<Vec<GroupAfter>, Problem> {
    let words = &context.visitor.words().regroup;
    let mut found = Vec::new();
    let mut left = MOST_LISTED;
    for group in &plan.after {
        let heading = if group.len() == 1 { words.single.to_owned() } else { (words.group_of)(group.len()) };
        let mut cards = Vec::new();
        for id in group.iter().take(left) {
            cards.extend(context.card(id).await?);
        }
        let shown = group.len().min(left);
        left -= shown;
        let more = group.len() - shown;
        found.push(GroupAfter { heading, cards, more: (more > 0).then(|| (words.more)(more)) });
    }
    Ok(found)
}

/// Decisions that the visitor wants to make in one step.
pub(super) struct PlannedAction {
    pub(super) collection: CollectionName,
    pub(super) judgement: Judgement,
    pub(super) decisions: Vec<PlannedDecision>,
    /// The record that becomes the original of the group; `None` if the visitor chose no record.
    pub(super) original: Option<RecordId>,
    /// The latest change before the visitor looked at the records.
    pub(super) as_of: Seq,
    /// The page to show afterwards.
    pub(super) back: String,
}

impl PlannedAction {
    /// Makes the decisions and stores the data for undoing them.
    pub(super) async fn carry_out(
        self,
        app: &App,
        desk: Arc<console::DeskState>,
        visitor: &PageVisitor,
        form: &FormFields,
    ) -> Result<Response, Problem> {
        let Self { collection, judgement, decisions, original, as_of, back } = self;
        let of = decisions.len();
        let by = form.text("by").or(visitor.name.as_deref());
        let opinion = Opinion { judgement, by: Some(visitor.by(by)), note: form.text("note").map(str::to_owned) };
        let engine = app.engine.clone();
        let name = collection.clone();
        let id = action_id(form);
        let kept = id.clone();
        // The task also stores the data for undoing the action, since the client may disconnect before the task ends.
        let deciding = async move {
            let made = decide_all(&engine, &name, decisions, opinion, original, as_of).await?;
            Ok::<_, Error>(desk.undo.keep(kept, name, made))
        };
        let done = app.detached(deciding).await?;
        let flash = FlashMessage::Regrouped(RegroupedNotice { collection, id, done, of });
        Ok(named(SeeOther::to(back).telling(&flash), visitor, form.text("by")).into_response())
    }
}

/// Returns the id under which the decisions of a form are stored. Equal forms have one id, so that one step withdraws the decisions of two equal
/// submissions.
fn action_id(form: &FormFields) -> String {
    let state =
        form.raw("state").filter(|state| state.len() == 16 && state.bytes().all(|byte| byte.is_ascii_hexdigit()));
    state.map_or_else(clock::unique_id, str::to_owned)
}

/// Makes the decisions one after the other, and returns the decisions that were made. Skips a pair about which another person has decided in the
/// meantime, and a pair with a record that was replaced after the change `as_of`. If a decision fails after the first, the earlier decisions stay
/// and are returned, so that the visitor can withdraw them.
async fn decide_all(
    engine: &Engine,
    collection: &CollectionName,
    decisions: Vec<PlannedDecision>,
    opinion: Opinion,
    original: Option<RecordId>,
    as_of: Seq,
) -> Result<Vec<MadeDecision>, Error> {
    let mut made = Vec::with_capacity(decisions.len());
    for PlannedDecision { one, other, seen, before } in decisions {
        let pair = (&one, &other);
        let seen = SeenState { rulings: seen, as_of };
        match engine.decide_naming_original(collection, pair, opinion.clone(), original.clone(), seen).await {
            Ok(DecisionOutcome::Stored(view)) => {
                made.push(MadeDecision { one, other, seen: view.history.len(), before });
            }
            // A record that was deleted meanwhile needs no decision.
            Ok(DecisionOutcome::Meanwhile(_) | DecisionOutcome::Replaced(_)) | Err(Error::UnknownRecord(..)) => {}
            Err(error) if made.is_empty() => return Err(error),
            Err(error) => {
                tracing::warn!(%collection, made = made.len(), %error, "decisions about a group were not all made");
                break;
            }
        }
    }
    Ok(made)
}

/// Takes all decisions of an action back: the earlier judgements hold again. Skips a pair about which a person has decided since.
///
/// # Errors
/// 403; 409 if the action is not known any more.
pub async fn undo(
    visitor: LeadVisitor,
    State(app): State<App>,
    Extension(desk): Extension<Arc<console::DeskState>>,
    InCollection(collection): InCollection,
    form: FormFields,
) -> Result<Response, Problem> {
    let made = desk.undo.take(form.raw("action").unwrap_or_default(), &collection);
    let made = made.ok_or_else(|| {
        let detail = "this was withdrawn before, or is too long ago; withdraw the decisions one by one";
        Problem::conflict(ErrorCode::NothingToUndo, detail)
    })?;
    let of = made.len();
    let back = page::local(form.raw("back"));
    let by = visitor.by(visitor.name.as_deref());
    let engine = app.engine.clone();
    let name = collection.clone();
    let action = form.raw("action").unwrap_or_default().to_owned();
    let undoing = async move {
        let (done, left, end) = undo_all(&engine, &name, made, by).await;
        if !left.is_empty() {
            desk.undo.keep(action, name, left);
        }
        end.map(|()| done)
    };
    let done = app.detached(undoing).await?;
    Ok(SeeOther::to(back).telling(&FlashMessage::Undone { done, of }).into_response())
}

/// Withdraws decisions, and skips pairs about which a person has decided since. Returns the number of withdrawn decisions, and the remaining
/// decisions if the store fails.
async fn undo_all(
    engine: &Engine,
    collection: &CollectionName,
    mut made: Vec<MadeDecision>,
    by: String,
) -> (usize, Vec<MadeDecision>, Result<(), Error>) {
    let mut done = 0;
    made.reverse();
    while let Some(MadeDecision { one, other, seen, before }) = made.last() {
        let opinion = Opinion { judgement: *before, by: Some(by.clone()), note: None };
        // The earlier judgement holds again, even if the texts have changed since.
        let seen = SeenState { rulings: *seen, as_of: Seq::MAX };
        match engine.decide_having_seen(collection, (one, other), opinion, seen).await {
            Ok(DecisionOutcome::Stored(_)) => done += 1,
            // If a record was deleted since, the decision no longer exists.
            Ok(DecisionOutcome::Meanwhile(_) | DecisionOutcome::Replaced(_))
            | Err(Error::UnknownRecord(..) | Error::UnknownDecision(_)) => {}
            Err(error) => {
                made.reverse();
                return (done, made, Err(error));
            }
        }
        made.pop();
    }
    (done, made, Ok(()))
}
