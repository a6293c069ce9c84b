//! Cuts normalised text into words.
//!
//! There are three methods: words of a dictionary (jieba), or sequences of two or three characters. A token counts as a
//! word if it contains a letter, a digit or a Han character. The time is O(length) for every text: a text longer than
//! [`PIECE_BYTES`] is cut into pieces first, if possible at a character that no word contains. So the memory of the
//! segmenter is also bounded.

use std::sync::{Arc, LazyLock};

use jieba_rs::{Jieba, Tag};

use super::lexicon::dictionary_words;
use super::normalise::Normaliser;
use super::units::is_word_char;
use crate::collection::{SegmenterKind, TextSettings};

/// The identity of the dictionary segmenter: the package, its version and the start of the SHA-256 of its archive,
/// which contains the dictionary. It is part of every profile's digest.
pub const DICTIONARY: &str = "jieba-rs 0.11.0 0a3a7d02ea31e6fc";

/// Maximum length of a piece of text that the dictionary segmenter reads at once, in bytes: some twenty thousand
/// characters.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// The dictionary without user words (some 25 MB). All collections that add no words share it.
static SHARED: LazyLock<Jieba> = LazyLock::new(Jieba::new);

/// Cuts text into words. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Segmenter(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// `own` is `None` for the shared dictionary.
    Jieba {
        own: Option<Arc<Jieba>>,
        hmm: bool,
    },
    Characters {
        run: usize,
    },
}

impl Segmenter {
    /// Creates the segmenter that `settings` describe. The first segmenter that needs the dictionary loads it (some 0.1
    /// s). A segmenter with words that the dictionary lacks copies it.
    pub fn new(settings: &TextSettings, normaliser: Normaliser) -> Self {
        Self(match settings.segmenter {
            SegmenterKind::Chars2 => Kind::Characters { run: 2 },
            SegmenterKind::Chars3 => Kind::Characters { run: 3 },
            SegmenterKind::Jieba => {
                let words = dictionary_words(settings, normaliser);
                let own = (!words.is_empty()).then(|| {
                    let mut jieba = SHARED.clone();
                    for word in &words {
                        // Without given values, the word gets a frequency that is preferred to its parts.
                        jieba.add_word(word, None, None);
                    }
                    Arc::new(jieba)
                });
                if own.is_none() {
                    LazyLock::force(&SHARED);
                }
                Kind::Jieba { own, hmm: settings.hmm }
            }
        })
    }

    /// Returns the dictionary with its word classes: the segmenter's own dictionary, or the shared one if the segmenter
    /// cuts by characters or adds no words.
    pub fn dictionary(&self) -> &Jieba {
        match &self.0 {
            Kind::Jieba { own: Some(own), .. } => own,
            _ => &SHARED,
        }
    }

    /// Returns all tokens of `text` with their word classes, if words are cut in the same way as for
    /// [`objects`](super::objects). `None` if they are not, or if the text is longer than one piece.
    pub(super) fn tagged<'a>(&'a self, text: &'a str) -> Option<Vec<Tag<'a>>> {
        match &self.0 {
            Kind::Jieba { hmm: false, .. } if text.len() <= PIECE_BYTES => Some(self.dictionary().tag(text, false)),
            _ => None,
        }
    }

    /// Calls `word` for every word of `text` in order, with the word's length in characters.
    pub fn for_each_word<'a>(&self, text: &'a str, mut word: impl FnMut(&'a str, u32)) {
        match &self.0 {
            Kind::Characters { run } => character_runs(text, *run, word),
            Kind::Jieba { own, hmm } => {
                let jieba = own.as_deref().unwrap_or(&SHARED);
                for piece in pieces(text) {
                    for token in jieba.cut(piece, *hmm) {
                        if is_word(token.word) {
                            word(token.word, (token.end - token.start) as u32);
                        }
                    }
                }
            }
        }
    }
}

/// True if a token is a word.
pub(super) fn is_word(token: &str) -> bool {
    token.chars().any(is_word_char)
}

/// Passes on every window of `run` characters within each maximal sequence of word characters. A shorter sequence is
/// one word.
fn character_runs<'a>(text: &'a str, run: usize, mut word: impl FnMut(&'a str, u32)) {
    let mut starts = Vec::new();
    for part in text.split(|c| !is_word_char(c)).filter(|part| !part.is_empty()) {
        starts.clear();
        starts.extend(part.char_indices().map(|(at, _)| at));
        let count = starts.len();
        if count <= run {
            word(part, count as u32);
            continue;
        }
        starts.push(part.len());
        for window in starts.windows(run + 1) {
            word(&part[window[0]..window[run]], run as u32);
        }
    }
}

