//! Checks that apply to every page: the page can be read without scrolling sideways, it has no barrier that axe-core rates as serious or
//! critical, and all requests of the walk went to the service.
//!
//! If `DOPPEL_TEST_SCREENS` names a folder, a picture of each page is stored there.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::driver::found_by;
use crate::support::shared_server;
use crate::tab::{BrowserTab, ViewportSize};
use serde_json::{Value, json};

/// Returns the folder for pictures, if `DOPPEL_TEST_SCREENS` names a folder.
fn screens() -> Option<PathBuf> {
    std::env::var_os("DOPPEL_TEST_SCREENS").map(PathBuf::from)
}

/// Checks the current page.
#[track_caller]
pub(crate) fn read(tab: &BrowserTab, name: &str) {
    keep(tab, name);
    assert_fits(tab, name);
    let found = barriers(tab);
    assert!(found.as_array().is_some_and(Vec::is_empty), "{name} at {}: {found:#}", tab.url());
}

/// Checks that no element is wider than the window.
#[track_caller]
pub(crate) fn assert_fits(tab: &BrowserTab, name: &str) {
    let script = "const wide = [...document.querySelectorAll('body *')]\
                  .filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll, .skip'))\
                  .map(e => e.tagName + '.' + e.className);\
                  const all = document.scrollingElement;\
                  return [all.scrollWidth, all.clientWidth, wide.slice(0, 5)];";
    let told = tab.run(script, &json!([]));
    assert!(told[0].as_f64() <= told[1].as_f64(), "{name} is wider than the window: {told}");
}

/// Returns the violations that axe-core rates as serious or critical: rule, reason and elements.
fn barriers(tab: &BrowserTab) -> Value {
    static AXE: OnceLock<String> = OnceLock::new();
    let axe = AXE.get_or_init(|| std::fs::read_to_string(found_by("get-axe")).expect("axe-core can be read"));
    if tab.run("return typeof window.axe", &json!([])) == "undefined" {
        tab.run(axe, &json!([]));
    }
    let script = "const done = arguments[arguments.length - 1];\
        axe.run(document, {resultTypes: ['violations']}).then(found => done(found.violations\
          .filter(rule => rule.impact === 'serious' || rule.impact === 'critical')\
          .map(rule => [rule.id, rule.impact, rule.help,\
             rule.nodes.slice(0, 5).map(node => [node.target.join(' '), node.failureSummary])])),\
        error => done([['axe', String(error)]]));";
    tab.run_async(script, &json!([]))
}

/// Stores a picture of the whole page.
fn keep(tab: &BrowserTab, name: &str) {
    let Some(folder) = screens() else { return };
    tab.devtools("Emulation.setScrollbarsHidden", &json!({"hidden": true}));
    let size = "const all = document.scrollingElement; return {x: 0, y: 0, width: innerWidth, height: all.scrollHeight, scale: 1};";
    let clip = tab.run(size, &json!([]));
    let asked = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
    let shot = tab.devtools("Page.captureScreenshot", &asked);
    tab.devtools("Emulation.setScrollbarsHidden", &json!({"hidden": false}));
    let encoded = shot["data"].as_str().expect("a picture");
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    std::fs::write(folder.join(format!("{name}.png")), decoded(encoded)).expect("the picture can be written");
}

/// Decodes Base64. It is used only here, so that no library is needed.
fn decoded(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(|byte| *byte != b'=')
        .map(|byte: u8| match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            _ => 63,
        })
        .collect();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for four in digits.chunks(4) {
        let bits = four.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(*digit)) << (6 * (4 - four.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}

/// Ends a walk with scripts. Checks the same as [`assert_asked_only`], and also that no policy was violated and no script failed. Returns
/// the number of requests.
#[track_caller]
pub(crate) fn assert_kept_to(tab: &BrowserTab, service: &str) -> usize {
    assert_eq!(tab.noted().as_deref(), Some(""), "at {}", tab.url());
    assert_asked_only(tab, service)
}

/// Checks that all requests went to the service. Returns the number of requests.
#[track_caller]
pub(crate) fn assert_asked_only(tab: &BrowserTab, service: &str) -> usize {
    let asked = tab.requests();
    let inside =
        |url: &&String| url.strip_prefix(service).is_some_and(|rest| rest.starts_with('/')) || url.starts_with("data:");
    let outside: Vec<&String> = asked.iter().filter(|url| !inside(url)).collect();
    assert!(outside.is_empty(), "asked elsewhere: {outside:?}");
    asked.len()
}

/// True if `check` fails.
fn fails(check: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).is_err()
}

#[test]
fn a_page_that_cannot_be_read_or_used_is_found_out() {
    let server = shared_server();
    let tab = BrowserTab::open("en", ViewportSize::NARROW);
    tab.go(&format!("{}/console", server.url()));
    assert_eq!(barriers(&tab), json!([]));
    let spoil = "document.querySelector('main').append(document.createElement('input'));\
                 document.querySelector('h1').style.color = '#e0e0e0';";
    tab.run(spoil, &json!([]));
    let found = barriers(&tab);
    let rules: Vec<&str> = found.as_array().expect("a list").iter().filter_map(|rule| rule[0].as_str()).collect();
    assert_eq!(rules, ["color-contrast", "label"], "{found:#}");
    tab.run("document.querySelector('main').style.minWidth = '400px'", &json!([]));
    assert!(fails(|| assert_fits(&tab, "a wide page")));
}

#[test]
fn a_page_that_does_not_keep_to_itself_is_found_out() {
    let server = shared_server();
    let tab = BrowserTab::open("en", ViewportSize::WIDE);
    tab.go(&format!("{}/console", server.url()));
    assert!(fails(|| {
        assert_asked_only(&tab, "http://127.0.0.1:9");
    }));
    tab.reload();
    assert!(assert_kept_to(&tab, server.url()) > 2);
    let inline =
        "const script = document.createElement('script'); script.textContent = '1'; document.body.append(script)";
    for (harm, noted) in [
        ("fetch('http://127.0.0.1:9/').catch(() => {})", "policy violated: connect-src"),
        (inline, "policy violated: script-src-elem"),
        ("setTimeout(() => { throw new Error('harm') })", "script failed: "),
    ] {
        tab.run(harm, &json!([]));
        tab.until(noted, || tab.noted().is_some_and(|all| all.contains(noted)).then_some(()));
    }
    assert!(fails(|| {
        assert_kept_to(&tab, server.url());
    }));
}
