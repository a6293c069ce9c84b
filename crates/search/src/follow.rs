//! Follows the change feed of one collection with its index.
//!
//! It reads changes, applies them, commits at most every [`COMMIT_EVERY`] and at the latest when there is nothing more to read, then
//! waits for the next change. An error of the store is waited out with the index open; after one of the index its files are looked
//! through, and it is made anew only where they are damaged. When the service stops, what is not committed is left: the next start
//! reads it again.
//!
//! While records come in bulk, the index would take from them as much time as they need themselves: who is more than [`FRESH`] changes
//! behind then works [`SHARE_BESIDE_BULK`] of the time of all cores, in spells that each end with a commit, and catches up afterwards;
//! not where it would fall so far behind that changes are forgotten which it has not read.
//!
//! Bounds: of the changes that are read at once there are at most [`MOST_AT_ONCE`], and as few as [`BYTES_AT_ONCE`] asks for once rows
//! of that length were seen; a writer is given back after [`REST_AFTER`] without changes and merges. Where the store has no room for
//! anything but registrations, nothing is written.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::index::{Entry, Index, IndexError, Opened, Progress, Source};
use crate::service::{Result, SearchError, SearchService};
use doppel_store::changes::{Change, ChangeKind};
use doppel_store::{CollectionState, Seq, Store, StoreError, StoredRecord};

/// What the folder of an index is called, before the collection's number: nothing else is ever removed.
pub(crate) const FOLDER_PREFIX: &str = "doppel-index-";
/// Most changes read at once.
const MOST_AT_ONCE: usize = 256;
/// Bytes of rows read at once: when there were more, fewer changes are read the next time. Rows may be as long as a megabyte.
const BYTES_AT_ONCE: usize = 8 << 20;
/// Changes read at first.
const FIRST_AT_ONCE: usize = 16;
/// Time between two commits of a collection while there is more to read. A commit costs some tens of milliseconds.
const COMMIT_EVERY: Duration = Duration::from_millis(900);
/// How long a writer is kept when there is nothing to write.
const REST_AFTER: Duration = Duration::from_secs(5);
/// How many changes an index may be behind without stepping back: a small series is found at once. With more, an index that kept up with
/// an import would never be so far behind as to leave the cores to it.
const FRESH: u64 = 512;
/// The most of the time of all cores that indexing a collection takes while records come in bulk and more than [`FRESH`] of them wait.
const SHARE_BESIDE_BULK: f64 = 0.125;
/// Of the changes that are kept, the part up to which it may step back: the rest is for catching up.
const LEFT_OF_KEPT: u64 = 4;
/// Pauses after errors in a row: the first, and the longest. Looking through an index reads all of it.
const PAUSES: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));

/// The index of a collection under its settings of today.
pub(crate) struct Followed {
    pub(crate) state: Arc<CollectionState>,
    pub(crate) index: Arc<Index>,
    is_suspect: AtomicBool,
    suspected: Notify,
}

impl Followed {
    /// Has its follower look through the files.
    pub(crate) fn suspect(&self) {
        self.is_suspect.store(true, Ordering::Release);
        self.suspected.notify_one();
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

    fn entry(&self, record: &StoredRecord) -> Entry {
        let row = record.content.read();
        // Under settings of today a row may be unreadable that was stored under others: it is found by its verdict, and without a question.
        let extract = row.and_then(|row| self.index.extractor().extract(&row).ok()).unwrap_or_default();
        let (id, seq, verdict) = (record.id.clone(), record.seq, record.verdict.kind);
        Entry { id, seq, verdict, extract }
    }
}

/// How following a collection ended.
enum Ended {
    /// It is gone, or another one has its name.
    Dropped,
    /// Its settings read texts otherwise.
    Changed,
    Stopped,
}

/// See the module.
pub(crate) struct Follower {
    service: SearchService,
    first: Arc<CollectionState>,
    stopping: CancellationToken,
    /// How many changes are read at once.
    at_once: usize,
    committed: Instant,
    /// How long the last changes and the commit behind them took.
    committing: Duration,
}

impl Follower {
    /// For a collection, until it is gone or the service stops.
    pub(crate) fn new(service: SearchService, first: Arc<CollectionState>, stopping: CancellationToken) -> Self {
        Self { service, first, stopping, at_once: FIRST_AT_ONCE, committed: Instant::now(), committing: Duration::ZERO }
    }

