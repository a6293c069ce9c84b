//! Numbers that records and indexes are told apart and put in order by.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Names one complete index of a collection, built with one profile. The first is 1; 0 where none is known.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GenerationId(pub u32);

impl GenerationId {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for GenerationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for GenerationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number in the order of commits of a collection: strictly increasing, with gaps. That of a record is that of the commit that
/// stored it. The first is 1; 0 stands before all.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// Above all that are ever drawn.
    pub const MAX: Self = Self(u64::MAX);

    /// The one after it; the last one stays.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The one that is `distance` after it.
    #[must_use]
    pub fn after(self, distance: usize) -> Self {
        Self(self.0.saturating_add(distance as u64))
    }

    /// The one that is `distance` before it; 0 where there are not so many.
    #[must_use]
    pub fn before(self, distance: u64) -> Self {
        Self(self.0.saturating_sub(distance))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
