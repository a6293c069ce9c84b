//! Tests of the tables.

use std::collections::HashSet;

use super::*;
use testkit::has_chinese;

#[test]
fn the_tables_are_well_formed() {
    for (name, table) in TABLES {
        let mut english = HashSet::new();
        let lines: Vec<&str> = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        assert_eq!(lines.len() % 2, 0, "{name}");
        for pair in lines.chunks(2) {
            assert!(!pair[0].starts_with(' ') && pair[1].starts_with(SECOND_LINE), "{name}: {pair:?}");
        }
        for row in rows(table) {
            assert!(english.insert(row.english.clone()), "{name}: twice: {}", row.english);
            assert!(!row.chinese.trim().is_empty(), "{name}: {}", row.english);
            let mut names = template::placeholders(&row.english);
            let mut chinese = template::placeholders(&row.chinese);
            assert_eq!(
                names.iter().filter(|name| name.is_empty()).count(),
                chinese.iter().filter(|name| name.is_empty()).count(),
                "{name}: {}",
                row.english
            );
            names.dedup();
            chinese.dedup();
            assert_eq!(names, chinese, "{name}: {}", row.english);
        }
    }
}

#[test]
fn texts_of_the_system_and_of_libraries_are_translated() {
    for code in [1, 2, 5, 13, 16, 17, 20, 21, 24, 27, 28, 30, 32, 36, 98, 99, 104, 111, 122] {
        let text = std::io::Error::from_raw_os_error(code).to_string();
        assert!(has_chinese(&text), "{text}");
    }
    for malformed in [
        "",
        "{",
        "[",
        "[1",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,}",
        "{a:1}",
        "[1,]",
        "[1 2]",
        "{} x",
        "nul",
        "\"a",
        "01",
        "\"\\x\"",
        "\"\u{1}\"",
        "{\"a\" 1}",
    ] {
        let text = serde_json::from_str::<serde_json::Value>(malformed).unwrap_err().to_string();
        assert!(has_chinese(&text), "{malformed:?}: {text}");
    }
}

#[test]
fn names_before_a_text_are_no_value_of_its_placeholder() {
    let cases = [
        (
            "calls.csv: read as GB18030, delimiter ;; line 2 names the columns, the 1 above are left out",
            "calls.csv：按 GB18030 读取，分隔符 ;；第 2 行是列名，其上 1 行不读",
        ),
        (
            "calls.csv:9: wrong_number_of_values: 3 values where the header names 5 columns; check its delimiters and quotes",
            "calls.csv:9: wrong_number_of_values：有 3 个值，而列名有 5 个；请检查分隔符和引号",
        ),
        (
            "3 values where the header names 5 columns; check its delimiters and quotes",
            "有 3 个值，而列名有 5 个；请检查分隔符和引号",
        ),
    ];
    for (english, expected) in cases {
        assert_eq!(message(english).as_deref(), Some(expected), "{english}");
    }
}
