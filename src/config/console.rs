//! `[console]`: the desk, pages for the people who read petitions.

use serde::{Deserialize, Serialize};

/// `[console]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Console {
    /// Whether the pages below `/console` are there. They show what keys of the API may see and do what they may do, nothing
    /// else; an office that calls the API alone can do without.
    pub enabled: bool,
}

impl Default for Console {
    fn default() -> Self {
        Self { enabled: true }
    }
}
