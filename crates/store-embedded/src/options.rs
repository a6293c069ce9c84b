//! How an embedded store is opened.

use std::sync::Arc;

use super::scan::Damages;

/// What may be opened as a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// One that is there; and an empty or missing directory, which becomes one.
    CreateIfEmpty,
    /// One that is there.
    Existing,
}

/// Whether the storage engine merges tables and deletes journals in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workers {
    Running,
    /// It does not: commits go to the journal alone. For a volume without the room that merging tables takes.
    Held,
}

/// How far a rebuild of the indexes has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadProgress {
    /// Records of all collections filed so far.
    pub done: u64,
    /// Records of all collections.
    pub total: u64,
}

/// How to open an embedded store.
#[derive(Clone)]
pub struct EmbeddedOptions {
    /// What may be opened.
    pub opening: Opening,
    /// Writes are refused while less than this is free on the volume: a full disk stops fjall until it is opened again, and
    /// clearing up needs room too. Removals go on.
    pub min_free_bytes: u64,
    /// The same, as a share of the data's size, up to 4 GiB; what is more counts.
    pub reserve_percent: u32,
    /// Unless `None`, what cannot be read is passed over and noted here, where that is possible.
    pub damages: Option<Damages>,
    /// Block cache of the database.
    pub cache_bytes: u64,
    /// Called with how far the rebuilding of the indexes has come; from one thread at a time.
    pub progress: Arc<dyn Fn(LoadProgress) + Send + Sync>,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            opening: Opening::CreateIfEmpty,
            min_free_bytes: 256 << 20,
            reserve_percent: 50,
            damages: None,
            cache_bytes: 64 << 20,
            progress: Arc::new(|_| {}),
        }
    }
}

/// How tests open a directory.
#[cfg(test)]
pub(super) const FRESH: (Opening, Workers) = (Opening::CreateIfEmpty, Workers::Running);
