//! Keeps the index of one collection up to date with the change feed.
//!
//! An [`IndexFollower`] reads changes and applies them to the index. It commits every [`COMMIT_INTERVAL`] and when there are no more
//! changes, and then waits for the next change. After an error of the store it tries again later and keeps the index open. After an error
//! of the index it checks the files, and builds the index again only if a file is damaged. When the service stops, uncommitted changes are
//! lost; the next start reads them again.
//!
//! While records arrive in bulk, indexing would slow down their registration by half. An index that is more than [`MAX_CHANGES_BEHIND`]
//! changes behind then uses only [`CORE_SHARE_DURING_BULK`] of the time of all cores: it works in short spells that each end with a commit,
//! and catches up later. It does not slow down if it is so far behind that the store could delete changes that the index has not read.
//!
//! Bounds: one read takes at most [`MAX_PAGE`] changes, and fewer after long rows were seen ([`PAGE_BYTES`]). The writer is released after
//! [`WRITER_IDLE`] without changes and merges. While the disk has only enough space for registrations, the follower writes nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::index::{Index, IndexEntry, IndexError, IndexProgress, IndexSource, OpenedIndex};
use crate::service::{Result, SearchError, SearchService};
use doppel_store::changes::{Change, ChangeKind};
use doppel_store::{CollectionState, Seq, Store, StoreError, StoredRecord};

/// The prefix of the name of an index folder; the number of the collection follows. The service removes only folders with this prefix.
pub(crate) const FOLDER_PREFIX: &str = "doppel-index-";
/// Largest number of changes in one read.
const MAX_PAGE: usize = 256;
/// Bytes of rows in one read above which the next read takes fewer changes. A row may have a megabyte.
const PAGE_BYTES: usize = 8 << 20;
/// Number of changes in the first read.
const FIRST_PAGE: usize = 16;
/// Time between two commits of a collection while there are more changes to read. A commit takes some tens of milliseconds.
const COMMIT_INTERVAL: Duration = Duration::from_millis(900);
/// Time without changes after which the writer is released, and without use after which the files of a small index are closed.
const WRITER_IDLE: Duration = Duration::from_secs(5);
/// Number of changes that an index may be behind before it slows down during a bulk import. A short series of records is therefore found at
/// once. With a much larger number an index would keep pace with every import and would never leave the cores to the import.
const MAX_CHANGES_BEHIND: u64 = 512;
/// Largest share of the time of all cores that indexing a collection takes during a bulk import.
const CORE_SHARE_DURING_BULK: f64 = 0.125;
/// An index stops slowing down when it is a quarter (1 / 4) of the kept changes behind. The other three quarters leave time to catch up.
const KEPT_CHANGES_DIVISOR: u64 = 4;
/// The first pause after an error. Each further error in a row doubles the pause.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// The longest pause after an error. It is long because checking an index reads all its files.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The index of a collection, with the settings under which the index was made.
pub(crate) struct FollowedIndex {
    pub(crate) state: Arc<CollectionState>,
    pub(crate) index: Arc<Index>,
    needs_check: AtomicBool,
    check_requested: Notify,
}

impl FollowedIndex {
    /// Requests that the follower checks the files for damage.
    pub(crate) fn request_check(&self) {
        self.needs_check.store(true, Ordering::Release);
        self.check_requested.notify_one();
    }

    fn apply(&self, change: Change) -> std::result::Result<(), IndexError> {
        match change.kind {
            ChangeKind::Created(record) => self.index.add(&self.entry(&record)),
            ChangeKind::Replaced(record) | ChangeKind::Updated(record) => self.put(&record),
            ChangeKind::Removed => self.index.remove(&change.id),
            ChangeKind::Decided { .. } => Ok(()),
        }
    }

    fn put(&self, record: &StoredRecord) -> std::result::Result<(), IndexError> {
        self.index.put(&self.entry(record))
    }

