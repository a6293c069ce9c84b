//! Starts the program that drives the browser, and sends its requests (W3C WebDriver: JSON over HTTP).
//!
//! All tests share one driver, which chooses a port of the loopback interface itself. The driver ends with the last tab, even if a test
//! fails. Each tab is a separate browser with its own profile, and both are removed with the tab.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::time::Duration;

use serde_json::{Value, json};

/// Longest wait until the driver reports its port. A busy machine needs several seconds.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest wait for one answer. Starting a browser on a busy machine takes longest.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// Returns the path that a script of `scripts/` prints. The script first installs missing programs.
pub(crate) fn found_by(script: &str) -> String {
    // The scripts run one after another, because two installations at the same time disturb each other.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let path = format!("{}/scripts/{script}", env!("CARGO_MANIFEST_DIR"));
    let found = Command::new(&path).stderr(Stdio::inherit()).output().expect("the script can be run");
    assert!(found.status.success(), "this test needs what scripts/{script} finds: run it and see why it fails");
    String::from_utf8(found.stdout).expect("a path").trim().to_owned()
}

/// The result of a request to the driver. `Err` contains the driver's name of the error and its message.
pub(crate) type DriverAnswer = Result<Value, (String, String)>;

/// A running driver. Dropping this value ends the driver.
pub(crate) struct WebDriver {
    child: Child,
    url: String,
    agent: ureq::Agent,
}

impl WebDriver {
    /// Returns the driver that all tests share.
    fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<WebDriver>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let driver = Arc::new(Self::start());
            *shared = Arc::downgrade(&driver);
            driver
        })
    }

    fn start() -> Self {
        let mut command = Command::new(found_by("get-chromedriver"));
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the driver starts");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        let (found, port) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if let Some((_, port)) = line.split_once("started successfully on port ") {
                    let _ = found.send(port.trim_end_matches('.').to_owned());
                }
            }
        });
        let Ok(port) = port.recv_timeout(START_TIMEOUT) else {
            let _ = child.kill();
            panic!("chromedriver did not say where it listens");
        };
        let settings = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(ANSWER_TIMEOUT));
        Self { child, url: format!("http://127.0.0.1:{port}"), agent: settings.build().into() }
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> DriverAnswer {
        let request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.url));
        let answer = match method {
            "POST" => self
                .agent
                .run(request.header("content-type", "application/json").body(body.to_string()).expect("sound")),
            _ => self.agent.run(request.body(()).expect("sound")),
        };
        let mut answer = answer.map_err(|error| no_answer(&error, method, path))?;
        let text = answer.body_mut().with_config().limit(1 << 28).read_to_string();
        let text = text.map_err(|error| no_answer(&error, method, path))?;
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
        match value["value"]["error"].as_str() {
            Some(error) => Err((error.to_owned(), value["value"]["message"].to_string())),
            None => Ok(value["value"].clone()),
        }
    }
}

fn no_answer(error: &ureq::Error, method: &str, path: &str) -> (String, String) {
    ("no answer".to_owned(), format!("{method} {path}: {error}"))
}

impl Drop for WebDriver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A browser. Dropping this value ends the browser.
pub(crate) struct BrowserSession {
    driver: Arc<WebDriver>,
    path: String,
    _profile: tempfile::TempDir,
}

impl BrowserSession {
    /// Starts a browser that prefers `language`. `more` are additional arguments of its command line.
    pub(crate) fn begin(language: &str, more: &[&str]) -> Self {
        let profile = tempfile::tempdir().expect("a temporary folder");
        let driver = WebDriver::shared();
        let asked = capabilities(language, profile.path(), more);
        let begun = driver.ask("POST", "/session", &asked).unwrap_or_else(|error| panic!("no browser: {error:?}"));
        let path = format!("/session/{}", begun["sessionId"].as_str().expect("a session"));
        Self { driver, path, _profile: profile }
    }

    /// Sends a request to this browser.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> DriverAnswer {
        self.driver.ask(method, &format!("{}{path}", self.path), body)
    }
}

impl Drop for BrowserSession {
    fn drop(&mut self) {
        let _ = self.ask("DELETE", "", &Value::Null);
    }
}

fn capabilities(language: &str, profile: &Path, more: &[&str]) -> Value {
    let profile: PathBuf = profile.into();
    let mut arguments = vec![format!("--user-data-dir={}", profile.display())];
    let fixed = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        // The browser protects local addresses by asking a person. The service does not rely on this protection, so that it is switched
        // off.
        "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests",
    ];
    arguments.extend(fixed.iter().chain(more).map(|argument| (*argument).to_owned()));
    json!({"capabilities": {"alwaysMatch": {
        "browserName": "chrome",
        "goog:chromeOptions": {
            "binary": found_by("get-chromium"),
            "args": arguments,
            "prefs": {"intl.accept_languages": language, "intl.selected_languages": language},
        },
        "goog:loggingPrefs": {"performance": "ALL"},
    }}})
}
