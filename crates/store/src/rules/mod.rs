//! What every store decides alike: pure functions of what a store has read, none of which reads or writes anything.

pub mod conclude;
pub mod feed;
pub mod generation_life;
pub mod plan;
pub mod proposals;
pub mod ruling;
