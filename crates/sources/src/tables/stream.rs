//! Reads a table once from its beginning.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::ops::{ControlFlow, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, sync_channel};

use super::sheet::{SheetChoice, SheetRequest};
use super::text::TextRows;
use super::{
    AsText, ROWS_READ, TableError, TableHeader, TableLayout, TableRow, TextEncoding, WorkbookKind, WorkbookLimits,
    guard, read_up_to, sheet,
};
use crate::{CountingReader, FileFormat};

/// Number of rows of a workbook that a separate thread reads ahead.
const ROWS_AHEAD: usize = 64;

#[derive(Clone, Debug)]
pub struct TableRequest {
    /// The expected format. Text may have any separator.
    pub format: FileFormat,
    /// The format of the text, as far as the caller knows it.
    pub text: AsText,
    /// The sheet of a workbook. Without a name the sheet with records is read.
    pub sheet: Option<String>,
    /// The largest number of bytes of a row.
    pub max: usize,
}

enum RowSource {
    Text(TextRows),
    Sheet(Receiver<Result<sheet::SheetEvent, TableError>>),
}

/// A table whose header has been read.
pub struct TableStream {
    pub layout: TableLayout,
    /// The sheets of a workbook. Empty for text.
    pub sheets: SheetChoice,
    /// The names of the columns.
    pub header: Vec<String>,
    /// The lines of the names: one or two.
    pub header_lines: RangeInclusive<u64>,
    /// Number of rows above the names. They are not data.
    pub above: usize,
    /// The rows above the names, then the rows with the names, unchanged.
    pub top: Vec<TableRow>,
    /// Recognises rows below the header that are not data.
    found: TableHeader,
    /// Rows behind the header that were read to find the header.
    waiting: VecDeque<TableRow>,
    rows: RowSource,
    ended: bool,
}

impl TableStream {
    /// Opens the file at `path`. The number of bytes that are read is added to `count`. If the encoding of a text is not given, the text is
    /// first read once to find the encoding.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn open(path: &Path, mut wanted: TableRequest, count: &Arc<AtomicU64>) -> Result<Self, TableError> {
        let found = workbook(path)?;
        match (found, wanted.format.is_workbook()) {
            (Some(_), false) => Err(TableError::IsWorkbook),
            (None, true) if path.metadata()?.len() == 0 => Err(TableError::NoHeader),
            (None, true) => Err(TableError::NoWorkbook),
            (Some(kind), true) => {
                let sheet = wanted.sheet.clone();
                Self::of_workbook(
                    path,
                    SheetRequest { kind, sheet, limits: Some(WorkbookLimits::IMPORT), max: wanted.max },
                    count,
                )
            }
            (None, false) => {
                if wanted.text.encoding.is_none() {
                    let encoding = TextEncoding::of(File::open(path)?)?.ok_or(TableError::Unknown)?;
                    wanted.text.encoding = Some(encoding);
                }
                Self::of_text(CountingReader::new(File::open(path)?, count), &wanted)
            }
        }
    }

    /// Reads text from `input`. An encoding that is not given is found from the beginning of the text.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn of_text(input: impl Read + Send + 'static, wanted: &TableRequest) -> Result<Self, TableError> {
        let mut text = wanted.text;
        if wanted.format == FileFormat::Tsv {
            text.separator = text.separator.or(Some(b'\t'));
        }
        let rows = TextRows::open(Box::new(input), text, wanted.max)?;
        Self::begin(rows.layout(), RowSource::Text(rows))
    }

    fn of_workbook(path: &Path, request: SheetRequest, count: &Arc<AtomicU64>) -> Result<Self, TableError> {
        let (give, events) = sync_channel(ROWS_AHEAD);
        let path = PathBuf::from(path);
        let count = Arc::clone(count);
        let kind = request.kind;
        std::thread::spawn(move || {
            // The thread ends when the receiver is gone.
            let ended = guard::each(&path, &request, &count, |event| match give.send(Ok(event)) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            });
            let _ = give.send(ended.map(|()| sheet::SheetEvent::End));
        });
        match events.recv() {
            Ok(Ok(sheet::SheetEvent::Sheets(choice))) => {
                let sheet = choice.name().to_owned();
                let stream = Self::begin(TableLayout::Sheet { kind, sheet }, RowSource::Sheet(events))?;
                Ok(Self { sheets: choice, ..stream })
            }
            Ok(Err(error)) => Err(error),
            // The thread ended without a message.
            _ => Err(TableError::Damaged),
        }
    }

    fn begin(layout: TableLayout, mut rows: RowSource) -> Result<Self, TableError> {
        let mut first: Vec<TableRow> = Vec::new();
        let mut ended = false;
        while first.len() < ROWS_READ && !ended {
            let row = rows.next_row()?;
            ended = row.is_none();
            first.extend(row);
        }
        let found = TableHeader::find(&first)?;
        let waiting = first.split_off(found.last + 1).into();
        let names = found.names.clone();
        let lines = first[found.first].line..=first[found.last].line;
        let above = found.first;
        let sheets = SheetChoice::default();
        Ok(Self { layout, sheets, header: names, header_lines: lines, above, top: first, found, waiting, rows, ended })
    }

    /// Returns the next row behind the header, and `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next_row(&mut self) -> Result<Option<TableRow>, TableError> {
        let next = match self.waiting.pop_front() {
            Some(row) => Some(row),
            None if self.ended => None,
            None => self.rows.next_row()?,
        };
        self.ended |= next.is_none();
        Ok(next.map(|mut row| {
            self.found.mark(&mut row);
            if matches!(self.layout, TableLayout::Csv { .. }) {
                row.count_cells(self.header.len());
            }
            row
        }))
    }
}

impl RowSource {
    fn next_row(&mut self) -> Result<Option<TableRow>, TableError> {
        match self {
            Self::Text(rows) => Ok(rows.next_row()?),
            Self::Sheet(events) => match events.recv() {
                Ok(Ok(sheet::SheetEvent::Row(row))) => Ok(Some(row)),
                Ok(Ok(sheet::SheetEvent::End)) => Ok(None),
                Ok(Err(error)) => Err(error),
                // The thread ended without an end mark, so that rows are missing.
                Ok(Ok(sheet::SheetEvent::Sheets(_))) | Err(_) => Err(TableError::Damaged),
            },
        }
    }
}

/// Returns the kind of a workbook by the first bytes of the file, and `None` for text.
fn workbook(path: &Path) -> Result<Option<WorkbookKind>, TableError> {
    let mut head = [0; 8];
    let read = read_up_to(&mut File::open(path)?, &mut head)?;
    match &head[..read] {
        [b'P', b'K', 3 | 5, ..] => guard::kind(path).map(Some),
        [0xd0, 0xcf, 0x11, 0xe0, ..] => Ok(Some(WorkbookKind::Xls)),
        _ => Ok(None),
    }
}
