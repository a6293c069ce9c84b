//! `[search.embedder]`: the server of a model that turns texts into vectors.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::address::is_remote_literal;

/// Largest length of the name of a model and of a prefix, in characters.
const MAX_NAME_CHARS: usize = 200;
/// The bounds of `max_chars`. A model reads a few hundred to a few thousand words.
const CHARS: (usize, usize) = (64, 8_000);
/// Largest number of texts in one request. The rows of a batch are in memory at the same time, and a row may have a megabyte.
pub const MAX_BATCH: usize = 64;
/// The longest time that a question may wait for a vector, in milliseconds.
const MAX_TIMEOUT_MS: u64 = 5_000;
/// Largest weight of vectors in the ranking of related records. Words have weight 1.
const MAX_WEIGHT: f32 = 100.0;

/// `[search.embedder]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EmbedderConfig {
    /// The address of the OpenAI-compatible operation, such as `http://127.0.0.1:8000/v1/embeddings`. If empty, there are no vectors.
    pub url: String,
    pub model: String,
    /// The file with the key that is sent as `Authorization: Bearer`. If empty, no key is sent.
    pub key_file: PathBuf,
    /// The text that the model expects before each text.
    pub prefix: String,
    /// Number of characters of a record that are sent.
    pub max_chars: usize,
    /// Largest number of texts in one request.
    pub batch: usize,
    /// The longest time that a question waits for the vector of a new text, in milliseconds.
    pub timeout_ms: u64,
    /// True if the address may be in the public internet. Texts of records then leave the network of the office.
    pub allow_remote: bool,
    /// The weight of vectors in the ranking of related records. Without it, vectors count only if doppel knows the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f32>,
}

impl Default for EmbedderConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            model: String::new(),
            key_file: PathBuf::new(),
            prefix: String::new(),
            max_chars: 500,
            batch: 16,
            timeout_ms: 500,
            allow_remote: false,
            weight: None,
        }
    }
}

impl EmbedderConfig {
    /// True if records get vectors.
    pub fn is_on(&self) -> bool {
        !self.url.is_empty()
    }

    /// Returns the first mistake, without repeating values.
    pub(super) fn check(&self) -> Result<(), String> {
        if !self.is_on() {
            return Ok(());
        }
        let url = self.address().map_err(|error| format!("url: {error}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("url: give no password here; key_file names the file with the key".into());
        }
        match url.scheme() {
            "https" => {}
            "http" if !self.allow_remote => {}
            "http" => return Err("url: with allow_remote the texts leave your network; use https".into()),
            _ => return Err("url: give an address that begins with http:// or https://".into()),
        }
        if !self.allow_remote && is_remote_literal(&url) {
            return Err("url: the address is not in a private network; set allow_remote to send texts there".into());
        }
        if self.model.is_empty() || self.model.chars().count() > MAX_NAME_CHARS {
            return Err(format!("model is the name of the model, 1 to {MAX_NAME_CHARS} characters"));
        }
        if self.prefix.chars().count() > MAX_NAME_CHARS {
            return Err(format!("prefix has at most {MAX_NAME_CHARS} characters"));
        }
        if !(CHARS.0..=CHARS.1).contains(&self.max_chars) {
            return Err(format!("max_chars is {} to {}", CHARS.0, CHARS.1));
        }
        if !(1..=MAX_BATCH).contains(&self.batch) {
            return Err(format!("batch is 1 to {MAX_BATCH}"));
        }
        if !(1..=MAX_TIMEOUT_MS).contains(&self.timeout_ms) {
            return Err(format!("timeout_ms is 1 to {MAX_TIMEOUT_MS}"));
        }
        if self.weight.is_some_and(|weight| !(0.0..=MAX_WEIGHT).contains(&weight)) {
            return Err(format!("weight is 0 to {MAX_WEIGHT}"));
        }
        Ok(())
    }

    /// Returns the parsed address.
    ///
    /// # Errors
    /// The address is wrong. This cannot happen for a configuration that was checked.
    pub fn address(&self) -> anyhow::Result<Url> {
        Ok(self.url.parse::<Url>()?)
    }

    /// Returns the longest time that a question waits for a vector.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// Reads the key, without white space at its ends. `None` if there is no `key_file`.
    ///
    /// # Errors
    /// The file cannot be read or is empty. The error does not repeat its content.
    pub fn key(&self) -> anyhow::Result<Option<String>> {
        if self.key_file.as_os_str().is_empty() {
            return Ok(None);
        }
        let file = self.key_file.display();
        let text =
            std::fs::read_to_string(&self.key_file).with_context(|| format!("key_file {file} cannot be read"))?;
        let key = text.trim();
        anyhow::ensure!(!key.is_empty(), "key_file {file} is empty");
        Ok(Some(key.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embedder() -> EmbedderConfig {
        EmbedderConfig {
            url: "http://127.0.0.1:8000/v1/embeddings".into(),
            model: "e5".into(),
            ..EmbedderConfig::default()
        }
    }

    #[test]
    fn mistakes_are_named_without_their_values() {
        assert_eq!(EmbedderConfig::default().check(), Ok(()));
        assert_eq!(embedder().check(), Ok(()));
        let remote = EmbedderConfig { allow_remote: true, ..embedder() };
        assert_eq!(EmbedderConfig { url: "https://8.8.8.8/v1".into(), ..remote.clone() }.check(), Ok(()));
        for (wrong, says) in [
            (EmbedderConfig { url: "embeddings".into(), ..embedder() }, "url"),
            (EmbedderConfig { url: "ftp://127.0.0.1/".into(), ..embedder() }, "https://"),
            (EmbedderConfig { url: "http://me:geheim@127.0.0.1/".into(), ..embedder() }, "give no password"),
            (EmbedderConfig { url: "http://8.8.8.8/".into(), ..embedder() }, "set allow_remote"),
            (EmbedderConfig { url: "http://8.8.8.8/".into(), ..remote }, "use https"),
            (EmbedderConfig { model: String::new(), ..embedder() }, "model is"),
            (EmbedderConfig { prefix: "x".repeat(201), ..embedder() }, "prefix has"),
            (EmbedderConfig { max_chars: 10, ..embedder() }, "max_chars is 64 to"),
            (EmbedderConfig { batch: 0, ..embedder() }, "batch is"),
            (EmbedderConfig { timeout_ms: 5_001, ..embedder() }, "timeout_ms is"),
            (EmbedderConfig { weight: Some(f32::NAN), ..embedder() }, "weight is"),
        ] {
            let error = wrong.check().unwrap_err();
            assert!(error.contains(says) && !error.contains("geheim"), "{error}");
        }
    }

    #[test]
    fn the_key_is_read_without_white_space_and_an_empty_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let key_file = folder.path().join("key");
        assert_eq!(embedder().key().unwrap(), None);
        let config = EmbedderConfig { key_file: key_file.clone(), ..embedder() };
        assert!(config.key().unwrap_err().to_string().contains("cannot be read"));
        std::fs::write(&key_file, " abc\n").unwrap();
        assert_eq!(config.key().unwrap().as_deref(), Some("abc"));
        std::fs::write(&key_file, "\n").unwrap();
        assert!(config.key().unwrap_err().to_string().contains("is empty"));
    }
}
