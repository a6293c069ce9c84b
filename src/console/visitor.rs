//! Who looks at a page, and may they.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;

use crate::config::auth::Scope;
use crate::console::flash::Flash;
use crate::console::words::{Language, Words};
use crate::http::auth::{Admin, Needs, Reach, Read, Write};
use crate::http::problem::Problem;
use crate::http::state::App;

/// Whoever decides without keys and gives no name.
const NOBODY: &str = "desk";

/// Who looks at a page. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Visitor(Arc<Facts>);

/// What is known of a visitor.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The name of the key that they signed in with; `None` where nobody did.
    pub key: Option<Arc<str>>,
    /// Whether there are no keys: everyone on this machine may do everything.
    pub is_open: bool,
    /// What they may do.
    pub scopes: Vec<Scope>,
    /// For which collections.
    pub reach: Reach,
    /// In which language.
    pub language: Language,
    /// The token in their forms.
    pub form_token: String,
    /// The path and query of the page.
    pub place: String,
    /// What they just did.
    pub flash: Option<Flash>,
    /// The name under which they last decided, where there are no keys.
    pub name: Option<String>,
}

impl Deref for Visitor {
    type Target = Facts;
    fn deref(&self) -> &Facts {
        &self.0
    }
}

impl Visitor {
    /// The visitor of whom this is known.
    pub fn new(facts: Facts) -> Self {
        Self(Arc::new(facts))
    }

    /// The texts in their language.
    pub fn words(&self) -> &'static Words {
        self.language.words()
    }

    /// Whether they may do what needs `scope`.
    pub fn may(&self, scope: Scope) -> bool {
        self.is_open || self.scopes.contains(&scope)
    }

    /// Whether they may decide and register.
    pub fn may_write(&self) -> bool {
        self.may(Scope::Write)
    }

    /// Whether they may rebuild and switch indexes.
    pub fn may_admin(&self) -> bool {
        self.may(Scope::Admin)
    }

    /// The name that a decision of theirs carries: the key's; without keys the one that they `gave`.
    pub fn by(&self, gave: Option<&str>) -> String {
        match &self.key {
            Some(key) => key.as_ref().to_owned(),
            None => gave.unwrap_or(NOBODY).to_owned(),
        }
    }

    /// Who keys of the idempotency of their registrations belong to.
    pub fn caller(&self) -> &str {
        self.key.as_deref().unwrap_or_default()
    }
}

impl FromRequestParts<App> for Visitor {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let visitor = parts.extensions.get::<Self>().cloned();
        visitor.ok_or_else(|| Problem::internal("a page outside the guard"))
    }
}

/// Proof that the visitor has the scope of `N`; written first in a handler's arguments.
#[derive(Clone, Debug)]
pub struct Clerk<N>(pub Visitor, PhantomData<N>);

/// A visitor who may look.
pub type Reading = Clerk<Read>;
/// A visitor who may decide and register.
pub type Writing = Clerk<Write>;
/// A visitor who may change collections.
pub type Administering = Clerk<Admin>;

impl<N> Deref for Clerk<N> {
    type Target = Visitor;
    fn deref(&self) -> &Visitor {
        &self.0
    }
}

impl<N: Needs> FromRequestParts<App> for Clerk<N> {
    type Rejection = Problem;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let visitor = Visitor::from_request_parts(parts, app).await?;
        if visitor.may(N::SCOPE) {
            return Ok(Self(visitor, PhantomData));
        }
        let scope = N::SCOPE.as_str();
        let detail = format!("the key does not have the scope {scope:?}, which this needs");
        Err(Problem::new(StatusCode::FORBIDDEN, "missing_scope", detail))
    }
}
