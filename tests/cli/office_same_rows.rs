//! The same rows of an office give the same records, verdicts, groups and originals, in any format and in any order.

use std::collections::BTreeMap;
use std::path::Path;

use doppel_sources::tables::guard::samples;
use serde_json::{Map, Value, json};
use sqlx::{Connection, SqliteConnection};

use crate::office_registers::{LETTERS, book, import, rows, write};
use crate::support::{TestServer, run};

/// Matters other than those of [`LETTERS`].
const MORE_LETTERS: [&str; 4] = [
    "石桥镇养鸡场的污水流进灌溉渠，稻田里的秧苗发黄，村民反映多次没有结果，请农业部门处理。",
    "河东菜市场拆除以后临时摊点占了整条人行道，推婴儿车的家长只好走在机动车道上，请城管规范。",
    "新湖花园交房一年仍然没有通天然气，住户每天换液化气罐，开发商一再推迟，请住建部门督促。",
    "二十三路公交车晚上七点就收班，下夜班的工人回不了家，请公交公司延长运营时间。",
];

const COLUMNS: [&str; 4] = ["工单编号", "来电人", "来电时间", "诉求内容"];

/// Returns the cells of thirty rows in the order of their times: first each matter alone, then each with a request at the end, then each
/// with a greeting.
fn thirty_rows() -> Vec<[String; 4]> {
    (0..30)
        .map(|number: usize| {
            let matter = LETTERS.iter().chain(&MORE_LETTERS).nth(number % 10).expect("ten matters");
            let text = match number / 10 {
                0 => (*matter).to_owned(),
                1 => format!("{matter}恳请有关部门高度重视，尽快答复。"),
                _ => format!("您好，我是附近居民。{matter}"),
            };
            [format!("G{number:02}"), format!("王{}", number % 7), format!("2026-03-{:02} 08:00:00", number + 1), text]
        })
        .collect()
}

fn delimited(rows: &[[String; 4]], delimiter: &str) -> String {
    let header = COLUMNS.join(delimiter);
    let lines: String = rows.iter().map(|row| row.join(delimiter) + "\n").collect();
    format!("{header}\n{lines}")
}

fn objects(rows: &[[String; 4]]) -> Vec<Value> {
    rows.iter()
        .map(|row: &[String; 4]| {
            let members = COLUMNS.iter().zip(row).map(|(name, cell)| ((*name).to_owned(), json!(cell)));
            Value::Object(members.collect::<Map<_, _>>())
        })
        .collect()
}

fn ods(rows: &[[String; 4]]) -> Vec<u8> {
    let header = COLUMNS.map(str::to_owned);
    let rows: String = [&header]
        .into_iter()
        .chain(rows)
        .map(|cells: &[String; 4]| {
            let cells: String = cells.iter().map(|cell| samples::ods_cell(cell)).collect();
            format!("<table:table-row>{cells}</table:table-row>")
        })
        .collect();
    samples::ods_of(&samples::content(&rows))
}

fn xlsx(dir: &Path, rows: &[[String; 4]]) -> String {
    book(dir, "rows.xlsx", |book| {
        let sheet = book.add_worksheet();
        write(sheet, 0, &COLUMNS);
        for (at, cells) in (1..).zip(rows) {
            write(sheet, at, &cells.each_ref().map(String::as_str));
        }
    })
}

/// Writes the rows to a table `orders` of an SQLite database. Returns the URL.
fn sqlite(dir: &Path, rows: &[[String; 4]]) -> String {
    let url = format!("sqlite:{}", dir.join("orders.db").display());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut connection = SqliteConnection::connect(&format!("{url}?mode=rwc")).await.expect("opened");
        let columns = COLUMNS.join(" TEXT, ");
        let create = format!("CREATE TABLE orders ({columns} TEXT)");
        sqlx::raw_sql(sqlx::AssertSqlSafe(create)).execute(&mut connection).await.expect("made here");
        for row in rows {
            let insert = sqlx::query("INSERT INTO orders VALUES (?, ?, ?, ?)");
            let insert = row.iter().fold(insert, |insert, cell| insert.bind(cell));
            insert.execute(&mut connection).await.expect("made here");
        }
        connection.close().await.expect("closed");
    });
    url
}

/// Returns the verdict of each record, and the record that it duplicates.
fn verdicts(server: &TestServer, collection: &str) -> BTreeMap<String, (Value, Value)> {
    let list = server.get(&format!("/v1/collections/{collection}/records?limit=1000")).json();
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}"));
    items.iter().map(|item| (item["id"].as_str().expect("an id").to_owned(), verdict_and_original(item))).collect()
}

fn verdict_and_original(item: &Value) -> (Value, Value) {
    (item["verdict"].clone(), item["duplicate_of"].clone())
}

