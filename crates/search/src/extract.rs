//! From a row to what is indexed of it, and to what is asked for.

use std::collections::{HashMap, HashSet};

use doppel_core::collection::{Role, Settings};
use doppel_core::record::Row;
use doppel_core::schemes::hash::city64_bytes;
use doppel_core::text::shingles::counts;
use doppel_core::text::words::Words;
use doppel_core::text::{Document, Reader};
use doppel_core::violation::Violation;

/// How often the words of a title count: learned weights of titles in retrieval of duplicate reports lie at 2 to 3.4 times the body.
pub const TITLE_WEIGHT: u32 = 3;
/// Separates words, and the texts of fields: normalised text never holds it.
pub(crate) const SEPARATOR: char = '\u{1F}';
/// Places left free between two fields, so that no phrase crosses from one to the other.
const GAP: usize = 100;
/// Longest term in bytes: what is longer is no word.
const LONGEST_TERM: usize = 256;
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
pub(crate) struct Placed {
    pub(crate) term: String,
    /// Where it stands: positions of neighbouring characters differ by one.
    pub(crate) position: usize,
}

/// What is indexed of a row, and what a row asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extract {
    /// Words, stop words left out, synonyms replaced; those of a title [`TITLE_WEIGHT`] times. Separated by U+001F.
    pub words: String,
    /// The texts of all fields, normalised, separated by U+001F: runs of characters are found in them.
    pub text: String,
    /// What the row names: places, roads, organisations, numbers; each once, by kind.
    pub objects: Vec<String>,
    /// Values of `whole` fields, by field.
    pub categories: Vec<String>,
    /// A hash of the petitioner's identity: of all its fields together.
    pub identity: Option<u64>,
    /// Hashes by which a petitioner is asked for: of each field of the identity, and of all together.
    pub petitioners: Vec<u64>,
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
        let hash = |text: &str| city64_bytes(text.as_bytes());
        let identity = document.identity.as_deref().map(hash);
        let mut petitioners: Vec<u64> = document.identity_values().map(hash).chain(identity).collect();
        petitioners.dedup();
        let mut extract = Extract {
            identity,
            petitioners,
            time: document.time.map(|time| time.as_microsecond()),
            ..Extract::default()
        };
        let mut objects = Vec::new();
        for field in &document.fields {
            let text = cut(&field.text);
            if !matches!(field.role, Role::Text | Role::Whole) {
                continue;
            }
            let times = if self.titles.contains(&field.position) { TITLE_WEIGHT } else { 1 };
            let begin = extract.words.len();
            let mut add = |word: &str| join(&mut extract.words, word);
            if field.role == Role::Text {
                objects.extend(self.words.read(text, |word, _| short(word, &mut add)));
            } else {
                self.for_each_word(text, add);
                extract.categories.push(self.category(field.position, text));
            }
            let words = extract.words[begin..].trim_start_matches(SEPARATOR).to_owned();
            (1..times).for_each(|_| join(&mut extract.words, &words));
            join(&mut extract.text, text);
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
    pub(crate) fn words(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        self.for_each_word(text, |word| found.push(word.to_owned()));
        found
    }

    fn for_each_word(&self, text: &str, mut visit: impl FnMut(&str)) {
        self.words.for_each(text, |word, _| short(word, &mut visit));
    }

    /// `text` as texts of the collection are read.
    pub(crate) fn normalise(&self, text: &str) -> String {
        self.reader.normaliser().normalise(text)
    }

    /// The term of a category as it is given in a question: the value, in any of the fields of role `whole`.
    pub(crate) fn category_terms(&self, settings: &Settings, value: &str) -> Vec<String> {
        let normal = self.normalise(value);
        let wholes = (0..).zip(&settings.fields).filter(|(_, field)| field.role == Role::Whole);
        wholes.map(|(position, _)| self.category(position, &normal)).collect()
    }

    /// The term of a normalised value: values of one meaning have one.
    fn category(&self, field: u8, value: &str) -> String {
        format!("{field}:{}", self.words.merged(value).as_deref().unwrap_or(value))
    }

    /// The hash of an identity as it is given in a question.
    pub(crate) fn identity(&self, text: &str) -> u64 {
        city64_bytes(self.normalise(text).as_bytes())
    }
}

