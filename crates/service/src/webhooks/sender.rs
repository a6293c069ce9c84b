//! Sends a message to an address that the configuration allows.

use std::time::Duration;

use anyhow::Context;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Url};

use super::message::{WebhookMessage, signature};
use crate::outgoing::{AllowedAddresses, client, reason};
use doppel_config::WebhookConfig;

/// The client of a webhook.
pub(super) struct WebhookSender {
    client: Client,
    url: Url,
    config: WebhookConfig,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Attempt {
    /// The receiver has the message.
    Accepted(u16),
    /// The receiver did not take the message, and why. The text names no address.
    Refused(String),
}

impl WebhookSender {
    /// Creates the client.
    ///
    /// # Errors
    /// The system has no certificates.
    pub(super) fn new(config: &WebhookConfig) -> anyhow::Result<Self> {
        let url = config.address()?;
        let allowed = if config.allow_private { AllowedAddresses::All } else { AllowedAddresses::Public };
        let builder = client(&url, allowed).timeout(Duration::from_secs(config.timeout_s));
        let client = builder.build().context("the client cannot be created")?;
        Ok(Self { client, url, config: config.clone() })
    }

    /// Makes one attempt. The answer's body is not read.
    pub(super) async fn send(&self, message: &WebhookMessage) -> Attempt {
        // The secret is read each time, so that it can be changed while the service runs.
        let prepared = serde_json::to_vec(message).map_err(anyhow::Error::from);
        let (body, secret) = match prepared.and_then(|body| Ok((body, self.config.secret()?))) {
            Ok(prepared) => prepared,
            Err(_) => return Attempt::Refused("the secret cannot be read (secret_file)".into()),
        };
        let time = crate::clock::micros() / 1_000_000;
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", time.to_string())
            .header("webhook-signature", signature(&secret, &message.id, time, &body))
            .body(body);
        match request.send().await {
            Ok(answer) if answer.status().is_success() => Attempt::Accepted(answer.status().as_u16()),
            Ok(answer) => Attempt::Refused(format!("the receiver answered {}", answer.status().as_u16())),
            Err(error) => Attempt::Refused(reason(&error)),
        }
    }
}
