//! A load generator. Each of its connections sends the next request when the last one is answered.
//!
//! It works on loopback only, and limits the time and the number of requests. It reads every response to its end and fails on statuses
//! other than 2xx. It uses the connections of hyper directly, so that the cost of a client with a pool, redirects and TLS is not measured
//! with the service.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::report::{LatencyPercentiles, RoundResult};

/// Time after which a service without a response counts as stuck.
const STUCK: Duration = Duration::from_secs(30);

/// The requests of a measurement.
#[derive(Clone)]
pub(super) struct LoadPlan {
    pub(super) address: SocketAddr,
    pub(super) method: Method,
    /// The path. For PUT the number of the request is appended as the id.
    pub(super) path: &'static str,
    pub(super) bodies: Arc<[Bytes]>,
    /// The counter of request numbers. Over all measurements, no number is used twice.
    pub(super) numbers: Arc<AtomicU64>,
    /// True if the slice ends after each body was sent once.
    pub(super) once: bool,
}

/// Sends requests on `connections` connections until `slice` is over.
pub(super) async fn drive(plan: LoadPlan, connections: usize, slice: Duration) -> anyhow::Result<RoundResult> {
    anyhow::ensure!(plan.address.ip().is_loopback(), "load is for the loopback interface only");
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(connect(plan.address).await.context("connecting")?);
    }
    let sent = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let tasks =
        open.into_iter().map(|sender| tokio::spawn(one(plan.clone(), sender, Arc::clone(&sent), started, slice)));
    let mut each = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        each.extend(task.await.context("a connection panicked")??);
    }
    let value = each.len() as f64 / started.elapsed().as_secs_f64();
    Ok(RoundResult { value, latency: Some(LatencyPercentiles::of(&mut each, "us")) })
}

async fn connect(address: SocketAddr) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn one(
    plan: LoadPlan,
    mut sender: SendRequest<Full<Bytes>>,
    sent: Arc<AtomicU64>,
    started: Instant,
    slice: Duration,
) -> anyhow::Result<Vec<u32>> {
    let mut each = Vec::new();
    while each.is_empty() || started.elapsed() < slice {
        let turn = sent.fetch_add(1, Ordering::Relaxed) as usize;
        if plan.once && turn >= plan.bodies.len() {
            break;
        }
        let body = plan.bodies.get(turn % plan.bodies.len()).context("there is nothing to send")?.clone();
        let path = match plan.method {
            Method::PUT => format!("{}{}", plan.path, plan.numbers.fetch_add(1, Ordering::Relaxed)),
            _ => plan.path.to_owned(),
        };
        let request = Request::builder()
            .method(plan.method.clone())
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))?;
        let began = Instant::now();
        let status = tokio::time::timeout(STUCK, answer(&mut sender, request)).await.context("no answer in time")??;
        each.push(u32::try_from(began.elapsed().as_micros()).unwrap_or(u32::MAX));
        anyhow::ensure!(status.is_success(), "{} {} was answered {status}", plan.method, plan.path);
    }
    Ok(each)
}

async fn answer(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<hyper::StatusCode> {
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    let (parts, mut body) = response.into_parts();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    Ok(parts.status)
}
