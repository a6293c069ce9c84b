//! The desk works without a mouse: the keyboard reaches every control, the focus is visible, and one key makes a decision.

use crate::letters::{self, COLLECTION, LAMPS_EARLIER, LAMPS_LATER, PAGES};
use crate::reading::assert_kept_to;
use crate::support::keyed::KeyedServer;
use crate::tab::{BrowserTab, ENTER, TAB, ViewportSize};
use serde_json::{Value, json};

/// An upper bound for the number of controls on any page here.
const MOST_STEPS: usize = 120;

/// Signs in with the keyboard only: the field has the focus, the key is typed, and Enter submits.
fn signed_in(keyed: &KeyedServer, size: ViewportSize) -> BrowserTab {
    let tab = BrowserTab::open("zh-CN", size);
    tab.go(&format!("{}/console/{COLLECTION}/inbox", keyed.server.url()));
    tab.until("the field", || (focused(&tab)["id"] == "key").then_some(()));
    tab.keys(keyed.key("desk"));
    tab.keys(ENTER);
    tab.sees("待认定的重件");
    tab
}

/// Returns the element with the focus and the style of its focus.
fn focused(tab: &BrowserTab) -> Value {
    let script = "const e = document.activeElement; const style = getComputedStyle(e); const box = e.getBoundingClientRect();\
        return {id: e.id, tag: e.tagName, text: e.textContent.trim(), key: e.dataset.key ?? '', number: e.dataset.number ?? '',\
          outline: style.outlineStyle, width: parseFloat(style.outlineWidth),\
          seen: box.width > 0 && box.right > 0 && box.bottom > 0 && box.top < innerHeight && box.left < innerWidth};";
    tab.run(script, &json!([]))
}

/// Numbers all visible controls of the page, and returns their number. A link in a picture is left out if the same link follows below.
fn numbered(tab: &BrowserTab) -> usize {
    let script = "const all = [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary')]\
        .filter(e => e.checkVisibility() && e.getClientRects().length > 0)\
        .filter((e, at, all) => e.tabIndex >= 0 || !all.some(o => o.tabIndex >= 0 && o.getAttribute('href') === e.getAttribute('href')));\
        all.forEach((e, number) => { e.dataset.number = number; }); document.activeElement.blur();\
        getSelection().removeAllRanges(); window.scrollTo(0, 0); return all.length;";
    let count = tab.run(script, &json!([]));
    usize::try_from(count.as_u64().expect("a number")).expect("few")
}

/// Moves through the whole page with the Tab key.
fn goes_around(tab: &BrowserTab) {
    tab.painted();
    let count = numbered(tab);
    let mut reached = vec![false; count];
    for _ in 0..MOST_STEPS {
        tab.keys(TAB);
        let at = focused(tab);
        let Some(number) = at["number"].as_str().and_then(|number| number.parse::<usize>().ok()) else { continue };
        assert!(at["outline"] != "none" && at["width"].as_f64() >= Some(2.0) && at["seen"] == true, "not seen: {at}");
        reached[number] = true;
        if reached.iter().all(|one| *one) {
            return;
        }
    }
    let missed: Vec<usize> = (0..count).filter(|number| !reached[*number]).collect();
    panic!("{missed:?} of {count} were never reached at {}", tab.url());
}

/// Presses Tab until `is_it` is true for the element with the focus.
#[track_caller]
fn goes_to(tab: &BrowserTab, what: &str, is_it: impl Fn(&Value) -> bool) {
    for _ in 0..MOST_STEPS {
        tab.keys(TAB);
        if is_it(&focused(tab)) {
            return;
        }
    }
    panic!("{what} was never reached at {}", tab.url());
}

#[track_caller]
fn heading(tab: &BrowserTab, text: &str) {
    tab.until(text, || tab.text_of(".work .heading").contains(text).then_some(()));
}

