//! Words that a writer may replace by others wherever they occur in a template.
//!
//! The templates are few, and a sample has many letters about each matter. Real writers choose other words and mention other details, so
//! that few letters have a sequence of eight characters in common. The replacements give this variety without more templates.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Lines of a word, `:`, and the texts that may stand in its place, separated by `|`.
const WORDS: &str = include_str!("wording.txt");
/// The line of the file after which the words of letters begin.
const LETTERS: &str = "# Only in letters, not in titles and orders.";

/// A replaceable word.
#[derive(Debug)]
struct WordEntry {
    word: &'static str,
    /// True if the word is replaced only at the end of a literal.
    at_end: bool,
    /// The texts that may stand in its place, with slots. A word without texts is never replaced, which also protects the words inside it.
    texts: Vec<&'static str>,
}

/// The words by their first character, the longest first.
type WordTable = HashMap<char, Vec<WordEntry>>;

/// The words of orders and titles, and the words of letters.
static TABLES: LazyLock<[WordTable; 2]> = LazyLock::new(|| {
    let (common, letters) = WORDS.split_once(LETTERS).unwrap_or((WORDS, ""));
    [table(common.lines()), table(letters.lines().chain(common.lines()))]
});

fn table(lines: impl Iterator<Item = &'static str>) -> WordTable {
    let mut words = WordTable::new();
    for (word, texts) in lines.filter_map(|line| line.split_once(':')).filter(|(word, _)| !word.starts_with('#')) {
        let at_end = word.ends_with('$');
        let word = word.trim_end_matches('$');
        let texts = texts.split('|').filter(|text| !text.is_empty()).collect();
        words.entry(word.chars().next().unwrap_or(' ')).or_default().push(WordEntry { word, at_end, texts });
    }
    words.values_mut().for_each(|list| list.sort_by_key(|entry| std::cmp::Reverse((entry.word.len(), entry.at_end))));
    words
}

/// A word of a literal that may be replaced.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundWord {
    /// The place of the word in the literal, in bytes.
    pub(super) start: usize,
    pub(super) end: usize,
    /// The texts that may stand in its place.
    pub(super) texts: &'static [&'static str],
}

/// Returns the first word of `literal` that may be replaced. O(length).
pub(super) fn next_word(literal: &str, letter: bool) -> Option<FoundWord> {
    let table = &TABLES[usize::from(letter)];
    let mut start = 0;
    while let Some(first) = literal[start..].chars().next() {
        let rest = &literal[start..];
        let fits =
            |entry: &&WordEntry| rest.starts_with(entry.word) && (!entry.at_end || rest.len() == entry.word.len());
        match table.get(&first).and_then(|words| words.iter().find(fits)) {
            Some(entry) if entry.texts.is_empty() => start += entry.word.len(),
            Some(entry) => return Some(FoundWord { start, end: start + entry.word.len(), texts: &entry.texts }),
            None => start += first.len_utf8(),
        }
    }
    None
}

/// The texts that may stand in the place of words, for the test of all templates.
#[cfg(test)]
pub(super) fn texts() -> impl Iterator<Item = &'static str> {
    TABLES[1].values().flatten().flat_map(|entry| entry.texts.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_word_counts_and_a_word_without_texts_protects_its_parts() {
        let found = next_word("问没有人修", false).unwrap();
        assert_eq!(("问没有人修".get(found.start..found.end), found.texts.len() > 2), (Some("没有人"), true));
        assert!(next_word("看有没有", false).is_none());
        assert!(next_word("他说", true).is_some() && next_word("他说过", true).is_none());
    }
}
