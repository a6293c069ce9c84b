//! Finds records by their words: related cases, and search.

#![expect(unused_qualifications, reason = "written by utoipa's macro around parameter structs")]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::auth::Reader;
use crate::cursor::CursorList;
use crate::extract::{InCollection, InRecord, RowBody};
use crate::problem::Problem;
use crate::query::{CheckedParameters, QueryParameters, QueryReader};
use crate::routes::filters;
use crate::routes::rows::RowParams;
use crate::routes::{Timed, window};
use crate::state::App;
use doppel_core::collection::{CollectionName, Role, Settings, TextFormat};
use doppel_core::error_code::ErrorCode;
use doppel_core::events::SameEvent;
use doppel_core::record::{RecordId, Row, ShownRow};
use doppel_core::schemes::hash::city64_bytes;
use doppel_core::text::normalise::Normaliser;
use doppel_core::verdict::{Relation, VerdictKind};
use doppel_engine::{Error, SimilarSelection};
use doppel_search::fragments::find_fragments;
use doppel_search::query::{
    HitCursor, HitTotal, MAX_PARTS, MAX_QUESTION_CHARS, Order, SearchHit, SearchQuery, split_question,
};
use doppel_search::service::{AsOf, RelatedAnswer, SearchAnswer, SearchError, SearchService};
use doppel_search::vectors::VectorState;
use doppel_store::{Seq, StoredRecord};

/// The default and the largest number of related records in an answer.
const RELATED_LIMITS: (u64, u64) = (10, 100);
/// The default and the largest number of records in an answer to a search.
const SEARCH_LIMITS: (u64, u64) = (20, 100);
/// Largest number of related records that are marked as duplicates. One search does not verify more records.
const MOST_DUPLICATES: usize = 256;

impl From<SearchError> for Problem {
    fn from(error: SearchError) -> Self {
        let detail = error.to_string();
        match error {
            SearchError::Off => off(),
            SearchError::UnknownCollection(name) => Error::UnknownCollection(name).into(),
            SearchError::UnknownRecord(name, id) => Error::UnknownRecord(name, id).into(),
            SearchError::Invalid(violations) => Self::invalid(violations),
            SearchError::NoModel => Self::conflict(ErrorCode::VectorsDisabled, detail),
            SearchError::Opening => Self::unavailable(ErrorCode::SearchOpening, detail),
            // A damaged index is built again.
            SearchError::Index(_) => Self::unavailable(ErrorCode::SearchOpening, detail),
            SearchError::Engine(error) => error.into(),
        }
    }
}

fn off() -> Problem {
    Problem::conflict(ErrorCode::SearchDisabled, "search is turned off; search.enabled turns it on")
}

pub(super) fn service(app: &App) -> Result<&SearchService, Problem> {
    app.search.as_ref().ok_or_else(off)
}

/// The number of related records.
#[derive(Clone, Copy, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RelatedParams {
    /// Largest number of records in the response, 1 to 100. The default is 10.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 100)]
    pub limit: u64,
}

impl QueryParameters for RelatedParams {
    fn read(query: &mut QueryReader) -> Self {
        Self { limit: query.number("limit", 1, RELATED_LIMITS.1).unwrap_or(RELATED_LIMITS.0) }
    }
}

/// A record that probably concerns the same matter.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RelatedRecord {
    /// The id of the record.
    pub id: RecordId,
    /// The weighted share of the terms of the row that the record contains, 0 to 1. The list is sorted by this value. It is not a probability.
    pub score: f32,
    /// The probability by the event model that both records report one event, 0 to 1. `null` while the service is still reading the records of a
    /// large collection after a start.
    pub probability: Option<f64>,
    /// Whether both records report one event, by thresholds of `probability`; `null` if `probability` is `null`.
    pub same_event: Option<SameEvent>,
    /// True if `similar` also lists the record as a duplicate.
    pub duplicate: bool,
    /// The common terms with the largest weights, at most five, the largest weight first.
    pub terms: Vec<String>,
    /// The relation of the two petitioners; `null` if one of them is unknown.
    pub relation: Option<Relation>,
    /// The time of the record (RFC 3339, UTC); `null` if it has none.
    pub time: Option<String>,
    /// The row of the record or some of its columns, if the request asks for rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub row: Option<ShownRow>,
}

