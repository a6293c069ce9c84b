//! A connection that gives up on a client that takes nothing.
//!
//! Reads are bounded elsewhere (head, body); a client that stops reading its answer would otherwise hold its place and its
//! buffers for ever. The clock runs only while a write is waiting for the client.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::http::problem::{MEDIA_TYPE, Problem};

/// A stream with a time limit for stalled writes, and whatever must be kept as long as it lives.
pub struct Connection<S, K> {
    stream: S,
    timeout: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    /// Until it is clear that HTTP/1 is spoken: only then the time limit of a request's head begins.
    opening: Option<Opening>,
    /// What is written in the place of an answer of the server below, and how much of it has been.
    instead: Option<(Vec<u8>, usize)>,
    /// Whether its end has come.
    ended: bool,
    /// When it ends, whatever happens on it.
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    _kept: K,
}

/// The beginning of a connection. The server below tells HTTP/2 from HTTP/1 by the first bytes, without a time limit and
/// whether or not HTTP/2 is wanted; it is not, since nothing would bound an idle connection of it.
struct Opening {
    given_up: Pin<Box<Sleep>>,
    /// How many bytes of [`HTTP2`] have come, and nothing else.
    matched: usize,
}

/// How an HTTP/2 client begins, and no HTTP/1 client.
const HTTP2: &[u8] = b"PRI";

impl Opening {
    /// Whether it goes on after `bytes`: they may still become an HTTP/2 preface.
    fn undecided_after(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let expected = &HTTP2[self.matched..];
        let matching = bytes.iter().zip(expected).take_while(|(given, wanted)| given == wanted).count();
        self.matched += matching;
        if self.matched == HTTP2.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the client speaks HTTP/2"));
        }
        Ok(matching == bytes.len())
    }
}

fn over() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the time of the connection is over")
}

impl<S, K> Connection<S, K> {
    /// Wraps `stream`; a write that waits longer than `write` fails, and so does a first read that waits longer than `first`.
    /// `kept` is dropped with the connection.
    pub fn new(stream: S, first: Duration, write: Duration, kept: K) -> Self {
        let opening = Some(Opening { given_up: Box::pin(tokio::time::sleep(first)), matched: 0 });
        Self { stream, timeout: write, stalled: None, opening, instead: None, ended: false, end: None, _kept: kept }
    }

    /// Fails whoever waits to read or write once `ends` is cancelled, or `time` from now.
    pub fn end_with(&mut self, ends: CancellationToken, time: Duration) {
        self.end = Some(Box::pin(async move { tokio::time::timeout(time, ends.cancelled()).await.unwrap_or(()) }));
    }

    fn has_ended(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(end) = &mut self.end
            && end.as_mut().poll(cx).is_ready()
        {
            (self.end, self.ended) = (None, true);
        }
        self.ended
    }

