//! Cuts a stream of bytes into lines, in constant memory.
//!
//! A line ends with LF or CRLF; the last line may end with the stream. Lines are numbered from 1; blank lines are counted but not returned.
//! A line that is longer than the limit is reported once, and is skipped without being kept in memory. The memory therefore stays below the
//! limit plus one piece of the stream. Time is linear in the bytes.

use bytes::{Buf, Bytes, BytesMut};

/// A line that is not blank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedLine {
    /// The number of the line, from 1.
    pub number: u64,
    /// The bytes without the line end. `None` if the line was longer than the limit.
    pub bytes: Option<Bytes>,
}

/// Cuts lines out of a stream that arrives in pieces.
#[derive(Debug)]
pub struct LineCutter {
    buffer: BytesMut,
    /// Number of bytes at the start of `buffer` that contain no line end.
    searched: usize,
    number: u64,
    skipping: bool,
    max: usize,
}

impl LineCutter {
    /// Creates a cutter for lines of at most `max` bytes.
    pub fn new(max: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, number: 0, skipping: false, max }
    }

    /// Adds a piece of the stream. The caller must take all lines before it adds the next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
    }

    /// Returns the next whole line.
    pub fn next_line(&mut self) -> Option<NumberedLine> {
        loop {
            let Some(end) = self.find_end() else {
                self.shed();
                return None;
            };
            let bytes = self.buffer.split_to(end).freeze();
            self.buffer.advance(1);
            self.searched = 0;
            if let Some(line) = self.cut(bytes) {
                return Some(line);
            }
        }
    }

    /// Returns the last line, if the stream did not end with a line end.
    pub fn last_line(&mut self) -> Option<NumberedLine> {
        if self.buffer.is_empty() && !self.skipping {
            return None;
        }
        let bytes = self.buffer.split().freeze();
        self.searched = 0;
        self.cut(bytes)
    }

    /// Returns the number of the next line.
    pub fn next_number(&self) -> u64 {
        self.number + 1
    }

    fn find_end(&mut self) -> Option<usize> {
        let found = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let end = found.map(|at| at + self.searched);
        self.searched = self.buffer.len();
        end
    }

    /// Drops a line that is already too long. One byte more than the limit may be the CR of the line end.
    fn shed(&mut self) {
        if self.skipping || self.buffer.len() > self.max + 1 {
            self.skipping = true;
            self.buffer.clear();
            self.searched = 0;
        }
    }

    fn cut(&mut self, bytes: Bytes) -> Option<NumberedLine> {
        self.number += 1;
        let bytes = match bytes.last() {
            Some(b'\r') => bytes.slice(..bytes.len() - 1),
            _ => bytes,
        };
        if std::mem::take(&mut self.skipping) || bytes.len() > self.max {
            return Some(NumberedLine { number: self.number, bytes: None });
        }
        let blank = bytes.iter().all(|byte| matches!(byte, b' ' | b'\t'));
        (!blank).then_some(NumberedLine { number: self.number, bytes: Some(bytes) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(pieces: &[&[u8]], max: usize) -> Vec<NumberedLine> {
        let mut lines = LineCutter::new(max);
        let mut found = Vec::new();
        for piece in pieces {
            lines.feed(piece);
            found.extend(std::iter::from_fn(|| lines.next_line()));
            assert!(lines.buffer.len() <= max + 1, "at most one line is held between pieces");
        }
        found.extend(lines.last_line());
        found
    }

    /// Cuts the whole text at once: a simple implementation to compare with [`LineCutter`].
    fn plain(text: &[u8], max: usize) -> Vec<NumberedLine> {
        let mut rows: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        if rows.last().is_some_and(|row| row.is_empty()) {
            rows.pop();
        }
        let numbered = rows.into_iter().map(|row: &[u8]| row.strip_suffix(b"\r").unwrap_or(row).to_vec()).zip(1..);
        let kept = numbered.filter(|(row, _)| row.len() > max || !row.iter().all(|byte| b" \t".contains(byte)));
        kept.map(|(row, number)| NumberedLine { number, bytes: (row.len() <= max).then(|| row.into()) }).collect()
    }

    #[test]
    fn crlf_blank_lines_and_a_last_line_without_end() {
        assert_eq!(
            cut(&[b"a\r\n\n  \nb\nc"], 9),
            [numbered_line(1, "a"), numbered_line(4, "b"), numbered_line(5, "c")]
        );
        assert_eq!(cut(&[b"", b"\n"], 9), []);
    }

    fn numbered_line(number: u64, text: &'static str) -> NumberedLine {
        NumberedLine { number, bytes: Some(text.into()) }
    }

    #[test]
    fn a_line_over_the_limit_is_reported_once_and_those_after_it_are_read() {
        let found = cut(&[b"12345", b"6789", b"0\nab", b"c\n12345", b"6"], 5);
        let numbers: Vec<(u64, bool)> = found.iter().map(|line| (line.number, line.bytes.is_some())).collect();
        assert_eq!(numbers, [(1, false), (2, true), (3, false)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn pieces_do_not_matter(text in "[ab\r\n ]{0,60}", cuts in prop::collection::vec(0usize..60, 0..6), max in 1usize..6) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
            prop_assert_eq!(cut(&pieces, max), plain(text.as_bytes(), max));
        }
    }
}
