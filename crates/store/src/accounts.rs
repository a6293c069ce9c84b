//! Accounts of people. A store keeps them in the [key ring](crate::keys), so that a name belongs to one key or to one account.
//!
//! A store does not interpret roles and hashes of passwords. The ring contains no password, only its argon2id hash.

use serde::{Deserialize, Serialize};

use doppel_core::collection::CollectionName;

/// Largest number of accounts. The hotline of a large city has a few hundred clerks. Every instance reads all accounts about once a second;
/// this number of accounts takes about 400 kB.
pub const MOST_ACCOUNTS: usize = 1024;

/// The account of a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PersonAccount {
    /// The name with which the person signs in. It follows the rule for names of keys, and does not change.
    pub name: String,
    /// The name that pages and decisions show.
    pub display_name: String,
    /// The role. The caller of the store defines the roles.
    pub role: String,
    /// The collections for which the account may be used; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collections: Option<Vec<CollectionName>>,
    /// The argon2id hash of the password in the PHC string format; `None` if the person can only sign in at the identity provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_hash: Option<String>,
    /// True if the person cannot sign in.
    #[serde(default)]
    pub is_disabled: bool,
    /// Number of changes that ended the sessions of the person: changes of the role, the collections or the password, and disabling.
    #[serde(default)]
    pub sign_outs: u64,
    /// The time at which the account was created (RFC 3339, UTC).
    pub created_at: String,
    /// The name of the key or the account that created it.
    pub created_by: String,
    /// The time of the last change (RFC 3339, UTC).
    pub changed_at: String,
}
