//! Measurements: generated records ([`sample`]), and the quality of the answers on generated and on labelled records ([`eval`]).

pub mod eval;
pub mod sample;