    fn bounded<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        if self.has_ended(cx) {
            return Poll::Ready(Err(over()));
        }
        let deadline = Instant::now() + self.timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl<S: AsyncRead + Unpin, K: Unpin> AsyncRead for Connection<S, K> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if read.is_pending() && this.has_ended(cx) {
            return Poll::Ready(Err(over()));
        }
        let Some(opening) = &mut this.opening else { return read };
        if read.is_pending() {
            ready!(opening.given_up.as_mut().poll(cx));
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client says nothing")));
        }
        if !opening.undecided_after(&buffer.filled()[before..])? {
            this.opening = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin, K> Connection<S, K> {
    /// Writes a problem where the server below would write an answer of its own without a body; `None` where it does not.
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

/// The problem in the place of an answer that the server below gives to a head that it cannot read. All of ours have a body.
fn problem_instead_of(answer: &[u8]) -> Option<Vec<u8>> {
    let head = std::str::from_utf8(answer.strip_prefix(b"HTTP/1.1 4")?).ok()?.split_once("\r\n\r\n")?.0;
    if !head.contains("content-length: 0") {
        return None;
    }
    let (status, code, detail) = match head.get(..2)? {
        "14" => (StatusCode::URI_TOO_LONG, "uri_too_long", "the URL is too long"),
        "31" => {
            let detail = "the head of the request is too large, or has more than a hundred headers";
            (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", detail)
        }
        _ => (StatusCode::BAD_REQUEST, "malformed_request", "the request cannot be read as HTTP/1.1"),
    };
    let body = serde_json::to_string(&Problem::new(status, code, detail).body("")).ok()?;
    let head = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: {MEDIA_TYPE}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        status.as_u16(),
        status.canonical_reason().unwrap_or("Bad Request"),
        body.len()
    );
    Some((head + &body).into_bytes())
}

impl<S: AsyncWrite + Unpin, K: Unpin> AsyncWrite for Connection<S, K> {
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
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_write_that_nobody_takes_fails_after_the_timeout() {
        let (ours, theirs) = tokio::io::duplex(4);
        let mut connection = Connection::new(ours, Duration::from_secs(60), Duration::from_millis(20), ());
        let error = connection.write_all(b"more than four").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(theirs);
    }

    #[tokio::test]
    async fn a_connection_with_an_end_ends() {
        let (ours, mut theirs) = tokio::io::duplex(32);
        let mut connection = Connection::new(ours, Duration::from_secs(60), Duration::from_secs(60), ());
        connection.end_with(CancellationToken::new(), Duration::from_millis(20));
        theirs.write_all(b"GET").await.unwrap();
        connection.read_exact(&mut [0; 3]).await.unwrap();
        assert_eq!(connection.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);

        let (ours, _theirs) = tokio::io::duplex(32);
        let (mut connection, ends) =
            (Connection::new(ours, Duration::from_secs(60), Duration::from_secs(60), ()), CancellationToken::new());
        connection.end_with(ends.clone(), Duration::from_secs(60));
        let waiting = tokio::spawn(async move { connection.read_u8().await });
        ends.cancel();
        assert_eq!(waiting.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn http_2_is_refused_at_once_and_its_beginnings_in_time() {
        let (ours, mut theirs) = tokio::io::duplex(32);
        let mut connection = Connection::new(ours, Duration::from_secs(60), Duration::from_secs(60), ());
        theirs.write_all(b"PRI * HTTP/2.0").await.unwrap();
        let error = connection.read_exact(&mut [0; 3]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);

        let (ours, mut theirs) = tokio::io::duplex(32);
        let mut connection = Connection::new(ours, Duration::from_millis(20), Duration::from_secs(60), ());
        theirs.write_all(b"PR").await.unwrap();
        assert_eq!((connection.read_u8().await.unwrap(), connection.read_u8().await.unwrap()), (b'P', b'R'));
        assert_eq!(connection.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);

        let (ours, mut theirs) = tokio::io::duplex(32);
        let mut connection = Connection::new(ours, Duration::from_millis(20), Duration::from_secs(60), ());
        theirs.write_all(b"PUT").await.unwrap();
        let mut method = [0; 3];
        connection.read_exact(&mut method).await.unwrap();
        let later = tokio::time::timeout(Duration::from_millis(60), connection.read_u8()).await;
        assert!(later.is_err(), "the time limit was for the opening");
    }

    #[tokio::test]
    async fn a_client_that_says_nothing_fails_the_first_read_and_no_later_one() {
        let (ours, mut theirs) = tokio::io::duplex(8);
        let mut connection = Connection::new(ours, Duration::from_millis(20), Duration::from_secs(60), ());
        let error = connection.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);

        let (ours, mut speaks) = tokio::io::duplex(8);
        let mut connection = Connection::new(ours, Duration::from_millis(20), Duration::from_secs(60), ());
        speaks.write_all(b"a").await.unwrap();
        assert_eq!(connection.read_u8().await.unwrap(), b'a');
        let later = tokio::time::timeout(Duration::from_millis(60), connection.read_u8()).await;
        assert!(later.is_err(), "the time limit was for the first byte");
        theirs.shutdown().await.unwrap();
    }
}
