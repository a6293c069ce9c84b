//! A connection that gives up on a client that takes nothing.
//!
//! Reads are bounded elsewhere (head, body); a client that stops reading its answer would otherwise hold its place and its
//! buffers for ever. The clock runs only while a write is waiting for the client.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream with a time limit for stalled writes, and whatever must be kept as long as it lives.
pub struct Connection<S, K> {
    stream: S,
    timeout: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    /// Until the first byte comes: only then the time limit of a request's head begins.
    silent: Option<Pin<Box<Sleep>>>,
    _kept: K,
}

impl<S, K> Connection<S, K> {
    /// Wraps `stream`; a write that waits longer than `write` fails, and so does a first read that waits longer than `first`.
    /// `kept` is dropped with the connection.
    pub fn new(stream: S, first: Duration, write: Duration, kept: K) -> Self {
        let silent = Some(Box::pin(tokio::time::sleep(first)));
        Self { stream, timeout: write, stalled: None, silent, _kept: kept }
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

impl<S: AsyncRead + Unpin, K: Unpin> AsyncRead for Connection<S, K> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        match (&mut this.silent, read) {
            (Some(silent), Poll::Pending) => {
                ready!(silent.as_mut().poll(cx));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client says nothing")))
            }
            (_, Poll::Pending) => Poll::Pending,
            (_, read) => {
                this.silent = None;
                read
            }
        }
    }
}

impl<S: AsyncWrite + Unpin, K: Unpin> AsyncWrite for Connection<S, K> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.bounded(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
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
