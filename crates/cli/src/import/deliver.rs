//! Sends batches. A batch is repeated until every line has an answer or repeating does not help.
//!
//! The importer sends batches one after the other, and the lines of a batch keep their order, so that records are committed in the order of the
//! files. A repeated request is safe, because every line has an id: the service answers a stored line with `unchanged` and its verdict. Only after
//! a failure, a line may be committed later than the lines after it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::input::LineBatch;
use super::target::{
    AnswerRefusal, CheckResponse, CollectionLookup, ImportTarget, LineResponse, NOT_THIS_COLLECTION, RequestFailure,
};
use crate::client::RequestFault;
use doppel_core::collection::CollectionName;
use doppel_service::shutdown::{Phase, Shutdown};

/// Largest number of attempts in a row without progress. With the pauses below, they take about a minute and a half.
const MAX_TRIES: u32 = 12;
/// Length of the first pause. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// Longest pause that the service may demand.
const LONGEST_ASKED: Duration = Duration::from_secs(120);

/// The reason after a signal.
pub(crate) const STOPPED: &str = "stopped by a signal";

/// The message of a command that ends before the collection that it filled is indexed anew.
pub(crate) const UNSETTLED: &str = "the rows are stored, but the collection is still being counted and indexed anew; the service \
                                    continues when it starts, and so does the next import";
/// The advice after a signal, if the command can simply run again.
pub(crate) const RUN_AGAIN: &str = "to continue, run the same command again: rows that are stored already stay \
    unchanged";

/// The end of the delivery of a batch.
pub(crate) enum DeliveryEnd {
    /// Every line has an answer.
    Done,
    /// A signal arrived during a pause.
    Stopped,
    /// The delivery failed: the reason and the remedy.
    Failed(String),
}

impl DeliveryEnd {
    /// Returns the reason if not every line has an answer.
    pub(crate) fn into_result(self) -> anyhow::Result<()> {
        match self {
            Self::Done => Ok(()),
            Self::Stopped => Err(anyhow::Error::msg(STOPPED)),
            Self::Failed(reason) => Err(anyhow::Error::msg(reason)),
        }
    }
}

pub(crate) struct BatchDelivery<'a> {
    pub(crate) target: ImportTarget,
    pub(crate) collection: &'a CollectionName,
    pub(crate) to: &'a str,
    pub(crate) stop: &'a Shutdown,
    /// The scope that the key needs.
    pub(crate) scope: &'static str,
    /// True if the service has answered before. If not, waiting hardly helps.
    pub(crate) heard: bool,
}

/// The answers to the lines of a batch; `None` for a line that was not sent or not answered.
pub(crate) type LineResponses = Vec<Option<LineResponse>>;

