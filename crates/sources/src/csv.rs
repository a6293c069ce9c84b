//! Comma-separated values (RFC 4180). A header row names the fields, every value is a string, and an empty cell is no value.
//!
//! A quoted value may contain commas, doubled quotes and line ends. Lines are counted in the same way as in a text editor, and a record has
//! the number of the line on which it starts. A record whose quote is not closed is refused; reading continues with the row below the line
//! of that quote, see [`records`].

pub(crate) mod records;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::FileFormat::Csv;
    use crate::tests::{item, items, read};

    #[test]
    fn values_are_strings_and_empty_cells_are_absent() {
        let found = read("\u{feff}id, title ,n\n001,路灯,\n2,,7\n".as_bytes(), Csv, 1000);
        assert_eq!(found, [item(2, r#"{"id":"001","title":"路灯"}"#), item(3, r#"{"id":"2","n":"7"}"#)]);
    }

    #[test]
    fn only_the_null_texts_of_dumps_count_as_no_value() {
        let text = "id,t,u\n1,NULL,\\N\n2,\"NULL\",a NULL\n3,null,NULLs\nNULL,\\N,\n".as_bytes();
        let expected = [
            item(2, r#"{"id":"1"}"#),
            item(3, r#"{"id":"2","u":"a NULL"}"#),
            item(4, r#"{"id":"3","t":"null","u":"NULLs"}"#),
            item(5, "empty_row"),
        ];
        assert_eq!(read(text, Csv, 1000), expected);
        let none = ["-".to_owned()];
        let rows = items("id,t,u\n1,NULL,-\n".as_bytes(), Csv, 1000, &none);
        let [only] = &rows[..] else { panic!("one row") };
        assert_eq!(&**only.content.as_ref().unwrap().json(), r#"{"id":"1","t":"NULL"}"#);
    }

    #[test]
    fn a_record_has_the_line_on_which_it_starts() {
        let text = b"id,t\r\n1,\"a\r\nb\"\r\n\r\n2,\"say \"\"x\"\", y\"\r\n3\r\n4,d";
        let expected = [
            item(2, r#"{"id":"1","t":"a\r\nb"}"#),
            item(5, r#"{"id":"2","t":"say \"x\", y"}"#),
            item(6, "wrong_number_of_values"),
            item(7, r#"{"id":"4","t":"d"}"#),
        ];
        assert_eq!(read(text, Csv, 1000), expected);
    }

    #[test]
    fn a_line_may_end_with_a_single_carriage_return() {
        let expected =
            [item(2, r#"{"id":"1","t":"a\rb"}"#), item(5, r#"{"id":"2","t":"c"}"#), item(6, r#"{"id":"3","t":"d"}"#)];
        assert_eq!(read(b"id,t\r1,\"a\rb\"\r\r2,c\r3,d\r", Csv, 1000), expected);
    }

    #[test]
    fn a_record_that_cannot_be_read_is_an_item_and_the_rest_go_on() {
        let text = b"id,t\n1,\xff\n2,123456789012345678901234567890\n,\n_3,x\n4,ok\n";
        let expected = [
            item(2, "not_utf8"),
            item(3, "line_too_large"),
            item(4, "empty_row"),
            item(5, "invalid_id"),
            item(6, r#"{"id":"4","t":"ok"}"#),
        ];
        assert_eq!(read(text, Csv, 20), expected);
    }

    #[test]
    fn a_quote_that_is_not_closed_costs_its_own_lines_and_no_row_behind_them() {
        // The quote would reach to the end of the file.
        let found = read(b"id,t,u\n1,x,y\n2,\"x,y\n3,x,y\n4,x,y\n", Csv, 1000);
        assert_eq!(found, [sound_row(2, "1"), open_quote(3), sound_row(4, "3"), sound_row(5, "4")]);
        // The quote is in the last line, alone or behind values.
        assert_eq!(read(b"id,t,u\n1,x,y\n2,x,\"y", Csv, 1000), [sound_row(2, "1"), open_quote(3)]);
        assert_eq!(read(b"id,t,u\n1,x,y\n\"", Csv, 1000), [sound_row(2, "1"), open_quote(3)]);
        // The quote would reach to the quote of a later row, which closes nothing. A value of several lines comes before the open quote.
        let text = b"id,t,u\r\n1,\"a\r\nb\",\"x,y\r\n2,\"x\",\"y\"\r\n\"3\",x,y\r\n4,x,y\r\n";
        assert_eq!(read(text, Csv, 1000), [open_quote(2), sound_row(4, "2"), sound_row(5, "3"), sound_row(6, "4")]);
        // Two successive rows have an open quote, and more bytes follow than a line may have.
        let text = "id,t,u\n1,\"x,y\n2,\"x,y\n".to_owned() + &"3,x,y\n".repeat(100);
        let found = read(text.as_bytes(), Csv, 50);
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), (2..=103).collect::<Vec<_>>());
        assert_eq!(found.iter().filter(|(_, said)| said.starts_with('{')).count(), 100, "{:?}", &found[..3]);
    }

    fn open_quote(line: u64) -> (u64, String) {
        item(line, "open_quote")
    }

    fn sound_row(line: u64, id: &str) -> (u64, String) {
        item(line, &format!(r#"{{"id":"{id}","t":"x","u":"y"}}"#))
    }

    #[test]
    fn a_value_has_bounded_lines() {
        let found = read(value_of_lines(999).as_bytes(), Csv, 1 << 20);
        assert_eq!((found.len(), &found[1]), (2, &item(1002, r#"{"id":"2","t":"x"}"#)));
        let found = read(value_of_lines(1000).as_bytes(), Csv, 1 << 20);
        assert_eq!((&found[0], found.last()), (&item(2, "open_quote"), Some(&item(1003, r#"{"id":"2","t":"x"}"#))));
    }

    fn value_of_lines(count: usize) -> String {
        format!("id,t\n1,\"{}\"\n2,x\n", "a\n".repeat(count))
    }

    #[test]
    fn a_quote_that_a_far_row_seems_to_close_is_found_out_by_the_rows_between() {
        let rows: String = (3..60).map(|number: usize| format!("{number},路灯坏了,东街,2024-05-01\n")).collect();
        let text = format!("id,t,u,v\n1,a,b,c\n2,\"不关的引号,东街,x\n{rows}60,\"屏幕\"\n61,d,e,f\n");
        for text in [text.clone(), text.replace('\n', "\r\n")] {
            let found = read(text.as_bytes(), Csv, 10_000);
            assert_eq!((found.len(), &found[1]), (61, &item(3, "open_quote")));
            assert!(found[2].1.contains(r#""id":"3""#), "{:?}", found[2]);
        }
        // Sound values: one contains a few lines that look like rows, the other contains many lines that do not look like rows.
        let list = "一,二,三,四\n".repeat(5);
        let prose = "先说路灯,再说井盖\n".repeat(300);
        let text = format!("id,t,u,v\n1,\"{list}\",b,c\n2,\"{prose}\",b,c\n");
        assert!(read(text.as_bytes(), Csv, 100_000).iter().all(|(_, found)| found.starts_with('{')));
    }

    #[test]
    fn an_open_quote_is_reported_with_its_line_and_only_the_text_of_its_lines() {
        let items = items(&b"id,t\n1,x\n2,\"secret\n3,z\n"[..], Csv, 1000, &[]);
        let refused: Vec<_> = items.into_iter().filter_map(|item| item.content.err()).collect();
        let [only] = &refused[..] else { panic!("{refused:?}") };
        assert!(only.detail.contains("line 3") && only.detail.contains("before the file ends"), "{only:?}");
        assert!(!only.detail.contains("secret") && only.text.as_deref() == Some("2,\"secret"), "{only:?}");
    }

    #[test]
    fn on_one_line_a_text_may_hold_quotes_that_are_not_doubled() {
        let found = read("id,t,u\n1,5\" wide,\"a\"b\"\n".as_bytes(), Csv, 1000);
        assert_eq!(found, [item(2, r#"{"id":"1","t":"5\" wide","u":"ab\""}"#)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn written_csv_is_read_back_with_its_line_numbers(
            cells in prop::collection::vec("[a \",\n\r路]{1,12}", 1..20),
        ) {
            let mut text = "id,t\n".to_owned();
            let mut expected = Vec::new();
            for (index, cell) in cells.iter().enumerate() {
                let line = 1 + text.replace("\r\n", "\n").matches(['\r', '\n']).count() as u64;
                let mut row = serde_json::json!({ "id": format!("r{index}"), "t": cell });
                if cell.trim().is_empty() {
                    // A value that consists of white space counts as no value.
                    row = serde_json::json!({ "id": format!("r{index}") });
                }
                expected.push((line, row.to_string()));
                text += &format!("r{index},\"{}\"\n", cell.replace('"', "\"\""));
            }
            prop_assert_eq!(read(text.as_bytes(), Csv, 1000), expected);
        }
    }
}
