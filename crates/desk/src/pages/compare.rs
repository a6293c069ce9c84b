//! The page that compares a generation with the live generation: the pairs that would appear and disappear if it were activated.

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use crate::page::{self, DeskSection, PageFrame, with_query};
use crate::view::numbers::count;
use crate::visitor::{AdminVisitor, ReadingVisitor};
use crate::words::WorkWords;
use doppel_core::collection::CollectionName;
use doppel_engine::answers::PairView;
use doppel_http::extract::InGeneration;
use doppel_http::problem::Problem;
use doppel_http::state::App;

/// Number of examples of gained pairs, and of lost pairs.
const EXAMPLES: usize = 20;

#[derive(Template)]
#[template(path = "compare.html")]
struct ComparePage {
    frame: PageFrame,
    words: &'static WorkWords,
    title: String,
    back: String,
    shared: String,
    parts: Vec<OneSidedPairs>,
}

/// Pairs that only one of the two generations finds.
struct OneSidedPairs {
    heading: &'static str,
    count: String,
    examples: Option<String>,
    pairs: Vec<(String, String)>,
}

/// Shows the comparison. Reads the pairs of both generations and all decisions.
///
/// # Errors
/// 403, 404; 409 if the generation is live or not complete.
pub async fn show(
    visitor: ReadingVisitor,
    _: AdminVisitor,
    State(app): State<App>,
    InGeneration(collection, generation): InGeneration,
) -> Result<Response, Problem> {
    let found = app.engine.compare_generations(&collection, generation, EXAMPLES).await?;
    let words = &visitor.words().work;
    let title = (words.comparison)(found.generation.0, found.live.0);
    let page = ComparePage {
        frame: PageFrame::of(&visitor, &collection, DeskSection::Work, title.clone()),
        words,
        title,
        back: page::below(&collection, DeskSection::Work.path()),
        shared: count(found.shared),
        parts: vec![
            one_sided_pairs(words.gained, found.gained, &found.gained_examples, &collection, &words.examples),
            one_sided_pairs(words.lost, found.lost, &found.lost_examples, &collection, &words.examples),
        ],
    };
    page::html(StatusCode::OK, &page)
}

fn one_sided_pairs(
    heading: &'static str,
    number: u64,
    pairs: &[PairView],
    collection: &CollectionName,
    examples: &fn(usize) -> String,
) -> OneSidedPairs {
    OneSidedPairs {
        heading,
        count: count(number),
        examples: (number > pairs.len() as u64).then(|| (examples)(pairs.len())),
        pairs: pairs.iter().map(|pair| link(collection, pair)).collect(),
    }
}

/// Returns the link to the comparison of the two records of a pair, and its text.
fn link(collection: &CollectionName, pair: &PairView) -> (String, String) {
    let href = with_query(&page::case(collection, &pair.later), &[("with", pair.earlier.as_str())]);
    (href, format!("{} · {}", pair.later, pair.earlier))
}
