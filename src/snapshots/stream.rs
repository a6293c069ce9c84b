//! A snapshot on its way to whoever reads it.
//!
//! It has the only turn, so it may not last as long as its reader likes: each piece must be taken in time, and all of them.

use std::io::{self, Write};
use std::time::Duration;

use axum::body::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Bytes of a stream that are sent at once, and how many of these wait for the connection.
pub(super) const SENT_AT_ONCE: usize = 256 << 10;
const AHEAD: usize = 4;
/// How long a reader may take: a piece waits a minute for one that takes nothing, and all of them may take as long as a hundred gigabytes
/// need over a line of 20 Mbit/s. Meanwhile no other snapshot is taken.
pub(super) const LIMITS: Limits = Limits { stalled: Duration::from_secs(60), taken: Duration::from_secs(12 * 3_600) };

/// How long a reader may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Over one piece.
    stalled: Duration,
    /// Over all of them.
    taken: Duration,
}

/// Both ends of a stream, of which `stopped` ends either.
pub(super) fn stream(
    stopped: CancellationToken,
    limits: Limits,
) -> (Sending, oneshot::Sender<Result<(), String>>, Streamed) {
    let (pieces, received) = mpsc::channel(AHEAD);
    let (say_end, end) = oneshot::channel();
    let (runtime, until) = (Handle::current(), Instant::now() + limits.taken);
    let sending = Sending { pieces, runtime, stalled: limits.stalled, until, stopped: stopped.clone() };
    (sending, say_end, Streamed { pieces: received, end: Some(end), stopped })
}

/// Where the bytes of a stream go; waits for who reads them. For a thread that is none of the runtime's.
pub(super) struct Sending {
    pieces: mpsc::Sender<Bytes>,
    runtime: Handle,
    stalled: Duration,
    until: Instant,
    stopped: CancellationToken,
}

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let late = self.until.min(Instant::now() + self.stalled);
        let sent = self.runtime.block_on(async {
            tokio::select! {
                sent = self.pieces.send(Bytes::copy_from_slice(bytes)) => sent.map_err(|_| "whoever read it has hung up"),
                () = self.stopped.cancelled() => Err("it was stopped"),
                () = tokio::time::sleep_until(late) => Err("whoever reads it takes too long; other snapshots wait for it"),
            }
        });
        sent.map(|()| bytes.len()).map_err(|why| io::Error::new(io::ErrorKind::BrokenPipe, why))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes of a snapshot as they are read.
pub struct Streamed {
    pieces: mpsc::Receiver<Bytes>,
    /// How it ended; taken when that was told.
    end: Option<oneshot::Receiver<Result<(), String>>>,
    stopped: CancellationToken,
}

impl Streamed {
    /// The next piece. `None` is the end of a whole one; one that is not whole ends with an error. Nothing is lost when this is dropped
    /// before it is done.
    pub async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let end = self.end.as_mut()?;
        let ended = tokio::select! {
            biased;
            () = self.stopped.cancelled() => Err("it was stopped".to_owned()),
            piece = self.pieces.recv() => match piece {
                Some(piece) => return Some(Ok(piece)),
                None => end.await.unwrap_or_else(|_| Err("it ended before it was done; see the log".to_owned())),
            },
        };
        self.end = None;
        ended.err().map(|why| Err(io::Error::other(why)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends without end, on a thread as it is for a snapshot; why that ended.
    async fn sent_until_it_ended(mut sending: Sending) -> String {
        let (say, ended) = oneshot::channel();
        std::thread::spawn(move || {
            let error = std::iter::repeat_with(|| sending.write(b"piece")).find_map(Result::err);
            say.send(error.expect("it ends").to_string())
        });
        ended.await.expect("it says why")
    }

    const SHORT: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn a_reader_that_takes_nothing_does_not_hold_it_for_ever() {
        let (sending, _end, _streamed) = stream(CancellationToken::new(), Limits { stalled: SHORT, ..LIMITS });
        assert!(sent_until_it_ended(sending).await.contains("takes too long"));
    }

    #[tokio::test]
    async fn a_reader_that_takes_a_piece_now_and_then_neither() {
        let (sending, _end, mut streamed) = stream(CancellationToken::new(), Limits { taken: SHORT, ..LIMITS });
        let reading = async {
            while streamed.next().await.is_some_and(|piece| piece.is_ok()) {
                tokio::time::sleep(SHORT / 10).await;
            }
        };
        tokio::select! {
            why = sent_until_it_ended(sending) => assert!(why.contains("takes too long"), "{why}"),
            () = reading => unreachable!("it is not told of an end"),
        }
    }

    #[tokio::test]
    async fn it_ends_for_both_when_it_is_stopped() {
        let stopped = CancellationToken::new();
        let (sending, _end, mut streamed) = stream(stopped.clone(), LIMITS);
        stopped.cancel();
        assert!(streamed.next().await.is_some_and(|piece| piece.is_err()), "what is not whole ends with an error");
        assert!(streamed.next().await.is_none());
        assert!(sent_until_it_ended(sending).await.contains("stopped"));
    }

    #[tokio::test]
    async fn one_whose_thread_is_gone_before_it_said_how_it_ended_is_not_whole() {
        let (sending, end, mut streamed) = stream(CancellationToken::new(), LIMITS);
        drop((sending, end));
        assert!(streamed.next().await.is_some_and(|piece| piece.is_err()));
    }
}
