//! The alignment of two texts: the places where one text has something else than the other.
//!
//! On a form, the texts of two matters are equal except for the number or the name in one place, and one name in a text
//! of 300 characters changes less than 2 % of the shingles. So texts that may match are aligned token by token. A run of
//! digits or numerals is one token, which is compared by its value.

use std::cell::OnceCell;
use std::ops::Range;

use super::common_subsequence::{DifferingRanges, differing_ranges};
use super::contrast::are_opposites;
use crate::schemes::hash::city64;
use crate::text::objects::numerals::{is_numeral, value};
use crate::text::problems::{kinds_of_words, topics_of_kinds};
use crate::text::shingles::counts;

/// Maximum number of tokens of each text that are aligned: alignment takes O(|a| × |b| / 64).
const MAX_TOKENS: usize = 600;
/// Maximum number of equal tokens between two changes that are one place. Two names often have one character in common.
const MAX_GAP: usize = 1;
/// Maximum number of tokens of a replaced name or number. More tokens are another sentence.
const MAX_REPLACED: usize = 16;
/// Minimum number of characters of a replaced name. One other character is a typing error, unless both are opposites: 东路, 西路.
const MIN_REPLACED: usize = 2;
/// Number of characters before and after a change that may belong to a replaced word: 停水, 停电.
const WORD_MARGIN: usize = 2;
/// Maximum number of places that are counted.
const MOST_PLACES: u8 = 4;

/// The replaced names and numbers of two aligned texts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Alignment {
    /// Number of places with another number, at most 4. Numbers of dates, times and measures do not count.
    pub numbers: u8,
    /// Share of the changed tokens that are in these places, 0 to 1. On a form the share is near 1. A rewritten letter
    /// also has other changes.
    pub number_share: f64,
    /// Share of the changed tokens that are in places where a name, or a part of a name, that only one of the texts
    /// contains is replaced, 0 to 1.
    pub name_share: f64,
    /// Share of the changed tokens that are in places where a word of one kind of problem replaces a word of another kind, 0 to 1. Kinds that
    /// both texts report do not count.
    pub problem_share: f64,
}

