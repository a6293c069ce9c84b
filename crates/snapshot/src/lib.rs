//! Snapshots of a store, kept so that each is whole or refused.
//!
//! What a store shows of one moment ([`SnapshotReader`](doppel_store::SnapshotReader)) is cut into chunks (`chunk`) and written
//! either into a **repository** (`repository`), a directory in which every chunk is kept once however many snapshots have it, or
//! into a **stream** (`stream`), one file that needs nothing else. Both end with a **manifest** (`manifest`), which names every
//! chunk by the SHA-256 of its bytes and has a checksum of its own: what was cut short has none, and is no snapshot.
//!
//! **Incremental.** Where a chunk ends is decided by the keys in it. A range of keys in which nothing has changed is the same
//! chunk in the next snapshot, whatever was inserted before it, and is not written again. Every snapshot is whole all the same:
//! none depends on an earlier one, and any may be removed.
//!
//! **Checked.** Whoever reads ([`Snapshot`]) gets keys and values only of chunks whose bytes have their hash, in the order in
//! which they were written, and learns at the end that they were all there. An error names the file.
//!
//! **Memory** is bounded by some chunks, of 4 MiB or of a single value where that is larger.
//!
//! Reads no clock and knows no store: whoever calls gives the time and what is read.

mod chunk;
mod files;
mod lock;
mod manifest;
mod repository;
mod stream;
mod take;
mod verify;

use std::fmt;
use std::io;
use std::path::Path;

use doppel_store::StoreError;
use doppel_store::snapshot::{Moment, Piece};

pub use self::chunk::ChunkId;
pub use self::manifest::{ChunkEntry, Manifest, SnapshotId, SpaceEntry};
pub use self::repository::{Listed, Pruned, Repository, Writer};
pub use self::stream::{StreamReader, StreamWriter};
pub use self::take::{Label, Progress, Sink, Taken, take};
pub use self::verify::{Verified, verify, verify_all};

/// Why a snapshot was not taken, or is refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was written is not there any more as it was.
    #[error("{what} is damaged: {how}")]
    Damaged {
        /// Which file.
        what: String,
        /// What is wrong with it.
        how: String,
    },
    /// A file cannot be read or written.
    #[error("{what}: {error}")]
    Io {
        /// Which one.
        what: String,
        /// Why.
        error: io::Error,
    },
    /// Somebody else works in the repository.
    #[error("{0}")]
    Busy(String),
    /// It cannot be done as asked.
    #[error("{0}")]
    Refused(String),
    /// Whoever asked for it has stopped it.
    #[error("it was stopped; nothing is left of it but chunks that the next snapshot uses or prune removes")]
    Stopped,
}

/// Shorthand.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    fn damaged(what: impl fmt::Display, how: impl Into<String>) -> Self {
        Self::Damaged { what: what.to_string(), how: how.into() }
    }

    fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { what: path.display().to_string(), error }
    }
}

/// A snapshot that is read, wherever it is kept: first its moment, then its pieces in order.
pub trait Snapshot: Iterator<Item = Result<Piece>> {
    /// Of which store, and when.
    fn moment(&self) -> &Moment;

    /// Its manifest, once the last piece was read without an error: then everything was there, and whole.
    fn manifest(&self) -> Option<&Manifest>;
}

/// A failpoint: pauses, stops or does nothing. `snapshot::chunk` is before a chunk is written, `snapshot::manifest` before the
/// manifest is, `snapshot::prune` between the removal of snapshots and that of chunks.
fn point(name: &'static str) {
    #[cfg(feature = "failpoints")]
    fail::fail_point!(name);
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}
