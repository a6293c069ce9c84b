//! Files of letters: the desk takes a table and returns it with the result for each row.

use std::io::{Cursor, Read, Write};

use calamine::{Data, Reader, Xlsx};
use rust_xlsxwriter::Workbook;
use serde_json::json;

use crate::browser::{KeyedServer, LAMPS, PageResponse, TestBrowser};
use crate::support::{TestDesk, awaited};

const ROADS: &str = "幸福小区门口的道路破损严重，雨天积水很深，老人出行困难，请有关部门尽快修复。";
pub(crate) const FILES: &str = "/console/letters/files";

/// Sends bytes without changes. Returns the status, the head and the body of the answer.
fn raw(browser: &TestBrowser<'_>, method: &str, path: &str, more: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
    let cookies: Vec<String> = browser.jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let host = browser.server.url().trim_start_matches("http://").to_owned();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncookie: {}\r\n{more}\r\n",
        cookies.join("; ")
    );
    let mut stream = browser.server.connect();
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(answer[..end].to_vec()).expect("a head is text");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, head, answer[end + 4..].to_vec())
}

fn header<'h>(head: &'h str, name: &str) -> &'h str {
    let line =
        head.split("\r\n").find_map(|line| line.split_once(": ").filter(|(found, _)| found.eq_ignore_ascii_case(name)));
    line.map_or("", |(_, value)| value)
}

fn multipart(name: &str, bytes: &[u8]) -> Vec<u8> {
    let head = format!(
        "--bound\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\ncontent-type: text/csv\r\n\r\n"
    );
    [head.as_bytes(), bytes, b"\r\n--bound--\r\n"].concat()
}

/// Sends a file to `action`.
pub(crate) fn send(browser: &TestBrowser<'_>, action: &str, name: &str, bytes: &[u8]) -> (u16, String, Vec<u8>) {
    let body = multipart(name, bytes);
    let more = format!("content-type: multipart/form-data; boundary=bound\r\ncontent-length: {}\r\n", body.len());
    raw(browser, "POST", action, &more, &body)
}

/// Sends a form with a CSV file to `action`. The form contains the name of a collection, if a name is given. Returns the status, the head
/// and the body of the answer.
pub(crate) fn send_form(
    browser: &TestBrowser<'_>,
    action: &str,
    name: Option<&str>,
    bytes: &[u8],
) -> (u16, String, String) {
    let head = "--bound\r\ncontent-disposition: form-data; name=\"name\"\r\n\r\n";
    let field = name.map_or_else(String::new, |name| format!("{head}{name}\r\n"));
    let body = [field.as_bytes(), &multipart("台账.csv", bytes)].concat();
    let more = format!("content-type: multipart/form-data; boundary=bound\r\ncontent-length: {}\r\n", body.len());
    let (status, head, body) = raw(browser, "POST", action, &more, &body);
    (status, head, String::from_utf8_lossy(&body).into_owned())
}

/// Returns the address to which the form of the page sends a file.
pub(crate) fn action(page: &PageResponse) -> String {
    page.values("action").into_iter().find(|action| action.contains("?token=")).expect("a form for files")
}

/// Uploads a file. Returns the address of the page where its columns are chosen.
#[track_caller]
pub(crate) fn give(browser: &mut TestBrowser<'_>, name: &str, bytes: &[u8]) -> String {
    let page = browser.open(FILES);
    let (status, head, body) = send(browser, &action(&page), name, bytes);
    assert_eq!(status, 303, "{head}\n{}", String::from_utf8_lossy(&body));
    header(&head, "location").to_owned()
}

/// Returns the fields of the form with the guessed columns.
pub(crate) fn chosen(page: &PageResponse) -> Vec<(String, String)> {
    let selects =
        page.html.split("<select id=\"column-").skip(1).map(|rest| rest.split("</select>").next().unwrap_or_default());
    selects.enumerate().map(|(at, select)| (format!("column.{at}"), chosen_value(select))).collect()
}

