//! Small invented workbooks for tests: sound workbooks, and workbooks that declare content that they do not have.

use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::Arc;

use zip::write::{SimpleFileOptions, ZipWriter};

use crate::FileFormat;
use crate::tables::{AsText, TableError, TableRequest, TableRow, TableStream};

/// Opens the file at `path` as a workbook with this extension.
///
/// # Errors
/// See [`TableError`].
///
/// # Panics
/// No format has the extension.
#[expect(clippy::unwrap_used, reason = "for tests")]
pub fn open(path: &Path, extension: &str) -> Result<TableStream, TableError> {
    let format = FileFormat::of(Path::new(&format!("a.{extension}"))).unwrap();
    let wanted = TableRequest { format, text: AsText::default(), sheet: None, max: 1 << 20 };
    TableStream::open(path, wanted, &Arc::default())
}

/// Returns all rows of a workbook, the rows above the names of columns included.
///
/// # Errors
/// See [`TableError`].
pub fn read(path: &Path, extension: &str) -> Result<Vec<TableRow>, TableError> {
    let mut stream = open(path, extension)?;
    let mut rows = stream.top.clone();
    while let Some(row) = stream.next_row()? {
        rows.push(row);
    }
    Ok(rows)
}

/// Returns the texts of the cells of rows.
pub fn texts(rows: &[TableRow]) -> Vec<Vec<&str>> {
    rows.iter().map(|row| row.cells.iter().map(|cell| cell.text.as_str()).collect()).collect()
}

