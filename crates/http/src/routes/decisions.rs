//! Decisions of people about two records.

#![expect(unused_qualifications, reason = "written by utoipa's macro around parameter structs")]

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Reader, Writer};
use crate::cursor::CursorList;
use crate::extract::{InCollection, InPair};
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters, QueryParameters, QueryReader};
use crate::routes::input::ObjectReader;
use crate::state::App;
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::record::RecordId;
use doppel_engine::decisions::{DecisionView, Opinion};
use doppel_store::decisions::{Judgement, RecordPair};

/// The default and the largest number of decisions in one answer.
const LIST_LIMITS: (u64, u64) = (100, 1000);

/// A person's decision about two records.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct DecisionInput {
    /// `same`: both records concern the same matter. `same_event`: the records report one event, but are not duplicates. `not_same`: the records
    /// concern different matters and different events.
    judgement: Judgement,
    /// The name of the person who decides.
    by: Option<String>,
    /// The reason.
    note: Option<String>,
}

/// The part of the list to return.
#[derive(Clone, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// Largest number of decisions in the response, 1 to 1000. The default is 100.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 1000)]
    pub limit: usize,
    /// The `next` of an earlier response, to continue there.
    #[param(value_type = Option<String>)]
    pub cursor: Option<RecordPair>,
}

impl QueryParameters for ListParams {
    fn read(query: &mut QueryReader) -> Self {
        let cursor = query.cursor(|text| {
            let (a, b) = CursorList::Decisions.decode_texts(text)?;
            RecordPair::new(RecordId::new(&a).ok()?, RecordId::new(&b).ok()?)
        });
        let limit = query.number("limit", 1, LIST_LIMITS.1).unwrap_or(LIST_LIMITS.0) as usize;
        Self { limit, cursor }
    }
}

/// One page of the list of decisions.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DecisionList {
    /// The decisions, sorted by the two ids.
    pub items: Vec<DecisionView>,
    /// The value of `cursor` for the next page; `null` on the last page.
    pub next: Option<String>,
}

/// List decisions
#[utoipa::path(get, path = "/v1/collections/{collection}/decisions", operation_id = "listDecisions", tag = "decisions",
    params(("collection" = CollectionName, Path), ListParams),
    responses((status = 200, description = "one page of the list", body = DecisionList)))]
pub async fn list(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    CheckedParameters(params): CheckedParameters<ListParams>,
) -> Result<Json<DecisionList>, Problem> {
    let (items, more) = app.engine.decisions(&collection, params.cursor.as_ref(), params.limit).await?;
    let next =
        items.last().filter(|_| more).map(|last| CursorList::Decisions.encode_texts(last.a.as_str(), last.b.as_str()));
    Ok(Json(DecisionList { items, next }))
}

/// Decide whether two records are the same matter, one event, or neither
///
/// From now on this decision has priority over all scores, for both orders of the two records. It remains valid after a reindex and after a
/// replacement of the records. Further decisions about the same records are added to the history.
#[utoipa::path(put, path = "/v1/collections/{collection}/decisions/{a}/{b}", operation_id = "putDecision", tag = "decisions",
    params(("collection" = CollectionName, Path), ("a" = RecordId, Path, description = "record id, percent-encoded"),
        ("b" = RecordId, Path, description = "another record id")),
    request_body = DecisionInput,
    responses((status = 200, description = "all decisions about the two records", body = DecisionView),
        (status = 409, description = "`too_many_rulings`: the history of the pair has 1,000 rulings, the maximum")))]
pub async fn put(
    _: Writer,
    State(app): State<App>,
    InPair(collection, a, b): InPair,
    _: CheckedParameters<NoParameters>,
    mut input: ObjectReader,
) -> Result<Json<DecisionView>, Problem> {
    let judgement = input.word::<Judgement>("judgement", "same, same_event or not_same");
    let by = input.text("by");
    let note = input.text("note");
    input.finish()?;
    let judgement = judgement.filter(|judgement| *judgement != Judgement::Withdrawn).ok_or_else(|| {
        let detail = "give same, same_event or not_same; DELETE takes a decision back";
        Problem::invalid_at("/judgement", ErrorCode::InvalidValue, detail)
    })?;
    let opinion = Opinion { judgement, by, note };
    Ok(Json(app.with_engine(|engine| async move { engine.decide(&collection, &a, &b, opinion).await }).await?))
}

/// Read the decision about two records
#[utoipa::path(get, path = "/v1/collections/{collection}/decisions/{a}/{b}", operation_id = "getDecision", tag = "decisions",
    params(("collection" = CollectionName, Path), ("a" = RecordId, Path), ("b" = RecordId, Path)),
    responses((status = 200, description = "the decision with its history", body = DecisionView)))]
pub async fn get(
    _: Reader,
    State(app): State<App>,
    InPair(collection, a, b): InPair,
    _: CheckedParameters<NoParameters>,
) -> Result<Json<DecisionView>, Problem> {
    Ok(Json(app.engine.decision(&collection, &a, &b).await?))
}

/// The author and the reason of a withdrawal.
#[derive(Clone, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct WithdrawParams {
    /// The name of the person who withdraws the decision.
    #[param(value_type = Option<String>)]
    pub by: Option<String>,
    /// The reason.
    #[param(value_type = Option<String>)]
    pub note: Option<String>,
}

impl QueryParameters for WithdrawParams {
    fn read(query: &mut QueryReader) -> Self {
        Self { by: query.take("by"), note: query.take("note") }
    }
}

/// Withdraw a decision
///
/// From now on the scores apply again. The history is kept.
#[utoipa::path(delete, path = "/v1/collections/{collection}/decisions/{a}/{b}", operation_id = "deleteDecision", tag = "decisions",
    params(("collection" = CollectionName, Path), ("a" = RecordId, Path), ("b" = RecordId, Path), WithdrawParams),
    responses((status = 200, description = "the decision with its history", body = DecisionView),
        (status = 409, description = "`too_many_rulings`: the history of the pair has 1,000 rulings, the maximum")))]
pub async fn delete(
    _: Writer,
    State(app): State<App>,
    InPair(collection, a, b): InPair,
    CheckedParameters(params): CheckedParameters<WithdrawParams>,
) -> Result<Json<DecisionView>, Problem> {
    let opinion = Opinion { judgement: Judgement::Withdrawn, by: params.by, note: params.note };
    Ok(Json(app.with_engine(|engine| async move { engine.withdraw(&collection, &a, &b, opinion).await }).await?))
}
