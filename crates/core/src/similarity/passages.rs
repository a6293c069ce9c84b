//! Passages that both texts contain, at any positions.

use std::collections::HashMap;

/// Minimum length of a reported passage, in characters. Shorter passages are common phrases.
pub const MIN_PASSAGE_CHARS: usize = 8;
/// Maximum number of reported passages.
pub const MAX_PASSAGES: usize = 50;
/// Maximum number of positions of one seed in `a` that are tried, so that a text with repetitions does not make the
/// search quadratic.
const PLACES_PER_SEED: usize = 8;

/// A passage of both texts, in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPassage {
    /// Its start in `a`.
    pub at_a: usize,
    /// Its start in `b`.
    pub at_b: usize,
    /// Its length.
    pub chars: usize,
}

/// Returns the passages of at least [`MIN_PASSAGE_CHARS`] characters that occur in both texts, longest first, at most
/// [`MAX_PASSAGES`]. They do not overlap in `b`. Each passage is the longest one that begins at its position in `b`;
/// only the first few occurrences of its beginning in `a` are tried. O(|a| + |b|) tried positions, each at the cost of
/// the passage's length.
pub fn shared_passages(a: &[char], b: &[char]) -> Vec<SharedPassage> {
    let mut places: HashMap<&[char], Vec<usize>> = HashMap::new();
    for (at, seed) in a.windows(MIN_PASSAGE_CHARS).enumerate() {
        let found = places.entry(seed).or_default();
        if found.len() < PLACES_PER_SEED {
            found.push(at);
        }
    }
    let mut passages = Vec::new();
    let mut at_b = 0;
    while at_b + MIN_PASSAGE_CHARS <= b.len() {
        let starts = places.get(&b[at_b..at_b + MIN_PASSAGE_CHARS]);
        let longest = starts.into_iter().flatten().map(|&at_a| (common_prefix(&a[at_a..], &b[at_b..]), at_a)).max();
        match longest {
            Some((chars, at_a)) => {
                passages.push(SharedPassage { at_a, at_b, chars });
                at_b += chars;
            }
            None => at_b += 1,
        }
    }
    passages.sort_by_key(|passage| (std::cmp::Reverse(passage.chars), passage.at_b));
    passages.truncate(MAX_PASSAGES);
    passages
}

fn common_prefix(a: &[char], b: &[char]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chars(text: &str) -> Vec<char> {
        text.chars().collect()
    }

    #[test]
    fn moved_passages_are_found() {
        let a = chars("夜里两点还在打桩实在无法入睡。垃圾站三天没有人来清运了。");
        let b = chars("垃圾站三天没有人来清运了。另外,夜里两点还在打桩实在无法入睡。");
        let found: Vec<String> =
            shared_passages(&a, &b).iter().map(|p| b[p.at_b..p.at_b + p.chars].iter().collect()).collect();
        assert_eq!(found, ["夜里两点还在打桩实在无法入睡。", "垃圾站三天没有人来清运了。"]);
    }

    #[test]
    fn a_text_of_one_character_repeated_stays_cheap_and_right() {
        let a = vec!['啊'; 20_000];
        let b = vec!['啊'; 10_000];
        assert_eq!(shared_passages(&a, &b), [SharedPassage { at_a: 7, at_b: 0, chars: 10_000 }]);
    }

    proptest! {
        #[test]
        fn every_passage_stands_in_both(a in "[一二]{0,60}", b in "[一二]{0,60}") {
            let a = chars(&a);
            let b = chars(&b);
            let mut passages = shared_passages(&a, &b);
            for p in &passages {
                prop_assert_eq!(&a[p.at_a..p.at_a + p.chars], &b[p.at_b..p.at_b + p.chars]);
                prop_assert!(p.chars >= MIN_PASSAGE_CHARS);
            }
            passages.sort_by_key(|p| p.at_b);
            prop_assert!(passages.windows(2).all(|w| w[0].at_b + w[0].chars <= w[1].at_b), "passages overlap");
            let found = b.windows(MIN_PASSAGE_CHARS).any(|seed| a.windows(MIN_PASSAGE_CHARS).any(|other| other == seed));
            prop_assert_eq!(found, !passages.is_empty());
        }
    }
}
