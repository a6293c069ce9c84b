//! Reads values that commas, semicolons, tabs or vertical bars separate.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;

use super::encoding::Utf16Reader;
use super::{MOST_ABOVE, RowFault, TableCell, TableError, TableLayout, TableRow, TextEncoding, read_up_to};
use crate::csv::records::{CsvFault, CsvRecordReader, RecordStart};

/// The bytes that may separate values. The usual separator is first.
const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Number of bytes in which the separator is searched.
const HEAD: usize = 1 << 16;
/// Bytes from this byte on may be the second half of a character of GB18030. Such a byte cannot separate values in this encoding.
const FIRST_TRAILING: u8 = 0x40;
/// The beginning of a first line in which Excel names the separator.
const SEP_LINE: &[u8] = b"sep=";

/// The format of text that a caller wants. A part that is `None` is detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsText {
    pub encoding: Option<TextEncoding>,
    /// The byte between two values.
    pub separator: Option<u8>,
}

type TextInput = Box<dyn Read + Send>;

/// Reads up to [`HEAD`] bytes ahead. Returns these bytes, and the input including them.
fn ahead(mut input: TextInput) -> io::Result<(Vec<u8>, TextInput)> {
    let mut head = vec![0; HEAD];
    let read = read_up_to(&mut input, &mut head)?;
    head.truncate(read);
    Ok((head.clone(), Box::new(io::Cursor::new(head).chain(input))))
}

/// Returns the separator that the `sep=` line names; otherwise the most frequent separator in the first line that contains a separator;
/// otherwise a comma. Separators that are bytes of characters in GB18030 are not counted for this encoding.
fn separator(head: &[u8], encoding: TextEncoding) -> u8 {
    if let Some(said) = sep_line(head) {
        return said;
    }
    let mut counts = [0_usize; SEPARATORS.len()];
    let mut quoted = false;
    let mut lines = 0;
    for byte in head {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' | b'\r' if !quoted => {
                lines += 1;
                if counts.iter().any(|count| *count > 0) || lines > 2 * MOST_ABOVE {
                    break;
                }
            }
            byte if !quoted => {
                let is_character = encoding == TextEncoding::Gb18030 && *byte >= FIRST_TRAILING;
                if let Some(at) = SEPARATORS.iter().position(|separator| separator == byte && !is_character) {
                    counts[at] += 1;
                }
            }
            _ => (),
        }
    }
    // Of equally frequent separators, the first separator counts.
    let best = SEPARATORS.iter().zip(counts).rev().max_by_key(|(_, count)| *count);
    best.map_or(SEPARATORS[0], |(separator, _)| *separator)
}

/// Returns the separator that the first line names.
fn sep_line(head: &[u8]) -> Option<u8> {
    let rest = head.strip_prefix(SEP_LINE).or_else(|| head.strip_prefix(b"\"sep="))?;
    SEPARATORS.iter().find(|separator| rest.first() == Some(separator)).copied()
}

/// The rows of a text, one at a time.
pub(super) struct TextRows {
    records: CsvRecordReader<BufReader<TextInput>>,
    encoding: TextEncoding,
    separator: u8,
    number: u64,
}

impl TextRows {
    /// Opens a text. Rows of more than `max` bytes are not held. An encoding that is not given is found from the first [`HEAD`] bytes.
    ///
    /// # Errors
    /// The beginning cannot be read, is not text, or cannot be cut by the wanted separator.
    pub(super) fn open(input: TextInput, wanted: AsText, max: usize) -> Result<Self, TableError> {
        let (head, mut input) = ahead(input)?;
        let encoding = match wanted.encoding {
            Some(encoding) => encoding,
            None => TextEncoding::of_head(&head, head.len() < HEAD)?.ok_or(TableError::Unknown)?,
        };
        io::copy(&mut input.by_ref().take(encoding.mark_of(&head)), &mut io::sink())?;
        let input: TextInput = match encoding {
            TextEncoding::Utf16Le => Box::new(Utf16Reader::new(input, false)),
            TextEncoding::Utf16Be => Box::new(Utf16Reader::new(input, true)),
            _ => input,
        };
        let (head, input) = ahead(input)?;
        let separator = wanted.separator.unwrap_or_else(|| separator(&head, encoding));
        if encoding == TextEncoding::Gb18030 && separator >= FIRST_TRAILING {
            return Err(TableError::Separator);
        }
        let mut records = CsvRecordReader::new(BufReader::with_capacity(1 << 16, input), max, separator);
        if sep_line(&head).is_some() {
            records.next_record()?;
        }
        Ok(Self { records, encoding, separator, number: 0 })
    }

    pub(super) fn layout(&self) -> TableLayout {
        TableLayout::Csv { encoding: self.encoding, separator: self.separator }
    }

    /// Returns the next row, and `None` at the end.
    ///
    /// # Errors
    /// The text cannot be read.
    pub(super) fn next_row(&mut self) -> io::Result<Option<TableRow>> {
        let Some(RecordStart { line, fault }) = self.records.next_record()? else { return Ok(None) };
        self.number += 1;
        let mut is_text = true;
        let mut cell = |bytes: &[u8]| {
            let (text, whole) = self.encoding.decode(bytes);
            is_text &= whole;
            TableCell::from(text)
        };
        let (cells, fault) = match fault {
            None => (self.records.cells().map(cell).collect(), None),
            Some(CsvFault::TooLarge { quoted }) => (Vec::new(), Some(RowFault::TooLong { quoted })),
            Some(CsvFault::OpenQuote { line, end }) => {
                (vec![cell(&self.records.text)], Some(RowFault::OpenQuote { line, end }))
            }
        };
        let fault = fault.or((!is_text).then_some(RowFault::Undecodable));
        Ok(Some(TableRow { number: self.number, line, cells, fault, ..TableRow::default() }))
    }
}

/// Passes the rows of the file at `path` to `seen`, until `seen` breaks. Returns the layout of the file. If the caller wants no certain
/// encoding, the encoding is found from the whole file.
pub(super) fn rows(
    path: &Path,
    wanted: AsText,
    max: usize,
    mut seen: impl FnMut(TableRow) -> ControlFlow<()>,
) -> Result<TableLayout, TableError> {
    let encoding = match wanted.encoding {
        Some(encoding) => encoding,
        None => TextEncoding::of(File::open(path)?)?.ok_or(TableError::Unknown)?,
    };
    let wanted = AsText { encoding: Some(encoding), ..wanted };
    let mut rows = TextRows::open(Box::new(File::open(path)?), wanted, max)?;
    while let Some(row) = rows.next_row()? {
        if seen(row).is_break() {
            break;
        }
    }
    Ok(rows.layout())
}
