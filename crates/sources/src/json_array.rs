//! Reads a JSON array of objects as rows, or several arrays one after another. An object may have one line or several.

use std::io::{self, BufRead};

use super::{FileLine, UnreadableLine, too_large, unreadable};
use doppel_core::record::Row;

/// Reads the elements of an array one at a time. The memory depends on the longest element that is allowed.
pub(super) struct JsonArray<R> {
    input: R,
    /// The largest number of bytes of an element.
    max: usize,
    /// The line of the next byte.
    line: u64,
    state: ArrayState,
}

/// The position of the reader in the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArrayState {
    /// Before the bracket that opens the array.
    Before,
    /// Between two elements.
    Between,
    /// Behind a closed array. Another array may follow.
    Closed,
    /// Behind an error.
    Failed,
}

/// An element that is being read.
#[derive(Default)]
struct ArrayElement {
    bytes: Vec<u8>,
    is_too_long: bool,
    depth: usize,
    is_string: bool,
    is_escaped: bool,
}

impl<R: BufRead> JsonArray<R> {
    /// Creates a reader of an array whose elements have at most `max` bytes.
    pub(super) fn new(input: R, max: usize) -> Self {
        Self { input, max, line: 1, state: ArrayState::Before }
    }

    /// Returns the next byte without taking it.
    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.input.fill_buf()?.first().copied())
    }

    fn take(&mut self, byte: u8) {
        self.input.consume(1);
        self.line += u64::from(byte == b'\n');
    }

    fn next_item(&mut self) -> io::Result<Option<FileLine>> {
        while let Some(byte) = self.peek()? {
            match (self.state, byte) {
                (ArrayState::Failed, _) => return Ok(None),
                (_, b' ' | b'\t' | b'\r' | b'\n') => self.take(byte),
                (ArrayState::Before | ArrayState::Closed, b'[') => {
                    self.take(byte);
                    self.state = ArrayState::Between;
                }
                (ArrayState::Between, b',') => self.take(byte),
                (ArrayState::Between, b']') => {
                    self.take(byte);
                    self.state = ArrayState::Closed;
                }
                (ArrayState::Closed, _) => {
                    self.state = ArrayState::Failed;
                    return Ok(Some(FileLine { line: self.line, content: Err(text_after_array()) }));
                }
                (ArrayState::Before | ArrayState::Between, _) => return self.element().map(Some),
            }
        }
        let is_open = self.state == ArrayState::Between;
        self.state = ArrayState::Failed;
        Ok(is_open.then(|| FileLine { line: self.line, content: Err(not_closed()) }))
    }

    /// Reads an element that begins with the next byte.
    fn element(&mut self) -> io::Result<FileLine> {
        let line = self.line;
        let mut element = ArrayElement::default();
        while let Some(byte) = self.peek()? {
            if element.depth == 0 && !element.is_string && matches!(byte, b',' | b']' | b' ' | b'\t' | b'\r' | b'\n') {
                return Ok(FileLine { line, content: self.content(&element) });
            }
            self.take(byte);
            element.push(byte, self.max);
            if element.depth == 0 && matches!(byte, b'}' | b']') && !element.is_string {
                return Ok(FileLine { line, content: self.content(&element) });
            }
        }
        self.state = ArrayState::Failed;
        Ok(FileLine { line, content: Err(not_closed()) })
    }

    fn content(&self, element: &ArrayElement) -> Result<Row, UnreadableLine> {
        match element.is_too_long {
            true => Err(too_large(self.max, "")),
            false => Row::parse(&element.bytes).map_err(|error| unreadable(error, &element.bytes)),
        }
    }
}

impl ArrayElement {
    fn push(&mut self, byte: u8, max: usize) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.is_string => self.is_escaped = true,
            b'"' => self.is_string = !self.is_string,
            b'{' | b'[' if !self.is_string => self.depth += 1,
            b'}' | b']' if !self.is_string => self.depth = self.depth.saturating_sub(1),
            _ => (),
        }
        if self.bytes.len() < max {
            self.bytes.push(byte);
        } else {
            self.is_too_long = true;
        }
    }
}

fn not_closed() -> UnreadableLine {
    UnreadableLine::new("malformed_line", "", "the file ends within the array; perhaps it is cut off", None)
}

fn text_after_array() -> UnreadableLine {
    let detail = "the array ends before this text; the rows after it were not read: put all objects into one array";
    UnreadableLine::new("malformed_line", "", detail, None)
}

impl<R: BufRead> Iterator for JsonArray<R> {
    type Item = io::Result<FileLine>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_item().transpose()
    }
}

#[cfg(test)]
mod tests {
    use crate::FileFormat::Jsonl;
    use crate::tests::{item, read};

    #[test]
    fn each_object_of_an_array_is_a_row() {
        let text =
            "\u{feff} [\n {\"id\":1,\"t\":\"a]}\\\"[\"},\n {\n  \"id\": 2,\n  \"x\": [1, {}]\n },{\"id\":3}\n]\n";
        let expected = [
            item(2, r#"{"id":1,"t":"a]}\"["}"#),
            item(3, "{\n  \"id\": 2,\n  \"x\": [1, {}]\n }"),
            item(6, r#"{"id":3}"#),
        ];
        assert_eq!(read(text.as_bytes(), Jsonl, 100), expected);
        assert_eq!(read(b"[]", Jsonl, 100), []);
    }

    #[test]
    fn all_arrays_of_a_file_are_read() {
        let expected = [item(1, r#"{"id":1}"#), item(2, r#"{"id":2}"#), item(2, r#"{"id":3}"#)];
        assert_eq!(read(b"[{\"id\":1}]\n[{\"id\":2},{\"id\":3}][]\n", Jsonl, 100), expected);
        let cut = [item(1, r#"{"id":1}"#), item(2, "malformed_line")];
        assert_eq!(read(b"[{\"id\":1}]\n{\"id\":2}\n", Jsonl, 100), cut, "the rest is not lost without a message");
        assert_eq!(read(b"[{\"id\":1}]\n]", Jsonl, 100), cut);
    }

    #[test]
    fn a_bad_element_costs_itself() {
        let found = read(b"[{\"id\":1},7,{\"id\":{}},{\"a\":\"0123456789012345\"},[{}],{\"id\":2}]", Jsonl, 20);
        let codes = ["not_an_object", "invalid_id", "line_too_large", "not_an_object"];
        let mut expected = vec![item(1, "{\"id\":1}")];
        expected.extend(codes.map(|code| item(1, code)));
        expected.push(item(1, "{\"id\":2}"));
        assert_eq!(found, expected);
        assert_eq!(read(b"[{\"id\":1},{\"id\":", Jsonl, 99), [item(1, "{\"id\":1}"), item(1, "malformed_line")]);
        assert_eq!(read(b"[{\"id\":1}", Jsonl, 99), [item(1, "{\"id\":1}"), item(1, "malformed_line")]);
    }
}
