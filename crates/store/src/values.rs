//! Named values: data that parts of the service store for a collection in addition to its records, such as the progress of an import and
//! the handling of events.
//!
//! A store does not interpret a value. It keeps each value under its name with a version, and changes it only for a caller that names the
//! present version. If two processes change the same value, the store therefore refuses one change, and this process learns of the other
//! process. Values are deleted with their collection.
//!
//! The progress of a *task* (a reindex, a purge) is part of the task: [`TaskState::checkpoint`](crate::tasks::TaskState::checkpoint).

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Result;
use doppel_core::collection::CollectionName;

/// A named value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NamedValue {
    /// Number of changes of the value; 0 for a value that was never stored.
    pub version: u64,
    /// The value, some kilobytes at most.
    pub value: serde_json::Value,
}

/// The named values of a store.
#[async_trait]
pub trait ValueStore {
    /// Returns the value with this name; `None` if no value has this name.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn value(&self, collection: &CollectionName, name: &str) -> Result<Option<NamedValue>>;

    /// Returns at most `limit` values whose names begin with `prefix` and come after the name `after`, with their names, in the order of the
    /// bytes of the names.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn values(
        &self,
        collection: &CollectionName,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, NamedValue)>>;

    /// Stores `value` under the next version if the stored version equals the version in `value` (0 if nothing is stored). Returns false
    /// otherwise.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn put_value(&self, collection: &CollectionName, name: &str, value: NamedValue) -> Result<bool>;

    /// Deletes a value if its stored version is `version`. Returns false otherwise. A new value with this name begins at version 0.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn delete_value(&self, collection: &CollectionName, name: &str, version: u64) -> Result<bool>;
}
