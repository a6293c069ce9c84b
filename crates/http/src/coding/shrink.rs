//! Compresses responses for clients that accept it.
//!
//! Only responses of known length are compressed, because a compressor would delay the lines of `_bulk` and the events of a task. Pages of
//! the desk are not compressed: they contain form tokens together with text of other people, and their compressed length would reveal the
//! tokens (BREACH). Responses of the API contain no secret, and a web page of another site cannot request them with a key.
//!
//! A response that needs no permit is compressed only if it is a static file of the program, and only once, so that a client without a key
//! cannot make the service compress again and again.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use axum::http::response::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::ContentCoding;
use crate::problem::Problem;

/// Shorter responses are not compressed, because they fit into one packet anyway.
const LEAST_BYTES: u64 = 1 << 10;
/// Longer responses are compressed on a thread for blocking work. To compress this many bytes takes less than a millisecond.
const MOST_AT_ONCE: usize = 64 << 10;
/// Largest number of files whose compressed content is kept. There are about twenty such files, and each is kept in two codings.
const MOST_KEPT: usize = 64;
/// Compression level. It is a fast level, because each response is compressed for one client.
const ZSTD_LEVEL: i32 = 1;

/// The codings of responses. If a client accepts several codings with the same quality, the first of them is used.
const GIVEN: [ContentCoding; 2] = [ContentCoding::Zstd, ContentCoding::Gzip];

/// Returns the coding of the response. `None` if the response must not be compressed.
pub fn accepted(headers: &HeaderMap) -> Option<ContentCoding> {
    let ranges: Vec<(String, f32)> = headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| {
            let (name, parameters) = range.split_once(';').unwrap_or((range, ""));
            let quality = parameters.trim().strip_prefix("q=").map_or(Some(1.0), |q| q.trim().parse().ok())?;
            Some((name.trim().to_ascii_lowercase(), quality))
        })
        .collect();
    // If the client does not name `identity`, it is acceptable, but every named coding is preferred.
    let plain = ranges.iter().find(|(range, _)| range == "identity").map_or(0.0, |(_, quality)| *quality);
    let best = GIVEN
        .into_iter()
        .map(|coding| (coding, quality_of(coding.name(), &ranges)))
        .rev()
        .max_by(|a, b| a.1.total_cmp(&b.1));
    best.filter(|(_, quality)| *quality > 0.0 && *quality >= plain).map(|(coding, _)| coding)
}

fn quality_of(name: &str, ranges: &[(String, f32)]) -> f32 {
    let found = ranges.iter().find(|(range, _)| range == name);
    found.or_else(|| ranges.iter().find(|(range, _)| range == "*")).map_or(0.0, |(_, quality)| *quality)
}

