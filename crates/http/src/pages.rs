//! The interface to the pages of the desk: their paths, their time limits and their error pages.
//!
//! This module does not depend on a page. The code that starts the service passes the pages, or none
//! ([`OptionalParts`](crate::state::OptionalParts)).

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;

use crate::state::App;

/// The pages for people.
pub trait DeskPages: Send + Sync {
    fn routes(self: Arc<Self>, app: &App) -> Router<App>;

    /// Returns the kind of page at a path or at the template of a route; `None` if it is no page.
    fn kind(&self, path: &str) -> Option<PageKind>;

    /// Returns the writer of the response to a request for a page.
    fn wording(&self, request: &Request) -> Box<dyn PageWording>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    Page,
    /// A page that receives a file within this time.
    Upload(Duration),
    /// A file that pages load. It is part of the program and is always answered.
    File,
}

/// Makes responses that people can read, including responses for errors.
pub trait PageWording: Send {
    fn finish(self: Box<Self>, response: Response, request_id: &str) -> Response;
}
