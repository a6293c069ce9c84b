//! From a row to what is indexed of it, and to what is asked for.

use std::collections::HashMap;

use doppel_core::collection::{Role, Settings};
use doppel_core::record::Row;
use doppel_core::schemes::hash::city64_bytes;
use doppel_core::text::shingles::counts;
use doppel_core::text::words::Words;
use doppel_core::text::{Document, Reader};
use doppel_core::violation::Violation;

/// How often the words of a title count: learned weights of titles in retrieval of duplicate reports lie at 2 to 3.4 times the body.
pub const TITLE_WEIGHT: u32 = 3;
/// Positions left free between two fields, so that no phrase crosses from one to the other.
const GAP: usize = 100;
/// Characters of a field that are indexed: the rest of a longer one is an attachment, not what the letter is about.
const MAX_CHARS: usize = 100_000;

/// Reads rows of one collection. Costly with user words or synonyms (a copy of the dictionary): make one per collection.
#[derive(Debug)]
pub struct Extractor {
    reader: Reader,
    words: Words,
    /// Positions of the fields that are titles.
    titles: Vec<u8>,
}

/// A term and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The term.
    pub term: String,
    /// Where it stands: positions of neighbours differ by one.
    pub position: usize,
}

/// What is indexed of a row, and what a row asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extract {
    /// Words, stop words left out, synonyms replaced; those of a title [`TITLE_WEIGHT`] times.
    pub words: Vec<Placed>,
    /// Pairs of neighbouring characters, words of other scripts whole; those of a title as often.
    pub pairs: Vec<Placed>,
    /// What the row names: places, roads, organisations, numbers; each once, by kind.
    pub objects: Vec<String>,
    /// Values of `whole` fields, by field.
    pub categories: Vec<String>,
    /// A hash of the petitioner's identity.
    pub identity: Option<u64>,
    /// When the matter was submitted, in microseconds since 1970.
    pub time: Option<i64>,
}

impl Extractor {
    /// For a collection with these settings, which are validated.
    pub fn new(settings: &Settings) -> Self {
        let titles = (0..).zip(settings.titles()).filter(|(_, is_title)| *is_title).map(|(at, _)| at).collect();
        Self { reader: Reader::new(settings), words: Words::new(&settings.text), titles }
    }

    /// What `row` says. O(bytes of the row).
    ///
    /// # Errors
    /// Where the row cannot be read under the settings.
    pub fn extract(&self, row: &Row) -> Result<Extract, Vec<Violation>> {
        Ok(self.of_document(&self.reader.read(row)?))
    }

    fn of_document(&self, document: &Document) -> Extract {
        let mut extract = Extract {
            identity: document.identity.as_ref().map(|identity| city64_bytes(identity.as_bytes())),
            time: document.time.map(|time| time.as_microsecond()),
            ..Extract::default()
        };
        let mut objects = Vec::new();
        for field in &document.fields {
            let text = cut(&field.text);
            match field.role {
                Role::Text => {
                    let times = if self.titles.contains(&field.position) { TITLE_WEIGHT } else { 1 };
                    add(&mut extract.words, &self.words(text), times);
                    add(&mut extract.pairs, &pairs(text), times);
                    objects.extend(self.words.objects(text));
                }
                Role::Whole => {
                    let value = field.merged.as_deref().unwrap_or(text);
                    extract.categories.push(category(field.position, value));
                    let times = if self.titles.contains(&field.position) { TITLE_WEIGHT } else { 1 };
                    add(&mut extract.words, &self.words(text), times);
                    add(&mut extract.pairs, &pairs(text), times);
                }
                _ => {}
            }
        }
        for object in objects {
            // What people leave out when they abbreviate says little; a name of one character says nothing without it.
            let name = if object.core().chars().count() > 1 { object.core() } else { &object.name };
            let named = format!("{:?}:{name}", object.kind).to_lowercase();
            if !extract.objects.contains(&named) {
                extract.objects.push(named);
            }
        }
        extract
    }

