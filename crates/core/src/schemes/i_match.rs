//! I-Match (Chowdhury et al. 2002): one hash of the words that are neither common nor rare.
//!
//! A distinct word counts if its normalised inverse document frequency, ln(N/df) / ln N, lies from `low` to `high`. The statistics are
//! those of the generation; words that do not occur in them are left out. The hash is H of the words, sorted by their bytes and joined by
//! U+001F. Fewer than `min` words give no hash. `lexicons` is the number of further hashes (Kołcz et al. 2004): lexicon j, from 1, leaves
//! out the words w with H("j:w") < 0.33 · 2^64.
//!
//! Every hash is a key, and two records with a common hash match, so that the keys are complete. The scheme signs nothing without statistics of
//! at least a hundred records. Signing is O(words × (log words + lexicons)), comparing O(lexicons).

use std::sync::Arc;

use super::hash::city64;
use super::reading::{Reading, Word};
use super::statistics::{Statistics, reason_inactive};
use super::{Scheme, Signature, common, hashes};
use crate::collection::IMatchParams;

/// 0.33 · 2^64. A lexicon leaves out the words whose hash with the number of the lexicon is lower.
const DROPPED_BELOW: u64 = (0.33 * 18_446_744_073_709_551_616.0) as u64;
/// Tolerance at the bounds `low` and `high`, so that a rounding error never leaves out a word on a bound. Neighbouring frequencies differ by
/// more.
const SLACK: f64 = 1e-12;

/// The `i_match` scheme of a collection.
#[derive(Clone, Debug)]
pub struct IMatch {
    params: IMatchParams,
    statistics: Option<Arc<Statistics>>,
}

impl IMatch {
    /// Makes the scheme with these parameters and statistics.
    pub fn new(params: &IMatchParams, statistics: Option<Arc<Statistics>>) -> Self {
        Self { params: params.clone(), statistics }
    }

    fn counts(&self, word: &Word<'_>, statistics: &Statistics) -> bool {
        let documents = statistics.documents() as f64;
        match statistics.frequency(word.hash) {
            0 => false,
            frequency => {
                let nidf = (documents / f64::from(frequency)).ln() / documents.ln();
                (self.params.low - SLACK..=self.params.high + SLACK).contains(&nidf)
            }
        }
    }

    /// Returns H of `words`; `None` if there are fewer than `min`.
    fn hash<'a>(&self, words: impl Iterator<Item = &'a str>) -> Option<u64> {
        let words: Vec<&str> = words.collect();
        (words.len() >= self.params.min as usize).then(|| city64(&words.join("\u{1F}")))
    }
}

