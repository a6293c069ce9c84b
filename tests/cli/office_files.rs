//! Files of offices in every encoding and format, good and broken: each is read correctly or refused with its name, and no row is lost
//! silently.

use std::fs;
use std::path::Path;

use rust_xlsxwriter::{ExcelDateTime, Format, Workbook};
use serde_json::{Value, json};

use crate::support::{TestServer, put_file, run};

const HEADER: [&str; 5] = ["工单编号", "留言主题", "留言详情", "信访日期", "办理单位"];
const ROWS: [[&str; 5]; 2] = [
    ["7", "三号路路灯不亮", "三号路的路灯坏了半个月,没有人修", "2024年3月5日", "城管局"],
    ["8", "文昌巷口井盖破损", "井盖裂开\n已经一周", "20240306", ""],
];

fn csv(separator: &str) -> String {
    quoted_line(&HEADER, separator) + &ROWS.iter().map(|row| quoted_line(row, separator)).collect::<String>()
}

fn quoted_line(cells: &[&str], separator: &str) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| format!("\"{cell}\"")).collect();
    cells.join(separator) + "\r\n"
}

fn workbook(path: &Path) {
    let mut book = Workbook::new();
    let sheet = book.add_worksheet();
    sheet.write(0, 0, "2024年来信登记表").expect("made here");
    for (column, name) in (0..).zip(HEADER) {
        sheet.write(1, column, name).expect("made here");
    }
    let date = Format::new().set_num_format("yyyy/m/d");
    for (row, cells) in (2..).zip(ROWS) {
        for (column, cell) in (0..).zip(cells) {
            sheet.write(row, column, cell).expect("made here");
        }
    }
    // A number, a date, and a day number without a date format.
    sheet.write(2, 0, 7).expect("made here");
    sheet.write_with_format(2, 3, ExcelDateTime::from_ymd(2024, 3, 5).expect("made here"), &date).expect("made here");
    sheet.write(3, 3, 45_357).expect("made here");
    book.save(path).expect("made here");
}

/// Returns exit code, standard output and standard error of an import.
fn import(arguments: &[&str]) -> (Option<i32>, String, String) {
    import_into("letters", arguments)
}

fn import_into(collection: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = run(&[&["import", "--collection", collection], arguments].concat(), &[]);
    (output.status.code(), utf8_text(output.stdout), utf8_text(output.stderr))
}

fn utf8_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("made here")
}

/// Returns the counts of the summary: lines that were read, lines to send, and rejected lines. Also returns standard error.
fn dry_run(file: &str, more: &[&str]) -> (u64, u64, u64, String) {
    let (code, out, said) = import(&[&["--to", "./not-there", "--dry-run", "--summary", "json", file], more].concat());
    let sum: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{code:?}: {out}{said}"));
    assert_eq!(code, Some(if number_in("rejected", &sum) == 0 { 0 } else { 3 }), "{said}");
    assert!(!Path::new("./not-there").exists(), "a dry run makes no directory");
    (number_in("lines", &sum), number_in("to_send", &sum), number_in("rejected", &sum), said)
}

fn number_in(name: &str, sum: &Value) -> u64 {
    sum[name].as_u64().expect("made here")
}

#[test]
fn every_format_and_encoding_gives_the_same_records() {
    let server = TestServer::start(&[]);
    let book = server.folder().join("登记表.xlsx");
    workbook(&book);
    let files = [
        (server.put_file("utf8.csv", csv(",")), "read as UTF-8, delimiter ,"),
        (server.put_file("mark.csv", format!("\u{feff}{}", csv(","))), "read as UTF-8, delimiter ,"),
        (server.put_file("gbk.csv", encoding_rs::GB18030.encode(&csv(";")).0), "read as GB18030, delimiter ;"),
        (server.put_file("sep.csv", format!("sep=;\r\n{}", csv(";"))), "delimiter ;"),
        (server.put_file("wide.tsv", crate::utf16(&csv("\t"))), "read as UTF-16, delimiter tab"),
        (
            book.to_str().unwrap().to_owned(),
            "sheet Sheet1; its shared texts are held in memory; line 2 names the columns",
        ),
    ];
    for (number, (file, how)) in files.iter().enumerate() {
        let collection = format!("c{number}");
        let (code, out, said) = import_into(&collection, &["--to", server.url(), file]);
        assert_eq!(code, Some(0), "{file}: {out}{said}");
        assert!(said.contains(how), "{file}: {said}");
        let used =
            "columns used: 工单编号 (id), 留言主题 (text), 留言详情 (text), 信访日期 as time (time), 办理单位 (unit)";
        assert!(said.contains(used) && !said.contains("not compared"), "{file}: {said}");
        let [first, second] =
            ["7", "8"].map(|id| server.get(&format!("/v1/collections/{collection}/records/{id}")).json());
        // A time that cannot be read would cause a warning.
        assert!(!out.contains("warned"), "{file}: {out}{said}");
        let times = [&first["row"]["time"], &second["row"]["time"]];
        match file.ends_with("xlsx") {
            true => assert_eq!(times, ["2024-03-05 00:00:00", "2024-03-06 00:00:00"], "{file}"),
            false => assert_eq!(times, ["2024年3月5日", "20240306"], "{file}"),
        }
        assert_eq!(first["row"]["办理单位"], "城管局", "{file}");
        assert_eq!(second["row"]["留言详情"], "井盖裂开\n已经一周", "{file}");
        assert_eq!(dry_run(file, &[]).0, 2, "{file}");
    }
}

