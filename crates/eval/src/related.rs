//! Related records: measures how well a ranking finds the records that people judged to concern the same matter.
//!
//! Each judgement is one line: a query, a record, and 2 (the same matter in other words), 1 (useful to see) or 0. A record that was not
//! judged counts as 0. Known duplicates of a query are left out of its ranking, and so are generated copies of any record. The decisions of
//! people in a collection can be used as judgements: see [`decided`](super::decided).

mod vectors;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::BufRead;
use std::path::Path;

use doppel_core::collection::Settings;
use doppel_core::numbers::Seq;
use doppel_core::record::RecordId;
use doppel_core::text::words::Words;
use doppel_core::verdict::VerdictKind;
use doppel_search::extract::RowExtract;
use doppel_search::index::{Index, IndexEntry, IndexError, IndexProgress, IndexSource, OpenedIndex};
use doppel_search::vectors::VectorQuestion;
use doppel_search::weights::Weights;
use serde::{Deserialize, Serialize};

use self::vectors::WeightedRankings;
pub use self::vectors::{SetVectors, VectorsReport, WeightQuality};
use super::dataset::{DatasetError, LabelledSet, each_line};
use crate::bm25::{Bm25Index, TermCut};

/// The judgement "the same matter". Recall and the reciprocal rank count these records.
pub(super) const SAME: u8 = 2;
/// The judgement "useful to see".
const USEFUL: u8 = 1;
/// Number of records in a ranking, including the places that a query's duplicates take.
const MAX_RELATED: usize = 100;
/// Number of positions that nDCG reads.
const DEPTH: usize = 10;

/// The judgements: for each query its records, by position in the set.
#[derive(Clone, Debug, Default)]
pub struct QueryJudgements {
    pub(super) queries: BTreeMap<u32, BTreeMap<u32, u8>>,
    /// For each query, the records that are left out of its ranking in addition to known duplicates.
    pub(super) left_out: BTreeMap<u32, BTreeSet<u32>>,
    /// For each query, its matter, if it is known. Queries of one matter have the same answers.
    pub(super) matters: BTreeMap<u32, u64>,
}

#[derive(Deserialize)]
struct QueryJudgementLine {
    query: RecordId,
    id: RecordId,
    rel: u8,
}

/// The agreement of rankings with judgements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RankingQuality {
    /// Share of the records judged 2 that are among the first 5 of their query.
    pub recall_at_5: f64,
    /// Share of the records judged 2 that are among the first 10 of their query.
    pub recall_at_10: f64,
    /// Share of the records judged 2 that are among the first 20 of their query.
    pub recall_at_20: f64,
    /// Mean of 1 / rank of the first record judged 2, over the queries that have such a record.
    pub mrr: f64,
    /// Discounted gain of the first 10 as a share of the best possible gain: 3 for a 2 and 1 for a 1. Mean over the queries that have a 2
    /// or a 1.
    pub ndcg_at_10: f64,
}

/// The quality of our ranking and of simple rankings.
#[derive(Clone, Debug, Serialize)]
pub struct RankingReport {
    /// The quality of the index with its weights.
    #[serde(flatten)]
    pub quality: RankingQuality,
    /// Number of queries with a judgement.
    pub queries: usize,
    /// Number of records judged 2.
    pub same: usize,
    /// Number of searched records.
    pub records: usize,
    /// The quality of plain BM25 of words.
    pub words: RankingQuality,
    /// The quality of plain BM25 of pairs of characters.
    pub pairs: RankingQuality,
    /// The quality with weights that were fitted on other queries than the measured queries, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fitted: Option<FittedWeights>,
    /// The same for queries whose matters are known, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halves: Option<HalvesReport>,
    /// The quality with vectors; `None` without vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_vectors: Option<VectorsReport>,
}

