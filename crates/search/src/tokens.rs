//! How the library takes terms out of what [`Extract`](crate::extract::Extract) holds.

use tantivy::tokenizer::{TextAnalyzer, Token, TokenStream, Tokenizer, TokenizerManager};

use crate::extract::{SEPARATOR, for_each_pair};

/// The name of [`Words`] in a schema.
pub(crate) const WORDS: &str = "doppel_words";
/// The name of [`Pairs`] in a schema.
pub(crate) const PAIRS: &str = "doppel_pairs";

/// Makes the tokenizers known to an index.
pub(crate) fn register(tokenizers: &TokenizerManager) {
    tokenizers.register(WORDS, TextAnalyzer::from(Words));
    tokenizers.register(PAIRS, TextAnalyzer::from(Pairs::default()));
}

/// Words that are joined by a separator.
#[derive(Clone)]
struct Words;

/// What finds runs of characters in a normalised text: see [`for_each_pair`].
#[derive(Clone, Default)]
struct Pairs {
    /// Start, end and place of each term; kept to be filled again.
    terms: Vec<(u32, u32, u32)>,
}

struct WordStream<'a> {
    words: std::str::Split<'a, char>,
    token: Token,
}

struct PairStream<'a> {
    text: &'a str,
    terms: std::slice::Iter<'a, (u32, u32, u32)>,
    token: Token,
}

impl Tokenizer for Words {
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

impl Tokenizer for Pairs {
    type TokenStream<'a> = PairStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> PairStream<'a> {
        self.terms.clear();
        let begin = text.as_ptr() as usize;
        // Texts are cut long before 4 GiB.
        for_each_pair(text, |term, position| {
            let start = term.as_ptr() as usize - begin;
            self.terms.push((start as u32, (start + term.len()) as u32, position as u32));
        });
        PairStream { text, terms: self.terms.iter(), token: Token::default() }
    }
}

impl TokenStream for PairStream<'_> {
    fn advance(&mut self) -> bool {
        let Some((start, end, position)) = self.terms.next() else { return false };
        self.token.text.clear();
        self.token.text.push_str(&self.text[*start as usize..*end as usize]);
        self.token.position = *position as usize;
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
    fn terms_are_those_of_the_text_at_their_places() {
        let taken = |tokenizer: &mut TextAnalyzer, text: &str| {
            let mut found = Vec::new();
            tokenizer.token_stream(text).process(&mut |token| found.push((token.text.clone(), token.position)));
            found
        };
        let own =
            |terms: &[(&str, usize)]| terms.iter().map(|(term, at)| ((*term).to_owned(), *at)).collect::<Vec<_>>();
        let mut pairs = TextAnalyzer::from(Pairs::default());
        assert_eq!(taken(&mut pairs, "3号楼 led"), own(&[("3", 0), ("号", 1), ("号楼", 1), ("楼", 2), ("led", 4)]));
        assert_eq!(taken(&mut pairs, "路灯"), own(&[("路灯", 0), ("灯", 1)]), "the next text begins anew");
        let mut words = TextAnalyzer::from(Words);
        let terms: Vec<_> = taken(&mut words, "路灯\u{1F}不亮").into_iter().map(|(term, _)| term).collect();
        assert_eq!(terms, ["路灯", "不亮"]);
        assert_eq!(taken(&mut words, ""), []);
    }
}
