//! The fingerprint of a model, which identifies its vectors, and the models that doppel knows.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::quantised::cosine;
use crate::embedder::EmbedderOptions;

/// The sentence that each request contains. Its vector shows which model answers, even if another model has the same name.
pub const PROBE: &str = "小区门口的路灯坏了,晚上看不清路,请尽快维修";
/// Minimum cosine of two vectors of the probe by one model. The vectors of one text in a batch and alone may differ a little; the vectors
/// of two models differ much.
const SAME_MODEL: f32 = 0.995;
/// Minimum cosine to the probe of a known model. Servers store the numbers of one model with 4 to 32 bits.
const KNOWN_MODEL: f32 = 0.98;

/// Identifies the model and the form of the texts that it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFingerprint {
    /// The name in the configuration.
    pub model: String,
    pub prefix: String,
    pub max_chars: usize,
    /// The vector of [`PROBE`], with one byte for each number.
    pub probe: Vec<i8>,
}

impl ModelFingerprint {
    pub(crate) fn new(options: &EmbedderOptions, probe: Vec<i8>) -> Self {
        let EmbedderOptions { model, prefix, max_chars, .. } = options;
        Self { model: model.clone(), prefix: prefix.clone(), max_chars: *max_chars, probe }
    }

    pub(crate) fn dimension(&self) -> usize {
        self.probe.len()
    }

    /// True if vectors of both models can be compared.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.model, &self.prefix, self.max_chars) == (&other.model, &other.prefix, other.max_chars)
            && self.dimension() == other.dimension()
            && cosine(&self.probe, &other.probe) >= SAME_MODEL
    }

    /// Returns the name of a file with vectors of this model.
    pub(crate) fn file_name(&self) -> String {
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        let digest = Sha256::digest(bytes);
        digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>() + ".vectors"
    }

    /// Returns the weight of vectors in the ranking, if the fit knows the model. The vector of the probe decides, because it also depends
    /// on the prefix. Names are not compared, because servers have different names for the same model.
    pub(crate) fn known_weight(&self) -> Option<f32> {
        let known = KNOWN
            .iter()
            .find(|known| known.probe.len() == self.dimension() && cosine(&known.probe, &self.probe) >= KNOWN_MODEL);
        known.map(|known| known.weight)
    }
}

/// A model for which the weight of vectors was fitted.
#[derive(Deserialize)]
struct KnownModel {
    weight: f32,
    probe: Vec<i8>,
}

/// The known models; `models/vectors-1.json` says how the weights were fitted.
static KNOWN: LazyLock<Vec<KnownModel>> = LazyLock::new(|| {
    let text = include_str!("../../models/vectors-1.json");
    // A test checks that the file can be read.
    serde_json::from_str(text).unwrap_or_default()
});

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn fingerprint(probe: Vec<i8>) -> ModelFingerprint {
        let options = EmbedderOptions {
            model: "m".into(),
            prefix: String::new(),
            max_chars: 500,
            batch: 16,
            timeout: Duration::from_secs(1),
            weight: None,
        };
        ModelFingerprint::new(&options, probe)
    }

    #[test]
    fn another_model_under_the_same_name_has_another_fingerprint() {
        let first = fingerprint(vec![127, 3, -60]);
        assert!(first.is_same(&fingerprint(vec![126, 4, -61])), "the noise of a batch");
        assert!(!first.is_same(&fingerprint(vec![127, 60, -3])));
        assert!(!first.is_same(&fingerprint(vec![127, 3, -60, 0])));
        assert!(!first.is_same(&ModelFingerprint { prefix: "query: ".into(), ..first.clone() }));
        assert_ne!(first.file_name(), fingerprint(vec![127, 60, -3]).file_name());
    }

    #[test]
    fn a_known_model_is_recognised_by_its_probe_under_any_name() {
        let known = KNOWN.first().expect("the file of known models can be read");
        let other = ModelFingerprint { model: "another name".into(), ..fingerprint(known.probe.clone()) };
        assert_eq!(other.known_weight(), Some(known.weight));
        assert_eq!(fingerprint(vec![1; known.probe.len()]).known_weight(), None);
    }
}