impl BatchDelivery<'_> {
    /// Sends the lines of `batch`. Calls `say` before each pause.
    pub(crate) async fn deliver(&mut self, batch: &LineBatch, say: impl Fn(&str)) -> (LineResponses, DeliveryEnd) {
        let mut answers: LineResponses = vec![None; batch.lines.len()];
        let mut open: Vec<usize> = (0..answers.len()).filter(|at| batch.lines[*at].content.is_ok()).collect();
        let mut tries = 0;
        while !open.is_empty() {
            let before = open.len();
            let trouble = self.send(batch, &open, &mut answers).await;
            open.retain(|at| answers[*at].is_none());
            if open.is_empty() {
                break;
            }
            self.heard |= open.len() < before;
            tries = if open.len() < before { 1 } else { tries + 1 };
            if let Err(end) = self.wait_after(trouble, tries, &say).await {
                return (answers, end);
            }
        }
        self.heard |= answers.iter().any(Option::is_some);
        (answers, DeliveryEnd::Done)
    }

    /// Tells the destination that it has all records of the import, so that it counts them. If the destination does not answer, calls `say`: the
    /// records are stored in any case.
    pub(crate) async fn end_batch(&self, say: impl Fn(&str)) {
        let ended = tokio::select! {
            biased;
            () = self.stop.reached(Phase::Grace) => return,
            ended = self.repeat(async || self.target.end_batch(self.collection).await, &say) => ended,
        };
        if let Err(reason) = ended {
            say(&format!(
                "the groups may depend on the order of the rows, because they were not counted at the end: {reason}"
            ));
        }
    }

    /// Looks the collection up; its settings name the fields. Calls `say` before each pause.
    pub(crate) async fn look_up(&self, say: impl Fn(&str)) -> anyhow::Result<CollectionLookup> {
        self.repeat(async || self.target.look_up(self.collection).await, say).await
    }

    /// Checks a row without storing it. Calls `say` before each pause.
    pub(crate) async fn check(&self, json: &Arc<str>, say: impl Fn(&str)) -> anyhow::Result<CheckResponse> {
        let body = Bytes::copy_from_slice(json.as_bytes());
        self.repeat(async || self.target.check(self.collection, body.clone()).await, say).await
    }

    /// Repeats a request until there is an answer, or repeating does not help.
    async fn repeat<T>(
        &self,
        ask: impl AsyncFn() -> Result<T, RequestFailure>,
        say: impl Fn(&str),
    ) -> anyhow::Result<T> {
        let mut tries = 0;
        loop {
            tries += 1;
            let failure = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if let Err(end) = self.wait_after(failure, tries, &say).await {
                end.into_result()?;
            }
        }
    }

    /// Waits before the next attempt after `tries` attempts. Calls `say` before the pause. Returns the end of the delivery if a signal arrives or
    /// repeating does not help.
    async fn wait_after(&self, failure: RequestFailure, tries: u32, say: impl Fn(&str)) -> Result<(), DeliveryEnd> {
        let DeliveryPause { reason, asked } = self.judge(failure).map_err(DeliveryEnd::Failed)?;
        if tries >= MAX_TRIES {
            return Err(DeliveryEnd::Failed(format!("{reason}; gave up after {tries} tries")));
        }
        let pause = pause(tries, asked);
        say(&format!("{reason}; trying again in {:.1} s", pause.as_secs_f64()));
        tokio::select! {
            biased;
            () = self.stop.reached(Phase::Grace) => Err(DeliveryEnd::Stopped),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    /// Sends the `open` lines once and stores the final answers. Returns the failure that prevented the other answers.
    async fn send(&mut self, batch: &LineBatch, open: &[usize], answers: &mut LineResponses) -> RequestFailure {
        let mut body = Vec::with_capacity(open.len() * 512);
        for json in open.iter().filter_map(|at| batch.lines[*at].content.as_ref().ok()) {
            body.extend_from_slice(json.as_bytes());
            body.push(b'\n');
        }
        let mut passing = None;
        let sending = self.target.send(self.collection, body.into(), |answer: LineResponse| {
            // Line numbers begin with 1, and no line is blank.
            let at = usize::try_from(answer.line).ok().and_then(|line| open.get(line.checked_sub(1)?));
            match at {
                Some(_) if answer.refusal.retryable || is_final(&answer.refusal) => passing = Some(answer.refusal),
                Some(at) => answers[*at] = Some(answer),
                None => (),
            }
        });
        let sent = sending.await;
        match (sent, passing) {
            (_, Some(refusal)) => RequestFailure::Refused { status: 0, refusal, retry_after: None },
            (Err(failure), None) => failure,
            (Ok(()), None) => RequestFailure::broken("the answer ended too early"),
        }
    }

    /// Returns the pause before the next attempt, or the reason why repeating does not help.
    fn judge(&self, failure: RequestFailure) -> Result<DeliveryPause, String> {
        let to = self.to;
        match failure {
            RequestFailure::Fault(RequestFault::Unreached(why)) if !self.heard => Err(format!(
                "cannot reach {to}: {why}; is the service running (doppel serve), and is this its address?"
            )),
            RequestFailure::Fault(RequestFault::Unreached(why)) => {
                Ok(DeliveryPause::of(format!("cannot reach {to}: {why}")))
            }
            RequestFailure::Fault(RequestFault::Untrusted(why, remedy)) => {
                Err(format!("the certificate of {to} is not trusted: {why}; {remedy}"))
            }
            RequestFailure::Fault(RequestFault::Broken(why)) if !self.heard && to.starts_with("http://") => {
                Ok(DeliveryPause::of(format!("the connection to {to} broke: {why}; if it speaks TLS, write https://")))
            }
            RequestFailure::Fault(RequestFault::Broken(why)) => {
                Ok(DeliveryPause::of(format!("the connection to {to} broke: {why}")))
            }
            RequestFailure::Foreign => Err(format!("{to} does not answer as doppel does; is this its address?")),
            RequestFailure::Refused { refusal, .. } if is_final(&refusal) => Err(refusal.detail),
            RequestFailure::Refused { status, refusal, retry_after } => {
                if refusal.retryable || matches!(status, 408 | 429 | 502..=504) {
                    let detail = if refusal.detail.is_empty() { format!("status {status}") } else { refusal.detail };
                    return Ok(DeliveryPause { reason: format!("{to} refuses for now: {detail}"), asked: retry_after });
                }
                Err(self.refused(status, &refusal))
            }
        }
    }

    fn refused(&self, status: u16, refusal: &AnswerRefusal) -> String {
        let Self { to, scope, .. } = self;
        let AnswerRefusal { code, detail, .. } = refusal;
        match status {
            401 => format!("{to} needs a key: give one with scope {scope} by --key-file FILE or DOPPEL_KEY ({detail})"),
            403 if code == NOT_THIS_COLLECTION => {
                let collection = self.collection;
                format!(
                    "{to}: the key is limited to other collections than {collection}; doppel keys create NAME --scopes {scope} \
                     --collections {collection} makes a key for it"
                )
            }
            403 => {
                format!(
                    "{to}: the key may not {scope}; doppel config new-key NAME --scopes {scope} makes one ({detail})"
                )
            }
            _ if code.is_empty() => format!("{to} answers with status {status}; is this the address of doppel?"),
            _ => format!("{to} refuses with status {status}, {code}: {detail}"),
        }
    }
}

/// True if the refusal of a line also applies to all other lines. To continue would refuse the whole file line by line.
fn is_final(refusal: &AnswerRefusal) -> bool {
    matches!(refusal.code.as_str(), "unknown_collection" | "too_many_collections" | "index_full")
}

/// The reason for a pause, and the length that the service demands.
struct DeliveryPause {
    reason: String,
    asked: Option<Duration>,
}

impl DeliveryPause {
    fn of(reason: String) -> Self {
        Self { reason, asked: None }
    }
}

/// Returns the length of a pause: twice as long each time, at least as long as demanded, and up to half as much again at random, so that
/// many clients do not repeat at the same time.
fn pause(tries: u32, asked: Option<Duration>) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(LONGEST_PAUSE);
    let base = doubled.max(asked.unwrap_or_default().min(LONGEST_ASKED));
    let mut chance = [0];
    // Without randomness, there is no random part.
    let _ = getrandom::fill(&mut chance);
    base + base.mul_f64(f64::from(chance[0]) / 512.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_honour_what_the_service_asks() {
        for (tries, asked_s, least) in
            [(1, None, 0.1), (4, None, 0.8), (40, None, 15.0), (1, Some(7), 7.0), (1, Some(86_400), 120.0)]
        {
            let seconds = pause(tries, asked_s.map(Duration::from_secs)).as_secs_f64();
            assert!((least..=least * 1.5).contains(&seconds), "{tries}: {seconds}");
        }
    }
}
