//! The renewal of a collection: counts its document frequencies and indexes its records again when it has grown to 64, 256, 1,024, … records, and
//! at the end of a batch.
//!
//! Frequencies decide which text is common. Verdicts and the index keys of records depend on this. Therefore a renewal is a reindex: it judges
//! pairs again and gives records other keys. Between two renewals neither changes. Without imports, pairs depend on the settings and on the records
//! in their order: they are the same in every store. After an import or a reindex by a person all records are counted. Pairs then depend only on
//! the settings and the records: they are the same after an import in another order, after a second import, and in a batch (`replay`). A small
//! collection also gives the same answers on arrival if its records arrive in the same order, because registrations wait for the renewal (see
//! `growth`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::boxed;
use crate::context::Context;
use crate::growth::{CollectionGrowth, GrowthStep, LONGEST_WAIT, ReservedPlace, WAITED_FOR};
use crate::tasks::{Reindex, Work};
use crate::{Engine, Error, Result};
use doppel_core::collection::CollectionName;
use doppel_core::schemes::frequencies::is_recounted_after_batch;
use doppel_store::StoreError;
use doppel_store::request::uncounted;
use doppel_store::tasks::{TaskState, TaskStatus};

/// Longest time that a registration waits until the task that it caused has begun.
const LONGEST_BEGINNING: Duration = Duration::from_secs(1);
/// The first and the longest pause between two looks at a task.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// Time without records in bulk after which a postponed renewal begins. An import pauses for less between two requests.
const BULK_PAUSE: Duration = Duration::from_secs(2);
/// Longest time that a renewal is postponed: records may arrive in bulk for ever, and keys chosen by old counts propose more candidates.
const LONGEST_POSTPONED: Duration = Duration::from_secs(15 * 60);

/// The reason for a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RenewalCause {
    /// The collection has grown, or its settings use frequencies that were not counted. Another instance may have renewed it.
    Growth,
    /// A batch of records has ended. All records are counted, unless another task has done so.
    BatchEnd,
    /// All records were counted.
    Recount,
}

impl RenewalCause {
    /// Returns the reindex of the renewal. It leaves nothing behind.
    fn work(self) -> Work {
        Work::Reindex(Reindex {
            settings: None,
            activate: true,
            keep_previous: false,
            records_per_second: None,
            counts_all: self == Self::BatchEnd,
        })
    }
}

/// Ends a renewal when it is dropped, however it ended.
struct RenewalGuard {
    growth: Arc<CollectionGrowth>,
    /// The number of records after a success.
    records: Option<u64>,
}

impl RenewalGuard {
    fn of(context: &Context) -> Self {
        Self { growth: Arc::clone(&context.growth), records: None }
    }
}

impl Drop for RenewalGuard {
    fn drop(&mut self) {
        self.growth.renewed(self.records);
    }
}

impl Engine {
    /// Waits for the place of a registration that was signed after `renewals` renewals. Also waits for a renewal that is due first.
    ///
    /// # Errors
    /// `StaleGeneration` if the collection was renewed since.
    pub(super) async fn place(&self, context: &Arc<Context>, renewals: u64) -> Result<ReservedPlace> {
        loop {
            match uncounted(context.growth.place(LONGEST_WAIT)).await {
                GrowthStep::Renew => self.renew_in_background(context, RenewalCause::Growth).await,
                GrowthStep::Place(place) if place.renewals == renewals => return Ok(place),
                GrowthStep::Place(_) => {
                    let given = context.state.generation;
                    return Err(Error::Store(StoreError::StaleGeneration { given, live: given }));
                }
            }
        }
    }

    /// Notes new records. If the collection has grown to the next number, the task that renews it has begun when this call returns.
    pub(super) async fn grown(&self, context: &Arc<Context>, records: u64) {
        if context.growth.grow_by(records) {
            uncounted(self.renew_in_background(context, RenewalCause::Growth)).await;
        }
    }

