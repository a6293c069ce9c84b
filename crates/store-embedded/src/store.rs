//! The store for its users: it waits until a change can begin, passes the change to the pipeline, and waits for the answer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, oneshot};

use super::admin::DdlGuard;
use super::change_record::{BeginOutcome, ChangeRequest};
use super::disk::Disk;
use super::errors::{gone, lost, unavailable};
use super::exclusive::{self, ExclusiveChange};
use super::free_space::{FreeSpace, SpaceReserve};
use super::options::{EmbeddedOptions, OpeningMode, Workers};
use super::pipeline::{AnswerReceiver, ChangeAnswer, Ticket};
use super::reopen;
use super::shared_state::SharedState;
use super::state_reader::StateReader;
use super::supervisor::{self, MAX_PENDING, Supervisor};
use super::write_watchdog::{self, WriteWatchdog};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::stages::{RegistrationStage, StageSpan};
use doppel_store::{
    CandidateJudge, CollectionSpec, CollectionState, LookupEnd, LookupQuery, LookupResult, RegisterOutcome,
    Registration, RemovalCondition, Result, Seq, SnapshotReader, Store, StoreError, StoreUsage, StoredRecord,
};

/// A store in one directory; see the crate.
pub struct EmbeddedStore {
    supervisor: Arc<Supervisor>,
}

impl EmbeddedStore {
    /// Opens the store in `dir`, creates it if necessary (only this user can access it), and rebuilds the indexes. It blocks the
    /// thread for about a second for each 200,000 records on two cores.
    ///
    /// # Errors
    /// [`StoreError::Internal`] with the directory and the remedy: in use by another process, newer format, no access, no data directory,
    /// or an incomplete data directory. The directory is then unchanged.
    pub fn open(dir: impl AsRef<Path>, options: EmbeddedOptions) -> Result<Self> {
        let dir = dir.as_ref();
        // Tables with damages cannot be merged.
        let workers = if options.damages.is_some() { Workers::Held } else { Workers::Running };
        let mode = OpeningMode { opening: options.opening, workers };
        let supervisor = Arc::new(Supervisor {
            space: Arc::new(FreeSpace::new(dir, options.min_free_bytes, options.reserve_percent)),
            dir: dir.to_owned(),
            options,
            watchdog: Arc::new(WriteWatchdog::new()),
            held: AtomicBool::new(false),
            shared: ArcSwapOption::empty(),
            permits: Arc::new(Semaphore::new(MAX_PENDING)),
            ddl_lock: Arc::new(Mutex::new(())),
            closed: AtomicBool::new(false),
        });
        let on_failure = reopen::on_failure(&supervisor);
        let shared =
            SharedState::open(dir, &supervisor.options, mode, &supervisor.watchdog, &supervisor.space, on_failure)?;
        let (records, index_bytes) = shared.totals();
        tracing::info!(records, index_bytes, "data directory opened");
        supervisor.shared.store(Some(Arc::new(shared)));
        Ok(Self { supervisor })
    }

    /// Returns the state of the open database.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] while the database is closed or being opened again.
    pub(super) fn shared(&self) -> Result<Arc<SharedState>> {
        if self.supervisor.closed.load(Ordering::Acquire) {
            return Err(unavailable("the store is closed"));
        }
        self.supervisor.shared.load_full().ok_or_else(|| unavailable("the data directory is being opened again"))
    }

    /// Returns the state of the open database if it accepts writes that leave `reserve` free.
    ///
    /// # Errors
    /// As [`EmbeddedStore::shared`], [`StoreError::DiskFull`], and [`StoreError::Unavailable`] if no write can succeed.
    pub(super) fn writable(&self, reserve: SpaceReserve) -> Result<Arc<SharedState>> {
        let shared = self.shared()?;
        shared.check_writable()?;
        self.supervisor.space.check(reserve)?;
        if shared.disk.workers() == Workers::Held && reserve != SpaceReserve::Last {
            return Err(unavailable(match shared.disk.is_unannounced() {
                true => {
                    "a file of the data directory cannot be written, see the log; nothing else is written until it can"
                }
                false => "there is room again; the data directory is being opened again",
            }));
        }
        Ok(shared)
    }

