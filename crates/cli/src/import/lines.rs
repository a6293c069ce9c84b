//! Checks if a line of a file can be compared with the settings of a collection, without the help of a service.

use super::input::InputLine;
use doppel_core::record::{RecordId, Row};
use doppel_core::text::Document;
use doppel_engine::Error;
use doppel_engine::replay::Replay;

/// A line that can be compared.
pub(crate) struct CheckedLine {
    pub(crate) row: Row,
    pub(crate) id: RecordId,
    pub(crate) document: Document,
}

/// The reason why a line cannot be compared.
pub(crate) struct LineRefusal {
    pub(crate) code: &'static str,
    pub(crate) pointer: String,
    pub(crate) detail: String,
    pub(crate) text: Option<String>,
}

/// Checks that a line has an id and can be compared with the settings of `replay`.
pub(crate) fn check(replay: &Replay, line: &InputLine) -> Result<CheckedLine, LineRefusal> {
    let (row, document) = readable(replay, line)?;
    let id = row.id().cloned().ok_or_else(|| LineRefusal {
        code: "no_id",
        pointer: "/id".into(),
        detail: "the row has no id".into(),
        text: Some(row.json().to_string()),
    })?;
    Ok(CheckedLine { row, id, document })
}

/// Returns the row of a line, and its document with the settings of `replay`.
pub(crate) fn readable(replay: &Replay, line: &InputLine) -> Result<(Row, Document), LineRefusal> {
    let json = line.content.as_ref().map_err(|why| {
        let pointer = why.pointer.clone();
        let detail = why.detail.clone();
        let text = why.text.clone();
        LineRefusal { code: why.code, pointer, detail, text }
    })?;
    let row = Row::parse(json.as_bytes()).map_err(|error| refusal(json, "malformed_line", "", error.to_string()))?;
    let document = replay.read(&row).map_err(|error| match &error {
        Error::Invalid(violations) if !violations.is_empty() => {
            let first = &violations[0];
            refusal(json, first.code.as_str(), &first.pointer, first.detail.clone())
        }
        other => refusal(json, "refused", "", other.to_string()),
    })?;
    Ok((row, document))
}

fn refusal(json: &str, code: &'static str, pointer: &str, detail: String) -> LineRefusal {
    LineRefusal { code, pointer: pointer.to_owned(), detail, text: Some(json.to_owned()) }
}
