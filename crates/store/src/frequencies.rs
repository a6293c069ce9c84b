//! The document frequencies of a collection: the share of its records that contain a piece of text.
//!
//! The engine counts them in a sample of the records and encodes them; a store only keeps the bytes. They belong to the collection, not to
//! a generation, and are the same for every instance. The first version is 1; version 0 means that no frequencies are stored.

use async_trait::async_trait;

use super::{Result, StoreError};
use doppel_core::collection::CollectionName;

/// Largest size of encoded document frequencies in bytes, because they are written in one step.
pub const MAX_FREQUENCIES_BYTES: usize = 4 << 20;

/// The document frequencies of a store. All calls are durable and cancel-safe, like the calls of [`Store`](super::Store).
#[async_trait]
pub trait FrequencyStore {
    /// Stores `bytes` as version `version` of the document frequencies if the present version is `version` − 1; otherwise returns false. If
    /// several callers store the same version, exactly one succeeds. When the call returns true, the version is durable and visible to
    /// every instance ([`CollectionState::frequencies`](super::CollectionState::frequencies)). After a crash the collection has this
    /// version or the previous version, complete. Lookups and registrations continue during the call. If a caller repeats the call after an
    /// unknown outcome, it may return false although the first call succeeded; the state of the collection then shows the version.
    ///
    /// # Errors
    /// `UnknownCollection`; `FrequenciesTooLarge` above [`MAX_FREQUENCIES_BYTES`].
    async fn put_frequencies(&self, name: &CollectionName, version: u32, bytes: Vec<u8>) -> Result<bool>;

    /// Returns the document frequencies of this version, if it is the present version or the previous version (a caller may have read the
    /// state of the collection just before a change). `None` for all other versions and for 0.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn frequencies(&self, name: &CollectionName, version: u32) -> Result<Option<Vec<u8>>>;
}

/// Checks the size of encoded document frequencies.
///
/// # Errors
/// `FrequenciesTooLarge` above [`MAX_FREQUENCIES_BYTES`].
pub fn check_size(bytes: &[u8]) -> Result<()> {
    let given = bytes.len();
    let most = MAX_FREQUENCIES_BYTES;
    if given > most { Err(StoreError::FrequenciesTooLarge { given, most }) } else { Ok(()) }
}
