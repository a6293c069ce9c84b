//! Kinds of problems: what a record complains about, apart from the place.
//!
//! People describe one problem with many words: noise, a loud radio, no sleep. `problems.txt` lists the words of about
//! sixty kinds of problems. A record has a kind if its text contains a word of the kind.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// The list of the kinds and their words.
const LIST: &str = include_str!("problems.txt");
/// Maximum number of occurrences of a word that count.
const MOST_OCCURRENCES: u8 = 3;
/// The value of a word in the title, in occurrences. A title names the problem.
const TITLE_OCCURRENCES: u8 = 2;
/// The share of a single character's value, because a single character is often part of another word.
const SINGLE_CHARACTER_SHARE: f32 = 0.5;

/// The words of all kinds, and the automaton that finds them in one pass.
struct ProblemWords {
    /// The words of each kind, the most usual one first.
    kinds: Vec<Vec<&'static str>>,
    /// The kind of each word of the automaton, and the share of its value.
    words: Vec<(u8, f32)>,
    finder: AhoCorasick,
}

static PROBLEMS: LazyLock<ProblemWords> = LazyLock::new(|| {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    let kinds = lines.filter_map(|line| line.split_once(' ')).map(|(_, words)| words.split_whitespace().collect());
    let kinds: Vec<Vec<&str>> = kinds.collect();
    let words = (0..).zip(&kinds).flat_map(|(kind, words)| words.iter().map(move |word| (kind, share_of(word))));
    let finder = AhoCorasick::new(kinds.iter().flatten());
    ProblemWords { words: words.collect(), finder: finder.expect("the list is small enough for an automaton"), kinds }
});

/// Returns the share of a word's value that counts.
fn share_of(word: &str) -> f32 {
    if word.chars().nth(1).is_none() { SINGLE_CHARACTER_SHARE } else { 1.0 }
}

impl ProblemWords {
    /// Returns how often each word occurs in a text, at most [`MOST_OCCURRENCES`]. O(length + words).
    fn occurrences(&self, text: &str) -> Vec<u8> {
        let mut found = vec![0_u8; self.words.len()];
        for word in self.finder.find_overlapping_iter(text) {
            let count = &mut found[word.pattern().as_usize()];
            *count = (*count + 1).min(MOST_OCCURRENCES);
        }
        found
    }
}

/// The strength of a kind of problem in a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProblemStrength {
    /// Position of the kind in the list.
    pub kind: u8,
    /// Strength, above 0.
    pub strength: f32,
}

/// Number of kinds in the list.
pub fn kind_count() -> usize {
    PROBLEMS.kinds.len()
}

/// Returns the kinds of problems that a normalised text reports, in the order of the list. O(length + words of the
/// list).
pub fn problem_kinds(title: &str, text: &str) -> Vec<ProblemStrength> {
    let problems = &*PROBLEMS;
    let mut strengths = vec![0.0; problems.kinds.len()];
    let counts = problems.occurrences(text).into_iter().zip(problems.occurrences(title));
    for ((in_text, in_title), &(kind, share)) in counts.zip(&problems.words) {
        let in_title = if in_title > 0 { TITLE_OCCURRENCES } else { 0 };
        strengths[usize::from(kind)] += f32::from(in_text + in_title).sqrt() * share;
    }
    let all = (0..).zip(strengths).map(|(kind, strength)| ProblemStrength { kind, strength });
    all.filter(|found| found.strength > 0.0).collect()
}

/// Returns a set bit for each kind of which a text contains a word of at least two characters.
pub(crate) fn kinds_of_words(text: &str) -> u128 {
    let problems = &*PROBLEMS;
    let found = problems.finder.find_overlapping_iter(text).map(|word| problems.words[word.pattern().as_usize()]);
    found.filter(|(_, share)| *share >= 1.0).fold(0, |kinds, (kind, _)| kinds | 1 << kind)
}

/// Returns the cosine of the kinds of problems of two texts: 1 if both report the same kinds in the same strength, 0 if they report no common
/// one. O(length).
pub(crate) fn problem_cosine(a: &str, b: &str) -> f64 {
    let [a, b] = [a, b].map(|text| problem_kinds("", text));
    let norm = (inner_product(&a, &a) * inner_product(&b, &b)).sqrt();
    if norm > 0.0 { inner_product(&a, &b) / norm } else { 0.0 }
}

/// Returns the sum, over the common kinds, of the products of both strengths.
fn inner_product(a: &[ProblemStrength], b: &[ProblemStrength]) -> f64 {
    let pairs = a.iter().flat_map(|in_a| b.iter().map(move |in_b| (in_a, in_b)));
    pairs
        .filter(|(in_a, in_b)| in_a.kind == in_b.kind)
        .map(|(in_a, in_b)| f64::from(in_a.strength * in_b.strength))
        .sum()
}

/// Returns the words of a kind, the most usual one first. Single characters are left out.
pub fn words_of_kind(kind: u8) -> impl DoubleEndedIterator<Item = &'static str> {
    let words = PROBLEMS.kinds.get(usize::from(kind)).into_iter().flatten();
    words.copied().filter(|word| word.chars().nth(1).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_words_for_one_problem_are_one_kind() {
        assert_eq!(strongest("楼下音响吵闹,居民睡不着"), strongest("噪音扰民严重"));
        assert_ne!(strongest("噪音扰民严重"), strongest("小区停水三天"));
        assert_eq!(strongest("您好"), None);
        assert!(kind_count() <= u128::BITS as usize);
    }

    #[test]
    fn the_cosine_compares_the_kinds() {
        assert!(problem_cosine("路灯不亮", "晚上没有照明,路灯不亮") > 0.9);
        assert_eq!(problem_cosine("路灯不亮", "井盖破损"), 0.0);
        assert_eq!(problem_cosine("您好", "您好"), 0.0, "no kind");
    }

    #[test]
    fn kinds_are_found_by_words_of_several_characters() {
        assert_ne!(kinds_of_words("电梯坏了"), kinds_of_words("水管坏了"));
        assert_eq!(kinds_of_words("停水三天"), kinds_of_words("断水三天"));
        assert_eq!(kinds_of_words("很臭很吵"), 0, "single characters");
    }

    #[test]
    fn occurrences_count_as_a_search_for_each_word_counts_them() {
        let text = "路灯不亮,路灯不亮,噪音噪音噪音噪音扰民,乱停乱放,停车位";
        let problems = &*PROBLEMS;
        let counts = problems.occurrences(text);
        let expected = problems.kinds.iter().flatten().map(|word| text.matches(word).take(3).count() as u8);
        assert_eq!(counts, expected.collect::<Vec<u8>>());
    }

    fn strongest(text: &str) -> Option<u8> {
        let kinds = problem_kinds("", text);
        kinds.iter().max_by(|a, b| a.strength.total_cmp(&b.strength)).map(|found| found.kind)
    }
}
