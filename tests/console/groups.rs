//! A clerk works with groups: finds hot issues, looks at the links of a group, divides it, confirms that it is one matter, and undoes this.

use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};

use crate::browser::{KeyedServer, LAMPS, PageResponse, TestBrowser, encoded};
use crate::support::{TestDesk, TestServer, expect_members, expect_parts};

/// Returns a text of Han characters that other subjects do not have.
fn text(subject: u32, length: u32) -> String {
    (0..length).filter_map(|at| char::from_u32(0x4e00 + subject * 500 + at * 7)).collect()
}

/// Returns noon of the day `days` ago.
fn days_ago(days: i64) -> String {
    let then = Timestamp::now() - (24 * days).hours();
    then.strftime("%Y-%m-%d 12:00").to_string()
}

/// Registers a recent matter of three people, a recent matter of one person, and an old matter.
fn matters(name: &str) -> TestDesk {
    let desk = TestDesk::with(name, &json!({}));
    for (id, subject, user, days) in [
        ("hot1", 1, "甲", 40),
        ("hot2", 1, "乙", 3),
        ("hot3", 1, "丙", 2),
        ("hot4", 1, "丁", 2),
        ("own1", 2, "戊", 6),
        ("own2", 2, "戊", 5),
        ("own3", 2, "戊", 4),
        ("old1", 3, "己", 900),
        ("old2", 3, "庚", 900),
    ] {
        let row = json!({"title": format!("事项{subject}"), "content": text(subject, 60), "user": user, "time": days_ago(days)});
        desk.register(id, &row);
    }
    desk
}

/// Registers five copies for each of two subjects, and for each subject a longer letter (`a5` and `b5`). The two longer letters end with
/// the same text.
fn two_crowds(put: impl Fn(&str, &str)) {
    for (crowd, subject) in [("a", 1), ("b", 2)] {
        for at in 0..6 {
            let more = if at == 5 { text(3, 90) } else { String::new() };
            put(&format!("{crowd}{at}"), &(text(subject, 40) + &more));
        }
    }
}

/// Returns the ids of the linked groups, in the order of the page.
fn groups(page: &PageResponse, collection: &str) -> Vec<String> {
    page.links(&format!("/console/{collection}/groups/"))
}

#[test]
fn hot_issues_are_sorted_by_people_in_the_chosen_days() {
    let desk = matters("hot");
    let mut clerk = TestBrowser::new(&desk.server);
    let page = clerk.open("/console/hot/groups?days=30");
    assert_eq!(groups(&page, "hot"), ["hot1", "own1"], "{}", page.html);
    page.has(&["role=\"img\"", "<title>每天件数：0 0"]);
    assert!(page.html.contains("<b>3</b>") && page.html.contains("<b>1</b>"), "people of late");
    let week = clerk.open("/console/hot/groups?days=7").html;
    // After four in the afternoon UTC, the next day has begun in the time zone of the collection.
    assert!([" 1 2 0 0</title>", " 1 2 0 0 0</title>"].iter().any(|trend| week.contains(trend)), "{week}");
    assert_eq!(groups(&clerk.open("/console/hot/groups?days=7&page=2"), "hot"), Vec::<String>::new());
    clerk.open("/console/hot/groups?days=30&page=9").has(&["这段时间里没有"]);
    for odd in ["days=11", "tab=x", "page=-1"] {
        assert_eq!(clerk.get(&format!("/console/hot/groups?{odd}")).status, 422, "{odd} is not offered");
    }
}

#[test]
fn repeat_petitioners_are_named_with_their_matters() {
    let desk = matters("again");
    let mut clerk = TestBrowser::new(&desk.server);
    let page = clerk.open("/console/again/groups?tab=repeat&days=30");
    assert_eq!(groups(&page, "again"), ["own1"]);
    page.has(&[">戊</a>"]).lacks(&[">甲</a>"]);
    assert!(page.values("href").contains(&format!("/console/again/search?identity={}", encoded("戊"))));
    let english = TestBrowser::new(&desk.server).with("accept-language", "en").open("/console/again/groups?tab=repeat");
    english.has(&["Repeat petitioners", "戊"]);
}

