//! Kinds of problems: what a record complains about, apart from the place.
//!
//! People describe one problem with many words: noise, a loud radio, no sleep. `problems.txt` lists the words of about
//! sixty kinds of problems. A record has a kind if its text contains a word of the kind.

use std::sync::LazyLock;

/// The list of the kinds and their words.
const LIST: &str = include_str!("problems.txt");
/// Maximum number of occurrences of a word that count.
const MOST_OCCURRENCES: usize = 3;
/// The value of a word in the title, in occurrences. A title names the problem.
const TITLE_OCCURRENCES: usize = 2;
/// The share of a single character's value, because a single character is often part of another word.
const SINGLE_CHARACTER_SHARE: f32 = 0.5;

/// A kind of problem with its words.
#[derive(Debug)]
struct ProblemKind {
    words: Vec<&'static str>,
    singles: Vec<&'static str>,
}

static KINDS: LazyLock<Vec<ProblemKind>> = LazyLock::new(|| {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    let kinds = lines.filter_map(|line| line.split_once(' ')).map(|(_, words)| {
        let mut kind = ProblemKind { words: Vec::new(), singles: Vec::new() };
        for word in words.split_whitespace() {
            if word.chars().nth(1).is_none() { kind.singles.push(word) } else { kind.words.push(word) }
        }
        kind
    });
    kinds.collect()
});

/// The strength of a kind of problem in a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ProblemStrength {
    /// Position of the kind in the list.
    pub(super) kind: u8,
    /// Strength, above 0.
    pub(super) strength: f32,
}

/// Number of kinds in the list.
pub(super) fn kind_count() -> usize {
    KINDS.len()
}

/// Returns the kinds of problems that a normalised text reports, in the order of the list. O(length × words of the
/// list).
pub(super) fn problem_kinds(title: &str, text: &str) -> Vec<ProblemStrength> {
    let all = (0..).zip(KINDS.iter()).map(|(kind, words)| {
        let singles = strength_of(&words.singles, title, text) * SINGLE_CHARACTER_SHARE;
        ProblemStrength { kind, strength: strength_of(&words.words, title, text) + singles }
    });
    all.filter(|found| found.strength > 0.0).collect()
}

/// Returns the strength of some words in a text.
fn strength_of(words: &[&str], title: &str, text: &str) -> f32 {
    let strengths = words.iter().map(|word| {
        let in_title = if title.contains(word) { TITLE_OCCURRENCES } else { 0 };
        ((text.matches(word).take(MOST_OCCURRENCES).count() + in_title) as f32).sqrt()
    });
    strengths.sum()
}

/// Returns the words of a kind, the most usual one first.
pub(super) fn words_of_kind(kind: u8) -> &'static [&'static str] {
    KINDS.get(usize::from(kind)).map_or(&[], |kind| &kind.words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_words_for_one_problem_are_one_kind() {
        assert_eq!(strongest("楼下音响吵闹,居民睡不着"), strongest("噪音扰民严重"));
        assert_ne!(strongest("噪音扰民严重"), strongest("小区停水三天"));
        assert_eq!(strongest("您好"), None);
        assert!(kind_count() < usize::from(u8::MAX));
    }

    fn strongest(text: &str) -> Option<u8> {
        let kinds = problem_kinds("", text);
        kinds.iter().max_by(|a, b| a.strength.total_cmp(&b.strength)).map(|found| found.kind)
    }
}
