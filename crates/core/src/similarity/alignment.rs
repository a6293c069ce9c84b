//! The order of two texts: their longest common run, and the places where one text has something else than the other.
//!
//! Set measures ignore the order of the shared text. Two letters about one matter have a passage in common; two letters
//! on one form share many short phrases. On a form, the texts of two matters are equal except for the number or the
//! name in one place, and one name in a text of 300 characters changes less than 2 % of the shingles. So texts that may
//! match are aligned token by token. A run of digits or numerals is one token, which is compared by its value.

use std::collections::HashSet;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::evidence::Overlap;
use crate::schemes::hash::city64;
use crate::text::objects::numerals::{is_numeral, value};
use crate::text::shingles::{codes, counts, for_each_of_three};

/// Maximum number of tokens of each text that are aligned: alignment takes O((|a| + |b|) × differences).
const MAX_TOKENS: usize = 600;
/// Maximum number of tokens of replaced words that can be a name. More tokens are another sentence.
const MAX_REPLACED: usize = 8;
/// Minimum number of characters of replaced words that are more than a typing error.
const MIN_REPLACED: usize = 2;
/// Maximum number of places that are counted.
const MOST_PLACES: u8 = 4;

/// The measures of two texts that depend on the order of their contents.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Alignment {
    /// Weight of the longest run of text that both texts contain, in shingles that are rare in the collection.
    pub longest_run: f64,
    /// Number of places with another number, at most 4. Numbers of dates, times and measures do not count.
    pub numbers: u8,
    /// Sum of the weights of the places with other words, at most 4. The weight of a place is the weight of its words:
    /// rare words name an object, common words are a phrase.
    pub words: f64,
    /// Number of these places where the words are a name, or a part of a name, that only one of the texts contains; at
    /// most 4.
    pub names: u8,
    /// Share of the changed tokens that are in these places, 0 to 1. On a form the share is near 1. A rewritten letter
    /// also has other changes.
    pub share: f64,
}

impl Alignment {
    /// Returns the most favourable alignment of two texts with this overlap: the whole shared text is one run, and
    /// nothing is replaced.
    pub fn most_favourable(overlap: &Overlap) -> Self {
        Self { longest_run: overlap.shared, ..Self::default() }
    }
}

/// Returns the weight of the longest run of text that both texts contain, in shingles of `width` characters. The order
/// of the two texts does not matter. O(|a| + |b|).
pub fn longest_run(a: &str, b: &str, width: u8, weight: impl Fn(u64) -> f32) -> f64 {
    let codes_a = codes(a, width);
    let codes_b = codes(b, width);
    longest_run_within(&codes_a, &codes_b, &weight).max(longest_run_within(&codes_b, &codes_a, &weight))
}

/// Returns the weight of the longest run of `codes` that all occur in `other`. A code that is repeated in a run counts
/// each time.
fn longest_run_within(codes: &[u64], other: &[u64], weight: impl Fn(u64) -> f32) -> f64 {
    let other: HashSet<u64> = other.iter().copied().collect();
    let mut longest = 0.0_f64;
    let mut run = 0.0;
    for code in codes {
        run = if other.contains(code) { run + f64::from(weight(*code)) } else { 0.0 };
        longest = longest.max(run);
    }
    longest
}