#[test]
fn a_group_shows_its_members_its_people_and_the_links_that_hold_it() {
    let desk = TestDesk::with("held", &json!({}));
    two_crowds(|id, content| {
        desk.register(id, &json!({"content": content, "user": &id[..1], "time": "2024-03-01 09:30"}));
    });
    let mut clerk = TestBrowser::new(&desk.server);
    let page = clerk.open("/console/held/groups/a3");
    page.has(&["6 件，1 人", "与另一组的唯一联系"]);
    for id in ["a0", "a1", "a2", "a3", "a4", "a5"] {
        let links = page.values("href").into_iter().filter(|href| *href == format!("/console/held/case/{id}"));
        assert!(links.count() >= 3, "{id}: on the line, in the graph and in the list");
    }
    assert!(
        page.values("href").contains(&"/console/held/groups/a0/cut?a=a5&b=b5".to_owned()),
        "{:?}",
        page.values("href")
    );
    assert!(page.values("href").contains(&"/console/held/case/a5?with=b5".to_owned()));
    desk.ask("PUT", "/decisions/a5/b5", &json!({"judgement": "same"}));
    let joined = clerk.open("/console/held/groups/b1");
    joined.has(&["12 件，2 人", "唯一联系"]);
    assert!(joined.html.contains("class=\"weak\""), "drawn apart");
    clerk.get("/console/held/groups/nobody").expect_status(404);
    desk.register("lone", &json!({"content": LAMPS}));
    let alone = clerk.get("/console/held/groups/lone");
    assert_eq!((alone.status, alone.header("location")), (303, "/console/held/case/lone"));
}

#[test]
fn a_group_of_many_is_shown_in_pages_and_not_called_one_matter_at_once() {
    let desk = TestDesk::with("many", &json!({}));
    for number in 0..120 {
        desk.register(&format!("r{number:03}"), &json!({"content": LAMPS, "user": format!("甲{number}")}));
    }
    let mut clerk = TestBrowser::new(&desk.server);
    let page = clerk.open("/console/many/groups/r007");
    page.has(&["第 1 至 100 件，共 120 件", "画出 120 件中的 80 件"]);
    page.has(&["另有 100 项", "最多 30 件"]);
    clerk.open("/console/many/groups/r000?page=2").has(&["第 101 至 120 件", ">r119<", "rel=\"prev\""]);
    let refused = clerk.get("/console/many/groups/r000/join").expect_status(409);
    refused.has(&["这一组件数过多", "一次最多把 30 件认定为同一事项"]);
    let file = clerk.open("/console/many/groups/r000/members.csv");
    assert_eq!(file.html.lines().count(), 121, "all of them in a file");
}

/// Returns the decisions of a collection from the API: each pair with its judgement.
fn decided(server: &TestServer, key: &str) -> Vec<(String, String)> {
    let answer = server.get_as(key, "/v1/collections/letters/decisions?limit=1000").json();
    let items = answer["items"].as_array().expect("items").iter();
    items
        .map(|item| (format!("{} {}", text_value(&item["a"]), text_value(&item["b"])), text_value(&item["judgement"])))
        .collect()
}

