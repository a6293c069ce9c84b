//! What every handler shares.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use arc_swap::ArcSwap;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::task::TaskTracker;

use crate::config::{Config, Limits};
use crate::follow::Sources;
use crate::http::auth::Keys;
use crate::http::evicting::EvictingPlaces;
use crate::http::open_connections::OpenConnections;
use crate::http::origin::Origins;
use crate::http::pages::{PageKind, Pages};
use crate::http::problem::Problem;
use crate::http::room::Room;
use crate::http::shares::SharedRoom;
use crate::http::tls::Certificates;
use crate::shutdown::Shutdown;
use crate::snapshots::Snapshots;
use crate::traces::Traces;
use doppel_engine::Engine;
use doppel_engine::stages::Followed;
use doppel_search::service::SearchService;

/// Bytes of a unit of work.
const WORK_UNIT: usize = 1 << 10;

/// The application: cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Shared>);

/// The parts of the application.
pub struct Shared {
    /// The use cases.
    pub engine: Engine,
    /// Related cases and search, unless that is turned off.
    pub search: Option<SearchService>,
    /// Who may call.
    pub keys: Keys,
    /// Backups of what the engine keeps.
    pub snapshots: Snapshots,
    /// The pages for people, where there are some.
    pub pages: Option<Arc<dyn Pages>>,
    /// From where.
    pub origins: Origins,
    /// How much at once; see [`App::limits`].
    limits: ArcSwap<Limits>,
    /// The open connections.
    pub connections: Arc<OpenConnections>,
    /// Permits for requests.
    pub permits: Arc<Room>,
    /// Kibibytes that may be worked on.
    pub work: Arc<Room>,
    /// Places for streams.
    pub streams: SharedRoom,
    /// Places for readers that wait for a change.
    pub watchers: EvictingPlaces,
    /// Places for bodies that are still arriving, as many as there are permits.
    pub arriving: EvictingPlaces,
    /// Requests waiting for a permit.
    pub waiting: AtomicUsize,
    /// State-changing work under way.
    pub writes: TaskTracker,
    /// Databases that are read.
    pub sources: Sources,
    /// Whether the service is stopping.
    pub shutdown: Shutdown,
    /// Where `/metrics` reads.
    pub metrics: PrometheusHandle,
    /// Where requests' spans go.
    pub traces: Traces,
    /// Whether every request gets a line in the log.
    pub log_requests: AtomicBool,
    /// The certificates, where the service speaks TLS itself.
    pub tls: Option<Arc<Certificates>>,
}

impl std::ops::Deref for App {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// Units of work there are at once, of 1 KiB each.
fn work_units(limits: &Limits) -> usize {
    limits.max_bytes_in_work.div_ceil(WORK_UNIT)
}

/// What an application may do without.
#[derive(Default)]
pub struct Parts {
    /// Related cases and search.
    pub search: Option<SearchService>,
    /// Pages for people.
    pub pages: Option<Arc<dyn Pages>>,
    /// Certificates, to speak TLS.
    pub tls: Option<Arc<Certificates>>,
}

/// Whom the application tells what it does.
pub struct Told {
    /// Where `/metrics` reads.
    pub metrics: PrometheusHandle,
    /// Where requests' spans go.
    pub traces: Traces,
}

impl From<PrometheusHandle> for Told {
    fn from(metrics: PrometheusHandle) -> Self {
        Self { metrics, traces: Traces::default() }
    }
}

impl App {
    /// Waits until `bytes` may be worked on; one that is longer than all that may be is worked on alone. In the order of asking.
    /// `None` when the service has drained.
    pub async fn work_on(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.work.enter(bytes.div_ceil(WORK_UNIT)).await
    }

    /// What page for people is at a path or a template of a route.
    pub fn page_at(&self, path: &str) -> Option<PageKind> {
        self.pages.as_ref()?.kind(path)
    }

    /// The limits as they are now.
    pub fn limits(&self) -> Arc<Limits> {
        self.limits.load_full()
    }

    /// Takes other limits. Numbers of what may be at once count from now on, and nothing that is under way is stopped; sizes and
    /// times count for requests and connections that begin from now on.
    pub fn set_limits(&self, limits: &Limits) {
        self.limits.store(Arc::new(limits.clone()));
        self.connections.set_most(limits.max_connections);
        self.permits.set_most(limits.max_in_flight);
        self.arriving.set_most(limits.max_in_flight);
        self.work.set_most(work_units(limits));
        self.streams.set_most(limits.max_streams);
        self.watchers.set_most(limits.max_watchers);
        self.keys.set_rate(limits.requests_per_second_per_key);
    }

    /// The application over `engine`.
    pub fn new(
        engine: Engine,
        Parts { search, pages, tls }: Parts,
        config: &Config,
        shutdown: Shutdown,
        told: impl Into<Told>,
    ) -> Self {
        let Told { metrics, traces } = told.into();
        let limits = config.limits.clone();
        Self(Arc::new(Shared {
            snapshots: Snapshots::new(engine.clone(), &config.snapshots),
            engine,
            search,
            origins: Origins::new(&config.server.origins),
            pages,
            sources: Sources::new(&config.source, limits.max_line_bytes),
            keys: Keys::new(&config.auth, limits.requests_per_second_per_key),
            connections: OpenConnections::new(limits.max_connections),
            permits: Arc::new(Room::new(limits.max_in_flight)),
            work: Arc::new(Room::new(work_units(&limits))),
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
            tls,
        }))
    }

    /// Runs state-changing work apart from the request: a client that hangs up, or a request that runs out of time, does
    /// not stop it half-way, and the service does not exit before it is done. The work keeps the request's permit, so
    /// that clients which hang up and try again cannot pile up more of it than `max_in_flight`.
    pub async fn detached<T, F>(&self, work: F) -> Result<T, Problem>
    where
        F: Future<Output = Result<T, doppel_engine::Error>> + Send + 'static,
        T: Send + 'static,
    {
        let permit = super::observe::current_permit();
        let work = async move {
            let _turn = permit;
            work.await
        };
        let spawned = match Followed::current() {
            Some(followed) => self.writes.spawn(followed.follow(work)),
            None => self.writes.spawn(work),
        };
        match spawned.await {
            Ok(result) => result.map_err(Problem::from),
            Err(error) => Err(Problem::internal(format!("a write panicked: {error}"))),
        }
    }
}
