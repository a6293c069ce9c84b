//! The vectors of one collection: the set that is in use, and the set of another model that is being built at the same time.
//!
//! A folder has a file of vectors for each set and `state.json`, which is replaced as a whole after each step. A step writes vectors first and
//! its progress afterwards. A process that is killed in between reads the same changes again and finds the texts unchanged.
//!
//! Vectors and progress are synced in this order, so that a power failure has the same effect as a kill. The number of rows is stored with
//! the progress: if a file has fewer rows, all records are read again. A start does not compare the rows with the store, because it would
//! have to read all seqs of both. The comparison is not needed: a removal is on the disk before the number of its change is written.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::file::VectorFile;
use super::fingerprint::ModelFingerprint;
use crate::index::{IndexProgress, IndexSource};
use doppel_store::Seq;

/// Version of the files. Vectors of another version are made again.
const FORMAT: u32 = 1;
/// The name of the file with the state.
const STATE: &str = "state.json";

/// The state in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct VectorsState {
    format: u32,
    /// The collection and the settings with which its texts were read.
    pub(crate) source: IndexSource,
    /// The set that is in use.
    pub(crate) live: Option<SetState>,
    /// The set that is being built.
    pub(crate) next: Option<SetState>,
    /// True if a person paused the creation of vectors.
    pub(crate) paused: bool,
    /// The model whose vectors a person has cancelled.
    pub(crate) canceled: Option<ModelFingerprint>,
    /// The number of the last change whose removal both sets have processed.
    pub(crate) removals: Seq,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SetState {
    pub(crate) model: ModelFingerprint,
    pub(crate) progress: IndexProgress,
    /// Number of rows of the file when the progress was written.
    #[serde(default)]
    rows: u64,
}

/// A set of vectors of one model.
pub(crate) struct VectorSet {
    pub(crate) model: ModelFingerprint,
    pub(crate) file: VectorFile,
}

pub(crate) struct CollectionVectors {
    folder: PathBuf,
    kept: Mutex<KeptVectors>,
}

/// The state with its open files.
struct KeptVectors {
    state: VectorsState,
    live: Option<Arc<VectorSet>>,
    next: Option<Arc<VectorSet>>,
}

