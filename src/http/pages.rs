//! Pages for people, as the service knows them: where they are, how long they may take, and who words their errors.
//!
//! Nothing here depends on a page. Whoever starts the service gives it some, or none ([`Parts`](crate::http::state::Parts)).

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;

use crate::http::state::App;

/// Pages for people, beside the API.
pub trait Pages: Send + Sync {
    /// All their routes.
    fn routes(self: Arc<Self>, app: &App) -> Router<App>;

    /// What is at a path, or at the template of a route; `None` where that is none of theirs.
    fn kind(&self, path: &str) -> Option<PageKind>;

    /// Words the answer to a request that is theirs.
    fn wording(&self, request: &Request) -> Box<dyn Wording>;
}

/// What is at a path of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// A page.
    Page,
    /// A page that takes a file, which may be so long in coming.
    Upload(Duration),
    /// A file that pages load: part of the program, and answered whatever else goes on.
    File,
}

/// Makes an answer one that people read, whatever went wrong.
pub trait Wording: Send {
    /// The answer as it goes out.
    fn finish(self: Box<Self>, response: Response, request_id: &str) -> Response;
}
