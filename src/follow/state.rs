//! What is remembered of a source, and what is shown of it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use doppel_sources::database::Cell;
use doppel_sources::database::sql::Position;

/// A value of a checkpoint: a watermark or an id, as it was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub(super) enum Kept {
    Int(i64),
    Unsigned(u64),
    Decimal(String),
    Text(String),
}

impl Kept {
    /// `None` for what orders nothing.
    pub(super) fn of(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Int(value) => Some(Self::Int(*value)),
            Cell::Unsigned(value) => Some(Self::Unsigned(*value)),
            Cell::Decimal(text) => Some(Self::Decimal(text.clone())),
            Cell::Text(text) => Some(Self::Text(text.clone())),
            Cell::Null | Cell::Bool(_) | Cell::Float(_) | Cell::Binary(_) | Cell::Undecodable => None,
        }
    }

    pub(super) fn cell(&self) -> Cell {
        match self {
            Self::Int(value) => Cell::Int(*value),
            Self::Unsigned(value) => Cell::Unsigned(*value),
            Self::Decimal(text) => Cell::Decimal(text.clone()),
            Self::Text(text) => Cell::Text(text.clone()),
        }
    }
}

/// How far a source was read: the checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Saved {
    /// The process that reads.
    pub(super) holder: String,
    /// A digest of what is read: the checkpoint of another table is no place to go on from.
    pub(super) reads: String,
    /// Until when nobody else may (microseconds since 1970, by the store's clock).
    pub(super) held_until: u64,
    /// The highest watermark whose rows are registered.
    pub(super) watermark: Option<Kept>,
    /// The same as an instant (RFC 3339).
    pub(super) watermark_at: Option<String>,
    /// When the last round ended (RFC 3339).
    pub(super) last_round: Option<String>,
    /// How far behind the clock of the database everything was read, in seconds.
    pub(super) lag_s: Option<f64>,
    /// Rows registered by rounds, sweeps and imports.
    pub(super) rows: u64,
    /// Rows that could not be, and the id and the reason of the last.
    pub(super) rejected: u64,
    pub(super) last_rejected: Option<(String, String)>,
    /// What went wrong last, and when; gone with the next round that goes well.
    pub(super) last_error: Option<(String, String)>,
    /// Since when the database owes an answer (RFC 3339).
    pub(super) unanswered_since: Option<String>,
    /// Verdicts that the table of verdicts does not have.
    pub(super) unwritten: Option<Unwritten>,
    pub(super) import: Option<Import>,
    pub(super) swept: Option<Swept>,
    /// When the last sweep ended (microseconds since 1970, by the store's clock).
    pub(super) swept_at: u64,
}

/// Rows that were registered while their verdicts could not be written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Unwritten {
    /// The watermark from which on they are; any where there is none.
    pub(super) from: Option<Kept>,
}

/// An import that was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Import {
    /// The last id whose row is registered.
    pub(super) after: Option<Kept>,
    pub(super) shown: Imported,
}

impl Import {
    pub(super) fn position(&self) -> Option<Position> {
        self.after.as_ref().map(|id| Position { watermark: None, id: id.cell() })
    }
}

/// An import of all rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Imported {
    /// When it was asked for (RFC 3339, UTC).
    pub asked_at: String,
    /// When all rows were read.
    pub finished_at: Option<String>,
    /// Rows registered so far.
    pub rows: u64,
    /// Rows that could not be registered.
    pub rejected: u64,
}

/// What a comparison of all ids found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Swept {
    /// When it ended (RFC 3339, UTC).
    pub at: String,
    /// Rows of the source.
    pub rows: u64,
    /// Rows that no round has read.
    pub skipped: u64,
    /// How many of these it registered.
    pub registered: u64,
    /// Records whose rows are gone.
    pub missing: u64,
    /// The ids of the first of them.
    pub missing_ids: Vec<String>,
    /// How many of them it deleted.
    pub deleted: u64,
    /// Why it deleted none though it is told to.
    pub refused: Option<String>,
}

/// Whether a source is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceStatus {
    /// Nothing was read yet.
    Waiting,
    /// Its rows are followed.
    Following,
    /// All its rows are being read.
    Importing,
    /// It is not followed, and no import is under way.
    Idle,
    /// The last round went wrong; it is tried again.
    Failing,
    /// The database has not answered for a quarter of a minute, and is waited for.
    Unanswered,
}

/// How a source stands.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SourceState {
    /// Its name.
    pub name: String,
    /// The collection that its rows go to.
    pub collection: String,
    /// Where the database is.
    pub database: String,
    /// Whether it is followed.
    pub follow: bool,
    /// How it stands.
    pub status: SourceStatus,
    /// The time of the last change whose rows are registered (RFC 3339, UTC).
    pub watermark: Option<String>,
    /// When the last round ended (RFC 3339, UTC).
    pub last_round: Option<String>,
    /// How many seconds behind the clock of the database everything was read when a page of rows, or a round, last ended: `delay_s` once
    /// all is read, more in a backlog.
    pub lag_s: Option<f64>,
    /// Rows registered since it is followed, each as often as it was changed.
    pub rows: u64,
    /// Rows that could not be registered.
    pub rejected: u64,
    /// The id of the last of them.
    pub last_rejected_id: Option<String>,
    /// Why it could not be.
    pub last_rejected_code: Option<String>,
    /// What went wrong last, unless a round went well since.
    pub last_error: Option<String>,
    /// When.
    pub last_error_at: Option<String>,
    /// Since when the database owes an answer (RFC 3339, UTC), where it has given none for a quarter of a minute. It is waited for ten
    /// minutes at most, 30 seconds for a connection; then that is `last_error`.
    pub unanswered_since: Option<String>,
    /// The last import of all rows.
    pub import: Option<Imported>,
    /// The last comparison of all ids.
    pub sweep: Option<Swept>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_comes_back_as_it_was_and_one_of_before_is_read() {
        let import = Import { after: Some(Kept::Int(i64::MAX)), shown: Imported { rows: 7, ..Imported::default() } };
        let saved = Saved {
            watermark: Some(Kept::Text("2024-03-05 10:11:12.123456".into())),
            import: Some(import),
            last_rejected: Some(("A-1".into(), "no_text".into())),
            held_until: u64::MAX,
            ..Saved::default()
        };
        let json = serde_json::to_value(&saved).unwrap();
        assert_eq!(serde_json::from_value::<Saved>(json).unwrap(), saved);
        assert_eq!(serde_json::from_str::<Saved>("{}").unwrap(), Saved::default());
    }
}
