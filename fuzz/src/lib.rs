//! Functions that the fuzz targets share: they read a file of one kind to its end.

use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::Arc;

use doppel_sources::Format;
use doppel_sources::tables::{AsText, Stream, Table, Wanted};

/// The largest number of bytes of a row.
const MAX: usize = 1 << 16;

fn wanted(format: Format) -> Wanted {
    Wanted { format, text: AsText { encoding: None, separator: None }, sheet: None, max: MAX }
}

fn drain(stream: Stream) {
    let mut stream = stream;
    while let Ok(Some(_)) = stream.next_row() {}
}

/// Reads a workbook to its end, in the ways of the import and of the desk.
pub fn workbook(extension: &str, bytes: &[u8]) {
    let (Some(format), Ok(mut file)) =
        (Format::of(Path::new(&format!("a.{extension}"))), tempfile::NamedTempFile::new())
    else {
        return;
    };
    if file.write_all(bytes).is_err() {
        return;
    }
    if let Ok(stream) = Stream::open(file.path(), wanted(format), &Arc::default()) {
        drain(stream);
    }
    if let Ok(table) = Table::open(file.path(), MAX) {
        let _ = table.rows(file.path(), |_| std::ops::ControlFlow::Continue(()));
    }
}

/// Reads text to its end.
pub fn csv(bytes: &[u8]) {
    if let Ok(stream) = Stream::of_text(Cursor::new(bytes.to_vec()), &wanted(Format::Csv)) {
        drain(stream);
    }
}

/// Reads JSON lines to their end.
pub fn json_lines(bytes: &[u8]) {
    if let Ok(items) = doppel_sources::json_lines(Cursor::new(bytes.to_vec()), MAX) {
        items.for_each(drop);
    }
}