    /// Changes one record: waits for the claim on its id, for a permit, and for the answer of the committer.
    async fn change(&self, request: ChangeRequest<'_>, reserve: SpaceReserve) -> Result<ChangeAnswer> {
        let deadline = write_watchdog::deadline();
        let began = Instant::now();
        loop {
            let claims = Arc::clone(&self.writable(reserve)?.collection(request.collection())?.claims);
            let claim = match claims.claim(request.id()) {
                Ok(claim) => claim,
                Err(next) => self.begun_by(deadline, next).await?.map_err(|_| gone())?,
            };
            let permit = self.permit(deadline).await?;
            let waited = StageSpan::since(began);
            // The state is released before a wait, because a failed state must be able to end.
            let begun = self.writable(reserve)?.begin(&request, claim, permit);
            match begun {
                BeginOutcome::Answered(answer) => return answer,
                BeginOutcome::Sent(answer) => {
                    request.took(RegistrationStage::Wait, waited);
                    let handed_over = Instant::now();
                    let answer = self.answered_by(Some(deadline), answer).await;
                    request.took(RegistrationStage::Commit, StageSpan::since(handed_over));
                    return answer;
                }
                BeginOutcome::CollectionReplaced => {}
            }
        }
    }

    /// Removes a record; if a condition is given, only if the condition holds.
    async fn remove_record(
        &self,
        collection: &CollectionName,
        id: &RecordId,
        condition: Option<&RemovalCondition>,
    ) -> Result<bool> {
        match self.change(ChangeRequest::Remove { collection, id, condition }, SpaceReserve::Last).await? {
            ChangeAnswer::Removed(there) => Ok(there),
            _ => Err(unexpected()),
        }
    }

