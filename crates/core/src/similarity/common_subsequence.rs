//! The differences of two sequences: the ranges outside a longest common subsequence.
//!
//! The table of the subsequence is computed with one bit for each pair of elements (Crochemore et al. 2001, "A fast and
//! practical bit-vector algorithm for the longest common subsequence problem"): row i has a 0 in column j if the first
//! i + 1 elements of `a` have a longer common subsequence with the first j + 1 elements of `b` than with the first j.
//! So a computer word holds 64 pairs, and the time does not depend on the number of differences.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;

/// Number of bits in a word of the table.
const WORD_BITS: usize = u64::BITS as usize;

/// A place where two sequences differ: a range of each, of which one may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DifferingRanges {
    /// The elements of the first sequence.
    pub(crate) a: Range<usize>,
    /// The elements of the second sequence.
    pub(crate) b: Range<usize>,
}

/// Returns the ranges outside a longest common subsequence, in order. Between two of them, and before the first and
/// after the last one, both sequences have the same elements. O(|a| · |b| / 64) time,
/// at most (|a| + |b|) · |b| / 8 bytes.
pub(crate) fn differing_ranges<T: Copy + Eq + Hash>(a: &[T], b: &[T]) -> Vec<DifferingRanges> {
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let end = a[start..].iter().rev().zip(b[start..].iter().rev()).take_while(|(a, b)| a == b).count();
    let middle_a = &a[start..a.len() - end];
    let middle_b = &b[start..b.len() - end];
    let mut ranges = Vec::new();
    let mut next_a = start;
    let mut next_b = start;
    let common = common_positions(middle_a, middle_b).into_iter().map(|(at_a, at_b)| (start + at_a, start + at_b));
    for (at_a, at_b) in common.chain([(a.len() - end, b.len() - end)]) {
        if at_a > next_a || at_b > next_b {
            ranges.push(DifferingRanges { a: next_a..at_a, b: next_b..at_b });
        }
        next_a = at_a + 1;
        next_b = at_b + 1;
    }
    ranges
}

/// Returns the positions in both sequences of the elements of a longest common subsequence, ascending.
fn common_positions<T: Copy + Eq + Hash>(a: &[T], b: &[T]) -> Vec<(usize, usize)> {
    if a.is_empty() || b.is_empty() {
        return Vec::new();
    }
    let words = b.len().div_ceil(WORD_BITS);
    let table = bit_table(a, b, words);
    let is_longer =
        |row: usize, column: usize| table[row * words + column / WORD_BITS] >> (column % WORD_BITS) & 1 == 0;
    let mut positions = Vec::new();
    let mut rows = a.len();
    let mut columns = b.len();
    while rows > 0 && columns > 0 {
        let row = rows - 1;
        let column = columns - 1;
        if !is_longer(row, column) {
            columns -= 1;
        } else {
            // The element of this row is a part of the subsequence only if the row before it has a shorter one.
            if row == 0 || !is_longer(row - 1, column) {
                positions.push((row, column));
                columns -= 1;
            }
            rows -= 1;
        }
    }
    positions.reverse();
    positions
}

/// Returns the rows of the table, one for each element of `a`, each of `words` words.
fn bit_table<T: Copy + Eq + Hash>(a: &[T], b: &[T], words: usize) -> Vec<u64> {
    let mut bits_by_element: HashMap<T, Vec<u64>> = HashMap::with_capacity(b.len());
    for (at, element) in b.iter().enumerate() {
        bits_by_element.entry(*element).or_insert_with(|| vec![0; words])[at / WORD_BITS] |= 1 << (at % WORD_BITS);
    }
    let mut table = Vec::with_capacity(a.len() * words);
    let mut row = vec![u64::MAX; words];
    for element in a {
        if let Some(equal) = bits_by_element.get(element) {
            let mut carry = false;
            for (word, &equal) in row.iter_mut().zip(equal) {
                let (sum, carried) = word.overflowing_add(*word & equal);
                let (sum, carried_again) = sum.overflowing_add(u64::from(carry));
                carry = carried || carried_again;
                *word = sum | (*word & !equal);
            }
        }
        table.extend_from_slice(&row);
    }
    table
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the length of a longest common subsequence by its definition.
    fn common_length(a: &[u8], b: &[u8]) -> usize {
        let mut lengths = vec![vec![0; b.len() + 1]; a.len() + 1];
        for (i, x) in a.iter().enumerate() {
            for (j, y) in b.iter().enumerate() {
                lengths[i + 1][j + 1] =
                    if x == y { lengths[i][j] + 1 } else { lengths[i][j + 1].max(lengths[i + 1][j]) };
            }
        }
        lengths[a.len()][b.len()]
    }

    fn ranges(a: &str, b: &str) -> Vec<(Range<usize>, Range<usize>)> {
        let [a, b] = [a, b].map(|text| text.chars().collect::<Vec<_>>());
        differing_ranges(&a, &b).into_iter().map(|range| (range.a, range.b)).collect()
    }

    proptest! {
        #[test]
        fn the_rest_is_equal_and_as_long_as_possible(
            a in prop::collection::vec(0u8..6, 0..200), b in prop::collection::vec(0u8..6, 0..200),
        ) {
            let mut common = 0;
            let mut last = (0, 0);
            for DifferingRanges { a: in_a, b: in_b } in differing_ranges(&a, &b) {
                prop_assert!(!in_a.is_empty() || !in_b.is_empty());
                prop_assert_eq!(&a[last.0..in_a.start], &b[last.1..in_b.start]);
                common += in_a.start - last.0;
                last = (in_a.end, in_b.end);
            }
            prop_assert_eq!(&a[last.0..], &b[last.1..]);
            prop_assert_eq!(common + a.len() - last.0, common_length(&a, &b));
        }
    }

    #[test]
    fn differences_are_ranges_in_both() {
        assert_eq!(ranges("路灯不亮", "路灯不亮"), []);
        assert_eq!(ranges("", ""), []);
        assert_eq!(ranges("", "路"), [(0..0, 0..1)]);
        assert_eq!(ranges("三号路灯", "五号路灯很暗"), [(0..1, 0..1), (4..4, 4..6)]);
        assert_eq!(ranges("梧桐湾小区停水", "鹤鸣湾家园停水"), [(0..2, 0..2), (3..5, 3..5)]);
    }
}
