//! Snapshots of a store. A reader gets a complete snapshot or an error, never a part of one without an error.
//!
//! A store shows its content at one moment through a [`SnapshotReader`](doppel_store::SnapshotReader). This crate cuts the content into
//! chunks (`chunk`) and writes the chunks to one of two places: a **repository** (`repository`), a directory that stores each chunk once
//! although several snapshots contain it, or a **stream** (`stream`), a single file. Both end with a **manifest** (`manifest`), which names
//! every chunk by the SHA-256 of its bytes and has a checksum. An incomplete snapshot has no manifest and does not count as a snapshot.
//!
//! **Incremental.** The keys in a chunk decide where the chunk ends. A range of keys in which nothing changed therefore gives the same
//! chunk in the next snapshot, even if pairs were inserted before the range, and the chunk is not written again. No snapshot depends on an
//! earlier snapshot, so that any snapshot can be removed.
//!
//! **Checked.** A reader ([`Snapshot`]) returns only keys and values of chunks whose bytes have the right hash, in the order in which they
//! were written. After the last piece, the manifest confirms that no chunk is missing. An error names the file.
//!
//! **Memory** is bounded by a few chunks. A chunk has at most 4 MiB, or one value if the value is larger.
//!
//! The crate reads no clock and depends on no particular store: the caller passes the time and the reader.

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
use std::path::{Path, PathBuf};

use doppel_store::StoreError;
use doppel_store::snapshot::{SnapshotMoment, SnapshotPiece};

pub use self::chunk::{ChunkId, MAX_STATED_BYTES};
pub use self::manifest::{ChunkEntry, Manifest, SnapshotId, SpaceEntry};
pub use self::repository::{ListedSnapshot, MOST_MANIFEST, PruneSummary, Repository, RepositoryWriter};
pub use self::stream::{StreamReader, StreamWriter};
pub use self::take::{SnapshotLabel, SnapshotProgress, SnapshotSink, TakenSnapshot, take};
pub use self::verify::{VerifiedTotals, verify, verify_all};

/// The reasons why a snapshot was not taken or cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file was changed or lost after it was written.
    #[error("{file} is damaged: {damage}")]
    Damaged {
        /// The path of the file or the name of the stream.
        file: String,
        /// The damage that was found.
        damage: String,
    },
    /// The operating system refused to read or write a file.
    #[error("{file}: {error}")]
    Io {
        /// The path of the file or the name of the stream.
        file: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Another thread or process uses the repository.
    #[error("{0}")]
    Busy(String),
    /// The request cannot be carried out, for example because the repository or the snapshot does not exist.
    #[error("{0}")]
    Refused(String),
    /// The caller stopped the snapshot.
    #[error(
        "the snapshot was stopped; the chunks that it wrote remain until the next snapshot uses them or prune removes them"
    )]
    Stopped,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    fn damaged(file: impl fmt::Display, damage: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_string(), damage: damage.into() }
    }

    /// Returns a function that makes an error from a description of the damage.
    fn damaged_at(path: PathBuf) -> impl Fn(&'static str) -> Self {
        move |damage| Self::damaged(path.display(), damage)
    }

    /// Returns a function that adds the path to an error of the operating system.
    fn io_at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { file: path.display().to_string(), error }
    }
}

/// A reader of a snapshot in a repository or in a stream. The iterator returns the pieces of the snapshot in order.
pub trait Snapshot: Iterator<Item = Result<SnapshotPiece>> {
    /// Returns the store of the snapshot, and its state at that moment.
    fn moment(&self) -> &SnapshotMoment;

    /// Returns the manifest, after the last piece was read without an error; `None` before. A manifest means that the snapshot is complete.
    fn manifest(&self) -> Option<&Manifest>;
}

/// Reaches a failpoint, at which a test can pause or stop the program. `snapshot::chunk` lies before a chunk is written,
/// `snapshot::manifest` before the manifest is written, `snapshot::prune` between the removal of snapshots and the removal of chunks.
fn reach_failpoint(name: &'static str) {
    #[cfg(feature = "failpoints")]
    fail::fail_point!(name);
    #[cfg(not(feature = "failpoints"))]
    let _ = name;
}
