//! The full-text index of one collection, in a folder of its own.
//!
//! It is derived and disposable: whatever is in the folder, opening gives an index that can be used, one that is empty where there was
//! none, or it was damaged, or made of other settings or by other rules ([`Opened::fresh`] says which). Only where the system refuses to
//! read it - no right, too many open files - it is left as it is. Each commit stores how far it has come ([`Progress`]), so that whoever
//! opens it knows where to go on.
//!
//! Writing takes a writer of [`WRITER_BYTES`], which is there only while there is something to write ([`Index::rest`]). Reading maps
//! the files into memory. A record takes about a kilobyte on disk, as much as its text.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tantivy::directory::error::{OpenDirectoryError, OpenReadError, OpenWriteError};
use tantivy::merge_policy::{LogMergePolicy, MergePolicy as _};
use tantivy::schema::{FAST, Field, INDEXED, IndexRecordOption, Schema, TextFieldIndexing, TextOptions, Value as _};
use tantivy::{
    DocAddress, IndexReader, IndexSettings, IndexWriter, ReloadPolicy, Searcher, TantivyDocument, TantivyError, Term,
};

use crate::directory::UnsyncedDirectory;
use crate::extract::{Extract, Extractor};
use crate::tokens;
use doppel_core::collection::Settings;
use doppel_core::record::RecordId;
use doppel_core::text;
use doppel_core::verdict::VerdictKind;
use doppel_store::Seq;

/// Version of what is indexed and how. Raised with every change that makes another index of the same records.
const FORMAT: u32 = 5;
/// Memory of a writer. With the smallest that the library takes (15 MB) some hundred letters are a segment of their own, and merging
/// segments costs more than making them.
pub const WRITER_BYTES: usize = 64_000_000;
/// The share of a segment's documents that may be removed before it is written anew without them.
const REMOVED_BEFORE_MERGE: f32 = 0.1;

/// Why an index cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The system refuses to write or read its files: no room, no right, too many of them open. It may pass.
    #[error("the search index cannot be read or written: {0}")]
    Io(String),
    /// Its files are damaged; [`Index::reopen`] makes it anew.
    #[error("the search index is damaged: {0}")]
    Damaged(String),
}

impl From<TantivyError> for IndexError {
    fn from(error: TantivyError) -> Self {
        let may_pass = match &error {
            TantivyError::IoError(cause) => may_pass(cause),
            TantivyError::OpenReadError(OpenReadError::IoError { io_error, .. })
            | TantivyError::OpenWriteError(OpenWriteError::IoError { io_error, .. })
            | TantivyError::OpenDirectoryError(OpenDirectoryError::IoError { io_error, .. }) => may_pass(io_error),
            TantivyError::LockFailure(..) | TantivyError::SystemError(_) | TantivyError::ErrorInThread(_) => true,
            _ => false,
        };
        if may_pass { Self::Io(error.to_string()) } else { Self::Damaged(error.to_string()) }
    }
}

/// Whether the system refused something; otherwise the file is missing, or what is in it is wrong.
fn may_pass(error: &io::Error) -> bool {
    error.raw_os_error().is_some() && error.kind() != io::ErrorKind::NotFound
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> Self {
        Self::Io(error.to_string())
    }
}

/// Shorthand.
pub type Result<T> = std::result::Result<T, IndexError>;

/// Of which collection and by which rules an index was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source(String);

impl Source {
    /// Of the collection that `name` names for ever, under `settings`.
    pub fn of(name: &str, settings: &Settings) -> Self {
        let mut digest = Sha256::new();
        digest.update(format!("{FORMAT};{name};{}", text::version(&settings.text)));
        digest.update(serde_json::to_vec(&(&settings.fields, &settings.text, &settings.time_zone)).unwrap_or_default());
        Self(digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }
}

/// How far an index has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// All records are put into it one after the other: those up to the seq `after` are there. When the last one is, it has reached the
    /// change `last`.
    Filling {
        /// Seq of the last record that is there.
        after: Seq,
        /// The last change when filling began.
        last: Seq,
    },
    /// Everything up to this change is in it.
    Reached(Seq),
}

/// What a commit carries besides its documents.
#[derive(Serialize, Deserialize)]
struct Stamp {
    source: Source,
    progress: Progress,
    /// See [`Index::add`].
    highest: Seq,
}

/// The fields of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    pub(crate) id: Field,
    pub(crate) seq: Field,
    pub(crate) time: Field,
    pub(crate) identity: Field,
    pub(crate) petitioners: Field,
    pub(crate) verdict: Field,
    pub(crate) category: Field,
    pub(crate) objects: Field,
    pub(crate) words: Field,
    pub(crate) pairs: Field,
}

