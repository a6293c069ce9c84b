//! Registers of offices: the names of their columns, the digits that the file contains, and the row where the records begin.

use std::fs;
use std::path::Path;

use rust_xlsxwriter::{Format, Workbook, Worksheet};
use serde_json::{Value, json};

use crate::support::{TestServer, expect_members, expect_no_parts, expect_parts, run, run_to_exit};

/// Texts about different matters.
pub(crate) const LETTERS: [&str; 6] = [
    "东湖路与学院街路口的三盏路灯熄灭已有十天，晚自习放学的学生只能摸黑过马路，请尽快派人抢修。",
    "建设里小区楼下烧烤店每晚把油烟直接排向居民窗户，屋里没法开窗，多次劝说无效，请环保部门检查。",
    "永兴家园二期的电梯本月已经困人四次，物业每次都说在等配件，老人不敢下楼，希望质监部门介入。",
    "城西客运站外黑车揽客，司机围堵乘客强行拉人，正规出租车进不来，请交通执法部门整治。",
    "实验小学门口的斑马线磨得看不见了，早晚高峰车辆不减速，家长担心孩子安全，请重新施划。",
    "青年公园厕所停水两个月，臭气熏天，游客只能到马路对面的商场借用，请园林部门尽快修复。",
];

pub(crate) fn book(dir: &Path, name: &str, fill: impl FnOnce(&mut Workbook)) -> String {
    let path = dir.join(name);
    let mut book = Workbook::new();
    fill(&mut book);
    book.save(&path).expect("made here");
    path.to_str().expect("made here").to_owned()
}

pub(crate) fn write(sheet: &mut Worksheet, row: u32, cells: &[&str]) {
    for (column, cell) in (0..).zip(cells).filter(|(_, cell)| !cell.is_empty()) {
        sheet.write(row, column, *cell).expect("made here");
    }
}

/// Returns the summary of an import, and standard error.
pub(crate) fn import(server: &TestServer, collection: &str, arguments: &[&str]) -> (Value, String) {
    let head = ["import", "--summary", "json", "--to", server.url(), "--collection", collection];
    let output = run(&[&head, arguments].concat(), &[]);
    let said = String::from_utf8(output.stderr).expect("made here");
    let sum = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{:?}: {said}", output.status.code()));
    (sum, said)
}

/// Returns standard error of an import that is refused completely.
fn refused(server: &TestServer, arguments: &[&str]) -> String {
    let output = run(&[&["import", "--to", server.url(), "--collection", "refused"], arguments].concat(), &[]);
    let said = String::from_utf8(output.stderr).expect("made here");
    assert_eq!(output.status.code(), Some(2), "{said}");
    said
}

/// Returns the rows of a collection with their ids, in the order of the ids.
pub(crate) fn rows(server: &TestServer, collection: &str) -> Vec<(String, Value)> {
    let list = server.get(&format!("/v1/collections/{collection}/records?limit=1000")).json();
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}"));
    let mut rows: Vec<(String, Value)> =
        items.iter().map(|item| (item["id"].as_str().expect("an id").to_owned(), item["row"].clone())).collect();
    rows.sort_by(|(a, _), (b, _)| a.cmp(b));
    rows
}

fn ids(rows: &[(String, Value)]) -> Vec<&str> {
    rows.iter().map(|(id, _)| id.as_str()).collect()
}

#[test]
fn columns_of_a_hotline_are_known_in_every_format() {
    let server = TestServer::start(&[]);
    let header = ["工单编号", "诉求标题", "市民诉求", "推送时间", "问题点位"];
    let objects: Vec<Value> = (0..6)
        .map(|number: usize| {
            let members = header.iter().zip(cells_of(number)).map(|(name, cell)| ((*name).to_owned(), json!(cell)));
            Value::Object(members.collect())
        })
        .collect();
    let lines: String = objects.iter().map(|object| format!("{object}\n")).collect();
    let files = [
        server.put_file("a.csv", text_of_register(",", &joined_line, &cells_of, &header)),
        server
            .put_file("b.csv", encoding_rs::GB18030.encode(&text_of_register(",", &joined_line, &cells_of, &header)).0),
        server.put_file("c.tsv", text_of_register("\t", &joined_line, &cells_of, &header)),
        server.put_file("d.csv", text_of_register("|", &joined_line, &cells_of, &header)),
        server.put_file("e.jsonl", lines),
        server.put_file("f.json", serde_json::to_string_pretty(&objects).unwrap()),
        book(server.folder(), "g.xlsx", |book| {
            let sheet = book.add_worksheet();
            write(sheet, 0, &header);
            for number in 0..6 {
                write(sheet, number as u32 + 1, &cells_of(number).each_ref().map(String::as_str));
            }
        }),
    ];
    let mut first = None;
    for (number, file) in files.iter().enumerate() {
        let collection = format!("c{number}");
        let (sum, said) = import(&server, &collection, &[file]);
        assert_eq!((&sum["rejected"], &sum["lines"]), (&json!(0), &json!(6)), "{file}: {sum}{said}");
        assert_eq!(sum["verdicts"]["original"], 3, "{file}: {sum}{said}");
        let rows = rows(&server, &collection);
        assert_eq!(rows[0].1["content"], LETTERS[0], "{file}");
        assert_eq!(*first.get_or_insert_with(|| rows.clone()), rows, "{file}");
    }
    // Registration over HTTP gives the same verdicts, and the members keep their names.
    for (number, object) in objects.iter().enumerate() {
        let answer = server.send("PUT", &format!("/v1/collections/http/records/G{number}"), object);
        let expected = if number < 3 { Value::Null } else { json!(format!("G{}", number - 3)) };
        assert_eq!(answer.json()["duplicate_of"], expected, "{}", answer.text);
    }
}

