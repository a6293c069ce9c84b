//! Pages on paper: they use the whole width, folded parts are unfolded, and forms are left out.

use crate::letters::{self, COLLECTION, LAMPS_LATER};
use crate::support::keyed::KeyedServer;
use crate::tab::{BrowserTab, SIGNED_IN, ViewportSize};
use serde_json::json;

/// Returns the width of an element relative to the content of the page; 0 if it is not shown.
fn share(tab: &BrowserTab, selector: &str) -> f64 {
    let script = "const one = document.querySelector(arguments[0]); const main = document.querySelector('main');\
                  return one ? one.getBoundingClientRect().width / main.getBoundingClientRect().width : 0;";
    tab.run(script, &json!([selector])).as_f64().expect("a number")
}

/// Prints the pages from a window of `size`, without scripts.
fn print_from(size: ViewportSize) {
    let keyed = KeyedServer::start(&[]);
    letters::fill(&keyed);
    let tab = BrowserTab::open("zh-CN", size);
    let page = |path: &str| format!("{}/console/{COLLECTION}/{path}", keyed.server.url());
    tab.go(&page("inbox"));
    tab.fill("#key", keyed.key("desk"));
    tab.press("form button.main");
    tab.has(SIGNED_IN);
    tab.devtools("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    tab.devtools("Emulation.setEmulatedMedia", &json!({"media": "print"}));

    tab.go(&page(&format!("case/{LAMPS_LATER}")));
    tab.has(".pair");
    assert!(share(&tab, ".pair") > 0.95, "{}", share(&tab, ".pair"));
    let wide = share(&tab, ".side");
    assert!((0.4..0.6).contains(&wide), "two texts beside each other: {wide}");
    assert_eq!(share(&tab, ".decide form"), 0.0, "no form is printed");

    tab.go(&page("inbox"));
    tab.has(".queue li");
    assert!(share(&tab, ".queue") > 0.95 && share(&tab, ".pair") > 0.9, "the list and the pair use the page");
    let hidden = "const list = document.querySelector('.queue'); return list.scrollHeight - list.clientHeight;";
    assert_eq!(tab.run(hidden, &json!([])), 0, "the whole list is printed");

    tab.go(&page("batch?kind=above-80"));
    tab.has(".batch tbody tr");
    assert!(share(&tab, ".batch") > 0.95, "the list of a batch is printed");
    assert_eq!(share(&tab, ".batch label"), 0.0, "without its choices");

    tab.go(&page("report?period=month&date=2024-03-01"));
    tab.has(".picture svg.stack");
    assert!(share(&tab, ".scroll .counts") > 0.95, "the tables of a report use the page");
    let chart = share(&tab, ".picture svg.stack");
    assert!((0.9..1.01).contains(&chart), "nothing of the chart is cut: {chart}");
    assert_eq!(share(&tab, "form.fields") + share(&tab, ".windows"), 0.0, "without forms and links to other reports");

    tab.devtools("Emulation.setScriptExecutionDisabled", &json!({"value": false}));
    tab.go(&page("inbox"));
    let folded = "const parts = document.createElement('details'); parts.innerHTML = '<summary>a</summary><p id=folded>b</p>';\
                  document.querySelector('main').append(parts); return getComputedStyle(parts, '::details-content').contentVisibility;";
    assert_eq!(tab.run(folded, &json!([])), "visible", "folded parts are unfolded");
}

#[test]
fn pages_are_printed_in_full_from_a_wide_window() {
    print_from(ViewportSize::WIDE);
}

#[test]
fn pages_are_printed_in_full_from_a_telephone() {
    print_from(ViewportSize::NARROW);
}
