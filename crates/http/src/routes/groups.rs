//! Groups of connected records, to show frequent topics and petitioners with many records.

#![expect(unused_qualifications, reason = "written by utoipa's macro around parameter structs")]

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Reader, Writer};
use crate::cursor::CursorList;
use crate::extract::{InCollection, InRecord};
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters, QueryParameters, QueryReader};
use crate::routes::decisions::WithdrawParams;
use crate::routes::filters::FilterParams;
use crate::routes::input::ObjectReader;
use crate::routes::rows::RowParams;
use crate::state::App;
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::record::RecordId;
use doppel_engine::groups::regroup::{RegroupAuthor, Regrouping};
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
    /// `size`: groups with the most records first. `hot`: groups with the most petitioners in the last `days` days first. `repeat`: groups with the
    /// most records of one petitioner first. `recent`: groups with the latest record first. The default is `size`.
    #[param(value_type = Option<String>, pattern = "^(size|hot|repeat|recent)$")]
    pub order: GroupOrder,
    /// Number of days before now that count as recent. The default is 30.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 36500)]
    pub days: u32,
    /// Only groups with at least this many records. The default is 2.
    #[param(value_type = Option<u32>, minimum = 2)]
    pub min_members: usize,
    /// Largest number of groups in the response, 1 to 1000. The default is 50.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 1000)]
    pub limit: usize,
    /// The `next` of an earlier response with the same other parameters, to continue there.
    #[param(value_type = Option<String>)]
    pub cursor: Option<GroupCursor>,
}

impl QueryParameters for ListParams {
    fn read(query: &mut QueryReader) -> Self {
        let orders = [
            (GroupOrder::Size, "size"),
            (GroupOrder::Hot, "hot"),
            (GroupOrder::Repeat, "repeat"),
            (GroupOrder::Recent, "recent"),
        ];
        let order = query.choice("order", &orders).unwrap_or(GroupOrder::Size);
        let cursor = query
            .cursor(|text| CursorList::Groups.decode(text))
            .map(|[rank, first]| GroupCursor { rank, first: Seq(first) });
        let min_members = query.number("min_members", 2, u64::from(u32::MAX)).unwrap_or(2) as usize;
        let limit = query.number("limit", 1, LIST_LIMITS.1).unwrap_or(LIST_LIMITS.0) as usize;
        Self { order, days: days(query), min_members, limit, cursor }
    }
}

fn days(query: &mut QueryReader) -> u32 {
    query.number("days", 1, DAYS.1).unwrap_or(DAYS.0) as u32
}

/// One page of the list of groups.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct GroupList {
    /// The groups.
    pub items: Vec<GroupView>,
    /// The value of `cursor` for the next page; `null` on the last page.
    pub next: Option<String>,
}

/// List groups of connected records
///
/// A group consists of records that matching pairs connect. A pair that a person confirmed counts as a match; a pair that a person rejected does
/// not. If only one pair connects two parts of a set of ten or more records, the parts are two groups until a person confirms this pair. The list
/// is computed again for each page, so a group that moves in the list between two requests can be missing or can occur twice.
///
/// With `category`, `status`, `unit` or `verdict` the list contains the groups in which at least one record meets all these conditions. A page may
/// then have fewer groups than `limit`, or none, and a `next` that is not `null`: one request reads at most about 10,000 records.
#[utoipa::path(get, path = "/v1/collections/{collection}/groups", operation_id = "listGroups", tag = "groups",
    params(("collection" = CollectionName, Path), ListParams, FilterParams, RowParams),
    responses((status = 200, description = "one page of the list", body = GroupList)))]
pub async fn list(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    CheckedParameters((params, filters, rows)): CheckedParameters<(ListParams, FilterParams, RowParams)>,
) -> Result<Json<GroupList>, Problem> {
    let ListParams { order, days, min_members, limit, cursor } = params;
    let selection = GroupSelection { order, days, min_members, record: filters.into() };
    let (mut items, next) = app.engine.groups(&collection, &selection, cursor, limit).await?;
    rows.show(&app, &collection, &mut items, |group| (&group.id, &mut group.row)).await?;
    Ok(Json(GroupList { items, next: next.map(|after| CursorList::Groups.encode([after.rank, after.first.0])) }))
}

/// The days that count as recent.
#[derive(Clone, Copy, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct GroupParams {
    /// Number of days before now that count as recent. The default is 30.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 36500)]
    pub days: u32,
}

impl QueryParameters for GroupParams {
    fn read(query: &mut QueryReader) -> Self {
        Self { days: days(query) }
    }
}

/// Read the group of a record
#[utoipa::path(get, path = "/v1/collections/{collection}/groups/{id}", operation_id = "getGroup", tag = "groups",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "id of a record of the group"), GroupParams, RowParams),
    responses((status = 200, description = "the group with its members", body = GroupDetail)))]
pub async fn get(
    _: Reader,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    CheckedParameters((params, rows)): CheckedParameters<(GroupParams, RowParams)>,
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

/// The records of an operation on groups or events.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct RegroupInput {
    /// Ids of records, at most 1000.
    records: Vec<RecordId>,
    /// The name of the person who decides.
    by: Option<String>,
    /// The reason.
    note: Option<String>,
}

/// The person who requests an operation, and the reason.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct AuthorInput {
    /// The name of the person who decides.
    by: Option<String>,
    /// The reason.
    note: Option<String>,
}