    fn entry(&self, record: &StoredRecord) -> IndexEntry {
        let row = record.content.read();
        // A row that was stored under other settings may be unreadable under the present settings. Such a record can be found by its
        // verdict and by a search without words.
        let extract = row.and_then(|row| self.index.extractor().extract(&row).ok()).unwrap_or_default();
        IndexEntry { id: record.id.clone(), seq: record.seq, verdict: record.verdict.kind, extract }
    }
}

/// The reason why a follower stopped using an index.
enum FollowEnd {
    /// The collection was dropped, and perhaps created again under the same name.
    Dropped,
    /// The settings that determine the content of the index have changed.
    Changed,
    Stopped,
}

/// The task that keeps the index of one collection up to date.
pub(crate) struct IndexFollower {
    service: SearchService,
    /// The collection as it was when the task began.
    first: Arc<CollectionState>,
    stopping: CancellationToken,
    /// Number of changes in the next read.
    page_size: usize,
    last_commit: Instant,
    /// Duration of the last write with its commit.
    commit_duration: Duration,
}

impl IndexFollower {
    pub(crate) fn new(service: SearchService, first: Arc<CollectionState>, stopping: CancellationToken) -> Self {
        Self {
            service,
            first,
            stopping,
            page_size: FIRST_PAGE,
            last_commit: Instant::now(),
            commit_duration: Duration::ZERO,
        }
    }

    /// Follows the collection until it is dropped or the service stops. Removes the index of a dropped collection.
    pub(crate) async fn run(mut self) {
        let mut pauses = RetryPauses::default();
        loop {
            match self.open_and_follow(&mut pauses).await {
                Ok(FollowEnd::Dropped) => break,
                Ok(FollowEnd::Changed) => {}
                Ok(FollowEnd::Stopped) => return,
                Err(error) => {
                    tracing::warn!(%error, collection = %self.first.name, "cannot open the search index; trying again");
                    pauses.wait(&self.stopping).await;
                }
            }
            if self.stopping.is_cancelled() {
                return;
            }
        }
        self.close().await;
        let folder = self.folder();
        // If the folder cannot be removed now, the service removes it later.
        let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await;
    }

    /// Waits for the first change of the collection, opens the index under the present settings and follows the feed.
    async fn open_and_follow(&mut self, pauses: &mut RetryPauses) -> Result<FollowEnd> {
        let name = self.first.name.clone();
        let state = match self.store().collection(&name).await? {
            Some(state) if state.number == self.first.number => state,
            _ => return Ok(FollowEnd::Dropped),
        };
        if self.store().last_change(&name).await? == Seq(0) {
            tokio::select! {
                changed = self.service.store().changed(&name, Seq(0)) => changed?,
                () = self.stopping.cancelled() => return Ok(FollowEnd::Stopped),
            }
            // The settings may have changed while the collection was empty, so that they are read again.
            return Ok(FollowEnd::Changed);
        }
        let followed = self.open(&state).await?;
        *pauses = RetryPauses::default();
        loop {
            match self.step(&followed).await {
                Ok(Some(ended)) => return Ok(ended),
                Ok(None) => *pauses = RetryPauses::default(),
                Err(error) => {
                    tracing::warn!(%error, collection = %name, "cannot update the search index; trying again");
                    if matches!(error, SearchError::Index(_)) {
                        followed.request_check();
                    }
                    pauses.wait(&self.stopping).await;
                }
            }
        }
    }

    /// Applies the next changes, or waits for a change.
    async fn step(&mut self, followed: &Arc<FollowedIndex>) -> Result<Option<FollowEnd>> {
        if self.stopping.is_cancelled() {
            return Ok(Some(FollowEnd::Stopped));
        }
        if let Some(end) = self.end_of(followed).await? {
            return Ok(Some(end));
        }
        if followed.needs_check.load(Ordering::Acquire) {
            self.check_files(followed).await?;
        }
        let last = self.store().last_change(&followed.state.name).await?;
        let begun = Instant::now();
        let spell = self.spell(followed.index.progress(), last);
        if let IndexProgress::Filling { after, last } = followed.index.progress() {
            self.fill(followed, after, last, spell).await?;
        } else if last != followed.index.reached() {
            self.catch_up(followed, spell).await?;
        } else {
            self.wait(followed).await?;
            return Ok(None);
        }
        if spell < COMMIT_INTERVAL {
            self.pause(COMMIT_INTERVAL.saturating_sub(begun.elapsed())).await;
        }
        Ok(None)
    }