fn cells_of(number: usize) -> [String; 5] {
    let text = LETTERS[number % 3].to_owned() + if number > 2 { "盼复。" } else { "" };
    [format!("G{number}"), "市民热线来电".into(), text, format!("2025-03-0{} 08:00:00", number + 1), "城西".into()]
}

fn joined_line(cells: &[String], separator: &str) -> String {
    cells.join(separator) + "\n"
}

fn text_of_register(
    separator: &str,
    line: &impl Fn(&[String], &str) -> String,
    cells: &impl Fn(usize) -> [String; 5],
    header: &[&str; 5],
) -> String {
    let rows: String = (0..6).map(|number| line(&cells(number), separator)).collect();
    line(&header.map(str::to_owned), separator) + &rows
}

#[test]
fn a_file_without_a_text_is_refused_with_its_columns() {
    let server = TestServer::start(&[]);
    let table = server.put_file("a.csv", "编号,标题,材料\n1,来信,secret\n");
    let lines = server.put_file("b.jsonl", "{\"id\":1,\"标题\":\"来信\",\"材料\":\"secret\"}\n");
    for file in [&table, &lines] {
        let said = refused(&server, &[file]);
        expect_parts(&said, &["标题", "材料", "--map"]);
        assert!(!said.contains("secret"), "{said}");
        let (sum, said) = import(&server, "mapped", &[file, "--map", "材料=content"]);
        assert_eq!(sum["rejected"], 0, "{sum}{said}");
    }
    server.get("/v1/collections/refused").expect_status(404);
}

#[test]
fn ids_keep_their_digits_or_their_rows_are_rejected() {
    let server = TestServer::start(&[]);
    let ids_as_written =
        ["\"=\"\"00456\"\"\"", "'440305198802022345", "4.40305E+17", "4.40305E+17", "\"440305198802022347\t\"", "0012"];
    let lines: String = ids_as_written.iter().zip(LETTERS).map(|(id, text)| format!("{id},{text}\n")).collect();
    let table = server.put_file("ids.csv", format!("编号,内容\n{lines}"));
    let (sum, said) = import(&server, "text", &[&table]);
    assert_eq!((&sum["outcomes"]["new"], &sum["rejected"]), (&json!(4), &json!(2)), "{sum}{said}");
    expect_parts(&said, &[":4: inexact_id", ":5: inexact_id"]);
    expect_no_parts(&said, &["4.40"]);
    let kept = rows(&server, "text");
    assert_eq!(ids(&kept), ["0012", "00456", "440305198802022345", "440305198802022347"]);

    let padded = Format::new().set_num_format("000000");
    let file = book(server.folder(), "ids.xlsx", |book| {
        let sheet = book.add_worksheet();
        write(sheet, 0, &["编号", "内容", "手机"]);
        for (row, text) in (1..).zip(LETTERS) {
            write(sheet, row, &["", text]);
            sheet.write(row, 2, 13_900_001_111.0 + f64::from(row)).expect("made here");
        }
        sheet.write_with_format(1, 0, 7, &padded).expect("made here");
        sheet.write_with_format(2, 0, 1_234_567, &padded).expect("made here");
        sheet.write(3, 0, 440_305_198_802_022_300.0).expect("made here");
        sheet.write(4, 0, 440_305_198_802_022_300.0).expect("made here");
        sheet.write(5, 0, "000009").expect("made here");
        sheet.write(6, 0, 20_250_301_001_f64).expect("made here");
    });
    // The program that made the workbook wrote all digits of the long numbers, which are equal.
    let (sum, said) = import(&server, "book", &[&file]);
    assert_eq!((&sum["outcomes"]["new"], &sum["rejected"]), (&json!(5), &json!(1)), "{sum}{said}");
    assert!(said.contains(":5: repeated_id"), "{said}");
    let kept = rows(&server, "book");
    assert_eq!(ids(&kept), ["000007", "000009", "1234567", "20250301001", "440305198802022300"]);
    assert_eq!(kept[0].1["user"], "13900001112", "a number that is no id keeps its digits, too");
}

