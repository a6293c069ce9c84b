//! Keeps the vectors of all collections up to date with the change feed.
//!
//! One task serves all collections, because there is one model. In each round it first processes the removals of each collection, which
//! need no model, and then sends one batch of its texts. After a failure of the server the removals continue, and the texts wait
//! ([`ModelCalls`](super::calls::ModelCalls)).
//!
//! The answer to the probe shows which model answers. If another model answers, a new set of vectors of all records is made; it replaces
//! the earlier set when it has read all changes.
//!
//! Bounds: a round has one batch of each collection in memory. While the disk has only enough space for registrations, no vector is
//! written.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::calls::BatchError;
use super::file::{StoredVector, id_hash};
use super::fingerprint::ModelFingerprint;
use super::state::{CollectionVectors, VectorSet};
use super::text::{EmbeddingTexts, text_hash};
use super::{FollowedVectors, VectorService};
use crate::follow::source;
use crate::index::{IndexError, IndexProgress};
use crate::service::{Result, SearchError, SearchService};
use doppel_store::changes::LoggedKind;
use doppel_store::{CollectionState, Seq, StoreError, StoredRecord};

/// The prefix of the name of a folder of vectors; the number of the collection follows. Only folders with this prefix are removed.
const FOLDER_PREFIX: &str = "doppel-vectors-";
/// Time between two rounds while there is nothing to do.
const ROUND_INTERVAL: Duration = Duration::from_secs(1);
/// Time after which the server is asked again which model it has.
const MODEL_INTERVAL: Duration = Duration::from_secs(60);
/// Time after which a round processes the removals of all collections again. A round with slow batches of many collections can last for
/// hours.
const REMOVALS_INTERVAL: Duration = Duration::from_secs(60);
/// Number of logged changes that are read at once. Such a change does not contain the row of its record.
const REMOVALS_PAGE: usize = 1_000;
/// Number of seqs that are compared with the store at once.
const SEQS_PAGE: usize = 1_000;

/// The reason why a step ended early.
enum StepError {
    /// The store or the files failed. The next round tries again.
    Failed(SearchError),
    /// Another model answers.
    OtherModel,
    /// The server gives no vectors now.
    NoVectors,
    /// The batch has taken too long. There is more to do.
    Late,
}

impl<E: Into<SearchError>> From<E> for StepError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl From<std::io::Error> for SearchError {
    fn from(error: std::io::Error) -> Self {
        Self::Index(error.into())
    }
}

/// The task that keeps vectors up to date.
struct VectorsFollower {
    service: SearchService,
    vectors: Arc<VectorService>,
    stopping: CancellationToken,
    /// The model that answered last, and the time of the answer.
    model: Option<(ModelFingerprint, Instant)>,
    /// The last error of the store or the files. Each error is logged once.
    said: Option<String>,
}

/// Keeps the vectors of all collections up to date until the service stops.
pub(crate) async fn follow(service: SearchService, vectors: Arc<VectorService>, stopping: CancellationToken) {
    loop {
        let follower = VectorsFollower::new(service.clone(), Arc::clone(&vectors), stopping.clone());
        match tokio::spawn(follower.run()).await {
            Ok(()) => return,
            Err(error) => tracing::error!(%error, "the task that updates vectors panicked; it is started again"),
        }
        tokio::time::sleep(ROUND_INTERVAL).await;
    }
}

impl VectorsFollower {
    fn new(service: SearchService, vectors: Arc<VectorService>, stopping: CancellationToken) -> Self {
        Self { service, vectors, stopping, model: None, said: None }
    }

    /// Follows all collections until the service stops. A round can end at any time, as if the process were killed.
    async fn run(mut self) {
        let stopping = self.stopping.clone();
        loop {
            let more = tokio::select! {
                more = self.round() => more,
                () = stopping.cancelled() => return,
            };
            match more {
                Ok(true) => continue,
                Ok(false) => self.said = None,
                Err(error) => self.say(&error),
            }
            tokio::select! {
                () = tokio::time::sleep(ROUND_INTERVAL) => {}
                () = self.vectors.wanted.notified() => self.model = None,
                () = stopping.cancelled() => return,
            }
        }
    }