/// The choice of an original.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read key by key")]
pub struct OriginalInput {
    /// The id of the member that becomes the original.
    original: RecordId,
    /// The name of the person who decides.
    by: Option<String>,
    /// The reason.
    note: Option<String>,
}

/// Reads the author of an operation on a group or an event.
pub(super) fn read_author(input: &mut ObjectReader) -> RegroupAuthor {
    RegroupAuthor { by: input.text("by"), note: input.text("note") }
}

/// Reads the records and the author of an operation on groups or events.
pub(super) fn regroup_input(mut input: ObjectReader) -> Result<(Vec<RecordId>, RegroupAuthor), Problem> {
    let records = input.word::<Vec<RecordId>>("records", "a list of record ids").unwrap_or_default();
    let author = read_author(&mut input);
    input.finish()?;
    Ok((records, author))
}

/// Returns the answer to an operation on the records that a body names. The pointer of an unknown record is its position in the body.
pub(super) fn problem_of_named(error: doppel_engine::Error, named: &[RecordId]) -> Problem {
    let position = match &error {
        doppel_engine::Error::UnknownRecord(_, id) => named.iter().position(|other| other == id),
        _ => None,
    };
    match position {
        Some(index) => {
            let pointer = format!("/records/{index}");
            Problem::unknown(ErrorCode::UnknownRecord, pointer, error.to_string())
        }
        None => error.into(),
    }
}

/// Merge the groups of several records
///
/// Give one record of each group. A record without a group counts as a group with one record. doppel makes a `same` decision about the original of
/// the first group and the original of each further group. A repetition of the request makes no further decisions.
#[utoipa::path(post, path = "/v1/collections/{collection}/groups/_merge", operation_id = "mergeGroups", tag = "groups",
    params(("collection" = CollectionName, Path)),
    request_body = RegroupInput,
    responses((status = 200, description = "the decisions and the resulting group", body = Regrouping),
        (status = 409, description = "`rejected_pair`: a person decided that two records of these groups are different matters")))]
pub async fn merge(
    _: Writer,
    State(app): State<App>,
    InCollection(collection): InCollection,
    _: CheckedParameters<NoParameters>,
    input: ObjectReader,
) -> Result<Json<Regrouping>, Problem> {
    let (records, author) = regroup_input(input)?;
    let named = records.clone();
    let merged =
        app.with_engine(|engine| async move { Ok(engine.merge_groups(&collection, &records, &author).await) }).await?;
    merged.map(Json).map_err(|error| problem_of_named(error, &named))
}

/// Separate records from their group
///
/// doppel makes a `not_same` decision about each pair that links one of `records` with another member of the group. It makes no decision about two
/// of `records` or about two other members. If a request was interrupted, repeat it for the named records that are still in the group.
#[utoipa::path(post, path = "/v1/collections/{collection}/groups/{id}/_split", operation_id = "splitGroup", tag = "groups",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "id of any record of the group")),
    request_body = RegroupInput,
    responses((status = 200, description = "the decisions and the resulting groups", body = Regrouping),
        (status = 409, description = "`too_many_links`: more than 1,000 pairs link the records with the rest of the group")))]
pub async fn split(
    _: Writer,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    _: CheckedParameters<NoParameters>,
    input: ObjectReader,
) -> Result<Json<Regrouping>, Problem> {
    let (records, author) = regroup_input(input)?;
    Ok(Json(
        app.with_engine(|engine| async move { engine.split_group(&collection, &id, &records, &author).await }).await?,
    ))
}

/// Choose the original of a group
///
/// Without this choice, the original is the record with the earliest time of submission. The choice is stored in a `same` decision about the record
/// and another member. It ends with the next decision about these two records. If a group has several choices, the last one applies.
#[utoipa::path(put, path = "/v1/collections/{collection}/groups/{id}/original", operation_id = "chooseOriginal", tag = "groups",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "id of any record of the group")),
    request_body = OriginalInput,
    responses((status = 200, description = "the group with its members", body = GroupDetail),
        (status = 409, description = "`rejected_pair`: a person decided that the record and each other member are different matters")))]
pub async fn choose_original(
    _: Writer,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    _: CheckedParameters<NoParameters>,
    mut input: ObjectReader,
) -> Result<Json<GroupDetail>, Problem> {
    let original = input.word::<RecordId>("original", "the id of a member");
    let author = read_author(&mut input);
    if original.is_none() {
        input.refuse::<()>("original", ErrorCode::InvalidValue, "give the id of a member");
    }
    input.finish()?;
    let engine = app.engine.clone();
    let choosing = async move { engine.choose_original(&collection, &id, original.as_ref(), &author).await };
    Ok(Json(app.detached(choosing).await?))
}

/// Reset the original of a group to its earliest record
#[utoipa::path(delete, path = "/v1/collections/{collection}/groups/{id}/original", operation_id = "clearOriginal", tag = "groups",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "id of any record of the group"), WithdrawParams),
    responses((status = 200, description = "the group with its members", body = GroupDetail)))]
pub async fn clear_original(
    _: Writer,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    CheckedParameters(WithdrawParams { by, note }): CheckedParameters<WithdrawParams>,
) -> Result<Json<GroupDetail>, Problem> {
    let author = RegroupAuthor { by, note };
    Ok(Json(
        app.with_engine(|engine| async move { engine.choose_original(&collection, &id, None, &author).await }).await?,
    ))
}
