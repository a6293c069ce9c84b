//! The tokenizers by which tantivy reads the terms of a [`RowExtract`](crate::extract::RowExtract).

use tantivy::tokenizer::{TextAnalyzer, Token, TokenStream, Tokenizer, TokenizerManager};

use crate::extract::{SEPARATOR, for_each_pair};

/// The name of [`WordTokenizer`] in a schema.
pub(crate) const WORDS: &str = "doppel_words";
/// The name of [`PairTokenizer`] in a schema.
pub(crate) const PAIRS: &str = "doppel_pairs";

/// Registers the tokenizers with an index.
pub(crate) fn register(tokenizers: &TokenizerManager) {
    tokenizers.register(WORDS, TextAnalyzer::from(WordTokenizer));
    tokenizers.register(PAIRS, TextAnalyzer::from(PairTokenizer::default()));
}

/// Splits a list of words at the separator.
#[derive(Clone)]
struct WordTokenizer;

/// Splits a normalised text into the terms of [`for_each_pair`].
#[derive(Clone, Default)]
struct PairTokenizer {
    /// The terms of the current text. The vector is used again for the next text.
    terms: Vec<PairTerm>,
}

/// A term: the offsets of its text in bytes, and its position.
#[derive(Clone)]
struct PairTerm {
    start: u32,
    end: u32,
    position: u32,
}

struct WordStream<'a> {
    words: std::str::Split<'a, char>,
    token: Token,
}

struct PairStream<'a> {
    text: &'a str,
    terms: std::slice::Iter<'a, PairTerm>,
    token: Token,
}

impl Tokenizer for WordTokenizer {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        WordStream { words: text.split(SEPARATOR), token: Token::default() }
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        let Some(word) = self.words.find(|word| !word.is_empty()) else { return false };
        self.token.text.clear();
        self.token.text.push_str(word);
        self.token.position = self.token.position.wrapping_add(1);
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

impl Tokenizer for PairTokenizer {
    type TokenStream<'a> = PairStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> PairStream<'a> {
        self.terms.clear();
        let begin = text.as_ptr() as usize;
        for_each_pair(text, |term, position| {
            let start = term.as_ptr() as usize - begin;
            let end = start + term.len();
            // The casts are safe: the extractor cuts texts long before 4 GiB.
            self.terms.push(PairTerm { start: start as u32, end: end as u32, position: position as u32 });
        });
        PairStream { text, terms: self.terms.iter(), token: Token::default() }
    }
}

impl TokenStream for PairStream<'_> {
    fn advance(&mut self) -> bool {
        let Some(term) = self.terms.next() else { return false };
        self.token.text.clear();
        self.token.text.push_str(&self.text[term.start as usize..term.end as usize]);
        self.token.position = term.position as usize;
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_the_terms_of_the_text_with_their_positions() {
        let mut pairs = TextAnalyzer::from(PairTokenizer::default());
        let expected = [("3", 0), ("号", 1), ("号楼", 1), ("楼", 2), ("led", 4)];
        assert_eq!(tokens(&mut pairs, "3号楼 led"), expected.map(|(term, position)| (term.to_owned(), position)));
        let expected = [("路灯", 0), ("灯", 1)];
        let second = tokens(&mut pairs, "路灯");
        assert_eq!(second, expected.map(|(term, position)| (term.to_owned(), position)), "no term of the first text");
        let mut words = TextAnalyzer::from(WordTokenizer);
        let terms: Vec<_> = tokens(&mut words, "路灯\u{1F}不亮").into_iter().map(|(term, _)| term).collect();
        assert_eq!(terms, ["路灯", "不亮"]);
        assert_eq!(tokens(&mut words, ""), []);
    }

    fn tokens(analyzer: &mut TextAnalyzer, text: &str) -> Vec<(String, usize)> {
        let mut found = Vec::new();
        analyzer.token_stream(text).process(&mut |token| found.push((token.text.clone(), token.position)));
        found
    }
}
