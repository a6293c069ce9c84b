//! `doppel import` works with a service behind TLS.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::import::{import_with, jsonl};
use crate::support::{TestServer, expect_exit, put_file};

/// A proxy that accepts TLS connections and passes them on. Dropping this value ends the proxy.
struct TlsProxy {
    url: String,
    _runtime: Runtime,
}

impl TlsProxy {
    /// Starts a proxy in front of `server`. The authority `issuer` signs its certificate for `name`.
    fn start(server: &TestServer, issuer: &CertifiedIssuer<'_, KeyPair>, name: &str) -> anyhow::Result<Self> {
        Self::with(server, issuer, &CertificateParams::new([name.to_owned()])?)
    }

    /// Starts a proxy with a certificate of these `params`.
    fn with(
        server: &TestServer,
        issuer: &CertifiedIssuer<'_, KeyPair>,
        params: &CertificateParams,
    ) -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, issuer)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key)?;
        let behind = server.url().replace("http://", "");
        let runtime = Runtime::new()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let url = format!("https://{}", listener.local_addr()?);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(hand_on(acceptor.clone(), stream, behind.clone()));
            }
        });
        Ok(Self { url, _runtime: runtime })
    }
}

async fn hand_on(acceptor: TlsAcceptor, stream: TcpStream, behind: String) {
    // A client that does not trust the certificate closes the connection.
    let Ok(mut outside) = acceptor.accept(stream).await else { return };
    let mut inside = TcpStream::connect(behind).await.expect("the service listens");
    let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
}

/// Returns an authority and the file of its certificate.
fn authority(dir: &Path, file: &str) -> anyhow::Result<(CertifiedIssuer<'static, KeyPair>, String)> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, file);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let path = put_file(dir, file, issuer.pem());
    Ok((issuer, path))
}

/// Runs an import on a system that trusts only the certificates in `system`.
fn import(arguments: &[&str], system: &str) -> Output {
    import_with(arguments, b"", &[("SSL_CERT_FILE", system), ("SSL_CERT_DIR", "")])
}

#[test]
fn a_service_behind_tls_is_trusted_by_an_option_or_by_the_system() {
    let server = TestServer::start(&[]);
    let (issuer, ca) = authority(server.folder(), "ca.pem").unwrap();
    let (_, other) = authority(server.folder(), "other.pem").unwrap();
    let front = TlsProxy::start(&server, &issuer, "127.0.0.1").unwrap();
    // Several requests use one connection, and their bodies and answers are sent at the same time.
    let file = server.put_file("letters.jsonl", jsonl(4500));
    expect_exit(&import(&["--to", &front.url, "--ca", &ca, &file], &other), 0, &["4500 new", "rejected  0"]);
    expect_exit(&import(&["--to", &front.url, &file], &ca), 0, &["4500 unchanged", "rejected  0"]);
    assert_eq!(server.count("letters"), 4500);
}

#[test]
fn an_untrusted_service_gets_no_data() {
    let server = TestServer::start(&[]);
    let (issuer, ca) = authority(server.folder(), "ca.pem").unwrap();
    let (_, other) = authority(server.folder(), "other.pem").unwrap();
    let file = server.put_file("letters.jsonl", jsonl(3));
    let front = TlsProxy::start(&server, &issuer, "127.0.0.1").unwrap();
    let untrusted = ["the certificate of https://127.0.0.1:", "UnknownIssuer", "--ca FILE"];
    expect_exit(&import(&["--to", &front.url, &file], &other), 1, &untrusted);
    // Only the authority that the option names is trusted.
    expect_exit(&import(&["--to", &front.url, "--ca", &other, &file], &ca), 1, &untrusted);
    let elsewhere = TlsProxy::start(&server, &issuer, "desk.example").unwrap();
    let output = import(&["--to", &elsewhere.url, "--ca", &ca, &file], &ca);
    expect_exit(&output, 1, &["desk.example", "is not trusted", "use an address"]);
    let mut expired = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    (expired.not_before, expired.not_after) = (date_time_ymd(1999, 1, 1), date_time_ymd(2000, 1, 1));
    let front = TlsProxy::with(&server, &issuer, &expired).unwrap();
    expect_exit(&import(&["--to", &front.url, "--ca", &ca, &file], &ca), 1, &["xpired", "have it renewed"]);
    let mut own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    own.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let front = TlsProxy::with(&server, &issuer, &own).unwrap();
    expect_exit(&import(&["--to", &front.url, "--ca", &ca, &file], &ca), 1, &["the certificate of an authority"]);
    assert_eq!(server.count("letters"), 0);
}

#[test]
fn a_plain_request_to_a_tls_port_gets_a_hint() {
    let server = TestServer::start(&[]);
    let (issuer, _) = authority(server.folder(), "ca.pem").unwrap();
    let front = TlsProxy::start(&server, &issuer, "127.0.0.1").unwrap();
    let file = server.put_file("letters.jsonl", jsonl(1));
    let mut command = Command::new(env!("CARGO_BIN_EXE_doppel"));
    command.args(["import", "--collection", "letters", "--to", &front.url.replace("https:", "http:"), &file]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // The command tries again, because a proxy may be starting.
    let said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let hint = said.into_iter().find(|line| line.contains("if it speaks TLS, write https://"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(hint.is_some());
}

#[test]
fn certificates_that_cannot_be_used_are_refused_before_anything_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let (_, ca) = authority(dir.path(), "ca.pem").unwrap();
    let file = put_file(dir.path(), "letters.jsonl", jsonl(1));
    let to = "https://127.0.0.1:1";
    let missing = dir.path().join("missing.pem").display().to_string();
    expect_exit(&import(&["--to", to, "--ca", &file, &file], &ca), 2, &["no certificate in PEM form"]);
    expect_exit(&import(&["--to", to, "--ca", &missing, &file], &ca), 1, &["cannot read", "missing.pem"]);
    let output = import(&["--to", "http://127.0.0.1:1", "--ca", &ca, &file], &ca);
    expect_exit(&output, 2, &["--ca is for a service with https"]);
    let data = dir.path().join("data").display().to_string();
    expect_exit(&import(&["--to", &data, "--ca", &ca, &file], &ca), 2, &["--ca is for a service with https"]);
    let none = put_file(dir.path(), "none.pem", "");
    expect_exit(&import(&["--to", to, &file], &none), 1, &["no certificates to trust", "--ca FILE"]);
}