impl CollectionVectors {
    /// Opens the vectors in a folder. Vectors that are missing, damaged or made with other rules are made again; the vector of an unchanged
    /// text is kept.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub(crate) fn open(folder: &Path, source: IndexSource) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut state = read_state(folder).unwrap_or_else(|| VectorsState {
            format: FORMAT,
            source: source.clone(),
            live: None,
            next: None,
            paused: false,
            canceled: None,
            removals: Seq(0),
        });
        let is_changed = state.source != source;
        state.source = source;
        let live = open_set(folder, &mut state.live, is_changed)?;
        let next = open_set(folder, &mut state.next, is_changed)?;
        let opened = Self { folder: folder.to_owned(), kept: Mutex::new(KeptVectors { state, live, next }) };
        opened.remove_other_files()?;
        Ok(opened)
    }

    pub(crate) fn state(&self) -> VectorsState {
        self.kept.lock().state.clone()
    }

    pub(crate) fn live(&self) -> Option<Arc<VectorSet>> {
        self.kept.lock().live.clone()
    }

    pub(crate) fn next(&self) -> Option<Arc<VectorSet>> {
        self.kept.lock().next.clone()
    }

    /// Returns the open sets.
    pub(crate) fn sets(&self) -> Vec<Arc<VectorSet>> {
        let kept = self.kept.lock();
        kept.live.iter().chain(&kept.next).cloned().collect()
    }

    /// Begins a set of another model. An earlier set that is not complete is discarded.
    ///
    /// # Errors
    /// The files cannot be written.
    pub(crate) fn begin(&self, model: &ModelFingerprint, last: Seq) -> io::Result<()> {
        let progress = IndexProgress::Filling { after: Seq(0), last };
        let mut state = Some(SetState { model: model.clone(), progress, rows: 0 });
        let set = open_set(&self.folder, &mut state, false)?;
        self.change(|kept| {
            kept.state.next = state;
            kept.next = set;
            // The server has a model that differs from the model whose vectors a person has cancelled.
            kept.state.canceled = None;
        })?;
        self.remove_other_files()
    }

    /// Uses the new set from now on, and deletes the earlier set. Does nothing if the new set was discarded.
    ///
    /// # Errors
    /// The files cannot be written.
    pub(crate) fn switch(&self) -> io::Result<()> {
        self.change(|kept| {
            if kept.next.is_some() {
                kept.state.live = kept.state.next.take();
                kept.live = kept.next.take();
            }
        })?;
        self.remove_other_files()
    }

    /// Discards the new set, because the model of the earlier set answers again.
    ///
    /// # Errors
    /// The files cannot be written.
    pub(crate) fn give_up(&self) -> io::Result<()> {
        self.change(|kept| {
            kept.state.next = None;
            kept.next = None;
        })?;
        self.remove_other_files()
    }

    /// Discards the new set, because a person has cancelled it.
    ///
    /// # Errors
    /// The files cannot be written.
    pub(crate) fn cancel(&self) -> io::Result<()> {
        self.change(|kept| {
            if let Some(next) = kept.state.next.take() {
                kept.state.canceled = Some(next.model);
            }
            kept.next = None;
        })?;
        self.remove_other_files()
    }

    /// True if a set has read changes after `last`, the last change of the store.
    pub(crate) fn is_ahead(&self, last: Seq) -> bool {
        let state = self.state();
        state.removals > last || state.live.iter().chain(&state.next).any(|set| last_change(set.progress) > last)
    }

    /// Makes all sets read all records again. `last` is the last change.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn fill_again(&self, last: Seq) -> io::Result<()> {
        self.set_state(|state| {
            for set in state.live.iter_mut().chain(&mut state.next) {
                set.progress = IndexProgress::Filling { after: Seq(0), last };
            }
        })
    }

    /// Returns the progress of a set; `None` if the set was discarded.
    pub(crate) fn progress(&self, set: &Arc<VectorSet>) -> Option<IndexProgress> {
        let mut kept = self.kept.lock();
        kept.set_mut(set).map(|state| state.progress)
    }

    /// Sets the progress of a set, unless the set was discarded.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn advance(&self, set: &Arc<VectorSet>, progress: IndexProgress) -> io::Result<()> {
        self.change(|kept| {
            if let Some(state) = kept.set_mut(set) {
                state.progress = progress;
            }
        })
    }

    /// Changes the state and writes it.
    ///
    /// # Errors
    /// The file cannot be written. The change is then only in memory.
    pub(crate) fn set_state(&self, change: impl FnOnce(&mut VectorsState)) -> io::Result<()> {
        self.change(|kept| change(&mut kept.state))
    }

    fn change(&self, change: impl FnOnce(&mut KeptVectors)) -> io::Result<()> {
        // The rows are synced without the lock, because questions need the lock and must not wait for the rows.
        self.sets().iter().try_for_each(|set| set.file.sync().map(drop))?;
        let mut kept = self.kept.lock();
        change(&mut kept);
        kept.count_rows()?;
        let path = self.folder.join("state.new");
        let mut new = fs::File::create(&path)?;
        new.write_all(&serde_json::to_vec(&kept.state)?)?;
        new.sync_data()?;
        fs::rename(path, self.folder.join(STATE))
    }

    /// Deletes the files of sets that are no longer used.
    fn remove_other_files(&self) -> io::Result<()> {
        let used: Vec<String> = self.sets().iter().map(|set| set.model.file_name()).collect();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".vectors") && !used.contains(&name) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

impl KeptVectors {
    /// Syncs the rows that were written meanwhile, and records the number of all rows.
    fn count_rows(&mut self) -> io::Result<()> {
        let sets = [(&self.live, &mut self.state.live), (&self.next, &mut self.state.next)];
        for (set, state) in sets {
            if let (Some(set), Some(state)) = (set, state) {
                state.rows = set.file.sync()?;
            }
        }
        Ok(())
    }

