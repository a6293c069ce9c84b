//! The state of the vectors of a collection for people, and the actions by which they control the making of vectors.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::state::VectorSet;
use super::{FollowedVectors, VectorService};
use crate::index::IndexProgress;
use crate::service::{AsOf, Result, SearchError, SearchService};
use doppel_core::collection::CollectionName;
use doppel_store::Seq;

/// The state of the vectors of a collection.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct VectorsView {
    /// The model of the vectors in use; `null` until vectors are complete for the first time.
    pub model: Option<String>,
    /// Number of dimensions of a vector; `null` if `model` is `null`.
    pub dimension: Option<usize>,
    /// The weight of vectors in the ranking of related records; `null` if the ranking does not use them because doppel has no weight for the model.
    pub weight: Option<f32>,
    /// Number of records with a vector of this model.
    pub vectors: u64,
    /// Number of records without a vector, because they have no text or the server refused their text.
    pub missing: u64,
    /// The last change that the vectors contain.
    pub as_of: AsOf,
    /// The new vectors, which are created with another model; `null` if there are none.
    pub building: Option<BuildingVectors>,
    /// True if a person paused the creation of vectors.
    pub paused: bool,
    /// True if a person canceled the vectors of the present model of the server.
    pub canceled: bool,
    /// The reason why records wait for their vectors; `null` if the server responds.
    pub waiting: Option<String>,
}

/// The new vectors, which are created with another model.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct BuildingVectors {
    /// The name of the other model.
    pub model: String,
    /// Number of records that were read for the new vectors.
    pub done: u64,
    /// Number of records in the collection.
    pub records: u64,
}

/// An action on the vectors of a collection. `pause`: send no more texts to the server until `resume`. `resume`: continue, also with a model whose
/// vectors were canceled. `cancel`: discard the new vectors; the earlier vectors stay in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VectorsAction {
    /// Send no more texts until `resume`.
    Pause,
    /// Continue, also with a model whose vectors were canceled.
    Resume,
    /// Give up the vectors that are being made; the earlier ones still answer.
    Cancel,
}

/// The resources that the vectors of all collections use together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VectorUsage {
    /// Number of records with a vector.
    pub vectors: u64,
    /// Number of records without a vector.
    pub missing: u64,
    /// Number of changes that the vectors have not read.
    pub behind: u64,
    pub memory_bytes: u64,
    /// Size of the files in bytes.
    pub disk_bytes: u64,
}

impl SearchService {
    /// Returns the state of the vectors of a collection.
    ///
    /// # Errors
    /// [`SearchError::NoModel`], [`SearchError::UnknownCollection`], [`SearchError::Opening`].
    pub async fn vectors(&self, collection: &CollectionName) -> Result<VectorsView> {
        let (service, followed) = self.followed_vectors(collection).await?;
        let state = followed.vectors.state();
        let live = followed.vectors.live();
        let counts = live.as_ref().map(|live| live.file.counts()).unwrap_or_default();
        let building = match (followed.vectors.next(), &state.next) {
            (Some(next), Some(_)) => Some(BuildingVectors {
                model: next.model.model.clone(),
                done: rows(&next),
                records: self.store().count(collection).await?,
            }),
            _ => None,
        };
        Ok(VectorsView {
            model: live.as_ref().map(|live| live.model.model.clone()),
            dimension: live.as_ref().map(|live| live.model.dimension()),
            weight: live.as_ref().and_then(|live| service.calls.options.weight.or_else(|| live.model.known_weight())),
            vectors: counts.vectors,
            missing: counts.missing,
            as_of: self.vectors_as_of(&followed).await?,
            building,
            paused: state.paused,
            canceled: state.canceled.is_some(),
            waiting: service.calls.failure(),
        })
    }

    /// Pauses, resumes or cancels the making of vectors. Returns the state after the action.
    ///
    /// # Errors
    /// As [`vectors`](Self::vectors); [`SearchError::Index`] if the files cannot be written.
    pub async fn change_vectors(&self, collection: &CollectionName, action: VectorsAction) -> Result<VectorsView> {
        let (service, followed) = self.followed_vectors(collection).await?;
        let vectors = &followed.vectors;
        let changed = match action {
            VectorsAction::Pause => vectors.set_state(|state| state.paused = true),
            VectorsAction::Resume => vectors.set_state(|state| {
                state.paused = false;
                state.canceled = None;
            }),
            VectorsAction::Cancel => vectors.cancel(),
        };
        changed.map_err(|error| SearchError::Index(error.into()))?;
        service.wanted.notify_one();
        self.vectors(collection).await
    }

    /// Returns the number of the last change that the vectors contain.
    pub(super) async fn vectors_as_of(&self, followed: &FollowedVectors) -> Result<AsOf> {
        let last = self.store().last_change(&followed.state.name).await?;
        let number = match followed.vectors.state().live.map(|live| live.progress) {
            Some(IndexProgress::Reached(number)) => number,
            Some(IndexProgress::Filling { .. }) | None => Seq(0),
        };
        Ok(AsOf { number, behind: last.0.saturating_sub(number.0) })
    }

    async fn followed_vectors(&self, collection: &CollectionName) -> Result<(&VectorService, Arc<FollowedVectors>)> {
        let service = self.0.vectors.as_deref().ok_or(SearchError::NoModel)?;
        let state = self.store().collection(collection).await?;
        let state = state.ok_or_else(|| SearchError::UnknownCollection(collection.clone()))?;
        if !state.settings.keeps_text() {
            let why = "vectors are made of texts";
            return Err(doppel_engine::Error::TextNotKept(collection.clone(), why).into());
        }
        service.followed(&state).map(|followed| (service, followed)).ok_or(SearchError::Opening)
    }

    /// Returns the resources that the vectors use, and how far they are behind; `None` without a model. Reads the store once for each
    /// collection.
    pub async fn vector_usage(&self) -> Option<VectorUsage> {
        let service = self.0.vectors.as_ref()?;
        let mut usage = VectorUsage::default();
        let collections: Vec<_> = service.collections.read().values().cloned().collect();
        for followed in collections {
            if let Some(live) = followed.vectors.live() {
                usage.vectors += live.file.counts().vectors;
                usage.missing += live.file.counts().missing;
            }
            for set in followed.vectors.sets() {
                usage.memory_bytes += set.file.memory_bytes();
                usage.disk_bytes += set.file.disk_bytes();
            }
            // A collection that was dropped is not behind.
            usage.behind += self.vectors_as_of(&followed).await.map_or(0, |as_of| as_of.behind);
        }
        Some(usage)
    }
}

fn rows(set: &VectorSet) -> u64 {
    let counts = set.file.counts();
    counts.vectors + counts.missing
}
