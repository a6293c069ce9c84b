//! A whole store as it was at one moment, and a store made of that again.
//!
//! What is read are keys and values of named spaces, byte by byte as the store keeps them: a snapshot is for a store of the same
//! kind, and knows nothing of records. (`doppel export` writes a collection that any store reads.)
//!
//! **One moment.** A [`SnapshotReader`] shows every change that was acknowledged before it was made, no change that was begun
//! later, and of each change all or nothing, over all spaces. Making one costs microseconds and nobody waits for it; reading
//! goes on beside changes.
//!
//! Each store that can be read so has a function that makes a store of [`Piece`]s again.

use doppel_core::collection::CollectionName;
use serde::{Deserialize, Serialize};

use super::{GenerationId, Result};

/// Which store it was, and how far it had come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// What kind of store keeps its data so: `embedded`.
    pub kind: String,
    /// The version of its layout.
    pub format: u32,
    /// Its collections, by name.
    pub collections: Vec<CollectionAt>,
}

/// How far a collection had come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CollectionAt {
    /// Its name.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub name: CollectionName,
    /// Live records.
    pub records: u64,
    /// Number of its last change; 0 where there was none.
    pub last_change: u64,
    /// The generation that answered.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub generation: GenerationId,
}

/// Takes a key and its value, in a space.
pub type Visit<'a> = &'a mut dyn FnMut(&'static str, &[u8], &[u8]);

/// Reads a store as it was when this was made. Holds nothing open between two calls, so that a store can be closed or opened again
/// meanwhile.
pub trait SnapshotReader: Send {
    /// Which moment it shows.
    fn moment(&self) -> &Moment;

    /// Shows some megabytes more, space after space, the keys of each in ascending order; whether there is more.
    ///
    /// # Errors
    /// `Unavailable` where the store was closed or opened again since: what was read is worth nothing then. `Internal` where
    /// something cannot be read.
    fn read(&mut self, visit: Visit<'_>) -> Result<bool>;
}

/// Keys and values of a space, ascending.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// A part of what was read, to be made a store of again: pieces come space after space, the keys of each in ascending order, as they
/// were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The space.
    pub space: String,
    /// What is in it.
    pub entries: Entries,
}
