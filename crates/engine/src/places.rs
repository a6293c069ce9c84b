//! The places that an office knows, with their aliases (`text.places` of the settings).
//!
//! Places decide which names a text has, and so the keys of a record and the evidence about a pair. Another list therefore takes effect with a
//! generation, which can be compared with the live one, activated, and left again, like a form.

use crate::boxed;
use crate::forms::reindex;
use crate::tasks::Task;
use crate::{Engine, Error, Result};
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::facts::Place;

impl Engine {
    /// Returns the places of the live generation, in the order of the list.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn places(&self, collection: &CollectionName) -> Result<Vec<Place>> {
        Ok(self.context(collection).await?.state.settings.text.places.clone())
    }

    /// Gives settings without places the places of the collection: whoever sends settings does not mean to forget a list that was set
    /// apart. An unknown collection has none.
    ///
    /// # Errors
    /// The errors of the store.
    #[boxed]
    pub async fn keep_places(&self, collection: &CollectionName, settings: &mut Settings) -> Result<()> {
        if settings.text.places.is_empty() {
            match self.places(collection).await {
                Ok(places) => settings.text.places = places,
                Err(Error::UnknownCollection(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Begins a reindex with these places in the place of the earlier list.
    ///
    /// # Errors
    /// The errors of [`Engine::begin_task`].
    #[boxed]
    pub async fn set_places(&self, collection: &CollectionName, places: Vec<Place>, activate: bool) -> Result<Task> {
        let mut settings = self.latest_settings(collection).await?;
        settings.text.places = places;
        self.begin_task(collection, reindex(settings, activate)).await
    }
}
