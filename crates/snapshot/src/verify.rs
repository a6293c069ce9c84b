//! Reads snapshots to their end to find damage.

use std::collections::HashMap;

use crate::chunk::{self, ChunkId};
use crate::manifest::{ChunkEntry, Manifest, SnapshotId};
use crate::repository::{ListedSnapshot, Repository};
use crate::{Error, Result, Snapshot};
use doppel_store::snapshot::{SnapshotPiece, SpaceEntries};

/// The size of an undamaged snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifiedTotals {
    /// Number of pairs.
    pub entries: u64,
    /// Number of bytes in keys and values.
    pub bytes: u64,
}

/// Checks that the keys of a space ascend.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyOrder {
    space: String,
    last: Option<Vec<u8>>,
}

impl KeyOrder {
    /// Checks the next pairs of a space. The error describes the damage.
    pub(crate) fn check_next(&mut self, space: &str, entries: &SpaceEntries) -> Result<(), &'static str> {
        if self.space != space {
            self.space = space.to_owned();
            self.last = None;
        }
        let mut last = self.last.as_deref();
        for (key, _) in entries {
            if key.is_empty() {
                return Err("it has an empty key");
            }
            if last.is_some_and(|last| last >= key.as_slice()) {
                return Err("its keys are not in order");
            }
            last = Some(key);
        }
        if let Some((key, _)) = entries.last() {
            self.last = Some(key.clone());
        }
        Ok(())
    }
}

/// Reads a snapshot to its end and passes each piece to `check`.
///
/// # Errors
/// The first damage that was found, with the name of the file, or an error of `check`.
pub fn verify(
    mut snapshot: impl Snapshot,
    check: &mut dyn FnMut(&SnapshotPiece) -> Result<()>,
) -> Result<VerifiedTotals> {
    let mut verified = VerifiedTotals::default();
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

/// The properties of an undamaged chunk.
struct CheckedChunk {
    entries: u64,
    bytes: u64,
    /// The first and the last key; `None` for a chunk without pairs.
    keys: Option<(Vec<u8>, Vec<u8>)>,
}

/// The damage of a chunk, which every snapshot that uses the chunk reports.
struct ChunkDamage {
    file: String,
    damage: String,
}

/// Reads all snapshots of a repository, oldest first, and each chunk once. Calls `on_progress` with the number of bytes that were read.
///
/// # Errors
/// The directory cannot be read; [`Error::Busy`] while another thread or process removes snapshots. The error of a damaged snapshot is in the
/// list.
pub fn verify_all(
    repository: &Repository,
    on_progress: &mut dyn FnMut(u64),
) -> Result<Vec<(SnapshotId, Result<VerifiedTotals>)>> {
    let _lock = repository.lock_shared()?;
    let mut verifier = RepositoryVerifier { repository, checked: HashMap::new(), read_bytes: 0, on_progress };
    let mut results = Vec::new();
    for ListedSnapshot { id, manifest } in repository.list()? {
        let totals = manifest.and_then(|manifest| verifier.verify(&manifest));
        results.push((id, totals));
    }
    Ok(results)
}

/// Verifies the snapshots of a repository, and stores the results of the chunks that it has read.
struct RepositoryVerifier<'a> {
    repository: &'a Repository,
    checked: HashMap<ChunkId, Result<CheckedChunk, ChunkDamage>>,
    read_bytes: u64,
    on_progress: &'a mut dyn FnMut(u64),
}

impl RepositoryVerifier<'_> {
    fn verify(&mut self, manifest: &Manifest) -> Result<VerifiedTotals> {
        let mut totals = VerifiedTotals::default();
        let mut space = "";
        let mut last: Option<Vec<u8>> = None;
        for (in_space, entry) in manifest.chunks() {
            let path = self.repository.chunk_path(entry.sha256);
            let chunk = self.check_chunk(entry)?;
            if chunk.entries != entry.entries || chunk.bytes != entry.bytes {
                return Err(Error::damaged(path.display(), "its size is not the one that the manifest states"));
            }
            if space != in_space {
                space = in_space;
                last = None;
            }
            if let Some((first, end)) = &chunk.keys {
                if last.is_some_and(|last| last >= *first) {
                    return Err(Error::damaged(path.display(), "its keys are not in order"));
                }
                last = Some(end.clone());
            }
            totals.entries += chunk.entries;
            // The content has two lengths of 4 bytes before each pair.
            totals.bytes += chunk.bytes - 8 * chunk.entries;
        }
        Ok(totals)
    }

    /// Reads a chunk, or returns the result of the first time that it was read.
    fn check_chunk(&mut self, entry: &ChunkEntry) -> Result<&CheckedChunk> {
        if !self.checked.contains_key(&entry.sha256) {
            self.read_bytes += entry.stored;
            (self.on_progress)(self.read_bytes);
        }
        let checked = self.checked.entry(entry.sha256).or_insert_with(|| {
            read_chunk(self.repository, entry.sha256, entry.stored).map_err(|error| match error {
                Error::Damaged { file, damage } => ChunkDamage { file, damage },
                error => ChunkDamage {
                    file: self.repository.chunk_path(entry.sha256).display().to_string(),
                    damage: error.to_string(),
                },
            })
        });
        checked.as_ref().map_err(|ChunkDamage { file, damage }| Error::damaged(file, damage.clone()))
    }
}

fn read_chunk(repository: &Repository, id: ChunkId, stored: u64) -> Result<CheckedChunk> {
    let damaged = Error::damaged_at(repository.chunk_path(id));
    let (entries, bytes) = chunk::decode(&repository.read_chunk(id, stored)?).map_err(&damaged)?;
    KeyOrder::default().check_next("", &entries).map_err(&damaged)?;
    let keys = entries.first().zip(entries.last()).map(|(first, last)| (first.0.clone(), last.0.clone()));
    Ok(CheckedChunk { entries: entries.len() as u64, bytes, keys })
}