    /// Follows the collection until it is gone, then removes its index; or until the service stops.
    pub(crate) async fn run(mut self) {
        let mut pauses = Pauses::default();
        loop {
            match self.begin(&mut pauses).await {
                Ok(Ended::Dropped) => break,
                Ok(Ended::Changed) => {}
                Ok(Ended::Stopped) => return,
                Err(error) => {
                    tracing::warn!(%error, collection = %self.first.name, "the search index cannot be opened; trying again");
                    pauses.pass(&self.stopping).await;
                }
            }
            if self.stopping.is_cancelled() {
                return;
            }
        }
        self.close().await;
        let folder = self.folder();
        // Where it cannot be removed now, the next look does.
        let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await;
    }

    /// Opens the index under the settings of today as soon as there is something to put into it, and follows.
    async fn begin(&mut self, pauses: &mut Pauses) -> Result<Ended> {
        let name = self.first.name.clone();
        let state = match self.store().collection(&name).await? {
            Some(state) if state.number == self.first.number => state,
            _ => return Ok(Ended::Dropped),
        };
        if self.store().last_change(&name).await? == Seq(0) {
            tokio::select! {
                changed = self.service.store().changed(&name, Seq(0)) => changed?,
                () = self.stopping.cancelled() => return Ok(Ended::Stopped),
            }
            // Under the settings of then.
            return Ok(Ended::Changed);
        }
        let followed = self.open(&state).await?;
        *pauses = Pauses::default();
        loop {
            match self.step(&followed).await {
                Ok(Some(ended)) => return Ok(ended),
                Ok(None) => *pauses = Pauses::default(),
                Err(error) => {
                    tracing::warn!(%error, collection = %name, "the search index cannot follow; trying again");
                    if matches!(error, SearchError::Index(_)) {
                        followed.suspect();
                    }
                    pauses.pass(&self.stopping).await;
                }
            }
        }
    }

    /// Does what there is to do, or waits for it.
    async fn step(&mut self, followed: &Arc<Followed>) -> Result<Option<Ended>> {
        if self.stopping.is_cancelled() {
            return Ok(Some(Ended::Stopped));
        }
        if let Some(ended) = self.ended(followed).await? {
            return Ok(Some(ended));
        }
        if followed.is_suspect.load(Ordering::Acquire) {
            self.look_through(followed).await?;
        }
        let last = self.store().last_change(&followed.state.name).await?;
        let (begun, spell) = (Instant::now(), self.spell(followed.index.progress(), last));
        if let Progress::Filling { after, last } = followed.index.progress() {
            self.fill(followed, (after, last), spell).await?;
        } else if last != followed.index.reached() {
            self.catch_up(followed, spell).await?;
        } else {
            self.wait(followed).await?;
            return Ok(None);
        }
        if spell < COMMIT_EVERY {
            self.pause(COMMIT_EVERY.saturating_sub(begun.elapsed())).await;
        }
        Ok(None)
    }

    /// How long to work until the next commit, of each [`COMMIT_EVERY`].
    fn spell(&self, progress: Progress, last: Seq) -> Duration {
        let is_taking_series = self.service.0.engine.is_taking_series();
        match is_taking_series && steps_back(progress, last, self.service.0.options.changes_kept) {
            true => COMMIT_EVERY.mul_f64((SHARE_BESIDE_BULK * self.service.0.cores as f64).min(1.0)),
            false => COMMIT_EVERY,
        }
    }

    async fn pause(&self, time: Duration) {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = self.stopping.cancelled() => {}
        }
    }

    /// Waits for the next change.
    async fn wait(&self, followed: &Arc<Followed>) -> Result<()> {
        let changed = self.service.store().changed(&followed.state.name, followed.index.reached());
        tokio::select! {
            changed = changed => changed?,
            () = followed.suspected.notified() => return Ok(()),
            () = tokio::time::sleep(REST_AFTER) => {
                // To its end: a writer that is given back later would take along what is written meanwhile. While segments are merged
                // that would be long.
                if followed.index.memory_bytes() > 0 && !followed.index.is_merging() {
                    self.rest(followed).await;
                }
                return Ok(());
            }
            () = self.stopping.cancelled() => return Ok(()),
        }
        // Those that come together are committed together.
        self.pause(COMMIT_EVERY.saturating_sub(self.committed.elapsed())).await;
        Ok(())
    }

    /// Gives the writer back at once where many collections have one.
    async fn rest_among_many(&self, followed: &Arc<Followed>) {
        if self.service.has_too_many_writers() {
            self.rest(followed).await;
        }
    }

