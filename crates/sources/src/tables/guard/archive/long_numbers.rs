//! Numbers of XLSX workbooks with more digits than a floating-point number keeps.

use std::borrow::Cow;
use std::path::Path;

use quick_xml::events::{BytesStart, Event};

use super::super::{LimitedQuantity, MOST_CELL_BYTES};
use super::metered_xml::{MeteredXml, attribute, unescaped};
use super::{PartNames, WorkbookArchive, open, parts};
use crate::tables::numbers::LongNumbers;
use crate::tables::{TableError, WorkbookLimits};

/// The smallest number of digits of a number that is read here. A floating-point number keeps all digits of a shorter number.
const LONG_DIGITS: usize = 16;
/// The largest number of long numbers that are held, of 60 bytes each.
const MOST_LONG: usize = 4 << 20;

/// Reads the whole numbers of at least [`LONG_DIGITS`] digits of one sheet. O(bytes of the sheet).
pub(in crate::tables::guard) fn long_numbers(path: &Path, sheet: &str) -> Result<LongNumbers, TableError> {
    let mut archive = open(path)?;
    let Some(at) = sheet_part(&mut archive, sheet)? else { return Ok(LongNumbers::new()) };
    let part = archive.by_index(at).map_err(|_| TableError::Damaged)?;
    let mut xml = MeteredXml::new(part, u64::MAX, Some(MOST_CELL_BYTES));
    let mut reader = LongNumberReader::default();
    xml.each(|event, _| reader.read(event))?;
    Ok(reader.found)
}

/// Returns the index of the part that contains the sheet with this name.
fn sheet_part(archive: &mut WorkbookArchive, sheet: &str) -> Result<Option<usize>, TableError> {
    let index = parts(archive)?;
    let names = PartNames::of(archive, index.get("_rels/.rels").copied(), WorkbookLimits::IMPORT)?;
    let id = first_attribute(archive, index.get(&names.list), "sheet", |tag| {
        (attribute(tag, "name").and_then(|name| unescaped(&name).ok()).as_deref() == Some(sheet)).then(|| relation(tag))
    })?;
    let Some(Some(id)) = id else { return Ok(None) };
    let target = first_attribute(archive, index.get(&names.relations), "Relationship", |tag| {
        (attribute(tag, "Id").as_deref() == Some(&*id)).then(|| attribute(tag, "Target").map(Cow::into_owned))
    })?;
    let Some(Some(target)) = target else { return Ok(None) };
    Ok(index.get(&names.target(&target)).copied())
}

/// Returns the relation of a sheet in the list of sheets. The prefix of its name space does not matter.
fn relation(tag: &BytesStart<'_>) -> Option<String> {
    let mut attributes = tag.attributes();
    let found = attributes.with_checks(false).filter_map(Result::ok).find(|found| found.key.as_ref().ends_with(":id"));
    found.map(|found| found.value.into_owned())
}

/// Calls `read` for each element with this name, and returns the first result that is not `None`.
fn first_attribute<T>(
    archive: &mut WorkbookArchive,
    at: Option<&usize>,
    element: &str,
    read: impl Fn(&BytesStart<'_>) -> Option<T>,
) -> Result<Option<T>, TableError> {
    let Some(at) = at else { return Ok(None) };
    let part = archive.by_index(*at).map_err(|_| TableError::Damaged)?;
    let mut xml = MeteredXml::new(part, u64::MAX, Some(MOST_CELL_BYTES));
    let mut found = None;
    xml.each(|event, _| {
        if let Event::Start(tag) = event
            && tag.local_name().as_ref() == element
        {
            found = read(tag);
        }
        Ok(found.is_none())
    })?;
    Ok(found)
}

/// Reads the long numbers from the XML of a sheet.
#[derive(Default)]
struct LongNumberReader {
    found: LongNumbers,
    row: u32,
    column: u32,
    is_number: bool,
    is_value: bool,
    value: String,
}

impl LongNumberReader {
    fn read(&mut self, event: &Event<'_>) -> Result<bool, TableError> {
        match event {
            Event::Start(tag) => match tag.local_name().as_ref() {
                "row" => {
                    if let Some(number) = attribute(tag, "r").and_then(|number| number.parse::<u32>().ok()) {
                        self.row = number.saturating_sub(1);
                    }
                    self.column = 0;
                }
                "c" => {
                    if let Some((row, column)) = attribute(tag, "r").and_then(|name| position(&name)) {
                        self.row = row;
                        self.column = column;
                    }
                    self.is_number = attribute(tag, "t").is_none_or(|kind| kind == "n");
                }
                "v" => self.is_value = self.is_number,
                _ => (),
            },
            Event::Text(text) if self.is_value => self.value.push_str(text.as_ref()),
            Event::End(tag) => match tag.local_name().as_ref() {
                "v" => {
                    self.is_value = false;
                    let value = std::mem::take(&mut self.value);
                    let digits = value.trim();
                    if digits.len() >= LONG_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit()) {
                        if self.found.len() >= MOST_LONG {
                            return Err(TableError::OverLimit {
                                what: LimitedQuantity::Cells,
                                limit: MOST_LONG as u64,
                            });
                        }
                        self.found.insert((self.row, self.column), digits.into());
                    }
                }
                "c" => self.column += 1,
                "row" => self.row += 1,
                "sheetData" => return Ok(false),
                _ => (),
            },
            _ => (),
        }
        Ok(true)
    }
}

/// Returns row and column, from 0, of the cell with this name: `B7` is (6, 1).
fn position(name: &str) -> Option<(u32, u32)> {
    let letters = name.find(|sign: char| !sign.is_ascii_alphabetic())?;
    let column = name[..letters].bytes().try_fold(0_u32, |column, letter| {
        column.checked_mul(26)?.checked_add(u32::from(letter.to_ascii_uppercase() - b'A') + 1)
    })?;
    let row: u32 = name[letters..].parse().ok()?;
    Some((row.checked_sub(1)?, column.checked_sub(1)?))
}
