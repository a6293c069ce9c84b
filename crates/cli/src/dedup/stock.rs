//! The records that were read: their rows, and the facts that later phases need.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context as _;

use doppel_core::record::RecordId;
use doppel_core::schemes::hash::city64_bytes;
use doppel_core::schemes::profile::Signed;
use doppel_engine::replay::{EarlierRecord, SignedRecord};
use doppel_findings::log::ByteLog;

/// The value for a missing time. It is older than all times.
const NO_TIME: i64 = i64::MIN;
/// Number of bytes for the length of the id in front of a row.
const ID_LENGTH_BYTES: usize = 2;

/// The records by position. Each record needs 44 bytes in addition to the memory of [`ByteLog`].
pub(super) struct RecordStock {
    /// Ids and rows.
    rows: ByteLog,
    /// The parts of the signatures that judging needs.
    signed: ByteLog,
    /// The first records, signed without statistics, until the comparison takes them.
    first_signed: Vec<Option<SignedRecord>>,
    /// Number of bytes that are left for `first_signed`.
    room: usize,
    /// Times in seconds.
    times: Vec<i64>,
    /// Hashes of the petitioners; 0 for a record without one.
    petitioners: Vec<u64>,
    /// Positions by the hash of the id, or by the next free number after the hash.
    ids: HashMap<u64, u32>,
}

/// A record to store.
pub(super) struct KeptRecord<'a> {
    pub(super) id: &'a RecordId,
    pub(super) row: &'a str,
    pub(super) time: Option<jiff::Timestamp>,
    pub(super) petitioner: Option<&'a str>,
}

impl RecordStock {
    /// Keeps about `memory` bytes of records in memory, and the rest of their rows in `dir`.
    pub(super) fn new(dir: &Path, memory: usize) -> Self {
        Self {
            rows: ByteLog::new(dir, memory / 8 * 3),
            signed: ByteLog::new(dir, memory / 8),
            first_signed: Vec::new(),
            room: memory / 2,
            times: Vec::new(),
            petitioners: Vec::new(),
            ids: HashMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.count()
    }

    /// Adds a record and returns true, unless a record with this id exists.
    pub(super) fn add(&mut self, record: &KeptRecord<'_>) -> anyhow::Result<bool> {
        let KeptRecord { id, row, time, petitioner } = record;
        let mut hash = city64_bytes(id.as_str().as_bytes());
        while let Some(&position) = self.ids.get(&hash) {
            if self.id(position)? == id.as_str() {
                return Ok(false);
            }
            hash = hash.wrapping_add(1);
        }
        let position = u32::try_from(self.len()).context("more than 2^32 records; give fewer at once")?;
        let length = (id.as_str().len() as u16).to_le_bytes();
        self.rows.push(&[&length, id.as_str().as_bytes(), row.as_bytes()]).context("cannot keep a row on disk")?;
        self.ids.insert(hash, position);
        self.times.push(time.map_or(NO_TIME, jiff::Timestamp::as_second));
        self.petitioners.push(petitioner.map_or(0, |petitioner| city64_bytes(petitioner.as_bytes()).max(1)));
        Ok(true)
    }

    /// True if there is memory for more signed records. Once false, the value stays false.
    pub(super) fn has_room(&self) -> bool {
        self.room > 0
    }

    /// Keeps the signed record that was added last, if there is room.
    pub(super) fn keep_signed(&mut self, record: SignedRecord) {
        if self.has_room() {
            self.room = self.room.saturating_sub(record.bytes());
            self.first_signed.push(Some(record));
        }
    }

    /// Returns a signed record if it is still in memory.
    pub(super) fn signed_at(&self, position: usize) -> Option<&SignedRecord> {
        self.first_signed.get(position)?.as_ref()
    }

    /// Removes a signed record from memory.
    pub(super) fn take_signed(&mut self, position: u32) -> Option<SignedRecord> {
        self.first_signed.get_mut(position as usize)?.take()
    }

    /// Frees the table of ids. No more records can be added.
    pub(super) fn close(&mut self) {
        self.ids = HashMap::new();
    }

    /// Stores the signature of the next record.
    pub(super) fn sign(&mut self, signed: &Signed, whole: bool) -> anyhow::Result<()> {
        let encoded = if whole { signed.encode() } else { Vec::new() };
        self.signed.push(&[&signed.digest.0, &encoded]).context("cannot keep a signature on disk")
    }

    /// Returns the id and the row.
    fn entry(&self, position: u32) -> anyhow::Result<(String, String)> {
        let mut bytes = self.rows.get(position as usize).context("cannot read a row back")?;
        let length = ID_LENGTH_BYTES + usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
        let row = String::from_utf8(bytes.split_off(length)).context("a stored row is damaged")?;
        let id = String::from_utf8(bytes.split_off(ID_LENGTH_BYTES)).context("a stored row is damaged")?;
        Ok((id, row))
    }

    pub(super) fn id(&self, position: u32) -> anyhow::Result<String> {
        Ok(self.entry(position)?.0)
    }

    pub(super) fn row(&self, position: u32) -> anyhow::Result<String> {
        Ok(self.entry(position)?.1)
    }

    /// Returns a signed record for comparisons.
    pub(super) fn earlier(&self, position: u32) -> anyhow::Result<EarlierRecord> {
        let (id, row) = self.entry(position)?;
        let id = RecordId::new(&id).map_err(|reason| anyhow::anyhow!("a stored id is damaged: {reason}"))?;
        let bytes = self.signed.get(position as usize).context("cannot read a signature back")?;
        let (digest, encoded) = bytes.split_first_chunk().context("a stored signature is damaged")?;
        let signed = Signed::decode(encoded);
        let signatures = signed.map(|signed| signed.signatures).unwrap_or_default();
        Ok(EarlierRecord { id, row: row.into(), digest: doppel_core::schemes::profile::Digest(*digest), signatures })
    }

    /// Returns the time as a number: a later time is greater, and a missing time is the least.
    pub(super) fn time(&self, position: u32) -> i64 {
        self.times[position as usize]
    }

    /// Returns the first and the last time of the members that have a time.
    pub(super) fn span(&self, members: &[u64]) -> (Option<String>, Option<String>) {
        let times = members.iter().map(|&at| self.times[at as usize]).filter(|&time| time != NO_TIME);
        (times.clone().min().and_then(time_text), times.max().and_then(time_text))
    }

    /// Returns the number of different known petitioners of the members.
    pub(super) fn petitioners(&self, members: &[u64]) -> usize {
        let mut hashes: Vec<u64> = members.iter().map(|&at| self.petitioners[at as usize]).collect();
        hashes.retain(|&hash| hash != 0);
        hashes.sort_unstable();
        hashes.dedup();
        hashes.len()
    }
}

fn time_text(second: i64) -> Option<String> {
    jiff::Timestamp::from_second(second).ok().map(|time| time.to_string())
}
