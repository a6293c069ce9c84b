//! The interface of a model that turns texts into vectors.
//!
//! This module contains no client of a model. The service passes a client to the search.

use std::time::Duration;

use async_trait::async_trait;

/// A model that turns texts into vectors.
#[async_trait]
pub trait TextEmbedder: Send + Sync {
    /// Returns one vector for each text, in the order of the texts. All vectors have the same length, at most [`MAX_DIMENSION`], and finite
    /// numbers that are not all zero.
    ///
    /// # Errors
    /// [`EmbedError`]. In this case no text has a vector.
    async fn embed(&self, texts: &[String], timeout: Duration) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// Largest number of numbers in a vector.
pub const MAX_DIMENSION: usize = 4_096;

/// The reasons why texts have no vectors. They do not contain any of the texts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// The texts are too long, or too many.
    #[error("the model's server refused the request because of its size (413)")]
    TooLarge,
    #[error("the model's server gave no answer in time")]
    Timeout,
    /// The server asks for a pause (429 or 503).
    #[error("the model's server is busy")]
    Busy { retry_after: Option<Duration> },
    /// There is no connection.
    #[error("the model's server cannot be reached: {0}")]
    Unreachable(String),
    /// The server does not accept a text (400 or 422).
    #[error("the model's server {0}")]
    Refused(String),
    /// The server answered with another error, or its response cannot be read. The same texts may be accepted later.
    #[error("the model's server {0}")]
    Failed(String),
}

/// The settings of the use of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbedderOptions {
    pub model: String,
    /// The text that is sent before each text.
    pub prefix: String,
    /// Number of characters of a record that are sent.
    pub max_chars: usize,
    /// Largest number of texts in one request.
    pub batch: usize,
    /// The longest time that a question waits for a vector.
    pub timeout: Duration,
    /// The weight of vectors in the ranking; `None` to use them only if the model is known.
    pub weight: Option<f32>,
}