/// Records that probably concern the same matter.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RelatedList {
    /// The records, the most probable first.
    pub related: Vec<RelatedRecord>,
    /// The last change that the response contains.
    pub as_of: AsOf,
    /// Whether the ranking used vectors of a model, or the reason why it did not. `null` if the configuration has no model.
    pub vectors: Option<VectorState>,
}

/// Find cases that are related to a row
///
/// Returns the records that most probably concern the same matter, even if they use other words. The list is a ranking and not a verdict. It also
/// contains duplicates, with `duplicate` true. Nothing is stored. If a record with the `id` of the row is stored, it is not in the list.
#[utoipa::path(post, path = "/v1/collections/{collection}/related", operation_id = "listRelatedToRow", tag = "search",
    params(("collection" = CollectionName, Path), RelatedParams, RowParams),
    request_body(content = Object, description = "the row: a flat JSON object with the fields of the record"),
    responses((status = 200, description = "related records", body = Timed<RelatedList>),
        (status = 409, description = "`search_disabled`: search is turned off; `text_not_kept`: the collection stores no text, so no words can be searched")))]
pub async fn related(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    CheckedParameters((params, rows)): CheckedParameters<(RelatedParams, RowParams)>,
    RowBody(row): RowBody,
) -> Result<Json<Timed<RelatedList>>, Problem> {
    let started = Instant::now();
    // Refuse the request before any lookup if search is off.
    service(&app)?;
    let similar = app.engine.similar(&collection, row.clone(), SimilarSelection::matches(MOST_DUPLICATES)).await?;
    let except = row.id().cloned();
    let duplicates = similar.similar.into_iter().map(|found| found.id).collect();
    let mut list = list(&app, &collection, row, except, params, &duplicates).await?;
    rows.show(&app, &collection, &mut list.related, |related| (&related.id, &mut related.row)).await?;
    Ok(Json(Timed::since(started, list)))
}

/// Find cases that are related to a stored record
#[utoipa::path(get, path = "/v1/collections/{collection}/records/{id}/related", operation_id = "listRelatedToRecord", tag = "search",
    params(("collection" = CollectionName, Path), ("id" = RecordId, Path, description = "record id, percent-encoded"), RelatedParams, RowParams),
    responses((status = 200, description = "related records", body = Timed<RelatedList>),
        (status = 409, description = "`search_disabled`: search is turned off; `text_not_kept`: the collection stores no text, so no words can be searched")))]
pub async fn related_to(
    _: Reader,
    State(app): State<App>,
    InRecord(collection, id): InRecord,
    CheckedParameters((params, rows)): CheckedParameters<(RelatedParams, RowParams)>,
) -> Result<Json<Timed<RelatedList>>, Problem> {
    let started = Instant::now();
    // Refuse the request before any lookup if search is off.
    service(&app)?;
    let similar = app.engine.similar_to(&collection, &id, SimilarSelection::matches(MOST_DUPLICATES)).await?;
    let duplicates = similar.similar.into_iter().map(|found| found.id).collect();
    let row = app.engine.stored_row(&collection, &id).await?;
    let mut list = list(&app, &collection, row, Some(id), params, &duplicates).await?;
    rows.show(&app, &collection, &mut list.related, |related| (&related.id, &mut related.row)).await?;
    Ok(Json(Timed::since(started, list)))
}

