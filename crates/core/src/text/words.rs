//! The words of a text: segmenter tokens that hold a letter, a digit or a Han character, synonyms replaced, stop words
//! left out.

use std::borrow::Cow;

use jieba_rs::Tag;

use super::lexicon::{Fate, Lexicon};
use super::normalise::Normaliser;
use super::objects::{Found, MAX_TEXT_BYTES, NamedObject, objects};
use super::segment::{Segmenter, is_word};
use crate::collection::TextSettings;

/// Longest value in bytes whose synonyms are replaced: a replacement may be many times as long as the word.
const LONGEST_VALUE: usize = 4096;

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

    /// What a normalised text names, and `word` called for its words as by [`Words::for_each`]. The text is cut once where names and words
    /// are cut alike. O(length).
    pub fn read<'a>(&'a self, text: &'a str, word: impl FnMut(&'a str, u32)) -> Vec<NamedObject> {
        let mut names = self.names();
        names.cut(text, word);
        names.finish(|| text.into()).unwrap_or_else(|| self.objects(text))
    }

    /// Ready to find what the parts of a text name while they are cut.
    pub fn names(&self) -> NameFinder<'_> {
        NameFinder { words: self, found: Some(Found::default()), bytes: 0 }
    }

    /// Calls `word` for every word of a normalised text in order, with its length in characters. O(length).
    pub fn for_each<'a>(&'a self, text: &'a str, mut word: impl FnMut(&'a str, u32)) {
        self.segmenter.for_each_word(text, |token, chars| self.pass(token, chars, &mut word));
    }

    fn pass<'a>(&'a self, token: &'a str, chars: u32, word: &mut impl FnMut(&'a str, u32)) {
        match self.lexicon.fate(token) {
            Fate::Kept => word(token, chars),
            Fate::Dropped => {}
            Fate::Replaced(first) => word(first, first.chars().count() as u32),
        }
    }

    /// A normalised value with every word that has a synonym replaced by the first of its group and all else as it stands, stop
    /// words too; `None` where nothing is replaced, and of a text longer than [`LONGEST_VALUE`], which is no short value. O(length).
    pub fn merged(&self, text: &str) -> Option<String> {
        if !self.lexicon.replaces() || text.len() > LONGEST_VALUE {
            return None;
        }
        let (mut merged, mut end) = (String::new(), 0);
        self.segmenter.for_each_word(text, |token, _| {
            let start = token.as_ptr() as usize - text.as_ptr() as usize;
            // Runs of characters overlap.
            if start >= end
                && let Fate::Replaced(first) = self.lexicon.fate(token)
            {
                merged.push_str(&text[end..start]);
                merged.push_str(first);
                end = start + token.len();
            }
        });
        (end > 0).then(|| merged + &text[end..])
    }
}

/// Finds what the parts of one text name, while they are cut into words. No part may end within a word.
#[derive(Debug)]
pub struct NameFinder<'w> {
    words: &'w Words,
    /// `None` where words are not cut as names are, or the text is long.
    found: Option<Found>,
    /// Bytes of the parts so far.
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

    /// Takes a part of which no words are wanted. O(length).
    pub fn pass_over(&mut self, part: &'w str) {
        self.tagged(part);
    }

    /// The part cut as names are, which are taken from it; `None` from the first part on that cannot be.
    fn tagged(&mut self, part: &'w str) -> Option<Vec<Tag<'w>>> {
        self.bytes += part.len();
        let tags = self.found.as_ref().and_then(|_| self.words.segmenter.tagged(part));
        match (&mut self.found, &tags) {
            (Some(found), Some(tags)) if self.bytes <= MAX_TEXT_BYTES => found.read(part, tags),
            _ => self.found = None,
        }
        tags
    }

    /// Everything that `text` names, as [`Words::objects`] says it, where the parts are all of it but for white space; `None` where that
    /// would cut it again. O(length).
    pub fn finish<'t>(self, text: impl FnOnce() -> Cow<'t, str>) -> Option<Vec<NamedObject>> {
        let text = self.found.as_ref().map(|_| text()).filter(|text| text.len() <= MAX_TEXT_BYTES)?;
        self.found.map(|found| found.finish(&text))
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
                let (mut read, mut alone) = (Vec::new(), Vec::new());
                let named = words.read(text, |word, chars| read.push((word, chars)));
                words.for_each(text, |word, chars| alone.push((word, chars)));
                assert!(read == alone && named == words.objects(text), "{settings:?}");
            }
        }
    }

    #[test]
    fn a_value_with_synonyms_is_that_of_the_first_of_each_group_and_keeps_all_else() {
        let synonyms = vec![vec!["番茄".into(), "西红柿".into()], vec!["价格".into(), "价钱".into()]];
        let merged = |segmenter, text: &str| {
            Words::new(&TextSettings { synonyms: synonyms.clone(), segmenter, ..TextSettings::default() }).merged(text)
        };
        let jieba = SegmenterKind::Jieba;
        assert_eq!(merged(jieba, "西红柿价格").as_deref(), Some("番茄价格"));
        assert_eq!(merged(jieba, "我的西红柿,西红柿的价钱!").as_deref(), Some("我的番茄,番茄的价格!"));
        assert_eq!(merged(jieba, "番茄价格"), None);
        assert_eq!(merged(SegmenterKind::Chars2, "价钱价钱低").as_deref(), Some("价格价格低"));
        assert_eq!(Words::new(&TextSettings::default()).merged("西红柿价钱"), None);
        assert_eq!(merged(jieba, &"西红柿".repeat(LONGEST_VALUE / 9 + 1)), None, "that is no short value");
    }
}
