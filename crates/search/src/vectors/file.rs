//! The vectors of one collection in a file of rows of equal length.
//!
//! A row has the hash of the record's id, its seq, the hash of its text, a checksum and the vector: 28 bytes, and one byte for each number
//! of the vector (412 bytes for 384 numbers). A row of zeros is free and is used again, so that removing a record overwrites its vector. A
//! record without a vector has a vector of zeros. Rows are synced before a progress is written that depends on them ([`VectorFile::sync`]).
//! Opening reads all rows and frees each row with a wrong checksum.
//!
//! Only the places of the rows are in memory, at most some 80 bytes a record. The operating system caches rows that are read often.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use doppel_core::record::RecordId;
use doppel_core::schemes::hash::{city64, city64_bytes};
use doppel_store::Seq;
use parking_lot::RwLock;

use super::quantised::length;

/// Bytes of a row besides the vector: three numbers of eight bytes and the checksum.
const HEAD_BYTES: usize = 28;
/// Position of the checksum in a row.
const CHECKSUM_AT: usize = 24;
/// Size of the buffer with which a file is read when it is opened.
const READ_BYTES: usize = 1 << 20;

/// A record with its vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredVector {
    /// The hash of the id; never 0.
    pub(crate) id: u64,
    pub(crate) seq: Seq,
    pub(crate) text: u64,
    /// The vector; `None` for a record without a vector.
    pub(crate) vector: Option<Vec<i8>>,
}

/// Returns the hash by which a record is found. Two ids of a million have the same hash with a probability of 3 in 100 million; the row
/// then belongs to the record that is stored later, and the other record counts as a record without a vector.
pub(crate) fn id_hash(id: &RecordId) -> u64 {
    city64(id.as_str()).max(1)
}

/// The number of rows of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowCounts {
    /// Number of records with a vector.
    pub(crate) vectors: u64,
    /// Number of records without a vector.
    pub(crate) missing: u64,
}

/// The vectors of one collection.
pub(crate) struct VectorFile {
    file: File,
    dimension: usize,
    rows: RwLock<RowPlaces>,
    /// True if rows were written that are not synced.
    is_unsynced: AtomicBool,
}

#[derive(Default)]
struct RowPlaces {
    by_id: HashMap<u64, u32>,
    by_seq: HashMap<u64, u32>,
    free: Vec<u32>,
    /// Number of rows in the file, including free rows.
    len: u32,
    counts: RowCounts,
    /// The sum of all vectors, each with length 1.
    sum: Vec<f64>,
}