#[test]
fn broken_files_are_refused_by_name_and_no_sound_row_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let book = dir.path().join("whole.xlsx");
    workbook(&book);
    let bytes = fs::read(&book).unwrap();
    let refused = [
        (put_file(dir.path(), "cut.xlsx", &bytes[..bytes.len() / 2]), "damaged or cut off"),
        (put_file(dir.path(), "text.xlsx", csv(",")), "give --format csv"),
        (put_file(dir.path(), "book.csv", &bytes), "give --format xlsx"),
        (put_file(dir.path(), "empty.csv", ""), "is empty"),
        (put_file(dir.path(), "empty.xlsx", ""), "is empty"),
        (put_file(dir.path(), "picture.csv", b"\x89PNG\r\n\0\0"), "neither text nor a workbook"),
        (put_file(dir.path(), "twice.csv", "id,标题,标题\n1,a,b\n"), "two columns named \"标题\" (2 and 3)"),
        (put_file(dir.path(), "noid.csv", "标题,内容\na,b\n"), "--id-field COLUMN"),
    ];
    for (file, why) in &refused {
        let (code, out, said) = import(&["--to", "./not-there", "--dry-run", file]);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{file}: {said}");
        assert!(said.contains(why) && said.contains(file.as_str()), "{file}: {said}");
    }
    let header = put_file(dir.path(), "header.csv", "id,标题\n");
    assert_eq!(dry_run(&header, &[]).0, 0);
    // Undecodable bytes, an open quote, and a row with another number of cells: each loses only its own row.
    let mut text = "id,标题\n1,路灯不亮了\n2,X\n3,\"井盖\n4,电梯停了\n5,a,b\n6,夜市太吵\n".as_bytes().to_vec();
    let at = text.iter().position(|byte| *byte == b'X').unwrap();
    text[at] = 0xff;
    let (lines, to_send, rejected, said) = dry_run(&put_file(dir.path(), "rows.csv", text), &[]);
    assert_eq!((lines, to_send, rejected), (6, 3, 3), "{said}");
    for code in [":3: not_utf8", ":4: open_quote", ":6: wrong_number_of_values"] {
        assert!(said.contains(code), "{code}: {said}");
    }
}

#[test]
fn the_choices_of_columns_apply_and_impossible_choices_are_refused_before_reading() {
    let server = TestServer::start(&[]);
    let file = server.put_file("calls.csv", "件,事由,备注,何时\n1,三号路的路灯不亮,secret,03/04/2024\n");
    let arguments = ["--to", server.url(), &file, "--id-field", "件"];
    for (more, why) in [
        (["--map", "事=content"], "no file has a column of this name"),
        (["--map", "事由=nothing"], "no field \"nothing\""),
        (["--map", "事由"], "COLUMN=FIELD"),
        (["--delimiter", "x"], "give one of"),
    ] {
        let (code, _, said) = import(&[&arguments[..], &more].concat());
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(why), "{said}");
    }
    let (code, out, said) =
        import(&[&arguments[..], &["--map", "事由=content", "--map", "备注=", "--map", "何时=time"]].concat());
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("columns left out: 备注"), "{said}");
    assert!(said.contains(":2: warning: unreadable_time at /time: column 何时: "), "{said}");
    assert!(out.contains("1 unreadable_time") && !said.contains("secret"), "{out}{said}");
    let record = server.get("/v1/collections/letters/records/1").json();
    assert_eq!(record["row"]["time"], json!("03/04/2024"));
    assert_eq!(record["row"].get("备注"), None);
}

#[test]
fn ids_made_of_content_stay_the_same_wherever_a_row_stands() {
    let server = TestServer::start(&[]);
    let rows = ["三号路的路灯不亮", "文昌巷口井盖裂开", "三号路的路灯不亮"];
    let first = server.put_file("a.csv", format!("内容\n{}\n", rows.join("\n")));
    let moved = server.put_file("b.csv", format!("内容\n小区电梯又停了\n{}\n", rows.join("\n")));
    for (file, counted) in
        [(&first, "3 new, 0 replaced, 0 updated, 0 unchanged"), (&first, "3 unchanged"), (&moved, "1 new")]
    {
        let (code, out, said) = import(&["--to", server.url(), "--make-ids=content", file]);
        assert_eq!(code, Some(0), "{said}");
        assert!(out.contains(counted), "{out}");
    }
}
