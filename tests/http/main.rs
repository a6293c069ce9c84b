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

/// A letter that is long enough to be compared.
const LAMPS: &str = "幸福小区东门外的路灯从上个月初开始就全部不亮了，晚上老人和孩子出行十分不便，上周还有人摔伤，\
                     我们多次向物业反映，至今没有人来修理。";

/// Returns a record with a title and this text.
fn row(content: &str) -> serde_json::Value {
    serde_json::json!({"title": "来信", "content": content})
}
