//! Reads the published state for a snapshot.
//!
//! It uses a snapshot of all keyspaces by the engine, as lookups do. The snapshot contains everything that was acknowledged,
//! because an answer is sent after the publication. Taking it copies a pointer. While the snapshot exists, the engine keeps data
//! that is overwritten or deleted meanwhile.
//!
//! Between two calls, the reader holds only this snapshot: a slow reader does not prevent the directory from being closed or opened
//! again. The reader then ends with an error.

use std::path::Path;
use std::sync::{Arc, Weak};

use fjall::Snapshot;

use super::disk::Disk;
use super::errors::unavailable;
use super::keyspaces::{ALL, NAMES, Space};
use super::layout::{self, CollectionEntry, FORMAT};
use super::options::{EmbeddedOptions, Opening, OpeningMode, Workers};
use doppel_store::snapshot::{CollectionAt, EntryVisitor, SnapshotMoment, SnapshotReader};
use doppel_store::{Result, StoreError};

/// Number of bytes that are read in one call: enough to make finding the place again cheap, and few enough that closing the store
/// need not wait.
const BYTES_AT_ONCE: usize = 1 << 20;
/// The kind of store with these keyspaces.
pub(super) const KIND: &str = "embedded";

/// A reader of the published state.
pub(super) struct StateReader {
    disk: Weak<Disk>,
    view: Arc<Snapshot>,
    moment: SnapshotMoment,
    /// The position of the keyspace that is read; the number of keyspaces at the end.
    space: usize,
    /// The key at which reading continues in the keyspace.
    from: Vec<u8>,
}

impl StateReader {
    /// Returns a reader of the currently published state.
    pub(super) fn new(disk: &Arc<Disk>) -> Result<Self> {
        let view = disk.view();
        let moment = moment(disk, &view)?;
        Ok(Self { disk: Arc::downgrade(disk), view, moment, space: 0, from: Vec::new() })
    }

    /// Shows about [`BYTES_AT_ONCE`] of a keyspace. Returns the last key, unless all pairs were shown.
    fn read_space(&self, disk: &Disk, space: Space, visit: EntryVisitor<'_>) -> Result<Option<Vec<u8>>> {
        let mut bytes = 0;
        for entry in disk.from(&self.view, space, &self.from) {
            let (key, value) = entry.into_inner().map_err(super::errors::io)?;
            visit(NAMES[space as usize], &key, &value);
            bytes += key.len() + value.len();
            if bytes >= BYTES_AT_ONCE {
                return Ok(Some(key.to_vec()));
            }
        }
        Ok(None)
    }
}

impl SnapshotReader for StateReader {
    fn moment(&self) -> &SnapshotMoment {
        &self.moment
    }

    fn read(&mut self, visit: EntryVisitor<'_>) -> Result<bool> {
        let Some(space) = ALL.get(self.space) else { return Ok(false) };
        let disk = self.disk.upgrade().filter(|disk| !disk.is_stopping());
        let disk = disk.ok_or_else(|| {
            unavailable("the data directory was closed or opened again since the snapshot was begun; begin another")
        })?;
        match self.read_space(&disk, *space, visit)? {
            // The next key in the order of bytes.
            Some(mut last) => {
                last.push(0);
                self.from = last;
            }
            None => {
                self.space += 1;
                self.from.clear();
            }
        }
        Ok(self.space < ALL.len())
    }
}

/// A reader of a data directory that no process has opened.
struct DirectoryReader {
    reader: StateReader,
    /// The database, which is open while it is read.
    _disk: Arc<Disk>,
}

/// Opens an existing data directory for reading, without its indexes. No process may have opened it.
///
/// # Errors
/// [`StoreError::Internal`] with the directory and the remedy.
pub fn read_directory(dir: &Path) -> Result<Box<dyn SnapshotReader>> {
    let mode = OpeningMode { opening: Opening::Existing, workers: Workers::Held };
    let disk = Arc::new(Disk::open(dir, &EmbeddedOptions::default(), mode)?);
    Ok(Box::new(DirectoryReader { reader: StateReader::new(&disk)?, _disk: disk }))
}

impl SnapshotReader for DirectoryReader {
    fn moment(&self) -> &SnapshotMoment {
        self.reader.moment()
    }

    fn read(&mut self, visit: EntryVisitor<'_>) -> Result<bool> {
        self.reader.read(visit)
    }
}

fn moment(disk: &Disk, view: &Arc<Snapshot>) -> Result<SnapshotMoment> {
    let mut collections = Vec::new();
    for entry in disk.prefix(view, Space::Meta, layout::PREFIX_COLLECTION) {
        let entry: CollectionEntry = serde_json::from_slice(&entry?.1).map_err(|error| {
            StoreError::Internal(format!(
                "the settings of a collection cannot be read: {error}; see with doppel doctor"
            ))
        })?;
        let numbers = disk.get(view, Space::Meta, &layout::numbers_key(entry.number))?;
        let (next, records) = numbers.map(|bytes| layout::decode_numbers(&bytes)).transpose()?.unwrap_or_default();
        collections.push(CollectionAt {
            name: entry.state.name,
            records,
            last_change: next.0.saturating_sub(1),
            generation: entry.state.generation,
        });
    }
    Ok(SnapshotMoment { kind: KIND.into(), format: FORMAT, collections })
}
