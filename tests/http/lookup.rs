//! Answers of the requests that store nothing: check, similar, by fingerprint, explain; and texts that are read in the same way.

use std::collections::BTreeSet;

use crate::row;
use crate::support::{TestDesk, TestRandom, expect_members, expect_pointer, expect_problem, ids};
use serde_json::{Value, json};

const LAMPS: &str = "幸福小区东门外的路灯从上个月初开始就全部不亮了。晚上老人和孩子出行十分不便。上周还有人摔伤。\
                     我们多次向物业反映。至今没有人来修理。";
const MARKET: &str = "菜市场门口的摊贩每天清早占道经营。上班的车辆堵成一条长龙。公交车也进不了站。城管来了就走。";

/// Returns repetitions of [`LAMPS`], each of another kind.
fn variants() -> [(&'static str, String); 6] {
    [
        ("same", LAMPS.to_owned()),
        ("one-word", LAMPS.replace("摔伤", "跌倒")),
        ("ending", format!("{LAMPS}请尽快派人查看。")),
        ("moved", format!("我们多次向物业反映。至今没有人来修理。{}", &LAMPS[..LAMPS.find("我们").expect("there")])),
        ("quoted", format!("上个月我写过一封信。信里说。{LAMPS}一个月过去了还是老样子。电话打不通。信箱没有回音。")),
        ("half", format!("{}。楼道里的灯也坏了两盏。", LAMPS.split("。上周").next().expect("there"))),
    ]
}

fn with_variants(name: &str) -> TestDesk {
    let desk = TestDesk::new(name);
    desk.register("market", &row(MARKET));
    for (id, content) in variants() {
        desk.register(id, &row(&content));
    }
    desk
}

/// Returns an answer without its duration, so that two answers can be compared.
fn without_time(mut answer: Value) -> Value {
    answer.as_object_mut().expect("an object").remove("took_us");
    answer
}

#[test]
fn similar_lists_every_match_best_first_up_to_the_limit() {
    let desk = with_variants("similar");
    let all = desk.ask("POST", "/similar", &row(LAMPS));
    let found: BTreeSet<&str> = ids(&all["similar"]).into_iter().collect();
    assert_eq!(found, variants().iter().map(|(id, _)| *id).collect());
    expect_members(&all, &json!({ "similar/0/id": "same", "truncated": false }));
    let probabilities: Vec<f64> = all["similar"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|m| m["probability"].as_f64().expect("a number"))
        .collect();
    assert!(probabilities.is_sorted_by(|a, b| a >= b), "{probabilities:?}");
    for limit in [1, 2, 6, 256] {
        let some = desk.ask("POST", &format!("/similar?limit={limit}"), &row(LAMPS));
        let expected: Vec<Value> = all["similar"].as_array().expect("a list").iter().take(limit).cloned().collect();
        assert_eq!((&some["similar"], &some["truncated"]), (&json!(expected), &json!(limit < 6)), "limit {limit}");
    }
    // A stored record does not find itself, neither by its id nor by a row that contains the id.
    let mut own = row(LAMPS);
    own["id"] = json!("same");
    let by_row = desk.ask("POST", "/similar", &own);
    assert_eq!(ids(&by_row["similar"]).len(), 5);
    assert!(!ids(&by_row["similar"]).contains(&"same"));
    assert_eq!(without_time(desk.read("/records/same/similar")), without_time(by_row));
    let two = desk.read("/records/same/similar?limit=2");
    assert_eq!((ids(&two["similar"]).len(), &two["truncated"]), (2, &json!(true)));
    assert_eq!(desk.read("")["records"], 7, "questions store nothing");
    expect_problem(&desk.send("POST", "/similar?limit=0", &row(LAMPS)), 422, "out_of_range");
}

#[test]
fn check_says_whether_there_is_any_match() {
    let desk = with_variants("check");
    let yes = desk.ask("POST", "/check", &row(&format!("再次来信。{LAMPS}")));
    assert_eq!(yes["duplicate"], true);
    let names = variants().map(|(id, _)| json!(id));
    assert!(names.contains(&yes["match"]["id"]), "{yes}");
    let exact = desk.ask("POST", "/check", &row(MARKET));
    expect_members(&exact, &json!({ "match/id": "market", "match/via/0": "exact" }));
    let no = desk.ask(
        "POST",
        "/check",
        &row("河边的健身器材锈迹斑斑。踏板断裂。孩子们玩耍时划破了手。居委会说没有经费更换。"),
    );
    expect_members(&no, &json!({ "duplicate": false, "match": null }));
    let mut own = row(MARKET);
    own["id"] = json!("market");
    assert_eq!(desk.ask("POST", "/check", &own)["duplicate"], false, "a record is no duplicate of itself");
    assert_eq!(desk.read("")["records"], 7);
}

#[test]
fn every_radius_finds_exactly_the_fingerprints_within_it() {
    let desk = with_variants("radius");
    let mut stored: Vec<(String, u64)> = Vec::new();
    for item in desk.read("/records")["items"].as_array().expect("items") {
        let fingerprint = u64::from_str_radix(item["fingerprint"].as_str().expect("one"), 16).expect("hexadecimal");
        stored.push((item["id"].as_str().expect("an id").to_owned(), fingerprint));
    }
    let mut random = TestRandom::new(7);
    let mut seen = 0;
    for radius in 0..=15_u32 {
        for (_, near) in &stored {
            // The number of different bits is the radius, one bit less, and one bit more.
            for bits in radius.saturating_sub(1)..=radius + 1 {
                let mut asked = *near;
                while (asked ^ near).count_ones() < bits {
                    asked ^= 1 << random.below(64);
                }
                let mut expected: Vec<(u32, usize)> = stored
                    .iter()
                    .enumerate()
                    .map(|(at, (_, fingerprint))| ((fingerprint ^ asked).count_ones(), at))
                    .filter(|(distance, _)| *distance <= radius)
                    .collect();
                expected.sort_unstable();
                let path = format!("/similar?fingerprint={asked:016x}&radius={radius}");
                let answer = desk.read(&path);
                let found = answer["similar"].as_array().expect("a list");
                let pairs: Vec<(&str, u64)> = found
                    .iter()
                    .map(|m| (m["id"].as_str().expect("an id"), m["distance"].as_u64().expect("a number")))
                    .collect();
                let expected: Vec<(&str, u64)> =
                    expected.iter().map(|(distance, at)| (stored[*at].0.as_str(), u64::from(*distance))).collect();
                assert_eq!(pairs, expected, "{path}");
                for found in found {
                    expect_members(found, &json!({ "via": ["simhash"], "similarity": null }));
                }
                seen += pairs.len();
            }
        }
    }
    assert!(seen > 200, "{seen} matches show little");

    let (_, some) = &stored[0];
    assert!(
        finds_market(&similar_path(0b111, "", some), &desk) && !finds_market(&similar_path(0b1111, "", some), &desk),
        "the collection's own radius is 3"
    );
    let limited = desk.read(&similar_path(0, "&radius=15&limit=1", some));
    assert_eq!((ids(&limited["similar"]), &limited["fingerprint"]), (vec!["market"], &json!(format!("{some:016x}"))));
    for wrong in ["&radius=16", "&radius=99999999999"] {
        expect_problem(&desk.get(&similar_path(0, wrong, some)), 422, "out_of_range");
    }
    expect_problem(&desk.get(&similar_path(0, "&radius=-1", some)), 422, "invalid_parameter");
    let without = TestDesk::with("radius-none", &json!({"channels": [{"scheme": "shingle"}]}));
    expect_pointer(&expect_problem(&without.get(&similar_path(0, "", some)), 422, "no_fingerprints"), "?fingerprint");
}

fn similar_path(mask: u64, more: &str, some: &u64) -> String {
    format!("/similar?fingerprint={:016x}{more}", some ^ mask)
}

fn finds_market(path: &str, desk: &TestDesk) -> bool {
    ids(&desk.read(path)["similar"]).contains(&"market")
}

#[test]
fn explain_agrees_with_the_search_about_a_pair() {
    let desk = with_variants("explain");
    for found in desk.ask("POST", "/similar", &row(LAMPS))["similar"].as_array().expect("a list") {
        let pair = json!({"a": {"row": row(LAMPS)}, "b": {"id": found["id"]}});
        let explained = desk.ask("POST", "/explain", &pair);
        assert_eq!((&explained["matches"], &explained["via"]), (&json!(true), &found["via"]), "{found}");
        assert_eq!(explained["exact"], found["id"] == "same");
        for measure in ["jaccard", "containment"] {
            assert_eq!(explained[measure], found[measure], "{found}");
        }
        assert_eq!(explained["fingerprints"]["distance"], found["distance"]);
        let bits: Vec<u64> = explained["fingerprints"]["differing_bits"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|bit| bit.as_u64().expect("a number"))
            .collect();
        assert_eq!(json!(bits.len()), found["distance"]);
        assert_eq!(
            bits.iter().fold(0, |mask, bit| mask | 1 << bit),
            parsed_fingerprint("a", &explained) ^ parsed_fingerprint("b", &explained)
        );
        assert!(bits.is_sorted_by(|a, b| a > b));
    }
    let market = json!({"a": {"id": "market"}, "b": {"id": "same"}});
    expect_members(&desk.ask("POST", "/explain", &market), &json!({ "matches": false, "exact": false }));
}

fn parsed_fingerprint(side: &str, explained: &Value) -> u64 {
    u64::from_str_radix(explained["fingerprints"][side].as_str().expect("one"), 16).expect("hexadecimal")
}

#[test]
fn explain_shows_where_two_texts_agree_and_differ() {
    let desk = TestDesk::new("explain-texts");
    let a = format!("第一段。{LAMPS}");
    let b = format!("{LAMPS}末尾一句。");
    desk.register("a", &json!({"title": "路灯", "content": a, "user": "李娟"}));
    let explained = desk.ask(
        "POST",
        "/explain",
        &json!({"a": {"id": "a"}, "b": {"row": {"title": "路灯", "content": b, "id": "not-stored"}}}),
    );
    let pieces = explained["diff"].as_array().expect("a list");
    let text_a = format!("路灯\n{a}");
    let text_b = format!("路灯\n{b}");
    assert_eq!((side_text("only_a", pieces), side_text("only_b", pieces)), (text_a.clone(), text_b.clone()));
    let passage = &explained["passages"][0];
    let (text, chars) =
        (passage["text"].as_str().expect("text"), passage["chars"].as_u64().expect("a number") as usize);
    assert!(text.contains(LAMPS) && text.chars().count() == chars, "{passage}");
    for (whole, at) in [(&text_a, "at_a"), (&text_b, "at_b")] {
        let at = passage[at].as_u64().expect("a number") as usize;
        assert_eq!(whole.chars().skip(at).take(chars).collect::<String>(), text);
    }
    assert!(
        passage_text(&a, &passage["in_a"][0]).contains(LAMPS) && passage_text(&b, &passage["in_b"][0]).contains(LAMPS)
    );
    for p in pieces.iter().filter(|p| p["kind"] != "equal") {
        let (own, ranges) = if p["kind"] == "only_a" { (&a, &p["in_a"]) } else { (&b, &p["in_b"]) };
        assert_eq!(passage_text(own, &ranges[0]), p["text"].as_str().expect("text"), "{p}");
    }
    let fields = explained["fields"].as_array().expect("a list");
    expect_members(&explained["fields"], &json!({ "0/name": "title", "0/jaccard": 1.0, "1/name": "content" }));
    assert!(fields[1]["jaccard"].as_f64().is_some_and(|jaccard| jaccard > 0.5 && jaccard < 1.0));
    assert!(
        shared_terms("shared_features", &explained).contains("路灯")
            && shared_terms("only_b", &explained).contains("末尾"),
        "{explained}"
    );
    assert!(
        shared_terms("shared_features", &explained).is_disjoint(&shared_terms("only_a", &explained))
            && shared_terms("only_a", &explained).is_disjoint(&shared_terms("only_b", &explained))
    );
    assert_eq!(explained["truncated"], false);
    assert_eq!(desk.read("")["records"], 1);

    let swapped =
        desk.ask("POST", "/explain", &json!({"a": {"row": {"title": "路灯", "content": b}}, "b": {"id": "a"}}));
    for same in ["matches", "via", "jaccard", "containment", "fields"] {
        assert_eq!(swapped[same], explained[same], "{same}");
    }
    assert_eq!((&swapped["only_a"], &swapped["only_b"]), (&explained["only_b"], &explained["only_a"]));
}

fn side_text(own: &str, pieces: &[Value]) -> String {
    pieces.iter().filter(|p| p["kind"] == "equal" || p["kind"] == own).filter_map(|p| p["text"].as_str()).collect()
}

fn passage_text(own: &str, range: &Value) -> String {
    assert_eq!(range["field"], "content");
    own.chars().skip(range_end("start", range)).take(range_end("end", range) - range_end("start", range)).collect()
}

fn range_end(end: &str, range: &Value) -> usize {
    range[end].as_u64().expect("a number") as usize
}

fn shared_terms(list: &str, explained: &Value) -> BTreeSet<String> {
    let items = explained[list].as_array().expect("a list").iter();
    items.map(|feature| feature["term"].as_str().expect("a term").to_owned()).collect()
}

#[test]
fn spellings_of_one_text_are_exact_duplicates() {
    let desk = TestDesk::new("spellings");
    let plain = "幸福小区东门外的路灯从上个月开始全部不亮了,ABC123 楼道也是一片漆黑,老人出门办事很不方便";
    desk.register("plain", &json!({"content": plain}));
    let traditional = "幸福小區東門外的路燈從上個月開始全部不亮了,ABC123 樓道也是一片漆黑,老人出門辦事很不方便";
    let spellings = [
        ("traditional", traditional.to_owned()),
        ("full-width", plain.replace("ABC123", "ＡＢＣ１２３").replace(',', "，")),
        ("lower-case", plain.replace("ABC", "abc")),
        ("spaces", format!("\t{} \n", plain.replace(' ', "\u{3000}\r\n  "))),
        ("invisible", plain.replace("路灯", "路\u{200b}灯")),
        ("all", traditional.replace("ABC123 ", "ａＢc１2３\u{a0}")),
    ];
    for (id, content) in spellings {
        let found = desk.register(id, &json!({"content": content}));
        assert_eq!((&found["verdict"], &found["duplicate_of"]), (&json!("exact_duplicate"), &json!("plain")), "{id}");
        assert_eq!(desk.record(id)["row"]["content"], content, "what came is kept");
    }
    assert_eq!(desk.register("other-field", &json!({"title": plain}))["verdict"], "near_duplicate");

    let strict = TestDesk::with("spellings-strict", &json!({"text": {"simplify": false}}));
    strict.register("plain", &json!({"content": plain}));
    assert_ne!(strict.register("traditional", &json!({"content": traditional}))["verdict"], "exact_duplicate");
    let numbers = TestDesk::new("spellings-numbers");
    numbers.register("number", &json!({"content": 12345}));
    assert_eq!(numbers.register("text", &json!({"content": "12345"}))["duplicate_of"], "number");
}

#[test]
fn whole_values_and_addresses_count_as_their_roles_say() {
    let settings = json!({"fields": [
        {"name": "category", "role": "whole", "weight": 2},
        {"name": "content", "role": "text"},
        {"name": "link", "role": "url"},
        {"name": "note", "role": "ignore"},
    ]});
    let desk = TestDesk::with("roles", &settings);
    desk.register("a", &case_row("城市建设与市政公用", "http://example.org/A", "one"));
    for (id, row, kind) in [
        ("same", case_row("城市建设与市政公用", "\tHTTP://Example.ORG/A ", "two"), "exact_duplicate"),
        ("page", case_row("综合类事项", "http://example.org/A", "one"), "exact_duplicate"),
        ("category", case_row("综合类事项", "http://example.org/B", "one"), "near_duplicate"),
        ("path", case_row("城市建设与市政公用", "http://example.org/a", "one"), "near_duplicate"),
    ] {
        let found = desk.register(id, &row);
        assert_eq!((&found["verdict"], &found["duplicate_of"]), (&json!(kind), &json!("a")), "{id}");
    }
    let category = explain_against_a("category", &desk);
    assert_eq!(
        (terms_only_in("only_a", &category), terms_only_in("only_b", &category)),
        (vec!["城市建设与市政公用"], vec!["综合类事项"]),
        "one feature each"
    );
    let path = explain_against_a("path", &desk);
    assert_eq!((&path["exact"], &path["jaccard"]), (&json!(false), &json!(1.0)), "an address is no text");

    assert_eq!(desk.register("l1", &link_row("case/1"))["verdict"], "too_short");
    assert_eq!(desk.register("l2", &link_row("case/1"))["duplicate_of"], "l1");
    assert_eq!(desk.register("l3", &link_row("case/2"))["verdict"], "too_short");
}

fn case_row(category: &str, link: &str, note: &str) -> Value {
    json!({"category": category, "content": LAMPS, "link": link, "note": note, "title": "not named here"})
}

fn explain_against_a(b: &str, desk: &TestDesk) -> Value {
    desk.ask("POST", "/explain", &json!({"a": {"id": "a"}, "b": {"id": b}}))
}

fn terms_only_in<'a>(list: &str, category: &'a Value) -> Vec<&'a str> {
    category[list].as_array().expect("a list").iter().filter_map(|feature| feature["term"].as_str()).collect()
}