/// A text that is cut into tokens for alignment: single characters, numbers by value, runs of Latin letters.
#[derive(Clone, Debug)]
pub struct TokenText {
    tokens: Vec<Token>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Token {
    Character(char),
    Number(u64),
    /// A number of a date, a time or a measure.
    Quantity(u64),
    /// A run of Latin letters among other tokens: a code, as in B座.
    Latin(u64),
    /// A run of Latin letters beside another one: a word of a text in a Latin script.
    Word(u64),
}

impl Token {
    /// Returns the character of a token that is a single character.
    fn character(self) -> Option<char> {
        match self {
            Self::Character(c) => Some(c),
            Self::Number(_) | Self::Quantity(_) | Self::Latin(_) | Self::Word(_) => None,
        }
    }
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
    /// Cuts a normalised text into tokens. O(length).
    pub fn of(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut chars = text.char_indices().filter(|(_, c)| counts(*c)).peekable();
        while let Some((start, first)) = chars.next() {
            if tokens.len() == MAX_TOKENS {
                break;
            }
            let mut end = start + first.len_utf8();
            let is_same_run: fn(char) -> bool = match first {
                c if is_numeral(c) => is_numeral,
                c if c.is_ascii_alphabetic() => |c| c.is_ascii_alphabetic(),
                _ => |_| false,
            };
            while let Some((at, c)) = chars.next_if(|(at, c)| *at == end && is_same_run(*c)) {
                end = at + c.len_utf8();
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
        }
        let codes: Vec<bool> = (0..tokens.len()).map(|at| is_code(&tokens, at)).collect();
        for (token, is_code) in tokens.iter_mut().zip(codes) {
            if let (Token::Latin(hash), false) = (*token, is_code) {
                *token = Token::Word(hash);
            }
        }
        Self { tokens }
    }
}

/// True if no run of Latin letters stands before or after the token.
fn is_code(tokens: &[Token], at: usize) -> bool {
    let neighbours = [at.checked_sub(1), Some(at + 1)];
    !neighbours.into_iter().flatten().any(|at| matches!(tokens.get(at), Some(Token::Latin(_))))
}

/// Aligns two texts by a longest common subsequence. `only_names` are the names that only the first and only the second
/// text contains. O(|a| × |b| / 64), at most [`MAX_TOKENS`] tokens of each.
pub fn align_tokens(a: &TokenText, b: &TokenText, only_names: &[Vec<String>; 2]) -> Alignment {
    let [only_a, only_b] = only_names;
    // The order is fixed, so that both orders of the texts give the same alignment.
    match a.tokens <= b.tokens {
        true => align_ordered(&a.tokens, &b.tokens, [only_a, only_b]),
        false => align_ordered(&b.tokens, &a.tokens, [only_b, only_a]),
    }
}

fn align_ordered(a: &[Token], b: &[Token], only_names: [&[String]; 2]) -> Alignment {
    let mut found = Alignment::default();
    let only_names = only_names.map(|names| names.iter().map(|name| characters_of_name(name)).collect::<Vec<_>>());
    let mut numbers = 0;
    let mut names = 0;
    let mut problems = 0;
    let mut changed = 0;
    let replaced = ReplacedProblems { texts: [a, b], only_kinds: OnceCell::new() };
    for place in changed_places(a, b) {
        let spans = [place.a.clone(), place.b.clone()];
        let a = &a[place.a];
        let b = &b[place.b];
        changed += place.changed;
        if a.is_empty() || b.is_empty() || a.len().max(b.len()) > MAX_REPLACED {
            continue;
        }
        if has_number(a) && has_number(b) && !a.iter().filter(is_number).eq(b.iter().filter(is_number)) {
            found.numbers = (found.numbers + 1).min(MOST_PLACES);
            numbers += place.changed;
        }
        let fewer = characters(a).min(characters(b));
        let more = characters(a).max(characters(b));
        let [in_a, in_b] = [is_part(a, &only_names[0]), is_part(b, &only_names[1])];
        let is_name = if more >= MIN_REPLACED { in_a || in_b } else { in_a && in_b && are_opposite_tokens(a, b) };
        if fewer > 0 && is_name {
            names += place.changed;
        }
        if fewer > 0 && !is_name && replaced.is_at(spans) {
            problems += place.changed;
        }
    }
    Alignment {
        number_share: share_of(numbers, changed),
        name_share: share_of(names, changed),
        problem_share: share_of(problems, changed),
        ..found
    }
}

/// Finds the places where a word of one kind of problem replaces a word of another kind.
struct ReplacedProblems<'a> {
    texts: [&'a [Token]; 2],
    /// The kinds of problems that only one of the texts reports, when they are needed.
    only_kinds: OnceCell<[u128; 2]>,
}

impl ReplacedProblems<'_> {
    /// True if each text has, in or beside a place, a word of a kind that the other text does not report anywhere, and these kinds have no topic in
    /// common: another word for one problem may belong to a related kind.
    fn is_at(&self, [in_a, in_b]: [Range<usize>; 2]) -> bool {
        let [a, b] = self.texts;
        let [only_a, only_b] = *self.only_kinds.get_or_init(|| {
            let [kinds_a, kinds_b] = self.texts.map(kinds_of_tokens);
            [kinds_a & !kinds_b, kinds_b & !kinds_a]
        });
        // Most texts report no kind of their own, and the places need no search.
        if only_a == 0 || only_b == 0 {
            return false;
        }
        let at_a = kinds_of_tokens(widened(a, &in_a)) & only_a;
        let at_b = kinds_of_tokens(widened(b, &in_b)) & only_b;
        at_a != 0 && at_b != 0 && topics_of_kinds(at_a) & topics_of_kinds(at_b) == 0
    }
}

/// Returns the tokens of a changed place and the tokens beside it.
fn widened<'a>(tokens: &'a [Token], place: &Range<usize>) -> &'a [Token] {
    let end = (place.end + WORD_MARGIN).min(tokens.len());
    &tokens[place.start.saturating_sub(WORD_MARGIN)..end]
}

fn kinds_of_tokens(tokens: &[Token]) -> u128 {
    kinds_of_words(&tokens.iter().filter_map(|token| token.character()).collect::<String>())
}

fn are_opposite_tokens(a: &[Token], b: &[Token]) -> bool {
    let both = [a, b].map(|tokens| tokens.iter().find_map(|token| token.character()));
    matches!(both, [Some(a), Some(b)] if are_opposites(a, b))
}

fn share_of(part: usize, changed: usize) -> f64 {
    if changed > 0 { part as f64 / changed as f64 } else { 0.0 }
}

/// A place where two texts differ.
struct ChangedPlace {
    a: Range<usize>,
    b: Range<usize>,
    /// Number of changed tokens, without equal tokens between the changes of the place.
    changed: usize,
}

/// Returns the places where two texts differ, in order. Changes with at most [`MAX_GAP`] equal tokens between them are
/// one place.
fn changed_places(a: &[Token], b: &[Token]) -> Vec<ChangedPlace> {
    let mut places: Vec<ChangedPlace> = Vec::new();
    for DifferingRanges { a, b } in differing_ranges(a, b) {
        let changed = a.len().max(b.len());
        match places.last_mut() {
            Some(last) if a.start - last.a.end <= MAX_GAP && b.start - last.b.end <= MAX_GAP => {
                (last.a.end, last.b.end) = (a.end, b.end);
                last.changed += changed;
            }
            _ => places.push(ChangedPlace { a, b, changed }),
        }
    }
    places
}

