//! Groups of connected records, to show frequent topics and petitioners with many records.

#![expect(unused_qualifications, reason = "written by utoipa's macro around parameter structs")]

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::http::auth::Reader;
use crate::http::cursor;
use crate::http::extract::{InCollection, InRecord};
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Params, Query};
use crate::http::routes::filters::FilterParams;
use crate::http::routes::rows::RowParams;
use crate::http::state::App;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_engine::groups::{GroupCursor, GroupDetail, GroupOrder, GroupSelection, GroupView};
use doppel_store::Seq;

/// The default and the largest number of groups in one answer.
const LIST_LIMITS: (u64, u64) = (50, 1000);
/// The default and the largest number of days that count as recent.
const DAYS: (u64, u64) = (30, 36_500);

/// The groups to list and their order.
#[derive(Clone, Copy, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// `size`: groups with the most records first. `hot`: groups with the most recent petitioners first. `repeat`: groups with the most
    /// records of one petitioner first. `recent`: groups with the latest record first. The default is `size`.
    #[param(value_type = Option<String>, pattern = "^(size|hot|repeat|recent)$")]
    pub order: GroupOrder,
    /// Number of days that count as recent. The default is 30.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 36500)]
    pub days: u32,
    /// Only groups with at least this many records. The default is 2.
    #[param(value_type = Option<u32>, minimum = 2)]
    pub least: usize,
    /// Largest number of groups in the answer, 1 to 1000. The default is 50.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 1000)]
    pub limit: usize,
    /// The `next` of an earlier response with the same other parameters, to continue there.
    #[param(value_type = Option<String>)]
    pub cursor: Option<GroupCursor>,
}

impl Parameters for ListParams {
    fn read(query: &mut Query) -> Self {
        let order = match query.take("order").as_deref() {
            None | Some("size") => GroupOrder::Size,
            Some("hot") => GroupOrder::Hot,
            Some("repeat") => GroupOrder::Repeat,
            Some("recent") => GroupOrder::Recent,
            Some(_) => {
                query.refuse("order", "invalid_parameter", "give size, hot, repeat or recent");
                GroupOrder::Size
            }
        };
        let cursor = query.cursor(cursor::decode_numbers).map(|[rank, first]| GroupCursor { rank, first: Seq(first) });
        let least = query.number("least", 2, u64::from(u32::MAX)).unwrap_or(2) as usize;
        let limit = query.number("limit", 1, LIST_LIMITS.1).unwrap_or(LIST_LIMITS.0) as usize;
        Self { order, days: days(query), least, limit, cursor }
    }
}

fn days(query: &mut Query) -> u32 {
    query.number("days", 1, DAYS.1).unwrap_or(DAYS.0) as u32
}

/// A part of the list of groups.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct GroupList {
    /// The groups.
    pub items: Vec<GroupView>,
    /// The `cursor` of the next part; `null` at the end.
    pub next: Option<String>,
}

/// List groups of connected records
///
/// Groups are connected by the pairs that match or were confirmed by a person, without rejected pairs. In a set of ten or more records, two parts that only one
/// pair connects are two groups until a person confirms this pair. The list is computed again for every page, so that a group that changes its position between two
/// requests may be missed or shown twice.
///
/// With `category`, `status`, `unit` or `verdict` the list contains the groups in which at least one record meets all these conditions. A part
/// of the list may then have fewer groups than `limit`, or none, and still a `next`: one request reads at most some 10,000 records.
#[utoipa::path(get, path = "/v1/collections/{collection}/groups", operation_id = "listGroups", tag = "groups",
    params(("collection" = CollectionName, Path), ListParams, FilterParams, RowParams),
    responses((status = 200, description = "a part of the list", body = GroupList)))]
pub async fn list(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    Params((params, filters, rows)): Params<(ListParams, FilterParams, RowParams)>,
) -> Result<Json<GroupList>, Problem> {
    let ListParams { order, days, least, limit, cursor } = params;
    let selection = GroupSelection { order, days, least, record: filters.into() };
    let (mut items, next) = app.engine.groups(&collection, &selection, cursor, limit).await?;
    if let Some(columns) = rows.columns() {
        let ids: Vec<RecordId> = items.iter().map(|group| group.id.clone()).collect();
        let mut rows = app.engine.rows(&collection, &ids, &columns).await?;
        items.iter_mut().for_each(|group| group.row = rows.remove(&group.id));
    }
    Ok(Json(GroupList { items, next: next.map(|after| cursor::encode_numbers([after.rank, after.first.0])) }))
}

/// The days that count as recent.
#[derive(Clone, Copy, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct GroupParams {
    /// Number of days that count as recent. The default is 30.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 36500)]
    pub days: u32,
}

impl Parameters for GroupParams {
    fn read(query: &mut Query) -> Self {
        Self { days: days(query) }
    }
}

/// Read the group of a record
#[utoipa::path(get, path = "/v1/collections/{collection}/groups/{id}", operation_id = "getGroup", tag = "groups",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "id of any of its records"), GroupParams, RowParams),
    responses((status = 200, description = "the group with its members", body = GroupDetail)))]
pub async fn get(
    _: Reader,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    Params((params, rows)): Params<(GroupParams, RowParams)>,
) -> Result<Json<GroupDetail>, Problem> {
    let mut group = app.engine.group_of(&collection, &id, params.days).await?;
    if let Some(columns) = rows.columns() {
        let pairs = group.bridges.iter().chain(&group.cut).chain(&group.rejected);
        let named = pairs.flat_map(|pair| [&pair.earlier, &pair.later]).chain(&group.members).chain([&group.group.id]);
        let ids: Vec<RecordId> = named.cloned().collect();
        group.rows = Some(app.engine.rows(&collection, &ids, &columns).await?);
    }
    Ok(Json(group))
}