    /// Returns the state of an open set.
    fn set_mut(&mut self, set: &Arc<VectorSet>) -> Option<&mut SetState> {
        let is_live = self.live.as_ref().is_some_and(|live| Arc::ptr_eq(live, set));
        let is_next = self.next.as_ref().is_some_and(|next| Arc::ptr_eq(next, set));
        match () {
            () if is_live => self.state.live.as_mut(),
            () if is_next => self.state.next.as_mut(),
            () => None,
        }
    }
}

/// Reads the state. `None` if the file is missing, damaged or of another version.
fn read_state(folder: &Path) -> Option<VectorsState> {
    let state: VectorsState = serde_json::from_slice(&fs::read(folder.join(STATE)).ok()?).ok()?;
    (state.format == FORMAT).then_some(state)
}

/// Returns the last change that a set has read, or will have read when it is filled.
fn last_change(progress: IndexProgress) -> Seq {
    match progress {
        IndexProgress::Filling { last, .. } | IndexProgress::Reached(last) => last,
    }
}

/// Opens the file of a set. All records are read again if rows were damaged or lost, or if the settings have changed.
fn open_set(folder: &Path, state: &mut Option<SetState>, is_changed: bool) -> io::Result<Option<Arc<VectorSet>>> {
    let Some(state) = state else { return Ok(None) };
    let model = state.model.clone();
    let path = folder.join(model.file_name());
    let is_new = !path.exists();
    let (file, damaged) = VectorFile::open(&path, model.dimension())?;
    let is_lost = is_new || file.sync()? < state.rows;
    if damaged > 0 || is_lost || is_changed {
        if damaged > 0 {
            tracing::warn!(damaged, "vectors were damaged; they are made again");
        }
        state.progress = IndexProgress::Filling { after: Seq(0), last: last_change(state.progress) };
    }
    Ok(Some(Arc::new(VectorSet { model, file })))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use doppel_core::collection::Settings;

    use super::*;
    use crate::embedder::EmbedderOptions;
    use crate::vectors::file::StoredVector;

    fn model(name: &str) -> ModelFingerprint {
        let options = EmbedderOptions {
            model: name.into(),
            prefix: String::new(),
            max_chars: 500,
            batch: 16,
            timeout: Duration::from_secs(1),
            weight: None,
        };
        ModelFingerprint::new(&options, vec![1, 2, 3])
    }

    fn opened(folder: &Path) -> CollectionVectors {
        CollectionVectors::open(folder, IndexSource::new("letters", &Settings::default())).unwrap()
    }

    #[test]
    fn rows_that_were_lost_are_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let vectors = opened(folder.path());
        vectors.begin(&model("first"), Seq(2)).unwrap();
        let set = vectors.next().unwrap();
        for number in 1..=2 {
            set.file.put(&StoredVector { id: number, seq: Seq(number), text: 7, vector: Some(vec![1, 2, 3]) }).unwrap();
        }
        vectors.advance(&set, IndexProgress::Reached(Seq(2))).unwrap();
        let again = opened(folder.path());
        assert_eq!(again.progress(&again.next().unwrap()), Some(IndexProgress::Reached(Seq(2))));
        // Overwrites the second row with zeros, as if it had never reached the disk.
        let path = folder.path().join(set.model.file_name());
        let mut bytes = fs::read(&path).unwrap();
        let half = bytes.len() / 2;
        bytes[half..].fill(0);
        fs::write(path, bytes).unwrap();
        let again = opened(folder.path());
        let progress = again.progress(&again.next().unwrap());
        assert_eq!(progress, Some(IndexProgress::Filling { after: Seq(0), last: Seq(2) }));
    }

    #[test]
    fn a_model_after_the_canceled_one_is_not_canceled() {
        let folder = tempfile::tempdir().unwrap();
        let vectors = opened(folder.path());
        vectors.begin(&model("second"), Seq(1)).unwrap();
        vectors.cancel().unwrap();
        assert!(vectors.state().canceled.is_some());
        vectors.begin(&model("third"), Seq(1)).unwrap();
        assert_eq!(opened(folder.path()).state().canceled, None);
    }
}
