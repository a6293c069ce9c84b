//! Explains a pair: the common parts of two records, and their differences.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::auth::Reader;
use crate::extract::{self, InCollection, JsonBytes};
use crate::problem::Problem;
use crate::query::CheckedParameters;
use crate::routes::Timed;
use crate::routes::rows::RowParams;
use crate::state::App;
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::record::{RecordId, text_of};
use doppel_engine::Side;
use doppel_engine::answers::Explanation;

/// The two records to compare.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read piece by piece")]
pub struct ExplainInput {
    a: SideInput,
    b: SideInput,
}

/// One record of a pair. It has either `id` or `row`.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the body; it is read piece by piece")]
pub struct SideInput {
    /// The id of a stored record.
    id: Option<RecordId>,
    /// A row that is not stored: a flat JSON object with the fields of a record.
    #[schema(value_type = Option<Object>)]
    row: Option<Box<RawValue>>,
}

/// Explain the common parts and the differences of two records
#[utoipa::path(post, path = "/v1/collections/{collection}/explain", operation_id = "explainPair", tag = "search",
    params(("collection" = CollectionName, Path), RowParams), request_body = ExplainInput,
    responses((status = 200, description = "the comparison", body = Timed<Explanation>)))]
pub async fn explain(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    CheckedParameters(rows): CheckedParameters<RowParams>,
    JsonBytes(body): JsonBytes,
) -> Result<Json<Timed<Explanation>>, Problem> {
    let (a, b) = read(&body)?;
    let started = Instant::now();
    let ids = [stored(&a), stored(&b)];
    let mut answer = app.engine.explain(&collection, a, b).await?;
    if let Some(columns) = rows.columns() {
        let rows = app.engine.rows(&collection, ids.iter().flatten(), &columns).await?;
        [answer.row_a, answer.row_b] = ids.map(|id| rows.get(&id?).cloned());
    }
    Ok(Json(Timed::since(started, answer)))
}

fn stored(side: &Side) -> Option<RecordId> {
    match side {
        Side::Stored(id) => Some(id.clone()),
        Side::Given(_) => None,
    }
}

/// The keys of the body. Each key may occur once, and no other keys may occur. The values are not parsed yet.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PairBody<'a> {
    #[serde(borrow)]
    a: Option<&'a RawValue>,
    #[serde(borrow)]
    b: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct OneSide<'a> {
    #[serde(borrow, deserialize_with = "there")]
    id: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "there")]
    row: Option<&'a RawValue>,
}

/// Reads the value of a key that is present. `null` is a value here, so that it is refused later.
fn there<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn read(bytes: &[u8]) -> Result<(Side, Side), Problem> {
    let text = text_of(bytes)?;
    let pair: PairBody<'_> = shape(text, "", "give {\"a\": …, \"b\": …}, each once and nothing else")?;
    Ok((side(pair.a, "/a")?, side(pair.b, "/b")?))
}

/// Reads the keys of an object. The error texts of serde are not used, because they may quote the body.
fn shape<'a, T: Deserialize<'a>>(text: &'a str, pointer: &str, expected: &str) -> Result<T, Problem> {
    let read = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => invalid(pointer, ErrorCode::InvalidValue, expected),
        _ => {
            let detail = format!("the body is not valid JSON (line {}, column {})", error.line(), error.column());
            Problem::at(StatusCode::BAD_REQUEST, ErrorCode::MalformedBody, pointer, detail)
        }
    });
    // serde would also accept a list of the values, which would be a mistake of the client.
    match text.trim_start().starts_with('{') {
        false if read.is_ok() => Err(invalid(pointer, ErrorCode::InvalidValue, expected)),
        _ => read,
    }
}

fn side(raw: Option<&RawValue>, pointer: &str) -> Result<Side, Problem> {
    const EXPECTED: &str = "give either {\"id\": \"…\"} or {\"row\": {…}}";
    let raw = raw.ok_or_else(|| invalid(pointer, ErrorCode::MissingKey, EXPECTED))?;
    let one: OneSide<'_> = shape(raw.get(), pointer, EXPECTED)?;
    match (one.id, one.row) {
        (Some(id), None) => {
            let pointer = format!("{pointer}/id");
            let id: String = serde_json::from_str(id.get())
                .map_err(|_| invalid(&pointer, ErrorCode::InvalidId, "an id is a string"))?;
            let id = RecordId::new(&id).map_err(|reason| invalid(&pointer, ErrorCode::InvalidId, &reason))?;
            Ok(Side::Stored(id))
        }
        (None, Some(row)) => {
            let row = extract::row(row.get().as_bytes()).map_err(|problem| problem.below(&format!("{pointer}/row")))?;
            Ok(Side::Given(row))
        }
        _ => Err(invalid(pointer, ErrorCode::InvalidValue, EXPECTED)),
    }
}

fn invalid(pointer: &str, code: ErrorCode, detail: &str) -> Problem {
    Problem::invalid_at(pointer, code, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(body: &str, status: u16, code: &str, pointer: &str) {
        let problem = read(body.as_bytes()).unwrap_err();
        let found = problem.body("");
        assert_eq!(
            (found.status, found.code.as_str(), found.errors[0].pointer.as_str()),
            (status, code, pointer),
            "{body}"
        );
    }

    #[test]
    fn a_side_is_an_id_or_a_row() {
        let (a, b) = read(r#"{"a":{"id":"甲"},"b":{"row":{"title":"路灯不亮"}}}"#.as_bytes()).unwrap();
        assert!(matches!((a, b), (Side::Stored(_), Side::Given(_))));
    }

    #[test]
    fn every_other_shape_is_refused_by_its_place() {
        refused("{", 400, "malformed_body", "");
        refused("3", 422, "invalid_value", "");
        refused(r#"[{"id":"1"},{"id":"2"}]"#, 422, "invalid_value", "");
        refused(r#"{"a":["1"],"b":{"id":"2"}}"#, 422, "invalid_value", "/a");
        refused(r#"{"a":{"id":"1"}}"#, 422, "missing_key", "/b");
        refused(r#"{"a":{"id":"1"},"b":{"id":"2"},"c":3}"#, 422, "invalid_value", "");
        refused(r#"{"a":{"id":"1","row":{}},"b":{"id":"2"}}"#, 422, "invalid_value", "/a");
        refused(r#"{"a":{"id":null,"row":{}},"b":{"id":"2"}}"#, 422, "invalid_value", "/a");
        refused(r#"{"a":{"id":"1"},"b":{"row":null}}"#, 422, "not_an_object", "/b/row");
        refused(r#"{"a":{"id":7},"b":{"id":"2"}}"#, 422, "invalid_id", "/a/id");
        refused(r#"{"a":{"id":""},"b":{"id":"2"}}"#, 422, "invalid_id", "/a/id");
        refused(r#"{"a":{"id":"1"},"b":{"row":{"t":1,"t":2}}}"#, 422, "duplicate_key", "/b/row/t");
        refused(r#"{"a":{"id":"1"},"b":{"row":{"fingerprint":2}}}"#, 422, "invalid_fingerprint", "/b/row/fingerprint");
    }
}
