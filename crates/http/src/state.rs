//! The state that all handlers share.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::task::TaskTracker;

use crate::auth::ApiKeys;
use crate::evicting::EvictingPlaces;
use crate::open_connections::OpenConnections;
use crate::origin::AllowedOrigins;
use crate::pages::{DeskPages, PageKind};
use crate::passwords::PasswordWork;
use crate::problem::Problem;
use crate::room::PlaceRoom;
use crate::shares::SharedRoom;
use crate::tls::CertificatesInUse;
use crate::traces::Traces;
use doppel_config::{Config, LimitsConfig, WebhookConfig};
use doppel_core::collection::CollectionName;
use doppel_engine::Engine;
use doppel_engine::stages::RequestTrace;
#[cfg(feature = "search")]
use doppel_search::service::SearchService;
use doppel_service::follow::FollowedSources;
use doppel_service::shutdown::{Phase, Shutdown};
use doppel_service::snapshots::Snapshots;

/// Number of bytes in one unit of work.
const WORK_UNIT: usize = 1 << 10;

/// The application. A clone is cheap.
#[derive(Clone)]
pub struct App(Arc<SharedParts>);

/// The parts of the application.
pub struct SharedParts {
    /// The engine with the use cases.
    pub engine: Engine,
    /// Related cases and search; `None` if search is off.
    #[cfg(feature = "search")]
    pub search: Option<SearchService>,
    /// The keys of callers and the accounts of people.
    pub keys: ApiKeys,
    /// Hashes and checks passwords.
    pub passwords: PasswordWork,
    /// The snapshots of the data.
    pub snapshots: Snapshots,
    /// The pages for people, if there are any.
    pub pages: Option<Arc<dyn DeskPages>>,
    /// The origins from which requests are accepted.
    pub origins: AllowedOrigins,
    /// The limits; see [`App::limits`].
    limits: ArcSwap<LimitsConfig>,
    pub connections: Arc<OpenConnections>,
    /// Permits for requests.
    pub permits: Arc<PlaceRoom>,
    /// Kibibytes of bodies that the service may work on at the same time.
    pub work: Arc<PlaceRoom>,
    /// Places for streams.
    pub streams: SharedRoom,
    /// Places for readers that wait for a change.
    pub watchers: EvictingPlaces,
    /// Places for bodies that are still arriving, as many as there are permits.
    pub arriving: EvictingPlaces,
    /// Number of requests that wait for a permit.
    pub waiting: AtomicUsize,
    /// Writes in progress.
    pub writes: TaskTracker,
    /// The databases that are followed or imported.
    pub sources: FollowedSources,
    /// The addresses to which the service reports repeats and events.
    pub webhooks: Arc<[WebhookConfig]>,
    /// The phases of stopping the service.
    pub shutdown: Shutdown,
    /// The source of `/metrics`.
    pub metrics: PrometheusHandle,
    /// The destination of the spans of requests.
    pub traces: Traces,
    /// True to log a line for every request.
    pub log_requests: AtomicBool,
    /// The certificates, if the service uses TLS itself.
    pub tls: Option<Arc<CertificatesInUse>>,
}

impl std::ops::Deref for App {
    type Target = SharedParts;
    fn deref(&self) -> &SharedParts {
        &self.0
    }
}

/// Returns the number of units of work ([`WORK_UNIT`]) that may be in progress at the same time.
fn work_units(limits: &LimitsConfig) -> usize {
    limits.max_bytes_in_work.div_ceil(WORK_UNIT)
}

/// The optional parts of the application.
#[derive(Default)]
pub struct OptionalParts {
    /// Related cases and search.
    #[cfg(feature = "search")]
    pub search: Option<SearchService>,
    /// Pages for people.
    pub pages: Option<Arc<dyn DeskPages>>,
    /// Certificates, to speak TLS.
    pub tls: Option<Arc<CertificatesInUse>>,
}

/// The destinations of metrics and traces.
pub struct TelemetryParts {
    /// The source of `/metrics`.
    pub metrics: PrometheusHandle,
    /// The destination of the spans of requests.
    pub traces: Traces,
}

impl From<PrometheusHandle> for TelemetryParts {
    fn from(metrics: PrometheusHandle) -> Self {
        Self { metrics, traces: Traces::default() }
    }
}

impl App {
    /// Waits until the service may work on a body of `bytes` bytes. A body above the limit waits until the service works on no other body.
    /// Callers wait in the order of their calls. `None` if the service has drained.
    pub async fn work_on(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.work.enter(bytes.div_ceil(WORK_UNIT)).await
    }

