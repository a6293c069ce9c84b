//! A snapshot in a single file, which can be sent or kept outside a repository.
//!
//! | bytes | |
//! |---|---|
//! | 25 | [`MAGIC`] |
//! | 1, 8, … | `B`, length, JSON of the moment |
//! | 1, 1, …, 32, 8, … | `C`, length and name of the space, SHA-256 of the chunk, length, the chunk; for every chunk |
//! | 1, 8, … | `M`, length, the manifest |
//! | 32 | SHA-256 of all bytes before |
//!
//! Lengths are little-endian. Writer and reader go from the beginning to the end and never seek. A file without the last 32 bytes, or with
//! more bytes after them, is not a snapshot.

use std::io::{self, Read, Write};

use sha2::{Digest as _, Sha256};

use crate::chunk::{self, ChunkId};
use crate::manifest::{ChunkEntry, Manifest, SpaceEntry};
use crate::repository::ReadState;
use crate::take::SnapshotSink;
use crate::verify::KeyOrder;
use crate::{Error, Result, Snapshot};
use doppel_store::snapshot::{SnapshotMoment, SnapshotPiece};

const MAGIC: &[u8; 25] = b"doppel snapshot stream 1\n";
const BEGIN: u8 = b'B';
const CHUNK: u8 = b'C';
const MANIFEST: u8 = b'M';
/// Largest length in bytes of a manifest or a moment that is read. A snapshot of a billion records has a shorter manifest.
const MAX_JSON_BYTES: u64 = 256 << 20;

/// Writes a snapshot as a stream.
pub struct StreamWriter<W> {
    out: W,
    /// The name of the destination, for errors.
    name: String,
    hash: Sha256,
}

impl<W: Write> StreamWriter<W> {
    /// Makes a writer to `out`. Errors call the destination `name`.
    pub fn new(out: W, name: impl Into<String>) -> Self {
        Self { out, name: name.into(), hash: Sha256::new() }
    }

    /// Returns the destination.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn write_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        for part in parts {
            self.hash.update(part);
            self.out.write_all(part).map_err(|error| Error::Io { file: self.name.clone(), error })?;
        }
        Ok(())
    }
}

impl<W: Write> SnapshotSink for StreamWriter<W> {
    fn begin(&mut self, moment: &SnapshotMoment) -> Result<()> {
        let moment = serde_json::to_vec(moment).map_err(|error| Error::Refused(error.to_string()))?;
        self.write_parts(&[MAGIC, &[BEGIN], &(moment.len() as u64).to_le_bytes(), &moment])
    }

    fn chunk(&mut self, space: &str, id: ChunkId, bytes: &[u8]) -> Result<bool> {
        let length = (bytes.len() as u64).to_le_bytes();
        self.write_parts(&[&[CHUNK, space.len() as u8], space.as_bytes(), &id.0, &length, bytes])?;
        Ok(true)
    }

    fn finish(&mut self, manifest: Manifest) -> Result<Manifest> {
        crate::reach_failpoint("snapshot::manifest");
        let bytes = manifest.encode()?;
        self.write_parts(&[&[MANIFEST], &(bytes.len() as u64).to_le_bytes(), &bytes])?;
        let hash: [u8; 32] = self.hash.clone().finalize().into();
        self.write_parts(&[&hash])?;
        self.out.flush().map_err(|error| Error::Io { file: self.name.clone(), error })?;
        Ok(manifest)
    }
}

/// Reads a snapshot from a stream.
pub struct StreamReader<R> {
    input: HashingReader<R>,
    moment: SnapshotMoment,
    /// The chunks that were read, to compare them with the manifest.
    spaces: Vec<SpaceEntry>,
    order: KeyOrder,
    manifest: Option<Manifest>,
    state: ReadState,
}

impl<R: Read> StreamReader<R> {
    /// Opens the snapshot in `input`. Errors call the stream `name`.
    ///
    /// # Errors
    /// [`Error::Damaged`] if `input` contains no snapshot; [`Error::Refused`] if a newer version of the program wrote it.
    pub fn new(input: R, name: impl Into<String>) -> Result<Self> {
        let mut input = HashingReader { input, hash: Sha256::new(), name: name.into() };
        let magic = input.read_array::<25>()?;
        if magic[..23] != MAGIC[..23] {
            return Err(input.damaged("it does not begin like a snapshot"));
        }
        if magic != *MAGIC {
            return Err(Error::Refused(format!(
                "{} was written by a newer version of this program; use a newer version",
                input.name
            )));
        }
        if input.read_array()? != [BEGIN] {
            return Err(input.damaged("it does not begin like a snapshot"));
        }
        let moment = input.read_with_length(MAX_JSON_BYTES)?;
        let moment = serde_json::from_slice(&moment).map_err(|error| input.damaged(&error.to_string()))?;
        Ok(Self {
            input,
            moment,
            spaces: Vec::new(),
            order: KeyOrder::default(),
            manifest: None,
            state: ReadState::Reading,
        })
    }

