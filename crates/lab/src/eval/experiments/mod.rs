//! The experiments of the documents that this service builds on, repeated on its own parts: the same signing, index,
//! joins and stores as the service, and the baselines they were compared with.
//!
//! Each experiment is a function from a [`Setup`] to a [`Report`], which puts what was measured beside what the document
//! says, where that is known, and tells how its setting differs. Sizes are the documents' own times [`Setup::scale`]. Times
//! are of this machine; what is worth comparing is one row with another.

pub mod cleaning;
pub mod data;
pub mod progress;
pub mod report;
pub mod t2;
pub mod t3;
pub mod t4;
pub mod t5;
pub mod tianwang;

use super::dataset::Dataset;
use doppel_core::collection::Settings;

pub use self::progress::{Progress, Stopped};
pub use self::report::Report;

/// What an experiment is given.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Labelled records; without them each experiment makes up its own.
    pub set: Option<Dataset>,
    /// Fields and text rules of `set`.
    pub settings: Settings,
    /// What all chance is drawn from.
    pub seed: u64,
    /// How large, as a share of the documents' sizes.
    pub scale: f64,
}

impl Setup {
    /// A size of a document at the scale wanted: at least `least`, for below that the experiment has no meaning.
    pub fn size(&self, documents: u64, least: u64) -> u64 {
        ((documents as f64 * self.scale).round() as u64).max(least)
    }

    /// Where the records come from, in a few words for the report.
    pub fn origin(&self) -> String {
        match &self.set {
            Some(set) => {
                format!("labelled records from files: {} records, {} true pairs", set.records.len(), set.truth.len())
            }
            None => format!("made-up petitions, seed {}", self.seed),
        }
    }
}

/// Why an experiment ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was told to.
    #[error("stopped")]
    Stopped(#[from] Stopped),
    /// The records or sizes given do not serve.
    #[error("{0}")]
    Unfit(String),
    /// A part under measurement failed.
    #[error("{0}")]
    Failed(String),
}

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;
