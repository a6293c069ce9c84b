//! The desk works with scripts turned off: every action is a plain form.

use crate::letters::{self, COLLECTION, EVERYWHERE, LAMPS_AT_THE_DESK, LAMPS_EARLIER, LAMPS_LATER};
use crate::reading::assert_asked_only;
use crate::support::keyed::KeyedServer;
use crate::tab::{BrowserTab, ViewportSize};
use serde_json::{Value, json};

#[test]
fn all_that_a_clerk_does_is_done_without_scripts() {
    let keyed = KeyedServer::start(&[]);
    letters::fill(&keyed);
    let tab = BrowserTab::open("zh-CN", ViewportSize::WIDE);
    tab.devtools("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    tab.go(&format!("{}/console/{COLLECTION}/inbox", keyed.server.url()));
    tab.fill("#key", keyed.key("desk"));
    tab.press("form button.main");
    tab.sees("待认定的重件");
    assert_eq!(tab.run("return typeof window.htmx", &json!([])), "undefined", "no script ran");

    decides_and_takes_it_back(&tab, &keyed);
    tab.press("//nav[@class='sections']/a[.='检索']");
    tab.fill("#q", EVERYWHERE);
    tab.press("main form button.main");
    tab.sees("共 31 件");
    tab.press_text("下一页");
    tab.sees("回到第一页");

    tab.press("//nav[@class='sections']/a[.='查重']");
    tab.fill("#paste", LAMPS_AT_THE_DESK);
    tab.sees_no("登记此件");
    tab.press("main form button.main");
    tab.sees("重件：已有内容相近的信访件");
    tab.press_text("登记此件");
    tab.sees("已登记");
    let records = keyed.server.send_as(keyed.key("reader"), "GET", "/v1/collections/letters", &Value::Null).json();
    assert_eq!(records["records"], 32);

    tab.press_text("English");
    tab.sees("Sign out");
    tab.press_text("Sign out");
    tab.sees("You are signed out");
    assert_asked_only(&tab, keyed.server.url());
}

fn decides_and_takes_it_back(tab: &BrowserTab, keyed: &KeyedServer) {
    tab.press("button.same");
    tab.sees("已认定为同一事项");
    assert_eq!(judgement_of_lamps(keyed), "same");
    tab.press(".notice button");
    tab.sees("已撤销认定，恢复系统判断");
    assert_eq!(judgement_of_lamps(keyed), "withdrawn");
    tab.go(&format!("{}/console/{COLLECTION}/case/{LAMPS_LATER}", keyed.server.url()));
    tab.fill("#note", "两封信说的是同一段路");
    tab.press("button.not-same");
    tab.sees("两封信说的是同一段路");
    assert_eq!(judgement_of_lamps(keyed), "not_same");
    tab.press("//nav[@class='tabs']/a[.='同人']");
    tab.has(".queue li");
}

fn judgement_of_lamps(keyed: &KeyedServer) -> Value {
    keyed.decision(LAMPS_EARLIER, LAMPS_LATER)["judgement"].clone()
}
