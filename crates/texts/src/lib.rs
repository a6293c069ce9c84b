//! Chinese for the texts that the API and the command line show to people.
//!
//! The program writes its texts in English. A text for a Chinese reader is translated just before it is sent or printed. The tables
//! `crates/texts/src/*.txt` contain the English text in the same form as in the source, with its placeholders, and the Chinese text with
//! the same placeholders. A text without a row stays English.
//!
//! The format of a table: a line with the English text, then a line that begins with two spaces, `=` and a space, with the Chinese text. A
//! line break in a text is `\n`. Lines that begin with `#` are comments. If the name of a placeholder in a Chinese text ends with `!`, as
//! in `{reason!}`, the value of the placeholder is also translated; of a list with commas, each item.

pub mod arguments;
pub mod help;
pub mod language;
pub mod mistakes;
mod template;
#[cfg(any(test, feature = "testkit"))]
pub mod testkit;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

pub use language::Language;
use template::TextTemplate;

/// The tables, with their names for the tests.
const TABLES: [(&str, &str); 4] = [
    ("api.txt", include_str!("api.txt")),
    ("help.txt", include_str!("help.txt")),
    ("messages.txt", include_str!("messages.txt")),
    (FOREIGN, include_str!("foreign.txt")),
];

/// The table of texts that the operating system and libraries write.
const FOREIGN: &str = "foreign.txt";

/// Greatest depth of translated placeholders: for example a reason inside a reason inside a text.
const DEPTH: u8 = 3;

#[derive(Clone, Debug)]
struct TableRow {
    english: Cow<'static, str>,
    chinese: Cow<'static, str>,
}

/// All rows, for lookups.
struct TextIndex {
    /// Texts without placeholders.
    whole: HashMap<Cow<'static, str>, Cow<'static, str>>,
    /// Texts with placeholders, by their first byte; `None` if a placeholder comes first.
    templates: HashMap<Option<u8>, Vec<TextTemplate>>,
}

static INDEX: LazyLock<TextIndex> = LazyLock::new(|| TextIndex::new(TABLES.iter().flat_map(|(_, table)| rows(table))));

impl TextIndex {
    fn new(rows: impl Iterator<Item = TableRow>) -> Self {
        let mut whole = HashMap::new();
        let mut templates: HashMap<_, Vec<_>> = HashMap::new();
        for row in rows {
            let template = TextTemplate::new(&row.english, &row.chinese);
            if template.has_placeholders() {
                templates.entry(template.first_byte()).or_default().push(template);
            }
            // A literal in the source can look like a template without being one.
            whole.insert(row.english, row.chinese);
        }
        Self { whole, templates }
    }

    /// Finds the Chinese translation of a whole text. If several templates match, the one that leaves the fewest Latin letters is right:
    /// "stored 5 original" is not the count "stored 5".
    fn find(&self, text: &str, depth: u8) -> Option<Cow<'static, str>> {
        if let Some(chinese) = self.whole.get(text) {
            return Some(chinese.clone());
        }
        if let Some(items) = self.find_items(text, depth) {
            return Some(items);
        }
        let first = text.bytes().next();
        let templates = [first, None].into_iter().filter_map(|first| self.templates.get(&first)).flatten();
        let translations = templates.filter_map(|template| {
            let translation =
                template.translate(text, |part| if depth == DEPTH { None } else { self.find(part, depth + 1) })?;
            Some((letters_of(&translation), std::cmp::Reverse(template.specificity()), translation))
        });
        let best = translations.min_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        best.map(|(_, _, translation)| Cow::Owned(translation))
    }

    /// Translates a list that is the value of a placeholder; `None` if an item has no translation.
    fn find_items(&self, list: &str, depth: u8) -> Option<Cow<'static, str>> {
        if depth == 0 || depth == DEPTH || !list.contains(", ") {
            return None;
        }
        let items: Option<Vec<_>> = list.split(", ").map(|item| self.find(item, depth + 1)).collect();
        Some(Cow::Owned(items?.join("、")))
    }
}

/// Largest number of colons after names before the text of a message: file, line, code.
const MOST_NAMES: usize = 4;

/// Returns the Chinese translation of a message that begins with names: a file, a place or a code with a colon, or one word with a space. A
/// name has no semicolon, which would end a clause of the message.
fn after_names(message: &str) -> Option<String> {
    after_colon(message, |_| true).or_else(|| {
        let (name, text) = message.split_once(' ').filter(|(name, _)| name.len() < first_clause(message))?;
        Some(format!("{name} {}", chinese(text)?))
    })
}

