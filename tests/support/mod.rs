//! Helpers that the tests share: the real program on a loopback port, and a simple client.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

pub mod certificates;
pub mod keyed;

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest wait until the service reports its address. Opening a large directory takes seconds.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A running service. Dropping this value kills the service.
pub struct TestServer {
    child: Mutex<Child>,
    url: String,
    agent: ureq::Agent,
    log: Arc<Mutex<String>>,
    /// The folder with the data folder, if it belongs to this server.
    own_folder: Option<tempfile::TempDir>,
}

/// An answer of the service.
#[derive(Clone, Debug)]
pub struct TestResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub text: String,
}

impl TestResponse {
    /// Returns the body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in the body {:?}", self.text))
    }

    /// Returns the header with this lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Panics if the status is not `status`.
    #[track_caller]
    pub fn expect_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }
}

impl TestServer {
    /// Starts the service on a data folder in its own folder, with additional environment variables.
    pub fn start(environment: &[(&str, &str)]) -> Self {
        Self::start_owning(tempfile::tempdir().expect("a temporary folder"), &[], environment)
    }

    /// Works like [`TestServer::start`], with a folder that may have a configuration, and with additional arguments.
    pub fn start_owning(folder: tempfile::TempDir, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut server = Self::start_with(folder.path().join("data"), arguments, environment);
        server.own_folder = Some(folder);
        server
    }

    /// Starts the service on `data` and waits until it listens.
    pub fn start_in(data: impl AsRef<Path>) -> Self {
        Self::start_with(data, &[], &[])
    }

