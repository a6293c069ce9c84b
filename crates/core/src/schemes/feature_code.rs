//! Chinese feature codes (特征码): the characters around the ends of sentences.
//!
//! For each mark in a `text` field, the `k` Han characters before the mark and the `k` Han characters after it make one string; other characters
//! are skipped. A mark with fewer characters on either side makes no string. The marks are 。, or 。 ! ?, or every character that is neither
//! letter nor digit nor white space. (Normalisation has replaced ！ and ？ with ASCII marks.) The code is the set of the hashes H of the strings;
//! it keeps the [`MAX_HASHES`] smallest.
//!
//! Every string is a key. Two records match if they share at least one string, and at least `share` of the smaller set. About 18 % of
//! petitions have no code with 。 ! ? at k = 5. Signing is O(length + marks × k), comparing O(marks).

use super::hash::city64_bytes;
use super::reading::Reading;
use super::shingle::MAX_HASHES;
use super::{Scheme, Signature, common, hashes, is_share};
use crate::collection::{FeatureCodeParams, Marks};
use crate::text::units::{is_han, is_word_char};

/// The `feature_code` scheme of a collection.
#[derive(Clone, Debug)]
pub struct FeatureCode {
    params: FeatureCodeParams,
}

impl FeatureCode {
    /// Makes the scheme with these parameters.
    pub fn new(params: &FeatureCodeParams) -> Self {
        Self { params: params.clone() }
    }

    fn is_mark(&self, c: char) -> bool {
        match self.params.marks {
            Marks::FullStop => c == '。',
            Marks::Sentence => matches!(c, '。' | '!' | '?'),
            Marks::Any => !is_word_char(c) && !c.is_whitespace(),
        }
    }

    fn codes(&self, text: &str, found: &mut Vec<u64>) {
        let mut han = String::with_capacity(text.len());
        let mut places = Vec::new();
        let mut marks = Vec::new();
        for c in text.chars() {
            if is_han(c) {
                places.push(han.len());
                han.push(c);
            } else if self.is_mark(c) {
                marks.push(places.len());
            }
        }
        places.push(han.len());
        // Marks without a Han character between them make the same string.
        marks.dedup();
        let k = self.params.k as usize;
        let codes = marks.into_iter().filter(|&mark| mark >= k && mark + k < places.len());
        found.extend(codes.map(|mark| city64_bytes(&han.as_bytes()[places[mark - k]..places[mark + k]])));
    }
}

impl Scheme for FeatureCode {
    fn name(&self) -> &'static str {
        "feature_code"
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        let mut found = Vec::new();
        reading.texts().for_each(|text| self.codes(text, &mut found));
        found.sort_unstable();
        found.dedup();
        found.truncate(MAX_HASHES);
        hashes(found)
    }

    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>) {
        if let Signature::Hashes(codes) = signature {
            keys.extend_from_slice(codes);
        }
    }

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        let (Signature::Hashes(a), Signature::Hashes(b)) = (a, b) else { return false };
        let shared = common(a, b);
        shared > 0 && is_share(shared, self.params.share, a.len().min(b.len()))
    }

    fn key_implies_match(&self) -> bool {
        self.params.share == 0.0
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
    use crate::collection::Role;

    fn codes(marks: Marks, text: &str) -> BTreeSet<u64> {
        let params = FeatureCodeParams { k: 2, marks, ..FeatureCodeParams::default() };
        let document = document(&[(Role::Whole, "不在其中。不在其中"), (Role::Text, text)]);
        match FeatureCode::new(&params).sign(&reading(&document, &PAIRS, &[1, 1])) {
            Some(Signature::Hashes(hashes)) => hashes.iter().copied().collect(),
            None => BTreeSet::new(),
            Some(_) => unreachable!("feature_code gives hashes"),
        }
    }

    #[test]
    fn strings_equal_those_found_by_hand() {
        let text = "灯。路灯不亮a。1夜,里危险!!请修 理?好";
        assert_eq!(codes(Marks::FullStop, text), expected(&["不亮夜里"]), "the first has one character before it");
        assert_eq!(codes(Marks::Sentence, text), expected(&["不亮夜里", "危险请修"]));
        assert_eq!(codes(Marks::Any, text), expected(&["不亮夜里", "危险请修", "亮夜里危"]));
    }

    fn expected(strings: &[&str]) -> BTreeSet<u64> {
        strings.iter().map(|string| city64(string)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn it_finds_exactly_the_pairs_of_the_definition(
            texts in texts(), k in 2..4_u32, share in prop::sample::select(vec![0.0, 0.28, 0.3, 1.0]),
            marks in prop::sample::select(vec![Marks::FullStop, Marks::Sentence, Marks::Any]),
        ) {
            let scheme = FeatureCode::new(&FeatureCodeParams { k, marks, share });
            hold(&scheme, &texts, true, |a, b| {
                let a = naive_strings(a, k as usize, marks);
                let b = naive_strings(b, k as usize, marks);
                let shared = a.intersection(&b).count();
                shared >= 1 && at_least(shared, share, a.len().min(b.len()))
            })?;
        }
    }

    /// Returns the strings of `k` Han characters before and `k` after each mark.
    fn naive_strings(text: &str, k: usize, marks: Marks) -> BTreeSet<Vec<char>> {
        let ends = text.char_indices().filter(|&(_, c)| match marks {
            Marks::FullStop => c == '。',
            Marks::Sentence => "。!?".contains(c),
            Marks::Any => !c.is_alphanumeric() && c != ' ',
        });
        let mut found = BTreeSet::new();
        for (at, c) in ends {
            let before = naive_han(&text[..at]);
            let after = naive_han(&text[at + c.len_utf8()..]);
            if before.len() >= k && after.len() >= k {
                found.insert([&before[before.len() - k..], &after[..k]].concat());
            }
        }
        found
    }

    fn naive_han(text: &str) -> Vec<char> {
        text.chars().filter(|c| *c >= '\u{4E00}' && c.is_alphanumeric()).collect()
    }
}
