//! Extracts from a row the words, names and values that the index stores and that a question for related records uses.

use std::collections::{HashMap, HashSet};

use doppel_core::collection::{Role, Settings};
use doppel_core::handling::Handling;
use doppel_core::record::Row;
use doppel_core::schemes::hash::city64_bytes;
use doppel_core::text::shingles::counts;
use doppel_core::text::words::Words;
use doppel_core::text::{Document, Reader};
use doppel_core::violation::Violation;

/// The factor by which words of a title count. Published systems that retrieve duplicate reports learned title weights of 2 to 3.4 times the
/// weight of the body.
pub const TITLE_WEIGHT: u32 = 3;
/// The separator between words and between the texts of fields. Normalised text never contains this character.
pub(crate) const SEPARATOR: char = '\u{1F}';
/// Number of free positions between two fields, so that no phrase matches across the border of two fields.
const FIELD_GAP: usize = 100;
/// Largest length of a term in bytes. Longer runs are not words and are not indexed.
const MAX_TERM_BYTES: usize = 256;
/// Number of characters of a field that are indexed. In a longer field the rest is usually an attachment that was pasted into the letter.
const MAX_CHARS: usize = 100_000;

/// Reads the rows of one collection. With user words or synonyms it contains a copy of the dictionary, so that a collection should have only
/// one extractor.
#[derive(Debug)]
pub struct Extractor {
    reader: Reader,
    words: Words,
    /// The positions of the title fields.
    titles: Vec<u8>,
    /// The roles of the fields by their names.
    roles: Vec<(String, Role)>,
}

/// A term and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlacedTerm {
    pub(crate) term: String,
    /// The position in the text. The positions of neighbouring characters differ by one.
    pub(crate) position: usize,
}

/// The searchable content of a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowExtract {
    /// The words without stop words and with synonyms replaced, separated by U+001F. Words of a title occur [`TITLE_WEIGHT`] times.
    pub words: String,
    /// The normalised texts of all fields, separated by U+001F. Runs of characters are searched in this text.
    pub text: String,
    /// The places, roads, organisations and numbers that the row names, as `kind:name`, each once.
    pub objects: Vec<String>,
    /// The values of fields of role `whole`, as `position:value`.
    pub categories: Vec<String>,
    /// The values of roles `category`, `status` and `unit`, as `role:value`.
    pub handling: Vec<String>,
    /// Hashes of the values that name the petitioner, one of each identity field; empty if the row names no petitioner.
    pub petitioners: Vec<u64>,
    /// The time of the record, in microseconds since 1970.
    pub time: Option<i64>,
}

impl Extractor {
    /// Makes an extractor for a collection with these validated settings.
    pub fn new(settings: &Settings) -> Self {
        let titles = (0..).zip(settings.titles()).filter(|(_, is_title)| *is_title).map(|(at, _)| at).collect();
        let roles = settings.fields.iter().map(|field| (field.name.clone(), field.role)).collect();
        Self { reader: Reader::new(settings), words: Words::new(&settings.text), titles, roles }
    }

    /// Extracts the searchable content of `row`. O(bytes of the row).
    ///
    /// # Errors
    /// The violations because of which the row cannot be read under the settings.
    pub fn extract(&self, row: &Row) -> Result<RowExtract, Vec<Violation>> {
        let mut extract = self.extract_document(&self.reader.read(row)?);
        extract.handling = self.handling_terms(row);
        Ok(extract)
    }

    fn extract_document(&self, document: &Document) -> RowExtract {
        let mut petitioners: Vec<u64> = document.identity_values().map(hash_text).collect();
        petitioners.sort_unstable();
        petitioners.dedup();
        let mut extract =
            RowExtract { petitioners, time: document.time.map(|time| time.as_microsecond()), ..RowExtract::default() };
        let mut objects = Vec::new();
        for field in &document.fields {
            let text = indexed_part(field.whole());
            if !matches!(field.role, Role::Text | Role::Whole) {
                continue;
            }
            let times = if self.titles.contains(&field.position) { TITLE_WEIGHT } else { 1 };
            let begin = extract.words.len();
            if field.role == Role::Text {
                let mut add = |word: &str| append(&mut extract.words, word);
                objects.extend(self.words.read(text, |word, _| visit_if_short(word, &mut add)));
            } else {
                self.for_each_word(text, |word| append(&mut extract.words, word));
                extract.categories.push(self.category_term(field.position, text));
            }
            let words = extract.words[begin..].trim_start_matches(SEPARATOR).to_owned();
            (1..times).for_each(|_| append(&mut extract.words, &words));
            append(&mut extract.text, text);
        }
        for object in objects {
            // The core of a name is the part that people keep when they abbreviate it, so that both forms give the same term. A core of a
            // single character is not specific enough; the term is then the full name.
            let name = if object.core().chars().count() > 1 { object.core() } else { &object.name };
            let named = format!("{:?}:{name}", object.kind).to_lowercase();
            if !extract.objects.contains(&named) {
                extract.objects.push(named);
            }
        }
        extract
    }

