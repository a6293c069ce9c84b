//! The ranking with the vectors of a model: the quality at each weight of the cosine, and a weight that is fitted.

use std::collections::BTreeMap;
use std::path::Path;

use doppel_core::numbers::Seq;
use doppel_search::index::IndexError;
use doppel_search::vectors::EvaluatedVectors;
use doppel_search::weights::Weights;
use serde::Serialize;

use super::{FOLDS, IndexedSet, LEAST_GAIN, RankingQuality, RelatedError};

/// The weights of the cosine that are tried.
const TRIED: [f32; 8] = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0];

/// The vectors of records, by their position in the set.
pub type SetVectors = Vec<(u32, Vec<f32>)>;

/// The quality of the ranking with vectors.
#[derive(Clone, Debug, Serialize)]
pub struct VectorsReport {
    /// Number of records with a vector.
    pub vectors: usize,
    /// The quality at each weight.
    pub by_weight: Vec<WeightQuality>,
    /// The quality over five parts: the weight is chosen on four fifths of the queries and measured on the last fifth.
    pub held_out: RankingQuality,
    /// The weight that was chosen on all queries. It is for use, not for comparison.
    pub weight: f32,
}

/// The quality at a weight of the cosine.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WeightQuality {
    pub weight: f32,
    #[serde(flatten)]
    pub quality: RankingQuality,
}

/// An indexed set with its vectors.
pub(super) struct MeasuredVectors<'a> {
    set: &'a IndexedSet<'a>,
    weights: &'a Weights,
    vectors: EvaluatedVectors,
}

impl<'a> MeasuredVectors<'a> {
    /// Puts the vectors into a file.
    ///
    /// # Errors
    /// The file cannot be written, or the vectors have different dimensions.
    pub(super) fn new(
        set: &'a IndexedSet<'a>,
        weights: &'a Weights,
        vectors: SetVectors,
        file: &Path,
    ) -> Result<Self, RelatedError> {
        let vectors: Vec<_> =
            vectors.into_iter().map(|(position, vector)| (Seq(u64::from(position) + 1), vector)).collect();
        let vectors = EvaluatedVectors::new(file, &vectors).map_err(IndexError::from)?;
        Ok(Self { set, weights, vectors })
    }

    /// Measures each weight, and fits one.
    pub(super) fn report(&self, vectors: usize) -> Result<VectorsReport, RelatedError> {
        let all = self.set.all();
        let mut by_weight = Vec::with_capacity(TRIED.len());
        for weight in TRIED {
            by_weight.push(WeightQuality { weight, quality: self.quality(&all, weight)? });
        }
        let mut rankings = BTreeMap::new();
        for fold in 0..FOLDS {
            let others = all.iter().enumerate().filter(|(n, _)| n % FOLDS != fold).map(|(_, query)| *query);
            let weight = self.fit(&others.collect::<Vec<_>>())?;
            for query in all.iter().skip(fold).step_by(FOLDS) {
                rankings.insert(*query, self.rank(*query, weight)?);
            }
        }
        let judged = self.set.judgements.queries.values();
        let held_out = RankingQuality::of(judged.zip(rankings.values().map(Vec::as_slice)));
        Ok(VectorsReport { vectors, by_weight, held_out, weight: self.fit(&all)? })
    }

    /// Returns the smallest weight that is not worse than the others by more than chance explains; 0 if none is better than words alone.
    fn fit(&self, queries: &[u32]) -> Result<f32, RelatedError> {
        let mut best = 0.0;
        let mut reached = self.set.quality(queries, self.weights)?.objective();
        for weight in TRIED {
            let objective = self.quality(queries, weight)?.objective();
            if objective > reached + LEAST_GAIN {
                best = weight;
                reached = objective;
            }
        }
        Ok(best)
    }

    fn quality(&self, queries: &[u32], weight: f32) -> Result<RankingQuality, RelatedError> {
        let rankings: Vec<_> = queries.iter().map(|query| self.rank(*query, weight)).collect::<Result<_, _>>()?;
        let judged = queries.iter().map(|query| &self.set.judgements.queries[query]);
        Ok(RankingQuality::of(judged.zip(rankings.iter().map(Vec::as_slice))))
    }

    fn rank(&self, query: u32, weight: f32) -> Result<Vec<u32>, RelatedError> {
        let question = self.vectors.question(Seq(u64::from(query) + 1), weight);
        self.set.rank_with(query, self.weights, question.as_ref())
    }
}
