//! The actions of a person in a browser: open a page, read, click, type, and wait for the result.
//!
//! No wait has a fixed length: a check is repeated until it succeeds or [`PATIENCE`] is over.

use std::time::{Duration, Instant};

use crate::driver::{BrowserSession, DriverAnswer};
use serde_json::{Value, json};

/// Longest wait for something to appear, for an unoptimised service on a busy machine. Nothing takes this time unless there is a fault.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause between two checks.
const LOOK_AGAIN: Duration = Duration::from_millis(40);
/// The key under which the driver returns the id of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// An element that only the pages of signed-in users contain.
pub(crate) const SIGNED_IN: &str = "form[action='/console/sign-out']";

pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";

/// The visible part of a page in CSS pixels, and the number of screen pixels for each CSS pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ViewportSize {
    pub(crate) name: &'static str,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) scale: u32,
}

impl ViewportSize {
    /// A screen on a desk.
    pub(crate) const WIDE: Self = Self { name: "1280", width: 1280, height: 844, scale: 1 };
    /// The screen of a telephone.
    pub(crate) const NARROW: Self = Self { name: "390", width: 390, height: 844, scale: 1 };
    /// A window of 1280 pixels at a zoom of 200 %: it has half as many CSS pixels, and each has two screen pixels.
    pub(crate) const ZOOMED: Self = Self { name: "zoom", width: 640, height: 422, scale: 2 };
}

/// A browser with one tab.
pub(crate) struct BrowserTab {
    session: BrowserSession,
}

impl BrowserTab {
    /// Opens a browser of `size` that prefers `language`.
    pub(crate) fn open(language: &str, size: ViewportSize) -> Self {
        Self::open_with(language, size, &[])
    }