impl VectorFile {
    /// Opens the file, or creates it. Also returns the number of damaged rows; these rows are now free. O(bytes of the file).
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn open(path: &Path, dimension: usize) -> io::Result<(Self, usize)> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut opened = Self { file, dimension, rows: RwLock::default(), is_unsynced: AtomicBool::new(false) };
        let damaged = opened.load()?;
        Ok((opened, damaged))
    }

    fn row_bytes(&self) -> usize {
        HEAD_BYTES + self.dimension
    }

    fn load(&mut self) -> io::Result<usize> {
        let mut damaged = 0;
        let mut bytes = vec![0; self.row_bytes()];
        let count = self.file.metadata()?.len() / bytes.len() as u64;
        let mut rows = RowPlaces { sum: vec![0.0; self.dimension], ..RowPlaces::default() };
        let mut reader = BufReader::with_capacity(READ_BYTES, &self.file);
        // A file cannot have more rows than a collection has records, which is less than four thousand million.
        for place in 0..u32::try_from(count).unwrap_or(u32::MAX) {
            reader.read_exact(&mut bytes)?;
            rows.len += 1;
            match decode(&bytes) {
                Some(row) if !rows.by_id.contains_key(&row.id) && !rows.by_seq.contains_key(&row.seq.0) => {
                    rows.add(place, &row);
                }
                read => {
                    damaged += usize::from(read.is_some() || bytes.iter().any(|byte| *byte != 0));
                    rows.free.push(place);
                }
            }
        }
        drop(reader);
        // An incomplete row at the end is cut off.
        self.file.set_len(u64::from(rows.len) * bytes.len() as u64)?;
        self.rows = RwLock::new(rows);
        Ok(damaged)
    }

    pub(crate) fn counts(&self) -> RowCounts {
        self.rows.read().counts
    }

    /// Returns the number of rows, after all of them have reached the disk.
    ///
    /// # Errors
    /// The file cannot be synced.
    pub(crate) fn sync(&self) -> io::Result<u64> {
        let counts = self.counts();
        if self.is_unsynced.swap(false, Ordering::AcqRel) {
            self.file.sync_data().inspect_err(|_| self.is_unsynced.store(true, Ordering::Release))?;
        }
        Ok(counts.vectors + counts.missing)
    }

    /// Size of the file in bytes.
    pub(crate) fn disk_bytes(&self) -> u64 {
        u64::from(self.rows.read().len) * self.row_bytes() as u64
    }

    /// Memory of the places of the rows in bytes. A place takes 17 bytes in each of two tables.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let rows = self.rows.read();
        let places = (rows.by_id.capacity() + rows.by_seq.capacity()) * 17 + rows.free.capacity() * 4;
        (places + rows.sum.len() * 8) as u64
    }

    /// Returns the mean of all vectors, each with length 1.
    pub(crate) fn mean(&self) -> Vec<f32> {
        let rows = self.rows.read();
        let count = rows.counts.vectors.max(1) as f64;
        rows.sum.iter().map(|sum| (sum / count) as f32).collect()
    }

    /// Returns the row of a record. O(1).
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn by_id(&self, id: u64) -> io::Result<Option<StoredVector>> {
        let rows = self.rows.read();
        rows.by_id.get(&id).map_or(Ok(None), |place| self.read(*place))
    }

    /// Returns the row of the record with a seq. O(1).
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn by_seq(&self, seq: Seq) -> io::Result<Option<StoredVector>> {
        let rows = self.rows.read();
        rows.by_seq.get(&seq.0).map_or(Ok(None), |place| self.read(*place))
    }

    /// Returns all seqs that have a row, ascending. O(rows).
    pub(crate) fn seqs(&self) -> Vec<Seq> {
        let mut seqs: Vec<Seq> = self.rows.read().by_seq.keys().map(|seq| Seq(*seq)).collect();
        seqs.sort_unstable();
        seqs
    }

    /// Writes the row of a record in place of its earlier row.
    ///
    /// # Errors
    /// The file cannot be written, or the vector has another dimension.
    pub(crate) fn put(&self, row: &StoredVector) -> io::Result<()> {
        if row.vector.as_ref().is_some_and(|vector| vector.len() != self.dimension) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a vector has another dimension"));
        }
        let mut rows = self.rows.write();
        let own = rows.by_id.get(&row.id).copied();
        // The earlier row usually has both the id and the seq; it is freed once.
        let other = rows.by_seq.get(&row.seq.0).copied().filter(|other| own != Some(*other));
        for place in own.into_iter().chain(other) {
            self.free(&mut rows, place)?;
        }
        let place = rows.free.last().copied().unwrap_or(rows.len);
        self.write(place, &encode(row, self.dimension))?;
        if rows.free.pop().is_none() {
            rows.len += 1;
        }
        rows.add(place, row);
        Ok(())
    }

    /// Overwrites the row of a record whose seq is below `before`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn remove(&self, id: u64, before: Seq) -> io::Result<()> {
        let mut rows = self.rows.write();
        let Some(place) = rows.by_id.get(&id).copied() else { return Ok(()) };
        match self.read(place)? {
            Some(row) if row.seq >= before => Ok(()),
            _ => self.free(&mut rows, place),
        }
    }

    /// Overwrites the row of a seq.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn remove_seq(&self, seq: Seq) -> io::Result<()> {
        let mut rows = self.rows.write();
        let place = rows.by_seq.get(&seq.0).copied();
        place.map_or(Ok(()), |place| self.free(&mut rows, place))
    }

    fn free(&self, rows: &mut RowPlaces, place: u32) -> io::Result<()> {
        let row = self.read(place)?;
        self.write(place, &vec![0; self.row_bytes()])?;
        match row {
            Some(row) => rows.forget(place, &row),
            // The row was damaged after it was opened. The counts are right again after the next start.
            None => {
                rows.by_id.retain(|_, other| *other != place);
                rows.by_seq.retain(|_, other| *other != place);
            }
        }
        rows.free.push(place);
        Ok(())
    }

    fn write(&self, place: u32, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.offset(place))?;
        self.is_unsynced.store(true, Ordering::Release);
        Ok(())
    }

    /// Reads a row. `None` if it is damaged.
    fn read(&self, place: u32) -> io::Result<Option<StoredVector>> {
        let mut bytes = vec![0; self.row_bytes()];
        self.file.read_exact_at(&mut bytes, self.offset(place))?;
        Ok(decode(&bytes))
    }

    fn offset(&self, place: u32) -> u64 {
        u64::from(place) * self.row_bytes() as u64
    }
}

