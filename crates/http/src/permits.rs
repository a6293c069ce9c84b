//! The permits of the work of requests, and the places of streams and of waiting callers.

use std::cell::Cell;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use axum::http::StatusCode;
use futures_util::poll;
use tokio::sync::{OwnedSemaphorePermit, TryAcquireError};
use tokio_util::sync::CancellationToken;

use crate::keys::RequestCaller;
use crate::problem::Problem;
use crate::shares::{NoPlace, SharedPlace};
use crate::state::App;
use doppel_core::error_code::ErrorCode;

/// One of the `max_in_flight` permits. A request, or a line of a stream, holds it while the service works on it, but not while the service
/// waits for a body ([`arrival`]). A write that continues after its request holds it until the write ends.
#[derive(Clone, Debug)]
pub struct WorkPermit(Arc<HeldPermits>);

/// The resources that a permit holds.
#[derive(Debug)]
struct HeldPermits {
    _permit: OwnedSemaphorePermit,
    /// The permit for the bytes of the request.
    work: OnceLock<OwnedSemaphorePermit>,
}

impl WorkPermit {
    fn new(permit: OwnedSemaphorePermit) -> Self {
        Self(Arc::new(HeldPermits { _permit: permit, work: OnceLock::new() }))
    }
}

/// Waits until the service may work on a body of `bytes` bytes that has been read. The permit of the request counts this work until the
/// permit is dropped.
///
/// # Errors
/// 503 if the service has drained.
pub async fn work_on(app: &App, bytes: usize) -> Result<(), Problem> {
    let Some(WorkPermit(held)) = current_permit() else { return Ok(()) };
    let work = app.work_on(bytes).await.ok_or_else(Problem::shutting_down)?;
    let _ = held.work.set(work);
    Ok(())
}

/// Runs the work of a request that holds `permit`.
pub(crate) async fn with_permit<T>(permit: WorkPermit, work: impl Future<Output = T>) -> T {
    PERMIT.scope(Cell::new(Some(permit)), work).await
}

tokio::task_local! {
    /// The permit of the request, while it holds a permit.
    static PERMIT: Cell<Option<WorkPermit>>;
}

/// Waits for data that the client still has to send. Data that has arrived is returned at once. While the request waits, it gives its
/// permit back, so that a slow client does not block others. The number of bodies that are still arriving is limited to the number of
/// permits; beyond this limit, the oldest such body is refused.
///
/// # Errors
/// The errors of `arrives`; 408 for the oldest of too many bodies; 503 if too many requests wait for a permit.
pub async fn arrival<T>(app: &App, arrives: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    let mut arrives = pin!(arrives);
    if let Poll::Ready(arrived) = poll!(arrives.as_mut()) {
        return arrived;
    }
    let held = PERMIT.try_with(Cell::take).ok().flatten();
    if held.is_none() {
        return arrives.await;
    }
    drop(held);
    let (place, evicted) = app.arriving.enter();
    if evicted {
        metrics::counter!("doppel_http_requests_rejected_total", "reason" => "slow_body").increment(1);
    }
    let given_back = place.clone().drop_guard();
    let arrived = tokio::select! {
        biased;
        arrived = arrives => arrived,
        () = place.cancelled() => {
            let detail = "the body came too slowly while too many bodies were arriving (limits.max_in_flight); send it \
                again";
            Err(Problem::at(StatusCode::REQUEST_TIMEOUT, ErrorCode::BodyTimeout, "", detail))
        }
    }?;
    drop(given_back);
    let permit = permit(app).await?;
    PERMIT.with(|slot| slot.set(Some(permit)));
    Ok(arrived)
}

/// Waits for a permit for a piece of a stream of `bytes` bytes, in turn with other requests. Returns a permit also while the service
/// drains, and `None` after that.
pub async fn next_permit(app: App, bytes: usize) -> Option<WorkPermit> {
    let permit = WorkPermit::new(app.permits.enter(1).await?);
    let _ = permit.0.work.set(app.work_on(bytes).await?);
    Some(permit)
}

/// Takes a place for a stream. A stream holds no permit, because it lasts as long as its client wants.
///
/// # Errors
/// 503 if all places are taken, or if the caller has its share of them.
pub fn stream_place(app: &App, caller: &RequestCaller) -> Result<SharedPlace, Problem> {
    app.streams.try_enter(&caller.holder).map_err(|why| {
        metrics::counter!("doppel_http_requests_rejected_total", "reason" => "too_many_streams").increment(1);
        let detail = match why {
            NoPlace::Full => {
                "too many streams are open (limits.max_streams); send the request again when a stream has \
                ended"
            }
            NoPlace::Share => {
                "this caller has too many streams open (the limit is three quarters of limits.max_streams); send the \
                    request again when a stream has ended"
            }
        };
        Problem::unavailable(ErrorCode::TooManyStreams, detail)
    })
}

/// Takes a place for a caller that waits for a change. If `limits.max_watchers` is reached, the oldest wait of the caller with the most
/// waits ends: its token is cancelled.
pub fn watcher_place(app: &App, caller: &RequestCaller) -> CancellationToken {
    let (place, evicted) = app.watchers.enter_as(caller.holder.clone());
    if evicted {
        metrics::counter!("doppel_http_requests_rejected_total", "reason" => "too_many_watchers").increment(1);
    }
    place
}

/// Gives the permit of the request back, because from now on the request only waits.
pub fn give_permit_back() {
    drop(PERMIT.try_with(Cell::take));
}

/// Returns the permit of the present request, for work that may continue after the request.
pub fn current_permit() -> Option<WorkPermit> {
    PERMIT
        .try_with(|slot| {
            let permit = slot.take();
            slot.set(permit.clone());
            permit
        })
        .ok()
        .flatten()
}

/// Counts a request as in progress until it is dropped, which also happens if the client closes the connection.
pub(crate) struct InFlight(metrics::Gauge);

impl InFlight {
    pub(crate) fn count() -> Self {
        let gauge = metrics::gauge!("doppel_http_requests_in_flight");
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// Waits for a permit, unless too many requests are already waiting.
pub(crate) async fn permit(app: &App) -> Result<WorkPermit, Problem> {
    match app.permits.try_enter() {
        Ok(permit) => return Ok(WorkPermit::new(permit)),
        Err(TryAcquireError::Closed) => return Err(Problem::shutting_down()),
        Err(TryAcquireError::NoPermits) => (),
    }
    if app.waiting.fetch_add(1, Ordering::Relaxed) >= app.limits().max_waiting {
        app.waiting.fetch_sub(1, Ordering::Relaxed);
        metrics::counter!("doppel_http_requests_rejected_total", "reason" => "overloaded").increment(1);
        let detail = "too many requests are waiting (limits.max_waiting); send the request again in a moment";
        return Err(Problem::unavailable(ErrorCode::Overloaded, detail));
    }
    let waiting = metrics::gauge!("doppel_http_requests_waiting");
    waiting.increment(1.0);
    let _waiting = WaitingRequest(app, waiting);
    let permit = app.permits.enter(1).await.ok_or_else(Problem::shutting_down)?;
    Ok(WorkPermit::new(permit))
}

/// Counts a waiting request until it is dropped, which also happens if the client closes the connection.
struct WaitingRequest<'a>(&'a App, metrics::Gauge);

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        self.1.decrement(1.0);
    }
}
