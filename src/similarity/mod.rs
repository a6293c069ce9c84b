//! Verification: how alike two texts really are, and why.
//!
//! Channels propose; this module reads both texts and measures. [`ShingleSet`] gives the two numbers that decide
//! ([`Resemblance`]), `passages` and `diff` show a person what the numbers rest on. Pure functions of normalised
//! text; every cost is stated and bounded. Most pairs never come so far: a [`sketch()`] of a text in some hundred bytes tells
//! that they are not alike, without the text.

mod diff;
mod passages;
mod shingles;
mod sketch;
mod sketches;

pub use diff::{MAX_DIFF_CHARS, Piece, align};
pub use passages::{MAX_PASSAGES, MIN_PASSAGE_CHARS, SharedPassage, shared_passages};
pub use shingles::{Resemblance, ShingleSet};
pub use sketch::{Sieve, sketch};
pub use sketches::Sketches;
