//! Listens, serves connections within their limits, and stops in order.

use std::io;
use std::net::TcpListener;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::response::Response;
use futures_util::future::BoxFuture;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::TimedConnection;
use crate::evicting::EvictingPlaces;
use crate::observe::ReservedConnection;
use crate::open_connections::{BusyBody, ConnectionMark, ConnectionPlace};
use crate::router;
use crate::shares::ClientAddress;
use crate::state::App;
use crate::tls::{self, ClientStream};
use doppel_config::Config;
use doppel_service::shutdown::Phase;

/// A head of a request up to this length is always accepted. The longest record id, percent-encoded, and large headers fit. A head of twice
/// this length is always refused. Between these lengths, the result depends on the pieces in which the head arrives.
pub const MAX_HEAD_BYTES: usize = 64 << 10;

/// Interval at which recorded latencies are aggregated. Otherwise they would accumulate in memory until a client reads `/metrics`.
const UPKEEP: Duration = Duration::from_secs(5);

/// Number of connections beyond the limit that can reach the probes. Without these connections, an orchestrator would restart the service
/// when there are too many connections. An orchestrator and a monitor each send a few requests a minute. The next connection takes the
/// place of the oldest, so that a client that sends its request at once always gets an answer.
const RESERVE: usize = 64;
/// A connection beyond the limit is always closed after this time. A probe takes milliseconds.
const RESERVED_TIME: Duration = Duration::from_secs(3);

/// Pause after a connection could not be accepted. The usual reason is a lack of file descriptors, which lasts for some time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until the service stops, and then drains. When it returns, no request and no write is in progress, or the time to drain has
/// passed.
///
/// # Errors
/// The listener cannot be used.
pub async fn serve(app: App, listener: TcpListener, config: &Config) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let drain = Duration::from_millis(config.server.shutdown_drain_ms);
    let metrics = app.metrics.clone();
    let upkeep = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(UPKEEP);
        loop {
            ticks.tick().await;
            metrics.run_upkeep();
        }
    });
    let mut connections = ServerConnections::new(app.clone());
    tokio::select! {
        () = connections.accept_from(&listener) => (),
        () = app.shutdown.reached(Phase::Draining) => (),
    }
    drop(listener);
    connections.drain(drain).await;
    // Requests that wait for a permit are refused, also if the connections of other requests are closed first.
    app.permits.close();
    app.work.close();
    connections.cut().await;
    upkeep.abort();
    app.writes.close();
    if tokio::time::timeout(drain, app.writes.wait()).await.is_err() {
        tracing::warn!(writes = app.writes.len(), "writes still under way after the time to drain");
    }
    Ok(())
}

