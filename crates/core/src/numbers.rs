//! Numbers that identify and order records and generations.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Identifies one complete index of a collection, built with one profile. The first number is 1; 0 means that no
/// generation is known.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GenerationId(pub u32);

impl GenerationId {
    /// Returns the next id.
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

/// A number in the order of commits of a collection: strictly increasing, with gaps. The number of a record is the
/// number of the commit that stored it. The first number is 1; 0 comes before all records.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// A number above all numbers that are ever assigned.
    pub const MAX: Self = Self(u64::MAX);

    /// Returns the next number; the largest number is its own successor.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Returns the number that is `distance` larger, at most the largest number.
    #[must_use]
    pub fn after(self, distance: usize) -> Self {
        Self(self.0.saturating_add(distance as u64))
    }

    /// Returns the number that is `distance` smaller, at least 0.
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
