//! Measuring: made-up records ([`sample`]), and how good the answers are on them and on labelled ones ([`eval`]).

pub mod eval;
pub mod sample;
