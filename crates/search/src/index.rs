//! The full-text index of one collection, in a separate folder.
//!
//! An index is derived data. Opening a folder always gives a usable index: an empty index if the folder had no index, a damaged index, or
//! an index with other settings or rules ([`OpenedIndex::created_because`] gives the reason). Only if the system refuses to read the
//! folder, for example because too many files are open, opening fails and the folder stays unchanged. Each commit stores the progress
//! ([`IndexProgress`]), from which the next process continues.
//!
//! Writing needs a writer with [`WRITER_BYTES`] of memory, which exists only while there are changes to write ([`Index::release_writer`]).
//! Reading maps the files into memory. The files of a small index are closed while there are no searches ([`Index::close_small_files`]). A
//! record takes about a kilobyte on disk, about as much as its text.

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
use crate::extract::{Extractor, RowExtract};
use crate::tokens;
use doppel_core::collection::Settings;
use doppel_core::record::RecordId;
use doppel_core::text;
use doppel_core::verdict::VerdictKind;
use doppel_store::Seq;

/// Version of the content of an index. Raise it with every change that makes a different index of the same records.
const FORMAT: u32 = 8;
/// Memory of a writer in bytes. With the smallest value that tantivy accepts (15 MB) a segment contains only a few hundred letters, and
/// merging segments costs more than making them.
pub const WRITER_BYTES: usize = 64_000_000;
/// Number of records up to which the files of an index are closed while nobody uses them. There may be thousands of such collections, and
/// each collection takes about sixty kilobytes while its files are open. Opening the files takes about a millisecond.
const FEW_RECORDS: u64 = 10_000;
/// Number of records up to which segments are merged with each other whatever their sizes are. A commit makes a segment of the records of
/// a second. With the default of tantivy (10,000) a collection that gets some records a second would write its last 10,000 records again
/// with every eighth commit.
const SMALL_SEGMENT: u32 = 256;
/// The share of removed documents in a segment above which the segment is written again without them.
const MAX_REMOVED_SHARE: f32 = 0.1;

/// The reasons why an index cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The system refuses to read or write the files, for example because the disk is full or too many files are open. The next attempt may
    /// succeed.
    #[error("the search index cannot be read or written: {0}")]
    Io(String),
    /// A file is damaged; [`Index::reopen`] replaces the index with an empty index.
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

/// True if the system refused an operation. False if a file is missing or its content is wrong.
fn may_pass(error: &io::Error) -> bool {
    error.raw_os_error().is_some() && error.kind() != io::ErrorKind::NotFound
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> Self {
        Self::Io(error.to_string())
    }
}

pub type Result<T> = std::result::Result<T, IndexError>;

/// A digest of the collection, the settings and the rules from which an index was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexSource(String);

