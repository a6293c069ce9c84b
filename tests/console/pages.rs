//! Every page links only to the service, contains no inline code, uses the language of the reader, and shows texts without interpreting
//! them.

use crate::browser::{KeyedServer, LAMPS, PageResponse, TestBrowser, encoded};
use crate::support::{TestDesk, TestServer, expect_parts, expect_problem, shared_server};
use serde_json::{Value, json};

/// Registers a letter, a letter that repeats it, a letter of the same petitioner, and a letter that is too short.
fn letters(name: &str) -> TestDesk {
    let desk = TestDesk::with(name, &json!({}));
    desk.register("a", &lamp_letter(LAMPS, "甲"));
    desk.register("b", &lamp_letter(&format!("{LAMPS}请尽快处理。"), "乙"));
    desk.register("c", &lamp_letter("幸福小区门口的垃圾三天没有清运，气味难闻，请派人处理。", "甲"));
    desk.register("d", &json!({"content": "好"}));
    desk.wait_for_search("/search", 4);
    desk
}

fn lamp_letter(content: &str, user: &str) -> Value {
    json!({"title": "路灯不亮", "content": content, "user": user, "time": "2024-03-01 09:30"})
}

fn all_pages(collection: &str) -> Vec<String> {
    let below = [
        "inbox",
        "inbox?show=all&at=d",
        "inbox?show=repeats&since=2024-03-01",
        "inbox?since=never",
        "inbox?show=nothing",
        "inbox?before=%3Cb%3E",
        "inbox?order=uncertain&verdict=near&band=low&unit=x&category=y&from=2024-03-01&to=2024-04-01",
        "batch",
        "batch?kind=above-80",
        "groups/a/merge?original=b",
        "groups/a/merge",
        "check",
        "files",
        "files/no-such",
        "files/no-such/result",
        "search",
        "search?q=%E8%B7%AF%E7%81%AF",
        "search?from=never&q=%E8%B7%AF",
        "case/a",
        "case/b?with=a",
        "case/a?tab=petitioner",
        "case/a?tab=related",
        "case/d",
        "case/nobody",
        "groups",
        "groups?tab=repeat&days=365",
        "groups?days=90&page=2",
        "groups?days=8",
        "groups/a",
        "groups/b?page=9",
        "groups/nobody",
        "groups/a/cut?a=a&b=b",
        "groups/a/cut",
        "groups/a/join",
        "events",
        "events?state=frequent&order=recent&from=2024-03-01&to=2024-04-01&reports=2&days=1",
        "events?reports=1&order=%3Cb%3E&cursor=7",
        "events/a",
        "events/b?page=9",
        "events/nobody",
        "statistics",
        "statistics?days=7",
        "statistics?from=2024-03-01&to=2024-03-31&by=time",
        "statistics?from=%3Cb%3E&to=never",
        "statistics?by=never",
        "report",
        "report?period=month&date=2024-03-01&by=receipt",
        "report?date=%3Cb%3E",
        "work",
        "work/generations/7",
        "quality",
        "quality?duplicate=0.9",
        "quality?duplicate=%3Cb%3E",
    ];
    let below = below.iter().map(|path| format!("/console/{collection}/{path}"));
    [
        "/console",
        "/console/-/people",
        "/console/-/people/nobody",
        "/console/-/me",
        "/console/nowhere/at/all",
        "/console/no-such/inbox",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain(below)
    .collect()
}

#[track_caller]
fn assert_kept_to_itself(page: &PageResponse, path: &str) {
    let policy = page.header("content-security-policy");
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ] {
        assert!(policy.split("; ").any(|found| found == rule), "{path}: {rule} is not in {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        assert_eq!(page.header(name), value, "{path}: {name}");
    }
}

/// Returns the names of the attributes of a tag. They are the parts outside quotes.
fn attributes(tag: &str) -> Vec<String> {
    let outside: String = tag.split('"').step_by(2).collect();
    outside.split_whitespace().skip(1).map(|word| word.trim_end_matches('=').to_ascii_lowercase()).collect()
}

#[track_caller]
fn assert_nothing_inline(page: &PageResponse, path: &str) {
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8", "{path}");
    for script in page.html.split("<script").skip(1) {
        assert!(
            script.starts_with(" src=\"/console/assets/") && script.contains("defer></script>"),
            "{path}: {script}"
        );
    }
    assert!(!page.html.contains("<style") && !page.html.contains("javascript:"), "{path}");
    for tag in page.html.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or_default()) {
        let inline = attributes(tag).into_iter().find(|name| name == "style" || name.starts_with("on"));
        assert_eq!(inline, None, "{path}: <{tag}>");
    }
    for (name, value) in
        ["src", "href", "action"].iter().flat_map(|name| page.values(name).into_iter().map(move |value| (name, value)))
    {
        assert!(value.starts_with("/console") || value == "/docs/", "{path}: {name}={value}");
    }
}

