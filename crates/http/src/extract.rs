//! Reads and checks the parts of a request: names in the path, parameters, media types, rows.
//!
//! If a part is not valid, the request is answered with a [`Problem`] that names the part. A problem never contains values that the client
//! sent.

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;

use crate::body;
use crate::origin::check_body;
use crate::permits::{arrival, work_on};
use crate::problem::Problem;
use crate::request_log::CallerSlot;
use crate::state::App;
use doppel_config::auth::{MAX_NAME_BYTES, is_name};
use doppel_core::collection::{CollectionName, MAX_LEXICON_CHARS};
use doppel_core::error_code::ErrorCode;
use doppel_core::record::{RecordId, Row, Value};
use doppel_engine::idempotency::IdempotencyKey;
use doppel_store::GenerationId;

/// The collection in the path.
#[derive(Clone, Debug)]
pub struct InCollection(pub CollectionName);

/// The collection and the record in the path.
#[derive(Clone, Debug)]
pub struct InRecord(pub CollectionName, pub RecordId);

/// The collection and the two records in the path.
#[derive(Clone, Debug)]
pub struct InPair(pub CollectionName, pub RecordId, pub RecordId);

/// The collection and the generation in the path.
#[derive(Clone, Debug)]
pub struct InGeneration(pub CollectionName, pub GenerationId);

/// The collection and the name of a form in the path.
#[derive(Clone, Debug)]
pub struct InForm(pub CollectionName, pub String);

/// The task in the path.
#[derive(Clone, Debug)]
pub struct InTask(pub String);

/// The name of a key in the path.
#[derive(Clone, Debug)]
pub struct InKey(pub String);

/// The name of an account in the path.
#[derive(Clone, Debug)]
pub struct InAccount(pub String);

async fn path(parts: &mut Parts, app: &App) -> Result<Vec<(String, String)>, Problem> {
    let path = Path::<Vec<(String, String)>>::from_request_parts(parts, app).await;
    path.map(|Path(path)| path).map_err(|_| {
        let detail = "the path is not UTF-8 after percent-decoding";
        Problem::at(StatusCode::BAD_REQUEST, ErrorCode::MalformedPath, "/path", detail)
    })
}

fn collection(path: &[(String, String)]) -> Result<CollectionName, Problem> {
    CollectionName::new(part(path, "collection"))
        .map_err(|reason| Problem::invalid_at("/path/collection", ErrorCode::InvalidCollection, reason))
}

fn part<'a>(path: &'a [(String, String)], name: &str) -> &'a str {
    path.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
}

/// Reads an id in a path. `name` is the name of the part of the path.
///
/// # Errors
/// 422 if it is not a valid id.
pub fn record_id(name: &str, text: &str) -> Result<RecordId, Problem> {
    RecordId::new(text).map_err(|reason| Problem::invalid_at(format!("/path/{name}"), ErrorCode::InvalidId, reason))
}

fn path_id(name: &str, path: &[(String, String)]) -> Result<RecordId, Problem> {
    record_id(name, part(path, name))
}

/// Returns the name of a key or an account. `kind` is the name of the part of the path, and `rule` returns the error of an invalid name.
fn caller_name(kind: &str, rule: fn() -> String, path: &[(String, String)]) -> Result<String, Problem> {
    let name = part(path, kind);
    match is_name(name) {
        true => Ok(name.to_owned()),
        false => Err(Problem::invalid_at(format!("/path/{kind}"), ErrorCode::InvalidName, rule())),
    }
}

fn rule_of_keys() -> String {
    format!("the name of a key is 1 to {MAX_NAME_BYTES} of a-z, 0-9 and \"-\"")
}

fn rule_of_accounts() -> String {
    format!("the name of an account is 1 to {MAX_NAME_BYTES} of a-z, 0-9 and \"-\"")
}

fn generation(path: &[(String, String)]) -> Result<GenerationId, Problem> {
    part(path, "generation").parse().map(GenerationId).map_err(|_| {
        let detail = "a generation is a whole number; GET .../generations lists them";
        Problem::invalid_at("/path/generation", ErrorCode::InvalidGeneration, detail)
    })
}

