//! Checks of XLS workbooks. An XLS workbook is a stream of records (BIFF) in a compound file, whose sectors a table links (MS-CFB, MS-XLS).
//!
//! The chains are followed in the same way as in the library that reads workbooks, but with a bound: no chain may have more sectors than
//! the file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{LimitedQuantity, MOST_CELL_BYTES, MOST_SHEETS, MOST_WHOLE_CELLS, MOST_WHOLE_TEXT, MOST_WHOLE_TEXTS};
use crate::tables::{MOST_WHOLE, TableError};

/// Numbers from this number on are marks and not sectors.
const RESERVED: u32 = 0xffff_fffa;
const END_OF_CHAIN: u32 = 0xffff_fffe;
const DIFAT_MARK: u32 = 0xffff_fffc;
const HEADER: usize = 512;
const ENTRY: usize = 128;
const MINI_SECTOR: usize = 64;
/// A stream of fewer bytes is stored in the stream of small sectors.
const MINI_STREAM: usize = 4096;
/// The last column of the format (IV), counted from 0.
const LAST_COLUMN: u16 = 255;
/// The largest rectangle of the format: 65,536 rows of 256 columns.
const LARGEST_SHEET: u64 = 65_536 * 256;
/// The largest number of continuations of one record; Excel writes 8,224 bytes in each.
const MOST_CONTINUED: usize = 1 << 15;
/// The largest number of passes over the bytes of the stream for all sheets. A sheet without an end mark covers the rest of the stream.
const MOST_ROUNDS: usize = 16;

/// The largest number of bytes of UTF-8 for one character of a cell.
const BYTES_PER_CHARACTER: u64 = 3;

type TableResult<T> = Result<T, TableError>;

/// Checks the XLS workbook at `path`.
pub(super) fn check(path: &Path) -> TableResult<()> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_WHOLE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_WHOLE {
        return Err(TableError::TooLargeWhole);
    }
    let file = CompoundFile::open(&bytes)?;
    let stream = match file.stream("Workbook")? {
        Some(stream) => Some(stream),
        None => file.stream("Book")?,
    };
    match stream {
        Some(stream) => check_records(&stream),
        // The workbook is encrypted, or the file is not a workbook. The library reports which of the two is true.
        None => Ok(()),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> TableResult<u16> {
    let found = bytes.get(at..at + 2).and_then(|two| two.try_into().ok());
    found.map(u16::from_le_bytes).ok_or(TableError::Damaged)
}

fn u32_at(bytes: &[u8], at: usize) -> TableResult<u32> {
    let found = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    found.map(u32::from_le_bytes).ok_or(TableError::Damaged)
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four))
}

struct CompoundFile<'b> {
    sectors: FileSectors<'b>,
    table: Vec<u32>,
    entries: Vec<DirectoryEntry>,
    mini: Vec<u8>,
    mini_table: Vec<u32>,
}

/// A stream in the directory.
struct DirectoryEntry {
    name: String,
    start: u32,
    bytes: usize,
}

struct FileSectors<'b> {
    bytes: &'b [u8],
    size: usize,
}

impl<'b> FileSectors<'b> {
    /// Returns a sector. The last sector may be incomplete.
    fn get(&self, number: u32) -> TableResult<&'b [u8]> {
        let start = (number as usize).checked_mul(self.size).ok_or(TableError::Damaged)?;
        let end = (start + self.size).min(self.bytes.len());
        self.bytes.get(start..end).filter(|sector| !sector.is_empty()).ok_or(TableError::Damaged)
    }

    fn count(&self) -> usize {
        self.bytes.len().div_ceil(self.size)
    }

    /// Returns the first `most` bytes of the chain that begins at `sector`.
    fn chain(&self, mut sector: u32, table: &[u32], most: usize) -> TableResult<Vec<u8>> {
        let mut found = Vec::new();
        for _ in 0..=self.count() {
            if sector == END_OF_CHAIN || found.len() >= most {
                return Ok(found);
            }
            let piece = self.get(sector)?;
            found.extend_from_slice(&piece[..piece.len().min(most - found.len())]);
            if found.len() < most {
                sector = *table.get(sector as usize).ok_or(TableError::Damaged)?;
            }
        }
        // The chain has more sectors than the file, so that it leads back to itself.
        Err(TableError::Damaged)
    }
}

