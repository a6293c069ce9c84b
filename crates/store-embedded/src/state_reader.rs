//! Reads the published state, for a snapshot.
//!
//! The engine's snapshot of all keyspaces, which lookups use too, is taken over at one published state: everything acknowledged is
//! in it, since an answer leaves after publication. Taking it is copying a pointer. While it is held, the engine keeps what is
//! overwritten or deleted meanwhile.
//!
//! Between two calls nothing of the database is held but that: a reader that is slow, or whose reader is, does not keep the
//! directory from being closed or opened again. It ends then, with an error.

use std::path::Path;
use std::sync::{Arc, Weak};

use fjall::Snapshot;

use super::disk::Disk;
use super::errors::unavailable;
use super::keyspaces::{ALL, NAMES, Space};
use super::layout::{self, CollectionEntry, FORMAT};
use super::options::{EmbeddedOptions, Opening, Workers};
use doppel_store::snapshot::{CollectionAt, Moment, SnapshotReader, Visit};
use doppel_store::{Result, StoreError};

/// What is read in one call: so much that finding the place again costs nothing, and so little that who closes the store need not wait.
const BYTES_AT_ONCE: usize = 1 << 20;
/// The kind of store that these keyspaces are of.
pub(super) const KIND: &str = "embedded";

/// See the module.
pub(super) struct StateReader {
    disk: Weak<Disk>,
    view: Arc<Snapshot>,
    moment: Moment,
    /// The keyspace that is read, and where to go on in it; the number of keyspaces at the end.
    space: usize,
    from: Vec<u8>,
}

impl StateReader {
    /// Of what is published now.
    pub(super) fn new(disk: &Arc<Disk>) -> Result<Self> {
        let view = disk.view();
        let moment = moment(disk, &view)?;
        Ok(Self { disk: Arc::downgrade(disk), view, moment, space: 0, from: Vec::new() })
    }

    /// Shows about [`BYTES_AT_ONCE`] of a keyspace; the key to go on behind, unless all was shown.
    fn read_space(&self, disk: &Disk, space: Space, visit: Visit<'_>) -> Result<Option<Vec<u8>>> {
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
    fn moment(&self) -> &Moment {
        &self.moment
    }

    fn read(&mut self, visit: Visit<'_>) -> Result<bool> {
        let Some(space) = ALL.get(self.space) else { return Ok(false) };
        let disk = self.disk.upgrade().filter(|disk| !disk.is_stopping());
        let disk = disk.ok_or_else(|| {
            unavailable("the data directory was closed or opened again since the snapshot was begun; begin another")
        })?;
        match self.read_space(&disk, *space, visit)? {
            // The key behind it in byte order.
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

/// Reads a data directory that no process has open.
struct DirectoryReader {
    reader: StateReader,
    /// Open as long as it is read.
    _disk: Arc<Disk>,
}

/// Opens a data directory, which must be there and which no process has open, to be read: without its indexes.
///
/// # Errors
/// [`StoreError::Internal`] with the directory and the remedy.
pub fn read_directory(dir: &Path) -> Result<Box<dyn SnapshotReader>> {
    let disk = Arc::new(Disk::open(dir, &EmbeddedOptions::default(), (Opening::Existing, Workers::Held))?);
    Ok(Box::new(DirectoryReader { reader: StateReader::new(&disk)?, _disk: disk }))
}

impl SnapshotReader for DirectoryReader {
    fn moment(&self) -> &Moment {
        self.reader.moment()
    }

    fn read(&mut self, visit: Visit<'_>) -> Result<bool> {
        self.reader.read(visit)
    }
}

fn moment(disk: &Disk, view: &Arc<Snapshot>) -> Result<Moment> {
    let mut collections = Vec::new();
    for entry in disk.prefix(view, Space::Meta, layout::PREFIX_COLLECTION) {
        let unreadable = |error| {
            StoreError::Internal(format!(
                "the settings of a collection cannot be read: {error}; see with doppel doctor"
            ))
        };
        let entry: CollectionEntry = serde_json::from_slice(&entry?.1).map_err(unreadable)?;
        let numbers = disk.get(view, Space::Meta, &layout::numbers_key(entry.number))?;
        let (next, records) = numbers.map(|bytes| layout::decode_numbers(&bytes)).transpose()?.unwrap_or_default();
        collections.push(CollectionAt {
            name: entry.state.name,
            records,
            last_change: next.0.saturating_sub(1),
            generation: entry.state.generation,
        });
    }
    Ok(Moment { kind: KIND.into(), format: FORMAT, collections })
}
