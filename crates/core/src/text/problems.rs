//! Kinds of problems: what a record complains about, apart from the place.
//!
//! People describe one problem with many words: noise, a loud radio, no sleep. `problems.txt` lists the words of about
//! 120 kinds of problems. A record has a kind if its text contains a word of the kind. Related kinds have a topic in common: the
//! noise of a building site and the noise of dancers are two kinds and one topic.

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
    /// The topics of each kind, by their positions in the order of the list.
    topics: Vec<Vec<u8>>,
    topic_count: usize,
    /// The kind of each word of the automaton, and the share of its value.
    words: Vec<(u8, f32)>,
    finder: AhoCorasick,
}

static PROBLEMS: LazyLock<ProblemWords> = LazyLock::new(|| {
    let mut kinds: Vec<Vec<&str>> = Vec::new();
    let mut topics = Vec::new();
    let mut topic_names: Vec<&str> = Vec::new();
    for line in LIST.lines().filter(|line| !line.starts_with('#')) {
        let mut columns = line.split_whitespace();
        let own = columns.nth(1).into_iter().flat_map(|topics| topics.split(','));
        topics.push(own.map(|topic| position_of(topic, &mut topic_names)).collect());
        kinds.push(columns.collect());
    }
    let words = (0..).zip(&kinds).flat_map(|(kind, words)| words.iter().map(move |word| (kind, share_of(word))));
    let words = words.collect();
    let finder = AhoCorasick::new(kinds.iter().flatten()).expect("the list is small enough for an automaton");
    ProblemWords { words, finder, kinds, topics, topic_count: topic_names.len() }
});

/// Returns the position of a name in a list, and adds the name if it is new.
fn position_of(name: &'static str, names: &mut Vec<&'static str>) -> u8 {
    let position = names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    });
    position as u8
}

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

/// The strength of a kind or a topic of problems in a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProblemStrength {
    /// Position of the kind, or of the topic, in the order of the list.
    pub class: u8,
    /// Strength, above 0.
    pub strength: f32,
}

/// Number of kinds in the list.
pub fn kind_count() -> usize {
    PROBLEMS.kinds.len()
}

/// Number of topics in the list.
pub(crate) fn topic_count() -> usize {
    PROBLEMS.topic_count
}

/// Returns the topics of the problems of a record, in the order of the list. The strength of a topic is the sum of the strengths of its kinds.
/// O(kinds + topics).
pub fn problem_topics(kinds: &[ProblemStrength]) -> Vec<ProblemStrength> {
    let mut strengths = vec![0.0; topic_count()];
    for found in kinds {
        for topic in topics_of_kind(found.class) {
            strengths[usize::from(*topic)] += found.strength;
        }
    }
    present(&strengths)
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
    present(&strengths)
}

/// Returns the classes with a strength above 0.
fn present(strengths: &[f32]) -> Vec<ProblemStrength> {
    let all = (0..).zip(strengths).map(|(class, strength)| ProblemStrength { class, strength: *strength });
    all.filter(|found| found.strength > 0.0).collect()
}

/// Returns a set bit for each kind of which a text contains a word of at least two characters.
pub(crate) fn kinds_of_words(text: &str) -> u128 {
    let problems = &*PROBLEMS;
    let found = problems.finder.find_overlapping_iter(text).map(|word| problems.words[word.pattern().as_usize()]);
    found.filter(|(_, share)| *share >= 1.0).fold(0, |kinds, (kind, _)| kinds | 1 << kind)
}

/// Returns a set bit for each topic of some kinds, which are set bits.
pub(crate) fn topics_of_kinds(kinds: u128) -> u64 {
    let kinds = (0..kind_count() as u8).filter(|kind| kinds >> kind & 1 == 1);
    kinds.flat_map(topics_of_kind).fold(0, |topics, topic| topics | 1 << topic)
}

/// Returns the topics of a kind.
pub fn topics_of_kind(kind: u8) -> &'static [u8] {
    PROBLEMS.topics.get(usize::from(kind)).map_or(&[], Vec::as_slice)
}

/// Returns the cosine of the topics of the problems of two texts: 1 if both report the same topics in the same strength, 0 if they report
/// no common one. O(length).
pub(crate) fn topic_cosine(a: &str, b: &str) -> f64 {
    let [a, b] = [a, b].map(|text| problem_topics(&problem_kinds("", text)));
    let norm = (inner_product(&a, &a) * inner_product(&b, &b)).sqrt();
    if norm > 0.0 { inner_product(&a, &b) / norm } else { 0.0 }
}

/// Returns the sum, over the common classes, of the products of both strengths.
fn inner_product(a: &[ProblemStrength], b: &[ProblemStrength]) -> f64 {
    let pairs = a.iter().flat_map(|in_a| b.iter().map(move |in_b| (in_a, in_b)));
    pairs
        .filter(|(in_a, in_b)| in_a.class == in_b.class)
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
        assert_eq!(strongest("楼下吵闹,居民睡不着"), strongest("噪音扰民严重"));
        assert_ne!(strongest("噪音扰民严重"), strongest("小区停水三天"));
        assert_eq!(strongest("您好"), None);
        assert!(kind_count() <= u128::BITS as usize && topic_count() <= u64::BITS as usize);
    }

    #[test]
    fn every_kind_has_topics_and_words() {
        for kind in 0..kind_count() as u8 {
            assert!(!topics_of_kind(kind).is_empty() && words_of_kind(kind).count() > 3, "{kind}");
        }
    }

    #[test]
    fn two_kinds_of_one_problem_have_a_topic_in_common() {
        assert!(topic_cosine("路灯不亮", "晚上没有照明,路灯不亮") > 0.9);
        assert!(topic_cosine("打桩", "广场舞扰民") > 0.4, "noise");
        assert_ne!(strongest("打桩"), strongest("广场舞扰民"));
        assert_eq!(topic_cosine("路灯不亮", "老师补课"), 0.0);
        assert_eq!(topic_cosine("您好", "您好"), 0.0, "no problem");
    }

    #[test]
    fn kinds_are_found_by_words_of_several_characters() {
        assert_ne!(kinds_of_words("电梯坏了"), kinds_of_words("水管坏了"));
        assert_eq!(kinds_of_words("停水三天"), kinds_of_words("断水三天"));
        assert_eq!(kinds_of_words("真臭真吵"), 0, "single characters");
        assert_ne!(topics_of_kinds(kinds_of_words("打桩")) & topics_of_kinds(kinds_of_words("广场舞")), 0, "noise");
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
        kinds.iter().max_by(|a, b| a.strength.total_cmp(&b.strength)).map(|found| found.class)
    }
}
