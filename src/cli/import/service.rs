//! A running service, over http or https, on connections that are kept: one for each request that is under way at the same time.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use anyhow::{Chain, Context};
use axum::body::Body;
use bytes::Bytes;
use hyper::{Request, Response};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, Url};
use rustls::CertificateError;

use super::target::{Failure, How, SILENCE, silent};
use super::usage;
use crate::http::coding::Coding;
use crate::http::local::LocalBody;

/// Time to connect, with the handshake of TLS.
const CONNECT: Duration = Duration::from_secs(10);

/// A client of one service.
#[derive(Debug)]
pub(in crate::cli) struct Service {
    base: String,
    client: Client,
    /// How lines are compressed on their way.
    pub(in crate::cli) coding: Option<Coding>,
}

impl Service {
    /// Makes ready to send, but does not connect yet. Over https, the certificates in its file are trusted and no
    /// others; without it, those of the system.
    pub(in crate::cli) fn open(url: &Url, how: &How<'_>) -> anyhow::Result<Self> {
        let How { key, ca, at_once, coding } = *how;
        let builder = Client::builder()
            .user_agent(concat!("doppel/", env!("CARGO_PKG_VERSION")))
            .default_headers(authorization(key)?)
            .connect_timeout(CONNECT)
            .pool_max_idle_per_host(at_once)
            .redirect(Policy::none())
            .no_proxy();
        let client = trusting(builder, url, ca)?.build().map_err(|error| {
            let reason = cause(&error);
            anyhow::anyhow!("no certificates to trust: {reason}; give those of the service's authority by --ca FILE")
        })?;
        Ok(Self { base: url.as_str().trim_end_matches('/').to_owned(), client, coding })
    }

    /// The URL without a slash at its end.
    pub(in crate::cli) fn base(&self) -> &str {
        &self.base
    }

    /// Sends a request over the open connection or a new one. The connection's own task writes the body while the answer is
    /// read: the service stops reading when nobody takes its answers.
    pub(in crate::cli) async fn exchange(&self, request: Request<Bytes>) -> Result<Response<LocalBody>, Failure> {
        let request = request.try_into().map_err(|error| failure(&error))?;
        let sent = tokio::time::timeout(SILENCE, self.client.execute(request)).await.map_err(|_| silent())?;
        let response = Response::<reqwest::Body>::from(sent.map_err(|error| failure(&error))?);
        Ok(response.map(Body::new))
    }
}

fn authorization(key: Option<&str>) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    if let Some(key) = key {
        let value = HeaderValue::try_from(format!("Bearer {key}"));
        let mut value = value.map_err(|_| usage("the key is not one: dpl_NAME_SECRET expected"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

fn trusting(builder: ClientBuilder, url: &Url, ca: Option<&Path>) -> anyhow::Result<ClientBuilder> {
    // The provider of this process; somebody may have set it already, and it is the only one there is.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Some(ca) = ca else {
        // Plain http needs no certificates, and a system may have none.
        return Ok(if url.scheme() == "https" { builder } else { builder.tls_certs_only([]) });
    };
    if url.scheme() != "https" {
        return Err(usage("--ca is for a service with https"));
    }
    let text = std::fs::read(ca).with_context(|| format!("cannot read {}", ca.display()))?;
    match Certificate::from_pem_bundle(&text) {
        Ok(certificates) if !certificates.is_empty() => Ok(builder.tls_certs_only(certificates)),
        _ => Err(usage(format!("--ca {}: holds no certificate in PEM form", ca.display()))),
    }
}

fn failure(error: &reqwest::Error) -> Failure {
    match cause(error) {
        _ if error.is_connect() && error.is_timeout() => {
            Failure::Unreached(format!("no connection within {} s", CONNECT.as_secs()))
        }
        reason => match Chain::new(error).find_map(distrust) {
            Some(distrust) => Failure::Untrusted(reason, remedy(distrust)),
            None if error.is_connect() => Failure::Unreached(reason),
            None => Failure::Broken(reason),
        },
    }
}

/// What helps where a certificate is not trusted.
fn remedy(distrust: &CertificateError) -> &'static str {
    match distrust {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "use a name in the address that the certificate is made out for"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "have it renewed",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "compare the clocks of both machines"
        }
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "it is an authority's own: let the service use one that this authority has signed (CA:FALSE)"
        }
        _ => "give the certificates of its authority by --ca FILE",
    }
}

/// What an error and those that it was made of say last: the others only say where it happened.
pub(in crate::cli) fn cause(error: &(dyn Error + 'static)) -> String {
    Chain::new(error).last().map_or_else(String::new, ToString::to_string)
}

/// Why a certificate was refused, if one was. An error of a connection holds what it was made of, but is not caused by it.
fn distrust<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a CertificateError> {
    if let Some(outer) = error.downcast_ref::<std::io::Error>() {
        return outer.get_ref().and_then(|inner| distrust(inner));
    }
    match error.downcast_ref()? {
        rustls::Error::InvalidCertificate(distrust) => Some(distrust),
        _ => None,
    }
}
