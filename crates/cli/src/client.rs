//! A client of a running service over http or https. All commands that call a service use it.
//!
//! Over https, the client trusts the certificates of the system; with `--ca` it trusts only the certificates of that file. `--client-certificate`
//! and `--client-key` name the certificate for services that request one.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Chain, Context, bail};
use reqwest::header::{ACCEPT_LANGUAGE, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, Identity, Method, Url};
use rustls::CertificateError;
use serde_json::Value;
use tokio::runtime::Runtime;

use super::table::{ColumnHeading, table};
use super::{key, usage};
use doppel_http::tls::files::not_plain;
use doppel_texts::language::of_process;

/// Time for connecting, including the TLS handshake.
const CONNECT: Duration = Duration::from_secs(10);
/// Number of connections that are kept for further requests: the largest number of requests that any command has in progress.
const MOST_IDLE: usize = 8;
/// Time in which a service must answer one request of [`ServiceClient`].
const TIMEOUT: Duration = Duration::from_secs(30);

/// The trusted certificates and the own certificate for https.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TlsArgs {
    /// File of certificates (PEM) to trust instead of the certificates of the system, for a service with https
    #[arg(long, value_name = "FILE")]
    pub(super) ca: Option<PathBuf>,
    /// File of the certificate (PEM) to show to a service that asks for one
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(super) client_certificate: Option<PathBuf>,
    /// File of the key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "client_certificate")]
    pub(super) client_key: Option<PathBuf>,
}

impl TlsArgs {
    /// Returns the first of these options that is present. All of them are for https.
    pub(super) fn option(&self) -> Option<&'static str> {
        let Self { ca, client_certificate, client_key } = self;
        let given = [(ca, "--ca"), (client_certificate, "--client-certificate"), (client_key, "--client-key")];
        given.into_iter().find(|(file, _)| file.is_some()).map(|(_, option)| option)
    }

    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.ca, &self.client_certificate, &self.client_key].into_iter().filter_map(Option::as_deref)
    }
}

/// The options that all commands have to call a service: its address and the key.
#[derive(Clone, Debug, clap::Args)]
pub struct ServiceArgs {
    /// The running service
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    to: String,
    /// File that holds the key (only for a service that has keys)
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    #[command(flatten)]
    trust: TlsArgs,
}

/// The options of the commands that list objects of a service.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ServiceListArgs {
    #[command(flatten)]
    calling: ServiceArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ServiceListArgs {
    /// Prints the list at `path`: as JSON, or as a table in which `row` returns the cells of an item.
    ///
    /// # Errors
    /// The errors of [`ServiceClient::get`]; `missing` if the response has no list.
    pub(super) fn print(
        &self,
        path: &str,
        missing: &'static str,
        columns: &[ColumnHeading<'_>],
        row: fn(&Value) -> Vec<String>,
    ) -> anyhow::Result<ExitCode> {
        let answer = ServiceClient::open(&self.calling)?.get(path)?;
        let items = answer["items"].as_array().context(missing)?;
        match self.json {
            true => super::answer(&format!("{:#}\n", answer["items"])),
            false => super::answer(&table(columns, items.iter().map(row))),
        }
    }
}

/// The check of the certificate of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CertificateCheck {
    /// The certificate must be trusted.
    Required,
    /// Any certificate is accepted: the request is not secret, and the service is on this machine.
    Waived,
}

/// The reasons why a request got no response.
#[derive(Debug)]
pub(super) enum RequestFault {
    /// The connection could not be opened.
    Unreached(String),
    /// The certificate of the other side is not trusted: the reason and the remedy.
    Untrusted(String, &'static str),
    /// The connection broke.
    Broken(String),
}

/// Reads the URL of a service.
pub(super) fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("not a URL: {error}"))?;
    let plain = url.username().is_empty() && url.password().is_none();
    if !matches!(url.scheme(), "http" | "https") || !plain || url.query().is_some() || url.fragment().is_some() {
        return Err(
            "give http://HOST:PORT or https://HOST:PORT without user, password or query; keys go into --key-file"
                .into(),
        );
    }
    Ok(url)
}

/// Makes a client of the service at `url`. It does not connect yet.
///
/// # Errors
/// Wrong usage, or files that cannot be used.
pub(super) fn client(url: &Url, key: Option<&str>, trust: &TlsArgs, who: CertificateCheck) -> anyhow::Result<Client> {
    let builder = Client::builder()
        .user_agent(concat!("doppel/", env!("CARGO_PKG_VERSION")))
        .default_headers(default_headers(key)?)
        .connect_timeout(CONNECT)
        .pool_max_idle_per_host(MOST_IDLE)
        .redirect(Policy::none())
        .no_proxy();
    let builder = identified(trusting(builder, url, trust, who)?, trust)?;
    builder.build().map_err(|error| {
        let reason = cause(&error);
        anyhow::anyhow!("no certificates to trust: {reason}; give those of the service's authority by --ca FILE")
    })
}