fn text_value(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn size_of_group(keyed: &KeyedServer, id: &str) -> Value {
    let path = format!("/v1/collections/letters/groups/{id}");
    keyed.get("reader", &path).json()["size"].clone()
}

#[test]
fn a_cut_is_shown_first_then_made_under_the_name_of_the_key_and_taken_back() {
    let keyed = KeyedServer::start(&[]);
    two_crowds(|id, content| keyed.put(id, content));
    let same = json!({"judgement": "same", "by": "前任"});
    keyed.send("intake", "PUT", "/v1/collections/letters/decisions/a5/b5", &same);
    assert_eq!(size_of_group(&keyed, "b0"), 12);
    let mut clerk = keyed.signed_in("desk");
    let path = "/console/letters/groups/a0/cut";
    let shown = clerk.open(&format!("{path}?a=a5&b=b5"));
    assert!(shown.html.contains("尚未作任何改动") && shown.html.matches("一组，6 件").count() == 2, "{}", shown.html);
    for id in ["a0", "a5", "b0", "b5"] {
        assert!(shown.html.contains(&format!("/case/{id}\"")), "{id} is named");
    }
    assert_eq!(
        decided(&keyed.server, keyed.key("reader")),
        [("a5 b5".into(), "same".into())],
        "a preview changes nothing"
    );

    keyed.put("z0", "一封谁也不像的来信,说的是另一件事情,与前面各件都没有关系");
    clerk.get(&format!("{path}?a=z0&b=z1")).expect_status(422);
    clerk.get(&format!("{path}?a=z0&b=a1")).expect_status(422);

    let done = clerk.post(path, &shown.form(path), &[("note", "两处不同")]);
    assert_eq!((done.status, done.header("location")), (303, "/console/letters/groups/a0"), "{}", done.html);
    let decision = keyed.decision("a5", "b5");
    expect_members(
        &decision,
        &json!({ "judgement": "not_same", "history/1/by": "desk", "history/1/note": "两处不同" }),
    );
    assert_eq!((size_of_group(&keyed, "a0"), size_of_group(&keyed, "b0")), (json!(6), json!(6)));

    let after = clerk.open("/console/letters/groups/a0");
    after.has(&["已作出 1 条认定"]);
    let form = after.form("/console/letters/undo");
    clerk.post("/console/letters/undo", &form, &[]).expect_status(303);
    assert_eq!(keyed.decision("a5", "b5")["judgement"], "same", "what held before holds again");
    assert_eq!(size_of_group(&keyed, "a0"), 12);
    assert!(clerk.open("/console/letters/groups/a0").html.contains("已撤销 1 条认定"));
    assert_eq!(clerk.post("/console/letters/undo", &form, &[]).status, 409, "once");
}

#[test]
fn a_whole_group_is_confirmed_pair_by_pair_and_undone_except_for_later_decisions_of_others() {
    let keyed = KeyedServer::with(&["a", "b", "c", "d"]);
    let mut clerk = keyed.signed_in("desk");
    let path = "/console/letters/groups/a/join";
    let shown = clerk.open("/console/letters/groups/c/join");
    shown.has(&["将作出 6 条认定：同一事项", "一组，4 件"]);
    assert_eq!(decided(&keyed.server, keyed.key("reader")), []);
    clerk.post(path, &shown.form(path), &[]).expect_status(303);
    let all = decided(&keyed.server, keyed.key("reader"));
    let pairs: Vec<&str> = all.iter().map(|(pair, _)| pair.as_str()).collect();
    assert_eq!(pairs, ["a b", "a c", "a d", "b c", "b d", "c d"]);
    assert!(all.iter().all(|(_, judgement)| judgement == "same"));
    let nothing = clerk.open(path);
    assert!(nothing.html.contains("已经这样认定过了") && !nothing.has_form(path), "{}", nothing.html);

    let undo = clerk.open("/console/letters/groups/a");
    // The notice appears only once, and the previous page has shown it.
    assert!(!undo.has_form("/console/letters/undo"));
    let shown = {
        let other = json!({"judgement": "not_same", "by": "他人"});
        keyed.send("intake", "PUT", "/v1/collections/letters/decisions/a/b", &other);
        clerk.open(path)
    };
    assert!(
        shown.html.contains("不能整组认定") && shown.html.contains("case/a?with=b") && !shown.has_form(path),
        "{}",
        shown.html
    );
}

#[test]
fn taking_back_leaves_what_somebody_else_decided_since() {
    let keyed = KeyedServer::with(&["a", "b", "c"]);
    let mut clerk = keyed.signed_in("desk");
    let path = "/console/letters/groups/a/join";
    let form = clerk.open(path).form(path);
    clerk.post(path, &form, &[]).expect_status(303);
    let undo = clerk.open("/console/letters/groups/a").form("/console/letters/undo");
    let other = json!({"judgement": "not_same", "by": "他人"});
    keyed.send("intake", "PUT", "/v1/collections/letters/decisions/a/b", &other);
    clerk.post("/console/letters/undo", &undo, &[]).expect_status(303);
    expect_parts(&clerk.open("/console/letters/groups/a").html, &["3 条认定中撤销了 2 条"]);
    let all = decided(&keyed.server, keyed.key("reader"));
    let held: Vec<&str> = all.iter().map(|(_, judgement)| judgement.as_str()).collect();
    assert_eq!(held, ["not_same", "withdrawn", "withdrawn"]);
}

#[test]
fn a_change_after_the_preview_is_shown_and_nothing_is_done() {
    let keyed = KeyedServer::with(&["a", "b", "c"]);
    let mut clerk = keyed.signed_in("desk");
    let path = "/console/letters/groups/a/join";
    let form = clerk.open(path).form(path);
    keyed.put("d", LAMPS);
    let told = clerk.post(path, &form, &[]).expect_status(409);
    told.has(&["没有执行", "将作出 6 条认定"]);
    assert_eq!(decided(&keyed.server, keyed.key("reader")), []);
    assert_eq!(clerk.post(path, &told.form(path), &[]).status, 303, "having seen it, they may");
    let cut = "/console/letters/groups/a/cut";
    clerk.get(&format!("{cut}?a=a&b=a")).expect_status(422);
    clerk.get(cut).expect_status(422);
}

#[test]
fn a_reader_is_offered_and_allowed_no_change_of_a_group() {
    let keyed = KeyedServer::with(&["a", "b"]);
    let mut reader = keyed.signed_in("reader");
    let token = reader.open("/console").form("/console/sign-out");
    reader.open("/console/letters/groups/a").lacks(&["/cut?", "/join\""]);
    let paths = ["groups/a/cut?a=a&b=b", "groups/a/join"];
    for path in paths {
        assert_eq!(reader.get(&format!("/console/letters/{path}")).status, 403, "{path}");
    }
    for path in ["groups/a/cut", "groups/a/join", "undo"] {
        let refused = reader.post(&format!("/console/letters/{path}"), &token, &[("a", "a"), ("b", "b")]);
        assert_eq!(refused.status, 403, "{path}");
        refused.has(&["没有执行此操作的权限"]);
        let mut clerk = keyed.signed_in("desk");
        assert_eq!(
            clerk.post(&format!("/console/letters/{path}"), &[], &[("a", "a"), ("b", "b")]).status,
            403,
            "no token"
        );
    }
    assert_eq!(decided(&keyed.server, keyed.key("reader")), []);
    let mut writer = keyed.signed_in("intake");
    for path in ["groups", "groups.csv", "groups/a", "groups/a/members.csv", "statistics", "report", "report.xlsx"] {
        let refused = writer.get(&format!("/console/letters/{path}"));
        assert!(refused.status == 403 && !refused.html.contains("河口"), "{path}: {}", refused.html);
    }
}

#[test]
fn files_open_in_a_spreadsheet_and_hold_no_formula() {
    let desk = TestDesk::with("files", &json!({}));
    desk.register("=1%2B1", &letter_of_today("=HYPERLINK(\"//evil.cn\",\"点这里\")", "@甲"));
    desk.register("b", &letter_of_today("+路灯,坏了", "@甲"));
    let mut clerk = TestBrowser::new(&desk.server);
    let file = clerk.open("/console/files/groups/b/members.csv");
    assert_eq!(file.header("content-type"), "text/csv; charset=utf-8");
    assert_eq!(file.header("content-disposition"), "attachment; filename=\"files-group.csv\"");
    assert_eq!(file.header("cache-control"), "no-store");
    let lines: Vec<&str> = file.html.split("\r\n").collect();
    assert_eq!(
        lines[0],
        "\u{feff}编号,初/重,关联件,标题,信访人,信访时间,分类,办理状态,承办单位,收件时间,初次日期,组号"
    );
    assert!(
        lines[1].starts_with("'=1+1,初件,,\"'=HYPERLINK(\"\"//evil.cn\"\",\"\"点这里\"\")\",'@甲,"),
        "{}",
        lines[1]
    );
    assert!(lines[2].starts_with("b,重件") && lines[2].contains(",'=1+1,\"'+路灯,坏了\",'@甲,"), "{}", lines[2]);
    let first = &days_ago(1)[..10];
    assert!(lines[2].ends_with(&format!(",{first},'=1+1")), "{}", lines[2]);
    let list = clerk.open("/console/files/groups.csv?tab=repeat&days=7");
    assert_eq!(list.header("content-disposition"), "attachment; filename=\"files-repeat-7.csv\"");
    list.has(&["\r\n'@甲,2,2,1,'=1+1,"]);
    let mut english = TestBrowser::new(&desk.server).with("accept-language", "en");
    let hot = english.open("/console/files/groups.csv");
    assert!(hot.html.starts_with("\u{feff}Group,Title,") && hot.html.contains("\r\n'=1+1,"), "{}", hot.html);
}

#[test]
fn the_inbox_and_a_search_can_be_exported_as_they_are_shown() {
    let desk = TestDesk::with("lists", &json!({}));
    for (id, title, user) in [("a", "路灯不亮", "甲"), ("b", "路灯还是不亮", "=乙"), ("c", "路灯", "丙")]
    {
        desk.register(id, &json!({"title": title, "content": LAMPS, "user": user, "time": "2026-03-01"}));
    }
    desk.register("d", &json!({"title": "停车", "content": "小区门口的停车位不够，早晚高峰堵车很久。", "user": "丁"}));
    let mut clerk = TestBrowser::new(&desk.server);
    let inbox = clerk.open("/console/lists/inbox").values("href");
    let file = inbox.iter().find(|href| href.contains("inbox.csv")).expect("a link to the file");
    let exported = clerk.open(&file.replace("&#38;", "&"));
    assert_eq!(exported.header("content-disposition"), "attachment; filename=\"lists-inbox.csv\"");
    let lines: Vec<&str> = exported.html.trim_end().split("\r\n").collect();
    assert!(
        lines[0].ends_with("编号,初/重,关联件,标题,信访人,信访时间,分类,办理状态,承办单位,收件时间,概率"),
        "{}",
        lines[0]
    );
    let firsts: Vec<&str> = lines[1..].iter().map(|line| &line[..1]).collect();
    assert_eq!(firsts, ["c", "b"], "the repeats, the latest first");
    assert!(lines[2].contains(",a,路灯还是不亮,'=乙,2026-03-01"), "{}", lines[2]);
    desk.wait_for_search("/search", 4);
    let page = clerk.open(&format!("/console/lists/search?q={}", encoded("路灯")));
    let file = page.values("href").into_iter().find(|href| href.contains("search.csv")).expect("a link to the file");
    let exported = clerk.open(&file.replace("&#38;", "&"));
    assert_eq!(exported.html.trim_end().split("\r\n").count(), 4, "{}", exported.html);
    exported.lacks(&["停车"]);
}

#[test]
fn a_file_has_more_records_than_are_read_at_once() {
    let desk = TestDesk::with("long-lists", &json!({}));
    let rows: String =
        (0..230).map(|number| json!({"id": number.to_string(), "content": LAMPS}).to_string() + "\n").collect();
    let path = "/v1/collections/long-lists/records/_bulk";
    desk.server.send_text("POST", path, "application/x-ndjson", &rows).expect_status(200);
    desk.wait_for_search("/search", 230);
    let mut clerk = TestBrowser::new(&desk.server);
    let inbox = clerk.open("/console/long-lists/inbox.csv");
    assert_eq!(inbox.html.trim_end().split("\r\n").count(), 1 + 229, "the first record is no repeat");
    let found = clerk.open("/console/long-lists/search.csv?q=");
    let lines: std::collections::HashSet<&str> = found.html.trim_end().split("\r\n").collect();
    assert_eq!(lines.len(), 1 + 230);
    clerk.get("/console/long-lists/search.csv?unknown=1").expect_status(422);
}

fn letter_of_today(title: &str, user: &str) -> Value {
    json!({"title": title, "content": LAMPS, "user": user, "time": days_ago(1)})
}

#[test]
fn statistics_count_what_came_in_by_day_and_verdict() {
    let desk = TestDesk::with("counted", &json!({}));
    for (id, content) in [("a", LAMPS), ("b", LAMPS), ("c", LAMPS), ("d", "好")] {
        desk.register(id, &json!({ "content": content }));
    }
    let mut clerk = TestBrowser::new(&desk.server);
    let page = clerk.open("/console/counted/statistics?days=7");
    page.has(&["<title>每日来件: 初件 1, 重件（内容相近） 0, 重件（全文相同） 2, 文字过短 1</title>"]);
    let numbers = ["1", "0", "2", "1", "4", "50%"].map(|number| format!("<td class=\"number\">{number}</td>")).concat();
    assert_eq!(page.html.matches(&numbers).count(), 2, "the day and the sum: {}", page.html);
    assert_eq!(page.html.matches("class=\"day\"").count(), 7);
    let empty = TestDesk::with("empty", &json!({}));
    TestBrowser::new(&empty.server).open("/console/empty/statistics").has(&["这段时间里没有来件"]);
}

#[test]
fn a_search_says_which_parts_of_the_question_it_left_out() {
    let desk = TestDesk::with("ignored", &json!({}));
    desk.register("a", &json!({ "content": LAMPS }));
    desk.wait_for_search("/search", 1);
    let mut clerk = TestBrowser::new(&desk.server);
    let page = clerk.open(&format!("/console/ignored/search?q={}", encoded("路灯 <> ？？")));
    page.has(&["未参加检索", "：&#60;&#62;、??</p>"]);
    let plain = clerk.open(&format!("/console/ignored/search?q={}", encoded("路灯"))).html;
    assert!(!plain.contains("未参加检索"), "{plain}");
    let english =
        TestBrowser::new(&desk.server).with("accept-language", "en").open("/console/ignored/search?q=%3F%3F%20a");
    english.has(&["Ignored, because"]);
}

#[test]
fn the_original_of_a_group_is_the_earliest_by_its_own_time() {
    let desk = TestDesk::with("dated", &json!({}));
    for (id, time) in [("new", "2025-03-05"), ("old", "2025-03-01"), ("middle", "2025-03-03")] {
        desk.register(id, &json!({"content": LAMPS, "time": time}));
    }
    let groups = desk.read("/groups");
    expect_members(&groups, &json!({ "items/0/id": "new", "items/0/original": "old" }));
    let mut clerk = TestBrowser::new(&desk.server);
    let file = clerk.open("/console/dated/groups/new/members.csv").html;
    let lines: Vec<Vec<&str>> = file.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let said: Vec<[&str; 4]> = lines.iter().map(|line| [line[0], line[1], line[2], line[10]]).collect();
    let repeat = "重件（全文相同）";
    let near = "重件（内容相近）";
    assert_eq!(
        said,
        [
            ["new", near, "old", "2025-03-01"],
            ["old", "初件", "", "2025-03-01"],
            ["middle", repeat, "old", "2025-03-01"]
        ]
    );
    let page = clerk.open("/console/dated/groups/new");
    assert!(page.html.contains("登记时：初件"), "the verdict of the registration stays visible: {}", page.html);
}
