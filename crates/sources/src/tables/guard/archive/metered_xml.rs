//! Unpacks XML with limits, and reads its attributes.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::super::{LimitedQuantity, MOST_CELL_BYTES, MOST_ELEMENTS};
use crate::tables::TableError;

/// A part that is unpacked while its XML is examined, in the same steps as in the library that reads workbooks.
pub(super) struct MeteredXml<R: Read> {
    reader: Reader<MeteredInput<R>>,
    is_balance_required: bool,
}

/// Counts the bytes that an XML parser takes.
struct MeteredInput<R: Read> {
    input: BufReader<io::Take<R>>,
    total: u64,
    /// Bytes since the last event of the parser. All of them are in memory.
    since: u64,
    longest: u64,
    is_over: bool,
}

impl<R: Read> Read for MeteredInput<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(to)?;
        self.total += read as u64;
        Ok(read)
    }
}

impl<R: Read> BufRead for MeteredInput<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.since > self.longest {
            self.is_over = true;
            return Err(io::Error::other("more bytes without an end of a tag than may be held"));
        }
        self.input.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.total += count as u64;
        self.since += count as u64;
        self.input.consume(count);
    }
}

impl<R: Read> MeteredXml<R> {
    /// Reads at most `most` bytes of `part`, and one byte more, to notice that the part has more bytes. One event may have `longest` bytes.
    pub(super) fn new(part: R, most: u64, longest: Option<u64>) -> Self {
        let input = BufReader::with_capacity(1 << 16, part.take(most.saturating_add(1)));
        let longest = longest.unwrap_or(u64::MAX);
        let mut reader = Reader::from_reader(MeteredInput { input, total: 0, since: 0, longest, is_over: false });
        let config = reader.config_mut();
        config.check_end_names = false;
        config.trim_text(false);
        config.expand_empty_elements = true;
        Self { reader, is_balance_required: false }
    }

    /// Makes [`Self::each`] refuse text that is not XML, or in which tags are not closed in the right order.
    pub(super) fn require_balance(&mut self) {
        self.reader.config_mut().check_end_names = true;
        self.is_balance_required = true;
    }

    /// Passes each event and the position behind it to `seen`, until `seen` returns `false`, the part ends, or the rest is not XML.
    pub(super) fn each(
        &mut self,
        mut seen: impl FnMut(&Event<'_>, u64) -> Result<bool, TableError>,
    ) -> Result<(), TableError> {
        let mut buffer = Vec::with_capacity(1024);
        let mut depth = 0_u64;
        loop {
            buffer.clear();
            self.reader.get_mut().since = 0;
            let event = match self.reader.read_event_into(&mut buffer) {
                Ok(event) => event,
                Err(_) if self.reader.get_ref().is_over => {
                    return Err(TableError::OverLimit { what: LimitedQuantity::CellBytes, limit: MOST_CELL_BYTES });
                }
                Err(_) if self.is_balance_required => return Err(TableError::Damaged),
                Err(_) => return Ok(()),
            };
            match event {
                Event::Eof if self.is_balance_required && depth > 0 => return Err(TableError::Damaged),
                Event::Eof => return Ok(()),
                Event::Start(_) => depth += 1,
                Event::End(_) => depth = depth.saturating_sub(1),
                _ => (),
            }
            if !seen(&event, self.reader.get_ref().total)? {
                return Ok(());
            }
        }
    }

    /// Passes at most [`MOST_ELEMENTS`] elements to `seen`.
    pub(super) fn elements(
        &mut self,
        mut seen: impl FnMut(&BytesStart<'_>) -> Result<(), TableError>,
    ) -> Result<(), TableError> {
        let mut count = 0;
        self.each(|event, _| {
            if let Event::Start(tag) = event {
                count += 1;
                LimitedQuantity::Elements.check(count, MOST_ELEMENTS)?;
                seen(tag)?;
            }
            Ok(true)
        })
    }

    /// Unpacks the rest. Returns the number of bytes of the whole part.
    pub(super) fn finish(mut self) -> Result<u64, TableError> {
        let metered = self.reader.get_mut();
        let rest = io::copy(&mut metered.input, &mut io::sink()).map_err(|_| TableError::Damaged)?;
        Ok(metered.total + rest)
    }
}

pub(super) fn attribute<'t>(tag: &'t BytesStart<'_>, name: &str) -> Option<Cow<'t, str>> {
    let mut attributes = tag.attributes();
    let found = attributes.with_checks(false).filter_map(Result::ok).find(|found| found.key.as_ref() == name);
    found.map(|found| found.value)
}

pub(super) fn unescaped(text: &str) -> Result<String, TableError> {
    quick_xml::escape::unescape(text).map(|text| text.into_owned()).map_err(|_| TableError::Damaged)
}
