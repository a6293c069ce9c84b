//! The progress of an experiment, and the signal to stop it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The error that the experiment was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped")]
pub struct StoppedError;

type ProgressCallback = dyn Fn(&str, u64, u64) + Send + Sync;

/// Reports the progress and reads the signal to stop. A report takes little time; an experiment should report at least every second.
#[derive(Clone)]
pub struct ExperimentProgress {
    told: Arc<ProgressCallback>,
    stop: Arc<AtomicBool>,
}

impl ExperimentProgress {
    /// Creates a progress that calls `told` with the name of the task, the amount that is done, and the total. The experiment ends when
    /// `stop` is set.
    pub fn new(told: impl Fn(&str, u64, u64) + Send + Sync + 'static, stop: Arc<AtomicBool>) -> Self {
        Self { told: Arc::new(told), stop }
    }

    /// Creates a progress that reports nothing and never stops.
    pub fn silent() -> Self {
        Self::new(|_, _, _| (), Arc::default())
    }

    /// Reports that `done` of `total` of `what` is done.
    ///
    /// # Errors
    /// The experiment is stopped.
    pub fn at(&self, what: &str, done: u64, total: u64) -> Result<(), StoppedError> {
        (self.told)(what, done, total);
        self.go_on()
    }

    /// # Errors
    /// The experiment is stopped.
    pub fn go_on(&self) -> Result<(), StoppedError> {
        if self.stop.load(Ordering::Relaxed) { Err(StoppedError) } else { Ok(()) }
    }
}

impl fmt::Debug for ExperimentProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").finish_non_exhaustive()
    }
}
