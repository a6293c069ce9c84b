//! A text as a sequence of characters, with the comparisons that the readers of facts need.

use std::ops::Range;

use super::numerals::is_numeral;

/// The characters of a normalised text.
#[derive(Clone, Debug)]
pub(super) struct Chars {
    all: Vec<char>,
}

impl Chars {
    /// Decodes `text`. O(length).
    pub(super) fn new(text: &str) -> Self {
        Self { all: text.chars().collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn as_slice(&self) -> &[char] {
        &self.all
    }

    /// Returns the character at `at`, or NUL after the end of the text.
    #[inline]
    pub(super) fn at(&self, at: usize) -> char {
        self.all.get(at).copied().unwrap_or('\0')
    }

    /// Returns the character before `at`, or NUL at the start of the text.
    #[inline]
    pub(super) fn before(&self, at: usize) -> char {
        if at == 0 { '\0' } else { self.at(at - 1) }
    }

    /// Returns the end of `literal` if the text has it at `at`.
    pub(super) fn starts(&self, at: usize, literal: &str) -> Option<usize> {
        let mut end = at;
        for c in literal.chars() {
            if self.at(end) != c {
                return None;
            }
            end += 1;
        }
        Some(end)
    }

    /// Returns the start of `literal` if the text has it just before `end`.
    pub(super) fn ends(&self, end: usize, literal: &str) -> Option<usize> {
        let mut start = end;
        for c in literal.chars().rev() {
            if self.before(start) != c {
                return None;
            }
            start -= 1;
        }
        Some(start)
    }

    /// Returns the end of the longest of `literals` that the text has at `at`.
    pub(super) fn starts_any(&self, at: usize, literals: &[&str]) -> Option<usize> {
        literals.iter().filter_map(|literal| self.starts(at, literal)).max()
    }

    /// Returns the start of the longest of `literals` that the text has just before `end`.
    pub(super) fn ends_any(&self, end: usize, literals: &[&str]) -> Option<usize> {
        literals.iter().filter_map(|literal| self.ends(end, literal)).min()
    }

    /// Returns the first position from `at` on whose character does not satisfy `belongs`, at most `limit` characters
    /// away.
    pub(super) fn skip(&self, at: usize, limit: usize, belongs: impl Fn(char) -> bool) -> usize {
        let last = self.len().min(at.saturating_add(limit));
        (at..last).find(|&at| !belongs(self.all[at])).unwrap_or(last.max(at))
    }

    /// Returns the last position up to `end` before which the character does not satisfy `belongs`, at most `limit`
    /// characters away.
    pub(super) fn skip_back(&self, end: usize, limit: usize, belongs: impl Fn(char) -> bool) -> usize {
        let first = end.saturating_sub(limit);
        (first..end).rev().find(|&at| !belongs(self.all[at])).map_or(first, |at| at + 1)
    }

    /// Returns the characters of `range` as a string.
    pub(super) fn string(&self, range: Range<usize>) -> String {
        self.all[range.start.min(self.len())..range.end.min(self.len())].iter().collect()
    }
}

/// True for an ideograph of the usual planes.
#[inline]
pub(super) fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// True for a sign that replaces a hidden digit or letter. The letter x can also do so, but is not included here.
#[inline]
pub(super) fn is_mask(c: char) -> bool {
    matches!(c, '*' | '×' | '●' | '■' | '█' | '○')
}

/// True for a sign that ends a sentence, or a line break.
pub(super) fn ends_sentence(c: char) -> bool {
    matches!(c, '\0' | '\n' | '。' | '!' | '?' | ';' | '…' | '~' | ')' | '】' | '」' | '”')
}

/// True for white space, punctuation, symbols and emoji: everything except letters, digits and masks.
pub(super) fn is_gap(c: char) -> bool {
    !is_ideograph(c) && !c.is_ascii_alphanumeric() && c != '\0' && (c.is_ascii() || !c.is_alphanumeric()) && !is_mask(c)
}

/// True for a character of a number in digits or words.
pub(super) fn is_number(c: char) -> bool {
    c.is_ascii_digit() || is_numeral(c)
}