fn chosen_value(select: &str) -> String {
    let option = select.split("<option ").find(|option| option.contains("\" selected>")).unwrap_or_default();
    option.split("value=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned()
}

/// Starts the work on a file with the guessed columns.
#[track_caller]
pub(crate) fn begin(browser: &mut TestBrowser<'_>, file: &str, what: &str) {
    let page = browser.open(file);
    let action = format!("{file}/start");
    let fields: Vec<_> = page.form(&action).into_iter().chain(chosen(&page)).collect();
    let begun = browser.post(&action, &fields, &[("do", what)]);
    assert_eq!((begun.status, begun.header("location")), (303, file), "{}", begun.html);
}

/// Waits until the work on a file ends. Returns its page.
#[track_caller]
pub(crate) fn ended(browser: &mut TestBrowser<'_>, file: &str) -> PageResponse {
    awaited("the end of the work", || browser.open(file), |page| !page.html.contains("hx-trigger"))
}

fn result(browser: &TestBrowser<'_>, file: &str) -> (String, Vec<u8>) {
    let (status, head, body) = raw(browser, "GET", &format!("{file}/result"), "", b"");
    assert_eq!(status, 200, "{head}");
    (head, body)
}

/// Returns the cells of a CSV whose cells contain neither quotes nor commas.
fn lines(bytes: &[u8]) -> Vec<Vec<String>> {
    let text = std::str::from_utf8(bytes).expect("UTF-8").strip_prefix('\u{feff}').expect("a mark");
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn records(keyed: &KeyedServer) -> usize {
    let answer = keyed.get("office", "/v1/collections/letters/records?limit=1000");
    answer.json()["records"].as_array().or(answer.json()["items"].as_array()).expect("a list").len()
}

fn letters() -> String {
    format!(
        "工单编号,诉求标题,诉求内容,来电人\r\n1,路灯,{LAMPS},甲\r\n2,道路,{ROADS},乙\r\n3,道路,{ROADS},丙\r\n4,,好,丁\r\n\
         5,,,戊\r\n6,少一格\r\n7,路灯,{LAMPS}请尽快处理。,=1+1\r\n"
    )
}

#[test]
fn every_row_comes_back_in_its_order_with_what_was_found_whatever_the_encoding() {
    let keyed = KeyedServer::with(&["a"]);
    let mut reader = keyed.signed_in("reader");
    let text = letters();
    for bytes in [text.clone().into_bytes(), encoding_rs::GB18030.encode(&text).0.into_owned()] {
        let file = give(&mut reader, "三月 来信.csv", &bytes);
        let page = reader.open(&file);
        let columns: Vec<String> = chosen(&page).into_iter().map(|(_, value)| value).collect();
        assert_eq!(columns, ["id", "field:title", "field:content", "field:user"], "{}", page.html);
        page.has(&["共 7 行", "幸福小区门口"]).lacks(&["register\""]);
        begin(&mut reader, &file, "check");
        ended(&mut reader, &file).has(&["标题和内容都是空的", "有 2 个单元格，表头有 4 列"]);
        let (head, body) = result(&reader, &file);
        assert!(header(&head, "content-disposition").contains("%E4%B8%89%E6%9C%88%20"), "{head}");
        let found = lines(&body);
        let given = lines(&[b"\xef\xbb\xbf", text.as_bytes()].concat());
        assert_eq!(found.len(), given.len());
        for (found, given) in found.iter().zip(&given) {
            assert_eq!(&found[..given.len()], &given[..], "the office's own cells stay as they came");
            assert_eq!(found.len(), 8, "{found:?}");
        }
        let told: Vec<(&str, &str, &str)> =
            found.iter().map(|line| (line[4].as_str(), line[5].as_str(), line[6].as_str())).collect();
        assert_eq!(told[0], ("结论", "重复于", "相似度"));
        assert_eq!((told[1].1, told[2].0), ("a", "初件"));
        assert!(told[1].0.starts_with("重件"), "{told:?}");
        assert_eq!((told[3].0, told[3].1), ("重件（全文相同）", "本文件第 3 行"));
        assert_eq!((told[4].0, told[5].0, told[6].0), ("文字过短", "未处理", "未处理"));
        assert!(told[7].0.starts_with("重件") && told[7].2.ends_with('%'), "{told:?}");
        assert!(found[7][7].contains("编号 a"), "{:?}", found[7]);
    }
    assert_eq!(records(&keyed), 1, "nothing was registered");
}

#[test]
fn a_workbook_comes_back_as_a_workbook() {
    let keyed = KeyedServer::with(&["a"]);
    let mut book = Workbook::new();
    let sheet = book.add_worksheet().set_name("来信").expect("a name");
    sheet.write(0, 0, "三月来信登记表").expect("a cell");
    for (row, cells) in [["编号", "内容"], ["x1", LAMPS], ["x2", ROADS], ["x3", ROADS]].iter().enumerate() {
        for (column, text) in cells.iter().enumerate() {
            sheet.write(2 + row as u32, column as u16, *text).expect("a cell");
        }
    }
    sheet.write(4, 3, 17.5).expect("a cell");
    let mut bytes = Vec::new();
    book.save_to_writer(Cursor::new(&mut bytes)).expect("a workbook");
    let mut clerk = keyed.signed_in("desk");
    let file = give(&mut clerk, "来信.xlsx", &bytes);
    begin(&mut clerk, &file, "check");
    ended(&mut clerk, &file);
    let (_, body) = result(&clerk, &file);
    let mut book: Xlsx<_> = Xlsx::new(Cursor::new(body)).expect("a workbook");
    let range = book.worksheet_range("来信").expect("the sheet");
    assert_eq!(
        (cell_text(0, 0, &range), cell_text(2, 1, &range), cell_text(4, 0, &range)),
        ("三月来信登记表".into(), "内容".into(), "x2".into())
    );
    assert_eq!(range.get_value((4, 3)), Some(&Data::Float(17.5)));
    assert_eq!(
        (cell_text(2, 4, &range), cell_text(3, 5, &range), cell_text(4, 4, &range), cell_text(5, 5, &range)),
        ("结论".into(), "a".into(), "初件".into(), "本文件第 5 行".into())
    );
}

fn cell_text(row: u32, column: u32, range: &calamine::Range<Data>) -> String {
    range.get_value((row, column)).map_or_else(String::new, ToString::to_string)
}

#[test]
fn another_sheet_of_a_workbook_can_be_read() {
    let keyed = KeyedServer::with(&["a"]);
    let mut book = Workbook::new();
    for (name, rows) in [("一月", &[ROADS][..]), ("二月", &[LAMPS, ROADS][..]), ("说明", &[][..])] {
        let sheet = book.add_worksheet().set_name(name).expect("a name");
        sheet.write(0, 0, if rows.is_empty() { "填写前请阅读" } else { "内容" }).expect("a cell");
        for (row, text) in (1..).zip(rows) {
            sheet.write(row, 0, *text).expect("a cell");
        }
    }
    let mut bytes = Vec::new();
    book.save_to_writer(Cursor::new(&mut bytes)).expect("a workbook");
    let mut clerk = keyed.signed_in("desk");
    let file = give(&mut clerk, "来信.xlsx", &bytes);
    let first = clerk.open(&file);
    first.has(&["共 1 行。读取工作表“一月”"]);
    let action = format!("{file}/sheet");
    let choose =
        |clerk: &mut TestBrowser<'_>, name: &str| clerk.post(&action, &first.form(&action), &[("sheet", name)]);
    for (name, told) in [("三月", "没有这张工作表"), ("说明", "没有数据")] {
        let refused = choose(&mut clerk, name);
        assert!(refused.status == 422 && refused.html.contains(told), "{}: {}", refused.status, refused.html);
    }
    let chosen = choose(&mut clerk, "二月").expect_status(303);
    let other = chosen.header("location").to_owned();
    assert!(clerk.open(&other).html.contains("共 2 行。读取工作表“二月”"));
    assert_eq!(clerk.get(&file).status, 404, "one file is kept, not two");
    begin(&mut clerk, &other, "check");
    ended(&mut clerk, &other);
    let (_, body) = result(&clerk, &other);
    let mut book: Xlsx<_> = Xlsx::new(Cursor::new(body)).expect("a workbook");
    let range = book.worksheet_range("二月").expect("the sheet");
    assert_eq!(range.get_value((1, 2)), Some(&Data::String("a".into())), "{range:?}");
    // After the work has begun, no other sheet can be chosen.
    clerk.open(&other).lacks(&["改读这张工作表"]);
}

#[test]
fn registering_a_file_twice_makes_no_second_record() {
    let keyed = KeyedServer::with(&["a"]);
    let mut clerk = keyed.signed_in("desk");
    // One file has no ids. The other file has an id of another letter, and an id that occurs twice.
    let plain = format!("内容,办理单位\n{LAMPS},城管局\n{ROADS},\n");
    let named = format!(
        "编号,内容\nn1,水管漏水多日无人维修请物业尽快处理一下\na,{ROADS}\nn1,井盖破损多日请派人更换不然很危险\n"
    );
    let mut reasons = Vec::new();
    for _ in 0..2 {
        for text in [&plain, &named] {
            let file = give(&mut clerk, "f.csv", text.as_bytes());
            begin(&mut clerk, &file, "register");
            ended(&mut clerk, &file);
            let (_, body) = result(&clerk, &file);
            reasons.push(lines(&body));
        }
        assert_eq!(records(&keyed), 4);
    }
    assert!(reasons[0][1][5].contains("已登记，编号") && reasons[2][1][5].contains("此前已登记"), "{reasons:?}");
    assert!(
        reasons[1][2][5].contains("库中已有编号相同") && reasons[1][3][5].contains("与本文件第 2 行相同"),
        "{reasons:?}"
    );
    let stored = keyed.get("reader", "/v1/collections/letters/records/a");
    assert_eq!(stored.json()["row"], json!({ "content": LAMPS }), "nobody's letter was replaced");
}

#[test]
fn only_permitted_people_can_sign_in_and_nothing_is_stored_otherwise() {
    let keyed = KeyedServer::with(&["a"]);
    let mut reader = keyed.signed_in("reader");
    let mut clerk = keyed.signed_in("desk");
    let text = letters();
    for path in [
        FILES.to_owned(),
        format!("{FILES}?token="),
        format!("{FILES}?token={}", "0".repeat(64)),
        action(&clerk.open(FILES)),
    ] {
        let (status, _, body) = send(&reader, &path, "f.csv", text.as_bytes());
        assert_eq!(status, 403, "{path}: {}", String::from_utf8_lossy(&body));
    }
    assert!(reader.open(FILES).html.contains("还没有文件"));
    assert_eq!(std::fs::read_dir(keyed.data().join("desk-files")).expect("its folder").count(), 0);
    // Only the address for files accepts such a body.
    let token = action(&reader.open(FILES)).split_once('?').expect("a query").1.to_owned();
    let (status, ..) = send(&reader, &format!("/console/letters/check?{token}"), "f.csv", b"a");
    assert_eq!(status, 415);

    let file = give(&mut reader, "f.csv", text.as_bytes());
    assert_eq!(clerk.get(&file).status, 404, "it is somebody else's");
    assert_eq!(raw(&clerk, "GET", &format!("{file}/result"), "", b"").0, 404);
    assert!(clerk.open(FILES).html.contains("还没有文件"));
    let page = reader.open(&file);
    let start = format!("{file}/start");
    let fields: Vec<_> = page.form(&start).into_iter().chain(chosen(&page)).collect();
    reader.post(&start, &fields, &[("do", "register")]).expect_status(403);
    assert_eq!(reader.post(&start, &[], &[("do", "check")]).status, 403, "no token");
    assert_eq!(raw(&reader, "GET", &format!("{file}/result"), "", b"").0, 409);
    let mut none = fields.clone();
    none.iter_mut().filter(|(name, _)| name.starts_with("column.")).for_each(|(_, value)| value.clear());
    reader.post(&start, &none, &[("do", "check")]).expect_status(422).has(&["无从比对"]);
    none.iter_mut().filter(|(name, _)| name == "column.0").for_each(|(_, value)| "field:gone".clone_into(value));
    reader.post(&start, &none, &[("do", "check")]).expect_status(422).has(&["该列不能选这一项"]);
    assert_eq!(records(&keyed), 1);

    let removed = reader.post(&format!("{file}/remove"), &page.form(&format!("{file}/remove")), &[]);
    assert_eq!((removed.status, reader.get(&file).status), (303, 404));
    assert_eq!(std::fs::read_dir(keyed.data().join("desk-files")).expect("its folder").count(), 0);
}

#[test]
fn unusable_files_are_refused_with_a_remedy() {
    let desk = TestDesk::with("unusable", &json!({}));
    let mut clerk = TestBrowser::new(&desk.server);
    let page = clerk.open("/console/unusable/files");
    let action = action(&page);
    for (bytes, told) in [
        (&b""[..], "没有选择文件"),
        (b"a,b\n", "没有数据"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "另存为"),
        (b"\x89PNG\r\n\0\0", "认不出"),
        (b"PK\x03\x04 torn", "已损坏"),
    ] {
        let (status, head, body) = send(&clerk, &action, "f", bytes);
        let html = String::from_utf8_lossy(&body).into_owned();
        assert!(status == 422 && html.contains(told), "{told}: {head}\n{html}");
        assert!(!html.contains("token=") || !html.contains("lang=zh-CN&#38;token"), "{html}");
    }
    // A body that declares its size is refused before it is sent.
    let more = "content-type: multipart/form-data; boundary=bound\r\ncontent-length: 80000000\r\n";
    let (status, _, body) = raw(&clerk, "POST", &action, more, b"--bound\r\n");
    let html = String::from_utf8_lossy(&body).into_owned();
    assert!(status == 413 && html.contains("请分成几个文件"), "{status} {html}");
}

#[test]
fn names_are_text_and_a_stopped_file_says_so() {
    let keyed = KeyedServer::with(&["a"]);
    let mut clerk = keyed.signed_in("desk");
    let mut text = "编号,内容,<script>alert(1)</script>\n".to_owned();
    for number in 0..4000 {
        text += &format!(
            "{number},{number}号楼的居民反映{}米外工地夜间施工噪声扰民已经{}天,<b>\n",
            number * 7,
            number % 31
        );
    }
    let file = give(&mut clerk, "../../<img src=x>.csv", text.as_bytes());
    let page = clerk.open(&file);
    page.has(&["&#60;script&#62;alert"]).lacks(&["<script>alert"]);
    page.has(&["&#60;img src=x&#62;.csv"]).lacks(&["<img", "../"]);
    begin(&mut clerk, &file, "check");
    let form = clerk.open(&file).form(&format!("{file}/stop"));
    clerk.post(&format!("{file}/stop"), &form, &[]).expect_status(303);
    let page = ended(&mut clerk, &file);
    page.has(&["已停止"]);
    if !page.html.contains("/result\"") {
        return; // Stopped before its turn had come.
    }
    let (head, body) = result(&clerk, &file);
    let name = header(&head, "content-disposition");
    assert!(name.contains("%E6%9C%AA%E5%AE%8C%E6%88%90") && !name.contains(".."), "{name}");
    let found = lines(&body);
    assert!(found.len() <= 4000, "{}", found.len());
    for (number, line) in found[1..].iter().enumerate() {
        assert_eq!(line[0], number.to_string());
        assert_eq!(line.len(), 7);
    }
}

#[test]
fn unused_columns_are_reported_once() {
    let desk = TestDesk::with("letters", &json!({}));
    let mut clerk = TestBrowser::new(&desk.server);
    let text = format!("编号,内容,办理单位,备注\n1,{LAMPS},城管局,急\n");
    for (left_out, said) in [(&["column.2", "column.3"][..], Some("没有用到的列：办理单位、备注。")), (&[], None)]
    {
        let file = give(&mut clerk, "f.csv", text.as_bytes());
        let page = clerk.open(&file);
        let start = format!("{file}/start");
        let columns = ["id", "field:content", "own", "own"].iter().enumerate();
        let columns = columns.map(|(at, is)| (format!("column.{at}"), (*is).to_owned()));
        let sent = columns.filter(|(name, _)| !left_out.contains(&name.as_str()));
        let fields: Vec<_> = page.form(&start).into_iter().chain(sent).collect();
        clerk.post(&start, &fields, &[("do", "check")]).expect_status(303);
        let html = ended(&mut clerk, &file).html;
        assert_eq!(html.matches("没有用到的列").count(), usize::from(said.is_some()), "{html}");
        said.iter().for_each(|said| assert!(html.contains(said), "{html}"));
    }
}
