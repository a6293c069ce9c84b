//! JSON lines: one object a line. Blank lines count and are left out.

use std::io::{self, BufRead};

use super::{Item, Unreadable, too_large, unreadable};
use doppel_core::record::Row;

pub(super) struct JsonLines<R> {
    input: R,
    max: usize,
    line: u64,
    held: Vec<u8>,
}

/// How a line was found.
enum Found {
    Whole,
    TooLong,
    End,
}

impl<R: BufRead> JsonLines<R> {
    pub(super) fn new(input: R, max: usize) -> Self {
        Self { input, max, line: 0, held: Vec::new() }
    }

    /// Reads the next line into `held`, no more than `max` bytes of it.
    fn next_line(&mut self) -> io::Result<Found> {
        self.held.clear();
        let (mut any, mut too_long) = (false, false);
        loop {
            let piece = self.input.fill_buf()?;
            if piece.is_empty() {
                break;
            }
            any = true;
            let end = piece.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(piece.len());
            // One byte more may be the CR of the line end.
            too_long |= self.held.len() + taken > self.max + 1;
            if !too_long {
                self.held.extend_from_slice(&piece[..taken]);
            }
            self.input.consume(taken + usize::from(end.is_some()));
            if end.is_some() {
                break;
            }
        }
        if !any {
            return Ok(Found::End);
        }
        self.line += 1;
        if self.held.last() == Some(&b'\r') {
            self.held.pop();
        }
        Ok(if too_long || self.held.len() > self.max { Found::TooLong } else { Found::Whole })
    }

    fn content(&self) -> Result<Row, Unreadable> {
        Row::parse(&self.held).map_err(|error| unreadable(error, &self.held))
    }
}

impl<R: BufRead> Iterator for JsonLines<R> {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let content = match self.next_line() {
                Err(error) => return Some(Err(error)),
                Ok(Found::End) => return None,
                Ok(Found::TooLong) => Err(too_large(self.max, "")),
                Ok(Found::Whole) if self.held.iter().all(|byte| matches!(byte, b' ' | b'\t')) => continue,
                Ok(Found::Whole) => self.content(),
            };
            return Some(Ok(Item { line: self.line, content }));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Format::Jsonl;
    use crate::tests::read;

    fn item(line: u64, text: &str) -> (u64, String) {
        (line, text.to_owned())
    }

    #[test]
    fn blank_lines_count_and_are_left_out() {
        let found = read(b"\xef\xbb\xbf{\"id\":1}\r\n\n  \n{\"id\":2}", Jsonl, 100);
        assert_eq!(found, [item(1, "{\"id\":1}"), item(4, "{\"id\":2}")]);
    }

    #[test]
    fn a_bad_line_is_an_item_and_the_rest_go_on() {
        let found = read(b"{\"id\":1}\n{\n[1]\n\xff\n{\"id\":{}}\n{\"id\":2}\n", Jsonl, 100);
        let codes = ["malformed_line", "not_an_object", "malformed_line", "invalid_id"];
        let codes = codes.iter().zip(2..).map(|(code, line)| item(line, code));
        let expected: Vec<_> =
            [item(1, "{\"id\":1}")].into_iter().chain(codes).chain([item(6, "{\"id\":2}")]).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_line_over_the_limit_is_left_out_and_one_at_the_limit_is_not() {
        let found = read(b"{\"id\":1}\r\n{\"id\":10}\n{\"id\":2}", Jsonl, 8);
        assert_eq!(found, [item(1, "{\"id\":1}"), item(2, "line_too_large"), item(3, "{\"id\":2}")]);
    }
}
