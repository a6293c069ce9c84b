//! The desk: pages for the people who read petitions.
//!
//! The server renders the pages in Chinese or English. Every action is a plain form that works without JavaScript. The pages contain no
//! domain rules: a handler reads the request, checks the rights, makes one or a few calls of the engine, turns the results into a view
//! model (`view`), and gives the view model to a template, which escapes all values.
//!
//! * [`guard`] is the middleware of all pages. It finds the visitor ([`sign_in`]) and the language, and checks the tokens of forms.
//! * [`page`] contains the frame that all pages share, and the error page.
//! * [`words`] contains the texts of the interface, one table per page, with all languages side by side.
//! * [`pages`] contains one file per page, and `templates/` contains its HTML. [`assets`] are the static files.
//!
//! Every page keeps these rules: it loads nothing from other sites and has no inline scripts or styles (`Content-Security-Policy`); `GET`
//! changes nothing; an action that the visitor's key does not allow is neither shown nor done.

pub mod assets;
mod choices;
pub mod cookies;
pub mod demo;
pub mod files;
mod filled_form;
pub mod flash;
pub mod form;
pub mod guard;
pub mod guesses;
pub mod page;
pub mod pages;
pub mod pending;
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

use doppel_config::Config;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_http::pages::{DeskPages, PageKind, PageWording};
use doppel_http::state::App;
use doppel_service::oidc::IdentityProvider;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

/// The path below which all pages are.
pub const ROOT: &str = "/console";
/// The path below which the static files are.
pub const ASSETS: &str = "/console/assets/";

/// The desk and its state between requests. The state is in memory only, so a restart signs everyone out. Handlers find the desk in the
/// extensions of a request.
pub struct DeskState {
    /// The sessions of people who are signed in.
    pub sessions: sign_in::OpenSessions,
    /// The limits on guessing passwords.
    pub guesses: guesses::GuessLimits,
    /// The identity provider at which people sign in.
    pub provider: Option<IdentityProvider>,
    /// The sign-ins that have begun there.
    pub pending: pending::PendingSignIns,
    /// The secret for the tokens in forms.
    pub seal: tokens::FormSeal,
    /// Decisions about groups that visitors can take back.
    pub undo: undo::UndoLog,
    /// Uploaded files of letters.
    pub files: files::UploadedFiles,
    /// The address of a record in the office's own system, see [`ConsoleConfig`](doppel_config::ConsoleConfig); empty without such a system.
    record_url: String,
}

impl DeskState {
    /// Creates the desk of a service.
    ///
    /// # Errors
    /// The client of the identity provider cannot be created.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        let files = files::UploadedFiles::new(files::UploadFolder::open(&config.store));
        let oidc = &config.console.oidc;
        let provider = oidc.is_on().then(|| IdentityProvider::new(oidc)).transpose()?;
        Ok(Self {
            sessions: Default::default(),
            guesses: Default::default(),
            provider,
            pending: Default::default(),
            seal: Default::default(),
            undo: Default::default(),
            files,
            record_url: config.console.record_url.clone(),
        })
    }

    /// Returns the address of a record in the office's own system, if the configuration has one.
    pub fn own_address(&self, collection: &CollectionName, id: &RecordId) -> Option<String> {
        let id = utf8_percent_encode(id.as_str(), NON_ALPHANUMERIC).to_string();
        let collection = utf8_percent_encode(collection.as_str(), NON_ALPHANUMERIC).to_string();
        // The collection first: its name has no braces.
        let url = self.record_url.replace("{collection}", &collection).replace("{id}", &id);
        (!url.is_empty()).then_some(url)
    }
}

/// True if a path belongs to the desk.
pub fn is_ours(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the kind of page for a path or a route of the desk; `None` for other paths.
fn kind(path: &str) -> Option<PageKind> {
    is_ours(path).then(|| match path {
        files::ROUTE | files::START_ROUTE => PageKind::Upload(files::UPLOAD_TIME),
        path if assets::all().iter().any(|asset| asset.path == path) => PageKind::File,
        _ => PageKind::Page,
    })
}

impl DeskPages for DeskState {
    fn routes(self: Arc<Self>, app: &App) -> Router<App> {
        let guard = middleware::from_fn_with_state((app.clone(), Arc::clone(&self)), guard::around);
        let pages = pages::routes().layer(guard).layer(Extension(self));
        let assets = assets::all().iter();
        assets.fold(pages, |router, asset| router.route(&asset.path, get(move || async { asset.response() })))
    }

    fn kind(&self, path: &str) -> Option<PageKind> {
        kind(path)
    }

    fn wording(&self, request: &Request) -> Box<dyn PageWording> {
        Box::new(guard::ErrorRequest::of(request))
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
        assert_eq!(kind(&assets::all()[0].path), Some(PageKind::File));
        assert_eq!(kind("/console/assets/inbox"), Some(PageKind::Page), "a collection can have this name");
        assert_eq!(kind(files::ROUTE), Some(PageKind::Upload(files::UPLOAD_TIME)));
        assert_eq!(kind(files::START_ROUTE), Some(PageKind::Upload(files::UPLOAD_TIME)));
        assert_eq!(kind("/consoles"), None);
    }
}
