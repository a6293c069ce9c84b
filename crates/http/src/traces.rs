//! Spans of requests for OpenTelemetry. They are sent to a collector as OTLP over HTTP, if the program was built with the feature `otlp`
//! and `log.otlp_endpoint` names a collector.
//!
//! The span of a request belongs to the trace of its `traceparent`, or begins a new trace. The stages of the request are its child spans.
//! Spans wait in a queue of limited length, and another thread sends them in batches: an unreachable collector delays no requests, and
//! spans that do not fit are dropped. A span contains the same data as the log line of the request. It therefore contains no text of
//! records and no path.
//!
//! The spans are made after the end of a request, from its measured times. They are not made by entering and leaving spans, because on
//! MongoDB many requests share a transaction, so that a stage of a request does not run in the task of this request.

#[cfg(feature = "otlp")]
mod otlp;

use tokio::runtime::Handle;

use crate::audit::TraceParent;
use doppel_config::LogConfig;
use doppel_store::stages::{RegistrationStage, StageSpan};

/// A request with a response.
pub struct Request<'a> {
    pub method: &'static str,
    /// The route, with the names of its parts.
    pub route: &'a str,
    /// The status of the response.
    pub status: u16,
    /// The time from the head of the request to the head of the response.
    pub span: StageSpan,
    pub request_id: &'a str,
    /// Name of the key; empty without one.
    pub key: &'a str,
    /// The span of the caller.
    pub parent: Option<TraceParent>,
    /// The stages of the request in the engine.
    pub stages: Vec<(RegistrationStage, StageSpan)>,
}

/// The destination of spans; no destination without configuration. A clone is cheap.
#[derive(Clone, Default)]
pub struct Traces {
    #[cfg(feature = "otlp")]
    exporter: Option<otlp::Exporter>,
}

impl Traces {
    /// Starts to send spans, if `log` names a collector. The connections use `runtime`.
    ///
    /// # Errors
    /// The client cannot be created.
    pub fn start(log: &LogConfig, runtime: &Handle) -> anyhow::Result<Self> {
        #[cfg(feature = "otlp")]
        if !log.otlp_endpoint.is_empty() {
            return Ok(Self { exporter: Some(otlp::Exporter::start(log, runtime)?) });
        }
        let _ = (log, runtime);
        Ok(Self::default())
    }

    /// True if spans are sent.
    pub fn follows(&self) -> bool {
        #[cfg(feature = "otlp")]
        return self.exporter.is_some();
        #[cfg(not(feature = "otlp"))]
        false
    }

    /// Sends the spans of a request, unless its trace is not sampled. Returns the id of its trace.
    pub fn send(&self, request: &Request<'_>) -> Option<String> {
        #[cfg(feature = "otlp")]
        return self.exporter.as_ref().map(|exporter| exporter.send(request));
        #[cfg(not(feature = "otlp"))]
        {
            let _ = request;
            None
        }
    }

    /// Sends the waiting spans for a few seconds at most, and stops.
    pub fn stop(&self) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = &self.exporter {
            exporter.stop();
        }
    }
}