/// Packs parts into an archive.
///
/// # Panics
/// If a part cannot be packed.
#[expect(clippy::unwrap_used, reason = "for tests")]
pub fn archive(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        archive.start_file(*name, SimpleFileOptions::default()).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// Returns an XLSX workbook with these shared texts (the element `sst`) and this sheet (the element `worksheet`).
pub fn xlsx_of(shared: &str, sheet: &str) -> Vec<u8> {
    xlsx_with(shared, sheet, r#"<sheet name="信件" sheetId="1" r:id="rId1"/>"#)
}

/// Returns the workbook of [`xlsx_of`] with these entries in the list of sheets.
pub fn xlsx_with(shared: &str, sheet: &str, sheets: &str) -> Vec<u8> {
    const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006/relationships";
    let package = format!(
        r#"<Relationships xmlns="{PACKAGE}"><Relationship Id="rId1" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>"#
    );
    let relations = format!(
        r#"<Relationships xmlns="{PACKAGE}"><Relationship Id="rId1" Type="{OFFICE}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>"#
    );
    let list = format!(r#"<workbook xmlns:r="{OFFICE}"><sheets>{sheets}</sheets></workbook>"#);
    archive(&[
        ("_rels/.rels", package.as_bytes()),
        ("xl/workbook.xml", list.as_bytes()),
        ("xl/_rels/workbook.xml.rels", relations.as_bytes()),
        ("xl/sharedStrings.xml", shared.as_bytes()),
        ("xl/worksheets/sheet1.xml", sheet.as_bytes()),
    ])
}

/// Returns the element of these shared texts. It declares `count` texts.
pub fn shared(count: &str, texts: &[&str]) -> String {
    let texts: String = texts.iter().map(|text| format!("<si><t>{text}</t></si>")).collect();
    format!(r#"<sst count="1" uniqueCount="{count}">{texts}</sst>"#)
}

/// Returns a sheet whose cells refer to shared texts by number.
pub fn sheet(rows: &[&[usize]]) -> String {
    let rows: String = (1..).zip(rows).map(|(number, cells)| sheet_row(number, cells)).collect();
    format!("<worksheet><sheetData>{rows}</sheetData></worksheet>")
}

fn sheet_row(number: usize, cells: &[usize]) -> String {
    let cells: String = cells.iter().map(|text| format!(r#"<c t="s"><v>{text}</v></c>"#)).collect();
    format!(r#"<row r="{number}">{cells}</row>"#)
}

/// Returns a sound XLSX workbook with a column of contents.
pub fn xlsx() -> Vec<u8> {
    let texts = ["编号", "内容", "1", "三号路的路灯不亮", "2", "文昌巷口的井盖裂开"];
    xlsx_of(&shared("6", &texts), &sheet(&[&[0, 1], &[2, 3], &[4, 5]]))
}

/// Returns an ODS workbook with this `content.xml`.
pub fn ods_of(content: &str) -> Vec<u8> {
    archive(&[
        ("mimetype", b"application/vnd.oasis.opendocument.spreadsheet"),
        ("META-INF/manifest.xml", b"<manifest:manifest/>"),
        ("content.xml", content.as_bytes()),
    ])
}

/// Returns the `content.xml` of a workbook with one table of these rows.
pub fn content(rows: &str) -> String {
    format!(
        r#"<office:document-content><office:body><office:spreadsheet><table:table table:name="信件">{rows}</table:table></office:spreadsheet></office:body></office:document-content>"#
    )
}

/// Returns a cell of an ODS workbook.
pub fn ods_cell(text: &str) -> String {
    format!(r#"<table:table-cell office:value-type="string"><text:p>{text}</text:p></table:table-cell>"#)
}

/// Returns a row of an ODS workbook.
pub fn ods_row(cells: &[&str]) -> String {
    let cells: String = cells.iter().map(|text| ods_cell(text)).collect();
    format!("<table:table-row>{cells}</table:table-row>")
}

/// Returns a sound ODS workbook with a column of contents.
pub fn ods() -> Vec<u8> {
    let rows = [ods_row(&["编号", "内容"]), ods_row(&["1", "三号路的路灯不亮"]), ods_row(&["2", "文昌巷口的井盖裂开"])];
    ods_of(&content(&rows.concat()))
}

const SECTOR: usize = 512;
const END_OF_CHAIN: u32 = 0xffff_fffe;
const FREE: u32 = 0xffff_ffff;

/// Returns the position of the entry of `sector` in the table of sectors of a file that [`xls_of`] made.
pub fn entry_of_sector(sector: usize) -> usize {
    SECTOR + 4 * sector
}

/// The first sector of the stream of records in a file that [`xls_of`] made.
pub const FIRST_STREAM_SECTOR: usize = 2;

/// Returns a record of an XLS workbook.
pub fn record(kind: u16, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap_or(u16::MAX);
    [&kind.to_le_bytes()[..], &length.to_le_bytes(), data].concat()
}

/// Returns a cell that refers to a shared text.
pub fn text_cell(row: u16, column: u16, text: u32) -> Vec<u8> {
    let position = [row.to_le_bytes(), column.to_le_bytes(), [0, 0]].concat();
    record(0x00fd, &[&position[..], &text.to_le_bytes()].concat())
}

/// Returns the record that declares the rectangle of a sheet.
pub fn dimensions(rows: u32, columns: u16) -> Vec<u8> {
    let rows = [0_u32.to_le_bytes(), rows.to_le_bytes()].concat();
    record(0x0200, &[&rows[..], &[0, 0], &columns.to_le_bytes(), &[0, 0]].concat())
}

/// Returns the records of a workbook with these shared texts and one sheet that consists of these records.
pub fn xls_stream(texts: &[&str], sheet: &[u8]) -> Vec<u8> {
    let count = u32::try_from(texts.len()).unwrap_or(u32::MAX).to_le_bytes();
    let mut shared = [count, count].concat();
    for text in texts {
        let units: Vec<u16> = text.encode_utf16().collect();
        shared.extend(u16::try_from(units.len()).unwrap_or(u16::MAX).to_le_bytes());
        shared.push(1);
        shared.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    }
    let shared = record(0x00fc, &shared);
    let end = record(0x000a, &[]);
    let head = begin_substream(0x0005);
    let start = head.len() + bound_sheet(0).len() + shared.len() + end.len();
    let bound = bound_sheet(u32::try_from(start).unwrap_or(u32::MAX));
    [head, bound, shared, end.clone(), begin_substream(0x0010), sheet.to_vec(), end].concat()
}

fn bound_sheet(start: u32) -> Vec<u8> {
    record(0x0085, &[&start.to_le_bytes()[..], &[0, 0, 5, 0], b"sheet"].concat())
}

fn begin_substream(kind: u16) -> Vec<u8> {
    record(0x0809, &[&0x0600_u16.to_le_bytes()[..], &kind.to_le_bytes(), &[0; 12]].concat())
}

/// Returns a compound file with this stream of records. One sector contains the table of sectors, so that the stream has 64,000 bytes at
/// most.
///
/// # Panics
/// The stream has more bytes.
pub fn xls_of(stream: &[u8]) -> Vec<u8> {
    let sectors = stream.len().max(4096).div_ceil(SECTOR);
    assert!(sectors + FIRST_STREAM_SECTOR <= SECTOR / 4, "one sector of the table");
    let mut header = vec![0; SECTOR];
    header[..8].copy_from_slice(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1");
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(24, &[0x3e, 0, 3, 0, 0xfe, 0xff, 9, 0, 6, 0]);
    put(44, &1_u32.to_le_bytes());
    put(48, &1_u32.to_le_bytes());
    put(56, &4096_u32.to_le_bytes());
    put(60, &END_OF_CHAIN.to_le_bytes());
    put(68, &END_OF_CHAIN.to_le_bytes());
    put(76, &0_u32.to_le_bytes());
    for at in (80..SECTOR).step_by(4) {
        put(at, &FREE.to_le_bytes());
    }
    let last = FIRST_STREAM_SECTOR + sectors - 1;
    let table: Vec<u8> = (0..SECTOR / 4).flat_map(|sector| table_entry(sector, last).to_le_bytes()).collect();
    let mut directory = named_stream("Root Entry", 5, END_OF_CHAIN, 0);
    directory.extend(named_stream("Workbook", 2, 2, sectors * SECTOR));
    directory.resize(SECTOR, 0);
    let mut file = [header, table, directory, stream.to_vec()].concat();
    file.resize((FIRST_STREAM_SECTOR + 1 + sectors) * SECTOR, 0);
    file
}

fn named_stream(name: &str, kind: u8, start: u32, bytes: usize) -> Vec<u8> {
    let mut entry = vec![0; 128];
    let units: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
    entry[..units.len()].copy_from_slice(&units);
    entry[64..66].copy_from_slice(&u16::try_from(units.len() + 2).unwrap_or(0).to_le_bytes());
    entry[66] = kind;
    entry[68..80].fill(0xff);
    entry[116..120].copy_from_slice(&start.to_le_bytes());
    entry[120..124].copy_from_slice(&u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes());
    entry
}

fn table_entry(sector: usize, last: usize) -> u32 {
    match sector {
        0 => 0xffff_fffd,
        1 => END_OF_CHAIN,
        _ if sector == last => END_OF_CHAIN,
        _ if sector > last => FREE,
        _ => u32::try_from(sector + 1).unwrap_or(FREE),
    }
}

/// Returns a sound XLS workbook with a column of contents.
pub fn xls() -> Vec<u8> {
    let texts = ["编号", "内容", "1", "三号路的路灯不亮", "2", "文昌巷口的井盖裂开"];
    let cells = (0..6).flat_map(|text| text_cell(u16::try_from(text / 2).unwrap_or(0), u16::from(text % 2 == 1), text));
    let cells: Vec<u8> = cells.collect();
    xls_of(&xls_stream(&texts, &[dimensions(3, 2), cells].concat()))
}

/// Returns a workbook that does not declare the number of its texts, all of which are empty.
pub fn empty_texts(count: usize) -> Vec<u8> {
    xlsx_of(&format!("<sst>{}</sst>", "<si/>".repeat(count)), &sheet(&[&[0, 0], &[0, 0]]))
}

/// A file that declares more content than it has, or more content than may be read.
pub struct HostileFile {
    /// The trick of the file.
    pub name: &'static str,
    pub extension: &'static str,
    pub bytes: Vec<u8>,
    /// A part of the error message.
    pub refused_for: &'static str,
}

/// Returns workbooks that are refused. Without the checks, each of them takes gigabytes or minutes, or ends the process.
pub fn hostile() -> Vec<HostileFile> {
    let mut all = Vec::new();
    let mut add = |name, extension, bytes, refused_for| all.push(HostileFile { name, extension, bytes, refused_for });
    let rows: &[&[usize]] = &[&[0, 0], &[0, 0]];
    for count in ["2000000000", "100000000000", "18446744073709551615"] {
        add("a count of shared texts", "xlsx", xlsx_of(&shared(count, &["文"]), &sheet(rows)), "different texts");
    }
    let long =
        format!("<worksheet><sheetData><row><c t=\"inlineStr\"><is>{}</is></c></row></sheetData></worksheet>", {
            "<r><t>长长长长长长长长</t></r>".repeat(100_000)
        });
    add("a cell of many runs", "xlsx", xlsx_of(&shared("1", &["文"]), &long), "bytes in one cell");
    let remark = format!("<worksheet><!--{}--><sheetData/></worksheet>", "<".repeat(3 << 20));
    add("a long remark in a sheet", "xlsx", xlsx_of(&shared("1", &["文"]), &remark), "bytes in one cell");
    let sheets = r#"<sheet name="信件" sheetId="1" r:id="rId1"/>"#.repeat(2_000);
    add("two thousand sheets", "xlsx", xlsx_with(&shared("1", &["文"]), &sheet(rows), &sheets), "sheets");

    let head = ods_row(&["编号", "内容"]);
    add("repeated rows", "ods", ods_of_repeated("1048576", "60", &head), "cells");
    add("repeated columns", "ods", ods_of_repeated("1000", "16384", &head), "cells");
    add(
        "repeated rows and columns",
        "ods",
        ods_of_repeated("18446744073709551615", "18446744073709551615", &head),
        "cells",
    );
    let far = format!(
        r#"{head}<table:table-row table:number-rows-repeated="1048000"><table:table-cell/></table:table-row>{}"#,
        ods_row(&["1", "2", "3", "4", "5", "6", "7", "8"])
    );
    add("a row far below", "ods", ods_of(&content(&far)), "cells");
    let wide = r#"<table:table-row><table:table-cell office:value-type="string" table:number-columns-repeated="16384"><text:p>文</text:p></table:table-cell></table:table-row>"#;
    add("many wide rows", "ods", ods_of(&content(&format!("{head}{}", wide.repeat(10_000)))), "cells");
    let blanks = ods_row(&["编号", r#"内<text:s text:c="4000000000"/>容"#]);
    add("repeated blanks", "ods", ods_of(&content(&blanks)), "bytes in one cell");
    let open = content(&head).replace("</table:table>", "");
    add("a table without an end", "ods", ods_of(&open), "damaged");
    let open =
        format!("{}<table:table-row><table:table-cell office:value-type=\"string\"><office:annotation>", content(""));
    let open = open.replace("</table:table></office:spreadsheet></office:body></office:document-content>", "");
    add("a remark without an end", "ods", ods_of(&open), "damaged");

    let sound = xls();
    add("a directory that leads to itself", "xls", with_value_at(entry_of_sector(1), 1, &sound), "damaged");
    let stream = u32::try_from(FIRST_STREAM_SECTOR).unwrap_or(0);
    let mut looped = with_value_at(entry_of_sector(FIRST_STREAM_SECTOR), stream, &sound);
    // The directory declares four gigabytes for the stream.
    let length = 2 * SECTOR + 128 + 120;
    looped[length..length + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    add("a stream that leads to itself", "xls", looped, "damaged");
    add(
        "a chain to a sector behind the end",
        "xls",
        with_value_at(entry_of_sector(FIRST_STREAM_SECTOR), 100_000, &sound),
        "damaged",
    );
    let last = u32::try_from(sound.len() / SECTOR - 2).unwrap_or(0);
    let mut looped = with_value_at(68, last, &sound);
    let end = looped.len();
    looped[end - 4..].copy_from_slice(&last.to_le_bytes());
    add("a list of tables that leads to itself", "xls", looped, "damaged");
    let texts = ["编号", "内容"];
    let corner = [text_cell(0, 0, 0), text_cell(u16::MAX, u16::MAX, 1)].concat();
    add("a cell in column 65535", "xls", xls_of_records(&corner, &texts), "damaged");
    let corner = [text_cell(0, 0, 0), text_cell(u16::MAX, 255, 1)].concat();
    add("two cells in opposite corners", "xls", xls_of_records(&corner, &texts), "cells");
    add("dimensions of all numbers", "xls", xls_of_records(&dimensions(u32::MAX, u16::MAX), &texts), "cells");
    all
}

fn xls_of_records(records: &[u8], texts: &[&str; 2]) -> Vec<u8> {
    xls_of(&xls_stream(texts, records))
}

fn with_value_at(at: usize, value: u32, sound: &[u8]) -> Vec<u8> {
    let mut bytes = sound.to_vec();
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    bytes
}

fn ods_of_repeated(rows: &str, columns: &str, head: &str) -> Vec<u8> {
    let cell = format!(
        r#"<table:table-cell office:value-type="string" table:number-columns-repeated="{columns}"><text:p>文</text:p></table:table-cell>"#
    );
    let row = format!(r#"<table:table-row table:number-rows-repeated="{rows}">{cell}</table:table-row>"#);
    ods_of(&content(&format!("{head}{row}")))
}