/// Weights that were fitted on one half of the matters and measured on the other half.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HalvesReport {
    /// Number of measured queries.
    pub queries: usize,
    /// Number of records judged 2 for these queries.
    pub same: usize,
    /// The quality with the weights before the fit.
    pub given: RankingQuality,
    /// The quality with the fitted weights.
    pub fitted: RankingQuality,
    /// The weights that were fitted on one half.
    pub weights: Weights,
    /// True if the fitted weights are better on the other half by more than chance explains.
    pub is_better: bool,
}

/// Weights that were fitted on judgements.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FittedWeights {
    /// The quality over five parts: the weights are fitted on four fifths of the queries and measured on the last fifth.
    pub held_out: RankingQuality,
    /// The weights that were fitted on all queries. They are for use, not for comparison.
    pub weights: Weights,
}

/// The reason why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum RelatedError {
    /// The index could not be written or read.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// There are no judgements.
    #[error("no record is judged 2 or 1 for any query: nothing can be measured; give a file with such judgements")]
    NothingJudged,
    /// There are too few judgements for a fit.
    #[error(
        "people decided of {pairs} pairs that they are one matter though the texts do not show it, {smaller} of them in the smaller half of \
         the matters: to fit weights by, give at least {LEAST_PAIRS} in either half, or leave --fit out"
    )]
    TooFewDecided {
        pairs: usize,
        /// Number of pairs in the smaller half.
        smaller: usize,
    },
}

impl QueryJudgements {
    /// Reads judgements of records of `set`. The name is used in messages.
    ///
    /// # Errors
    /// The first line that cannot be read, names an unknown record, or judges a pair again.
    pub fn read(set: &LabelledSet, named_lines: (&str, impl BufRead)) -> Result<Self, DatasetError> {
        let (name, lines) = named_lines;
        let mut judgements = Self::default();
        each_line(name, lines, |line| judgements.add(set, line))?;
        Ok(judgements)
    }

    fn add(&mut self, set: &LabelledSet, line: &[u8]) -> Result<(), String> {
        let QueryJudgementLine { query, id, rel } = serde_json::from_slice(line).map_err(|error| {
            format!("not a judgement with \"query\", \"id\" and \"rel\" (column {})", error.column())
        })?;
        if rel > SAME {
            return Err(format!("\"rel\" is {rel}; give 2, 1 or 0"));
        }
        match self.queries.entry(set.position(&query)?).or_default().insert(set.position(&id)?, rel) {
            None => Ok(()),
            Some(_) => Err(format!("{id} is judged twice for {query}; give every pair one judgement")),
        }
    }

    fn same(&self) -> usize {
        self.same_of(self.queries.keys())
    }

    /// Returns the number of records judged 2 for these queries.
    fn same_of<'a>(&self, queries: impl IntoIterator<Item = &'a u32>) -> usize {
        let judged = queries.into_iter().filter_map(|query| self.queries.get(query));
        judged.flat_map(BTreeMap::values).filter(|rel| **rel == SAME).count()
    }

    /// Divides the queries into two parts with about the same number of records judged 2. All queries of a matter are in the same part.
    fn halves(&self) -> [Vec<u32>; 2] {
        let mut matters: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for (query, matter) in &self.matters {
            matters.entry(*matter).or_default().push(*query);
        }
        let mut halves = [Vec::new(), Vec::new()];
        for queries in matters.into_values() {
            let [first, second] = [&halves[0], &halves[1]].map(|half| (self.same_of(half), half.len()));
            halves[usize::from(second < first)].extend(queries);
        }
        halves
    }
}

