//! TLS for the HTTP server. Certificates can be replaced while the service runs, and the time for a handshake is limited.
//!
//! * A new pair of certificate and key is used for new connections. Open connections continue.
//! * A pair with a mistake is not used. The mistake is logged and counted.
//! * A handshake holds a place like every connection, and ends after [`HANDSHAKE`] at the latest.
//! * A client that sends HTTP without TLS gets an answer that asks for TLS. Its request is not processed.

pub mod files;
mod stream;
mod validity;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use axum::http::StatusCode;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use self::files::TlsMaterial;
pub use self::stream::ClientStream;
use crate::connection;
use crate::problem::Problem;
use doppel_config::tls::TlsConfig;
use doppel_core::error_code::ErrorCode;

/// Longest time for a handshake. It needs two round trips and a signature, and takes seconds only on a very slow line.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// Interval at which the files are checked. A changed file is read at the next check if it has not changed again. The reason is that a
/// certificate and its key are two files, and a person may have replaced only one of them so far.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Interval at which refused files are read again although they have not changed: a certificate may have become valid, and the reason why a
/// file was unreadable is not always visible in its metadata.
const TRY_AGAIN: Duration = Duration::from_secs(60);
/// The first byte of a handshake (RFC 8446, 5.1).
const HANDSHAKE_RECORD: u8 = 22;
/// Largest number of bytes of a request without TLS that are read and discarded, so that its client reads the answer before the connection is
/// closed.
const DISCARDED_BYTES: u64 = 64 << 10;
/// Longest time for discarding these bytes.
const DISCARDING: Duration = Duration::from_secs(1);

pub struct CertificatesInUse {
    current: ArcSwap<CurrentCertificate>,
    read: Mutex<ReadFiles>,
}

/// The files as they were when they were last read.
#[derive(Default)]
struct ReadFiles {
    files: TlsFileTimes,
    /// The time and the reason of the last refusal.
    refused: Option<(Instant, String)>,
}

struct CurrentCertificate {
    tls: TlsConfig,
    material: TlsMaterial,
}

/// The metadata of the files. It changes if a file is replaced, or if its size, its time of change or its permissions change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TlsFileTimes(Vec<Option<[i64; 6]>>);

impl TlsFileTimes {
    fn of(tls: &TlsConfig) -> Self {
        let TlsConfig { certificate, key, client_ca, client_certificates: _ } = tls;
        Self([certificate, key, client_ca].map(|path| file_times(path)).to_vec())
    }
}

fn file_times(path: &Path) -> Option<[i64; 6]> {
    let found = path.metadata().ok()?;
    let which = found.ino().cast_signed();
    let size = found.size().cast_signed();
    let [written, changed] = [(found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec())];
    Some([which, size, written.0, written.1, changed.0, changed.1])
}

/// A pair of certificate and key that was read and is not used yet.
pub struct RenewedCertificate(CurrentCertificate, TlsFileTimes);

impl CertificatesInUse {
    /// Reads the files; `None` if the service does not use TLS.
    ///
    /// # Errors
    /// The problem of a file, with its remedy.
    pub fn open(tls: &TlsConfig) -> anyhow::Result<Option<Arc<Self>>> {
        if !tls.is_on() {
            return Ok(None);
        }
        let RenewedCertificate(current, files) = read(tls)?;
        let read = ReadFiles { files, refused: None };
        Ok(Some(Arc::new(Self { current: ArcSwap::from_pointee(current), read: Mutex::new(read) })))
    }

    /// Returns problems that should be repaired although TLS works.
    pub fn warnings(&self) -> Vec<String> {
        self.current.load().material.warnings.clone()
    }

    /// Returns the seconds until the first certificate in use expires; negative afterwards.
    pub fn seconds_left(&self) -> i64 {
        self.current.load().material.expires.as_second() - doppel_service::clock::timestamp().as_second()
    }

    /// Reads the files of `tls` without using them yet.
    ///
    /// # Errors
    /// The problem of a file, with its remedy.
    pub fn renew(&self, tls: &TlsConfig) -> anyhow::Result<RenewedCertificate> {
        read(tls).inspect_err(|_| count("refused"))
    }

    /// Uses the files that were read, from the next connection on.
    pub fn put_in_force(&self, RenewedCertificate(current, files): RenewedCertificate) {
        let expires = current.material.expires;
        let warnings = current.material.warnings.clone();
        *self.read.lock() = ReadFiles { files, refused: None };
        self.current.store(Arc::new(current));
        count("loaded");
        tracing::info!(%expires, "certificate in force");
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    }

