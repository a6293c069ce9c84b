//! A collector that keeps all spans that it receives: OTLP over HTTP. It reads the wire format of protobuf itself, so that the test does
//! not depend on the library that writes the spans.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A span as it was received.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedSpan {
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    /// The id of the parent; empty if the span has no parent.
    pub(crate) parent: String,
    /// The beginning in nanoseconds since 1970.
    pub(crate) began: u64,
    pub(crate) ended: u64,
}

pub(crate) struct SpanCollector {
    url: String,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl SpanCollector {
    /// Starts a collector on a free port of the loopback interface. It runs until the test ends.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let bodies = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let kept = Arc::clone(&bodies);
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || {
                    while let Some(body) = answer(&connection) {
                        kept.lock().expect("no reader panicked").push(body);
                    }
                });
            }
        });
        Self { url, bodies }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// True if any received data contains these bytes.
    pub(crate) fn holds(&self, word: &str) -> bool {
        let bodies = self.bodies.lock().expect("no reader panicked");
        bodies.iter().any(|body| body.windows(word.len()).any(|window| window == word.as_bytes()))
    }

    /// Returns the spans of all scopes of all resources.
    pub(crate) fn spans(&self) -> Vec<ReceivedSpan> {
        let bodies = self.bodies.lock().expect("no reader panicked");
        let resources = bodies.iter().flat_map(|body| parts(body, 1));
        let scopes = resources.flat_map(|resource| parts(resource, 2));
        scopes.flat_map(|scope| parts(scope, 2)).map(span).collect()
    }
}

/// Reads one request and answers it. Returns `None` at the end of the connection.
fn answer(mut connection: &TcpStream) -> Option<Vec<u8>> {
    let mut reader = BufReader::new(connection);
    let mut first = String::new();
    let mut length = 0;
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    assert!(first.starts_with("POST /v1/traces "), "{first}");
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        assert!(!line.starts_with("content-type:") || line.ends_with("application/x-protobuf"), "{line}");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    connection
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n")
        .ok()?;
    Some(body)
}

fn span(bytes: &[u8]) -> ReceivedSpan {
    ReceivedSpan {
        trace: hex_of_field(1, bytes),
        id: hex_of_field(2, bytes),
        parent: hex_of_field(4, bytes),
        name: text_of_field(5, bytes),
        began: time_of_field(7, bytes),
        ended: time_of_field(8, bytes),
    }
}

fn hex_of_field(number: u64, bytes: &[u8]) -> String {
    parts(bytes, number).flatten().map(|byte| format!("{byte:02x}")).collect()
}

fn text_of_field(number: u64, bytes: &[u8]) -> String {
    String::from_utf8(parts(bytes, number).flatten().copied().collect()).expect("UTF-8")
}

fn time_of_field(number: u64, bytes: &[u8]) -> u64 {
    let found = fields(bytes).find(|field| field.0 == number).map(|field| field.1);
    u64::from_le_bytes(found.and_then(|bytes| bytes.try_into().ok()).expect("a time"))
}

fn parts(message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    fields(message).filter(move |field| field.0 == number).map(|field| field.1)
}

/// Returns the fields of a message: their numbers and bytes. The value of a varint stays encoded.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    std::iter::from_fn(move || {
        let tag = varint(&mut rest)?;
        let length = match tag & 7 {
            0 => rest.iter().position(|byte| byte & 0x80 == 0).expect("the end of a varint") + 1,
            1 => 8,
            2 => usize::try_from(varint(&mut rest).expect("a length")).expect("a length that fits"),
            5 => 4,
            kind => panic!("kind {kind} of a field"),
        };
        let (value, behind) = rest.split_at(length);
        rest = behind;
        Some((tag >> 3, value))
    })
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
