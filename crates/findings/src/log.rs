//! A list of entries by number. It is in memory as long as it fits; the rest is in an unnamed file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Number of bytes that are collected in a segment. A single entry may be larger.
const SEGMENT: usize = 1 << 20;
/// Number of bits of a place for the offset of the entry in its segment.
const OFFSET_BITS: u32 = 24;

/// A list of byte strings that can only grow. Reading an entry copies it from memory or reads it from the file. In any case, 12 bytes for
/// each entry are in memory.
pub struct ByteLog {
    dir: PathBuf,
    memory: usize,
    full: Vec<LogSegment>,
    open: Vec<u8>,
    /// The segment and the offset of each entry.
    places: Vec<u64>,
    lengths: Vec<u32>,
    file: Option<File>,
    written: u64,
}

enum LogSegment {
    Memory(Box<[u8]>),
    /// The offset in the file.
    Disk(u64),
}

impl ByteLog {
    /// Keeps at most `memory` bytes and one segment in memory, and the rest in `dir`.
    pub fn new(dir: &Path, memory: usize) -> Self {
        let full = Vec::new();
        let open = Vec::new();
        let places = Vec::new();
        let lengths = Vec::new();
        Self { dir: dir.to_owned(), memory, full, open, places, lengths, file: None, written: 0 }
    }

    /// Returns the number of entries.
    pub fn count(&self) -> usize {
        self.places.len()
    }

    /// Appends the parts as one entry of less than 4 GiB.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub fn push(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        if self.open.len() >= SEGMENT {
            self.put_away()?;
        }
        let start = self.open.len();
        self.places.push((self.full.len() as u64) << OFFSET_BITS | start as u64);
        parts.iter().for_each(|part| self.open.extend_from_slice(part));
        self.lengths.push((self.open.len() - start) as u32);
        Ok(())
    }

    fn put_away(&mut self) -> io::Result<()> {
        let segment = std::mem::take(&mut self.open);
        if let Some(left) = self.memory.checked_sub(segment.len()) {
            self.memory = left;
            self.full.push(LogSegment::Memory(segment.into_boxed_slice()));
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&self.dir)?),
        };
        file.write_all_at(&segment, self.written)?;
        self.full.push(LogSegment::Disk(self.written));
        self.written += segment.len() as u64;
        self.open = segment;
        self.open.clear();
        Ok(())
    }

    /// Returns entry number `at`.
    ///
    /// # Errors
    /// The file cannot be read.
    ///
    /// # Panics
    /// The entry does not exist.
    pub fn get(&self, at: usize) -> io::Result<Vec<u8>> {
        let place = self.places[at];
        let length = self.lengths[at] as usize;
        let start = (place & ((1 << OFFSET_BITS) - 1)) as usize;
        match self.full.get((place >> OFFSET_BITS) as usize) {
            None => Ok(self.open[start..start + length].to_vec()),
            Some(LogSegment::Memory(segment)) => Ok(segment[start..start + length].to_vec()),
            Some(LogSegment::Disk(begin)) => {
                let mut bytes = vec![0; length];
                let file = self.file.as_ref().ok_or_else(|| io::Error::other("the file is gone"))?;
                file.read_exact_at(&mut bytes, begin + start as u64)?;
                Ok(bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: usize) -> Vec<u8> {
        vec![n as u8; n * 7919 % 100_000]
    }

    #[test]
    fn entries_come_back_from_memory_and_from_disk() {
        for memory in [0, 5 << 20, usize::MAX] {
            let mut log = ByteLog::new(&std::env::temp_dir(), memory);
            for n in 0..300 {
                log.push(&[&entry(n)[..n.min(entry(n).len())], &entry(n)[n.min(entry(n).len())..]]).unwrap();
            }
            assert_eq!((log.count(), log.file.is_some()), (300, memory < 15 << 20));
            assert!((0..300).rev().all(|n| log.get(n).unwrap() == entry(n)));
        }
    }
}
