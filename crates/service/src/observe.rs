//! The logs on standard error and the metrics for Prometheus. Neither contains text of records.

use std::sync::OnceLock;

use anyhow::Context;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

use doppel_config::{LogConfig, LogFormat};

/// Upper bounds of the latency histogram in seconds: a response takes about a millisecond, and a durable write takes some more.
const LATENCY_BUCKETS: [f64; 14] =
    [0.000_25, 0.000_5, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 1.0, 5.0, 30.0];

/// Upper bounds of the histogram of stages in seconds: reading a letter takes some microseconds, and a slow disk takes seconds. There are
/// few bounds, because each collection has all of them for each stage.
const STAGE_BUCKETS: [f64; 11] = [0.000_016, 0.000_064, 0.000_25, 0.001, 0.004, 0.016, 0.064, 0.25, 1.0, 5.0, 30.0];
/// Changes the level of the running log.
pub struct LogLevel(Box<dyn Fn(EnvFilter) -> anyhow::Result<()> + Send + Sync>);

impl LogLevel {
    /// Sets the level of the log.
    ///
    /// # Errors
    /// `level` is not a valid level.
    pub fn set(&self, level: &str) -> anyhow::Result<()> {
        self.0(filter(level)?)
    }
}

fn filter(level: &str) -> anyhow::Result<EnvFilter> {
    level.parse().with_context(|| format!("log.level {level:?}"))
}

/// Starts the log.
///
/// # Errors
/// The filter is invalid, or the log was started before.
pub fn start_logging(log: &LogConfig) -> anyhow::Result<LogLevel> {
    let LogConfig { format, level, requests: _, otlp_endpoint: _, otlp_share: _ } = log;
    let builder = tracing_subscriber::fmt().with_env_filter(filter(level)?).with_writer(std::io::stderr);
    // The type of the reload handle differs between the formats.
    let (started, level) = match format {
        LogFormat::Text => {
            let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr());
            let builder = builder.with_ansi(ansi).with_filter_reloading();
            let handle = builder.reload_handle();
            let level: Box<dyn Fn(EnvFilter) -> _ + Send + Sync> = Box::new(move |filter| Ok(handle.reload(filter)?));
            (builder.try_init(), level)
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_current_span(false).with_span_list(false);
            let builder = builder.with_filter_reloading();
            let handle = builder.reload_handle();
            let level: Box<dyn Fn(EnvFilter) -> _ + Send + Sync> = Box::new(move |filter| Ok(handle.reload(filter)?));
            (builder.try_init(), level)
        }
    };
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))?;
    Ok(LogLevel(level))
}

/// Installs the recorder of metrics, once per process. Returns the handle for reading the metrics.
///
/// # Errors
/// Another recorder is installed.
pub fn start_metrics() -> anyhow::Result<PrometheusHandle> {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    if let Some(handle) = HANDLE.get() {
        return Ok(handle.clone());
    }
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &LATENCY_BUCKETS)
        .context("latency buckets")?
        .set_buckets_for_metric(Matcher::Full("doppel_stage_seconds".into()), &STAGE_BUCKETS)
        .context("buckets of stages")?;
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| anyhow::anyhow!("cannot install metrics: {error}"))?;
    describe();
    begin_at_zero();
    Ok(HANDLE.get_or_init(|| handle).clone())
}

/// Describes metrics to the recorder: the kind, the name and the text of each.
macro_rules! describe {
    (@counter $name:literal $text:literal) => { metrics::describe_counter!($name, $text) };
    (@gauge $name:literal $text:literal) => { metrics::describe_gauge!($name, $text) };
    (@histogram $name:literal $text:literal) => { metrics::describe_histogram!($name, $text) };
    ($($kind:ident $name:literal $text:literal;)+) => { $(describe!(@$kind $name $text);)+ };
}

