//! A service with keys, for tests that sign in.

use std::collections::BTreeMap;

use super::{TestServer, run};
use serde_json::{Value, json};

/// A service with keys: `desk` may read and write, `reader` may read, `intake` may write, and `office` may do everything.
pub struct KeyedServer {
    pub server: TestServer,
    keys: BTreeMap<&'static str, String>,
    _folder: tempfile::TempDir,
}

impl KeyedServer {
    pub fn start(environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut text = String::new();
        let mut keys = BTreeMap::new();
        for (name, scopes) in
            [("desk", "read,write"), ("reader", "read"), ("intake", "write"), ("office", "read,write,admin")]
        {
            let made = run(&["config", "new-key", name, "--scopes", scopes], &[]);
            let [section, said] = [made.stdout, made.stderr].map(|text| String::from_utf8(text).expect("UTF-8"));
            let key = said.split_whitespace().find(|word| word.starts_with("dpl_")).expect("the key");
            keys.insert(name, key.to_owned());
            text.push_str(&section);
        }
        let file = folder.path().join("doppel.toml");
        std::fs::write(&file, text).expect("the file can be written");
        let arguments = ["--config", file.to_str().expect("a plain path")];
        let server = TestServer::start_with(folder.path().join("data"), &arguments, environment);
        Self { server, keys, _folder: folder }
    }

    pub fn key(&self, name: &str) -> &str {
        &self.keys[name]
    }

    /// Returns the configuration file of the service.
    #[allow(dead_code, reason = "not every test changes it")]
    pub fn file(&self) -> std::path::PathBuf {
        self._folder.path().join("doppel.toml")
    }

    /// Returns the folder with the records of the service.
    #[allow(dead_code, reason = "not every test looks there")]
    pub fn data(&self) -> std::path::PathBuf {
        self._folder.path().join("data")
    }

    /// Registers a letter.
    #[track_caller]
    pub fn put(&self, id: &str, content: &str) {
        self.write(id, content, 201);
    }

    /// Replaces the text of a letter.
    #[track_caller]
    pub fn replace(&self, id: &str, content: &str) {
        self.write(id, content, 200);
    }

    #[track_caller]
    fn write(&self, id: &str, content: &str, status: u16) {
        let path = format!("/v1/collections/letters/records/{id}");
        let answer = self.server.send_as(self.key("intake"), "PUT", &path, &json!({ "content": content }));
        assert_eq!(answer.status, status, "{}", answer.text);
    }

    /// Returns the decision about two records from the API, or `null` if there is none.
    pub fn decision(&self, a: &str, b: &str) -> Value {
        let path = format!("/v1/collections/letters/decisions/{a}/{b}");
        let answer = self.server.send_as(self.key("reader"), "GET", &path, &Value::Null);
        if answer.status == 200 { answer.json() } else { Value::Null }
    }
}

/// A letter that is long enough to be compared.
pub const LAMPS: &str = "河口新区三号路的路灯已经连续多日不亮，晚上行走十分危险，居民多次报修没有结果。";