    /// Renews a collection in the background if this is due, because an earlier process ended before it, or the settings changed. Waits for
    /// the end of the renewal, at most `longest`.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn renew_if_due(&self, collection: &CollectionName, longest: Duration) -> Result<()> {
        let context = self.context(collection).await?;
        self.grown(&context, 0).await;
        context.growth.settled(longest).await;
        Ok(())
    }

    /// Waits until this process renews no collection, at most `longest`. False if a collection is still being renewed.
    #[boxed]
    pub async fn all_settled(&self, longest: Duration) -> bool {
        let end = Instant::now() + longest;
        let mut all = true;
        for context in self.contexts.all() {
            all &= context.growth.settled(end.saturating_duration_since(Instant::now())).await;
        }
        all
    }

    /// Waits for a renewal that a request of a person would find in its way, as long as a registration would.
    pub(super) async fn after_renewal(&self, collection: &CollectionName) -> Result<()> {
        let context = self.context(collection).await?;
        uncounted(context.growth.settled(LONGEST_WAIT)).await;
        // Another instance, or this process before its last start, may have begun a renewal.
        if let Some(task) = self.unfinished_task(collection).await?.filter(is_renewal) {
            // The caller finds out whether the task has ended.
            let _ = uncounted(tokio::time::timeout(LONGEST_WAIT, self.succeeds(&task.id))).await;
        }
        Ok(())
    }

    /// Counts the frequencies of all records now, and then indexes the collection again in the background.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; the errors of the store.
    #[boxed]
    pub async fn recount(&self, collection: &CollectionName) -> Result<()> {
        let records = self.store.count(collection).await?;
        self.recount_first(collection, records).await
    }

    /// Counts the frequencies of the first `records` records now, and then indexes the collection again in the background.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; the errors of the store.
    #[boxed]
    pub async fn recount_first(&self, collection: &CollectionName, records: u64) -> Result<()> {
        self.after_renewal(collection).await?;
        if self.count_first(collection, records).await?.is_none() {
            return Ok(());
        }
        let context = self.context(collection).await?;
        if context.growth.begin_or_follow(RenewalCause::Recount) {
            uncounted(self.renew_in_background(&context, RenewalCause::Recount)).await;
        }
        Ok(())
    }

    /// Counts all records at the end of a batch and indexes the collection again, in the background, unless most records were counted before. The
    /// pairs then do not depend on the order of the records. If a renewal of the collection is running, this renewal follows it. Does nothing if
    /// collections are not indexed automatically. Waits at most 20 seconds for a renewal.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`]; the errors of the store.
    #[boxed]
    pub async fn recount_after_batch(&self, collection: &CollectionName) -> Result<()> {
        let context = self.context(collection).await?;
        if !self.options.automatic_reindex || context.counted().is_none() {
            return Ok(());
        }
        self.after_renewal(collection).await?;
        let counted = self.context(collection).await?.frequencies.records();
        let is_recounted = is_recounted_after_batch(self.store.count(collection).await?, counted);
        if is_recounted && context.growth.begin_or_follow(RenewalCause::BatchEnd) {
            uncounted(self.renew_in_background(&context, RenewalCause::BatchEnd)).await;
        }
        Ok(())
    }

    /// Does the work of [`Engine::recount_after_batch`]. An error is only logged, because the records are stored in any case.
    #[boxed]
    pub async fn end_batch(&self, collection: &CollectionName) {
        match self.recount_after_batch(collection).await {
            Ok(()) | Err(Error::UnknownCollection(_)) => {}
            Err(error) => {
                tracing::warn!(%collection, %error, "the collection could not be counted at the end of a batch");
            }
        }
    }

    /// Renews a collection whose growth requires this. Returns when the task has begun, or another task prevents it.
    async fn renew_in_background(&self, context: &Arc<Context>, cause: RenewalCause) {
        let (begun, is_begun) = oneshot::channel();
        let mut guard = RenewalGuard::of(context);
        let engine = self.clone();
        let context = Arc::clone(context);
        tokio::spawn(async move {
            let collection = &context.state.name;
            let mut begun = Some(begun);
            let mut cause = cause;
            loop {
                match engine.renew(&context, cause, begun.take()).await {
                    Ok(records) => guard.records = records,
                    Err(Error::UnknownCollection(_)) => return,
                    Err(error) => {
                        tracing::warn!(%collection, %error, "the collection could not be counted and indexed anew");
                    }
                }
                drop(guard);
                let Some(next) = context.growth.begin_follower() else { return };
                guard = RenewalGuard::of(&context);
                cause = next;
            }
        });
        // An error means that the renewal has ended before it began a task, or that the store is slow: the caller has its answer without it.
        let _ = tokio::time::timeout(LONGEST_BEGINNING, is_begun).await;
    }

    /// Reindexes a collection, which counts it first, unless another instance or another task has done so. Returns the number of records;
    /// `None` if the task failed. Notifies `begun` after the first attempt to begin the task.
    async fn renew(
        &self,
        context: &Context,
        cause: RenewalCause,
        mut begun: Option<oneshot::Sender<()>>,
    ) -> Result<Option<u64>> {
        let collection = &context.state.name;
        let mut pause = FIRST_PAUSE;
        let mut may_postpone = cause == RenewalCause::Growth;
        loop {
            let now = self.context(collection).await?;
            if now.state.number != context.state.number {
                return Err(Error::UnknownCollection(collection.clone()));
            }
            let records = self.store.count(collection).await?;
            let is_needed = match cause {
                RenewalCause::Growth => now.due_count(records).is_some(),
                RenewalCause::BatchEnd => is_recounted_after_batch(records, now.frequencies.records()),
                RenewalCause::Recount => true,
            };
            if !is_needed {
                return Ok(Some(records));
            }
            if may_postpone && records > WAITED_FOR && self.is_taking_series() {
                may_postpone = false;
                notify(&mut begun);
                if self.is_superseded_after_bulk(&context.growth).await {
                    return Ok(Some(records));
                }
                continue;
            }
            let task = self.begin_task_now(collection, cause.work()).await;
            notify(&mut begun);
            match task {
                Ok(task) => return Ok(self.succeeds(&task.id).await?.then_some(records)),
                // Registrations wait for a renewal that was begun before the last start, or by another instance, and for no other task.
                Err(Error::TaskRunning(_, other))
                    if self.task_state(&other).await?.as_ref().is_some_and(is_renewal) => {}
                Err(Error::TaskRunning(..)) => context.growth.give_way(),
                Err(error) => return Err(error),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits until no more records arrive in bulk: the renewal of a large collection takes as much processor time as the registration of its
    /// records, and the end of the bulk may request a renewal that counts all of them. Returns true if somebody has requested such a renewal.
    async fn is_superseded_after_bulk(&self, growth: &CollectionGrowth) -> bool {
        let end = Instant::now() + LONGEST_POSTPONED;
        let mut last_record = Instant::now();
        while Instant::now() < end && last_record.elapsed() < BULK_PAUSE && !growth.set_postponed(true) {
            tokio::time::sleep(LONGEST_PAUSE).await;
            if self.is_taking_series() {
                last_record = Instant::now();
            }
        }
        growth.set_postponed(false)
    }

    /// Waits for the end of a task. True if it has succeeded.
    async fn succeeds(&self, task: &str) -> Result<bool> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.task_state(task).await?.map(|task| task.status) {
                Some(TaskStatus::Enqueued | TaskStatus::Processing) => {}
                ended => return Ok(ended == Some(TaskStatus::Succeeded)),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Sends the notification, unless it was sent before.
fn notify(begun: &mut Option<oneshot::Sender<()>>) {
    if let Some(begun) = begun.take() {
        // The caller may be gone.
        let _ = begun.send(());
    }
}

/// True if a task is a renewal.
fn is_renewal(task: &TaskState) -> bool {
    let work = serde_json::from_value(task.request.clone()).ok();
    work.is_some_and(|work| [RenewalCause::Growth, RenewalCause::BatchEnd].map(RenewalCause::work).contains(&work))
}
