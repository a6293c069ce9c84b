//! The names of collections.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The name of a collection: `[a-z0-9][a-z0-9_-]{0,63}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^[a-z0-9][a-z0-9_-]{0,63}$"))]
#[serde(transparent)]
pub struct CollectionName(Arc<str>);

impl CollectionName {
    /// Checks that `text` is a valid name, and returns the name.
    ///
    /// # Errors
    /// The rule for names, in words for the client.
    pub fn new(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            [first, rest @ ..] if begins_name(*first) && rest.len() < 64 && rest.iter().all(|b| continues_name(*b)) => {
                Ok(Self(text.into()))
            }
            _ => {
                Err("a collection name is 1 to 64 of a-z, 0-9, \"_\" and \"-\", and starts with a letter or a digit"
                    .into())
            }
        }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn begins_name(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn continues_name(byte: u8) -> bool {
    begins_name(byte) || byte == b'_' || byte == b'-'
}

impl fmt::Display for CollectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for CollectionName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}
