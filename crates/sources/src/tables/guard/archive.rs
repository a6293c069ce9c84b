//! Checks of workbooks that are ZIP archives of XML: XLSX and ODS.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use calamine::Dimensions;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use zip::ZipArchive;

use super::{
    HELD_PER_TEXT, LimitedQuantity, MOST_CELL_BYTES, MOST_ELEMENTS, MOST_PARTS, MOST_SHEETS, MOST_WHOLE_CELLS,
    MOST_WHOLE_TEXT, TEXT_PER_UNPACKED,
};
use crate::tables::numbers::LongNumbers;
use crate::tables::{MOST_WHOLE, TableError, WorkbookLimits};

type WorkbookArchive = ZipArchive<BufReader<File>>;

/// The folder of the sheets of an XLSX workbook. Nearly every program uses this name.
const SHEETS: &str = "xl/worksheets/";
/// The largest numbers of rows and columns of a sheet. The library that reads workbooks cuts repetitions at these.
const MOST_ROWS: u64 = 1_048_576;
const MOST_ROW_CELLS: u64 = 16_384;

fn open(path: &Path) -> Result<WorkbookArchive, TableError> {
    let archive = ZipArchive::new(BufReader::new(File::open(path)?)).map_err(|_| TableError::Damaged)?;
    LimitedQuantity::Parts.check(archive.len() as u64, MOST_PARTS)?;
    Ok(archive)
}

/// Returns the name of a part in the form in which the library compares names.
fn normalised(name: &str) -> String {
    name.replace('\\', "/").to_ascii_lowercase()
}

/// The content of a part of an XLSX workbook. The order of the variants is the order in which the parts are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PartContent {
    /// The relations of the workbook, which name its sheets.
    Relations,
    /// The texts that cells share, which sheets refer to by number.
    SharedTexts,
    /// The list of sheets.
    List,
    /// Styles, the theme, the relations of the package.
    Structure,
    /// A sheet, which is read as a stream.
    Sheet,
    /// A part that is not read.
    Other,
}

/// The names of the parts of an XLSX workbook that are held in memory as a whole.
struct PartNames {
    relations: String,
    shared_texts: String,
    list: String,
    structure: [String; 3],
    /// The sheets that the relations name.
    sheets: HashSet<String>,
    /// The folder of the list of sheets.
    folder: String,
}

impl PartNames {
    /// Reads the position of the list of sheets. The library does the same and refuses a workbook without this position.
    fn of(archive: &mut WorkbookArchive, at: Option<usize>, limits: WorkbookLimits) -> Result<Self, TableError> {
        let mut folder = "xl/".to_owned();
        let mut list = "workbook.xml".to_owned();
        if let Some(at) = at {
            let part = archive.by_index(at).map_err(|_| TableError::Damaged)?;
            let mut xml = MeteredXml::new(part, limits.held, None);
            let mut elements = 0;
            xml.each(|event, _| {
                let Event::Start(tag) = event else { return Ok(true) };
                elements += 1;
                LimitedQuantity::Elements.check(elements, MOST_ELEMENTS)?;
                let is_document =
                    attribute(tag, "Type").is_some_and(|kind| kind.ends_with("/relationships/officeDocument"));
                if let (true, "Relationship", Some(target)) =
                    (is_document, tag.local_name().as_ref(), attribute(tag, "Target"))
                {
                    let target = unescaped(&target)?;
                    let (before, name) = target.split_at(target.rfind('/').map_or(0, |at| at + 1));
                    folder = before.strip_prefix('/').unwrap_or(before).to_owned();
                    if !name.is_empty() {
                        list = name.to_owned();
                    }
                }
                Ok(true)
            })?;
        }
        Ok(Self {
            relations: part_below(&format!("_rels/{list}.rels"), &folder),
            shared_texts: part_below("sharedStrings.xml", &folder),
            list: part_below(&list, &folder),
            structure: [
                "_rels/.rels".to_owned(),
                part_below("styles.xml", &folder),
                part_below("theme/theme1.xml", &folder),
            ],
            sheets: HashSet::new(),
            folder,
        })
    }

    fn part(&self, name: &str) -> PartContent {
        match name {
            _ if name == self.relations => PartContent::Relations,
            _ if name == self.shared_texts => PartContent::SharedTexts,
            _ if name == self.list => PartContent::List,
            _ if self.structure.iter().any(|known| known == name) => PartContent::Structure,
            _ if name.starts_with(SHEETS) || self.sheets.contains(name) => PartContent::Sheet,
            _ => PartContent::Other,
        }
    }

