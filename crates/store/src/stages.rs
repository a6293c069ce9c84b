//! The stages of a registration or a lookup, to measure their times. The stages follow each other and do not overlap. The rest of a request's
//! time is transport, authorisation and the response.
//!
//! The engine measures its own stages. A store reports the times of its stages to the [`CandidateJudge`](crate::CandidateJudge) of the record.

use std::time::Instant;

/// A stage of a registration; a lookup has neither `Wait` nor `Commit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationStage {
    /// Parsing the row and normalising its fields.
    Read,
    /// Computing signatures and keys.
    Sign,
    /// Waiting for other writers of the same record, for a free place among the running changes, or for the previous transaction.
    Wait,
    /// Reading the record under the id, drawing the seq, and finding candidates in the index.
    Propose,
    /// Reading the candidates and comparing them.
    Verify,
    /// Writing until the data is on disk or confirmed by a majority, and publishing it.
    Commit,
}

impl RegistrationStage {
    /// All stages in their order.
    pub const ALL: [Self; 6] = [Self::Read, Self::Sign, Self::Wait, Self::Propose, Self::Verify, Self::Commit];

    /// The name of the stage in metrics and traces.
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

/// The beginning and the end of a stage.
#[derive(Clone, Copy, Debug)]
pub struct StageSpan {
    /// The beginning.
    pub began: Instant,
    /// The end, not before the beginning.
    pub ended: Instant,
}

impl StageSpan {
    /// Makes the span from `began` until now.
    pub fn since(began: Instant) -> Self {
        Self { began, ended: Instant::now() }
    }

    /// Duration in seconds.
    pub fn seconds(self) -> f64 {
        self.ended.saturating_duration_since(self.began).as_secs_f64()
    }
}
