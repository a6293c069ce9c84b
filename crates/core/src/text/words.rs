//! The words of a text: the tokens of the segmenter that contain a letter, a digit or a Han character, with replaced
//! synonyms and without stop words.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use jieba_rs::Tag;

use super::lexicon::{Lexicon, WordTreatment};
use super::normalise::Normaliser;
use super::objects::{Found, MAX_TEXT_BYTES, NamedObject, fact_spans, objects};
use super::segment::{Segmenter, is_word};
use crate::collection::TextSettings;
use crate::facts::FactReader;

/// Maximum length of a value whose synonyms are replaced, in bytes: a replacement may be many times as long as the
/// word.
const LONGEST_VALUE: usize = 4096;

/// Cuts texts into words by the settings.
#[derive(Clone, Debug)]
pub struct Words {
    segmenter: Segmenter,
    lexicon: Arc<Lexicon>,
    /// Finds names, with the places that the office knows.
    facts: Arc<FactReader>,
}

impl Words {
    /// Creates the words for `settings`. With user words or synonyms this copies the dictionary, which is costly: each
    /// collection needs only one.
    pub fn new(settings: &TextSettings) -> Self {
        let normaliser = Normaliser::new(settings.simplify);
        let facts = Arc::new(FactReader::new(&settings.places, normaliser));
        Self { segmenter: Segmenter::new(settings, normaliser), lexicon: Lexicon::of(settings), facts }
    }

    /// Returns the objects that a normalised text names, see [`objects`](super::objects). O(length).
    pub fn objects(&self, text: &str) -> Vec<NamedObject> {
        objects(self.segmenter.dictionary(), &self.facts, text)
    }

    /// Returns the spans of the facts that a normalised text names, in characters. O(length).
    pub fn fact_spans(&self, text: &str) -> Vec<Range<usize>> {
        fact_spans(self.segmenter.dictionary(), &self.facts, text)
    }

    /// Returns the objects that a normalised text names, and calls `word` for its words as [`Words::for_each`] does.
    /// The text is cut only once if names and words are cut in the same way. O(length).
    pub fn read<'a>(&'a self, text: &'a str, word: impl FnMut(&'a str, u32)) -> Vec<NamedObject> {
        let mut names = self.names();
        names.cut(text, word);
        names.finish(|| text.into()).unwrap_or_else(|| self.objects(text))
    }

    /// Creates a finder of the objects that the parts of a text name, for use while the parts are cut.
    pub fn names(&self) -> NameFinder<'_> {
        NameFinder { words: self, found: Some(Found::default()), bytes: 0 }
    }

    /// Calls `word` for every word of a normalised text in order, with the word's length in characters. O(length).
    pub fn for_each<'a>(&'a self, text: &'a str, mut word: impl FnMut(&'a str, u32)) {
        self.segmenter.for_each_word(text, |token, chars| self.pass(token, chars, &mut word));
    }

    fn pass<'a>(&'a self, token: &'a str, chars: u32, word: &mut impl FnMut(&'a str, u32)) {
        match self.lexicon.fate(token) {
            WordTreatment::Kept => word(token, chars),
            WordTreatment::Dropped => {}
            WordTreatment::Replaced(first) => word(first, first.chars().count() as u32),
        }
    }

    /// Returns a normalised value in which every word with a synonym is replaced by the first word of its group.
    /// Everything else stays, including stop words. `None` if nothing is replaced, or if the text is longer than
    /// [`LONGEST_VALUE`] and thus no short value. O(length).
    pub fn merged(&self, text: &str) -> Option<String> {
        if !self.lexicon.replaces() || text.len() > LONGEST_VALUE {
            return None;
        }
        let mut merged = String::new();
        let mut end = 0;
        self.segmenter.for_each_word(text, |token, _| {
            let start = token.as_ptr() as usize - text.as_ptr() as usize;
            // Sequences of characters overlap.
            if start >= end
                && let WordTreatment::Replaced(first) = self.lexicon.fate(token)
            {
                merged.push_str(&text[end..start]);
                merged.push_str(first);
                end = start + token.len();
            }
        });
        (end > 0).then(|| merged + &text[end..])
    }
}

