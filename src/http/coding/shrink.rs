//! Answers, compressed for whoever accepts that.
//!
//! Whole answers only, those whose length is known: the lines of `_bulk` and the events of a task arrive one by one, and a compressor
//! would hold them back. No pages of the desk: they hold the tokens of forms beside text that others write, and how well they compress
//! would tell of the tokens (BREACH). Answers of the API hold no secret, and no web page of another site can ask for them with a key.

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use http_body_util::BodyExt as _;

use super::Coding;
use crate::http::problem::Problem;

/// Shorter answers go in one packet as they are.
const LEAST_BYTES: u64 = 1 << 10;
/// Longer ones are compressed beside the threads that answer: this takes a fraction of a millisecond.
const MOST_AT_ONCE: usize = 64 << 10;
/// Effort, of both the fast end: answers are compressed once each.
const ZSTD_LEVEL: i32 = 1;

/// Of the codings that we give the one that is liked best; of several the first here.
const GIVEN: [Coding; 2] = [Coding::Zstd, Coding::Gzip];

/// The coding to answer in; `None` for as it is.
pub fn accepted(headers: &HeaderMap) -> Option<Coding> {
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
    let quality = |name: &str| {
        let found = ranges.iter().find(|(range, _)| range == name);
        found.or_else(|| ranges.iter().find(|(range, _)| range == "*")).map_or(0.0, |(_, quality)| *quality)
    };
    // Where it is not named, it is fine, but anything that is named is better.
    let plain = ranges.iter().find(|(range, _)| range == "identity").map_or(0.0, |(_, quality)| *quality);
    let best =
        GIVEN.into_iter().map(|coding| (coding, quality(coding.name()))).rev().max_by(|a, b| a.1.total_cmp(&b.1));
    best.filter(|(_, quality)| *quality > 0.0 && *quality >= plain).map(|(coding, _)| coding)
}

/// The answer, compressed if it is one that is.
///
/// # Errors
/// 500, when it cannot be.
pub async fn shrunk(mut response: Response, coding: Option<Coding>) -> Result<Response, Problem> {
    if !may_be(&response) {
        return Ok(response);
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    let Some(coding) = coding else { return Ok(response) };
    let (mut head, body) = response.into_parts();
    let body = body.collect().await.map_err(failed)?.to_bytes();
    let compressed = match body.len() {
        0..=MOST_AT_ONCE => compress(&body, coding),
        _ => tokio::task::spawn_blocking(move || compress(&body, coding)).await.map_err(failed)?,
    };
    let compressed = compressed.map_err(failed)?;
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(compressed.len()));
    Ok(Response::from_parts(head, Body::from(compressed)))
}

fn failed(error: impl std::fmt::Display) -> Problem {
    Problem::internal(format!("compressing an answer: {error}"))
}

/// Whether an answer is long enough, whole, and text of ours.
fn may_be(response: &Response) -> bool {
    let text = |value: &HeaderValue| {
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
    };
    response.status() != StatusCode::PARTIAL_CONTENT
        && !response.headers().contains_key(header::CONTENT_ENCODING)
        && response.headers().get(header::CONTENT_TYPE).is_some_and(text)
        && response.body().size_hint().exact().is_some_and(|bytes| bytes >= LEAST_BYTES)
}

/// Compresses all of `body`.
///
/// # Errors
/// When there is no memory for it.
pub fn compress(body: &[u8], coding: Coding) -> std::io::Result<Vec<u8>> {
    match coding {
        Coding::Zstd => zstd::bulk::compress(body, ZSTD_LEVEL),
        Coding::Gzip => {
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

    #[test]
    fn the_coding_that_is_liked_best_is_taken() {
        let table = [
            ("gzip", Some(Coding::Gzip)),
            ("zstd", Some(Coding::Zstd)),
            ("gzip, deflate, br, zstd", Some(Coding::Zstd)),
            ("gzip;q=1.0, zstd;q=0.5", Some(Coding::Gzip)),
            ("br", None),
            ("*", Some(Coding::Zstd)),
            ("*;q=0", None),
            ("gzip;q=0, *;q=0.5", Some(Coding::Zstd)),
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
