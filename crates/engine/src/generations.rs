//! The generations of a collection: listing, activating and dropping them.

use serde::Serialize;
use utoipa::ToSchema;

use crate::boxed;
use crate::{Engine, Error, Result};
use doppel_core::collection::{CollectionName, Settings};
use doppel_store::generations::GenerationPhase;
use doppel_store::{GenerationId, Seq, StoreError};

/// The state of a generation. `live`: it answers requests. `ready`: it is complete, up to date, and can be activated. `building`: a task is
/// building it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The live generation, which answers requests.
    Live,
    /// Complete and kept up to date: it can be activated.
    Ready,
    /// A reindex is building it.
    Building,
}

/// A generation of the index of a collection.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Generation {
    /// The number of the generation.
    #[schema(value_type = u32)]
    pub generation: GenerationId,
    /// The state of the generation.
    pub status: Standing,
    /// The settings with which the generation was built.
    pub settings: Settings,
    /// Digest of the profile of the generation.
    pub profile: String,
    /// Time at which the generation was started (RFC 3339, UTC).
    pub created_at: String,
}

impl Engine {
    /// Returns the generations of a collection, ascending.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn generations(&self, collection: &CollectionName) -> Result<Vec<Generation>> {
        let state = self.context(collection).await?.state.clone();
        let mut found = vec![Generation {
            generation: state.generation,
            status: Standing::Live,
            settings: state.settings.clone(),
            profile: state.profile.clone(),
            created_at: state.generation_created_at().to_owned(),
        }];
        found.extend(state.others.iter().map(|other| Generation {
            generation: other.id,
            status: match other.phase {
                GenerationPhase::Building => Standing::Building,
                GenerationPhase::Ready => Standing::Ready,
            },
            settings: other.settings.clone(),
            profile: other.profile.clone(),
            created_at: other.created_at.clone(),
        }));
        found.sort_by_key(|generation| generation.generation);
        Ok(found)
    }

    /// Removes a generation that is not live.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownGeneration`]; [`Error::Store`] with `GenerationLive` for the live generation, with
    /// `GenerationBuilding` for a generation that a task is building, and when the store accepts no change now; [`Error::TaskRunning`] if
    /// groups use its pairs until a task has found the pairs of the live generation.
    #[boxed]
    pub async fn drop_generation(&self, collection: &CollectionName, generation: GenerationId) -> Result<()> {
        let state = self.context(collection).await?.state.clone();
        state.check_not_live(generation)?;
        let mut others = state.others.iter().filter(|other| other.id == generation);
        let is_built = others.any(|other| other.phase == GenerationPhase::Building);
        let has_pairs_in_force = state.pair_sources.iter().any(|source| source.generation == generation);
        if (is_built || has_pairs_in_force)
            && let Some(task) = self.unfinished_task(collection).await?
        {
            return Err(match is_built {
                true => StoreError::GenerationBuilding(generation).into(),
                false => Error::TaskRunning(collection.clone(), task.id),
            });
        }
        match self.store.drop_generation(collection, generation).await? {
            true => Ok(()),
            false => Err(Error::UnknownGeneration(collection.clone(), generation)),
        }
    }

    /// Returns the complete standby generations that are older than `previous`, oldest first.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn generations_before(
        &self,
        collection: &CollectionName,
        previous: GenerationId,
    ) -> Result<Vec<GenerationId>> {
        Ok(self.context(collection).await?.state.older_than(previous))
    }

    /// Returns the number of records.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn count(&self, collection: &CollectionName) -> Result<u64> {
        Ok(self.store.count(collection).await?)
    }

    /// Marks a generation as complete.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::UnknownGeneration`] if it is no standby generation.
    #[boxed]
    pub async fn complete_generation(&self, collection: &CollectionName, generation: GenerationId) -> Result<()> {
        Ok(self.store.complete_generation(collection, generation).await?)
    }

    /// Waits until every change that was in progress at the call is visible or has failed; after [`Engine::activate_generation`], every
    /// change that was judged in the previous generation.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; [`Error::Store`] with `Unavailable` or `Unknown` if the store cannot answer: the caller repeats the
    /// call.
    #[boxed]
    pub async fn wait_until_settled(&self, collection: &CollectionName) -> Result<()> {
        Ok(self.store.wait_until_settled(collection).await?)
    }

    /// Makes a complete generation live, unless it is already live.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownGeneration`]; [`Error::Store`] with `GenerationBuilding` if it is not complete.
    #[boxed]
    pub async fn activate_generation(&self, collection: &CollectionName, generation: GenerationId) -> Result<()> {
        if !self.is_live(collection, generation).await? {
            self.store.activate_generation(collection, generation).await?;
        }
        Ok(())
    }

    /// Marks the pairs of the live generation as complete: from then on groups use only its pairs.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownGeneration`] if it is not live any more.
    #[boxed]
    pub async fn complete_pairs(&self, collection: &CollectionName, generation: GenerationId) -> Result<()> {
        Ok(self.store.complete_pairs(collection, generation).await?)
    }

    /// Returns the settings of the live generation.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn settings(&self, collection: &CollectionName) -> Result<Settings> {
        Ok(self.context(collection).await?.state.settings.clone())
    }

    /// Returns the live generation.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn live_generation(&self, collection: &CollectionName) -> Result<GenerationId> {
        Ok(self.context(collection).await?.state.generation)
    }

    /// True if `generation` is live.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]. A generation that does not exist is not live.
    #[boxed]
    pub async fn is_live(&self, collection: &CollectionName, generation: GenerationId) -> Result<bool> {
        Ok(self.live_generation(collection).await? == generation)
    }

    /// Returns [`CollectionState::scan_end`](doppel_store::CollectionState::scan_end) of the live generation.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn live_scan_end(&self, collection: &CollectionName) -> Result<Seq> {
        Ok(self.context(collection).await?.state.scan_end)
    }
}