    /// Adds the sheet that a relation of the workbook names.
    fn note_sheet(&mut self, tag: &BytesStart<'_>) -> Result<(), TableError> {
        let is_sheet = attribute(tag, "Type").is_some_and(|kind| kind.ends_with("/worksheet"));
        if let (true, Some(target)) = (is_sheet, attribute(tag, "Target")) {
            self.sheets.insert(normalised(&match target.strip_prefix('/') {
                Some(whole) => whole.to_owned(),
                None => format!("{}{target}", self.folder),
            }));
        }
        Ok(())
    }
}

fn part_below(name: &str, folder: &str) -> String {
    normalised(&format!("{folder}{name}"))
}

/// Checks an XLSX workbook: unpacks everything without keeping it, because the sizes in the directory may be wrong, and counts the items
/// that its XML declares.
pub(super) fn check_xlsx(path: &Path, limits: WorkbookLimits) -> Result<(), TableError> {
    let mut archive = open(path)?;
    // If two parts have the same name, the library uses the last one.
    let mut index: HashMap<String, usize> = HashMap::new();
    for (at, name) in archive.file_names().enumerate() {
        index.insert(normalised(&name.map_err(|_| TableError::Damaged)?), at);
    }
    let mut names = PartNames::of(&mut archive, index.get("_rels/.rels").copied(), limits)?;
    let mut left = limits.unpacked;
    let mut to_hold = limits.held;
    let mut texts = WorkbookTexts { most: limits.held / HELD_PER_TEXT, ..WorkbookTexts::default() };
    texts.most_bytes = limits.unpacked.saturating_mul(TEXT_PER_UNPACKED);
    let mut order: Vec<(String, usize)> = index.into_iter().collect();
    order.sort_by_key(|(name, at)| (names.part(name).min(PartContent::Structure), *at));
    for (name, at) in order {
        let kind = names.part(&name);
        let is_held = kind != PartContent::Sheet;
        let most = if is_held { left.min(to_hold) } else { left };
        let part = archive.by_index(at).map_err(|_| TableError::Damaged)?;
        let longest = (kind == PartContent::Sheet).then_some(MOST_CELL_BYTES);
        let mut xml = MeteredXml::new(part, most, longest);
        match kind {
            PartContent::Relations => xml.elements(|tag| names.note_sheet(tag))?,
            PartContent::SharedTexts => texts.count(&mut xml)?,
            PartContent::List => {
                let mut sheets = 0;
                xml.elements(|tag| {
                    sheets += u64::from(tag.local_name().as_ref() == "sheet");
                    LimitedQuantity::Sheets.check(sheets, MOST_SHEETS)
                })?;
            }
            PartContent::Structure => xml.elements(|_| Ok(()))?,
            PartContent::Sheet => texts.count_sheet(&mut xml)?,
            PartContent::Other => (),
        }
        let unpacked = xml.finish()?;
        left = left.checked_sub(unpacked).ok_or(TableError::TooLarge(limits.unpacked))?;
        if is_held {
            to_hold = to_hold.checked_sub(unpacked).ok_or(TableError::TooLarge(limits.held))?;
        }
    }
    Ok(())
}

/// The smallest number of digits of a number that is read here. A floating-point number keeps all digits of a shorter number.
const LONG_DIGITS: usize = 16;
/// The largest number of long numbers that are held, of 60 bytes each.
const MOST_LONG: usize = 4 << 20;

