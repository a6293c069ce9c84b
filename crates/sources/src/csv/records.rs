//! Records of values separated by commas or another byte, cut one at a time. The file is any encoding in which the bytes of separators,
//! quotes and line ends stand for nothing else: UTF-8 and GB18030 are.
//!
//! A value whose quote is not closed would take the rows behind it along: it is found out by the end of the file, by the bounds
//! below, by a quote on a later line behind which neither a separator nor a line end stands (it opens a value of a row that was
//! swallowed), or by its lines: line after line with as many separators as a row has. Then only the lines up to the one with that quote are given up, and the next record begins behind them.

use std::io::{self, BufRead};

use doppel_core::record::MAX_FIELDS;

/// Most lines of one value: the longest petitions measured have some 20 kB, which in lines of 20 characters is 350. The fewer,
/// the fewer rows an open quote may take along until a quote that seems to close it.
pub(crate) const MAX_FIELD_LINES: u64 = 1000;
/// Most bytes of one value: as many as a service takes of a whole record unless told otherwise.
pub(crate) const MAX_FIELD_BYTES: usize = 1 << 20;

/// Most lines of one value that follow one another and each look like a row of the file: as many separators. The more separators,
/// the fewer such lines are chance.
fn most_row_like_lines(separators: usize) -> u64 {
    (24 / separators.max(1) as u64).clamp(4, 24)
}

/// A record that was found.
pub(crate) struct Start {
    /// The line on which it starts.
    pub(crate) line: u64,
    /// Why it has no values.
    pub(crate) fault: Option<Fault>,
}

/// Why a record cannot be cut into values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// More bytes than may be held.
    TooLarge {
        /// Whether a quote is open.
        quoted: bool,
    },
    /// The quote that is opened on this line is not closed.
    OpenQuote {
        /// The line.
        line: u64,
        /// How that was found out.
        end: QuoteEnd,
    },
}

/// How it was found out that a quote is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum QuoteEnd {
    /// The file ends.
    File,
    /// The value has more than [`MAX_FIELD_LINES`] lines.
    Lines,
    /// The value has more than [`MAX_FIELD_BYTES`].
    Bytes,
    /// A quote on a later line closes nothing.
    Later,
    /// Its lines look like rows of the file.
    Rows,
}

/// What ended a value.
enum Ended {
    Value,
    Record,
    Fault(Fault),
}

/// Cuts records, holding one at a time: no more than `max` bytes of its values, and of the file twice as many (quotes within
/// values are doubled) and what was read ahead.
pub(crate) struct Records<R> {
    input: R,
    separator: u8,
    pub(crate) max: usize,
    /// Bytes of the file: the record from `start` on, and what was read ahead.
    held: Vec<u8>,
    start: usize,
    /// The next byte to look at, and the line on which it stands.
    at: usize,
    line: u64,
    /// Where the quote stands that was opened last: bytes behind `start`, and the line.
    quote: (usize, u64),
    /// The values of the record, one after the other.
    pub(crate) text: Vec<u8>,
    /// Where each value ends in `text`.
    ends: Vec<usize>,
    /// Separators of the first record that could be cut: of every row, as a rule.
    separators: Option<usize>,
}

impl<R: BufRead> Records<R> {
    pub(crate) fn new(input: R, max: usize, separator: u8) -> Self {
        let (held, text, ends) = (Vec::new(), Vec::new(), Vec::new());
        Self { input, separator, max, held, start: 0, at: 0, line: 1, quote: (0, 1), text, ends, separators: None }
    }

