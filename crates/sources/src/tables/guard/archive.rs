//! Checks of workbooks that are ZIP archives of XML: XLSX and ODS.

mod long_numbers;
mod metered_xml;
mod ods;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use quick_xml::events::{BytesStart, Event};
use zip::ZipArchive;

use self::metered_xml::{MeteredXml, attribute, unescaped};
use super::{
    HELD_PER_TEXT, LimitedQuantity, MOST_CELL_BYTES, MOST_ELEMENTS, MOST_PARTS, MOST_SHEETS, TEXT_PER_UNPACKED,
};
use crate::tables::{TableError, WorkbookLimits};

pub(super) use self::long_numbers::long_numbers;
pub(in crate::tables) use self::ods::OdsLayout;
pub(super) use self::ods::check_ods;

type WorkbookArchive = ZipArchive<BufReader<File>>;

/// The folder of the sheets of an XLSX workbook. Nearly every program uses this name.
const SHEETS: &str = "xl/worksheets/";

fn open(path: &Path) -> Result<WorkbookArchive, TableError> {
    let archive = ZipArchive::new(BufReader::new(File::open(path)?)).map_err(|_| TableError::Damaged)?;
    LimitedQuantity::Parts.check(archive.len() as u64, MOST_PARTS)?;
    Ok(archive)
}

/// Returns the positions of the parts by name. If two parts have the same name, the library uses the last part.
fn parts(archive: &WorkbookArchive) -> Result<HashMap<String, usize>, TableError> {
    let mut index = HashMap::new();
    for (at, name) in archive.file_names().enumerate() {
        index.insert(normalised(&name.map_err(|_| TableError::Damaged)?), at);
    }
    Ok(index)
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
            self.sheets.insert(self.target(&target));
        }
        Ok(())
    }

    /// Returns the name of the part that a relation of the workbook names.
    fn target(&self, target: &str) -> String {
        match target.strip_prefix('/') {
            Some(whole) => normalised(whole),
            None => part_below(target, &self.folder),
        }
    }
}

fn part_below(name: &str, folder: &str) -> String {
    normalised(&format!("{folder}{name}"))
}

/// Checks an XLSX workbook: unpacks everything without keeping it, because the sizes in the directory may be wrong, and counts the items
/// that its XML declares.
pub(super) fn check_xlsx(path: &Path, limits: WorkbookLimits) -> Result<(), TableError> {
    let mut archive = open(path)?;
    let index = parts(&archive)?;
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
