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
    /// It does not: commits are written to the journal only. For a volume without the room that merging tables takes.
    Held,
}

/// Progress of rebuilding the indexes at opening.
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
    /// merging tables needs room too. Removals are taken all the same.
    pub min_free_bytes: u64,
    /// The same, as a share of the data's size, up to 4 GiB; what is more counts.
    pub reserve_percent: u32,
    /// Unless `None`, what cannot be read is skipped and noted here, where that is possible.
    pub damages: Option<Damages>,
    /// Block cache of the database.
    pub cache_bytes: u64,
    /// Called while the indexes are rebuilt; from one thread at a time.
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

/// How tests open a directory.
#[cfg(test)]
pub(super) const FRESH: (Opening, Workers) = (Opening::CreateIfEmpty, Workers::Running);
