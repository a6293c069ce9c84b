//! The ways in which a matter is reported again: by another desk, in other words, with short names, with typing errors, with an addition,
//! or as a question about the earlier order.

use super::super::rng::RandomStream;

/// A difference from the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ResubmitEdit {
    /// Another beginning and another end.
    Desk,
    /// Some other words.
    Words,
    /// Short names of places, schools and companies.
    Shortened,
    /// Typing errors.
    Slips,
    /// An additional remark.
    Added,
    /// The order names the first order and complains that there was no answer.
    Chased,
}

impl ResubmitEdit {
    const ALL: [Self; 6] = [Self::Desk, Self::Words, Self::Shortened, Self::Slips, Self::Added, Self::Chased];

    /// Returns the name in `groups.jsonl`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Desk => "desk",
            Self::Words => "words",
            Self::Shortened => "shortened",
            Self::Slips => "slips",
            Self::Added => "added",
            Self::Chased => "chased",
        }
    }
}

/// Returns the edits of the copy for `seed`, each once: one to four edits, sometimes none.
pub(super) fn edits(seed: u64) -> Vec<ResubmitEdit> {
    let mut rng = RandomStream::of(&[seed, 60]);
    if rng.chance(8) {
        return Vec::new();
    }
    let mut edits = ResubmitEdit::ALL;
    rng.shuffle(&mut edits);
    let mut edits = edits[..rng.between(1, 4)].to_vec();
    edits.sort_unstable();
    edits
}
