//! Collections: creating, changing, listing and dropping them; and the compiled context that every other use case begins with.
//!
//! Requests that create, drop and write to the same collection at the same time may be executed in any order. If the store has completed a request,
//! the answer confirms this, even if another request has changed the collection a moment later. A request that a drop interrupted begins again.

use std::sync::Arc;
use std::time::Duration;

use crate::answers::Collection;
use crate::boxed;
use crate::context::{self, Context};
use crate::{DROP_RETRIES, Engine, Error, Result, off_thread};
use doppel_core::collection::{CollectionName, Field, Keep, Settings};
use doppel_core::record::Row;
use doppel_core::schemes::profile::{Profile, profile_digest};
use doppel_store::content::HashKey;
use doppel_store::{CollectionNumber, CollectionSpec, CollectionState, StoreError};

/// Returns the names of fields, in their order.
fn names_of(fields: &[Field]) -> impl Iterator<Item = &str> {
    fields.iter().map(|field| field.name.as_str())
}

impl Engine {
    /// Creates a collection (`true`) or changes its settings (`false`).
    ///
    /// # Errors
    /// [`Error::Invalid`] for invalid settings; [`Error::Store`] with `KeepConflict` if they change `keep`, with `ProfileConflict` if they
    /// change signatures and there are records; [`Error::TaskRunning`] while a reindex or an activation brings other settings.
    #[boxed]
    pub async fn put_collection(&self, name: &CollectionName, settings: Settings) -> Result<(Collection, bool)> {
        let violations = settings.validate();
        if !violations.is_empty() {
            return Err(Error::Invalid(violations));
        }
        let spec = self.spec(name, settings).await?;
        let mut attempts = 0;
        loop {
            match self.create_or_update(&spec).await {
                // The collection existed, and was dropped before it was changed: this call creates it again.
                Err(Error::UnknownCollection(_)) if attempts < DROP_RETRIES => attempts += 1,
                settled => return settled,
            }
        }
    }