    /// Works like [`TestServer::start_in`], with additional arguments and environment variables.
    pub fn start_with(data: impl AsRef<Path>, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        // The service must react to SIGHUP even if the tests run under a program that ignores it (nohup).
        let mut command = Command::new("env");
        command
            .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_doppel"), "serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data.as_ref())
            .args(arguments);
        command.env("DOPPEL_LANG", "en").envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the doppel binary starts");
        let log = Arc::new(Mutex::new(String::new()));
        let (found, address) = std::sync::mpsc::channel();
        for pipe in [
            Box::new(child.stdout.take().expect("piped")) as Box<dyn Read + Send>,
            Box::new(child.stderr.take().expect("piped")),
        ] {
            let log = log.clone();
            let found = found.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    if let Some(at) = line.find("http://127.0.0.1:").or_else(|| line.find("https://127.0.0.1:")) {
                        let url: String = line[at..].chars().take_while(|c| !c.is_whitespace() && *c != '"').collect();
                        let _ = found.send(url);
                    }
                    let mut log = log.lock().expect("no reader panicked");
                    log.push_str(&line);
                    log.push('\n');
                }
            });
        }
        drop(found);
        let Ok(url) = address.recv_timeout(START_TIMEOUT) else {
            let _ = child.kill();
            panic!("the service did not start:\n{}", log.lock().expect("no reader panicked"));
        };
        let configuration = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)))
            .max_idle_connections_per_host(64);
        Self { child: Mutex::new(child), url, agent: configuration.build().into(), log, own_folder: None }
    }

    /// Returns the folder of a server of [`TestServer::start`]. No other server uses it. The data of the server are in `data`.
    pub fn folder(&self) -> &Path {
        self.own_folder.as_ref().expect("the server has its own folder").path()
    }

    /// Returns the path of a file in the folder of the server as text.
    pub fn file(&self, name: &str) -> String {
        file_path(self.folder(), name)
    }

    /// Writes a file into the folder of the server. Returns its path.
    pub fn put_file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        put_file(self.folder(), name, bytes)
    }

    /// Returns the URL of the service, without a slash at the end.
    pub fn url(&self) -> &str {
        self.url.trim_end_matches('/')
    }

    /// Returns everything that the service has printed so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("no reader panicked").clone()
    }

    /// Sends `body` (nothing if it is `null`). Panics if no answer arrives.
    pub fn send(&self, method: &str, path: &str, body: &Value) -> TestResponse {
        self.try_send(method, path, body).unwrap_or_else(|| panic!("no answer to {method} {path}\n{}", self.log()))
    }

    /// Sends a GET request.
    pub fn get(&self, path: &str) -> TestResponse {
        self.send("GET", path, &Value::Null)
    }

    /// Sends a GET request with a bearer key.
    pub fn get_as(&self, key: &str, path: &str) -> TestResponse {
        self.send_as(key, "GET", path, &Value::Null)
    }

    /// Sends `body` (nothing if it is `null`). Returns `None` if no complete answer arrives.
    pub fn try_send(&self, method: &str, path: &str, body: &Value) -> Option<TestResponse> {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.request(method, path, &[("content-type", "application/json")], text.as_bytes())
    }

    /// Sends `body` without changes.
    pub fn send_text(&self, method: &str, path: &str, content_type: &str, body: &str) -> TestResponse {
        let answer = self.request(method, path, &[("content-type", content_type)], body.as_bytes());
        answer.unwrap_or_else(|| panic!("no answer to {method} {path}\n{}", self.log()))
    }

    /// Sends bytes with headers. Returns `None` if no complete answer arrives.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Option<TestResponse> {
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.url()));
        for (name, value) in headers.iter().filter(|_| !body.is_empty()) {
            request = request.header(*name, *value);
        }
        for (name, value) in headers.iter().filter(|(name, _)| body.is_empty() && *name != "content-type") {
            request = request.header(*name, *value);
        }
        let answer = match body.is_empty() {
            true => self.agent.run(request.body(()).expect("a sound request")),
            false => self.agent.run(request.body(body).expect("a sound request")),
        };
        let mut answer = answer.ok()?;
        let headers = answer.headers().iter();
        let headers = headers.map(|(k, v)| (k.to_string(), String::from_utf8_lossy(v.as_bytes()).into())).collect();
        let status = answer.status().as_u16();
        let text = answer.body_mut().with_config().limit(1 << 30).read_to_string().ok()?;
        Some(TestResponse { status, headers, text })
    }

    /// Sends JSON with a bearer key.
    pub fn send_as(&self, key: &str, method: &str, path: &str, body: &Value) -> TestResponse {
        let bearer = format!("Bearer {key}");
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let answer = self.request(method, path, &headers, text.as_bytes());
        answer.unwrap_or_else(|| panic!("no answer to {method} {path}\n{}", self.log()))
    }

    /// Waits for the end of the task to which the answer `accepted` refers. Returns the task.
    #[track_caller]
    pub fn ended_task(&self, accepted: &TestResponse) -> Value {
        assert_eq!(accepted.status, 202, "{}", accepted.text);
        let path = accepted.header("location").expect("a location");
        awaited("the end of a task", || self.get(path).json(), has_ended)
    }

    /// Waits until no task is unfinished.
    #[track_caller]
    pub fn settle(&self) {
        awaited(
            "the end of all tasks",
            || self.get("/v1/tasks").json(),
            |tasks| tasks["items"].as_array().expect("a list").iter().all(has_ended),
        );
    }

    /// Opens a raw connection, for requests that a correct client does not send. Reads on it have a time limit of ten seconds.
    pub fn connect(&self) -> TcpStream {
        let address = self.url().trim_start_matches("http://").trim_start_matches("https://").to_owned();
        let stream = TcpStream::connect(address).expect("the service accepts connections");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout can be set");
        stream
    }

    /// Begins a request on a new connection: sends the head with these lines of `headers`, and `body` as the beginning of the body.
    pub fn begin(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = self.connect();
        let request = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n{body}");
        stream.write_all(request.as_bytes()).expect("the head is taken");
        stream
    }

    /// Returns the number of records of a collection; 0 if there is no such collection.
    pub fn count(&self, collection: &str) -> u64 {
        let found = self.get(&format!("/v1/collections/{collection}"));
        match found.status {
            404 => 0,
            _ => found.json()["records"].as_u64().unwrap_or_else(|| panic!("{}: {}", found.status, found.text)),
        }
    }

    /// Returns the value of a series of the metrics; `None` if it is missing.
    pub fn metric(&self, series: &str) -> Option<f64> {
        let text = self.get("/metrics").text;
        text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
    }

    /// Sends bytes on a new connection without changes. Returns everything that arrives until the connection is closed, or until nothing
    /// arrives for ten seconds.
    pub fn exchange(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        // The service may answer and close before all bytes are sent.
        let _ = stream.write_all(request);
        read_to_end(&mut stream)
    }

    /// Returns the process id of the service.
    pub fn pid(&self) -> u32 {
        self.child.lock().expect("no one panicked").id()
    }

    /// Sends the signal with this name.
    pub fn signal(&self, name: &str) {
        send_signal(self.pid(), name);
    }

    /// Waits for the end of the service.
    pub fn wait(&self) -> ExitStatus {
        self.child.lock().expect("no one panicked").wait().expect("the child can be waited for")
    }

    /// Returns the resident memory in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.pid())).expect("Linux tells");
        statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number of pages") * 4096
    }

    /// Kills the service with SIGKILL at once.
    pub fn kill(&self) {
        let mut child = self.child.lock().expect("no one panicked");
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Asks the service to stop (SIGTERM) and waits for its end. Panics if its status is not success.
    pub fn stop(self) {
        self.signal("TERM");
        let status = self.wait();
        assert!(status.success(), "it ended with {status}:\n{}", self.log());
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the service that the tests of one program share; each test uses another collection. The service ends when the last test drops
/// it.
pub fn shared_server() -> Arc<TestServer> {
    static SHARED: Mutex<Weak<TestServer>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().expect("no start failed");
    shared.upgrade().unwrap_or_else(|| {
        let own = Arc::new(TestServer::start(&[]));
        *shared = Arc::downgrade(&own);
        own
    })
}

/// A collection on the shared service. Ids in paths must be percent-encoded.
pub struct TestDesk {
    pub server: Arc<TestServer>,
    pub path: String,
}

impl TestDesk {
    /// Returns a collection that the first record will create.
    pub fn new(name: &str) -> Self {
        Self { server: shared_server(), path: format!("/v1/collections/{name}") }
    }

    /// Creates a collection with `settings`.
    #[track_caller]
    pub fn with(name: &str, settings: &Value) -> Self {
        let desk = Self::new(name);
        let created = desk.send("PUT", "", settings);
        assert_eq!(created.status, 201, "{}", created.text);
        desk
    }

    /// Sends `body` to `path` below the path of the collection.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, body: &Value) -> TestResponse {
        self.server.send(method, &format!("{}{path}", self.path), body)
    }

    /// Returns the body of an answer, whose status must be 200.
    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.send(method, path, body);
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text);
        answer.json()
    }

    /// Registers a record under a new id.
    #[track_caller]
    pub fn register(&self, id: &str, row: &Value) -> Value {
        let answer = self.send("PUT", &format!("/records/{id}"), row);
        assert_eq!(answer.status, 201, "{id}: {}", answer.text);
        assert_eq!(answer.json()["outcome"], "created", "{id}: {}", answer.text);
        answer.json()
    }

    /// Puts a record under an id that is taken.
    #[track_caller]
    pub fn put_again(&self, id: &str, row: &Value, outcome: &str) -> Value {
        let answer = self.ask("PUT", &format!("/records/{id}"), row);
        assert_eq!(answer["outcome"], outcome, "{id}: {answer}");
        answer
    }

    /// Sends a GET request to `path` below the path of the collection.
    #[track_caller]
    pub fn get(&self, path: &str) -> TestResponse {
        self.send("GET", path, &Value::Null)
    }

    /// Returns the body of the answer to a GET request, whose status must be 200.
    #[track_caller]
    pub fn read(&self, path: &str) -> Value {
        self.ask("GET", path, &Value::Null)
    }

    /// Reads a record.
    #[track_caller]
    pub fn record(&self, id: &str) -> Value {
        self.read(&format!("/records/{id}"))
    }

    /// Waits until `search`, a path below the path of the collection, finds `count` records and has read all changes.
    #[track_caller]
    pub fn wait_for_search(&self, search: &str, count: u64) {
        awaited(
            "the index",
            || self.get(search),
            |answer| {
                let found = if answer.status == 200 { answer.json() } else { Value::Null };
                found["total"]["count"] == count && found["as_of"]["behind"] == 0
            },
        );
    }

    /// Deletes a record.
    #[track_caller]
    pub fn delete(&self, id: &str) {
        let answer = self.send("DELETE", &format!("/records/{id}"), &Value::Null);
        assert_eq!(answer.status, 204, "{id}: {}", answer.text);
    }
}

