//! A certificate authority for tests, the certificates that it signs, and clients that trust it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};

use super::{TestServer, run};

/// An authority, and a folder for the certificates that it signs.
pub struct CertificateOffice {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub folder: tempfile::TempDir,
}

impl CertificateOffice {
    pub fn new() -> Self {
        // Installs the provider of this process. Another test may have installed it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "the office's authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
        let office = Self { issuer, folder: tempfile::tempdir().expect("a temporary folder") };
        std::fs::write(office.path("ca.pem"), office.issuer.pem()).expect("written");
        office
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the path as text.
    pub fn file(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Signs a certificate for 127.0.0.1, for a server or a client. Returns certificate and key in PEM form.
    pub fn sign(&self, change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }

    /// Writes a new pair to `NAME.pem` and `NAME.key`. Each file changes in one step.
    pub fn put(&self, name: &str) -> String {
        let (certificate, key) = self.sign(|_| ());
        self.replace(&format!("{name}.pem"), &certificate);
        self.replace(&format!("{name}.key"), &key);
        certificate
    }

    /// Replaces a file. Only its owner may read the new file.
    pub fn replace(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let part = self.path("part");
        std::fs::write(&part, text).expect("written");
        std::fs::set_permissions(&part, std::fs::Permissions::from_mode(0o600)).expect("changed");
        std::fs::rename(part, self.path(name)).expect("renamed");
    }

    /// Starts the service behind TLS with the pair `server` and these environment variables.
    pub fn serve(&self, environment: &[(&str, &str)]) -> TestServer {
        let certificate = self.file("server.pem");
        let key = self.file("server.key");
        let mut all = vec![("DOPPEL_SERVER__TLS__CERTIFICATE", &*certificate), ("DOPPEL_SERVER__TLS__KEY", &*key)];
        all.extend_from_slice(environment);
        TestServer::start_with(self.path("data"), &[], &all)
    }

    /// Returns a client that trusts this authority and shows the pair with this name.
    pub fn client(&self, shows: Option<&str>, keeps: bool) -> reqwest::Client {
        let pem = std::fs::read(self.path("ca.pem")).expect("read");
        let builder = reqwest::Client::builder()
            .tls_certs_only([reqwest::Certificate::from_pem(&pem).expect("a certificate")])
            .pool_max_idle_per_host(if keeps { 8 } else { 0 })
            .timeout(Duration::from_secs(60))
            .no_proxy();
        let builder = match shows {
            None => builder,
            Some(name) => {
                let identity =
                    reqwest::Identity::from_pem(&[read_file("pem", name, self), read_file("key", name, self)].concat())
                        .expect("a pair");
                builder.identity(identity)
            }
        };
        builder.build().expect("a client")
    }
}

fn read_file(ending: &str, name: &str, this: &CertificateOffice) -> Vec<u8> {
    std::fs::read(this.path(&format!("{name}.{ending}"))).expect("read")
}

/// Returns the certificate that a service shows now.
pub fn shown(server: &TestServer) -> Option<CertificateDer<'static>> {
    let seen = Arc::new(SeenCertificate::default());
    let config = rustls::ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(seen.clone())
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let mut connection = rustls::ClientConnection::new(Arc::new(config), name).expect("a connection");
    let mut stream = server.connect();
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).ok()?;
    }
    seen.0.lock().expect("no one panicked").take()
}

/// Returns the first certificate in a PEM text.
pub fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")
}

/// Accepts every certificate and stores the last one.
#[derive(Debug, Default)]
struct SeenCertificate(Mutex<Option<CertificateDer<'static>>>);

impl rustls::client::danger::ServerCertVerifier for SeenCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        *self.0.lock().expect("no one panicked") = Some(end_entity.clone().into_owned());
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Returns the exit code of `doppel` with these arguments, and its standard error.
pub fn says(arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let ended = run(arguments, environment);
    (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
}
