//! `doppel serve`: runs the HTTP service until a signal stops it.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::notify;
use crate::reload::{self, Reload};
#[cfg(feature = "search")]
use crate::search_folder::SearchFolder;
use crate::{start_threads, store};
use doppel_config::{self as config, Config, ConfigFlags};
#[cfg(feature = "desk")]
use doppel_desk::DeskState;
use doppel_engine::{Engine, runner};
use doppel_http::follow_keys;
use doppel_http::pages::DeskPages;
use doppel_http::server;
use doppel_http::state::{App, OptionalParts, TelemetryParts};
use doppel_http::tls::CertificatesInUse;
use doppel_http::traces::Traces;
#[cfg(feature = "search")]
use doppel_search::service::{OfficeModel, SearchOptions, SearchService};
#[cfg(feature = "search")]
use doppel_service::embedder::{self, EmbeddingClient};
use doppel_service::follow;
use doppel_service::shutdown::{HangUps, Phase, Shutdown, Signals};
use doppel_service::{observe, webhooks};
use doppel_texts as texts;
use tokio::task::JoinHandle;

/// Options of `doppel serve`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ServeArgs {
    /// Configuration file (TOML); `doppel config print` shows every key
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address to listen on, such as 127.0.0.1:8080 (the default) or localhost:8080; port 0 takes a free one
    #[arg(long, value_name = "ADDR", value_parser = config::parse_listen)]
    pub listen: Option<SocketAddr>,
    /// Directory of the records, created if missing [default: ./doppel-data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

impl ServeArgs {
    /// Returns the parts of the configuration that the command line sets.
    pub fn flags(&self) -> ConfigFlags {
        ConfigFlags { file: self.config.clone(), listen: self.listen, data: self.data.clone() }
    }
}

/// Time for which the port of a killed process may still be in use.
const PREDECESSOR_GONE: Duration = Duration::from_secs(3);

/// Runs the service. Prints one line on standard output when it accepts requests: `listening on http://ADDR`.
///
/// # Errors
/// The configuration is invalid, the address is in use, or the store cannot be opened.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments by value")]
pub fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let config = config::load(&args.flags())?.config;
    let certificates = CertificatesInUse::open(&config.server.tls)?;
    let level = observe::start_logging(&config.log)?;
    certificates
        .iter()
        .flat_map(|certificates| certificates.warnings())
        .for_each(|warning| tracing::warn!("{warning}"));
    let metrics = observe::start_metrics()?;
    // The address is bound before the store is opened: opening may take a minute, and an address in use should be reported at once.
    let listen = config.server.listen;
    let listener = bind(listen).with_context(|| format!("cannot listen on {listen}; choose another with --listen"))?;
    let runtime = start_threads()?;
    // The dictionary is loaded while the store is opened, so that the first record does not wait for it.
    let warming = std::thread::spawn(Engine::warm_up);
    let traces = Traces::start(&config.log, runtime.handle())?;
    let store = runtime.block_on(store::open(&config.store))?;
    if warming.join().is_err() {
        anyhow::bail!("the dictionary cannot be loaded");
    }
    let engine = Engine::new(store, store::service_options(&config));
    let shutdown = Shutdown::default();
    // A temporary folder of the search is removed at the end.
    #[cfg(feature = "search")]
    let (search, _folder) = search(&config, &engine)?.unzip();
    let told = TelemetryParts { metrics, traces: traces.clone() };
    let parts = OptionalParts {
        #[cfg(feature = "search")]
        search,
        pages: desk(&config)?,
        tls: certificates,
    };
    let app = App::new(engine.clone(), parts, &config, shutdown.clone(), told);
    let reload = Reload::new(app.clone(), args.flags(), level, config.clone());
    runtime.block_on(async {
        // The signal handlers are installed before the service reports that it listens, because a stop signal may come right after the report.
        let (signals, hang_ups) = signals().context("cannot receive signals")?;
        // The keys are known before the first request is accepted.
        app.keys.manage(&engine.keys().await.context("reading the keys of callers")?);
        reload::say_hidden(&app);
        let earlier = webhooks::earlier_collections(&engine).await.context("reading the collections")?;
        let mut workers = BackgroundTasks::start(&app, &config);
        let sending = webhooks::run(engine.clone(), Arc::clone(&app.webhooks), earlier, shutdown.draining());
        workers.ending("sending messages of webhooks", sending);
        workers.endless(reload.on_signals(hang_ups, shutdown.clone()));
        let grace = Duration::from_millis(config.server.shutdown_grace_ms);
        workers.endless(async move { shutdown.on_signal(signals, grace, || ()).await });
        say_listening(&listener, &config)?;
        notify::tell(notify::READY);
        let served = server::serve(app, listener, &config).await.context("serving");
        workers.end().await?;
        engine.close().await.context("closing the store")?;
        served
    })?;
    traces.stop();
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// The background tasks of the service.
#[derive(Default)]
struct BackgroundTasks {
    /// Tasks that end by themselves when the service drains. The next process continues their work.
    ending: Vec<(&'static str, JoinHandle<()>)>,
    /// Tasks that can be ended at any time.
    endless: Vec<JoinHandle<()>>,
}

impl BackgroundTasks {
    fn start(app: &App, config: &Config) -> Self {
        let engine = &app.engine;
        let shutdown = &app.shutdown;
        let mut workers = Self::default();
        workers.ending("following the keys of callers", follow_keys::follow(app.clone()));
        workers.ending("running tasks", runner::run(engine.clone(), shutdown.draining()));
        workers.ending("warming up", runner::warm_up(engine.clone(), shutdown.draining()));
        let retention = runner::keep_retention(engine.clone(), shutdown.draining());
        workers.ending("looking for records past their age", retention);
        workers.ending("taking snapshots", app.snapshots.clone().keep_schedule(shutdown.draining()));
        workers.ending("following sources", follow::run(engine.clone(), app.sources.clone(), shutdown.draining()));
        #[cfg(feature = "search")]
        if let Some(search) = &app.search {
            workers.ending("following changes for search", search.clone().run(shutdown.draining()));
        }
        let forgetting = engine.clone();
        let keep = config.collections.changes_kept;
        workers.endless(async move { forgetting.forget_changes(keep).await });
        if let Some(certificates) = &app.tls {
            workers.endless(Arc::clone(certificates).follow());
        }
        let shutdown = shutdown.clone();
        workers.endless(async move {
            shutdown.reached(Phase::Grace).await;
            notify::tell(notify::STOPPING);
        });
        workers
    }