/// Returns `text` in pieces of at most [`PIECE_BYTES`]. If possible, a piece ends after the last character in reach
/// that is in no word.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = rest.len();
        if end > PIECE_BYTES {
            end = rest.floor_char_boundary(PIECE_BYTES);
            end = rest[..end].rfind(ends_words).map_or(end, |at| rest.ceil_char_boundary(at + 1));
        }
        let (piece, after) = rest.split_at(end);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// True for characters that are always separate tokens of the dictionary segmenter: white space, and punctuation except
/// the few signs that it allows within words.
fn ends_words(c: char) -> bool {
    !is_word_char(c) && !matches!(c, '+' | '#' | '&' | '.' | '_' | '%' | '-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(settings: &TextSettings, text: &str) -> Vec<(String, u32)> {
        let mut found = Vec::new();
        let segmenter = Segmenter::new(settings, Normaliser::new(true));
        segmenter.for_each_word(text, |word, chars| found.push((word.to_owned(), chars)));
        found
    }

    fn check(settings: &TextSettings, text: &str, expected: &str) {
        let found: Vec<_> = words(settings, text).into_iter().map(|(word, _)| word).collect();
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn the_dictionary_named_in_profiles_is_the_one_linked() {
        let lock = include_str!("../../../../Cargo.lock");
        let entry = lock.split("[[package]]").find(|entry| entry.contains("name = \"jieba-rs\"")).unwrap();
        let mut parts = DICTIONARY.split(' ').skip(1);
        assert!(entry.contains(&format!("version = \"{}\"", parts.next().unwrap())));
        assert!(entry.contains(&format!("checksum = \"{}", parts.next().unwrap())));
    }

    #[test]
    fn text_is_cut_by_the_dictionary_and_punctuation_is_no_word() {
        let settings = TextSettings::default();
        check(
            &settings,
            "小区楼下的夜市噪音扰民,a市b3区 noise 2019年。",
            "小区 楼下 的 夜市 噪音 扰民 a 市 b3 区 noise 2019 年",
        );
    }

    #[test]
    fn user_words_and_synonyms_are_not_cut_apart() {
        let text = "幸福里七期的杨柿子";
        check(&TextSettings::default(), text, "幸福 里 七期 的 杨 柿子");
        let settings = TextSettings {
            user_words: vec!["幸福里七期".into()],
            synonyms: vec![vec!["番茄".into(), "楊柿子".into()]],
            ..TextSettings::default()
        };
        check(&settings, text, "幸福里七期 的 杨柿子");
    }

    #[test]
    fn character_runs_slide_within_letters_digits_and_han() {
        let [pairs, triples] = [SegmenterKind::Chars2, SegmenterKind::Chars3]
            .map(|segmenter| TextSettings { segmenter, ..TextSettings::default() });
        check(&pairs, "噪音扰民,a市 水", "噪音 音扰 扰民 a市 水");
        check(&triples, "噪音扰民,a市 水", "噪音扰 音扰民 a市 水");
        check(&triples, "。 ,", "");
    }

    #[test]
    fn long_texts_are_cut_into_pieces_without_losing_anything_or_changing_words() {
        let sentence = "小区楼下的夜市噪音扰民,请管一管.谢谢。";
        let text = sentence.repeat(3 * PIECE_BYTES / sentence.len());
        assert!(pieces(&text).all(|piece| piece.len() <= PIECE_BYTES));
        assert_eq!(pieces(&text).collect::<String>(), text);
        let whole: Vec<_> =
            SHARED.cut(&text, false).into_iter().map(|t| t.word).filter(|w| w.chars().any(is_word_char)).collect();
        let ours: Vec<_> = words(&TextSettings::default(), &text).into_iter().map(|(word, _)| word).collect();
        assert_eq!(ours, whole);
    }

    #[test]
    fn a_run_without_any_punctuation_is_cut_too() {
        for c in ["水", "a", "1", "𠀀"] {
            let text = c.repeat(200_000);
            for hmm in [false, true] {
                let settings = TextSettings { hmm, ..TextSettings::default() };
                let total: u32 = words(&settings, &text).iter().map(|(_, chars)| chars).sum();
                assert_eq!(total, 200_000);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn words_come_in_order_and_keep_every_letter_and_digit(text in "[的噪音扰民小区楼ab1., 。-]{0,40}", hmm: bool) {
            let settings = TextSettings { hmm, ..TextSettings::default() };
            let found = words(&settings, &text);
            prop_assert!(found.iter().all(|(word, chars)| word.chars().count() == *chars as usize));
            let joined: String = found.into_iter().map(|(word, _)| word).collect();
            let [joined, kept] = [joined, text].map(|text| text.chars().filter(|&c| is_word_char(c)).collect::<String>());
            prop_assert_eq!(joined, kept);
        }
    }
}
