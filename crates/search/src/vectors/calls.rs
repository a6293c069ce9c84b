//! Calls the model: the vector of a question, and the vectors of many records.
//!
//! Each request begins with the probe sentence, so that each answer shows which model gave it. A batch that is refused is divided until the
//! refused text is alone. A text that is too long is cut in half repeatedly until it is accepted. A text that is refused alone is marked.
//! If a text fails alone although the server answers the probe, it is tried again for some time and then marked, because the texts after it
//! wait.
//!
//! Bounds: a batch of n texts costs at most 2n requests, and one more request each time a text is cut in half. After some time a batch ends
//! between two requests. The next batch begins with requests of as many texts as the server has accepted, so that the work also makes
//! progress with a slow server.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::fingerprint::{ModelFingerprint, PROBE};
use super::quantised::quantise;
use super::text::{first_chars, text_hash};
use crate::embedder::{EmbedError, EmbedderOptions, TextEmbedder};

/// The longest time for a batch. Without a graphics processor, a model needs some seconds for 64 long texts.
const BATCH_TIMEOUT: Duration = Duration::from_secs(60);
/// The time after which a batch sends no further request, so that the follower can overwrite the vectors of removed records. A removal
/// waits for this time and the duration of two requests at most.
const BATCH_DEADLINE: Duration = Duration::from_secs(60);
/// The length below which a text is not cut further, in characters.
const LEAST_CHARS: usize = 32;
/// The first pause after a failure. Each further successive failure doubles the pause.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after failures, unless the server asks for a longer pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The longest pause that a server can ask for. A wrong number must not stop the work for days.
pub const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(600);

/// The time for which a text that fails alone is tried again before it is marked. It lasts longer than the start of a server or of a model.
pub const TEXT_PATIENCE: Duration = Duration::from_secs(600);

/// Largest number of texts that are known to fail alone. Each collection stops at its first such text, so that there are few.
pub const MAX_FAILING: usize = 1_000;

/// The pause of calls after failures.
struct CallPause {
    until: Instant,
    next: Duration,
    reason: Option<String>,
}

impl Default for CallPause {
    fn default() -> Self {
        Self { until: Instant::now(), next: FIRST_PAUSE, reason: None }
    }
}

impl CallPause {
    /// Records a failure. Returns true if its reason differs from the reason of the previous failure.
    fn failed(&mut self, error: &EmbedError) -> bool {
        let pause = match error {
            EmbedError::Busy { retry_after: Some(asked) } => (*asked).clamp(FIRST_PAUSE, LONGEST_RETRY_AFTER),
            _ => self.next,
        };
        self.until = Instant::now() + pause;
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        let reason = Some(error.to_string());
        std::mem::replace(&mut self.reason, reason.clone()) != reason
    }

