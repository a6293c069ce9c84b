//! Decides whether a word is kept, left out, or replaced by the first of its synonyms.
//!
//! Entries are normalised like the texts. Synonyms are replaced first: a word whose replacement is a stop word is left
//! out. A word in several groups belongs to the first group.
//!
//! Every word of every text is looked up, and most words are not found. So this module has a special hash table: the
//! hash reads a few bytes of the word, and each entry has two bytes, most of them empty; the default list takes 16 KiB.
//! A word that is not in the list nearly always meets an empty entry.

use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;

use super::normalise::Normaliser;
use crate::collection::{StopList, StopWords, TextSettings};

/// The stop words of [`StopList::Default`]: groups of words that are separated by white space, with comments from `#`
/// on.
pub(super) const DEFAULT_STOP_WORDS: &str = include_str!("stop_words.txt");

/// The decision about a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordTreatment<'a> {
    /// The word counts unchanged.
    Kept,
    /// The word does not count.
    Dropped,
    /// The word counts as this other word.
    Replaced(&'a str),
}

/// Stop words and synonyms of a collection.
#[derive(Clone, Debug)]
pub struct Lexicon {
    /// Words and their replacements; `None` drops the word.
    entries: Vec<(Box<str>, Option<Box<str>>)>,
    /// A hash table with open addressing. Its length is a power of two, and it is at most a quarter full. Each element
    /// is 0 or a part of the hash of a word.
    tags: Box<[u16]>,
    /// The index of the entry for each element of `tags`.
    places: Box<[u32]>,
    replaces: bool,
}

impl Lexicon {
    /// Returns the lexicon that `settings` describe. All collections with the default stop words and without synonyms have the same one,
    /// of 40 kilobytes.
    pub fn of(settings: &TextSettings) -> Arc<Self> {
        static DEFAULT: LazyLock<Arc<Lexicon>> = LazyLock::new(|| Arc::new(Lexicon::new(&TextSettings::default())));
        let default = TextSettings::default();
        let is_default = settings.stop_words == default.stop_words
            && settings.synonyms == default.synonyms
            && settings.simplify == default.simplify;
        if is_default { Arc::clone(&DEFAULT) } else { Arc::new(Self::new(settings)) }
    }

    fn new(settings: &TextSettings) -> Self {
        let normaliser = Normaliser::new(settings.simplify);
        let stop_words: Vec<String> = match &settings.stop_words {
            StopWords::Named(StopList::Default) => {
                default_stop_words().map(|word| normaliser.normalise(word)).collect()
            }
            StopWords::These(words) => words.iter().map(|word| normaliser.normalise(word)).collect(),
        };
        let mut entries: HashMap<Box<str>, _> = stop_words.into_iter().map(|word| (word.into(), None)).collect();
        let mut seen = hashbrown::HashSet::new();
        for group in &settings.synonyms {
            let words = group.iter().map(|word| normaliser.normalise(word)).filter(|word| !word.is_empty());
            let words: Vec<Box<str>> = words.map(String::into_boxed_str).collect();
            let Some(first) = words.first() else { continue };
            let replacement = (entries.get(first) != Some(&None)).then(|| first.clone());
            for word in &words {
                if seen.insert(word.clone()) && (word != first || replacement.is_none()) {
                    entries.insert(word.clone(), replacement.clone());
                }
            }
        }
        Self::build(entries.into_iter().collect())
    }

    fn build(mut entries: Vec<(Box<str>, Option<Box<str>>)>) -> Self {
        entries.sort_unstable();
        let size = (entries.len() * 4).next_power_of_two();
        let mut tags = vec![0; size].into_boxed_slice();
        let mut places = vec![0; size].into_boxed_slice();
        for (place, (word, _)) in (0..).zip(&entries) {
            let (mut at, tag) = hash(word);
            while tags[at & (size - 1)] != 0 {
                at += 1;
            }
            tags[at & (size - 1)] = tag;
            places[at & (size - 1)] = place;
        }
        let replaces = entries.iter().any(|(_, replacement)| replacement.is_some());
        Self { entries, tags, places, replaces }
    }