impl RowPlaces {
    fn add(&mut self, place: u32, row: &StoredVector) {
        self.by_id.insert(row.id, place);
        self.by_seq.insert(row.seq.0, place);
        self.count(row, 1.0);
    }

    fn forget(&mut self, place: u32, row: &StoredVector) {
        // A row that was written for another record with the same hash keeps its place.
        if self.by_id.get(&row.id) == Some(&place) {
            self.by_id.remove(&row.id);
        }
        if self.by_seq.get(&row.seq.0) == Some(&place) {
            self.by_seq.remove(&row.seq.0);
        }
        self.count(row, -1.0);
    }

    /// Adds a row to the sums, or subtracts it (`sign` is -1).
    fn count(&mut self, row: &StoredVector, sign: f64) {
        let counted = if row.vector.is_some() { &mut self.counts.vectors } else { &mut self.counts.missing };
        *counted = counted.saturating_add_signed(sign as i64);
        let Some(vector) = &row.vector else { return };
        let length = f64::from(length(vector)) * sign;
        self.sum.iter_mut().zip(vector).for_each(|(sum, byte)| *sum += f64::from(*byte) / length);
    }
}

fn encode(row: &StoredVector, dimension: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + dimension);
    for number in [row.id, row.seq.0, row.text] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(&[0; HEAD_BYTES - CHECKSUM_AT]);
    match &row.vector {
        Some(vector) => bytes.extend(vector.iter().map(|byte| byte.cast_unsigned())),
        None => bytes.resize(HEAD_BYTES + dimension, 0),
    }
    let checksum = checksum(&bytes);
    bytes[CHECKSUM_AT..HEAD_BYTES].copy_from_slice(&checksum);
    bytes
}

