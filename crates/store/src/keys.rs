//! Keys of callers that are made while the service runs, as a store keeps them: one value with a version, the same for all
//! processes that share the store.
//!
//! A store knows nothing of what a key may do. It keeps the ring as it is given, and changes it only for whoever names the version
//! it has, so that of two who change it at once one begins again. What it keeps is no secret: of each key the SHA-256 of its secret.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Result;
use doppel_core::collection::CollectionName;

/// Most keys kept. An office has a key for each program that calls and for each desk, some dozens; every instance reads all of them
/// about once a second, some 100 kB at this number.
pub const MOST_KEYS: usize = 256;

/// A key that was made while the service ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedKey {
    /// Its name, which appears in logs.
    pub name: String,
    /// SHA-256 of its secret, 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// What it may do, in words that the caller of the store knows.
    pub scopes: Vec<String>,
    /// The only collections that it may be used for; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collections: Option<Vec<CollectionName>>,
    /// When it was made (RFC 3339, UTC).
    pub created_at: String,
    /// The name of the key that made it.
    pub created_by: String,
    /// From when on it opens nothing (RFC 3339, UTC); `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it was last used, to the minute (RFC 3339, UTC); noted within some minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
}

/// All keys, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRing {
    /// Counts its changes; 0 for one that was never stored.
    pub version: u64,
    /// The keys.
    pub keys: Vec<ManagedKey>,
}

/// Keeping the keys.
#[async_trait]
pub trait Keys {
    /// The keys as they are. Asked for about once a second.
    ///
    /// # Errors
    /// Nothing but what every call may give.
    async fn key_ring(&self) -> Result<KeyRing>;

    /// Stores `ring` under the next version if what is stored has the version that `ring` names; what is stored then, or `None` where
    /// someone else was faster and nothing is.
    ///
    /// # Errors
    /// Nothing but what every change may give.
    async fn put_key_ring(&self, ring: KeyRing) -> Result<Option<KeyRing>>;
}
