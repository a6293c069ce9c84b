//! Reads the string literals of source files and the rows of the tables. Tests use it to check that all texts for people have a translation
//! and that all translations are used.

#![allow(clippy::unwrap_used, reason = "only tests call it, and a panic is how they fail")]

use std::path::{Path, PathBuf};

use super::template::longest_literal;
use super::{FOREIGN, TABLES, chinese, message, rows};

/// A string literal of a source file.
#[derive(Clone, Debug)]
pub struct SourceText {
    /// The file, below the root of the repository.
    pub file: String,
    pub text: String,
    /// The code of the statement before the literal.
    before: String,
}

/// Words in the code before a literal that only programmers or the log see.
const NOT_SHOWN: [&str; 18] = [
    "expect(",
    "expect_err(",
    "reason =",
    "description =",
    "description(",
    "debug!(",
    "info!(",
    "warn!(",
    "error!(",
    "trace!(",
    "event!(",
    "panic!(",
    "unreachable!(",
    "assert!(",
    "assert_eq!(",
    "Problem::internal(",
    "Internal(",
    "HeaderValue::from_static(",
];

impl SourceText {
    /// True if the text looks like words for a person: it contains a word of lower-case letters, and more text.
    pub fn is_for_people(&self) -> bool {
        let has_word = self.text.split([' ', ',', ';', ':']).any(is_word);
        has_word && self.text.trim().contains(' ') && !NOT_SHOWN.iter().any(|mark| self.before.contains(mark))
    }
}

/// True for a word of lower-case letters.
pub fn is_word(text: &str) -> bool {
    text.len() > 1 && text.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Returns the literals of all source files below the paths, apart from tests.
pub fn texts(paths: &[&str]) -> Vec<SourceText> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut files = Vec::new();
    paths.iter().for_each(|path| list(&root.join(path), &mut files));
    files.sort();
    let mut found = Vec::new();
    for file in files {
        let source = std::fs::read_to_string(&file).unwrap();
        let name = file.strip_prefix(root).unwrap().display().to_string();
        literals(&source, |before, text| {
            found.push(SourceText { file: name.clone(), before: before.to_owned(), text });
        });
    }
    found
}

/// A row of the tables, except the table of foreign texts.
#[derive(Clone, Debug)]
pub struct OwnRow {
    pub english: String,
    /// The longest part of the English text between placeholders.
    pub longest_literal: String,
}

/// Returns the rows for the texts of the program itself.
pub fn own_rows() -> impl Iterator<Item = OwnRow> {
    let own = TABLES.iter().filter(|(name, _)| *name != FOREIGN).flat_map(|(_, table)| rows(table));
    own.map(|row| OwnRow { longest_literal: longest_literal(&row.english), english: row.english.into_owned() })
}

/// True if the tables have each line of the message, perhaps after a name.
pub fn is_translated(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    has_chinese(text)
        || lines.all(|line| {
            message(line).or_else(|| message(&format!("name {line}"))).is_some_and(|found| is_whole(&found))
        })
}

/// True if a text has a translation without English in it.
pub fn has_chinese(text: &str) -> bool {
    chinese(text).is_some_and(|found| is_whole(&found))
}

/// True if no English remains in a translation: three words of lower-case letters in a row that are not a command.
fn is_whole(translation: &str) -> bool {
    let words: Vec<&str> = translation.split(' ').collect();
    !words.windows(3).any(|three| three.iter().all(|word| is_word(word) && *word != "doppel"))
}

fn list(path: &Path, files: &mut Vec<PathBuf>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if path.is_dir() {
        if !["tests", "conformance", "model", "words", "lab"].contains(&&*name) {
            std::fs::read_dir(path).unwrap().for_each(|entry| list(&entry.unwrap().path(), files));
        }
    } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
        files.push(path.to_owned());
    }
}

/// Calls `each` for each string literal, with the code before it and its value, up to the tests at the end of the file.
fn literals(source: &str, mut each: impl FnMut(&str, String)) {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut at = 0;
    let mut statement = 0;
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(hashes) = raw_start(rest, source[..at].chars().next_back()) {
            let close = format!("\"{}", "#".repeat(hashes));
            let begin = hashes + 2;
            let text = rest[begin..].split(&close).next().unwrap();
            each(&source[statement..at], text.to_owned());
            begin + text.len() + close.len()
        } else if rest.starts_with('"') {
            let (text, length) = quoted(rest);
            each(&source[statement..at], text);
            length
        } else if let Some(length) = character(rest) {
            length
        } else {
            if rest.starts_with([';', '{', '}']) {
                statement = at + 1;
            }
            rest.chars().next().map_or(1, char::len_utf8)
        };
        at += length;
    }
}

/// Returns the number of `#` of a raw string that begins here.
fn raw_start(rest: &str, before: Option<char>) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
    let is_word = before.is_some_and(|before| before.is_alphanumeric() || before == '_');
    (after[hashes..].starts_with('"') && !is_word).then_some(hashes)
}

/// Returns the length of a character literal; `None` for a lifetime.
fn character(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('\'')?;
    let mut characters = after.char_indices();
    let (_, first) = characters.next()?;
    let close = match first {
        '\\' => 2 + after.get(2..)?.find('\'')?,
        first => first.len_utf8(),
    };
    after.get(close..)?.starts_with('\'').then_some(close + 2)
}

/// Returns the value of a string literal and its length in the source.
fn quoted(rest: &str) -> (String, usize) {
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (text, at + 1),
            '\\' => match characters.next().map(|(_, escaped)| escaped) {
                Some('\n') => while characters.next_if(|(_, next)| next.is_whitespace()).is_some() {},
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('0') => text.push('\0'),
                Some('r') => text.push('\r'),
                Some('u') => while characters.next_if(|(_, next)| *next != '}').is_some() {},
                Some(other) => text.push(other),
                None => break,
            },
            other => text.push(other),
        }
    }
    (text, rest.len())
}
