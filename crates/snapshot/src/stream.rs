//! A snapshot as one file, which needs nothing else: to be sent, or kept where there is no room for a directory.
//!
//! | bytes | |
//! |---|---|
//! | 25 | [`MAGIC`] |
//! | 1, 8, … | `B`, length, JSON of the moment |
//! | 1, 1, …, 32, 8, … | `C`, length and name of the space, SHA-256 of the chunk, length, the chunk; for every chunk |
//! | 1, 8, … | `M`, length, the manifest |
//! | 32 | SHA-256 of all that stands before |
//!
//! Lengths are little-endian. It is written from its beginning to its end without going back, and read so. Without the last 32 bytes it
//! is no snapshot, and with anything behind them neither.

use std::io::{self, Read, Write};

use sha2::{Digest as _, Sha256};

use crate::chunk::{self, ChunkId};
use crate::manifest::{ChunkEntry, Manifest, SpaceEntry};
use crate::repository::State;
use crate::take::Sink;
use crate::verify::Order;
use crate::{Error, Result, Snapshot};
use doppel_store::snapshot::{Moment, Piece};

const MAGIC: &[u8; 25] = b"doppel snapshot stream 1\n";
const BEGIN: u8 = b'B';
const CHUNK: u8 = b'C';
const MANIFEST: u8 = b'M';
/// Bytes of a manifest or a moment that are read: those of a billion records are shorter.
const MOST_JSON: u64 = 256 << 20;

/// Writes a snapshot as a stream.
pub struct StreamWriter<W> {
    out: W,
    /// Of the destination, for errors.
    name: String,
    hash: Sha256,
}

impl<W: Write> StreamWriter<W> {
    /// Into `out`, called `name`.
    pub fn new(out: W, name: impl Into<String>) -> Self {
        Self { out, name: name.into(), hash: Sha256::new() }
    }

    /// What it was written into.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn put(&mut self, parts: &[&[u8]]) -> Result<()> {
        for part in parts {
            self.hash.update(part);
            self.out.write_all(part).map_err(|error| Error::Io { what: self.name.clone(), error })?;
        }
        Ok(())
    }
}

impl<W: Write> Sink for StreamWriter<W> {
    fn begin(&mut self, moment: &Moment) -> Result<()> {
        let moment = serde_json::to_vec(moment).map_err(|error| Error::Refused(error.to_string()))?;
        self.put(&[MAGIC, &[BEGIN], &(moment.len() as u64).to_le_bytes(), &moment])
    }

    fn chunk(&mut self, space: &str, id: ChunkId, bytes: &[u8]) -> Result<bool> {
        let length = (bytes.len() as u64).to_le_bytes();
        self.put(&[&[CHUNK, space.len() as u8], space.as_bytes(), &id.0, &length, bytes])?;
        Ok(true)
    }

    fn finish(&mut self, manifest: Manifest) -> Result<Manifest> {
        crate::point("snapshot::manifest");
        let bytes = manifest.encode()?;
        self.put(&[&[MANIFEST], &(bytes.len() as u64).to_le_bytes(), &bytes])?;
        let hash: [u8; 32] = self.hash.clone().finalize().into();
        self.put(&[&hash])?;
        self.out.flush().map_err(|error| Error::Io { what: self.name.clone(), error })?;
        Ok(manifest)
    }
}

/// Reads a snapshot from a stream.
pub struct StreamReader<R> {
    input: Hashing<R>,
    moment: Moment,
    /// What was read so far.
    spaces: Vec<SpaceEntry>,
    order: Order,
    manifest: Option<Manifest>,
    state: State,
}

impl<R: Read> StreamReader<R> {
    /// From `input`, called `name`.
    ///
    /// # Errors
    /// [`Error::Damaged`] where it is no such stream, [`Error::Refused`] where it is a newer one.
    pub fn new(input: R, name: impl Into<String>) -> Result<Self> {
        let mut input = Hashing { input, hash: Sha256::new(), name: name.into() };
        let magic = input.array::<25>()?;
        if magic[..23] != MAGIC[..23] {
            return Err(input.damaged("it does not begin as a snapshot does"));
        }
        if magic != *MAGIC {
            return Err(Error::Refused(format!("{} is of a newer version of this program", input.name)));
        }
        if input.array()? != [BEGIN] {
            return Err(input.damaged("it does not begin as a snapshot does"));
        }
        let moment = input.long(MOST_JSON)?;
        let moment = serde_json::from_slice(&moment).map_err(|error| input.damaged(&error.to_string()))?;
        let (spaces, order, state) = (Vec::new(), Order::default(), State::Reading);
        Ok(Self { input, moment, spaces, order, manifest: None, state })
    }

