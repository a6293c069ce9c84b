//! Every scheme works as a separate channel: a collection can use it, and it finds exactly the copy that was made for it, also after a
//! restart. Wrong parameters are refused with a reason.

use crate::row;
use crate::support::{TestDesk, TestResponse, TestServer, expect_members, ids};
use serde_json::{Value, json};

/// A letter with words of different frequency: 路灯, 小区, 物业.
const LETTER: &str = "幸福小区东门外的路灯从上个月初开始就全部不亮了。小区里的老人和孩子晚上出门十分不便，路灯坏了一排又一排！\
                      居民多次向小区物业反映路灯的事情，物业说修理路灯的费用大约1.5万元没有着落。希望有关部门督促物业尽快修好路灯？\
                      盼望早日得到明确的答复。";

/// Letters that have nothing in common with [`LETTER`].
const OTHERS: &[&str] = &[
    "菜市场门口的摊贩每天清早占道经营，上班的车辆堵成一条长龙。公交车也进不了站，城管来了就走，走了又来。",
    "孩子今年该上小学了，学校说片区已经满额。我们按时交了材料，却被分到八公里以外的学校，接送实在困难。",
    "工厂夜里偷偷排放废气，附近几个村子的空气刺鼻难闻。环保电话打了许多次，每次来人检查都说没有问题。",
];

/// Returns channels, each with the copy that it finds. The copy differs only in punctuation, only at the end, or in one word.
fn table() -> Vec<(Value, String)> {
    let punctuation = LETTER.replace('，', "；");
    let ending = format!("{LETTER}打扰了，此致敬礼。");
    let word = LETTER.replace("盼望", "期待");
    vec![
        (json!({"scheme": "simhash", "radius": 3}), punctuation.clone()),
        (json!({"scheme": "shingle"}), ending.clone()),
        (json!({"scheme": "shingle", "mod": 4}), ending.clone()),
        (json!({"scheme": "md5"}), LETTER.to_owned()),
        (json!({"scheme": "md5", "strip": true}), punctuation),
        (json!({"scheme": "multi_md5"}), ending.clone()),
        (json!({"scheme": "multi_md5", "key": "any", "lead_fields": ["title"]}), ending.clone()),
        (json!({"scheme": "super_shingle"}), ending.clone()),
        (json!({"scheme": "minhash"}), word.clone()),
        (json!({"scheme": "segments"}), ending.clone()),
        (json!({"scheme": "segments", "split": "sentence", "agree": 2}), ending.clone()),
        (json!({"scheme": "segments", "split": "lines:1"}), LETTER.replace("。居", "。\n居")),
        (json!({"scheme": "tianwang1", "bytes": 64}), ending.clone()),
        (json!({"scheme": "tianwang2", "n": 3}), word.clone()),
        (json!({"scheme": "tianwang3", "n": 3}), word.clone()),
        (json!({"scheme": "tianwang4", "n": 3}), word.clone()),
        (json!({"scheme": "tianwang5", "n": 3}), word.clone()),
        (json!({"scheme": "feature_code"}), word.clone()),
        (json!({"scheme": "feature_code", "marks": "any", "k": 3}), ending.clone()),
        (json!({"scheme": "vsm"}), ending.clone()),
        (json!({"scheme": "vsm", "keys": "prefix", "weighting": "tf_len"}), word.clone()),
        (json!({"scheme": "boolean"}), ending),
        (json!({"scheme": "boolean", "keys": "prefix"}), word.clone()),
        (json!({"scheme": "scam", "keys": "all"}), word),
    ]
}

fn settings(channel: &Value) -> Value {
    json!({
        "fields": [{"name": "title", "role": "whole"}, {"name": "content", "role": "text"}],
        "channels": [channel],
        "verify": null,
    })
}

/// Returns the problem for settings that are refused.
fn refused(desk: &TestDesk, settings: &Value) -> Value {
    let answer = desk.send("PUT", "", settings);
    assert_eq!(answer.status, 422, "{settings}: {}", answer.text);
    answer.json()
}