/// Compresses a response, unless its kind is never compressed.
///
/// # Errors
/// 500 if the compression fails.
pub async fn shrunk(mut response: Response, coding: Option<ContentCoding>) -> Result<Response, Problem> {
    if !may_be(&response) {
        return Ok(response);
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    let Some(coding) = coding else { return Ok(response) };
    let (head, body) = response.into_parts();
    let compressed = whole(body, coding).await?;
    Ok(encoded(head, coding, compressed))
}

/// Compresses the response with the static file at `path`, unless its kind is never compressed. The result is kept, so that a file is
/// compressed only once.
///
/// # Errors
/// 500 if the compression fails.
pub async fn shrunk_once(
    mut response: Response,
    coding: Option<ContentCoding>,
    path: &str,
) -> Result<Response, Problem> {
    // A path can be written with % in many ways. Only the plain path is kept, so that a client cannot fill the memory.
    if response.status() != StatusCode::OK || !may_be(&response) || path.contains('%') {
        return Ok(response);
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    let Some((coding, kept)) = coding.and_then(|coding| Some((coding, kept(path, coding)?))) else {
        return Ok(response);
    };
    let (head, body) = response.into_parts();
    let compressed = kept.get_or_try_init(|| whole(body, coding)).await?.clone();
    Ok(encoded(head, coding, compressed))
}

/// A compressed file. Empty while the file is being compressed.
type CompressedFile = Arc<OnceCell<Bytes>>;

/// Returns the place for a compressed file; `None` if too many are kept.
fn kept(path: &str, coding: ContentCoding) -> Option<CompressedFile> {
    static KEPT: Mutex<BTreeMap<(String, &'static str), CompressedFile>> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock();
    let name = (path.to_owned(), coding.name());
    if kept.len() >= 2 * MOST_KEPT && !kept.contains_key(&name) {
        return None;
    }
    Some(Arc::clone(kept.entry(name).or_default()))
}

/// Reads a whole body and compresses it.
async fn whole(body: Body, coding: ContentCoding) -> Result<Bytes, Problem> {
    let body = body.collect().await.map_err(failed)?.to_bytes();
    let compressed = match body.len() {
        0..=MOST_AT_ONCE => compress(&body, coding),
        _ => tokio::task::spawn_blocking(move || compress(&body, coding)).await.map_err(failed)?,
    };
    Ok(compressed.map_err(failed)?.into())
}

fn encoded(mut head: Parts, coding: ContentCoding, compressed: Bytes) -> Response {
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(compressed.len()));
    Response::from_parts(head, Body::from(compressed))
}

fn failed(error: impl std::fmt::Display) -> Problem {
    Problem::internal(format!("compressing an answer: {error}"))
}

/// True if a response is long enough, complete, and text that this service has made.
fn may_be(response: &Response) -> bool {
    response.status() != StatusCode::PARTIAL_CONTENT
        && !response.headers().contains_key(header::CONTENT_ENCODING)
        && response.headers().get(header::CONTENT_TYPE).is_some_and(|value: &HeaderValue| {
            let media = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
            matches!(
                media,
                "application/json"
                    | "application/yaml"
                    | "application/x-yaml"
                    | "text/plain"
                    | "text/css"
                    | "text/javascript"
            )
        })
        && response.body().size_hint().exact().is_some_and(|bytes| bytes >= LEAST_BYTES)
}

/// Compresses all of `body`.
///
/// # Errors
/// There is not enough memory.
pub fn compress(body: &[u8], coding: ContentCoding) -> std::io::Result<Vec<u8>> {
    match coding {
        ContentCoding::Zstd => zstd::bulk::compress(body, ZSTD_LEVEL),
        ContentCoding::Gzip => {
            let to = Vec::with_capacity(body.len() / 4);
            let mut encoder = flate2::write::GzEncoder::new(to, flate2::Compression::fast());
            std::io::Write::write_all(&mut encoder, body)?;
            encoder.finish()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &'static str) -> Response {
        let head = Response::builder().header(header::CONTENT_TYPE, "text/css");
        head.body(Body::from(text.repeat(1 << 10))).unwrap()
    }

    #[tokio::test]
    async fn a_file_is_compressed_once_and_only_under_its_own_name() {
        let bytes = async |answer: Response| answer.into_body().collect().await.unwrap().to_bytes();
        for coding in GIVEN {
            let first = shrunk_once(file("a"), Some(coding), "/docs/a.css").await.unwrap();
            assert_eq!(first.headers()[header::CONTENT_ENCODING], coding.name());
            let first = bytes(first).await;
            assert!(first.len() < 1 << 9);
            // The stored compressed response is returned although the file differs.
            assert_eq!(bytes(shrunk_once(file("b"), Some(coding), "/docs/a.css").await.unwrap()).await, first);
            let other = shrunk_once(file("a"), Some(coding), "/docs/%61.css").await.unwrap();
            assert!(!other.headers().contains_key(header::CONTENT_ENCODING));
        }
        assert_eq!(bytes(shrunk_once(file("a"), None, "/docs/a.css").await.unwrap()).await.len(), 1 << 10);
    }

    #[test]
    fn the_coding_that_is_liked_best_is_taken() {
        let table = [
            ("gzip", Some(ContentCoding::Gzip)),
            ("zstd", Some(ContentCoding::Zstd)),
            ("gzip, deflate, br, zstd", Some(ContentCoding::Zstd)),
            ("gzip;q=1.0, zstd;q=0.5", Some(ContentCoding::Gzip)),
            ("br", None),
            ("*", Some(ContentCoding::Zstd)),
            ("*;q=0", None),
            ("gzip;q=0, *;q=0.5", Some(ContentCoding::Zstd)),
            ("identity, gzip;q=0.5", None),
            ("identity", None),
            ("gzip;q=x", None),
            ("", None),
        ];
        for (value, coding) in table {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(value))]);
            assert_eq!(accepted(&headers), coding, "{value}");
        }
        assert_eq!(accepted(&HeaderMap::new()), None);
    }
}
