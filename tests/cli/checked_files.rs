//! `doppel check FILE` and `doppel dedup --out` write a copy of the table with the result for each row.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use calamine::{Data, Reader, Xlsx};
use serde_json::{Value, json};

use crate::support::{TestServer, file_path, put_file, run, run_to_exit, send_signal, until};

const LAMPS: &str = "河口新区三号路的路灯已经连续多日不亮，晚上行走十分危险，居民多次报修没有结果。";
const LAMPS_AGAIN: &str = "上次来信没有得到答复！河口新区三号路的路灯，已经连续多日不亮;晚上行走十分危险，居民多次报修没有结果。请给一个明确的时间。";
const MARKET: &str = "小区楼下的夜市每天营业到凌晨，噪音扰民，居民投诉多次没有人管。";

/// The rows of the register below its header: number, content, office. No setting uses the office.
const ROWS: [[&str; 3]; 6] = [
    ["a", LAMPS, "城管局"],
    ["b", LAMPS_AGAIN, "=1+1"],
    ["c", MARKET, "环保局"],
    ["d", MARKET, ""],
    ["e", "", "没有内容"],
    ["f", "停电", "供电局"],
];
/// The result for each row, if the service already has LAMPS as `stored`.
const FOUND: [[&str; 2]; 6] = [
    ["重件（全文相同）", "stored"],
    ["重件（内容相近）", "stored"],
    ["初件", ""],
    ["重件（全文相同）", "本文件第 4 行"],
    ["未处理", ""],
    ["文字过短", ""],
];

fn register(separator: &str) -> String {
    let mut text = quoted_line(&["编号", "诉求内容", "办理单位"], separator) + "\r\n";
    ROWS.iter().for_each(|row| text += &(quoted_line(row, separator) + "\r\n"));
    text
}

fn quoted_line(cells: &[&str], separator: &str) -> String {
    cells.iter().map(|cell| format!("\"{cell}\"")).collect::<Vec<_>>().join(separator)
}

fn workbook(dir: &Path) -> String {
    let mut book = rust_xlsxwriter::Workbook::new();
    let sheet = book.add_worksheet();
    sheet.set_name("来信").expect("made here");
    sheet.write(0, 0, "编号").expect("made here");
    sheet.write(0, 1, "诉求内容").expect("made here");
    sheet.write(0, 2, "办理单位").expect("made here");
    sheet.write(0, 4, 2024.5).expect("made here");
    for (row, cells) in (1..).zip(ROWS) {
        for (column, cell) in (0..).zip(cells) {
            sheet.write_string(row, column, cell).expect("made here");
        }
    }
    // A number in a column without a name.
    sheet.write(3, 3, 12.75).expect("made here");
    book.save(dir.join("register.xlsx")).expect("made here");
    file_path(dir, "register.xlsx")
}

/// Returns the rows of a table that was written.
fn table(path: &str) -> Vec<Vec<String>> {
    if path.ends_with(".xlsx") {
        let mut book: Xlsx<_> = calamine::open_workbook(path).expect("a workbook");
        let range = book.worksheet_range_at(0).expect("a sheet").expect("readable");
        return range
            .rows()
            .map(|row| {
                row.iter()
                    .map(|cell: &Data| match cell {
                        Data::Empty => String::new(),
                        other => other.to_string(),
                    })
                    .collect()
            })
            .collect();
    }
    let text = fs::read_to_string(path).expect("it is there");
    let text = text.strip_prefix('\u{feff}').expect("Excel looks for the mark").to_owned();
    assert!(text.ends_with("\r\n"));
    // No cell here contains a line end or a quote.
    text.trim_end()
        .split("\r\n")
        .map(|line| line.split(',').map(|cell: &str| cell.trim_matches('"').to_owned()).collect())
        .collect()
}

/// Starts a service that has LAMPS.
fn service(dir: &Path) -> TestServer {
    let server = TestServer::start_in(dir.join("data"));
    let path = "/v1/collections/letters/records/stored";
    server.send("PUT", path, &json!({"诉求内容": LAMPS})).expect_status(201);
    server
}

