//! A question with its vector: the cosines of the candidates of a ranking.

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;

use super::file::{StoredVector, VectorFile};
use super::fingerprint::ModelFingerprint;
use super::quantised::{CentredVector, quantise};
use super::state::VectorSet;
use doppel_store::Seq;

/// Whether a ranking used vectors, or the reason why it did not. `building`: the vectors of the collection are being created for the first time.
/// `unknown_model`: doppel has no weight for the model; set `search.embedder.weight`. `other_model`: the server now has another model, and new
/// vectors are being created. `unavailable`: the server returned no vector of the row in time. `no_text`: the row has no text, or the server
/// refused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VectorState {
    /// The ranking uses vectors.
    Used,
    /// The vectors of the collection are being made for the first time.
    Building,
    /// doppel has no weight for the model; `search.embedder.weight` gives one.
    UnknownModel,
    /// The server answers with another model than the one that made the vectors. New ones are being made.
    OtherModel,
    /// The server gave no vector of the row in time.
    Unavailable,
    /// The row has no text, or the server refuses its text.
    NoText,
}

/// The vector of a question, with the vectors of its collection.
pub struct VectorQuestion {
    set: Arc<VectorSet>,
    asked: CentredVector,
    weight: f32,
}

impl VectorQuestion {
    /// Makes a question. `None` if the vector is zero or equals the mean, so that it contains no information.
    pub(super) fn new(set: Arc<VectorSet>, vector: &[i8], weight: f32) -> Option<Self> {
        let asked = CentredVector::new(vector, set.file.mean())?;
        Some(Self { set, asked, weight })
    }

    /// Returns the weight of the cosine.
    pub(crate) fn weight(&self) -> f32 {
        self.weight
    }

    /// Returns the cosines of records. A negative cosine counts as 0, because it says only that two texts differ. A record without a vector
    /// gets the mean of the others, so that it gets neither an advantage nor a disadvantage. O(seqs · dimension).
    pub(crate) fn cosines(&self, seqs: &[Seq]) -> Vec<f32> {
        let read = seqs.iter().map(|seq| self.set.file.by_seq(*seq).ok().flatten()?.vector);
        let cosines: Vec<Option<f32>> =
            read.map(|vector| self.asked.cosine(&vector?).map(|cosine| cosine.max(0.0))).collect();
        let known: Vec<f32> = cosines.iter().copied().flatten().collect();
        let mean = known.iter().sum::<f32>() / known.len().max(1) as f32;
        cosines.into_iter().map(|cosine| cosine.unwrap_or(mean)).collect()
    }
}

/// Vectors of records for a measurement (`doppel eval`).
pub struct EvaluatedVectors(Arc<VectorSet>);

impl EvaluatedVectors {
    /// Puts vectors of one model into a new file. Each vector has the seq of its record.
    ///
    /// # Errors
    /// The file cannot be written, or vectors have different dimensions.
    pub fn new(path: &Path, vectors: &[(Seq, Vec<f32>)]) -> io::Result<Self> {
        let dimension = vectors.first().map_or(0, |(_, vector)| vector.len());
        let (file, _) = VectorFile::open(path, dimension)?;
        for (seq, vector) in vectors {
            file.put(&StoredVector { id: seq.0, seq: *seq, text: 0, vector: Some(quantise(vector)) })?;
        }
        let model =
            ModelFingerprint { model: String::new(), prefix: String::new(), max_chars: 0, probe: vec![0; dimension] };
        Ok(Self(Arc::new(VectorSet { model, file })))
    }

    /// Returns the question for one of the records; `None` if the record has no vector.
    pub fn question(&self, seq: Seq, weight: f32) -> Option<VectorQuestion> {
        let vector = self.0.file.by_seq(seq).ok()??.vector?;
        VectorQuestion::new(Arc::clone(&self.0), &vector, weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_without_a_vector_is_neither_preferred_nor_put_back() {
        let folder = tempfile::tempdir().unwrap();
        let vectors = [
            (Seq(1), vec![1.0, 0.1, 0.0]),
            (Seq(2), vec![0.9, 0.2, 0.0]),
            (Seq(3), vec![0.0, 0.1, 1.0]),
            (Seq(4), vec![0.0, 1.0, 0.1]),
        ];
        let evaluated = EvaluatedVectors::new(&folder.path().join("v"), &vectors).unwrap();
        let cosines = evaluated.question(Seq(1), 1.0).unwrap().cosines(&[Seq(2), Seq(3), Seq(9)]);
        assert!(cosines[0] > 0.9 && cosines[1] == 0.0, "{cosines:?}");
        assert!((cosines[2] - cosines[0] / 2.0).abs() < 1e-6);
        assert!(evaluated.question(Seq(9), 1.0).is_none());
    }

    /// Prints the figures of docs/vectors.md; `scripts/acceptance embedder` runs this with a million vectors.
    #[test]
    #[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a test chooses its size and shows figures")]
    fn a_record_takes_less_than_420_bytes_in_memory_and_on_disk() {
        let count = std::env::var("DOPPEL_TEST_VECTORS").map_or(2_000, |count| count.parse().expect("a number"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v");
        let (file, _) = VectorFile::open(&path, 384).unwrap();
        let mut random = 1_u64;
        for n in 1..=count {
            let vector = std::iter::repeat_with(|| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 56) as i8
            });
            let vector = Some(vector.take(384).collect());
            file.put(&StoredVector { id: n, seq: Seq(n), text: n, vector }).unwrap();
        }
        drop(file);
        let begun = std::time::Instant::now();
        let (file, _) = VectorFile::open(&path, 384).unwrap();
        let opening = begun.elapsed();
        assert!(file.disk_bytes() <= 420 * count && file.memory_bytes() <= 420 * count);
        let [disk, memory] = [file.disk_bytes(), file.memory_bytes()].map(|bytes| bytes / count);
        let model = ModelFingerprint { model: String::new(), prefix: String::new(), max_chars: 0, probe: vec![0; 384] };
        let evaluated = EvaluatedVectors(Arc::new(VectorSet { model, file }));
        let begun = std::time::Instant::now();
        let question = evaluated.question(Seq(1), 1.0).unwrap();
        let asking = begun.elapsed();
        let seqs: Vec<Seq> = (0..100).map(|n| Seq(1 + n * (count / 100).max(1))).collect();
        let begun = std::time::Instant::now();
        question.cosines(&seqs);
        let first = begun.elapsed();
        let begun = std::time::Instant::now();
        question.cosines(&seqs);
        println!(
            "{count} vectors of 384 numbers: {disk} bytes on disk and {memory} in memory each; opened in {opening:?}; a question {asking:?}; 100 \
             candidates {first:?}, again {:?}",
            begun.elapsed()
        );
    }
}
