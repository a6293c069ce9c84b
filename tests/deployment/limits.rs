//! The table of limits in docs/security.md agrees with the program.

use std::collections::BTreeMap;

use doppel_config::embedder::MAX_BATCH;
use doppel_config::{Config, LimitsConfig as Requests};
use doppel_core::collection::{MAX_CHANNELS, MAX_FIELDS as MAX_COLLECTION_FIELDS, MAX_LEXICON_ENTRIES};
use doppel_core::index::{MAX_CANDIDATES, MAX_KEYS};
use doppel_core::record::{MAX_DEPTH, MAX_FIELDS, MAX_ID_BYTES};
use doppel_desk::pages::batch::MOST_PAIRS;
use doppel_desk::pending::MOST_PENDING;
use doppel_desk::{files, sign_in};
use doppel_engine::decisions::MAX_NOTE_CHARS;
use doppel_engine::events::handling::{MAX_STEPS, MAX_UNIT_CHARS};
use doppel_engine::events::regroup::MAX_CONFIRMED;
use doppel_engine::groups::regroup::MAX_SPLIT_PAIRS;
use doppel_http::coding::expand;
use doppel_http::passwords;
use doppel_http::routes::changes::LONGEST_WAIT_S;
use doppel_http::server::MAX_HEAD_BYTES;
use doppel_search::embedder::MAX_DIMENSION;
use doppel_search::query::{MAX_PARTS, MAX_QUESTION_CHARS};
use doppel_search::vectors::{LONGEST_RETRY_AFTER, MAX_ASKING, MAX_FAILING, TEXT_PATIENCE};
use doppel_service::embedder::MAX_ANSWER_BYTES;
use doppel_service::webhooks::{MAX_FREQUENT, MAX_LOGGED};
use doppel_snapshot::{MAX_STATED_BYTES, MOST_MANIFEST};
use doppel_sources::tables::guard::child::{ChildBudget, MOST_CHILDREN};
use doppel_sources::tables::guard::{
    HELD_PER_TEXT, MOST_CELL_BYTES, MOST_ELEMENTS, MOST_PARTS, MOST_SHEETS, MOST_WHOLE_CELLS, MOST_WHOLE_TEXT,
    MOST_WHOLE_TEXTS, TEXT_PER_UNPACKED,
};
use doppel_sources::tables::{MOST_COLUMNS, MOST_WHOLE, WorkbookLimits};
use doppel_store::accounts::MOST_ACCOUNTS;
use doppel_store::decisions::MAX_RULINGS;
use doppel_store::keys::MOST_KEYS;
use doppel_store::rules::generation_life::MAX_GENERATIONS;

/// Returns the section of the document that contains the table.
fn section() -> &'static str {
    let text = include_str!("../../docs/security.md");
    text.split("\n## All limits\n").nth(1).expect("the section").split("\n## ").next().unwrap_or_default()
}

#[test]
fn every_limit_of_the_configuration_is_in_the_table() {
    let limits = serde_json::to_value(Requests::default()).expect("JSON");
    for name in limits.as_object().expect("an object").keys() {
        assert!(section().contains(&format!("`limits.{name}`")), "limits.{name} is not in docs/security.md");
    }
}

