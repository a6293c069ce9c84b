//! The table of limits in docs/security.md says what the program does.

use std::collections::BTreeMap;

use doppel::config::Limits as Requests;
use doppel::console::files;
use doppel_sources::tables::guard::child::{Budget, MOST_CHILDREN};
use doppel_sources::tables::guard::{
    HELD_PER_TEXT, MOST_CELL_BYTES, MOST_ELEMENTS, MOST_PARTS, MOST_SHEETS, MOST_WHOLE_CELLS, MOST_WHOLE_TEXT,
    MOST_WHOLE_TEXTS, TEXT_PER_UNPACKED,
};
use doppel_sources::tables::{Limits, MOST_COLUMNS, MOST_WHOLE};

#[test]
fn the_table_of_limits_has_the_limits_of_the_program() {
    let text = include_str!("../../docs/security.md");
    let section =
        text.split("\n## What is bounded\n").nth(1).expect("the section").split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let cell = |cells: &[&str], at: usize| cells.get(at).map_or_else(String::new, |cell| cell.trim().to_owned());
    let mut said: BTreeMap<String, String> = BTreeMap::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').collect();
        assert!(said.insert(cell(&cells, 1), cell(&cells, 2)).is_none(), "{row} is there twice");
    }

    let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
    let seconds = |milliseconds: u64| format!("{} s", milliseconds / 1000);
    let (requests, desk, import) = (Requests::default(), Budget::of(Limits::DESK), Budget::of(Limits::IMPORT));
    let texts = |limits: Limits| (limits.held / HELD_PER_TEXT).to_string();
    let expected = [
        ("Body of a request", mebibytes(requests.max_body_bytes as u64)),
        ("Line of a `_bulk` body, and row of a file", mebibytes(requests.max_line_bytes as u64)),
        ("Requests worked on at once", requests.max_in_flight.to_string()),
        ("Requests that wait for their turn", requests.max_waiting.to_string()),
        ("Streams open at once", requests.max_streams.to_string()),
        ("Open connections", requests.max_connections.to_string()),
        ("Time for the head of a request", seconds(requests.header_timeout_ms)),
        ("Time for a body, or for a line of it", seconds(requests.body_timeout_ms)),
        ("Time for a whole request", seconds(requests.request_timeout_ms)),
        ("File given to the desk", mebibytes(files::MOST_BYTES)),
        ("Files that come at once", files::MOST_COMING.to_string()),
        ("Time for a file to come", format!("{} s", files::UPLOAD_TIME.as_secs())),
        ("Files worked on at once", files::MOST_RUNNING.to_string()),
        ("Files kept", files::MOST_KEPT.to_string()),
        ("Time that a file is kept", format!("{} h", files::KEPT_FOR.as_secs() / 3600)),
        ("Columns of a table", MOST_COLUMNS.to_string()),
        ("Workbook of the desk, unpacked", mebibytes(Limits::DESK.unpacked)),
        ("Workbook that is imported, unpacked, without its sheets", mebibytes(Limits::IMPORT.held)),
        ("XLS or ODS workbook, and what an ODS workbook unpacks to", mebibytes(MOST_WHOLE)),
        ("Files inside a workbook", MOST_PARTS.to_string()),
        ("Sheets of a workbook", MOST_SHEETS.to_string()),
        ("XML elements in one part of a workbook, other than texts and sheets", MOST_ELEMENTS.to_string()),
        ("Different texts of an XLSX workbook of the desk", texts(Limits::DESK)),
        ("Different texts of an XLSX workbook that is imported", texts(Limits::IMPORT)),
        ("Different texts of an XLS workbook", MOST_WHOLE_TEXTS.to_string()),
        ("One cell of a workbook", mebibytes(MOST_CELL_BYTES)),
        ("Text of all cells of a workbook of the desk", mebibytes(Limits::DESK.unpacked * TEXT_PER_UNPACKED)),
        ("Text of all cells of an XLS or ODS workbook", mebibytes(MOST_WHOLE_TEXT)),
        ("Cells of an XLS or ODS workbook, with the empty ones between them", MOST_WHOLE_CELLS.to_string()),
        ("Memory for a workbook of the desk", mebibytes(desk.memory)),
        ("Memory for a workbook that is imported", mebibytes(import.memory)),
        ("Processor time for a workbook of the desk", format!("{} s", desk.seconds)),
        ("Processor time for a workbook that is imported", format!("{} s", import.seconds)),
        ("Processes that read workbooks at once", MOST_CHILDREN.to_string()),
    ];
    let expected: BTreeMap<String, String> = expected.into_iter().map(|(what, most)| (what.to_owned(), most)).collect();
    assert_eq!(said, expected);
}