fn link_row(path: &str) -> Value {
    json!({"link": format!("https://example.org/{path}")})
}

#[test]
fn english_and_mixed_texts_are_found_too() {
    let desk = TestDesk::new("mixed");
    let english = "The streetlights outside the east gate of Happiness Garden have been out since early last month. \
                   Elderly residents cannot walk safely at night, and one person fell last week. \
                   Nobody from the property management company has answered our calls.";
    let mixed = "The property manager 物业公司 of Happiness Garden 幸福小区 switched off Wi-Fi 6 and CCTV 监控摄像头 in \
                 Building B2 地下车库, and 24 cars 车辆 were scratched 被刮花 since May 5月.";
    desk.register("english", &json!({"content": english}));
    desk.register("mixed", &json!({"content": mixed}));
    let table = [
        ("upper", english.to_uppercase(), "exact_duplicate", "english"),
        ("again", format!("Second letter! {english} Please help."), "near_duplicate", "english"),
        ("one-word", english.replace("fell", "tripped"), "near_duplicate", "english"),
        ("mixed-same", mixed.replace("B2", "Ｂ２"), "exact_duplicate", "mixed"),
        ("mixed-again", format!("再次来信。{mixed}至今无人处理。"), "near_duplicate", "mixed"),
    ];
    for (id, content, kind, original) in table {
        let found = desk.register(id, &json!({"content": content}));
        assert_eq!((&found["verdict"], &found["duplicate_of"]), (&json!(kind), &json!(original)), "{id}: {found}");
    }
    let other = "The library closes too early on weekends and students have nowhere else to study before their exams.";
    assert_eq!(desk.register("other", &json!({"content": other}))["verdict"], "original");
}

#[test]
fn explain_agrees_with_the_verdict_on_punctuation_and_reads_long_texts_in_part() {
    let desk = TestDesk::new("odd");
    let dots = json!({"content": "……！？"});
    desk.register("dots", &dots);
    assert_eq!(desk.register("dots-2", &dots)["verdict"], "exact_duplicate");
    let found = desk.ask("POST", "/explain", &json!({"a": {"id": "dots"}, "b": {"id": "dots-2"}}));
    expect_members(&found, &json!({ "exact": true, "jaccard": 1.0, "containment": 1.0, "fields/0/jaccard": 1.0 }));

    let numbers: String = (0..40_000).map(|n| format!("{} ", n * 7_919 % 100_000)).collect();
    let found =
        desk.ask("POST", "/explain", &json!({"a": long_row("路灯", &numbers), "b": long_row("市场", &numbers)}));
    expect_members(&found, &json!({ "truncated": true, "matches": true }));
    let terms = [&found["only_a"], &found["only_b"]].map(|list| list.as_array().map_or(0, Vec::len));
    assert_eq!(terms, [0, 0], "what differs stands behind the part that is shown");
}

fn long_row(end: &str, numbers: &str) -> Value {
    json!({"row": {"content": format!("{numbers}{end}")}})
}
