//! How alike two made-up texts are, measured the plain way.
//!
//! The sample's own measure, apart from verification's, so that what the sample says of itself changes with nothing
//! else. O(characters) time and memory.

use std::collections::BTreeSet;

/// Two views of what two texts share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overlap {
    /// Share of all 3-grams that both have.
    pub jaccard: f64,
    /// Share of the smaller set that both have.
    pub containment: f64,
}

/// Overlap of the sets of character 3-grams, without white space and punctuation, rounded to four digits. Texts too
/// short for a 3-gram overlap with nothing.
pub fn overlap(a: &str, b: &str) -> Overlap {
    let (a, b) = (trigrams(a), trigrams(b));
    let shared = a.intersection(&b).count();
    let share = |of: usize| if of == 0 { 0.0 } else { (shared as f64 / of as f64 * 1e4).round() / 1e4 };
    Overlap { jaccard: share(a.len() + b.len() - shared), containment: share(a.len().min(b.len())) }
}

fn trigrams(text: &str) -> BTreeSet<[char; 3]> {
    let chars: Vec<char> = text.chars().filter(|c| c.is_alphanumeric()).collect();
    chars.windows(3).map(|window| [window[0], window[1], window[2]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overlap_of_sets_counted_by_hand() {
        // abc bcd cde against bcd cde def: two shared of four.
        assert_eq!(overlap("abcde", "b c,def"), Overlap { jaccard: 0.5, containment: 0.6667 });
        assert_eq!(overlap("ab", "ab"), Overlap { jaccard: 0.0, containment: 0.0 });
        assert_eq!(overlap("abcd", "abcd"), Overlap { jaccard: 1.0, containment: 1.0 });
    }
}
