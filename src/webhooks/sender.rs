//! Sends a message to an address that the configuration allows.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::CONTENT_TYPE;
use reqwest::redirect::Policy;
use reqwest::{Client, Url};

use super::message::{WebhookMessage, signature};
use crate::config::WebhookConfig;

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
    /// The secret cannot be read, the address is not allowed, or the system has no certificates.
    pub(super) fn new(config: &WebhookConfig) -> anyhow::Result<Self> {
        config.secret()?;
        let url = config.address()?;
        // A host that is an address is not resolved.
        let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = host.parse::<IpAddr>()
            && !config.allow_private
        {
            anyhow::ensure!(is_public(address), "the address is in a private network; set allow_private to allow it");
        }
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
            Err(error) => return Attempt::Refused(format!("{error:#}")),
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

/// True for an address of the public internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match address.to_ipv4() {
            // Addresses that stand for one of IPv4; `::` and `::1` among them.
            Some(address) => is_public_v4(address) && address.octets()[0] != 0,
            None => {
                let first = address.segments()[0];
                let is_own = first & 0xfe00 == 0xfc00 || first & 0xffc0 == 0xfe80 || first & 0xffc0 == 0xfec0;
                // 64:ff9b::/96 and 2002::/16 lead to addresses of IPv4.
                let leads_on = first == 0x0064 || first == 0x2002;
                !(is_own || leads_on || address.is_multicast())
            }
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    let is_carrier = a == 100 && (64..128).contains(&b);
    let is_test = a == 198 && (18..20).contains(&b);
    !(address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || is_carrier
        || is_test
        || a == 0
        || a >= 240)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_public_internet_are_public() {
        for address in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::ffff:127.0.0.1",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "ff02::1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2400:3200::1", "::ffff:8.8.8.8"] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn an_address_in_a_private_network_needs_permission() {
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), "a secret").unwrap();
        let config = WebhookConfig {
            name: "cases".into(),
            url: "https://127.0.0.1:9/".into(),
            secret_file: secret.path().to_owned(),
            ..WebhookConfig::default()
        };
        let refused = WebhookSender::new(&config).err().expect("an error").to_string();
        assert!(refused.contains("allow_private"), "{refused}");
        assert!(WebhookSender::new(&WebhookConfig { allow_private: true, ..config }).is_ok());
    }
}
