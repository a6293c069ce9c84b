//! How a matter comes in again: taken by another desk, in other words, with short names, slips, something added, or chased.

use super::super::rng::Rng;

/// What differs from the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Edit {
    /// Another head and tail.
    Desk,
    /// Some words.
    Words,
    /// Short names of places, schools and companies.
    Shortened,
    /// Slips of the hand.
    Slips,
    /// A remark more.
    Added,
    /// The first order is named, and that nothing was heard.
    Chased,
}

impl Edit {
    const ALL: [Self; 6] = [Self::Desk, Self::Words, Self::Shortened, Self::Slips, Self::Added, Self::Chased];

    /// Its name in `groups.jsonl`.
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

/// What is done to the copy that belongs to `seed`, each once: one to four edits, now and then none.
pub(super) fn edits(seed: u64) -> Vec<Edit> {
    let mut rng = Rng::of(&[seed, 60]);
    if rng.chance(8) {
        return Vec::new();
    }
    let mut edits = Edit::ALL;
    rng.shuffle(&mut edits);
    let mut edits = edits[..rng.between(1, 4)].to_vec();
    edits.sort_unstable();
    edits
}
