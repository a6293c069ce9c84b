//! What outlives one opened database.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::{Mutex, Semaphore};

use super::free_space::FreeSpace;
use super::options::EmbeddedOptions;
use super::shared_state::SharedState;
use super::write_watchdog::WriteWatchdog;

/// Changes under way at once. More would not be faster: a batch takes about as many as arrive during a sync; and each holds its
/// row in memory, at most some megabytes.
pub const MAX_PENDING: usize = 1024;

/// What outlives one opened database.
pub(super) struct Supervisor {
    pub(super) dir: PathBuf,
    pub(super) options: EmbeddedOptions,
    pub(super) space: Arc<FreeSpace>,
    pub(super) watchdog: Arc<WriteWatchdog>,
    /// Whether it was last opened without merging tables, for want of room.
    pub(super) held: AtomicBool,
    /// `None` while the database is being opened again, and when it is closed.
    pub(super) shared: ArcSwapOption<SharedState>,
    pub(super) permits: Arc<Semaphore>,
    /// Held while a collection or a generation is being created, changed or dropped.
    pub(super) ddl_lock: Arc<Mutex<()>>,
    pub(super) closed: AtomicBool,
}

impl Supervisor {
    /// Whether it was last opened without merging tables.
    pub(super) fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }
}

/// Waits until nobody uses `shared` any more and drops it, so that the directory is free afterwards. Nobody uses it for long: it
/// is never held across a wait.
pub(super) fn end(mut shared: Arc<SharedState>) {
    loop {
        match Arc::try_unwrap(shared) {
            Ok(last) => return drop(last),
            Err(used) => shared = used,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
