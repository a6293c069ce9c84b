//! Compares the rows of one file with each other: each row with the earlier rows, by the rules of the collection.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::profile::Digest;
use doppel_core::verdict::Match;
use doppel_engine::replay::{EarlierRecord, Replay, SignedRecord};
use doppel_store::Seq;

/// A placed row: the position of its content on disk.
struct PlacedRow {
    number: u64,
    at: u64,
    length: usize,
    digest: Digest,
}

/// The placed rows. The memory contains their index and about fifty bytes per row; their content is on disk.
pub struct PlacedRows {
    replay: Arc<Replay>,
    texts: File,
    end: u64,
    kept: Vec<PlacedRow>,
}

impl PlacedRows {
    /// Creates the comparison without rows. The content of rows is written to an unnamed file in `folder`.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn new(replay: Arc<Replay>, folder: &Path) -> io::Result<Self> {
        Ok(Self { replay, texts: tempfile::tempfile_in(folder)?, end: 0, kept: Vec::new() })
    }

    /// Places the row with this number after the other rows. Returns the earliest earlier row with the same content, otherwise the earliest
    /// match.
    ///
    /// # Errors
    /// The content of rows cannot be written or read.
    pub fn place(&mut self, number: u64, row: &Row, subject: SignedRecord) -> io::Result<Option<(u64, Match)>> {
        let digest = subject.signed().digest;
        let seq = Seq(self.kept.len() as u64 + 1);
        let placed = self.replay.place(seq, subject).map_err(|error| io::Error::other(error.to_string()))?;
        let replay = Arc::clone(&self.replay);
        let found = replay.judge(placed, |seq| self.earlier(seq))?;
        let text = row.json().as_bytes();
        self.texts.write_all_at(text, self.end)?;
        self.kept.push(PlacedRow { number, at: self.end, length: text.len(), digest });
        self.end += text.len() as u64;
        let best = found.matches.into_iter().min_by_key(|found| (!found.is_exact(), found.seq));
        Ok(best.map(|found| (self.kept[found.seq.0 as usize - 1].number, found)))
    }

    fn earlier(&self, seq: Seq) -> io::Result<EarlierRecord> {
        let PlacedRow { number, at, length, digest } = &self.kept[seq.0 as usize - 1];
        let mut text = vec![0; *length];
        self.texts.read_exact_at(&mut text, *at)?;
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        let signatures = match self.replay.needs_signatures() {
            false => Vec::new(),
            true => {
                let row = Row::parse(text.as_bytes()).map_err(|_| io::Error::other("a row was damaged on disk"))?;
                let subject = self.replay.sign(&row).map_err(|error| io::Error::other(error.to_string()))?;
                subject.signed().signatures.clone()
            }
        };
        let id = RecordId::new(&number.to_string()).map_err(io::Error::other)?;
        Ok(EarlierRecord { id, row: text.into(), digest: *digest, signatures })
    }
}
