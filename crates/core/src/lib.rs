//! What decides whether two records concern the same matter: how a record is read, signed, indexed and compared.
//!
//! Pure: no input or output, no clock, nothing asynchronous. What is stored, and how, is the stores' business; who asks is the
//! engine's. Arrows point up this list only:
//!
//! * [`evidence`]: how probable it is that two records concern the same matter.
//! * [`index`], [`similarity`]: which records could match, and how alike they are.
//! * [`schemes`]: signatures of a text.
//! * [`facts`]: the typed things that a text names, and how those of two texts compare.
//! * [`text`]: normalising, words, names of things.
//! * [`handling`]: what the office writes beside a record.
//! * [`columns`]: the meaning of a column by its name.
//! * [`verdict`], [`collection`], [`record`], [`numbers`], [`violation`]: what comes in, by what settings, what comes out, in what order,
//!   what is wrong with it.

#![warn(missing_docs)]

pub mod collection;
pub mod columns;
pub mod evidence;
pub mod facts;
pub mod handling;
pub mod index;
pub mod numbers;
pub mod record;
pub mod schemes;
pub mod similarity;
pub mod text;
pub mod verdict;
pub mod violation;
