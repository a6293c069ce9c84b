//! Takes a snapshot: reads a store and hands chunk after chunk to where they are kept, then the manifest.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::chunk::{ChunkId, Content, Cutter};
use crate::manifest::{ChunkEntry, FORMAT, Manifest, SnapshotId, SpaceEntry};
use crate::{Error, Result};
use doppel_store::snapshot::{Moment, SnapshotReader};

/// Where a snapshot is kept.
pub trait Sink {
    /// What comes before all chunks.
    ///
    /// # Errors
    /// When it cannot be written.
    fn begin(&mut self, moment: &Moment) -> Result<()>;

    /// Takes a chunk; whether it was not there yet.
    ///
    /// # Errors
    /// When it cannot be written.
    fn chunk(&mut self, space: &str, id: ChunkId, bytes: &[u8]) -> Result<bool>;

    /// Makes a snapshot of the chunks taken, on disk when this returns; returns the manifest as it was written.
    ///
    /// # Errors
    /// When it cannot be written: then there is no snapshot.
    fn finish(&mut self, manifest: Manifest) -> Result<Manifest>;
}

/// What a snapshot is called.
#[derive(Clone, Debug)]
pub struct Label {
    /// When its reader was made, RFC 3339 in UTC.
    pub taken_at: String,
    /// The program, with its version.
    pub written_by: String,
}

/// How far it is; and whether it is to stop.
#[derive(Debug, Default)]
pub struct Progress {
    entries: AtomicU64,
    bytes: AtomicU64,
    new_bytes: AtomicU64,
    stop: AtomicBool,
}

impl Progress {
    /// Pairs of the store that were read.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Bytes that were read.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that were written, compressed: what was not there yet.
    pub fn new_bytes(&self) -> u64 {
        self.new_bytes.load(Ordering::Relaxed)
    }

    /// Asks it to stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A snapshot that was taken.
#[derive(Clone, Debug)]
pub struct Taken {
    /// What it consists of.
    pub manifest: Manifest,
    /// Bytes written for it: what was not there yet.
    pub new_bytes: u64,
    /// Chunks written for it.
    pub new_chunks: u64,
}

/// Reads all of `reader` into `sink`.
///
/// # Errors
/// The store's, where it cannot be read; [`Error::Io`] where the snapshot cannot be written; [`Error::Stopped`]. Then there is no
/// snapshot.
pub fn take(reader: &mut dyn SnapshotReader, sink: &mut dyn Sink, label: Label, progress: &Progress) -> Result<Taken> {
    let store = reader.moment().clone();
    sink.begin(&store)?;
    let mut taking = Taking { sink, progress, spaces: Vec::new(), new_chunks: 0 };
    let mut cut: Vec<(&'static str, Content)> = Vec::new();
    let (mut cutter, mut space) = (Cutter::default(), "");
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
            taking.chunk(space, &content)?;
        }
        if !is_more {
            break;
        }
    }
    let Taking { sink, spaces, new_chunks, .. } = taking;
    let id = SnapshotId::at(&label.taken_at).map_err(Error::Refused)?;
    let Label { taken_at, written_by } = label;
    let manifest = sink.finish(Manifest { format: FORMAT, id, taken_at, written_by, store, spaces })?;
    Ok(Taken { manifest, new_bytes: progress.new_bytes(), new_chunks })
}

/// What was handed on so far.
struct Taking<'a> {
    sink: &'a mut dyn Sink,
    progress: &'a Progress,
    spaces: Vec<SpaceEntry>,
    new_chunks: u64,
}

impl Taking<'_> {
    fn chunk(&mut self, space: &str, content: &Content) -> Result<()> {
        let bytes = content.encode();
        let (id, stored) = (ChunkId::of(&bytes), bytes.len() as u64);
        crate::point("snapshot::chunk");
        // What is read at once may be several chunks.
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