#[track_caller]
fn assert_found(rows: &[Vec<String>], width: usize) {
    assert_eq!(&rows[0][width..], ["结论", "重复于", "相似度", "理由"], "{rows:?}");
    assert_eq!(rows.len(), ROWS.len() + 1, "{rows:?}");
    for ((row, came), [verdict, of]) in rows[1..].iter().zip(ROWS).zip(FOUND) {
        assert_eq!(row[..3], came, "its own cells stay: {row:?}");
        assert_eq!(row[width..width + 2], [verdict, of], "{row:?}");
        assert_eq!(row[width + 2].ends_with('%'), !of.is_empty(), "{row:?}");
        assert!(row[width + 3].ends_with('。'), "{row:?}");
    }
}

#[test]
fn a_table_of_any_kind_comes_back_with_what_was_found_for_each_row_and_nothing_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let server = service(dir);
    let files = [
        put_file(dir, "utf8.csv", register(",")),
        put_file(dir, "gbk.csv", encoding_rs::GB18030.encode(&register(";")).0),
        put_file(dir, "wide.tsv", crate::utf16(&register("\t"))),
        workbook(dir),
    ];
    for (file, ending) in files.iter().flat_map(|file| [(file, "csv"), (file, "xlsx")]) {
        let out = file_path(dir, &format!("out.{ending}"));
        let arguments = ["check", "--to", server.url(), "--collection", "letters", "--summary", "json", "--out", &out];
        let [sum, said] = run_to_exit(&[&arguments[..], &[file]].concat(), &[], 3);
        let rows = table(&out);
        // The workbook has a column without a name, and a column whose name is a number.
        assert_found(&rows, if file.ends_with("xlsx") { 5 } else { 3 });
        if file.ends_with("xlsx") {
            assert_eq!((rows[0][4].as_str(), rows[3][3].as_str()), ("2024.5", "12.75"), "{rows:?}");
        }
        let sum: Value = serde_json::from_str(&sum).unwrap();
        let verdicts = json!({"exact_duplicate": 2, "near_duplicate": 1, "original": 1, "too_short": 1});
        assert_eq!((&sum["rows"], &sum["rejected"], &sum["verdicts"]), (&json!(6), &json!(1), &verdicts), "{said}");
        assert!(said.contains("6: no_content") || said.contains(":6:"), "the row is named: {said}");
    }
    assert_eq!(server.count("letters"), 1);
    let [sum, _] =
        run_to_exit(&["check", "--to", server.url(), "--collection", "letters", "--dry-run", &files[0]], &[], 3);
    assert!(sum.contains("to check  5; nothing was sent") && sum.contains("rejected  1"), "{sum}");
}

#[test]
fn rows_that_are_registered_get_the_same_table_again() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let server = service(dir);
    let text = register(",") + "\"c\",\"另一件事：文昌巷口的井盖裂开了一个大洞，十分危险\",\"\"\r\n";
    let file = put_file(dir, "register.csv", text);
    let out = file_path(dir, "out.csv");
    let arguments =
        ["check", "--to", server.url(), "--collection", "letters", "--register", "--language", "en", "--out", &out];
    let mut tables = Vec::new();
    for outcomes in ["5 new, 0 replaced, 0 updated, 0 unchanged", "0 new, 0 replaced, 0 updated, 5 unchanged"] {
        let [sum, _] = run_to_exit(&[&arguments[..], &[&file]].concat(), &[], 3);
        assert!(sum.contains(outcomes), "{sum}");
        let rows = table(&out);
        assert_eq!(rows[4][4], "row 4 of this file", "{rows:?}");
        assert_eq!(rows[7][3..7], ["not taken", "", "", "An earlier row has the same number. Mend the number."]);
        let verdicts: Vec<Vec<String>> = rows.into_iter().map(|row| row[..6].to_vec()).collect();
        tables.push(verdicts);
    }
    assert_eq!(tables[0], tables[1]);
    assert_eq!(server.count("letters"), 6);
    let [_, said] =
        run_to_exit(&[&arguments[..], &[&put_file(dir, "noid.csv", "内容,来源\n路灯,网上\n")]].concat(), &[], 2);
    assert!(said.contains("--make-ids"), "{said}");
}

#[test]
fn a_data_directory_is_asked_as_a_service_is() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    service(dir).stop();
    let data = file_path(dir, "data");
    let file = put_file(dir, "a.csv", register(","));
    let out = file_path(dir, "out.csv");
    run_to_exit(&["check", "--to", &data, "--collection", "letters", "--out", &out, &file], &[], 3);
    assert_found(&table(&out), 3);
    let inside = file_path(dir, "data/out.csv");
    let [_, said] = run_to_exit(&["check", "--to", &data, "--collection", "letters", "--out", &inside, &file], &[], 2);
    assert!(said.contains("in use"), "{said}");
}

