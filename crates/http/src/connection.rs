//! Closes a connection if the client does not read its response.
//!
//! Without this module, such a client would hold a connection and its buffers for ever. The time runs only while a write waits for the
//! client. Reads of the head and of the body have their own time limits elsewhere.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::problem::{MEDIA_TYPE, Problem};
use doppel_core::error_code::ErrorCode;

/// A stream with a time limit for stalled writes.
pub struct TimedConnection<S> {
    stream: S,
    timeout: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    /// A response that replaces the response of the HTTP library, and the number of its bytes that were written.
    instead: Option<(Vec<u8>, usize)>,
}

impl<S> TimedConnection<S> {
    /// Wraps `stream`; a write that waits longer than `timeout` fails.
    pub fn new(stream: S, timeout: Duration) -> Self {
        Self { stream, timeout, stalled: None, instead: None }
    }

    fn bounded<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let deadline = Instant::now() + self.timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedConnection<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> TimedConnection<S> {
    /// Writes a problem instead, if the HTTP library writes a response that this service did not make, which has no body. Otherwise returns
    /// `None`.
    fn poll_write_instead(&mut self, cx: &mut Context<'_>, answer: &[u8]) -> Option<Poll<io::Result<()>>> {
        if self.instead.is_none() {
            self.instead = Some((problem_instead_of(answer)?, 0));
        }
        let (problem, mut done) = self.instead.take()?;
        while done < problem.len() {
            let written = Pin::new(&mut self.stream).poll_write(cx, &problem[done..]);
            match self.bounded(cx, written) {
                Poll::Ready(Ok(count @ 1..)) => done += count,
                Poll::Ready(Ok(0)) => return Some(Poll::Ready(Err(io::ErrorKind::WriteZero.into()))),
                Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error))),
                Poll::Pending => {
                    self.instead = Some((problem, done));
                    return Some(Poll::Pending);
                }
            }
        }
        Some(Poll::Ready(Ok(())))
    }
}

/// Returns the problem that replaces a response of the HTTP library. The library sends such a response, which has no body, if it cannot
/// read the head of a request. All error responses of this service have a body.
fn problem_instead_of(answer: &[u8]) -> Option<Vec<u8>> {
    let head = std::str::from_utf8(answer.strip_prefix(b"HTTP/1.1 4")?).ok()?.split_once("\r\n\r\n")?.0;
    if !head.contains("content-length: 0") {
        return None;
    }
    let (status, code, detail) = match head.get(..2)? {
        "14" => (StatusCode::URI_TOO_LONG, ErrorCode::UriTooLong, "the URL is too long"),
        "31" => {
            let detail = "the head of the request is too large, or has more than a hundred headers";
            (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, ErrorCode::HeadTooLarge, detail)
        }
        _ => (StatusCode::BAD_REQUEST, ErrorCode::MalformedRequest, "the request cannot be read as HTTP/1.1"),
    };
    whole_answer(&Problem::new(status, code, detail))
}

/// Returns a problem as the bytes of a response that ends the connection. It is used if no request could be read.
pub fn whole_answer(problem: &Problem) -> Option<Vec<u8>> {
    let status = problem.status();
    let body = serde_json::to_string(&problem.body("")).ok()?;
    let head = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: {MEDIA_TYPE}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        status.as_u16(),
        status.canonical_reason().unwrap_or("Bad Request"),
        body.len()
    );
    Some((head + &body).into_bytes())
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedConnection<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let Some(written) = this.poll_write_instead(cx, bytes) {
            return written.map_ok(|()| bytes.len());
        }
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.bounded(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let Some(written) = this.poll_write_instead(cx, pieces.first().map_or(&[], |piece| piece)) {
            return written.map_ok(|()| pieces.iter().map(|piece| piece.len()).sum());
        }
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, pieces);
        this.bounded(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        this.bounded(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // TLS sends a closing message, and the client may not read it.
        let shut = Pin::new(&mut this.stream).poll_shutdown(cx);
        this.bounded(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn a_write_that_nobody_takes_fails_after_the_timeout() {
        let (ours, theirs) = tokio::io::duplex(4);
        let mut connection = TimedConnection::new(ours, Duration::from_millis(20));
        let error = connection.write_all(b"more than four").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(theirs);
    }
}
