//! A receiver of the messages of webhooks.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;

/// The secret of the webhook.
pub const SECRET: &str = "a secret of the office";

/// A request that a receiver got.
#[derive(Clone, Debug)]
pub struct Received {
    pub id: String,
    pub time: String,
    pub signature: String,
    pub body: Vec<u8>,
}

impl Received {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// The behaviour of a receiver.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// It answers with this status.
    Status(u16),
    /// It does not answer within three seconds.
    Slow,
    /// It answers with a redirect to this port.
    Redirect(u16),
}

/// A receiver of messages.
pub struct Receiver {
    pub port: u16,
    pub received: Arc<Mutex<Vec<Received>>>,
    pub manner: Arc<Mutex<Manner>>,
}

impl Receiver {
    pub fn start(port: u16, manner: Manner) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let manner = Arc::new(Mutex::new(manner));
        let kept = Arc::clone(&received);
        let told = Arc::clone(&manner);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                let told = Arc::clone(&told);
                std::thread::spawn(move || serve(stream, &kept, &told));
            }
        });
        Self { port, received, manner }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/doppel", self.port)
    }

    /// Waits until the receiver has got a message of each of these kinds and ids, in this order, and nothing else.
    pub fn wait_for(&self, expected: &[(&str, &str)]) -> Vec<Received> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let received = self.received.lock().clone();
            if received.len() >= expected.len() {
                let got: Vec<(String, String)> = received
                    .iter()
                    .map(|message| {
                        let message = message.json();
                        let data = &message["data"];
                        let id = data["id"].as_str().or(data["event"]["id"].as_str()).expect("an id");
                        (message["type"].as_str().expect("a type").to_owned(), id.to_owned())
                    })
                    .collect();
                let expected: Vec<(String, String)> =
                    expected.iter().map(|(kind, id)| ((*kind).to_owned(), (*id).to_owned())).collect();
                assert_eq!(got, expected);
                return received;
            }
            assert!(Instant::now() < until, "{} messages of {}", received.len(), expected.len());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn serve(stream: TcpStream, received: &Mutex<Vec<Received>>, manner: &Mutex<Manner>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            headers.push(line);
        }
        let header = |name: &str| {
            let found = headers.iter().filter_map(|line| line.split_once(": "));
            found.into_iter().find(|(found, _)| *found == name).map_or_else(String::new, |(_, value)| value.to_owned())
        };
        let mut body = vec![0; header("content-length").parse().expect("a length")];
        reader.read_exact(&mut body).expect("a body");
        let message = Received {
            id: header("webhook-id"),
            time: header("webhook-timestamp"),
            signature: header("webhook-signature"),
            body,
        };
        let answer = match *manner.lock() {
            Manner::Status(status) => {
                if status < 300 {
                    received.lock().push(message);
                }
                format!("HTTP/1.1 {status} Done\r\ncontent-length: 0\r\n\r\n")
            }
            Manner::Redirect(port) => {
                format!("HTTP/1.1 307 Elsewhere\r\nlocation: http://127.0.0.1:{port}/\r\ncontent-length: 0\r\n\r\n")
            }
            Manner::Slow => {
                std::thread::sleep(Duration::from_secs(3));
                return;
            }
        };
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Writes a configuration with a webhook.
pub fn configuration(folder: &Path, url: &str, more: &str) -> String {
    let secret = folder.join("secret");
    std::fs::write(&secret, format!("{SECRET}\n")).expect("a file");
    let file = folder.join("doppel.toml");
    let text = format!(
        "[[webhook]]\nname = \"cases\"\nurl = {url:?}\nsecret_file = {:?}\nallow_private = true\ntimeout_s = 1\n{more}\n",
        secret.display().to_string()
    );
    std::fs::write(&file, text).expect("a file");
    file.display().to_string()
}
