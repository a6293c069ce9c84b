//! Values separated by commas, semicolons or tabs.

use std::fs::File;
use std::io::{BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;

use super::encoding::Transcoded;
use super::{Cell, Encoding, Layout, MOST_ABOVE, RowFault, TableError, TableRow, read_up_to};
use crate::csv::records::{Fault, Records, Start};

/// What separates values, the usual one first.
const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];
/// The separator is found in so many bytes.
const HEAD: usize = 1 << 16;
/// How Excel writes the separator into a line of its own above all others.
const SEP_LINE: &[u8] = b"sep=";

/// The bytes of a file without its mark, UTF-16 as UTF-8.
fn bytes(path: &Path, encoding: Encoding) -> Result<Box<dyn Read>, TableError> {
    let mut file = File::open(path)?;
    read_up_to(&mut file, &mut [0; 3][..encoding.mark()])?;
    Ok(match encoding {
        Encoding::Utf16Le => Box::new(Transcoded::new(file, false)),
        Encoding::Utf16Be => Box::new(Transcoded::new(file, true)),
        _ => Box::new(file),
    })
}

/// How the file at `path` is written.
pub(super) fn layout(path: &Path) -> Result<Layout, TableError> {
    let encoding = Encoding::of(File::open(path)?)?.ok_or(TableError::Unknown)?;
    let mut head = vec![0; HEAD];
    let read = read_up_to(&mut bytes(path, encoding)?, &mut head)?;
    Ok(Layout::Csv { encoding, separator: separator(&head[..read]) })
}

/// What `sep=` says, else what stands most often in the first line that has any; a comma where none has.
fn separator(head: &[u8]) -> u8 {
    if let Some(said) = sep_line(head) {
        return said;
    }
    let mut counts = [0_usize; SEPARATORS.len()];
    let (mut quoted, mut lines) = (false, 0);
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
                if let Some(at) = SEPARATORS.iter().position(|separator| separator == byte) {
                    counts[at] += 1;
                }
            }
            _ => (),
        }
    }
    // The first of several that stand as often.
    let best = SEPARATORS.iter().zip(counts).rev().max_by_key(|(_, count)| *count);
    best.map_or(SEPARATORS[0], |(separator, _)| *separator)
}

/// The separator that the first line names.
fn sep_line(head: &[u8]) -> Option<u8> {
    let rest = head.strip_prefix(SEP_LINE).or_else(|| head.strip_prefix(b"\"sep="))?;
    SEPARATORS.iter().find(|separator| rest.first() == Some(separator)).copied()
}

/// The rows of the file at `path`.
pub(super) fn rows(
    path: &Path,
    encoding: Encoding,
    separator: u8,
    max: usize,
    mut seen: impl FnMut(TableRow) -> ControlFlow<()>,
) -> Result<(), TableError> {
    let mut input = bytes(path, encoding)?;
    let mut head = [0; 8];
    let read = read_up_to(&mut input, &mut head)?;
    let has_sep_line = sep_line(&head[..read]).is_some();
    let input = BufReader::with_capacity(1 << 16, std::io::Cursor::new(head[..read].to_vec()).chain(input));
    let mut records = Records::new(input, max, separator);
    if has_sep_line {
        records.next_record()?;
    }
    let mut number = 0;
    while let Some(Start { fault, .. }) = records.next_record()? {
        number += 1;
        let row = row(number, &records, fault, encoding);
        if seen(row).is_break() {
            break;
        }
    }
    Ok(())
}

fn row<R: std::io::BufRead>(number: u64, records: &Records<R>, fault: Option<Fault>, encoding: Encoding) -> TableRow {
    let mut is_text = true;
    let mut cell = |bytes: &[u8]| {
        let (text, whole) = encoding.decode(bytes);
        is_text &= whole;
        Cell::from(text)
    };
    let (cells, fault) = match fault {
        None => (records.cells().map(cell).collect(), None),
        Some(Fault::TooLarge { .. }) => (Vec::new(), Some(RowFault::TooLong)),
        Some(Fault::OpenQuote { .. }) => (vec![cell(&records.text)], Some(RowFault::OpenQuote)),
    };
    TableRow { number, cells, fault: fault.or((!is_text).then_some(RowFault::Undecodable)) }
}