pub fn has_ended(task: &Value) -> bool {
    matches!(task["status"].as_str(), Some("succeeded" | "failed" | "canceled"))
}

/// Returns the `id` of every item of a list.
#[track_caller]
pub fn ids(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|item| item["id"].as_str().expect("an id")).collect()
}

/// Waits until `done` returns true.
#[track_caller]
pub fn until(what: &str, done: impl FnMut() -> bool) {
    awaited(what, done, |done| *done);
}

/// Waits until `done` returns true, for tests that expect this within a time.
#[track_caller]
pub fn until_within(limit: Duration, what: &str, done: impl FnMut() -> bool) {
    awaited_within(limit, what, done, |done| *done);
}

/// Reads a value until it is right, but for at most two minutes, because machines may be slow.
#[track_caller]
pub fn awaited<T: Debug>(what: &str, read: impl FnMut() -> T, is_right: impl Fn(&T) -> bool) -> T {
    awaited_within(Duration::from_secs(120), what, read, is_right)
}

#[track_caller]
fn awaited_within<T: Debug>(
    limit: Duration,
    what: &str,
    mut read: impl FnMut() -> T,
    is_right: impl Fn(&T) -> bool,
) -> T {
    let begun = Instant::now();
    loop {
        let value = read();
        if is_right(&value) {
            return value;
        }
        assert!(begun.elapsed() < limit, "still waiting: {what} {value:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the `id` of every item of a list as owned texts.
#[track_caller]
pub fn owned_ids(list: &Value) -> Vec<String> {
    ids(list).into_iter().map(str::to_owned).collect()
}

/// Reads everything from `stream` until the other side closes it or the read times out.
pub fn read_to_end(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        all.extend_from_slice(&piece[..count]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// Sends the signal with this name to a process.
#[track_caller]
pub fn send_signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name]).arg(pid.to_string()).status().expect("kill runs");
    assert!(sent.success());
}

/// Runs `doppel` with `arguments` to its end.
pub fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doppel"));
    command.args(arguments).env("DOPPEL_LANG", "en").envs(environment.iter().copied()).stdin(Stdio::null());
    command.output().expect("the doppel binary starts")
}

/// Starts `doppel` with pipes.
pub fn start_doppel(arguments: &[&str], environment: &[(&str, &str)]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doppel"));
    command.args(arguments).env("DOPPEL_LANG", "en").envs(environment.iter().copied());
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    pipes.spawn().expect("the doppel binary starts")
}

/// Runs `doppel` with `input` on standard input to its end.
pub fn run_with(arguments: &[&str], input: &[u8], environment: &[(&str, &str)]) -> Output {
    let mut child = start_doppel(arguments, environment);
    // The program may end without reading its input.
    let _ = child.stdin.take().expect("piped").write_all(input);
    child.wait_with_output().expect("it ends")
}

/// Returns standard output and standard error of a program as one text.
pub fn output_text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Checks that the exit code is `code` and that the output contains all `parts`. Returns the output.
#[track_caller]
pub fn expect_exit(output: &Output, code: i32, parts: &[&str]) -> String {
    let said = output_text(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    expect_parts(&said, parts);
    said
}

/// Checks that a text contains all `parts`.
#[track_caller]
pub fn expect_parts(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

/// Checks that a text contains none of `parts`.
#[track_caller]
pub fn expect_no_parts(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(!text.contains(part), "{part:?} is in:\n{text}");
    }
}

/// Runs `doppel`, and checks that its exit code is `code`. Returns its standard output and its standard error.
#[track_caller]
pub fn run_to_exit(arguments: &[&str], environment: &[(&str, &str)], code: i32) -> [String; 2] {
    let output = run(arguments, environment);
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("UTF-8"));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said:?}");
    said
}

