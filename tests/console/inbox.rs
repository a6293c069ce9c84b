//! A clerk works through the inbox: chooses an order and conditions, and decides about many repeats in one step that can be undone.

use serde_json::{Value, json};

use crate::browser::{KeyedServer, LAMPS, PageResponse, TestBrowser, encoded};
use crate::support::{TestDesk, TestServer, expect_members, expect_parts};

const MARKET: &str = "菜市场门口的摊贩每天清早占道经营，上班的车辆堵成一条长龙，公交车也进不了站，请尽快整治。";

/// Registers two originals, two copies of the first original, a reminder of its petitioner, and a longer letter about the second original.
fn office(name: &str) -> TestDesk {
    let desk = TestDesk::with(name, &json!({}));
    for (id, content, user, day, unit) in [
        ("first", LAMPS, "甲", 1, "城管局"),
        ("market", MARKET, "丁", 2, "交通局"),
        ("copy-1", LAMPS, "乙", 3, "城管局"),
        ("copy-2", LAMPS, "甲", 9, "城管局"),
        ("again", &format!("再次反映：{LAMPS}上次来信以后没有变化。"), "甲", 5, "住建局"),
        ("longer", &format!("{MARKET}昨天一辆救护车被堵了二十分钟，病人家属急得下车步行。"), "戊", 6, "交通局"),
    ] {
        let row = json!({"content": content, "user": user, "time": format!("2024-03-0{day} 09:30"), "承办单位": unit, "办理状态": "办理中"});
        desk.register(id, &row);
    }
    desk
}

/// Returns the ids of the listed records, in their order.
fn queue(page: &PageResponse) -> Vec<String> {
    let list = page.html.split("<nav class=\"queue\"").nth(1).unwrap_or_default();
    let list = list.split("</nav>").next().unwrap_or_default();
    let links = list.split("at=").skip(1);
    links.map(|rest| rest.split('"').next().unwrap_or_default().to_owned()).collect()
}

/// Returns the hidden fields of the form for a decision about the shown pair.
fn decision(page: &PageResponse) -> Vec<(String, String)> {
    let html = page.html.split("<div class=\"decide\">").nth(1).expect("a form").to_owned();
    PageResponse { html, ..page.clone() }.form("/decide")
}

fn inbox(browser: &mut TestBrowser<'_>, query: &str) -> PageResponse {
    browser.open(&format!("/console/{query}"))
}

#[test]
fn the_inbox_has_totals_orders_and_conditions() {
    let desk = office("orders");
    let mut clerk = TestBrowser::new(&desk.server);
    let page = inbox(&mut clerk, "orders/inbox");
    page.has(&["共 4 件，其中与初件全文相同 2 件，内容相近 2 件"]);
    assert_eq!(queue(&page), ["longer", "again", "copy-2", "copy-1"]);
    page.has(&["甲 · 2024-03-05 09:30", "住建局"]);
    let first = queue(&inbox(&mut clerk, "orders/inbox?order=probable"));
    assert_eq!(first[..2], ["copy-2", "copy-1"], "exact copies are the most probable");
    let last = queue(&inbox(&mut clerk, "orders/inbox?order=uncertain"));
    assert_eq!(last[2..], ["copy-2", "copy-1"], "exact copies are not uncertain");
    let by_time = queue(&inbox(&mut clerk, "orders/inbox?order=time&show=all"));
    assert_eq!(by_time, ["copy-2", "longer", "again", "copy-1", "market", "first"]);
    for (query, expected) in [
        ("verdict=exact", vec!["copy-2", "copy-1"]),
        ("verdict=near", vec!["longer", "again"]),
        (&format!("unit={}", encoded("住建局")), vec!["again"]),
        (&format!("unit={}&show=all", encoded("交通局")), vec!["longer", "market"]),
        ("from=2024-03-05&to=2024-03-07", vec!["longer", "again"]),
        ("verdict=original&show=all", vec!["market", "first"]),
        ("since=2999-01-01", vec![]),
    ] {
        assert_eq!(queue(&inbox(&mut clerk, &format!("orders/inbox?{query}"))), expected, "{query}");
    }
    clerk.get("/console/orders/inbox?from=soon").expect_status(422).has(&["时间请写成"]);
    let backward = clerk.get("/console/orders/inbox?from=2024-03-07&to=2024-03-05").expect_status(422);
    backward.has(&["结束时间要晚于开始时间"]);
    for odd in ["order=x", "verdict=x", "band=x", "page=0"] {
        assert_eq!(clerk.get(&format!("/console/orders/inbox?{odd}")).status, 422, "{odd} is not offered");
    }
}