fn form_name(path: &[(String, String)]) -> Result<String, Problem> {
    let name = part(path, "form");
    let is_dots = matches!(name, "." | "..");
    if is_dots
        || name.trim() != name
        || name.is_empty()
        || name.chars().count() > MAX_LEXICON_CHARS
        || name.contains(char::is_control)
    {
        let detail = format!(
            "a name has 1 to {MAX_LEXICON_CHARS} characters, no space at its ends and no control characters, and is not . or .."
        );
        return Err(Problem::invalid_at("/path/form", ErrorCode::InvalidWord, detail));
    }
    Ok(name.to_owned())
}

/// Implements extractors from the parts of the path.
macro_rules! extractors {
    ($($type:ident($path:ident) => $value:expr;)+) => {$(
        impl FromRequestParts<App> for $type {
            type Rejection = Problem;
            async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
                let $path = &path(parts, app).await?;
                Ok($value)
            }
        }
    )+};
}

extractors! {
    InCollection(path) => Self(collection(path)?);
    InRecord(path) => Self(collection(path)?, path_id("id", path)?);
    InPair(path) => Self(collection(path)?, path_id("a", path)?, path_id("b", path)?);
    InGeneration(path) => Self(collection(path)?, generation(path)?);
    InForm(path) => {
        let name = form_name(path)?;
        Self(collection(path)?, name)
    };
    InTask(path) => Self(part(path, "task").to_owned());
    InKey(path) => Self(caller_name("key", rule_of_keys, path)?);
    InAccount(path) => Self(caller_name("account", rule_of_accounts, path)?);
}

/// Longest idempotency key in bytes. Any UUID, hash or path fits.
const MAX_KEY_BYTES: usize = 255;

/// The `Idempotency-Key` of a request, together with the caller. In the arguments of a handler it must follow the authorisation, which
/// determines the caller.
#[derive(Clone, Debug)]
pub struct IdempotentRequest(pub Option<IdempotencyKey>);

impl FromRequestParts<App> for IdempotentRequest {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let Some(value) = parts.headers.get("idempotency-key") else { return Ok(Self(None)) };
        let key = value
            .to_str()
            .ok()
            .map(str::trim)
            .filter(|key: &&str| {
                (1..=MAX_KEY_BYTES).contains(&key.len()) && key.bytes().all(|byte: u8| matches!(byte, b' '..=b'~'))
            })
            .ok_or_else(|| {
                let detail = format!("an idempotency key is 1 to {MAX_KEY_BYTES} printable ASCII characters");
                Problem::malformed(ErrorCode::InvalidIdempotencyKey, detail)
            })?;
        let caller = parts.extensions.get::<CallerSlot>().map_or("", CallerSlot::name);
        Ok(Self(Some(IdempotencyKey::new(caller, key))))
    }
}

/// The media types of request bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyMedia {
    /// `application/json`.
    Json,
    /// `application/x-ndjson`.
    Ndjson,
    /// `text/csv`.
    Csv,
    /// `application/x-www-form-urlencoded`, of the forms of our own pages.
    Form,
}

impl BodyMedia {
    /// The media type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv",
            Self::Form => "application/x-www-form-urlencoded",
        }
    }
}

/// Refuses a body with another media type. A missing `Content-Type` is allowed here; [`check_body`] checks it. Compressed bodies were
/// decompressed before ([`crate::coding`]).
///
/// # Errors
/// Status 415: the error names the media type to send.
pub fn check_media(headers: &HeaderMap, wanted: BodyMedia) -> Result<(), Problem> {
    let name = wanted.name();
    if let Some(value) = headers.get(header::CONTENT_TYPE) {
        let text = value.to_str().unwrap_or("").to_ascii_lowercase();
        let mut pieces = text.split(';').map(str::trim);
        let utf8 =
            |piece: &str| !piece.starts_with("charset=") || matches!(&piece[8..], "utf-8" | "\"utf-8\"" | "utf8");
        if pieces.next() != Some(name) || !pieces.all(utf8) {
            let detail = format!("send content-type: {name}, in UTF-8");
            return Err(Problem::at(StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorCode::UnsupportedMediaType, "", detail));
        }
    }
    Ok(())
}