    fn say(&mut self, error: &SearchError) {
        let reason = Some(error.to_string());
        if self.said != reason {
            tracing::warn!(%error, "cannot update the vectors; trying again");
            self.said = reason;
        }
    }

    /// Serves each collection once. Returns true if there is more to do.
    async fn round(&mut self) -> Result<bool> {
        let collections = self.service.store().collections().await?;
        let collections: Vec<_> = collections.into_iter().filter(|state| state.settings.keeps_text()).collect();
        self.remove_orphans(&collections).await;
        let mut has_more = false;
        let mut taken = Instant::now();
        for state in &collections {
            if taken.elapsed() >= REMOVALS_INTERVAL {
                self.take_all_removals(&collections).await;
                taken = Instant::now();
            }
            let served = match self.followed(state).await {
                Ok(followed) => self.serve(&followed).await,
                Err(error) => Err(error.into()),
            };
            match served {
                Ok(more) => has_more |= more,
                Err(StepError::Late) => has_more = true,
                // The next round asks for the model.
                Err(StepError::OtherModel | StepError::NoVectors) => self.model = None,
                // The collection was dropped after it was listed.
                Err(StepError::Failed(SearchError::Engine(doppel_engine::Error::UnknownCollection(_)))) => {}
                Err(StepError::Failed(error)) => self.say(&error),
            }
        }
        Ok(has_more)
    }

    /// Returns the vectors of a collection, and opens them if they are not open under the present settings.
    async fn followed(&self, state: &Arc<CollectionState>) -> Result<Arc<FollowedVectors>> {
        let source = source(state);
        if let Some(found) = self.vectors.followed(state).filter(|found| found.vectors.state().source == source) {
            return Ok(found);
        }
        let folder = self.folder().join(format!("{FOLDER_PREFIX}{}", state.number));
        let opened = self.service.0.writers.run(move || CollectionVectors::open(&folder, source)).await;
        let followed = Arc::new(FollowedVectors {
            state: Arc::clone(state),
            vectors: opened.unwrap_or_else(|| Err(panicked()))?,
            texts: EmbeddingTexts::new(&state.settings, self.vectors.calls.options.max_chars),
        });
        self.vectors.collections.write().insert(state.name.clone(), Arc::clone(&followed));
        Ok(followed)
    }

    fn folder(&self) -> &Path {
        &self.service.0.options.folder
    }

    /// Processes the removals of a collection and sends one batch of its texts. Returns true if there is more to do.
    async fn serve(&mut self, followed: &FollowedVectors) -> std::result::Result<bool, StepError> {
        let name = &followed.state.name;
        let last = self.service.store().last_change(name).await?;
        if followed.vectors.is_ahead(last) {
            // The store was restored from an earlier backup, and gives the same numbers to other changes now.
            tracing::warn!(collection = %name, "the store has fewer changes than the vectors; all records are read again");
            self.compare_with_store(followed, last).await?;
            followed.vectors.fill_again(last)?;
        }
        self.take_removals(followed).await?;
        let is_waiting = !self.vectors.calls.batch_pause().is_zero();
        if last == Seq(0) || is_waiting || followed.vectors.state().paused {
            return Ok(false);
        }
        self.service.store().check_room().await?;
        let Some(set) = self.target(followed, last).await? else { return Ok(false) };
        let Some(progress) = followed.vectors.progress(&set) else { return Ok(true) };
        let more = match progress {
            // The server answers, and no text waits.
            IndexProgress::Reached(number) if number == last => {
                self.vectors.calls.note_success();
                false
            }
            IndexProgress::Reached(number) => self.follow(followed, &set, number).await?,
            IndexProgress::Filling { after, last } => self.fill(followed, &set, after, last).await?,
        };
        let is_next = followed.vectors.next().is_some_and(|next| Arc::ptr_eq(&next, &set));
        if !more && is_next {
            followed.vectors.switch()?;
            tracing::info!(collection = %name, model = set.model.model, "vectors are complete and take part in answers");
        }
        Ok(more)
    }