    /// Runs an exclusive change: waits for a permit and for the answer of the committer.
    pub(super) async fn exclusive<T: Send + 'static, W>(
        &self,
        reserve: SpaceReserve,
        prepare: impl FnOnce(&SharedState) -> Result<W> + Send,
    ) -> Result<T>
    where
        W: FnOnce(&Disk) -> Result<ExclusiveChange<T>> + Send + 'static,
    {
        self.exclusive_at(reserve, |shared| Ok((None, prepare(shared)?))).await
    }

    /// Runs an exclusive change that may have a position among the changes of its collection.
    pub(super) async fn exclusive_at<T: Send + 'static, W>(
        &self,
        reserve: SpaceReserve,
        prepare: impl FnOnce(&SharedState) -> Result<(Option<Ticket>, W)> + Send,
    ) -> Result<T>
    where
        W: FnOnce(&Disk) -> Result<ExclusiveChange<T>> + Send + 'static,
    {
        let deadline = write_watchdog::deadline();
        let permit = self.permit(deadline).await?;
        // The state is released before a wait, because a failed state must be able to end.
        let answer = self.writable(reserve).and_then(|shared| {
            let (ticket, work) = prepare(&shared)?;
            Ok(exclusive::send::<T>(&shared.committer, ticket, permit, work))
        })?;
        self.answered_by(Some(deadline), answer).await
    }

    /// Waits for a permit of a change.
    async fn permit(&self, deadline: Instant) -> Result<OwnedSemaphorePermit> {
        let free = Arc::clone(&self.supervisor.permits).acquire_owned();
        let permit = self.begun_by(deadline, free).await?;
        permit.map_err(|_| unavailable("the store is closed"))
    }

    /// Waits for something that a change needs before it begins.
    pub(super) async fn begun<T>(&self, what: impl Future<Output = T>) -> Result<T> {
        self.supervisor.watchdog.wait(what).await.ok_or_else(write_watchdog::hangs)
    }

    /// Waits for something that a change needs before it begins, at most until the deadline.
    async fn begun_by<T>(&self, deadline: Instant, what: impl Future<Output = T>) -> Result<T> {
        let begun = self.supervisor.watchdog.wait_until(Some(deadline), what).await;
        begun.ok_or_else(|| self.supervisor.watchdog.check().err().unwrap_or_else(write_watchdog::late))
    }

    /// Waits for the answer of the committer.
    pub(super) async fn answered<T>(&self, answer: oneshot::Receiver<Result<T>>) -> Result<T> {
        self.answered_by(None, answer).await
    }

    /// Waits for the answer of the committer if a change began. Returns true if it began.
    pub(super) async fn answered_if_begun(&self, begun: Option<AnswerReceiver>) -> Result<bool> {
        match begun {
            Some(answer) => self.answered(answer).await.map(|_| true),
            None => Ok(false),
        }
    }

    /// Waits for the answer of the committer, at most until the deadline.
    async fn answered_by<T>(&self, deadline: Option<Instant>, answer: oneshot::Receiver<Result<T>>) -> Result<T> {
        let answer = self.supervisor.watchdog.wait_until(deadline, answer).await;
        let answer = answer.ok_or_else(|| StoreError::Unknown("the write has been under way for too long".into()))?;
        answer.unwrap_or_else(|_| Err(lost()))
    }

    /// Delays an error that outdated settings caused until the new settings can be read. The caller can then read the settings again and
    /// repeat the call. A generation becomes live before its settings are published, and a collection refuses changes before it is removed
    /// and its name is free; the task that makes the change holds the lock until then.
    async fn once_settled<T>(&self, outcome: Result<T>) -> Result<T> {
        if let Err(StoreError::StaleGeneration { .. } | StoreError::UnknownCollection(_)) = &outcome {
            drop(self.begun(self.supervisor.ddl_lock.lock()).await?);
        }
        outcome
    }

    /// Waits for the guard for creating, changing or dropping a collection or a generation.
    pub(super) async fn ddl_guard(&self) -> Result<DdlGuard> {
        self.begun(Arc::clone(&self.supervisor.ddl_lock).lock_owned()).await
    }

    /// Returns the lock of [`EmbeddedStore::ddl_guard`].
    pub(super) fn ddl_lock(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.supervisor.ddl_lock)
    }
}

