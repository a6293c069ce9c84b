//! Opens the database again after a failed commit, in the background, until it succeeds.
//!
//! After a failed write it is unknown what is on disk, and fjall refuses further writes until it is opened again, even when there
//! is room again. So all that belongs to the open database is dropped and built from the disk. Until there is room, or for about a
//! second, lookups continue against the old one; no longer, since half-written files of a failed compaction may be what fills the
//! disk, and only opening removes them.
//!
//! When there is too little room even then, merging tables would fail once more. So the database is opened without the threads that
//! merge: lookups and removals work, and the committer has it opened as usual when there is room, or after a while.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::committer::OnFailure;
use super::failpoints::{fails, point};
use super::free_space::Reserve;
use super::options::{Opening, Workers};
use super::shared_state::SharedState;
use super::supervisor::{Supervisor, end};
use doppel_store::{Result, StoreError};

/// First pause between two attempts; doubles up to [`LONGEST`].
const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);
/// How often to wait for room on a full disk: a second and a half in all. What fills it may be what opening removes.
const WAITS_FOR_ROOM: u32 = 5;

/// What the committer calls when a commit has failed.
pub(super) fn on_failure(supervisor: &Arc<Supervisor>) -> OnFailure {
    let supervisor = Arc::downgrade(supervisor);
    Box::new(move |reason| {
        tracing::error!(reason, "the data directory is opened again");
        let reopen = move || reopen(&supervisor);
        if let Err(error) = std::thread::Builder::new().name("store-reopen".into()).spawn(reopen) {
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
        // Not held while asleep, so that a store that is dropped ends.
        let Some(supervisor) = supervisor.upgrade() else { return };
        if supervisor.closed.load(Ordering::Acquire) {
            return;
        }
        if waits < WAITS_FOR_ROOM && supervisor.space.check(Reserve::Whole).is_err() && !supervisor.is_held() {
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
        // Then not even a removal could be written.
        drop(shared);
        shared = open(supervisor, Workers::Running)?;
    }
    supervisor.held.store(shared.disk.workers() == Workers::Held, Ordering::Release);
    supervisor.shared.store(Some(Arc::new(shared)));
    // Closed meanwhile: whoever closes has found nothing to end.
    if supervisor.closed.load(Ordering::Acquire)
        && let Some(shared) = supervisor.shared.swap(None)
    {
        end(shared);
        return Ok(());
    }
    tracing::info!("the data directory is open again");
    Ok(())
}

/// Whether tables are to be merged: not while there is no room, unless that was so for a while.
fn workers(supervisor: &Supervisor) -> Result<Workers> {
    let is_short = || {
        supervisor.space.measure();
        supervisor.space.check(Reserve::Whole).is_err()
    };
    if supervisor.is_held() || !is_short() {
        return Ok(Workers::Running);
    }
    super::opening::tidy(&supervisor.dir, &supervisor.options)?;
    Ok(if is_short() { Workers::Held } else { Workers::Running })
}

fn open(supervisor: &Arc<Supervisor>, workers: Workers) -> Result<SharedState> {
    // A directory that was removed is not created anew.
    let how = (Opening::Existing, workers);
    SharedState::open(
        &supervisor.dir,
        &supervisor.options,
        how,
        (&supervisor.watchdog, &supervisor.space),
        on_failure(supervisor),
    )
}