    /// Returns the set to which the vectors of the model belong, and begins a new set if there is none. `None` if a person does not want
    /// the model's vectors.
    async fn target(
        &mut self,
        followed: &FollowedVectors,
        last: Seq,
    ) -> std::result::Result<Option<Arc<VectorSet>>, StepError> {
        let model = self.model().await?;
        let vectors = &followed.vectors;
        let next = vectors.next();
        if let Some(next) = next.clone().filter(|next| next.model.is_same(&model)) {
            return Ok(Some(next));
        }
        if let Some(live) = vectors.live().filter(|live| live.model.is_same(&model)) {
            if next.is_some() {
                vectors.give_up()?;
            }
            return Ok(Some(live));
        }
        if vectors.state().canceled.is_some_and(|canceled| canceled.is_same(&model)) {
            return Ok(None);
        }
        let dimension = model.dimension();
        tracing::info!(collection = %followed.state.name, model = model.model, dimension, "making the vectors of all records");
        vectors.begin(&model, last)?;
        Ok(vectors.next())
    }

    /// Returns the model that answers now.
    async fn model(&mut self) -> std::result::Result<ModelFingerprint, StepError> {
        if let Some((model, asked)) = &self.model
            && asked.elapsed() < MODEL_INTERVAL
        {
            return Ok(model.clone());
        }
        match self.vectors.calls.model().await {
            Ok(model) => {
                self.model = Some((model.clone(), Instant::now()));
                Ok(model)
            }
            Err(error) => {
                self.vectors.calls.note_failure(&error);
                Err(StepError::NoVectors)
            }
        }
    }

    /// Processes the removals of all collections. An error is recorded when the collection is served.
    async fn take_all_removals(&self, collections: &[Arc<CollectionState>]) {
        for state in collections {
            if let Ok(followed) = self.followed(state).await {
                let _ = self.take_removals(&followed).await;
            }
        }
    }

    /// Overwrites the vectors of records that were removed since the last round.
    async fn take_removals(&self, followed: &FollowedVectors) -> Result<()> {
        let name = &followed.state.name;
        loop {
            let after = followed.vectors.state().removals;
            let (changes, next) = match self.service.store().logged(name, after, REMOVALS_PAGE).await {
                Err(StoreError::ChangesForgotten { last, .. }) => return self.compare_with_store(followed, last).await,
                page => page?,
            };
            let removed = changes.iter().filter(|change| matches!(change.kind, LoggedKind::Removed));
            for change in removed {
                for set in followed.vectors.sets() {
                    set.file.remove(id_hash(&change.id), change.number)?;
                }
            }
            if next != after {
                followed.vectors.set_state(|state| state.removals = next)?;
            }
            if changes.len() < REMOVALS_PAGE {
                return Ok(());
            }
        }
    }

    /// Overwrites the vectors of records that the store does not have, because the feed does not name all removals. `last` is the last change.
    async fn compare_with_store(&self, followed: &FollowedVectors, last: Seq) -> Result<()> {
        for set in followed.vectors.sets() {
            for seqs in set.file.seqs().chunks(SEQS_PAGE) {
                let stored = self.service.store().stored_seqs(&followed.state.name, seqs).await?;
                let stored: HashSet<Seq> = stored.into_iter().collect();
                seqs.iter().filter(|seq| !stored.contains(seq)).try_for_each(|seq| set.file.remove_seq(*seq))?;
            }
        }
        Ok(followed.vectors.set_state(|state| state.removals = last)?)
    }