    /// Returns the words of a normalised text.
    pub(crate) fn words(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        self.for_each_word(text, |word| found.push(word.to_owned()));
        found
    }

    fn for_each_word(&self, text: &str, mut visit: impl FnMut(&str)) {
        self.words.for_each(text, |word, _| visit_if_short(word, &mut visit));
    }

    /// Normalises `text` like the texts of the collection.
    pub(crate) fn normalise(&self, text: &str) -> String {
        self.reader.normaliser().normalise(text)
    }

    /// Returns the terms that find a category in any of the fields of role `whole`.
    pub(crate) fn category_terms(&self, settings: &Settings, value: &str) -> Vec<String> {
        let normal = self.normalise(value);
        let wholes = (0..).zip(&settings.fields).filter(|(_, field)| field.role == Role::Whole);
        wholes.map(|(position, _)| self.category_term(position, &normal)).collect()
    }

    fn role_of_field(&self, name: &str) -> Option<Role> {
        self.roles.iter().find(|(field, _)| field == name).map(|(_, role)| *role)
    }

    /// Returns the terms of the values that the office added to a record.
    fn handling_terms(&self, row: &Row) -> Vec<String> {
        let Handling { category, status, unit, reply: _ } =
            Handling::of(|name| self.role_of_field(name), row).unwrap_or_default();
        let values = [(Role::Category, category), (Role::Status, status), (Role::Unit, unit)];
        values.into_iter().filter_map(|(role, value)| Some(self.handling_term(role, &value?))).collect()
    }

    /// Returns the term that finds records by a value of one of the roles `category`, `status` and `unit`.
    pub(crate) fn handling_term(&self, role: Role, value: &str) -> String {
        let name = match role {
            Role::Status => "status",
            Role::Unit => "unit",
            _ => "category",
        };
        format!("{name}:{}", self.normalise(value))
    }

    /// Returns the term of a normalised category. Synonyms have the same term.
    fn category_term(&self, field: u8, value: &str) -> String {
        format!("{field}:{}", self.words.merged(value).as_deref().unwrap_or(value))
    }

    /// Returns the hash of an identity that a question contains; the hash of a placeholder is the hash of the empty text, which no record
    /// has.
    pub(crate) fn identity_hash(&self, text: &str) -> u64 {
        hash_text(&self.reader.identity(text).unwrap_or_default())
    }
}

fn hash_text(text: &str) -> u64 {
    city64_bytes(text.as_bytes())
}

/// Calls `visit` with the word unless the word is longer than [`MAX_TERM_BYTES`].
fn visit_if_short(word: &str, visit: &mut impl FnMut(&str)) {
    if word.len() <= MAX_TERM_BYTES {
        visit(word);
    }
}

/// Returns the part of a field that is indexed: its first [`MAX_CHARS`] characters.
pub(crate) fn indexed_part(text: &str) -> &str {
    text.char_indices().nth(MAX_CHARS).map_or(text, |(end, _)| &text[..end])
}

/// Appends `more` to `joined`, with a separator between them.
fn append(joined: &mut String, more: &str) {
    if !joined.is_empty() && !more.is_empty() {
        joined.push(SEPARATOR);
    }
    joined.push_str(more);
}

/// Calls `visit` with terms that find any run of characters, without regard to the borders of words, and with the position of each term.
///
/// A run of Han characters or kana gives each pair of neighbours and its last character. It also gives its first character if another run of the
/// same field precedes, so that a phrase can end with this character. A run of other letters and digits gives one term. The position of
/// a term is the position of its first character; all characters between two runs together count as one position.
pub(crate) fn for_each_pair<'t>(text: &'t str, mut visit: impl FnMut(&'t str, usize)) {
    let mut position = 0;
    let mut follows = false;
    for run in runs(text) {
        match run.script {
            ScriptKind::None if run.text.contains(SEPARATOR) => {
                position += FIELD_GAP;
                follows = false;
            }
            ScriptKind::None => position += 1,
            ScriptKind::Spaced => {
                visit_if_short_run(run.text, position, &mut visit);
                position += run.text.chars().count();
            }
            ScriptKind::Wide => {
                let mut start = 0;
                let mut ends = run.text.char_indices().map(|(at, c)| at + c.len_utf8()).peekable();
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
        follows |= run.script != ScriptKind::None;
    }
}

fn visit_if_short_run<'t>(run: &'t str, position: usize, visit: &mut impl FnMut(&'t str, usize)) {
    if run.len() <= MAX_TERM_BYTES {
        visit(run, position);
    }
}

/// Returns the smallest set of terms of [`for_each_pair`] that finds exactly the text `text`.
pub(crate) fn run_terms(text: &str) -> Vec<PlacedTerm> {
    let mut terms = Vec::new();
    for_each_pair(text, |term, position| terms.push(PlacedTerm { term: term.to_owned(), position }));
    let pairs = terms.iter().filter(|placed| is_pair(&placed.term));
    let in_pairs: HashSet<usize> = pairs.flat_map(|pair| [pair.position, pair.position + 1]).collect();
    // A single character adds nothing to a pair that contains it.
    terms.retain(|placed| !is_single(&placed.term) || !in_pairs.contains(&placed.position));
    terms
}

fn is_pair(term: &str) -> bool {
    let mut chars = term.chars();
    chars.next().is_some_and(is_wide) && chars.next().is_some()
}

/// True if a term of [`for_each_pair`] is a single Han character or kana, which a longer run may continue.
pub(crate) fn is_single(term: &str) -> bool {
    let mut chars = term.chars();
    chars.next().is_some_and(is_wide) && chars.next().is_none()
}

/// The way in which a run of characters is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScriptKind {
    /// Punctuation and spaces, which separate runs.
    None,
    /// Letters and digits of scripts that put spaces between words.
    Spaced,
    /// Han characters and kana, which are written without spaces.
    Wide,
}

/// A run of characters of the same kind.
struct ScriptRun<'t> {
    script: ScriptKind,
    text: &'t str,
}

