//! Reads and checks the TLS files. Every error names the file and the remedy. An error never contains a part of a key.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoClientAuth, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{InconsistentKeys, RootCertStore, ServerConfig};

use super::validity::{self, ValidityPeriod};
use doppel_config::tls::{ClientCertificates, TlsConfig};

/// The only protocol inside TLS.
const HTTP_1_1: &[u8] = b"http/1.1";
/// Largest file that is read. A file with all certificate authorities of a country is about a tenth of this size.
const MOST_BYTES: u64 = 1 << 20;
/// The permission bits that other users must not have on the key file.
const OTHERS: u32 = 0o007;

/// The content of the files, ready for handshakes.
#[derive(Debug)]
pub(super) struct TlsMaterial {
    pub(super) server: Arc<ServerConfig>,
    /// The earliest expiry of a certificate in the chain.
    pub(super) expires: Timestamp,
    /// Problems that should be repaired although TLS works.
    pub(super) warnings: Vec<String>,
}

/// Reads the files.
///
/// # Errors
/// The first mistake, with its remedy.
pub(super) fn load(tls: &TlsConfig, now: Timestamp) -> anyhow::Result<TlsMaterial> {
    let provider = Arc::new(ring::default_provider());
    let chain = certificates("server.tls.certificate", &tls.certificate)?;
    let expires = valid_until(&chain, &tls.certificate, now)?;
    let key = provider.key_provider.load_private_key(key(&tls.key)?).map_err(|_| {
        // The reason of the library is not used. For ECDSA with another curve, it would name ECDSA as supported.
        anyhow::anyhow!(
            "server.tls.key: the key in {} is of a kind that cannot be used; have a certificate made for one that can: RSA of 2048 to \
             8192 bits, ECDSA on P-256 or P-384 (not P-521), or Ed25519",
            tls.key.display()
        )
    })?;
    let certified = CertifiedKey::new(chain, key);
    certified.keys_match().or_else(|error| match error {
        // A key that does not show its public half cannot be compared.
        rustls::Error::InconsistentKeys(InconsistentKeys::Unknown) => Ok(()),
        rustls::Error::InconsistentKeys(_) => Err(anyhow::anyhow!(
            "server.tls.key: the key in {} is not that of the certificate in {}; give both of one pair, the service's own \
             certificate first",
            tls.key.display(),
            tls.certificate.display()
        )),
        error => Err(anyhow::anyhow!(
            "server.tls: the certificate in {} and the key in {} cannot be used: {error}; have them made anew (RSA, ECDSA or \
             Ed25519)",
            tls.certificate.display(),
            tls.key.display()
        )),
    })?;
    let clients = clients(tls, &provider)?;
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.context("server.tls")?.with_client_cert_verifier(clients);
    let mut config = config.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![HTTP_1_1.to_vec()];
    let warnings = open_to_others(&tls.key).into_iter().collect();
    Ok(TlsMaterial { server: Arc::new(config), expires, warnings })
}

fn read(setting: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    if let Ok(found) = path.metadata() {
        let shown = path.display();
        // A pipe or a device may never give data, or never end.
        ensure!(found.is_file(), "{setting}: {shown} is no file; give the path of a file in PEM form");
        ensure!(
            found.len() <= MOST_BYTES,
            "{setting}: {shown} has more than {} KiB; certificates and keys in PEM form have a few",
            MOST_BYTES >> 10
        );
    }
    let text = std::fs::read(path).map_err(|error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::NotFound => "give the file's path, from the directory that doppel is started in",
            std::io::ErrorKind::PermissionDenied => "let the user that doppel runs as read it",
            _ => "give a file that can be read",
        };
        anyhow::anyhow!("{setting}: {} cannot be read: {error}; {remedy}", path.display())
    })?;
    match not_plain(&text) {
        Some(remedy) => bail!("{setting}: {} {remedy}", path.display()),
        None => Ok(text),
    }
}