    /// True if any word has a synonym that replaces it.
    pub fn replaces(&self) -> bool {
        self.replaces
    }

    /// Returns the decision about `word`.
    #[inline]
    pub fn fate(&self, word: &str) -> WordTreatment<'_> {
        let (mut at, tag) = hash(word);
        loop {
            let found = at & (self.tags.len() - 1);
            if self.tags[found] == 0 {
                return WordTreatment::Kept;
            }
            if self.tags[found] == tag
                && let (entry, replacement) = &self.entries[self.places[found] as usize]
                && **entry == *word
            {
                return replacement.as_deref().map_or(WordTreatment::Dropped, WordTreatment::Replaced);
            }
            at += 1;
        }
    }
}

/// Returns the position where the search for a word begins, and the word's tag, which is never 0. The hash depends on
/// the word's length, its first four bytes and its last four.
#[inline]
fn hash(word: &str) -> (usize, u16) {
    let ends = match word.as_bytes() {
        bytes if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) => {
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
        }
        short => short.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
    };
    let product = u128::from(ends ^ (word.len() as u64) << 56) * 0x9e37_79b9_7f4a_7c15;
    let mixed = (product >> 64) as u64 ^ product as u64;
    ((mixed >> 16) as usize, mixed as u16 | 1)
}

fn default_stop_words() -> impl Iterator<Item = &'static str> {
    DEFAULT_STOP_WORDS.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace)
}

/// Returns the words that the segmenter must know so that these settings have an effect: user words, and synonyms,
/// which could not be replaced if the segmenter cut them apart. Normalised, in order, without repetition.
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
        let settings = TextSettings {
            stop_words: StopWords::These(owned(stop_words)),
            synonyms: synonyms.iter().map(|group| owned(group)).collect(),
            ..TextSettings::default()
        };
        Lexicon::new(&settings)
    }

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn the_default_list_holds_particles_and_courtesies_but_no_matters() {
        let lexicon = Lexicon::new(&TextSettings::default());
        assert!(["的", "我们", "谢谢", "尊敬", "the"].iter().all(|word| lexicon.fate(word) == WordTreatment::Dropped));
        assert!(["噪音", "小区", "工资", "拆迁", "noise"].iter().all(|word| lexicon.fate(word) == WordTreatment::Kept));
    }

    #[test]
    fn the_default_list_is_in_normal_form() {
        assert!(default_stop_words().all(|word| Normaliser::new(true).normalise(word) == word));
    }

    #[test]
    fn synonyms_become_the_first_of_their_group() {
        let lexicon = lexicon(&[], &[&["番茄", "西红柿", "杨柿子"], &["ＷＩＦＩ", "无线网", "西红柿"]]);
        assert_eq!(lexicon.fate("杨柿子"), WordTreatment::Replaced("番茄"));
        assert_eq!(lexicon.fate("西红柿"), WordTreatment::Replaced("番茄"));
        assert_eq!(lexicon.fate("番茄"), WordTreatment::Kept);
        assert_eq!(lexicon.fate("无线网"), WordTreatment::Replaced("wifi"));
    }

    #[test]
    fn a_word_whose_first_synonym_is_a_stop_word_is_left_out() {
        let lexicon = lexicon(&["番茄"], &[&["番茄", "西红柿"]]);
        assert_eq!(lexicon.fate("番茄"), WordTreatment::Dropped);
        assert_eq!(lexicon.fate("西红柿"), WordTreatment::Dropped);
    }

    #[test]
    fn a_stop_word_with_a_synonym_that_is_none_counts_as_that() {
        let lexicon = lexicon(&["柿子"], &[&["番茄", "柿子"]]);
        assert_eq!(lexicon.fate("柿子"), WordTreatment::Replaced("番茄"));
    }
}
