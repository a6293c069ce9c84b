//! Takes a snapshot: reads a store, writes its chunks to a sink one after the other, and then writes the manifest.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::chunk::{ChunkContent, ChunkCutter, ChunkId};
use crate::manifest::{ChunkEntry, FORMAT, Manifest, SnapshotId, SpaceEntry};
use crate::{Error, Result};
use doppel_store::snapshot::{SnapshotMoment, SnapshotReader};

/// A destination of a snapshot. Each method fails if the destination cannot be written.
pub trait SnapshotSink {
    /// Begins a snapshot of a store at this moment.
    fn begin(&mut self, moment: &SnapshotMoment) -> Result<()>;

    /// Writes a chunk. Returns false if the destination had the chunk already.
    fn chunk(&mut self, space: &str, id: ChunkId, bytes: &[u8]) -> Result<bool>;

    /// Completes the snapshot. The snapshot is on disk when this returns. Returns the written manifest, which may have another id. After an
    /// error there is no snapshot.
    fn finish(&mut self, manifest: Manifest) -> Result<Manifest>;
}

/// The time and the author of a snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotLabel {
    /// The time at which the reader was made, RFC 3339 in UTC.
    pub taken_at: String,
    /// Name and version of the program.
    pub written_by: String,
}

/// The progress of a snapshot that is being taken, and the request to stop it. Threads share it.
#[derive(Debug, Default)]
pub struct SnapshotProgress {
    entries: AtomicU64,
    bytes: AtomicU64,
    new_bytes: AtomicU64,
    stop: AtomicBool,
}

impl SnapshotProgress {
    /// Number of pairs that were read from the store.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Number of bytes that were read from the store.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Number of bytes in the chunks that the destination did not have yet, compressed.
    pub fn new_bytes(&self) -> u64 {
        self.new_bytes.load(Ordering::Relaxed)
    }

    /// Requests that the snapshot stops.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The result of [`take`].
#[derive(Clone, Debug)]
pub struct TakenSnapshot {
    pub manifest: Manifest,
    /// Number of bytes in the chunks that the destination did not have before.
    pub new_bytes: u64,
    /// Number of chunks that the destination did not have before.
    pub new_chunks: u64,
}

/// Reads all pairs of `reader` and writes a snapshot to `sink`.
///
/// # Errors
/// [`Error::Store`] if the store cannot be read; [`Error::Io`] if the snapshot cannot be written; [`Error::Stopped`]. After an error there is
/// no snapshot.
pub fn take(
    reader: &mut dyn SnapshotReader,
    sink: &mut dyn SnapshotSink,
    label: SnapshotLabel,
    progress: &SnapshotProgress,
) -> Result<TakenSnapshot> {
    let store = reader.moment().clone();
    sink.begin(&store)?;
    let mut builder = SnapshotBuilder { sink, progress, spaces: Vec::new(), new_chunks: 0 };
    let mut cut: Vec<(&'static str, ChunkContent)> = Vec::new();
    let mut cutter = ChunkCutter::default();
    let mut space = "";
    loop {
        if progress.is_stopped() {
            return Err(Error::Stopped);
        }
        let is_more = reader.read(&mut |in_space, key, value| {
            if in_space != space {
                cut.extend(cutter.end().map(|content| (space, content)));
                space = in_space;
            }
            cut.extend(cutter.add(key, value).map(|content| (space, content)));
        })?;
        if !is_more {
            cut.extend(cutter.end().map(|content| (space, content)));
        }
        for (space, content) in cut.drain(..) {
            builder.add_chunk(space, &content)?;
        }
        if !is_more {
            break;
        }
    }
    let SnapshotBuilder { sink, spaces, new_chunks, .. } = builder;
    let id = SnapshotId::at(&label.taken_at).map_err(Error::Refused)?;
    let SnapshotLabel { taken_at, written_by } = label;
    let manifest = sink.finish(Manifest { format: FORMAT, id, taken_at, written_by, store, spaces })?;
    Ok(TakenSnapshot { manifest, new_bytes: progress.new_bytes(), new_chunks })
}

/// The destination, and the chunks that were written to it.
struct SnapshotBuilder<'a> {
    sink: &'a mut dyn SnapshotSink,
    progress: &'a SnapshotProgress,
    spaces: Vec<SpaceEntry>,
    new_chunks: u64,
}

impl SnapshotBuilder<'_> {
    fn add_chunk(&mut self, space: &str, content: &ChunkContent) -> Result<()> {
        let bytes = content.encode();
        let id = ChunkId::of_bytes(&bytes);
        let stored = bytes.len() as u64;
        crate::reach_failpoint("snapshot::chunk");
        // One read of the store may give several chunks, so that the request to stop is checked again for each chunk.
        if self.progress.is_stopped() {
            return Err(Error::Stopped);
        }
        if self.sink.chunk(space, id, &bytes)? {
            self.new_chunks += 1;
            self.progress.new_bytes.fetch_add(stored, Ordering::Relaxed);
        }
        self.progress.entries.fetch_add(content.entries, Ordering::Relaxed);
        self.progress.bytes.fetch_add(content.len(), Ordering::Relaxed);
        if self.spaces.last().is_none_or(|last| last.name != space) {
            self.spaces.push(SpaceEntry { name: space.to_owned(), chunks: Vec::new() });
        }
        let entry = ChunkEntry { sha256: id, entries: content.entries, bytes: content.len(), stored };
        if let Some(last) = self.spaces.last_mut() {
            last.chunks.push(entry);
        }
        Ok(())
    }
}
