//! A snapshot that is sent to a client.
//!
//! Only one snapshot is taken at a time. The client must therefore read each piece within a time limit, and all pieces within another.

use std::io::{self, Write};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Size in bytes of the pieces of a stream.
pub(super) const SENT_AT_ONCE: usize = 256 << 10;
/// Number of pieces that may wait for the connection.
const AHEAD: usize = 4;
/// The time limits for a client: a minute for one piece, and for all pieces the time in which a line of 20 Mbit/s transfers a hundred
/// gigabytes. No other snapshot is taken during this time.
pub(super) const LIMITS: StreamLimits =
    StreamLimits { stalled: Duration::from_secs(60), taken: Duration::from_secs(12 * 3_600) };

/// The time limits for a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamLimits {
    /// The limit for one piece.
    stalled: Duration,
    /// The limit for all pieces.
    taken: Duration,
}

/// Makes both ends of a stream. `stopped` ends both.
pub(super) fn stream(
    stopped: CancellationToken,
    limits: StreamLimits,
) -> (SnapshotSender, oneshot::Sender<Result<(), String>>, SnapshotReceiver) {
    let (pieces, received) = mpsc::channel(AHEAD);
    let (say_end, end) = oneshot::channel();
    let runtime = Handle::current();
    let until = Instant::now() + limits.taken;
    let sending = SnapshotSender { pieces, runtime, stalled: limits.stalled, until, stopped: stopped.clone() };
    (sending, say_end, SnapshotReceiver { pieces: received, end: Some(end), stopped })
}

/// The writing end of a stream, which waits for the client. It must be used on a thread outside the tokio runtime.
pub(super) struct SnapshotSender {
    pieces: mpsc::Sender<Bytes>,
    runtime: Handle,
    stalled: Duration,
    until: Instant,
    stopped: CancellationToken,
}

impl Write for SnapshotSender {
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

/// The reading end of a stream.
pub struct SnapshotReceiver {
    pieces: mpsc::Receiver<Bytes>,
    /// Receives the result of the snapshot; `None` after it was received.
    end: Option<oneshot::Receiver<Result<(), String>>>,
    stopped: CancellationToken,
}

impl SnapshotReceiver {
    /// Returns the next piece; `None` at the end of a complete snapshot. An incomplete snapshot ends with an error. Dropping the future
    /// before it is ready loses nothing.
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

    /// Sends pieces forever, on a thread like that of a snapshot, and returns the error that ended it.
    async fn sent_until_it_ended(mut sending: SnapshotSender) -> String {
        let (say, ended) = oneshot::channel();
        std::thread::spawn(move || {
            let error = std::iter::repeat_with(|| sending.write(b"piece")).find_map(Result::err);
            say.send(error.expect("it ends").to_string())
        });
        ended.await.expect("it says why")
    }

    const SHORT: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn a_client_that_reads_nothing_does_not_block_the_snapshot_forever() {
        let (sending, _end, _streamed) = stream(CancellationToken::new(), StreamLimits { stalled: SHORT, ..LIMITS });
        assert!(sent_until_it_ended(sending).await.contains("takes too long"));
    }

    #[tokio::test]
    async fn a_client_that_reads_a_piece_now_and_then_does_not_block_it_forever() {
        let (sending, _end, mut streamed) = stream(CancellationToken::new(), StreamLimits { taken: SHORT, ..LIMITS });
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
    async fn stopping_ends_the_stream_for_both_ends() {
        let stopped = CancellationToken::new();
        let (sending, _end, mut streamed) = stream(stopped.clone(), LIMITS);
        stopped.cancel();
        assert!(streamed.next().await.is_some_and(|piece| piece.is_err()), "what is not whole ends with an error");
        assert!(streamed.next().await.is_none());
        assert!(sent_until_it_ended(sending).await.contains("stopped"));
    }

    #[tokio::test]
    async fn a_stream_whose_thread_ends_without_a_result_is_incomplete() {
        let (sending, end, mut streamed) = stream(CancellationToken::new(), LIMITS);
        drop((sending, end));
        assert!(streamed.next().await.is_some_and(|piece| piece.is_err()));
    }
}
