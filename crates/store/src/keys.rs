//! API keys that are created while the service runs, and accounts of people. A store keeps both under one version, which all processes of the
//! store share.
//!
//! A store does not interpret the permissions of a key. It changes the key ring only for a caller that names the present version; if two callers
//! change the ring at the same time, one of them must begin again. The ring contains no secret, only the SHA-256 of the secret of each key and
//! the hashes of passwords.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::Result;
use super::accounts::PersonAccount;
use doppel_core::collection::CollectionName;

/// Largest number of keys. An office has some dozens of keys, one for each calling program and each desk. Every instance reads all keys
/// about once a second; this number of keys takes about 100 kB.
pub const MOST_KEYS: usize = 256;

/// A key that was made while the service ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManagedKey {
    /// The name, which appears in logs.
    pub name: String,
    /// The SHA-256 of the secret, 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// The permissions. The caller of the store defines their names.
    pub scopes: Vec<String>,
    /// The collections for which the key may be used; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collections: Option<Vec<CollectionName>>,
    /// The time at which the key was created (RFC 3339, UTC).
    pub created_at: String,
    /// The name of the key with which it was created.
    pub created_by: String,
    /// The time from which the key is invalid (RFC 3339, UTC); `None` if it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// The minute of the last use (RFC 3339, UTC). It is stored with a delay of some minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
}

/// All keys and accounts, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRing {
    /// Number of changes of the ring; 0 for a ring that was never stored.
    pub version: u64,
    /// The keys.
    pub keys: Vec<ManagedKey>,
    /// The accounts of people. A store keeps them separately from the other members: an older program that does not know accounts replaces
    /// all other members at each change, and this must not delete the accounts.
    #[serde(skip)]
    pub accounts: Vec<PersonAccount>,
}

/// The API keys and accounts of a store.
#[async_trait]
pub trait KeyStore {
    /// Returns the present keys and accounts. Called about once a second.
    ///
    /// # Errors
    /// Only the errors of every call.
    async fn key_ring(&self) -> Result<KeyRing>;

    /// Stores `ring` under the next version if the stored version equals the version of `ring`. Returns the stored ring, or `None` if the
    /// versions differ because another caller changed the ring.
    ///
    /// # Errors
    /// Only the errors of every change.
    async fn put_key_ring(&self, ring: KeyRing) -> Result<Option<KeyRing>>;
}