    async fn rest(&self, followed: &Arc<Followed>) {
        let index = Arc::clone(&followed.index);
        // A panic would be a bug of the library; the next write shows it.
        let _ = self.service.0.writers.run(move || index.rest()).await;
    }

    /// Applies the changes there are, up to the next commit.
    async fn catch_up(&mut self, followed: &Arc<Followed>, spell: Duration) -> Result<()> {
        self.store().check_room().await?;
        let service = self.service.clone();
        let _turn = service.0.turns.acquire().await;
        let (name, begun) = (&followed.state.name, Instant::now());
        let mut after = followed.index.reached();
        loop {
            let page = match self.store().changes(name, after, self.at_once).await {
                Err(StoreError::ChangesForgotten { last, .. }) => return self.begin_filling(followed, last).await,
                page => page?,
            };
            let records = page.changes.iter().filter_map(|change| change.kind.record());
            self.adapt_to(records.map(|record| record.content.bytes()).sum());
            let is_due = !page.more || self.is_due(begun, spell);
            after = page.next;
            let writing = Instant::now();
            self.write(followed, move |followed| {
                page.changes.into_iter().try_for_each(|change| followed.apply(change))?;
                if is_due { followed.index.commit(Progress::Reached(after)) } else { Ok(()) }
            })
            .await?;
            if is_due {
                (self.committed, self.committing) = (Instant::now(), writing.elapsed());
                self.rest_among_many(followed).await;
            }
            if is_due || self.stopping.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// Throws away what there is, to index all records anew; from then on changes after `last` are followed.
    async fn begin_filling(&self, followed: &Arc<Followed>, last: Seq) -> Result<()> {
        tracing::info!(collection = %followed.state.name, "the search index is made anew: changes that it does not know of are not logged any more");
        self.write(followed, move |followed| {
            followed.index.reset()?;
            followed.index.commit(Progress::Filling { after: Seq(0), last })
        })
        .await
    }

    /// Indexes records after `after`, up to the next commit.
    async fn fill(&mut self, followed: &Arc<Followed>, (mut after, last): (Seq, Seq), spell: Duration) -> Result<()> {
        self.store().check_room().await?;
        let service = self.service.clone();
        let _turn = service.0.turns.acquire().await;
        let begun = Instant::now();
        loop {
            let records = self.store().records(&followed.state.name, after, self.at_once).await?;
            self.adapt_to(records.iter().map(|record| record.content.bytes()).sum());
            let progress = match records.last() {
                Some(record) => Progress::Filling { after: record.seq, last },
                None => Progress::Reached(last),
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
                (self.committed, self.committing) = (Instant::now(), writing.elapsed());
                self.rest_among_many(followed).await;
            }
            if is_due || self.stopping.is_cancelled() {
                return Ok(());
            }
        }
    }

    /// Whether to commit now: with that a spell that was begun then is over; or the last commit is long ago.
    fn is_due(&self, begun: Instant, spell: Duration) -> bool {
        match spell < COMMIT_EVERY {
            true => begun.elapsed() + self.committing >= spell,
            false => self.committed.elapsed() >= COMMIT_EVERY,
        }
    }

    /// Reads more or fewer the next time, as these were short or long.
    fn adapt_to(&mut self, bytes: usize) {
        self.at_once = match bytes {
            bytes if bytes > BYTES_AT_ONCE => (self.at_once / 2).max(1),
            bytes if bytes < BYTES_AT_ONCE / 4 => (self.at_once * 2).min(MOST_AT_ONCE),
            _ => self.at_once,
        };
    }

    /// Writes on one of the writers.
    async fn write(
        &self,
        followed: &Arc<Followed>,
        work: impl FnOnce(&Followed) -> std::result::Result<(), IndexError> + Send + 'static,
    ) -> Result<()> {
        let written = Arc::clone(followed);
        let crashed = || IndexError::Io("writing it ended abnormally".into());
        Ok(self.service.0.writers.run(move || work(&written)).await.unwrap_or_else(|| Err(crashed()))?)
    }

    /// Opens the index of the collection and shows it.
    async fn open(&self, state: &Arc<CollectionState>) -> Result<Arc<Followed>> {
        self.close().await;
        let (folder, source, owned) = (self.folder(), source(state), Arc::clone(state));
        let opening = self.service.0.writers.run(move || Index::open(&folder, source, &owned.settings));
        let opened = opening.await.unwrap_or_else(|| Err(IndexError::Io("opening it ended abnormally".into())));
        let Opened { index, fresh } = opened?;
        if let Some(reason) = fresh {
            tracing::info!(collection = %state.name, reason, "the search index is made");
        }
        let (state, index) = (Arc::clone(state), Arc::new(index));
        let followed = Arc::new(Followed { state, index, is_suspect: AtomicBool::default(), suspected: Notify::new() });
        self.service.0.indexes.write().insert(self.first.name.clone(), Arc::clone(&followed));
        self.service.0.opened.notify_waiters();
        Ok(followed)
    }

    /// Shows the index no more and ends its writing.
    async fn close(&self) {
        let shown = self.service.0.indexes.write().remove(&self.first.name);
        if let Some(shown) = shown {
            let _ = self.service.0.writers.run(move || shown.index.rest()).await;
        }
    }

    /// Looks through the files of the index, which is made anew where they are damaged.
    async fn look_through(&self, followed: &Arc<Followed>) -> Result<()> {
        followed.is_suspect.store(false, Ordering::Release);
        let index = Arc::clone(&followed.index);
        let crashed = || IndexError::Io("looking through it ended abnormally".into());
        let looked = self.service.0.writers.run(move || index.reopen()).await.unwrap_or_else(|| Err(crashed()));
        if let Some(reason) = looked? {
            tracing::warn!(collection = %followed.state.name, reason, "the search index is made anew");
        }
        Ok(())
    }

    /// Whether the collection is gone, or its settings read texts otherwise.
    async fn ended(&self, followed: &Followed) -> Result<Option<Ended>> {
        match self.store().collection(&followed.state.name).await? {
            Some(state) if state.number != followed.state.number => Ok(Some(Ended::Dropped)),
            Some(state) if !followed.index.is_of(&source(&state)) => Ok(Some(Ended::Changed)),
            Some(_) => Ok(None),
            None => Ok(Some(Ended::Dropped)),
        }
    }

    fn folder(&self) -> PathBuf {
        self.service.0.options.folder.join(format!("{FOLDER_PREFIX}{}", self.first.number))
    }

    fn store(&self) -> &dyn Store {
        self.service.store()
    }
}

/// Of what an index is made: names the collection for ever, also among those of other stores.
fn source(state: &CollectionState) -> Source {
    Source::of(&format!("{};{};{}", state.number, state.name, state.created_at), &state.settings)
}

/// Pauses after errors, each twice as long as the one before.
struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Self {
        Self(PAUSES.0)
    }
}

impl Pauses {
    async fn pass(&mut self, stopping: &CancellationToken) {
        tokio::select! {
            () = tokio::time::sleep(self.0) => {}
            () = stopping.cancelled() => {}
        }
        self.0 = (self.0 * 2).min(PAUSES.1);
    }
}

/// Whether an index that has come so far leaves the cores to others while the last change is `last`: far enough behind to be no use
/// to who waits for a letter, and near enough that nothing is forgotten before it is read, of which `changes_kept` are kept.
fn steps_back(progress: Progress, last: Seq, changes_kept: u64) -> bool {
    let (behind, at) = match progress {
        Progress::Filling { after, last: at } => (last.0.saturating_sub(after.0), at),
        Progress::Reached(at) => (last.0.saturating_sub(at.0), at),
    };
    behind > FRESH && last.0.saturating_sub(at.0) < changes_kept / LEFT_OF_KEPT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_steps_back_where_it_is_behind_and_nothing_is_forgotten_before_it_is_read() {
        let kept = 100_000;
        let reached = |number| Progress::Reached(Seq(number));
        let filling = |after, last| Progress::Filling { after: Seq(after), last: Seq(last) };
        let steps_back = |progress, last| steps_back(progress, Seq(last), kept);
        assert!(!steps_back(reached(10_000), 10_000 + FRESH), "fresh");
        assert!(steps_back(reached(10_000), 10_001 + FRESH));
        assert!(!steps_back(reached(10_000), 10_000 + kept / LEFT_OF_KEPT), "changes would be forgotten");
        assert!(steps_back(filling(0, 200_000), 200_000));
        assert!(!steps_back(filling(199_900, 200_000), 200_000), "nearly filled");
        assert!(!steps_back(filling(0, 200_000), 200_000 + kept / LEFT_OF_KEPT), "filling would have to begin again");
        assert!(!steps_back(reached(20_000), 10_000), "a backup was restored");
    }
}
