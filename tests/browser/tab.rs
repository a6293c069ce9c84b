//! What a person does in a browser: go somewhere, read, press, type; and wait for what comes of it.
//!
//! Nothing is waited for by the clock alone: what is looked for is looked for until it is there, or [`PATIENCE`] is over.

use std::time::{Duration, Instant};

use crate::driver::{Answer, Session};
use serde_json::{Value, json};

/// Longest wait for something to be seen: an unoptimised service on a busy machine. Nothing takes that long where all is well.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(40);
/// How the driver names an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// What only those see who are signed in.
pub(crate) const SIGNED_IN: &str = "form[action='/console/sign-out']";

pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";

/// The part of a page that is seen, in CSS pixels, and how many pixels of the screen each has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Size {
    pub(crate) name: &'static str,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) scale: u32,
}

impl Size {
    /// A desk.
    pub(crate) const WIDE: Self = Self { name: "1280", width: 1280, height: 844, scale: 1 };
    /// A telephone.
    pub(crate) const NARROW: Self = Self { name: "390", width: 390, height: 844, scale: 1 };
    /// What a window of 1280 pixels shows at a zoom of 200 %: half as many CSS pixels, each of two.
    pub(crate) const ZOOMED: Self = Self { name: "zoom", width: 640, height: 422, scale: 2 };
}

/// A browser with one tab.
pub(crate) struct Tab {
    session: Session,
}

impl Tab {
    /// Opens a browser of `size` that prefers `language`.
    pub(crate) fn open(language: &str, size: Size) -> Self {
        Self::open_with(language, size, &[])
    }

    /// As [`Tab::open`], with more arguments of the browser's command line.
    pub(crate) fn open_with(language: &str, size: Size, more: &[&str]) -> Self {
        let tab = Self { session: Session::begin(language, more) };
        let Size { width, height, scale, .. } = size;
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": false});
        tab.devtools("Emulation.setDeviceMetricsOverride", &metrics);
        // The driver has no console to read from; so pages note themselves what must not happen.
        let told = "try { sessionStorage.noted ??= ''; } catch {}\
                    const note = text => { try { sessionStorage.noted += text + '\\n'; } catch {} };\
                    document.addEventListener('securitypolicyviolation', event =>\
                      note('policy violated: ' + event.violatedDirective + ' ' + event.blockedURI));\
                    addEventListener('error', event => note('script failed: ' + event.message));\
                    addEventListener('unhandledrejection', event => note('script failed: ' + event.reason));";
        tab.devtools("Page.addScriptToEvaluateOnNewDocument", &json!({ "source": told }));
        // The browser's own first page asks the browser for its parts.
        tab.go("about:blank");
        tab.requests();
        tab
    }