/// Names of fields whose values are read by documents.
pub(crate) const SEQ: &str = "seq";
pub(crate) const TIME: &str = "time";
pub(crate) const IDENTITY: &str = "identity";

fn schema() -> (Schema, Fields) {
    let mut builder = Schema::builder();
    let raw = || TextFieldIndexing::default().set_tokenizer("raw").set_fieldnorms(false);
    let raw = || TextOptions::default().set_indexing_options(raw().set_index_option(IndexRecordOption::Basic));
    let by = |tokenizer, option| {
        let indexing = TextFieldIndexing::default().set_tokenizer(tokenizer).set_index_option(option);
        TextOptions::default().set_indexing_options(indexing)
    };
    let fields = Fields {
        id: builder.add_text_field("id", raw().set_stored()),
        seq: builder.add_u64_field(SEQ, FAST),
        time: builder.add_i64_field(TIME, FAST | INDEXED),
        identity: builder.add_u64_field(IDENTITY, FAST),
        petitioners: builder.add_u64_field("petitioners", INDEXED),
        verdict: builder.add_u64_field("verdict", INDEXED),
        category: builder.add_text_field("category", raw()),
        objects: builder.add_text_field("objects", raw()),
        words: builder.add_text_field("words", by(tokens::WORDS, IndexRecordOption::WithFreqs)),
        pairs: builder.add_text_field("pairs", by(tokens::PAIRS, IndexRecordOption::WithFreqsAndPositions)),
    };
    (builder.build(), fields)
}

/// What is stored under an id.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The id.
    pub id: RecordId,
    /// The record's seq.
    pub seq: Seq,
    /// The verdict that it was given.
    pub verdict: VerdictKind,
    /// What it says.
    pub extract: Extract,
}

/// See the module.
pub struct Index {
    folder: PathBuf,
    source: Source,
    pub(crate) fields: Fields,
    extractor: Extractor,
    files: Mutex<Files>,
    writer: Mutex<Option<IndexWriter>>,
    /// The highest seq that was put, also of what is not committed or gone again.
    highest: AtomicU64,
}

/// What is open of an index.
struct Files {
    index: tantivy::Index,
    reader: IndexReader,
    progress: Progress,
    /// When it was opened.
    highest: Seq,
}

/// An opened index.
pub struct Opened {
    /// The index.
    pub index: Index,
    /// Why it is empty, where it was begun anew.
    pub fresh: Option<String>,
}

impl Index {
    /// Opens the index in `folder`, which is made if it is not there, in one that is. Reads all its files once.
    ///
    /// # Errors
    /// [`IndexError::Io`] where the folder cannot be read or written.
    pub fn open(folder: &Path, source: Source, settings: &Settings) -> Result<Opened> {
        let (files, fresh) = open_or_create(folder, &source)?;
        let highest = AtomicU64::new(files.highest.0);
        let index = Self {
            folder: folder.to_owned(),
            source,
            fields: schema().1,
            extractor: Extractor::new(settings),
            files: Mutex::new(files),
            writer: Mutex::new(None),
            highest,
        };
        Ok(Opened { index, fresh })
    }

    /// Opens it again as [`Index::open`] does, without what was not committed; why it is empty, where it was begun anew.
    ///
    /// # Errors
    /// [`IndexError::Io`] where the folder cannot be read or written. It answers as before.
    pub fn reopen(&self) -> Result<Option<String>> {
        self.rest();
        let (files, fresh) = open_or_create(&self.folder, &self.source)?;
        *self.files.lock() = files;
        // On a full volume: files of what could not be committed.
        self.write(|writer| writer.garbage_collect_files().wait().map(drop))?;
        self.rest();
        Ok(fresh)
    }

    /// Throws everything away and begins anew.
    ///
    /// # Errors
    /// [`IndexError::Io`] where the folder cannot be written.
    pub fn reset(&self) -> Result<()> {
        self.rest();
        *self.files.lock() = create(&self.folder)?;
        Ok(())
    }

    /// Reads rows as the index does.
    pub fn extractor(&self) -> &Extractor {
        &self.extractor
    }

    /// How far it has come.
    pub fn progress(&self) -> Progress {
        self.files.lock().progress
    }

    /// Up to which number of the change feed everything can be found: 0 while it is being filled.
    pub fn reached(&self) -> Seq {
        match self.progress() {
            Progress::Filling { .. } => Seq(0),
            Progress::Reached(number) => number,
        }
    }

