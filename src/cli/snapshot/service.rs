//! A running service that is asked for a snapshot.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, bail};
use reqwest::{Method, Url};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::{say, size};
use crate::cli::client::{self, Fault, Identification, Trust};
use crate::cli::key;
use crate::cli::progress::Progress;
use doppel_snapshot::{StreamReader, Verified, verify};

/// How long the service may take to answer, and to send the next piece of a stream.
const SILENCE: Duration = Duration::from_secs(60);
/// How often to look how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Pieces of a stream that wait to be verified.
const AHEAD: usize = 8;

/// See the module.
pub(super) struct Service {
    base: String,
    client: reqwest::Client,
    runtime: Runtime,
}

impl Service {
    /// Makes ready to call.
    pub(super) fn open(url: &Url, key_file: Option<&Path>, trust: &Trust) -> anyhow::Result<Self> {
        let client = client::client(url, key(key_file)?.as_deref(), trust, Identification::Required)?;
        let runtime = client::runtime()?;
        Ok(Self { base: url.as_str().trim_end_matches('/').to_owned(), client, runtime })
    }

    /// Has the service take a snapshot into its own directory, and waits for its end.
    pub(super) fn take(&self, progress: &Progress) -> anyhow::Result<()> {
        let begun = self.json(Method::POST, "/v1/admin/snapshots")?;
        loop {
            let run = self.json(Method::GET, "/v1/admin/snapshots")?["run"].take();
            if run["taken_at"] != begun["taken_at"] {
                bail!("another snapshot was begun since; doppel snapshot list shows which there are");
            }
            let (bytes, new) = (run["bytes"].as_u64().unwrap_or(0), run["new_bytes"].as_u64().unwrap_or(0));
            match run["status"].as_str() {
                Some("processing") => {
                    progress.told(bytes, format!("{} read, {} written", size(bytes), size(new)));
                    std::thread::sleep(LOOK_EVERY);
                }
                Some("succeeded") => {
                    progress.finish();
                    let id = run["id"].as_str().unwrap_or_default();
                    let records = run["records"].as_u64().unwrap_or(0);
                    say(&format!("snapshot {id}: {records} records, {} read, {} written", size(bytes), size(new)));
                    return Ok(());
                }
                Some("failed") => {
                    bail!("the snapshot failed: {}", run["error"].as_str().unwrap_or("see the service's log"))
                }
                _ => bail!("the snapshot was stopped"),
            }
        }
    }

    /// Has the service send a snapshot, which is written to `out` and verified at the same time.
    pub(super) fn stream(&self, out: &mut dyn Write, progress: &Progress) -> anyhow::Result<Verified> {
        let (sender, receiver) = sync_channel(AHEAD);
        let verifying = std::thread::Builder::new().name("verify".into()).spawn(move || {
            verify(StreamReader::new(Receiving { receiver, piece: Vec::new(), at: 0 }, "the stream of the service")?)
        })?;
        let received = self.runtime.block_on(self.receive(out, sender, progress));
        let verified = joined(verifying);
        // Why it was cut off says more than that it was.
        received?;
        verified
    }

    async fn receive(
        &self,
        out: &mut dyn Write,
        verify: SyncSender<Vec<u8>>,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let sent = self.client.get(format!("{}/v1/admin/snapshots/stream", self.base)).send();
        let mut answer = self.answered(sent).await?;
        let mut bytes = 0;
        loop {
            let piece = tokio::time::timeout(SILENCE, answer.chunk()).await;
            let piece = piece.with_context(|| format!("{} sends nothing any more", self.base))?;
            let cut = |error: reqwest::Error| {
                anyhow::anyhow!(
                    "the stream of {} was cut off ({}); the service's log may say why",
                    self.base,
                    explain(&error)
                )
            };
            let Some(piece) = piece.map_err(cut)? else { return out.flush().context("cannot write it") };
            out.write_all(&piece).context("cannot write it")?;
            bytes += piece.len() as u64;
            progress.told(bytes, "received".into());
            // It has found something wrong, which is told at the end.
            if verify.send(piece.to_vec()).is_err() {
                return Ok(());
            }
        }
    }

    fn json(&self, method: Method, path: &str) -> anyhow::Result<Value> {
        let call = async {
            let request = self.client.request(method, format!("{}{path}", self.base)).timeout(SILENCE);
            let answer = self.answered(request.send()).await?;
            let body = answer.bytes().await.map_err(|error| anyhow::anyhow!("{}: {}", self.base, explain(&error)))?;
            serde_json::from_slice(&body).with_context(|| self.foreign())
        };
        self.runtime.block_on(call)
    }

    fn foreign(&self) -> String {
        format!("what answers at {} is not doppel", self.base)
    }

    /// The answer, if it is a good one.
    async fn answered(
        &self,
        sent: impl Future<Output = reqwest::Result<reqwest::Response>>,
    ) -> anyhow::Result<reqwest::Response> {
        let sent = tokio::time::timeout(SILENCE, sent).await;
        let sent = sent.with_context(|| format!("{} does not answer", self.base))?;
        let answer = sent.map_err(|error| anyhow::anyhow!("{} cannot be reached: {}", self.base, explain(&error)))?;
        let status = answer.status().as_u16();
        if (200..300).contains(&status) {
            return Ok(answer);
        }
        let body = answer.bytes().await.unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).with_context(|| self.foreign())?;
        bail!("{} refuses ({status}): {}", self.base, body["detail"].as_str().unwrap_or("no reason given"))
    }
}

/// Why a service could not be called, and what helps where that is known.
fn explain(error: &reqwest::Error) -> String {
    match client::fault(error) {
        Fault::Untrusted(reason, remedy) => format!("its certificate is not trusted: {reason}; {remedy}"),
        Fault::Unreached(reason) | Fault::Broken(reason) => reason,
    }
}

fn joined(verifying: JoinHandle<doppel_snapshot::Result<Verified>>) -> anyhow::Result<Verified> {
    match verifying.join() {
        Ok(verified) => Ok(verified?),
        Err(_) => bail!("verifying it ended before it was done"),
    }
}

/// Reads what is received.
struct Receiving {
    receiver: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
}

impl Read for Receiving {
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
