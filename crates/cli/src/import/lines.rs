//! Checks if a line of a file can be compared with the settings of a collection, without the help of a service.

use super::input::InputLine;
use doppel_core::record::{RecordId, Row};
use doppel_core::text::Document;
use doppel_engine::Error;
use doppel_engine::replay::Replay;
use doppel_sources::UnreadableLine;

/// A line that can be compared. `D` is its document.
pub(crate) struct CheckedLine<D = Document> {
    pub(crate) row: Row,
    pub(crate) id: RecordId,
    pub(crate) document: D,
}

/// Checks that a line has an id and can be compared with the settings of `replay`.
pub(crate) fn check(replay: &Replay, line: &InputLine) -> Result<CheckedLine, UnreadableLine> {
    let (row, document) = readable(replay, line)?;
    match row.id().cloned() {
        Some(id) => Ok(CheckedLine { row, id, document }),
        None => Err(UnreadableLine::new("no_id", "/id", "the row has no id", Some(row.json()))),
    }
}

/// Returns the row of a line, and its document with the settings of `replay`.
pub(crate) fn readable(replay: &Replay, line: &InputLine) -> Result<(Row, Document), UnreadableLine> {
    let json = line.content.as_ref().map_err(Clone::clone)?;
    let row = Row::parse(json.as_bytes())
        .map_err(|error| UnreadableLine::new("malformed_line", "", error.to_string(), Some(json)))?;
    let document = replay.read(&row).map_err(|error| match &error {
        Error::Invalid(violations) if !violations.is_empty() => {
            let first = &violations[0];
            UnreadableLine::new(first.code.as_str(), &first.pointer, &first.detail, Some(json))
        }
        other => UnreadableLine::new("refused", "", other.to_string(), Some(json)),
    })?;
    Ok((row, document))
}

/// Makes the refusal of a row whose id an earlier line has.
pub(crate) fn repeated_id(row: &str) -> UnreadableLine {
    UnreadableLine::new("repeated_id", "/id", "an earlier line has this id; give every record its own", Some(row))
}