impl Scheme for IMatch {
    fn name(&self) -> &'static str {
        "i_match"
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        let statistics = self.statistics.as_deref().filter(|statistics| statistics.are_enough())?;
        let counting = reading.words().iter().filter(|word| self.counts(word, statistics));
        let mut words: Vec<&str> = counting.map(|word| word.term).collect();
        words.sort_unstable();
        let lexicons = (1..=self.params.lexicons).filter_map(|lexicon| {
            self.hash(words.iter().copied().filter(|word| city64(&format!("{lexicon}:{word}")) >= DROPPED_BELOW))
        });
        hashes(self.hash(words.iter().copied()).into_iter().chain(lexicons).collect())
    }

    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>) {
        if let Signature::Hashes(hashes) = signature {
            keys.extend_from_slice(hashes);
        }
    }

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        matches!((a, b), (Signature::Hashes(a), Signature::Hashes(b)) if common(a, b) > 0)
    }

    fn key_implies_match(&self) -> bool {
        true
    }

    fn needs_statistics(&self) -> bool {
        true
    }

    fn inactive_reason(&self) -> Option<String> {
        reason_inactive("i_match", self.statistics.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::brute_force::{PAIRS, counts, hold, texts};
    use super::super::tests::{document, reading};
    use super::*;
    use crate::collection::Role;

    /// Statistics of a hundred records: the word 小区 occurs in all of them, 夜市 in ten, 噪音 in one.
    fn statistics(documents: u64) -> Option<Arc<Statistics>> {
        let frequencies = [("小区", 100), ("夜市", 10), ("噪音", 1), ("扰民", 10), ("物业", 5), ("投诉", 30)];
        let frequencies = frequencies.map(|(word, frequency)| (city64(word), frequency));
        Some(Arc::new(Statistics::from_parts(documents, frequencies)))
    }

    fn params() -> IMatchParams {
        IMatchParams { min: 2, ..IMatchParams::default() }
    }

    fn sign(params: &IMatchParams, text: &str) -> Option<Signature> {
        let document = document(&[(Role::Text, text)]);
        IMatch::new(params, statistics(100)).sign(&reading(&document, &PAIRS, &[1]))
    }

    #[test]
    fn the_hash_uses_only_words_of_medium_frequency() {
        // ln(100/10)/ln 100 = 0.5 lies in the range; 小区 (0), 投诉 (0.26), 噪音 (1) and the unknown 路灯 do not.
        let found = sign(&params(), "扰民 夜市 小区 投诉 噪音 路灯 物业 夜市");
        let expected = 0xfe40_50ff_648a_f41b;
        assert_eq!(found, Some(Signature::Hashes([expected].into())));
        assert_eq!(found, sign(&params(), "物业,夜市,扰民"));
        assert_eq!(sign(&params(), "夜市 小区 投诉"), None, "one word is fewer than min");
    }

    #[test]
    fn a_lexicon_leaves_out_a_third_of_the_words() {
        let words: Vec<String> = (0..3000).map(|number| format!("1:{number}")).collect();
        let dropped = words.iter().filter(|word| city64(word) < DROPPED_BELOW).count();
        assert!((900..1080).contains(&dropped), "{dropped}");
        let params = IMatchParams { lexicons: 3, ..params() };
        let expected = [0x952a_f2f2_cc4b_4686, 0xfe40_50ff_648a_f41b];
        assert_eq!(sign(&params, "扰民 夜市 物业"), Some(Signature::Hashes(expected.into())));
    }

    #[test]
    fn without_a_hundred_records_it_signs_nothing_and_gives_the_reason() {
        let document = document(&[(Role::Text, "扰民 夜市 物业")]);
        for statistics in [None, statistics(99)] {
            let scheme = IMatch::new(&params(), statistics);
            assert!(scheme.inactive_reason().is_some_and(|reason| reason.starts_with("i_match needs")));
            assert_eq!(scheme.sign(&reading(&document, &PAIRS, &[1])), None);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn it_finds_exactly_the_pairs_of_the_definition(texts in texts(), lexicons in 0..3_u32, min in 1..3_u32) {
            let params = IMatchParams { lexicons, min, ..IMatchParams::default() };
            let known = statistics(100).unwrap();
            hold(&IMatch::new(&params, statistics(100)), &texts, true, |a, b| {
                let mut a = naive_sets(a, lexicons, &known);
                a.retain(|words| words.len() >= min as usize);
                !a.is_disjoint(&naive_sets(b, lexicons, &known))
            })?;
        }
    }

    /// Returns the words of a text that are neither common nor rare, and for each further lexicon the words that it does not leave out.
    fn naive_sets<'t>(text: &'t str, lexicons: u32, known: &Statistics) -> BTreeSet<BTreeSet<&'t str>> {
        let words = counts(text).into_keys().filter(|word| {
            let nidf = (100.0 / f64::from(known.frequency(city64(word)))).ln() / 100_f64.ln();
            (0.5..=0.8).contains(&nidf)
        });
        let words: BTreeSet<&str> = words.collect();
        let mut sets = BTreeSet::from([words.clone()]);
        for j in 1..=lexicons {
            let kept = words.iter().filter(|word| city64(&format!("{j}:{word}")) as f64 >= 0.33 * 2_f64.powi(64));
            sets.insert(kept.copied().collect());
        }
        sets
    }
}
