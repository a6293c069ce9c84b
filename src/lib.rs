//! doppel tells a petition office, for every record that arrives, whether the same matter was submitted before, and where.
//!
//! This package contains the process: commands, HTTP and configuration. The other parts are the crates in `crates/`. Each crate depends
//! only on the crates that its manifest names: `core` ← `store` ← `store-embedded`, `store-mongodb`, `snapshot`, `engine` ← `lab`.
//! `ARCHITECTURE.md` follows one request through the crates.

pub mod cli;
pub mod clock;
pub mod config;
pub mod console;
pub mod findings;
pub mod follow;
pub mod http;
mod notify;
pub mod observe;
pub mod reload;
pub mod shutdown;
pub mod snapshots;
pub mod texts;
pub mod traces;
pub mod webhooks;
