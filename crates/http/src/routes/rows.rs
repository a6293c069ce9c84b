//! Adds rows to the records in answers, and reads many records in one request.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::auth::Reader;
use crate::extract::{InCollection, JsonBytes};
use crate::problem::Problem;
use crate::query::{CheckedParameters, NoParameters, QueryParameters, QueryReader};
use crate::state::App;
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_core::record::{Columns, MAX_FIELDS, RecordId, ShownRow, text_of};
use doppel_core::verdict::Match;
use doppel_engine::Error;
use doppel_engine::rows::Records;

/// Largest number of ids in one request.
const MOST_IDS: usize = 1000;

/// The rows that a response contains in addition to the ids of records.
#[derive(Clone, Debug, Default, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct RowParams {
    /// `row`: adds the whole rows of the records to the response. Cannot be combined with `fields`.
    #[param(value_type = Option<String>, pattern = "^row$")]
    pub include: bool,
    /// Adds only these columns of the rows to the response, separated by commas. A column that a row does not have is left out.
    #[param(value_type = Option<String>)]
    pub fields: Option<Vec<String>>,
}

impl QueryParameters for RowParams {
    fn read(query: &mut QueryReader) -> Self {
        let include = query.take("include");
        if include.as_deref().is_some_and(|include| include != "row") {
            query.refuse("include", ErrorCode::InvalidParameter, "give row");
        }
        let fields = query.take("fields").map(|fields| fields.split(',').map(str::to_owned).collect::<Vec<_>>());
        if let Some(fields) = &fields
            && (fields.iter().any(String::is_empty) || fields.len() > MAX_FIELDS)
        {
            let detail = format!("give 1 to {MAX_FIELDS} names of columns, separated by commas");
            query.refuse("fields", ErrorCode::InvalidParameter, &detail);
        }
        if include.is_some() && fields.is_some() {
            query.refuse("fields", ErrorCode::InvalidParameter, "give include=row or fields, not both");
        }
        Self { include: include.is_some(), fields }
    }
}

impl RowParams {
    /// The columns to show; `None` if no rows were requested.
    pub fn columns(self) -> Option<Columns> {
        match self.fields {
            Some(names) => Some(Columns::Named(names)),
            None => self.include.then_some(Columns::All),
        }
    }

    /// Adds the requested rows to `matches`.
    ///
    /// # Errors
    /// 413 for too many bytes.
    pub async fn show_matches(
        self,
        app: &App,
        collection: &CollectionName,
        matches: impl IntoIterator<Item = &mut Match> + Send,
    ) -> Result<(), Problem> {
        self.show(app, collection, matches, |found| (&found.id, &mut found.row)).await
    }

    /// Adds the requested rows to `items`. `place` returns the id of an item's record, and the place for the row. A record that does not
    /// exist any more has no row.
    ///
    /// # Errors
    /// 404; 413 for too many bytes.
    pub async fn show<'i, T: Send + 'i>(
        self,
        app: &App,
        collection: &CollectionName,
        items: impl IntoIterator<Item = &'i mut T> + Send,
        place: fn(&mut T) -> (&RecordId, &mut Option<ShownRow>),
    ) -> Result<(), Problem> {
        let Some(columns) = self.columns() else { return Ok(()) };
        let places: Vec<_> = items.into_iter().map(place).collect();
        let ids: Vec<RecordId> = places.iter().map(|(id, _)| (*id).clone()).collect();
        let rows = match app.engine.rows(collection, &ids, &columns).await {
            // A check in a collection that does not exist yet has no rows to show.
            Err(Error::UnknownCollection(_)) if ids.is_empty() => return Ok(()),
            rows => rows?,
        };
        for (id, row) in places {
            *row = rows.get(id).cloned();
        }
        Ok(())
    }
}

/// The ids of the requested records.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GetInput {
    /// The ids, at most 1,000.
    #[schema(value_type = Vec<RecordId>, min_items = 1, max_items = 1000)]
    ids: Vec<String>,
}

/// Read many records by their ids
///
/// The records have the order of the ids. The response ends early when it contains 8 MiB of rows. `next` is then the number of ids that were
/// answered.
#[utoipa::path(post, path = "/v1/collections/{collection}/records/_get", operation_id = "getRecords", tag = "records",
    params(("collection" = CollectionName, Path)), request_body = GetInput,
    responses((status = 200, description = "the records with their verdicts", body = Records)))]
pub async fn get_many(
    _: Reader,
    State(app): State<App>,
    InCollection(collection): InCollection,
    _: CheckedParameters<NoParameters>,
    JsonBytes(body): JsonBytes,
) -> Result<Json<Records>, Problem> {
    Ok(Json(app.engine.records_of(&collection, ids(&body)?).await?))
}

fn ids(body: &[u8]) -> Result<Vec<RecordId>, Problem> {
    let text = text_of(body)?;
    let input: GetInput = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => {
            invalid_ids("", ErrorCode::InvalidValue, "give {\"ids\": [\"…\", …]} and nothing else")
        }
        _ => {
            let detail = format!("the body is not valid JSON (line {}, column {})", error.line(), error.column());
            Problem::malformed(ErrorCode::MalformedBody, detail)
        }
    })?;
    // serde would also accept a list of the values, which would be a mistake of the client.
    if !text.trim_start().starts_with('{') {
        return Err(invalid_ids("", ErrorCode::InvalidValue, "give {\"ids\": [\"…\", …]} and nothing else"));
    }
    if !(1..=MOST_IDS).contains(&input.ids.len()) {
        return Err(invalid_ids("/ids", ErrorCode::OutOfRange, &format!("give 1 to {MOST_IDS} ids")));
    }
    input
        .ids
        .iter()
        .enumerate()
        .map(|(at, id): (usize, &String)| {
            RecordId::new(id).map_err(|reason| invalid_ids(&format!("/ids/{at}"), ErrorCode::InvalidId, &reason))
        })
        .collect()
}

fn invalid_ids(pointer: &str, code: ErrorCode, detail: &str) -> Problem {
    Problem::invalid_at(pointer, code, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_a_list_of_1_to_1000_in_an_object() {
        assert_eq!(ids(r#"{"ids":["甲","甲"]}"#.as_bytes()).unwrap().len(), 2);
        assert_eq!(refusal_of("{"), (400, "malformed_body", String::new()));
        assert_eq!(refusal_of(r#"[["a"]]"#), (422, "invalid_value", String::new()));
        assert_eq!(refusal_of(r#"{"ids":["a"],"x":1}"#), (422, "invalid_value", String::new()));
        assert_eq!(refusal_of(r#"{"ids":[]}"#), (422, "out_of_range", "/ids".into()));
        assert_eq!(refusal_of(r#"{"ids":["a",""]}"#), (422, "invalid_id", "/ids/1".into()));
        let many = serde_json::json!({ "ids": vec!["a"; 1001] }).to_string();
        assert_eq!(refusal_of(&many), (422, "out_of_range", "/ids".into()));
    }

    fn refusal_of(body: &str) -> (u16, &'static str, String) {
        let problem = ids(body.as_bytes()).unwrap_err();
        let body = problem.body("");
        (body.status, body.code.as_str(), body.errors[0].pointer.clone())
    }
}
