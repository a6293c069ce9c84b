//! Reads the configuration again after SIGHUP and applies the changes that are possible at run time.
//!
//! The keys, the limits, the level of the log and the certificates change at once. The service checks all of them before the first change: a file
//! with a mistake changes nothing, and the log names the mistake. Until the restart, each reload also logs the changed settings that need a
//! restart.

use std::sync::Arc;

use doppel_config::{self as config, Config, ConfigFlags, LogFormat, ServerSection};
use doppel_http::state::App;
use doppel_service::observe::LogLevel;
use doppel_service::shutdown::{HangUps, Shutdown};

/// The parts of the service that can be changed.
pub(crate) struct Reload {
    app: App,
    flags: ConfigFlags,
    level: LogLevel,
    /// The configuration with which the service was started.
    started: Config,
}

impl Reload {
    /// Creates the reload for a service that was started with `config`. `flags` name the configuration file.
    pub(crate) fn new(app: App, flags: ConfigFlags, level: LogLevel, started: Config) -> Self {
        Self { app, flags, level, started }
    }

    /// Reads the configuration again at each signal, for ever. If the terminal that started the service was closed, stops the service.
    pub(crate) async fn on_signals(self, mut hang_ups: HangUps, shutdown: Shutdown) {
        let reload = Arc::new(self);
        loop {
            hang_ups.next().await;
            if hang_ups.terminal_is_gone() {
                tracing::info!("the terminal was closed");
                shutdown.ask();
                return;
            }
            let reading = Arc::clone(&reload);
            // Reading may take long, for example from a network file system.
            let read = tokio::task::spawn_blocking(move || reading.once()).await;
            match read.unwrap_or_else(|error| Err(error.into())) {
                Ok(needing_restart) => {
                    count("loaded");
                    let file = reload.flags.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
                    tracing::info!(
                        file,
                        "configuration read again; keys, limits, log level and certificates are as it says"
                    );
                    for key in needing_restart {
                        tracing::warn!(key, "this has changed and takes a restart; until then it is as before");
                    }
                }
                Err(error) => {
                    count("refused");
                    let reason = format!("{error:#}");
                    tracing::error!(reason, "the configuration was not read again: nothing has changed");
                }
            }
        }
    }

    /// Applies the possible changes. Returns the changed settings that need a restart.
    fn once(&self) -> anyhow::Result<Vec<&'static str>> {
        let config = config::load(&self.flags)?.config;
        // A half-written or empty file would otherwise let everyone in.
        anyhow::ensure!(
            !config.auth.keys.is_empty() || !self.app.keys.has_configured(),
            "it has no [[auth.keys]] any more, so that everyone on this machine could do everything; where that is meant, start the \
             service again"
        );
        // The service keeps its address from the start.
        config::check_open_address(self.started.server.listen, &config.auth).map_err(anyhow::Error::msg)?;
        let tls = &config.server.tls;
        let renewed = match &self.app.tls {
            Some(certificates) if tls.is_on() => Some((certificates, certificates.renew(tls)?)),
            _ => None,
        };
        self.level.set(&config.log.level)?;
        // The following steps cannot fail.
        if let Some((certificates, renewed)) = renewed {
            certificates.put_in_force(renewed);
        }
        self.app.keys.configure(&config.auth);
        say_hidden(&self.app);
        self.app.set_limits(&config.limits);
        self.app.log_requests.store(config.log.requests, std::sync::atomic::Ordering::Relaxed);
        Ok(needing_restart(&self.started, &config))
    }
}

/// Warns of created keys that are never accepted, because the configuration has keys with the same names.
pub(crate) fn say_hidden(app: &App) {
    for name in app.keys.hidden() {
        tracing::warn!(
            name,
            "the configuration has a key of this name, so that the key or account made while the service ran opens nothing; remove it"
        );
    }
}

fn count(result: &'static str) {
    metrics::counter!("doppel_reloads_total", "result" => result).increment(1);
}

/// Returns the changed settings that only take effect at a start.
fn needing_restart(started: &Config, now: &Config) -> Vec<&'static str> {
    // A new setting is a compile error here until it is assigned to one of the two kinds.
    let Config { server, store, collections, auth: _, limits, log, search, snapshots, console, source, webhook } =
        started;
    let ServerSection { listen, origins, shutdown_grace_ms, shutdown_drain_ms, tls } = server;
    let config::LogConfig { format, level: _, requests: _, otlp_endpoint, otlp_share } = log;
    let format: &LogFormat = format;
    let differ = [
        ("server.listen", *listen != now.server.listen),
        ("server.origins", *origins != now.server.origins),
        ("server.shutdown_grace_ms", *shutdown_grace_ms != now.server.shutdown_grace_ms),
        ("server.shutdown_drain_ms", *shutdown_drain_ms != now.server.shutdown_drain_ms),
        ("server.tls", tls.is_on() != now.server.tls.is_on()),
        ("store", *store != now.store),
        ("collections", *collections != now.collections),
        ("limits.max_sketch_bytes", limits.max_sketch_bytes != now.limits.max_sketch_bytes),
        ("limits.max_event_records", limits.max_event_records != now.limits.max_event_records),
        ("log.format", *format != now.log.format),
        ("log.otlp_endpoint", *otlp_endpoint != now.log.otlp_endpoint),
        ("log.otlp_share", *otlp_share != now.log.otlp_share),
        ("search", *search != now.search),
        ("snapshots", *snapshots != now.snapshots),
        ("console", *console != now.console),
        ("source", *source != now.source),
        ("webhook", *webhook != now.webhook),
    ];
    differ.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_only_at_a_start_is_named_and_the_rest_is_not() {
        let started = Config::default();
        let mut now = Config::default();
        now.limits.max_in_flight = 3;
        now.log.level = "debug".into();
        now.log.requests = false;
        assert_eq!(needing_restart(&started, &now), Vec::<&str>::new());
        now.server.listen = ([127, 0, 0, 1], 81).into();
        now.store.database = "other".into();
        now.limits.max_sketch_bytes = 1;
        now.limits.max_event_records = 1;
        now.server.tls.certificate = "certificate.pem".into();
        assert_eq!(
            needing_restart(&started, &now),
            ["server.listen", "server.tls", "store", "limits.max_sketch_bytes", "limits.max_event_records"]
        );
    }
}