/// Returns the row of these bytes; `None` if they are free or damaged.
fn decode(bytes: &[u8]) -> Option<StoredVector> {
    let [id, seq, text] = [0, 8, 16].map(|at| number(&bytes[at..at + 8]));
    if id == 0 || bytes[CHECKSUM_AT..HEAD_BYTES] != checksum(bytes) {
        return None;
    }
    let vector = &bytes[HEAD_BYTES..];
    let has_vector = vector.iter().any(|byte| *byte != 0);
    let vector = has_vector.then(|| vector.iter().map(|byte| byte.cast_signed()).collect());
    Some(StoredVector { id, seq: Seq(seq), text, vector })
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Returns the checksum of a row, without the bytes of the checksum.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    let sum = city64_bytes(&bytes[..CHECKSUM_AT]) ^ city64_bytes(&bytes[HEAD_BYTES..]).rotate_left(1);
    let [a, b, c, d, ..] = sum.to_le_bytes();
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: u64, seq: u64, vector: Option<[i8; 3]>) -> StoredVector {
        StoredVector { id, seq: Seq(seq), text: id * 7, vector: vector.map(Vec::from) }
    }

    fn opened(path: &Path) -> VectorFile {
        let (file, damaged) = VectorFile::open(path, 3).unwrap();
        assert_eq!(damaged, 0);
        file
    }

    #[test]
    fn a_file_that_is_opened_again_has_the_same_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v");
        let file = opened(&path);
        let first = row(1, 10, Some([127, 0, 0]));
        let second = row(2, 11, None);
        file.put(&first).unwrap();
        file.put(&second).unwrap();
        file.put(&row(3, 12, Some([0, 127, 0]))).unwrap();
        file.remove(3, Seq(13)).unwrap();
        for file in [file, opened(&path)] {
            assert_eq!(file.by_id(1).unwrap().as_ref(), Some(&first));
            assert_eq!(file.by_seq(Seq(11)).unwrap().as_ref(), Some(&second));
            assert_eq!(file.by_id(3).unwrap(), None);
            assert_eq!(file.counts(), RowCounts { vectors: 1, missing: 1 });
            assert_eq!(file.mean(), [1.0, 0.0, 0.0]);
            assert_eq!(file.seqs(), [Seq(10), Seq(11)]);
        }
    }

    #[test]
    fn a_removed_vector_is_overwritten_and_its_place_is_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v");
        let file = opened(&path);
        file.put(&row(1, 10, Some([101, 102, 103]))).unwrap();
        file.remove(1, Seq(10)).unwrap();
        assert!(file.by_id(1).unwrap().is_some(), "the removal was earlier than this record");
        file.remove(1, Seq(11)).unwrap();
        assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 0));
        file.put(&row(2, 12, Some([1, 2, 3]))).unwrap();
        assert_eq!(file.disk_bytes(), 31);
        file.put(&row(2, 13, Some([4, 5, 6]))).unwrap();
        assert_eq!((file.disk_bytes(), file.by_seq(Seq(12)).unwrap()), (31, None));
        file.remove_seq(Seq(13)).unwrap();
        assert_eq!(file.counts(), RowCounts::default());
    }

    #[test]
    fn a_row_that_is_written_twice_under_one_seq_has_one_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v");
        let file = opened(&path);
        file.put(&row(1, 10, Some([1, 2, 3]))).unwrap();
        let again = StoredVector { text: 99, ..row(1, 10, Some([4, 5, 6])) };
        let further = [row(2, 11, Some([7, 8, 9])), row(3, 12, Some([1, 0, 0])), row(4, 13, None)];
        file.put(&again).unwrap();
        further.iter().for_each(|row| file.put(row).unwrap());
        for file in [file, opened(&path)] {
            for row in further.iter().chain([&again]) {
                assert_eq!(file.by_id(row.id).unwrap().as_ref(), Some(row));
                assert_eq!(file.by_seq(row.seq).unwrap().as_ref(), Some(row));
            }
            assert_eq!(file.counts(), RowCounts { vectors: 3, missing: 1 });
        }
    }

    #[test]
    fn a_damaged_row_is_freed_and_a_torn_one_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v");
        let file = opened(&path);
        (1..=3).for_each(|n| file.put(&row(n, n + 10, Some([1, 2, 3]))).unwrap());
        drop(file);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[31 + 29] ^= 1;
        bytes.truncate(31 * 3 - 1);
        std::fs::write(&path, bytes).unwrap();
        let (file, damaged) = VectorFile::open(&path, 3).unwrap();
        assert_eq!((damaged, file.counts().vectors), (1, 1));
        file.put(&row(4, 20, None)).unwrap();
        assert_eq!(file.disk_bytes(), 62);
    }

    #[test]
    fn a_vector_of_another_dimension_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = opened(&folder.path().join("v"));
        let wrong = StoredVector { vector: Some(vec![1, 2]), ..row(1, 1, None) };
        assert_eq!(file.put(&wrong).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_record_takes_at_most_420_bytes_at_384_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let (file, _) = VectorFile::open(&folder.path().join("v"), 384).unwrap();
        for n in 1..=1_000_u64 {
            file.put(&StoredVector { id: n, seq: Seq(n), text: n, vector: Some(vec![1; 384]) }).unwrap();
        }
        assert_eq!(file.disk_bytes(), 412_000);
        assert!(file.memory_bytes() < 420_000, "{}", file.memory_bytes());
    }
}