/// Returns the path of a file in `folder` as text.
pub fn file_path(folder: impl AsRef<Path>, name: &str) -> String {
    folder.as_ref().join(name).to_str().expect("a plain path").to_owned()
}

/// Writes a file into `folder`. Returns its path.
pub fn put_file(folder: impl AsRef<Path>, name: &str, bytes: impl AsRef<[u8]>) -> String {
    let path = file_path(folder, name);
    std::fs::write(&path, bytes).expect("the folder can be written");
    path
}

/// Makes a key with these scopes. Returns its section of a configuration, and the key.
pub fn new_key(name: &str, scopes: &str) -> (String, String) {
    let [section, said] = run_to_exit(&["config", "new-key", name, "--scopes", scopes], &[], 0);
    let key = said.split_whitespace().find(|word| word.starts_with("dpl_")).expect("the key").to_owned();
    (section, key)
}

/// Asserts that `answer` is a problem in the form that all problems have. Returns its body.
#[track_caller]
pub fn expect_problem(answer: &TestResponse, status: u16, code: &str) -> Value {
    assert_eq!(answer.status, status, "{}", answer.text);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{}", answer.text);
    let body = answer.json();
    assert_eq!(body["code"], code, "{body}");
    assert_eq!(body["status"], status, "{body}");
    assert_eq!(body["type"], "about:blank", "{body}");
    assert_eq!(body["request_id"].as_str(), answer.header("x-request-id"), "{body}");
    assert!(body["request_id"].as_str().is_some_and(|id| !id.is_empty()), "{body}");
    assert!(body["title"].is_string() && body["detail"].is_string(), "{body}");
    assert_eq!(body["retryable"], matches!(status, 408 | 429 | 503 | 507), "{body}");
    body
}

