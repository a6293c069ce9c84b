//! Reads a JSON array of objects as rows, or several arrays one after another. An object may have one line or several.

use std::io::{self, BufRead};

use super::{FileLine, UnreadableLine, too_large, unreadable};
use doppel_core::record::Row;

/// Reads the elements of an array one at a time. The memory depends on the longest element that is allowed.
pub(super) struct JsonArray<R> {
    input: R,
    /// The largest number of bytes of an element.
    max: usize,
    /// Number of elements that were read. An element is named by its number, because several elements may be on one line.
    elements: u64,
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
        Self { input, max, elements: 0, state: ArrayState::Before }
    }

    /// Returns the next byte without taking it.
    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.input.fill_buf()?.first().copied())
    }

    /// Returns the content of the next element with its number.
    fn numbered(&mut self, content: Result<Row, UnreadableLine>) -> FileLine {
        self.elements += 1;
        FileLine { line: self.elements, content }
    }

    fn next_item(&mut self) -> io::Result<Option<FileLine>> {
        while let Some(byte) = self.peek()? {
            match (self.state, byte) {
                (ArrayState::Failed, _) => return Ok(None),
                (_, b' ' | b'\t' | b'\r' | b'\n') => self.input.consume(1),
                (ArrayState::Before | ArrayState::Closed, b'[') => {
                    self.input.consume(1);
                    self.state = ArrayState::Between;
                }
                (ArrayState::Between, b',') => self.input.consume(1),
                (ArrayState::Between, b']') => {
                    self.input.consume(1);
                    self.state = ArrayState::Closed;
                }
                (ArrayState::Closed, _) => {
                    self.state = ArrayState::Failed;
                    return Ok(Some(self.numbered(Err(text_after_array()))));
                }
                (ArrayState::Before | ArrayState::Between, _) => return self.element().map(Some),
            }
        }
        let is_open = self.state == ArrayState::Between;
        self.state = ArrayState::Failed;
        Ok(is_open.then(|| self.numbered(Err(not_closed()))))
    }

    /// Reads an element that begins with the next byte.
    fn element(&mut self) -> io::Result<FileLine> {
        let mut element = ArrayElement::default();
        while let Some(byte) = self.peek()? {
            if element.depth == 0 && !element.is_string && matches!(byte, b',' | b']' | b' ' | b'\t' | b'\r' | b'\n') {
                return Ok(self.numbered(element.into_row(self.max)));
            }
            self.input.consume(1);
            element.push(byte, self.max);
            if element.depth == 0 && matches!(byte, b'}' | b']') && !element.is_string {
                return Ok(self.numbered(element.into_row(self.max)));
            }
        }
        self.state = ArrayState::Failed;
        Ok(self.numbered(Err(not_closed())))
    }
}

impl ArrayElement {
    fn into_row(self, max: usize) -> Result<Row, UnreadableLine> {
        match self.is_too_long {
            true => Err(too_large(max, "")),
            false => Row::parse(&self.bytes).map_err(|error| unreadable(error, &self.bytes)),
        }
    }

    /// Adds a byte. A line end outside strings becomes a blank, because rows are sent and stored as one line each.
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
            let is_line_end = matches!(byte, b'\r' | b'\n') && !self.is_string;
            self.bytes.push(if is_line_end { b' ' } else { byte });
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
        let expected =
            [item(1, r#"{"id":1,"t":"a]}\"["}"#), item(2, r#"{   "id": 2,   "x": [1, {}]  }"#), item(3, r#"{"id":3}"#)];
        assert_eq!(read(text.as_bytes(), Jsonl, 100), expected);
        assert_eq!(read(b"[]", Jsonl, 100), []);
    }

    #[test]
    fn all_arrays_of_a_file_are_read() {
        let expected = [item(1, r#"{"id":1}"#), item(2, r#"{"id":2}"#), item(3, r#"{"id":3}"#)];
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
        expected.extend((2..).zip(codes).map(|(number, code)| item(number, code)));
        expected.push(item(6, "{\"id\":2}"));
        assert_eq!(found, expected);
        assert_eq!(read(b"[{\"id\":1},{\"id\":", Jsonl, 99), [item(1, "{\"id\":1}"), item(2, "malformed_line")]);
        assert_eq!(read(b"[{\"id\":1}", Jsonl, 99), [item(1, "{\"id\":1}"), item(2, "malformed_line")]);
    }
}
