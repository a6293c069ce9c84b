//! The client of an OpenAI-compatible `/v1/embeddings` (TEI, Ollama, vLLM, Xinference and others).

mod answer;

use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url};
use serde::Serialize;

use crate::outgoing::{AllowedAddresses, client, reason};
use doppel_config::EmbedderConfig;
use doppel_search::embedder::{EmbedError, EmbedderOptions, TextEmbedder};

/// Largest size of an answer in bytes: 65 vectors of 4,096 numbers of up to 24 characters, and some room.
pub const MAX_ANSWER_BYTES: usize = 8 << 20;

/// The client of the model of `[search.embedder]`.
pub struct EmbeddingClient {
    client: Client,
    url: Url,
    config: EmbedderConfig,
}

/// The body of a request.
#[derive(Serialize)]
struct EmbeddingRequest<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
}

impl EmbeddingClient {
    /// Creates the client and writes the address to the audit log.
    ///
    /// # Errors
    /// The system has no certificates, or the key cannot be read.
    pub fn new(config: &EmbedderConfig) -> anyhow::Result<Self> {
        let url = config.address()?;
        // The key is read again for each request; here a missing file is reported at the start.
        config.key().context("search.embedder")?;
        let allowed = if config.allow_remote { AllowedAddresses::All } else { AllowedAddresses::Private };
        let client = client(&url, allowed).build().context("search.embedder: the client cannot be created")?;
        audit(&url, config);
        Ok(Self { client, url, config: config.clone() })
    }

    async fn ask(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let request = EmbeddingRequest { model: &self.config.model, input: texts, encoding_format: "float" };
        let body =
            serde_json::to_vec(&request).map_err(|_| broken("cannot be asked: the request cannot be written"))?;
        let mut request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json").body(body);
        // The key is read each time, so that it can be changed while the service runs.
        match self.config.key() {
            Ok(None) => {}
            Ok(Some(key)) => request = request.header(AUTHORIZATION, format!("Bearer {key}")),
            Err(_) => return Err(broken("cannot be asked: the key cannot be read (key_file)")),
        }
        let response = request.send().await.map_err(|error| failed(&error))?;
        match response.status() {
            StatusCode::OK => answer::vectors(&read(response).await?, texts.len()),
            StatusCode::PAYLOAD_TOO_LARGE => Err(EmbedError::TooLarge),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Err(EmbedError::Busy { retry_after: retry_after(response.headers()) })
            }
            status @ (StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY) => {
                Err(EmbedError::Refused(format!("answered {}", status.as_u16())))
            }
            status => Err(broken(&format!("answered {}", status.as_u16()))),
        }
    }
}

#[async_trait]
impl TextEmbedder for EmbeddingClient {
    async fn embed(&self, texts: &[String], timeout: Duration) -> Result<Vec<Vec<f32>>, EmbedError> {
        let result = tokio::time::timeout(timeout, self.ask(texts)).await.unwrap_or(Err(EmbedError::Timeout));
        let outcome = match &result {
            Ok(_) => "answered",
            Err(EmbedError::TooLarge) => "too_large",
            Err(EmbedError::Timeout) => "timeout",
            Err(EmbedError::Busy { .. }) => "busy",
            Err(EmbedError::Unreachable(_)) => "unreachable",
            Err(EmbedError::Refused(_)) => "refused",
            Err(EmbedError::Failed(_)) => "failed",
        };
        metrics::counter!("doppel_embedder_requests_total", "outcome" => outcome).increment(1);
        result
    }
}

/// Returns the settings of the use of the model.
pub fn options(config: &EmbedderConfig) -> EmbedderOptions {
    EmbedderOptions {
        model: config.model.clone(),
        prefix: config.prefix.clone(),
        max_chars: config.max_chars,
        batch: config.batch,
        timeout: config.timeout(),
        weight: config.weight,
    }
}

/// Writes to the audit log where the texts go.
fn audit(url: &Url, EmbedderConfig { model, allow_remote, .. }: &EmbedderConfig) {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or_default();
    let path = url.path();
    let scheme = url.scheme();
    let said = "texts of records are sent to this address, without contacts (search.embedder)";
    tracing::info!(target: "audit", scheme, host, port, path, model, allow_remote, "{said}");
}

fn broken(why: &str) -> EmbedError {
    EmbedError::Failed(why.to_owned())
}

fn failed(error: &reqwest::Error) -> EmbedError {
    if error.is_timeout() { EmbedError::Timeout } else { EmbedError::Unreachable(reason(error)) }
}

/// Returns the pause that the server asks for, in seconds. A date is not understood.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Reads the body of an answer, up to [`MAX_ANSWER_BYTES`].
async fn read(mut response: Response) -> Result<Vec<u8>, EmbedError> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| failed(&error))? {
        if body.len() + piece.len() > MAX_ANSWER_BYTES {
            return Err(broken("gave an answer of more than 8 MiB"));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}