#[test]
fn after_a_decision_the_next_record_is_shown_on_every_page() {
    let desk = TestDesk::with("paging", &json!({}));
    for number in 0..35 {
        desk.register(&format!("r{number:02}"), &json!({"content": LAMPS}));
    }
    let mut clerk = TestBrowser::new(&desk.server);
    let second = inbox(&mut clerk, "paging/inbox?page=2");
    assert_eq!(queue(&second), ["r04", "r03", "r02", "r01"]);
    let mut shown = inbox(&mut clerk, "paging/inbox?page=2&at=r03");
    for expected in ["r02", "r01"] {
        let decided = clerk.post("/console/paging/decide", &decision(&shown), &[("judgement", "same")]);
        shown = clerk.open(decided.header("location"));
        let heading = shown.html.split("<p class=\"heading\">").nth(1).unwrap_or_default();
        let link = format!("<a href=\"/console/paging/case/{expected}\"");
        assert!(heading.starts_with(&link), "{expected}: {heading}");
    }
}

fn judgements(server: &TestServer, collection: &str) -> Vec<(String, String)> {
    let path = format!("/v1/collections/{collection}/decisions?limit=1000");
    let answer = server.get(&path).json();
    let items = answer["items"].as_array().expect("items").iter();
    items.map(|item| (format!("{} {}", item["a"], item["b"]).replace('"', ""), item["judgement"].to_string())).collect()
}

#[test]
fn exact_copies_are_decided_in_one_step_and_undone_in_one_step() {
    let desk = office("copies");
    let mut clerk = TestBrowser::new(&desk.server);
    inbox(&mut clerk, "copies/inbox").has(&["action=\"/console/copies/batch\""]);
    let shown = clerk.open("/console/copies/batch?kind=exact");
    shown.has(&["将把下列 2 件", "尚未作任何改动"]);
    assert_eq!(judgements(&desk.server, "copies"), [], "a preview changes nothing");
    // A record that arrives after the preview does not belong to the batch.
    desk.register("copy-3", &json!({"content": LAMPS}));
    let form = shown.form("/console/copies/batch");
    let done = clerk.post("/console/copies/batch", &form, &[("by", "李某"), ("note", "批量")]);
    assert_eq!((done.status, done.header("location")), (303, "/console/copies/inbox"), "{}", done.html);
    let same: Vec<(String, String)> =
        ["copy-1 first", "copy-2 first"].map(|pair| (pair.to_owned(), "\"same\"".to_owned())).to_vec();
    assert_eq!(judgements(&desk.server, "copies"), same);
    let history = desk.get("/decisions/copy-1/first").json()["history"][0].clone();
    expect_members(&history, &json!({ "by": "李某", "note": "批量" }));
    let after = inbox(&mut clerk, "copies/inbox");
    assert_eq!(queue(&after), ["copy-3", "longer", "again"]);
    after.has(&["已作出 2 条认定"]);
    clerk.post("/console/copies/undo", &after.form("/console/copies/undo"), &[]).expect_status(303);
    assert!(judgements(&desk.server, "copies").iter().all(|(_, judgement)| judgement == "\"withdrawn\""));
    assert_eq!(queue(&inbox(&mut clerk, "copies/inbox")).len(), 5);
}

#[test]
fn a_batch_has_the_chosen_kind_and_conditions_and_leaves_out_the_ticked_records() {
    let desk = office("kinds");
    let mut clerk = TestBrowser::new(&desk.server);
    let petitioner = clerk.open("/console/kinds/batch?kind=petitioner");
    assert!(petitioner.html.contains("将把下列 2 件"), "again and copy-2: {}", petitioner.html);
    let unit = format!("/console/kinds/batch?kind=petitioner&unit={}", encoded("住建局"));
    clerk.open(&unit).has(&["将把下列 1 件", "value=\"again\""]);
    let above = clerk.open("/console/kinds/batch?kind=above-80");
    above.has(&["将把下列 4 件"]);
    let form = above.form("/console/kinds/batch");
    clerk.post("/console/kinds/batch", &form, &[("leave", "longer"), ("leave", "copy-1")]).expect_status(303);
    let decided: Vec<String> = judgements(&desk.server, "kinds").into_iter().map(|(pair, _)| pair).collect();
    assert_eq!(decided, ["again first", "copy-2 first"]);
    clerk.open("/console/kinds/batch?kind=petitioner").has(&["没有待认定的重件"]).lacks(&["name=\"state\""]);
    clerk.get("/console/kinds/batch?kind=all").expect_status(422);
}

#[test]
fn a_batch_is_refused_if_its_records_or_decisions_changed_since_the_preview() {
    let desk = office("stale");
    let mut clerk = TestBrowser::new(&desk.server);
    let shown = clerk.open("/console/stale/batch?kind=exact");
    desk.ask("PUT", "/decisions/copy-1/first", &json!({"judgement": "not_same", "by": "他人"}));
    let refused = clerk.post("/console/stale/batch", &shown.form("/console/stale/batch"), &[]).expect_status(409);
    refused.has(&["预览之后情况有变"]);
    assert!(refused.html.contains("将把下列 1 件"), "a new preview: {}", refused.html);
    desk.send("PUT", "/records/copy-2", &json!({"content": MARKET})).expect_status(200);
    clerk.post("/console/stale/batch", &refused.form("/console/stale/batch"), &[]).expect_status(409);
    assert_eq!(judgements(&desk.server, "stale"), [("copy-1 first".to_owned(), "\"not_same\"".to_owned())]);
}

