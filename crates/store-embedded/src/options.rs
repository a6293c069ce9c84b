//! Options for opening an embedded store.

use std::sync::Arc;

use super::scan::Damages;

/// The directories that may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// An existing data directory, or an empty or missing directory, which becomes a data directory.
    CreateIfEmpty,
    /// An existing data directory.
    Existing,
}

/// States whether the storage engine merges tables and deletes journals in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workers {
    Running,
    /// Commits are written to the journal only. For a volume without the space that merging tables needs.
    Held,
}

/// Progress of rebuilding the indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadProgress {
    /// Number of records of all collections in the indexes.
    pub done: u64,
    /// Number of records of all collections.
    pub total: u64,
}

/// Options of an embedded store.
#[derive(Clone)]
pub struct EmbeddedOptions {
    /// The directories that may be opened.
    pub opening: Opening,
    /// Free space in bytes below which writes are refused: a full volume stops fjall until it is opened again, and merging tables
    /// also needs space. Removals are still accepted.
    pub min_free_bytes: u64,
    /// The same as a percentage of the size of the data, up to 4 GiB. The larger of the two values applies.
    pub reserve_percent: u32,
    /// If it is set, damages are skipped if possible, and noted here.
    pub damages: Option<Damages>,
    /// Size of the block cache of the database in bytes.
    pub cache_bytes: u64,
    /// Called while the indexes are rebuilt, by one thread at a time.
    pub on_progress: Arc<dyn Fn(LoadProgress) + Send + Sync>,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            opening: Opening::CreateIfEmpty,
            min_free_bytes: 256 << 20,
            reserve_percent: 50,
            damages: None,
            cache_bytes: 64 << 20,
            on_progress: Arc::new(|_| {}),
        }
    }
}

/// The directories that may be opened, and whether tables are merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpeningMode {
    pub(super) opening: Opening,
    pub(super) workers: Workers,
}

/// The mode in which tests open a new directory.
#[cfg(test)]
pub(super) const FRESH: OpeningMode = OpeningMode { opening: Opening::CreateIfEmpty, workers: Workers::Running };
