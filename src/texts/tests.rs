//! Tests of the tables: each text for people has a translation, and each translation is used.

use std::collections::HashSet;

use clap::CommandFactory;

use super::*;
use sources::SourceText;

/// The sources of the texts in answers of the API.
const API: [&str; 7] = [
    "src/http",
    "src/console",
    "src/snapshots.rs",
    "crates/core/src/collection",
    "crates/core/src/record.rs",
    "crates/engine/src",
    "crates/store/src/lib.rs",
];

/// Files below [`API`] without texts for people, or with texts that are not translated: the description of the API, and the reasons why
/// the configured certificates cannot be used, which are for the operator.
const NOT_API: [&str; 5] = [
    "src/http/baseline.rs",
    "src/http/openapi",
    "src/http/tls/files.rs",
    "src/http/coding/shrink.rs",
    "src/http/routes/expected.rs",
];

/// Texts below [`API`] that are no sentence for a reader of an answer: parts of longer texts whose forms the table has, marks in the
/// program, and texts of tasks and snapshots in the past.
const INTERNAL: [&str; 30] = [
    "a JSON object",
    "a computation ended abnormally",
    "attachment; filename=\"result.{ending}\"; filename*=UTF-8''{name}",
    "attachment; filename=\"{name}.{extension}\"",
    "the collection was deleted, and another one of the same name created, after this task was created",
    "the request of the task cannot be read; another version of doppel made it",
    "the task ended abnormally; see the log for the cause",
    "wait for the store",
    "{} held snapshots and holds none now: mount its volume, or restart the service to begin anew there",
    "a file of the desk",
    "any JSON value",
    "catch up",
    "document frequencies of {given} bytes are given, at most {most} are kept; keep fewer of them",
    "doppel: nul",
    "doppel: too deep",
    "given back",
    "in how many records a word occurs is counted over texts, and with \"keep\": \"signatures\" there are none to count; ",
    "it ended before it was done; see the log",
    "look through",
    "no memory for a decoder",
    "recursion limit",
    "repeated key",
    "store failure: {0}",
    "take another scheme",
    "the client takes nothing",
    "the key was revoked or has expired since this was begun",
    "the stream",
    "the thread that takes the snapshot",
    "{least} to {most}",
    "{} is outside {range}",
];

/// The sources of the messages of the command line.
const COMMAND_LINE: [&str; 5] =
    ["src/cli", "src/config", "src/follow/check.rs", "src/follow/opened.rs", "crates/sources/src"];

/// Files below [`COMMAND_LINE`] whose texts are not translated: the tables of measurements, and files for tests.
const NOT_COMMAND_LINE: [&str; 3] = ["src/cli/eval", "src/cli/log.rs", "crates/sources/src/tables/guard/samples.rs"];

/// Parts of messages whose whole forms the tables have, names of internal work, and signs of a bug.
const PARTS: [&str; 57] = [
    " at {pointer}",
    ", did you mean {meant:?}?",
    "; complete: {done}",
    "; did you mean {key:?} in [{home}]?",
    "; did you mean {meant:?}?",
    "; did you mean {}?",
    "; not written, and as before if there was one: {open}",
    "; there is {}",
    "; {chained} chained: look at their bridges\n",
    "; {name:?} belongs to [{home}]",
    "; {named} the columns",
    "; {named} the columns, the {} above are left out",
    "a boolean",
    "a date is not written as the protocol says",
    "a process without its standard input and output",
    "a sequence",
    "besides, {exact} fingerprints have an equal one",
    "command line",
    "doppel: {error}",
    "doppel: {}",
    "doppel: {}\n{}",
    "following changes for search",
    "following sources",
    "following the keys of callers",
    "it {}",
    "looking for records past their age",
    "more bytes without an end of a tag than may be held",
    "no program reads workbooks",
    "nothing is written by ODBC",
    "path string",
    "read      {rows} rows in {seconds:.1} s\n{used}{unused}{done}{warned}{left_out}rejected  {rejected}\n{written}",
    "running tasks",
    "seq {seq}",
    "signing a row",
    "source check",
    "standard error",
    "standard output",
    "taking snapshots",
    "text, whole, identity, time, url, category, status, unit, reply, or ignore",
    "the body",
    "the key, shown only now; its caller keeps it (--key-file FILE or DOPPEL_KEY for doppel's own commands):\n\n{key}\n\nthe section for the configuration, which holds no secret:\n",
    "the key, shown only now; its caller keeps it (--key-file FILE or DOPPEL_KEY for doppel's own commands):\n\n{secret}\n",
    "the line",
    "the name of a column is no text",
    "the process that reads workbooks gave another answer than was asked for",
    "the process that reads workbooks sent a longer row than it may",
    "warming up",
    "log.level: {level:?} is no level{meant}; give {levels}, or MODULE=LEVEL for a module",
    "columns left out",
    "columns used",
    "groups     {groups} with {grouped} {unit}, the largest with {largest}",
    "read       {records} {unit}\n{used}{unused}{warned}rejected   {rejected}{listed}\npairs      {pairs}; {exact}\n",
    "{column} as {name} ({role})",
    "{exact} of exact duplicates",
    "{key} is {listed}{meant}",
    "{} query",
    "{} table {table}",
];

