//! Units: what shingles count in. A Han character, or a run of other letters or digits; everything else separates.
//!
//! A text in a script without spaces and without Han characters is thus one long unit a phrase: fine for telling copies,
//! which is all units are for.

use std::ops::Range;

/// Whether `c` is a Han character (an ideograph of any block).
#[inline]
pub fn is_han(c: char) -> bool {
    matches!(c,
        '\u{4E00}'..='\u{9FFF}' | '\u{3400}'..='\u{4DBF}' | '\u{3005}'..='\u{3007}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{2FA1F}' | '\u{30000}'..='\u{323AF}')
}

/// Whether `c` belongs to words: a letter, a digit or a Han character.
#[inline]
pub fn is_word_char(c: char) -> bool {
    is_han(c) || c.is_alphanumeric()
}

/// The byte ranges of the units of `text`, in order. O(length).
pub fn units(text: &str) -> Units<'_> {
    Units { text, at: 0 }
}

/// Iterator of [`units`].
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
            let inside = c.is_alphanumeric();
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn units_hold_exactly_the_letters_and_digits(text in "[a-c市区 ,。1é𠀀]{0,20}") {
            let joined: String = units(&text).map(|range| &text[range]).collect();
            let kept: String = text.chars().filter(|&c| is_word_char(c)).collect();
            prop_assert_eq!(joined, kept);
        }
    }
}