/// Returns the Chinese translation of a message that begins with names that `is_name` accepts, each with a colon.
fn after_colon(message: &str, is_name: impl Fn(&str) -> bool) -> Option<String> {
    let clause = first_clause(message);
    let colons = message.match_indices(": ").take(MOST_NAMES).take_while(|(at, _)| *at < clause);
    let split: Vec<(&str, &str)> = colons.map(|(at, _)| (&message[..at], &message[at + 2..])).collect();
    // The longest names come first, because a row that begins with a placeholder would take the rest of them for a value.
    split.into_iter().rev().filter(|(names, _)| names.split(": ").all(&is_name)).find_map(|(names, text)| {
        Some(format!("{}：{}", chinese(names).unwrap_or(Cow::Borrowed(names)), chinese(text)?))
    })
}

/// Returns the number of lower-case Latin letters, of which a wrong translation leaves more than the right one.
fn letters_of(translation: &str) -> usize {
    translation.bytes().filter(u8::is_ascii_lowercase).count()
}

/// Returns the length of the message up to its first semicolon.
fn first_clause(message: &str) -> usize {
    message.find(';').unwrap_or(message.len())
}

/// Parses a table. Lines in a wrong format are skipped; a test refuses them.
fn rows(table: &'static str) -> impl Iterator<Item = TableRow> {
    let mut lines = table.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).peekable();
    std::iter::from_fn(move || {
        loop {
            let english = lines.next()?;
            if let Some(chinese) = lines.next_if(|next| next.starts_with(SECOND_LINE)) {
                let chinese = unescaped(&chinese[SECOND_LINE.len()..]);
                return Some(TableRow { english: unescaped(english), chinese });
            }
        }
    })
}

/// The beginning of the line with the Chinese text.
const SECOND_LINE: &str = "  = ";

fn unescaped(line: &'static str) -> Cow<'static, str> {
    if line.contains("\\n") { Cow::Owned(line.replace("\\n", "\n")) } else { Cow::Borrowed(line) }
}

/// Returns the Chinese translation of a whole text; `None` if no row of the tables matches it.
pub fn chinese(text: &str) -> Option<Cow<'static, str>> {
    INDEX.find(text, 0)
}

/// Returns the Chinese translation of a text without placeholders.
pub fn whole(text: &str) -> Option<&'static str> {
    INDEX.whole.get(text).map(AsRef::as_ref)
}

/// Returns the text in the language; in English if there is no translation.
pub fn in_language(language: Language, text: &str) -> Cow<'_, str> {
    match language {
        Language::English => Cow::Borrowed(text),
        Language::Chinese => chinese(text).unwrap_or(Cow::Borrowed(text)),
    }
}

/// Returns a text of one or more lines in the language of the command line. If the tables do not contain a longer text as a whole, its
/// lines are translated one by one.
pub fn said(text: &str) -> Cow<'_, str> {
    if language::of_process() == Language::English {
        return Cow::Borrowed(text);
    }
    message(text).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Returns the Chinese translation of a message; `None` if the tables contain no part of it.
fn message(text: &str) -> Option<String> {
    if !text.contains('\n') {
        // A row that begins with a placeholder also matches names before a text that has a row of its own.
        let after_plain_names = || after_colon(text, |name| !name.contains(char::is_whitespace));
        let translations = [after_plain_names(), chinese(text).map(Cow::into_owned)];
        return whole(text)
            .map(str::to_owned)
            .or_else(|| translations.into_iter().flatten().min_by_key(|translation| letters_of(translation)))
            .or_else(|| after_names(text));
    }
    let lines = text.split('\n').map(|line| message(line).map_or(Cow::Borrowed(line), Cow::Owned));
    Some(lines.collect::<Vec<_>>().join("\n"))
}

/// Returns an error with its causes in the language of the command line.
pub fn reason(error: &anyhow::Error) -> String {
    match language::of_process() {
        Language::English => format!("{error:#}"),
        Language::Chinese => {
            error.chain().map(|cause| said(&cause.to_string()).into_owned()).collect::<Vec<_>>().join("：")
        }
    }
}

#[cfg(test)]
mod tests;
