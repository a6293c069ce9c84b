//! Plain BM25 over all records. The title counts three times, the text once. A query is the set of its terms.

use std::collections::HashMap;

use doppel_core::text::words::Words;

const K1: f64 = 1.2;
const B: f64 = 0.75;
/// Number of times that a title counts.
const TITLE: u32 = 3;

/// The terms into which a text is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermCut {
    /// Words of the dictionary, without stop words.
    Words,
    /// Pairs of adjacent letters, digits and Han characters.
    Pairs,
}

/// All records, prepared for queries.
#[derive(Debug)]
pub struct Bm25Index {
    /// For each term, the records that contain it, with the number of occurrences.
    postings: HashMap<String, Vec<(u32, u32)>>,
    lengths: Vec<u32>,
    cut: TermCut,
    words: Words,
}

impl Bm25Index {
    /// Creates the ranking over `records`. Each has a normalised title and text.
    pub fn new(records: &[(String, String)], cut: TermCut, words: Words) -> Self {
        let mut all = Self { postings: HashMap::new(), lengths: Vec::with_capacity(records.len()), cut, words };
        for (record, (title, text)) in (0..).zip(records) {
            let terms = all.terms(title, text);
            all.lengths.push(terms.values().sum());
            for (term, count) in terms {
                all.postings.entry(term).or_default().push((record, count));
            }
        }
        all
    }

    fn terms(&self, title: &str, text: &str) -> HashMap<String, u32> {
        let mut found = HashMap::new();
        for (text, times) in [(title, TITLE), (text, 1)] {
            match self.cut {
                TermCut::Words => self.words.for_each(text, |word, _| add_term(&mut found, word, times)),
                TermCut::Pairs => pairs(text, |pair| add_term(&mut found, pair, times)),
            }
        }
        found
    }

    /// Returns all records that contain a term of the query, best first; among records with equal scores the earlier record first.
    pub fn rank(&self, title: &str, text: &str) -> Vec<u32> {
        let records = self.lengths.len() as f64;
        let average = self.lengths.iter().map(|length| f64::from(*length)).sum::<f64>() / records.max(1.0);
        let mut scores: HashMap<u32, f64> = HashMap::new();
        let mut terms: Vec<_> = self.terms(title, text).into_keys().collect();
        // The terms are sorted, because sums of floating-point numbers depend on their order.
        terms.sort_unstable();
        for list in terms.iter().filter_map(|term| self.postings.get(term)) {
            let n = list.len() as f64;
            let idf = ((records - n + 0.5) / (n + 0.5)).ln_1p();
            for (record, count) in list {
                let count = f64::from(*count);
                let length = f64::from(self.lengths[*record as usize]);
                let norm = K1 * (1.0 - B + B * length / average);
                *scores.entry(*record).or_default() += idf * count * (K1 + 1.0) / (count + norm);
            }
        }
        let mut ranked: Vec<_> = scores.into_iter().collect();
        ranked.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        ranked.into_iter().map(|(record, _)| record).collect()
    }
}

fn add_term(terms: &mut HashMap<String, u32>, term: &str, times: u32) {
    *terms.entry(term.to_owned()).or_default() += times;
}

fn pairs(text: &str, mut pair: impl FnMut(&str)) {
    for run in text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        let starts: Vec<_> = run.char_indices().map(|(at, _)| at).chain([run.len()]).collect();
        match starts.len() {
            2 => pair(run),
            _ => starts.windows(3).for_each(|window| pair(&run[window[0]..window[2]])),
        }
    }
}

#[cfg(test)]
mod tests {
    use doppel_core::collection::TextSettings;

    use super::*;

    fn record(title: &str, text: &str) -> (String, String) {
        (title.to_owned(), text.to_owned())
    }

    #[test]
    fn rare_shared_terms_in_short_records_come_first() {
        let records = [
            record("路灯", "路灯坏了,晚上很黑"),
            record("噪音", "夜市噪音扰民"),
            record("噪音", "广场舞噪音扰民,夜里也不停,请管一管,已经反映多次"),
        ];
        for cut in [TermCut::Words, TermCut::Pairs] {
            let index = Bm25Index::new(&records, cut, Words::new(&TextSettings::default()));
            assert_eq!(index.rank("夜市", "夜市噪音"), [1, 2], "{cut:?}");
        }
    }
}
