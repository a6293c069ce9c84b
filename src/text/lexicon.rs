//! What becomes of a word: kept, left out, or replaced by the first of its synonyms.
//!
//! Entries are normalised like the texts they meet. Synonyms come first: a word whose replacement is a stop word is left
//! out. A word in several groups belongs to the first. One hash lookup a word.

use hashbrown::HashMap;

use super::normalise::Normaliser;
use crate::collection::{StopList, StopWords, TextSettings};

/// The stop words of [`StopList::Default`]: groups of words separated by white space, comments from `#` on.
pub(super) const DEFAULT_STOP_WORDS: &str = include_str!("stop_words.txt");

/// What becomes of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate<'a> {
    /// It counts as it is.
    Kept,
    /// It does not count.
    Dropped,
    /// It counts as this word.
    Replaced(&'a str),
}

/// Stop words and synonyms of a collection.
#[derive(Clone, Debug)]
pub struct Lexicon {
    /// `None` drops the word.
    entries: HashMap<Box<str>, Option<Box<str>>>,
}

impl Lexicon {
    /// The lexicon that `settings` describe.
    pub fn new(settings: &TextSettings, normaliser: Normaliser) -> Self {
        let normal = |word: &str| normaliser.normalise(word).into_boxed_str();
        let stop_words = match &settings.stop_words {
            StopWords::Named(StopList::Default) => default_stop_words().map(normal).collect::<Vec<_>>(),
            StopWords::These(words) => words.iter().map(|word| normal(word)).collect(),
        };
        let mut entries: HashMap<_, _> = stop_words.into_iter().map(|word| (word, None)).collect();
        let mut seen = hashbrown::HashSet::new();
        for group in &settings.synonyms {
            let words: Vec<_> = group.iter().map(|word| normal(word)).filter(|word| !word.is_empty()).collect();
            let Some(first) = words.first() else { continue };
            let replacement = (entries.get(first) != Some(&None)).then(|| first.clone());
            for word in &words {
                if seen.insert(word.clone()) && (word != first || replacement.is_none()) {
                    entries.insert(word.clone(), replacement.clone());
                }
            }
        }
        Self { entries }
    }

    /// What becomes of `word`.
    #[inline]
    pub fn fate(&self, word: &str) -> Fate<'_> {
        match self.entries.get(word) {
            None => Fate::Kept,
            Some(None) => Fate::Dropped,
            Some(Some(first)) => Fate::Replaced(first),
        }
    }
}

fn default_stop_words() -> impl Iterator<Item = &'static str> {
    DEFAULT_STOP_WORDS.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace)
}

/// The words that the segmenter must know for these settings to have effect: user words, and synonyms, which could not be
/// replaced if they were cut apart. Normalised, in order, without repetition.
pub(super) fn dictionary_words(settings: &TextSettings, normaliser: Normaliser) -> Vec<String> {
    let mut seen = hashbrown::HashSet::new();
    let all = settings.user_words.iter().chain(settings.synonyms.iter().flatten());
    let normal = all.map(|word| normaliser.normalise(word)).filter(|word| !word.is_empty());
    normal.filter(|word| seen.insert(word.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lexicon(stop_words: &[&str], synonyms: &[&[&str]]) -> Lexicon {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let settings = TextSettings {
            stop_words: StopWords::These(owned(stop_words)),
            synonyms: synonyms.iter().map(|group| owned(group)).collect(),
            ..TextSettings::default()
        };
        Lexicon::new(&settings, Normaliser::new(true))
    }

    #[test]
    fn the_default_list_holds_particles_and_courtesies_but_no_matters() {
        let lexicon = Lexicon::new(&TextSettings::default(), Normaliser::new(true));
        assert!(["的", "我们", "谢谢", "尊敬", "the"].iter().all(|word| lexicon.fate(word) == Fate::Dropped));
        assert!(["噪音", "小区", "工资", "拆迁", "noise"].iter().all(|word| lexicon.fate(word) == Fate::Kept));
    }

    #[test]
    fn the_default_list_is_in_normal_form() {
        assert!(default_stop_words().all(|word| Normaliser::new(true).normalise(word) == word));
    }

    #[test]
    fn synonyms_become_the_first_of_their_group() {
        let lexicon = lexicon(&[], &[&["番茄", "西红柿", "杨柿子"], &["ＷＩＦＩ", "无线网", "西红柿"]]);
        assert_eq!(lexicon.fate("杨柿子"), Fate::Replaced("番茄"));
        assert_eq!(lexicon.fate("西红柿"), Fate::Replaced("番茄"));
        assert_eq!(lexicon.fate("番茄"), Fate::Kept);
        assert_eq!(lexicon.fate("无线网"), Fate::Replaced("wifi"));
    }

    #[test]
    fn a_word_whose_first_synonym_is_a_stop_word_is_left_out() {
        let lexicon = lexicon(&["番茄"], &[&["番茄", "西红柿"]]);
        assert_eq!(lexicon.fate("番茄"), Fate::Dropped);
        assert_eq!(lexicon.fate("西红柿"), Fate::Dropped);
    }

    #[test]
    fn a_stop_word_with_a_synonym_that_is_none_counts_as_that() {
        let lexicon = lexicon(&["柿子"], &[&["番茄", "柿子"]]);
        assert_eq!(lexicon.fate("柿子"), Fate::Replaced("番茄"));
    }
}