impl IndexSource {
    /// Makes the source of a collection with these settings. No other collection may ever have the same `name`.
    pub fn new(name: &str, settings: &Settings) -> Self {
        let mut digest = Sha256::new();
        digest.update(format!("{FORMAT};{name};{}", text::version(&settings.text)));
        digest.update(
            serde_json::to_vec(&(&settings.fields, &settings.text, &settings.time_zone, &settings.placeholders))
                .unwrap_or_default(),
        );
        Self(digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexProgress {
    /// The records are being indexed in the order of their seq. After the last record, the index has reached the change `last`.
    Filling {
        /// Seq of the last indexed record.
        after: Seq,
        /// Number of the last change when filling began.
        last: Seq,
    },
    /// The index contains all changes up to this number.
    Reached(Seq),
}

/// The data that tantivy stores with a commit.
#[derive(Serialize, Deserialize)]
struct CommitStamp {
    source: IndexSource,
    progress: IndexProgress,
    /// The highest seq that was added; see [`Index::add`].
    highest: Seq,
}

/// The fields of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexFields {
    pub(crate) id: Field,
    pub(crate) seq: Field,
    pub(crate) time: Field,
    pub(crate) petitioners: Field,
    pub(crate) handling: Field,
    pub(crate) verdict: Field,
    pub(crate) category: Field,
    pub(crate) objects: Field,
    pub(crate) words: Field,
    pub(crate) pairs: Field,
}

// The names of the fields that tantivy stores as columns.
pub(crate) const SEQ: &str = "seq";
pub(crate) const TIME: &str = "time";
pub(crate) const PETITIONERS: &str = "petitioners";

fn schema() -> (Schema, IndexFields) {
    let mut builder = Schema::builder();
    let words = text_options(tokens::WORDS, IndexRecordOption::WithFreqs);
    let pairs = text_options(tokens::PAIRS, IndexRecordOption::WithFreqsAndPositions);
    let fields = IndexFields {
        id: builder.add_text_field("id", value_options().set_stored()),
        seq: builder.add_u64_field(SEQ, FAST),
        time: builder.add_i64_field(TIME, FAST | INDEXED),
        petitioners: builder.add_u64_field(PETITIONERS, FAST | INDEXED),
        handling: builder.add_text_field("handling", value_options()),
        verdict: builder.add_u64_field("verdict", INDEXED),
        category: builder.add_text_field("category", value_options()),
        objects: builder.add_text_field("objects", value_options()),
        words: builder.add_text_field("words", words),
        pairs: builder.add_text_field("pairs", pairs),
    };
    (builder.build(), fields)
}

/// The options of a field whose values are terms as a whole.
fn value_options() -> TextOptions {
    let indexing = TextFieldIndexing::default().set_tokenizer("raw").set_fieldnorms(false);
    TextOptions::default().set_indexing_options(indexing.set_index_option(IndexRecordOption::Basic))
}

fn text_options(tokenizer: &str, option: IndexRecordOption) -> TextOptions {
    let indexing = TextFieldIndexing::default().set_tokenizer(tokenizer).set_index_option(option);
    TextOptions::default().set_indexing_options(indexing)
}

/// A record in the form in which it is indexed.
#[derive(Clone, Debug)]
pub struct IndexEntry {
    pub id: RecordId,
    pub seq: Seq,
    pub verdict: VerdictKind,
    pub extract: RowExtract,
}

/// The full-text index of one collection.
pub struct Index {
    folder: PathBuf,
    source: IndexSource,
    pub(crate) fields: IndexFields,
    extractor: Extractor,
    files: Mutex<IndexFiles>,
    writer: Mutex<Option<IndexWriter>>,
    /// The highest seq that was ever added, including records that are uncommitted or removed.
    highest: AtomicU64,
}

struct IndexFiles {
    /// The files; `None` while they are closed.
    open: Option<OpenFiles>,
    /// True if the files were used after the last call of [`Index::close_small_files`].
    were_used: bool,
    progress: IndexProgress,
    /// The highest seq that was added before the index was opened.
    highest: Seq,
}

#[derive(Clone)]
struct OpenFiles {
    index: tantivy::Index,
    reader: IndexReader,
}

impl IndexFiles {
    fn new(open: OpenFiles, progress: IndexProgress, highest: Seq) -> Self {
        Self { open: Some(open), were_used: true, progress, highest }
    }

    /// Returns the open files, and opens them in `folder` if they are closed. Their checksums were compared when the index was first
    /// opened.
    fn opened(&mut self, folder: &Path) -> tantivy::Result<&OpenFiles> {
        self.were_used = true;
        let open = match self.open.take() {
            Some(open) => open,
            None => OpenFiles::new(tantivy::Index::open(UnsyncedDirectory::open(folder)?)?)?,
        };
        Ok(self.open.insert(open))
    }
}

impl OpenFiles {
    fn new(index: tantivy::Index) -> tantivy::Result<Self> {
        tokens::register(index.tokenizers());
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self { index, reader })
    }
}

/// The result of [`Index::open`].
pub struct OpenedIndex {
    pub index: Index,
    /// The reason why a new, empty index was created; `None` if the existing index is used.
    pub created_because: Option<String>,
}

impl Index {
    /// Opens the index in `folder` and reads all its files once. Creates the folder if it is missing, but not its parent folder.
    ///
    /// # Errors
    /// [`IndexError::Io`] if the folder cannot be read or written.
    pub fn open(folder: &Path, source: IndexSource, settings: &Settings) -> Result<OpenedIndex> {
        let (files, created_because) = open_or_create(folder, &source)?;
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
        Ok(OpenedIndex { index, created_because })
    }

