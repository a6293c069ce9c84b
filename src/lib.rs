//! doppel tells a petition office, for every record that comes in, whether the same matter was submitted before, and
//! where.
//!
//! Arrows point down only: [`cli`] → [`http`], [`eval`] → [`engine`] → [`store`] → [`index`], [`similarity`] →
//! [`schemes`] → [`text`] → [`record`], [`collection`]. `ARCHITECTURE.md` walks one request through.

pub mod cli;
pub mod clock;
pub mod config;
pub mod http;
pub mod observe;
pub mod shutdown;