    /// Whether it is of this source.
    pub fn is_of(&self, source: &Source) -> bool {
        self.source == *source
    }

    /// Adds a record, in the place of an earlier one with its id. Found after the next [`Index::commit`].
    ///
    /// # Errors
    /// [`IndexError::Io`] where nothing can be written; then nothing more can, before [`Index::reopen`].
    pub fn put(&self, entry: &Entry) -> Result<()> {
        self.highest.fetch_max(entry.seq.0, Ordering::AcqRel);
        self.write(|writer| {
            writer.delete_term(self.id_term(&entry.id));
            writer.add_document(self.document(entry)).map(drop)
        })
    }

    /// Adds a record that is in nobody's place: when it was stored there was none with its id, and every change before that is in the index.
    /// As [`Index::put`], but cheaper: each commit looks for what is to be replaced in every segment. One that may have been put before,
    /// by its seq, is put.
    ///
    /// # Errors
    /// As [`Index::put`].
    pub fn add(&self, entry: &Entry) -> Result<()> {
        if self.highest.fetch_max(entry.seq.0, Ordering::AcqRel) >= entry.seq.0 {
            return self.put(entry);
        }
        self.write(|writer| writer.add_document(self.document(entry)).map(drop))
    }

    /// Removes a record.
    ///
    /// # Errors
    /// As [`Index::put`].
    pub fn remove(&self, id: &RecordId) -> Result<()> {
        self.write(|writer| {
            writer.delete_term(self.id_term(id));
            Ok(())
        })
    }

    /// Lets everything be found that was put and removed so far, also after the process was killed, with how far it has come by that.
    /// A power failure may cost the index: see [`UnsyncedDirectory`].
    ///
    /// # Errors
    /// As [`Index::put`].
    pub fn commit(&self, progress: Progress) -> Result<()> {
        let highest = Seq(self.highest.load(Ordering::Acquire));
        let stamp = Stamp { source: self.source.clone(), progress, highest };
        let stamp = serde_json::to_string(&stamp).map_err(|error| IndexError::Io(error.to_string()))?;
        self.write(|writer| {
            let mut prepared = writer.prepare_commit()?;
            prepared.set_payload(&stamp);
            prepared.commit().map(drop)
        })?;
        // Not under the lock, for which questions would wait.
        let reader = self.files.lock().reader.clone();
        reader.reload()?;
        self.files.lock().progress = progress;
        Ok(())
    }

    /// Gives the writer's memory back until something is to be written again. What is not committed is forgotten. Waits for merges that
    /// are under way.
    pub fn rest(&self) {
        if let Some(writer) = self.writer.lock().take() {
            // A merge that fails leaves the segments as they were.
            let _ = writer.wait_merging_threads();
        }
    }

    /// Whether segments are being merged, or are to be: the library begins with that after a commit.
    pub fn is_merging(&self) -> bool {
        let index = self.files.lock().index.clone();
        // Where they cannot be read now, the next write says so.
        index.searchable_segment_metas().is_ok_and(|segments| !merges().compute_merge_candidates(&segments).is_empty())
    }