/// Reads the whole numbers of at least [`LONG_DIGITS`] digits of one sheet. O(bytes of the sheet).
pub(super) fn long_numbers(path: &Path, sheet: &str) -> Result<LongNumbers, TableError> {
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
    let mut index: HashMap<String, usize> = HashMap::new();
    for (at, name) in archive.file_names().enumerate() {
        index.insert(normalised(&name.map_err(|_| TableError::Damaged)?), at);
    }
    let names = PartNames::of(archive, index.get("_rels/.rels").copied(), WorkbookLimits::IMPORT)?;
    let id = first_attribute(archive, index.get(&names.list), "sheet", |tag| {
        (attribute(tag, "name").and_then(|name| unescaped(&name).ok()).as_deref() == Some(sheet)).then(|| relation(tag))
    })?;
    let Some(Some(id)) = id else { return Ok(None) };
    let target = first_attribute(archive, index.get(&names.relations), "Relationship", |tag| {
        (attribute(tag, "Id").as_deref() == Some(&*id)).then(|| attribute(tag, "Target").map(Cow::into_owned))
    })?;
    let Some(Some(target)) = target else { return Ok(None) };
    let part = match target.strip_prefix('/') {
        Some(whole) => whole.to_owned(),
        None => format!("{}{target}", names.folder),
    };
    Ok(index.get(&normalised(&part)).copied())
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

/// The texts of an XLSX workbook.
#[derive(Default)]
struct WorkbookTexts {
    /// The largest number of shared texts.
    most: u64,
    /// The largest number of bytes of the texts of all cells.
    most_bytes: u64,
    /// Bytes of each shared text in the file.
    lengths: Vec<u32>,
    /// Bytes of the texts of all cells so far.
    bytes: u64,
}

impl WorkbookTexts {
    /// Counts the shared texts, and compares the declared number with the limit, because the library allocates the declared number at once.
    fn count<R: Read>(&mut self, xml: &mut MeteredXml<R>) -> Result<(), TableError> {
        let mut began = None;
        let most = self.most;
        let lengths = &mut self.lengths;
        xml.each(|event, position| {
            match event {
                Event::Start(tag) if tag.local_name().as_ref() == "sst" => {
                    let declared = attribute(tag, "uniqueCount").and_then(|count| count.parse().ok());
                    LimitedQuantity::Texts.check(declared.unwrap_or(0), most)?;
                }
                Event::Start(tag) if tag.local_name().as_ref() == "si" => {
                    LimitedQuantity::Texts.check(lengths.len() as u64 + 1, most)?;
                    began = Some(position);
                }
                Event::End(tag) if tag.local_name().as_ref() == "si" => {
                    if let Some(began) = began.take() {
                        let length = position - began;
                        LimitedQuantity::CellBytes.check(length, MOST_CELL_BYTES)?;
                        lengths.push(u32::try_from(length).unwrap_or(u32::MAX));
                    }
                }
                _ => (),
            }
            Ok(true)
        })
    }

    /// Counts the bytes of the cells of a sheet, including the shared texts that the cells refer to.
    fn count_sheet<R: Read>(&mut self, xml: &mut MeteredXml<R>) -> Result<(), TableError> {
        let mut began = 0;
        let mut is_shared = false;
        let mut is_value = false;
        xml.each(|event, position| {
            match event {
                Event::Start(tag) => match tag.local_name().as_ref() {
                    "c" => {
                        began = position;
                        is_shared = attribute(tag, "t").is_some_and(|kind| kind == "s");
                    }
                    "v" => is_value = is_shared,
                    _ => (),
                },
                Event::Text(text) if is_value => {
                    is_value = false;
                    let length = text.trim().parse().ok().and_then(|number: usize| self.lengths.get(number));
                    self.bytes += u64::from(length.copied().unwrap_or(0));
                }
                Event::End(tag) => match tag.local_name().as_ref() {
                    "c" => {
                        let length = position - began;
                        LimitedQuantity::CellBytes.check(length, MOST_CELL_BYTES)?;
                        self.bytes += if is_shared { 0 } else { length };
                        LimitedQuantity::TextBytes.check(self.bytes, self.most_bytes)?;
                    }
                    "v" => is_value = false,
                    "sheetData" => return Ok(false),
                    _ => (),
                },
                _ => (),
            }
            Ok(true)
        })
    }
}

/// Checks an ODS workbook: unpacks everything without keeping it, and counts the cells that repetitions stand for. Returns what the library
/// does not read.
pub(super) fn check_ods(path: &Path, limits: WorkbookLimits) -> Result<OdsLayout, TableError> {
    let mut archive = open(path)?;
    let mut left = limits.held.min(MOST_WHOLE);
    let mut layout = OdsLayout::default();
    for at in 0..archive.len() {
        let part = archive.by_index(at).map_err(|_| TableError::Damaged)?;
        let is_content = part.name().is_ok_and(|name| name == "content.xml");
        let mut xml = MeteredXml::new(part, left, None);
        if is_content {
            layout = RepeatedCells::default().count(&mut xml)?;
        }
        left = left.checked_sub(xml.finish()?).ok_or(TableError::TooLargeWhole)?;
    }
    Ok(layout)
}

/// The parts of an ODS workbook that the library does not read. Tables, rows and columns are counted from 0.
#[derive(Default)]
pub(in crate::tables) struct OdsLayout {
    /// The areas of cells that are merged over several rows, with their tables.
    pub(in crate::tables) merged: Vec<(usize, Dimensions)>,
    /// The shown digits of numbers with leading zeros, by table, row and column; not of cells that the file repeats.
    pub(in crate::tables) zeros: HashMap<(usize, u32, u32), String>,
}

/// Largest number of merged areas and of numbers with leading zeros that are noted; further ones are read as the library reads them.
const MOST_NOTED: usize = 200_000;
/// Longest shown text of a number, in bytes.
const MOST_SHOWN_BYTES: usize = 64;

/// The cells of an ODS workbook after its repetitions are carried out.
#[derive(Default)]
struct RepeatedCells {
    /// Cells of the tables that have ended.
    cells: u64,
    tables: u64,
    /// Bytes of text of all cells.
    text: u64,
    /// The size of the open table, from its first row with a value to its last row with a value.
    rows: u64,
    width: u64,
    /// Empty rows behind the last row with a value.
    empty_rows: u64,
    /// Rows of the open table that have ended, with their repetitions.
    ended_rows: u64,
    row: Option<RowSpread>,
    cell: Option<CellSpread>,
    layout: OdsLayout,
}

/// A row that is open.
#[derive(Default)]
struct RowSpread {
    repeated: u64,
    /// Cells that have ended, with their repetitions.
    ended_cells: u64,
    /// Cells up to the last cell with a value.
    width: u64,
    /// Empty cells behind the last cell with a value.
    empty: u64,
    text: u64,
}

/// A cell that is open.
struct CellSpread {
    repeated: u64,
    has_value: bool,
    text: u64,
    /// Number of cells that are open inside this cell.
    inner: u32,
    /// The shown text, if the cell contains a number.
    shown: Option<String>,
    value: Option<f64>,
}

impl RepeatedCells {
    fn count<R: Read>(mut self, xml: &mut MeteredXml<R>) -> Result<OdsLayout, TableError> {
        // The library never stops reading if a table is not closed.
        xml.require_balance();
        xml.each(|event, _| {
            match event {
                Event::Start(tag) => self.start(tag)?,
                Event::End(tag) => self.end(tag.name().as_ref())?,
                Event::Text(text) => {
                    self.add_text(text.len() as u64)?;
                    self.add_shown(text);
                }
                Event::GeneralRef(_) => self.add_text(4)?,
                _ => (),
            }
            Ok(true)
        })?;
        Ok(self.layout)
    }

    fn start(&mut self, tag: &BytesStart<'_>) -> Result<(), TableError> {
        match tag.name().as_ref() {
            "table:table" if self.cell.is_none() => {
                self.tables += 1;
                LimitedQuantity::Sheets.check(self.tables, MOST_SHEETS)?;
                (self.rows, self.width, self.empty_rows) = (0, 0, 0);
                self.ended_rows = 0;
            }
            "table:table-row" if self.cell.is_none() => {
                let repeated = count_of(tag, "table:number-rows-repeated")?.min(MOST_ROWS);
                self.row = Some(RowSpread { repeated, ..RowSpread::default() });
            }
            "table:table-cell" | "table:covered-table-cell" => match &mut self.cell {
                Some(outer) => outer.inner += 1,
                None => {
                    self.note_merged(tag)?;
                    let repeated = count_of(tag, "table:number-columns-repeated")?.min(MOST_ROW_CELLS);
                    let mut cell =
                        CellSpread { repeated, has_value: false, text: 0, inner: 0, shown: None, value: None };
                    for attribute in tag.attributes().with_checks(false) {
                        let attribute = attribute.map_err(|_| TableError::Damaged)?;
                        let key = attribute.key.as_ref();
                        if key == "table:formula" || key == "calcext:value-type" || key.starts_with("office:") {
                            cell.has_value = true;
                            cell.text += attribute.value.len() as u64;
                        }
                        if key == "office:value-type" && &*attribute.value == "float" {
                            cell.shown = Some(String::new());
                        }
                        if key == "office:value" {
                            cell.value = attribute.value.trim().parse().ok();
                        }
                    }
                    self.cell = Some(cell);
                }
            },
            "text:s" => self.add_text(count_of(tag, "text:c")?)?,
            _ => (),
        }
        Ok(())
    }

    /// Notes the area of a cell that spans several rows.
    fn note_merged(&mut self, tag: &BytesStart<'_>) -> Result<(), TableError> {
        let spanned = count_of(tag, "table:number-rows-spanned")?.min(MOST_ROWS);
        if spanned < 2 || self.layout.merged.len() >= MOST_NOTED {
            return Ok(());
        }
        if let (Some((row, column)), Ok(more)) = (self.place(), u32::try_from(spanned - 1)) {
            let area = Dimensions { start: (row, column), end: (row.saturating_add(more), column) };
            self.layout.merged.push((self.table(), area));
        }
        Ok(())
    }

    /// Returns the number of the open table, from 0.
    fn table(&self) -> usize {
        self.tables.saturating_sub(1) as usize
    }

    /// Returns the row and the column of the open cell, from 0.
    fn place(&self) -> Option<(u32, u32)> {
        let column = self.row.as_ref().map_or(0, |row| row.ended_cells);
        Some((u32::try_from(self.ended_rows).ok()?, u32::try_from(column).ok()?))
    }

    /// Adds to the shown text of a number.
    fn add_shown(&mut self, text: &str) {
        if let Some(CellSpread { shown: Some(shown), .. }) = &mut self.cell
            && shown.len() + text.len() <= MOST_SHOWN_BYTES
        {
            shown.push_str(text);
        }
    }

    /// Notes the shown text of a number with leading zeros.
    fn note_zeros(&mut self, cell: &mut CellSpread) {
        let Some(shown) = cell.shown.take() else { return };
        let shown = shown.trim();
        let has_zeros = shown.len() > 1 && shown.starts_with('0') && shown.bytes().all(|byte| byte.is_ascii_digit());
        // A rounded number shows other digits than its value, and a comment in the cell adds text.
        let is_value = cell.value.is_some_and(|value| shown.parse() == Ok(value));
        let is_single = cell.repeated == 1 && self.row.as_ref().is_some_and(|row| row.repeated == 1);
        if has_zeros
            && is_value
            && is_single
            && self.layout.zeros.len() < MOST_NOTED
            && let Some((row, column)) = self.place()
        {
            self.layout.zeros.insert((self.table(), row, column), shown.to_owned());
        }
    }

    fn add_text(&mut self, bytes: u64) -> Result<(), TableError> {
        match &mut self.cell {
            Some(cell) => {
                cell.text = cell.text.saturating_add(bytes);
                LimitedQuantity::CellBytes.check(cell.text, MOST_CELL_BYTES)
            }
            None => Ok(()),
        }
    }

    fn end(&mut self, name: &str) -> Result<(), TableError> {
        match name {
            "table:table-cell" | "table:covered-table-cell" => match self.cell.take() {
                Some(mut outer) if outer.inner > 0 => {
                    outer.inner -= 1;
                    self.cell = Some(outer);
                }
                Some(mut cell) => {
                    self.note_zeros(&mut cell);
                    self.end_cell(&cell)?;
                }
                None => (),
            },
            "table:table-row" if self.cell.is_none() => self.end_row()?,
            "table:table" if self.cell.is_none() => self.cells += self.rows * self.width,
            _ => (),
        }
        Ok(())
    }

    fn end_cell(&mut self, cell: &CellSpread) -> Result<(), TableError> {
        let Some(row) = &mut self.row else { return Ok(()) };
        row.ended_cells = row.ended_cells.saturating_add(cell.repeated);
        if !cell.has_value {
            row.empty = cell.repeated;
            return Ok(());
        }
        row.width = (row.width + row.empty + cell.repeated).min(MOST_ROW_CELLS);
        row.empty = 0;
        row.text = row.text.saturating_add(cell.text * cell.repeated);
        Ok(())
    }

    fn end_row(&mut self) -> Result<(), TableError> {
        let Some(row) = self.row.take() else { return Ok(()) };
        self.ended_rows = self.ended_rows.saturating_add(row.repeated);
        if row.width == 0 {
            self.empty_rows = self.empty_rows.saturating_add(row.repeated);
            return Ok(());
        }
        let between = if self.rows == 0 { 0 } else { self.empty_rows };
        self.empty_rows = 0;
        self.rows = self.rows.saturating_add(between).saturating_add(row.repeated);
        self.width = self.width.max(row.width);
        LimitedQuantity::Cells
            .check(self.cells.saturating_add(self.rows.saturating_mul(self.width)), MOST_WHOLE_CELLS)?;
        self.text = self.text.saturating_add(row.text.saturating_mul(row.repeated));
        LimitedQuantity::TextBytes.check(self.text, MOST_WHOLE_TEXT)
    }
}

/// Returns the number in an attribute, or 1 if the attribute is missing.
fn count_of(tag: &BytesStart<'_>, name: &str) -> Result<u64, TableError> {
    attribute(tag, name).map_or(Ok(1), |count| unescaped(&count)?.trim().parse().map_err(|_| TableError::Damaged))
}

fn attribute<'t>(tag: &'t BytesStart<'_>, name: &str) -> Option<Cow<'t, str>> {
    let mut attributes = tag.attributes();
    let found = attributes.with_checks(false).filter_map(Result::ok).find(|found| found.key.as_ref() == name);
    found.map(|found| found.value)
}

fn unescaped(text: &str) -> Result<String, TableError> {
    quick_xml::escape::unescape(text).map(|text| text.into_owned()).map_err(|_| TableError::Damaged)
}

/// A part that is unpacked while its XML is examined, in the same steps as in the library that reads workbooks.
struct MeteredXml<R: Read> {
    reader: Reader<MeteredInput<R>>,
    is_balance_required: bool,
}

/// Counts the bytes that an XML parser takes.
struct MeteredInput<R: Read> {
    input: BufReader<io::Take<R>>,
    total: u64,
    /// Bytes since the last event of the parser. All of them are in memory.
    since: u64,
    longest: u64,
    is_over: bool,
}

impl<R: Read> Read for MeteredInput<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(to)?;
        self.total += read as u64;
        Ok(read)
    }
}

