//! Measures the whole service over loopback, with a baseline: handlers that do only the work that every such service must do.
//!
//! The service and the baselines run in this process, on the same threads and behind the same HTTP library. The load generator has its own
//! threads on the same cores. Every request is logged with the default settings, and the lines are discarded.

use std::fs::OpenOptions;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use anyhow::Context as _;
use bytes::Bytes;
use hyper::Method;
use tokio::runtime::{Builder, Runtime};

use super::baseline::{self, Append};
use super::fill::{COLLECTION, FilledDirectory, open, petitions};
use super::floor::GroupCommitFile;
use super::load::{LoadPlan, drive};
use super::report::{BenchFigure, BetterDirection};
use super::{BenchSetup, ROUNDS};
use doppel_config::Config;
use doppel_engine::Engine;
use doppel_eval::sample::GeneratedRecord;
use doppel_http::server;
use doppel_http::state::{App, OptionalParts};
use doppel_service::observe;
use doppel_service::shutdown::{Phase, Shutdown};

const CONNECTIONS: [usize; 2] = [1, 64];
const CHECK: &str = "/v1/collections/bench/check";
const PUT: &str = "/v1/collections/bench/records/put-";
const BARE: &str = "bare handler, same JSON";
const FLOOR: &str = "bare + group commit";
/// Number of characters of a short text. Its body has the usual size; the rest are fields that are only stored.
const SHORT_CHARS: usize = 60;
const BODY_BYTES: usize = 1000;
/// Number of different bodies for `check`, and for `PUT`, which gets new bodies in each round.
const CHECKED: u64 = 4000;
const STORED: u64 = 20_000;

pub(super) fn measure(setup: &BenchSetup, filled: &FilledDirectory) -> anyhow::Result<Vec<BenchFigure>> {
    debug_assert!(CHECK.contains(COLLECTION) && filled.collection.as_str() == COLLECTION);
    log_to_nowhere()?;
    let (engine, _store) = open(&filled.dir)?;
    let servers = MeasuredServers::start(setup, engine.clone())?;
    let client = Builder::new_multi_thread().enable_all().build().context("starting threads")?;
    // The service does this after a start, while it serves the first requests.
    let remembered = client.block_on(engine.remember_records(&filled.collection)).context("remembering records")?;
    anyhow::ensure!(remembered >= filled.records, "{remembered} of {} records are remembered", filled.records);
    let mut figures = Vec::new();
    let short: Arc<[Bytes]> = checked(setup, short_body)?.into();
    let whole: Arc<[Bytes]> = checked(setup, |record| serde_json::to_vec(&record))?.into();
    for (name, bodies, connections) in
        [("http.check.1", &short, 1), ("http.check.64", &short, 64), ("http.check_whole.64", &whole, 64)]
    {
        figures.push(check(setup, &servers, &client, (name, connections), bodies)?);
    }
    for connections in CONNECTIONS {
        figures.push(put(setup, &servers, &client, connections)?);
    }
    servers.stop()?;
    Builder::new_current_thread().enable_all().build()?.block_on(engine.close())?;
    Ok(figures)
}

fn check(
    setup: &BenchSetup,
    servers: &MeasuredServers,
    client: &Runtime,
    figure: (&str, usize),
    bodies: &Arc<[Bytes]>,
) -> anyhow::Result<BenchFigure> {
    let (name, connections) = figure;
    let slice = setup.slice(2);
    // The first requests load the dictionary and fill caches.
    client.block_on(drive(check_plan(servers.service, bodies), connections, slice / 4))?;
    client.block_on(drive(check_plan(servers.bare, bodies), connections, slice / 4))?;
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for _ in 0..ROUNDS {
        theirs.push(client.block_on(drive(check_plan(servers.bare, bodies), connections, slice))?);
        ours.push(client.block_on(drive(check_plan(servers.service, bodies), connections, slice))?);
    }
    Ok(BenchFigure::new(name, ("requests/s", BetterDirection::Higher), &ours, (BARE, &theirs)))
}

fn check_plan(address: SocketAddr, bodies: &Arc<[Bytes]>) -> LoadPlan {
    LoadPlan {
        address,
        method: Method::POST,
        path: CHECK,
        bodies: Arc::clone(bodies),
        numbers: Arc::default(),
        once: false,
    }
}

