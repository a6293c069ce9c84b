//! The destinations of records: a running service, or a data directory that this process opens. Both answer the same requests.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::RETRY_AFTER;
use hyper::{HeaderMap, Method, Request, Response};
use reqwest::Url;
use serde::Deserialize;

use super::service::ImportClient;
use super::usage;
use crate::client::{RequestFault, TlsArgs, cause, parse_url};
use crate::output::CommandOutputs;
use crate::scratch::{NewDirectory, check_new_path};
use crate::store::{self, NewStore};
use crate::transfer::{self, MONGODB};
use doppel_config::{self as config, AuthConfig, Config, StoreKind};
use doppel_core::collection::{CollectionName, Field, Settings};
use doppel_core::record::RecordId;
use doppel_core::verdict::{Match, VerdictKind};
use doppel_engine::Engine;
use doppel_engine::answers::Outcome;
use doppel_engine::replay::Replay;
use doppel_http::coding::ContentCoding;
use doppel_http::coding::shrink::compress;
use doppel_http::local::{LocalBody, LocalService};
use doppel_http::state::{App, OptionalParts};
use doppel_service::observe;
use doppel_service::shutdown::Shutdown;
use doppel_sources::lines::LineCutter;
use doppel_store::Store;

/// Longest time without data from the service: twice the time limit of the service for a request.
pub(crate) const SILENCE: Duration = Duration::from_secs(60);
/// Largest size of an answer to a line, or of the refusal of a request. It has room for many times ten matches of some hundred bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// The media type of JSON lines.
const LINES: &str = "application/x-ndjson";
/// The media type of a row.
const ROW: &str = "application/json";
/// The code of the refusal of a key that is limited to other collections.
pub(crate) const NOT_THIS_COLLECTION: &str = "not_this_collection";

/// The destination of `--to`.
#[derive(Clone, Debug)]
pub(crate) enum DestinationAddress {
    Service(Url),
    Directory(PathBuf),
    /// The MongoDB database of the configuration.
    Mongodb,
}

impl DestinationAddress {
    /// Parses `--to`.
    ///
    /// # Errors
    /// Wrong usage.
    pub(crate) fn of_option(text: &str) -> anyhow::Result<Self> {
        Self::parse(text).map_err(|reason| usage(format!("--to {text}: {reason}")))
    }

    fn parse(text: &str) -> Result<Self, String> {
        if text == MONGODB {
            return Ok(Self::Mongodb);
        }
        if text.starts_with("http://") || text.starts_with("https://") {
            return parse_url(text).map(Self::Service);
        }
        let path = PathBuf::from(text);
        let port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if text.contains("://") || (port && !path.exists()) {
            return Err(format!(
                "is neither a directory nor a URL; for a service write http://{}, for the MongoDB database of the configuration {MONGODB}",
                text.replace("://", "/")
            ));
        }
        check_new_path(&path)?;
        match path.exists() && !path.is_dir() {
            true => Err("is a file; give the service's URL or its data directory".into()),
            false => Ok(Self::Directory(path)),
        }
    }

    /// Returns the directory, if the destination is one.
    pub(crate) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory(folder) => Some(folder),
            Self::Service(_) | Self::Mongodb => None,
        }
    }

    /// True if the destination is a directory that does not exist.
    pub(crate) fn is_new_directory(&self) -> bool {
        self.directory().is_some_and(|folder| !folder.exists())
    }
}

/// The answer to one line.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct LineResponse {
    pub(crate) line: u64,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) verdict: Option<VerdictKind>,
    pub(crate) id: Option<RecordId>,
    pub(crate) duplicate_of: Option<RecordId>,
    #[serde(default)]
    pub(crate) similar: Vec<Match>,
    #[serde(default)]
    pub(crate) warnings: Vec<ValueWarning>,
    #[serde(flatten)]
    pub(crate) refusal: AnswerRefusal,
}

/// The answer to a check.
#[derive(Clone, Debug)]
pub(crate) enum CheckResponse {
    /// The best match, if there is any.
    Found(Option<Match>),
    /// The row cannot be compared.
    Refused(AnswerRefusal),
}

/// The body of the response to a check.
#[derive(Debug, Deserialize)]
struct CheckAnswer {
    #[serde(rename = "match")]
    found: Option<Match>,
}