#[test]
fn several_files_and_json_lines_become_one_table() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let server = service(dir);
    let first = put_file(dir, "a.csv", format!("编号,内容,时间\n1,{MARKET},昨天\n"));
    let lines = [json!({"内容": MARKET, "电话": 12}).to_string(), "{\"content\":".into()];
    let second = put_file(dir, "b.jsonl", lines.join("\n"));
    let out = file_path(dir, "out.csv");
    let arguments = ["check", "--to", server.url(), "--collection", "letters", "--out", &out];
    let [sum, said] = run_to_exit(&[&arguments[..], &[&first, &second]].concat(), &[], 3);
    assert!(sum.contains("1 unreadable_time") && said.contains("a.csv:2: warning: unreadable_time"), "{sum}{said}");
    let rows = table(&out);
    assert_eq!(rows[0][..4], ["编号", "内容", "时间", "电话"]);
    assert_eq!(rows[2][1..6], [MARKET, "", "12", "重件（全文相同）", &format!("{first} 第 2 行")]);
    assert_eq!((rows[3][0].as_str(), rows[3][4].as_str()), ("{\"\"content\"\":", "未处理"), "{rows:?}");
}

#[test]
fn a_check_that_cannot_be_done_gives_the_reason_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let server = service(dir);
    let file = put_file(dir, "a.csv", register(","));
    let out = file_path(dir, "out.csv");
    let before = "what was there";
    fs::write(&out, before).unwrap();
    let book = fs::read(workbook(dir)).unwrap();
    let cut = put_file(dir, "cut.xlsx", &book[..book.len() / 2]);
    let url = server.url();
    let table = [
        (vec!["--to", url, "--collection", "letters", "--out", "out.doc", &file], 2, ".csv or .xlsx"),
        (vec!["--to", url, "--collection", "letters", "--out", &file, &file], 2, "in use"),
        (vec!["--to", url, "--collection", "letters", "--out", &out, &cut], 2, "damaged or cut off"),
        (vec!["--to", url, "--collection", "letters", &file], 2, "--out"),
        (vec!["--to", "http://127.0.0.1:1", "--collection", "letters", "--out", &out, &file], 1, "cannot reach"),
        (vec!["--to", "./not-there", "--collection", "letters", "--out", &out, &file], 1, "does not exist"),
    ];
    for (arguments, code, why) in table {
        let [_, said] = run_to_exit(&[&["check"], &arguments[..]].concat(), &[], code);
        assert!(said.contains(why), "{arguments:?}: {said}");
        assert_eq!(fs::read_to_string(&out).unwrap(), before, "{arguments:?}");
        assert!(!said.contains("路灯"), "no text of a letter: {said}");
    }
    assert!(!fs::read_dir(dir).unwrap().any(|entry| entry.unwrap().path().extension().is_some_and(|e| e == "part")));
}

#[test]
fn one_request_tells_that_the_collection_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let server = service(folder.path());
    let file = put_file(folder.path(), "a.csv", register(","));
    run_to_exit(&["check", "--to", server.url(), "--collection", "missing", "--dry-run", &file], &[], 3);
    let series = r#"doppel_http_requests_total{method="GET",route="/v1/collections/{collection}",status="404"}"#;
    assert_eq!(server.metric(series), Some(1.0));
}

#[test]
fn a_check_that_is_stopped_leaves_no_half_file() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let server = service(dir);
    let out = file_path(dir, "out.csv");
    let mut command = crate::stoppable();
    command.args(["check", "--to", server.url(), "--collection", "letters", "--format", "csv", "--out", &out, "-"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // The command waits for more input.
    let mut input = child.stdin.take().expect("piped");
    input.write_all(register(",").as_bytes()).unwrap();
    let begun =
        || fs::read_dir(dir).unwrap().any(|entry| entry.unwrap().path().extension().is_some_and(|e| e == "part"));
    until("it begins", begun);
    send_signal(child.id(), "TERM");
    let output = child.wait_with_output().expect("it ends");
    drop(input);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("stopped by a signal"), "{said}");
    assert!(!begun() && !Path::new(&out).exists());
}