/// A text that is cut into tokens for alignment: single characters, numbers by value, runs of Latin letters.
#[derive(Clone, Debug)]
pub struct TokenText {
    tokens: Vec<Token>,
    /// For each token, the largest weight of a shingle of three characters that ends with the token or with one of the
    /// next two.
    weights: Vec<f32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Token {
    Character(char),
    Number(u64),
    /// A number of a date, a time or a measure.
    Quantity(u64),
    Latin(u64),
}

/// True for a character that follows the number of a date, a time, an amount or a measure.
fn is_measure(c: char) -> bool {
    matches!(
        c,
        '年' | '月'
            | '日'
            | '时'
            | '点'
            | '分'
            | '秒'
            | '天'
            | '周'
            | '岁'
            | '元'
            | '万'
            | '亿'
            | '千'
            | '百'
            | '米'
            | '平'
            | '人'
            | '户'
            | '次'
            | '个'
            | '条'
            | '件'
            | '多'
            | '余'
            | '%'
    )
}

impl TokenText {
    /// Cuts a normalised text into tokens. `weight` returns the weight of a shingle of three characters. O(length).
    pub fn of(text: &str, weight: impl Fn(u64) -> f32) -> Self {
        let (mut tokens, mut ends) = (Vec::new(), Vec::new());
        let mut chars = text.char_indices().filter(|(_, c)| counts(*c)).peekable();
        let mut count = 0;
        while let Some((start, first)) = chars.next() {
            if tokens.len() == MAX_TOKENS {
                break;
            }
            count += 1;
            let mut end = start + first.len_utf8();
            let is_same_run: fn(char) -> bool = match first {
                c if is_numeral(c) => is_numeral,
                c if c.is_ascii_alphabetic() => |c| c.is_ascii_alphabetic(),
                _ => |_| false,
            };
            while let Some((at, c)) = chars.next_if(|(at, c)| *at == end && is_same_run(*c)) {
                end = at + c.len_utf8();
                count += 1;
            }
            let run = &text[start..end];
            let is_quantity =
                || text[end..].trim_start().starts_with(|c| is_measure(c) || matches!(c, '.' | ':' | '-' | '/'));
            tokens.push(match first {
                c if is_numeral(c) && is_quantity() => Token::Quantity(value(run)),
                c if is_numeral(c) => Token::Number(value(run)),
                c if c.is_ascii_alphabetic() => Token::Latin(city64(run)),
                c => Token::Character(c),
            });
            ends.push(count);
        }
        let mut shingles = Vec::with_capacity(count);
        for_each_of_three(text, |code| shingles.push(weight(code)));
        // The shingle that ends with character number n has the number n - 2.
        let weigh = |end: &usize| {
            let first = end.saturating_sub(3).min(shingles.len());
            shingles[first..(end.saturating_sub(3) + 3).min(shingles.len()).max(first)]
                .iter()
                .copied()
                .fold(0.0, f32::max)
        };
        Self { weights: ends.iter().map(weigh).collect(), tokens }
    }
}

/// Aligns two texts (Myers 1986). `longest_run` is the weight that [`longest_run`] returned for them. `only_names` are
/// the names that only the first and only the second text contains. O((|a| + |b|) × differences), at most
/// [`MAX_TOKENS`] tokens of each.
pub fn align_tokens(longest_run: f64, a: &TokenText, b: &TokenText, only_names: &[Vec<String>; 2]) -> Alignment {
    let [only_a, only_b] = only_names;
    // The order is fixed, so that both orders of the texts give the same alignment.
    match a.tokens <= b.tokens {
        true => align_ordered(longest_run, a, b, [only_a, only_b]),
        false => align_ordered(longest_run, b, a, [only_b, only_a]),
    }
}

fn align_ordered(longest_run: f64, a: &TokenText, b: &TokenText, only_names: [&[String]; 2]) -> Alignment {
    let mut found = Alignment { longest_run, ..Alignment::default() };
    let (mut replaced, mut changed) = (0, 0);
    for op in capture_diff_slices(Algorithm::Myers, &a.tokens, &b.tokens) {
        let weight = mean(&a.weights[op.old_range()]).min(mean(&b.weights[op.new_range()]));
        let (a, b) = (&a.tokens[op.old_range()], &b.tokens[op.new_range()]);
        let length = a.len().max(b.len());
        match op {
            DiffOp::Equal { .. } => continue,
            DiffOp::Replace { .. } if length <= MAX_REPLACED => {
                let is_number = has_number(a) && has_number(b);
                let is_word = characters(a).min(characters(b)) >= MIN_REPLACED;
                let is_name = is_word && (is_part(a, only_names[0]) || is_part(b, only_names[1]));
                found.numbers += u8::from(is_number && found.numbers < MOST_PLACES);
                found.words = (found.words + if is_word { weight } else { 0.0 }).min(MOST_PLACES.into());
                found.names += u8::from(is_name && found.names < MOST_PLACES);
                replaced += if is_number || is_word { length } else { 0 };
            }
            DiffOp::Replace { .. } | DiffOp::Delete { .. } | DiffOp::Insert { .. } => {}
        }
        changed += length;
    }
    found.share = if changed > 0 { f64::from(replaced as u32) / f64::from(changed as u32) } else { 0.0 };
    found
}

/// True if the characters of some tokens are part of one of the names.
fn is_part(tokens: &[Token], names: &[String]) -> bool {
    let character = |token: &Token| match token {
        Token::Character(c) => Some(*c),
        Token::Number(_) | Token::Quantity(_) | Token::Latin(_) => None,
    };
    let text: String = tokens.iter().filter_map(character).collect();
    names.iter().any(|name| name.contains(&text))
}

fn mean(weights: &[f32]) -> f64 {
    weights.iter().map(|weight| f64::from(*weight)).sum::<f64>() / weights.len().max(1) as f64
}

fn has_number(tokens: &[Token]) -> bool {
    tokens.iter().any(|token| matches!(token, Token::Number(_) | Token::Latin(_)))
}

fn characters(tokens: &[Token]) -> usize {
    tokens.iter().filter(|token| matches!(token, Token::Character(_))).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(a: &str, b: &str, numbers: u8, words: f64) {
        let nothing = Default::default();
        let found = align_tokens(0.0, &TokenText::of(a, |_| 1.0), &TokenText::of(b, |_| 1.0), &nothing);
        assert_eq!((found.numbers, found.words), (numbers, words), "{a} {b}");
        assert_eq!(align_tokens(0.0, &TokenText::of(b, |_| 1.0), &TokenText::of(a, |_| 1.0), &nothing), found);
    }

    #[test]
    fn another_number_or_name_in_the_same_place_is_found() {
        check("幸福里23号楼电梯坏了没人修", "幸福里32号楼电梯坏了没人修", 1, 0.0);
        check("幸福里十二号楼电梯坏了", "幸福里12号楼电梯坏了", 0, 0.0);
        check("反映雁坪路路灯不亮没人修", "反映松岗大道路灯不亮没人修", 0, 1.0);
        check("建议b1路改道很不方便", "建议c1路改道很不方便", 1, 0.0);
    }

    #[test]
    fn the_longest_run_is_one_passage_and_the_same_in_either_order() {
        let run = |a: &str, b: &str| longest_run(a, b, 3, |_| 1.0);
        assert_eq!(run("路灯不亮很久了没人修", "反映路灯不亮,没人修"), 2.0);
        assert_eq!(run("路灯不亮很久了没人修", "没人修路灯不亮很久了"), 5.0);
        assert_eq!(run("甲乙丙", "丁戊己"), 0.0);
        for (a, b) in [("甲乙丙丁甲乙丙", "甲乙丙丁"), ("幸福里三号楼", "幸福里3号楼停水")] {
            assert_eq!(run(a, b), run(b, a));
        }
    }

    #[test]
    fn words_that_are_part_of_a_name_are_told() {
        let names = [vec!["梧桐湾小区".to_owned()], vec!["鹤鸣小区".to_owned()]];
        let replaced =
            |a: &str, b: &str| align_tokens(0.0, &TokenText::of(a, |_| 1.0), &TokenText::of(b, |_| 1.0), &names).names;
        assert_eq!(replaced("反映梧桐湾小区停水三天", "反映鹤鸣小区停水三天"), 1);
        assert_eq!(replaced("反映梧桐湾小区停水三天", "投诉梧桐湾小区停水三天"), 0);
    }

    #[test]
    fn more_text_a_typing_error_and_another_sentence_are_no_replacement() {
        check("反映雁坪路路灯不亮", "反映雁坪路路灯不亮,请尽快派人修理", 0, 0.0);
        check("反映雁坪路路灯不亮", "反映雁坪路路灯不凉", 0, 0.0);
        check("反映雁坪路路灯不亮,居民出行困难得很哪", "反映雁坪路路灯不亮,请有关部门派人到场看看怎么修", 0, 0.0);
    }
}