impl<'b> CompoundFile<'b> {
    fn open(file: &'b [u8]) -> TableResult<Self> {
        let header = file.get(..HEADER).ok_or(TableError::Damaged)?;
        let size = match u16_at(header, 30)? {
            9 => 512,
            12 => 4096,
            _ => return Err(TableError::Damaged),
        };
        let sectors = FileSectors { bytes: file.get(size..).ok_or(TableError::Damaged)?, size };
        let mut table_sectors: Vec<u32> = numbers(&header[76..]).collect();
        let mut next = u32_at(header, 68)?;
        let mut lists = 0;
        while next < RESERVED {
            lists += 1;
            table_sectors.extend(numbers(sectors.get(next)?));
            next = table_sectors.pop().ok_or(TableError::Damaged)?;
            if lists > sectors.count() {
                return Err(TableError::Damaged);
            }
        }
        table_sectors.retain(|sector| *sector < DIFAT_MARK);
        if table_sectors.len() > sectors.count() {
            return Err(TableError::Damaged);
        }
        let mut table = Vec::new();
        for sector in table_sectors {
            table.extend(numbers(sectors.get(sector)?));
        }
        let directory = sectors.chain(u32_at(header, 48)?, &table, usize::MAX)?;
        let entries: Vec<DirectoryEntry> = directory
            .as_chunks::<ENTRY>()
            .0
            .iter()
            .map(|entry| DirectoryEntry::of(entry, size))
            .collect::<TableResult<_>>()?;
        let root = entries.first().ok_or(TableError::Damaged)?;
        let mut mini = Vec::new();
        let mut mini_table = Vec::new();
        let mini_sectors = u32_at(header, 64)? as usize;
        if mini_sectors > 0 {
            mini = sectors.chain(root.start, &table, root.bytes)?;
            let bytes = mini_sectors.checked_mul(size).ok_or(TableError::Damaged)?;
            mini_table = numbers(&sectors.chain(u32_at(header, 60)?, &table, bytes)?).collect();
        }
        Ok(Self { sectors, table, entries, mini, mini_table })
    }

    fn stream(&self, name: &str) -> TableResult<Option<Vec<u8>>> {
        let Some(entry) = self.entries.iter().find(|entry| entry.name.eq_ignore_ascii_case(name)) else {
            return Ok(None);
        };
        let found = if entry.bytes < MINI_STREAM {
            FileSectors { bytes: &self.mini, size: MINI_SECTOR }.chain(entry.start, &self.mini_table, entry.bytes)?
        } else {
            self.sectors.chain(entry.start, &self.table, entry.bytes)?
        };
        Ok(Some(found))
    }
}

impl DirectoryEntry {
    fn of(entry: &[u8; ENTRY], sector: usize) -> TableResult<Self> {
        let units = entry[..64].as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
        let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
        let high = if sector == 512 { 0 } else { u64::from(u32_at(entry, 124)?) };
        let bytes = high << 32 | u64::from(u32_at(entry, 120)?);
        let bytes = usize::try_from(bytes).map_err(|_| TableError::Damaged)?;
        Ok(Self { name: String::from_utf16_lossy(&units), start: u32_at(entry, 116)?, bytes })
    }
}

/// A record, and the records that continue it.
struct BiffRecord<'s> {
    kind: u16,
    data: &'s [u8],
    continued: Vec<&'s [u8]>,
}

/// Removes the next record from the beginning of `stream` and returns it.
fn next_record<'s>(stream: &mut &'s [u8]) -> TableResult<Option<BiffRecord<'s>>> {
    if stream.is_empty() {
        return Ok(None);
    }
    let (kind, data) = take_record(stream)?;
    let mut continued = Vec::new();
    while stream.len() > 4 && u16_at(stream, 0)? == 0x003c {
        if continued.len() >= MOST_CONTINUED {
            return Err(TableError::Damaged);
        }
        continued.push(take_record(stream)?.1);
    }
    Ok(Some(BiffRecord { kind, data, continued }))
}

/// Removes the next record from the beginning of `stream`, and returns its kind and its data.
fn take_record<'s>(stream: &mut &'s [u8]) -> TableResult<(u16, &'s [u8])> {
    let kind = u16_at(stream, 0)?;
    let length = usize::from(u16_at(stream, 2)?);
    let data = stream.get(4..4 + length).ok_or(TableError::Damaged)?;
    *stream = &stream[4 + length..];
    TableResult::Ok((kind, data))
}

