//! Cuts a file into records of values, one record at a time. A comma or another byte separates the values. In the encoding of the file, the
//! bytes of separators, quotes and line ends must have no other meaning, as in UTF-8 and GB18030.
//!
//! A value whose quote is not closed would also contain the rows below it. Such a quote is recognised by the end of the file, by the bounds
//! below, by a quote on a later line that neither a separator nor a line end follows (this quote opens a value of such a row), or by
//! several lines in sequence that have as many separators as a row. Only the lines up to the line of the open quote are then given up, and
//! the next record begins below them.

use std::io::{self, BufRead};

use doppel_core::record::MAX_FIELDS;

/// The largest number of lines of one value. The longest petitions that were measured have about 20 kB, which is 350 lines of 20
/// characters. With a smaller bound, fewer rows are lost to an open quote before a later quote seems to close it.
pub(crate) const MAX_FIELD_LINES: u64 = 1000;
/// The largest number of bytes of one value: the default limit of the service for a whole record.
pub(crate) const MAX_FIELD_BYTES: usize = 1 << 20;

/// Returns the number of successive lines of one value that may look like rows of the file, which means that they have as many separators.
/// The more separators a row has, the fewer such lines occur by chance.
fn most_row_like_lines(separators: usize) -> u64 {
    (24 / separators.max(1) as u64).clamp(4, 24)
}

/// The beginning of a record.
pub(crate) struct RecordStart {
    /// The number of the line on which the record starts.
    pub(crate) line: u64,
    /// The reason why the record has no values.
    pub(crate) fault: Option<CsvFault>,
}

/// The reason why a record cannot be cut into values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CsvFault {
    /// The record has more bytes than may be held.
    TooLarge {
        /// True if a quote is open.
        quoted: bool,
    },
    /// The quote that is opened on this line is not closed.
    OpenQuote {
        line: u64,
        /// The sign by which the open quote was recognised.
        end: QuoteEnd,
    },
}

/// The sign by which an open quote was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum QuoteEnd {
    /// The file ends.
    File,
    /// The value has more than [`MAX_FIELD_LINES`] lines.
    Lines,
    /// The value has more than [`MAX_FIELD_BYTES`].
    Bytes,
    /// A quote on a later line does not close a value.
    Later,
    /// The lines of the value look like rows of the file.
    Rows,
}

enum ValueEnd {
    Value,
    Record,
    Fault(CsvFault),
}

/// Cuts records and holds one record at a time. It holds at most `max` bytes of values, and twice as many bytes of the file (quotes within
/// values are doubled) plus the bytes that were read ahead.
pub(crate) struct CsvRecordReader<R> {
    input: R,
    separator: u8,
    pub(crate) max: usize,
    /// Bytes of the file: the record, which begins at `start`, and the bytes that were read ahead.
    held: Vec<u8>,
    start: usize,
    /// Offset of the next byte in `held`. `line` is the number of its line.
    at: usize,
    line: u64,
    /// Position of the quote that was opened last: its offset from `start`, and its line.
    quote: (usize, u64),
    /// The values of the record, one after another.
    pub(crate) text: Vec<u8>,
    /// The end of each value in `text`.
    ends: Vec<usize>,
    /// Number of separators of the first record without a fault. Usually every row has this number.
    separators: Option<usize>,
}

impl<R: BufRead> CsvRecordReader<R> {
    pub(crate) fn new(input: R, max: usize, separator: u8) -> Self {
        let held = Vec::new();
        let text = Vec::new();
        let ends = Vec::new();
        Self { input, separator, max, held, start: 0, at: 0, line: 1, quote: (0, 1), text, ends, separators: None }
    }

