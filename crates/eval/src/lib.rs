//! The quality of the answers: generated records ([`sample`]), labelled sets ([`dataset`]), and recall and precision of pairs, groups and
//! events, measured on the real pipeline.

pub mod all;
pub mod bm25;
pub mod dataset;
pub mod decided;
pub mod direct;
pub mod events;
pub mod evidence;
pub mod grid;
pub mod labelled;
pub mod metrics;
pub mod plot;
pub mod related;
pub mod run;
pub mod sample;
pub mod svg;
