//! The rules that are the same for every store: pure functions of the data that a store has read.

pub mod conclude;
pub mod feed;
pub mod generation_life;
pub mod plan;
pub mod proposals;
pub mod ruling;
