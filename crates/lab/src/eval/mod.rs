//! The quality of the answers: labelled sets, and recall and precision of pairs, measured on the real pipeline.

pub mod all;
pub mod baselines;
pub mod dataset;
pub mod decided;
pub mod direct;
pub mod events;
pub mod evidence;
pub mod experiments;
pub mod grid;
pub mod labelled;
pub mod metrics;
pub mod plot;
pub mod related;
pub mod run;
pub mod svg;
