//! SIGHUP: the configuration is read again while the service runs, and what can be changed in it is.
//!
//! Changed at once are the keys, the limits, the level of the log and the certificates. All of it is checked before any of it is
//! changed: a file with a mistake changes nothing and is said in the log. What cannot be changed while the service runs is named
//! there as needing a restart, each time until that has happened.

use std::sync::Arc;

use crate::config::{self, Config, Flags, LogFormat, Server};
use crate::http::state::App;
use crate::observe::LogLevel;
use crate::shutdown::{HangUps, Shutdown};

/// What takes changes.
pub struct Reload {
    app: App,
    flags: Flags,
    level: LogLevel,
    /// The configuration that the service was started with.
    started: Config,
}

impl Reload {
    /// Of a service that was started with `config`, which `flags` say where to find.
    pub fn new(app: App, flags: Flags, level: LogLevel, started: Config) -> Self {
        Self { app, flags, level, started }
    }

    /// Reads it again at each signal, for ever; when the terminal that it was started from is closed, the service stops.
    pub async fn on_signals(self, mut hang_ups: HangUps, shutdown: Shutdown) {
        let reload = Arc::new(self);
        loop {
            hang_ups.next().await;
            if hang_ups.terminal_is_gone() {
                tracing::info!("the terminal was closed");
                shutdown.ask();
                return;
            }
            let reading = Arc::clone(&reload);
            // Files may lie where reading them takes long.
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

    /// Changes what can be changed; the keys that have changed and cannot.
    fn once(&self) -> anyhow::Result<Vec<&'static str>> {
        let config = config::load(&self.flags)?.config;
        // A file that is half written, or was emptied to be written anew, would otherwise let everyone in.
        anyhow::ensure!(
            !config.auth.keys.is_empty() || !self.app.keys.has_configured(),
            "it has no [[auth.keys]] any more, so that everyone on this machine could do everything; where that is meant, start the \
             service again"
        );
        // The address stays the one that it was started with.
        config::check_open_address(self.started.server.listen, &config.auth).map_err(anyhow::Error::msg)?;
        let tls = &config.server.tls;
        let renewed = match &self.app.tls {
            Some(certificates) if tls.is_on() => Some((certificates, certificates.renew(tls)?)),
            _ => None,
        };
        self.level.set(&config.log.level)?;
        // Nothing below can fail.
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

/// Says which keys that were made while the service ran open nothing, because the configuration has others of their names.
pub fn say_hidden(app: &App) {
    for name in app.keys.hidden() {
        tracing::warn!(
            name,
            "the configuration has a key of this name, so that the one made by doppel keys opens nothing; revoke it"
        );
    }
}

fn count(result: &'static str) {
    metrics::counter!("doppel_reloads_total", "result" => result).increment(1);
}

/// The keys of the configuration that differ and count only at a start.
fn needing_restart(started: &Config, now: &Config) -> Vec<&'static str> {
    // What is new in the configuration does not compile here until somebody decides.
    let Config { server, store, collections, auth: _, limits, log, search, snapshots, console, source } = started;
    let Server { listen, origins, shutdown_grace_ms, shutdown_drain_ms, tls } = server;
    let config::Log { format, level: _, requests: _, otlp_endpoint, otlp_share } = log;
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
        ("log.format", *format != now.log.format),
        ("log.otlp_endpoint", *otlp_endpoint != now.log.otlp_endpoint),
        ("log.otlp_share", *otlp_share != now.log.otlp_share),
        ("search", *search != now.search),
        ("snapshots", *snapshots != now.snapshots),
        ("console", *console != now.console),
        ("source", *source != now.source),
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
        now.server.tls.certificate = "certificate.pem".into();
        assert_eq!(
            needing_restart(&started, &now),
            ["server.listen", "server.tls", "store", "limits.max_sketch_bytes"]
        );
    }
}
