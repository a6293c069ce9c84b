//! A clerk screens the inbox, decides and undoes a decision, checks a letter, registers it, and finds it.

use crate::browser::{KeyedServer, LAMPS, TestBrowser, encoded};
use crate::support::{TestDesk, expect_members, expect_parts, ids, until};
use serde_json::json;

const ROADS: &str = "幸福小区门口的道路破损严重，雨天积水很深，老人出行困难，请有关部门尽快修复。";

#[test]
fn decisions_by_form_and_by_the_api_are_the_same() {
    let keyed = KeyedServer::with(&["a", "b"]);
    let mut clerk = keyed.signed_in("desk");
    let form = clerk.open("/console/letters/case/b").form("/console/letters/decide");
    let done = clerk.post(
        "/console/letters/decide",
        &form,
        &[("judgement", "not_same"), ("note", "两处不同的路灯"), ("by", "forged")],
    );
    assert_eq!((done.status, done.header("location")), (303, "/console/letters/case/b"));
    let decision = keyed.decision("a", "b");
    let said = &decision["history"][0];
    expect_members(said, &json!({ "judgement": "not_same", "by": "desk", "note": "两处不同的路灯" }));

    // The notice appears once, with a way to undo the decision.
    let after = clerk.open("/console/letters/case/b");
    after.has(&["已认定为不是同一事项", "两处不同的路灯"]);
    assert!(!clerk.open("/console/letters/case/b").html.contains("已认定为不是同一事项。"));
    clerk
        .post("/console/letters/decide", &after.form("/console/letters/decide"), &[("judgement", "withdrawn")])
        .expect_status(303);
    assert_eq!(keyed.decision("a", "b")["judgement"], "withdrawn");

    let by_api = json!({"judgement": "same", "by": "值班员", "note": "电话核实"});
    keyed.send("intake", "PUT", "/v1/collections/letters/decisions/a/b", &by_api).expect_status(200);
    expect_parts(&clerk.open("/console/letters/case/a").html, &["值班员", "电话核实", "认定记录：同一事项"]);
}

/// A verdict never changes. Each page that lists a record shows the decision of a person about this record, in the same words.
#[test]
fn decisions_are_shown_on_every_page_that_lists_the_record() {
    let keyed = KeyedServer::with(&["a", "b"]);
    let mut clerk = keyed.signed_in("desk");
    let search = format!("/console/letters/search?q={}", encoded("路灯"));
    let pages = ["/console/letters/inbox?show=all", &search, "/console/letters/case/b", "/console/letters/groups/a"];
    let beside = ["/console/letters/case/a", "/console/letters/case/a?tab=related"];
    until("the index of words is up to date", || {
        lists_both(&clerk.open(&search).html) && clerk.open(beside[1]).html.contains("with=b")
    });
    for page in pages.iter().chain(&beside) {
        assert!(!clerk.open(page).html.contains("人工认定："), "{page}: nobody has decided");
    }
    decide_a_b("same", &keyed);
    for page in pages {
        let html = clerk.open(page).html;
        let badge = html.find("人工认定：同一事项</span>").unwrap_or_else(|| panic!("{page}: {html}"));
        assert!(html[badge..].contains("登记时：重件（全文相同）"), "{page}: {html}");
    }
    for page in beside {
        assert!(clerk.open(page).html.contains("人工认定：同一事项"), "{page}");
    }
    decide_a_b("not_same", &keyed);
    // The two letters do not form a group any more.
    for page in pages[..3].iter().chain(&beside) {
        let html = clerk.open(page).html;
        assert!(html.contains("人工认定：不是同一事项"), "{page}: {html}");
        assert!(!html.contains("人工认定：同一事项"), "{page}: {html}");
    }
}

fn lists_both(html: &str) -> bool {
    html.contains("case/a\"") && html.contains("case/b\"")
}

fn decide_a_b(judgement: &str, keyed: &KeyedServer) {
    let body = json!({"judgement": judgement, "by": "值班员"});
    let path = "/v1/collections/letters/decisions/a/b";
    keyed.send("intake", "PUT", path, &body).expect_status(200);
}

#[test]
fn undoing_a_changed_mind_brings_back_what_was_said_before() {
    let keyed = KeyedServer::with(&["a", "b"]);
    let mut clerk = keyed.signed_in("desk");
    let case = "/console/letters/case/b";
    for judgement in ["same", "not_same"] {
        let form = clerk.open(case).form("/console/letters/decide");
        clerk.post("/console/letters/decide", &form, &[("judgement", judgement)]).expect_status(303);
    }
    let told = clerk.open(case);
    told.has(&["value=\"same\" data-key=\"u\""]);
    let undo = told.form("/console/letters/decide");
    clerk.post("/console/letters/decide", &undo, &[("judgement", "same")]).expect_status(303);
    assert_eq!(keyed.decision("a", "b")["judgement"], "same");
}