fn describe() {
    describe! {
        counter "doppel_http_requests_total" "requests answered, by method, route and status";
        histogram "doppel_http_request_seconds" "time from a request's head to its answer's head";
        histogram "doppel_stage_seconds"
            "time of a stage of a registration or lookup (read, sign, wait, propose, verify, commit), by collection; beyond 32 collections the \
             others share the label (other)";
        gauge "doppel_http_requests_in_flight" "requests being worked on";
        gauge "doppel_http_requests_waiting" "requests waiting for their turn";
        counter "doppel_http_requests_rejected_total" "requests and connections refused for a limit, by reason";
        counter "doppel_http_compressed_bodies_total" "request bodies that came compressed, by encoding";
        counter "doppel_verdicts_total" "verdicts given to registrations, by kind";
        counter "doppel_verdicts_truncated_total" "verdicts for which a limit cut the search short";
        counter "doppel_candidates_total"
            "records that channels proposed, by result: dismissed (unread), refused (read), accepted";
        counter "doppel_registrations_total" "registrations, by outcome";
        counter "doppel_store_writes_failed_total" "writes that the store refused or failed, by code";
        counter "doppel_erased_records_total"
            "records deleted for their petitioner or their age, by reason (identity, age, retention)";
        counter "doppel_bulk_lines_total" "lines of _bulk bodies, by status";
        gauge "doppel_records" "live records";
        gauge "doppel_index_bytes" "bytes of the in-memory indexes";
        gauge "doppel_read_record_bytes" "bytes of what was read of records to judge them and is kept, at most 32 MiB";
        gauge "doppel_sketch_bytes" "bytes of remembered sketches, at most limits.max_sketch_bytes and a little";
        gauge "doppel_store_disk_bytes" "bytes of the store on disk";
        gauge "doppel_store_free_bytes" "bytes free on the store's volume";
        gauge "doppel_search_memory_bytes" "bytes of memory of the search indexes, besides mapped files";
        gauge "doppel_search_disk_bytes" "bytes of the search indexes on disk";
        gauge "doppel_search_behind" "changes that the search indexes have not reached, of all collections together";
        gauge "doppel_vectors" "records with a vector of the model that answers";
        gauge "doppel_vectors_missing" "records without a vector: without text, or refused by the model's server";
        gauge "doppel_vectors_behind" "changes that the vectors have not reached, of all collections together";
        gauge "doppel_vectors_memory_bytes" "bytes of memory of the vectors, besides the system's cache";
        gauge "doppel_vectors_disk_bytes" "bytes of the vectors on disk";
        counter "doppel_embedder_requests_total"
            "requests to the model's server, by outcome (answered, too_large, timeout, busy, unreachable, refused)";
        gauge "doppel_tls_certificate_expires_in_seconds"
            "seconds until the certificate in force expires, below 0 when it has; infinite where the service speaks no TLS";
        counter "doppel_tls_certificates_read_total" "certificates read while serving, by result (loaded, refused)";
        counter "doppel_tls_handshakes_failed_total"
            "connections that got no further than the handshake, by reason (timeout, plain_http, client_certificate, handshake)";
        counter "doppel_snapshots_total" "snapshots that ended, by status (succeeded, failed, canceled)";
        gauge "doppel_snapshot_last_success_seconds"
            "when the newest whole snapshot in snapshots.dir was taken (Unix time), 0 where there is none; absent without a directory";
        gauge "doppel_snapshot_interval_seconds"
            "after how long the service takes the next snapshot; absent where it takes none by itself";
        counter "doppel_reloads_total" "configurations read again (SIGHUP), by result (loaded, refused)";
        counter "doppel_source_rows_total" "rows of a database that were registered, by source";
        counter "doppel_source_rows_rejected_total" "rows of a database that could not be registered, by source";
        counter "doppel_source_failures_total" "rounds of a source that went wrong, by source";
        gauge "doppel_source_lag_seconds" "how far the last round ended behind the clock of the database, by source";
        gauge "doppel_source_last_round_seconds" "when the last round of a source ended (Unix time), by source";
        gauge "doppel_source_sweep_differences"
            "what the last comparison of ids found, by source and kind: rows skipped, records missing";
        counter "doppel_webhook_attempts_total"
            "attempts to send a message, by webhook and outcome (accepted, refused)";
        counter "doppel_webhook_messages_given_up_total" "messages that were given up, by webhook";
        gauge "process_resident_memory_bytes" "resident memory";
        gauge "process_open_fds" "open file descriptors";
        gauge "process_max_fds" "most file descriptors that may be open";
    }
}

/// Creates counters and gauges with the value 0 before the first event. Prometheus sees no increase in a series that begins at 1, so an
/// alert on the increase would miss the first event.
fn begin_at_zero() {
    const LABELLED: [(&str, &str, &[&str]); 11] = [
        (
            "doppel_http_requests_rejected_total",
            "reason",
            &["overloaded", "too_many_connections", "too_many_streams", "too_many_watchers", "slow_body"],
        ),
        ("doppel_http_compressed_bodies_total", "encoding", &["gzip", "zstd"]),
        ("doppel_verdicts_total", "verdict", &["original", "exact_duplicate", "near_duplicate", "too_short"]),
        ("doppel_registrations_total", "outcome", &["created", "replaced", "updated", "unchanged", "skipped"]),
        (
            "doppel_store_writes_failed_total",
            "code",
            &["disk_full", "store_unavailable", "outcome_unknown", "generation_changed", "internal"],
        ),
        ("doppel_reloads_total", "result", &["loaded", "refused"]),
        ("doppel_tls_certificates_read_total", "result", &["loaded", "refused"]),
        ("doppel_tls_handshakes_failed_total", "reason", &["timeout", "plain_http", "client_certificate", "handshake"]),
        ("doppel_candidates_total", "result", &["dismissed", "refused", "accepted"]),
        ("doppel_erased_records_total", "reason", &["identity", "age", "retention"]),
        ("doppel_snapshots_total", "status", &["succeeded", "failed", "canceled"]),
    ];
    for (name, label, values) in LABELLED {
        values.iter().for_each(|value| metrics::counter!(name, label => *value).increment(0));
    }
    metrics::counter!("doppel_verdicts_truncated_total").increment(0);
    for gauge in ["doppel_http_requests_in_flight", "doppel_http_requests_waiting"] {
        metrics::gauge!(gauge).set(0.0);
    }
    // The value until there is a certificate.
    metrics::gauge!("doppel_tls_certificate_expires_in_seconds").set(f64::INFINITY);
}

/// Sets the metrics of the process, if the system provides them (Linux).
pub fn measure_process() {
    const PAGE_BYTES: f64 = 4096.0;
    let statm = std::fs::read_to_string("/proc/self/statm").ok();
    if let Some(pages) = statm.and_then(|text| text.split(' ').nth(1)?.parse::<f64>().ok()) {
        metrics::gauge!("process_resident_memory_bytes").set(pages * PAGE_BYTES);
    }
    if let Ok(entries) = std::fs::read_dir("/proc/self/fd") {
        metrics::gauge!("process_open_fds").set(entries.count() as f64);
    }
    let limits = std::fs::read_to_string("/proc/self/limits").ok();
    if let Some(most) = limits.as_deref().and_then(most_open_files) {
        metrics::gauge!("process_max_fds").set(most);
    }
}

/// Returns the soft limit of open files from the text of `/proc/self/limits`; infinity if there is no limit.
fn most_open_files(limits: &str) -> Option<f64> {
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?.split_whitespace().next()?;
    if soft == "unlimited" { Some(f64::INFINITY) } else { soft.parse().ok() }
}
