//! The queue of the inbox as a CSV file: the records of the page's filters in its order.

use axum::http::Uri;
use axum::response::Response;

use crate::form::FormFields;
use crate::pages::inbox::shown_probability;
use crate::pages::inbox_place::InboxPlace;
use crate::pages::pair::PageContext;
use crate::view::VerdictBadge;
use crate::view::csv::RecordTable;
use doppel_http::problem::Problem;
use doppel_store::Seq;

/// Largest number of rows, as of the other files of the desk: a spreadsheet for people, about 2 MB.
const MOST_ROWS: usize = 10_000;
/// Number of records that are read at once.
const READ_AT_ONCE: usize = 100;

/// Downloads the queue from the part that the page shows on, at most [`MOST_ROWS`] records. The order is that of each part.
///
/// # Errors
/// 403; 404 for an unknown collection; 422 for a condition that cannot be read.
pub async fn export(context: PageContext, uri: Uri) -> Result<Response, Problem> {
    let place = InboxPlace::of(&FormFields::of_query(&uri)?)?;
    let PageContext { app, collection, reader, .. } = &context;
    let words = context.visitor.words();
    let filter = place.wanted(&app.engine, collection).await?;
    let mut seqs: Vec<Seq> = Vec::new();
    let mut before = place.before;
    let is_whole = loop {
        let queue = app.engine.queue(collection, &filter, place.order, before).await?;
        seqs.extend(queue.records.iter().map(|record| record.seq));
        match queue.next {
            None => break seqs.len() <= MOST_ROWS,
            Some(_) if seqs.len() >= MOST_ROWS => break false,
            next => before = next,
        }
    };
    seqs.truncate(MOST_ROWS);
    let mut table = RecordTable::new(words, &[words.batch.probability]);
    for seqs in seqs.chunks(READ_AT_ONCE) {
        for arrival in app.engine.arrivals_at(collection, seqs).await? {
            let record = &arrival.record;
            let decided = arrival.decision.as_ref().map(|decision| decision.judgement);
            let verdict = VerdictBadge::new(&words.record, record.verdict.kind, decided).says;
            let probability = shown_probability(record).unwrap_or_default();
            table.row(record, verdict, record.verdict.duplicate_of.as_ref(), reader, &[&probability]);
        }
    }
    if !is_whole {
        table.note(words.inbox.not_in_file);
    }
    Ok(table.download(&format!("{collection}-inbox")))
}
