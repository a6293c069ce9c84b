//! doppel tells a petition office, for every record that comes in, whether the same matter was submitted before, and
//! where.
//!
//! This package is the process: commands, HTTP, configuration. What it is made of are the crates below `crates/`, each knowing only
//! those that its manifest names: `core` ← `store` ← `store-embedded`, `store-mongodb`, `snapshot`, `engine` ← `lab`. `ARCHITECTURE.md` walks one
//! request through.

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
pub mod traces;
