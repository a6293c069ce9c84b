//! A running service, called over http or https. Connections are kept, one for each request in progress.

use bytes::Bytes;
use hyper::{Request, Response};
use reqwest::{Client, Url};

use super::target::{CallOptions, RequestFailure, SILENCE, silent};
use crate::client::{self, CertificateCheck};
use doppel_http::coding::ContentCoding;
use doppel_http::local::LocalBody;

#[derive(Debug)]
pub(crate) struct ImportClient {
    base: String,
    client: Client,
    /// The coding that compresses lines; `None` without compression.
    pub(crate) coding: Option<ContentCoding>,
}

impl ImportClient {
    /// Prepares requests, but does not connect yet.
    pub(crate) fn open(url: &Url, how: &CallOptions<'_>) -> anyhow::Result<Self> {
        let CallOptions { key, trust, coding } = *how;
        let client = client::client(url, key, trust, CertificateCheck::Required)?;
        Ok(Self { base: url.as_str().trim_end_matches('/').to_owned(), client, coding })
    }

    /// Returns the URL without a slash at its end.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Sends a request over an open connection or a new one. The task of the connection writes the body while the response is read: the
    /// service stops reading if its answers are not read.
    pub(crate) async fn exchange(&self, request: Request<Bytes>) -> Result<Response<LocalBody>, RequestFailure> {
        let request = request.try_into().map_err(|error| failure(&error))?;
        let sent = tokio::time::timeout(SILENCE, self.client.execute(request)).await.map_err(|_| silent())?;
        let response = Response::<reqwest::Body>::from(sent.map_err(|error| failure(&error))?);
        Ok(response.map(LocalBody::new))
    }
}

fn failure(error: &reqwest::Error) -> RequestFailure {
    RequestFailure::Fault(client::fault(error))
}
