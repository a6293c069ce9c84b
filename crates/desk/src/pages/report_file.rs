//! The report of a week or month as a workbook: a sheet for each of its tables. Counts are numbers, so that a spreadsheet can calculate with
//! them.

use axum::http::Uri;
use axum::response::Response;
use rust_xlsxwriter::{Format, Workbook, Worksheet};

use crate::pages::pair::PageContext;
use crate::pages::report::{MissingEvents, PeriodReport, ReportAnswer, ReportEvents};
use crate::view::counts::{CountLine, KINDS};
use crate::view::csv::attachment;
use crate::words::DeskWords;
use doppel_engine::Error;
use doppel_findings::output::{write_counts, write_row};
use doppel_http::problem::Problem;

/// Largest number of values, events and places in a file.
const MOST_IN_FILE: usize = 200;
/// Largest length of the name of a sheet in UTF-16 units, without its number. Excel allows 31 units.
const MAX_NAME_UNITS: usize = 24;
/// The characters that Excel does not allow in the name of a sheet.
const NOT_IN_NAMES: [char; 8] = ['[', ']', ':', '*', '?', '/', '\\', '\''];

type FileResult<T> = Result<T, Box<dyn std::error::Error>>;

/// Sends the report as a workbook.
///
/// # Errors
/// 403; 404 for an unknown collection; 422 for an unknown choice or date. 503 while events are being found. Returns the waiting page
/// (503) while the records are read for the first time.
pub async fn export(context: PageContext, uri: Uri) -> Result<Response, Problem> {
    let (asked, answer) = context.report(&uri, MOST_IN_FILE).await?;
    let (report, by) = match answer {
        ReportAnswer::Ready(report, by) => (report, by),
        ReportAnswer::Waiting(page) => return Ok(page),
    };
    if let Err(MissingEvents { error: error @ Error::EventsNotReady { .. }, .. }) = report.found {
        return Err(error.into());
    }
    let words = context.visitor.words();
    let days = (words.report.days)(&asked.period.first.to_string(), &asked.period.last.to_string());
    let title = format!("{} {days}", (words.report.title_of)(asked.kind));
    let bytes = workbook(&report, words, &title, (words.statistics.hint_of)(by))
        .map_err(|error| Problem::internal(format!("a workbook cannot be written: {error}")))?;
    let media = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
    let name = format!("{}-{}-{}", context.collection, asked.kind.value(), asked.period.first);
    Ok(attachment(&name, "xlsx", media, bytes))
}

fn workbook(report: &PeriodReport, words: &DeskWords, title: &str, hint: &str) -> FileResult<Vec<u8>> {
    let mut book = ReportBook { book: Workbook::new(), sheets: 0 };
    let own = &words.statistics;
    let sheet = book.sheet(words.report.summary)?;
    write_row(sheet, 0, [title])?;
    for (at, line) in (1..).zip(&report.summary) {
        write_row(sheet, at, [line.label])?;
        write_counts(sheet, at, 1, [line.number])?;
    }
    let left_out = report.found.as_ref().ok().and_then(|found| found.left_out.as_ref());
    let notes = [hint].into_iter().chain(report.view.notes.iter().chain(left_out).map(String::as_str));
    for (at, note) in (report.summary.len() as u32 + 1..).zip(notes) {
        write_row(sheet, at, [note])?;
    }
    let sheet = book.sheet(report.view.heading)?;
    let kinds = report.view.kinds.iter().map(|(_, name)| *name);
    write_row(sheet, 0, [report.view.part].into_iter().chain(kinds).chain([own.total, own.share]))?;
    for (at, line) in (1..).zip(report.view.parts.iter().rev().chain([&report.view.sum])) {
        write_row(sheet, at, [line.name.as_str()])?;
        write_counts(sheet, at, 1, KINDS.map(|(kind, _)| line.tally.of(kind)).into_iter().chain([line.tally.total()]))?;
        write_share(sheet, at, 6, line)?;
    }
    for table in &report.view.tables {
        let sheet = book.sheet(&table.heading)?;
        write_row(sheet, 0, [table.name.as_str(), own.total, own.repeats, own.replied, own.share])?;
        for (at, line) in (1..).zip(&table.lines) {
            write_row(sheet, at, [line.name.as_str()])?;
            write_counts(sheet, at, 1, [line.tally.total(), line.tally.repeats(), line.tally.replied])?;
            write_share(sheet, at, 4, line)?;
        }
    }
    match &report.found {
        Ok(found) => write_events(&mut book, found, words)?,
        Err(missing) => write_row(book.sheet(words.report.frequent)?, 0, [missing.message.as_str()])?,
    }
    Ok(book.book.save_to_buffer()?)
}

fn write_events(book: &mut ReportBook, found: &ReportEvents, words: &DeskWords) -> FileResult<()> {
    let own = &words.events;
    let sheet = book.sheet(words.report.frequent)?;
    let headings = [
        own.event,
        own.category,
        own.places,
        own.status,
        own.unit,
        own.first,
        own.last,
        words.report.in_period,
        words.report.all_reports,
        own.people,
    ];
    write_row(sheet, 0, headings)?;
    for (at, event) in (1..).zip(&found.events) {
        let line = &event.line;
        let texts = [
            line.name.as_str(),
            line.category.as_deref().unwrap_or_default(),
            &line.places,
            line.status,
            line.unit.as_deref().unwrap_or_default(),
            &line.first,
            &line.last,
        ];
        write_row(sheet, at, texts)?;
        write_counts(sheet, at, 7, [event.in_period, event.reports, event.people])?;
    }
    if let Some(more) = &found.more {
        write_row(sheet, found.events.len() as u32 + 1, [more.as_str()])?;
    }
    let sheet = book.sheet(words.report.places)?;
    write_row(sheet, 0, [own.place, words.statistics.total])?;
    for (at, place) in (1..).zip(&found.places) {
        write_row(sheet, at, [place.name.as_str()])?;
        write_counts(sheet, at, 1, [place.records])?;
    }
    Ok(())
}

/// The workbook of a report.
struct ReportBook {
    book: Workbook,
    sheets: usize,
}

impl ReportBook {
    /// Adds a sheet. Its name begins with its number, because the names of the sheets of a workbook must be different.
    fn sheet(&mut self, name: &str) -> FileResult<&mut Worksheet> {
        self.sheets += 1;
        let allowed =
            name.chars().filter(|sign| !NOT_IN_NAMES.contains(sign) && !sign.is_control() && sign.len_utf16() == 1);
        let name: String = allowed.take(MAX_NAME_UNITS).collect();
        let sheet = self.book.add_worksheet();
        Ok(sheet.set_name(format!("{} {name}", self.sheets))?)
    }
}

/// Writes the share of repeats, unless there are no records.
fn write_share(sheet: &mut Worksheet, at: u32, column: u16, line: &CountLine) -> FileResult<()> {
    let total = line.tally.total();
    if total > 0 {
        let share = line.tally.repeats() as f64 / total as f64;
        sheet.write_number_with_format(at, column, share, &Format::new().set_num_format("0.0%"))?;
    }
    Ok(())
}
