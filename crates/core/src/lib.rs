//! The rules that decide whether two records concern the same matter: how a record is read, signed, indexed and
//! compared.
//!
//! This crate is pure: it has no input or output, no clock and no asynchronous code. The stores store records, and the
//! engine answers requests. A module may use only the modules below it in this list:
//!
//! * [`events`]: the records about one real-world problem.
//! * [`evidence`]: the probability that two records concern the same matter.
//! * [`index`], [`similarity`]: the records that could match, and the measures of their similarity.
//! * [`schemes`]: signatures of a text.
//! * [`facts`]: the typed facts that a text names, and the comparison of the facts of two texts.
//! * [`text`]: normalisation, words, names of objects.
//! * [`handling`]: the values that the office adds to a record.
//! * [`columns`]: the meaning of a column by its name.
//! * [`verdict`], [`collection`], [`record`], [`numbers`], [`violation`]: the results, the settings, the input, the
//!   order of records, and the errors in requests.

#![warn(missing_docs)]

pub mod collection;
pub mod columns;
pub mod error_code;
pub mod events;
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