/// Asserts that `value` has the members of `expected`, whose names are paths: `history/0/by`. A missing member is `null`.
#[track_caller]
pub fn expect_members(value: &Value, expected: &Value) {
    for (path, wanted) in expected.as_object().expect("an object") {
        let found = value.pointer(&format!("/{path}")).unwrap_or(&Value::Null);
        assert_eq!(found, wanted, "{path} in {value}");
    }
}

/// Asserts that the detail of a problem contains `part`.
#[track_caller]
pub fn expect_detail(problem: &Value, part: &str) {
    assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(part)), "{part:?} is not in {problem}");
}

/// Asserts that the first error of a problem is at `pointer`.
#[track_caller]
pub fn expect_pointer(problem: &Value, pointer: &str) {
    assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
}

/// Returns a number from the environment, which sets the size or the seed of a test.
pub fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} must be a whole number")),
        Err(_) => default,
    }
}

/// The generator splitmix64: small, well known, and the same on all machines.
pub struct TestRandom(u64);

impl TestRandom {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a separate text of `length` Han characters for each seed. Two texts share at most a few successive characters.
    pub fn text(seed: u64, length: usize) -> String {
        let mut random = Self::new(seed);
        (0..length).map(|_| char::from_u32(0x4e00 + random.below(0x4000) as u32).expect("a Han character")).collect()
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