    /// The values of the record just read.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.text[start..*end])
    }

    /// Reads the next record; `None` at the end. Of one that cannot be cut, `text` holds the lines given up, if they may be held.
    pub(crate) fn next_record(&mut self) -> io::Result<Option<Start>> {
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
                Ended::Value => {}
                Ended::Record => break None,
                Ended::Fault(fault) => break Some(fault),
            }
        };
        match fault {
            Some(fault) => self.give_up(fault)?,
            None => self.separators = self.separators.or(Some(self.ends.len() - 1)),
        }
        Ok(Some(Start { line, fault }))
    }

    /// Reads a value and what ends it.
    fn value(&mut self) -> io::Result<Ended> {
        let begin = self.text.len();
        if self.peek()? == Some(b'"')
            && let Some(fault) = self.quoted(begin)?
        {
            return Ok(Ended::Fault(fault));
        }
        loop {
            // Not quoted, or behind a closing quote: there quotes are text.
            let separator = self.separator;
            self.take_run(|byte| byte == separator || matches!(byte, b'\r' | b'\n'));
            if self.is_too_large() {
                return Ok(Ended::Fault(Fault::TooLarge { quoted: false }));
            }
            let ended = match self.peek()? {
                Some(byte) if byte == self.separator => Ended::Value,
                None | Some(b'\r' | b'\n') => Ended::Record,
                Some(_) => continue,
            };
            self.at += usize::from(matches!(ended, Ended::Value));
            self.ends.push(self.text.len());
            return Ok(ended);
        }
    }

    /// Reads from an opening quote to behind the closing one.
    fn quoted(&mut self, begin: usize) -> io::Result<Option<Fault>> {
        self.quote = (self.at - self.start, self.line);
        self.at += 1;
        let (mut lines, mut row_like) = (0, 0);
        let mut line_start = None;
        let opened = self.line;
        let open = |end| Ok(Some(Fault::OpenQuote { line: opened, end }));
        loop {
            self.take_run(|byte| matches!(byte, b'"' | b'\r' | b'\n'));
            if self.text.len() - begin > MAX_FIELD_BYTES {
                return open(QuoteEnd::Bytes);
            }
            if self.is_too_large() {
                return Ok(Some(Fault::TooLarge { quoted: true }));
            }
            let Some(byte) = self.peek()? else { return open(QuoteEnd::File) };
            if !matches!(byte, b'"' | b'\r' | b'\n') {
                continue;
            }
            self.at += 1;
            if byte != b'"' {
                let ends_line = byte == b'\n' || self.peek()? != Some(b'\n');
                self.line += u64::from(byte == b'\n');
                if ends_line {
                    row_like = if self.is_row_like(line_start) { row_like + 1 } else { 0 };
                    line_start = Some(self.text.len() + 1);
                    lines += 1;
                }
                self.text.push(byte);
                if lines >= MAX_FIELD_LINES {
                    return open(QuoteEnd::Lines);
                }
                if row_like >= most_row_like_lines(self.separators.unwrap_or(0)) {
                    return open(QuoteEnd::Rows);
                }
                continue;
            }
            match self.peek()? {
                Some(b'"') => {
                    self.at += 1;
                    self.text.push(b'"');
                }
                // On one line it is a text that holds a quote.
                Some(byte) if lines > 0 && byte != self.separator && !matches!(byte, b'\r' | b'\n') => {
                    return open(QuoteEnd::Later);
                }
                _ => return Ok(None),
            }
        }
    }

    /// Whether what stands in the value from `line_start` on has as many separators as a row of the file, at least one.
    fn is_row_like(&self, line_start: Option<usize>) -> bool {
        let line = line_start.and_then(|start| self.text.get(start..));
        let separators = line.map_or(0, |line| line.iter().filter(|byte| **byte == self.separator).count());
        separators > 0 && self.separators == Some(separators)
    }

    fn is_too_large(&self) -> bool {
        self.text.len() > self.max || self.ends.len() > 2 * MAX_FIELDS
    }

    /// Goes back to the line of the open quote, if one is open, and forgets the record up to that line's end.
    fn give_up(&mut self, fault: Fault) -> io::Result<()> {
        let quoted = !matches!(fault, Fault::TooLarge { quoted: false });
        if quoted {
            (self.at, self.line) = (self.start + self.quote.0, self.quote.1);
        }
        self.text.clear();
        self.ends.clear();
        let is_held = matches!(fault, Fault::OpenQuote { .. });
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
            // It is not gone back to.
            self.start = self.at;
            if run.is_some() || !self.fill()? {
                return Ok(());
            }
        }
    }

    /// Takes what is held up to a byte that `ends` it.
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

    /// Reads on, and forgets what stands before the record; whether there was more.
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

    /// Blank lines, and the LF of a CRLF, stand before a record and not in it.
    fn skip_line_ends(&mut self) -> io::Result<()> {
        while let Some(byte @ (b'\r' | b'\n')) = self.peek()? {
            self.line += u64::from(byte == b'\n');
            self.at += 1;
            self.start = self.at;
        }
        Ok(())
    }
}
