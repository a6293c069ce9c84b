//! Tests of full-text search.

use std::collections::{BTreeMap, BTreeSet};

use doppel_core::verdict::VerdictKind;
use doppel_search::index::{Index, IndexEntry};
use doppel_search::query::{HitTotal, Order, SearchQuery};
use doppel_store::Seq;
use serde_json::json;

use crate::{RandomNumbers, commit, id, letter, new_index, open, put, row, settings};

fn found(index: &Index, wanted: &SearchQuery) -> Vec<String> {
    let hits = index.search(&settings(), wanted).expect("an answer");
    hits.hits.iter().map(|hit| hit.id.to_string()).collect()
}

fn sorted(index: &Index, text: &str) -> Vec<String> {
    let mut found = found(index, &SearchQuery { text: text.into(), limit: 100, ..SearchQuery::default() });
    found.sort();
    found
}

#[test]
fn a_question_can_have_words_phrases_and_excluded_parts() {
    let (_folder, index) = new_index();
    for (at, (name, text)) in [
        ("a", "河口新区三号路的路灯不亮"),
        ("b", "三号路路灯杆倾斜，请维修"),
        ("c", "五号路井盖破损，LED 灯闪烁"),
        ("d", "小区 WiFi 信号差"),
    ]
    .into_iter()
    .enumerate()
    {
        put(&index, name, at as u64 + 1, &letter(text));
    }
    commit(&index, 4);
    assert_eq!(sorted(&index, "路灯"), ["a", "b"]);
    assert_eq!(sorted(&index, "路灯 三号路"), ["a", "b"]);
    assert_eq!(sorted(&index, "\"路灯不亮\""), ["a"]);
    assert_eq!(sorted(&index, "路灯 -不亮"), ["b"]);
    assert_eq!(sorted(&index, "路灯 -\"灯杆倾斜\""), ["a"]);
    assert_eq!(sorted(&index, "led"), ["c"]);
    assert_eq!(sorted(&index, "ＷＩＦＩ"), ["d"], "full-width letters are normalised");
    assert_eq!(sorted(&index, "号路"), ["a", "b", "c"], "a run of characters that is no word is found, too");
    assert_eq!(sorted(&index, ""), ["a", "b", "c", "d"]);
    assert_eq!(sorted(&index, "-路灯"), ["c", "d"]);
    assert!(sorted(&index, "没有的词语").is_empty());
    assert!(sorted(&index, "\"不亮路灯\"").is_empty(), "the order of the words in a phrase matters");
}

#[test]
fn digits_letters_and_single_characters_are_found_exactly() {
    let (_folder, index) = new_index();
    let texts = [
        ("a", "幸福小区3号楼没有水"),
        ("b", "幸福小区13号楼没有水"),
        ("c", "三号路3号，井盖坏了"),
        ("d", "2024年3月，古井边路灯坏"),
        ("e", "K3路公交车不停"),
        ("f", "路灯 坏了"),
    ];
    for (at, (name, text)) in (1..).zip(texts) {
        put(&index, name, at, &letter(text));
    }
    commit(&index, 6);
    assert_eq!(sorted(&index, "\"3号\""), ["a", "c"]);
    assert_eq!(sorted(&index, "\"13号\""), ["b"]);
    assert_eq!(sorted(&index, "\"3号楼\""), ["a"]);
    assert_eq!(sorted(&index, "\"路3号\""), ["c"]);
    assert_eq!(sorted(&index, "小区 -\"3号\""), ["b"]);
    assert_eq!(sorted(&index, "\"3号，井\""), ["c"]);
    assert_eq!(sorted(&index, "小区 -\"路3号，井\""), ["a", "b"]);
    assert_eq!(sorted(&index, "2024年"), ["d"]);
    assert_eq!(sorted(&index, "\"2024年3月\""), ["d"]);
    assert_eq!(sorted(&index, "\"3路公交\""), [] as [&str; 0], "the route K3 is another route");
    assert_eq!(sorted(&index, "k3路"), ["e"]);
    assert_eq!(sorted(&index, "井"), ["c", "d"], "at the end of a word and inside of one");
    assert_eq!(sorted(&index, "水"), ["a", "b"], "at the end of the text");
    assert_eq!(sorted(&index, "\"路灯 坏了\""), ["f"], "separators are part of a phrase");
    assert_eq!(sorted(&index, "\"路灯坏\""), ["d"]);
}

#[test]
fn the_answer_names_parts_of_the_question_that_it_ignored() {
    let (_folder, index) = new_index();
    put(&index, "a", 1, &letter("我们的路灯不亮"));
    commit(&index, 1);
    assert_eq!(count_and_ignored(&index, "路灯 ，。 !"), (1, vec![",。".to_owned(), "!".to_owned()]));
    assert_eq!(count_and_ignored(&index, "，。").0, 0, "a question of ignored parts finds nothing, not everything");
    assert_eq!(count_and_ignored(&index, "我们的"), (1, vec![]), "stop words are found as a run of characters");
}

