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

use crate::config::Config;
use crate::http::connection::Connection;
use crate::http::evicting::EvictingPlaces;
use crate::http::observe::Reserved;
use crate::http::open_connections::{BusyBody, ConnectionMark, ConnectionPlace};
use crate::http::router;
use crate::http::shares::Peer;
use crate::http::state::App;
use crate::http::tls::{self, Stream};
use crate::shutdown::Phase;

/// Longest head of a request that is taken for certain: the longest record id, percent-encoded, with generous headers. One of twice
/// as many bytes is refused for certain; in between it depends on how it arrives.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// How often latencies, noted one by one, are added up. Otherwise they would pile up until somebody reads `/metrics`.
const UPKEEP: Duration = Duration::from_secs(5);

/// Connections beyond the limit that may ask whether the service lives, so that a flood of others does not have it restarted: an
/// orchestrator and a monitor ask some times a minute each. The next one takes the place of the oldest, so that who asks at once
/// is answered however many come.
const RESERVE: usize = 64;
/// Such a connection is closed after this time, whatever it does: a probe takes milliseconds.
const RESERVED_TIME: Duration = Duration::from_secs(3);

/// Pause after a connection could not be accepted: what is missing, mostly file descriptors, is missing for a while.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until told to stop, then drains: when it returns, no request and no write is under way, or the time to drain is
/// over.
///
/// # Errors
/// When the listener is none that can be served.
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
    let mut connections = Connections::new(app.clone());
    tokio::select! {
        () = connections.accept_from(&listener) => (),
        () = app.shutdown.reached(Phase::Draining) => (),
    }
    drop(listener);
    connections.drain(drain).await;
    // Whoever still waits begins nothing more, also where the connection of another is closed before its own.
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

/// The next connection. What goes wrong with one, or for a while, is no reason to stop.
pub(super) async fn accept(listener: &tokio::net::TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            // A client that has gone again is noticed when it is read.
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
struct Connections {
    app: App,
    router: Router,
    /// Of the connections beyond the limit.
    reserve: EvictingPlaces,
    /// Tells them to end after the request that is under way.
    graceful: GracefulShutdown,
    /// Tells them to end.
    cut: CancellationToken,
    open: TaskTracker,
}

impl Connections {
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

    /// Never returns.
    async fn accept_from(&self, listener: &tokio::net::TcpListener) {
        loop {
            self.serve(accept(listener).await);
        }
    }

    /// Serves a connection, in a task of its own.
    fn serve(&self, stream: TcpStream) {
        let peer = stream.peer_addr().ok().map(|address| Peer(address.ip()));
        let place = self.place(peer);
        let service = Marked { service: self.router.clone(), mark: place.mark(), peer };
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

    /// A place of the connections, perhaps that of an idle one, or one among those beyond the limit.
    fn place(&self, peer: Option<Peer>) -> Place {
        let keys = self.app.keys.are_there();
        if let Some(place) = self.app.connections.enter(peer.map(|Peer(address)| address), keys) {
            return Place::Counted(place);
        }
        let (place, evicted) = self.reserve.enter();
        if evicted {
            metrics::counter!("doppel_http_requests_rejected_total", "reason" => "too_many_connections").increment(1);
        }
        Place::Reserved(place)
    }

    /// Waits for requests that are under way, so long.
    async fn drain(&mut self, time: Duration) {
        let graceful = std::mem::take(&mut self.graceful);
        if tokio::time::timeout(time, graceful.shutdown()).await.is_err() {
            tracing::warn!(connections = self.open.len(), "requests still under way after the time to drain");
        }
    }

    /// Closes the connections that are left.
    async fn cut(&self) {
        self.cut.cancel();
        self.open.close();
        self.open.wait().await;
    }
}

/// Shakes hands, where this is TLS, and answers requests until the connection ends.
async fn serve_one(app: App, stream: TcpStream, service: TowerToHyperService<Marked<Router>>, watcher: Watcher) {
    // As they are when it is opened.
    let limits = app.limits();
    let stream = match &app.tls {
        None => Stream::Plain(stream),
        Some(certificates) => {
            let within = limits.header_timeout().min(tls::HANDSHAKE);
            let handshake = tokio::time::timeout(within, certificates.shake_hands(stream));
            let shaken = tokio::select! {
                shaken = handshake => shaken.inspect_err(|_| tls::failed("timeout")).ok().flatten(),
                // Nothing was asked for yet.
                () = app.shutdown.reached(Phase::Draining) => None,
            };
            let Some(stream) = shaken else { return };
            stream
        }
    };
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.header_timeout()).max_buf_size(MAX_HEAD_BYTES);
    let stream = TokioIo::new(Connection::new(stream, limits.write_timeout()));
    // What went wrong is the client's, and was told to it if it can be told.
    let _ = watcher.watch(http.serve_connection(stream, service)).await;
}

/// What a connection holds as long as it lives.
enum Place {
    Counted(ConnectionPlace),
    Reserved(CancellationToken),
}

impl Place {
    /// What the requests of the connection carry; `None` beyond the limit.
    fn mark(&self) -> Option<ConnectionMark> {
        match self {
            Self::Counted(place) => Some(place.mark()),
            Self::Reserved(_) => None,
        }
    }

    /// Waits until another takes the place, or its time is over.
    async fn lost(&self) {
        match self {
            Self::Counted(place) => place.lost().await,
            Self::Reserved(place) => {
                // Late or cancelled, it is lost.
                let _ = tokio::time::timeout(RESERVED_TIME, place.cancelled()).await;
            }
        }
    }
}

impl Drop for Place {
    /// Gives it back.
    fn drop(&mut self) {
        if let Self::Reserved(place) = self {
            place.cancel();
        }
    }
}

/// Tells requests which connection they are of, and the connection that requests are under way. Requests of a connection beyond the
/// limit are [`Reserved`].
#[derive(Clone)]
struct Marked<S> {
    service: S,
    mark: Option<ConnectionMark>,
    peer: Option<Peer>,
}

impl<B, S> tower::Service<Request<B>> for Marked<S>
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
                extensions.insert(Reserved);
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