#[test]
fn everything_that_can_be_pressed_is_reached_with_tab_and_seen_to_be() {
    let keyed = KeyedServer::start(&[]);
    letters::fill(&keyed);
    for size in [ViewportSize::WIDE, ViewportSize::NARROW] {
        let tab = signed_in(&keyed, size);
        let found = ("found", "search?q=%E8%B7%AF%E7%81%AF");
        for (_, path) in PAGES.into_iter().chain([found]) {
            tab.go(&format!("{}/console/{COLLECTION}/{path}", keyed.server.url()));
            goes_around(&tab);
        }
        // The first link of every page skips the header.
        tab.go(&format!("{}/console", keyed.server.url()));
        tab.painted();
        tab.keys(TAB);
        let first = focused(&tab);
        assert_eq!(first["text"], "跳到正文", "{first}");
        tab.keys(ENTER);
        tab.until("the content", || (focused(&tab)["id"] == "main").then_some(()));
        goes_to(&tab, "the collection", |at| at["text"] == COLLECTION);
        tab.keys(ENTER);
        tab.has(".queue");
        assert_kept_to(&tab, keyed.server.url());
    }
}

#[test]
fn the_inbox_and_a_case_can_be_worked_through_with_single_keys() {
    let keyed = KeyedServer::start(&[]);
    letters::fill(&keyed);
    let tab = signed_in(&keyed, ViewportSize::WIDE);
    heading(&tab, "三号路的路灯什么时候能修");
    tab.keys("j");
    heading(&tab, "铁锈味");
    tab.keys("k");
    heading(&tab, "三号路的路灯什么时候能修");
    tab.keys("j");
    heading(&tab, "铁锈味");
    tab.keys("s");
    tab.sees("已认定为同一事项");
    heading(&tab, "饭店");
    assert_eq!(judgement_of(&keyed, "2024-03-102", "2024-03-108"), "same");
    tab.keys("u");
    tab.sees("已撤销认定，恢复系统判断");
    assert_eq!(judgement_of(&keyed, "2024-03-102", "2024-03-108"), "withdrawn");
    heading(&tab, "铁锈味");
    tab.keys("j");
    heading(&tab, "饭店");
    tab.keys("n");
    tab.sees("已认定为不是同一事项");
    assert_eq!(judgement_of(&keyed, "2024-03-103", "2024-03-107"), "not_same");
    tab.keys("?");
    tab.has("details.keys[open]");
    tab.sees("显示本说明");
    tab.go(&format!("{}/console/{COLLECTION}/inbox", keyed.server.url()));
    heading(&tab, "三号路的路灯什么时候能修");
    tab.keys("o");
    tab.has("nav.tabs");
    works_off_a_case(&tab, &keyed);
    assert_kept_to(&tab, keyed.server.url());
}

fn judgement_of(keyed: &KeyedServer, a: &str, b: &str) -> Value {
    keyed.decision(a, b)["judgement"].clone()
}

fn works_off_a_case(tab: &BrowserTab, keyed: &KeyedServer) {
    // Keys that are typed into a field are text and not commands.
    goes_to(tab, "the note", |at| at["id"] == "note");
    tab.keys("s, n and u");
    assert_eq!(tab.run("return document.getElementById('note').value", &json!([])), "s, n and u");
    tab.keys(ENTER);
    assert_eq!(judgement_of(keyed, LAMPS_EARLIER, LAMPS_LATER), Value::Null, "nothing was decided by typing");
    tab.run("document.activeElement.blur()", &json!([]));
    tab.keys("n");
    tab.sees("已认定为不是同一事项");
    tab.sees("s, n and u");
    assert_eq!(judgement_of(keyed, LAMPS_EARLIER, LAMPS_LATER), "not_same");
    tab.keys("u");
    tab.sees("已撤销认定，恢复系统判断");
    goes_to(tab, "the button", |at| at["key"] == "s");
    tab.keys(ENTER);
    tab.sees("已认定为同一事项");
    assert_eq!(judgement_of(keyed, LAMPS_EARLIER, LAMPS_LATER), "same");
}
