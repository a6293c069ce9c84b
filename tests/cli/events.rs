//! Promises of `doppel events` on the command line.

use std::collections::BTreeMap;
use std::process::Command;

use calamine::{Reader as _, Xlsx, open_workbook};

/// Invented orders: three reports of one event in three days, one of another problem at the same place, one about another
/// place, and one that cites the first.
const ORDERS: &str = r#"{"id":"20240301000001","title":"雁坪路夜间施工噪音","content":"雁坪路的工地夜间施工到凌晨，噪音严重扰民","time":"2024-03-01 09:00:00","姓名":"赵一"}
{"id":"20240302000002","title":"雁坪路夜间施工噪音扰民","content":"雁坪路工地夜间施工到凌晨，噪音扰民，孩子睡不着","time":"2024-03-02 09:00:00","姓名":"钱二"}
{"id":"20240303000003","title":"雁坪路夜间施工噪音","content":"=1+1 雁坪路的工地夜间施工到凌晨，噪音严重扰民，请处理","time":"2024-03-03 09:00:00","姓名":"孙三"}
{"id":"20240303000004","title":"雁坪路停水","content":"雁坪路的老人家里已经断水两天","time":"2024-03-03 10:00:00"}
{"id":"20240303000005","title":"松岗花园停水","content":"松岗花园自来水没有了","time":"2024-03-03 10:00:00"}
{"id":"20240304000006","title":"催办工单20240301000001","content":"市民来电催办工单20240301000001，查询办理结果","time":"2024-03-04 10:00:00"}
{"id":"20240301000001","content":"与前面的编号相同"}
"#;

fn run(arguments: &[&str], code: i32) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_doppel")).args(arguments).output().expect("the doppel binary starts");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

#[test]
fn the_workbook_has_the_events_and_all_orders_with_their_event() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(path_in("orders.jsonl", &folder), ORDERS).expect("it can be written");
    let said = run(
        &["events", "--out", &path_in("events.xlsx", &folder), &path_in("orders.jsonl", &folder), "--lang", "en"],
        3,
    );
    assert!(said.contains("read       6 records") && said.contains("rejected   1"), "{said}");
    let mut book: Xlsx<_> = open_workbook(path_in("events.xlsx", &folder)).expect("a workbook");
    let events = book.worksheet_range("事件").expect("a sheet");
    let first: Vec<String> = events.rows().nth(1).expect("an event").iter().map(ToString::to_string).collect();
    assert!(first[1].starts_with("雁坪路"), "{first:?}");
    assert_eq!((first[2].as_str(), first[3].as_str(), first[7].as_str()), ("3", "3", "是"), "{first:?}");
    let orders = book.worksheet_range("工单").expect("a sheet");
    let event_of: BTreeMap<String, String> =
        orders.rows().skip(1).map(|row| (row[0].to_string(), row[1].to_string())).collect();
    assert_eq!(event_of.len(), 6);
    let numbers: Vec<&str> = event_of.values().map(String::as_str).collect();
    assert_eq!(numbers, ["1", "1", "1", "", "", "1"], "the cited order, its reports and the citation are one event");
}

#[test]
fn orders_have_their_own_events_in_whichever_order_their_file_has_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lines: Vec<&str> = ORDERS.lines().take(6).collect();
    lines.reverse();
    std::fs::write(path_in("orders.jsonl", &folder), lines.join("\n")).expect("it can be written");
    run(&["events", "--out", &path_in("events.xlsx", &folder), &path_in("orders.jsonl", &folder)], 0);
    let mut book: Xlsx<_> = open_workbook(path_in("events.xlsx", &folder)).expect("a workbook");
    let orders = book.worksheet_range("工单").expect("a sheet");
    let without: Vec<String> =
        orders.rows().skip(1).filter(|row| row[1].to_string().is_empty()).map(|row| row[0].to_string()).collect();
    assert_eq!(without, ["20240303000004", "20240303000005"]);
}

fn path_in(name: &str, folder: &tempfile::TempDir) -> String {
    folder.path().join(name).display().to_string()
}

#[test]
fn another_format_is_wrong_usage_and_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(path_below("orders.jsonl", &folder), ORDERS).expect("it can be written");
    let said = run(
        &["events", "--out", &path_below("events.pdf", &folder), &path_below("orders.jsonl", &folder), "--lang", "en"],
        2,
    );
    assert!(said.contains("give a name that ends in .xlsx"), "{said}");
    assert!(!folder.path().join("events.pdf").exists());
}

fn path_below(name: &str, folder: &tempfile::TempDir) -> String {
    folder.path().join(name).display().to_string()
}