/// Returns the members of each group by its original.
fn groups(server: &TestServer, collection: &str) -> BTreeMap<String, Vec<String>> {
    let list = server.get(&format!("/v1/collections/{collection}/groups?limit=1000")).json();
    let mut groups = BTreeMap::new();
    for group in list["items"].as_array().unwrap_or_else(|| panic!("{list}")) {
        let id = group["id"].as_str().expect("an id");
        let detail = server.get(&format!("/v1/collections/{collection}/groups/{id}")).json();
        let members = detail["members"].as_array().expect("members").iter();
        let mut members: Vec<String> = members.map(|id| id.as_str().expect("an id").to_owned()).collect();
        members.sort();
        groups.insert(group["original"].as_str().expect("an id").to_owned(), members);
    }
    groups
}

#[test]
fn the_same_rows_give_the_same_records_and_verdicts_in_every_format() {
    let server = TestServer::start(&[]);
    let table = thirty_rows();
    let comma = delimited(&table, ",");
    let objects = objects(&table);
    let lines: String = objects.iter().map(|object| format!("{object}\n")).collect();
    let files = [
        server.put_file("utf8.csv", &comma),
        server.put_file("gbk.csv", encoding_rs::GB18030.encode(&comma).0),
        server.put_file("rows.tsv", delimited(&table, "\t")),
        xlsx(server.folder(), &table),
        server.put_file("rows.ods", ods(&table)),
        server.put_file("rows.jsonl", lines),
        server.put_file("rows.json", serde_json::to_string(&objects).expect("made here")),
    ];
    let mut all = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let collection = format!("c{number}");
        let (sum, said) = import(&server, &collection, &[file]);
        assert_eq!((&sum["rejected"], &sum["lines"]), (&json!(0), &json!(30)), "{file}: {sum}{said}");
        all.push((file.clone(), collection));
    }
    let database = sqlite(server.folder(), &table);
    let (sum, said) = import(&server, "database", &["--from", &database, "--table", "orders"]);
    assert_eq!(sum["rejected"], json!(0), "{sum}{said}");
    all.push((database, "database".to_owned()));
    let expected_rows = rows(&server, "c0");
    let expected = verdicts(&server, "c0");
    for (source, collection) in &all {
        assert_eq!(rows(&server, collection), expected_rows, "{source}");
        assert_eq!(verdicts(&server, collection), expected, "{source}");
    }
    // Over HTTP the members keep their names.
    for (row, object) in table.iter().zip(&objects) {
        server.send("PUT", &format!("/v1/collections/http/records/{}", row[0]), object).expect_status(201);
    }
    assert_eq!(verdicts(&server, "http"), expected);
    for (id, (verdict, original)) in &expected {
        let number: usize = id[1..].parse().expect("a number");
        let is_first = number < 10;
        assert_eq!(verdict == "original", is_first, "{id}: {verdict}");
        assert_eq!(original.is_null(), is_first, "{id}: {original}");
    }
}

#[test]
fn a_database_is_checked_with_the_names_of_the_options() {
    let dir = tempfile::tempdir().expect("a folder");
    let table = thirty_rows();
    let database = sqlite(dir.path(), &[&table[..], &table[..1]].concat());
    let (code, said) = check_source(&[], &database);
    assert!(code == Some(1) && said.contains("name a column that is unique (--id-field)"), "{said}");
    let (code, said) = check_source(&["--time-zone", "Mars/City"], &database);
    assert!(code == Some(2) && said.contains("--time-zone Mars/City: give an IANA name"), "{said}");
}

fn check_source(more: &[&str], database: &str) -> (Option<i32>, String) {
    let output = run(&[&["source", "check", "--from", database, "--table", "orders"], more].concat(), &[]);
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), said)
}

#[test]
fn the_order_of_an_import_changes_neither_groups_nor_originals() {
    let server = TestServer::start(&[]);
    let oldest_first = thirty_rows();
    let mut newest_first = oldest_first.clone();
    newest_first.reverse();
    // Seven and thirty have no common divisor, so that each row occurs once.
    let shuffled: Vec<[String; 4]> = (0..30).map(|number| oldest_first[number * 7 % 30].clone()).collect();
    let mut all = Vec::new();
    for (collection, rows) in [("oldest", &oldest_first), ("newest", &newest_first), ("shuffled", &shuffled)] {
        let file = server.put_file(&format!("{collection}.csv"), delimited(rows, ","));
        let (sum, said) = import(&server, collection, &[&file]);
        assert_eq!(sum["rejected"], json!(0), "{sum}{said}");
        all.push(groups(&server, collection));
    }
    let expected: BTreeMap<String, Vec<String>> = (0..10)
        .map(|first| (format!("G0{first}"), vec![format!("G0{first}"), format!("G1{first}"), format!("G2{first}")]))
        .collect();
    assert_eq!(all, vec![expected; 3]);
}