fn runs(text: &str) -> impl Iterator<Item = ScriptRun<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let script = script(rest.chars().next()?);
        let end = rest.find(|c| self::script(c) != script).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        rest = behind;
        Some(ScriptRun { script, text: run })
    })
}

fn script(c: char) -> ScriptKind {
    match c {
        c if !counts(c) => ScriptKind::None,
        c if is_wide(c) => ScriptKind::Wide,
        _ => ScriptKind::Spaced,
    }
}

/// True for Han characters and kana.
fn is_wide(c: char) -> bool {
    matches!(c, '\u{2E80}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// Counts the words in a list that is separated by [`SEPARATOR`]. Only the first `max_words` different words are counted.
pub(crate) fn count_words(words: &str, max_words: usize) -> HashMap<&str, u32> {
    let mut counts: HashMap<&str, u32> = HashMap::new();
    for word in words.split(SEPARATOR).filter(|word| !word.is_empty()) {
        if let Some(count) = counts.get_mut(word) {
            *count += 1;
        } else if counts.len() < max_words {
            counts.insert(word, 1);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::Preset;

    fn pairs(text: &str) -> Vec<PlacedTerm> {
        let mut found = Vec::new();
        for_each_pair(text, |term, position| found.push(PlacedTerm { term: term.to_owned(), position }));
        found
    }

    fn placed(terms: &[PlacedTerm]) -> Vec<(&str, usize)> {
        terms.iter().map(|placed| (placed.term.as_str(), placed.position)).collect()
    }

    #[test]
    fn pairs_do_not_cross_separators_and_other_scripts_give_whole_words() {
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
        assert!(pairs(&"x".repeat(1000)).is_empty(), "too long for a word");
        assert!(pairs("").is_empty() && pairs(" ,。").is_empty());
    }

    #[test]
    fn the_terms_of_a_run_are_its_pairs_and_the_characters_outside_of_pairs() {
        assert_eq!(placed(&run_terms("15号楼")), [("15", 0), ("号楼", 2)]);
        assert_eq!(placed(&run_terms("3号")), [("3", 0), ("号", 1)]);
        assert_eq!(placed(&run_terms("2024年3月")), [("2024", 0), ("年", 4), ("3", 5), ("月", 6)]);
        assert_eq!(placed(&run_terms("井")), [("井", 0)]);
    }

    #[test]
    fn each_identity_field_finds_the_petitioner() {
        let mut settings = Settings::preset(Preset::Default);
        settings.fields.push(serde_json::from_str(r#"{"name":"phone","role":"identity"}"#).unwrap());
        let extractor = Extractor::new(&settings);
        let row = Row::parse(r#"{"content":"路灯","user":"张三","phone":"139-0000-1111"}"#.as_bytes()).unwrap();
        let extract = extractor.extract(&row).unwrap();
        assert_eq!(extract.petitioners.len(), 2);
        assert!(
            ["张三", "+86 13900001111"]
                .iter()
                .all(|value| extract.petitioners.contains(&extractor.identity_hash(value)))
        );
    }

    #[test]
    fn words_of_a_title_count_three_times_and_no_phrase_crosses_two_fields() {
        let extractor = Extractor::new(&Settings::preset(Preset::Default));
        let row = r#"{"title":"路灯不亮","content":"河口新区三号路的路灯不亮","user":"张三","time":"2024-03-01"}"#;
        let extract = extractor.extract(&Row::parse(row.as_bytes()).unwrap()).unwrap();
        assert_eq!(extract.text, "路灯不亮\u{1F}河口新区三号路的路灯不亮");
        assert!(pairs(&extract.text).windows(2).any(|two| two[0].position + FIELD_GAP < two[1].position));
        let words = count_words(&extract.words, 100);
        let title = extractor.words("路灯不亮");
        assert!(!title.is_empty() && title.iter().all(|word| words[word.as_str()] >= TITLE_WEIGHT), "{words:?}");
        assert_eq!(count_words(&extract.words, 2).len(), 2);
        assert!(extract.petitioners.len() == 1 && extract.time.is_some());
        assert!(extract.objects.iter().any(|object| object == "road:3号"), "{:?}", extract.objects);
    }
}
