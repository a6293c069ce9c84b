//! A model's server for tests: `/v1/embeddings` with vectors of the characters of a text, and with each kind of error.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

/// The behaviour of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelManner {
    /// It answers with vectors. Different numbers are different models.
    Model { number: u64, dimension: usize },
    /// It answers with vectors of 64 numbers after some time.
    Slow { number: u64, millis: u64 },
    /// It answers with vectors of model 1 for at most two texts of at most 40 characters, and otherwise with 413.
    Narrow,
    /// It answers with this status.
    Status(u16),
    /// It answers with this status if a text contains the word, and otherwise with vectors of the usual model.
    StatusFor { word: &'static str, status: u16 },
    /// It answers with 429 and `Retry-After: 1`.
    Busy,
    /// It answers with a text that is not a valid answer.
    Garbage,
    /// It closes each connection without an answer.
    Away,
}

/// The usual model.
pub const MODEL: ModelManner = ModelManner::Model { number: 1, dimension: 64 };

/// A model's server.
pub struct FakeEmbedder {
    pub port: u16,
    pub manner: Arc<Mutex<ModelManner>>,
    /// All texts for which the server gave a vector, in the order of the requests.
    pub embedded: Arc<Mutex<Vec<String>>>,
    /// All texts that reached the server.
    pub received: Arc<Mutex<Vec<String>>>,
    /// The header `authorization` of the last request.
    pub key: Arc<Mutex<String>>,
}

impl FakeEmbedder {
    pub fn start(manner: ModelManner) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let server = Self {
            port,
            manner: Arc::new(Mutex::new(manner)),
            embedded: Arc::default(),
            received: Arc::default(),
            key: Arc::default(),
        };
        let [embedded, received] = [&server.embedded, &server.received].map(Arc::clone);
        let manner = Arc::clone(&server.manner);
        let key = Arc::clone(&server.key);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let server = Self {
                    port,
                    manner: Arc::clone(&manner),
                    embedded: Arc::clone(&embedded),
                    received: Arc::clone(&received),
                    key: Arc::clone(&key),
                };
                std::thread::spawn(move || server.serve(stream));
            }
        });
        server
    }

    pub fn become_model(&self, manner: ModelManner) {
        *self.manner.lock() = manner;
    }

    /// Returns how often the server gave vectors for texts that contain `part`.
    pub fn count(&self, part: &str) -> usize {
        self.embedded.lock().iter().filter(|text| text.contains(part)).count()
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some(body) = self.read(&mut reader) {
            let Value::Object(body) = serde_json::from_slice(&body).expect("JSON") else { panic!("no object") };
            let texts: Vec<String> = serde_json::from_value(body["input"].clone()).expect("texts");
            self.received.lock().extend(texts.iter().cloned());
            let manner = *self.manner.lock();
            let narrow = texts.len() > 3 || texts.iter().skip(1).any(|text| text.chars().count() > 40);
            let answer = match manner {
                ModelManner::Away => return,
                ModelManner::Status(status) => respond(status, "", "no"),
                ModelManner::StatusFor { word, status } if texts.iter().any(|text| text.contains(word)) => {
                    respond(status, "", "no")
                }
                ModelManner::StatusFor { .. } => self.vectors(&texts, 1, 64),
                ModelManner::Busy => respond(429, "retry-after: 1\r\n", "later"),
                ModelManner::Garbage => respond(200, "", "<html>"),
                ModelManner::Narrow if narrow => respond(413, "", "too large"),
                ModelManner::Narrow => self.vectors(&texts, 1, 64),
                ModelManner::Slow { number, millis } => {
                    std::thread::sleep(Duration::from_millis(millis));
                    self.vectors(&texts, number, 64)
                }
                ModelManner::Model { number, dimension } => self.vectors(&texts, number, dimension),
            };
            if reader.get_mut().write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn read(&self, reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
            match line.trim_end().to_lowercase().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().expect("a length"),
                Some(("authorization", _)) => *self.key.lock() = line.trim_end().to_owned(),
                Some(_) => {}
                None if line.trim_end().is_empty() => break,
                None => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        Some(body)
    }

    fn vectors(&self, texts: &[String], number: u64, dimension: usize) -> String {
        self.embedded.lock().extend(texts.iter().cloned());
        let data: Vec<Value> = (0..)
            .zip(texts)
            .map(|(index, text): (usize, &String)| json!({ "index": index, "embedding": vector(text, number, dimension) }))
            .collect();
        respond(200, "content-type: application/json\r\n", &json!({ "data": data }).to_string())
    }
}

/// Returns a vector whose direction depends on the pairs of characters of a text.
fn vector(text: &str, number: u64, dimension: usize) -> Vec<f64> {
    let mut vector = vec![0.01; dimension];
    let chars: Vec<char> = text.chars().collect();
    for pair in chars.windows(2) {
        let mixed = (u64::from(pair[0]) << 32 ^ u64::from(pair[1]) ^ number << 24).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        vector[(mixed >> 40) as usize % dimension] += 1.0;
    }
    vector
}

fn respond(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} Done\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

/// Writes a configuration with the server, and returns its path.
pub fn configuration(folder: &Path, embedder: &FakeEmbedder, more: &str) -> String {
    let file = folder.join("doppel.toml");
    let url = format!("http://127.0.0.1:{}/v1/embeddings", embedder.port);
    let text = format!("[search.embedder]\nurl = \"{url}\"\nmodel = \"pairs\"\nweight = 1.0\nbatch = 4\n{more}\n");
    std::fs::write(&file, text).expect("a file");
    file.display().to_string()
}