fn count_and_ignored(index: &Index, text: &str) -> (usize, Vec<String>) {
    let wanted = SearchQuery { text: text.into(), limit: 10, ..SearchQuery::default() };
    let hits = index.search(&settings(), &wanted).expect("an answer");
    (hits.hits.len(), hits.ignored)
}

#[test]
fn a_petitioner_is_found_by_each_identity_field() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = settings();
    settings.fields.push(serde_json::from_value(json!({"name": "phone", "role": "identity"})).expect("a field"));
    let source = doppel_search::index::IndexSource::new("letters", &settings);
    let index = Index::open(folder.path(), source, &settings).expect("an index").index;
    put(&index, "a", 1, &row(&json!({"content": "路灯不亮", "user": "张三", "phone": "123"})));
    put(&index, "b", 2, &row(&json!({"content": "路灯不亮", "user": "张三", "phone": "456"})));
    commit(&index, 2);
    for (asked, expected) in [("张三", vec!["b", "a"]), ("123", vec!["a"]), ("456", vec!["b"]), ("李四", vec![])] {
        let wanted =
            SearchQuery { identity: Some(asked.into()), order: Order::Newest, limit: 9, ..SearchQuery::default() };
        let hits = index.search(&settings, &wanted).expect("an answer").hits;
        assert_eq!(hits.iter().map(|hit| hit.id.as_str()).collect::<Vec<_>>(), expected, "{asked}");
    }
}

#[test]
fn filters_by_time_petitioner_and_verdict_restrict_the_hits() {
    let (_folder, index) = new_index();
    for day in 1..=9_u64 {
        let time = format!("2024-03-0{day}T00:00:00Z");
        let row = row(&json!({"content": "路灯不亮", "time": time, "user": format!("u{}", day % 3)}));
        let extract = index.extractor().extract(&row).expect("a row");
        let verdict = if day == 1 { VerdictKind::Original } else { VerdictKind::ExactDuplicate };
        index.put(&IndexEntry { id: id(&day.to_string()), seq: Seq(day), verdict, extract }).expect("a write");
    }
    put(&index, "timeless", 10, &letter("路灯不亮"));
    commit(&index, 10);
    let all = SearchQuery { limit: 100, order: Order::Newest, ..SearchQuery::default() };
    assert_eq!(found(&index, &all), ["9", "8", "7", "6", "5", "4", "3", "2", "1", "timeless"], "latest first");
    let between = SearchQuery { from: march_day(3), to: march_day(6), ..all.clone() };
    assert_eq!(found(&index, &between), ["5", "4", "3"]);
    assert_eq!(found(&index, &SearchQuery { identity: Some("U1".into()), ..all.clone() }), ["7", "4", "1"]);
    let originals = SearchQuery { verdict: Some(VerdictKind::Original), ..all.clone() };
    assert_eq!(found(&index, &originals), ["1", "timeless"]);
    assert_eq!(found(&index, &SearchQuery { text: "路灯".into(), to: march_day(3), ..all }), ["2", "1"]);
}

/// Returns the beginning of a day in March 2024, in microseconds since 1970.
fn march_day(day: i64) -> Option<i64> {
    Some((1_709_251_200 + (day - 1) * 86_400) * 1_000_000)
}