#[test]
fn every_scheme_finds_its_copy_and_still_does_after_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path());
    let table = table();
    for (number, (channel, copy)) in table.iter().enumerate() {
        let scheme = channel["scheme"].as_str().expect("a name");
        let made = send_expecting(&server, "PUT", number, "", &settings(channel));
        assert_eq!(made["settings"]["channels"][0]["scheme"], scheme, "{made}");
        for (other, text) in OTHERS.iter().enumerate() {
            let first = send_expecting(&server, "PUT", number, &format!("/records/other{other}"), &row(text));
            assert_eq!(first["verdict"], "original", "{channel}: {first}");
        }
        let first = send_expecting(&server, "PUT", number, "/records/first", &row(LETTER));
        assert_eq!(first["verdict"], "original", "{channel}: {first}");
        let found = send_expecting(&server, "PUT", number, "/records/copy", &row(copy));
        assert_eq!(found["duplicate_of"], "first", "{channel}: {found}");
        let via = found["similar"][0]["via"].as_array().expect("a list");
        assert!(via.contains(&json!(scheme)), "{channel}: {found}");
    }
    server.stop();
    let server = TestServer::start_in(folder.path());
    for (number, (channel, copy)) in table.iter().enumerate() {
        let found = send_expecting(&server, "POST", number, "/similar", &row(copy));
        let mut found = ids(&found["similar"]);
        found.sort_unstable();
        assert_eq!(found, ["copy", "first"], "{channel}");
        let nothing = send_expecting(
            &server,
            "POST",
            number,
            "/similar",
            &row("楼上的住户每天半夜拖动家具，楼下的人整夜睡不着觉。"),
        );
        assert_eq!(nothing["similar"], json!([]), "{channel}");
    }
}

fn send_expecting(server: &TestServer, method: &str, number: usize, path: &str, body: &Value) -> Value {
    let answer = server.send(method, &format!("/v1/collections/c{number}{path}"), body);
    assert!(answer.status < 300, "{number} {path}: {}", answer.text);
    answer.json()
}

#[test]
fn a_scheme_that_lacks_statistics_says_so_and_the_exact_stage_goes_on() {
    for (name, channel) in [
        ("inactive-i-match", json!({"scheme": "i_match"})),
        ("inactive-vsm", json!({"scheme": "vsm", "weighting": "tf_idf"})),
    ] {
        let desk = TestDesk::with(name, &settings(&channel));
        let state = desk.read("");
        let reason = state["inactive_channels"][0]["reason"].as_str().expect("a reason");
        assert!(reason.contains("100 records") && reason.contains("reindex"), "{state}");
        desk.register("a", &row(LETTER));
        assert_eq!(desk.register("b", &row(LETTER))["verdict"], "exact_duplicate");
    }
}

/// Words that the dictionary contains. Each letter below has five of them.
const WORDS: &str = "路灯 积水 噪音 油烟 垃圾 电梯 停车 拆迁 工资 学校 公交 站牌 医院 药品 社保 养老 燃气 暖气 水压 停电 围墙 绿化 树木 \
                     道路 井盖 桥梁 河道 污水 工厂 粉尘 农田 灌溉 补偿 土地 宅基 房产 物业 保安 门禁 监控 信号 宽带 快递 市场 摊贩 城管 执法 警察 \
                     户口 证件 档案 退休 低保 残疾 儿童 幼儿 教师 培训 考试 广场 舞蹈";

#[test]
fn a_reindex_counts_the_words_that_i_match_and_tf_idf_wait_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = TestServer::start_in(folder.path());
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let path = "/v1/collections/counted";
    let mut settings = settings(&json!({"scheme": "i_match"}));
    settings["channels"] = json!([{"scheme": "i_match"}, {"scheme": "vsm", "weighting": "tf_idf", "keys": "prefix"}]);
    server.send("PUT", path, &settings).expect_status(201);
    for number in 0..120 {
        let put = server.send("PUT", &format!("{path}/records/{number}"), &letter_of_words(number, ",", &words));
        assert_eq!(put.json()["verdict"], "original", "{}", put.text);
    }
    assert_eq!(similar_to_third(&server, path, &words).0, Value::Null);
    let task = server.ended_task(&server.send("POST", "/v1/admin/reindex", &json!({"collection": "counted"})));
    assert_eq!(task["status"], "succeeded", "{task}");
    assert_eq!(server.get(path).json()["inactive_channels"], Value::Null);
    let both = (json!("3"), json!(["i_match", "vsm"]));
    assert_eq!(similar_to_third(&server, path, &words), both);
    server.stop();
    assert_eq!(
        similar_to_third(&TestServer::start_in(folder.path()), path, &words),
        both,
        "the counts are kept with the generation"
    );
}

