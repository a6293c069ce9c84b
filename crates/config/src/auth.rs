//! `[auth]`: API keys and their scopes, and the roles of people.
//!
//! A key has the form `dpl_<name>_<secret>`. The configuration contains the name, which appears in logs, and the SHA-256 of the secret.
//! `doppel config new-key` shows the key once, and the key is stored nowhere.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

/// Largest length of the name of a key.
pub const MAX_NAME_BYTES: usize = 64;

/// A permission of a key. No scope includes another scope, so a key must list all scopes that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Allows requests that change nothing: check, similar, explain, reading records and collections, metrics.
    Read,
    /// Allows registering and deleting records.
    Write,
    /// Allows creating, changing and deleting collections.
    Admin,
    /// Allows deciding about many records at once. No key names this scope: a key with `write` has it. Only roles distinguish it.
    #[serde(skip)]
    #[value(skip)]
    Lead,
}

impl Scope {
    /// Returns the name of the scope in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
            Self::Lead => "lead",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Self::Read, Self::Write, Self::Admin].into_iter().find(|scope| scope.as_str() == name)
    }
}

/// The role of a person. Each role includes the roles before it: `viewer`, `clerk`, `lead`, `administrator`. docs/security.md lists the actions of
/// each role.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum PersonRole {
    /// Reads.
    #[default]
    Viewer,
    /// Also decides about single records, registers records, and writes steps of the handling of events.
    Clerk,
    /// Also decides about many records at once: batches, groups and events.
    Lead,
    /// May do everything: also collections, indexes and accounts.
    Administrator,
}

impl PersonRole {
    /// All roles, the role with the fewest rights first.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Clerk, Self::Lead, Self::Administrator];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Clerk => "clerk",
            Self::Lead => "lead",
            Self::Administrator => "administrator",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }

    pub fn scopes(self) -> &'static [Scope] {
        match self {
            Self::Viewer => &[Scope::Read],
            Self::Clerk => &[Scope::Read, Scope::Write],
            Self::Lead => &[Scope::Read, Scope::Write, Scope::Lead],
            Self::Administrator => &[Scope::Read, Scope::Write, Scope::Lead, Scope::Admin],
        }
    }

    /// Returns the lowest role with `scope`.
    pub fn with(scope: Scope) -> Self {
        match scope {
            Scope::Read => Self::Viewer,
            Scope::Write => Self::Clerk,
            Scope::Lead => Self::Lead,
            Scope::Admin => Self::Administrator,
        }
    }
}

/// `[[auth.keys]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyConfig {
    /// The name: 1 to 64 characters of `a-z`, `0-9` and `-`.
    pub name: String,
    /// The SHA-256 of the secret, 64 hexadecimal digits.
    pub sha256: String,
    pub scopes: Vec<Scope>,
}

/// `[auth]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// The keys. Without a key, everyone who can reach the address may do everything. This is allowed only on loopback.
    pub keys: Vec<KeyConfig>,
}

impl AuthConfig {
    /// Checks the keys.
    ///
    /// # Errors
    /// The name of the wrong key, and the reason.
    pub fn check(&self) -> Result<(), String> {
        for (index, KeyConfig { name, sha256, scopes }) in self.keys.iter().enumerate() {
            let at = format!("auth.keys[{index}]");
            if !is_name(name) {
                return Err(format!("{at}.name must be 1 to {MAX_NAME_BYTES} of a-z, 0-9 and \"-\""));
            }
            if self.keys[..index].iter().any(|earlier| earlier.name == *name) {
                return Err(format!("{at}.name: another key is already called {name:?}"));
            }
            if decode(sha256).is_none() {
                return Err(format!("{at}.sha256 must be 64 hexadecimal digits; doppel config new-key makes one"));
            }
            if self.keys[..index].iter().any(|earlier| earlier.sha256.eq_ignore_ascii_case(sha256)) {
                return Err(format!("{at}.sha256: another key has the same secret; doppel config new-key makes one"));
            }
            if scopes.is_empty() {
                return Err(format!("{at}.scopes is empty; give some of read, write, admin"));
            }
        }
        Ok(())
    }
}

/// True if a key may have this name.
pub fn is_name(name: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Computes the SHA-256 of a secret.
pub fn hash_secret(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Splits a key `dpl_<name>_<secret>` into its name and its secret.
pub fn split_key(key: &str) -> Option<(&str, &str)> {
    key.strip_prefix("dpl_")?.split_once('_').filter(|(name, secret)| !name.is_empty() && !secret.is_empty())
}

/// Decodes 64 hexadecimal digits.
pub fn decode(hex: &str) -> Option<[u8; 32]> {
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// Encodes bytes as lower-case hexadecimal digits.
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a new key with this name. Returns the key for the caller, and the hash for the configuration.
///
/// # Errors
/// The system cannot provide random bytes.
pub fn new_key(name: &str) -> anyhow::Result<(String, String)> {
    let mut random = [0; 24];
    getrandom::fill(&mut random).map_err(|error| anyhow::anyhow!("the system cannot provide random bytes: {error}"))?;
    let secret = encode(&random);
    let hash = encode(&hash_secret(&secret));
    Ok((format!("dpl_{name}_{secret}"), hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_splits_into_its_name_and_a_secret_with_the_configured_hash() {
        let (key, hash) = new_key("intake-desk").unwrap();
        let (name, secret) = split_key(&key).unwrap();
        assert_eq!(name, "intake-desk");
        assert_eq!(decode(&hash).unwrap(), hash_secret(secret));
        let auth = AuthConfig { keys: vec![KeyConfig { name: name.into(), sha256: hash, scopes: vec![Scope::Read] }] };
        assert_eq!(auth.check(), Ok(()));
    }

    #[test]
    fn each_role_has_the_scopes_of_the_roles_before_it_and_one_more() {
        let mut before: &[Scope] = &[];
        for role in PersonRole::ALL {
            assert_eq!(PersonRole::parse(role.as_str()), Some(role));
            let scopes = role.scopes();
            let [kept @ .., new] = scopes else { panic!("{role:?} has no scope") };
            assert_eq!((kept, PersonRole::with(*new)), (before, role));
            before = scopes;
        }
    }

    #[test]
    fn texts_of_another_form_are_no_keys() {
        for text in ["", "dpl_", "dpl_a", "dpl_a_", "dpl__x", "abc_a_b"] {
            assert_eq!(split_key(text), None, "{text}");
        }
    }
}
