//! The experiments of the documents on which this service is based, repeated with its own parts: the signing, the index, the joins and the
//! stores of the service, and the baselines with which the documents compare.
//!
//! Each experiment is a function from an [`ExperimentSetup`] to an [`ExperimentReport`]. The report shows the measured figures next to the
//! document's figures, as far as they are known, and the differences between the settings. The sizes are the document's sizes times
//! [`ExperimentSetup::scale`]. The times belong to the machine of the run, so that only a comparison of rows is meaningful.

pub mod cleaning;
pub mod command;
pub mod data;
pub mod mysql;
pub mod progress;
pub mod report;
mod servers;
pub mod t2;
pub mod t3;
pub mod t4;
pub mod t5;
pub mod tianwang;

use doppel_core::collection::Settings;
use doppel_eval::dataset::LabelledSet;

pub use self::progress::{ExperimentProgress, StoppedError};
pub use self::report::ExperimentReport;

/// The input of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentSetup {
    /// Labelled records. Without them, each experiment generates its own.
    pub set: Option<LabelledSet>,
    /// Fields and text rules of `set`.
    pub settings: Settings,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The size, as a share of the document's sizes.
    pub scale: f64,
}

impl ExperimentSetup {
    /// Returns a size of a document at the given scale: at least `least`, because a smaller experiment has no meaning.
    pub fn size(&self, documents: u64, least: u64) -> u64 {
        ((documents as f64 * self.scale).round() as u64).max(least)
    }

    /// Returns the source of the records, in a few words for the report.
    pub fn origin(&self) -> String {
        match &self.set {
            Some(set) => {
                format!("labelled records from files: {} records, {} true pairs", set.records.len(), set.truth.len())
            }
            None => format!("made-up petitions, seed {}", self.seed),
        }
    }
}

/// The reason why an experiment ended early.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The experiment was stopped.
    #[error("stopped")]
    Stopped(#[from] StoppedError),
    /// The given records or sizes are not suitable.
    #[error("{0}")]
    Unfit(String),
    /// A part that is measured failed.
    #[error("{0}")]
    Failed(String),
}

/// The result of an experiment, or of a part of it.
pub type ExperimentResult<T> = Result<T, ExperimentError>;
