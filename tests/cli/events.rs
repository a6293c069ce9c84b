//! Promises of `doppel events` on the command line.

use crate::support::{expect_exit, file_path, put_file, run};
use std::collections::BTreeMap;

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

#[test]
fn the_workbook_has_the_events_and_all_orders_with_their_event() {
    let folder = tempfile::tempdir().expect("a folder");
    let orders = put_file(&folder, "orders.jsonl", ORDERS);
    let workbook = file_path(&folder, "events.xlsx");
    let output = run(&["events", "--out", &workbook, &orders, "--lang", "en"], &[]);
    expect_exit(&output, 3, &["read       6 records", "rejected   1"]);
    let mut book: Xlsx<_> = open_workbook(&workbook).expect("a workbook");
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
    let orders = put_file(&folder, "orders.jsonl", lines.join("\n"));
    let workbook = file_path(&folder, "events.xlsx");
    expect_exit(&run(&["events", "--out", &workbook, &orders], &[]), 0, &[]);
    let mut book: Xlsx<_> = open_workbook(&workbook).expect("a workbook");
    let orders = book.worksheet_range("工单").expect("a sheet");
    let without: Vec<String> =
        orders.rows().skip(1).filter(|row| row[1].to_string().is_empty()).map(|row| row[0].to_string()).collect();
    assert_eq!(without, ["20240303000004", "20240303000005"]);
}

#[test]
fn another_format_is_wrong_usage_and_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let orders = put_file(&folder, "orders.jsonl", ORDERS);
    let output = run(&["events", "--out", &file_path(&folder, "events.pdf"), &orders, "--lang", "en"], &[]);
    expect_exit(&output, 2, &["give a name that ends in .xlsx"]);
    assert!(!folder.path().join("events.pdf").exists());
}
