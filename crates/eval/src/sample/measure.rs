//! The similarity of two generated texts, by a simple measure.
//!
//! The sample has its own measure, which is independent of verification, so that a change of verification does not affect the numbers of
//! the sample. O(characters) time and memory.

/// Two measures of the common part of two texts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextOverlap {
    /// Share of all 3-grams that both texts contain.
    pub jaccard: f64,
    /// Share of the smaller set that both texts contain.
    pub containment: f64,
}

/// Returns the overlap of the sets of character 3-grams, without white space and punctuation, rounded to four digits. The overlap of a text
/// that is too short for a 3-gram is 0.
pub fn overlap(a: &str, b: &str) -> TextOverlap {
    TextGrams::of(a).overlap(&TextGrams::of(b))
}

/// The character 3-grams of a text, ascending, each once; for texts that are compared with several others.
#[derive(Clone, Debug)]
pub(super) struct TextGrams(Vec<[char; 3]>);

impl TextGrams {
    /// Returns the 3-grams of `text`.
    pub(super) fn of(text: &str) -> Self {
        let chars: Vec<char> = text.chars().filter(|c| c.is_alphanumeric()).collect();
        let mut grams: Vec<_> = chars.windows(3).map(|window| [window[0], window[1], window[2]]).collect();
        grams.sort_unstable();
        grams.dedup();
        Self(grams)
    }

    /// Returns the same as [`overlap`].
    pub(super) fn overlap(&self, other: &Self) -> TextOverlap {
        let a = self.0.len();
        let b = other.0.len();
        let shared = self.shared(other);
        TextOverlap { jaccard: share(shared, a + b - shared), containment: share(shared, a.min(b)) }
    }

    fn shared(&self, other: &Self) -> usize {
        let mut i = 0;
        let mut j = 0;
        let mut shared = 0;
        while let (Some(x), Some(y)) = (self.0.get(i), other.0.get(j)) {
            shared += usize::from(x == y);
            i += usize::from(x <= y);
            j += usize::from(y <= x);
        }
        shared
    }
}

/// Returns the share of `part` in `whole` with four decimal places; 0 if `whole` is 0.
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64 * 1e4).round() / 1e4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overlap_of_sets_counted_by_hand() {
        // The 3-grams abc, bcd, cde and bcd, cde, def: two of four are common.
        assert_eq!(overlap("abcde", "b c,def"), TextOverlap { jaccard: 0.5, containment: 0.6667 });
        assert_eq!(overlap("ab", "ab"), TextOverlap { jaccard: 0.0, containment: 0.0 });
        assert_eq!(overlap("abcd", "abcd"), TextOverlap { jaccard: 1.0, containment: 1.0 });
    }
}