/// Rows for texts that the program makes from names.
const COUNTS: [&str; 7] = [
    "columns used: {}",
    "columns: {}",
    "groups     {groups} with {grouped} records, the largest with {largest}",
    "groups     {groups} with {grouped} fingerprints, the largest with {largest}",
    "columns left out: {}",
    "{} original, {} exact_duplicate, {} near_duplicate, {} too_short",
    "{} new, {} replaced, {} updated, {} unchanged",
];

/// Prints texts in the format of a table, for the person who translates them.
fn missing<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut lines: Vec<_> = texts.map(|text| text.replace('\n', "\\n") + "\n  = \n").collect();
    lines.sort();
    lines.dedup();
    lines.concat()
}

#[test]
fn every_help_text_has_a_translation() {
    let texts = help::texts(&mut crate::cli::CliArguments::command());
    assert!(texts.len() > 100);
    let paragraphs = texts.iter().flat_map(|text| text.split("\n\n"));
    let missing = missing(paragraphs.filter(|text| !text.is_empty() && chinese(text).is_none()));
    assert!(missing.is_empty(), "add to src/texts/help.txt:\n{missing}");
}

#[test]
fn every_text_of_an_answer_has_a_translation() {
    let texts = sources::texts(&API);
    let shown = texts.iter().filter(|text| text.is_for_people());
    let shown = shown.filter(|text| !NOT_API.iter().any(|file| text.file.starts_with(file)));
    let shown: Vec<&SourceText> = shown.filter(|text| !INTERNAL.contains(&text.text.as_str())).collect();
    assert!(shown.len() > 150, "{}", shown.len());
    let missing = missing(shown.iter().map(|text| text.text.as_str()).filter(|text| !has_chinese(text)));
    assert!(missing.is_empty(), "add to src/texts/api.txt:\n{missing}");
}

#[test]
fn every_message_of_the_command_line_has_a_translation() {
    let help: HashSet<String> = help::texts(&mut crate::cli::CliArguments::command()).into_iter().collect();
    let texts = sources::texts(&COMMAND_LINE);
    let shown = texts.iter().filter(|text| text.is_for_people() && !help.contains(&text.text));
    let shown = shown.filter(|text| !NOT_COMMAND_LINE.iter().any(|file| text.file.starts_with(file)));
    let shown: Vec<&str> =
        shown.map(|text| text.text.as_str()).filter(|text| !PARTS.contains(text) && !is_sql(text)).collect();
    assert!(shown.len() > 350, "{}", shown.len());
    let missing = missing(shown.into_iter().filter(|text| !is_translated(text)));
    assert!(missing.is_empty(), "add to src/texts/messages.txt:\n{missing}");
}

/// True if the tables have each line of the message, perhaps after a name.
fn is_translated(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    has_chinese(text)
        || lines.all(|line| {
            message(line).or_else(|| message(&format!("name {line}"))).is_some_and(|found| is_whole(&found))
        })
}

fn has_chinese(text: &str) -> bool {
    chinese(text).is_some_and(|found| is_whole(&found))
}

