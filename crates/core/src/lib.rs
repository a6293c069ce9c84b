//! What decides whether two records concern the same matter: how a record is read, signed, indexed and compared.
//!
//! Pure: no input or output, no clock, nothing asynchronous. What is stored, and how, is the stores' business; who asks is the
//! engine's. Arrows point up this list only:
//!
//! * [`index`], [`similarity`]: which records could match, and whether they do.
//! * [`schemes`]: signatures of a text.
//! * [`text`]: normalising, words, names of things.
//! * [`verdict`], [`collection`], [`record`], [`numbers`], [`violation`]: what comes in, by what settings, what comes out, in what order,
//!   what is wrong with it.

#![warn(missing_docs)]

pub mod collection;
pub mod index;
pub mod numbers;
pub mod record;
pub mod schemes;
pub mod similarity;
pub mod text;
pub mod verdict;
pub mod violation;
