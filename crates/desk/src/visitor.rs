//! The visitor of a page and their rights.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;

use crate::flash::FlashMessage;
use crate::words::{self, DeskWords};
use doppel_config::auth::{PersonRole, Scope};
use doppel_core::error_code::ErrorCode;
use doppel_http::auth::{Admin, CollectionReach, LeadScope, NeededScope, Read, Write};
use doppel_http::keys::not_this_collection;
use doppel_http::people::PersonFacts;
use doppel_http::problem::Problem;
use doppel_http::state::App;
use doppel_texts::Language;

/// The name in decisions if there are no keys and the visitor gives no name.
const NOBODY: &str = "desk";

/// The visitor of a page. A clone is cheap.
#[derive(Clone, Debug)]
pub struct PageVisitor(Arc<VisitorFacts>);

/// The facts about a visitor.
#[derive(Clone, Debug, Default)]
pub struct VisitorFacts {
    /// The name of the key or the account with which the visitor signed in; `None` without a session.
    pub key: Option<Arc<str>>,
    /// The person, if the visitor signed in with an account.
    pub person: Option<Arc<PersonFacts>>,
    /// True if no keys are configured: everyone on this machine may do everything.
    pub is_open: bool,
    /// The scopes of the visitor's key or role.
    pub scopes: Vec<Scope>,
    /// The collections for which the key or the account is valid.
    pub reach: CollectionReach,
    /// The language of the page.
    pub language: Language,
    /// The token in the visitor's forms.
    pub form_token: String,
    /// The path and query of the page.
    pub place: String,
    /// The action that the visitor just did.
    pub flash: Option<FlashMessage>,
    /// The titles of the two records of that action, if it was a decision and the visitor may read them.
    pub decided_titles: Option<[String; 2]>,
    /// The name under which the visitor last decided, if no keys are configured.
    pub name: Option<String>,
}

impl Deref for PageVisitor {
    type Target = VisitorFacts;
    fn deref(&self) -> &VisitorFacts {
        &self.0
    }
}

impl PageVisitor {
    /// Creates a visitor from the facts about them.
    pub fn new(facts: VisitorFacts) -> Self {
        Self(Arc::new(facts))
    }

    /// Returns the texts in the visitor's language.
    pub fn words(&self) -> &'static DeskWords {
        words::of(self.language)
    }

    /// True if the visitor may do actions that need `scope`.
    pub fn may(&self, scope: Scope) -> bool {
        self.is_open || self.scopes.contains(&scope)
    }

    /// True if the visitor may decide and register.
    pub fn may_write(&self) -> bool {
        self.may(Scope::Write)
    }

    /// True if the visitor may decide about many records at once.
    pub fn may_lead(&self) -> bool {
        self.may(Scope::Lead)
    }

    /// True if the visitor may see and change accounts. An account has rights for all collections, so that the visitor needs rights for all
    /// collections.
    pub fn may_manage_people(&self) -> bool {
        self.may_admin() && self.reach.is_everything()
    }

    /// True if the visitor may rebuild and activate indexes.
    pub fn may_admin(&self) -> bool {
        self.may(Scope::Admin)
    }

    /// Returns the name for the visitor's decisions: the name of the person or the key, or without keys the name that they `gave`.
    pub fn by(&self, gave: Option<&str>) -> String {
        match (&self.person, &self.key) {
            (Some(person), _) => person.label(),
            (None, Some(key)) => key.as_ref().to_owned(),
            (None, None) => gave.unwrap_or(NOBODY).to_owned(),
        }
    }

    /// Returns the name under which the idempotency keys of the visitor's registrations are kept.
    pub fn caller(&self) -> &str {
        self.key.as_deref().unwrap_or_default()
    }
}

impl FromRequestParts<App> for PageVisitor {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let visitor = parts.extensions.get::<Self>().cloned();
        visitor.ok_or_else(|| Problem::internal("a page outside the guard"))
    }
}

/// The proof that the visitor has the scope of `N`. It is the first argument of a handler.
#[derive(Clone, Debug)]
pub struct ScopedVisitor<N>(pub PageVisitor, PhantomData<N>);

/// A visitor who may read.
pub type ReadingVisitor = ScopedVisitor<Read>;
/// A visitor who may decide and register.
pub type WritingVisitor = ScopedVisitor<Write>;
/// A visitor who may decide about many records at once.
pub type LeadVisitor = ScopedVisitor<LeadScope>;
/// A visitor who may change collections.
pub type AdminVisitor = ScopedVisitor<Admin>;

/// A visitor who may see and change accounts.
#[derive(Clone, Debug)]
pub struct PeopleAdmin(pub PageVisitor);

impl FromRequestParts<App> for PeopleAdmin {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let ScopedVisitor(visitor, _) = AdminVisitor::from_request_parts(parts, app).await?;
        if visitor.may_manage_people() { Ok(Self(visitor)) } else { Err(not_this_collection()) }
    }
}

impl<N> Deref for ScopedVisitor<N> {
    type Target = PageVisitor;
    fn deref(&self) -> &PageVisitor {
        &self.0
    }
}

impl<N: NeededScope> FromRequestParts<App> for ScopedVisitor<N> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let visitor = PageVisitor::from_request_parts(parts, app).await?;
        if visitor.may(N::SCOPE) {
            return Ok(Self(visitor, PhantomData));
        }
        Err(missing(N::SCOPE, &visitor))
    }
}

/// Returns the problem for a visitor without `scope`.
fn missing(scope: Scope, visitor: &PageVisitor) -> Problem {
    if let Some(person) = &visitor.person {
        let own = person.role.as_str();
        let needed = PersonRole::with(scope).as_str();
        let detail =
            format!("your account has the role {own:?}; the request needs the role {needed:?} or a higher one");
        return Problem::new(StatusCode::FORBIDDEN, ErrorCode::MissingRole, detail);
    }
    let scope = scope.as_str();
    let detail = format!("the key does not have the scope {scope:?}, which the request needs");
    Problem::new(StatusCode::FORBIDDEN, ErrorCode::MissingScope, detail)
}
