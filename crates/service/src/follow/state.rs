//! The stored state of a source (its checkpoint), and the state that the API shows.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use doppel_sources::database::SqlValue;
use doppel_sources::database::sql::RowPosition;

/// A watermark or an id in a checkpoint, in the form that the database returned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub(super) enum CheckpointValue {
    Int(i64),
    Unsigned(u64),
    Decimal(String),
    Text(String),
}

impl CheckpointValue {
    /// Converts a cell; `None` for a value that cannot order rows.
    pub(super) fn of(cell: &SqlValue) -> Option<Self> {
        match cell {
            SqlValue::Int(value) => Some(Self::Int(*value)),
            SqlValue::Unsigned(value) => Some(Self::Unsigned(*value)),
            SqlValue::Decimal(text) => Some(Self::Decimal(text.clone())),
            SqlValue::Text(text) => Some(Self::Text(text.clone())),
            SqlValue::Null | SqlValue::Bool(_) | SqlValue::Float(_) | SqlValue::Binary(_) | SqlValue::Undecodable => {
                None
            }
        }
    }

    pub(super) fn cell(&self) -> SqlValue {
        match self {
            Self::Int(value) => SqlValue::Int(*value),
            Self::Unsigned(value) => SqlValue::Unsigned(*value),
            Self::Decimal(text) => SqlValue::Decimal(text.clone()),
            Self::Text(text) => SqlValue::Text(text.clone()),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SourceCheckpoint {
    /// The process that reads the source.
    pub(super) holder: String,
    /// A digest of the table and the order of reading. The checkpoint of another table must not be used.
    pub(super) reads: String,
    /// The end of the lease (microseconds since 1970, by the store's clock). No other process may read the source before.
    pub(super) held_until: u64,
    /// The highest watermark whose rows are registered.
    pub(super) watermark: Option<CheckpointValue>,
    /// The same watermark as an instant (RFC 3339).
    pub(super) watermark_at: Option<String>,
    /// The end of the last round (RFC 3339).
    pub(super) last_round: Option<String>,
    /// The distance of the read rows from the clock of the database, in seconds.
    pub(super) lag_s: Option<f64>,
    /// Number of rows that rounds, sweeps and imports have registered.
    pub(super) rows: u64,
    /// Number of rejected rows.
    pub(super) rejected: u64,
    /// The id of the last rejected row, and the reason.
    pub(super) last_rejected: Option<(String, String)>,
    /// The time and the text of the last error. The next successful round removes it.
    pub(super) last_error: Option<(String, String)>,
    /// The time since which the worker waits for an answer of the database (RFC 3339).
    pub(super) unanswered_since: Option<String>,
    /// The rows whose verdicts are missing in the table of verdicts.
    pub(super) unwritten: Option<UnwrittenVerdicts>,
    pub(super) import: Option<ImportProgress>,
    pub(super) swept: Option<SweepResult>,
    /// The end of the last sweep (microseconds since 1970, by the store's clock).
    pub(super) swept_at: u64,
}

/// Rows that were registered while their verdicts could not be written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct UnwrittenVerdicts {
    /// The watermark of the first of these rows; `None` if it can be any row.
    pub(super) from: Option<CheckpointValue>,
}

/// A requested import, with its progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ImportProgress {
    /// The last id whose row is registered.
    pub(super) after: Option<CheckpointValue>,
    pub(super) shown: SourceImport,
}

impl ImportProgress {
    pub(super) fn position(&self) -> Option<RowPosition> {
        self.after.as_ref().map(|id| RowPosition { watermark: None, id: id.cell() })
    }
}

/// The progress of an import of all rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Imported)]
pub struct SourceImport {
    /// The time of the request (RFC 3339, UTC).
    pub asked_at: String,
    /// The time at which all rows had been read (RFC 3339, UTC); `null` before.
    pub finished_at: Option<String>,
    /// Number of registered rows.
    pub rows: u64,
    /// Number of rows that could not be registered.
    pub rejected: u64,
}

/// The result of the last comparison of the ids of a source with the ids of its collection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Swept)]
pub struct SweepResult {
    /// The end of the comparison (RFC 3339, UTC).
    pub at: String,
    /// Number of rows in the source.
    pub rows: u64,
    /// Number of rows that had not been read by any round.
    pub skipped: u64,
    /// Number of skipped rows that were registered by the comparison.
    pub registered: u64,
    /// Number of records whose rows no longer exist in the source.
    pub missing: u64,
    /// The ids of the first records whose rows no longer exist.
    pub missing_ids: Vec<String>,
    /// Number of these records that were deleted by the comparison.
    pub deleted: u64,
    /// The reason why no record was deleted although the configuration allows deletion; `null` otherwise.
    pub refused: Option<String>,
}

/// The status of a source. `waiting`: no row has been read yet. `following`: the service reads new and changed rows. `importing`: an import of all
/// rows is running. `idle`: the source is not followed and no import is running. `failing`: the last round failed and will be repeated.
/// `unanswered`: the service has been waiting for a response of the database for more than 15 seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceStatus {
    /// No row was read yet.
    Waiting,
    /// The service follows the rows of the source.
    Following,
    /// The service is reading all rows of the source.
    Importing,
    /// The source is not followed, and no import is running.
    Idle,
    /// The last round failed; the service tries again.
    Failing,
    /// The service has waited for an answer of the database for more than 15 seconds.
    Unanswered,
}