/// Finds the objects that the parts of a text name, while the parts are cut into words. No part may end within a word.
#[derive(Debug)]
pub struct NameFinder<'w> {
    words: &'w Words,
    /// `None` if words are not cut in the same way as names, or if the text is long.
    found: Option<Found<'w>>,
    /// Number of bytes of the parts so far.
    bytes: usize,
}

impl<'w> NameFinder<'w> {
    /// Cuts the next part, and calls `word` for its words as [`Words::for_each`] does. O(length).
    pub fn cut(&mut self, part: &'w str, mut word: impl FnMut(&'w str, u32)) {
        let Some(tags) = self.tagged(part) else { return self.words.for_each(part, word) };
        for tag in tags.iter().filter(|tag| is_word(tag.word)) {
            self.words.pass(tag.word, (tag.end - tag.start) as u32, &mut word);
        }
    }

    /// Takes a part whose words are not needed. O(length).
    pub fn pass_over(&mut self, part: &'w str) {
        self.tagged(part);
    }

    /// Returns the tokens of the part, if it is cut in the same way as names, and takes the names from them. `None` for
    /// the first part for which this is impossible and for all parts after it.
    fn tagged(&mut self, part: &'w str) -> Option<Vec<Tag<'w>>> {
        self.bytes += part.len();
        let tags = self.found.as_ref().and_then(|_| self.words.segmenter.tagged(part));
        match (&mut self.found, &tags) {
            (Some(found), Some(tags)) if self.bytes <= MAX_TEXT_BYTES => found.read(tags),
            _ => self.found = None,
        }
        tags
    }

    /// Returns all objects that `text` names, as [`Words::objects`] does. The parts must be the whole text except white
    /// space. `None` if the text would have to be cut again. O(length).
    pub fn finish<'t>(self, text: impl FnOnce() -> Cow<'t, str>) -> Option<Vec<NamedObject>> {
        let text = self.found.as_ref().map(|_| text()).filter(|text| text.len() <= MAX_TEXT_BYTES)?;
        self.found.map(|found| found.finish(&self.words.facts, &text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::SegmenterKind;

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

    #[test]
    fn words_and_names_read_at_once_are_those_read_by_themselves() {
        let text = "柳塘区雁坪路的路灯不亮,砚溪河边的西红柿,车牌粤b·7k3m9,3号楼。";
        let long = text.repeat((64 << 10) / text.len() + 2);
        let plain = TextSettings::default();
        let synonyms = vec![vec!["番茄".into(), "西红柿".into()]];
        let all = [
            TextSettings { synonyms, ..plain.clone() },
            TextSettings { hmm: true, ..plain.clone() },
            TextSettings { segmenter: SegmenterKind::Chars2, ..plain.clone() },
            plain,
        ];
        for settings in all {
            let words = Words::new(&settings);
            for text in [text, &long, ""] {
                let mut read = Vec::new();
                let mut alone = Vec::new();
                let named = words.read(text, |word, chars| read.push((word, chars)));
                words.for_each(text, |word, chars| alone.push((word, chars)));
                assert!(read == alone && named == words.objects(text), "{settings:?}");
            }
        }
    }

    #[test]
    fn a_value_with_synonyms_is_that_of_the_first_of_each_group_and_keeps_all_else() {
        let jieba = SegmenterKind::Jieba;
        assert_eq!(merged(jieba, "西红柿价格").as_deref(), Some("番茄价格"));
        assert_eq!(merged(jieba, "我的西红柿,西红柿的价钱!").as_deref(), Some("我的番茄,番茄的价格!"));
        assert_eq!(merged(jieba, "番茄价格"), None);
        assert_eq!(merged(SegmenterKind::Chars2, "价钱价钱低").as_deref(), Some("价格价格低"));
        assert_eq!(Words::new(&TextSettings::default()).merged("西红柿价钱"), None);
        assert_eq!(merged(jieba, &"西红柿".repeat(LONGEST_VALUE / 9 + 1)), None, "that is no short value");
    }

    fn merged(segmenter: SegmenterKind, text: &str) -> Option<String> {
        let synonyms = vec![vec!["番茄".into(), "西红柿".into()], vec!["价格".into(), "价钱".into()]];
        Words::new(&TextSettings { synonyms, segmenter, ..TextSettings::default() }).merged(text)
    }
}