/// True if the characters of some tokens are a part of one of the names, or parts of several names, each of at least
/// [`MIN_REPLACED`] characters: a road and an estate beside each other are replaced together. Numbers are left out in
/// both, because a token has their value only. O(characters² × length of the names).
fn is_part(tokens: &[Token], names: &[Vec<char>]) -> bool {
    let text: Vec<char> = tokens.iter().filter_map(|token| token.character()).collect();
    let mut rest = &text[..];
    loop {
        let mut lengths = (1..=rest.len()).rev();
        let Some(length) = lengths.find(|length| is_in_name(&rest[..*length], names)) else { return false };
        if length == rest.len() && (length == text.len() || length >= MIN_REPLACED) {
            return true;
        }
        if length < MIN_REPLACED {
            return false;
        }
        rest = &rest[length..];
    }
}

fn is_in_name(part: &[char], names: &[Vec<char>]) -> bool {
    names.iter().any(|name| name.windows(part.len()).any(|window| window == part))
}

/// Returns the characters of a name that are single tokens of a text.
fn characters_of_name(name: &str) -> Vec<char> {
    name.chars().filter(|c| counts(*c) && !is_numeral(*c) && !c.is_ascii_alphabetic()).collect()
}

fn is_number(token: &&Token) -> bool {
    matches!(token, Token::Number(_) | Token::Latin(_))
}

fn has_number(tokens: &[Token]) -> bool {
    tokens.iter().any(|token| is_number(&token))
}

fn characters(tokens: &[Token]) -> usize {
    tokens.iter().filter(|token| matches!(token, Token::Character(_))).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(a: &str, b: &str, numbers: u8, number_share: f64) {
        let found = align_tokens(&TokenText::of(a), &TokenText::of(b), &Default::default());
        assert_eq!((found.numbers, found.number_share), (numbers, number_share), "{a} {b}");
        assert_eq!(align_tokens(&TokenText::of(b), &TokenText::of(a), &Default::default()), found);
    }

    #[test]
    fn another_number_in_the_same_place_is_found() {
        check("幸福里23号楼电梯坏了没人修", "幸福里32号楼电梯坏了没人修", 1, 1.0);
        check("幸福里十二号楼电梯坏了", "幸福里12号楼电梯坏了", 0, 0.0);
        check("建议b1路改道很不方便", "建议c1路改道很不方便", 1, 1.0);
        check("one person fell last week", "one person tripped last week", 0, 0.0);
        check("坐5路车到渡口等了很久", "坐8路车到渡口等了半天", 1, 1.0 / 3.0);
        check("反映雁坪路路灯不亮", "反映雁坪路路灯不亮,请尽快派3人修理", 0, 0.0);
    }

    #[track_caller]
    fn check_name(a: &str, b: &str, name_share: f64) {
        let names = [vec!["梧桐湾小区".to_owned()], vec!["鹤鸣湾家园".to_owned()]];
        let found = align_tokens(&TokenText::of(a), &TokenText::of(b), &names);
        assert_eq!(found.name_share, name_share, "{a} {b}");
    }

    #[test]
    fn two_names_beside_each_other_and_names_with_numbers_are_replaced_names() {
        let names = [vec!["松岗一路".to_owned(), "梧桐湾小区".to_owned()], Vec::new()];
        for (a, b, name_share) in [
            ("反映松岗一路停水三天", "反映我家楼上停水三天", 1.0),
            ("反映松岗一路梧桐湾小区停水", "反映雁坪大街鹤鸣苑家园停水", 1.0),
            ("反映松岗一路停水三天", "反映松岗一路断电很久", 0.0),
        ] {
            assert_eq!(align_tokens(&TokenText::of(a), &TokenText::of(b), &names).name_share, name_share);
        }
    }

    #[test]
    fn a_replaced_name_is_one_place_even_if_both_names_have_a_character_in_common() {
        check_name("反映梧桐湾小区停水三天", "反映鹤鸣湾家园停水三天", 1.0);
        check_name("反映梧桐湾小区停水三天", "反映鹤鸣湾家园停水很久", 2.0 / 3.0);
        check_name("反映梧桐湾小区停水三天", "反映桐湾小区停水三天", 0.0);
        check_name("反映梧桐湾小区停水三天", "反映悟桐湾小区停水三天", 0.0);
        check_name("反映梧桐湾小区停水三天", "投诉梧桐湾小区停水三天", 0.0);
    }
}
