//! Reads snapshots back, without making anything of them.

use std::collections::HashMap;

use crate::chunk::{self, ChunkId};
use crate::manifest::{Manifest, SnapshotId};
use crate::repository::{Listed, Repository};
use crate::{Error, Result, Snapshot};
use doppel_store::snapshot::{Entries, Piece};

/// What was read of a snapshot that is whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Pairs.
    pub entries: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// Whether pairs come in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    space: String,
    last: Option<Vec<u8>>,
}

impl Order {
    /// Takes the next of a space.
    pub(crate) fn follow(&mut self, space: &str, entries: &Entries) -> Result<(), String> {
        if self.space != space {
            (self.space, self.last) = (space.to_owned(), None);
        }
        let mut last = self.last.as_deref();
        for (key, _) in entries {
            if key.is_empty() {
                return Err("it has an empty key".into());
            }
            if last.is_some_and(|last| last >= key.as_slice()) {
                return Err("its keys are not in order".into());
            }
            last = Some(key);
        }
        if let Some((key, _)) = entries.last() {
            self.last = Some(key.clone());
        }
        Ok(())
    }
}

/// Reads a snapshot to its end, and hands each piece to `check`.
///
/// # Errors
/// The first thing that is not as it was written, by the name of its file; an error of `check`.
pub fn verify(mut snapshot: impl Snapshot, check: &mut dyn FnMut(&Piece) -> Result<()>) -> Result<Verified> {
    let mut verified = Verified::default();
    for piece in snapshot.by_ref() {
        let piece = piece?;
        check(&piece)?;
        verified.entries += piece.entries.len() as u64;
        verified.bytes += piece.entries.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
    }
    match snapshot.manifest() {
        Some(_) => Ok(verified),
        None => Err(Error::damaged("the snapshot", "it has no end")),
    }
}

/// What a chunk was found to be.
struct Facts {
    entries: u64,
    bytes: u64,
    /// The first and the last key.
    keys: Option<(Vec<u8>, Vec<u8>)>,
}

/// Reads every snapshot of a repository, each chunk once; for each what is wrong with it, oldest first.
///
/// # Errors
/// When the directory cannot be read; [`Error::Busy`] while snapshots are being removed.
pub fn verify_all(repository: &Repository, told: &mut dyn FnMut(u64)) -> Result<Vec<(SnapshotId, Result<Verified>)>> {
    let _held = repository.hold()?;
    let mut known = HashMap::new();
    let mut read = 0;
    let listed = repository.list()?;
    let mut each = |Listed { id, manifest }| {
        let verified = manifest.and_then(|manifest| {
            one(repository, &manifest, &mut known, &mut |bytes| {
                read += bytes;
                told(read);
            })
        });
        (id, verified)
    };
    Ok(listed.into_iter().map(&mut each).collect())
}

fn one(
    repository: &Repository,
    manifest: &Manifest,
    known: &mut HashMap<ChunkId, std::result::Result<Facts, (String, String)>>,
    told: &mut dyn FnMut(u64),
) -> Result<Verified> {
    let (mut verified, mut space, mut last) = (Verified::default(), "", None::<Vec<u8>>);
    for (in_space, entry) in manifest.chunks() {
        let facts = known.entry(entry.sha256).or_insert_with(|| {
            told(entry.stored);
            facts(repository, entry.sha256, entry.stored).map_err(|error| match error {
                Error::Damaged { what, how } => (what, how),
                error => (repository.chunk_path(entry.sha256).display().to_string(), error.to_string()),
            })
        });
        let wrong = |how: &str| Error::damaged(repository.chunk_path(entry.sha256).display(), how);
        let facts = facts.as_ref().map_err(|(what, how)| Error::damaged(what, how.clone()))?;
        if (facts.entries, facts.bytes) != (entry.entries, entry.bytes) {
            return Err(wrong("it is not what its snapshot says"));
        }
        if space != in_space {
            (space, last) = (in_space, None);
        }
        if let Some((first, end)) = &facts.keys {
            if last.is_some_and(|last| last >= *first) {
                return Err(wrong("its keys are not in order"));
            }
            last = Some(end.clone());
        }
        verified.entries += facts.entries;
        // Each pair has two lengths before it.
        verified.bytes += facts.bytes - 8 * facts.entries;
    }
    Ok(verified)
}

fn facts(repository: &Repository, id: ChunkId, stored: u64) -> Result<Facts> {
    let path = repository.chunk_path(id);
    let wrong = |how: String| Error::damaged(path.display(), how);
    let (entries, bytes) = chunk::decode(&repository.chunk(id, stored)?).map_err(wrong)?;
    Order::default().follow("", &entries).map_err(wrong)?;
    let keys = entries.first().zip(entries.last()).map(|(first, last)| (first.0.clone(), last.0.clone()));
    Ok(Facts { entries: entries.len() as u64, bytes, keys })
}
