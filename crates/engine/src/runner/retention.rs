//! Asks once a day for the deletion of what is past a collection's retention, as a task like any other: with several instances on one
//! store whoever is first asks, and one of them runs it. When it was last done stands in the list of tasks, which all share.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::tasks::{Erase, Erased, Work};
use crate::{Engine, Error, Result};
use doppel_store::tasks::{TaskState, TaskStatus};
use doppel_store::{CollectionNumber, CollectionState};

/// How often settings are looked at. From memory: a new retention is heeded within so long.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How long after a walk over all records the next one is due. Ages are counted in days.
const DUE_EVERY: SignedDuration = SignedDuration::from_hours(24);
/// How long after a walk that failed or was cancelled the next one is due.
const AGAIN_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// When each collection is due again, under which retention.
type Due = HashMap<CollectionNumber, (u32, Timestamp)>;

/// Looks after the retention of all collections until the service drains.
pub async fn keep_retention(engine: Engine, draining: CancellationToken) {
    let mut due = Due::new();
    loop {
        tokio::select! {
            () = draining.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        if let Err(error) = engine.ask_for_retention(&mut due).await {
            tracing::warn!(%error, "what is past its retention stays for now; trying again");
        }
    }
}

impl Engine {
    /// Asks for the deletion of what is past its retention, in each collection that is due and has no other task.
    async fn ask_for_retention(&self, due: &mut Due) -> Result<()> {
        let now = Timestamp::from_microsecond((self.options.micros)().cast_signed()).map_err(|_| Error::Crashed)?;
        let states = self.store.collections().await?;
        due.retain(|number, _| states.iter().any(|state| state.number == *number));
        let waits = |state: &CollectionState, days| {
            due.get(&state.number).is_some_and(|(asked, next)| *asked == days && now < *next)
        };
        let states: Vec<_> = states
            .into_iter()
            .filter_map(|state| Some((state.settings.retention?.days, state)))
            .filter(|(days, state)| !waits(state, *days))
            .collect();
        if states.is_empty() {
            return Ok(());
        }
        let tasks = self.store.tasks().await?;
        for (days, state) in states {
            let request = Erase { which: Erased::OlderThanDays(days), dry_run: false, by_retention: true };
            let next = match last(&tasks, &state, &request) {
                Some(next) if now < next => next,
                _ => match self.begin_task(&state.name, Work::Erase(request)).await {
                    Ok(_) => now + DUE_EVERY,
                    // Asked again at the next look.
                    Err(Error::TaskRunning(..) | Error::UnknownCollection(_)) => continue,
                    Err(other) => return Err(other),
                },
            };
            due.insert(state.number, (days, next));
        }
        Ok(())
    }
}

/// When the next walk is due after the last one that was asked for, by whichever instance.
fn last(tasks: &[TaskState], state: &CollectionState, request: &Erase) -> Option<Timestamp> {
    let asked = serde_json::to_value(Work::Erase(request.clone())).ok()?;
    let task = tasks.iter().find(|task| task.number == Some(state.number) && task.request == asked)?;
    let pause = match task.status {
        TaskStatus::Failed | TaskStatus::Canceled => AGAIN_AFTER,
        TaskStatus::Enqueued | TaskStatus::Processing | TaskStatus::Succeeded => DUE_EVERY,
    };
    task.created_at.parse::<Timestamp>().ok()?.checked_add(pause).ok()
}