#[track_caller]
fn assert_labelled(page: &PageResponse, path: &str) {
    let ids = page.values("id");
    let labels = page.values("for");
    assert!(labels.iter().all(|label| ids.contains(label)), "{path}: {labels:?} of {ids:?}");
    let mut once = ids.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "{path}: an id stands twice in {ids:?}");
    assert!(page.html.contains("<main id=\"main\"") && page.html.contains("href=\"#main\""), "{path}");
    assert_eq!(page.html.matches("<h1").count(), 1, "{path}");
}

#[test]
fn every_page_keeps_to_itself_in_both_languages_and_holds_nothing_inline() {
    let desk = letters("frame");
    for (accepted, tag) in [("zh-CN,zh;q=0.9", "zh-CN"), ("en-GB", "en")] {
        let mut browser = TestBrowser::new(&desk.server).with("accept-language", accepted);
        for path in all_pages("frame") {
            let page = browser.get(&path);
            assert!(page.html.contains(&format!("<html lang=\"{tag}\">")), "{path}: {}", page.html);
            assert!(matches!(page.status, 200 | 404 | 422), "{path}: {} {}", page.status, page.html);
            assert_kept_to_itself(&page, &path);
            assert_labelled(&page, &path);
            // The link to the content is the only link that is not a path.
            let page = PageResponse { html: page.html.replace("href=\"#main\"", ""), ..page };
            assert_nothing_inline(&page, &path);
        }
    }
}

#[test]
fn the_language_is_chosen_by_the_reader_then_by_the_browser_and_is_chinese_otherwise() {
    let server = shared_server();
    assert!(start_page(&mut TestBrowser::new(&server)).contains("lang=\"zh-CN\">"));
    let mut browser = TestBrowser::new(&server).with("accept-language", "en");
    assert!(start_page(&mut browser).contains("<html lang=\"en\">"));
    let chosen = browser.get("/console?lang=zh-CN&x=1");
    assert_eq!((chosen.status, chosen.header("location")), (303, "/console?x=1"));
    assert!(start_page(&mut browser).contains("<html lang=\"zh-CN\">"), "chosen");
    assert!(chosen.cookies().iter().all(|cookie| cookie.contains("SameSite=Strict")), "{chosen:?}");
}

fn start_page(browser: &mut TestBrowser<'_>) -> String {
    browser.open("/console").html
}

#[test]
fn a_collection_without_texts_shows_ids_times_verdicts_and_the_reason() {
    let desk = TestDesk::with("bare-desk", &json!({"preset": "signatures"}));
    desk.register("bare-1", &letter_by("甲"));
    desk.register("bare-2", &letter_by("乙"));
    let mut browser = TestBrowser::new(&desk.server);
    let why = "不保存信访件正文";
    for path in
        ["inbox?show=all", "case/bare-2", "case/bare-2?tab=petitioner", "case/bare-2?tab=related", "groups/bare-1"]
    {
        let page = browser.get(&format!("/console/bare-desk/{path}"));
        assert_eq!(page.status, 200, "{path}: {}", page.html);
        assert!(page.html.contains("bare-2") || page.html.contains("bare-1"), "{path}: {}", page.html);
        assert!(path == "groups/bare-1" || page.html.contains(why), "{path}: {}", page.html);
        assert!(!page.html.contains("路灯"), "{path}: {}", page.html);
    }
    let case = browser.get("/console/bare-desk/case/bare-2").html;
    assert!(case.contains("case/bare-2?tab=duplicates&#38;with=bare-1"), "what it was found to repeat: {case}");
    assert!(case.contains("2024-03-01 09:30"), "when it was submitted: {case}");
    let checked = browser.get("/console/bare-desk/check").form("/console/bare-desk/check");
    browser.post("/console/bare-desk/check", &checked, &[("paste", LAMPS)]).expect_status(200).has(&["bare-1"]);
}

fn letter_by(user: &str) -> Value {
    json!({"title": "路灯不亮", "content": LAMPS, "user": user, "time": "2024-03-01 09:30"})
}

