//! Sends spans with the OpenTelemetry libraries.

use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use opentelemetry::trace::{
    Span as _, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
    TracerProvider,
};
use opentelemetry::{Context as Parents, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tokio::runtime::Handle;

use super::Request;
use doppel_config::LogConfig;

/// The path of the collector for spans.
const PATH: &str = "/v1/traces";
/// Longest time for sending a batch, and for sending the last spans.
const SEND_TIME: Duration = Duration::from_secs(5);

/// Sends spans.
#[derive(Clone)]
pub(super) struct Exporter {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Exporter {
    pub(super) fn start(log: &LogConfig, runtime: &Handle) -> anyhow::Result<Self> {
        let client = client(&log.otlp_endpoint).context("a client for log.otlp_endpoint")?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Client { client, runtime: runtime.clone() })
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint(&log.otlp_endpoint))
            .with_timeout(SEND_TIME)
            .build()
            .context("log.otlp_endpoint")?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_service_name("doppel").with_attribute(version).build();
        let begun = Sampler::TraceIdRatioBased(log.otlp_share);
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_sampler(Sampler::ParentBased(Box::new(begun)))
            .with_batch_exporter(exporter)
            .build();
        let tracer = provider.tracer("doppel");
        Ok(Self { provider, tracer })
    }

    pub(super) fn send(&self, request: &Request<'_>) -> String {
        let Request { method, route, status, span, request_id, key, parent, stages } = request;
        let at = clock();
        let parent = parent.map_or_else(Parents::new, |parent| {
            let flags = if parent.sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
            let (trace, from) = (TraceId::from(parent.trace), SpanId::from(parent.span));
            Parents::new().with_remote_span_context(SpanContext::new(trace, from, flags, true, TraceState::NONE))
        });
        let mut attributes = vec![
            KeyValue::new("http.request.method", *method),
            KeyValue::new("http.route", (*route).to_owned()),
            KeyValue::new("http.response.status_code", i64::from(*status)),
            KeyValue::new("doppel.request_id", (*request_id).to_owned()),
        ];
        if !key.is_empty() {
            attributes.push(KeyValue::new("doppel.key", (*key).to_owned()));
        }
        let whole = self.tracer.span_builder(format!("{method} {route}")).with_kind(SpanKind::Server);
        let whole = whole.with_start_time(at(span.began)).with_attributes(attributes);
        let mut whole = whole.start_with_context(&self.tracer, &parent);
        if *status >= 500 {
            whole.set_status(Status::error(""));
        }
        let within = Parents::new().with_remote_span_context(whole.span_context().clone());
        for (stage, span) in stages {
            let child = self.tracer.span_builder(stage.name()).with_start_time(at(span.began));
            child.start_with_context(&self.tracer, &within).end_with_timestamp(at(span.ended));
        }
        whole.end_with_timestamp(at(span.ended));
        whole.span_context().trace_id().to_string()
    }

    pub(super) fn stop(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(SEND_TIME) {
            tracing::warn!(%error, "not all spans could be sent");
        }
    }
}

fn client(endpoint: &str) -> reqwest::Result<reqwest::Client> {
    // Installs the provider of this process. This fails if a provider is installed already; it is then the same provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = reqwest::Client::builder().timeout(SEND_TIME);
    // Plain http needs no certificates, and some systems have none.
    let builder = if endpoint.starts_with("https:") { builder } else { builder.tls_certs_only([]) };
    builder.build()
}

/// Returns the URL with the usual path, or unchanged if it contains a path.
fn endpoint(given: &str) -> String {
    let given = given.trim_end_matches('/');
    let host = given.split_once("://").map_or(given, |(_, host)| host);
    if host.contains('/') { given.to_owned() } else { format!("{given}{PATH}") }
}

/// Returns a function that converts instants to times of the clock.
fn clock() -> impl Fn(Instant) -> SystemTime {
    let (instant, time) =
        (Instant::now(), SystemTime::UNIX_EPOCH + Duration::from_micros(doppel_service::clock::micros()));
    move |at| time - instant.saturating_duration_since(at)
}

/// A client that uses the connections of the service's runtime. The library calls it from a thread outside the runtime.
#[derive(Debug)]
struct Client {
    client: reqwest::Client,
    runtime: Handle,
}

#[async_trait::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: axum::http::Request<Bytes>) -> Result<axum::http::Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request.map(reqwest::Body::from))?;
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move {
            let answer = client.execute(request).await?.error_for_status()?;
            let status = answer.status();
            let body = answer.bytes().await?;
            let mut answer = axum::http::Response::new(body);
            *answer.status_mut() = status;
            Ok::<_, reqwest::Error>(answer)
        });
        Ok(sent.await??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_the_usual_path_and_a_path_is_kept() {
        assert_eq!(endpoint("http://127.0.0.1:4318"), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(endpoint("http://127.0.0.1:4318/"), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(endpoint("https://a.example/otlp/v1/traces"), "https://a.example/otlp/v1/traces");
    }
}
