//! Aligns two texts for a person to read.

use super::common_subsequence::differing_ranges;

/// Maximum length of the texts that are aligned, in characters. Alignment takes 4 MB at most. The rest
/// of a longer text is left out.
pub const MAX_DIFF_CHARS: usize = 4_000;

/// A piece of an alignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A part of both texts.
    Equal(String),
    /// A part of the first text only.
    OnlyA(String),
    /// A part of the second text only.
    OnlyB(String),
}

/// Aligns the first [`MAX_DIFF_CHARS`] characters of both texts by a longest common subsequence. The pieces that are not `OnlyB` form the
/// first text; the pieces that are not `OnlyA` form the second text.
pub fn align(a: &[char], b: &[char]) -> Vec<Piece> {
    let a = &a[..a.len().min(MAX_DIFF_CHARS)];
    let b = &b[..b.len().min(MAX_DIFF_CHARS)];
    let mut pieces = Vec::new();
    let mut add = |piece: fn(String) -> Piece, chars: &[char]| {
        if !chars.is_empty() {
            pieces.push(piece(chars.iter().collect()));
        }
    };
    let mut next = 0;
    for range in differing_ranges(a, b) {
        add(Piece::Equal, &a[next..range.a.start]);
        next = range.a.end;
        add(Piece::OnlyA, &a[range.a]);
        add(Piece::OnlyB, &b[range.b]);
    }
    add(Piece::Equal, &a[next..]);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_pieces_give_both_texts_back(a in "[一二三]{0,40}", b in "[一二三]{0,40}") {
            let [chars_a, chars_b] = [&a, &b].map(|text| text.chars().collect::<Vec<_>>());
            let pieces = align(&chars_a, &chars_b);
            let mut left = String::new();
            let mut right = String::new();
            for piece in &pieces {
                match piece {
                    Piece::Equal(text) => {
                        left += text;
                        right += text;
                    }
                    Piece::OnlyA(text) => left += text,
                    Piece::OnlyB(text) => right += text,
                }
            }
            prop_assert_eq!((left, right), (a, b));
        }
    }
}