fn letter_of_words(number: usize, marks: &str, words: &[&str]) -> Value {
    let five = (0..5).map(|k| words[(number * 7 + k * (11 + number / words.len())) % words.len()]);
    row(&five.collect::<Vec<_>>().join(marks))
}

fn similar_to_third(server: &TestServer, path: &str, words: &[&str]) -> (Value, Value) {
    let similar = server.send("POST", &format!("{path}/similar"), &letter_of_words(3, "。", words)).json();
    (similar["similar"][0]["id"].clone(), similar["similar"][0]["via"].clone())
}

#[test]
fn wrong_parameters_are_reported_with_range_and_place() {
    let table = [
        (json!({"scheme": "simhash", "radius": 16}), "radius", "16 is outside 0 to 15"),
        (json!({"scheme": "shingle", "units": 300}), "units", "300 is outside 1 to 32"),
        (json!({"scheme": "shingle", "keep": [20, 10]}), "keep/1", "10 is outside 20 to 256"),
        (json!({"scheme": "multi_md5", "pre": 9}), "pre", "9 is outside 1 to 8"),
        (json!({"scheme": "multi_md5", "t": -1}), "t", "-1 is outside 0 to 1000"),
        (json!({"scheme": "multi_md5", "lead_fields": ["none"]}), "lead_fields/0", "one of the collection's fields"),
        (json!({"scheme": "super_shingle", "groups": 5}), "groups", "5 does not divide 84"),
        (json!({"scheme": "super_shingle", "groups": 2, "agree": 3}), "agree", "3 is outside 1 to 2"),
        (json!({"scheme": "minhash", "bands": 129}), "bands", "129 is outside 1 to 128"),
        (json!({"scheme": "i_match", "low": 0.9, "high": 0.5}), "high", "0.5 is outside 0.9 to 1"),
        (json!({"scheme": "segments", "share": 1.5}), "share", "1.5 is outside 0 to 1"),
        (json!({"scheme": "segments", "split": "lines:0"}), "split", "n from 1 to 1000"),
        (json!({"scheme": "tianwang1", "bytes": 31}), "bytes", "31 is outside 32 to 4096"),
        (json!({"scheme": "tianwang2", "n": 2}), "n", "2 is outside 3 to 50"),
        (json!({"scheme": "tianwang3", "epsilon": 2}), "epsilon", "2 is outside 0 to 1"),
        (json!({"scheme": "tianwang4", "n": "5"}), "n", "outside 3 to 50"),
        (json!({"scheme": "tianwang5", "n": 3.5}), "n", "3.5 is outside 3 to 50"),
        (json!({"scheme": "feature_code", "k": 1}), "k", "1 is outside 2 to 16"),
        (json!({"scheme": "vsm", "keys": 0}), "keys", "0 is outside 1 to 64"),
        (json!({"scheme": "vsm", "keys": "some"}), "keys", "a number from 1 to 64, \"all\" or \"prefix\""),
        (json!({"scheme": "boolean", "t": -0.1}), "t", "-0.1 is outside 0 to 1"),
        (json!({"scheme": "scam", "epsilon": 2}), "epsilon", "2 is outside 2 (excluded) to 10"),
        (json!({"scheme": "scam", "keys": "prefix"}), "keys", "1 to 64, or \"all\""),
        (json!({"scheme": "md5", "strip": 1}), "strip", "true or false"),
        (json!({"scheme": "tianwang6"}), "scheme", "\"tianwang5\""),
    ];
    let desk = TestDesk::new("wrong");
    for (channel, parameter, detail) in table {
        let problem = refused(&desk, &settings(&channel));
        let error = &problem["errors"][0];
        assert_eq!(error["pointer"], format!("/channels/0/{parameter}"), "{channel}: {problem}");
        assert!(error["detail"].as_str().is_some_and(|text| text.contains(detail)), "{channel}: {problem}");
    }
}

