//! Creates a deletion task once a day for the records past a collection's retention. If several instances share a store, the first instance creates
//! the task, and one of them runs it. The list of tasks, which all instances share, contains the time of the last deletion.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::tasks::{Erase, ErasedRecords, Work};
use crate::{Engine, Error, Result};
use doppel_core::collection::Retention;
use doppel_store::tasks::{TaskState, TaskStatus};
use doppel_store::{CollectionNumber, CollectionState};

/// Interval between two checks of the settings, which are in memory: a new retention takes effect after this time.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Interval between two passes over all records. Ages are counted in days.
const DUE_EVERY: SignedDuration = SignedDuration::from_hours(24);
/// Time after a failed or cancelled pass until the next one.
const AGAIN_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// The time of the next pass for each collection, and the retention for which it holds.
type DueTimes = HashMap<CollectionNumber, (u32, Timestamp)>;

/// Creates the deletion tasks for the retention of all collections until the service drains.
pub async fn keep_retention(engine: Engine, draining: CancellationToken) {
    let mut due = DueTimes::new();
    loop {
        tokio::select! {
            () = draining.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        if let Err(error) = engine.ask_for_retention(&mut due).await {
            tracing::warn!(%error, "records past their retention could not be deleted; trying again");
        }
    }
}

impl Engine {
    /// Creates a deletion task for each collection that is due and has no other task.
    async fn ask_for_retention(&self, due: &mut DueTimes) -> Result<()> {
        let now = Timestamp::from_microsecond((self.options.micros)().cast_signed()).map_err(|_| Error::Crashed)?;
        let states = self.store.collections().await?;
        due.retain(|number, _| states.iter().any(|state| state.number == *number));
        let mut waiting = Vec::new();
        for state in states {
            let Some(Retention { days }) = state.settings.retention else { continue };
            let is_due = due.get(&state.number).is_none_or(|(asked, next)| *asked != days || now >= *next);
            if is_due {
                waiting.push((days, state));
            }
        }
        if waiting.is_empty() {
            return Ok(());
        }
        let tasks = self.store.tasks().await?;
        for (days, state) in waiting {
            let request = Erase { which: ErasedRecords::OlderThanDays(days), dry_run: false, by_retention: true };
            let next = match last(&tasks, &state, &request) {
                Some(next) if now < next => next,
                _ => match self.begin_task(&state.name, Work::Erase(request)).await {
                    Ok(_) => now + DUE_EVERY,
                    // The next check tries again.
                    Err(Error::TaskRunning(..) | Error::UnknownCollection(_)) => continue,
                    Err(other) => return Err(other),
                },
            };
            due.insert(state.number, (days, next));
        }
        Ok(())
    }
}

/// Returns the time of the next pass after the last task that an instance created.
fn last(tasks: &[TaskState], state: &CollectionState, request: &Erase) -> Option<Timestamp> {
    let asked = serde_json::to_value(Work::Erase(request.clone())).ok()?;
    let task = tasks.iter().find(|task| task.number == Some(state.number) && task.request == asked)?;
    let pause = match task.status {
        TaskStatus::Failed | TaskStatus::Canceled => AGAIN_AFTER,
        TaskStatus::Enqueued | TaskStatus::Processing | TaskStatus::Succeeded => DUE_EVERY,
    };
    task.created_at.parse::<Timestamp>().ok()?.checked_add(pause).ok()
}