    /// Opens the index again like [`Index::open`] and forgets uncommitted changes. Returns the reason if the index had to be replaced with
    /// an empty index.
    ///
    /// # Errors
    /// [`IndexError::Io`] if the folder cannot be read or written. Searches then use the files that were open before.
    pub fn reopen(&self) -> Result<Option<String>> {
        self.release_writer();
        let (files, created_because) = open_or_create(&self.folder, &self.source)?;
        *self.files.lock() = files;
        // Removes files that a failed commit left, for example on a full disk.
        self.write(|writer| writer.garbage_collect_files().wait().map(drop))?;
        self.release_writer();
        Ok(created_because)
    }

    /// Replaces the index with an empty index.
    ///
    /// # Errors
    /// [`IndexError::Io`] if the folder cannot be written.
    pub fn reset(&self) -> Result<()> {
        self.release_writer();
        *self.files.lock() = create(&self.folder)?;
        Ok(())
    }

    /// Returns the extractor with the settings of the index.
    pub fn extractor(&self) -> &Extractor {
        &self.extractor
    }

    pub fn progress(&self) -> IndexProgress {
        self.files.lock().progress
    }

    /// Returns the number of the last change that searches find; 0 while the index is being filled.
    pub fn reached(&self) -> Seq {
        match self.progress() {
            IndexProgress::Filling { .. } => Seq(0),
            IndexProgress::Reached(number) => number,
        }
    }

    pub fn has_source(&self, source: &IndexSource) -> bool {
        self.source == *source
    }

    /// Adds a record and replaces an earlier record with the same id. Searches find it after the next [`Index::commit`].
    ///
    /// # Errors
    /// [`IndexError::Io`] if the files cannot be written. All further writes then fail until [`Index::reopen`] is called.
    pub fn put(&self, entry: &IndexEntry) -> Result<()> {
        self.highest.fetch_max(entry.seq.0, Ordering::AcqRel);
        self.write(|writer| {
            writer.delete_term(self.id_term(&entry.id));
            writer.add_document(self.document(entry)).map(drop)
        })
    }

