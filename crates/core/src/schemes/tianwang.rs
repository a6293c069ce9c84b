//! Tianwang's five methods to recognise mirrored pages (the web page reference article): MD5 of the beginning, or of keywords.
//!
//! 1. MD5 of the first `bytes` of the text. The text is the `text` fields, joined by U+000A. An ASCII character counts 1, any other character 2;
//!    only whole characters are used.
//! 2. MD5 of the top `n` words in heavy order (falling frequency, ties by their bytes), joined by U+001F. A record with fewer than
//!    [`LEAST_KEYWORDS`] distinct words has no digest.
//! 3. As 2, and SIM of their frequencies below `epsilon`.
//! 4. As 5, and SIM of their frequencies below `epsilon`.
//! 5. MD5 of the top `n` words sorted by their bytes, joined by U+001F.
//!
//! SIM(A, B) = Σ (a − b)² / (Σ a² + Σ b²) = 1 − 2 A·B / (|A|² + |B|²) over the top words, aligned by word: 0 for equal vectors, 1
//! for orthogonal vectors.
//!
//! The only key is the digest, so that the keys are complete. Signing is O(length) for method 1 and O(words × log words) for the
//! others; comparing is O(n).

use super::hash::Md5;
use super::reading::Reading;
use super::terms::{Term, Terms};
use super::{Scheme, Signature};
use crate::collection::{AbstractParams, KeywordParams, KeywordVectorParams};

/// Smallest number of distinct words of a record with a signature.
pub const LEAST_KEYWORDS: usize = 3;

/// The `tianwang1` scheme of a collection.
#[derive(Clone, Debug)]
pub struct AbstractScheme {
    bytes: u32,
}

impl AbstractScheme {
    /// Makes the scheme with these parameters.
    pub fn new(params: &AbstractParams) -> Self {
        let &AbstractParams { bytes } = params;
        Self { bytes }
    }
}

impl Scheme for AbstractScheme {
    fn name(&self) -> &'static str {
        "tianwang1"
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        let mut beginning = String::new();
        let mut left = self.bytes;
        'fields: for (number, text) in reading.texts().enumerate() {
            for c in (number > 0).then_some('\n').into_iter().chain(text.chars()) {
                let width = if c.is_ascii() { 1 } else { 2 };
                if width > left {
                    break 'fields;
                }
                left -= width;
                beginning.push(c);
            }
        }
        (!beginning.is_empty()).then(|| Signature::Digest(Md5::of(beginning)))
    }

    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>) {
        digest_key(signature, keys);
    }

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        matches!((a, b), (Signature::Digest(a), Signature::Digest(b)) if a == b)
    }

    fn key_implies_match(&self) -> bool {
        true
    }
}

fn digest_key(signature: &Signature, keys: &mut Vec<u64>) {
    if let Signature::Digest(digest) | Signature::DigestTerms(digest, _) = signature {
        keys.push(digest.key());
    }
}

/// The schemes `tianwang2` to `tianwang5` of a collection.
#[derive(Clone, Debug)]
pub struct KeywordScheme {
    name: &'static str,
    n: usize,
    sorted: bool,
    epsilon: Option<f64>,
}

impl KeywordScheme {
    /// Makes the scheme `tianwang2`.
    pub fn in_order(params: &KeywordParams) -> Self {
        Self { name: "tianwang2", n: params.n as usize, sorted: false, epsilon: None }
    }

    /// Makes the scheme `tianwang3`.
    pub fn in_order_within(params: &KeywordVectorParams) -> Self {
        Self { name: "tianwang3", n: params.n as usize, sorted: false, epsilon: Some(params.epsilon) }
    }

    /// Makes the scheme `tianwang4`.
    pub fn as_set_within(params: &KeywordVectorParams) -> Self {
        Self { name: "tianwang4", n: params.n as usize, sorted: true, epsilon: Some(params.epsilon) }
    }

    /// Makes the scheme `tianwang5`.
    pub fn as_set(params: &KeywordParams) -> Self {
        Self { name: "tianwang5", n: params.n as usize, sorted: true, epsilon: None }
    }
}

impl Scheme for KeywordScheme {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        let mut words = reading.heavy_words();
        if words.len() < LEAST_KEYWORDS {
            return None;
        }
        words.truncate(self.n);
        if self.sorted {
            words.sort_unstable_by_key(|word| word.term);
        }
        let digest = Md5::joined(words.iter().map(|word| word.term));
        if self.epsilon.is_none() {
            return Some(Signature::Digest(digest));
        }
        words.sort_unstable_by_key(|word| word.hash);
        // Two words with the same hash count as one word here. Their digests differ.
        words.dedup_by_key(|word| word.hash);
        let terms = words.iter().map(|word| Term { hash: word.hash, weight: word.count });
        Some(Signature::DigestTerms(digest, Terms(terms.collect())))
    }

    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>) {
        digest_key(signature, keys);
    }

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        match (a, b, self.epsilon) {
            (Signature::Digest(a), Signature::Digest(b), None) => a == b,
            (Signature::DigestTerms(a, words_a), Signature::DigestTerms(b, words_b), Some(epsilon)) => {
                a == b && difference(words_a, words_b) < epsilon
            }
            _ => false,
        }
    }

    fn key_implies_match(&self) -> bool {
        self.epsilon.is_none()
    }
}

