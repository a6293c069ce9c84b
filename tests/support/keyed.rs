//! A service with keys, for tests that sign in.

use std::collections::BTreeMap;

use super::{TestResponse, TestServer, new_key, put_file};
use serde_json::{Value, json};

/// A service with keys: `desk` may read and write, `reader` may read, `intake` may write, and `office` may do everything.
pub struct KeyedServer {
    pub server: TestServer,
    keys: BTreeMap<&'static str, String>,
}

impl KeyedServer {
    pub fn start(environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut text = String::new();
        let mut keys = BTreeMap::new();
        for (name, scopes) in
            [("desk", "read,write"), ("reader", "read"), ("intake", "write"), ("office", "read,write,admin")]
        {
            let (section, key) = new_key(name, scopes);
            keys.insert(name, key);
            text.push_str(&section);
        }
        let file = put_file(&folder, "doppel.toml", text);
        Self { server: TestServer::start_owning(folder, &["--config", &file], environment), keys }
    }

    /// Starts a service that has a letter with the text [`LAMPS`] for each id.
    pub fn with(ids: &[&str]) -> Self {
        let keyed = Self::start(&[]);
        ids.iter().for_each(|id| keyed.put(id, LAMPS));
        keyed
    }

    pub fn key(&self, name: &str) -> &str {
        &self.keys[name]
    }

    /// Returns the configuration file of the service.
    pub fn file(&self) -> std::path::PathBuf {
        self.server.folder().join("doppel.toml")
    }

    /// Returns the folder with the records of the service.
    pub fn data(&self) -> std::path::PathBuf {
        self.server.folder().join("data")
    }

    /// Sends JSON with the key of this name.
    pub fn send(&self, key: &str, method: &str, path: &str, body: &Value) -> TestResponse {
        self.server.send_as(self.key(key), method, path, body)
    }

    /// Sends a GET request with the key of this name.
    pub fn get(&self, key: &str, path: &str) -> TestResponse {
        self.server.get_as(self.key(key), path)
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
        let answer = self.send("intake", "PUT", &path, &json!({ "content": content }));
        assert_eq!(answer.status, status, "{}", answer.text);
    }

    /// Returns the decision about two records from the API, or `null` if there is none.
    pub fn decision(&self, a: &str, b: &str) -> Value {
        let path = format!("/v1/collections/letters/decisions/{a}/{b}");
        let answer = self.get("reader", &path);
        if answer.status == 200 { answer.json() } else { Value::Null }
    }
}

/// A letter that is long enough to be compared.
pub const LAMPS: &str = "河口新区三号路的路灯已经连续多日不亮，晚上行走十分危险，居民多次报修没有结果。";
