//! TLS in front of the HTTP server: certificates that can be changed while it serves, and handshakes within their time.
//!
//! Promises: a new pair of certificate and key is used from the next connection on, connections that are open go on; a pair with a
//! mistake changes nothing, and is said in the log and counted. A handshake holds a place like any connection, and is given up after
//! [`HANDSHAKE`] at the latest. Who speaks HTTP here hears that this port speaks TLS; nothing that they sent is worked on.

mod files;
mod stream;
mod validity;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::http::StatusCode;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use self::files::Material;
pub use self::stream::Stream;
use crate::config::tls::Tls;
use crate::http::connection;
use crate::http::problem::Problem;

/// Longest handshake: two round trips and a signature; ten seconds are a bad telephone line.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// How often the files are looked at. What changed is read at the next look, when it has not changed again: a certificate and its
/// key are two files, and whoever replaces them may be half-way.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The first byte of a handshake (RFC 8446, 5.1).
const HANDSHAKE_RECORD: u8 = 22;
/// Bytes of a request without TLS that are read and thrown away, and for how long, so that its client reads the answer before the
/// connection is closed.
const DISCARDED_BYTES: u64 = 64 << 10;
const DISCARDING: Duration = Duration::from_secs(1);

/// The certificates that are in force.
pub struct Certificates {
    current: ArcSwap<Current>,
    /// The files as they were when they were last read, whatever came of it.
    read: Mutex<Files>,
}

struct Current {
    tls: Tls,
    material: Material,
}

/// The files as a look shows them: another file, another size or another time of change is another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Files(Vec<Option<(u64, u64, i64, i64)>>);

impl Files {
    fn of(tls: &Tls) -> Self {
        let look = |path: &Path| {
            let found = path.metadata().ok()?;
            Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
        };
        let Tls { certificate, key, client_ca, client_certificates: _ } = tls;
        Self([certificate, key, client_ca].map(|path| look(path)).to_vec())
    }
}

/// A pair that was read and is not in force yet.
pub struct Renewed(Current, Files);

impl Certificates {
    /// Reads the files; `None` where the service speaks no TLS.
    ///
    /// # Errors
    /// What is wrong with them, and what to do.
    pub fn open(tls: &Tls) -> anyhow::Result<Option<Arc<Self>>> {
        if !tls.is_on() {
            return Ok(None);
        }
        let Renewed(current, files) = read(tls)?;
        Ok(Some(Arc::new(Self { current: ArcSwap::from_pointee(current), read: Mutex::new(files) })))
    }

    /// What should be mended although it works.
    pub fn warnings(&self) -> Vec<String> {
        self.current.load().material.warnings.clone()
    }

    /// Seconds until the first certificate in force expires; below 0 afterwards.
    pub fn seconds_left(&self) -> i64 {
        self.current.load().material.expires.as_second() - crate::clock::timestamp().as_second()
    }

    /// Reads the files that `tls` names, without a change.
    ///
    /// # Errors
    /// What is wrong with them, and what to do.
    pub fn renew(&self, tls: &Tls) -> anyhow::Result<Renewed> {
        read(tls).inspect_err(|_| count("refused"))
    }

    /// Uses what was read from the next connection on.
    pub fn put_in_force(&self, Renewed(current, files): Renewed) {
        let (expires, warnings) = (current.material.expires, current.material.warnings.clone());
        *self.read.lock() = files;
        self.current.store(Arc::new(current));
        count("loaded");
        tracing::info!(%expires, "certificate in force");
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    }

    /// Follows the files for ever.
    pub async fn follow(self: Arc<Self>) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut before = None;
        loop {
            looks.tick().await;
            let tls = self.current.load().tls.clone();
            let (files, settled) = (Files::of(&tls), before.take());
            if files == *self.read.lock() {
                continue;
            }
            if settled.as_ref() != Some(&files) {
                before = Some(files);
                continue;
            }
            // Said once, until they change again.
            *self.read.lock() = files;
            match self.renew(&tls) {
                Ok(renewed) => self.put_in_force(renewed),
                Err(error) => {
                    let reason = format!("{error:#}");
                    tracing::error!(reason, "the new certificate cannot be used; the one before stays in force");
                }
            }
        }
    }

    /// Shakes hands with whoever connected; `None` where that failed, which they were told if they can be.
    pub async fn shake_hands(&self, stream: TcpStream) -> Option<Stream> {
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(1..) if first[0] != HANDSHAKE_RECORD => {
                failed("plain_http");
                refuse_plain(stream).await;
                return None;
            }
            Ok(1..) => {}
            // Gone again: whoever looks whether the port is open.
            _ => return None,
        }
        let acceptor = TlsAcceptor::from(Arc::clone(&self.current.load().material.server));
        match acceptor.accept(stream).await {
            Ok(stream) => Some(Stream::Tls(Box::new(stream))),
            Err(error) => {
                let reason = if is_about_clients(&error) { "client_certificate" } else { "handshake" };
                failed(reason);
                tracing::debug!(%error, "a handshake failed");
                None
            }
        }
    }
}

fn read(tls: &Tls) -> anyhow::Result<Renewed> {
    // Looked at before: what changes meanwhile is another one at the next look.
    let files = Files::of(tls);
    let material = files::load(tls, crate::clock::timestamp())?;
    Ok(Renewed(Current { tls: tls.clone(), material }, files))
}

fn count(result: &'static str) {
    metrics::counter!("doppel_tls_certificates_read_total", "result" => result).increment(1);
}

/// Counts a handshake that did not succeed.
pub(super) fn failed(reason: &'static str) {
    metrics::counter!("doppel_tls_handshakes_failed_total", "reason" => reason).increment(1);
}

/// Whether a handshake failed for the caller's certificate.
fn is_about_clients(error: &std::io::Error) -> bool {
    let error = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(error, Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented))
}

/// Says that this port speaks TLS.
async fn refuse_plain(mut stream: TcpStream) {
    let detail = "this port speaks TLS; write https:// instead of http://";
    let problem = Problem::new(StatusCode::BAD_REQUEST, "tls_required", detail);
    let Some(answer) = connection::whole_answer(&problem) else { return };
    if stream.write_all(&answer).await.is_err() || stream.shutdown().await.is_err() {
        return;
    }
    let mut rest = stream.take(DISCARDED_BYTES);
    let mut nowhere = tokio::io::sink();
    let discarding = tokio::io::copy(&mut rest, &mut nowhere);
    // What does not come in that time is not waited for.
    let _ = tokio::time::timeout(DISCARDING, discarding).await;
}
