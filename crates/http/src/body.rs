//! Reads request bodies. Their size and the time for reading them are limited.

use std::error::Error;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::coding::expand::{CompressedLimit, ExpandError};
use crate::problem::Problem;
use doppel_core::error_code::ErrorCode;

/// Multiple of the limit that is read and discarded before the connection is closed. A client that is still sending when the connection
/// closes usually sees a reset instead of the response.
const DISCARD_FACTOR: usize = 16;

/// Returns the largest number of bytes that are read and discarded of a body that is too large or not needed.
pub fn most_discarded(max: usize) -> usize {
    max.saturating_mul(DISCARD_FACTOR)
}

/// Reads the whole body within `time` from now. Both the body and its compressed form may have at most `max` bytes.
///
/// # Errors
/// 413 above the limit, 408 if the client is too slow, 400 if the body is incomplete or cannot be decompressed.
pub async fn read(request: Request, max: usize, time: Duration) -> Result<Bytes, Problem> {
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: u64| length > max as u64) {
        // The client gets this answer at once, even if it has already begun to send the body.
        return Err(too_large(max).with_header(header::CONNECTION, HeaderValue::from_static("close")));
    }
    if let Some(limit) = request.extensions().get::<CompressedLimit>() {
        limit.set(max as u64);
    }
    match tokio::time::timeout(time, Limited::new(request.into_body(), max).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(max)),
        Ok(Err(error)) if ExpandError::in_error(&*error) == Some(ExpandError::TooLong) => Err(too_large(max)),
        Ok(Err(error)) => Err(broken(&*error)),
        Err(_) => {
            let detail = format!("the body did not arrive within {} ms", time.as_millis());
            Err(Problem::at(StatusCode::REQUEST_TIMEOUT, ErrorCode::BodyTimeout, "", detail))
        }
    }
}

/// Reads the next piece of a body; `None` at its end.
///
/// # Errors
/// 400 if the body is incomplete or cannot be decompressed, 413 if it expands too much or gives no content.
pub async fn next_chunk(body: &mut Body) -> Result<Option<Bytes>, Problem> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        match frame.into_data() {
            Ok(data) if !data.is_empty() => return Ok(Some(data)),
            _ => (),
        }
    }
    Ok(None)
}

/// Makes the problem for a body that cannot be read to its end.
fn broken(error: &(dyn Error + 'static)) -> Problem {
    match ExpandError::in_error(error) {
        None => Problem::malformed(ErrorCode::MalformedBody, "the body ended too early"),
        Some(trouble @ ExpandError::Malformed(_)) => {
            Problem::malformed(ErrorCode::MalformedEncoding, trouble.to_string())
        }
        Some(trouble @ (ExpandError::Expands | ExpandError::Empty | ExpandError::TooLong)) => {
            let detail = format!("{trouble}; send it uncompressed");
            Problem::at(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::BodyTooLarge, "", detail)
        }
    }
}

fn too_large(max: usize) -> Problem {
    let detail = format!("the body has more than {max} bytes (limits.max_body_bytes)");
    Problem::at(StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::BodyTooLarge, "", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_chunks(chunks: &[&'static [u8]], max: usize) -> Result<Bytes, Problem> {
        let chunks: Vec<Result<Bytes, std::io::Error>> =
            chunks.iter().map(|chunk| Ok(Bytes::from_static(chunk))).collect();
        let body = Body::from_stream(tokio_stream::iter(chunks));
        read(Request::new(body), max, Duration::from_secs(5)).await
    }

    #[tokio::test]
    async fn a_body_in_pieces_is_the_same_as_in_one() {
        assert_eq!(read_chunks(&[b"ab", b"", b"cd", b"e"], 5).await.unwrap(), &b"abcde"[..]);
        assert_eq!(read_chunks(&[b"abcde"], 5).await.unwrap(), &b"abcde"[..]);
        assert_eq!(read_chunks(&[], 5).await.unwrap(), &b""[..]);
    }

    #[tokio::test]
    async fn one_byte_over_the_limit_is_413() {
        for chunks in [&[b"abc" as &[u8], b"def"][..], &[b"abcdef"], &[&[0; 200]]] {
            assert_eq!(read_chunks(chunks, 5).await.unwrap_err().status(), StatusCode::PAYLOAD_TOO_LARGE);
        }
    }

    #[tokio::test]
    async fn a_body_with_a_too_large_length_is_413_before_it_is_sent() {
        let body = Body::from_stream(tokio_stream::pending::<Result<Bytes, std::io::Error>>());
        let request = Request::builder().header(header::CONTENT_LENGTH, 6).body(body).unwrap();
        let problem = read(request, 5, Duration::from_secs(60)).await.unwrap_err();
        assert_eq!(problem.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }

    #[tokio::test]
    async fn a_body_that_never_ends_is_408() {
        let body = Body::from_stream(tokio_stream::pending::<Result<Bytes, std::io::Error>>());
        let problem = read(Request::new(body), 5, Duration::from_millis(20)).await.unwrap_err();
        assert_eq!(problem.code(), ErrorCode::BodyTimeout);
    }
}