    /// Works like [`BrowserTab::open`], with additional arguments of the browser's command line.
    pub(crate) fn open_with(language: &str, size: ViewportSize, more: &[&str]) -> Self {
        let tab = Self { session: BrowserSession::begin(language, more) };
        let ViewportSize { width, height, scale, .. } = size;
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": false});
        tab.devtools("Emulation.setDeviceMetricsOverride", &metrics);
        // The driver gives no access to the console, so that the pages record errors themselves.
        let told = "try { sessionStorage.noted ??= ''; } catch {}\
                    const note = text => { try { sessionStorage.noted += text + '\\n'; } catch {} };\
                    document.addEventListener('securitypolicyviolation', event =>\
                      note('policy violated: ' + event.violatedDirective + ' ' + event.blockedURI));\
                    addEventListener('error', event => note('script failed: ' + event.message));\
                    addEventListener('unhandledrejection', event => note('script failed: ' + event.reason));";
        tab.devtools("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": told }));
        // The first page of the browser requests its own parts, which must not be counted.
        tab.go("about:blank");
        tab.requests();
        tab
    }

    /// Runs a command of the browser's developer tools.
    #[track_caller]
    pub(crate) fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.done("POST", "/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    #[track_caller]
    fn done(&self, method: &str, path: &str, body: &Value) -> Value {
        self.session.ask(method, path, body).unwrap_or_else(|error| panic!("{path} {body}: {error:?}"))
    }

    /// Opens an address.
    #[track_caller]
    pub(crate) fn go(&self, url: &str) {
        self.done("POST", "/url", &json!({ "url": url }));
    }

    /// Waits until the page is painted. The browser drops keys that are typed earlier.
    #[track_caller]
    pub(crate) fn painted(&self) {
        let script = "const done = arguments[arguments.length - 1];\
                      requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(true), 50)));";
        self.run_async(script, &json!([]));
    }

    /// Loads the page again.
    #[track_caller]
    pub(crate) fn reload(&self) {
        self.done("POST", "/refresh", &json!({}));
    }

    /// Returns the address of the page.
    #[track_caller]
    pub(crate) fn url(&self) -> String {
        self.done("GET", "/url", &Value::Null).as_str().expect("an address").to_owned()
    }

    /// Runs a script in the page. Its `return` value is the result, and `arguments` are its arguments.
    #[track_caller]
    pub(crate) fn run(&self, script: &str, arguments: &Value) -> Value {
        self.done("POST", "/execute/sync", &json!({"script": script, "args": arguments}))
    }

    /// Works like [`BrowserTab::run`], but the script passes its result to a function that is its last argument.
    #[track_caller]
    pub(crate) fn run_async(&self, script: &str, arguments: &Value) -> Value {
        self.done("POST", "/execute/async", &json!({"script": script, "args": arguments}))
    }

    /// Calls `look` until it returns a value.
    #[track_caller]
    pub(crate) fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            if begun.elapsed() > PATIENCE {
                panic!("never seen: {what}\nat {}\n{}", self.url(), self.text());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn find(&self, place: &str) -> DriverAnswer {
        let using = if place.starts_with("//") { "xpath" } else { "css selector" };
        self.session.ask("POST", "/element", &json!({"using": using, "value": place}))
    }

    /// Performs an action on an element. Tries again while the element is missing or is being replaced.
    #[track_caller]
    fn with(&self, place: &str, action: &str, body: &Value) -> Value {
        let mut last = None;
        self.until(&format!("{place} to {action}"), || {
            let done = self.find(place).and_then(|element| {
                let id = element[ELEMENT].as_str().unwrap_or_default();
                let method = if body.is_null() { "GET" } else { "POST" };
                self.session.ask(method, &format!("/element/{id}/{action}"), body)
            });
            match done {
                Ok(value) => Some(value),
                Err((error, message)) => {
                    let passes = ["no such element", "stale element reference", "element not interactable"];
                    let passes = passes.contains(&error.as_str()) || error == "element click intercepted";
                    assert!(passes, "{place}: {error}: {message}");
                    last = Some(error);
                    None
                }
            }
        })
    }

    /// Clicks the element with this CSS selector, or with this XPath, which begins with `//`.
    #[track_caller]
    pub(crate) fn press(&self, place: &str) {
        self.with(place, "click", &json!({}));
    }

    /// Clicks the link or button that shows `text`.
    #[track_caller]
    pub(crate) fn press_text(&self, text: &str) {
        self.press(&format!("//main//a[contains(., '{text}')] | //main//button[contains(., '{text}')] | //header//a[contains(., '{text}')] | //header//button[contains(., '{text}')]"));
    }

    /// Types into a field and replaces its content.
    #[track_caller]
    pub(crate) fn fill(&self, place: &str, text: &str) {
        self.with(place, "clear", &json!({}));
        self.with(place, "value", &json!({ "text": text }));
    }

    /// Chooses a local file in a file field.
    #[track_caller]
    pub(crate) fn choose(&self, place: &str, path: &str) {
        self.with(place, "value", &json!({ "text": path }));
    }

    /// Types on the keyboard; the element with the focus receives the keys.
    #[track_caller]
    pub(crate) fn keys(&self, keys: &str) {
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()})))
            .collect();
        self.done("POST", "/actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]}));
    }

    /// Returns the visible text of the page.
    #[track_caller]
    pub(crate) fn text(&self) -> String {
        // An element that is being replaced has no text.
        let body = self.find("body").ok().and_then(|body| body[ELEMENT].as_str().map(str::to_owned));
        let text = body.and_then(|id| self.session.ask("GET", &format!("/element/{id}/text"), &Value::Null).ok());
        text.and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Waits until the page shows `text`.
    #[track_caller]
    pub(crate) fn sees(&self, text: &str) {
        self.until(text, || self.text().contains(text).then_some(()));
    }

    /// Checks that the page does not show `text` now.
    #[track_caller]
    pub(crate) fn sees_no(&self, text: &str) {
        let seen = self.text();
        assert!(!seen.contains(text), "{text} is seen:\n{seen}");
    }

    /// Returns the number of elements with this CSS selector.
    #[track_caller]
    pub(crate) fn count(&self, selector: &str) -> usize {
        let found = self.done("POST", "/elements", &json!({"using": "css selector", "value": selector}));
        found.as_array().map_or(0, Vec::len)
    }

    /// Waits until an element with this CSS selector exists.
    #[track_caller]
    pub(crate) fn has(&self, selector: &str) {
        self.until(selector, || (self.count(selector) > 0).then_some(()));
    }

    /// Returns the text of the first element with this selector.
    #[track_caller]
    pub(crate) fn text_of(&self, place: &str) -> String {
        self.with(place, "text", &Value::Null).as_str().unwrap_or_default().to_owned()
    }

    /// Returns the addresses that pages requested since the last call.
    #[track_caller]
    pub(crate) fn requests(&self) -> Vec<String> {
        let entries = self.done("POST", "/se/log", &json!({"type": "performance"}));
        entries.as_array().map(|entries| entries.iter().filter_map(requested).collect()).unwrap_or_default()
    }

    /// Returns the errors that the pages of this origin recorded, one on each line: violated policies and failed scripts. Returns `None` if
    /// no script ran.
    #[track_caller]
    pub(crate) fn noted(&self) -> Option<String> {
        self.run("return sessionStorage.noted", &json!([])).as_str().map(str::to_owned)
    }

    /// Returns a cookie of the page.
    #[track_caller]
    pub(crate) fn cookie(&self, name: &str) -> Value {
        self.done("GET", &format!("/cookie/{name}"), &Value::Null)
    }

    /// Sets a cookie for the site of the page.
    #[track_caller]
    pub(crate) fn plant(&self, cookie: &Value) {
        self.done("POST", "/cookie", &json!({ "cookie": cookie }));
    }
}

/// Returns the address of a request, if this entry of the log is about a request.
fn requested(entry: &Value) -> Option<String> {
    let message: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
    let message = &message["message"];
    let url = (message["method"] == "Network.requestWillBeSent").then(|| &message["params"]["request"]["url"])?;
    url.as_str().map(str::to_owned)
}