#[test]
fn a_registering_check_that_is_stopped_sends_no_further_batch() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let server = service(dir);
    let rows: String = (0..6000)
        .map(|number| format!("{{\"id\":\"n{number}\",\"content\":\"第{number}号路口没有信号灯\"}}\n"))
        .collect();
    let file = put_file(dir, "many.jsonl", rows);
    let out = file_path(dir, "many.csv");
    let mut command = crate::stoppable();
    command.args(["check", "--to", server.url(), "--collection", "many", "--register", "--out", &out, &file]);
    let child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    until("rows are stored", || server.count("many") > 0);
    send_signal(child.id(), "TERM");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("stopped by a signal"), "{said}");
    assert!(server.count("many") < 6000 && !Path::new(&out).exists());
}

#[test]
fn dedup_gives_the_input_back_with_what_each_row_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    // There is a title above the header, and the last row has the same id as the first.
    let text = format!("2024年来信登记表\r\n{}\"a\",\"{LAMPS}\",\"\"\r\n", register(","));
    let file = put_file(dir, "register.csv", text);
    for (ending, memory) in [("csv", "1M"), ("xlsx", "2G")] {
        let out = file_path(dir, &format!("out.{ending}"));
        let pairs = file_path(dir, "pairs.jsonl");
        run_to_exit(&["dedup", "--out", &out, "--pairs", &pairs, "--memory", memory, &file], &[], 3);
        let rows = table(&out);
        assert_eq!(rows[0][0], "2024年来信登记表");
        assert_eq!(&rows[1][3..7], ["结论", "重复于", "相似度", "理由"]);
        let of: Vec<&str> = rows[2..].iter().map(|row| row[4].as_str()).collect();
        assert_eq!(of, ["", "本文件第 3 行", "", "本文件第 5 行", "", "", ""], "{rows:?}");
        assert_eq!((rows[3][2].as_str(), rows[6][3].as_str()), ("=1+1", "未处理"));
        assert_eq!(rows[8][3..7], ["未处理", "", "", "编号与前面的一行相同。请改正编号。"]);
        assert_eq!(fs::read_to_string(&pairs).unwrap().lines().count(), 2);
        // The share in the table is the similarity of the pair, because both compare the same letters by the same rules.
        let pair: Value = serde_json::from_str(fs::read_to_string(&pairs).unwrap().lines().next().unwrap()).unwrap();
        let share = pair["similarity"].as_f64().unwrap();
        assert_eq!(rows[3][5], format!("{}%", (share * 100.0).round()));
    }
    let [_, said] = run_to_exit(&["dedup", "--out", &file, &file], &[], 2);
    assert!(said.contains("in use"), "{said}");
    let [_, said] = run_to_exit(&["dedup", "--out", "x.txt", &file], &[], 2);
    assert!(said.contains(".csv or .xlsx"), "{said}");
}

#[test]
fn texts_that_are_too_long_for_a_workbook_are_cut_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path();
    let long = "长".repeat(40_000);
    let file = put_file(dir, "long.csv", format!("编号,内容,附件\na,{LAMPS},{long}\nb,{MARKET},短\n"));
    for (ending, cut) in [("xlsx", true), ("csv", false)] {
        let out = file_path(dir, &format!("out.{ending}"));
        let output = run(&["dedup", &file, "--out", &out], &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert_eq!(said.contains("1 texts are longer than a cell of a workbook holds"), cut, "{ending}: {said}");
        assert!(!said.contains("长长"), "{said}");
    }
}

#[test]
fn a_missing_collection_is_reported_once() {
    let server = TestServer::start(&[]);
    let file = server.put_file("rows.jsonl", crate::import::jsonl(2));
    let data = server.file("directory");
    for to in [server.url(), &data] {
        let out = server.file("out.csv");
        let import = ["import", "--to", to, "--collection", "letters", &file];
        run_to_exit(&import, &[], 0);
        for (name, times) in [("leters", 1), ("letters", 0)] {
            let [_, said] = run_to_exit(&["check", "--to", to, "--collection", name, "--out", &out, &file], &[], 0);
            assert_eq!(said.matches(&format!("{to} has no collection {name}")).count(), times, "{said}");
            assert!(Path::new(&out).exists());
        }
    }
}