/// The state of a source.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SourceState {
    /// The name in the configuration.
    pub name: String,
    /// The collection in which the rows are registered.
    pub collection: String,
    /// The address of the database.
    pub database: String,
    /// True if the service continuously imports new and changed rows.
    pub follow: bool,
    /// The status.
    pub status: SourceStatus,
    /// The time of the last change up to which rows are registered (RFC 3339, UTC); `null` if none is registered.
    pub watermark: Option<String>,
    /// The end of the last round of reading (RFC 3339, UTC); `null` before the first.
    pub last_round: Option<String>,
    /// Delay in seconds of the registered rows against the clock of the database, measured at the end of the last page or round. It equals
    /// `delay_s` if all rows were read, and is larger if rows are still waiting. `null` before the first measurement.
    pub lag_s: Option<f64>,
    /// Number of rows that were registered since the service began to follow the source. A row counts again each time it changes.
    pub rows: u64,
    /// Number of rows that could not be registered.
    pub rejected: u64,
    /// The id of the last rejected row; `null` if no row was rejected.
    pub last_rejected_id: Option<String>,
    /// The error code of the last rejected row; `null` if no row was rejected.
    pub last_rejected_code: Option<String>,
    /// The last error; `null` after a successful round.
    pub last_error: Option<String>,
    /// The time of the last error (RFC 3339, UTC); `null` after a successful round.
    pub last_error_at: Option<String>,
    /// The time since which the service has been waiting for a response of the database (RFC 3339, UTC); `null` if it has waited less than 15
    /// seconds. After ten minutes (30 seconds for a connection) the service stops waiting and sets `last_error`.
    pub unanswered_since: Option<String>,
    /// The last import of all rows; `null` if there was none.
    pub import: Option<SourceImport>,
    /// The last comparison of the ids of the source with the ids of the collection; `null` if there was none.
    pub sweep: Option<SweepResult>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_survives_encoding_and_one_of_an_earlier_version_is_read() {
        let import = ImportProgress {
            after: Some(CheckpointValue::Int(i64::MAX)),
            shown: SourceImport { rows: 7, ..SourceImport::default() },
        };
        let saved = SourceCheckpoint {
            watermark: Some(CheckpointValue::Text("2024-03-05 10:11:12.123456".into())),
            import: Some(import),
            last_rejected: Some(("A-1".into(), "no_content".into())),
            held_until: u64::MAX,
            ..SourceCheckpoint::default()
        };
        let json = serde_json::to_value(&saved).unwrap();
        assert_eq!(serde_json::from_value::<SourceCheckpoint>(json).unwrap(), saved);
        assert_eq!(serde_json::from_str::<SourceCheckpoint>("{}").unwrap(), SourceCheckpoint::default());
    }
}
