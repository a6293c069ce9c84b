//! The words of a text: segmenter tokens that hold a letter, a digit or a Han character, synonyms replaced, stop words
//! left out.

use super::lexicon::{Fate, Lexicon};
use super::normalise::Normaliser;
use super::objects::{NamedObject, objects};
use super::segment::Segmenter;
use crate::collection::TextSettings;

/// Cuts texts into words as settings say.
#[derive(Clone, Debug)]
pub struct Words {
    segmenter: Segmenter,
    lexicon: Lexicon,
}

impl Words {
    /// What `settings` describe. Costly with user words or synonyms (a copy of the dictionary): make one per collection.
    pub fn new(settings: &TextSettings) -> Self {
        let normaliser = Normaliser::new(settings.simplify);
        Self { segmenter: Segmenter::new(settings, normaliser), lexicon: Lexicon::new(settings, normaliser) }
    }

    /// What a normalised text names, see [`objects`](super::objects). O(length).
    pub fn objects(&self, text: &str) -> Vec<NamedObject> {
        objects(self.segmenter.dictionary(), text)
    }

    /// Calls `word` for every word of a normalised text in order, with its length in characters. O(length).
    pub fn for_each<'a>(&'a self, text: &'a str, mut word: impl FnMut(&'a str, u32)) {
        self.segmenter.for_each_word(text, |token, chars| match self.lexicon.fate(token) {
            Fate::Kept => word(token, chars),
            Fate::Dropped => {}
            Fate::Replaced(first) => word(first, first.chars().count() as u32),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_left_out_and_synonyms_merged() {
        let settings = TextSettings {
            synonyms: vec![vec!["番茄".into(), "西红柿".into(), "杨柿子".into()]],
            ..TextSettings::default()
        };
        let words = Words::new(&settings);
        let mut found = Vec::new();
        words.for_each("尊敬的领导,我们的西红柿和杨柿子卖不出去。", |word, chars| {
            found.push((word, chars));
        });
        assert_eq!(found, [("番茄", 2), ("番茄", 2), ("卖不出去", 4)]);
    }
}