#[test]
fn the_category_filter_reads_only_category_fields() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = settings();
    settings.fields.push(serde_json::from_value(json!({"name": "kind", "role": "whole"})).expect("a field"));
    let source = doppel_search::index::IndexSource::new("letters", &settings);
    let index = Index::open(folder.path(), source, &settings).expect("an index").index;
    put(&index, "a", 1, &row(&json!({"content": "路灯不亮", "kind": "市政"})));
    put(&index, "b", 2, &row(&json!({"content": "市政路灯", "kind": "环卫"})));
    commit(&index, 2);
    let wanted = SearchQuery { category: Some("市政".into()), limit: 10, ..SearchQuery::default() };
    let hits = index.search(&settings, &wanted).expect("an answer").hits;
    assert_eq!(hits.iter().map(|hit| hit.id.as_str()).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn pages_have_no_gaps_or_repeats_in_either_order() {
    let (_folder, index) = new_index();
    let mut numbers = RandomNumbers(3);
    for at in 0..157_u64 {
        // Many records have equal scores or equal times.
        let words = vec!["路灯"; 1 + numbers.below(4) as usize].join("，");
        let time = format!("2024-03-{:02}", 1 + numbers.below(5));
        put(&index, &format!("r{at}"), at + 1, &row(&json!({"content": words, "time": time})));
        if at % 40 == 0 {
            commit(&index, at + 1);
        }
    }
    commit(&index, 157);
    for order in [Order::Ranked, Order::Newest] {
        let whole = found(&index, &SearchQuery { text: "路灯".into(), order, limit: 1000, ..SearchQuery::default() });
        assert_eq!(whole.iter().collect::<BTreeSet<_>>().len(), 157);
        for limit in [1, 7, 156, 157, 158] {
            let mut wanted = SearchQuery { text: "路灯".into(), order, limit, ..SearchQuery::default() };
            let mut paged = Vec::new();
            loop {
                let page = index.search(&settings(), &wanted).expect("a page");
                assert!(page.hits.len() <= limit && page.total == HitTotal::Exactly(157));
                paged.extend(page.hits.iter().map(|hit| hit.id.to_string()));
                wanted.after = page.next;
                if page.next.is_none() {
                    break;
                }
            }
            assert_eq!(paged, whole, "{order:?}, {limit} at a time");
        }
    }
}

#[test]
fn searches_find_exactly_the_committed_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut numbers = RandomNumbers(11);
    let (mut index, _) = open(folder.path());
    let mut now: BTreeMap<String, u64> = BTreeMap::new();
    let mut committed: BTreeMap<String, u64> = BTreeMap::new();
    let mut reached = 0;
    for step in 1..=400_u64 {
        let name = format!("r{}", numbers.below(30));
        let word = numbers.below(5);
        match numbers.below(10) {
            0..6 => {
                put(&index, &name, step, &letter(&format!("词语{word} 其他{step}")));
                now.insert(name, word);
            }
            6..8 => {
                index.remove(&id(&name)).expect("a write");
                now.remove(&name);
            }
            8 => {
                commit(&index, step);
                committed = now.clone();
                reached = step;
            }
            _ => {
                // Reopening forgets uncommitted changes.
                drop(index);
                let opened = open(folder.path());
                index = opened.0;
                assert_eq!(opened.1, reached == 0);
                now = committed.clone();
            }
        }
        assert_eq!((index.reached(), index.count().unwrap()), (Seq(reached), committed.len() as u64));
        for word in 0..5 {
            let expected = committed.iter().filter(|(_, own)| **own == word).map(|(name, _)| name.clone());
            assert_eq!(sorted(&index, &format!("\"词语{word}\"")), expected.collect::<Vec<_>>(), "step {step}");
        }
    }
}

#[test]
fn a_record_that_is_added_twice_is_found_once_also_after_reopening() {
    let folder = tempfile::tempdir().expect("a folder");
    let (index, _) = open(folder.path());
    for (name, seq) in [("a", 1), ("b", 2), ("a", 1), ("b", 2)] {
        add(&index, name, seq);
    }
    commit(&index, 2);
    assert_eq!(index.count().unwrap(), 2);
    // The uncommitted record is forgotten and then added again.
    add(&index, "c", 3);
    index.reopen().expect("it opens");
    add(&index, "c", 3);
    add(&index, "d", 4);
    commit(&index, 4);
    drop(index);
    let (index, is_new) = open(folder.path());
    [("b", 2), ("c", 3), ("e", 5)].into_iter().for_each(|(name, seq)| add(&index, name, seq));
    index.put(&entry(&index, "a", 6)).expect("a write");
    commit(&index, 6);
    assert_eq!((index.count().unwrap(), is_new), (5, false));
}

#[test]
fn closed_files_are_opened_again_by_searches_and_writes() {
    let (_folder, index) = new_index();
    add(&index, "a", 1);
    index.close_small_files();
    index.close_small_files();
    assert!(index.is_open(), "an index with a writer stays open");
    commit(&index, 1);
    index.release_writer();
    index.close_small_files();
    assert!(index.is_open(), "it was used after the last call");
    index.close_small_files();
    assert!(!index.is_open());
    assert_eq!(index.reached(), Seq(1));
    assert_eq!(sorted(&index, "路灯"), ["a"]);
    index.close_small_files();
    index.close_small_files();
    assert!(!index.is_open());
    add(&index, "b", 2);
    commit(&index, 2);
    assert_eq!(sorted(&index, "路灯"), ["a", "b"]);
}

fn entry(index: &Index, name: &str, seq: u64) -> IndexEntry {
    let extract = index.extractor().extract(&letter("三号路的路灯不亮")).expect("a readable row");
    IndexEntry { id: id(name), seq: Seq(seq), verdict: VerdictKind::Original, extract }
}

fn add(index: &Index, name: &str, seq: u64) {
    index.add(&entry(index, name, seq)).expect("a write");
}
