//! Limits on workbooks: every declaration of a workbook is checked before it is used.
//!
//! The library that reads workbooks allocates memory for everything that a file declares: counts, dimensions, repetitions and chains of
//! sectors. Therefore [`check`] examines all of these first, in the module of each container ([`archive`] for XLSX and ODS, [`compound`]
//! for XLS), and refuses a file that exceeds a limit. A check takes time linear in the unpacked bytes, and little memory.
//!
//! The checks bound memory and time in the usual case. The module [`child`] bounds both in every case: a process with limits of the
//! operating system reads the workbook.

mod archive;
pub mod child;
mod compound;
#[cfg(any(test, feature = "testkit"))]
pub mod samples;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde::{Deserialize, Serialize};

pub(super) use self::archive::OdsLayout;
use super::numbers::LongNumbers;
use super::sheet::SheetRequest;
use super::{TableError, WorkbookKind, WorkbookLimits, sheet};

/// The largest number of files inside an XLSX or ODS archive. A workbook of a hundred sheets contains about five hundred files.
pub const MOST_PARTS: u64 = 10_000;
/// The largest number of sheets of a workbook.
pub const MOST_SHEETS: u64 = 1_024;
/// The largest number of XML elements in each part of an XLSX workbook that holds its structure: the list of sheets, relations,
/// styles, theme. Excel itself allows 65,490 styles.
pub const MOST_ELEMENTS: u64 = 1_000_000;
/// Bytes of shared texts that are allowed for each shared text ([`WorkbookLimits::held`] divided by this number is the largest count). A text in
/// memory takes 24 bytes and an allocation of at least 24 bytes in addition to its own bytes.
pub const HELD_PER_TEXT: u64 = 96;
/// The largest number of bytes of one cell in the file, with its XML. Excel allows 32,767 characters in a cell.
pub const MOST_CELL_BYTES: u64 = 2 << 20;
/// The texts of all cells may have this multiple of [`WorkbookLimits::unpacked`] in total. Cells share texts, so that a small file can contain a
/// large table.
pub const TEXT_PER_UNPACKED: u64 = 4;
/// The largest number of cells of an XLS or ODS workbook, in all its sheets together. For each sheet the rectangle around all cells with a
/// value is counted, since this rectangle is in memory. The limit equals 65,536 rows of 64 columns.
pub const MOST_WHOLE_CELLS: u64 = 1 << 22;
/// The largest number of shared texts of an XLS workbook.
pub const MOST_WHOLE_TEXTS: u64 = 1 << 21;
/// The largest number of bytes of the texts of all cells of an XLS or ODS workbook.
pub const MOST_WHOLE_TEXT: u64 = 256 << 20;

/// A quantity of a workbook that has a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LimitedQuantity {
    /// Files inside the archive.
    Parts,
    Sheets,
    /// XML elements of one part.
    Elements,
    /// Different texts that cells refer to.
    Texts,
    /// Cells, with the empty cells between them.
    Cells,
    CellBytes,
    /// Bytes of the texts of all cells.
    TextBytes,
}

impl fmt::Display for LimitedQuantity {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Parts => "files inside it",
            Self::Sheets => "sheets",
            Self::Elements => "XML elements in one part",
            Self::Texts => "different texts",
            Self::Cells => "cells, counting repeated cells and the empty cells between others",
            Self::CellBytes => "bytes in one cell",
            Self::TextBytes => "bytes of text in its cells",
        })
    }
}

impl LimitedQuantity {
    /// Returns an error if `found` is more than `limit`.
    fn check(self, found: u64, limit: u64) -> Result<(), TableError> {
        if found > limit { Err(TableError::OverLimit { what: self, limit }) } else { Ok(()) }
    }
}

/// Checks all declarations of the workbook at `path` against their limits, and checks that its structure can be read. Returns the parts of an
/// ODS workbook that the library does not read.
///
/// # Errors
/// [`TableError::OverLimit`], [`TableError::TooLarge`] or [`TableError::TooLargeWhole`] if something is too large; [`TableError::Damaged`]
/// for a structure that contradicts itself.
pub(super) fn check(path: &Path, kind: WorkbookKind, limits: WorkbookLimits) -> Result<OdsLayout, TableError> {
    match kind {
        WorkbookKind::Xlsx => archive::check_xlsx(path, limits).map(|()| OdsLayout::default()),
        WorkbookKind::Ods => archive::check_ods(path, limits),
        WorkbookKind::Xls => compound::check(path).map(|()| OdsLayout::default()),
    }
}

/// Reads the whole numbers of 16 digits or more that a sheet of an XLSX workbook contains as digits. The workbook must have been checked.
pub(super) fn long_numbers(path: &Path, sheet: &str) -> Result<LongNumbers, TableError> {
    archive::long_numbers(path, sheet)
}

/// Returns the kind of a workbook that is an archive.
pub(super) fn kind(path: &Path) -> Result<WorkbookKind, TableError> {
    if child::is_used() { child::kind(path) } else { guarded(|| sheet::kind(path)) }
}

/// Passes a sheet, row by row, to `seen`.
pub(super) fn each(
    path: &Path,
    wanted: &SheetRequest,
    count: &Arc<AtomicU64>,
    seen: impl FnMut(sheet::SheetEvent) -> ControlFlow<()>,
) -> Result<(), TableError> {
    if child::is_used() {
        return child::each(path, wanted, count, seen);
    }
    watched(seen, |seen| sheet::each(path, wanted, count, seen))
}

/// Runs `read` and catches its panics. The library that reads workbooks panics on some damaged files.
fn guarded<T>(read: impl FnOnce() -> Result<T, TableError>) -> Result<T, TableError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or(Err(TableError::Damaged))
}

/// Runs `read` and catches its panics, as [`guarded`] does. A panic of `seen` itself is passed on, because it does not mean that the file
/// is damaged.
fn watched<T>(
    mut seen: impl FnMut(T) -> ControlFlow<()>,
    read: impl FnOnce(&mut dyn FnMut(T) -> ControlFlow<()>) -> Result<(), TableError>,
) -> Result<(), TableError> {
    let mut is_seen_running = false;
    let mut observed = |item| {
        is_seen_running = true;
        let next = seen(item);
        is_seen_running = false;
        next
    };
    match catch_unwind(AssertUnwindSafe(|| read(&mut observed))) {
        Ok(read) => read,
        Err(panic) if is_seen_running => resume_unwind(panic),
        Err(_) => Err(TableError::Damaged),
    }
}
