//! Sets of character shingles, and the two measures for them (Broder 1997).

use crate::text::shingles;

/// The set of distinct runs of `width` letters, digits and Han characters of a text. Punctuation and white space are
/// skipped, so that they can change freely.
///
/// A shingle of up to three characters is its own code, so that the set is exact. A longer shingle gets a 64-bit hash;
/// a collision has a probability of about n²/2^65. A text with fewer than `width` characters is one shingle. A text
/// without any has none. It is built in O(L log L) and takes 8 bytes for each distinct shingle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShingleSet {
    /// Ascending and distinct.
    codes: Vec<u64>,
}

impl ShingleSet {
    /// Returns the shingles of `text` with `width` characters each (at least 1).
    pub fn of(text: &str, width: u8) -> Self {
        Self::of_parts(&[text], width)
    }

    /// Returns the shingles of the parts of a text. No shingle contains characters of two parts.
    pub fn of_parts(parts: &[&str], width: u8) -> Self {
        let mut codes = match parts {
            [whole] => shingles::codes(whole, width),
            _ => parts.iter().flat_map(|part| shingles::codes(part, width)).collect(),
        };
        codes.sort_unstable();
        codes.dedup();
        if codes.capacity() > 2 * codes.len() {
            codes.shrink_to_fit();
        }
        Self { codes }
    }

    /// Returns the number of distinct shingles.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// True if there is no shingle.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// Returns the number of bytes that the set occupies.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.codes.capacity() * size_of::<u64>()
    }

    /// Returns both measures of two sets that were built with the same width. The measures of two empty sets are 0.
    /// O(|a| + |b|).
    pub fn resemblance(&self, other: &Self) -> Resemblance {
        Resemblance::of(intersection(&self.codes, &other.codes), self.len(), other.len())
    }

    /// Returns the shingles as numbers, ascending.
    pub fn codes(&self) -> &[u64] {
        &self.codes
    }

    /// Creates a set of artificial shingles.
    #[cfg(test)]
    pub(super) fn from_codes(mut codes: Vec<u64>) -> Self {
        codes.sort_unstable();
        codes.dedup();
        Self { codes }
    }
}

fn intersection(a: &[u64], b: &[u64]) -> usize {
    let mut i = 0;
    let mut j = 0;
    let mut shared = 0;
    while i < a.len() && j < b.len() {
        let x = a[i];
        let y = b[j];
        // The loop has no branches: the order of hashes is random, so that a processor could not predict a branch.
        shared += usize::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    shared
}

/// Minimum plain Jaccard similarity of texts that share a form.
const SAME_FORM_JACCARD: f64 = 0.3;
/// Minimum plain containment of texts of which one contains the form of the other.
const SAME_FORM_CONTAINMENT: f64 = 0.5;

/// The similarity of two shingle sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resemblance {
    /// |A ∩ B| / |A ∪ B|, 0 to 1.
    pub jaccard: f64,
    /// |A ∩ B| / min(|A|, |B|), 0 to 1. It is high for a second letter that quotes and extends the first one.
    pub containment: f64,
}

impl Resemblance {
    /// Returns the measures of two sets of `a` and `b` shingles that share `shared` shingles, but at most as many as
    /// the smaller set has. Both measures increase with `shared`.
    pub fn of(shared: usize, a: usize, b: usize) -> Self {
        let smaller = a.min(b);
        let shared = shared.min(smaller);
        Self { jaccard: share(shared, a + b - shared), containment: share(shared, smaller) }
    }

    /// True if both texts share a form: large parts of their texts are the same, whatever their matters are.
    pub fn is_same_form(&self) -> bool {
        self.jaccard >= SAME_FORM_JACCARD || self.containment >= SAME_FORM_CONTAINMENT
    }
}

fn share(part: usize, of: usize) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn brute(text: &str, width: usize) -> BTreeSet<Vec<char>> {
        let chars: Vec<char> = text.chars().filter(|c| c.is_alphanumeric()).collect();
        if chars.is_empty() {
            return BTreeSet::new();
        }
        if chars.len() < width {
            return BTreeSet::from([chars]);
        }
        chars.windows(width).map(<[char]>::to_vec).collect()
    }

    #[test]
    fn punctuation_and_space_do_not_count() {
        assert_eq!(ShingleSet::of("路灯坏了,三天没修。", 3), ShingleSet::of("路灯 坏了 三天没修", 3));
    }

    #[test]
    fn a_short_text_is_one_shingle_and_an_empty_one_none() {
        assert_eq!(ShingleSet::of("路灯", 3).len(), 1);
        assert!(ShingleSet::of("。!? ", 3).is_empty());
        let nothing = ShingleSet::of("", 3);
        assert_eq!(nothing.resemblance(&nothing), Resemblance { jaccard: 0.0, containment: 0.0 });
    }

    #[test]
    fn a_quoted_text_is_contained_but_not_alike() {
        let quoted = ShingleSet::of("小区电梯停运半个月", 3);
        let quoting = ShingleSet::of("我上月写过信:小区电梯停运半个月,至今没有人来修,老人上下楼十分困难", 3);
        let Resemblance { jaccard, containment } = quoted.resemblance(&quoting);
        assert_eq!(containment, 1.0);
        assert!(jaccard < 0.4, "{jaccard}");
    }

    proptest! {
        #[test]
        fn measures_agree_with_sets_of_strings(
            a in "[一二三四ab ,。]{0,30}", b in "[一二三四ab ,。]{0,30}", width in 1usize..6,
        ) {
            let set_a = brute(&a, width);
            let set_b = brute(&b, width);
            let shared = set_a.intersection(&set_b).count() as f64;
            // If a set is empty, no shingle is shared.
            let union = set_a.union(&set_b).count().max(1) as f64;
            let smaller = set_a.len().min(set_b.len()).max(1) as f64;
            let measured = ShingleSet::of(&a, width as u8).resemblance(&ShingleSet::of(&b, width as u8));
            prop_assert_eq!(measured, Resemblance { jaccard: shared / union, containment: shared / smaller });
        }
    }
}
