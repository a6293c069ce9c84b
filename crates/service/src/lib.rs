//! The background work of a running service: it reads sources, sends webhooks, calls the model of vectors, takes snapshots, counts, and stops in
//! order.
//!
//! The clock is here, too: time, ids and random bytes are handed from here to all other code.

pub mod clock;
pub mod embedder;
pub mod follow;
pub mod observe;
pub mod oidc;
mod outgoing;
pub mod shutdown;
pub mod snapshots;
pub mod webhooks;