fn put(
    setup: &BenchSetup,
    servers: &MeasuredServers,
    client: &Runtime,
    connections: usize,
) -> anyhow::Result<BenchFigure> {
    let slice = setup.slice(2);
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for round in 0..ROUNDS {
        let series = (connections * ROUNDS + round + 1) as u64;
        let sample = petitions(setup, series);
        let count = STORED.min(setup.records);
        let bodies: Result<Vec<Bytes>, _> =
            (0..count).map(|position| Ok::<_, anyhow::Error>(short_body(sample.record(position))?.into())).collect();
        let bodies: Arc<[Bytes]> = bodies?.into();
        let numbers = Arc::new(AtomicU64::new(series << 32));
        for (address, rounds) in [(servers.floor, &mut theirs), (servers.service, &mut ours)] {
            let bodies = Arc::clone(&bodies);
            let numbers = Arc::clone(&numbers);
            let plan = LoadPlan { address, method: Method::PUT, path: PUT, bodies, numbers, once: true };
            rounds.push(client.block_on(drive(plan, connections, slice))?);
        }
    }
    let name = format!("http.put.{connections}");
    Ok(BenchFigure::new(name, ("requests/s", BetterDirection::Higher), &ours, (FLOOR, &theirs)))
}

/// Returns bodies for `check`: one in four is a stored petition, the others are new petitions.
fn checked(
    setup: &BenchSetup,
    body: impl Fn(GeneratedRecord) -> serde_json::Result<Vec<u8>>,
) -> serde_json::Result<Vec<Bytes>> {
    let stored = petitions(setup, 0);
    let new = petitions(setup, 1 << 16);
    let count = CHECKED.min(setup.records);
    let bodies = (0..count).map(|n| {
        let record = match n % 4 {
            0 => stored.record(n * setup.records / count),
            _ => new.record(n),
        };
        body(GeneratedRecord { id: format!("asked-{n}"), ..record }).map(Bytes::from)
    });
    bodies.collect()
}

/// Returns a body of the usual size, without an id. Its petition has only one or two lines.
fn short_body(record: GeneratedRecord) -> serde_json::Result<Vec<u8>> {
    let GeneratedRecord { content, user, time, .. } = record;
    // The greeting is skipped, because many petitions have the same greeting.
    let skipped = if content.chars().count() > 2 * SHORT_CHARS { SHORT_CHARS / 2 } else { 0 };
    let content: String = content.chars().skip(skipped).take(SHORT_CHARS).collect();
    let mut row = serde_json::json!({ "content": content, "user": user, "time": time, "remark": "" });
    let missing = BODY_BYTES.saturating_sub(row.to_string().len());
    row["remark"] = "r".repeat(missing).into();
    serde_json::to_vec(&row)
}

/// Formats log lines in the same way as the service, and discards them.
fn log_to_nowhere() -> anyhow::Result<()> {
    let nowhere = OpenOptions::new().write(true).open("/dev/null").context("opening /dev/null")?;
    let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(Mutex::new(nowhere));
    lines.try_init().map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}

/// The service and both baselines, each on its own threads.
struct MeasuredServers {
    runtime: Runtime,
    shutdown: Shutdown,
    serving: tokio::task::JoinHandle<std::io::Result<()>>,
    service: SocketAddr,
    bare: SocketAddr,
    floor: SocketAddr,
}

impl MeasuredServers {
    fn start(setup: &BenchSetup, engine: Engine) -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread().enable_all().build().context("starting threads")?;
        let _entered = runtime.enter();
        let (appender, _writer) =
            GroupCommitFile::create(&setup.dir.path().join("http-floor")).context("creating a file")?;
        let append: Append = Arc::new(move |bytes| {
            let appender = appender.clone();
            Box::pin(async move { appender.append(bytes).await })
        });
        let bare = spawn(|listener| baseline::serve(listener, None))?;
        let floor = spawn(|listener| baseline::serve(listener, Some(append)))?;
        let config = Config::default();
        let shutdown = Shutdown::default();
        let app = App::new(engine, OptionalParts::default(), &config, shutdown.clone(), observe::start_metrics()?);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let service = listener.local_addr()?;
        let serving = runtime.spawn(async move { server::serve(app, listener, &config).await });
        drop(_entered);
        Ok(Self { runtime, shutdown, serving, service, bare: bare.0, floor: floor.0 })
    }

    fn stop(self) -> anyhow::Result<()> {
        self.shutdown.enter(Phase::Draining);
        self.runtime.block_on(self.serving).context("the service panicked")?.context("serving")?;
        self.runtime.shutdown_background();
        Ok(())
    }
}

/// Serves on a free port of the loopback interface.
fn spawn<F>(serve: impl FnOnce(TcpListener) -> F) -> anyhow::Result<(SocketAddr, tokio::task::JoinHandle<()>)>
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening")?;
    let address = listener.local_addr()?;
    let serving = serve(listener);
    Ok((address, tokio::spawn(async move { drop(serving.await) })))
}
