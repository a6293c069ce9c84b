//! The latest records, newest first, with the decisions about them.

#![expect(unused_qualifications, reason = "written by utoipa's macro around parameter structs")]

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::auth::Reader;
use crate::cursor::CursorList;
use crate::extract::InCollection;
use crate::problem::Problem;
use crate::query::{CheckedParameters, QueryParameters, QueryReader};
use crate::routes::filters::FilterParams;
use crate::routes::rows::RowParams;
use crate::state::App;
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_engine::answers::RecordView;
use doppel_engine::arrivals::{Arrival, ArrivalFilter};
use doppel_engine::decisions::DecisionView;
use doppel_store::Seq;

/// The default and the largest number of arrivals in one answer.
const LIST_LIMITS: (u64, u64) = (100, 1000);

/// The part of the list to return.
#[derive(Clone, Copy, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ArrivalParams {
    /// `true`: only duplicates about which nobody has decided yet.
    #[param(value_type = Option<bool>)]
    pub undecided: bool,
    /// Largest number of records in the response, 1 to 1000. The default is 100.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 1000)]
    pub limit: usize,
    /// The `next` of an earlier response with the same other parameters, to continue there.
    #[param(value_type = Option<String>)]
    pub cursor: Option<Seq>,
}

impl QueryParameters for ArrivalParams {
    fn read(query: &mut QueryReader) -> Self {
        Self {
            undecided: query.parsed("undecided", ErrorCode::InvalidParameter, "give true or false").unwrap_or(false),
            limit: query.number("limit", 1, LIST_LIMITS.1).unwrap_or(LIST_LIMITS.0) as usize,
            cursor: query.cursor(|text| CursorList::Arrivals.decode_seq(text)),
        }
    }
}

/// A record that arrived, with the decision about it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ArrivalView {
    /// The record.
    pub record: RecordView,
    /// The decision about the record and its `duplicate_of`; absent if nobody has decided. It may be withdrawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = DecisionView, required = false)]
    pub decision: Option<DecisionView>,
}

impl From<Arrival> for ArrivalView {
    fn from(arrival: Arrival) -> Self {
        Self { record: arrival.record, decision: arrival.decision }
    }
}

/// One page of the list of arrivals.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ArrivalList {
    /// The arrivals, newest first.
    pub items: Vec<ArrivalView>,
    /// The value of `cursor` for the next page; `null` on the last page.
    pub next: Option<String>,
}

/// List the latest records, newest first, with the decisions about them
///
/// With `undecided=true` the list has only duplicates about which nobody has decided yet. The order is the order in which the records were stored.
/// A page may have fewer records than `limit`, or none, and a `next` that is not `null`: one request reads at most about 8,000 records.
#[utoipa::path(get, path = "/v1/collections/{collection}/arrivals", operation_id = "listArrivals", tag = "records",
    params(("collection" = CollectionName, Path), ArrivalParams, FilterParams, RowParams),
    responses((status = 200, description = "one page of the list", body = ArrivalList)))]
pub async fn list(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    CheckedParameters((params, filters, rows)): CheckedParameters<(ArrivalParams, FilterParams, RowParams)>,
) -> Result<Json<ArrivalList>, Problem> {
    let ArrivalParams { undecided, limit, cursor } = params;
    let wanted = ArrivalFilter { undecided, record: filters.into(), ..ArrivalFilter::default() };
    let mut page = app.engine.arrivals(&collection, &wanted, cursor, limit).await?;
    let matches = page.items.iter_mut().flat_map(|arrival| &mut arrival.record.verdict.similar);
    rows.show_matches(&app, &collection, matches).await?;
    let items = page.items.into_iter().map(ArrivalView::from).collect();
    Ok(Json(ArrivalList { items, next: page.next.map(|seq| CursorList::Arrivals.encode_seq(seq)) }))
}