/// True if no English remains in a translation: three words of lower-case letters in a row that are no command.
fn is_whole(translation: &str) -> bool {
    let words: Vec<&str> = translation.split(' ').collect();
    !words.windows(3).any(|three| three.iter().all(|word| sources::is_word(word) && *word != "doppel"))
}

fn is_sql(text: &str) -> bool {
    ["SELECT", "SET ", "INSERT", "DELETE", "CREATE", "ON CONFLICT", "LIMIT", "FETCH", "VARCHAR"]
        .iter()
        .any(|word| text.starts_with(word))
}

#[test]
fn every_status_of_a_problem_has_a_title() {
    for status in [400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 414, 415, 417, 421, 422, 429, 431, 500, 503, 507] {
        let reason = axum::http::StatusCode::from_u16(status).unwrap().canonical_reason().unwrap();
        assert!(whole(reason).is_some(), "{reason}");
    }
}

#[test]
fn the_tables_are_well_formed() {
    for (name, table) in TABLES {
        let mut english = HashSet::new();
        let lines: Vec<&str> = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        assert_eq!(lines.len() % 2, 0, "{name}");
        for pair in lines.chunks(2) {
            assert!(!pair[0].starts_with(' ') && pair[1].starts_with(SECOND_LINE), "{name}: {pair:?}");
        }
        for row in rows(table) {
            assert!(english.insert(row.english.clone()), "{name}: twice: {}", row.english);
            assert!(!row.chinese.trim().is_empty(), "{name}: {}", row.english);
            let mut names = template::placeholders(&row.english);
            let mut chinese = template::placeholders(&row.chinese);
            assert_eq!(
                names.iter().filter(|name| name.is_empty()).count(),
                chinese.iter().filter(|name| name.is_empty()).count(),
                "{name}: {}",
                row.english
            );
            names.dedup();
            chinese.dedup();
            assert_eq!(names, chinese, "{name}: {}", row.english);
        }
    }
}

#[test]
fn texts_of_the_system_and_of_libraries_are_translated() {
    for code in [1, 2, 5, 13, 16, 17, 20, 21, 24, 27, 28, 30, 32, 36, 98, 99, 104, 111, 122] {
        let text = std::io::Error::from_raw_os_error(code).to_string();
        assert!(has_chinese(&text), "{text}");
    }
    for malformed in [
        "",
        "{",
        "[",
        "[1",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,}",
        "{a:1}",
        "[1,]",
        "[1 2]",
        "{} x",
        "nul",
        "\"a",
        "01",
        "\"\\x\"",
        "\"\u{1}\"",
        "{\"a\" 1}",
    ] {
        let text = serde_json::from_str::<serde_json::Value>(malformed).unwrap_err().to_string();
        assert!(has_chinese(&text), "{malformed:?}: {text}");
    }
}

#[test]
fn every_row_is_used() {
    let sources = sources::texts(&["src", "crates"]).into_iter().map(|text| text.text);
    let reasons = (400..600).filter_map(|status| axum::http::StatusCode::from_u16(status).ok()?.canonical_reason());
    let known = sources.chain(help::texts(&mut crate::cli::CliArguments::command())).chain(reasons.map(str::to_owned));
    let known = plain(&known.collect::<Vec<_>>().join("\n"));
    let rows = TABLES.iter().filter(|(name, _)| *name != FOREIGN).flat_map(|(_, table)| rows(table));
    // A row may be several texts of the program, joined with semicolons.
    let unused = rows.filter(|row| {
        let literal = plain(&template::longest_literal(&row.english));
        !COUNTS.contains(&&*row.english)
            && !literal.split("; ").all(|part| known.contains(part.trim_end_matches([' ', '(', ';'])))
    });
    let unused: Vec<_> = unused.map(|row| row.english).collect();
    assert!(unused.is_empty(), "no text of the program is one of these:\n{}", unused.join("\n"));
}

/// Returns a text as the program shows it: with single braces, and with quotation marks for backquotes.
fn plain(text: &str) -> String {
    text.replace("{{", "{").replace("}}", "}").replace('`', "\"")
}
