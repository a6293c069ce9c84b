//! Authorisation of requests: the key, its scopes, and the collections for which it may be used.
//!
//! Authorisation is an extractor. It comes first in the arguments of a handler, so that a caller without a key does not learn whether its
//! body is valid. A key that is limited to some collections allows only the routes of these collections: [`AuthorisedCaller`] refuses the
//! key on every route whose path names no collection. A handler that can answer for a part of the collections takes [`AuthorisedIn`] and
//! checks the [`CollectionReach`] itself.

use std::marker::PhantomData;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::header;
use axum::http::request::Parts;

use crate::keys::not_this_collection;
pub use crate::keys::{ApiKeys, CallerRights, CollectionReach, RequestCaller, ShownKey};
use crate::open_connections::ConnectionMark;
use crate::problem::Problem;
use crate::shares::{ClientAddress, PlaceHolder};
use crate::state::App;
use doppel_config::auth::Scope;
use doppel_core::collection::CollectionName;

/// A scope as a type, so that the signature of a handler shows the required scope.
pub trait NeededScope: Send + Sync {
    const SCOPE: Scope;
}

macro_rules! needs {
    ($($(#[$doc:meta])* $name:ident = $scope:ident as $alias:ident, $in_alias:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl NeededScope for $name {
            const SCOPE: Scope = Scope::$scope;
        }
        $(#[$doc])*
        pub type $alias = AuthorisedCaller<$name>;
        $(#[$doc])*
        pub type $in_alias = AuthorisedIn<$name>;
    )*};
}

needs! {
    /// Permission to read.
    Read = Read as Reader, ReaderIn;
    /// Permission to register and delete.
    Write = Write as Writer, WriterIn;
    /// Permission to change collections.
    Admin = Admin as Administrator, AdministratorIn;
}

/// Permission to decide about many records at once. Only pages of the desk need it.
#[derive(Clone, Copy, Debug)]
pub struct LeadScope;

impl NeededScope for LeadScope {
    const SCOPE: Scope = Scope::Lead;
}

/// Proof that the caller has the scope of `N` for everything that the request concerns.
#[derive(Clone, Debug)]
pub struct AuthorisedCaller<N>(pub RequestCaller, PhantomData<N>);

/// Proof that the caller has the scope of `N` for the collections of its reach. The handler must check the reach.
#[derive(Clone, Debug)]
pub struct AuthorisedIn<N>(pub RequestCaller, PhantomData<N>);

impl<N> AuthorisedIn<N> {
    pub fn reach(&self) -> &CollectionReach {
        &self.0.reach
    }
}

fn caller(parts: &Parts, app: &App, scope: Scope) -> Result<RequestCaller, Problem> {
    let authorization = parts.headers.get(header::AUTHORIZATION);
    let caller = app.keys.authorise(authorization, scope).map(|caller| {
        if let Some(connection) = parts.extensions.get::<ConnectionMark>() {
            connection.authenticated();
        }
        let holder = PlaceHolder::of(&caller.name, parts.extensions.get::<ClientAddress>().copied());
        RequestCaller { holder, ..caller }
    });
    let name = caller.as_ref().ok().map(|caller| caller.name.clone()).or_else(|| app.keys.named(authorization));
    if let (Some(slot), Some(name)) = (parts.extensions.get::<super::request_log::CallerSlot>(), name) {
        slot.set(name);
    }
    caller
}

/// Refuses a request whose path names no collection of `reach`. A name that is not valid is not refused here, but by the code that reads
/// the name.
///
/// # Errors
/// 403 `not_this_collection`.
pub async fn check_reach(parts: &mut Parts, reach: &CollectionReach) -> Result<(), Problem> {
    if reach.is_everything() {
        return Ok(());
    }
    let params = RawPathParams::from_request_parts(parts, &()).await.map_err(|_| not_this_collection())?;
    let named =
        params.iter().find(|(name, _)| *name == "collection").and_then(|(_, name)| CollectionName::new(name).ok());
    named.ok_or_else(not_this_collection).and_then(|collection| reach.check(&collection))
}

impl<N: NeededScope> FromRequestParts<App> for AuthorisedCaller<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let caller = caller(parts, app, N::SCOPE)?;
        check_reach(parts, &caller.reach).await?;
        Ok(Self(caller, PhantomData))
    }
}

impl<N: NeededScope> FromRequestParts<App> for AuthorisedIn<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        Ok(Self(caller(parts, app, N::SCOPE)?, PhantomData))
    }
}
