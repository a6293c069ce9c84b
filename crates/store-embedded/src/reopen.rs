//! Opens the database again after a failed commit, in the background, until the opening succeeds.
//!
//! After a failed write, the state of the disk is unknown, and fjall refuses further writes until it is opened again, even if there is
//! space again. Therefore, the open database is dropped and built again from the disk. Lookups use the old database until there is space,
//! but for about a second at most, because the incomplete files of a failed compaction may fill the disk, and only an opening removes them.
//!
//! If there is still too little space after this time, merging tables would fail again. In this case the database is opened without the
//! threads that merge: lookups and removals work, and the committer has the database opened normally when there is space, or after some
//! time.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::committer::OnFailure;
use super::failpoints::{fails, point};
use super::free_space::SpaceReserve;
use super::options::{Opening, OpeningMode, Workers};
use super::shared_state::SharedState;
use super::supervisor::{Supervisor, end};
use doppel_store::{Result, StoreError};

/// First pause between two attempts. Each pause is twice as long as the pause before, up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);
/// Number of waits for space on a full disk: a second and a half in all, because the files that opening removes may fill the disk.
const WAITS_FOR_ROOM: u32 = 5;

/// Returns the function that the committer calls after a failed commit.
pub(super) fn on_failure(supervisor: &Arc<Supervisor>) -> OnFailure {
    let supervisor = Arc::downgrade(supervisor);
    Box::new(move |reason| {
        tracing::error!(reason, "the data directory is opened again");
        let builder = std::thread::Builder::new().name("store-reopen".into());
        if let Err(error) = builder.spawn(move || reopen(&supervisor)) {
            tracing::error!(%error, "no thread to open the data directory again; restart the service");
        }
    })
}

fn reopen(supervisor: &Weak<Supervisor>) {
    let mut pause = FIRST;
    let mut waits = 0;
    loop {
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST);
        // The reference is not held during the pause, so that a dropped store ends.
        let Some(supervisor) = supervisor.upgrade() else { return };
        if supervisor.closed.load(Ordering::Acquire) {
            return;
        }
        if waits < WAITS_FOR_ROOM && supervisor.space.check(SpaceReserve::Whole).is_err() && !supervisor.is_held() {
            waits += 1;
            continue;
        }
        match attempt(&supervisor) {
            Ok(()) => return,
            Err(error) => tracing::error!(%error, "the data directory could not be opened again yet"),
        }
    }
}

fn attempt(supervisor: &Arc<Supervisor>) -> Result<()> {
    point("store::reopening");
    if let Some(old) = supervisor.shared.swap(None) {
        end(old);
    }
    if fails("store::reopen_error") {
        return Err(StoreError::Internal("opening failed".into()));
    }
    let workers = workers(supervisor)?;
    let mut shared = open(supervisor, workers)?;
    if workers == Workers::Held && shared.disk.is_behind() {
        // Otherwise the store could not even write a removal.
        drop(shared);
        shared = open(supervisor, Workers::Running)?;
    }
    supervisor.held.store(shared.disk.workers() == Workers::Held, Ordering::Release);
    supervisor.shared.store(Some(Arc::new(shared)));
    // The store was closed meanwhile, and the closing found no open database.
    if supervisor.closed.load(Ordering::Acquire)
        && let Some(shared) = supervisor.shared.swap(None)
    {
        end(shared);
        return Ok(());
    }
    tracing::info!("the data directory is open again");
    Ok(())
}

/// Decides whether tables are merged: tables are not merged while there is too little space, unless this has lasted for some time.
fn workers(supervisor: &Supervisor) -> Result<Workers> {
    if supervisor.is_held() || !is_short(supervisor) {
        return Ok(Workers::Running);
    }
    super::opening::tidy(&supervisor.dir, &supervisor.options)?;
    Ok(if is_short(supervisor) { Workers::Held } else { Workers::Running })
}

/// True if there is too little free space.
fn is_short(supervisor: &Supervisor) -> bool {
    supervisor.space.measure();
    supervisor.space.check(SpaceReserve::Whole).is_err()
}

fn open(supervisor: &Arc<Supervisor>, workers: Workers) -> Result<SharedState> {
    // A directory that was removed is not created again.
    let mode = OpeningMode { opening: Opening::Existing, workers };
    SharedState::open(
        &supervisor.dir,
        &supervisor.options,
        mode,
        &supervisor.watchdog,
        &supervisor.space,
        on_failure(supervisor),
    )
}
