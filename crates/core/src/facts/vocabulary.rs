//! Closed vocabularies: a phrase belongs to a form if it consists only of words of that form.

use std::ops::Range;

use hashbrown::HashMap;

use super::chars::Chars;

/// Maximum length of a phrase that is looked up, in characters. Texts that offices and writers add are shorter.
const MAX_PHRASE: usize = 64;

/// A set of words by their first character.
#[derive(Debug)]
pub(super) struct Vocabulary {
    by_first: HashMap<char, Vec<Vec<char>>>,
    digits: bool,
}

impl Vocabulary {
    /// Creates a vocabulary of the words in `lists`, which are separated by white space.
    pub(super) fn new(lists: &[&str]) -> Self {
        let mut by_first: HashMap<char, Vec<Vec<char>>> = HashMap::new();
        for word in lists.iter().flat_map(|list| list.split_whitespace()) {
            let word: Vec<char> = word.chars().collect();
            by_first.entry(word[0]).or_default().push(word);
        }
        Self { by_first, digits: false }
    }

    /// Removes the words of one character from the vocabulary.
    pub(super) fn without_single(mut self) -> Self {
        for words in self.by_first.values_mut() {
            words.retain(|word| word.len() > 1);
        }
        self
    }

    /// Adds numbers to the vocabulary.
    pub(super) fn with_numbers(self) -> Self {
        Self { digits: true, ..self }
    }

    /// True if the characters of `range` are words of the vocabulary, one after the other, with gaps between them.
    /// False for a range that is empty or longer than 64 characters.
    pub(super) fn covers(&self, text: &Chars, range: Range<usize>) -> bool {
        let length = range.len();
        if length == 0 || length > MAX_PHRASE {
            return false;
        }
        let chars = &text.as_slice()[range];
        // Bit i is set if the first i characters are covered.
        let mut reached: u128 = 1;
        for at in 0..length {
            if reached >> at & 1 == 0 {
                continue;
            }
            let c = chars[at];
            if super::chars::is_gap(c) || (self.digits && super::chars::is_number(c)) {
                reached |= 1 << (at + 1);
            }
            for word in self.by_first.get(&c).into_iter().flatten() {
                if chars[at..].starts_with(word) {
                    reached |= 1 << (at + word.len());
                }
            }
        }
        reached >> length & 1 == 1
    }
}
