//! The start page: the list of collections with links to their sections.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::page::{self, DeskSection, PageFrame};
use crate::view::numbers::count;
use crate::view::time::ZonedClock;
use crate::visitor::ReadingVisitor;
use crate::words::CollectionsWords;
use doppel_engine::answers::Collection;
use doppel_http::problem::Problem;
use doppel_http::state::App;

/// Largest number of collections on the page. Further collections are reachable by their URLs.
const MOST: usize = 200;

#[derive(Template)]
#[template(path = "collections.html")]
struct CollectionsPage {
    frame: PageFrame,
    words: &'static CollectionsWords,
    rows: Vec<CollectionLine>,
    has_more: bool,
}

/// A collection of the list.
struct CollectionLine {
    name: String,
    records: String,
    created: String,
    sections: Vec<(String, &'static str)>,
}

/// Lists the collections.
///
/// # Errors
/// 403; errors of the engine.
pub async fn list(visitor: ReadingVisitor, State(app): State<App>) -> Result<Response, Problem> {
    let (collections, next) = app.engine.collections(None, MOST, |name| visitor.reach.includes(name)).await?;
    let words = &visitor.words().collections;
    let frame = PageFrame::new(&visitor, words.title);
    let rows = collections.into_iter().map(|collection| line(&frame, &collection)).collect();
    page::html(StatusCode::OK, &CollectionsPage { frame, words, rows, has_more: next.is_some() })
}

fn line(frame: &PageFrame, collection: &Collection) -> CollectionLine {
    let name = &collection.name;
    CollectionLine {
        name: name.to_string(),
        records: count(collection.records),
        created: ZonedClock::of(&collection.settings.time_zone).show_text(&collection.created_at),
        sections: DeskSection::ALL
            .map(|section: DeskSection| (page::below(name, section.path()), section.name(frame.words())))
            .to_vec(),
    }
}