impl RankingQuality {
    /// Returns the quality of rankings. Each has the judgements of its query.
    pub fn of<'a>(rankings: impl IntoIterator<Item = (&'a BTreeMap<u32, u8>, &'a [u32])>) -> Self {
        let mut found = [0_usize; 3];
        let mut same = 0;
        let mut reciprocal = 0.0;
        let mut with_same = 0.0;
        let mut gain = 0.0;
        let mut with_any = 0.0;
        for (judged, ranking) in rankings {
            let rels: Vec<u8> = ranking.iter().map(|record| judged.get(record).copied().unwrap_or(0)).collect();
            let of_query = judged.values().filter(|rel| **rel == SAME).count();
            for (found, depth) in found.iter_mut().zip([5, 10, 20]) {
                *found += rels.iter().take(depth).filter(|rel| **rel == SAME).count();
            }
            if of_query > 0 {
                same += of_query;
                with_same += 1.0;
                reciprocal += rels.iter().position(|rel| *rel == SAME).map_or(0.0, |at| 1.0 / (at + 1) as f64);
            }
            if judged.values().any(|rel| *rel >= USEFUL) {
                let mut best: Vec<u8> = judged.values().copied().collect();
                best.sort_unstable_by(|a, b| b.cmp(a));
                with_any += 1.0;
                gain += discounted(rels) / discounted(best);
            }
        }
        let [recall_at_5, recall_at_10, recall_at_20] = found.map(|found| found as f64 / same.max(1) as f64);
        Self {
            recall_at_5,
            recall_at_10,
            recall_at_20,
            mrr: reciprocal / f64::max(with_same, 1.0),
            ndcg_at_10: gain / f64::max(with_any, 1.0),
        }
    }

    /// Returns the value that the fit maximises.
    fn objective(&self) -> f64 {
        (self.recall_at_10 + self.mrr + self.ndcg_at_10) / 3.0
    }
}

fn discounted(rels: Vec<u8>) -> f64 {
    let gains = rels.into_iter().take(DEPTH).map(|rel| [0.0, 1.0, 3.0][usize::from(rel)]);
    gains.zip(2_u32..).map(|(gain, rank): (f64, u32)| gain / f64::from(rank).log2()).sum()
}

/// A set in an index, prepared for queries.
struct IndexedSet<'a> {
    index: Index,
    judgements: &'a QueryJudgements,
    extracts: HashMap<u32, RowExtract>,
    positions: &'a HashMap<RecordId, u32>,
    /// For each query, the records that are left out of its ranking.
    left_out: BTreeMap<u32, BTreeSet<u32>>,
}

/// The options of the measurement of a ranking.
pub struct RankingMeasurement<'a> {
    pub weights: &'a Weights,
    /// The folder in which files are created. It must exist.
    pub folder: &'a Path,
    /// True to also fit the weights.
    pub fit: bool,
    /// The vectors of the records, to also measure the ranking with vectors.
    pub vectors: Option<SetVectors>,
}

/// Ranks the records of `set` for each query by its weights, and by the simple rankings.
///
/// # Errors
/// [`RelatedError`].
pub fn evaluate(
    set: &LabelledSet,
    judgements: &QueryJudgements,
    settings: &Settings,
    measurement: RankingMeasurement<'_>,
) -> Result<RankingReport, RelatedError> {
    let RankingMeasurement { weights, folder, fit, vectors } = measurement;
    if !judgements.queries.values().flat_map(BTreeMap::values).any(|rel| *rel >= USEFUL) {
        return Err(RelatedError::NothingJudged);
    }
    let measuring = IndexedSet::new(set, judgements, settings, &folder.join("index"))?;
    let [words, pairs] = [TermCut::Words, TermCut::Pairs].map(|cut| measuring.plain(set, settings, cut));
    let with_vectors = match vectors {
        Some(vectors) => {
            let count = vectors.len();
            Some(WeightedRankings::new(&measuring, weights, vectors, &folder.join("vectors"))?.report(count))
        }
        None => None,
    };
    Ok(RankingReport {
        with_vectors,
        quality: measuring.quality(&measuring.all(), weights)?,
        queries: judgements.queries.len(),
        same: judgements.same(),
        records: measuring.index.count()? as usize,
        words,
        pairs,
        fitted: if fit && judgements.matters.is_empty() { Some(measuring.cross_validate(weights)?) } else { None },
        halves: if fit && !judgements.matters.is_empty() { Some(measuring.halves(weights)?) } else { None },
    })
}

