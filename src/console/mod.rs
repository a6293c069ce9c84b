//! The desk: pages for the people who read petitions.
//!
//! Rendered by the server, in Chinese or English; every action is a plain form that works without JavaScript. The pages hold no
//! rule of the domain: a handler extracts, authorises, makes one or a few calls of the engine, turns the answers into a view model
//! (`view`) and hands that to a template, which escapes all that it is given.
//!
//! * [`guard`] stands around all pages: who asks ([`sign_in`]), in which language, and whether a form is one of ours.
//! * [`page`] is the frame that all pages share, and what an error looks like.
//! * [`words`] has the texts of the interface, one table per language.
//! * [`pages`] has a file for each page, `templates/` its HTML; [`assets`] are the files that pages load.
//!
//! What must hold for every page: nothing is loaded from elsewhere and nothing is inline (`Content-Security-Policy`); nothing is
//! changed by `GET`; what a key may not do is neither shown nor done.

pub mod assets;
pub mod cookies;
pub mod files;
pub mod flash;
pub mod form;
pub mod guard;
pub mod page;
pub mod pages;
pub mod sign_in;
pub mod tokens;
pub mod undo;
pub mod view;
pub mod visitor;
pub mod words;

use std::sync::Arc;

use axum::extract::Request;
use axum::routing::get;
use axum::{Extension, Router, middleware};

use crate::config::Store;
use crate::http::pages::{PageKind, Pages, Wording};
use crate::http::state::App;

/// Where the pages are.
pub const ROOT: &str = "/console";
/// Where the files are that pages load.
pub const ASSETS: &str = "/console/assets/";

/// The desk, and what it remembers between requests, all of it in memory: a restart signs everyone out. Pages find it among a request's
/// extensions.
pub struct Desk {
    /// Who is signed in.
    pub sessions: sign_in::Sessions,
    /// What makes the tokens in forms.
    pub seal: tokens::Seal,
    /// What was decided about many pairs at once, to be taken back.
    pub undo: undo::Undo,
    /// Files of letters that somebody gave.
    pub files: files::Files,
}

impl Desk {
    /// Of a service that keeps its records so.
    pub fn new(store: &Store) -> Self {
        let files = files::Files::new(files::Folder::open(store));
        Self { sessions: Default::default(), seal: Default::default(), undo: Default::default(), files }
    }
}

/// Whether a path is of the desk.
pub fn is_ours(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What is at a path of the desk, or at the template of a route.
fn kind(path: &str) -> Option<PageKind> {
    is_ours(path).then(|| match path {
        files::ROUTE => PageKind::Upload(files::UPLOAD_TIME),
        path if path.starts_with(ASSETS) => PageKind::File,
        _ => PageKind::Page,
    })
}

impl Pages for Desk {
    fn routes(self: Arc<Self>, app: &App) -> Router<App> {
        let guard = middleware::from_fn_with_state((app.clone(), Arc::clone(&self)), guard::around);
        let pages = pages::routes().layer(guard).layer(Extension(self));
        let assets = assets::all().iter();
        assets.fold(pages, |router, asset| router.route(&asset.path, get(move || async { asset.response() })))
    }

    fn kind(&self, path: &str) -> Option<PageKind> {
        kind(path)
    }

    fn wording(&self, request: &Request) -> Box<dyn Wording> {
        Box::new(guard::Asked::of(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_begins_like_the_desk_is_not_of_it() {
        for ours in ["/console", "/console/", "/console/letters/inbox", "/console/assets/console.css"] {
            assert!(is_ours(ours), "{ours}");
        }
        assert!(!is_ours("/consoles") && !is_ours("/v1/console") && !is_ours("/"));
        assert_eq!(kind("/console/letters/inbox"), Some(PageKind::Page));
        assert_eq!(kind("/console/assets/console.css"), Some(PageKind::File));
        assert_eq!(kind(files::ROUTE), Some(PageKind::Upload(files::UPLOAD_TIME)));
        assert_eq!(kind("/consoles"), None);
    }
}