#[test]
fn text_of_records_is_text_wherever_it_stands() {
    let evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";
    let desk = TestDesk::with(
        "escaping",
        &json!({"fields": [
        {"name": "title", "role": "text"}, {"name": "content", "role": "text"}, {"name": "user", "role": "identity"},
        {"name": "<b onclick=alert(1)>", "role": "whole"}]}),
    );
    let id = "%3Cscript%3Ealert(1)%3C%2Fscript%3E%22'%3E";
    desk.register(id, &evil_row("", evil));
    desk.register("other", &evil_row("请处理", evil));
    desk.wait_for_search("/search", 2);
    let note = json!({"judgement": "same", "by": evil, "note": evil});
    desk.send("PUT", &format!("/decisions/{id}/other"), &note).expect_status(200);
    let mut browser = TestBrowser::new(&desk.server);
    let query = encoded(evil);
    let paths = [
        "inbox?show=all".to_owned(),
        format!("inbox?show=all&since={query}&at={query}"),
        "case/other".into(),
        format!("case/{id}?tab=petitioner"),
        format!("case/{id}?tab=duplicates&with={query}"),
        "case/other?tab=related".into(),
        format!("search?q={query}"),
        "search?q=%E8%B7%AF%E7%81%AF".into(),
        format!("search?identity={query}"),
        format!("search?from={query}&order={query}&verdict={query}"),
    ];
    let mut pages: Vec<PageResponse> =
        paths.iter().map(|path| browser.get(&format!("/console/escaping/{path}"))).collect();
    let odd = browser.get(&format!("/console/escaping/case/{id}?tab={query}"));
    odd.expect_status(422).lacks(&["<img", "<b onclick", "<script>"]);
    let token = pages[0].form("/console/escaping/decide");
    let token: Vec<_> = token.into_iter().filter(|(name, _)| name == "token").collect();
    pages.push(browser.post(
        "/console/escaping/check",
        &token,
        &[("paste", &format!("{LAMPS}{evil}")), ("row.user", evil), ("id", evil)],
    ));
    for page in pages {
        page.has(&["&#60;script&#62;alert(1)"]);
        assert_nothing_inline(
            &PageResponse { html: page.html.replace("href=\"#main\"", ""), ..page.clone() },
            "a page",
        );
        page.lacks(&["<img", "<b onclick", "<script>"]);
    }
}

fn evil_row(more: &str, evil: &str) -> Value {
    json!({"title": evil, "content": format!("{LAMPS}{evil}{more}"), "user": evil, "<b onclick=alert(1)>": evil, "<i>": evil})
}

#[test]
fn in_pages_of_html_what_only_one_shows_is_marked() {
    let desk = TestDesk::with("html-case", &json!({"fields": [{"name": "page", "role": "text", "format": "html"}]}));
    desk.register("a", &json!({"page": format!("<p>{LAMPS}</p>")}));
    desk.register("b", &json!({"page": format!("<h1>转&lt;i&gt;</h1><div>{LAMPS}<!-- 草稿 --></div>")}));
    let page = TestBrowser::new(&desk.server).get("/console/html-case/case/b?with=a").html;
    let different = "<mark class=\"different\" id=\"mark-ours\">转&#60;i</mark>&#62;";
    assert!(page.contains(different) && page.contains(&format!("<p class=\"original\">{LAMPS}</p>")), "{page}");
    assert!(!page.contains("&#60;div") && !page.contains("草稿"), "{page}");
}

#[test]
fn of_two_similar_letters_the_differences_are_marked_and_the_probability_is_explained() {
    let desk = TestDesk::with("differences", &json!({}));
    let letter = |number: &str, end: &str| {
        format!("市民反映北湖路{number}小区门口的路灯已经坏了两个星期，晚上出行很不方便，请有关部门尽快派人维修。{end}")
    };
    desk.register("a", &json!({"title": "路灯不亮", "content": letter("23号", "")}));
    desk.register("b", &json!({"title": "路灯还不亮", "content": letter("25号", "急！")}));
    let chinese = TestBrowser::new(&desk.server).open("/console/differences/case/b?with=a").html;
    for marked in [">25号</mark>", ">23号</mark>", ">急</mark>", ">还</mark>"] {
        assert!(chinese.contains(marked), "{marked}: {chinese}");
    }
    assert_eq!(chinese.matches("<mark").count(), 4, "{chinese}");
    assert!(chinese.contains("标出的是只在一件中的文字") && chinese.contains("判断依据"), "{chinese}");
    assert!(chinese.contains("文字基本相同") && chinese.matches("class=\"step\"").count() > 2, "{chinese}");
    let english = TestBrowser::new(&desk.server).with("accept-language", "en");
    let english = { english }.open("/console/differences/case/b?with=a").html;
    expect_parts(&english, &["Marked: text that only one of the records has"]);
    assert!(english.contains("Before comparing: two records rarely concern one matter"), "{english}");
    desk.register("c", &json!({"title": "路灯不亮", "content": letter("23号", "。")}));
    let copy = TestBrowser::new(&desk.server).open("/console/differences/case/c?with=a").html;
    assert!(copy.contains("两件的文字没有不同") && !copy.contains("<mark"), "{copy}");
}

