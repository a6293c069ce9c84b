//! The client of requests to addresses that the configuration names.
//!
//! Redirects are not followed and no proxy is used, so that a request reaches the configured host and no other.

use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Url};

use doppel_config::address::{is_private, is_public};

/// The addresses to which a client may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllowedAddresses {
    All,
    /// Only addresses of the public internet.
    Public,
    /// Only loopback and addresses of private networks.
    Private,
}

impl AllowedAddresses {
    fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::Public => is_public(address),
            Self::Private => is_private(address),
        }
    }
}

/// Returns the builder of a client for `url`. The configuration has checked an address that the URL contains; the client checks the addresses of a
/// name each time that it connects.
pub(crate) fn client(url: &Url, allowed: AllowedAddresses) -> ClientBuilder {
    // Installs the provider of this process. This fails if it is installed already, and there is only one provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .pool_max_idle_per_host(1)
        .dns_resolver(AddressResolver(allowed));
    // Plain http needs no certificates, and some systems have no certificates.
    if url.scheme() == "https" { builder } else { builder.tls_certs_only([]) }
}

/// Returns why a request had no answer, without the address.
pub(crate) fn reason(error: &reqwest::Error) -> String {
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        if let Some(refused) = inner.downcast_ref::<RefusedAddress>() {
            return refused.to_string();
        }
        cause = inner.source();
    }
    match () {
        () if error.is_timeout() => "no answer in time".into(),
        () if error.is_connect() => "no connection".into(),
        () => "the connection broke".into(),
    }
}

/// All addresses of the host are forbidden.
#[derive(Debug, thiserror::Error)]
enum RefusedAddress {
    #[error("the host is in a private network; set allow_private to allow it")]
    Private,
    #[error("the host is not in a private network; set allow_remote to allow it")]
    Remote,
}

/// Resolves names of hosts, and leaves out forbidden addresses. The connection uses these addresses and no others, so that a host name whose
/// address changes between a check and the connection gives no advantage.
struct AddressResolver(AllowedAddresses);

impl Resolve for AddressResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let allowed = self.0;
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let usable: Vec<SocketAddr> = found.into_iter().filter(|address| allowed.allows(address.ip())).collect();
            if usable.is_empty() {
                let refused = match allowed {
                    AllowedAddresses::Private => RefusedAddress::Remote,
                    AllowedAddresses::Public | AllowedAddresses::All => RefusedAddress::Private,
                };
                return Err(refused.into());
            }
            Ok(Box::new(usable.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_means_only_addresses_that_are_allowed() {
        assert_eq!(resolve(AllowedAddresses::Private).await, Ok(()));
        assert_eq!(resolve(AllowedAddresses::All).await, Ok(()));
        let error = resolve(AllowedAddresses::Public).await.unwrap_err();
        assert!(error.contains("allow_private"), "{error}");
        assert!(RefusedAddress::Remote.to_string().contains("allow_remote"));
    }

    async fn resolve(allowed: AllowedAddresses) -> Result<(), String> {
        let resolved = AddressResolver(allowed).resolve("localhost".parse().unwrap()).await;
        resolved.map(drop).map_err(|error| error.to_string())
    }
}