/// A warning about a value of an accepted line that cannot be read.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ValueWarning {
    pub(crate) pointer: String,
    pub(crate) code: String,
    pub(crate) detail: String,
}

/// The reason why a line or a request was refused; empty if it was accepted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AnswerRefusal {
    pub(crate) code: String,
    pub(crate) detail: String,
    pub(crate) retryable: bool,
    pub(crate) errors: Vec<RowPointer>,
}

/// A place in a row.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct RowPointer {
    pub(crate) pointer: String,
}

/// The result of looking a collection up.
pub(crate) enum CollectionLookup {
    Found(Box<Settings>),
    Missing,
    /// The key may not read the collection.
    Forbidden,
}

impl CollectionLookup {
    /// Returns the settings of the collection; for a missing collection, those of the preset `default`. `None` if the key may not read them.
    pub(crate) fn into_settings(self) -> Option<Settings> {
        match self {
            Self::Found(settings) => Some(*settings),
            Self::Missing => Some(Settings::default()),
            Self::Forbidden => None,
        }
    }
}

/// The used part of the description of a collection.
#[derive(Debug, Deserialize)]
struct CollectionDescription {
    settings: Settings,
}

/// The reason why a request has no complete response.
#[derive(Debug)]
pub(crate) enum RequestFailure {
    /// There is no response, or the other side sent nothing for too long.
    Fault(RequestFault),
    /// The whole request was refused.
    Refused { status: u16, refusal: AnswerRefusal, retry_after: Option<Duration> },
    /// The responses do not have the form of doppel's responses.
    Foreign,
}

impl RequestFailure {
    /// Makes the failure that the connection broke for this reason.
    pub(crate) fn broken(reason: impl Into<String>) -> Self {
        Self::Fault(RequestFault::Broken(reason.into()))
    }
}

/// The options for calling a service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallOptions<'a> {
    pub(crate) key: Option<&'a str>,
    /// The certificates for https.
    pub(crate) trust: &'a TlsArgs,
    /// The coding that compresses lines; `None` without compression.
    pub(crate) coding: Option<ContentCoding>,
}

/// A destination for lines.
pub(crate) enum ImportTarget {
    Service(ImportClient),
    /// A store that this process opened.
    Store(LocalService, Option<NewStore>),
}

impl ImportTarget {
    /// Prepares requests. Opens a store, but does not connect to a service yet. The files of a new store without records are removed at the
    /// end, or by `outputs` after a second signal.
    pub(crate) async fn open(
        to: &DestinationAddress,
        how: &CallOptions<'_>,
        config: &Config,
        outputs: &CommandOutputs,
    ) -> anyhow::Result<Self> {
        if let DestinationAddress::Service(url) = to {
            return ImportClient::open(url, how).map(Self::Service);
        }
        if how.coding.is_some() {
            return Err(usage("--compress is for a service"));
        }
        if let Some(option) = how.trust.option() {
            return Err(usage(format!("{option} is for a service with https")));
        }
        let new = to.directory().and_then(NewDirectory::of);
        let store = match to {
            DestinationAddress::Directory(dir) => {
                let store =
                    config::StoreConfig { kind: StoreKind::Embedded, data: dir.clone(), ..config.store.clone() };
                store::open(&store).await?
            }
            _ => transfer::open_mongodb(config.store.clone()).await?,
        };
        let local = local(store, config)?;
        let new = new.map(|directory| NewStore::new(directory, local.engine(), outputs));
        Ok(Self::Store(local, new))
    }

    /// Sends `lines` (JSON with line ends), and calls `each` for their answers in order.
    pub(crate) async fn send(
        &self,
        collection: &CollectionName,
        lines: Bytes,
        each: impl FnMut(LineResponse) + Send,
    ) -> Result<(), RequestFailure> {
        let lines = match self.coding() {
            None => lines,
            Some(coding) => compress(&lines, coding).map_err(|error| RequestFailure::broken(error.to_string()))?.into(),
        };
        let path = format!("{collection}/records/_bulk");
        read_answers(self.exchange(Method::POST, &path, LINES, (self.coding(), lines)).await?, each).await
    }

