//! Where the time of a registration or a lookup goes. Its stages follow each other and do not overlap; what is left of a request's time
//! is transport, authorisation and the answer.
//!
//! The engine measures what it does itself; a store tells the [`Judge`](crate::Judge) of the record how long its own stages took.

use std::time::Instant;

/// A stage of a registration; a lookup has neither `Wait` nor `Commit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From the row to normalised fields.
    Read,
    /// From the fields to signatures and keys.
    Sign,
    /// Until its turn comes: behind others that write the same record, behind as many changes as may be under way, behind the
    /// transaction before it.
    Wait,
    /// What stands under its id, its place among the changes, and what the index proposes.
    Propose,
    /// Which of the candidates match: reading them and comparing.
    Verify,
    /// Until all of it is on disk, or confirmed by a majority, and shown.
    Commit,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Self; 6] = [Self::Read, Self::Sign, Self::Wait, Self::Propose, Self::Verify, Self::Commit];

    /// Its name in metrics and traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Sign => "sign",
            Self::Wait => "wait",
            Self::Propose => "propose",
            Self::Verify => "verify",
            Self::Commit => "commit",
        }
    }
}

/// When a stage began and ended.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// When it began.
    pub began: Instant,
    /// When it ended, not before it began.
    pub ended: Instant,
}

impl Span {
    /// From `began` until now.
    pub fn since(began: Instant) -> Self {
        Self { began, ended: Instant::now() }
    }

    /// Seconds from its beginning to its end.
    pub fn seconds(self) -> f64 {
        self.ended.saturating_duration_since(self.began).as_secs_f64()
    }
}