async fn list(
    app: &App,
    collection: &CollectionName,
    row: Row,
    except: Option<RecordId>,
    params: RelatedParams,
    duplicates: &HashSet<RecordId>,
) -> Result<RelatedList, Problem> {
    let RelatedAnswer { related: mut found, as_of, vectors } =
        service(app)?.related(collection, row.clone(), except.clone(), params.limit as usize).await?;
    // Records that were removed or replaced since the index was written are left out.
    let mut there = HashSet::with_capacity(found.len());
    for found in found.chunks(SHOWN_AT_ONCE) {
        let seqs: Vec<Seq> = found.iter().map(|found| found.seq).collect();
        let records = app.engine.store().records_at(collection, &seqs).await?;
        there.extend(records.into_iter().map(|record| (record.seq, record.id)));
    }
    found.retain(|found| there.contains(&(found.seq, found.id.clone())));
    let others = found.iter().map(|found| found.id.clone()).collect();
    let chances = app.engine.event_chances(collection, row, except.as_ref(), others).await?.unwrap_or_default();
    let related = found.into_iter().map(|found| RelatedRecord {
        probability: chances.get(&found.id).map(|chance| chance.probability),
        same_event: chances.get(&found.id).map(|chance| chance.same_event),
        duplicate: duplicates.contains(&found.id),
        relation: found.same_petitioner.map(|same| if same { Relation::Repeat } else { Relation::Shared }),
        time: found.time.and_then(shown),
        id: found.id,
        score: (found.score * 10_000.0).round() / 10_000.0,
        terms: found.terms,
        row: None,
    });
    Ok(RelatedList { related: related.collect(), as_of, vectors })
}

fn shown(micros: i64) -> Option<String> {
    Some(Timestamp::from_microsecond(micros).ok()?.to_string())
}

/// The search and its filters.
#[derive(Clone, Debug, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SearchParams {
    /// Words, and phrases in double quotes, that a record must contain. A minus sign before a word or a phrase excludes the records that contain
    /// it. Without `q` all records are listed.
    #[param(value_type = Option<String>, max_length = 1000)]
    pub q: String,
    /// Only records that were submitted at this time or later, in one of the forms of the times of the collection.
    #[param(value_type = Option<String>)]
    pub from: Option<String>,
    /// Only records that were submitted before this time.
    #[param(value_type = Option<String>)]
    pub to: Option<String>,
    /// Only records of this petitioner: the value of a field of role `identity`.
    #[param(value_type = Option<String>)]
    pub identity: Option<String>,
    /// Only records with this value in a field of role `whole` or `category`.
    #[param(value_type = Option<String>)]
    pub category: Option<String>,
    /// Only records with this value of role `status`.
    #[param(value_type = Option<String>)]
    pub status: Option<String>,
    /// Only records with this value of role `unit`.
    #[param(value_type = Option<String>)]
    pub unit: Option<String>,
    /// Only records with this verdict.
    #[param(value_type = Option<VerdictKind>)]
    pub verdict: Option<VerdictKind>,
    /// `ranked`: the best records first. `newest`: the latest records first. The default is `ranked`; without `q` it is `newest`.
    #[param(value_type = Option<String>)]
    pub order: Order,
    /// Largest number of records in the response, 1 to 100. The default is 20.
    #[param(value_type = Option<u16>, minimum = 1, maximum = 100)]
    pub limit: u64,
    /// The `next` of an earlier response to the same search, to continue there.
    #[param(value_type = Option<String>)]
    pub cursor: Option<(u64, u64)>,
}

impl QueryParameters for SearchParams {
    fn read(query: &mut QueryReader) -> Self {
        let q = query.take("q").unwrap_or_default();
        if q.chars().count() > MAX_QUESTION_CHARS {
            query.refuse("q", ErrorCode::TooLong, &format!("give at most {MAX_QUESTION_CHARS} characters"));
        } else if split_question(&q, str::to_owned).len() > MAX_PARTS {
            query.refuse("q", ErrorCode::TooManyParts, &format!("give at most {MAX_PARTS} words and phrases"));
        }
        let default = if q.trim().is_empty() { Order::Newest } else { Order::Ranked };
        let orders = [(Order::Ranked, "ranked"), (Order::Newest, "newest")];
        let order = query.choice("order", &orders).unwrap_or(default);
        let mut read = Self {
            q,
            from: query.take("from"),
            to: query.take("to"),
            identity: query.take("identity"),
            category: query.take("category"),
            status: query.take("status"),
            unit: query.take("unit"),
            verdict: filters::verdict(query),
            order,
            limit: query.number("limit", 1, SEARCH_LIMITS.1).unwrap_or(SEARCH_LIMITS.0),
            cursor: None,
        };
        let question = read.question();
        read.cursor = query.cursor(|text| {
            CursorList::Hits.decode(text).and_then(|[rank, seq, seal]: [u64; 3]| {
                (cursor_seal(&question, rank, seq) == seal).then_some((rank, seq))
            })
        });
        read
    }
}