#[test]
fn no_row_takes_the_place_of_another_row_of_its_file() {
    let server = TestServer::start(&[]);
    let lines = format!("编号,内容\n1,{}\n1,{}\n1,{}\n2,{}\n", LETTERS[0], LETTERS[1], LETTERS[0], LETTERS[2]);
    let (sum, said) = import(&server, "twice", &[&server.put_file("twice.csv", lines)]);
    assert_eq!((&sum["rejected"], &sum["outcomes"]["new"]), (&json!(1), &json!(2)), "{sum}{said}");
    assert!(said.contains(":3: repeated_id"), "{said}");
    assert_eq!(sum["outcomes"]["unchanged"], 1, "the same row again does no harm");
    assert_eq!(rows(&server, "twice")[0].1["内容"], LETTERS[0]);
}

#[test]
fn a_table_that_is_given_back_has_the_cells_that_it_had() {
    let server = TestServer::start(&[]);
    let lines = format!(
        "编号,内容,备注\n\"=\"\"007\"\"\",{},'5\n'440305198802022345,{},4.40305E+17\n合计,2,\n",
        LETTERS[0], LETTERS[1]
    );
    let table = server.put_file("in.csv", &lines);
    let out = server.folder().join("out.csv");
    let output =
        run(&["check", "--to", server.url(), "--collection", "none", "--out", out.to_str().unwrap(), &table], &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "a check needs no collection: {said}");
    let given_back = fs::read_to_string(out).unwrap();
    let own: Vec<&str> = lines.lines().collect();
    assert!(given_back.contains(own[1]), "{given_back}");
    assert!(given_back.contains(own[2]) && given_back.contains("合计,2,"), "{given_back}");
}

#[test]
fn the_records_of_a_workbook_are_found_below_titles_and_headings() {
    let server = TestServer::start(&[]);
    let titled = book(server.folder(), "titled.xlsx", |book| {
        let sheet = book.add_worksheet();
        write(sheet, 0, &["来访登记", "来访登记", "来访登记"]);
        write(sheet, 1, &["填表人：王五", "", "2025年3月"]);
        write(sheet, 2, &["编号", "内容", "来电人"]);
        write(sheet, 3, &["T1", LETTERS[0], "赵六"]);
        write(sheet, 4, &["编号", "内容", "来电人"]);
        write(sheet, 5, &["T2", LETTERS[1], "钱七"]);
        write(sheet, 6, &["合计", "2"]);
    });
    let (sum, said) = import(&server, "titled", &[&titled]);
    assert_eq!((&sum["outcomes"]["new"], &sum["rejected"]), (&json!(2), &json!(0)), "{sum}{said}");
    assert_eq!(sum["left_out"], json!({"repeated_header": 1, "totals": 1}), "{sum}");
    assert!(said.contains("line 3 names the columns, the 2 above are left out"), "{said}");
    let [counted, _] = run_to_exit(&["dedup", &titled], &[], 0);
    assert!(counted.contains("1 repeated_header, 1 totals"), "{counted}");
    assert_eq!(rows(&server, "titled")[1].1["user"], "钱七");

    let headed = book(server.folder(), "headed.xlsx", |book| {
        let sheet = book.add_worksheet();
        let plain = Format::new();
        sheet.merge_range(0, 0, 1, 0, "编号", &plain).expect("made here");
        sheet.merge_range(0, 1, 0, 2, "诉求", &plain).expect("made here");
        sheet.merge_range(0, 3, 0, 4, "办理情况", &plain).expect("made here");
        write(sheet, 1, &["", "标题", "内容", "时间", "单位"]);
        for (row, text) in (2..).zip(LETTERS) {
            write(sheet, row, &[&format!("H{row}"), "来信", text, "2025-03-01", "城管局"]);
        }
    });
    let (sum, said) = import(&server, "headed", &[&headed]);
    assert_eq!((&sum["verdicts"]["original"], &sum["rejected"]), (&json!(6), &json!(0)), "{sum}{said}");
    assert!(said.contains("lines 1 and 2 name the columns"), "{said}");
    let (_, row) = &rows(&server, "headed")[0];
    expect_members(row, &json!({ "title": "来信", "content": LETTERS[0] }));
    assert_eq!(row["办理情况/时间"], "2025-03-01", "a time of the handling is no time of the letter: {row}");
}