/// Adds the certificate of the client, if there is one.
fn identified(builder: ClientBuilder, trust: &TlsArgs) -> anyhow::Result<ClientBuilder> {
    let (Some(certificate), Some(key)) = (&trust.client_certificate, &trust.client_key) else { return Ok(builder) };
    let both = [pem("--client-certificate", certificate)?, b"\n".to_vec(), pem("--client-key", key)?].concat();
    let identity = Identity::from_pem(&both).map_err(|_| {
        usage(format!(
            "--client-certificate {} and --client-key {} are no certificate and its key in PEM form",
            certificate.display(),
            key.display()
        ))
    })?;
    Ok(builder.identity(identity))
}

/// Reads a file in PEM form.
fn pem(option: &str, file: &Path) -> anyhow::Result<Vec<u8>> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    match not_plain(&text) {
        Some(remedy) => Err(usage(format!("{option} {} {remedy}", file.display()))),
        None => Ok(text),
    }
}

/// Returns the headers of each request: the key, and the language of the command line for the texts of errors.
fn default_headers(key: Option<&str>) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT_LANGUAGE, HeaderValue::from_static(of_process().tag()));
    if let Some(key) = key {
        let value = HeaderValue::try_from(format!("Bearer {key}"));
        let mut value = value.map_err(|_| usage("the key is not one: dpl_NAME_SECRET expected"))?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    Ok(headers)
}

fn trusting(
    builder: ClientBuilder,
    url: &Url,
    trust: &TlsArgs,
    who: CertificateCheck,
) -> anyhow::Result<ClientBuilder> {
    // Installs the provider of this process. This fails if it is installed already, and there is only one provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let (Some(option), "http") = (trust.option(), url.scheme()) {
        return Err(usage(format!("{option} is for a service with https")));
    }
    let Some(ca) = &trust.ca else {
        return Ok(match (url.scheme(), who) {
            ("https", CertificateCheck::Required) => builder,
            ("https", CertificateCheck::Waived) => builder.tls_danger_accept_invalid_certs(true),
            // Plain http needs no certificates, and some systems have none.
            _ => builder.tls_certs_only([]),
        });
    };
    let text = pem("--ca", ca)?;
    match Certificate::from_pem_bundle(&text) {
        Ok(certificates) if !certificates.is_empty() => Ok(builder.tls_certs_only(certificates)),
        _ => Err(usage(format!("--ca {}: holds no certificate in PEM form", ca.display()))),
    }
}

/// Classifies an error of the HTTP client.
pub(super) fn fault(error: &reqwest::Error) -> RequestFault {
    match cause(error) {
        _ if error.is_connect() && error.is_timeout() => {
            RequestFault::Unreached(format!("no connection within {} s", CONNECT.as_secs()))
        }
        reason => match Chain::new(error).find_map(distrust) {
            Some(distrust) => RequestFault::Untrusted(reason, remedy(distrust)),
            None if error.is_connect() => RequestFault::Unreached(reason),
            None => RequestFault::Broken(reason),
        },
    }
}

/// Returns the remedy for a certificate that is not trusted.
fn remedy(distrust: &CertificateError) -> &'static str {
    match distrust {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "use an address whose name the certificate contains"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "have it renewed",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "compare the clocks of both machines"
        }
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "it is the certificate of an authority: let the service use a certificate that this authority has signed \
                (CA:FALSE)"
        }
        _ => "give the certificates of its authority by --ca FILE",
    }
}

