//! The start page: the list of collections with links to their sections.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::console::page::{self, Frame, Section};
use crate::console::view::numbers::count;
use crate::console::view::time::Clock;
use crate::console::visitor::Reading;
use crate::console::words::CollectionsWords;
use crate::http::problem::Problem;
use crate::http::state::App;
use doppel_engine::answers::Collection;

/// Largest number of collections on the page. Further collections are reachable by their URLs.
const MOST: usize = 200;

#[derive(Template)]
#[template(path = "collections.html")]
struct Page {
    frame: Frame,
    words: &'static CollectionsWords,
    rows: Vec<Line>,
    has_more: bool,
}

/// A collection of the list.
struct Line {
    name: String,
    records: String,
    created: String,
    sections: Vec<(String, &'static str)>,
}

/// Lists the collections.
///
/// # Errors
/// 403; errors of the engine.
pub async fn list(visitor: Reading, State(app): State<App>) -> Result<Response, Problem> {
    let (collections, next) = app.engine.collections(None, MOST, |name| visitor.reach.includes(name)).await?;
    let words = &visitor.words().collections;
    let frame = Frame::new(&visitor, words.title);
    let rows = collections.into_iter().map(|collection| line(&frame, &collection)).collect();
    page::html(StatusCode::OK, &Page { frame, words, rows, has_more: next.is_some() })
}

fn line(frame: &Frame, collection: &Collection) -> Line {
    let name = &collection.name;
    let section = |section: Section| (page::below(name, section.path()), section.name(frame.words()));
    Line {
        name: name.to_string(),
        records: count(collection.records),
        created: Clock::of(&collection.settings.time_zone).show_text(&collection.created_at),
        sections: Section::ALL.map(section).to_vec(),
    }
}