impl<'a> IndexedSet<'a> {
    fn new(
        set: &'a LabelledSet,
        judgements: &'a QueryJudgements,
        settings: &Settings,
        folder: &Path,
    ) -> Result<Self, RelatedError> {
        let OpenedIndex { index, .. } = Index::open(folder, IndexSource::new("eval", settings), settings)?;
        let mut extracts = HashMap::new();
        for (position, (id, row)) in (0_u32..).zip(&set.records) {
            // A record that cannot be read cannot be registered, and is therefore not found.
            let Ok(extract) = index.extractor().extract(row) else { continue };
            if !set.copies.contains(&position) {
                let verdict = VerdictKind::Original;
                let seq = Seq(u64::from(position) + 1);
                index.put(&IndexEntry { id: id.clone(), seq, verdict, extract: extract.clone() })?;
            }
            if judgements.queries.contains_key(&position) {
                extracts.insert(position, extract);
            }
        }
        index.commit(IndexProgress::Reached(Seq(set.records.len() as u64)))?;
        let mut left_out: BTreeMap<u32, BTreeSet<u32>> =
            judgements.queries.keys().map(|query| (*query, BTreeSet::from([*query]))).collect();
        for pair in &set.truth {
            for (query, other) in [(pair.0, pair.1), (pair.1, pair.0)] {
                left_out.entry(query).and_modify(|out| _ = out.insert(other));
            }
        }
        for (query, others) in &judgements.left_out {
            left_out.entry(*query).and_modify(|out| out.extend(others));
        }
        Ok(Self { index, judgements, extracts, positions: &set.positions, left_out })
    }

    fn all(&self) -> Vec<u32> {
        self.judgements.queries.keys().copied().collect()
    }

    fn rank(&self, query: u32, weights: &Weights) -> Result<Vec<u32>, RelatedError> {
        self.rank_with(query, weights, None)
    }

    fn rank_with(
        &self,
        query: u32,
        weights: &Weights,
        vectors: Option<&VectorQuestion>,
    ) -> Result<Vec<u32>, RelatedError> {
        let Some(extract) = self.extracts.get(&query) else { return Ok(Vec::new()) };
        let hits = self.index.related_with_vectors(extract, None, MAX_RELATED, weights, vectors)?;
        let positions = hits.iter().filter_map(|hit| self.positions.get(&hit.id).copied());
        Ok(positions.filter(|position| !self.left_out[&query].contains(position)).collect())
    }

    fn quality(&self, queries: &[u32], weights: &Weights) -> Result<RankingQuality, RelatedError> {
        let rankings: Vec<_> = queries.iter().map(|query| self.rank(*query, weights)).collect::<Result<_, _>>()?;
        let judged = queries.iter().map(|query| &self.judgements.queries[query]);
        Ok(RankingQuality::of(judged.zip(rankings.iter().map(Vec::as_slice))))
    }

    fn plain(&self, set: &LabelledSet, settings: &Settings, cut: TermCut) -> RankingQuality {
        let titles = settings.titles();
        let reader = doppel_core::text::Reader::new(settings);
        let texts: Vec<_> = set.records.iter().map(|(_, row)| parts(&reader, &titles, row)).collect();
        let (kept, records): (Vec<u32>, Vec<_>) =
            (0_u32..).zip(texts.iter().cloned()).filter(|(position, _)| !set.copies.contains(position)).unzip();
        let index = Bm25Index::new(&records, cut, Words::new(&settings.text));
        let rankings: Vec<Vec<u32>> = self
            .all()
            .iter()
            .map(|query| {
                let (title, text) = &texts[*query as usize];
                let ranked = index.rank(title, text).into_iter().map(|record| kept[record as usize]);
                ranked.filter(|record| !self.left_out[query].contains(record)).collect()
            })
            .collect();
        RankingQuality::of(self.judgements.queries.values().zip(rankings.iter().map(Vec::as_slice)))
    }