/// The memory that the sheets of a workbook need.
#[derive(Default)]
struct SheetMemory {
    cells: u64,
    text: u64,
}

/// The smallest rectangle that contains some cells.
struct CellRectangle {
    first: (u16, u16),
    last: (u16, u16),
    is_empty: bool,
}

impl CellRectangle {
    fn add(&mut self, row: u16, column: u16) {
        self.first = (self.first.0.min(row), self.first.1.min(column));
        self.last = (self.last.0.max(row), self.last.1.max(column));
        self.is_empty = false;
    }

    fn cells(&self) -> u64 {
        if self.is_empty {
            return 0;
        }
        side_length(self.first.0, self.last.0) * side_length(self.first.1, self.last.1)
    }
}

fn side_length(first: u16, last: u16) -> u64 {
    u64::from(last - first) + 1
}

/// Checks the stream of records of a workbook.
pub(super) fn check_records(stream: &[u8]) -> TableResult<()> {
    let mut texts = Vec::new();
    let mut starts = Vec::new();
    let mut rest = stream;
    while let Some(record) = next_record(&mut rest)? {
        match record.kind {
            // The workbook is encrypted. Nothing behind this record can be checked, and the library reads no further.
            0x002f if u16_at(record.data, 0)? != 0 => return Ok(()),
            0x0085 => {
                starts.push(u32_at(record.data, 0)? as usize);
                LimitedQuantity::Sheets.check(starts.len() as u64, MOST_SHEETS)?;
            }
            0x00fc => texts = shared_texts(record)?,
            0x000a => break,
            _ => (),
        }
    }
    let mut sheets = SheetMemory::default();
    let mut left = stream.len().saturating_mul(MOST_ROUNDS);
    for start in starts {
        let sheet = stream.get(start..).ok_or(TableError::Damaged)?;
        let walked = sheets.add(sheet, &texts)?;
        left = left.checked_sub(walked).ok_or(TableError::Damaged)?;
    }
    Ok(())
}

impl SheetMemory {
    /// Adds the sheet at the beginning of `stream`. Returns the number of bytes that were read.
    fn add(&mut self, stream: &[u8], texts: &[u32]) -> TableResult<usize> {
        let mut rest = stream;
        // Charts inside a sheet have records of the same kinds, which are not cells.
        let mut has_begun = false;
        let mut depth = 0_usize;
        let mut around = CellRectangle { first: (u16::MAX, u16::MAX), last: (0, 0), is_empty: true };
        let mut count = 0_u64;
        let mut formula = (0, 0);
        while let Some(record) = next_record(&mut rest)? {
            let data = record.data;
            match record.kind {
                0x0809 if depth > 0 || has_begun => depth += 1,
                0x0809 => has_begun = true,
                0x000a if depth > 0 => depth -= 1,
                0x000a => break,
                _ if depth > 0 => (),
                0x0200 => check_dimensions(data)?,
                // Number, label, text with formats, truth or error, integer, shared text, formula.
                kind @ (0x0203 | 0x0204 | 0x00d6 | 0x0205 | 0x027e | 0x00fd | 0x0006) => {
                    let row = u16_at(data, 0)?;
                    let column = u16_at(data, 2)?;
                    count += 1;
                    place(&mut around, row, column)?;
                    if kind == 0x0006 {
                        formula = (row, column);
                    }
                    self.text += match kind {
                        0x00fd => u64::from(texts.get(u32_at(data, 6)? as usize).copied().unwrap_or(0)),
                        0x0204 | 0x00d6 => data.len() as u64 * BYTES_PER_CHARACTER,
                        _ => 0,
                    };
                }
                // The text of the formula in the previous record.
                0x0207 => {
                    count += 1;
                    place(&mut around, formula.0, formula.1)?;
                    self.text += data.len() as u64 * BYTES_PER_CHARACTER;
                }
                // Integers in adjacent cells.
                0x00bd => {
                    let row = u16_at(data, 0)?;
                    let first = u16_at(data, 2)?;
                    let last = u16_at(data, data.len().saturating_sub(2))?;
                    if last < first {
                        return Err(TableError::Damaged);
                    }
                    count += u64::from(last - first) + 1;
                    place(&mut around, row, first)?;
                    place(&mut around, row, last)?;
                }
                _ => (),
            }
            LimitedQuantity::Cells.check(self.cells + count.max(around.cells()), MOST_WHOLE_CELLS)?;
            LimitedQuantity::TextBytes.check(self.text, MOST_WHOLE_TEXT)?;
        }
        self.cells += count.max(around.cells());
        Ok(stream.len() - rest.len())
    }
}

