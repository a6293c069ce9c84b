//! Tables in the encodings and layouts that offices use.

use std::io::Write;
use std::ops::ControlFlow;

use doppel_core::collection::Settings;
use rust_xlsxwriter::{ExcelDateTime, Format, Workbook as Book};

use super::columns::{ColumnTarget, guess};
use super::guard::samples;
use super::*;

const LONG: usize = 1 << 20;
const TEXT: &str = "编号,标题,内容\r\n1,路灯,三号路的路灯不亮\r\n2,\"井盖,破损\",\"文昌巷口\n井盖裂开\"\r\n";

/// Writes a file with this content.
pub(super) fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn rows(table: &TableProperties, path: &Path) -> Vec<TableRow> {
    let mut rows = Vec::new();
    table
        .rows(path, |row| {
            rows.push(row);
            ControlFlow::Continue(())
        })
        .unwrap();
    rows
}

fn texts(row: &TableRow) -> Vec<&str> {
    row.cells.iter().map(|cell| cell.text.as_str()).collect()
}

fn read(bytes: &[u8]) -> (TableProperties, Vec<TableRow>) {
    let file = file(bytes);
    let table = TableProperties::open(file.path(), LONG).unwrap();
    let rows = rows(&table, file.path());
    (table, rows)
}

fn utf16(text: &str, big: bool) -> Vec<u8> {
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    units.flat_map(|unit: u16| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
}

#[test]
fn every_usual_encoding_reads_the_same() {
    let encodings = [
        (TEXT.as_bytes().to_vec(), TextEncoding::Utf8),
        ([b"\xef\xbb\xbf", TEXT.as_bytes()].concat(), TextEncoding::Utf8Mark),
        (utf16(TEXT, false), TextEncoding::Utf16Le),
        (utf16(TEXT, true), TextEncoding::Utf16Be),
        (encoding_rs::GB18030.encode(TEXT).0.into_owned(), TextEncoding::Gb18030),
    ];
    for (bytes, expected) in encodings {
        let (table, rows) = read(&bytes);
        assert_eq!(table.layout, TableLayout::Csv { encoding: expected, separator: b',' });
        assert_eq!(table.header, ["编号", "标题", "内容"], "{expected:?}");
        assert_eq!((texts(&rows[1]), rows[1].number), (vec!["1", "路灯", "三号路的路灯不亮"], 2), "{expected:?}");
        assert_eq!(texts(&rows[2]), ["2", "井盖,破损", "文昌巷口\n井盖裂开"], "{expected:?}");
        assert_eq!(rows.len(), 3);
    }
}

#[test]
fn a_sign_of_four_bytes_stands_at_every_place_in_utf16() {
    for begin in 4090..4100 {
        let text = format!("a,b\n{},𠮷好\n", "x".repeat(begin));
        for big in [false, true] {
            let (_, rows) = read(&utf16(&text, big));
            assert_eq!((rows[1].cells[1].text.as_str(), &rows[1].fault), ("𠮷好", &None), "{begin}");
        }
    }
}

#[test]
fn a_row_that_is_no_text_is_named_and_the_others_are_read() {
    let text = "编号,内容\n1,三号路的路灯不亮\n2,X\n3,文昌巷口井盖裂开\n";
    let mut broken = text.as_bytes().to_vec();
    let at = broken.iter().position(|byte| *byte == b'X').unwrap();
    broken[at] = 0xff;
    let mut gb = encoding_rs::GB18030.encode(text).0.into_owned();
    let at = gb.iter().position(|byte| *byte == b'X').unwrap();
    gb[at] = 0xff;
    let mut wide = utf16(text, false);
    let at = wide.iter().position(|byte| *byte == b'X').unwrap();
    wide[at..at + 2].copy_from_slice(&0xd800_u16.to_le_bytes());
    for bytes in [broken, gb, wide] {
        let (table, rows) = read(&bytes);
        let faults: Vec<_> = rows.iter().map(|row| row.fault.clone()).collect();
        assert_eq!(faults, [None, None, Some(RowFault::Undecodable), None], "{:?}", table.layout);
        assert_eq!((texts(&rows[1])[1], texts(&rows[3])[1]), ("三号路的路灯不亮", "文昌巷口井盖裂开"));
    }
}

#[test]
fn the_separator_is_found_or_said() {
    for (text, separator) in [
        ("a;b\n1;\"2,5\"\n", b';'),
        ("a\tb\n1\t2,5\n", b'\t'),
        ("sep=;\r\na;b\r\n1;2,5\r\n", b';'),
        ("\"sep=;\"\r\na;b\r\n1;2,5\r\n", b';'),
        ("登记表\na;b\n1;2,5\n", b';'),
    ] {
        let (table, rows) = read(text.as_bytes());
        let TableLayout::Csv { separator: found, .. } = table.layout else { panic!("no text") };
        assert_eq!((found, texts(rows.last().unwrap())), (separator, vec!["1", "2,5"]), "{text:?}");
        assert_eq!(table.header, ["a", "b"]);
    }
    assert_eq!(read(b"content\none\n").0.header, ["content"]);
}

#[test]
fn a_row_that_does_not_fit_the_header_is_kept_and_named() {
    let (_, rows) = read(b"a,b\n1\n1,2,3\n1,2,,\n,\n1,\"open\n");
    let faults: Vec<_> = rows[1..].iter().map(|row| row.fault.clone()).collect();
    let open = RowFault::OpenQuote { line: 6, end: QuoteEnd::File };
    assert_eq!(faults, [wrong_count(1), wrong_count(3), None, None, Some(open)]);
    assert_eq!(texts(&rows[2]), ["1", "2", "3"]);
    assert_eq!(texts(&rows[5]), ["1,\"open"]);
    let file = file(b"a,b\n1,12345678901234567890\n2,3\n");
    let table = TableProperties::open(file.path(), 10).unwrap();
    let rows = self::rows(&table, file.path());
    assert_eq!((&rows[1].fault, texts(&rows[2])), (&Some(RowFault::TooLong { quoted: false }), vec!["2", "3"]));
}

fn wrong_count(found: usize) -> Option<RowFault> {
    Some(RowFault::WrongCount { found, expected: 2 })
}

#[test]
fn a_workbook_is_read_as_it_shows() {
    let mut book = Book::new();
    book.add_worksheet();
    let sheet = book.add_worksheet().set_name("登记 <表>").unwrap();
    sheet.write(0, 0, "2024年来信登记表").unwrap();
    for (column, name) in ["编号", "来信人", "登记时间", "已办", "内容"].iter().enumerate() {
        sheet.write(2, column as u16, *name).unwrap();
    }
    let time = Format::new().set_num_format("yyyy-mm-dd hh:mm");
    for (row, minute) in [(3, 5), (6, 59)] {
        sheet.write(row, 0, 17).unwrap();
        sheet.write(row, 1, 0.25).unwrap();
        let moment = ExcelDateTime::from_ymd(2024, 2, 29).unwrap().and_hms(9, minute, 59).unwrap();
        sheet.write_with_format(row, 2, &moment, &time).unwrap();
        sheet.write(row, 3, true).unwrap();
        sheet.write(row, 6, "外面").unwrap();
    }
    let mut bytes = Vec::new();
    book.save_to_writer(io::Cursor::new(&mut bytes)).unwrap();
    let (table, rows) = read(&bytes);
    assert_eq!(table.layout, TableLayout::Sheet { kind: WorkbookKind::Xlsx, sheet: "登记 <表>".into() });
    assert_eq!(
        (table.header_row, table.header.as_slice()),
        (3, &["编号", "来信人", "登记时间", "已办", "内容"].map(String::from)[..])
    );
    let numbers: Vec<u64> = rows.iter().map(|row| row.number).collect();
    assert_eq!(numbers, [1, 3, 4, 7]);
    assert_eq!(texts(&rows[2]), ["17", "0.25", "2024-02-29 09:05:59", "TRUE", "", "", "外面"]);
    assert_eq!((texts(&rows[3])[2], rows[3].cells[0].number), ("2024-02-29 09:59:59", Some(17.0)));
}

#[test]
fn a_nul_character_in_a_cell_does_not_refuse_the_file() {
    let (_, rows) = read("编号,内容\n1,雁坪\0路\n2,松岗路\n".as_bytes());
    assert_eq!(rows.iter().map(texts).collect::<Vec<_>>(), [["编号", "内容"], ["1", "雁坪\0路"], ["2", "松岗路"]]);
    assert!(matches!(error_of("编\0号\0,\0\n".as_bytes()), TableError::Unknown));
}

#[test]
fn files_that_are_not_tables_have_different_errors() {
    assert!(matches!(error_of(b""), TableError::NoHeader));
    assert!(matches!(error_of(b"\n\n , \n"), TableError::NoHeader));
    assert!(matches!(error_of(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"), TableError::OldWorkbook));
    assert!(matches!(error_of(b"\x89PNG\r\n\0\0"), TableError::Unknown));
    assert!(matches!(error_of(b"PK\x03\x04 and no more"), TableError::Damaged));
    assert!(matches!(error_of("a,".repeat(600).as_bytes()), TableError::TooManyColumns));
    // The row below must not be taken for the names of the columns.
    assert!(matches!(error_of(format!("{}\n1,2\n", "a,".repeat(1_200)).as_bytes()), TableError::TooManyColumns));
}

fn error_of(bytes: &[u8]) -> TableError {
    TableProperties::open(file(bytes).path(), LONG).unwrap_err()
}

#[test]
fn columns_are_guessed_by_name_and_none_twice() {
    let settings = Settings::default();
    let fields = ["title", "content", "user", "time"].map(String::from);
    assert_eq!(
        guess_columns(
            &["工单编号", "诉求标题", "诉求内容（必填）", "来电人", "来电时间", "办理单位", ""],
            &settings,
            &fields
        ),
        [
            ColumnTarget::Id,
            field_target("title"),
            field_target("content"),
            field_target("user"),
            field_target("time"),
            ColumnTarget::Own,
            ColumnTarget::Unused
        ]
    );
    assert_eq!(
        guess_columns(&["Content", "内容", "ID", "编号"], &settings, &fields),
        [field_target("content"), ColumnTarget::Own, ColumnTarget::Own, ColumnTarget::Id]
    );
    assert_eq!(guess_columns(&["备注", "备注"], &settings, &fields), [ColumnTarget::Unused, ColumnTarget::Unused]);
}

fn field_target(name: &str) -> ColumnTarget {
    ColumnTarget::Field(name.into())
}

fn guess_columns(header: &[&str], settings: &Settings, fields: &[String; 4]) -> Vec<ColumnTarget> {
    let header: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
    guess(&header, settings, fields)
}

#[test]
fn a_workbook_of_libreoffice_keeps_leading_zeros_and_merged_cells() {
    let tall = r#"<table:table-cell table:number-rows-spanned="2" office:value-type="string"><text:p>王强</text:p></table:table-cell>"#;
    let rows = [
        ["编号", "来电人", "内容"].map(samples::ods_cell).concat(),
        format!("{}{tall}{}", ods_number("000123", 123), samples::ods_cell("路灯")),
        format!("{}<table:covered-table-cell/>{}", ods_number("1200", 1200), samples::ods_cell("井盖")),
        format!("{}{}{}", ods_number("0", 0), samples::ods_cell("李娟"), samples::ods_cell("停水")),
    ];
    let rows: String = rows.iter().map(|cells| format!("<table:table-row>{cells}</table:table-row>")).collect();
    let file = file(&samples::ods_of(&samples::content(&rows)));
    let rows = samples::read(file.path(), "ods").unwrap().split_off(1);
    assert_eq!(
        [cell_text(0, 0, &rows), cell_text(1, 0, &rows), cell_text(2, 0, &rows)],
        [Some("000123"), Some("1200"), Some("0")]
    );
    assert_eq!(
        [cell_text(0, 1, &rows), cell_text(1, 1, &rows), cell_text(2, 1, &rows)],
        [Some("王强"), Some("王强"), Some("李娟")]
    );
}

fn cell_text(row: usize, column: usize, rows: &[TableRow]) -> Option<&str> {
    rows[row].value(column).map(|cell| cell.text.as_str())
}

fn ods_number(shown: &str, value: u64) -> String {
    format!(
        r#"<table:table-cell office:value-type="float" office:value="{value}"><text:p>{shown}</text:p></table:table-cell>"#
    )
}

#[test]
fn a_workbook_of_libreoffice_is_read_as_a_stream_of_rows() {
    let file = file(&samples::ods());
    let mut table = samples::open(file.path(), "ods").unwrap();
    assert_eq!(table.layout, TableLayout::Sheet { kind: WorkbookKind::Ods, sheet: "信件".into() });
    assert_eq!(table.header, ["编号", "内容"]);
    let rows: Vec<TableRow> = std::iter::from_fn(|| table.next_row().unwrap()).collect();
    assert_eq!(
        rows.iter().map(|row| (row.line, texts(row)[1])).collect::<Vec<_>>(),
        [(2, "三号路的路灯不亮"), (3, "文昌巷口的井盖裂开")]
    );
    assert!(TableProperties::open(file.path(), LONG).is_err(), "the desk takes none");
    assert!(matches!(samples::open(file.path(), "csv"), Err(TableError::IsWorkbook)));
}