fn unexpected() -> StoreError {
    StoreError::Internal("the writer gave another change's answer".into())
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn create_collection(&self, spec: CollectionSpec) -> Result<Arc<CollectionState>> {
        let guard = self.ddl_guard().await?;
        let (state, answer) = self.writable(SpaceReserve::Whole)?.begin_create(spec, guard)?;
        self.answered(answer).await.map(|_| state)
    }

    async fn update_collection(&self, spec: CollectionSpec) -> Result<Arc<CollectionState>> {
        let guard = self.ddl_guard().await?;
        let (state, answer) = self.writable(SpaceReserve::Whole)?.begin_update(spec, guard)?;
        self.answered(answer).await.map(|_| state)
    }

    async fn collection(&self, name: &CollectionName) -> Result<Option<Arc<CollectionState>>> {
        let shared = self.shared()?;
        let found = shared.collections.read().get(name).map(|collection| collection.state());
        Ok(found)
    }

    async fn collections(&self) -> Result<Vec<Arc<CollectionState>>> {
        let shared = self.shared()?;
        let all = shared.collections.read().values().map(|collection| collection.state()).collect();
        Ok(all)
    }

    async fn count(&self, name: &CollectionName) -> Result<u64> {
        Ok(self.shared()?.collection(name)?.count.load(Ordering::Acquire))
    }

    async fn drop_collection(&self, name: &CollectionName) -> Result<bool> {
        let guard = self.ddl_guard().await?;
        let begun = self.shared().and_then(|shared| shared.begin_drop(name, guard))?;
        self.answered_if_begun(begun).await
    }

    async fn register(&self, registration: Registration, judge: Arc<dyn CandidateJudge>) -> Result<RegisterOutcome> {
        let changed = self.change(ChangeRequest::Register(&registration, &judge), SpaceReserve::Whole).await;
        match self.once_settled(changed).await? {
            ChangeAnswer::Registered(registered) => {
                if let RegisterOutcome::Created(record) | RegisterOutcome::Replaced(record) = &registered {
                    judge.stored(record.seq);
                }
                Ok(registered)
            }
            _ => Err(unexpected()),
        }
    }

    async fn remove(&self, collection: &CollectionName, id: &RecordId) -> Result<bool> {
        self.remove_record(collection, id, None).await
    }

    async fn remove_if(&self, collection: &CollectionName, id: &RecordId, condition: RemovalCondition) -> Result<bool> {
        self.remove_record(collection, id, Some(&condition)).await
    }

    async fn find(&self, query: LookupQuery, judge: Arc<dyn CandidateJudge>, until: LookupEnd) -> Result<LookupResult> {
        let found = self.shared()?.find(&query, judge.as_ref(), until);
        self.once_settled(found).await
    }

    async fn record(&self, collection: &CollectionName, id: &RecordId) -> Result<Option<StoredRecord>> {
        let shared = self.shared()?;
        shared.stored_record(&*shared.collection(collection)?, id)
    }

    async fn records(&self, collection: &CollectionName, after: Seq, limit: usize) -> Result<Vec<StoredRecord>> {
        let shared = self.shared()?;
        shared.stored_records(&*shared.collection(collection)?, after, limit)
    }

    async fn records_at(&self, collection: &CollectionName, seqs: &[Seq]) -> Result<Vec<StoredRecord>> {
        let shared = self.shared()?;
        shared.stored_records_at(&*shared.collection(collection)?, seqs)
    }

    async fn stored_seqs(&self, collection: &CollectionName, seqs: &[Seq]) -> Result<Vec<Seq>> {
        let shared = self.shared()?;
        shared.stored_seqs(&*shared.collection(collection)?, seqs)
    }

    async fn ready(&self) -> Result<()> {
        self.writable(SpaceReserve::Whole).map(drop)
    }

    async fn check_room(&self) -> Result<()> {
        self.supervisor.space.check(SpaceReserve::Double)
    }

    async fn usage(&self) -> Result<StoreUsage> {
        let shared = self.shared()?;
        let (records, index_bytes) = shared.totals();
        Ok(StoreUsage {
            records,
            index_bytes,
            disk_bytes: shared.disk.bytes(),
            free_bytes: self.supervisor.space.free(),
        })
    }

    async fn snapshot(&self) -> Result<Box<dyn SnapshotReader>> {
        let shared = self.shared()?;
        Ok(Box::new(StateReader::new(&shared.disk)?))
    }

    async fn close(&self) -> Result<()> {
        if self.supervisor.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // After all permits are taken, all earlier changes are answered.
        let all = u32::try_from(MAX_PENDING).unwrap_or(u32::MAX);
        let _drained = self.supervisor.watchdog.wait(self.supervisor.permits.acquire_many(all)).await;
        self.supervisor.permits.close();
        let Some(shared) = self.supervisor.shared.swap(None) else { return Ok(()) };
        let (sender, ended) = oneshot::channel();
        let watchdog = Arc::clone(&self.supervisor.watchdog);
        let builder = std::thread::Builder::new().name("store-close".into());
        // The thread does not belong to the runtime, because the process cannot end before the threads of the runtime end.
        let thread = builder.spawn(move || {
            let synced = watchdog.check().and_then(|()| {
                watchdog.begin();
                let synced = if shared.disk.has_failed() { Ok(()) } else { shared.disk.sync() };
                watchdog.end();
                synced
            });
            supervisor::end(shared);
            // The caller may have stopped waiting.
            let _ = sender.send(synced);
        });
        thread.map_err(|error| StoreError::Internal(format!("closing failed: {error}")))?;
        self.begun(ended).await?.map_err(|_| StoreError::Internal("closing failed".into()))?
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.supervisor.closed.store(true, Ordering::Release);
        if let Some(shared) = self.supervisor.shared.swap(None) {
            supervisor::end(shared);
        }
    }
}