fn place(around: &mut CellRectangle, row: u16, column: u16) -> TableResult<()> {
    if column > LAST_COLUMN {
        return Err(TableError::Damaged);
    }
    around.add(row, column);
    Ok(())
}

/// Checks the declared rectangle of a sheet, because the library allocates memory for it. It may be as large as the format allows.
fn check_dimensions(data: &[u8]) -> TableResult<()> {
    let (first_row, last_row, first_column, last_column) = match data.len() {
        10 => (bound_at(0, data)?, bound_at(2, data)?, bound_at(4, data)?, bound_at(6, data)?),
        14 | 16 => (u64::from(u32_at(data, 0)?), u64::from(u32_at(data, 4)?), bound_at(8, data)?, bound_at(10, data)?),
        _ => return Err(TableError::Damaged),
    };
    let first_column = if first_column > 0xff || last_column < first_column { 0 } else { first_column };
    if last_row < 1 || last_column < 1 {
        return Ok(());
    }
    // The "last" row and column in the record are the first row and column outside the rectangle.
    let rows = last_row.checked_sub(first_row).ok_or(TableError::Damaged)?;
    let columns = last_column.checked_sub(first_column).ok_or(TableError::Damaged)?;
    LimitedQuantity::Cells.check(rows.saturating_mul(columns), LARGEST_SHEET)
}

fn bound_at(at: usize, data: &[u8]) -> TableResult<u64> {
    u16_at(data, at).map(u64::from)
}

/// Returns upper bounds of the lengths of the shared texts, in bytes of UTF-8.
fn shared_texts(record: BiffRecord<'_>) -> TableResult<Vec<u32>> {
    let data = record.data.get(8..).ok_or(TableError::Damaged)?;
    let mut rest = ContinuedData { data, following: record.continued.into_iter() };
    let mut lengths = Vec::new();
    while !rest.data.is_empty() || rest.advance() {
        LimitedQuantity::Texts.check(lengths.len() as u64 + 1, MOST_WHOLE_TEXTS)?;
        let bytes = u64::from(rest.text()?) * BYTES_PER_CHARACTER;
        LimitedQuantity::CellBytes.check(bytes, MOST_CELL_BYTES)?;
        lengths.push(u32::try_from(bytes).unwrap_or(u32::MAX));
    }
    Ok(lengths)
}

/// The data of a record and of the records that continue it.
struct ContinuedData<'s, I> {
    data: &'s [u8],
    following: I,
}

impl<'s, I: Iterator<Item = &'s [u8]>> ContinuedData<'s, I> {
    fn advance(&mut self) -> bool {
        match self.following.next() {
            Some(data) => {
                self.data = data;
                true
            }
            None => false,
        }
    }

    fn take(&mut self, count: usize) -> TableResult<&'s [u8]> {
        let (taken, rest) = self.data.split_at_checked(count).ok_or(TableError::Damaged)?;
        self.data = rest;
        Ok(taken)
    }

    /// Skips a text with its formats. Returns its number of characters.
    fn text(&mut self) -> TableResult<u16> {
        if self.data.is_empty() {
            return Ok(0);
        }
        let head = self.take(3)?;
        let characters = u16_at(head, 0)?;
        let flags = head[2];
        let formats = if flags & 0x8 == 0 { 0 } else { usize::from(u16_at(self.take(2)?, 0)?) * 4 };
        let more = if flags & 0x4 == 0 { 0 } else { u32_at(self.take(4)?, 0)? as usize };
        let mut left = usize::from(characters);
        let mut width = 1 + usize::from(flags & 1);
        while left > 0 {
            let here = (self.data.len() / width).min(left);
            self.take(here * width)?;
            left -= here;
            if left > 0 {
                if !self.advance() {
                    return Err(TableError::Damaged);
                }
                width = 1 + usize::from(self.take(1)?[0] & 1);
            }
        }
        self.skip(formats)?;
        self.skip(more)?;
        Ok(characters)
    }

    fn skip(&mut self, mut count: usize) -> TableResult<()> {
        while count > 0 {
            if self.data.is_empty() && !self.advance() {
                return Err(TableError::Damaged);
            }
            let here = count.min(self.data.len());
            self.take(here)?;
            count -= here;
        }
        Ok(())
    }
}
