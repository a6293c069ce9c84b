//! A document cut into words, once for all schemes.

use crate::collection::Role;
use crate::text::Document;
use crate::text::words::Words;

use super::hash::city64;

/// One occurrence of a feature: a word of a `text` field, or the value of a `whole` field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Token<'a> {
    /// The feature.
    pub term: &'a str,
    /// H(term), CityHash64.
    pub hash: u64,
    /// Its length in characters.
    pub chars: u32,
    /// The field's weight.
    pub factor: u16,
    /// Whether it is the value of a `whole` field.
    pub whole: bool,
}

/// A document and its tokens in text order.
#[derive(Clone, Debug)]
pub struct Reading<'a> {
    document: &'a Document,
    tokens: Vec<Token<'a>>,
}

impl<'a> Reading<'a> {
    /// Cuts `document`; `weights` holds the weight of every field in settings order. O(length).
    pub fn new(document: &'a Document, words: &'a Words, weights: &[u16]) -> Self {
        // Words have about two characters of three bytes, a third of them are stop words.
        let length: usize = document.fields.iter().map(|field| field.text.len()).sum();
        let mut tokens = Vec::with_capacity(length / 8 + 4);
        for field in &document.fields {
            let factor = weights.get(usize::from(field.position)).copied().unwrap_or(1);
            match field.role {
                Role::Text => words.for_each(&field.text, |term, chars| {
                    tokens.push(Token { term, hash: city64(term), chars, factor, whole: false });
                }),
                Role::Whole => {
                    let (term, chars) = (field.text.as_str(), field.text.chars().count() as u32);
                    tokens.push(Token { term, hash: city64(term), chars, factor, whole: true });
                }
                Role::Identity | Role::Time | Role::Url | Role::Ignore => {}
            }
        }
        Self { document, tokens }
    }

    /// What was cut.
    pub fn document(&self) -> &'a Document {
        self.document
    }

    /// All features, with repetitions, in text order.
    pub fn tokens(&self) -> &[Token<'a>] {
        &self.tokens
    }

    /// Number of distinct features, told apart by H. O(tokens).
    pub fn distinct(&self) -> u32 {
        // Open addressing over the hashes themselves, which are random already; at most half full.
        let size = (self.tokens.len() * 2).next_power_of_two().max(16);
        let mut table = vec![0_u64; size];
        let (mut count, mut zero) = (0, false);
        for &Token { hash, .. } in &self.tokens {
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
    use crate::collection::TextSettings;
    use crate::text::DocumentField;

    #[test]
    fn words_and_whole_values_are_features_and_addresses_are_not() {
        let field = |position, role, text: &str| DocumentField { position, role, text: text.into() };
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
    }
}
