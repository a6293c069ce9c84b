//! Mass letters: many copies of one letter, each with the contacts of its sender, always form one group.

use serde_json::{Value, json};

use crate::office::ended;
use crate::support::{TestServer, setting};

const LETTER: &str = "河口新区三号路与兴业街交叉口的污水井盖破损已经半个多月，夜间骑车经过时有老人摔倒受伤，社区和市政都说不归自己管，请尽快更换井盖并设置警示标志。";

/// Returns the letter with the telephone number or the home of a sender.
fn copy(sender: u64) -> String {
    match sender % 2 {
        0 => format!("{LETTER}联系电话1{}{:09}。", 3 + sender % 6, sender * 7_919_111 % 1_000_000_000),
        _ => format!("{LETTER}本人住安居苑{}栋{}室。", 1 + sender % 40, 101 + sender * 7 % 2_900),
    }
}

/// Returns a short letter with one of several punctuation marks.
fn short_copy(number: u64) -> String {
    let mark = ["。", "；", "！", "，"][number as usize % 4];
    format!("小区停电{mark}物业不管{mark}请处理{mark}")
}

/// Returns a letter whose subject no other number has: its characters come from a linear congruential generator.
fn unlike(number: u64) -> String {
    let mut state = number + 1;
    let mut letter = String::new();
    while letter.chars().count() < 60 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        letter.extend(char::from_u32(0x4e00 + (state >> 33) as u32 % 20_000));
    }
    format!("{letter}。")
}

/// Registers letters in bulk.
fn register(server: &TestServer, prefix: &str, letters: impl Iterator<Item = String>) {
    let lines: String = letters
        .enumerate()
        .map(|(number, content): (usize, String)| {
            format!("{}\n", json!({ "id": format!("{prefix}{number}"), "content": content }))
        })
        .collect();
    let answer = server.send_text("POST", "/v1/collections/letters/records/_bulk", "application/x-ndjson", &lines);
    assert!(answer.status == 200 && !answer.text.contains("\"code\""), "{}", answer.text);
}

/// Returns the sizes of all groups, the largest first.
fn group_sizes(server: &TestServer) -> Vec<u64> {
    let list = server.send("GET", "/v1/collections/letters/groups?limit=1000", &Value::Null).json();
    list["items"].as_array().expect("a list").iter().map(|group| group["size"].as_u64().expect("a size")).collect()
}

/// Counts the texts of the collection, and rebuilds its index.
fn count_and_reindex(server: &TestServer) {
    let counted = server.send("POST", "/v1/collections/letters/statistics", &Value::Null);
    assert!(counted.status < 300, "{}", counted.text);
    ended(server, &json!({ "collection": "letters" }));
}

#[test]
fn copies_with_the_contacts_of_their_senders_are_one_group_before_and_after_a_count_and_a_reindex() {
    let copies = setting("DOPPEL_TEST_COPIES", 200);
    let data = tempfile::tempdir().expect("a folder");
    let server = TestServer::start_in(data.path());
    register(&server, "c", (0..copies).map(copy));
    assert_eq!(group_sizes(&server), [copies]);
    count_and_reindex(&server);
    assert_eq!(group_sizes(&server), [copies], "after a reindex");
    register(&server, "d", (copies..copies + 5).map(copy));
    assert_eq!(group_sizes(&server), [copies + 5]);
}

#[test]
fn any_number_of_short_copies_among_unlike_letters_is_one_group() {
    let unlike_letters = setting("DOPPEL_TEST_COPIES", 200);
    for copies in [10, 40, 200] {
        let data = tempfile::tempdir().expect("a folder");
        let server = TestServer::start_in(data.path());
        register(&server, "u", (0..unlike_letters).map(unlike));
        register(&server, "s", (0..copies).map(short_copy));
        assert_eq!(group_sizes(&server), [copies]);
        count_and_reindex(&server);
        assert_eq!(group_sizes(&server), [copies], "after a reindex");
    }
}
