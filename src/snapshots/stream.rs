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
/// How long a piece may wait for a reader that takes nothing, and how long all of a stream may take: a hundred gigabytes over a line
/// of 20 Mbit/s. Meanwhile no other snapshot is taken.
const MOST_STALLED: Duration = Duration::from_secs(60);
const MOST_TAKEN: Duration = Duration::from_secs(12 * 3_600);

/// Both ends of a stream, of which `stopped` ends either.
pub(super) fn stream(stopped: CancellationToken) -> (Sending, oneshot::Sender<Result<(), String>>, Streamed) {
    let (pieces, received) = mpsc::channel(AHEAD);
    let (say_end, end) = oneshot::channel();
    let sending =
        Sending { pieces, runtime: Handle::current(), until: Instant::now() + MOST_TAKEN, stopped: stopped.clone() };
    (sending, say_end, Streamed { pieces: received, end: Some(end), stopped })
}

/// Where the bytes of a stream go; waits for who reads them. For a thread that is none of the runtime's.
pub(super) struct Sending {
    pieces: mpsc::Sender<Bytes>,
    runtime: Handle,
    until: Instant,
    stopped: CancellationToken,
}

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let late = self.until.min(Instant::now() + MOST_STALLED);
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