/// Passes a word on, unless it is longer than any.
fn short(word: &str, visit: &mut impl FnMut(&str)) {
    if word.len() <= LONGEST_TERM {
        visit(word);
    }
}

/// As much of a field as is indexed.
pub(crate) fn cut(text: &str) -> &str {
    text.char_indices().nth(MAX_CHARS).map_or(text, |(end, _)| &text[..end])
}

/// Adds `more` to what is joined.
fn join(joined: &mut String, more: &str) {
    if !joined.is_empty() && !more.is_empty() {
        joined.push(SEPARATOR);
    }
    joined.push_str(more);
}

/// Calls `visit` with what finds a run of characters wherever it stands, whatever words it is cut into, and its place: of a run of Han
/// characters or kana each pair of neighbours and the last one by itself, the first one too where anything of the same field stands
/// before it, so that a run may end with it; runs of other letters and digits whole. Each at the place of its first character, in
/// their order; all that separates two runs is one place.
pub(crate) fn for_each_pair<'t>(text: &'t str, mut visit: impl FnMut(&'t str, usize)) {
    let mut position = 0;
    let mut follows = false;
    for run in runs(text) {
        match run.script {
            Script::None if run.text.contains(SEPARATOR) => (position, follows) = (position + GAP, false),
            Script::None => position += 1,
            Script::Spaced => {
                if run.text.len() <= LONGEST_TERM {
                    visit(run.text, position);
                }
                position += run.text.chars().count();
            }
            Script::Wide => {
                let (mut start, mut ends) = (0, run.text.char_indices().map(|(at, c)| at + c.len_utf8()).peekable());
                while let Some(end) = ends.next() {
                    let next = ends.peek();
                    let is_first_of_more = start == 0 && follows && next.is_some();
                    if is_first_of_more || next.is_none() {
                        visit(&run.text[start..end], position);
                    }
                    if let Some(next) = next {
                        visit(&run.text[start..*next], position);
                    }
                    start = end;
                    position += 1;
                }
            }
        }
        follows |= run.script != Script::None;
    }
}

/// What finds `text` as it stands among what [`for_each_pair`] gives: as little of it as says all.
pub(crate) fn run_terms(text: &str) -> Vec<Placed> {
    let mut terms = Vec::new();
    for_each_pair(text, |term, position| terms.push(Placed { term: term.to_owned(), position }));
    let pairs = terms.iter().filter(|placed| is_pair(&placed.term));
    let in_pairs: HashSet<usize> = pairs.flat_map(|pair| [pair.position, pair.position + 1]).collect();
    // A character by itself says nothing that its pair does not say.
    terms.retain(|placed| !is_single(&placed.term) || !in_pairs.contains(&placed.position));
    terms
}

fn is_pair(term: &str) -> bool {
    let mut chars = term.chars();
    chars.next().is_some_and(is_wide) && chars.next().is_some()
}

/// Whether a term of [`for_each_pair`] is a character by itself that may have neighbours.
pub(crate) fn is_single(term: &str) -> bool {
    let mut chars = term.chars();
    chars.next().is_some_and(is_wide) && chars.next().is_none()
}

/// How a run of characters is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    /// It separates others.
    None,
    /// Letters and digits with spaces between words.
    Spaced,
    /// Without spaces: Han and kana.
    Wide,
}

/// Characters of one script in a row.
struct Run<'t> {
    script: Script,
    text: &'t str,
}

fn runs(text: &str) -> impl Iterator<Item = Run<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let script = script(rest.chars().next()?);
        let end = rest.find(|c| self::script(c) != script).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        rest = behind;
        Some(Run { script, text: run })
    })
}

fn script(c: char) -> Script {
    match c {
        c if !counts(c) => Script::None,
        c if is_wide(c) => Script::Wide,
        _ => Script::Spaced,
    }
}