#[test]
fn a_letter_is_never_registered_in_place_of_another() {
    let keyed = KeyedServer::with(&["a"]);
    let mut clerk = keyed.signed_in("desk");
    let path = "/console/letters/check";
    let mut form = clerk.open(path).form(path);
    form.push(("row.content".into(), ROADS.into()));
    form.push(("id".into(), "a".into()));
    let checked = clerk.post(path, &form, &[]);
    let register = checked.form("/console/letters/register");
    clerk.post("/console/letters/register", &register, &[]).expect_status(409).has(&["这个编号已有另一件"]);
    assert_eq!(keyed.get("reader", "/v1/collections/letters/records/a").json()["row"]["content"], json!(LAMPS));
}

#[test]
fn the_slower_of_two_clerks_sees_the_earlier_decision_and_changes_nothing() {
    let keyed = KeyedServer::with(&["a", "b"]);
    let mut first = keyed.signed_in("desk");
    let mut second = keyed.signed_in("desk");
    let path = "/console/letters/inbox";
    let (one, two) =
        (first.open(path).form("/console/letters/decide"), second.open(path).form("/console/letters/decide"));
    first.post("/console/letters/decide", &one, &[("judgement", "same"), ("note", "先到")]).expect_status(303);
    let told = second.post("/console/letters/decide", &two, &[("judgement", "not_same")]).expect_status(409);
    told.has(&["已由他人认定", "先到"]);
    assert_eq!(keyed.decision("a", "b")["history"].as_array().map(Vec::len), Some(1));
    // After the second clerk has seen the decision, a different decision is possible.
    second
        .post("/console/letters/decide", &told.form("/console/letters/decide"), &[("judgement", "not_same")])
        .expect_status(303);
    assert_eq!(keyed.decision("a", "b")["judgement"], "not_same");
}

#[test]
fn a_decision_about_a_replaced_text_is_refused_and_the_new_text_is_shown() {
    let keyed = KeyedServer::with(&["a", "b"]);
    let mut clerk = keyed.signed_in("desk");
    let form = clerk.open("/console/letters/inbox").form("/console/letters/decide");
    keyed.replace("a", ROADS);
    let told = clerk.post("/console/letters/decide", &form, &[("judgement", "same")]).expect_status(409);
    told.has(&["已被替换", "门口的道路破损严重"]);
    let again = told.form("/console/letters/decide");
    clerk.post("/console/letters/decide", &again, &[("judgement", "not_same")]).expect_status(303);
    assert_eq!(keyed.decision("a", "b")["judgement"], "not_same");
}

#[test]
fn the_inbox_is_worked_off_from_the_newest_on() {
    let desk = TestDesk::with("inbox", &json!({}));
    for (id, content) in
        [("a", LAMPS), ("b", LAMPS), ("c", ROADS), ("d", ROADS), ("e", "水管漏水多日无人维修请物业尽快处理")]
    {
        desk.register(id, &json!({ "content": content }));
    }
    let mut clerk = TestBrowser::new(&desk.server);
    let page = clerk.open("/console/inbox/inbox");
    let form = page.form("/console/inbox/decide");
    assert!(form.contains(&("a".into(), "d".into())) && form.contains(&("b".into(), "c".into())), "{form:?}");
    assert!(form.contains(&("back".into(), "/console/inbox/inbox?at=b".into())), "{form:?}");
    assert!(
        page.html.contains("data-key=\"j\"") && !page.html.contains("data-key=\"k\""),
        "the first has none before it"
    );
    clerk.post("/console/inbox/decide", &form, &[("judgement", "same"), ("by", "王五")]).expect_status(303);
    assert_eq!(desk.read("/decisions/c/d")["history"][0]["by"], "王五");

    let rest = clerk.open("/console/inbox/inbox");
    assert!(rest.form("/console/inbox/decide").contains(&("a".into(), "a".into())) || !rest.html.contains("case/d\""));
    assert!(rest.html.contains("value=\"王五\""), "the name is remembered");
    let all = clerk.open("/console/inbox/inbox?show=all");
    for id in ["a", "b", "c", "d", "e"] {
        assert!(all.values("href").iter().any(|href| href.ends_with(&format!("&at={id}"))), "{id}");
    }
    clerk.open("/console/inbox/inbox?since=2999-01-01").has(&["没有需要处理的信访件"]);
    clerk.get("/console/inbox/inbox?since=soon").expect_status(422);
}

