//! The interface to the pages of the desk: their paths, their time limits and their error pages.
//!
//! This module does not depend on a page. The code that starts the service passes the pages, or none ([`Parts`](crate::http::state::Parts)).

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

    /// Returns the kind of page at a path or at the template of a route; `None` if it is no page.
    fn kind(&self, path: &str) -> Option<PageKind>;

    /// Words the answer to a request that is theirs.
    fn wording(&self, request: &Request) -> Box<dyn Wording>;
}

/// The kind of a page.
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
