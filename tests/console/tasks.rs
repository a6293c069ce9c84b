//! The pages for tasks and quality: their content, the permissions that they need, and the effects of their actions.

use crate::browser::{KeyedServer, LAMPS, PageResponse, TestBrowser};
use crate::support::{awaited, has_ended};
use serde_json::{Value, json};

const WORK: &str = "/console/letters/work";
const QUALITY: &str = "/console/letters/quality";

fn fill(keyed: &KeyedServer) {
    keyed.put("a", LAMPS);
    keyed.put("b", LAMPS);
    keyed.put("c", &format!("{LAMPS}另外，学校门口的人行道上停满了车，孩子只能走在马路中间，也请有关部门管一管。"));
    keyed.put("d", "幸福小区门口的垃圾三天没有清运，气味难闻，请派人处理。");
}

fn ask(keyed: &KeyedServer, method: &str, path: &str, body: &Value) -> Value {
    let answer = keyed.send("office", method, path, body);
    assert!(answer.status < 300, "{path}: {}", answer.text);
    answer.json()
}

fn decide(keyed: &KeyedServer, a: &str, b: &str, judgement: &str, note: &str) {
    let said = json!({"judgement": judgement, "note": note, "by": "<b>"});
    ask(keyed, "PUT", &format!("/v1/collections/letters/decisions/{a}/{b}"), &said);
}

/// Waits until no task runs.
#[track_caller]
fn idle(keyed: &KeyedServer) {
    awaited(
        "the end of all tasks",
        || ask(keyed, "GET", "/v1/tasks", &Value::Null),
        |tasks| tasks["items"].as_array().expect("a list").iter().all(has_ended),
    );
}

fn standing(keyed: &KeyedServer) -> Vec<(u64, String)> {
    let list = ask(keyed, "GET", "/v1/collections/letters/generations", &Value::Null);
    list["items"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one: &Value| {
            (one["generation"].as_u64().expect("a number"), one["status"].as_str().expect("a text").to_owned())
        })
        .collect()
}

/// Sends a form of the page. Returns the page that follows.
fn press(browser: &mut TestBrowser<'_>, page: &PageResponse, action: &str) -> PageResponse {
    let sent = browser.post(action, &page.form(action), &[]);
    assert_eq!((sent.status, sent.header("location")), (303, WORK), "{}", sent.html);
    browser.open(WORK)
}

#[test]
fn an_administrator_rebuilds_goes_back_discards_and_cancels() {
    let keyed = KeyedServer::start(&[]);
    fill(&keyed);
    let mut office = keyed.signed_in("office");
    let first = office.open(WORK);
    first.has(&["目前没有正在进行的任务"]).lacks(&["hx-get"]);
    press(&mut office, &first, &format!("{WORK}/rebuild")).has(&["已开始重建索引"]);
    idle(&keyed);
    let rebuilt = office.open(WORK);
    rebuilt.has(&["重建索引", "件数 4"]);
    assert_eq!(standing(&keyed), [(1, "ready".to_owned()), (2, "live".to_owned())]);
    press(&mut office, &rebuilt, &format!("{WORK}/generations/1/activate")).has(&["正在切换到此版本"]);
    idle(&keyed);
    assert_eq!(standing(&keyed), [(1, "live".to_owned()), (2, "ready".to_owned())]);
    let back = office.open(WORK);
    press(&mut office, &back, &format!("{WORK}/generations/2/discard")).has(&["版本 2 已删除"]);
    assert_eq!(standing(&keyed), [(1, "live".to_owned())]);
    // The form comes from a page that was opened earlier: nothing happens, and the desk reports this.
    press(&mut office, &back, &format!("{WORK}/generations/2/discard")).has(&["没有执行：它已不存在"]);

    let slow = json!({"collection": "letters", "records_per_second": 1});
    let task = ask(&keyed, "POST", "/v1/admin/reindex", &slow);
    let cancel = format!("{WORK}/tasks/{}/cancel", task["id"].as_str().expect("an id"));
    let running = office.open(WORK);
    running.has(&["hx-trigger=\"every 2s\"", "<progress"]);
    assert!(!running.has_form(&format!("{WORK}/rebuild")), "one task at a time");
    let part = office.open(&format!("{WORK}/now"));
    assert!(!part.html.contains("<html") && part.html.contains("id=\"now\"") && part.header("hx-refresh").is_empty());
    let told = press(&mut office, &running, &cancel);
    assert!(told.html.contains("已通知任务停止") || told.html.contains("任务已取消"), "{}", told.html);
    idle(&keyed);
    let part = office.open(&format!("{WORK}/now"));
    assert_eq!(part.header("hx-refresh"), "true", "the page is loaded anew, once");
    part.lacks(&["hx-get"]);
    assert!(office.open(WORK).html.contains("已取消"));
    press(&mut office, &running, &cancel).has(&["任务早已结束"]);
    assert_eq!(standing(&keyed), [(1, "live".to_owned())]);
}