/// Whether a character is written without spaces between words: Han and kana.
fn is_wide(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// How often each of the first `most` different words stands among those that are joined.
pub(crate) fn counted(words: &str, most: usize) -> HashMap<&str, u32> {
    let mut counts: HashMap<&str, u32> = HashMap::new();
    for word in words.split(SEPARATOR).filter(|word| !word.is_empty()) {
        if let Some(count) = counts.get_mut(word) {
            *count += 1;
        } else if counts.len() < most {
            counts.insert(word, 1);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::Preset;

    fn pairs(text: &str) -> Vec<Placed> {
        let mut found = Vec::new();
        for_each_pair(text, |term, position| found.push(Placed { term: term.to_owned(), position }));
        found
    }

    fn placed(terms: &[Placed]) -> Vec<(&str, usize)> {
        terms.iter().map(|placed| (placed.term.as_str(), placed.position)).collect()
    }

    #[test]
    fn pairs_do_not_cross_what_separates_and_other_scripts_are_whole_words() {
        let found = pairs("三号路,, 路灯led灯 b12楼");
        let expected = [
            ("三号", 0),
            ("号路", 1),
            ("路", 2),
            ("路", 4),
            ("路灯", 4),
            ("灯", 5),
            ("led", 6),
            ("灯", 9),
            ("b12", 11),
            ("楼", 14),
        ];
        assert_eq!(placed(&found), expected);
        let first = pairs("3号楼");
        assert_eq!(placed(&first), [("3", 0), ("号", 1), ("号楼", 1), ("楼", 2)]);
        assert!(pairs(&"x".repeat(1000)).is_empty(), "that is no word");
        assert!(pairs("").is_empty() && pairs(" ,。").is_empty());
    }

    #[test]
    fn a_run_is_asked_for_by_its_pairs_and_by_what_has_none() {
        assert_eq!(placed(&run_terms("15号楼")), [("15", 0), ("号楼", 2)]);
        assert_eq!(placed(&run_terms("3号")), [("3", 0), ("号", 1)]);
        assert_eq!(placed(&run_terms("2024年3月")), [("2024", 0), ("年", 4), ("3", 5), ("月", 6)]);
        assert_eq!(placed(&run_terms("井")), [("井", 0)]);
    }

    #[test]
    fn each_field_of_an_identity_finds_the_petitioner() {
        let mut settings = Settings::preset(Preset::Default);
        settings.fields.push(serde_json::from_str(r#"{"name":"phone","role":"identity"}"#).unwrap());
        let extractor = Extractor::new(&settings);
        let row = Row::parse(r#"{"content":"路灯","user":"张三","phone":"123"}"#.as_bytes()).unwrap();
        let extract = extractor.extract(&row).unwrap();
        assert_eq!(extract.petitioners.len(), 3);
        assert!(["张三", "123"].iter().all(|value| extract.petitioners.contains(&extractor.identity(value))));
    }

    #[test]
    fn a_title_counts_three_times_and_no_phrase_crosses_a_field() {
        let extractor = Extractor::new(&Settings::preset(Preset::Default));
        let row = r#"{"title":"路灯不亮","content":"河口新区三号路的路灯不亮","user":"张三","time":"2024-03-01"}"#;
        let extract = extractor.extract(&Row::parse(row.as_bytes()).unwrap()).unwrap();
        assert_eq!(extract.text, "路灯不亮\u{1F}河口新区三号路的路灯不亮");
        assert!(pairs(&extract.text).windows(2).any(|two| two[0].position + GAP < two[1].position));
        let (words, title) = (counted(&extract.words, 100), extractor.words("路灯不亮"));
        assert!(!title.is_empty() && title.iter().all(|word| words[word.as_str()] >= TITLE_WEIGHT), "{words:?}");
        assert_eq!(counted(&extract.words, 2).len(), 2);
        assert!(extract.identity.is_some() && extract.time.is_some());
        assert!(extract.objects.iter().any(|object| object.contains("三号")), "{:?}", extract.objects);
    }
}