    /// Reads the files again whenever they change. Never returns.
    pub async fn follow(self: Arc<Self>) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut before = None;
        loop {
            looks.tick().await;
            self.look(&mut before, Instant::now());
        }
    }

    /// Checks the files once. `before` contains the metadata of the last check if the files had changed at that check.
    fn look(&self, before: &mut Option<TlsFileTimes>, now: Instant) {
        let tls = self.current.load().tls.clone();
        let files = TlsFileTimes::of(&tls);
        let settled = before.take();
        let said = {
            let mut read = self.read.lock();
            let is_new = read.files != files;
            if is_new && settled.as_ref() != Some(&files) {
                *before = Some(files);
                return;
            }
            let again = read.refused.as_ref().is_some_and(|(at, _)| now.saturating_duration_since(*at) >= TRY_AGAIN);
            if !is_new && !again {
                return;
            }
            read.files = files;
            read.refused.take().filter(|_| !is_new)
        };
        match self.renew(&tls) {
            Ok(renewed) => self.put_in_force(renewed),
            Err(error) => {
                let reason = format!("{error:#}");
                // A reason is logged once, until the files or the reason change.
                if said.is_none_or(|(_, said)| said != reason) {
                    tracing::error!(reason, "the new certificate cannot be used; the one before stays in force");
                }
                self.read.lock().refused = Some((now, reason));
            }
        }
    }

    /// Does the TLS handshake with a client; `None` if it fails. The client gets an error if possible.
    pub async fn shake_hands(&self, stream: TcpStream) -> Option<ClientStream> {
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(1..) if first[0] != HANDSHAKE_RECORD => {
                failed("plain_http");
                refuse_plain(stream).await;
                return None;
            }
            Ok(1..) => {}
            // The client has closed the connection, like a port scanner.
            _ => return None,
        }
        let acceptor = TlsAcceptor::from(Arc::clone(&self.current.load().material.server));
        match acceptor.accept(stream).await {
            Ok(stream) => Some(ClientStream::Tls(Box::new(stream))),
            Err(error) => {
                let reason = if is_about_clients(&error) { "client_certificate" } else { "handshake" };
                failed(reason);
                tracing::debug!(%error, "a handshake failed");
                None
            }
        }
    }
}

fn read(tls: &TlsConfig) -> anyhow::Result<RenewedCertificate> {
    // The metadata is read before the content, so that the next check notices a change in the meantime.
    let files = TlsFileTimes::of(tls);
    let material = files::load(tls, doppel_service::clock::timestamp())?;
    Ok(RenewedCertificate(CurrentCertificate { tls: tls.clone(), material }, files))
}

fn count(result: &'static str) {
    metrics::counter!("doppel_tls_certificates_read_total", "result" => result).increment(1);
}

/// Counts a failed handshake.
pub(super) fn failed(reason: &'static str) {
    metrics::counter!("doppel_tls_handshakes_failed_total", "reason" => reason).increment(1);
}

/// True if a handshake failed because of the client certificate.
fn is_about_clients(error: &std::io::Error) -> bool {
    let error = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(error, Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented))
}

/// Answers a request without TLS. The answer says that this port needs TLS.
async fn refuse_plain(mut stream: TcpStream) {
    let detail = "this port speaks TLS; write https:// instead of http://";
    let problem = Problem::new(StatusCode::BAD_REQUEST, ErrorCode::TlsRequired, detail);
    let Some(answer) = connection::whole_answer(&problem) else { return };
    if stream.write_all(&answer).await.is_err() || stream.shutdown().await.is_err() {
        return;
    }
    let mut rest = stream.take(DISCARDED_BYTES);
    let mut nowhere = tokio::io::sink();
    let discarding = tokio::io::copy(&mut rest, &mut nowhere);
    // Data that arrives later is not read.
    let _ = tokio::time::timeout(DISCARDING, discarding).await;
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    /// Writes a pair of certificate and key that is valid from the time `from` on.
    fn write(tls: &TlsConfig, from: jiff::Timestamp) {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        params.not_before = std::time::SystemTime::from(from).into();
        let key = KeyPair::generate().unwrap();
        std::fs::write(&tls.certificate, params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&tls.key, key.serialize_pem()).unwrap();
        std::fs::set_permissions(&tls.key, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn pair(folder: &Path) -> TlsConfig {
        TlsConfig { certificate: folder.join("server.pem"), key: folder.join("server.key"), ..TlsConfig::default() }
    }

    #[test]
    fn other_rights_are_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let tls = pair(folder.path());
        write(&tls, doppel_service::clock::timestamp());
        let before = TlsFileTimes::of(&tls);
        assert_eq!(TlsFileTimes::of(&tls), before);
        // Some file systems have coarse timestamps.
        std::thread::sleep(Duration::from_millis(50));
        std::fs::set_permissions(&tls.key, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert_ne!(TlsFileTimes::of(&tls), before);
    }

    #[test]
    fn a_certificate_that_was_not_valid_yet_is_read_again_a_minute_later() {
        let folder = tempfile::tempdir().unwrap();
        let tls = pair(folder.path());
        write(&tls, doppel_service::clock::timestamp() - Duration::from_secs(60));
        let certificates = CertificatesInUse::open(&tls).unwrap().unwrap();
        let first = current_certificate(&certificates);
        let valid_from = doppel_service::clock::timestamp() + Duration::from_secs(3);
        write(&tls, valid_from);
        let mut before = None;
        let begun = Instant::now();
        certificates.look(&mut before, begun);
        certificates.look(&mut before, begun);
        assert!(certificates.read.lock().refused.is_some());
        // Times in certificates are whole seconds.
        while doppel_service::clock::timestamp() <= valid_from {
            std::thread::sleep(Duration::from_millis(20));
        }
        certificates.look(&mut before, begun + TRY_AGAIN / 2);
        assert_eq!(current_certificate(&certificates), first, "not at each look");
        certificates.look(&mut before, begun + TRY_AGAIN);
        assert!(current_certificate(&certificates) != first && certificates.read.lock().refused.is_none());
    }

    fn current_certificate(certificates: &Arc<CertificatesInUse>) -> *const CurrentCertificate {
        Arc::as_ptr(&certificates.current.load())
    }
}
