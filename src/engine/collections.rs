//! Creating, changing, describing and dropping collections.

use std::sync::Arc;

use crate::collection::{CollectionName, Settings};
use crate::engine::answers::Collection;
use crate::engine::{Engine, Error, GENERATION_RETRIES, Result, off_thread};
use crate::schemes::profile::Profile;
use crate::store::{CollectionSpec, CollectionState, StoreError};

impl Engine {
    /// Creates a collection (`true`) or changes its settings (`false`).
    pub async fn put_collection(&self, name: &CollectionName, settings: Settings) -> Result<(Collection, bool)> {
        let violations = settings.validate();
        if !violations.is_empty() {
            return Err(Error::Invalid(violations));
        }
        let spec = self.spec(name, settings).await?;
        let mut attempts = 0;
        loop {
            match self.create_or_update(&spec).await {
                // Dropped in between: it is for this call to create it again.
                Err(Error::UnknownCollection(_)) if attempts < GENERATION_RETRIES => attempts += 1,
                settled => return settled,
            }
        }
    }

    async fn create_or_update(&self, spec: &CollectionSpec) -> Result<(Collection, bool)> {
        match self.store.create_collection(spec.clone()).await {
            Ok(state) => Ok((self.describe(&state).await?, true)),
            Err(StoreError::CollectionExists(_)) => {
                let state = self.store.update_collection(spec.clone()).await?;
                Ok((self.describe(&state).await?, false))
            }
            Err(other) => Err(other.into()),
        }
    }

    /// One collection.
    pub async fn collection(&self, name: &CollectionName) -> Result<Collection> {
        let context = self.context(name).await?;
        self.describe(&context.state).await
    }

    /// All collections, by name.
    pub async fn collections(&self) -> Result<Vec<Collection>> {
        let mut collections = Vec::new();
        for state in self.store.collections().await? {
            match self.describe(&state).await {
                // Dropped between the two reads.
                Err(Error::UnknownCollection(_)) => {}
                described => collections.push(described?),
            }
        }
        Ok(collections)
    }

    /// Removes a collection with everything in it.
    pub async fn drop_collection(&self, name: &CollectionName) -> Result<()> {
        let existed = self.store.drop_collection(name).await?;
        self.contexts.forget(name);
        self.groups.forget(name);
        if existed { Ok(()) } else { Err(Error::UnknownCollection(name.clone())) }
    }

    async fn describe(&self, state: &Arc<CollectionState>) -> Result<Collection> {
        let context = self.contexts.of(&*self.store, state).await?;
        Ok(Collection {
            name: state.name.clone(),
            settings: state.settings.clone(),
            generation: state.generation,
            profile: state.profile.clone(),
            records: self.store.count(&state.name).await?,
            inactive_channels: context.inactive_channels(),
            created_at: state.created_at.clone(),
        })
    }

    pub(super) async fn spec(&self, name: &CollectionName, settings: Settings) -> Result<CollectionSpec> {
        let profile = {
            let settings = settings.clone();
            // Compiling reads the dictionary when the collection has words of its own: a third of a second.
            off_thread(move || Ok(Profile::compile(&settings, None).digest().to_owned())).await?
        };
        Ok(CollectionSpec { name: name.clone(), settings, profile, now: (self.options.now)() })
    }
}