    /// A command of the browser's own tools.
    #[track_caller]
    pub(crate) fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.done("POST", "/goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    #[track_caller]
    fn done(&self, method: &str, path: &str, body: &Value) -> Value {
        self.session.ask(method, path, body).unwrap_or_else(|error| panic!("{path} {body}: {error:?}"))
    }

    /// Goes to an address.
    #[track_caller]
    pub(crate) fn go(&self, url: &str) {
        self.done("POST", "/url", &json!({ "url": url }));
    }

    /// Waits until the page was painted: what is typed before that, the browser drops.
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

    /// The address of the page.
    #[track_caller]
    pub(crate) fn url(&self) -> String {
        self.done("GET", "/url", &Value::Null).as_str().expect("an address").to_owned()
    }

    /// Runs a script beside the page's own: `return` says what comes back, `arguments` has what is given.
    #[track_caller]
    pub(crate) fn run(&self, script: &str, arguments: &Value) -> Value {
        self.done("POST", "/execute/sync", &json!({"script": script, "args": arguments}))
    }

    /// As [`Tab::run`]; the script calls its last argument with what comes back.
    #[track_caller]
    pub(crate) fn run_async(&self, script: &str, arguments: &Value) -> Value {
        self.done("POST", "/execute/async", &json!({"script": script, "args": arguments}))
    }

    /// Asks again until `look` has an answer.
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

    fn find(&self, place: &str) -> Answer {
        let using = if place.starts_with("//") { "xpath" } else { "css selector" };
        self.session.ask("POST", "/element", &json!({"using": using, "value": place}))
    }

    /// Does something with an element, again while it is not there yet or being replaced.
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

    /// Presses what a CSS selector, or an XPath that begins with `//`, names.
    #[track_caller]
    pub(crate) fn press(&self, place: &str) {
        self.with(place, "click", &json!({}));
    }

    /// Presses the link or button that shows `text`.
    #[track_caller]
    pub(crate) fn press_text(&self, text: &str) {
        self.press(&format!("//main//a[contains(., '{text}')] | //main//button[contains(., '{text}')] | //header//a[contains(., '{text}')] | //header//button[contains(., '{text}')]"));
    }

    /// Types into a field, in place of what was there.
    #[track_caller]
    pub(crate) fn fill(&self, place: &str, text: &str) {
        self.with(place, "clear", &json!({}));
        self.with(place, "value", &json!({ "text": text }));
    }

    /// Chooses a file of this machine in a field for files.
    #[track_caller]
    pub(crate) fn choose(&self, place: &str, path: &str) {
        self.with(place, "value", &json!({ "text": path }));
    }

    /// Types on the keyboard, wherever the focus is.
    #[track_caller]
    pub(crate) fn keys(&self, keys: &str) {
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()})))
            .collect();
        self.done("POST", "/actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]}));
    }

    /// What can be read on the page.
    #[track_caller]
    pub(crate) fn text(&self) -> String {
        // What is being replaced has no text.
        let body = self.find("body").ok().and_then(|body| body[ELEMENT].as_str().map(str::to_owned));
        let text = body.and_then(|id| self.session.ask("GET", &format!("/element/{id}/text"), &Value::Null).ok());
        text.and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Waits until `text` can be read.
    #[track_caller]
    pub(crate) fn sees(&self, text: &str) {
        self.until(text, || self.text().contains(text).then_some(()));
    }

    /// What can be read now does not hold `text`.
    #[track_caller]
    pub(crate) fn sees_no(&self, text: &str) {
        let seen = self.text();
        assert!(!seen.contains(text), "{text} is seen:\n{seen}");
    }

    /// How many elements a CSS selector names.
    #[track_caller]
    pub(crate) fn count(&self, selector: &str) -> usize {
        let found = self.done("POST", "/elements", &json!({"using": "css selector", "value": selector}));
        found.as_array().map_or(0, Vec::len)
    }

    /// Waits until a CSS selector names something.
    #[track_caller]
    pub(crate) fn has(&self, selector: &str) {
        self.until(selector, || (self.count(selector) > 0).then_some(()));
    }

    /// The text of the first element that a selector names.
    #[track_caller]
    pub(crate) fn text_of(&self, place: &str) -> String {
        self.with(place, "text", &Value::Null).as_str().unwrap_or_default().to_owned()
    }

    /// The addresses that pages asked for since this was asked last.
    #[track_caller]
    pub(crate) fn requests(&self) -> Vec<String> {
        let entries = self.done("POST", "/se/log", &json!({"type": "performance"}));
        entries.as_array().map(|entries| entries.iter().filter_map(requested).collect()).unwrap_or_default()
    }

    /// What the pages of this origin noted, one a line: violated policies and scripts that failed. `None` where no script ran.
    #[track_caller]
    pub(crate) fn noted(&self) -> Option<String> {
        self.run("return sessionStorage.noted", &json!([])).as_str().map(str::to_owned)
    }

    /// The cookies of the page.
    #[track_caller]
    pub(crate) fn cookie(&self, name: &str) -> Value {
        self.done("GET", &format!("/cookie/{name}"), &Value::Null)
    }

    /// Puts a cookie for the page's site.
    #[track_caller]
    pub(crate) fn plant(&self, cookie: &Value) {
        self.done("POST", "/cookie", &json!({ "cookie": cookie }));
    }
}

/// The address of a request, where an entry of the log is about one.
fn requested(entry: &Value) -> Option<String> {
    let message: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
    let message = &message["message"];
    let url = (message["method"] == "Network.requestWillBeSent").then(|| &message["params"]["request"]["url"])?;
    url.as_str().map(str::to_owned)
}