    /// Tells the destination that an import has ended. It then counts the records and indexes the collection anew, so that the groups do not
    /// depend on the order of the records.
    pub(crate) async fn end_batch(&self, collection: &CollectionName) -> Result<(), RequestFailure> {
        let path = format!("{collection}/records/_bulk?end_of_batch=true");
        read_answers(self.exchange(Method::POST, &path, LINES, (None, Bytes::new())).await?, |_| ()).await
    }

    /// Checks a row (JSON) without storing it.
    pub(crate) async fn check(&self, collection: &CollectionName, row: Bytes) -> Result<CheckResponse, RequestFailure> {
        let answer = self.exchange(Method::POST, &format!("{collection}/check"), ROW, (None, row)).await?;
        let (head, mut body) = answer.into_parts();
        let text = whole_text(&mut body).await?;
        match head.status.as_u16() {
            200 => {
                let answer = serde_json::from_slice::<CheckAnswer>(&text).map_err(|_| RequestFailure::Foreign)?;
                Ok(CheckResponse::Found(answer.found))
            }
            status => {
                let refusal = serde_json::from_slice::<AnswerRefusal>(&text).unwrap_or_default();
                // An error of the row is a result; an error of the request applies to all rows.
                match status {
                    400 | 413 | 422 if !refusal.code.is_empty() => Ok(CheckResponse::Refused(refusal)),
                    _ => Err(RequestFailure::Refused { status, refusal, retry_after: retry_after(&head.headers) }),
                }
            }
        }
    }

    /// Returns an empty index that compares rows with each other by the current settings and counts of a collection in a directory; `None`
    /// for a service, which does not give out its counts.
    pub(crate) async fn replay(
        &self,
        collection: &CollectionName,
        sketch_bytes: usize,
    ) -> anyhow::Result<Option<Replay>> {
        match self {
            Self::Service(_) => Ok(None),
            Self::Store(local, _) => Ok(Some(local.engine().replay(collection, sketch_bytes).await?)),
        }
    }

    /// Returns the fields of a collection; for a missing collection, the fields of the preset `default`. `None` if they cannot be read now.
    pub(crate) async fn fields(&self, collection: &CollectionName) -> Option<Vec<Field>> {
        self.look_up(collection).await.ok()?.into_settings().map(|settings| settings.fields)
    }

    /// Looks a collection up, and reads its settings.
    pub(crate) async fn look_up(&self, collection: &CollectionName) -> Result<CollectionLookup, RequestFailure> {
        let answer = self.exchange(Method::GET, collection.as_str(), "", (None, Bytes::new())).await?;
        let (head, mut body) = answer.into_parts();
        let text = problem_text(&mut body).await;
        match head.status.as_u16() {
            200 => {
                let described =
                    serde_json::from_slice::<CollectionDescription>(&text).map_err(|_| RequestFailure::Foreign)?;
                Ok(CollectionLookup::Found(Box::new(described.settings)))
            }
            404 => Ok(CollectionLookup::Missing),
            status => {
                let refusal = serde_json::from_slice::<AnswerRefusal>(&text).unwrap_or_default();
                // A key without any rights is reported when something is sent.
                match status {
                    403 if refusal.code != NOT_THIS_COLLECTION => Ok(CollectionLookup::Forbidden),
                    _ => Err(RequestFailure::Refused { status, refusal, retry_after: None }),
                }
            }
        }
    }

    /// Returns the coding that compresses lines.
    fn coding(&self) -> Option<ContentCoding> {
        match self {
            Self::Service(service) => service.coding,
            Self::Store(..) => None,
        }
    }

    /// Returns the URI of all collections.
    fn collections(&self) -> String {
        match self {
            Self::Service(service) => format!("{}/v1/collections", service.base()),
            Self::Store(..) => "/v1/collections".into(),
        }
    }

    /// Sends a request to a path below all collections, with the type of the content (an empty text without content) and the content with its
    /// coding.
    async fn exchange(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        content: (Option<ContentCoding>, Bytes),
    ) -> Result<Response<LocalBody>, RequestFailure> {
        let (coding, content) = content;
        let mut request = Request::builder().method(method).uri(format!("{}/{path}", self.collections()));
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        if let Some(coding) = coding {
            request = request.header("content-encoding", coding.name());
        }
        let request = request.body(content).map_err(|error| RequestFailure::broken(error.to_string()))?;
        match self {
            Self::Service(service) => service.exchange(request).await,
            Self::Store(local, _) => Ok(local.call(request.map(Full::new)).await),
        }
    }

