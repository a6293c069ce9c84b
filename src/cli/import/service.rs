//! A running service that takes lines: one request at a time, on a connection that is kept.

use axum::body::Body;
use bytes::Bytes;
use hyper::{Request, Response};
use reqwest::{Client, Url};

use super::target::{Failure, SILENCE, silent};
use crate::cli::client::{self, Fault, Identification, Trust};
use crate::http::local::LocalBody;

/// A client of one service.
#[derive(Debug)]
pub(super) struct Service {
    base: String,
    client: Client,
}

impl Service {
    /// Makes ready to send, but does not connect yet.
    pub(super) fn open(url: &Url, key: Option<&str>, trust: &Trust) -> anyhow::Result<Self> {
        let client = client::client(url, key, trust, Identification::Required)?;
        Ok(Self { base: url.as_str().trim_end_matches('/').to_owned(), client })
    }

    /// The URL without a slash at its end.
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// Sends a request over the open connection or a new one. The connection's own task writes the body while the answer is
    /// read: the service stops reading when nobody takes its answers.
    pub(super) async fn exchange(&self, request: Request<Bytes>) -> Result<Response<LocalBody>, Failure> {
        let request = request.try_into().map_err(|error| failure(&error))?;
        let sent = tokio::time::timeout(SILENCE, self.client.execute(request)).await.map_err(|_| silent())?;
        let response = Response::<reqwest::Body>::from(sent.map_err(|error| failure(&error))?);
        Ok(response.map(Body::new))
    }
}

fn failure(error: &reqwest::Error) -> Failure {
    match client::fault(error) {
        Fault::Unreached(why) => Failure::Unreached(why),
        Fault::Untrusted(why, remedy) => Failure::Untrusted(why, remedy),
        Fault::Broken(why) => Failure::Broken(why),
    }
}