    /// Records in it.
    pub fn len(&self) -> u64 {
        self.searcher().num_docs()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of its files.
    pub fn disk_bytes(&self) -> u64 {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum()
    }

    /// Bytes of memory besides mapped files: those of the writer.
    pub fn memory_bytes(&self) -> u64 {
        // Whoever holds the lock writes.
        let is_writing = self.writer.try_lock().is_none_or(|writer| writer.is_some());
        if is_writing { WRITER_BYTES as u64 } else { 0 }
    }

    pub(crate) fn searcher(&self) -> Searcher {
        self.files.lock().reader.searcher()
    }

    /// The id of a document that was found.
    pub(crate) fn id(&self, searcher: &Searcher, at: DocAddress) -> Result<RecordId> {
        let document: TantivyDocument = searcher.doc(at)?;
        let id = document.get_first(self.fields.id).and_then(|value| value.as_str());
        let id = id.and_then(|id| RecordId::new(id).ok());
        id.ok_or_else(|| IndexError::Damaged("a document has no id".into()))
    }

    fn write(&self, work: impl FnOnce(&mut IndexWriter) -> tantivy::Result<()>) -> Result<()> {
        let mut writer = self.writer.lock();
        if writer.is_none() {
            let opened: IndexWriter = self.files.lock().index.writer_with_num_threads(1, WRITER_BYTES)?;
            opened.set_merge_policy(Box::new(merges()));
            *writer = Some(opened);
        }
        let Some(writer) = writer.as_mut() else { return Ok(()) };
        Ok(work(writer)?)
    }

    fn id_term(&self, id: &RecordId) -> Term {
        Term::from_field_text(self.fields.id, id.as_str())
    }

    fn document(&self, entry: &Entry) -> TantivyDocument {
        let Entry { id, seq, verdict, extract } = entry;
        let fields = &self.fields;
        let mut document = TantivyDocument::new();
        document.add_text(fields.id, id.as_str());
        document.add_u64(fields.seq, seq.0);
        document.add_u64(fields.verdict, verdict_code(*verdict));
        extract.time.into_iter().for_each(|time| document.add_i64(fields.time, time));
        extract.identity.into_iter().for_each(|identity| document.add_u64(fields.identity, identity));
        extract.petitioners.iter().for_each(|petitioner| document.add_u64(fields.petitioners, *petitioner));
        extract.categories.iter().for_each(|category| document.add_text(fields.category, category));
        extract.objects.iter().for_each(|object| document.add_text(fields.objects, object));
        document.add_text(fields.words, &extract.words);
        document.add_text(fields.pairs, &extract.text);
        document
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        // A merge that goes on would write beside whoever opens the folder next.
        self.rest();
    }
}

/// When segments are merged: eight or more of a size, and one by itself of which so much was removed.
fn merges() -> LogMergePolicy {
    let mut merges = LogMergePolicy::default();
    merges.set_del_docs_ratio_before_merge(REMOVED_BEFORE_MERGE);
    merges
}

/// The number under which a verdict is indexed.
pub(crate) fn verdict_code(verdict: VerdictKind) -> u64 {
    match verdict {
        VerdictKind::Original => 0,
        VerdictKind::ExactDuplicate => 1,
        VerdictKind::NearDuplicate => 2,
        VerdictKind::TooShort => 3,
    }
}

/// The index in a folder, or an empty one in its place; then why.
fn open_or_create(folder: &Path, source: &Source) -> Result<(Files, Option<String>)> {
    // The library trusts lengths that it reads.
    let found = std::panic::catch_unwind(|| existing(folder, source));
    match found.unwrap_or_else(|_| Err(Unusable::For("it was damaged (reading it ended abnormally)".into()))) {
        Ok(files) => Ok((files, None)),
        Err(Unusable::Passing(error)) => Err(error),
        Err(Unusable::For(reason)) => Ok((create(folder)?, Some(reason))),
    }
}

/// Why what is in a folder cannot be used.
enum Unusable {
    /// It cannot be read now.
    Passing(IndexError),
    /// It is none, or no such index; in words.
    For(String),
}

impl<E: Into<IndexError>> From<E> for Unusable {
    fn from(error: E) -> Self {
        match error.into() {
            IndexError::Damaged(why) => Self::For(format!("it was damaged ({why})")),
            error @ IndexError::Io(_) => Self::Passing(error),
        }
    }
}

/// The index that is there, whole and of this source.
fn existing(folder: &Path, source: &Source) -> std::result::Result<Files, Unusable> {
    if !folder.join("meta.json").try_exists()? {
        return Err(Unusable::For("there was none".into()));
    }
    let index = tantivy::Index::open(UnsyncedDirectory::open(folder)?)?;
    let metas = index.load_metas()?;
    let stamp = metas.payload.as_deref().and_then(|payload| serde_json::from_str::<Stamp>(payload).ok());
    let stamp = stamp.filter(|_| index.schema() == schema().0);
    let stamp = stamp.ok_or_else(|| Unusable::For("it was not finished, or of another version".into()))?;
    if stamp.source != *source {
        return Err(Unusable::For("it was of other settings, or of another collection".into()));
    }
    if let Some(file) = index.validate_checksum()?.into_iter().next() {
        return Err(IndexError::Damaged(file.display().to_string()).into());
    }
    tokens::register(index.tokenizers());
    let reader = open_reader(&index)?;
    Ok(Files { index, reader, progress: stamp.progress, highest: stamp.highest })
}

/// An empty index in the place of whatever is in the folder. The folder it is in is not made: where that was moved away, nothing is put
/// in its place.
fn create(folder: &Path) -> Result<Files> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    fs::create_dir(folder)?;
    let index = tantivy::Index::create(UnsyncedDirectory::open(folder)?, schema().0, IndexSettings::default())?;
    tokens::register(index.tokenizers());
    let reader = open_reader(&index)?;
    Ok(Files { index, reader, progress: Progress::Reached(Seq(0)), highest: Seq(0) })
}

fn open_reader(index: &tantivy::Index) -> tantivy::Result<IndexReader> {
    index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()
}