impl SearchParams {
    /// Returns the question with its filters and its order. A cursor is valid only for the same question.
    fn question(&self) -> String {
        let Self { q, from, to, identity, category, status, unit, verdict, order, limit: _, cursor: _ } = self;
        format!("{:?}", (q, from, to, identity, category, status, unit, verdict, order))
    }
}

/// Returns the checksum of a cursor. A cursor that was altered, or that belongs to another question, has another checksum.
fn cursor_seal(question: &str, rank: u64, seq: u64) -> u64 {
    city64_bytes(format!("{question}\n{rank} {seq}").as_bytes())
}

/// A range of characters in a text, in Unicode characters.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct CharRange {
    /// Offset of the first character, from 0.
    pub start: usize,
    /// Offset after the last character.
    pub end: usize,
}

/// A piece of a field that contains searched words.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FieldFragment {
    /// The name of the field.
    pub field: String,
    /// The piece in its original form.
    pub text: String,
    /// Its position in the field.
    #[serde(flatten)]
    pub at: CharRange,
    /// The ranges of the searched words, in Unicode characters of the field.
    pub marked: Vec<CharRange>,
}

/// A record that was found.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FoundRecord {
    /// The id of the record.
    pub id: RecordId,
    /// The relevance score; 0 if the list is ordered by time.
    pub score: f32,
    /// The verdict of the record.
    pub verdict: VerdictKind,
    /// The time of the record (RFC 3339, UTC); `null` if it has none.
    pub time: Option<String>,
    /// The pieces of the text that contain searched words.
    pub fragments: Vec<FieldFragment>,
    /// The row of the record or some of its columns, if the request asks for rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub row: Option<ShownRow>,
}

/// The number of matching records.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct FoundTotal {
    /// The number.
    pub count: u64,
    /// True if the number is exact; false if there may be more matching records.
    pub exact: bool,
}

/// One page of the found records.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FoundList {
    /// The records, in the requested order.
    pub items: Vec<FoundRecord>,
    /// The number of matching records, exact up to 10,000.
    pub total: FoundTotal,
    /// The value of `cursor` for the next page; `null` on the last page.
    pub next: Option<String>,
    /// The parts of `q` that were ignored because they contain no letter, digit or Han character. Other characters are not indexed.
    pub ignored: Vec<String>,
    /// The last change that the response contains.
    pub as_of: AsOf,
}

/// Search the records of a collection
///
/// A record must contain every word and every phrase in double quotes. A minus sign before a word or a phrase excludes the records that contain it.
#[utoipa::path(get, path = "/v1/collections/{collection}/search", operation_id = "searchRecords", tag = "search",
    params(("collection" = CollectionName, Path), SearchParams, RowParams),
    responses((status = 200, description = "one page of the found records", body = Timed<FoundList>),
        (status = 409, description = "`search_disabled`: search is turned off; `text_not_kept`: the collection stores no text, so no words can be searched")))]
pub async fn search(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    CheckedParameters((params, rows)): CheckedParameters<(SearchParams, RowParams)>,
) -> Result<Json<Timed<FoundList>>, Problem> {
    let started = Instant::now();
    Ok(Json(Timed::since(started, find(&app, &collection, params, rows).await?)))
}

