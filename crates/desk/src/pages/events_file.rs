//! The list of events as a workbook: a sheet of the selected events, and a sheet of their records.

use std::collections::HashMap;

use axum::http::Uri;
use axum::response::Response;
use rust_xlsxwriter::Workbook;

use crate::pages::events::{no_events, selected};
use crate::pages::pair::PageContext;
use crate::view::csv::attachment;
use crate::view::event::EventLine;
use doppel_core::events::FrequencyRule;
use doppel_core::record::RecordId;
use doppel_engine::Error;
use doppel_engine::events::EventView;
use doppel_findings::output::{write_counts, write_row};
use doppel_http::problem::Problem;

/// Largest number of events in a file: a report of a month of a large office. The file mentions further events.
const MOST_EVENTS: usize = 1_000;
/// Number of events that are read at once.
const PIECE: usize = 200;

/// Sends the selected events as a workbook.
///
/// # Errors
/// 403; 404 for an unknown collection; 422 for an error in the form; 503 while the events are not found yet.
pub async fn export(context: PageContext, uri: Uri) -> Result<Response, Problem> {
    let PageContext { app, visitor, collection, .. } = &context;
    let (selection, _) = selected(&context, uri.query().unwrap_or_default()).await?;
    let mut events: Vec<EventView> = Vec::new();
    let mut after = None;
    let mut total = 0;
    while events.len() < MOST_EVENTS {
        let page = match app.engine.events(collection, selection.clone(), after, PIECE).await {
            Err(error @ (Error::EventsNotReady { .. } | Error::TextNotKept(..))) => {
                return no_events(visitor, collection, error);
            }
            page => page?,
        };
        events.extend(page.items);
        total = page.total;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let mut book = EventsBook { context: &context, total, lines: Vec::new(), counts: Vec::new(), members: Vec::new() };
    for piece in events.chunks(PIECE) {
        let ids = piece.iter().map(|event| event.id.clone()).collect();
        // An event that has dissolved meanwhile is missing.
        let (found, _) = app.engine.events_of(collection, ids, selection.rule).await?;
        let mut members: HashMap<RecordId, Vec<RecordId>> =
            found.into_iter().map(|event| (event.event.id, event.members)).collect();
        for event in piece {
            if let Some(members) = members.remove(&event.id) {
                book.add(selection.rule, event, &members).await?;
            }
        }
    }
    let bytes = book.write().map_err(|error| Problem::internal(format!("a workbook cannot be written: {error}")))?;
    let media = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
    Ok(attachment(&format!("{collection}-events"), "xlsx", media, bytes))
}

/// The content of the workbook.
struct EventsBook<'a> {
    context: &'a PageContext,
    /// Number of selected events.
    total: usize,
    lines: Vec<EventLine>,
    /// Numbers of reports, of petitioners and of anonymous records, for each line.
    counts: Vec<[usize; 3]>,
    /// The rows of the sheet of records.
    members: Vec<[String; 6]>,
}

impl EventsBook<'_> {
    async fn add(&mut self, rule: FrequencyRule, event: &EventView, members: &[RecordId]) -> Result<(), Problem> {
        let PageContext { visitor, collection, reader, .. } = &self.context;
        let facts = self.context.facts(members.iter().collect::<Vec<_>>()).await?;
        let title = facts.get(&event.id).map(|facts| facts.title.as_str());
        let line = EventLine::new(visitor.words(), collection, &reader.clock, rule, event, title);
        let number = (self.lines.len() + 1).to_string();
        for member in members {
            let facts = facts.get(member);
            self.members.push([
                number.clone(),
                line.name.clone(),
                member.to_string(),
                facts.and_then(|facts| facts.time.clone()).unwrap_or_default(),
                facts.map(|facts| facts.title.clone()).unwrap_or_default(),
                facts.and_then(|facts| facts.petitioner.clone()).unwrap_or_default(),
            ]);
        }
        self.lines.push(line);
        self.counts.push([event.reports, event.petitioners, event.anonymous]);
        Ok(())
    }

    fn write(&self) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
        let words = self.context.visitor.words();
        let own = &words.events;
        let mut book = Workbook::new();
        let sheet = book.add_worksheet();
        sheet.set_name(own.title)?;
        let headings = [
            own.number,
            own.event,
            own.reports,
            own.people,
            own.anonymous,
            own.state,
            own.within_days,
            own.first,
            own.last,
            own.places,
            own.category,
            own.status,
            own.unit,
        ];
        write_row(sheet, 0, headings)?;
        for (number, (line, counts)) in (1_u32..).zip(self.lines.iter().zip(&self.counts)) {
            let (window, dates) = line.window.as_ref().map_or(("", ""), |(window, dates)| (window, dates));
            let window = format!("{window} {dates}");
            let cells = [
                "",
                &line.name,
                "",
                "",
                "",
                line.state,
                window.trim(),
                &line.first,
                &line.last,
                &line.places,
                line.category.as_deref().unwrap_or_default(),
                line.status,
                line.unit.as_deref().unwrap_or_default(),
            ];
            write_row(sheet, number, cells)?;
            write_counts(sheet, number, 0, [number.into()])?;
            write_counts(sheet, number, 2, counts.map(|count| count as u64))?;
        }
        if self.total > self.lines.len() {
            let more = (own.not_in_file)(self.total - self.lines.len());
            write_row(sheet, self.lines.len() as u32 + 1, [more.as_str()])?;
        }
        let sheet = book.add_worksheet();
        sheet.set_name(own.members)?;
        let record = &words.record;
        write_row(sheet, 0, [own.number, own.event, record.id, record.time, record.title, record.petitioner])?;
        for (at, member) in (1_u32..).zip(&self.members) {
            write_row(sheet, at, member.iter().map(String::as_str))?;
        }
        Ok(book.save_to_buffer()?)
    }
}
