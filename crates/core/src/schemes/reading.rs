//! A document that is cut into words once for all schemes.
//!
//! The module has two views of a document. *Tokens* are the features of Simhash; the value of a `whole` field (with synonyms replaced) is
//! one token. *Words* are the distinct words of the `text` and `whole` fields, which all other word schemes count. Every occurrence of a
//! word counts 1; the weight of the field has no effect. Tokens, words and names are computed when the first scheme needs them.

use std::borrow::Cow;
use std::cell::OnceCell;

use crate::collection::Role;
use crate::text::objects::NamedObject;
use crate::text::words::{NameFinder, Words};
use crate::text::{Document, DocumentField};

use super::hash::city64;

/// An occurrence of a feature: a word of a `text` field, or the value of a `whole` field or a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeatureToken<'a> {
    /// The feature.
    pub term: &'a str,
    /// H(term), CityHash64.
    pub hash: u64,
    /// Length in characters.
    pub chars: u32,
    /// The weight of the field.
    pub factor: u16,
    /// True for the value of a `whole` field or a column.
    pub whole: bool,
}

/// A distinct word of the `text` and `whole` fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Word<'a> {
    /// H(term), CityHash64.
    pub hash: u64,
    /// The word.
    pub term: &'a str,
    /// Length in characters.
    pub chars: u32,
    /// F: the number of occurrences.
    pub count: u32,
}

/// A document with its tokens, in the order of the text.
#[derive(Clone, Debug)]
pub struct Reading<'a> {
    document: &'a Document,
    cutter: &'a Words,
    /// The weight of every field, in the order of the settings.
    weights: &'a [u16],
    tokens: OnceCell<Vec<FeatureToken<'a>>>,
    words: OnceCell<Vec<Word<'a>>>,
    names: OnceCell<Cow<'a, [NamedObject]>>,
}

impl<'a> Reading<'a> {
    /// Makes a reading of `document`, which is cut into words when they are first needed. `weights` contains the weight of every field, in the
    /// order of the settings.
    pub fn new(document: &'a Document, words: &'a Words, weights: &'a [u16]) -> Self {
        Self {
            document,
            cutter: words,
            weights,
            tokens: OnceCell::new(),
            words: OnceCell::new(),
            names: OnceCell::new(),
        }
    }

    /// Cuts `document` into words and finds its names in the same pass, see [`Reading::names`]. O(length).
    pub fn naming(document: &'a Document, words: &'a Words, weights: &'a [u16]) -> Self {
        let mut names = words.names();
        let reading = Self::new(document, words, weights);
        let _ = reading.tokens.set(reading.cut(Some(&mut names)));
        match names.finish(|| document.joined().into()) {
            Some(found) => reading.with_names(found),
            None => reading,
        }
    }

    /// Returns the reading with the names that an earlier reading of the same document found.
    #[must_use]
    pub fn with_names(self, names: impl Into<Cow<'a, [NamedObject]>>) -> Self {
        Self { names: OnceCell::from(names.into()), ..self }
    }

    fn cut(&self, mut names: Option<&mut NameFinder<'a>>) -> Vec<FeatureToken<'a>> {
        let document = self.document;
        // A word has about two characters of three bytes, and about a third of the words are stop words.
        let length: usize = document.fields.iter().map(|field| field.text.len()).sum();
        let mut tokens = Vec::with_capacity(length / 8 + 4);
        for field in document.fields.iter().chain(&document.columns) {
            let factor = self.weights.get(usize::from(field.position)).copied().unwrap_or(1);
            let mut add =
                |term, chars, whole| tokens.push(FeatureToken { term, hash: city64(term), chars, factor, whole });
            match (field.role, &mut names) {
                (Role::Text, Some(names)) => names.cut(&field.text, |term, chars| add(term, chars, false)),
                (Role::Text, None) => self.cutter.for_each(&field.text, |term, chars| add(term, chars, false)),
                (Role::Whole | Role::Identity | Role::Time, names) => {
                    if let Some(names) = names.as_mut().filter(|_| field.role == Role::Whole) {
                        names.pass_over(&field.text);
                    }
                    let term = field.merged.as_deref().unwrap_or(&field.text);
                    add(term, term.chars().count() as u32, true);
                }
                (Role::Url | Role::Ignore | Role::Category | Role::Status | Role::Unit | Role::Reply, _) => {}
            }
        }
        tokens
    }

    /// The document.
    pub fn document(&self) -> &'a Document {
        self.document
    }

    /// Returns the objects that the document names: [`Words::objects`] of [`Document::joined`]. Cuts the text again if the names were not found
    /// in the same pass as the words. O(length) then.
    pub fn names(&self) -> &[NamedObject] {
        self.names.get_or_init(|| self.cutter.objects(&self.document.joined()).into())
    }

    /// Returns the names, if they were found.
    pub fn into_found_names(self) -> Option<Vec<NamedObject>> {
        self.names.into_inner().map(Cow::into_owned)
    }

    /// All features with repetitions, in the order of the text. O(length) at the first call.
    pub fn tokens(&self) -> &[FeatureToken<'a>] {
        self.tokens.get_or_init(|| self.cut(None))
    }