#[test]
fn the_page_of_a_record_links_to_the_system_of_the_office() {
    let environment = [("DOPPEL_CONSOLE__RECORD_URL", "https://cases.example/{collection}?id={id}")];
    let server = TestServer::start(&environment);
    let row = json!({ "id": "2024/7 甲", "content": LAMPS });
    server.send("POST", "/v1/collections/letters/records", &row).expect_status(201);
    let page = TestBrowser::new(&server).open("/console/letters/case/2024%2F7%20%E7%94%B2");
    let link = "https://cases.example/letters?id=2024%2F7%20%E7%94%B2";
    assert!(page.values("href").contains(&link.to_owned()) && page.html.contains("在业务系统中打开"), "{}", page.html);
}

/// Twelve rows of 900 kB are more than an answer of the API may contain.
#[test]
fn long_rows_do_not_keep_a_page_from_being_shown() {
    let desk = TestDesk::with("long-rows", &json!({}));
    let scan = "x".repeat(900_000);
    for number in 0..12 {
        let content = format!("{LAMPS}这是第{number}次反映。");
        desk.register(
            &number.to_string(),
            &json!({"title": "路灯不亮", "content": content, "user": "甲", "scan": scan}),
        );
    }
    desk.wait_for_search("/search", 12);
    let mut browser = TestBrowser::new(&desk.server);
    for path in
        ["search?q=%E8%B7%AF%E7%81%AF", "case/9", "case/9?tab=petitioner", "case/9?tab=related", "inbox?show=all"]
    {
        let page = browser.open(&format!("/console/long-rows/{path}"));
        assert!(page.html.matches("路灯不亮").count() > 5, "{path}: {}", page.html.len());
    }
    let form = browser.open("/console/long-rows/check").form("/console/long-rows/check");
    let page = browser.post("/console/long-rows/check", &form, &[("paste", LAMPS)]);
    assert!(page.status == 200 && page.html.matches("路灯不亮").count() > 5, "{}", page.status);
}

#[test]
fn files_are_kept_for_ever_under_the_name_of_their_content() {
    let server = shared_server();
    let mut browser = TestBrowser::new(&server);
    let page = browser.open("/console");
    let paths = [page.values("src"), page.values("href")].concat();
    let files: Vec<&String> = paths.iter().filter(|path| path.starts_with("/console/assets/")).collect();
    assert_eq!(files.len(), 4, "{paths:?}");
    for path in files {
        let file = browser.open(path);
        assert_eq!(file.header("cache-control"), "public, max-age=31536000, immutable", "{path}");
        assert_eq!(file.header("x-content-type-options"), "nosniff");
        let hash = path.split('.').nth(1).expect("a hash");
        assert_eq!(browser.get(&path.replace(hash, "0000000000000000")).status, 404, "{path}");
    }
}

#[test]
fn a_browser_is_led_to_the_desk_and_programs_are_not() {
    let server = shared_server();
    let led = TestBrowser::new(&server).with("accept", "text/html,*/*;q=0.8").get("/");
    assert_eq!((led.status, led.header("location")), (303, "/console"));
    assert_eq!(server.get("/").json()["name"], "doppel");
    let first = TestBrowser::new(&server).get("/console/letters");
    assert_eq!((first.status, first.header("location")), (303, "/console/letters/inbox"));
}

#[test]
fn a_service_without_the_desk_has_none_of_its_pages() {
    let server = TestServer::start(&[("DOPPEL_CONSOLE__ENABLED", "false")]);
    for path in ["/console", "/console/sign-in", "/console/letters/inbox"] {
        expect_problem(&server.get(path), 404, "unknown_route");
    }
    let led = TestBrowser::new(&server).with("accept", "text/html").get("/");
    assert_eq!((led.status, led.header("location")), (303, "/docs/"));
}

