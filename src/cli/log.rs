//! Entries by number: in memory as long as they fit, in a file without a name beyond.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Bytes gathered before they are put away together. An entry may be larger.
const SEGMENT: usize = 1 << 20;
/// Bits of a place that say where in its segment an entry begins.
const OFFSET_BITS: u32 = 24;

/// A list of byte strings that is only appended to. Reading one costs a copy from memory, or one read of the file. 12 bytes an
/// entry stay in memory whatever the bound.
pub(super) struct Log {
    dir: PathBuf,
    memory: usize,
    /// Segments that are full.
    full: Vec<Segment>,
    open: Vec<u8>,
    /// Segment and offset of each entry.
    places: Vec<u64>,
    lengths: Vec<u32>,
    file: Option<File>,
    written: u64,
}

enum Segment {
    Memory(Box<[u8]>),
    /// The offset in the file.
    Disk(u64),
}

impl Log {
    /// Keeps at most `memory` bytes, and a segment, in memory, and the rest in `dir`.
    pub(super) fn new(dir: &Path, memory: usize) -> Self {
        let full = Vec::new();
        let open = Vec::new();
        let places = Vec::new();
        let lengths = Vec::new();
        Self { dir: dir.to_owned(), memory, full, open, places, lengths, file: None, written: 0 }
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Appends the parts as one entry, of less than 4 GiB.
    pub(super) fn push(&mut self, parts: &[&[u8]]) -> io::Result<()> {
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
            self.full.push(Segment::Memory(segment.into_boxed_slice()));
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&self.dir)?),
        };
        file.write_all_at(&segment, self.written)?;
        self.full.push(Segment::Disk(self.written));
        self.written += segment.len() as u64;
        self.open = segment;
        self.open.clear();
        Ok(())
    }

    /// Entry number `at`, which must be there.
    pub(super) fn get(&self, at: usize) -> io::Result<Vec<u8>> {
        let place = self.places[at];
        let length = self.lengths[at] as usize;
        let start = (place & ((1 << OFFSET_BITS) - 1)) as usize;
        let copy = |segment: &[u8]| segment[start..start + length].to_vec();
        match self.full.get((place >> OFFSET_BITS) as usize) {
            None => Ok(copy(&self.open)),
            Some(Segment::Memory(segment)) => Ok(copy(segment)),
            Some(Segment::Disk(begin)) => {
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

    #[test]
    fn entries_come_back_from_memory_and_from_disk() {
        for memory in [0, 5 << 20, usize::MAX] {
            let mut log = Log::new(&std::env::temp_dir(), memory);
            let entry = |n: usize| vec![n as u8; n * 7919 % 100_000];
            for n in 0..300 {
                log.push(&[&entry(n)[..n.min(entry(n).len())], &entry(n)[n.min(entry(n).len())..]]).unwrap();
            }
            assert_eq!((log.len(), log.file.is_some()), (300, memory < 15 << 20));
            assert!((0..300).rev().all(|n| log.get(n).unwrap() == entry(n)));
        }
    }
}