    /// Returns the working time within the next [`COMMIT_INTERVAL`].
    fn spell(&self, progress: IndexProgress, last: Seq) -> Duration {
        let is_taking_series = self.service.0.engine.is_taking_series();
        if is_taking_series && yields_to_bulk(progress, last, self.service.0.options.changes_kept) {
            COMMIT_INTERVAL.mul_f64((CORE_SHARE_DURING_BULK * self.service.0.cores as f64).min(1.0))
        } else {
            COMMIT_INTERVAL
        }
    }

    async fn pause(&self, time: Duration) {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = self.stopping.cancelled() => {}
        }
    }

    /// Waits for the next change, or for a request to check the files.
    async fn wait(&self, followed: &Arc<FollowedIndex>) -> Result<()> {
        let changed = self.service.store().changed(&followed.state.name, followed.index.reached());
        tokio::select! {
            changed = changed => changed?,
            () = followed.check_requested.notified() => return Ok(()),
            () = tokio::time::sleep(WRITER_IDLE) => {
                // The task waits until the writer is released, because a later release would drop the changes that are written in between.
                // The release does not begin while segments are merged, because it would wait for the merge.
                if followed.index.memory_bytes() == 0 {
                    followed.index.close_small_files();
                } else if !followed.index.is_merging() {
                    self.release_writer(followed).await;
                }
                return Ok(());
            }
            () = self.stopping.cancelled() => return Ok(()),
        }
        // The pause collects changes that arrive shortly after each other into one commit.
        self.pause(COMMIT_INTERVAL.saturating_sub(self.last_commit.elapsed())).await;
        Ok(())
    }

    /// Releases the writer if too many collections have one.
    async fn release_surplus_writer(&self, followed: &Arc<FollowedIndex>) {
        if self.service.has_too_many_writers() {
            self.release_writer(followed).await;
        }
    }

    async fn release_writer(&self, followed: &Arc<FollowedIndex>) {
        let index = Arc::clone(&followed.index);
        // A panic is a bug of tantivy; the next write reports it as an error.
        let _ = self.service.0.writers.run(move || index.release_writer()).await;
    }

    /// Applies changes of the feed up to the next commit.
    async fn catch_up(&mut self, followed: &Arc<FollowedIndex>, spell: Duration) -> Result<()> {
        self.store().check_room().await?;
        let service = self.service.clone();
        let _turn = service.0.turns.acquire().await;
        let name = &followed.state.name;
        let begun = Instant::now();
        let mut after = followed.index.reached();
        loop {
            let page = match self.store().changes(name, after, self.page_size).await {
                Err(StoreError::ChangesForgotten { last, .. }) => return self.begin_filling(followed, last).await,
                page => page?,
            };
            let records = page.changes.iter().filter_map(|change| change.kind.record());
            self.adapt_page_size(records.map(|record| record.content.bytes()).sum());
            let is_due = !page.more || self.is_due(begun, spell);
            after = page.next;
            let writing = Instant::now();
            self.write(followed, move |followed| {
                page.changes.into_iter().try_for_each(|change| followed.apply(change))?;
                if is_due { followed.index.commit(IndexProgress::Reached(after)) } else { Ok(()) }
            })
            .await?;
            if is_due {
                self.last_commit = Instant::now();
                self.commit_duration = writing.elapsed();
                self.release_surplus_writer(followed).await;
            }
            if is_due || self.stopping.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// Empties the index to index all records again. When all records are indexed, the follower continues with the changes after `last`.
    async fn begin_filling(&self, followed: &Arc<FollowedIndex>, last: Seq) -> Result<()> {
        tracing::info!(collection = %followed.state.name, "building the search index again, because the change feed no longer has all changes that it has not read");
        self.write(followed, move |followed| {
            followed.index.reset()?;
            followed.index.commit(IndexProgress::Filling { after: Seq(0), last })
        })
        .await
    }

    /// Indexes the records after the seq `after`, up to the next commit. `last` is the last change when filling began.
    async fn fill(&mut self, followed: &Arc<FollowedIndex>, mut after: Seq, last: Seq, spell: Duration) -> Result<()> {
        self.store().check_room().await?;
        let service = self.service.clone();
        let _turn = service.0.turns.acquire().await;
        let begun = Instant::now();
        loop {
            let records = self.store().records(&followed.state.name, after, self.page_size).await?;
            self.adapt_page_size(records.iter().map(|record| record.content.bytes()).sum());
            let progress = match records.last() {
                Some(record) => IndexProgress::Filling { after: record.seq, last },
                None => IndexProgress::Reached(last),
            };
            let is_due = records.is_empty() || self.is_due(begun, spell);
            after = records.last().map_or(after, |record| record.seq);
            let writing = Instant::now();
            self.write(followed, move |followed| {
                records.iter().try_for_each(|record| followed.put(record))?;
                if is_due { followed.index.commit(progress) } else { Ok(()) }
            })
            .await?;
            if is_due {
                self.last_commit = Instant::now();
                self.commit_duration = writing.elapsed();
                self.release_surplus_writer(followed).await;
            }
            if is_due || self.stopping.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// True if a commit must begin now, either to end within the working time `spell`, which began at `begun`, or because the last commit
    /// was a full interval ago.
    fn is_due(&self, begun: Instant, spell: Duration) -> bool {
        if spell < COMMIT_INTERVAL {
            begun.elapsed() + self.commit_duration >= spell
        } else {
            self.last_commit.elapsed() >= COMMIT_INTERVAL
        }
    }

    /// Sets the number of changes in the next read, after a read of `bytes` bytes.
    fn adapt_page_size(&mut self, bytes: usize) {
        self.page_size = match bytes {
            bytes if bytes > PAGE_BYTES => (self.page_size / 2).max(1),
            bytes if bytes < PAGE_BYTES / 4 => (self.page_size * 2).min(MAX_PAGE),
            _ => self.page_size,
        };
    }

    /// Runs `work` on a writer thread.
    async fn write(
        &self,
        followed: &Arc<FollowedIndex>,
        work: impl FnOnce(&FollowedIndex) -> std::result::Result<(), IndexError> + Send + 'static,
    ) -> Result<()> {
        let written = Arc::clone(followed);
        let result = self.service.0.writers.run(move || work(&written)).await;
        Ok(result.unwrap_or_else(|| Err(panicked("writing")))?)
    }

    /// Opens the index of the collection and offers it to searches.
    async fn open(&self, state: &Arc<CollectionState>) -> Result<Arc<FollowedIndex>> {
        self.close().await;
        let folder = self.folder();
        let source = source(state);
        let owned = Arc::clone(state);
        let opened = self.service.0.writers.run(move || Index::open(&folder, source, &owned.settings)).await;
        let OpenedIndex { index, created_because } = opened.unwrap_or_else(|| Err(panicked("opening")))?;
        if let Some(reason) = created_because {
            tracing::info!(collection = %state.name, reason, "created an empty search index");
        }
        let followed = Arc::new(FollowedIndex {
            state: Arc::clone(state),
            index: Arc::new(index),
            needs_check: AtomicBool::default(),
            check_requested: Notify::new(),
        });
        self.service.0.indexes.write().insert(self.first.name.clone(), Arc::clone(&followed));
        self.service.0.opened.notify_waiters();
        Ok(followed)
    }

    /// Withdraws the index from searches and releases its writer.
    async fn close(&self) {
        let followed = self.service.0.indexes.write().remove(&self.first.name);
        if let Some(followed) = followed {
            let _ = self.service.0.writers.run(move || followed.index.release_writer()).await;
        }
    }

    /// Checks the files of the index for damage. A damaged index is replaced with an empty index.
    async fn check_files(&self, followed: &Arc<FollowedIndex>) -> Result<()> {
        followed.needs_check.store(false, Ordering::Release);
        let index = Arc::clone(&followed.index);
        let checked = self.service.0.writers.run(move || index.reopen()).await;
        if let Some(reason) = checked.unwrap_or_else(|| Err(panicked("checking")))? {
            tracing::warn!(collection = %followed.state.name, reason, "building the search index again");
        }
        Ok(())
    }

    /// Returns the reason to stop using the index, if the collection was dropped or its settings changed.
    async fn end_of(&self, followed: &FollowedIndex) -> Result<Option<FollowEnd>> {
        match self.store().collection(&followed.state.name).await? {
            Some(state) if state.number != followed.state.number => Ok(Some(FollowEnd::Dropped)),
            Some(state) if !followed.index.has_source(&source(&state)) => Ok(Some(FollowEnd::Changed)),
            Some(_) => Ok(None),
            None => Ok(Some(FollowEnd::Dropped)),
        }
    }

    fn folder(&self) -> PathBuf {
        self.service.0.options.folder.join(format!("{FOLDER_PREFIX}{}", self.first.number))
    }

    fn store(&self) -> &dyn Store {
        self.service.store()
    }
}

/// The error of a writer thread that panicked.
fn panicked(work: &str) -> IndexError {
    IndexError::Io(format!("{work} the index ended with a panic; this is a bug"))
}

/// Returns the source of the index of a collection. The name in the source is unique also among the collections of other stores.
pub(crate) fn source(state: &CollectionState) -> IndexSource {
    IndexSource::new(&format!("{};{};{}", state.number, state.name, state.created_at), &state.settings)
}

/// The pauses after errors. Each pause is twice as long as the previous pause.
struct RetryPauses(Duration);

impl Default for RetryPauses {
    fn default() -> Self {
        Self(FIRST_PAUSE)
    }
}

impl RetryPauses {
    async fn wait(&mut self, stopping: &CancellationToken) {
        tokio::select! {
            () = tokio::time::sleep(self.0) => {}
            () = stopping.cancelled() => {}
        }
        self.0 = (self.0 * 2).min(LONGEST_PAUSE);
    }
}

/// True if an index at `progress` must leave the cores to a bulk import. `last` is the last change of the collection. The index must be
/// more than [`MAX_CHANGES_BEHIND`] behind, and the changes that it has not read must be far from deletion: the store keeps `changes_kept`
/// changes.
fn yields_to_bulk(progress: IndexProgress, last: Seq, changes_kept: u64) -> bool {
    let (indexed, read) = match progress {
        IndexProgress::Filling { after, last } => (after, last),
        IndexProgress::Reached(number) => (number, number),
    };
    let behind = last.0.saturating_sub(indexed.0);
    let unread = last.0.saturating_sub(read.0);
    behind > MAX_CHANGES_BEHIND && unread < changes_kept / KEPT_CHANGES_DIVISOR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_yields_to_bulk_only_if_it_is_behind_and_no_unread_change_is_deleted_soon() {
        assert!(!yields(reached(10_000), 10_000 + MAX_CHANGES_BEHIND), "nearly up to date");
        assert!(yields(reached(10_000), 10_001 + MAX_CHANGES_BEHIND));
        assert!(!yields(reached(10_000), 10_000 + KEPT / KEPT_CHANGES_DIVISOR), "changes would be deleted unread");
        assert!(yields(filling(0, 200_000), 200_000));
        assert!(!yields(filling(199_900, 200_000), 200_000), "nearly filled");
        assert!(!yields(filling(0, 200_000), 200_000 + KEPT / KEPT_CHANGES_DIVISOR), "filling would begin again");
        assert!(!yields(reached(20_000), 10_000), "a backup was restored");
    }

    /// Number of changes that the store keeps.
    const KEPT: u64 = 100_000;

    fn yields(progress: IndexProgress, last: u64) -> bool {
        yields_to_bulk(progress, Seq(last), KEPT)
    }

    fn reached(number: u64) -> IndexProgress {
        IndexProgress::Reached(Seq(number))
    }

    fn filling(after: u64, last: u64) -> IndexProgress {
        IndexProgress::Filling { after: Seq(after), last: Seq(last) }
    }
}
