//! `_bulk`: registers the lines of a body of any size, and answers each line. It needs constant memory.
//!
//! One [`LinePump`] per request reads the lines, registers them and sends the answers in line order. Several lines are signed and verified
//! at the same time, on all cores, and are written to disk together. They are still committed in line order ([`Series`]). At most
//! [`MAX_PENDING`] lines and [`MAX_PENDING_BYTES`] are processed at the same time. Each line needs a permit, like every other request.
//!
//! If the client does not read its answers, the pump stops reading lines. A client must therefore read while it writes. If the client
//! closes the connection, the lines in progress are registered, and the others are not.

use std::collections::VecDeque;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, StreamExt};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use utoipa::ToSchema;

use crate::auth::{ShownKey, Writer};
use crate::body::next_chunk;
use crate::extract::{self, BodyMedia, IdempotentRequest, InCollection, check_media};
use crate::keys::no_longer;
use crate::origin::check_body;
use crate::pace::BodyPace;
use crate::permits::{WorkPermit, next_permit, stream_place};
use crate::problem::{Problem, ProblemBody};
use crate::query::{CheckedParameters, QueryParameters, QueryReader};
use crate::request_log::RequestId;
use crate::routes::Timed;
use crate::routes::records::{RegisterParams, count_failure, count_registration, status_of};
use crate::state::App;
use crate::wording;
use doppel_config::auth::Scope;
use doppel_core::collection::CollectionName;
use doppel_core::error_code::ErrorCode;
use doppel_engine::answers::Registration;
use doppel_engine::idempotency::{IdempotencyKey, RegistrationId};
use doppel_engine::{IfDuplicate, Position, Series};
use doppel_service::shutdown::Phase;
use doppel_sources::lines::{LineCutter, NumberedLine};
use doppel_texts::Language;

/// The route, as the router matches it.
pub const ROUTE: &str = "/v1/collections/{collection}/records/_bulk";
/// Largest number of lines in progress. With this number, one sync serves many lines while the lines of the next sync arrive.
const MAX_PENDING: usize = 128;
/// Largest number of bytes of the lines in progress. Without it, 128 lines of 1 MiB could be in memory.
const MAX_PENDING_BYTES: usize = 4 << 20;
/// Largest number of finished answers that the connection has not taken yet.
const MAX_READY: usize = 128;

/// The answer to one line: the number of the line, and the same members as the response to a request with only this line.
#[derive(Serialize, ToSchema)]
#[schema(as = BulkLine)]
#[serde(untagged)]
pub enum LineAnswer<'a> {
    /// The answer to a line whose record was registered.
    #[schema(title = "BulkRegistered")]
    Registered {
        /// The number of the line in the body, from 1. Blank lines count, but have no answer.
        line: u64,
        /// The HTTP status code of the line: 201 for a new record, 200 otherwise.
        status: u16,
        /// The registration.
        #[serde(flatten)]
        registration: Timed<Registration>,
    },
    /// The answer to a line that was refused.
    #[schema(title = "BulkRefused")]
    Refused {
        /// The number of the line in the body, from 1.
        line: u64,
        /// The error of the line. Its `status` is the status of the line.
        #[serde(flatten)]
        problem: ProblemBody<'a>,
    },
}

