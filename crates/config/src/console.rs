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
    /// The address of a record in the office's own system, with `{id}` and perhaps `{collection}` in it. The page of a record links to it.
    /// Empty: no link.
    pub record_url: String,
    /// Signing in at an identity provider.
    pub oidc: OidcConfig,
}

impl Default for ConsoleConfig {
    fn default() -> Self {
        Self { enabled: true, record_url: String::new(), oidc: OidcConfig::default() }
    }
}

impl ConsoleConfig {
    /// # Errors
    /// A description of a wrong value.
    pub(crate) fn check(&self) -> Result<(), String> {
        let url = &self.record_url;
        let is_address = url.starts_with("https://") || url.starts_with("http://");
        let is_usable = url.is_empty() || (is_address && url.contains("{id}"));
        if !is_usable {
            return Err("console.record_url must begin with http:// or https:// and contain {id}".into());
        }
        self.oidc.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_record_has_its_id() {
        for (url, is_fine) in [
            ("", true),
            ("https://cases.example/{collection}/{id}", true),
            ("https://cases.example/", false),
            ("javascript:{id}", false),
        ] {
            let config = ConsoleConfig { record_url: url.into(), ..ConsoleConfig::default() };
            assert_eq!(config.check().is_ok(), is_fine, "{url}");
        }
    }
}
