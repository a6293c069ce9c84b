//! doppel tells a petition office, for every record that comes in, whether the same matter was submitted before, and
//! where.
//!
//! This package is the process: commands, HTTP, configuration. What it is made of are the crates below `crates/`, each knowing only
//! those that its manifest names: `core` ← `store` ← `store-embedded`, `store-mongodb`, `engine` ← `lab`. `ARCHITECTURE.md` walks one
//! request through.

pub mod cli;
pub mod clock;
pub mod config;
pub mod console;
pub mod findings;
pub mod http;
pub mod observe;
pub mod shutdown;