    /// Reads the next piece; `None` at the end, after the manifest and the checksum were checked.
    fn read_next(&mut self) -> Result<Option<SnapshotPiece>> {
        match self.input.read_array::<1>()?[0] {
            CHUNK => self.read_piece().map(Some),
            MANIFEST => {
                self.read_end()?;
                Ok(None)
            }
            _ => Err(self.input.damaged("other bytes are at a place where a chunk should begin")),
        }
    }

    fn read_piece(&mut self) -> Result<SnapshotPiece> {
        let length = self.input.read_array::<1>()?[0];
        let space = self.input.read_bytes(length.into())?;
        let space = String::from_utf8(space).map_err(|_| self.input.damaged("the name of a space is not UTF-8"))?;
        let id = ChunkId(self.input.read_array()?);
        let bytes = self.input.read_with_length(chunk::max_file_bytes())?;
        if ChunkId::of_bytes(&bytes) != id {
            return Err(self.input.damaged("the bytes of a chunk were changed after it was written"));
        }
        let (entries, length) = chunk::decode(&bytes).map_err(|damage| self.input.damaged(damage))?;
        self.order.check_next(&space, &entries).map_err(|damage| self.input.damaged(damage))?;
        if self.spaces.last().is_none_or(|last| last.name != space) {
            self.spaces.push(SpaceEntry { name: space.clone(), chunks: Vec::new() });
        }
        let entry = ChunkEntry { sha256: id, entries: entries.len() as u64, bytes: length, stored: bytes.len() as u64 };
        if let Some(last) = self.spaces.last_mut() {
            last.chunks.push(entry);
        }
        Ok(SnapshotPiece { space, entries })
    }

    fn read_end(&mut self) -> Result<()> {
        let bytes = self.input.read_with_length(MAX_JSON_BYTES)?;
        let manifest = Manifest::decode(&bytes, &self.input.name)?;
        let hash: [u8; 32] = self.input.hash.clone().finalize().into();
        if self.input.read_array::<32>()? != hash {
            return Err(self.input.damaged("its checksum is not the one that it states"));
        }
        if manifest.store != self.moment || manifest.spaces != self.spaces {
            return Err(self.input.damaged("its chunks are not the ones that its manifest names"));
        }
        if self.input.input.read(&mut [0]).map_err(|error| self.input.read_error(error))? != 0 {
            return Err(self.input.damaged("there are more bytes after its end"));
        }
        self.manifest = Some(manifest);
        Ok(())
    }
}

impl<R: Read> Iterator for StreamReader<R> {
    type Item = Result<SnapshotPiece>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state != ReadState::Reading {
            return None;
        }
        let piece = self.read_next();
        self.state = match &piece {
            Ok(Some(_)) => ReadState::Reading,
            Ok(None) => ReadState::Complete,
            Err(_) => ReadState::Failed,
        };
        piece.transpose()
    }
}

impl<R: Read> Snapshot for StreamReader<R> {
    fn moment(&self) -> &SnapshotMoment {
        &self.moment
    }

    fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref().filter(|_| self.state == ReadState::Complete)
    }
}

/// An input, with the hash of the bytes that were read from it.
struct HashingReader<R> {
    input: R,
    hash: Sha256,
    name: String,
}

impl<R: Read> HashingReader<R> {
    fn damaged(&self, damage: &str) -> Error {
        Error::damaged(&self.name, damage)
    }

    fn read_error(&self, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged("it is cut off"),
            _ => Error::Io { file: self.name.clone(), error },
        }
    }

    fn read_array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        self.input.read_exact(&mut array).map_err(|error| self.read_error(error))?;
        self.hash.update(array);
        Ok(array)
    }

    /// Reads a length and then this number of bytes. A length above `max` is an error.
    fn read_with_length(&mut self, max: u64) -> Result<Vec<u8>> {
        let length = u64::from_le_bytes(self.read_array()?);
        if length > max {
            return Err(self.damaged("a part of it states a length that is not possible"));
        }
        self.read_bytes(length)
    }

    /// Reads `length` bytes. The buffer grows with the bytes that arrive, so that a damaged length reserves no memory.
    fn read_bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.input.by_ref().take(length).read_to_end(&mut bytes);
        read.map_err(|error| self.read_error(error))?;
        if bytes.len() as u64 != length {
            return Err(self.damaged("it is cut off"));
        }
        self.hash.update(&bytes);
        Ok(bytes)
    }
}
