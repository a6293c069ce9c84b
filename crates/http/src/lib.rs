//! The HTTP interface: routes, authorisation, limits and responses.
//!
//! It contains no rule of the domain. A handler extracts its arguments, authorises the caller, makes one call to the engine and answers.
//! [`router`] lists all routes, and the OpenAPI document is made from this list.

pub mod accounts;
pub mod audit;
pub mod auth;
pub mod body;
pub mod build;
pub mod coding;
pub mod connection;
pub mod cursor;
pub mod evicting;
pub mod extract;
pub mod follow_keys;
mod header_checks;
pub mod keys;
pub mod linger;
pub mod local;
pub mod observe;
pub mod open_connections;
pub mod openapi;
pub mod origin;
pub mod pace;
pub mod pages;
pub mod passwords;
pub mod people;
pub mod permits;
pub mod problem;
pub mod query;
pub mod request_log;
pub mod room;
pub mod router;
pub mod routes;
pub mod server;
pub mod shares;
pub mod state;
pub mod tls;
pub mod traces;
pub mod wording;
