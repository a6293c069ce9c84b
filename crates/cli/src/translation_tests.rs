//! Tests that each text for people has a translation, and that each translation is used.

use std::collections::HashSet;

use clap::CommandFactory;
use doppel_texts::testkit::{self, SourceText, has_chinese, is_translated};
use doppel_texts::{chinese, help, whole};

/// The sources of the texts in answers of the API.
const API: [&str; 7] = [
    "crates/http/src",
    "crates/desk/src",
    "crates/service/src/snapshots.rs",
    "crates/core/src/collection",
    "crates/core/src/record.rs",
    "crates/engine/src",
    "crates/store/src/lib.rs",
];

/// Files below [`API`] without texts for people, or with texts that are not translated: the description of the API, and the reasons why
/// the configured certificates or the collector of spans cannot be used, which are for the operator.
const NOT_API: [&str; 5] = [
    "crates/http/src/traces",
    "crates/http/src/openapi",
    "crates/http/src/tls/files.rs",
    "crates/http/src/coding/shrink.rs",
    "crates/http/src/routes/expected.rs",
];

/// Texts below [`API`] that are no sentence for a reader of an answer: parts of longer texts whose forms the table has, marks in the
/// program, and texts of tasks and snapshots in the past.
const INTERNAL: [&str; 29] = [
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
    "the counts of records with a word need texts, and with \"keep\": \"signatures\" there are none; ",
    "it ended before it was done; see the log",
    "look through",
    "no memory for a decoder",
    "recursion limit",
    "repeated key",
    "take another scheme",
    "the client takes nothing",
    "the key was revoked or has expired since the request began",
    "the stream",
    "the thread that takes the snapshot",
    "{least} to {most}",
    "{} is outside {range}",
];

/// The sources of the messages of the command line.
const COMMAND_LINE: [&str; 5] = [
    "crates/cli/src",
    "crates/config/src",
    "crates/service/src/follow/check.rs",
    "crates/service/src/follow/opened.rs",
    "crates/sources/src",
];

/// Files below [`COMMAND_LINE`] whose texts are not translated: the tables of measurements, lines of the log, and
/// files for tests.
const NOT_COMMAND_LINE: [&str; 3] =
    ["crates/cli/src/eval", "crates/cli/src/reload.rs", "crates/sources/src/tables/guard/samples.rs"];

/// Parts of messages whose whole forms the tables have, names of internal work, and signs of a bug.
const PARTS: [&str; 61] = [
    " at {pointer}",
    ", did you mean {meant:?}?",
    "; complete: {done}",
    "; did you mean {key:?} in [{home}]?",
    "; did you mean {meant:?}?",
    "; did you mean {}?",
    "; not written (an earlier file stays): {open}",
    "; there is {}",
    "; {chained} chained: look at their bridges\n",
    "; {name:?} belongs to [{home}]",
    "; {named} the columns",
    "; {named} the columns, the {} above are left out",
    "a boolean",
    "a date is not written as the protocol says",
    "a process without its standard input and output",
    "a sequence",
    "a value was read before its key",
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
    "read      {rows} rows in {seconds:.1} s\n{columns}{done}{warned}{left_out}rejected  {rejected}\n{written}",
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
    "the password, shown only now; the person changes it at the desk:\n\n{password}\n",
    "the line",
    "the name of a column is no text",
    "the process that reads workbooks gave another answer than was asked for",
    "the process that reads workbooks sent a longer row than it may",
    "warming up",
    "log.level: {level:?} is no level{meant}; give {levels}, or MODULE=LEVEL for a module",
    "columns left out",
    "columns used",
    "groups     {groups} with {grouped} {unit}, the largest with {largest}",
    "read       {records} {unit}\n{used}{unused}{warned}{left_out}rejected   {rejected}{listed}\npairs      {pairs}; {exact}\n",
    "{column} as {name} ({role})",
    "{exact} of exact duplicates",
    "value = {text}",
    "wrong value at {}",
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
    let texts = help::texts(&mut super::CliArguments::command());
    assert!(texts.len() > 100);
    let paragraphs = texts.iter().flat_map(|text| text.split("\n\n"));
    let missing = missing(paragraphs.filter(|text| !text.is_empty() && chinese(text).is_none()));
    assert!(missing.is_empty(), "add to crates/texts/src/help.txt:\n{missing}");
}

#[test]
fn every_text_of_an_answer_has_a_translation() {
    let texts = testkit::texts(&API);
    let shown = texts.iter().filter(|text| text.is_for_people());
    let shown = shown.filter(|text| !NOT_API.iter().any(|file| text.file.starts_with(file)));
    let shown: Vec<&SourceText> = shown.filter(|text| !INTERNAL.contains(&text.text.as_str())).collect();
    assert!(shown.len() > 150, "{}", shown.len());
    let missing = missing(shown.iter().map(|text| text.text.as_str()).filter(|text| !has_chinese(text)));
    assert!(missing.is_empty(), "add to crates/texts/src/api.txt:\n{missing}");
}

#[test]
fn every_message_of_the_command_line_has_a_translation() {
    let help: HashSet<String> = help::texts(&mut super::CliArguments::command()).into_iter().collect();
    let texts = testkit::texts(&COMMAND_LINE);
    let shown = texts.iter().filter(|text| text.is_for_people() && !help.contains(&text.text));
    let shown = shown.filter(|text| !NOT_COMMAND_LINE.iter().any(|file| text.file.starts_with(file)));
    let shown: Vec<&str> =
        shown.map(|text| text.text.as_str()).filter(|text| !PARTS.contains(text) && !is_sql(text)).collect();
    assert!(shown.len() > 350, "{}", shown.len());
    let missing = missing(shown.into_iter().filter(|text| !is_translated(text)));
    assert!(missing.is_empty(), "add to crates/texts/src/messages.txt:\n{missing}");
}

fn is_sql(text: &str) -> bool {
    ["SELECT", "SET ", "INSERT", "DELETE", "CREATE", "ON CONFLICT", "LIMIT", "FETCH", "VARCHAR"]
        .iter()
        .any(|word| text.starts_with(word))
}

#[test]
fn every_status_of_a_problem_has_a_title() {
    for status in [400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 414, 415, 417, 421, 422, 429, 431, 500, 503, 507] {
        let reason = reqwest::StatusCode::from_u16(status).unwrap().canonical_reason().unwrap();
        assert!(whole(reason).is_some(), "{reason}");
    }
}

#[test]
fn every_row_is_used() {
    let sources = testkit::texts(&["crates"]).into_iter().map(|text| text.text);
    let reasons = (400..600).filter_map(|status| reqwest::StatusCode::from_u16(status).ok()?.canonical_reason());
    let known = sources.chain(help::texts(&mut super::CliArguments::command())).chain(reasons.map(str::to_owned));
    let known = plain(&known.collect::<Vec<_>>().join("\n"));
    // A row may be several texts of the program, joined with semicolons.
    let unused = testkit::own_rows().filter(|row| {
        let literal = plain(&row.longest_literal);
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