#[test]
fn a_batch_is_refused_if_the_earlier_record_was_replaced_since_the_preview() {
    let desk = office("replaced");
    let mut clerk = TestBrowser::new(&desk.server);
    let shown = clerk.open("/console/replaced/batch?kind=exact");
    desk.send("PUT", "/records/first", &json!({"content": MARKET})).expect_status(200);
    clerk
        .post("/console/replaced/batch", &shown.form("/console/replaced/batch"), &[])
        .expect_status(409)
        .has(&["预览之后情况有变"]);
    assert_eq!(judgements(&desk.server, "replaced"), []);
}

#[test]
fn a_batch_needs_the_right_to_decide_and_is_in_the_audit_log() {
    let keyed = KeyedServer::with(&["a", "b", "c"]);
    let mut reader = keyed.signed_in("reader");
    assert!(!reader.open("/console/letters/inbox").html.contains("/batch\""), "not offered");
    reader.get("/console/letters/batch?kind=exact").expect_status(403);
    let mut clerk = keyed.signed_in("desk");
    let form = clerk.open("/console/letters/batch?kind=exact").form("/console/letters/batch");
    reader.post("/console/letters/batch", &form, &[]).expect_status(403);
    let without_token: Vec<_> = form.iter().filter(|(name, _)| name != "token").cloned().collect();
    clerk.post("/console/letters/batch", &without_token, &[]).expect_status(403);
    assert_eq!(keyed.decision("a", "b"), Value::Null);
    clerk.post("/console/letters/batch", &form, &[]).expect_status(303);
    assert_eq!(keyed.decision("a", "b")["history"][0]["by"], "desk");
    let log = keyed.server.log();
    let words = ["audit", "POST", "/console/letters/batch", "303", "desk"];
    assert!(log.lines().any(|line| words.iter().all(|word| line.contains(word))), "{log}");
    assert!(!log.contains("路灯"), "no text of a record");
}

#[test]
fn a_group_is_merged_under_a_chosen_original_and_taken_back() {
    let keyed = KeyedServer::start(&[]);
    for number in 0..40 {
        keyed.put(&format!("r{number:02}"), LAMPS);
    }
    let mut clerk = keyed.signed_in("desk");
    clerk.open("/console/letters/groups/r00").has(&["一键并单", "value=\"r00\" selected"]);
    let path = "/console/letters/groups/r00/merge";
    let shown = clerk.open(&format!("{path}?original=r07"));
    shown.has(&["将作出 39 条认定", "（r07）"]);
    clerk.post(path, &shown.form(path), &[]).expect_status(303);
    let group = "/v1/collections/letters/groups/r00";
    expect_members(&keyed.get("reader", group).json(), &json!({ "original": "r07", "size": 40 }));
    let undo = clerk.open("/console/letters/groups/r00").form("/console/letters/undo");
    clerk.post("/console/letters/undo", &undo, &[]).expect_status(303);
    assert_eq!(keyed.get("reader", group).json()["original"], "r00");
    clerk.get(&format!("{path}?original=nobody")).expect_status(422);
    let other = json!({"judgement": "not_same", "by": "他人"});
    keyed.send("intake", "PUT", "/v1/collections/letters/decisions/r01/r02", &other);
    let refused = clerk.open(&format!("{path}?original=r07"));
    assert!(refused.html.contains("不能整组认定") && !refused.has_form(path), "{}", refused.html);
    keyed.signed_in("reader").get(&format!("{path}?original=r07")).expect_status(403);
}

#[test]
fn the_banner_names_the_records_by_their_titles_for_readers_of_the_collection() {
    let keyed = KeyedServer::start(&[]);
    for (id, title) in [("a", "三号路路灯"), ("b", "路灯一直不亮")] {
        let row = json!({"title": title, "content": LAMPS});
        let path = format!("/v1/collections/letters/records/{id}");
        keyed.send("intake", "PUT", &path, &row).expect_status(201);
    }
    let mut clerk = keyed.signed_in("desk");
    let form = decision(&clerk.open("/console/letters/inbox"));
    clerk.post("/console/letters/decide", &form, &[("judgement", "same")]).expect_status(303);
    let notice = clerk.jar.get("doppel_done").expect("the cookie of the notice").clone();
    assert!(!notice.contains("%E8%B7%AF") && !notice.contains('路'), "no text of a record is in the cookie: {notice}");
    expect_parts(&clerk.open("/console/letters/inbox").html, &["已认定为同一事项。 路灯一直不亮 ↔ 三号路路灯"]);
    let rights = json!({"name": "north", "scopes": ["read", "write"], "collections": ["north-1"]});
    let made = keyed.send("office", "POST", "/v1/admin/keys", &rights).json();
    let mut other = TestBrowser::new(&keyed.server);
    other.sign_in(made["key"].as_str().expect("the key"));
    other.jar.insert("doppel_done".into(), notice);
    let page = other.open("/console").html;
    assert!(page.contains("b ↔ a") && !page.contains("路灯"), "ids only: {page}");
}