    async fn create_or_update(&self, spec: &CollectionSpec) -> Result<(Collection, bool)> {
        match self.store.create_collection(spec.clone()).await {
            // Records are not counted: another request may have dropped the collection by now, although it was created.
            Ok(state) => Ok((self.described(&state, 0).await?, true)),
            Err(StoreError::CollectionExists(_)) => {
                self.after_renewal(&spec.name).await?;
                let mut settings = spec.settings.clone();
                self.keep_taught(&spec.name, &mut settings).await?;
                let kept = match settings == spec.settings {
                    true => spec.clone(),
                    false => self.spec(&spec.name, settings).await?,
                };
                self.refuse_lost_change(&kept).await?;
                let state = self.store.update_collection(kept).await?;
                self.renew_if_due(&spec.name, Duration::ZERO).await?;
                Ok((self.describe(&state).await?, false))
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Adds to settings what they do not name and what the collection has learned since its creation: places, forms, the model, and the fields
    /// that were recognised in its first record. An office may send its settings at each deployment, which must not delete these. Settings of
    /// an unknown collection stay as they are.
    ///
    /// # Errors
    /// The errors of the store.
    #[boxed]
    pub async fn keep_taught(&self, collection: &CollectionName, settings: &mut Settings) -> Result<()> {
        let context = match self.context(collection).await {
            Ok(context) => context,
            Err(Error::UnknownCollection(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let present = &context.state.settings;
        if settings.text.places.is_empty() {
            settings.text.places.clone_from(&present.text.places);
        }
        if let (Some(given), Some(present)) = (&mut settings.verify, &present.verify) {
            if given.forms.is_empty() {
                given.forms.clone_from(&present.forms);
            }
            if given.model.is_none() {
                given.model.clone_from(&present.model);
            }
        }
        let usual = settings.fields.len();
        if names_of(&settings.fields).eq(names_of(&Settings::default().fields))
            && names_of(&present.fields).take(usual).eq(names_of(&settings.fields))
        {
            settings.fields.extend_from_slice(&present.fields[usual..]);
        }
        Ok(())
    }

    /// Refuses settings that a running task would overwrite: a reindex brings its own settings, so that other settings would be lost at its
    /// end.
    async fn refuse_lost_change(&self, spec: &CollectionSpec) -> Result<()> {
        if self.context(&spec.name).await?.state.settings == spec.settings {
            return Ok(());
        }
        match self.unfinished_task(&spec.name).await? {
            Some(task) if matches!(&*task.kind, "reindex" | "activate") => {
                Err(Error::TaskRunning(spec.name.clone(), task.id))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of the collection with this name in the memory of this instance. Another instance may have deleted the collection a
    /// moment ago and created another collection.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`] if there is none; [`Error::Store`] when the store cannot be asked.
    #[boxed]
    pub async fn collection_number(&self, name: &CollectionName) -> Result<CollectionNumber> {
        let state = self.store.collection(name).await?;
        Ok(state.ok_or_else(|| Error::UnknownCollection(name.clone()))?.number)
    }

    /// Returns one collection.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn collection(&self, name: &CollectionName) -> Result<Collection> {
        let context = self.context(name).await?;
        self.describe(&context.state).await
    }

    /// Returns the names of all collections.
    ///
    /// # Errors
    /// The errors of the store.
    #[boxed]
    pub async fn collection_names(&self) -> Result<Vec<CollectionName>> {
        Ok(self.store.collections().await?.iter().map(|state| state.name.clone()).collect())
    }

    /// Returns the collections with a name above `after` for which `shown` is true, by name, at most `limit`; and the name after which the
    /// list continues.
    ///
    /// # Errors
    /// The errors of the store. A collection that is deleted meanwhile is left out.
    pub async fn collections(
        &self,
        after: Option<&CollectionName>,
        limit: usize,
        shown: impl Fn(&CollectionName) -> bool + Send,
    ) -> Result<(Vec<Collection>, Option<CollectionName>)> {
        let mut states = self.store.collections().await?;
        states.retain(|state| after.is_none_or(|after| state.name > *after) && shown(&state.name));
        let next = (states.len() > limit).then(|| states[limit - 1].name.clone());
        let mut collections = Vec::new();
        for state in states.into_iter().take(limit) {
            match self.describe(&state).await {
                // The collection was dropped between the two reads.
                Err(Error::UnknownCollection(_)) => {}
                described => collections.push(described?),
            }
        }
        Ok((collections, next))
    }

    /// Removes a collection with all its records.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn drop_collection(&self, name: &CollectionName) -> Result<()> {
        let existed = self.store.drop_collection(name).await?;
        self.contexts.forget(name);
        self.groups.forget(name);
        self.events.forget(name);
        self.counts.forget(name);
        if existed { Ok(()) } else { Err(Error::UnknownCollection(name.clone())) }
    }

    async fn describe(&self, state: &Arc<CollectionState>) -> Result<Collection> {
        let records = self.store.count(&state.name).await?;
        self.described(state, records).await
    }

    async fn described(&self, state: &Arc<CollectionState>, records: u64) -> Result<Collection> {
        let inactive_channels = self.contexts.inactive_channels(&*self.store, state).await?;
        Ok(Collection {
            name: state.name.clone(),
            settings: state.settings.clone(),
            generation: state.generation,
            profile: state.profile.clone(),
            records,
            inactive_channels,
            outdated: profile_digest(&state.settings) != state.profile,
            keeps_text: state.settings.keeps_text(),
            created_at: state.created_at.clone(),
        })
    }

    pub(super) async fn spec(&self, name: &CollectionName, settings: Settings) -> Result<CollectionSpec> {
        let profile = {
            let settings = settings.clone();
            // The compiler reads the dictionary if the collection has its own words, which takes a third of a second.
            off_thread(move || Ok(Profile::compile(&settings, None).digest().to_owned())).await?
        };
        let hash_key = match settings.keep {
            Keep::All => None,
            Keep::Signatures => Some(HashKey::new((self.options.random)().ok_or(Error::Crashed)?)),
        };
        Ok(CollectionSpec { name: name.clone(), settings, profile, hash_key, now: (self.options.now)() })
    }

    /// Returns the compiled collection.
    pub(super) async fn context(&self, name: &CollectionName) -> Result<Arc<Context>> {
        match self.store.collection(name).await? {
            Some(state) => self.contexts.of(&*self.store, &state).await,
            None => Err(Error::UnknownCollection(name.clone())),
        }
    }

    /// Returns the compiled collection. Creates an unknown collection with preset `default` and fields for the members of `row` if
    /// [`auto_create`](super::Options) is set.
    pub(super) async fn context_or_create(&self, name: &CollectionName, row: &Row) -> Result<Arc<Context>> {
        for _ in 0..=DROP_RETRIES {
            match self.context(name).await {
                Err(Error::UnknownCollection(_)) if self.options.auto_create => {}
                other => return other,
            }
            let most = self.options.max_auto_created;
            if self.store.collections().await?.len() >= most {
                return Err(Error::TooManyCollections(name.clone(), most));
            }
            // A row that the collection would refuse does not create the collection.
            let row = row.clone();
            let (settings, _) = off_thread(move || context::read_first(&row)).await?;
            let spec = self.spec(name, settings).await?;
            match self.store.create_collection(spec).await {
                Ok(state) => return self.contexts.of(&*self.store, &state).await,
                // Another request created the collection first, and may drop it next.
                Err(StoreError::CollectionExists(_)) => {}
                Err(other) => return Err(other.into()),
            }
        }
        Err(Error::UnknownCollection(name.clone()))
    }
}
