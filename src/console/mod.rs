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

use axum::Router;
use axum::middleware;
use axum::routing::get;

pub use guard::Asked;

use crate::config::Store;
use crate::http::state::App;

/// Where the pages are.
pub const ROOT: &str = "/console";
/// Where the files are that pages load.
pub const ASSETS: &str = "/console/assets/";

/// What the desk remembers between requests, all of it in memory: a restart signs everyone out.
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

/// Whether a path is that of a page, not of a file that pages load.
pub fn is_page(path: &str) -> bool {
    is_ours(path) && !path.starts_with(ASSETS)
}

/// All routes of the desk; none where it is turned off.
pub fn routes(app: &App) -> Router<App> {
    if app.console.is_none() {
        return Router::new();
    }
    let pages = pages::routes().layer(middleware::from_fn_with_state(app.clone(), guard::around));
    assets::all().iter().fold(pages, |router, asset| router.route(&asset.path, get(move || async { asset.response() })))
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
        assert!(is_page("/console/letters/inbox") && !is_page("/console/assets/console.css"));
    }
}