    /// The next piece; `None` at the end, when all is as it must be.
    fn step(&mut self) -> Result<Option<Piece>> {
        match self.input.array::<1>()?[0] {
            CHUNK => self.piece().map(Some),
            MANIFEST => {
                self.end()?;
                Ok(None)
            }
            _ => Err(self.input.damaged("something else stands where a chunk should begin")),
        }
    }

    fn piece(&mut self) -> Result<Piece> {
        let length = self.input.array::<1>()?[0];
        let space = self.input.bytes(length.into())?;
        let space = String::from_utf8(space).map_err(|_| self.input.damaged("the name of a space is no text"))?;
        let id = ChunkId(self.input.array()?);
        let bytes = self.input.long(chunk::most_stored())?;
        if ChunkId::of(&bytes) != id {
            return Err(self.input.damaged("the bytes of a chunk are not those that were written"));
        }
        let (entries, length) = chunk::decode(&bytes).map_err(|how| self.input.damaged(&how))?;
        self.order.follow(&space, &entries).map_err(|how| self.input.damaged(&how))?;
        if self.spaces.last().is_none_or(|last| last.name != space) {
            self.spaces.push(SpaceEntry { name: space.clone(), chunks: Vec::new() });
        }
        let (entries_there, stored) = (entries.len() as u64, bytes.len() as u64);
        let entry = ChunkEntry { sha256: id, entries: entries_there, bytes: length, stored };
        if let Some(last) = self.spaces.last_mut() {
            last.chunks.push(entry);
        }
        Ok(Piece { space, entries })
    }

    fn end(&mut self) -> Result<()> {
        let bytes = self.input.long(MOST_JSON)?;
        let manifest = Manifest::decode(&bytes, &self.input.name)?;
        let hash: [u8; 32] = self.input.hash.clone().finalize().into();
        if self.input.array::<32>()? != hash {
            return Err(self.input.damaged("it does not have the checksum that it says"));
        }
        if manifest.store != self.moment || manifest.spaces != self.spaces {
            return Err(self.input.damaged("its chunks are not those that it names"));
        }
        if self.input.input.read(&mut [0]).map_err(|error| self.input.unread(error))? != 0 {
            return Err(self.input.damaged("something stands behind its end"));
        }
        self.manifest = Some(manifest);
        Ok(())
    }
}

impl<R: Read> Iterator for StreamReader<R> {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state != State::Reading {
            return None;
        }
        let step = self.step();
        self.state = match &step {
            Ok(Some(_)) => State::Reading,
            Ok(None) => State::Whole,
            Err(_) => State::Failed,
        };
        step.transpose()
    }
}

impl<R: Read> Snapshot for StreamReader<R> {
    fn moment(&self) -> &Moment {
        &self.moment
    }

    fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref().filter(|_| self.state == State::Whole)
    }
}

/// What is read, and its hash so far.
struct Hashing<R> {
    input: R,
    hash: Sha256,
    name: String,
}

impl<R: Read> Hashing<R> {
    fn damaged(&self, how: &str) -> Error {
        Error::damaged(&self.name, how)
    }

    fn unread(&self, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged("it is cut off"),
            _ => Error::Io { what: self.name.clone(), error },
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        self.input.read_exact(&mut array).map_err(|error| self.unread(error))?;
        self.hash.update(array);
        Ok(array)
    }

    /// A length, and as many bytes.
    fn long(&mut self, most: u64) -> Result<Vec<u8>> {
        let length = u64::from_le_bytes(self.array()?);
        if length > most {
            return Err(self.damaged("a part of it says to be larger than any is"));
        }
        self.bytes(length)
    }

    /// Memory grows with what is there, not with what a damaged length says.
    fn bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.input.by_ref().take(length).read_to_end(&mut bytes);
        read.map_err(|error| self.unread(error))?;
        if bytes.len() as u64 != length {
            return Err(self.damaged("it is cut off"));
        }
        self.hash.update(&bytes);
        Ok(bytes)
    }
}