    /// Adds a record that replaces no other record. The caller guarantees that the record was new when it was stored, and that the index
    /// contains every earlier change. This is cheaper than [`Index::put`], for which each commit searches all segments for the replaced record.
    /// If the seq shows that the record may have been added before, this calls [`Index::put`].
    ///
    /// # Errors
    /// As [`Index::put`].
    pub fn add(&self, entry: &IndexEntry) -> Result<()> {
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

    /// Commits all changes with the progress that the index has reached with them. Searches find the changes from now on, even if the
    /// process is killed. A power failure may destroy the index; see [`UnsyncedDirectory`].
    ///
    /// # Errors
    /// As [`Index::put`].
    pub fn commit(&self, progress: IndexProgress) -> Result<()> {
        let highest = Seq(self.highest.load(Ordering::Acquire));
        let stamp = CommitStamp { source: self.source.clone(), progress, highest };
        let stamp = serde_json::to_string(&stamp).map_err(|error| IndexError::Io(error.to_string()))?;
        self.write(|writer| {
            let mut prepared = writer.prepare_commit()?;
            prepared.set_payload(&stamp);
            prepared.commit().map(drop)
        })?;
        // `reload` runs without the lock, because searches need the lock.
        let reader = self.open_files()?.reader;
        reader.reload()?;
        self.files.lock().progress = progress;
        Ok(())
    }

    /// Releases the writer and its memory. The next write makes a new writer. Forgets uncommitted changes and waits for merges that are running.
    pub fn release_writer(&self) {
        if let Some(writer) = self.writer.lock().take() {
            // If a merge fails, the segments stay as they were.
            let _ = writer.wait_merging_threads();
        }
    }

    /// True if segments are being merged or will be merged. Tantivy begins a merge after a commit.
    pub fn is_merging(&self) -> bool {
        // If the segments cannot be read now, the next write reports the error.
        let segments = self.open_files().and_then(|open| Ok(open.index.searchable_segment_metas()?));
        segments.is_ok_and(|segments| !merge_policy().compute_merge_candidates(&segments).is_empty())
    }

    /// Closes the files of an index with at most [`FEW_RECORDS`] records that was not used since the last call. The next use opens them. An
    /// index with a writer stays open.
    pub fn close_small_files(&self) {
        // Nobody can get a writer while its lock is held.
        let Some(writer) = self.writer.try_lock().filter(|writer| writer.is_none()) else { return };
        let mut files = self.files.lock();
        let is_unused = !std::mem::take(&mut files.were_used);
        if files.open.as_ref().is_some_and(|open| is_unused && open.reader.searcher().num_docs() <= FEW_RECORDS) {
            files.open = None;
        }
        drop(writer);
    }

    /// True if the files are open.
    pub fn is_open(&self) -> bool {
        self.files.lock().open.is_some()
    }

    /// Returns the number of records in the index.
    ///
    /// # Errors
    /// [`IndexError`] if the files cannot be read.
    pub fn count(&self) -> Result<u64> {
        Ok(self.searcher()?.num_docs())
    }

    /// Size of the files in bytes.
    pub fn disk_bytes(&self) -> u64 {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum()
    }

    /// Memory in bytes without mapped files: the memory of the writer, if there is a writer.
    pub fn memory_bytes(&self) -> u64 {
        // A locked writer is writing at this moment.
        let is_writing = self.writer.try_lock().is_none_or(|writer| writer.is_some());
        if is_writing { WRITER_BYTES as u64 } else { 0 }
    }

    pub(crate) fn searcher(&self) -> Result<Searcher> {
        Ok(self.open_files()?.reader.searcher())
    }

    /// Returns the files, and opens them if they are closed.
    fn open_files(&self) -> Result<OpenFiles> {
        Ok(self.files.lock().opened(&self.folder)?.clone())
    }

    /// Returns the record id of a document.
    pub(crate) fn id(&self, searcher: &Searcher, at: DocAddress) -> Result<RecordId> {
        let document: TantivyDocument = searcher.doc(at)?;
        let id = document.get_first(self.fields.id).and_then(|value| value.as_str());
        let id = id.and_then(|id| RecordId::new(id).ok());
        id.ok_or_else(|| IndexError::Damaged("a document has no id".into()))
    }

    fn write(&self, work: impl FnOnce(&mut IndexWriter) -> tantivy::Result<()>) -> Result<()> {
        let mut writer = self.writer.lock();
        if writer.is_none() {
            let opened: IndexWriter = self.open_files()?.index.writer_with_num_threads(1, WRITER_BYTES)?;
            opened.set_merge_policy(Box::new(merge_policy()));
            *writer = Some(opened);
        }
        let Some(writer) = writer.as_mut() else { return Ok(()) };
        Ok(work(writer)?)
    }

    fn id_term(&self, id: &RecordId) -> Term {
        Term::from_field_text(self.fields.id, id.as_str())
    }

    fn document(&self, entry: &IndexEntry) -> TantivyDocument {
        let IndexEntry { id, seq, verdict, extract } = entry;
        let fields = &self.fields;
        let mut document = TantivyDocument::new();
        document.add_text(fields.id, id.as_str());
        document.add_u64(fields.seq, seq.0);
        document.add_u64(fields.verdict, verdict_code(*verdict));
        extract.time.into_iter().for_each(|time| document.add_i64(fields.time, time));
        extract.petitioners.iter().for_each(|petitioner| document.add_u64(fields.petitioners, *petitioner));
        extract.handling.iter().for_each(|value| document.add_text(fields.handling, value));
        extract.categories.iter().for_each(|category| document.add_text(fields.category, category));
        extract.objects.iter().for_each(|object| document.add_text(fields.objects, object));
        document.add_text(fields.words, &extract.words);
        document.add_text(fields.pairs, &extract.text);
        document
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        // A merge that continues would write to the folder while the next owner has it open.
        self.release_writer();
    }
}

/// The rule for merging segments: eight or more segments of similar size, or one segment with more than [`MAX_REMOVED_SHARE`] removed documents.
fn merge_policy() -> LogMergePolicy {
    let mut policy = LogMergePolicy::default();
    policy.set_min_layer_size(SMALL_SEGMENT);
    policy.set_del_docs_ratio_before_merge(MAX_REMOVED_SHARE);
    policy
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

/// Opens the index in a folder, or replaces it with an empty index and returns the reason.
fn open_or_create(folder: &Path, source: &IndexSource) -> Result<(IndexFiles, Option<String>)> {
    // Tantivy trusts the lengths that it reads, so that damage can cause a panic.
    let existing = std::panic::catch_unwind(|| open_existing(folder, source));
    match existing.unwrap_or_else(|_| Err(UnusableIndex::Replace("it was damaged (reading it caused a panic)".into())))
    {
        Ok(files) => Ok((files, None)),
        Err(UnusableIndex::Unreadable(error)) => Err(error),
        Err(UnusableIndex::Replace(reason)) => Ok((create(folder)?, Some(reason))),
    }
}

/// The reason why the content of a folder is not a usable index.
enum UnusableIndex {
    /// The content cannot be read at the moment.
    Unreadable(IndexError),
    /// The content must be replaced; the text gives the reason.
    Replace(String),
}

impl<E: Into<IndexError>> From<E> for UnusableIndex {
    fn from(error: E) -> Self {
        match error.into() {
            IndexError::Damaged(damage) => Self::Replace(format!("it was damaged ({damage})")),
            error @ IndexError::Io(_) => Self::Unreadable(error),
        }
    }
}

/// Opens an existing index if it is undamaged and has this source.
fn open_existing(folder: &Path, source: &IndexSource) -> std::result::Result<IndexFiles, UnusableIndex> {
    if !folder.join("meta.json").try_exists()? {
        return Err(UnusableIndex::Replace("there was none".into()));
    }
    let index = tantivy::Index::open(UnsyncedDirectory::open(folder)?)?;
    let metas = index.load_metas()?;
    let stamp = metas.payload.as_deref().and_then(|payload| serde_json::from_str::<CommitStamp>(payload).ok());
    let stamp = stamp.filter(|_| index.schema() == schema().0);
    let stamp = stamp.ok_or_else(|| UnusableIndex::Replace("it was unfinished, or made by another version".into()))?;
    if stamp.source != *source {
        return Err(UnusableIndex::Replace("it was made with other settings, or for another collection".into()));
    }
    if let Some(file) = index.validate_checksum()?.into_iter().next() {
        return Err(IndexError::Damaged(file.display().to_string()).into());
    }
    Ok(IndexFiles::new(OpenFiles::new(index)?, stamp.progress, stamp.highest))
}

/// Replaces the content of the folder with an empty index. Does not create the parent folder, so that it creates nothing at the path of a
/// data directory that was moved away.
fn create(folder: &Path) -> Result<IndexFiles> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    fs::create_dir(folder)?;
    let index = tantivy::Index::create(UnsyncedDirectory::open(folder)?, schema().0, IndexSettings::default())?;
    Ok(IndexFiles::new(OpenFiles::new(index)?, IndexProgress::Reached(Seq(0)), Seq(0)))
}
