//! Tests the API over HTTP.

#![allow(clippy::disallowed_methods, reason = "a test makes its own time, files and settings")]

#[path = "../support/embedder.rs"]
mod embedder;
#[path = "../support/receiver.rs"]
mod receiver;
#[path = "../support/mod.rs"]
mod support;

mod accounts;
mod auth;
mod bad_input;
mod bulk;
mod changes;
mod collections;
mod compressed;
mod events;
mod keep;
mod keys;
mod keys_reach;
mod language;
mod lifecycle;
mod limits;
mod lookup;
mod members;
mod openapi;
mod protection;
mod records;
mod regroup;
mod reload;
mod rows;
mod schemes;
mod scope;
mod search;
mod shares;
mod snapshots;
mod tasks;
mod tls;
mod turns;
mod vectors;
mod webhooks;
