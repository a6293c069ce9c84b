//! Spans of requests, for whoever wants to see one beside those of the programs around it: sent to an OpenTelemetry collector as OTLP over
//! HTTP, where the program was built with the feature `otlp` and `log.otlp_endpoint` says where.
//!
//! A span of a request belongs to the trace that its `traceparent` names, or begins one; its stages are its children. Spans wait in a
//! queue of bounded length and are sent in batches by a thread of their own: a collector that is away delays no request, and what does not
//! fit is dropped. They hold what the log line of the request holds: no text of records, no path.
//!
//! Spans are made when a request has ended, of what was measured anyway, and not by entering and leaving them: on MongoDB many requests
//! share a transaction, so that a stage of one of them runs in no task of its own.

#[cfg(feature = "otlp")]
mod otlp;

use tokio::runtime::Handle;

use crate::config::Log;
use crate::http::audit::TraceParent;
use doppel_store::stages::{Span, Stage};

/// A request that has been answered.
pub struct Request<'a> {
    /// Its method.
    pub method: &'static str,
    /// Its route, with the names of its parts.
    pub route: &'a str,
    /// The status answered.
    pub status: u16,
    /// From its head to the answer's head.
    pub span: Span,
    /// Its id.
    pub request_id: &'a str,
    /// Name of the key; empty without one.
    pub key: &'a str,
    /// The span that it comes from.
    pub parent: Option<TraceParent>,
    /// The stages of what it had the engine do.
    pub stages: Vec<(Stage, Span)>,
}

/// Where spans go: nowhere unless the configuration says where. Cheap to clone.
#[derive(Clone, Default)]
pub struct Traces {
    #[cfg(feature = "otlp")]
    exporter: Option<otlp::Exporter>,
}

impl Traces {
    /// Begins to send spans if `log` says where, over connections of `runtime`.
    ///
    /// # Errors
    /// When no client can be made.
    pub fn start(log: &Log, runtime: &Handle) -> anyhow::Result<Self> {
        #[cfg(feature = "otlp")]
        if !log.otlp_endpoint.is_empty() {
            return Ok(Self { exporter: Some(otlp::Exporter::start(log, runtime)?) });
        }
        let _ = (log, runtime);
        Ok(Self::default())
    }

    /// Whether anything is sent.
    pub fn follows(&self) -> bool {
        #[cfg(feature = "otlp")]
        return self.exporter.is_some();
        #[cfg(not(feature = "otlp"))]
        false
    }

    /// Sends the spans of a request, unless it belongs to none that are kept; the id of its trace.
    pub fn send(&self, request: &Request<'_>) -> Option<String> {
        #[cfg(feature = "otlp")]
        return self.exporter.as_ref().map(|exporter| exporter.send(request));
        #[cfg(not(feature = "otlp"))]
        {
            let _ = request;
            None
        }
    }

    /// Sends what waits, some seconds long at most, and ends.
    pub fn stop(&self) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = &self.exporter {
            exporter.stop();
        }
    }
}