    fn remaining(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// The vectors of an answer.
pub(crate) struct EmbeddedTexts {
    /// The model that answered.
    pub(crate) model: ModelFingerprint,
    pub(crate) vectors: Vec<Vec<i8>>,
}

/// The reason why a batch is not complete.
#[derive(Debug)]
pub(crate) enum BatchError {
    /// The server gives no vectors now.
    Failed(EmbedError),
    /// Another model answers than the model whose vectors are being collected.
    OtherModel,
    /// The batch has taken too long. The rest follows in the next batch.
    Late,
    /// The vectors cannot be written.
    Io(std::io::Error),
}

/// The model with the pauses after its failures.
pub(crate) struct ModelCalls {
    embedder: Arc<dyn TextEmbedder>,
    pub(crate) options: EmbedderOptions,
    batches: Mutex<CallPause>,
    /// The pause of questions, which have a shorter time limit.
    questions: Mutex<CallPause>,
    /// The hashes of texts that fail alone, each with the time of its first failure.
    failing: Mutex<HashMap<u64, Instant>>,
    patience: Duration,
    deadline: Duration,
    /// Number of texts in the next request. It is halved when a request is divided, and grows by one with each answer.
    request_texts: AtomicUsize,
    /// A permit is needed to ask for the vector of a question.
    asking: tokio::sync::Semaphore,
}

/// Largest number of questions that wait for a vector at the same time. More questions would only wait for each other.
pub const MAX_ASKING: usize = 4;

impl ModelCalls {
    pub(crate) fn new(embedder: Arc<dyn TextEmbedder>, options: EmbedderOptions) -> Self {
        let asking = tokio::sync::Semaphore::new(MAX_ASKING);
        Self {
            request_texts: AtomicUsize::new(options.batch),
            embedder,
            options,
            batches: Mutex::default(),
            questions: Mutex::default(),
            failing: Mutex::default(),
            patience: TEXT_PATIENCE,
            deadline: BATCH_DEADLINE,
            asking,
        }
    }

    /// Returns the time for which no batch should be sent.
    pub(crate) fn batch_pause(&self) -> Duration {
        self.batches.lock().remaining()
    }

    /// Returns the reason why batches fail now; `None` if the last batch was answered.
    pub(crate) fn failure(&self) -> Option<String> {
        self.batches.lock().reason.clone()
    }

    /// Records that batches fail. Logs each reason once, because a server may be down for a whole night.
    pub(crate) fn note_failure(&self, error: &EmbedError) {
        if self.batches.lock().failed(error) {
            tracing::warn!(%error, "records wait for their vectors; trying again (search.embedder)");
        }
    }

    /// Records that batches are answered.
    pub(crate) fn note_success(&self) {
        if std::mem::take(&mut *self.batches.lock()).reason.is_some() {
            tracing::info!("the model's server answers again (search.embedder)");
        }
    }

    /// Returns the vector of a question, within the time limit of questions. `None` if the vector does not arrive in time, or if calls
    /// failed a moment ago.
    pub(crate) async fn embed_question(&self, text: &str) -> Option<EmbeddedTexts> {
        let is_pausing = [&self.batches, &self.questions].iter().any(|pause| !pause.lock().remaining().is_zero());
        if is_pausing {
            return None;
        }
        let _permit = self.asking.try_acquire().ok()?;
        match self.request(&[text], self.options.timeout).await {
            Ok(embedded) => {
                *self.questions.lock() = CallPause::default();
                Some(embedded)
            }
            Err(error) => {
                self.questions.lock().failed(&error);
                None
            }
        }
    }

    /// Returns the model that answers now.
    pub(crate) async fn model(&self) -> Result<ModelFingerprint, EmbedError> {
        Ok(self.request(&[], BATCH_TIMEOUT).await?.model)
    }

    /// True if a text that fails alone has failed for so long that it must be marked.
    fn has_failed_for_long(&self, text: &str) -> bool {
        let mut failing = self.failing.lock();
        if failing.len() >= MAX_FAILING {
            failing.clear();
        }
        failing.entry(text_hash(text)).or_insert_with(Instant::now).elapsed() >= self.patience
    }

    /// Passes the vector of each text to `put`, with the position of the text; `None` for a text that is marked.
    ///
    /// # Errors
    /// [`BatchError`]. The texts that were passed to `put` keep their vectors.
    pub(crate) async fn embed_all(
        &self,
        model: &ModelFingerprint,
        texts: &[String],
        mut put: impl FnMut(usize, Option<Vec<i8>>) -> std::io::Result<()> + Send,
    ) -> Result<(), BatchError> {
        let whole = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
        let most = self.request_texts.load(Ordering::Acquire).max(1);
        let starts = (0..texts.len()).step_by(most).rev();
        // Each range has a limit on the characters of each of its texts.
        let mut open: Vec<(Range<usize>, usize)> =
            starts.map(|start| (start..texts.len().min(start + most), whole)).collect();
        let begun = Instant::now();
        let mut is_first = true;
        while let Some((range, chars)) = open.pop() {
            if !std::mem::take(&mut is_first) && begun.elapsed() >= self.deadline {
                return Err(BatchError::Late);
            }
            let sent: Vec<&str> = texts[range.clone()].iter().map(|text| first_chars(text, chars)).collect();
            let refused = match self.request(&sent, BATCH_TIMEOUT).await {
                Ok(embedded) if !embedded.model.is_same(model) => return Err(BatchError::OtherModel),
                Ok(embedded) => {
                    let most = self.request_texts.load(Ordering::Acquire);
                    self.request_texts.store(self.options.batch.min(most + 1), Ordering::Release);
                    for (position, vector) in range.zip(embedded.vectors) {
                        self.failing.lock().remove(&text_hash(&texts[position]));
                        put(position, Some(vector)).map_err(BatchError::Io)?;
                    }
                    continue;
                }
                Err(error) => error,
            };
            let is_about_texts = !matches!(refused, EmbedError::Busy { .. } | EmbedError::Unreachable(_));
            if is_about_texts && range.len() > 1 {
                self.request_texts.store(range.len() / 2, Ordering::Release);
                let middle = range.start + range.len() / 2;
                open.push((middle..range.end, chars));
                open.push((range.start..middle, chars));
                continue;
            }
            match refused {
                EmbedError::TooLarge if sent[0].chars().count() > LEAST_CHARS => {
                    let half = sent[0].chars().count() / 2;
                    open.push((range, half.max(LEAST_CHARS)));
                }
                error if !is_about_texts => return Err(BatchError::Failed(error)),
                error => {
                    // The text is the reason only if the server answers a request without the text.
                    let now = self.model().await.map_err(BatchError::Failed)?;
                    if !now.is_same(model) {
                        return Err(BatchError::OtherModel);
                    }
                    let may_pass = matches!(error, EmbedError::Timeout | EmbedError::Failed(_));
                    if may_pass && !self.has_failed_for_long(&texts[range.start]) {
                        return Err(BatchError::Failed(error));
                    }
                    self.failing.lock().remove(&text_hash(&texts[range.start]));
                    put(range.start, None).map_err(BatchError::Io)?;
                }
            }
        }
        Ok(())
    }

    /// Asks for the vectors of the probe and of some texts.
    async fn request(&self, texts: &[&str], timeout: Duration) -> Result<EmbeddedTexts, EmbedError> {
        let prefix = &self.options.prefix;
        let sent: Vec<String> = std::iter::once(&PROBE).chain(texts).map(|text| format!("{prefix}{text}")).collect();
        let mut vectors = self.embedder.embed(&sent, timeout).await?.into_iter().map(|vector| quantise(&vector));
        let probe = vectors.next().unwrap_or_default();
        Ok(EmbeddedTexts { model: ModelFingerprint::new(&self.options, probe), vectors: vectors.collect() })
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;

    /// A model of tests. It refuses texts by their words and requests by their size.
    struct FussyModel {
        most_texts: usize,
        most_chars: usize,
        requests: Mutex<usize>,
    }

    #[async_trait]
    impl TextEmbedder for FussyModel {
        async fn embed(&self, texts: &[String], _: Duration) -> Result<Vec<Vec<f32>>, EmbedError> {
            *self.requests.lock() += 1;
            let own = texts.iter().skip(1);
            if texts.iter().any(|text| text.contains("away")) {
                return Err(EmbedError::Unreachable("no connection".into()));
            }
            if own.clone().any(|text| text.contains("bad")) {
                return Err(EmbedError::Refused("answered 422".into()));
            }
            if own.clone().any(|text| text.contains("slow")) {
                return Err(EmbedError::Timeout);
            }
            if own.clone().any(|text| text.contains("broken")) {
                return Err(EmbedError::Failed("answered 500".into()));
            }
            if texts.len() > self.most_texts + 1 || own.clone().any(|text| text.chars().count() > self.most_chars) {
                return Err(EmbedError::TooLarge);
            }
            Ok(texts.iter().map(|text| vec![1.0, text.chars().count() as f32 / 1_000.0]).collect())
        }
    }

    fn calls(most_texts: usize, most_chars: usize) -> ModelCalls {
        let options = EmbedderOptions {
            model: "m".into(),
            prefix: String::new(),
            max_chars: 500,
            batch: 16,
            timeout: Duration::from_secs(1),
            weight: None,
        };
        ModelCalls::new(Arc::new(FussyModel { most_texts, most_chars, requests: Mutex::new(0) }), options)
    }

    /// Returns for each text whether it has a vector; `None` for a text that was not passed to `put`.
    async fn embed(calls: &ModelCalls, texts: &[&str]) -> (Vec<Option<bool>>, Result<(), BatchError>) {
        let model = calls.model().await.unwrap();
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let mut put = vec![None; texts.len()];
        let result = calls
            .embed_all(&model, &texts, |position, vector| {
                put[position] = Some(vector.is_some());
                Ok(())
            })
            .await;
        (put, result)
    }

    #[tokio::test]
    async fn a_batch_that_is_too_large_is_divided_and_a_text_that_is_too_long_is_halved() {
        let long = "长".repeat(130);
        let (put, result) = embed(&calls(2, 40), &["a", "b", "c", "d", &long]).await;
        assert!(result.is_ok());
        assert_eq!(put, [Some(true); 5]);
    }

    #[tokio::test]
    async fn a_text_that_is_refused_alone_is_marked_and_the_others_have_vectors() {
        let calls = calls(8, 400);
        let (put, result) = embed(&calls, &["a", "b", "bad", "d"]).await;
        assert!(result.is_ok());
        assert_eq!(put, [Some(true), Some(true), Some(false), Some(true)]);
        let (put, _) = embed(&self::calls(8, 10), &[&"长".repeat(64)]).await;
        assert_eq!(put, [Some(false)], "no text of 32 characters is accepted");
    }

    #[tokio::test]
    async fn a_text_that_fails_alone_is_marked_only_after_some_time() {
        for text in ["broken", "slow"] {
            let mut calls = calls(8, 400);
            let (put, result) = embed(&calls, &["a", text, "c"]).await;
            assert!(matches!(result, Err(BatchError::Failed(_))), "{result:?}");
            assert_eq!(put, [Some(true), None, None]);
            calls.patience = Duration::ZERO;
            let (put, result) = embed(&calls, &[text, "c"]).await;
            assert!(result.is_ok());
            assert_eq!(put, [Some(false), Some(true)]);
        }
    }

    #[tokio::test]
    async fn a_batch_ends_after_its_deadline_and_the_next_one_continues_with_smaller_requests() {
        let mut calls = calls(2, 400);
        calls.deadline = Duration::ZERO;
        for expected in [0, 0, 2] {
            let (put, result) = embed(&calls, &["a", "b", "c", "d", "e", "f", "g", "h"]).await;
            assert!(matches!(result, Err(BatchError::Late)), "{result:?}");
            assert_eq!(put.iter().flatten().count(), expected);
        }
    }

    #[tokio::test]
    async fn an_outage_marks_no_text() {
        let (put, result) = embed(&calls(8, 400), &["a", "away"]).await;
        assert!(matches!(result, Err(BatchError::Failed(EmbedError::Unreachable(_)))), "{result:?}");
        assert_eq!(put, [None, None]);
    }

    #[test]
    fn pauses_double_and_a_server_can_ask_for_ten_minutes_at_most() {
        let mut pause = CallPause::default();
        assert!(pause.failed(&EmbedError::Timeout));
        assert!(!pause.failed(&EmbedError::Timeout), "the same reason");
        assert_eq!(pause.next, FIRST_PAUSE * 4);
        pause.failed(&EmbedError::Busy { retry_after: Some(Duration::from_secs(1 << 40)) });
        assert!(pause.remaining() <= LONGEST_RETRY_AFTER && pause.remaining() > LONGEST_RETRY_AFTER / 2);
        (0..20).for_each(|_| _ = pause.failed(&EmbedError::Timeout));
        assert!(pause.remaining() <= LONGEST_PAUSE);
    }
}
