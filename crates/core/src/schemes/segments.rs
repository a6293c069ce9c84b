//! Segment signatures (Shivakumar, Garcia-Molina 1995): hashes of the pieces of a text, some of which must be equal.
//!
//! The `text` and `whole` fields are cut into clauses (at every character that is neither a letter nor a digit), sentences (after 。 ! ?) or
//! groups of n lines; no piece crosses fields. Only the letters and digits of a piece count. Pieces of fewer than `min_units` units (a Han
//! character, or a run of letters or digits) are left out. The signature contains H of each distinct piece; it keeps the [`MAX_HASHES`]
//! smallest.
//!
//! Every hash is a key. Two records match if they share at least max(`agree`, ⌈`share` × n⌉) hashes, where n is the number of segments of the
//! record with fewer segments. Signing is O(length + segments × log segments), comparing O(segments).

use super::hash::city64_bytes;
use super::reading::Reading;
use super::shingle::MAX_HASHES;
use super::{Scheme, Signature, common, hashes, is_share};
use crate::collection::{Role, SegmentsParams, Split};
use crate::text::DocumentField;
use crate::text::units::{for_each_unit, is_word_char};

/// The `segments` scheme of a collection.
#[derive(Clone, Debug)]
pub struct SegmentScheme {
    params: SegmentsParams,
}

impl SegmentScheme {
    /// Makes the scheme with these parameters.
    pub fn new(params: &SegmentsParams) -> Self {
        Self { params: params.clone() }
    }

    /// Returns H of the letters and digits of a piece; `None` if the piece is too short.
    fn hash(&self, piece: &str) -> Option<u64> {
        let mut bytes = Vec::with_capacity(piece.len());
        let mut units = 0;
        for_each_unit(piece, |unit| {
            bytes.extend_from_slice(unit);
            units += 1;
        });
        (units >= self.params.min_units).then(|| city64_bytes(&bytes))
    }

    fn segments(&self, field: &DocumentField, found: &mut Vec<u64>) {
        let text = field.text.as_str();
        match self.params.split {
            Split::Clause => found.extend(text.split(|c| !is_word_char(c)).filter_map(|piece| self.hash(piece))),
            Split::Sentence => found.extend(text.split(['。', '!', '?']).filter_map(|piece| self.hash(piece))),
            Split::Lines(count) => {
                let mut start = 0;
                let ends = field.line_ends.iter().map(|end| *end as usize).skip(count as usize - 1);
                for end in ends.step_by(count as usize).chain([text.len()]) {
                    found.extend(self.hash(&text[start..end]));
                    start = end;
                }
            }
        }
    }
}

impl Scheme for SegmentScheme {
    fn name(&self) -> &'static str {
        "segments"
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        let mut found = Vec::new();
        let fields = reading.document().fields.iter().filter(|field| matches!(field.role, Role::Text | Role::Whole));
        fields.for_each(|field| self.segments(field, &mut found));
        found.sort_unstable();
        found.dedup();
        found.truncate(MAX_HASHES);
        hashes(found)
    }

    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>) {
        if let Signature::Hashes(segments) = signature {
            keys.extend_from_slice(segments);
        }
    }

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        let (Signature::Hashes(a), Signature::Hashes(b)) = (a, b) else { return false };
        let shared = common(a, b);
        shared >= self.params.agree as usize && is_share(shared, self.params.share, a.len().min(b.len()))
    }

    fn key_implies_match(&self) -> bool {
        self.params.agree == 1 && self.params.share == 0.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::brute_force::{PAIRS, at_least, hold, texts};
    use super::super::hash::city64;
    use super::super::tests::{document, reading};
    use super::*;

    fn sign(split: Split, document: &crate::text::Document) -> Option<BTreeSet<u64>> {
        let params = SegmentsParams { split, min_units: 3, ..SegmentsParams::default() };
        match SegmentScheme::new(&params).sign(&reading(document, &PAIRS, &[1, 1]))? {
            Signature::Hashes(hashes) => Some(hashes.iter().copied().collect()),
            _ => unreachable!("segments gives hashes"),
        }
    }

    fn expected(pieces: &[&str]) -> Option<BTreeSet<u64>> {
        Some(pieces.iter().map(|piece| city64(piece)).collect())
    }

    #[test]
    fn pieces_equal_those_cut_by_hand() {
        let document = document(&[(Role::Whole, "夜市噪音"), (Role::Text, "小区路灯,a1坏了!无人 修理。好。小区路灯")]);
        assert_eq!(sign(Split::Clause, &document), expected(&["夜市噪音", "小区路灯", "a1坏了"]));
        let sentences = ["夜市噪音", "小区路灯a1坏了", "无人修理", "小区路灯"];
        assert_eq!(sign(Split::Sentence, &document), expected(&sentences));
        assert_eq!(sign(Split::Lines(1), &document), expected(&["夜市噪音", "小区路灯a1坏了无人修理好小区路灯"]));
    }

    #[test]
    fn lines_are_taken_in_groups() {
        let mut document = document(&[(Role::Text, "第一行 第二行 第三行 第四行 第五行")]);
        document.fields[0].line_ends = vec![9, 19, 29, 39];
        assert_eq!(sign(Split::Lines(1), &document), expected(&["第一行", "第二行", "第三行", "第四行", "第五行"]));
        assert_eq!(sign(Split::Lines(2), &document), expected(&["第一行第二行", "第三行第四行", "第五行"]));
        assert_eq!(sign(Split::Lines(9), &document), expected(&["第一行第二行第三行第四行第五行"]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn it_finds_exactly_the_pairs_of_the_definition(
            texts in texts(), min_units in 1..6_u32, agree in 1..4_u32, share in prop::sample::select(vec![0.0, 0.28, 0.5, 1.0]),
            sentences: bool,
        ) {
            let split = if sentences { Split::Sentence } else { Split::Clause };
            let params = SegmentsParams { split, min_units, agree, share };
            hold(&SegmentScheme::new(&params), &texts, true, |a, b| {
                let a = naive_pieces(a, split, min_units as usize);
                let b = naive_pieces(b, split, min_units as usize);
                let shared = a.intersection(&b).count();
                let least = a.len().min(b.len());
                least > 0 && shared >= agree as usize && at_least(shared, share, least)
            })?;
        }
    }

    fn naive_pieces(text: &str, split: Split, min_units: usize) -> BTreeSet<String> {
        let pieces = text.split(|c: char| match split {
            Split::Sentence => "。!?".contains(c),
            _ => !c.is_alphanumeric(),
        });
        let mut found = BTreeSet::new();
        for piece in pieces {
            // A piece of the vocabulary has Han characters or one run of letters and digits.
            let han = piece.chars().filter(|c| *c > '\u{4E00}' && c.is_alphanumeric()).count();
            let runs = piece.split(|c: char| !c.is_ascii_alphanumeric()).filter(|run| !run.is_empty()).count();
            if han + runs >= min_units {
                found.insert(piece.chars().filter(|c| c.is_alphanumeric()).collect());
            }
        }
        found
    }
}
