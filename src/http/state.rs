//! What every handler shares.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::task::TaskTracker;

use crate::config::{Config, Limits};
use crate::console::Desk;
use crate::follow::Sources;
use crate::http::auth::Keys;
use crate::http::evicting::EvictingPlaces;
use crate::http::origin::Origins;
use crate::http::problem::Problem;
use crate::shutdown::Shutdown;
use doppel_engine::Engine;
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
    /// The pages for people, unless they are turned off.
    pub console: Option<Desk>,
    /// From where.
    pub origins: Origins,
    /// How much at once.
    pub limits: Limits,
    /// Permits for requests.
    pub permits: Arc<Semaphore>,
    /// Kibibytes that may be worked on.
    pub work: Arc<Semaphore>,
    /// Places for streams.
    pub streams: Arc<Semaphore>,
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
    /// Whether every request gets a line in the log.
    pub log_requests: bool,
}

impl std::ops::Deref for App {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

/// Units of work there are at once, of 1 KiB each.
fn work_units(limits: &Limits) -> usize {
    limits.max_bytes_in_work.div_ceil(WORK_UNIT).clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize))
}

impl App {
    /// Waits until `bytes` may be worked on; one that is longer than all that may be is worked on alone. In the order of asking.
    /// `None` when the service has drained.
    pub async fn work_on(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = bytes.div_ceil(WORK_UNIT).clamp(1, work_units(&self.limits));
        self.work.clone().acquire_many_owned(units as u32).await.ok()
    }

    /// The application over `engine` and, where records can be searched, `search`.
    pub fn new(
        engine: Engine,
        search: Option<SearchService>,
        config: &Config,
        shutdown: Shutdown,
        metrics: PrometheusHandle,
    ) -> Self {
        let limits = config.limits.clone();
        Self(Arc::new(Shared {
            engine,
            search,
            origins: Origins::new(config.auth.keys.is_empty(), &config.server.origins),
            console: config.console.enabled.then(|| Desk::new(&config.store)),
            sources: Sources::new(&config.source, limits.max_line_bytes),
            keys: Keys::new(&config.auth, limits.requests_per_second_per_key),
            permits: Arc::new(Semaphore::new(limits.max_in_flight)),
            work: Arc::new(Semaphore::new(work_units(&limits))),
            streams: Arc::new(Semaphore::new(limits.max_streams)),
            arriving: EvictingPlaces::new(limits.max_in_flight),
            waiting: AtomicUsize::new(0),
            writes: TaskTracker::new(),
            limits,
            shutdown,
            metrics,
            log_requests: config.log.requests,
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
        match self.writes.spawn(work).await {
            Ok(result) => result.map_err(Problem::from),
            Err(error) => Err(Problem::internal(format!("a write panicked: {error}"))),
        }
    }
}