/// Describes the problem of a file with a byte order mark, which some editors add. Without this check, the parser would silently skip the
/// first certificate or key after the mark.
pub fn not_plain(text: &[u8]) -> Option<&'static str> {
    const MARKS: [&[u8]; 3] = [b"\xEF\xBB\xBF", b"\xFF\xFE", b"\xFE\xFF"];
    MARKS.iter().any(|mark| text.starts_with(mark)).then_some(
        "begins with a byte order mark, which some editors write; save it as UTF-8 without one (\"UTF-8\", not \"UTF-8 with BOM\" or \
         \"Unicode\")",
    )
}

/// Reads the certificates in a file. The file must contain at least one certificate.
fn certificates(setting: &str, path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let text = read(setting, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => bail!(
            "{setting}: {} holds no certificate in PEM form (-----BEGIN CERTIFICATE-----); one in DER form is converted by \
             openssl x509 -inform der -in FILE -out FILE.pem",
            path.display()
        ),
    }
}

fn key(path: &Path) -> anyhow::Result<PrivateKeyDer<'static>> {
    let text = read("server.tls.key", path)?;
    if let Ok(key) = PrivateKeyDer::from_pem_slice(&text) {
        return Ok(key);
    }
    let shown = path.display();
    match text.windows(9).any(|part| part == b"ENCRYPTED") {
        true => bail!(
            "server.tls.key: the key in {shown} is encrypted; take the passphrase off (openssl pkey -in FILE -out FILE.pem) and \
             let only the service's user read it"
        ),
        false => bail!("server.tls.key: {shown} holds no key in PEM form (-----BEGIN PRIVATE KEY-----)"),
    }
}

/// Returns the earliest expiry of the certificates.
fn valid_until(chain: &[CertificateDer<'_>], path: &Path, now: Timestamp) -> anyhow::Result<Timestamp> {
    let shown = path.display();
    let all: Option<Vec<ValidityPeriod>> = chain.iter().map(|certificate| validity::of(certificate)).collect();
    let all = all.with_context(|| format!("server.tls.certificate: a certificate in {shown} cannot be read"))?;
    let expires = all.iter().map(|one| one.not_after).min().unwrap_or(now);
    if let Some(later) = all.iter().map(|one| one.not_before).find(|from| *from > now) {
        bail!("server.tls.certificate: {shown} is valid only from {later} on; compare the clocks of both machines");
    }
    if expires < now {
        bail!("server.tls.certificate: {shown} expired at {expires}; have it renewed");
    }
    Ok(expires)
}

/// Makes the verifier of client certificates.
fn clients(tls: &TlsConfig, provider: &Arc<CryptoProvider>) -> anyhow::Result<Arc<dyn ClientCertVerifier>> {
    if tls.client_certificates == ClientCertificates::Off {
        return Ok(Arc::new(NoClientAuth));
    }
    let mut roots = RootCertStore::empty();
    for certificate in certificates("server.tls.client_ca", &tls.client_ca)? {
        roots.add(certificate).map_err(|error| {
            anyhow::anyhow!(
                "server.tls.client_ca: a certificate in {} cannot be used: {error}; give those of authorities",
                tls.client_ca.display()
            )
        })?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let verifier = match tls.client_certificates {
        ClientCertificates::Optional => verifier.allow_unauthenticated(),
        ClientCertificates::Off | ClientCertificates::Required => verifier,
    };
    verifier.build().context("server.tls.client_ca")
}

/// Returns a warning with its remedy if other users may read the key file.
fn open_to_others(key: &Path) -> Option<String> {
    let mode = key.metadata().ok()?.permissions().mode();
    let shown = key.display();
    // Reading by a group is allowed, because a person may have chosen that group on purpose (`ssl-cert`).
    (mode & OTHERS != 0).then(|| {
        format!("server.tls.key: {shown} can be read by everyone on this machine; chmod 600 {shown} (or 640 for a group of its own)")
    })
}
