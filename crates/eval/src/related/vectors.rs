//! The ranking with the vectors of a model: the quality at each weight of the cosine, and a weight that is fitted.

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

/// The rankings of all queries at each weight of the cosine.
pub(super) struct WeightedRankings<'a> {
    set: &'a IndexedSet<'a>,
    queries: Vec<u32>,
    /// For each weight, the ranking of each query. The first weight is 0.
    rankings: Vec<(f32, Vec<Vec<u32>>)>,
}

impl<'a> WeightedRankings<'a> {
    /// Puts the vectors into a file and ranks the records for each query.
    ///
    /// # Errors
    /// The files cannot be written or read, or the vectors have different dimensions.
    pub(super) fn new(
        set: &'a IndexedSet<'a>,
        weights: &Weights,
        vectors: SetVectors,
        file: &Path,
    ) -> Result<Self, RelatedError> {
        let vectors: Vec<_> =
            vectors.into_iter().map(|(position, vector)| (Seq(u64::from(position) + 1), vector)).collect();
        let vectors = EvaluatedVectors::new(file, &vectors).map_err(IndexError::from)?;
        let queries = set.all();
        let mut rankings = Vec::new();
        for weight in std::iter::once(0.0).chain(TRIED) {
            let ranked = queries.iter().map(|query| {
                let question = vectors.question(Seq(u64::from(*query) + 1), weight);
                set.rank_with(*query, weights, question.as_ref())
            });
            rankings.push((weight, ranked.collect::<Result<_, _>>()?));
        }
        Ok(Self { set, queries, rankings })
    }

    /// Measures each weight, and fits the weight.
    pub(super) fn report(&self, vectors: usize) -> VectorsReport {
        let tried = self.rankings.iter().skip(1);
        let by_weight = tried.map(|(weight, ranked)| WeightQuality {
            weight: *weight,
            quality: self.quality(|_| true, |query| &ranked[query]),
        });
        let fitted: Vec<usize> = (0..FOLDS).map(|fold| self.fit(|query| query % FOLDS != fold)).collect();
        let held_out = self.quality(|_| true, |query| &self.rankings[fitted[query % FOLDS]].1[query]);
        let weight = self.rankings[self.fit(|_| true)].0;
        VectorsReport { vectors, by_weight: by_weight.collect(), held_out, weight }
    }

    /// Returns the position of the smallest weight that is not worse than the others by more than chance explains. Position 0 is the ranking by
    /// words alone.
    fn fit(&self, is_used: impl Fn(usize) -> bool) -> usize {
        let objectives =
            self.rankings.iter().map(|(_, ranked)| self.quality(&is_used, |query| &ranked[query]).objective());
        let mut best = 0;
        let mut reached = f64::NEG_INFINITY;
        for (position, objective) in objectives.enumerate() {
            if objective > reached + LEAST_GAIN {
                best = position;
                reached = objective;
            }
        }
        best
    }

    /// Returns the quality over some queries, which are given by their positions.
    fn quality<'r>(&self, is_used: impl Fn(usize) -> bool, ranking: impl Fn(usize) -> &'r Vec<u32>) -> RankingQuality {
        let used = self.queries.iter().enumerate().filter(|(position, _)| is_used(*position));
        let judged = used.map(|(position, query)| (&self.set.judgements.queries[query], ranking(position).as_slice()));
        RankingQuality::of(judged)
    }
}