    /// Returns the distinct words, sorted by H and then by their bytes. O(tokens × log tokens) at the first call.
    pub fn words(&self) -> &[Word<'a>] {
        self.words.get_or_init(|| {
            let tokens = self.tokens().iter().filter(|token| !token.whole);
            let mut words: Vec<Word<'a>> =
                tokens.map(|&FeatureToken { term, hash, chars, .. }| Word { hash, term, chars, count: 1 }).collect();
            let whole = self.document.fields.iter().filter(|field| field.role == Role::Whole);
            whole.for_each(|field| {
                self.cutter.for_each(&field.text, |term, chars| {
                    words.push(Word { hash: city64(term), term, chars, count: 1 });
                });
            });
            words.sort_unstable_by(|a, b| a.hash.cmp(&b.hash).then_with(|| a.term.cmp(b.term)));
            words.dedup_by(|word, kept| {
                let same = word.hash == kept.hash && word.term == kept.term;
                kept.count += if same { word.count } else { 0 };
                same
            });
            words
        })
    }

    /// Returns the distinct words in *heavy order*: by falling count, ties by their bytes. O(words × log words).
    pub fn heavy_words(&self) -> Vec<Word<'a>> {
        let mut words = self.words().to_vec();
        words.sort_unstable_by(|a, b| b.count.cmp(&a.count).then_with(|| a.term.cmp(b.term)));
        words
    }

    /// Returns the value of a field with synonyms replaced. O(length).
    pub fn merged(&self, field: &'a DocumentField) -> Cow<'a, str> {
        self.cutter.merged(&field.text).map_or(Cow::Borrowed(&field.text), Cow::Owned)
    }

    /// Returns the texts for schemes that do not use words: the `text` and `whole` fields in the order of the settings.
    pub fn input(&self) -> impl Iterator<Item = &'a str> {
        let fields = self.document.fields.iter().filter(|field| matches!(field.role, Role::Text | Role::Whole));
        fields.map(|field| field.text.as_str())
    }

    /// Returns the `text` fields in the order of the settings.
    pub fn texts(&self) -> impl Iterator<Item = &'a str> {
        let fields = self.document.fields.iter().filter(|field| field.role == Role::Text);
        fields.map(|field| field.text.as_str())
    }

    /// Returns the number of distinct features. Features are distinguished by H. O(tokens).
    pub fn distinct(&self) -> u32 {
        // A hash table with open addressing, at most half full. The hashes are random already, so that they are used as they are.
        let tokens = self.tokens();
        let size = (tokens.len() * 2).next_power_of_two().max(16);
        let mut table = vec![0_u64; size];
        let mut count = 0;
        let mut zero = false;
        for &FeatureToken { hash, .. } in tokens {
            if hash == 0 {
                zero = true;
                continue;
            }
            let mut at = hash as usize & (size - 1);
            while table[at] != 0 && table[at] != hash {
                at = (at + 1) & (size - 1);
            }
            if table[at] == 0 {
                table[at] = hash;
                count += 1;
            }
        }
        count + u32::from(zero)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::{SegmenterKind, TextSettings};

    fn field(position: u8, role: Role, text: &str) -> DocumentField {
        DocumentField { position, role, text: text.into(), removed: None, merged: None, line_ends: Vec::new() }
    }

    #[test]
    fn words_and_whole_values_are_features_and_addresses_are_not() {
        let fields = vec![
            field(0, Role::Whole, "夜市噪音"),
            field(1, Role::Text, "噪音和噪音,夜市"),
            field(2, Role::Url, "http://a.cn"),
        ];
        let document = Document { fields, ..Document::default() };
        let words = Words::new(&TextSettings::default());
        let reading = Reading::new(&document, &words, &[2, 3, 1]);
        let found: Vec<_> = reading.tokens().iter().map(|t| (t.term, t.chars, t.factor, t.whole)).collect();
        let expected = [("夜市噪音", 4, 2, true), ("噪音", 2, 3, false), ("噪音", 2, 3, false), ("夜市", 2, 3, false)];
        assert_eq!(found, expected);
        assert_eq!(reading.distinct(), 3);
        let words = reading.heavy_words();
        let words: Vec<_> = words.iter().map(|word| (word.term, word.chars, word.count)).collect();
        assert_eq!(words, [("噪音", 2, 3), ("夜市", 2, 2)], "whole values are cut, and weights do not count");
        assert!(reading.words().is_sorted_by_key(|word| word.hash));
    }

    #[test]
    fn names_found_while_cutting_equal_those_of_the_joined_text() {
        let short = ["反映雁坪路", "柳塘区鹤鸣小区停水,电话联通", "路的路灯不亮,工单号20240561123", "300元"];
        let long = "白石县松岗路的云帆建材有限公司。".repeat(600);
        let plain = TextSettings::default();
        let all = [
            (true, plain.clone()),
            (true, TextSettings { user_words: vec!["鹤鸣小区停水".into()], ..plain.clone() }),
            (false, TextSettings { hmm: true, ..plain.clone() }),
            (false, TextSettings { segmenter: SegmenterKind::Chars2, ..plain }),
        ];
        for (cut_alike, words) in all.iter().map(|(alike, settings)| (*alike, Words::new(settings))) {
            for (texts, known) in [(short, cut_alike), ([&long; 4], false)] {
                for roles in [[Role::Text; 4], [Role::Text, Role::Whole, Role::Text, Role::Url]] {
                    let fields: Vec<_> = texts.iter().zip(roles).map(|(text, role)| field(0, role, text)).collect();
                    let columns = vec![field(1, Role::Identity, "桥头镇李某")];
                    let document = Document { fields, columns, ..Document::default() };
                    let objects = words.objects(&document.joined());
                    let reading = Reading::naming(&document, &words, &[1]);
                    assert_eq!(reading.tokens(), Reading::new(&document, &words, &[1]).tokens());
                    assert_eq!(reading.clone().into_found_names(), known.then(|| objects.clone()));
                    assert_eq!(reading.names(), objects);
                }
            }
        }
    }
}