    /// Returns the kind of desk page at a path or at the template of a route.
    pub fn page_at(&self, path: &str) -> Option<PageKind> {
        self.pages.as_ref()?.kind(path)
    }

    /// Returns the present limits.
    pub fn limits(&self) -> Arc<LimitsConfig> {
        self.limits.load_full()
    }

    /// Changes the limits. Limits of simultaneous work apply at once, but no running work is stopped. Limits of sizes and times apply to
    /// new requests and connections.
    pub fn set_limits(&self, limits: &LimitsConfig) {
        self.limits.store(Arc::new(limits.clone()));
        self.connections.set_most(limits.max_connections);
        self.permits.set_most(limits.max_in_flight);
        self.arriving.set_most(limits.max_in_flight);
        self.work.set_most(work_units(limits));
        self.streams.set_most(limits.max_streams);
        self.watchers.set_most(limits.max_watchers);
        self.keys.set_rate(limits.requests_per_second_per_key);
    }

    /// Creates the application for `engine`.
    pub fn new(
        engine: Engine,
        parts: OptionalParts,
        config: &Config,
        shutdown: Shutdown,
        told: impl Into<TelemetryParts>,
    ) -> Self {
        let TelemetryParts { metrics, traces } = told.into();
        let limits = config.limits.clone();
        Self(Arc::new(SharedParts {
            snapshots: Snapshots::new(engine.clone(), &config.snapshots),
            engine,
            #[cfg(feature = "search")]
            search: parts.search,
            origins: AllowedOrigins::new(&config.server.origins),
            pages: parts.pages,
            sources: FollowedSources::new(&config.source, limits.max_line_bytes),
            webhooks: config.webhook.clone().into(),
            keys: ApiKeys::new(&config.auth, limits.requests_per_second_per_key),
            passwords: PasswordWork::default(),
            connections: OpenConnections::new(limits.max_connections),
            permits: Arc::new(PlaceRoom::new(limits.max_in_flight)),
            work: Arc::new(PlaceRoom::new(work_units(&limits))),
            streams: SharedRoom::new(limits.max_streams),
            watchers: EvictingPlaces::new(limits.max_watchers),
            arriving: EvictingPlaces::new(limits.max_in_flight),
            waiting: AtomicUsize::new(0),
            writes: TaskTracker::new(),
            limits: ArcSwap::from_pointee(limits),
            shutdown,
            metrics,
            traces,
            log_requests: config.log.requests.into(),
            tls: parts.tls,
        }))
    }

    /// Counts a collection at the end of a batch ([`Engine::end_batch`]), unless the service stops.
    pub async fn end_batch(&self, collection: &CollectionName) {
        tokio::select! {
            biased;
            () = self.shutdown.reached(Phase::Draining) => {}
            () = self.engine.end_batch(collection) => {}
        }
    }

    /// Runs a write of the engine, see [`App::detached`].
    ///
    /// # Errors
    /// The errors of the write.
    pub async fn with_engine<T, F>(&self, write: impl FnOnce(Engine) -> F) -> Result<T, Problem>
    where
        F: Future<Output = Result<T, doppel_engine::Error>> + Send + 'static,
        T: Send + 'static,
    {
        self.detached(write(self.engine.clone())).await
    }

    /// Runs a write in its own task. The write continues if the client closes the connection or if the time of the request is over, and the
    /// service does not exit before it is done. The write keeps the permit of the request. Clients that close connections and try again can
    /// therefore not cause more than `max_in_flight` writes.
    pub async fn detached<T, F>(&self, work: F) -> Result<T, Problem>
    where
        F: Future<Output = Result<T, doppel_engine::Error>> + Send + 'static,
        T: Send + 'static,
    {
        let permit = super::permits::current_permit();
        // Boxed, so that tokio's code for a task is compiled once for each result and not for each work.
        let work: BoxFuture<'static, Result<T, doppel_engine::Error>> = Box::pin(async move {
            let _turn = permit;
            work.await
        });
        let spawned = match RequestTrace::current() {
            Some(followed) => self.writes.spawn(followed.follow(work)),
            None => self.writes.spawn(work),
        };
        match spawned.await {
            Ok(result) => result.map_err(Problem::from),
            Err(error) => Err(Problem::internal(format!("a write panicked: {error}"))),
        }
    }
}
