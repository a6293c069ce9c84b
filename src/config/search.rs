//! `[search]`: related cases and full-text search.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[search]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Search {
    /// Whether records can be searched and related cases found. The index follows what is stored within a second or two; each record
    /// takes some kilobytes of disk for it, and some of the time of a core.
    pub enabled: bool,
    /// The folder of the index, of this instance alone. It may be deleted at any time: it is made anew from the records. Empty: the
    /// folder `search` in `store.data`; with MongoDB a temporary one, made anew at each start.
    pub dir: PathBuf,
}

impl Default for Search {
    fn default() -> Self {
        Self { enabled: true, dir: PathBuf::new() }
    }
}