#[test]
fn merged_cells_count_for_each_of_their_rows_and_errors_for_none() {
    let server = TestServer::start(&[]);
    let file = book(server.folder(), "merged.xlsx", |book| {
        let sheet = book.add_worksheet();
        let plain = Format::new();
        write(sheet, 0, &["编号", "来电人", "诉求内容", "登记时间", "备注"]);
        for (row, text) in (1..).zip(&LETTERS[..4]) {
            write(sheet, row, &[&format!("M{row}"), "", text, "", "#N/A"]);
        }
        sheet.merge_range(1, 1, 3, 1, "孙八", &plain).expect("made here");
        sheet.merge_range(2, 3, 3, 3, "2025-03-02", &plain).expect("made here");
        write(sheet, 4, &["", "周九"]);
    });
    let (sum, said) = import(&server, "merged", &[&file]);
    assert_eq!((&sum["outcomes"]["new"], &sum["rejected"]), (&json!(4), &json!(0)), "{sum}{said}");
    let rows = rows(&server, "merged");
    let values: Vec<[&Value; 3]> = rows.iter().map(|(_, row)| [&row["user"], &row["登记时间"], &row["备注"]]).collect();
    let none = Value::Null;
    let [sun, day] = [json!("孙八"), json!("2025-03-02")];
    let zhou = json!("周九");
    assert_eq!(values, [[&sun, &none, &none], [&sun, &day, &none], [&sun, &day, &none], [&zhou, &none, &none]]);
}

#[test]
fn the_sheet_with_the_records_is_read_and_the_others_are_named() {
    let server = TestServer::start(&[]);
    let file = book(server.folder(), "sheets.xlsx", |book| {
        let hidden = book.add_worksheet().set_name("选项").expect("made here");
        write(hidden, 0, &["编号", "内容"]);
        write(hidden, 1, &["h", "城管局"]);
        hidden.set_hidden(true);
        write(book.add_worksheet().set_name("说明").expect("made here"), 0, &["填写前请阅读"]);
        for (name, letters) in [("一月", &LETTERS[..2]), ("二月", &LETTERS[2..5])] {
            let sheet = book.add_worksheet().set_name(name).expect("made here");
            sheet.set_active(name == "一月");
            write(sheet, 0, &["编号", "内容"]);
            for (row, text) in (1..).zip(letters) {
                write(sheet, row, &[&format!("{name}{row}"), text]);
            }
        }
    });
    let (sum, said) = import(&server, "first", &[&file]);
    assert_eq!((&sum["outcomes"]["new"], &sum["rejected"]), (&json!(2), &json!(0)), "{sum}{said}");
    assert!(said.contains("sheets not read: 选项 (hidden), 说明, 二月 (with records)"), "{said}");
    let (sum, said) = import(&server, "named", &[&file, "--sheet", "二月"]);
    assert_eq!(sum["outcomes"]["new"], 3, "{sum}{said}");
    let said = refused(&server, &[&file, "--sheet", "三月"]);
    expect_parts(&said, &["选项, 说明, 一月, 二月"]);
    let months = book(server.folder(), "months.xlsx", |book| {
        for (name, text) in [("一月", LETTERS[0]), ("二月", LETTERS[1])] {
            let sheet = book.add_worksheet().set_name(name).expect("made here");
            write(sheet, 0, &["编号", "内容"]);
            write(sheet, 1, &[name, text]);
        }
    });
    let (sum, said) = import(&server, "all", &[&months, "--sheet", "all"]);
    assert_eq!((&sum["outcomes"]["new"], &sum["lines"]), (&json!(2), &json!(2)), "{sum}{said}");
}

#[test]
fn columns_of_one_name_are_mapped_by_their_numbers() {
    let server = TestServer::start(&[]);
    let lines = format!("编号,诉求内容,诉求内容\n1,见附件,{}\n2,见附件,{}\n", LETTERS[0], LETTERS[1]);
    let file = server.put_file("twice.csv", lines);
    let said = refused(&server, &[&file]);
    expect_parts(&said, &["two columns named \"诉求内容\" (2 and 3)", "--map 3=FIELD"]);
    let (sum, said) = import(&server, "numbered", &[&file, "--map", "2=", "--map", "3=content"]);
    assert_eq!((&sum["verdicts"]["original"], &sum["rejected"]), (&json!(2), &json!(0)), "{sum}{said}");
    assert_eq!(rows(&server, "numbered")[0].1, json!({"id": "1", "content": LETTERS[0]}));
}
