//! A sorted list of pairs. It is in memory as long as it fits; the rest is in sorted runs in an unnamed file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Two positions and a mark.
pub(super) type MarkedPair = [u32; 3];

const PAIR_BYTES: usize = size_of::<MarkedPair>();
/// Number of pairs that are read from a run at once.
const READ_AHEAD: usize = 4096;
/// Smallest number of pairs in a run, independent of the memory limit. Smaller runs would be too many to merge.
const LEAST: usize = 1 << 16;

/// A list of pairs. A pair has 12 bytes in memory and on disk; merging needs 48 KB per run.
pub(super) struct PairSpill {
    dir: PathBuf,
    most: usize,
    memory: Vec<MarkedPair>,
    sorted: bool,
    file: Option<File>,
    /// Number of pairs of each run, in the order of the file.
    runs: Vec<u64>,
}

impl PairSpill {
    /// Keeps about `memory` bytes in memory, and the rest in `dir`.
    pub(super) fn new(dir: &Path, memory: usize) -> Self {
        let most = (memory / PAIR_BYTES).max(LEAST);
        Self { dir: dir.to_owned(), most, memory: Vec::new(), sorted: true, file: None, runs: Vec::new() }
    }

    pub(super) fn len(&self) -> u64 {
        self.memory.len() as u64 + self.runs.iter().sum::<u64>()
    }

    pub(super) fn push(&mut self, pair: MarkedPair) -> io::Result<()> {
        if self.memory.len() >= self.most {
            self.write_run()?;
        }
        self.memory.push(pair);
        self.sorted = false;
        Ok(())
    }

    fn write_run(&mut self) -> io::Result<()> {
        self.memory.sort_unstable();
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&self.dir)?),
        };
        let mut at = self.runs.iter().sum::<u64>() * PAIR_BYTES as u64;
        let mut bytes = Vec::with_capacity(READ_AHEAD * PAIR_BYTES);
        for pairs in self.memory.chunks(READ_AHEAD) {
            bytes.clear();
            pairs.iter().flatten().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
            file.write_all_at(&bytes, at)?;
            at += bytes.len() as u64;
        }
        self.runs.push(self.memory.len() as u64);
        self.memory.clear();
        Ok(())
    }

    /// Calls `visit` for all pairs in ascending order, until it fails.
    pub(super) fn each<E: From<io::Error>>(
        &mut self,
        mut visit: impl FnMut(MarkedPair) -> Result<(), E>,
    ) -> Result<(), E> {
        if !std::mem::replace(&mut self.sorted, true) {
            self.memory.sort_unstable();
        }
        let mut start = 0;
        let mut runs = Vec::with_capacity(self.runs.len());
        for &count in &self.runs {
            runs.push(SortedRun { next: start, end: start + count, ahead: Vec::new() });
            start += count;
        }
        let mut heads = BinaryHeap::new();
        for (at, run) in runs.iter_mut().enumerate() {
            heads.extend(run.next(self.file.as_ref())?.map(|pair| Reverse((pair, at))));
        }
        let mut memory = self.memory.iter().copied().peekable();
        loop {
            let from_run = heads.peek().map(|Reverse((pair, _))| *pair);
            match (memory.peek(), from_run) {
                (None, None) => return Ok(()),
                (Some(&pair), other) if other.is_none_or(|other| pair <= other) => {
                    memory.next();
                    visit(pair)?;
                }
                _ => {
                    if let Some(Reverse((pair, at))) = heads.pop() {
                        heads.extend(runs[at].next(self.file.as_ref())?.map(|pair| Reverse((pair, at))));
                        visit(pair)?;
                    }
                }
            }
        }
    }
}

/// The unread part of a run.
struct SortedRun {
    next: u64,
    end: u64,
    /// Pairs that were read ahead, in reverse order.
    ahead: Vec<MarkedPair>,
}

impl SortedRun {
    fn next(&mut self, file: Option<&File>) -> io::Result<Option<MarkedPair>> {
        if self.ahead.is_empty() && self.next < self.end {
            let count = (self.end - self.next).min(READ_AHEAD as u64);
            let mut bytes = vec![0; count as usize * PAIR_BYTES];
            let file = file.ok_or_else(|| io::Error::other("the file is gone"))?;
            file.read_exact_at(&mut bytes, self.next * PAIR_BYTES as u64)?;
            let pairs = bytes.chunks_exact(PAIR_BYTES).rev();
            self.ahead.extend(pairs.map(|pair| [number(pair), number(&pair[4..]), number(&pair[8..])]));
            self.next += count;
        }
        Ok(self.ahead.pop())
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(n: u32) -> MarkedPair {
        [n.wrapping_mul(2_654_435_761) % 1000, n, n % 4]
    }

    #[test]
    fn pairs_come_back_in_order_from_memory_and_from_disk() {
        let mut expected: Vec<MarkedPair> = (0..200_000).map(pair).collect();
        expected.sort_unstable();
        for memory in [0, usize::MAX] {
            let mut spill = PairSpill::new(&std::env::temp_dir(), memory);
            (0..200_000).for_each(|n| spill.push(pair(n)).unwrap());
            assert_eq!((spill.len(), spill.runs.len()), (200_000, if memory == 0 { 3 } else { 0 }));
            for _ in 0..2 {
                let mut found = Vec::new();
                let read = spill.each(|pair| {
                    found.push(pair);
                    Ok::<_, io::Error>(())
                });
                read.unwrap();
                assert!(found == expected);
            }
        }
    }
}