#[test]
fn the_hybrid_of_md5_then_multi_md5_looks_records_up_by_their_lead_fields() {
    let desk = TestDesk::with(
        "hybrid",
        &json!({
            "fields": [
                {"name": "title", "role": "whole"}, {"name": "contact", "role": "whole"}, {"name": "phone", "role": "whole"},
                {"name": "content", "role": "text"},
            ],
            "text": {"synonyms": [["番茄", "西红柿", "杨柿子"]]},
            "channels": [
                {"scheme": "md5", "strip": true},
                {"scheme": "multi_md5", "lead_fields": ["title", "contact", "phone"], "t": 2, "share": 0.8},
            ],
            "verify": null, "min_features": 0,
        }),
    );
    let first = "大量供应番茄,每斤2元,基地直销,常年有货";
    desk.register("first", &notice_row("1234567", first));
    assert_eq!(
        register_and_judge("same", &notice_row("1234567", first), &desk),
        (json!("exact_duplicate"), json!(["exact", "md5", "multi_md5"]))
    );
    let marks = notice_row("1234567", "大量供应番茄 每斤2元!基地直销。常年有货");
    assert_eq!(register_and_judge("marks", &marks, &desk).0, "near_duplicate");
    let synonym = notice_row("1234567", "大量供应杨柿子,每斤2元,基地直销,常年有货");
    assert_eq!(
        register_and_judge("synonym", &synonym, &desk),
        (json!("near_duplicate"), json!(["multi_md5"])),
        "synonyms act before weighting"
    );
    assert_eq!(
        register_and_judge("elsewhere", &notice_row("7654321", "大量供应西红柿,每斤2元,基地直销,常年有货"), &desk).0,
        "original"
    );
}

fn notice_row(phone: &str, content: &str) -> Value {
    json!({"title": "供应番茄", "contact": "张三", "phone": phone, "content": content})
}

fn register_and_judge(id: &str, row: &Value, desk: &TestDesk) -> (Value, Value) {
    let verdict = desk.register(id, row);
    (verdict["verdict"].clone(), verdict["similar"][0]["via"].clone())
}

#[test]
fn a_hot_issue_that_hundreds_write_about_is_not_lost_from_sight() {
    for scheme in ["segments", "feature_code"] {
        let desk = TestDesk::with(&format!("hot-{scheme}"), &settings(&json!({"scheme": scheme})));
        for number in 0..300 {
            let verdict = desk.register(&number.to_string(), &hot_letter(number));
            let expected = if number == 0 { json!(null) } else { json!("0") };
            assert_eq!(verdict["duplicate_of"], expected, "{scheme}: {verdict}");
            assert_eq!(verdict["truncated"], json!(number > 256), "{scheme}: {verdict}");
        }
        let live = desk.read("/records/0/similar?limit=100");
        assert_eq!(
            (live["similar"].as_array().map(Vec::len), &live["truncated"]),
            (Some(100), &json!(true)),
            "{scheme}"
        );
    }
}

fn hot_letter(number: usize) -> Value {
    let own = WORDS.split_whitespace().nth(number % 60).expect("a word");
    row(&format!(
        "清水河上游的化工厂连夜排放污水！两岸居民闻到刺鼻气味难以入睡！请求环保部门立即查封排污口！{own}{number}"
    ))
}

#[test]
fn records_that_name_the_same_page_are_exact_duplicates_under_any_of_its_names() {
    let desk = TestDesk::with(
        "pages",
        &json!({
            "fields": [{"name": "link", "role": "url"}, {"name": "content", "role": "text"}],
            "host_aliases": [["example.org", "www.example.org"]],
        }),
    );
    assert_eq!(desk.register("a", &page_row("http://example.org/case?id=7", LETTER))["verdict"], "original");
    let again = desk.register("b", &page_row("HTTP://WWW.Example.ORG:80/x/../case/?utm_source=q&id=7", OTHERS[0]));
    expect_members(&again, &json!({ "verdict": "exact_duplicate", "duplicate_of": "a", "similar/0/via": ["url"] }));
    assert!(
        again["similar"][0]["similarity"].as_f64().is_some_and(|similarity| similarity < 0.3),
        "measured, not claimed"
    );
    assert_eq!(desk.register("c", &page_row("http://example.org/case?id=8", OTHERS[1]))["verdict"], "original");
    let short = desk.register("d", &page_row("http://example.org/case?id=8", "同上"));
    assert_eq!(short["verdict"], "exact_duplicate", "however short the text");
    let explained = desk.ask("POST", "/explain", &json!({"a": {"id": "a"}, "b": {"id": "b"}}));
    expect_members(&explained, &json!({ "matches": true, "via": ["url"] }));
    let problem = refused(&desk, &json!({"host_aliases": [["a.cn"], ["b.cn/x", "b.cn"]]}));
    let places: Vec<&str> =
        problem["errors"].as_array().expect("a list").iter().filter_map(|e| e["pointer"].as_str()).collect();
    assert_eq!(places, ["/host_aliases/0", "/host_aliases/1/0"]);
}