/// Returns the text of the innermost cause of an error. The outer errors only name the step that failed.
pub(super) fn cause(error: &(dyn Error + 'static)) -> String {
    Chain::new(error).last().map_or_else(String::new, ToString::to_string)
}

/// Returns the reason why a certificate was refused, if an error has this cause. An error of a connection contains its reason, but not as
/// its source.
fn distrust<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a CertificateError> {
    if let Some(outer) = error.downcast_ref::<std::io::Error>() {
        return outer.get_ref().and_then(|inner| distrust(inner));
    }
    match error.downcast_ref()? {
        rustls::Error::InvalidCertificate(distrust) => Some(distrust),
        _ => None,
    }
}

/// The error that the service does not answer.
#[derive(Debug, thiserror::Error)]
#[error("{0} does not answer: {1}")]
pub(super) struct ServiceUnavailable(String, String);

/// A running service that gets one request at a time and answers in JSON.
pub(super) struct ServiceClient {
    url: String,
    client: Client,
    runtime: Runtime,
}

impl ServiceClient {
    /// Prepares calls, but does not connect yet.
    ///
    /// # Errors
    /// Wrong usage, or files that cannot be used.
    pub(super) fn open(calling: &ServiceArgs) -> anyhow::Result<Self> {
        let ServiceArgs { to, key_file, trust } = calling;
        let url = parse_url(to).map_err(|reason| usage(format!("--to {to}: {reason}")))?;
        Self::at(&url, key_file.as_deref(), trust)
    }

    /// Makes a client for an address that comes from another option.
    ///
    /// # Errors
    /// The errors of [`ServiceClient::open`].
    pub(super) fn at(url: &Url, key_file: Option<&Path>, trust: &TlsArgs) -> anyhow::Result<Self> {
        let client = client(url, key(key_file)?.as_deref(), trust, CertificateCheck::Required)?;
        Ok(Self { url: url.as_str().trim_end_matches('/').to_owned(), client, runtime: runtime()? })
    }

    /// Returns the runtime on which responses are awaited.
    pub(super) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Returns the URL without a slash at its end.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Requests `path` with GET.
    ///
    /// # Errors
    /// [`ServiceUnavailable`] if the service does not answer or is not available; the problem if the service refuses the request.
    pub(super) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send(Method::GET, path, None)
    }

    /// Sends `body` to `path` with POST.
    ///
    /// # Errors
    /// The errors of [`ServiceClient::get`].
    pub(super) fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send(Method::POST, path, Some(body))
    }

    /// Sends `body` to `path` with PUT.
    ///
    /// # Errors
    /// The errors of [`ServiceClient::get`].
    pub(super) fn put(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.send(Method::PUT, path, Some(body))
    }

    /// Requests `path` with DELETE.
    ///
    /// # Errors
    /// The errors of [`ServiceClient::get`].
    pub(super) fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.send(Method::DELETE, path, None).map(drop)
    }

    fn send(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let mut request = self.client.request(method, format!("{}{path}", self.url)).timeout(TIMEOUT);
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let (status, text) = self.runtime.block_on(exchange(request)).map_err(|fault| self.unanswered(fault))?;
        self.answered(status, &text)
    }

    /// Begins a GET request with a response of any length. The usual timeout applies only to the beginning of the response.
    ///
    /// # Errors
    /// The errors of [`ServiceClient::get`].
    pub(super) async fn stream(&self, path: &str) -> anyhow::Result<reqwest::Response> {
        let sent = self.client.get(format!("{}{path}", self.url)).send();
        let Ok(sent) = tokio::time::timeout(TIMEOUT, sent).await else {
            return Err(ServiceUnavailable(self.url.clone(), "it says nothing".into()).into());
        };
        let answer = sent.map_err(|error| self.unanswered(fault(&error)))?;
        let status = answer.status().as_u16();
        if answer.status().is_success() {
            return Ok(answer);
        }
        let text = answer.bytes().await.map_err(|error| self.unanswered(fault(&error)))?;
        self.answered(status, &text).and_then(|_| bail!("{} refuses ({status})", self.url))
    }

    /// Parses the body of a successful response.
    fn answered(&self, status: u16, text: &[u8]) -> anyhow::Result<Value> {
        let body = match text.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(text)
                .with_context(|| format!("the server at {} (status {status}) is not doppel", self.url))?,
        };
        match status {
            200..300 => Ok(body),
            503 => Err(ServiceUnavailable(self.url.clone(), refusal(&body)).into()),
            _ => bail!("{} refuses ({status}): {}", self.url, refusal(&body)),
        }
    }

    fn unanswered(&self, fault: RequestFault) -> anyhow::Error {
        match fault {
            RequestFault::Untrusted(why, remedy) => {
                anyhow::anyhow!("the certificate of {} is not trusted: {why}; {remedy}", self.url)
            }
            RequestFault::Unreached(why) | RequestFault::Broken(why) => {
                ServiceUnavailable(self.url.clone(), why).into()
            }
        }
    }
}

/// Makes a runtime with one thread.
pub(super) fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a runtime")
}

/// Sends a request. Returns the status and the body of the response.
pub(super) async fn exchange(request: reqwest::RequestBuilder) -> Result<(u16, Vec<u8>), RequestFault> {
    let answer = request.send().await.map_err(|error| fault(&error))?;
    let status = answer.status().as_u16();
    let body = answer.bytes().await.map_err(|error| fault(&error))?;
    Ok((status, body.to_vec()))
}

/// Formats a problem with the places of its violations. A caller of a command has not written the path of the request, so that its places are
/// left out.
pub(super) fn refusal(body: &Value) -> String {
    let places = body["errors"].as_array().map_or(&[][..], Vec::as_slice).iter();
    let places = places.filter_map(|error| {
        let (pointer, detail) = (error["pointer"].as_str()?, error["detail"].as_str()?);
        Some(if pointer.starts_with("/path/") { detail.to_owned() } else { format!("{pointer}: {detail}") })
    });
    let places: Vec<String> = places.collect();
    match places.is_empty() {
        true => body["detail"].as_str().unwrap_or("no reason given").to_owned(),
        false => places.join("; "),
    }
}
