//! `[store]`: the store of the records.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// A directory on this machine, for one instance.
    #[default]
    Embedded,
    /// A MongoDB replica set or cluster, for any number of instances.
    Mongodb,
}

/// A text that may contain a password and is never shown.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(String);

impl SecretText {
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "(none)" } else { "(not shown)" })
    }
}

/// `[store]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// The kind of store. The other keys apply to only one kind.
    pub kind: StoreKind,
    /// Embedded: the directory.
    pub data: PathBuf,
    /// Embedded: the number of free bytes on the volume below which writes are refused (507), because a full disk stops the store until it
    /// is opened again. A reindex stops at twice this number.
    pub min_free_bytes: u64,
    /// Embedded: the same limit in percent of the size of the data, up to 4 GiB, because merging tables takes space in proportion to the
    /// data. The larger limit applies. Deleting records is always allowed.
    pub reserve_percent: u32,
    /// MongoDB: the URI, `mongodb://` or `mongodb+srv://`.
    pub uri: SecretText,
    /// MongoDB: a file that contains the URI, to keep the password out of the configuration.
    pub uri_file: PathBuf,
    /// MongoDB: the database.
    pub database: String,
    /// MongoDB: the time in milliseconds in which every call is answered, perhaps with 503.
    pub deadline_ms: u64,
    /// MongoDB: the time in milliseconds to wait at the start for a server, or for another instance that runs migrations.
    pub connect_timeout_ms: u64,
    /// MongoDB: largest number of connections to each server.
    pub max_connections: u32,
    /// MongoDB: true to apply pending migrations at the start. If false, `doppel migrate` must be run first.
    pub migrate: bool,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            kind: StoreKind::Embedded,
            data: PathBuf::from("./doppel-data"),
            min_free_bytes: 256 << 20,
            reserve_percent: 50,
            uri: SecretText::default(),
            uri_file: PathBuf::new(),
            database: "doppel".into(),
            deadline_ms: 5000,
            connect_timeout_ms: 60_000,
            max_connections: 64,
            migrate: true,
        }
    }
}

impl StoreConfig {
    /// Returns the first mistake.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.kind == StoreKind::Embedded {
            let is_empty = self.data.as_os_str().is_empty();
            return if is_empty { Err("store.data is empty; give a directory".into()) } else { Ok(()) };
        }
        let no_file = self.uri_file.as_os_str().is_empty();
        if self.uri.reveal().is_empty() == no_file {
            return Err("store.kind is \"mongodb\": give either store.uri or store.uri_file".into());
        }
        if self.database.is_empty()
            || self.database.len() > 63
            || self.database.contains(['/', '\\', '.', ' ', '"', '$'])
        {
            return Err("store.database is 1 to 63 characters without / \\ . space \" $".into());
        }
        let limits = [
            ("store.deadline_ms", self.deadline_ms),
            ("store.connect_timeout_ms", self.connect_timeout_ms),
            ("store.max_connections", self.max_connections.into()),
        ];
        match limits.iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(format!("{name} must be at least 1")),
            None => Ok(()),
        }
    }

    /// Returns the URI, and reads it from its file if a file is set.
    ///
    /// # Errors
    /// The file cannot be read. The error does not repeat its content.
    pub fn mongodb_uri(&self) -> anyhow::Result<SecretText> {
        if self.uri_file.as_os_str().is_empty() {
            return Ok(self.uri.clone());
        }
        let text = std::fs::read_to_string(&self.uri_file)
            .map_err(|error| anyhow::anyhow!("store.uri_file {} cannot be read: {error}", self.uri_file.display()))?;
        Ok(text.trim().to_owned().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mongodb_needs_a_uri() {
        let mut store = StoreConfig { kind: StoreKind::Mongodb, ..StoreConfig::default() };
        assert!(store.check().unwrap_err().contains("store.uri_file"));
        store.uri = "mongodb://127.0.0.1".to_owned().into();
        assert!(store.check().is_ok());
        store.uri_file = "secret".into();
        assert!(store.check().is_err(), "both");
    }

    #[test]
    fn a_password_is_not_shown() {
        let store = StoreConfig { uri: "mongodb://u:secret@h".to_owned().into(), ..StoreConfig::default() };
        assert!(!format!("{store:?}").contains("secret"));
    }
}