    fn ending(&mut self, what: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.ending.push((what, tokio::spawn(work)));
    }

    fn endless(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.endless.push(tokio::spawn(work));
    }

    /// Waits for the tasks that end by themselves, and aborts the others.
    async fn end(self) -> anyhow::Result<()> {
        self.endless.iter().for_each(JoinHandle::abort);
        for (what, worker) in self.ending {
            worker.await.context(what)?;
        }
        Ok(())
    }
}

/// Installs the handlers of the stop signals and of SIGHUP.
fn signals() -> std::io::Result<(Signals, HangUps)> {
    Ok((Signals::without_hang_up()?, HangUps::new()?))
}

/// Returns the desk, if the configuration wants it.
#[cfg(feature = "desk")]
fn desk(config: &Config) -> anyhow::Result<Option<Arc<dyn DeskPages>>> {
    if !config.console.enabled {
        return Ok(None);
    }
    Ok(Some(Arc::new(DeskState::new(config)?)))
}

/// This build has no desk.
#[cfg(not(feature = "desk"))]
fn desk(_config: &Config) -> anyhow::Result<Option<Arc<dyn DeskPages>>> {
    Ok(None)
}

/// Makes the search service and the folder of its index.
#[cfg(feature = "search")]
fn search(config: &Config, engine: &Engine) -> anyhow::Result<Option<(SearchService, SearchFolder)>> {
    if !config.search.enabled {
        return Ok(None);
    }
    let folder = SearchFolder::of(config)?;
    if let Err(error) = std::fs::create_dir_all(folder.path()) {
        // Records can be registered without search.
        tracing::warn!(%error, "search.dir cannot be made; there is no search until it is");
    }
    let weights = config.search.weights;
    let changes_kept = config.collections.changes_kept;
    let options = SearchOptions { folder: folder.path().to_owned(), weights, changes_kept };
    Ok(Some((SearchService::new(engine.clone(), options, office_model(config)?), folder)))
}

/// Returns the model of the office, if the configuration names one.
#[cfg(feature = "search")]
fn office_model(config: &Config) -> anyhow::Result<Option<OfficeModel>> {
    let embedder = &config.search.embedder;
    if !embedder.is_on() {
        return Ok(None);
    }
    let client = EmbeddingClient::new(embedder)?;
    Ok(Some(OfficeModel { embedder: Arc::new(client), options: embedder::options(embedder) }))
}

/// Binds the address. Waits a moment for a predecessor that was just killed: the kernel needs time to release the port.
fn bind(listen: SocketAddr) -> std::io::Result<TcpListener> {
    let given_up = Instant::now() + PREDECESSOR_GONE;
    loop {
        match TcpListener::bind(listen) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < given_up => {
                std::thread::sleep(Duration::from_millis(100));
            }
            bound => return bound,
        }
    }
}

#[expect(clippy::print_stdout, reason = "the line that scripts wait for")]
fn say_listening(listener: &TcpListener, config: &Config) -> anyhow::Result<()> {
    let address = listener.local_addr().context("cannot read the address")?;
    let keys = match config.auth.keys.len() {
        0 => "open to everyone on this machine".to_owned(),
        count => format!("{count} key(s)"),
    };
    let scheme = if config.server.tls.is_on() { "https" } else { "http" };
    let place = store::place(&config.store);
    println!("{}", texts::said(&format!("listening on {scheme}://{address} (data in {place}, {keys}, docs at /docs)")));
    Ok(())
}
