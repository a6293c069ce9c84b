//! Units, in which the length of shingles is counted. A unit is a Han character, or a run of other letters or digits.
//! All other characters separate units.
//!
//! In a script without spaces and without Han characters, a phrase is therefore one long unit. This is good enough to
//! find copies, which is the only purpose of units.

use std::ops::Range;

/// True if `c` is a Han character (an ideograph of any block).
#[inline]
pub fn is_han(c: char) -> bool {
    matches!(c,
        '\u{4E00}'..='\u{9FFF}' | '\u{3400}'..='\u{4DBF}' | '\u{3005}'..='\u{3007}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{2FA1F}' | '\u{30000}'..='\u{323AF}')
}

/// True if `c` belongs to words: a letter, a digit or a Han character.
#[inline]
pub fn is_word_char(c: char) -> bool {
    is_han(c) || is_letter_or_digit(c)
}

/// Returns the result of [`char::is_alphanumeric`], without a search in two tables for the most common marks of Chinese
/// texts.
#[inline]
fn is_letter_or_digit(c: char) -> bool {
    !matches!(c, '\u{3000}'..='\u{3004}' | '\u{3008}'..='\u{3020}' | '\u{2010}'..='\u{2027}') && c.is_alphanumeric()
}

/// Calls `unit` with the bytes of every unit of `text`, in order: the same units as [`units`] returns, in one loop.
#[inline]
pub fn for_each_unit<'a>(text: &'a str, mut unit: impl FnMut(&'a [u8])) {
    let bytes = text.as_bytes();
    let mut run = None;
    for (at, c) in text.char_indices() {
        if is_han(c) {
            if let Some(start) = run.take() {
                unit(&bytes[start..at]);
            }
            unit(&bytes[at..at + c.len_utf8()]);
        } else if is_letter_or_digit(c) {
            run.get_or_insert(at);
        } else if let Some(start) = run.take() {
            unit(&bytes[start..at]);
        }
    }
    if let Some(start) = run {
        unit(&bytes[start..]);
    }
}

/// Returns the byte ranges of the units of `text`, in order. O(length).
pub fn units(text: &str) -> Units<'_> {
    Units { text, at: 0 }
}

/// The iterator that [`units`] returns.
#[derive(Clone, Debug)]
pub struct Units<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Units<'_> {
    type Item = Range<usize>;

    #[inline]
    fn next(&mut self) -> Option<Range<usize>> {
        let mut run = None;
        for c in self.text[self.at..].chars() {
            let start = self.at;
            if is_han(c) {
                if let Some(run) = run {
                    return Some(run..start);
                }
                self.at += c.len_utf8();
                return Some(start..self.at);
            }
            let inside = is_letter_or_digit(c);
            self.at += c.len_utf8();
            match run {
                None if inside => run = Some(start),
                Some(run) if !inside => return Some(run..start),
                _ => {}
            }
        }
        run.map(|run| run..self.at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(units(text).map(|range| &text[range]).collect::<Vec<_>>(), expected, "{text:?}");
    }

    #[test]
    fn a_han_character_or_a_run_of_letters_or_digits_is_a_unit() {
        check("", &[]);
        check("。 ,", &[]);
        check("a市b3区12号, hello world", &["a", "市", "b3", "区", "12", "号", "hello", "world"]);
        check("1.5万元", &["1", "5", "万", "元"]);
        check("末尾abc", &["末", "尾", "abc"]);
    }

    #[test]
    fn letters_and_digits_are_those_of_unicode() {
        assert!(('\0'..=char::MAX).all(|c| is_letter_or_digit(c) == c.is_alphanumeric() || is_han(c)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn both_ways_of_going_through_units_give_the_same(text in "[a-c市区 ,。1é𠀀]{0,20}") {
            let mut found = Vec::new();
            for_each_unit(&text, |unit| found.push(unit));
            prop_assert_eq!(found, units(&text).map(|range| &text.as_bytes()[range]).collect::<Vec<_>>());
        }

        #[test]
        fn units_hold_exactly_the_letters_and_digits(text in "[a-c市区 ,。1é𠀀]{0,20}") {
            let joined: String = units(&text).map(|range| &text[range]).collect();
            let kept: String = text.chars().filter(|&c| is_word_char(c)).collect();
            prop_assert_eq!(joined, kept);
        }
    }
}
