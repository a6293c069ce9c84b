//! How far an experiment is, and whether it is to stop.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The experiment was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped")]
pub struct Stopped;

type Told = dyn Fn(&str, u64, u64) + Send + Sync;

/// Tells how far it is and hears whether to stop. Cheap to ask; ask at least every second.
#[derive(Clone)]
pub struct Progress {
    told: Arc<Told>,
    stop: Arc<AtomicBool>,
}

impl Progress {
    /// Calls `told` with what is being done, how much of it is done, and of how much; ends when `stop` is set.
    pub fn new(told: impl Fn(&str, u64, u64) + Send + Sync + 'static, stop: Arc<AtomicBool>) -> Self {
        Self { told: Arc::new(told), stop }
    }

    /// Tells nobody and never stops.
    pub fn silent() -> Self {
        Self::new(|_, _, _| (), Arc::default())
    }

    /// `done` of `total` of `what` is done.
    ///
    /// # Errors
    /// When it is to stop.
    pub fn at(&self, what: &str, done: u64, total: u64) -> Result<(), Stopped> {
        (self.told)(what, done, total);
        self.go_on()
    }

    /// # Errors
    /// When it is to stop.
    pub fn go_on(&self) -> Result<(), Stopped> {
        if self.stop.load(Ordering::Relaxed) { Err(Stopped) } else { Ok(()) }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").finish_non_exhaustive()
    }
}
