//! Checks that a workbook that declares more content than it has is refused before memory is allocated for this content.

use super::samples::{self, HostileFile, read, texts};
use super::{HELD_PER_TEXT, compound};
use crate::tables::tests::file;
use crate::tables::{TableError, TableProperties, WorkbookLimits};

#[test]
fn sound_workbooks_of_every_kind_are_read() {
    for (extension, bytes) in [("xlsx", samples::xlsx()), ("xls", samples::xls()), ("ods", samples::ods())] {
        let file = file(&bytes);
        let rows = read(file.path(), extension).unwrap_or_else(|error| panic!("{extension}: {error}"));
        let expected = [["编号", "内容"], ["1", "三号路的路灯不亮"], ["2", "文昌巷口的井盖裂开"]];
        assert_eq!(texts(&rows), expected, "{extension}");
    }
}

#[test]
fn a_workbook_that_declares_more_than_it_has_is_refused() {
    for HostileFile { name, extension, bytes, refused_for } in samples::hostile() {
        let file = file(&bytes);
        // The file is refused, and reading neither ends the process nor takes very long.
        let error = read(file.path(), extension).map(|rows| rows.len()).unwrap_err();
        assert!(error.to_string().contains(refused_for), "{name}: {error}");
        if extension == "xlsx" {
            let error = TableProperties::open(file.path(), 1 << 20).unwrap_err();
            assert!(error.to_string().contains(refused_for), "{name}, at the desk: {error}");
        }
    }
}

#[test]
fn more_texts_than_may_be_held_are_refused_at_the_desk() {
    let most = usize::try_from(WorkbookLimits::DESK.held / HELD_PER_TEXT).unwrap();
    assert!(matches!(refusal_of_texts(3), TableError::NoHeader), "the texts are all empty");
    let error = refusal_of_texts(most + 1);
    assert!(error.to_string().contains("different texts"), "{error}");
}

fn refusal_of_texts(count: usize) -> TableError {
    TableProperties::open(file(&samples::empty_texts(count)).path(), 1 << 20).unwrap_err()
}

#[test]
fn a_wrong_count_within_the_limits_does_not_matter() {
    for count in ["0", "3", "100000", "-5", "many", "99999999999999999999999"] {
        let bytes = samples::xlsx_of(&samples::shared(count, &["编号", "内容"]), &samples::sheet(&[&[0, 1], &[1, 0]]));
        let rows = read(file(&bytes).path(), "xlsx").unwrap_or_else(|error| panic!("{count}: {error}"));
        assert_eq!(texts(&rows), [["编号", "内容"], ["内容", "编号"]], "{count}");
    }
}

#[test]
fn parts_are_found_as_the_library_finds_them() {
    let declared = samples::shared("2000000000", &["文"]);
    let sheet = samples::sheet(&[&[0, 0]]);
    for (target, name) in [
        ("xl/workbook.xml", "XL\\SharedStrings.XML"),
        ("/xl/workbook.xml", "xl/sharedStrings.xml"),
        ("xl/worksheets/workbook.xml", "xl/worksheets/sharedStrings.xml"),
        ("elsewhere/list.xml", "Elsewhere/sharedstrings.xml"),
    ] {
        let bytes = samples::archive(&[
            // The library also reads a part as the shared texts if its name has another letter case, other separators or another folder.
            ("_rels/.rels", relations_to(target).as_bytes()),
            ("xl/workbook.xml", b"<workbook/>"),
            (name, declared.as_bytes()),
            ("xl/worksheets/sheet1.xml", sheet.as_bytes()),
        ]);
        let error = read(file(&bytes).path(), "xlsx").unwrap_err();
        assert!(error.to_string().contains("different texts"), "{name}: {error}");
    }
}

fn relations_to(target: &str) -> String {
    format!(
        r#"<Relationships><Relationship Type="http://x/relationships/officeDocument" Target="{target}"/></Relationships>"#
    )
}

#[test]
fn empty_rows_and_cells_at_the_end_of_a_sheet_cost_nothing() {
    // Every program that writes ODS closes a sheet in this way.
    let end = r#"<table:table-row table:number-rows-repeated="1048574"><table:table-cell table:number-columns-repeated="16384"/></table:table-row>"#;
    let row = samples::ods_row(&["编号", "内容"]);
    let row = row.replace(
        "</table:table-row>",
        r#"<table:table-cell table:number-columns-repeated="16382"/></table:table-row>"#,
    );
    let bytes = samples::ods_of(&samples::content(&format!("{row}{row}{end}")));
    let rows = read(file(&bytes).path(), "ods").unwrap();
    assert_eq!(texts(&rows), [["编号", "内容"], ["编号", "内容"]]);
}

#[test]
fn a_small_desk_file_cannot_stand_for_a_large_table() {
    let long = "长".repeat(100_000);
    let row: &[usize] = &[0; 100];
    let bytes = samples::xlsx_of(&samples::shared("1", &[&long]), &samples::sheet(&[row; 100]));
    let error = TableProperties::open(file(&bytes).path(), 1 << 20).unwrap_err();
    assert!(error.to_string().contains("bytes of text in its cells"), "{error}");
}

#[test]
fn a_small_old_workbook_cannot_stand_for_a_large_table() {
    let long = "长".repeat(4_000);
    let cells: Vec<u8> = (0..30_000).flat_map(|row| samples::text_cell(row, 0, 0)).collect();
    let error = compound::check_records(&samples::xls_stream(&[&long], &cells)).unwrap_err();
    assert!(error.to_string().contains("bytes of text in its cells"), "{error}");
}