#[test]
fn only_an_administrator_can_change_tasks_and_quality() {
    let keyed = KeyedServer::start(&[]);
    fill(&keyed);
    ask(&keyed, "POST", "/v1/admin/reindex", &json!({"collection": "letters", "activate": false}));
    idle(&keyed);
    let slow = json!({"collection": "letters", "activate": false, "records_per_second": 1});
    let task = ask(&keyed, "POST", "/v1/admin/reindex", &slow);
    let cancel = format!("{WORK}/tasks/{}/cancel", task["id"].as_str().expect("an id"));
    let activate = format!("{WORK}/generations/2/activate");
    let discard = format!("{WORK}/generations/2/discard");
    let rebuild = format!("{WORK}/rebuild");
    let try_out = format!("{QUALITY}/try");
    let tried = format!("{QUALITY}?duplicate=0.9");
    for name in ["reader", "desk"] {
        let mut browser = keyed.signed_in(name);
        let start = browser.open("/console/letters/inbox");
        let may_lead = name == "desk";
        for (path, is_shown) in [(WORK, false), (QUALITY, may_lead)] {
            assert_eq!(start.html.contains(&format!("href=\"{path}\"")), is_shown, "{name}: {path}");
            assert_eq!(browser.get(path).status, if is_shown { 200 } else { 403 }, "{name}: {path}");
        }
        browser.get(&format!("{WORK}/now")).expect_status(403);
        let quality = browser.get(&tried);
        let token = start.form("/console/sign-out");
        for action in [&cancel, &activate, &discard, &rebuild, &try_out] {
            assert!(!quality.has_form(action), "{name}: {action}");
            assert_eq!(browser.post(action, &token, &[("duplicate", "1")]).status, 403, "{name}: {action}");
        }
    }
    let kept = standing(&keyed);
    assert!(kept.contains(&(1, "live".to_owned())) && kept.contains(&(2, "ready".to_owned())), "{kept:?}");
    let now = ask(&keyed, "GET", &format!("/v1/tasks/{}", task["id"].as_str().expect("an id")), &Value::Null);
    assert_eq!(now["cancel_requested"], false);
    let mut writer = keyed.signed_in("intake");
    for path in [WORK, QUALITY, &format!("{WORK}/now"), &format!("{WORK}/generations/2")] {
        assert_eq!(writer.get(path).status, 403, "{path}");
    }
    // A form of the page of this collection cannot cancel a task of another collection.
    ask(&keyed, "PUT", "/v1/collections/others", &json!({}));
    let mut office = keyed.signed_in("office");
    let form = office.open(WORK).form(&cancel);
    office.post(&cancel.replace("/letters/", "/others/"), &form, &[]).expect_status(303);
    assert!(office.open("/console/others/work").html.contains("没有执行"));
}

#[test]
fn decisions_are_set_against_what_was_found_and_other_thresholds_do_what_was_said() {
    let keyed = KeyedServer::start(&[]);
    fill(&keyed);
    let mut office = keyed.signed_in("office");
    assert!(office.open(QUALITY).html.contains("还没有人工认定"));
    let evil = "<script>alert(1)</script>";
    decide(&keyed, "a", "b", "same", evil);
    decide(&keyed, "a", "d", "same", evil);
    let page = office.open(QUALITY);
    for said in [
        "有 1 对经人工认定，1 对确为同一事项",
        "每找到 100 对，约有 100 对是对的",
        "在 100 对中的 21 到 100 对之间",
        "有 1 对经人工认定为同一事项，系统却没有找到",
        "每 100 对同一事项中，系统至多找到 50 对",
    ] {
        assert!(page.html.contains(said), "{said}: {}", page.html);
    }
    page.lacks(&["alert(1)", "<b>\""]);
    assert!(!page.has_form(&format!("{QUALITY}/try")), "nothing was tried yet");
    office
        .get(&format!("{QUALITY}?duplicate=%22%3E%3Cscript%3E"))
        .expect_status(422)
        .has(&["所填的数不在范围内"])
        .lacks(&["\"><script>"]);

    // The longest letter contains all others, so that only the condition on the least evidence refuses it.
    let tried = office.open(&format!("{QUALITY}?duplicate=1"));
    tried.has(&["系统找到的 3 对（不论是否认定）中，2 对会不再算重件"]);
    tried.has(&["/console/letters/case/c?with=a"]);
    assert_eq!(standing(&keyed).len(), 1, "looking changes nothing");
    press(&mut office, &tried, &format!("{QUALITY}/try")).has(&["正在按这些要求另建一个版本"]);
    idle(&keyed);
    assert_eq!(standing(&keyed), [(1, "live".to_owned()), (2, "ready".to_owned())]);
    let compared = ask(&keyed, "GET", "/v1/collections/letters/generations/2/compare", &Value::Null);
    assert_eq!((&compared["lost"], &compared["gained"]), (&json!(2), &json!(0)), "as was said: {compared}");
    let compared = office.open(&format!("{WORK}/generations/2"));
    compared.has(&["只有使用中的版本找到的对: 2"]);
    compared.has(&["/console/letters/case/c?with=b"]);
}