    /// The words of a normalised text.
    pub(crate) fn words(&self, text: &str) -> Vec<Placed> {
        let mut found = Vec::new();
        self.words.for_each(text, |word, _| {
            let position = found.len();
            found.push(Placed { term: word.to_owned(), position });
        });
        found
    }

    /// `text` as texts of the collection are read.
    pub(crate) fn normalise(&self, text: &str) -> String {
        self.reader.normaliser().normalise(text)
    }

    /// The term of a category as it is given in a question: the value, in any of the fields of role `whole`.
    pub(crate) fn category_terms(&self, settings: &Settings, value: &str) -> Vec<String> {
        let normal = self.normalise(value);
        let wholes = (0..).zip(&settings.fields).filter(|(_, field)| field.role == Role::Whole);
        wholes.map(|(position, _)| category(position, &normal)).collect()
    }

    /// The hash of an identity as it is given in a question.
    pub(crate) fn identity(&self, text: &str) -> u64 {
        city64_bytes(self.normalise(text).as_bytes())
    }
}

fn category(position: u8, value: &str) -> String {
    format!("{position}:{value}")
}

fn cut(text: &str) -> &str {
    text.char_indices().nth(MAX_CHARS).map_or(text, |(end, _)| &text[..end])
}

/// Adds terms behind those that are there, as often as `times` says.
fn add(terms: &mut Vec<Placed>, more: &[Placed], times: u32) {
    for _ in 0..times {
        let base = terms.last().map_or(0, |last| last.position + GAP);
        terms.extend(more.iter().map(|placed| Placed { term: placed.term.clone(), position: base + placed.position }));
    }
}

/// Pairs of neighbouring characters of a normalised text, without those across punctuation or white space; runs of letters and digits
/// of other scripts are one term. Positions count characters, so that a phrase is its pairs, each one after the other.
pub(crate) fn pairs(text: &str) -> Vec<Placed> {
    let mut found = Vec::new();
    let mut before: Option<char> = None;
    let mut run = String::new();
    for (position, c) in text.chars().chain([' ']).enumerate() {
        let joins = counts(c) && !is_wide(c);
        if !joins && !run.is_empty() {
            let length = run.chars().count();
            found.push(Placed { term: std::mem::take(&mut run), position: position - length });
        }
        if joins {
            run.push(c);
        }
        if let Some(first) = before.filter(|_| counts(c) && is_wide(c)) {
            found.push(Placed { term: [first, c].iter().collect(), position: position - 1 });
        }
        before = Some(c).filter(|c| counts(*c) && is_wide(*c));
    }
    found
}

/// Whether a character is written without spaces between words: Han and kana.
fn is_wide(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// How often each term stands there.
pub(crate) fn counted(terms: &[Placed]) -> HashMap<&str, u32> {
    let mut counts = HashMap::new();
    for placed in terms {
        *counts.entry(placed.term.as_str()).or_insert(0) += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::Preset;

    #[test]
    fn pairs_do_not_cross_what_separates_and_other_scripts_are_whole_words() {
        let found = pairs("三号路,路灯led灯 b12楼");
        let terms: Vec<_> = found.iter().map(|placed| (placed.term.as_str(), placed.position)).collect();
        assert_eq!(terms, [("三号", 0), ("号路", 1), ("路灯", 4), ("led", 6), ("b12", 11)]);
    }

    #[test]
    fn a_title_counts_three_times_and_no_phrase_crosses_a_field() {
        let extractor = Extractor::new(&Settings::preset(Preset::Default));
        let row = r#"{"title":"路灯不亮","content":"河口新区三号路的路灯不亮","user":"张三","time":"2024-03-01"}"#;
        let extract = extractor.extract(&Row::parse(row.as_bytes()).unwrap()).unwrap();
        let counts = counted(&extract.pairs);
        assert_eq!((counts["路灯"], counts["三号"]), (4, 1));
        assert!(extract.identity.is_some() && extract.time.is_some());
        assert!(extract.objects.iter().any(|object| object.contains("三号")), "{:?}", extract.objects);
        assert!(extract.pairs.is_sorted_by_key(|placed| placed.position));
    }
}