#[test]
fn an_error_is_a_page_that_says_what_it_is_and_which_request() {
    let desk = letters("errors");
    let mut browser = TestBrowser::new(&desk.server).with("accept-language", "en");
    let gone = browser.get("/console/errors/case/nobody").expect_status(404);
    gone.has(&["There is no such record", gone.header("x-request-id")]);
    let wrong = browser.send("PUT", "/console", None, &[]);
    assert_eq!((wrong.status, wrong.header("content-type")), (405, "text/html; charset=utf-8"));
    let keyed = KeyedServer::start(&[]);
    let mut writer = keyed.signed_in("intake");
    writer.get("/console").expect_status(403).has(&["没有执行此操作的权限", "退出"]);
}

#[test]
fn a_case_shows_how_the_earlier_one_was_handled() {
    let desk = TestDesk::with("handled", &json!({}));
    let order = json!({"content": LAMPS, "诉求类别": "市政", "办理状态": "已办结", "承办单位": "城管局", "答复内容": "三盏灯已<b>修好"});
    desk.register("earlier", &order);
    desk.register("later", &json!({"content": LAMPS}));
    let mut clerk = TestBrowser::new(&desk.server);
    for path in ["case/later", "case/earlier", "inbox"] {
        let page = clerk.open(&format!("/console/handled/{path}")).html;
        for shown in ["分类：市政", "办理状态：已办结", "承办单位：城管局", "答复：</b>三盏灯已&#60;b&#62;修好"]
        {
            assert!(page.contains(shown), "{path}: {shown} is missing in {page}");
        }
    }
    let english = TestBrowser::new(&desk.server).with("accept-language", "en").open("/console/handled/case/later").html;
    expect_parts(&english, &["status: 已办结", "unit: 城管局"]);
}

#[test]
fn a_query_that_a_page_does_not_know_is_refused_with_what_is_allowed() {
    let desk = letters("queries");
    let mut browser = TestBrowser::new(&desk.server).with("accept-language", "en");
    let number = "give a whole number from 1 on";
    for (path, allowed) in [
        ("case/a?tab=x", "give one of duplicates, petitioner, related"),
        ("case/a?with=_", "give the id of a record"),
        ("groups/a?page=0", number),
        ("groups/a?page=-1", number),
        ("groups/a?page=x", number),
        ("groups?page=0", number),
        ("groups?days=8", "give one of 7, 30, 90, 365"),
        ("groups.csv?tab=x", "give one of hot, repeat"),
        ("inbox?page=0", number),
        ("inbox?order=x", "give one of newest, uncertain, probable, time"),
        ("inbox.csv?verdict=x", "give one of exact, near, original, short"),
        ("inbox?before=x", "use its link or form unchanged"),
        ("statistics?by=x", "give one of time, receipt"),
        ("report?period=day", "give one of week, month"),
        ("report.xlsx?date=soon", "give a date such as"),
    ] {
        browser.get(&format!("/console/queries/{path}")).expect_status(422).has(&[allowed]);
    }
    for threshold in ["x", "-1", "2"] {
        browser.get(&format!("/console/queries/quality?duplicate={threshold}")).expect_status(422);
    }
    let chinese = TestBrowser::new(&desk.server).get("/console/queries/groups?days=8");
    chinese.expect_status(422).has(&["可用的值：7, 30, 90, 365"]);
}

#[test]
fn a_collection_can_have_the_name_of_a_page() {
    let keyed = KeyedServer::start(&[]);
    let names = ["sign-in", "sign-out", "assets"];
    for name in names {
        keyed.send("office", "PUT", &format!("/v1/collections/{name}"), &json!({})).expect_status(201);
    }
    let mut clerk = keyed.signed_in("desk");
    for name in names {
        let led = clerk.get(&format!("/console/{name}"));
        assert_eq!((led.status, led.header("location")), (303, &*format!("/console/{name}/inbox")), "{name}");
        for page in ["inbox", "check", "files", "groups"] {
            clerk.open(&format!("/console/{name}/{page}"));
        }
        keyed.send("office", "DELETE", &format!("/v1/collections/{name}"), &json!({})).expect_status(204);
    }
    for name in ["sign-in", "sign-out"] {
        let led = clerk.get(&format!("/console/{name}"));
        assert_eq!((led.status, led.header("location")), (303, "/console"), "without the collection");
    }
}