impl<R: Read> BufRead for MeteredInput<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.since > self.longest {
            self.is_over = true;
            return Err(io::Error::other("more bytes without an end of a tag than may be held"));
        }
        self.input.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.total += count as u64;
        self.since += count as u64;
        self.input.consume(count);
    }
}

impl<R: Read> MeteredXml<R> {
    /// Reads at most `most` bytes of `part`, and one byte more to notice that there are more. One event may have `longest` bytes.
    fn new(part: R, most: u64, longest: Option<u64>) -> Self {
        let input = BufReader::with_capacity(1 << 16, part.take(most.saturating_add(1)));
        let longest = longest.unwrap_or(u64::MAX);
        let mut reader = Reader::from_reader(MeteredInput { input, total: 0, since: 0, longest, is_over: false });
        let config = reader.config_mut();
        config.check_end_names = false;
        config.trim_text(false);
        config.expand_empty_elements = true;
        Self { reader, is_balance_required: false }
    }

    /// Makes [`Self::each`] refuse text that is no XML, or whose tags are not closed in the right order.
    fn require_balance(&mut self) {
        self.reader.config_mut().check_end_names = true;
        self.is_balance_required = true;
    }

    /// Hands each event and the position behind it to `seen`, until `seen` returns `false`, the part ends, or the rest is no XML.
    fn each(&mut self, mut seen: impl FnMut(&Event<'_>, u64) -> Result<bool, TableError>) -> Result<(), TableError> {
        let mut buffer = Vec::with_capacity(1024);
        let mut depth = 0_u64;
        loop {
            buffer.clear();
            self.reader.get_mut().since = 0;
            let event = match self.reader.read_event_into(&mut buffer) {
                Ok(event) => event,
                Err(_) if self.reader.get_ref().is_over => {
                    return Err(TableError::OverLimit { what: LimitedQuantity::CellBytes, limit: MOST_CELL_BYTES });
                }
                Err(_) if self.is_balance_required => return Err(TableError::Damaged),
                Err(_) => return Ok(()),
            };
            match event {
                Event::Eof if self.is_balance_required && depth > 0 => return Err(TableError::Damaged),
                Event::Eof => return Ok(()),
                Event::Start(_) => depth += 1,
                Event::End(_) => depth = depth.saturating_sub(1),
                _ => (),
            }
            if !seen(&event, self.reader.get_ref().total)? {
                return Ok(());
            }
        }
    }

    /// Hands at most [`MOST_ELEMENTS`] elements to `seen`.
    fn elements(&mut self, mut seen: impl FnMut(&BytesStart<'_>) -> Result<(), TableError>) -> Result<(), TableError> {
        let mut count = 0;
        self.each(|event, _| {
            if let Event::Start(tag) = event {
                count += 1;
                LimitedQuantity::Elements.check(count, MOST_ELEMENTS)?;
                seen(tag)?;
            }
            Ok(true)
        })
    }

    /// Unpacks the rest. Returns the number of bytes of the whole part.
    fn finish(mut self) -> Result<u64, TableError> {
        let metered = self.reader.get_mut();
        let rest = io::copy(&mut metered.input, &mut io::sink()).map_err(|_| TableError::Damaged)?;
        Ok(metered.total + rest)
    }
}
