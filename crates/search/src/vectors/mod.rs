//! Vectors of records, from a model that the office runs.
//!
//! A follower (`follow.rs`) reads the change feed, sends the texts of records to the model and keeps one vector for each record in a folder
//! of this instance. The ranking of related records uses the cosine of two vectors as one more feature of its candidates
//! ([`Index::related`](crate::index::Index::related)). Like the index, vectors are derived data. Nothing else depends on them:
//! registrations, verdicts and searches never wait for the model.
//!
//! A question about a stored record needs no call. For a new row one call is made, which may take the time that the configuration allows.
//! Without a vector the answer uses only the words and states this ([`VectorState`]).

mod calls;
pub(crate) mod file;
mod fingerprint;
pub(crate) mod follow;
mod quantised;
mod question;
mod state;
mod status;
pub mod text;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::Notify;

use self::calls::ModelCalls;
use self::file::id_hash;
use self::state::CollectionVectors;
use self::text::{EmbeddingTexts, text_hash};
use crate::embedder::{EmbedderOptions, TextEmbedder};
use doppel_core::collection::CollectionName;
use doppel_core::record::{RecordId, Row};
use doppel_store::CollectionState;

pub use self::calls::{LONGEST_RETRY_AFTER, MAX_ASKING, MAX_FAILING, TEXT_PATIENCE};
pub use self::fingerprint::{ModelFingerprint, PROBE};
pub use self::question::{EvaluatedVectors, VectorQuestion, VectorState};
pub use self::status::{BuildingVectors, VectorsAction, VectorsView};

/// The vectors of all collections.
pub(crate) struct VectorService {
    calls: ModelCalls,
    collections: RwLock<HashMap<CollectionName, Arc<FollowedVectors>>>,
    /// Notified when the follower should begin a round at once.
    wanted: Notify,
}

/// The vectors of a collection, with the settings by which its texts are read.
struct FollowedVectors {
    state: Arc<CollectionState>,
    vectors: CollectionVectors,
    texts: EmbeddingTexts,
}

impl VectorService {
    pub(crate) fn new(embedder: Arc<dyn TextEmbedder>, options: EmbedderOptions) -> Self {
        Self { calls: ModelCalls::new(embedder, options), collections: RwLock::default(), wanted: Notify::new() }
    }

    fn followed(&self, state: &CollectionState) -> Option<Arc<FollowedVectors>> {
        let found = self.collections.read().get(&state.name).cloned();
        found.filter(|found| found.state.number == state.number)
    }

    /// Returns the vector of a row with the vectors of its collection, or the reason why the row has no vector. `stored` is the id of the
    /// row, if it has one.
    pub(crate) async fn question(
        &self,
        collection: &CollectionState,
        row: &Row,
        stored: Option<&RecordId>,
    ) -> Result<VectorQuestion, VectorState> {
        let followed = self.followed(collection).ok_or(VectorState::Building)?;
        let live = followed.vectors.live().ok_or(VectorState::Building)?;
        let weight =
            self.calls.options.weight.or_else(|| live.model.known_weight()).ok_or(VectorState::UnknownModel)?;
        let text = followed.texts.text(row);
        if text.is_empty() {
            return Err(VectorState::NoText);
        }
        let stored = stored.and_then(|id| live.file.by_id(id_hash(id)).ok().flatten());
        let vector = match stored.filter(|stored| stored.text == text_hash(&text)) {
            Some(stored) => stored.vector.ok_or(VectorState::NoText)?,
            None => {
                let mut embedded = self.calls.embed_question(&text).await.ok_or(VectorState::Unavailable)?;
                if !embedded.model.is_same(&live.model) {
                    self.wanted.notify_one();
                    return Err(VectorState::OtherModel);
                }
                embedded.vectors.pop().ok_or(VectorState::Unavailable)?
            }
        };
        VectorQuestion::new(live, &vector, weight).ok_or(VectorState::NoText)
    }
}
