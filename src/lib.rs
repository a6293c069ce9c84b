//! doppel tells a petition office, for every record that comes in, whether the same matter was submitted before, and
//! where.
//!
//! Arrows point down only: [`cli`] → [`http`], [`eval`] → [`engine`] → [`store`] → [`index`], [`similarity`] →
//! [`schemes`] → [`text`] → [`record`], [`collection`]. `ARCHITECTURE.md` walks one request through.

pub mod cli;
pub mod clock;
pub mod collection;
pub mod config;
pub mod engine;
pub mod eval;
pub mod http;
pub mod index;
pub mod observe;
pub mod record;
pub mod sample;
pub mod schemes;
pub mod shutdown;
pub mod similarity;
pub mod sources;
pub mod store;
pub mod tasks;
pub mod text;
pub mod verdict;
pub mod violation;