    /// Closes the destination. Closes a store in order, and removes a new directory without records. Returns false if the store still counts and
    /// indexes the collection.
    pub(crate) async fn close(self) -> anyhow::Result<bool> {
        match self {
            Self::Service(_) => Ok(true),
            Self::Store(local, new) => NewStore::close(new, local.close()).await.context("closing the store"),
        }
    }
}

/// Returns the service over an open store.
fn local(store: Arc<dyn Store>, config: &Config) -> anyhow::Result<LocalService> {
    let engine = Engine::new(store, store::service_options(config));
    // A process that can open the store needs no key, and no other process can call.
    let mut config = Config { auth: AuthConfig::default(), ..config.clone() };
    config.log.requests = false;
    let app = App::new(engine, OptionalParts::default(), &config, Shutdown::default(), observe::start_metrics()?);
    Ok(LocalService::new(app))
}

/// Makes the failure of a connection whose other side has stopped sending.
pub(crate) fn silent() -> RequestFailure {
    RequestFailure::broken(format!("no answer for {} s", SILENCE.as_secs()))
}

/// Reads a response to its end: one line of JSON per sent line, or a problem.
async fn read_answers(response: Response<LocalBody>, mut each: impl FnMut(LineResponse)) -> Result<(), RequestFailure> {
    let (head, mut body) = response.into_parts();
    if head.status != 200 {
        let retry_after = retry_after(&head.headers);
        let text = problem_text(&mut body).await;
        let refusal = serde_json::from_slice::<AnswerRefusal>(&text).unwrap_or_default();
        return Err(RequestFailure::Refused { status: head.status.as_u16(), refusal, retry_after });
    }
    let mut lines = LineCutter::new(MAX_ANSWER_BYTES);
    while let Some(piece) = next_piece(&mut body).await? {
        lines.feed(&piece);
        while let Some(line) = lines.next_line() {
            let answer = line.bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            each(answer.ok_or(RequestFailure::Foreign)?);
        }
    }
    Ok(())
}

/// Returns the time that the other side demands to wait.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    text.parse().ok().map(Duration::from_secs)
}

async fn next_piece(body: &mut LocalBody) -> Result<Option<Bytes>, RequestFailure> {
    let frame = tokio::time::timeout(SILENCE, body.frame()).await.map_err(|_| silent())?;
    match frame {
        None => Ok(None),
        Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
        Some(Err(error)) => Err(RequestFailure::broken(cause(&error))),
    }
}

/// Reads a whole body, which may have at most the largest size of an answer.
async fn whole_text(body: &mut LocalBody) -> Result<Vec<u8>, RequestFailure> {
    let mut text = Vec::new();
    read_text(body, &mut text).await.map(|()| text)
}

/// Reads the body of a refusal or description, and cuts it at the largest size of an answer.
async fn problem_text(body: &mut LocalBody) -> Vec<u8> {
    let mut text = Vec::new();
    // The text until then is enough for a message.
    let _ = read_text(body, &mut text).await;
    text
}

async fn read_text(body: &mut LocalBody, text: &mut Vec<u8>) -> Result<(), RequestFailure> {
    while let Some(piece) = next_piece(body).await? {
        text.extend_from_slice(&piece);
        if text.len() > MAX_ANSWER_BYTES {
            return Err(RequestFailure::Foreign);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::DestinationAddress;

    #[test]
    fn what_is_no_url_and_no_directory_is_refused_with_the_remedy() {
        for (text, remedy) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("ftp://host/x", "http://"),
            ("https://user@host", "--key-file"),
            ("http://user:secret@host", "--key-file"),
            ("http://host/?c=1", "query"),
        ] {
            let error = DestinationAddress::parse(text).unwrap_err();
            assert!(error.contains(remedy), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(matches!(
            DestinationAddress::parse("http://127.0.0.1:8080/under/"),
            Ok(DestinationAddress::Service(_))
        ));
        assert!(matches!(DestinationAddress::parse("https://desk.example"), Ok(DestinationAddress::Service(_))));
        assert!(matches!(DestinationAddress::parse("./new-directory"), Ok(DestinationAddress::Directory(_))));
    }
}
