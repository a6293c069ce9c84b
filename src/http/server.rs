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
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Config;
use crate::http::connection::Connection;
use crate::http::observe::Reserved;
use crate::http::router;
use crate::http::state::App;
use crate::shutdown::Phase;

/// Longest head of a request: the longest record id, percent-encoded, with generous headers.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// How often latencies, noted one by one, are added up. Otherwise they would pile up until somebody reads `/metrics`.
const UPKEEP: Duration = Duration::from_secs(5);

/// Connections beyond the limit that may ask whether the service lives, so that a flood of idle ones does not have it
/// restarted: an orchestrator and a monitor ask some times a minute each.
const RESERVE: usize = 16;
/// Such a connection is closed after this time, whatever it does: a probe takes milliseconds.
const RESERVED_TIME: Duration = Duration::from_secs(3);

/// What a connection over the limit and the reserve is told.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
connection: close\r\ncontent-length: 187\r\n\r\n\
{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\"code\":\"too_many_connections\",\
\"detail\":\"as many connections are open as may be (limits.max_connections)\",\"retryable\":true}";

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
        reserve: Arc::new(Semaphore::new(RESERVE)),
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
    reserve: Arc<Semaphore>,
    header_timeout: Duration,
    write_timeout: Duration,
}

impl<S: Send + 'static> Accept<TcpStream, S> for Places {
    type Stream = Connection<TcpStream, OwnedSemaphorePermit>;
    type Service = Marked<S>;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Marked<S>)>>;

    fn accept(&self, mut stream: TcpStream, service: S) -> Self::Future {
        let free = self.free.clone().try_acquire_owned();
        let reserved = free.is_err();
        let place = free.or_else(|_| self.reserve.clone().try_acquire_owned());
        let (header_timeout, write_timeout) = (self.header_timeout, self.write_timeout);
        Box::pin(async move {
            stream.set_nodelay(true)?;
            match place {
                Ok(place) => {
                    let mut connection = Connection::new(stream, header_timeout, write_timeout, place);
                    if reserved {
                        connection.end_after(RESERVED_TIME);
                    }
                    Ok((connection, Marked { service, reserved }))
                }
                Err(_) => {
                    metrics::counter!("doppel_http_requests_rejected_total", "reason" => "too_many_connections")
                        .increment(1);
                    stream.write_all(FULL).await?;
                    stream.shutdown().await?;
                    Err(io::Error::other("too many connections"))
                }
            }
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

#[cfg(test)]
mod tests {
    use super::FULL;

    #[test]
    fn the_answer_to_a_connection_too_many_states_its_own_length() {
        let text = std::str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{}", body.len());
        serde_json::from_str::<serde_json::Value>(body).unwrap();
    }
}
