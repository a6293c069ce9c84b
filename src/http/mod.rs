//! The HTTP interface: what a request means, who may make it, how much is taken at once, and how answers look.
//!
//! It holds no rule of the domain: a handler extracts, authorises, makes one call of the engine and answers. The whole
//! surface is one list in [`router`]; the OpenAPI document falls out of it.

pub mod audit;
pub mod auth;
pub mod baseline;
pub mod body;
pub mod coding;
pub mod connection;
pub mod cursor;
pub mod evicting;
pub mod extract;
pub mod follow_keys;
pub mod keys;
pub mod linger;
pub mod local;
pub mod observe;
pub mod open_connections;
pub mod openapi;
pub mod origin;
pub mod pace;
pub mod pages;
pub mod problem;
pub mod query;
pub mod room;
pub mod router;
pub mod routes;
pub mod server;
pub mod shares;
pub mod state;
pub mod tls;