    /// Makes the vectors of the next changes. Returns true if there are more changes.
    async fn follow(
        &self,
        followed: &FollowedVectors,
        set: &Arc<VectorSet>,
        after: Seq,
    ) -> std::result::Result<bool, StepError> {
        let page = match self.service.store().changes(&followed.state.name, after, self.batch()).await {
            Err(StoreError::ChangesForgotten { last, .. }) => {
                followed.vectors.advance(set, IndexProgress::Filling { after: Seq(0), last })?;
                return Ok(true);
            }
            page => page?,
        };
        let records: Vec<&StoredRecord> = page.changes.iter().filter_map(|change| change.kind.record()).collect();
        self.embed(followed, set, &records).await?;
        followed.vectors.advance(set, IndexProgress::Reached(page.next))?;
        Ok(page.more)
    }

    /// Makes the vectors of the records after a seq. `last` is the last change when filling began. Returns true, because the changes follow.
    async fn fill(
        &self,
        followed: &FollowedVectors,
        set: &Arc<VectorSet>,
        after: Seq,
        last: Seq,
    ) -> std::result::Result<bool, StepError> {
        let records = self.service.store().records(&followed.state.name, after, self.batch()).await?;
        self.embed(followed, set, &records.iter().collect::<Vec<_>>()).await?;
        let progress = match records.last() {
            Some(record) => IndexProgress::Filling { after: record.seq, last },
            None => IndexProgress::Reached(last),
        };
        followed.vectors.advance(set, progress)?;
        Ok(true)
    }

    fn batch(&self) -> usize {
        self.vectors.calls.options.batch
    }

    /// Makes the vectors of records. A text that is unchanged keeps its vector.
    async fn embed(
        &self,
        followed: &FollowedVectors,
        set: &VectorSet,
        records: &[&StoredRecord],
    ) -> std::result::Result<(), StepError> {
        let mut rows: Vec<StoredVector> = Vec::new();
        let mut texts = Vec::new();
        for record in records {
            let text = record.content.read().map(|row| followed.texts.text(&row)).unwrap_or_default();
            let row = StoredVector { id: id_hash(&record.id), seq: record.seq, text: text_hash(&text), vector: None };
            match set.file.by_id(row.id)?.filter(|earlier| earlier.text == row.text) {
                Some(earlier) if earlier.seq == row.seq => {}
                Some(earlier) => set.file.put(&StoredVector { vector: earlier.vector, ..row })?,
                None if text.is_empty() => set.file.put(&row)?,
                None => {
                    rows.push(row);
                    texts.push(text);
                }
            }
        }
        if texts.is_empty() {
            return Ok(());
        }
        let embedded = self.vectors.calls.embed_all(&set.model, &texts, |position, vector| {
            rows[position].vector = vector;
            set.file.put(&rows[position])
        });
        match embedded.await {
            Ok(()) => {
                self.vectors.calls.note_success();
                Ok(())
            }
            Err(BatchError::Failed(error)) => {
                self.vectors.calls.note_failure(&error);
                Err(StepError::NoVectors)
            }
            Err(BatchError::OtherModel) => Err(StepError::OtherModel),
            Err(BatchError::Late) => Err(StepError::Late),
            Err(BatchError::Io(error)) => Err(IndexError::from(error).into()),
        }
    }

    /// Forgets collections that were dropped and removes their folders.
    async fn remove_orphans(&self, collections: &[Arc<CollectionState>]) {
        let numbers: HashSet<String> =
            collections.iter().map(|state| format!("{FOLDER_PREFIX}{}", state.number)).collect();
        self.vectors.collections.write().retain(|name, followed| {
            collections.iter().any(|state| state.name == *name && state.number == followed.state.number)
        });
        let folder = self.folder().to_owned();
        // A folder that cannot be removed now is removed in a later round.
        let _ = tokio::task::spawn_blocking(move || {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with(FOLDER_PREFIX) && !numbers.contains(&name) {
                    let _ = std::fs::remove_dir_all(entry.path());
                }
            }
        })
        .await;
    }
}

/// The error of a writer thread that panicked.
fn panicked() -> std::io::Error {
    std::io::Error::other("opening the vectors ended with a panic; this is a bug")
}