/// Returns SIM(A, B); see the module. It is a quotient of whole numbers, so that it is rounded only once.
fn difference(a: &Terms, b: &Terms) -> f64 {
    let squares = a.square() + b.square();
    (squares - 2.0 * a.dot(b)) / squares
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::brute_force::{PAIRS, counts, heavy, hold, texts};
    use super::super::tests::{document, reading};
    use super::*;
    use crate::collection::Role;

    fn sign(scheme: &dyn Scheme, fields: &[(Role, &str)]) -> Option<Signature> {
        let document = document(fields);
        scheme.sign(&reading(&document, &PAIRS, &[1, 1]))
    }

    /// The words are pairs of characters: 夜市 occurs three times, 区夜 and 小区 twice, 市小 once. By their bytes 区夜 < 夜市 < 小区.
    const TEXT: &[(Role, &str)] = &[(Role::Text, "小区夜市小区夜市"), (Role::Whole, "夜市")];

    #[test]
    fn digests_equal_those_of_words_in_an_order_found_by_hand() {
        let params = KeywordParams { n: 3 };
        let in_order = Md5::of("夜市\u{1F}区夜\u{1F}小区");
        assert_eq!(sign(&KeywordScheme::in_order(&params), TEXT), Some(Signature::Digest(in_order)));
        let sorted = Md5::of("区夜\u{1F}夜市\u{1F}小区");
        assert_eq!(sign(&KeywordScheme::as_set(&params), TEXT), Some(Signature::Digest(sorted)));
        assert_eq!(sign(&KeywordScheme::as_set(&params), &[(Role::Text, "小区夜")]), None, "two words are too few");
    }

    #[test]
    fn a_beginning_is_cut_between_characters() {
        let scheme = AbstractScheme::new(&AbstractParams { bytes: 32 });
        let found = sign(&scheme, &[(Role::Whole, "标题"), (Role::Text, "a一二三四五六七八九十一二三四五六")]);
        assert_eq!(found, Some(Signature::Digest(Md5::of("a一二三四五六七八九十一二三四五"))));
        let short = sign(&scheme, &[(Role::Text, "一二"), (Role::Text, "三")]);
        assert_eq!(short, Some(Signature::Digest(Md5::of("一二\n三"))));
        assert_eq!(sign(&scheme, &[(Role::Whole, "标题")]), None);
    }

    #[test]
    fn the_difference_of_vectors_is_zero_for_equal_and_one_for_orthogonal_ones() {
        assert_eq!(difference(&terms(&[(1, 3), (2, 1)]), &terms(&[(1, 3), (2, 1)])), 0.0);
        assert_eq!(difference(&terms(&[(1, 3)]), &terms(&[(2, 4)])), 1.0);
        // ((3−1)² + (1−1)²) / (10 + 2).
        assert!((difference(&terms(&[(1, 3), (2, 1)]), &terms(&[(1, 1), (2, 1)])) - 4.0 / 12.0).abs() < 1e-12);
    }

    fn terms(of: &[(u64, u32)]) -> Terms {
        Terms(of.iter().map(|&(hash, weight)| Term { hash, weight }).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn they_find_exactly_the_pairs_of_their_definitions(
            texts in texts(), n in 3..8_u32, epsilon in prop::sample::select(vec![0.0, 0.05, 0.3, 1.0]),
        ) {
            let top = n as usize;
            hold(&KeywordScheme::in_order(&KeywordParams { n }), &texts, true, |a, b| in_order(top, a, b))?;
            hold(&KeywordScheme::as_set(&KeywordParams { n }), &texts, true, |a, b| as_set(top, a, b))?;
            let params = KeywordVectorParams { n, epsilon };
            hold(&KeywordScheme::in_order_within(&params), &texts, true, |a, b| {
                in_order(top, a, b) && are_near(top, epsilon, a, b)
            })?;
            hold(&KeywordScheme::as_set_within(&params), &texts, true, |a, b| {
                as_set(top, a, b) && are_near(top, epsilon, a, b)
            })?;
        }

        #[test]
        fn beginnings_equal_those_of_the_definition(texts in texts(), bytes in 32..60_u32) {
            hold(&AbstractScheme::new(&AbstractParams { bytes }), &texts, true, |a, b| {
                !a.is_empty() && beginning(a, bytes) == beginning(b, bytes)
            })?;
        }
    }

    /// Returns as many characters from the beginning as fit into `bytes`; a character outside ASCII takes two bytes.
    fn beginning(text: &str, bytes: u32) -> String {
        let mut used = 0;
        let within = text.chars().take_while(|c| {
            used += if c.is_ascii() { 1 } else { 2 };
            used <= bytes
        });
        within.collect()
    }

    /// Returns the `top` heaviest words if the text has enough words.
    fn heaviest(top: usize, text: &str) -> Option<Vec<&str>> {
        let words = heavy(text);
        (words.len() >= 3).then(|| words.into_iter().take(top).collect())
    }

    fn in_order(top: usize, a: &str, b: &str) -> bool {
        heaviest(top, a).is_some_and(|a| Some(a) == heaviest(top, b))
    }

    fn as_set(top: usize, a: &str, b: &str) -> bool {
        let [a, b] = [a, b].map(|text| heaviest(top, text).map(BTreeSet::from_iter));
        a.is_some() && a == b
    }

    fn are_near(top: usize, epsilon: f64, a: &str, b: &str) -> bool {
        let counts_a = counts(a);
        let counts_b = counts(b);
        let mut differences = 0.0;
        let mut squares = 0.0;
        for word in heavy(a).into_iter().take(top) {
            let x = f64::from(counts_a[word]);
            let y = f64::from(counts_b[word]);
            differences += (x - y) * (x - y);
            squares += x * x + y * y;
        }
        differences < epsilon * squares
    }
}
