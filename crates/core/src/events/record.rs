//! Records in the form in which events are found.

use std::collections::BTreeSet;

use crate::collection::Settings;
use crate::handling::Handling;
use crate::record::Row;
use crate::schemes::hash::{city64, city64_bytes};
use crate::schemes::profile::Profile;
use crate::similarity::NamesInText;
use crate::text::Document;
use crate::text::objects::NamedObject;
use crate::text::problems::{ProblemStrength, problem_kinds};
use crate::text::shingles::{counts, digit_form};
use crate::verdict::ObjectKind;

/// Maximum number of characters of a text that are read. A record names its object and its problem near the beginning.
const MAX_CHARS: usize = 2_000;
/// Maximum number of objects of a text that are kept.
const MAX_OBJECTS: usize = 256;

/// A record in the form in which events are found. It takes about two bytes for each byte of the text.
#[derive(Clone, Debug, Default)]
pub struct EventRecord {
    /// The id. Events do not depend on the order of records because records are ordered by their ids.
    pub id: Box<str>,
    /// The time when the matter was submitted, in seconds since 1970.
    pub time: Option<i64>,
    /// Hash of the petitioner; `None` for an anonymous record.
    pub petitioner: Option<u64>,
    /// The category that the office chose.
    pub category: Option<Box<str>>,
    /// The normalised title.
    pub title: Box<str>,
    /// The names in the text.
    pub(super) named: NamesInText,
    /// Codes of the pairs of neighbouring characters: each once, ascending.
    pub(super) pairs: Vec<u32>,
    /// Codes of the runs of three characters: each once, ascending.
    pub(super) triples: Vec<u32>,
    /// Codes of the pairs of the title, or of the opening of a record without a title: each once, ascending.
    pub(super) title_pairs: Vec<u32>,
    /// The kinds of problems that the text reports.
    pub(super) problems: Vec<ProblemStrength>,
}

/// Number of characters at the beginning of a text that are compared in place of a missing title: an order states first what it is about.
/// B-cubed recall / precision of the hotline set without its titles, for each number of characters:
///
/// | 0 | 20 | 30 | 40 | 60 |
/// |---|---|---|---|---|
/// | .637 / .984 | .729 / .906 | .711 / .928 | .706 / .927 | .695 / .929 |
///
/// 30 is the number with the highest recall at a precision of at least .92.
const OPENING_CHARS: usize = 30;

/// Returns the title, or the opening of the text of a record without a title.
fn heading<'a>(title: &'a str, text: &'a str) -> &'a str {
    if !title.is_empty() {
        return title;
    }
    text.char_indices().nth(OPENING_CHARS).map_or(text, |(end, _)| &text[..end])
}

impl EventRecord {
    /// Reads a row, and the document of it, with the profile and the settings of its collection. O(length).
    pub fn of_row(id: &str, profile: &Profile, settings: &Settings, row: &Row, document: &Document) -> Self {
        let handling = Handling::of(|name| settings.field(name).map(|field| field.role), row);
        Self::of(id, profile, document, handling.and_then(|handling| handling.category).as_deref())
    }

    /// Reads a document with the profile of its collection. `category` is the category that the office chose. O(length).
    pub fn of(id: &str, profile: &Profile, document: &Document, category: Option<&str>) -> Self {
        let text: String = document.joined().chars().take(MAX_CHARS).collect();
        let title = profile.title(document);
        let reading = profile.cut_naming(document);
        let objects = reading.names();
        Self {
            id: id.into(),
            time: document.time.map(jiff::Timestamp::as_second),
            petitioner: document.identity.as_deref().map(|identity| city64_bytes(identity.as_bytes())),
            category: category.map(Into::into),
            pairs: run_codes(&text, 2),
            triples: run_codes(&text, 3),
            title_pairs: run_codes(heading(&title, &text), 2),
            problems: problem_kinds(&title, &text),
            title: title.into(),
            named: NamesInText::new(&text, objects.iter().take(MAX_OBJECTS).cloned().collect::<Vec<_>>()),
        }
    }

    /// Returns the objects that the record names.
    pub fn objects(&self) -> &[NamedObject] {
        self.named.objects()
    }

    /// True if the text contains a name, without regard to spaces and marks in both, or names a place by an alias of this
    /// name. O(length).
    pub fn contains(&self, name: &str) -> bool {
        let name: String = name.chars().filter(|&c| counts(c)).map(digit_form).collect();
        self.named.holds(&name) || self.objects().iter().any(|object| object.name == name)
    }

    /// Returns the values of a kind of object that the record names.
    pub(super) fn values(&self, kind: ObjectKind) -> impl Iterator<Item = &str> {
        self.objects().iter().filter(move |object| object.kind == kind).map(|object| object.name.as_str())
    }

    /// Returns the weight-free form of a name in which the record may contain it: the codes of its pairs of characters.
    pub(super) fn codes_of(name: &str) -> Vec<u32> {
        run_codes(name, 2)
    }
}

/// Returns the codes of the sequences of `width` letters or digits of a text that no other character interrupts: each
/// once, ascending. Sequences of two characters of the Basic Multilingual Plane have distinct codes. O(length × log length).
fn run_codes(text: &str, width: usize) -> Vec<u32> {
    let mut codes = BTreeSet::new();
    let mut run: Vec<char> = Vec::new();
    for c in text.chars() {
        if !counts(c) {
            run.clear();
            continue;
        }
        run.push(digit_form(c));
        if run.len() >= width {
            codes.insert(run_code(&run[run.len() - width..]));
        }
    }
    codes.into_iter().collect()
}

fn run_code(chars: &[char]) -> u32 {
    match *chars {
        [a, b] if u32::from(a) <= 0xffff && u32::from(b) <= 0xffff => u32::from(a) << 16 | u32::from(b),
        _ => city64(&chars.iter().collect::<String>()) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_opening_stands_for_a_missing_title() {
        let text = "路".repeat(OPENING_CHARS + 1);
        assert_eq!(heading("标题", &text), "标题");
        assert_eq!(heading("", &text).chars().count(), OPENING_CHARS);
        let whole = "路".repeat(OPENING_CHARS);
        assert_eq!([heading("", &whole), heading("", "路"), heading("", "")], [&whole, "路", ""]);
    }
}