    /// Fits on four fifths of the queries and measures on the last fifth, for each fifth.
    fn cross_validate(&self, start: &Weights) -> Result<FittedWeights, RelatedError> {
        let all = self.all();
        let mut rankings = BTreeMap::new();
        for fold in 0..FOLDS {
            let others = all.iter().enumerate().filter(|(n, _)| n % FOLDS != fold).map(|(_, query)| *query);
            let weights = self.fit(&others.collect::<Vec<_>>(), start)?;
            for query in all.iter().skip(fold).step_by(FOLDS) {
                rankings.insert(*query, self.rank(*query, &weights)?);
            }
        }
        let held_out = RankingQuality::of(self.judgements.queries.values().zip(rankings.values().map(Vec::as_slice)));
        Ok(FittedWeights { held_out, weights: self.fit(&all, start)? })
    }

    /// Fits on one half of the matters and measures on the other half.
    fn halves(&self, start: &Weights) -> Result<HalvesReport, RelatedError> {
        let [fitting, measured] = self.judgements.halves();
        // Both records of a pair are queries.
        let pairs = [&fitting, &measured].map(|half| self.judgements.same_of(half) / 2);
        let smaller = pairs[0].min(pairs[1]);
        if smaller < LEAST_PAIRS {
            return Err(RelatedError::TooFewDecided { pairs: pairs[0] + pairs[1], smaller });
        }
        let weights = self.fit(&fitting, start)?;
        let given = self.quality(&measured, start)?;
        let fitted = self.quality(&measured, &weights)?;
        Ok(HalvesReport {
            queries: measured.len(),
            same: self.judgements.same_of(&measured),
            given,
            fitted,
            weights,
            is_better: fitted.objective() > given.objective() + LEAST_GAIN,
        })
    }

    /// Tries other values for the weights, one weight after the other, and keeps a value if it is better by more than chance explains.
    fn fit(&self, queries: &[u32], start: &Weights) -> Result<Weights, RelatedError> {
        let mut best = *start;
        let mut reached = self.quality(queries, &best)?.objective();
        for _ in 0..ROUNDS {
            for (get, values) in CHOICES {
                for value in *values {
                    let mut tried = best;
                    *get(&mut tried) = *value;
                    let quality = self.quality(queries, &tried)?.objective();
                    if quality > reached + LEAST_GAIN {
                        (best, reached) = (tried, quality);
                    }
                }
            }
        }
        Ok(best)
    }
}

/// Minimum number of pairs of one matter in each half of the matters for a fit: seven weights are chosen.
const LEAST_PAIRS: usize = 15;
/// Number of parts of the queries for cross-validation.
const FOLDS: usize = 5;
/// Number of passes over all weights.
const ROUNDS: usize = 2;
/// Minimum gain of the objective for which a weight is changed.
const LEAST_GAIN: f64 = 0.002;

type WeightChoice = (fn(&mut Weights) -> &mut f32, &'static [f32]);

/// The values that the fit tries: few round numbers.
const CHOICES: &[WeightChoice] = &[
    (|weights| &mut weights.repeats, &[0.0, 1.0, 4.0, 16.0]),
    (|weights| &mut weights.coverage, &[0.0, 0.25, 0.5, 1.0]),
    (|weights| &mut weights.objects, &[0.0, 0.5, 1.0, 2.0, 4.0]),
    (|weights| &mut weights.category, &[0.0, 0.5, 1.0, 2.0]),
    (|weights| &mut weights.identity, &[0.0, 0.5, 1.0, 2.0]),
    (|weights| &mut weights.time, &[0.0, 0.25, 0.5, 1.0, 2.0]),
    (|weights| &mut weights.days, &[30.0, 90.0, 365.0]),
];

/// Returns the normalised title and text of a row.
fn parts(reader: &doppel_core::text::Reader, titles: &[bool], row: &doppel_core::record::Row) -> (String, String) {
    use doppel_core::collection::Role;
    let document = reader.read(row).unwrap_or_default();
    let texts = document.fields.iter().filter(|field| field.role == Role::Text);
    let (title, text): (Vec<_>, Vec<_>) = texts.partition(|field| titles[usize::from(field.position)]);
    (joined(&title), joined(&text))
}

fn joined(fields: &[&doppel_core::text::DocumentField]) -> String {
    fields.iter().map(|field| field.text.as_str()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
