//! `[[webhook]]`: addresses to which the service reports repeats and events.

use std::path::PathBuf;

use anyhow::Context;
use doppel_core::collection::CollectionName;
use serde::{Deserialize, Serialize};
use url::Url;
use utoipa::ToSchema;

use crate::address::is_private_literal;

/// Largest length of the name of a webhook.
const MAX_NAME_BYTES: usize = 64;
/// The longest time limit of one attempt, in seconds. It is less than the time for which an instance holds a webhook.
const MAX_TIMEOUT_S: u64 = 30;

/// The kind of a message. `record.repeat`: a record was stored and is a duplicate. `event.frequent`: an event has become frequent. `event.changed`:
/// records of an event were stored or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub enum MessageKind {
    /// A record was stored whose verdict is a duplicate.
    #[serde(rename = "record.repeat")]
    RecordRepeat,
    /// An event is frequent now.
    #[serde(rename = "event.frequent")]
    EventFrequent,
    /// Records of an event were stored, or changed.
    #[serde(rename = "event.changed")]
    EventChanged,
}

impl MessageKind {
    /// All kinds and their names.
    pub const NAMES: [(Self, &str); 3] = [
        (Self::RecordRepeat, "record.repeat"),
        (Self::EventFrequent, "event.frequent"),
        (Self::EventChanged, "event.changed"),
    ];

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }
}

/// `[[webhook]]`: an address and the messages that it gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookConfig {
    /// The name: 1 to 64 characters of `a-z`, `0-9` and `-`.
    pub name: String,
    /// The address, without a password.
    pub url: String,
    /// The file with the secret that signs the messages.
    pub secret_file: PathBuf,
    /// The collections. If empty, all collections.
    pub collections: Vec<String>,
    /// The kinds of messages that are sent.
    pub messages: Vec<MessageKind>,
    /// An event is frequent if at least this many reports lie within `days` consecutive days.
    pub reports: usize,
    /// Number of consecutive days.
    pub days: u32,
    /// True if the address may be in a private network, and may use http.
    pub allow_private: bool,
    /// Time limit of one attempt in seconds.
    pub timeout_s: u64,
    /// Seconds after which the service stops sending a message that was refused until then.
    pub give_up_s: u64,
}

impl Default for WebhookConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            url: String::new(),
            secret_file: PathBuf::new(),
            collections: Vec::new(),
            messages: MessageKind::NAMES.map(|(kind, _)| kind).to_vec(),
            reports: 3,
            days: 3,
            allow_private: false,
            timeout_s: 10,
            give_up_s: 86_400,
        }
    }
}

impl WebhookConfig {
    /// Returns the first mistake, without repeating values.
    fn check(&self) -> Result<(), String> {
        if self.name.is_empty()
            || self.name.len() > MAX_NAME_BYTES
            || !self.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        {
            return Err("name is 1 to 64 of a-z, 0-9 and \"-\"".into());
        }
        let url = self.address().map_err(|error| format!("url: {error}"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("url: give no password here; the receiver checks the signature".into());
        }
        match url.scheme() {
            "https" => {}
            "http" if self.allow_private => {}
            "http" => {
                return Err("url: http is for addresses of your own network; use https, or set allow_private".into());
            }
            _ => return Err("url: give an address that begins with https://".into()),
        }
        if !self.allow_private && is_private_literal(&url) {
            return Err("url: the address is in a private network; set allow_private to allow it".into());
        }
        if self.secret_file.as_os_str().is_empty() {
            return Err("secret_file names the file with the secret that signs the messages".into());
        }
        for collection in &self.collections {
            CollectionName::new(collection).map_err(|reason| format!("collections: {reason}"))?;
        }
        if self.messages.is_empty() {
            return Err("messages is empty, so that nothing would be sent".into());
        }
        if self.reports < 2 || self.days == 0 {
            return Err("reports is at least 2, and days at least 1".into());
        }
        if self.timeout_s == 0 || self.timeout_s > MAX_TIMEOUT_S {
            return Err(format!("timeout_s is 1 to {MAX_TIMEOUT_S}"));
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

    /// Reads the secret, without white space at its ends.
    ///
    /// # Errors
    /// The file cannot be read or is empty. The error does not repeat its content.
    pub fn secret(&self) -> anyhow::Result<Vec<u8>> {
        let file = self.secret_file.display();
        let text = std::fs::read(&self.secret_file).with_context(|| format!("secret_file {file} cannot be read"))?;
        let secret = text.trim_ascii();
        anyhow::ensure!(!secret.is_empty(), "secret_file {file} is empty");
        Ok(secret.to_vec())
    }

    /// True if the webhook gets messages of this kind.
    pub fn gets(&self, kind: MessageKind) -> bool {
        self.messages.contains(&kind)
    }
}

/// Returns the first mistake in the webhooks.
pub(super) fn check(webhooks: &[WebhookConfig]) -> Result<(), String> {
    for (at, webhook) in webhooks.iter().enumerate() {
        webhook.check().map_err(|reason| format!("webhook[{at}] {}: {reason}", webhook.name))?;
        if webhooks[..at].iter().any(|other| other.name == webhook.name) {
            return Err(format!("webhook[{at}]: two webhooks are called {}", webhook.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn webhook() -> WebhookConfig {
        WebhookConfig {
            name: "cases".into(),
            url: "https://cases.example/doppel".into(),
            secret_file: "secret".into(),
            ..WebhookConfig::default()
        }
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(check(&[webhook()]), Ok(()));
        for (wrong, says) in [
            (WebhookConfig { name: "A".into(), ..webhook() }, "name is"),
            (WebhookConfig { url: "cases".into(), ..webhook() }, "url"),
            (WebhookConfig { url: "ftp://cases.example".into(), ..webhook() }, "https://"),
            (WebhookConfig { url: "http://cases.example".into(), ..webhook() }, "allow_private"),
            (WebhookConfig { url: "https://me:geheim@cases.example".into(), ..webhook() }, "give no password"),
            (WebhookConfig { url: "https://10.0.0.7/".into(), ..webhook() }, "private network"),
            (WebhookConfig { secret_file: PathBuf::new(), ..webhook() }, "secret_file"),
            (WebhookConfig { collections: vec!["a b".into()], ..webhook() }, "collections"),
            (WebhookConfig { messages: Vec::new(), ..webhook() }, "messages is empty"),
            (WebhookConfig { days: 0, ..webhook() }, "days at least 1"),
            (WebhookConfig { timeout_s: 31, ..webhook() }, "timeout_s"),
        ] {
            let error = check(&[wrong]).unwrap_err();
            assert!(error.contains(says) && !error.contains("geheim"), "{error}");
        }
        assert!(check(&[webhook(), webhook()]).unwrap_err().contains("two webhooks"));
    }
}
