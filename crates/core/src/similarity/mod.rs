//! Verification: decides whether two texts concern one matter, and gives the reasons.
//!
//! Channels propose pairs; this module reads both texts and measures. [`ShingleSet`]s are compared,
//! [`Frequencies`](crate::schemes::frequencies::Frequencies) say how common their members are, [`Contrast`] compares
//! the names, and [`Verifier`] decides. `passages` and `diff` show a person the basis of the numbers. All functions are
//! pure functions of normalised text; every cost is stated and bounded. Most pairs do not need the texts: a
//! [`sketch()`] of a text in some hundred bytes shows that they are not alike.

mod alignment;
mod common_subsequence;
mod contrast;
mod diff;
mod evidence;
mod forms;
mod names;
mod passages;
mod prefilter;
mod shingles;
mod sketch;
mod sketches;

pub use alignment::{Alignment, TokenText, align_tokens};
pub(crate) use contrast::district_level;
pub use contrast::{Contrast, NamesInText, contrast};
pub use diff::{MAX_DIFF_CHARS, Piece, align};
pub use evidence::{Evidence, Overlap, Verifier, WeightedShingles};
pub use forms::{FormText, MIN_FORM_CHARS};
pub use names::NameFilter;
pub use passages::{MAX_PASSAGES, MIN_PASSAGE_CHARS, SharedPassage, shared_passages};
pub use shingles::{Resemblance, ShingleSet};
pub use sketch::{SketchComparison, SketchFilter, named_in, names_in, sketch, with_names};
pub use sketches::Sketches;