/// The bytes of a JSON body. Its size and the time for reading it are limited.
#[derive(Clone, Debug)]
pub struct JsonBytes(pub Bytes);

impl FromRequest<App> for JsonBytes {
    type Rejection = Problem;
    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        body_of(request, app, BodyMedia::Json).await.map(Self)
    }
}

/// The text of a CSV body. Its size and the time for reading it are limited.
#[derive(Clone, Debug)]
pub struct CsvText(pub String);

impl FromRequest<App> for CsvText {
    type Rejection = Problem;
    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let bytes = body_of(request, app, BodyMedia::Csv).await?;
        let text = String::from_utf8(bytes.into());
        text.map(Self).map_err(|_| {
            let detail = "the body is not UTF-8; save the file as CSV in UTF-8";
            Problem::malformed(ErrorCode::MalformedEncoding, detail)
        })
    }
}

/// Reads the bytes of a body of type `media`. Its size and the time for reading it are limited.
///
/// # Errors
/// 408, 413 or 415.
pub async fn body_of(request: Request, app: &App, media: BodyMedia) -> Result<Bytes, Problem> {
    check_media(request.headers(), media)?;
    let headers = request.headers().clone();
    let reading = body::read(request, app.limits().max_body_bytes, app.limits().body_timeout());
    let bytes = arrival(app, reading).await?;
    check_body(&headers, bytes.len() as u64)?;
    work_on(app, bytes.len()).await?;
    Ok(bytes)
}

/// The row in a body: a flat JSON object with the fields of a record.
#[derive(Clone, Debug)]
pub struct RowBody(pub Row);

impl FromRequest<App> for RowBody {
    type Rejection = Problem;
    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let JsonBytes(bytes) = JsonBytes::from_request(request, app).await?;
        row(&bytes).map(Self)
    }
}

/// Reads a row. A `fingerprint` must not be a number, because many programs round JSON numbers above 2^53. A lookup would never find a
/// record with a rounded fingerprint.
///
/// # Errors
/// 400 or 422.
pub fn row(bytes: &[u8]) -> Result<Row, Problem> {
    let row = Row::parse(bytes)?;
    if let Some(Value::Literal(_)) = row.value("fingerprint") {
        let detail = "a fingerprint is a string of 16 lower-case hexadecimal digits; as a number it would lose digits";
        return Err(Problem::invalid_at("/fingerprint", ErrorCode::InvalidFingerprint, detail));
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn json_is_taken_with_its_charset_or_unnamed_and_nothing_else() {
        let fine: [&[(&str, &str)]; 3] =
            [&[], &[("content-type", "application/json")], &[("content-type", "Application/JSON; charset=UTF-8")]];
        for pairs in fine {
            assert!(check_media(&headers(pairs), BodyMedia::Json).is_ok(), "{pairs:?}");
        }
        let wrong: [&[(&str, &str)]; 3] = [
            &[("content-type", "text/plain")],
            &[("content-type", "application/json; charset=gbk")],
            &[("content-type", "application/x-ndjson")],
        ];
        for pairs in wrong {
            assert_eq!(check_media(&headers(pairs), BodyMedia::Json).unwrap_err().status().as_u16(), 415, "{pairs:?}");
        }
    }

    #[test]
    fn a_fingerprint_as_a_number_is_refused_in_any_row() {
        let problem = row(br#"{"fingerprint": 1234}"#).unwrap_err();
        assert_eq!(
            (problem.code(), problem.body("").errors[0].pointer.as_str()),
            (ErrorCode::InvalidFingerprint, "/fingerprint")
        );
        assert!(row(br#"{"fingerprint": "00000000000004d2"}"#).is_ok());
    }
}
