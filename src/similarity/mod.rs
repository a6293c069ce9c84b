//! Verification: how alike two texts really are, and why.
//!
//! Channels propose; this module reads both texts and measures. [`ShingleSet`] gives the two numbers that decide
//! ([`Resemblance`]), `passages` and `diff` show a person what the numbers rest on. Pure functions of normalised
//! text; every cost is stated and bounded.

mod diff;
mod passages;
mod shingles;

pub use diff::{MAX_DIFF_CHARS, Piece, align};
pub use passages::{MAX_PASSAGES, MIN_PASSAGE_CHARS, SharedPassage, shared_passages};
pub use shingles::{Resemblance, ShingleSet};