/// Runs a search and reads the found records from the store. Records that were removed since the index was written are left out.
///
/// # Errors
/// The same as for the route.
pub async fn find(
    app: &App,
    collection: &CollectionName,
    params: SearchParams,
    rows: RowParams,
) -> Result<FoundList, Problem> {
    let service = service(app)?;
    let question = params.question();
    let window = window(app, collection, params.from.as_deref(), params.to.as_deref()).await?;
    let wanted = SearchQuery {
        text: params.q,
        from: window.from.map(|time| time.as_microsecond()),
        to: window.to.map(|time| time.as_microsecond()),
        identity: params.identity,
        category: params.category,
        status: params.status,
        unit: params.unit,
        verdict: params.verdict,
        order: params.order,
        limit: params.limit as usize,
        after: params.cursor.map(|(rank, seq)| HitCursor { rank, seq: Seq(seq) }),
    };
    let SearchAnswer { hits, as_of, collection: searched } = service.search(collection, wanted).await?;
    let texts = Arc::new(FragmentTexts::of(&searched.settings, hits.marked));
    let mut items = Vec::with_capacity(hits.hits.len());
    for hits in hits.hits.chunks(SHOWN_AT_ONCE) {
        let seqs: Vec<Seq> = hits.iter().map(|hit| hit.seq).collect();
        let records = app.engine.store().records_at(collection, &seqs).await?;
        let texts = Arc::clone(&texts);
        let hits = hits.to_vec();
        let shown = tokio::task::spawn_blocking(move || shown_hits(&texts, &hits, records)).await;
        items.extend(shown.map_err(|error| Problem::internal(format!("showing what was found panicked: {error}")))?);
    }
    rows.show(app, collection, &mut items, |item| (&item.id, &mut item.row)).await?;
    let (count, exact) = match hits.total {
        HitTotal::Exactly(count) => (count, true),
        HitTotal::AtLeast(count) => (count, false),
    };
    let next = hits
        .next
        .map(|HitCursor { rank, seq }| CursorList::Hits.encode([rank, seq.0, cursor_seal(&question, rank, seq.0)]));
    Ok(FoundList { items, total: FoundTotal { count, exact }, next, ignored: hits.ignored, as_of })
}

/// Number of records whose rows are in memory at the same time. A row may have a megabyte.
const SHOWN_AT_ONCE: usize = 8;

/// Makes the response items of the hits whose records still exist.
fn shown_hits(texts: &FragmentTexts, hits: &[SearchHit], records: Vec<StoredRecord>) -> Vec<FoundRecord> {
    let records: HashMap<Seq, StoredRecord> = records.into_iter().map(|record| (record.seq, record)).collect();
    let there = hits.iter().filter_map(|hit| {
        // If the collection was deleted and created again, another record may now have this number.
        Some((hit, records.get(&hit.seq).filter(|record| record.id == hit.id)?))
    });
    let shown = there.map(|(hit, record)| FoundRecord {
        id: hit.id.clone(),
        score: hit.score,
        verdict: record.verdict.kind,
        time: hit.time.and_then(self::shown),
        fragments: texts.fragments(record),
        row: None,
    });
    shown.collect()
}

/// The texts in which fragments are searched.
struct FragmentTexts {
    fields: Vec<(String, TextFormat)>,
    normaliser: Normaliser,
    marked: Vec<String>,
}

impl FragmentTexts {
    fn of(settings: &Settings, marked: Vec<String>) -> Self {
        let texts = settings.fields.iter().filter(|field| matches!(field.role, Role::Text | Role::Whole));
        let fields = texts.map(|field| (field.name.clone(), field.format)).collect();
        Self { fields, normaliser: Normaliser::new(settings.text.simplify), marked }
    }

    fn fragments(&self, record: &StoredRecord) -> Vec<FieldFragment> {
        let row = record.content.row().and_then(|row| serde_json::from_str(row).ok());
        let Some(Value::Object(row)) = row else { return Vec::new() };
        let mut found = Vec::new();
        for (field, format) in &self.fields {
            let Some(text) = row.get(field).and_then(Value::as_str) else { continue };
            for fragment in find_fragments(text, &self.marked, *format, self.normaliser) {
                let piece = text.chars().skip(fragment.at.start).take(fragment.at.len()).collect();
                let marked = fragment.marked.into_iter().map(char_range).collect();
                found.push(FieldFragment { field: field.clone(), text: piece, at: char_range(fragment.at), marked });
            }
        }
        found
    }
}

fn char_range(range: std::ops::Range<usize>) -> CharRange {
    CharRange { start: range.start, end: range.end }
}
