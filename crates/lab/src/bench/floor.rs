//! The smallest cost of a durable write: one thread appends bytes to a file and syncs them in groups.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::thread::JoinHandle;

use bytes::Bytes;
use tokio::sync::oneshot;

/// Largest number of entries in a group. In these measurements, fewer entries wait at the same time.
const GROUP: usize = 1024;

type AppendRequest = (Bytes, oneshot::Sender<io::Result<()>>);

/// A file with group commit for appended bytes. Its thread ends when the last clone is dropped.
#[derive(Clone)]
pub(super) struct GroupCommitFile(crossbeam_channel::Sender<AppendRequest>);

impl GroupCommitFile {
    /// Starts the thread for a new file at `path`. The thread ends after the last clone is dropped.
    pub(super) fn create(path: &Path) -> io::Result<(Self, JoinHandle<()>)> {
        let mut file = File::create(path)?;
        let (sender, receiver) = crossbeam_channel::bounded::<AppendRequest>(GROUP);
        let writer = std::thread::Builder::new().name("bench-floor".into()).spawn(move || {
            let mut bytes = Vec::new();
            let mut waiting = Vec::new();
            while let Ok(first) = receiver.recv() {
                for (entry, answer) in std::iter::once(first).chain(receiver.try_iter().take(GROUP - 1)) {
                    bytes.extend_from_slice(&entry);
                    waiting.push(answer);
                }
                let written = file.write_all(&bytes).and_then(|()| file.sync_data()).map_err(|error| error.kind());
                bytes.clear();
                for answer in waiting.drain(..) {
                    // When the measured time is over, nobody waits for the result.
                    let _ = answer.send(written.map_err(io::Error::from));
                }
            }
        })?;
        Ok((Self(sender), writer))
    }

    /// Appends `bytes` and waits until they are on disk.
    pub(super) async fn append(&self, bytes: Bytes) -> io::Result<()> {
        let (answer, answered) = oneshot::channel();
        self.0.send((bytes, answer)).map_err(|_| writer_ended())?;
        answered.await.map_err(|_| writer_ended())?
    }
}

fn writer_ended() -> io::Error {
    io::Error::other("the writer thread has ended")
}
