//! Takes a snapshot of a running service.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail};
use reqwest::Url;
use serde_json::json;

use super::size;
use crate::client::{self, ServiceClient, TlsArgs};
use crate::progress::CommandProgress;
use crate::tell;
use doppel_snapshot::{Snapshot as _, StreamReader, VerifiedTotals, verify};
use doppel_store_embedded::RestoreCheck;

/// Time in which the service must send the next piece of a stream.
const SILENCE: Duration = Duration::from_secs(60);
/// Interval at which the progress is read.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Number of pieces of a stream that may wait for their verification.
const AHEAD: usize = 8;

/// The calls to a service about a snapshot.
pub(super) struct SnapshotClient {
    service: ServiceClient,
}

impl SnapshotClient {
    /// Prepares the calls.
    pub(super) fn open(url: &Url, key_file: Option<&Path>, trust: &TlsArgs) -> anyhow::Result<Self> {
        Ok(Self { service: ServiceClient::at(url, key_file, trust)? })
    }

    /// Makes the service take a snapshot into its own directory, and waits for its end.
    pub(super) fn take(&self, progress: &CommandProgress) -> anyhow::Result<()> {
        let begun = self.service.post("/v1/admin/snapshots", &json!({}))?;
        loop {
            let run = self.service.get("/v1/admin/snapshots")?["run"].take();
            if run["taken_at"] != begun["taken_at"] {
                bail!("another snapshot was begun since; doppel snapshot list shows all snapshots");
            }
            let bytes = run["bytes"].as_u64().unwrap_or(0);
            let new = run["new_bytes"].as_u64().unwrap_or(0);
            match run["status"].as_str() {
                Some("processing") => {
                    progress.told(bytes, format!("{} read, {} written", size(bytes), size(new)));
                    std::thread::sleep(LOOK_EVERY);
                }
                Some("succeeded") => {
                    progress.finish();
                    let id = run["id"].as_str().unwrap_or_default();
                    let records = run["records"].as_u64().unwrap_or(0);
                    tell(&format!("snapshot {id}: {records} records, {} read, {} written", size(bytes), size(new)));
                    return Ok(());
                }
                Some("failed") => {
                    bail!("the snapshot failed: {}", run["error"].as_str().unwrap_or("see the service's log"))
                }
                _ => bail!("the snapshot was stopped"),
            }
        }
    }

    /// Makes the service send a snapshot, which is written to `out` and verified at the same time.
    pub(super) fn stream(&self, out: &mut dyn Write, progress: &CommandProgress) -> anyhow::Result<VerifiedTotals> {
        let (sender, receiver) = sync_channel(AHEAD);
        let verifying = std::thread::Builder::new().name("verify".into()).spawn(move || {
            let receiving = PieceReader { receiver, piece: Vec::new(), at: 0 };
            let snapshot = StreamReader::new(receiving, "the stream of the service")?;
            let mut check = RestoreCheck::new(snapshot.moment())?;
            let verified = verify(snapshot, &mut |piece| Ok(check.piece(piece)?))?;
            check.end()?;
            Ok(verified)
        })?;
        let received = self.service.runtime().block_on(self.receive(out, sender, progress));
        let verified = joined(verifying);
        // The reason for the interruption is more useful than the error that the stream was cut off.
        received?;
        verified
    }

    async fn receive(
        &self,
        out: &mut dyn Write,
        verify: SyncSender<Vec<u8>>,
        progress: &CommandProgress,
    ) -> anyhow::Result<()> {
        let url = self.service.url();
        let mut answer = self.service.stream("/v1/admin/snapshots/stream").await?;
        let mut bytes = 0;
        loop {
            let piece = tokio::time::timeout(SILENCE, answer.chunk()).await;
            let piece = piece.with_context(|| format!("{url} has stopped sending"))?;
            let piece = piece.map_err(|error| {
                anyhow::anyhow!(
                    "the stream of {url} was cut off ({}); the service's log may say why",
                    client::cause(&error)
                )
            })?;
            let Some(piece) = piece else { return out.flush().context("cannot write it") };
            out.write_all(&piece).context("cannot write it")?;
            bytes += piece.len() as u64;
            progress.told(bytes, "received".into());
            // The verifier has found a fault, which is reported at the end.
            if verify.send(piece.to_vec()).is_err() {
                return Ok(());
            }
        }
    }
}

fn joined(verifying: JoinHandle<doppel_snapshot::Result<VerifiedTotals>>) -> anyhow::Result<VerifiedTotals> {
    match verifying.join() {
        Ok(verified) => Ok(verified?),
        Err(_) => bail!("the verification ended too early"),
    }
}

/// Reads the received pieces of a stream.
struct PieceReader {
    receiver: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
}

impl Read for PieceReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            match self.receiver.recv() {
                Ok(piece) => (self.piece, self.at) = (piece, 0),
                Err(_) => return Ok(0),
            }
        }
        let read = (&self.piece[self.at..]).read(into)?;
        self.at += read;
        Ok(read)
    }
}
