//! `[console]`: the desk, pages for the people who read petitions.

use serde::{Deserialize, Serialize};

use crate::oidc::OidcConfig;

/// `[console]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConsoleConfig {
    /// True if the service has the pages below `/console`. They allow exactly what the keys of the API allow. An office that uses only the
    /// API does not need them.
    pub enabled: bool,
    /// Signing in at an identity provider.
    pub oidc: OidcConfig,
}

impl Default for ConsoleConfig {
    fn default() -> Self {
        Self { enabled: true, oidc: OidcConfig::default() }
    }
}
