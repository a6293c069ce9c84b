//! Reads pipes and devices, which may deliver nothing for ever, so that a signal ends the wait.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Number of bytes that are read at a time: as many as a pipe of Linux holds.
const BLOCK_BYTES: usize = 1 << 16;
/// Time between two looks at the flag while a pipe delivers nothing.
const LOOK: Duration = Duration::from_millis(100);

/// The bytes of a pipe, which another thread reads.
pub(super) struct PipeReader {
    blocks: Receiver<io::Result<Vec<u8>>>,
    /// The block that is being read.
    block: io::Cursor<Vec<u8>>,
    stopped: Arc<AtomicBool>,
}

impl PipeReader {
    /// Opens and reads a pipe on another thread. Reading fails after `stopped` is set. Opening also waits: for a program that writes.
    pub(super) fn start<R: Read>(
        open: impl FnOnce() -> io::Result<R> + Send + 'static,
        stopped: &Arc<AtomicBool>,
    ) -> Self {
        let (sender, blocks) = sync_channel(1);
        std::thread::spawn(move || {
            let ended = open().and_then(|pipe| send_blocks(pipe, &sender));
            // The reader may be gone.
            ended.or_else(|error| sender.send(Err(error))).ok();
        });
        Self { blocks, block: io::Cursor::default(), stopped: Arc::clone(stopped) }
    }
}

/// Sends the bytes of a pipe until its end, or until the receiver is gone.
fn send_blocks(mut pipe: impl Read, blocks: &SyncSender<io::Result<Vec<u8>>>) -> io::Result<()> {
    loop {
        let block = read_block(&mut pipe)?;
        if block.is_empty() || blocks.send(Ok(block)).is_err() {
            return Ok(());
        }
    }
}

/// Reads the next bytes; none at the end.
fn read_block(pipe: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        match pipe.read(&mut block) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => {
                block.truncate(read?);
                return Ok(block);
            }
        }
    }
}

impl Read for PipeReader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.block.position() == self.block.get_ref().len() as u64 {
            if self.stopped.load(Ordering::Relaxed) {
                return Err(io::Error::other("stopped by a signal"));
            }
            match self.blocks.recv_timeout(LOOK) {
                Ok(block) => self.block = io::Cursor::new(block?),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
        self.block.read(to)
    }
}
