//! Sends a message to an address that the configuration allows.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, Url};

use super::message::{WebhookMessage, signature};
use doppel_config::WebhookConfig;
use doppel_config::address::is_public;

/// The client of a webhook.
pub(super) struct WebhookSender {
    client: Client,
    url: Url,
    config: WebhookConfig,
}

/// The result of an attempt.
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
        // Installs the provider of this process. This fails if it is installed already, and there is only one provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder()
            .timeout(Duration::from_secs(config.timeout_s))
            .redirect(Policy::none())
            .no_proxy()
            .pool_max_idle_per_host(1)
            .dns_resolver(AllowedAddresses { allow_private: config.allow_private });
        // Plain http needs no certificates, and some systems have none.
        let builder = if url.scheme() == "https" { builder } else { builder.tls_certs_only([]) };
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

/// Returns why an attempt had no answer, without the address.
fn reason(error: &reqwest::Error) -> String {
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        if let Some(NotAllowed) = inner.downcast_ref::<NotAllowed>() {
            return NotAllowed.to_string();
        }
        cause = inner.source();
    }
    match () {
        () if error.is_timeout() => "no answer in time".into(),
        () if error.is_connect() => "no connection".into(),
        () => "the connection broke".into(),
    }
}

/// The name of a host means only addresses to which nothing may be sent.
#[derive(Debug, thiserror::Error)]
#[error("the host is in a private network; set allow_private to allow it")]
struct NotAllowed;

/// Resolves names of hosts, and leaves out addresses to which nothing may be sent. The connection uses these addresses and no others, so that a
/// name that changes its meaning between a check and the connection gains nothing.
struct AllowedAddresses {
    allow_private: bool,
}

impl Resolve for AllowedAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let allow_private = self.allow_private;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let allowed: Vec<SocketAddr> =
                found.into_iter().filter(|address| allow_private || is_public(address.ip())).collect();
            if allowed.is_empty() {
                return Err(NotAllowed.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}