    /// Returns the values of the last record that was read.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..*end])
    }

    /// Reads the next record, and returns `None` at the end of the file. For a record that cannot be cut, `text` contains the lines that
    /// were given up, if they may be held.
    pub(crate) fn next_record(&mut self) -> io::Result<Option<RecordStart>> {
        self.skip_line_ends()?;
        self.start = self.at;
        self.text.clear();
        self.ends.clear();
        let line = self.line;
        if self.peek()?.is_none() {
            return Ok(None);
        }
        let fault = loop {
            match self.value()? {
                ValueEnd::Value => {}
                ValueEnd::Record => break None,
                ValueEnd::Fault(fault) => break Some(fault),
            }
        };
        match fault {
            Some(fault) => self.give_up(fault)?,
            None => self.separators = self.separators.or(Some(self.ends.len() - 1)),
        }
        Ok(Some(RecordStart { line, fault }))
    }

    /// Reads a value and the separator or line end behind it.
    fn value(&mut self) -> io::Result<ValueEnd> {
        let begin = self.text.len();
        if self.peek()? == Some(b'"')
            && let Some(fault) = self.quoted(begin)?
        {
            return Ok(ValueEnd::Fault(fault));
        }
        loop {
            // This text is not quoted, or follows a closing quote. Quotes in it are ordinary characters.
            let separator = self.separator;
            self.take_run(|byte| byte == separator || matches!(byte, b'\r' | b'\n'));
            if self.is_too_large() {
                return Ok(ValueEnd::Fault(CsvFault::TooLarge { quoted: false }));
            }
            let ended = match self.peek()? {
                Some(byte) if byte == self.separator => ValueEnd::Value,
                None | Some(b'\r' | b'\n') => ValueEnd::Record,
                Some(_) => continue,
            };
            self.at += usize::from(matches!(ended, ValueEnd::Value));
            self.ends.push(self.text.len());
            return Ok(ended);
        }
    }

    /// Reads from an opening quote to the byte behind the closing quote.
    fn quoted(&mut self, begin: usize) -> io::Result<Option<CsvFault>> {
        self.quote = (self.at - self.start, self.line);
        self.at += 1;
        let mut lines = 0;
        let mut row_like = 0;
        let mut line_start = None;
        let opened = self.line;
        loop {
            self.take_run(|byte| matches!(byte, b'"' | b'\r' | b'\n'));
            if self.text.len() - begin > MAX_FIELD_BYTES {
                return open_quote(QuoteEnd::Bytes, opened);
            }
            if self.is_too_large() {
                return Ok(Some(CsvFault::TooLarge { quoted: true }));
            }
            let Some(byte) = self.peek()? else { return open_quote(QuoteEnd::File, opened) };
            if !matches!(byte, b'"' | b'\r' | b'\n') {
                continue;
            }
            self.at += 1;
            if byte != b'"' {
                let ends_line = byte == b'\n' || self.peek()? != Some(b'\n');
                self.line += u64::from(ends_line);
                if ends_line {
                    row_like = if self.is_row_like(line_start) { row_like + 1 } else { 0 };
                    line_start = Some(self.text.len() + 1);
                    lines += 1;
                }
                self.text.push(byte);
                if lines >= MAX_FIELD_LINES {
                    return open_quote(QuoteEnd::Lines, opened);
                }
                if row_like >= most_row_like_lines(self.separators.unwrap_or(0)) {
                    return open_quote(QuoteEnd::Rows, opened);
                }
                continue;
            }
            match self.peek()? {
                Some(b'"') => {
                    self.at += 1;
                    self.text.push(b'"');
                }
                // A value of one line may contain a quote that is not doubled.
                Some(byte) if lines > 0 && byte != self.separator && !matches!(byte, b'\r' | b'\n') => {
                    return open_quote(QuoteEnd::Later, opened);
                }
                _ => return Ok(None),
            }
        }
    }

    /// True if the part of the value from `line_start` on has as many separators as a row of the file, and at least one.
    fn is_row_like(&self, line_start: Option<usize>) -> bool {
        let line = line_start.and_then(|start| self.text.get(start..));
        let separators = line.map_or(0, |line| line.iter().filter(|byte| **byte == self.separator).count());
        separators > 0 && self.separators == Some(separators)
    }

    fn is_too_large(&self) -> bool {
        self.text.len() > self.max || self.ends.len() > 2 * MAX_FIELDS
    }

    /// Goes back to the line of the open quote, if a quote is open, and skips the record up to the end of that line.
    fn give_up(&mut self, fault: CsvFault) -> io::Result<()> {
        let quoted = !matches!(fault, CsvFault::TooLarge { quoted: false });
        if quoted {
            (self.at, self.line) = (self.start + self.quote.0, self.quote.1);
        }
        self.text.clear();
        self.ends.clear();
        let is_held = matches!(fault, CsvFault::OpenQuote { .. });
        if is_held {
            self.text.extend_from_slice(&self.held[self.start..self.at]);
        }
        loop {
            let rest = &self.held[self.at..];
            let run = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
            let taken = run.unwrap_or(rest.len());
            if is_held && self.text.len() <= self.max {
                self.text.extend_from_slice(&rest[..taken]);
            }
            self.at += taken;
            // These bytes are not needed again.
            self.start = self.at;
            if run.is_some() || !self.fill()? {
                return Ok(());
            }
        }
    }

    /// Adds the held bytes to the value, up to a byte for which `ends` returns true.
    fn take_run(&mut self, ends: impl Fn(u8) -> bool) {
        let rest = &self.held[self.at..];
        let run = rest.iter().position(|byte| ends(*byte)).unwrap_or(rest.len());
        self.text.extend_from_slice(&rest[..run]);
        self.at += run;
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        if self.at == self.held.len() && !self.fill()? {
            return Ok(None);
        }
        Ok(self.held.get(self.at).copied())
    }

    /// Reads more bytes, and drops the bytes before the record. Returns false at the end of the file.
    fn fill(&mut self) -> io::Result<bool> {
        self.held.drain(..self.start);
        self.at -= self.start;
        self.start = 0;
        let piece = self.input.fill_buf()?;
        let count = piece.len();
        self.held.extend_from_slice(piece);
        self.input.consume(count);
        Ok(count > 0)
    }

    /// Skips blank lines and the end of the line before a record. A line ends with CR, LF or CRLF.
    fn skip_line_ends(&mut self) -> io::Result<()> {
        while let Some(byte @ (b'\r' | b'\n')) = self.peek()? {
            self.at += 1;
            self.start = self.at;
            self.line += u64::from(byte == b'\n' || self.peek()? != Some(b'\n'));
        }
        Ok(())
    }
}

fn open_quote(end: QuoteEnd, opened: u64) -> Result<Option<CsvFault>, io::Error> {
    Ok(Some(CsvFault::OpenQuote { line: opened, end }))
}