fn page_row(link: &str, content: &str) -> Value {
    json!({"link": link, "content": content})
}

#[test]
fn hosts_that_say_the_same_under_the_same_paths_are_proposed_as_aliases() {
    let settings = json!({"fields": [{"name": "link", "role": "url"}, {"name": "content", "role": "text"}]});
    let desk = TestDesk::with("hosts", &settings);
    let texts = [LETTER, OTHERS[0], OTHERS[1], OTHERS[2]];
    let pages = [
        ("http://example.org", 0),
        ("https://www.example.org:443/", 0),
        ("http://example.org/case?id=7", 1),
        ("http://www.example.org/case/?id=7&utm_source=q", 1),
        ("http://www.example.org/news", 2),
        ("http://example.org/news", 3),
        // Another site with the same paths and other texts, and one page elsewhere with the same text.
        ("http://example.net", 3),
        ("http://example.net/case?id=7", 2),
        ("http://example.net/copy", 0),
        ("no address", 0),
    ];
    for (number, (link, text)) in pages.iter().enumerate() {
        desk.register(&number.to_string(), &numbered_page(link, *text, &texts));
    }
    let found = post_aliases(&json!({"collection": "hosts"}), &desk.server).json();
    let proposal = json!({"host": "example.org", "alias": "www.example.org", "compared": 3, "equal": 2});
    assert_eq!(found, json!({"records": 10, "hosts": 3, "proposals": [proposal], "truncated": false}));
    let few = post_aliases(&json!({"collection": "hosts", "records": 1}), &desk.server).json();
    assert_eq!(few, json!({"records": 1, "hosts": 1, "proposals": [], "truncated": true}));
    assert_eq!(post_aliases(&json!({"collection": "nobody"}), &desk.server).status, 404);
    assert_eq!(
        post_aliases(&json!({"collection": "hosts", "records": 0}), &desk.server).json()["errors"][0]["pointer"],
        "/records"
    );
}

fn numbered_page(link: &str, text: usize, texts: &[&str; 4]) -> Value {
    json!({"link": link, "content": texts[text]})
}

fn post_aliases(body: &Value, server: &TestServer) -> TestResponse {
    server.send("POST", "/v1/admin/host-aliases", body)
}

#[test]
fn of_a_page_of_html_the_visible_text_is_compared() {
    let mut settings = settings(&json!({"scheme": "segments"}));
    settings["fields"] = json!([{"name": "page", "role": "text", "format": "html"}]);
    let desk = TestDesk::with("html", &settings);
    assert_eq!(desk.register("a", &html_page("某某日报", LETTER))["verdict"], "original");
    let again = desk.register("b", &html_page("某某新闻网转载", &LETTER.replace("路灯", "<b>路</b>灯")));
    expect_members(&again, &json!({ "verdict": "exact_duplicate", "duplicate_of": "a" }));
    let explained = desk.send("POST", "/explain", &json!({"a": {"id": "a"}, "b": {"id": "b"}})).json();
    assert_eq!(marked_passage("in_a", &html_page("某某日报", LETTER), &explained), LETTER);
    let bold = LETTER.replace("路灯", "<b>路</b>灯");
    assert_eq!(marked_passage("in_b", &html_page("某某新闻网转载", &bold), &explained), bold);
    let problem = refused(
        &desk,
        &json!({"fields": [{"name": "t", "role": "text"}, {"name": "l", "role": "url", "format": "html"}]}),
    );
    assert_eq!(problem["errors"][0]["pointer"], "/fields/1/format");
}

fn html_page(layout: &str, text: &str) -> Value {
    json!({"page": format!("<html><head><title>{layout}</title><script>show('{layout}')</script></head><p>{text}</p></html>")})
}

fn marked_passage(side: &str, page: &Value, explained: &Value) -> String {
    let range = &explained["passages"][0][side][0];
    let page = page["page"].as_str().expect("a text").chars();
    assert_eq!(range["field"], "page", "{explained}");
    let start = range["start"].as_u64().expect("a number") as usize;
    let end = range["end"].as_u64().expect("a number") as usize;
    page.skip(start).take(end - start).collect::<String>()
}