/// Waits for the next connection. It continues after errors, because an error concerns only one connection or is temporary.
pub async fn accept(listener: &tokio::net::TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            // If the client has already closed the connection, a later read shows this.
            Ok((stream, _)) if stream.set_nodelay(true).is_ok() => return stream,
            Ok(_) => (),
            Err(error) => {
                use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
                if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
                    tracing::warn!(%error, "a connection cannot be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// The open connections, and the places that they take.
struct ServerConnections {
    app: App,
    router: Router,
    /// The places for connections beyond the limit.
    reserve: EvictingPlaces,
    /// Makes the connections end after the request in progress.
    graceful: GracefulShutdown,
    /// Makes the connections end at once.
    cut: CancellationToken,
    open: TaskTracker,
}

impl ServerConnections {
    fn new(app: App) -> Self {
        Self {
            router: router::router(app.clone()),
            app,
            reserve: EvictingPlaces::new(RESERVE),
            graceful: GracefulShutdown::new(),
            cut: CancellationToken::new(),
            open: TaskTracker::new(),
        }
    }

    /// Accepts connections for ever. Never returns.
    async fn accept_from(&self, listener: &tokio::net::TcpListener) {
        loop {
            self.serve(accept(listener).await);
        }
    }

    /// Starts a task that serves a connection.
    fn serve(&self, stream: TcpStream) {
        let peer = stream.peer_addr().ok().map(|address| ClientAddress(address.ip()));
        let place = self.place(peer);
        let service = MarkedService { service: self.router.clone(), mark: place.mark(), peer };
        let served = serve_one(self.app.clone(), stream, TowerToHyperService::new(service), self.graceful.watcher());
        let cut = self.cut.clone();
        self.open.spawn(async move {
            tokio::select! {
                () = served => (),
                () = cut.cancelled() => (),
                () = place.lost() => (),
            }
        });
    }

    /// Takes a place of the connections, if necessary the place of an idle connection; otherwise a place beyond the limit.
    fn place(&self, peer: Option<ClientAddress>) -> HeldPlace {
        let keys = self.app.keys.have_any();
        if let Some(place) = self.app.connections.enter(peer.map(|ClientAddress(address)| address), keys) {
            return HeldPlace::Counted(place);
        }
        let (place, evicted) = self.reserve.enter();
        if evicted {
            metrics::counter!("doppel_http_requests_rejected_total", "reason" => "too_many_connections").increment(1);
        }
        HeldPlace::Reserved(place)
    }

    /// Waits for the requests in progress, at most this time.
    async fn drain(&mut self, time: Duration) {
        let graceful = std::mem::take(&mut self.graceful);
        if tokio::time::timeout(time, graceful.shutdown()).await.is_err() {
            tracing::warn!(connections = self.open.len(), "requests still under way after the time to drain");
        }
    }

    /// Closes the connections that are still open.
    async fn cut(&self) {
        self.cut.cancel();
        self.open.close();
        self.open.wait().await;
    }
}

/// Does the TLS handshake, if TLS is on, and answers requests until the connection ends.
async fn serve_one(app: App, stream: TcpStream, service: TowerToHyperService<MarkedService<Router>>, watcher: Watcher) {
    // The limits at the time at which the connection is opened.
    let limits = app.limits();
    let stream = match &app.tls {
        None => ClientStream::Plain(stream),
        Some(certificates) => {
            let within = limits.header_timeout().min(tls::HANDSHAKE);
            let handshake = tokio::time::timeout(within, certificates.shake_hands(stream));
            let shaken = tokio::select! {
                shaken = handshake => shaken.inspect_err(|_| tls::failed("timeout")).ok().flatten(),
                // The connection has not sent a request yet.
                () = app.shutdown.reached(Phase::Draining) => None,
            };
            let Some(stream) = shaken else { return };
            stream
        }
    };
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout()).max_buf_size(MAX_HEAD_BYTES);
    let stream = TokioIo::new(TimedConnection::new(stream, limits.write_timeout()));
    // An error here is an error of the client, which got a response if this was possible.
    let _ = watcher.watch(http.serve_connection(stream, service)).await;
}

/// The place that a connection holds until it is closed.
enum HeldPlace {
    Counted(ConnectionPlace),
    Reserved(CancellationToken),
}

impl HeldPlace {
    /// Returns the mark for the requests of the connection; `None` beyond the limit.
    fn mark(&self) -> Option<ConnectionMark> {
        match self {
            Self::Counted(place) => Some(place.mark()),
            Self::Reserved(_) => None,
        }
    }

    /// Waits until another connection takes the place, or the time of the place has passed.
    async fn lost(&self) {
        match self {
            Self::Counted(place) => place.lost().await,
            Self::Reserved(place) => {
                // The place is lost in both cases: another connection took it, or the time has passed.
                let _ = tokio::time::timeout(RESERVED_TIME, place.cancelled()).await;
            }
        }
    }
}

impl Drop for HeldPlace {
    /// Gives the place back.
    fn drop(&mut self) {
        if let Self::Reserved(place) = self {
            place.cancel();
        }
    }
}

/// Adds the mark of its connection to each request, and records on the connection that the request is in progress. Marks requests of a
/// connection beyond the limit as [`ReservedConnection`].
#[derive(Clone)]
struct MarkedService<S> {
    service: S,
    mark: Option<ConnectionMark>,
    peer: Option<ClientAddress>,
}

impl<B, S> tower::Service<Request<B>> for MarkedService<S>
where
    S: tower::Service<Request<B>, Response = Response>,
    S::Error: Send + 'static,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let extensions = request.extensions_mut();
        match &self.mark {
            Some(mark) => {
                extensions.insert(mark.clone());
            }
            None => {
                extensions.insert(ReservedConnection);
            }
        }
        if let Some(peer) = self.peer {
            extensions.insert(peer);
        }
        let busy = self.mark.as_ref().map(ConnectionMark::begin_request);
        let answer = self.service.call(request);
        Box::pin(async move { Ok(answer.await?.map(|body| Body::new(BusyBody::new(body, busy)))) })
    }
}
