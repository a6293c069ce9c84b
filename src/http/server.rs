//! Listens, serves connections within their limits, and stops in order.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::Request;
use axum_server::accept::Accept;
use axum_server::{Handle, Server};
use futures_util::future::BoxFuture;
use hyper_util::rt::TokioTimer;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::config::Config;
use crate::http::connection::Connection;
use crate::http::evicting::EvictingPlaces;
use crate::http::observe::Reserved;
use crate::http::router;
use crate::http::state::App;
use crate::shutdown::Phase;

/// Longest head of a request: the longest record id, percent-encoded, with generous headers.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// How often latencies, noted one by one, are added up. Otherwise they would pile up until somebody reads `/metrics`.
const UPKEEP: Duration = Duration::from_secs(5);

/// Connections beyond the limit that may ask whether the service lives, so that a flood of others does not have it restarted: an
/// orchestrator and a monitor ask some times a minute each. The next one takes the place of the oldest, so that who asks at once
/// is answered however many come.
const RESERVE: usize = 64;
/// Such a connection is closed after this time, whatever it does: a probe takes milliseconds.
const RESERVED_TIME: Duration = Duration::from_secs(3);

/// Serves until told to stop, then drains: when it returns, no request and no write is under way, or the time to drain is
/// over.
///
/// # Errors
/// When the listener fails.
pub async fn serve(app: App, listener: TcpListener, config: &Config) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let limits = &config.limits;
    let handle: Handle<SocketAddr> = Handle::new();
    let mut server = axum_server::from_tcp(listener)?.handle(handle.clone()).http1_only();
    server
        .http_builder()
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout())
        .max_buf_size(MAX_HEAD_BYTES);
    let places = Places {
        free: Arc::new(Semaphore::new(limits.max_connections)),
        reserve: EvictingPlaces::new(RESERVE),
        header_timeout: limits.header_timeout(),
        write_timeout: limits.write_timeout(),
    };
    let server: Server<SocketAddr, Places> = server.acceptor(places);
    let drain = Duration::from_millis(config.server.shutdown_drain_ms);
    let stopping = app.shutdown.clone();
    tokio::spawn(async move {
        stopping.reached(Phase::Draining).await;
        handle.graceful_shutdown(Some(drain));
    });
    let metrics = app.metrics.clone();
    let upkeep = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(UPKEEP);
        loop {
            ticks.tick().await;
            metrics.run_upkeep();
        }
    });
    let served = server.serve(router::router(app.clone()).into_make_service()).await;
    upkeep.abort();
    served?;
    // Whoever still waits was cut off with its connection, and begins nothing more.
    app.turns.close();
    app.work.close();
    app.writes.close();
    if tokio::time::timeout(drain, app.writes.wait()).await.is_err() {
        tracing::warn!(writes = app.writes.len(), "writes still under way after the time to drain");
    }
    Ok(())
}

/// Gives each connection a place while there are places, and tells the others why not.
#[derive(Clone)]
struct Places {
    free: Arc<Semaphore>,
    /// Of the connections beyond the limit.
    reserve: EvictingPlaces,
    header_timeout: Duration,
    write_timeout: Duration,
}

/// What a connection holds as long as it lives.
enum Place {
    Free(#[expect(dead_code, reason = "held, not read")] OwnedSemaphorePermit),
    Reserved(#[expect(dead_code, reason = "cancelled when dropped")] DropGuard),
}

impl Places {
    /// A place among those beyond the limit; the connection ends with the token.
    fn reserved(&self) -> CancellationToken {
        let (place, evicted) = self.reserve.enter();
        if evicted {
            metrics::counter!("doppel_http_requests_rejected_total", "reason" => "too_many_connections").increment(1);
        }
        place
    }
}

impl<S: Send + 'static> Accept<TcpStream, S> for Places {
    type Stream = Connection<TcpStream, Place>;
    type Service = Marked<S>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Marked<S>)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let free = self.free.clone().try_acquire_owned().ok();
        let ends = free.is_none().then(|| self.reserved());
        let (header_timeout, write_timeout) = (self.header_timeout, self.write_timeout);
        Box::pin(async move {
            stream.set_nodelay(true)?;
            let connection = |place| Connection::new(stream, header_timeout, write_timeout, place);
            Ok(match (free, ends) {
                (Some(free), _) => (connection(Place::Free(free)), Marked { service, reserved: false }),
                (None, ends) => {
                    let ends = ends.unwrap_or_default();
                    let mut connection = connection(Place::Reserved(ends.clone().drop_guard()));
                    connection.end_with(ends, RESERVED_TIME);
                    (connection, Marked { service, reserved: true })
                }
            })
        })
    }
}

/// Marks the requests of a connection beyond the limit as [`Reserved`].
#[derive(Clone)]
struct Marked<S> {
    service: S,
    reserved: bool,
}

impl<B, S: tower::Service<Request<B>>> tower::Service<Request<B>> for Marked<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        if self.reserved {
            request.extensions_mut().insert(Reserved);
        }
        self.service.call(request)
    }
}
