//! Reads the complete content of a store at one moment, and restores a store from it.
//!
//! A snapshot contains the keys and values of named spaces, byte for byte as the store keeps them. It can only be restored to a store of
//! the same kind, and it does not show the records. (`doppel export` writes a collection in a form that any store can read.)
//!
//! **One moment.** A [`SnapshotReader`] shows every change that was acknowledged before the reader was made, and no change that began
//! later. It shows each change completely or not at all, over all spaces. Making a reader takes microseconds and delays no other call.
//! Changes continue while the snapshot is read.
//!
//! Each store that supports snapshots has a function that restores a store from [`SnapshotPiece`]s.

use doppel_core::collection::CollectionName;
use serde::{Deserialize, Serialize};

use super::{GenerationId, Result};

/// The store of a snapshot, and its state at that moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotMoment {
    /// The kind of the store: `embedded`.
    pub kind: String,
    /// The version of its layout on disk.
    pub format: u32,
    /// The collections, sorted by name.
    pub collections: Vec<CollectionAt>,
}

/// The state of a collection at the moment of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CollectionAt {
    /// The name of the collection.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub name: CollectionName,
    /// Number of live records.
    pub records: u64,
    /// The number of the last change in the collection; 0 if there was no change.
    pub last_change: u64,
    /// The live generation.
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub generation: GenerationId,
}

/// A callback that receives a space, a key and its value.
pub type EntryVisitor<'a> = &'a mut dyn FnMut(&'static str, &[u8], &[u8]);

/// Reads the content of a store at the moment at which the reader was made. The reader keeps nothing open between two calls, so that the
/// store can be closed and opened again between them.
pub trait SnapshotReader: Send {
    /// The store and the moment.
    fn moment(&self) -> &SnapshotMoment;

    /// Passes some more megabytes to `visit`, one space after the other, and the keys of each space in ascending order. Returns false at the
    /// end.
    ///
    /// # Errors
    /// `Unavailable` if the store was closed or opened again since the last call; the data that was read is then useless. `Internal` if data
    /// cannot be read.
    fn read(&mut self, visit: EntryVisitor<'_>) -> Result<bool>;
}

/// Keys and values of a space, ascending by key.
pub type SpaceEntries = Vec<(Vec<u8>, Vec<u8>)>;

/// A part of a snapshot. Pieces are in the order in which they were read: one space after the other, and the keys of each space in
/// ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotPiece {
    /// The name of the space.
    pub space: String,
    /// Keys and values.
    pub entries: SpaceEntries,
}