#[test]
fn the_table_of_limits_has_the_limits_of_the_program() {
    let section = section();
    let rows = section.lines().filter(|line| line.starts_with("| ")).skip(1);
    let mut said: BTreeMap<String, String> = BTreeMap::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').collect();
        assert!(said.insert(cell_at(&cells, 1), cell_at(&cells, 2)).is_none(), "{row} is there twice");
    }

    let requests = Requests::default();
    let desk = ChildBudget::of(WorkbookLimits::DESK);
    let import = ChildBudget::of(WorkbookLimits::IMPORT);
    let collections = Config::default().collections;
    let expected = [
        ("Body of a request", mebibytes(requests.max_body_bytes as u64)),
        ("Line of a `_bulk` body, and row of a file", mebibytes(requests.max_line_bytes as u64)),
        ("Requests worked on at once", requests.max_in_flight.to_string()),
        ("Requests that wait for their turn", requests.max_waiting.to_string()),
        ("Streams open at once", requests.max_streams.to_string()),
        ("Records that are kept in memory to find events", requests.max_event_records.to_string()),
        ("Open connections", requests.max_connections.to_string()),
        ("Callers that wait for changes or tasks", requests.max_watchers.to_string()),
        ("Time of one wait for changes", format!("{LONGEST_WAIT_S} s")),
        ("Requests a second of one key", no_bound(requests.requests_per_second_per_key)),
        ("Bytes of requests and lines that are worked on at once", mebibytes(requests.max_bytes_in_work as u64)),
        ("Head of a request", format!("{} KiB", MAX_HEAD_BYTES >> 10)),
        (
            "Time for the head of a request, and for which a connection is idle",
            whole_seconds(requests.header_timeout_ms),
        ),
        ("Time in which a client reads an answer", whole_seconds(requests.write_timeout_ms)),
        ("Time for the body of a stream", format!("{} s", requests.max_stream_s)),
        (
            "Slowest average pace of a stream or of a file of the desk",
            format!("{} bytes a second", requests.min_stream_bytes_per_s),
        ),
        ("Expansion of a compressed stream above 16 MiB", format!("{} times", expand::MOST_EXPANSION)),
        ("Memory for sketches", mebibytes(requests.max_sketch_bytes as u64)),
        ("Collections that records create by themselves", collections.max_auto_created.to_string()),
        ("Changes of a collection that are kept for readers", collections.changes_kept.to_string()),
        ("Keys that are made while the service runs", MOST_KEYS.to_string()),
        ("Sessions of the desk", sign_in::MOST_SESSIONS.to_string()),
        ("Sessions of one account or key", sign_in::MOST_SESSIONS_OF_ONE.to_string()),
        ("Accounts", MOST_ACCOUNTS.to_string()),
        ("Sign-ins that have begun at an identity provider", MOST_PENDING.to_string()),
        ("Passwords that are hashed at once", passwords::MOST_AT_ONCE.to_string()),
        ("Time that a session may be idle", format!("{} s", sign_in::IDLE_END.as_secs())),
        ("Time of a session", format!("{} s", sign_in::WHOLE_END.as_secs())),
        ("Record id", format!("{MAX_ID_BYTES} bytes")),
        ("Depth of a row", MAX_DEPTH.to_string()),
        ("Fields of a row", MAX_FIELDS.to_string()),
        ("Fields of a collection", MAX_COLLECTION_FIELDS.to_string()),
        ("Channels of a collection", MAX_CHANNELS.to_string()),
        ("Words and synonyms of a collection, each", MAX_LEXICON_ENTRIES.to_string()),
        ("Generations of a collection", MAX_GENERATIONS.to_string()),
        ("Decisions about one pair", MAX_RULINGS.to_string()),
        ("Note of a decision", in_characters(MAX_NOTE_CHARS)),
        ("Steps of the handling of an event", MAX_STEPS.to_string()),
        ("Unit of a step", in_characters(MAX_UNIT_CHARS)),
        ("Decisions of one request about an event", MAX_CONFIRMED.max(MAX_SPLIT_PAIRS).to_string()),
        ("Pairs that one action of the desk decides", MOST_PAIRS.to_string()),
        ("Deliveries in the log of a webhook", MAX_LOGGED.to_string()),
        ("Frequent events that a webhook remembers", MAX_FREQUENT.to_string()),
        ("Candidates of a lookup", MAX_CANDIDATES.to_string()),
        ("Keys of a lookup", MAX_KEYS.to_string()),
        ("Question of a search", in_characters(MAX_QUESTION_CHARS)),
        ("Words and phrases of a question", MAX_PARTS.to_string()),
        ("Texts of one request to a model's server", MAX_BATCH.to_string()),
        ("Answer of a model's server", mebibytes(MAX_ANSWER_BYTES as u64)),
        ("Numbers of a vector", MAX_DIMENSION.to_string()),
        ("Questions that wait for a vector at once", MAX_ASKING.to_string()),
        ("Pause that a model's server can ask for", format!("{} s", LONGEST_RETRY_AFTER.as_secs())),
        ("Time for which a text that fails alone is tried again", format!("{} s", TEXT_PATIENCE.as_secs())),
        ("Texts that are known to fail alone", MAX_FAILING.to_string()),
        ("Manifest of a snapshot", mebibytes(MOST_MANIFEST)),
        ("Chunk of a snapshot, unpacked", mebibytes(MAX_STATED_BYTES)),
        ("Time for a body, or for a line of it", whole_seconds(requests.body_timeout_ms)),
        ("Time for a whole request", whole_seconds(requests.request_timeout_ms)),
        ("File given to the desk", mebibytes(files::MOST_BYTES)),
        ("Files that come at once", files::MOST_COMING.to_string()),
        ("Time for a file to come", format!("{} s", files::UPLOAD_TIME.as_secs())),
        ("Files worked on at once", files::MOST_RUNNING.to_string()),
        ("Files kept", files::MOST_KEPT.to_string()),
        ("Time that a file is kept", format!("{} h", files::KEPT_FOR.as_secs() / 3600)),
        ("Columns of a table", MOST_COLUMNS.to_string()),
        ("Workbook of the desk, unpacked", mebibytes(WorkbookLimits::DESK.unpacked)),
        ("Workbook that is imported, unpacked, without its sheets", mebibytes(WorkbookLimits::IMPORT.held)),
        ("XLS or ODS workbook, and what an ODS workbook unpacks to", mebibytes(MOST_WHOLE)),
        ("Files inside a workbook", MOST_PARTS.to_string()),
        ("Sheets of a workbook", MOST_SHEETS.to_string()),
        ("XML elements in one part of a workbook, other than texts and sheets", MOST_ELEMENTS.to_string()),
        ("Different texts of an XLSX workbook of the desk", texts_held(WorkbookLimits::DESK)),
        ("Different texts of an XLSX workbook that is imported", texts_held(WorkbookLimits::IMPORT)),
        ("Different texts of an XLS workbook", MOST_WHOLE_TEXTS.to_string()),
        ("One cell of a workbook", mebibytes(MOST_CELL_BYTES)),
        ("Text of all cells of a workbook of the desk", mebibytes(WorkbookLimits::DESK.unpacked * TEXT_PER_UNPACKED)),
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
    assert_eq!(expand::FREE_BYTES, 16 << 20);
}

fn cell_at(cells: &[&str], at: usize) -> String {
    cells.get(at).map_or_else(String::new, |cell| cell.trim().to_owned())
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

fn whole_seconds(milliseconds: u64) -> String {
    format!("{} s", milliseconds / 1000)
}

fn in_characters(count: usize) -> String {
    format!("{count} characters")
}

fn texts_held(limits: WorkbookLimits) -> String {
    (limits.held / HELD_PER_TEXT).to_string()
}

/// Returns the text for a limit. The value 0 means that there is no limit.
fn no_bound(limit: u32) -> String {
    if limit == 0 { "no bound".into() } else { limit.to_string() }
}