/// Register many records
///
/// The body is newline-delimited JSON. doppel registers the lines in their order and answers each line with one line. The answer to a refused line
/// is a problem, and doppel continues with the next line. The body may have any size. Read the answers while you send the body. If the body arrives
/// too slowly or takes too long, the last line of the response is a problem with status 408 (`limits.min_stream_bytes_per_s`,
/// `limits.max_stream_s`).
///
/// If every row has an `id`, a client can repeat the request safely. Each row without an `id` becomes a new record each time, unless the request
/// has an `Idempotency-Key`. The key and the number of the line then replace the id, so repeat the whole body without any change.
#[utoipa::path(post, path = "/v1/collections/{collection}/records/_bulk", operation_id = "postRecordsInBulk", tag = "records",
    params(("collection" = CollectionName, Path), RegisterParams,
        ("end_of_batch" = Option<bool>, Query, description = "`true` at the end of an import: after the lines, doppel counts the text statistics of all records and reindexes the collection in the background, if at least one record in eight was not in the last count; the body may be empty"),
        ("Idempotency-Key" = Option<String>, Header, description = "identifies this body if rows have no id; 1 to 255 printable ASCII characters")),
    request_body(content = String, content_type = "application/x-ndjson", description = "one row per line"),
    responses((status = 200, description = "one answer a line", body = LineAnswer<'static>, content_type = "application/x-ndjson")))]
pub async fn bulk(
    writer: Writer,
    State(app): State<App>,
    InCollection(collection): InCollection,
    CheckedParameters(params): CheckedParameters<BulkParams>,
    Extension(request_id): Extension<RequestId>,
    IdempotentRequest(key): IdempotentRequest,
    request: Request,
) -> Result<Response, Problem> {
    check_media(request.headers(), BodyMedia::Ndjson)?;
    check_body(request.headers(), u64::MAX)?;
    let place = stream_place(&app, &writer.0)?;
    let (answers, ready) = mpsc::channel(MAX_READY);
    let pump = LinePump {
        lines: LineCutter::new(app.limits().max_line_bytes),
        body: Some(request.into_body()),
        at_hand: None,
        permit: None,
        begun: 0,
        pending: FuturesOrdered::new(),
        pending_bytes: 0,
        ready: VecDeque::new(),
        one_by_one: true,
        series: Series::default(),
        due: None,
        pace: BodyPace::begin(Instant::now(), app.limits().stream_time()),
        answers,
        register: LineRegistration {
            app: app.clone(),
            collection,
            if_duplicate: params.register.if_duplicate,
            key,
            caller: writer.0.key,
        },
        request_id,
        language: wording::present(),
    };
    app.writes.spawn(async move {
        let app = pump.register.app.clone();
        let collection = pump.register.collection.clone();
        // The answer ends when the last sender is dropped.
        let answers = pump.answers.clone();
        let is_whole = pump.run().await;
        drop(place);
        if params.end_of_batch && is_whole {
            app.end_batch(&collection).await;
        }
        drop(answers);
    });
    let body = Body::from_stream(ReceiverStream::new(ready).map(Ok::<_, std::convert::Infallible>));
    Ok(([(header::CONTENT_TYPE, BodyMedia::Ndjson.name())], body).into_response())
}

/// Options of a body of many records.
#[derive(Clone, Copy, Debug)]
pub struct BulkParams {
    register: RegisterParams,
    end_of_batch: bool,
}

impl QueryParameters for BulkParams {
    fn read(query: &mut QueryReader) -> Self {
        let end_of_batch =
            query.parsed("end_of_batch", ErrorCode::InvalidParameter, "give true or false").unwrap_or(false);
        Self { register: RegisterParams::read(query), end_of_batch }
    }
}

struct LineResult {
    line: u64,
    bytes: usize,
    began: std::time::Instant,
    result: Result<Registration, Problem>,
}

#[derive(Clone)]
struct LineRegistration {
    app: App,
    collection: CollectionName,
    if_duplicate: IfDuplicate,
    key: Option<IdempotencyKey>,
    /// The key of the client. It is checked again for each line, because a body may take any time.
    caller: Option<ShownKey>,
}

impl LineRegistration {
    async fn line(self, number: u64, bytes: Bytes, position: Position, _turn: WorkPermit) -> LineResult {
        let began = std::time::Instant::now();
        let Self { app, collection, if_duplicate, key, caller } = self;
        let length = bytes.len();
        let row = match app.keys.still_allows(caller.as_ref(), Scope::Write) {
            true => extract::row(&bytes),
            false => Err(no_longer()),
        };
        let result = match row {
            Ok(row) => {
                let under = key.map_or(RegistrationId::Own, |key| RegistrationId::Key(key.of_line(number)));
                let registered = app.engine.register_in_series(&collection, under, row, if_duplicate, position).await;
                registered.map_err(Problem::from)
            }
            Err(problem) => {
                position.pass().await;
                Err(problem)
            }
        };
        LineResult { line: number, bytes: length, began, result }
    }
}

struct LinePump {
    lines: LineCutter,
    /// The rest of the body. `None` if nothing more is read.
    body: Option<Body>,
    /// The next line. It is begun when it has a permit.
    at_hand: Option<NumberedLine>,
    /// Waits for the permit of the next line. Permits are taken in line order, so that a line in progress never waits for a line without a
    /// permit.
    permit: Option<BoxFuture<'static, Option<WorkPermit>>>,
    /// Number of non-blank lines that were begun.
    begun: u64,
    pending: FuturesOrdered<BoxFuture<'static, LineResult>>,
    pending_bytes: usize,
    /// Answers in line order that the connection has not taken yet.
    ready: VecDeque<Bytes>,
    /// True until a line was registered. Until then, lines are registered one after the other, because the first line may create the
    /// collection, and only one line should try this.
    one_by_one: bool,
    series: Series,
    /// The time by which the present line must be complete, and the number of lines before it. Blank lines do not extend the time.
    due: Option<(u64, Instant)>,
    /// The pace of the whole body.
    pace: BodyPace,
    answers: mpsc::Sender<Bytes>,
    register: LineRegistration,
    request_id: RequestId,
    /// The language of the texts of the answers.
    language: Language,
}

/// Times by which bytes must arrive.
#[derive(Clone, Copy)]
struct ArrivalDeadlines {
    /// Time for the rest of the present line.
    line: Instant,
    /// Time by which more bytes must arrive, so that the whole body keeps the minimum pace.
    body: Instant,
}

/// The reasons for which the pump continues.
enum PumpEvent {
    Done(LineResult),
    Piece(Result<Option<Bytes>, Problem>),
    Permit(Option<WorkPermit>),
    Taken,
    Unheard,
}

impl LinePump {
    /// Registers all lines. Returns true if the whole body arrived and the client took all answers.
    async fn run(mut self) -> bool {
        let mut is_whole = false;
        loop {
            self.begin_lines();
            if self.pending.is_empty() && self.ready.is_empty() && self.body.is_none() && self.at_hand.is_none() {
                return is_whole;
            }
            match self.next_event().await {
                PumpEvent::Done(done) => self.note(done),
                PumpEvent::Piece(Ok(Some(piece))) => {
                    self.pace.note(piece.len());
                    self.lines.feed(&piece);
                }
                PumpEvent::Piece(Ok(None)) => {
                    self.end();
                    is_whole = true;
                }
                PumpEvent::Piece(Err(problem)) => self.stop(problem),
                PumpEvent::Permit(permit) => self.begin_with(permit),
                PumpEvent::Taken => (),
                PumpEvent::Unheard => {
                    self.finish_unheard().await;
                    return false;
                }
            }
        }
    }

    /// Waits for the next event. Lines in progress always continue, even if the client does not read, because other requests may wait for
    /// them.
    async fn next_event(&mut self) -> PumpEvent {
        let reading = self.has_room() && self.at_hand.is_none() && self.body.is_some();
        let limits = self.register.app.limits();
        self.pace.reading(Instant::now(), reading);
        let due = ArrivalDeadlines { line: self.due_by(reading), body: self.pace.due(limits.least_pace()) };
        let next = self.ready.front().cloned();
        let event = tokio::select! {
            biased;
            sent = give(&self.answers, next.as_ref(), limits.write_timeout()), if next.is_some() => {
                if sent { PumpEvent::Taken } else { PumpEvent::Unheard }
            }
            Some(done) = self.pending.next(), if !self.pending.is_empty() => PumpEvent::Done(done),
            permit = wait_for(self.permit.as_mut()), if self.permit.is_some() => PumpEvent::Permit(permit),
            piece = next_piece(&self.register.app, self.body.as_mut(), due), if reading => PumpEvent::Piece(piece),
        };
        match event {
            PumpEvent::Taken => drop(self.ready.pop_front()),
            PumpEvent::Permit(_) => self.permit = None,
            _ => (),
        }
        event
    }

    /// The time by which the present line must be complete. The time does not run while the pump is not reading.
    fn due_by(&mut self, reading: bool) -> Instant {
        let timeout = self.register.app.limits().body_timeout();
        let kept = self.due.filter(|(after, _)| reading && *after == self.begun);
        let due = kept.unwrap_or_else(|| (self.begun, Instant::now() + timeout));
        self.due = reading.then_some(due);
        due.1
    }

    /// Begins received lines, until a limit is reached or a line must wait for its permit.
    fn begin_lines(&mut self) {
        while self.has_room() && self.permit.is_none() {
            self.at_hand = self.at_hand.take().or_else(|| self.lines.next_line());
            if self.at_hand.is_none() {
                return;
            }
            let bytes = self.at_hand.as_ref().and_then(|line| line.bytes.as_ref()).map_or(0, Bytes::len);
            let mut permit = next_permit(self.register.app.clone(), bytes).boxed();
            match (&mut permit).now_or_never() {
                Some(permit) => self.begin_with(permit),
                None => self.permit = Some(permit),
            }
        }
    }

    /// Begins the next line with its permit.
    fn begin_with(&mut self, permit: Option<WorkPermit>) {
        match (self.at_hand.take(), permit) {
            (Some(line), Some(permit)) => self.begin(line, permit),
            (Some(line), None) => self.pending.push_back(refused(line.number, Problem::shutting_down())),
            (None, _) => (),
        }
    }

    fn has_room(&self) -> bool {
        let most = if self.one_by_one { 1 } else { MAX_PENDING };
        self.pending.len() < most && self.ready.len() < MAX_READY && self.pending_bytes < MAX_PENDING_BYTES
    }

    fn begin(&mut self, NumberedLine { number, bytes }: NumberedLine, permit: WorkPermit) {
        self.begun += 1;
        self.pending_bytes += bytes.as_ref().map_or(0, Bytes::len);
        let max = self.register.app.limits().max_line_bytes;
        self.pending.push_back(match bytes {
            Some(bytes) => {
                let began = std::time::Instant::now();
                let length = bytes.len();
                let line = self.register.clone().line(number, bytes, self.series.next_position(), permit);
                let task = self.register.app.writes.spawn(line);
                Box::pin(async move {
                    task.await.unwrap_or_else(|error| {
                        let result = Err(Problem::internal(format!("a line panicked: {error}")));
                        LineResult { line: number, bytes: length, began, result }
                    })
                })
            }
            None => {
                let detail = format!("the line has more than {max} bytes (limits.max_line_bytes)");
                refused(number, Problem::at(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::LineTooLarge, "", detail))
            }
        });
    }

    /// Ends the body. Its last line may have no line end.
    fn end(&mut self) {
        self.body = None;
        self.at_hand = self.lines.last_line();
    }

    /// Stops reading the body because of a problem. The problem becomes the answer to the next line.
    fn stop(&mut self, problem: Problem) {
        self.body = None;
        self.pending.push_back(refused(self.lines.next_number(), problem));
    }

    /// Makes the answer to a line from its result.
    fn note(&mut self, done: LineResult) {
        let LineResult { line, bytes, began, result } = done;
        self.pending_bytes -= bytes;
        self.one_by_one &= result.is_err();
        count(&result);
        let status = result.as_ref().map_or_else(Problem::status, |registration| status_of(registration.outcome));
        metrics::counter!("doppel_bulk_lines_total", "status" => status.as_str().to_owned()).increment(1);
        let result = result.map_err(|problem| problem.in_language(self.language)).map(|mut registration| {
            wording::translate_into(self.language, &mut registration.warnings);
            registration
        });
        let answer = match &result {
            Ok(registration) => {
                let registration = Timed::since(began, registration.clone());
                LineAnswer::Registered { line, status: status.as_u16(), registration }
            }
            Err(problem) => {
                if let Some(cause) = problem.cause() {
                    tracing::error!(request_id = &*self.request_id.0, line, cause, "line failed");
                }
                LineAnswer::Refused { line, problem: problem.body(&self.request_id.0) }
            }
        };
        let mut text = serde_json::to_string(&answer).unwrap_or_default();
        text.push('\n');
        self.ready.push_back(text.into());
    }

    /// Completes the lines in progress after the client closed the connection.
    async fn finish_unheard(mut self) {
        // The permit is given back while this stream waits, because others may wait for it.
        (self.permit, self.at_hand, self.body) = (None, None, None);
        while let Some(done) = self.pending.next().await {
            count(&done.result);
        }
    }
}

fn count(result: &Result<Registration, Problem>) {
    match result {
        Ok(registration) => count_registration(registration),
        Err(problem) => count_failure(problem),
    }
}

/// Gives an answer to the connection. Returns false if the connection does not take it in time.
async fn give(answers: &mpsc::Sender<Bytes>, answer: Option<&Bytes>, time: Duration) -> bool {
    let Some(answer) = answer else { return true };
    matches!(tokio::time::timeout(time, answers.send(answer.clone())).await, Ok(Ok(())))
}

fn refused(line: u64, problem: Problem) -> BoxFuture<'static, LineResult> {
    Box::pin(std::future::ready(LineResult { line, bytes: 0, began: std::time::Instant::now(), result: Err(problem) }))
}

async fn wait_for(permit: Option<&mut BoxFuture<'static, Option<WorkPermit>>>) -> Option<WorkPermit> {
    permit?.await
}

/// Returns the next piece of the body; an error if the client is too slow or the service is stopping.
async fn next_piece(app: &App, body: Option<&mut Body>, due: ArrivalDeadlines) -> Result<Option<Bytes>, Problem> {
    let Some(body) = body else { return Ok(None) };
    tokio::select! {
        biased;
        () = app.shutdown.reached(Phase::Draining) => Err(Problem::shutting_down()),
        piece = tokio::time::timeout_at(due.line.min(due.body), next_chunk(body)) => piece.unwrap_or_else(|_| {
            let limits = app.limits();
            let detail = match due.line <= due.body {
                true => format!("the line did not arrive within {} ms", limits.body_timeout_ms),
                false => format!(
                    "the body comes at less than {} bytes a second (limits.min_stream_bytes_per_s), or for longer than {} s \
                     (limits.max_stream_s); send the rest in another request",
                    limits.min_stream_bytes_per_s, limits.max_stream_s
                ),
            };
            Err(Problem::at(StatusCode::REQUEST_TIMEOUT, ErrorCode::BodyTimeout, "", detail))
        }),
    }
}
