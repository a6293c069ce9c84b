//! Compares the rows of one file with each other: each row with the earlier rows, by the rules of the collection.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::log::ByteLog;
use crate::{EarlierRow, RowFinding};
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::profile::Digest;
use doppel_core::verdict::Match;
use doppel_engine::Error;
use doppel_engine::replay::{EarlierRecord, Replay, SignedRecord};
use doppel_store::Seq;

/// A row that was compared with the records, and is ready for the comparison with the earlier rows of its file.
pub struct CheckedRow {
    row: Row,
    subject: SignedRecord,
    found: Option<Match>,
}

impl CheckedRow {
    /// Signs a row. This uses a core for up to some milliseconds. `found` is its best match among the records.
    ///
    /// # Errors
    /// The row cannot be compared.
    pub fn new(replay: &Replay, row: Row, found: Option<Match>) -> Result<Self, Error> {
        let subject = replay.sign(&row)?;
        Ok(Self { row, subject, found })
    }
}

/// The placed rows. The memory contains their index, about fifty bytes per row, and a megabyte of their content; the rest is on disk.
pub struct PlacedRows {
    replay: Arc<Replay>,
    texts: ByteLog,
    /// The number and the digest of each row.
    placed: Vec<(u64, Digest)>,
}

impl PlacedRows {
    /// Creates the comparison without rows. The content of rows beyond a megabyte is written to an unnamed file in
    /// `folder`.
    pub fn new(replay: Arc<Replay>, folder: &Path) -> Self {
        Self { replay, texts: ByteLog::new(folder, 0), placed: Vec::new() }
    }

    /// Places the row with this number after the other rows, and returns its finding. `name_of` names an earlier row by its number.
    ///
    /// # Errors
    /// The content of rows cannot be written or read.
    pub fn finding<E: From<io::Error>>(
        &mut self,
        number: u64,
        checked: CheckedRow,
        name_of: impl FnOnce(u64) -> Result<EarlierRow, E>,
    ) -> Result<RowFinding, E> {
        let CheckedRow { row, subject, found } = checked;
        let too_short = subject.signed().too_short;
        let earlier = match self.place(number, &row, subject)? {
            Some((earlier, found)) => Some((name_of(earlier)?, found)),
            None => None,
        };
        Ok(RowFinding::checked(found, earlier, too_short))
    }

    /// Places a row. Returns the earliest earlier row with the same content, otherwise the earliest match.
    fn place(&mut self, number: u64, row: &Row, subject: SignedRecord) -> io::Result<Option<(u64, Match)>> {
        let digest = subject.signed().digest;
        let seq = Seq(self.placed.len() as u64 + 1);
        let placed = self.replay.place(seq, subject).map_err(|error| io::Error::other(error.to_string()))?;
        let replay = Arc::clone(&self.replay);
        let found = replay.judge(placed, |seq| self.earlier(seq))?;
        self.texts.push(&[row.json().as_bytes()])?;
        self.placed.push((number, digest));
        let best = found.matches.into_iter().min_by_key(|found| (!found.is_exact(), found.seq));
        Ok(best.map(|found| (self.placed[found.seq.0 as usize - 1].0, found)))
    }

    fn earlier(&self, seq: Seq) -> io::Result<EarlierRecord> {
        let at = seq.0 as usize - 1;
        let (number, digest) = self.placed[at];
        let text = String::from_utf8(self.texts.get(at)?).map_err(io::Error::other)?;
        let signatures = match self.replay.needs_signatures() {
            false => Vec::new(),
            true => {
                let row = Row::parse(text.as_bytes()).map_err(|_| io::Error::other("a row was damaged on disk"))?;
                let subject = self.replay.sign(&row).map_err(|error| io::Error::other(error.to_string()))?;
                subject.signed().signatures.clone()
            }
        };
        let id = RecordId::new(&number.to_string()).map_err(io::Error::other)?;
        Ok(EarlierRecord { id, row: text.into(), digest, signatures })
    }
}
