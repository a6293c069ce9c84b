//! JSON lines: one object a line. Blank lines count and are left out.

use std::io::{self, BufRead};

use super::lines::{Line, Lines};
use super::{Item, too_large, unreadable};
use doppel_core::record::Row;

pub(super) struct JsonLines<R> {
    input: R,
    max: usize,
    lines: Lines,
}

impl<R: BufRead> JsonLines<R> {
    pub(super) fn new(input: R, max: usize) -> Self {
        Self { input, max, lines: Lines::new(max) }
    }

    fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.lines.next_line() {
                return Ok(Some(line));
            }
            let piece = self.input.fill_buf()?;
            if piece.is_empty() {
                return Ok(self.lines.last_line());
            }
            let length = piece.len();
            self.lines.feed(piece);
            self.input.consume(length);
        }
    }

    fn item(&self, Line { number, bytes }: Line) -> Item {
        let content = match bytes {
            Some(bytes) => Row::parse(&bytes).map_err(|error| unreadable(error, &bytes)),
            None => Err(too_large(self.max, "")),
        };
        Item { line: number, content }
    }
}

impl<R: BufRead> Iterator for JsonLines<R> {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.next_line().transpose()?;
        Some(line.map(|line| self.item(line)))
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
