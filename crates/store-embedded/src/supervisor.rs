//! The state of a store that remains when its database is opened again.

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

/// Largest number of pending changes. More would not be faster, because a batch contains about as many changes as arrive during a
/// sync; and each holds its row in memory, at most some megabytes.
pub const MAX_PENDING: usize = 1024;

/// The state of a store that remains when its database is opened again.
pub(super) struct Supervisor {
    pub(super) dir: PathBuf,
    pub(super) options: EmbeddedOptions,
    pub(super) space: Arc<FreeSpace>,
    pub(super) watchdog: Arc<WriteWatchdog>,
    /// True if the database was last opened without merging tables, for lack of space.
    pub(super) held: AtomicBool,
    /// `None` while the database is opened again, and after it is closed.
    pub(super) shared: ArcSwapOption<SharedState>,
    pub(super) permits: Arc<Semaphore>,
    /// Locked while a collection or a generation is created, changed or dropped.
    pub(super) ddl_lock: Arc<Mutex<()>>,
    pub(super) closed: AtomicBool,
}

impl Supervisor {
    /// True if the database was last opened without merging tables.
    pub(super) fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }
}

/// Waits until `shared` has no other users and drops it, so that the directory is free afterwards. No user holds it for long,
/// because it is never held during a wait.
pub(super) fn end(mut shared: Arc<SharedState>) {
    loop {
        match Arc::try_unwrap(shared) {
            Ok(last) => return drop(last),
            Err(used) => shared = used,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