#[test]
fn a_letter_is_checked_without_being_stored_and_registered_once() {
    let desk = TestDesk::with("check", &json!({}));
    desk.register("a", &json!({"title": "路灯", "content": LAMPS, "user": "甲", "time": "2024-03-01 09:30"}));
    let mut clerk = TestBrowser::new(&desk.server);
    let form = clerk.open("/console/check/check").form("/console/check/check");
    let check =
        |clerk: &mut TestBrowser<'_>, fields: &[(&str, &str)]| clerk.post("/console/check/check", &form, fields);
    let repeat =
        check(&mut clerk, &[("paste", &format!("{LAMPS}请尽快。")), ("row.user", "甲"), ("row.title", "路灯")])
            .expect_status(200);
    repeat.has(&["重件：已有内容相近的信访件", "<mark class=\"different\""]);
    repeat.has(&["同人", "case/a\"", "% 的文字"]);
    let table = [(ROADS, "初件"), (LAMPS, "全文相同"), ("好", "文字过短")];
    for (text, told) in table {
        let fields = [("paste", text), ("row.title", if text == LAMPS { "路灯" } else { "" })];
        assert!(check(&mut clerk, &fields).html.contains(told), "{text}");
    }
    assert!(check(&mut clerk, &[("paste", "  ")]).html.contains("请先写上内容"));
    assert_eq!(desk.read("")["records"], 1, "nothing is stored");

    let register = repeat.form("/console/check/register");
    let done = clerk.post("/console/check/register", &register, &[]).expect_status(303);
    let again = clerk.post("/console/check/register", &register, &[]);
    assert_eq!(again.header("location"), done.header("location"), "pressed twice");
    let records = desk.read("/records");
    assert_eq!(ids(&records["items"]).len(), 2, "{records}");
    expect_members(&records, &json!({ "items/1/verdict": "near_duplicate", "items/1/row/user": "甲" }));
    assert!(clerk.open(done.header("location")).html.contains("已登记"));
}

#[test]
fn a_case_shows_repeats_other_letters_of_the_petitioner_and_related_letters() {
    let desk = TestDesk::with("case", &json!({}));
    let letter =
        |content: &str, user: &str| json!({"title": "反映问题", "content": content, "user": user, "no": "工单7"});
    desk.register("a%2F1", &letter(LAMPS, "甲"));
    desk.register("b", &letter(&format!("{LAMPS}多谢。"), "乙"));
    desk.register("c", &letter(ROADS, "甲"));
    desk.wait_for_search("/search", 3);
    let mut clerk = TestBrowser::new(&desk.server);
    let case = clerk.open("/console/case/case/a%2F1");
    case.has(&["case/b\"", "工单7", "不同人"]);
    assert!(!case.html.contains("case/c\""), "what is no repeat is in another tab");
    clerk.open("/console/case/case/a%2F1?tab=petitioner").has(&["case/c\""]).lacks(&["case/b\""]);
    let linked = clerk.open("/console/case/case/a%2F1?with=c");
    assert!(linked.form("/console/case/decide").contains(&("b".into(), "c".into())), "a link shows what it names");
    clerk.open("/console/case/case/b?tab=related").has(&["a%2F1", "共同的词"]);
    // A record that a person has separated stays on the page where this decision can be undone.
    let form = case.form("/console/case/decide");
    clerk.post("/console/case/decide", &form, &[("judgement", "not_same")]).expect_status(303);
    clerk.open("/console/case/case/a%2F1").has(&["case/b\"", "撤销认定"]);
}

#[test]
fn a_search_marks_what_was_found_and_says_what_is_wrong_with_the_question() {
    let desk = TestDesk::with("find", &json!({}));
    for number in 0..25 {
        desk.register(
            &format!("r{number:02}"),
            &json!({"content": format!("{number}号{LAMPS}"), "time": "2024-03-01 09:30"}),
        );
    }
    desk.wait_for_search("/search", 25);
    let mut clerk = TestBrowser::new(&desk.server);
    let page = clerk.open(&format!("/console/find/search?q={}", encoded("路灯")));
    page.has(&["<mark class=\"found\">路灯</mark>", "共 25 件"]);
    assert!(page.html.contains("2024-03-01 09:30"), "in the collection's zone");
    let next = page.values("href").into_iter().find(|href| href.contains("cursor=")).expect("there is more");
    let rest = clerk.open(&next);
    let mut all = [case_links(&page), case_links(&rest)].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 25);
    clerk.get("/console/find/search?q=a&from=soon").expect_status(422).has(&["信访时间从)", "value=\"soon\""]);
}

fn case_links(page: &crate::browser::PageResponse) -> Vec<String> {
    page.values("href").into_iter().filter(|href| href.contains("/case/")).collect::<Vec<_>>()
}

#[test]
fn a_passage_far_down_a_long_letter_is_one_click_away() {
    let desk = TestDesk::with("far-down", &json!({}));
    let before = "前面说的是另外一件事情，与此无关，只是为了说明来龙去脉。".repeat(20);
    desk.register("a", &json!({"title": "路灯", "content": LAMPS}));
    desk.register("b", &json!({"title": "几件事", "content": format!("{before}{LAMPS}")}));
    let page = TestBrowser::new(&desk.server).open("/console/far-down/case/b?with=a");
    page.has(&["href=\"#mark-ours\""]).lacks(&["href=\"#mark-theirs\""]);
    assert_eq!(
        (page.html.matches("id=\"mark-ours\"").count(), page.html.matches("id=\"mark-theirs\"").count()),
        (1, 1)
    );
    page.has(&[">标题</h3>", ">正文</h3>"]);
}
