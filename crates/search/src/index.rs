//! The full-text index of one collection, in a folder of its own.
//!
//! It is derived and disposable: whatever is in the folder, opening gives an index that can be used, one that is empty where there was
//! none, or it was damaged, or made of other settings or by other rules ([`Opened::fresh`] says which). Each commit stores the number of
//! the change feed that it has reached, so that whoever opens it knows where to go on.
//!
//! Writing takes a writer of [`WRITER_BYTES`], which is there only while there is something to write ([`Index::rest`]). Reading maps
//! the files into memory. A record takes some kilobytes on disk, about twice its text.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tantivy::schema::{
    FAST, Field, INDEXED, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions, Value as _,
};
use tantivy::tokenizer::{PreTokenizedString, Token};
use tantivy::{DocAddress, IndexReader, IndexWriter, ReloadPolicy, Searcher, TantivyDocument, TantivyError, Term};

use crate::extract::{Extract, Extractor, Placed};
use doppel_core::collection::Settings;
use doppel_core::record::RecordId;
use doppel_core::text;
use doppel_core::verdict::VerdictKind;
use doppel_store::Seq;

/// Version of what is indexed and how. Raised with every change that makes another index of the same records.
const FORMAT: u32 = 1;
/// Memory of a writer: the smallest that the library takes.
pub const WRITER_BYTES: usize = 15_000_000;

/// Why an index cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// Its files cannot be written or read: no room, no right.
    #[error("the search index cannot be read or written: {0}")]
    Io(String),
    /// Its files are damaged; [`Index::reset`] makes it anew.
    #[error("the search index is damaged: {0}")]
    Damaged(String),
}

impl From<TantivyError> for IndexError {
    fn from(error: TantivyError) -> Self {
        match error {
            TantivyError::DataCorruption(_)
            | TantivyError::IncompatibleIndex(_)
            | TantivyError::DeserializeError(_) => Self::Damaged(error.to_string()),
            error => Self::Io(error.to_string()),
        }
    }
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

/// What a commit carries besides its documents.
#[derive(Serialize, Deserialize)]
struct Stamp {
    source: Source,
    reached: Seq,
}

/// The fields of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    pub(crate) id: Field,
    pub(crate) seq: Field,
    pub(crate) time: Field,
    pub(crate) identity: Field,
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
    let placed = || {
        let indexing = TextFieldIndexing::default().set_index_option(IndexRecordOption::WithFreqsAndPositions);
        TextOptions::default().set_indexing_options(indexing)
    };
    let fields = Fields {
        id: builder.add_text_field("id", raw().set_stored()),
        seq: builder.add_u64_field(SEQ, FAST | STORED),
        time: builder.add_i64_field(TIME, FAST | INDEXED),
        identity: builder.add_u64_field(IDENTITY, FAST | INDEXED),
        verdict: builder.add_u64_field("verdict", INDEXED),
        category: builder.add_text_field("category", raw()),
        objects: builder.add_text_field("objects", raw()),
        words: builder.add_text_field("words", placed()),
        pairs: builder.add_text_field("pairs", placed()),
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
    index: Mutex<tantivy::Index>,
    reader: Mutex<IndexReader>,
    writer: Mutex<Option<IndexWriter>>,
    reached: AtomicU64,
}

/// An opened index.
pub struct Opened {
    /// The index.
    pub index: Index,
    /// Why it is empty, where it was begun anew.
    pub fresh: Option<String>,
}

impl Index {
    /// Opens the index in `folder`, which is made if it is not there. Reads all its files once.
    ///
    /// # Errors
    /// [`IndexError::Io`] where the folder cannot be read or written.
    pub fn open(folder: &Path, source: Source, settings: &Settings) -> Result<Opened> {
        let (found, fresh) = match existing(folder, &source) {
            Ok(found) => (found, None),
            Err(reason) => (create(folder)?, Some(reason)),
        };
        let (index, reader, reached) = found;
        let (_, fields) = schema();
        let index = Self {
            folder: folder.to_owned(),
            source,
            fields,
            extractor: Extractor::new(settings),
            index: Mutex::new(index),
            reader: Mutex::new(reader),
            writer: Mutex::new(None),
            reached: AtomicU64::new(reached.0),
        };
        Ok(Opened { index, fresh })
    }

    /// Reads rows as the index does.
    pub fn extractor(&self) -> &Extractor {
        &self.extractor
    }

    /// Up to which number of the change feed everything can be found.
    pub fn reached(&self) -> Seq {
        Seq(self.reached.load(Ordering::Acquire))
    }

    /// Whether it is of this source.
    pub fn is_of(&self, source: &Source) -> bool {
        self.source == *source
    }

    /// Adds a record, in the place of an earlier one with its id. Found after the next [`Index::commit`].
    ///
    /// # Errors
    /// [`IndexError::Io`] where nothing can be written; then nothing more can, before [`Index::rest`].
    pub fn put(&self, entry: &Entry) -> Result<()> {
        self.write(|writer| {
            writer.delete_term(self.id_term(&entry.id));
            writer.add_document(self.document(entry)).map(drop)
        })
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

    /// Lets everything be found that was put and removed so far, on disk, with the number that is reached by it.
    ///
    /// # Errors
    /// As [`Index::put`].
    pub fn commit(&self, reached: Seq) -> Result<()> {
        let stamp = Stamp { source: self.source.clone(), reached };
        let stamp = serde_json::to_string(&stamp).map_err(|error| IndexError::Io(error.to_string()))?;
        self.write(|writer| {
            let mut prepared = writer.prepare_commit()?;
            prepared.set_payload(&stamp);
            prepared.commit().map(drop)
        })?;
        // Not under the lock, for which questions would wait.
        let reader = self.reader.lock().clone();
        reader.reload()?;
        self.reached.store(reached.0, Ordering::Release);
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

    /// Throws everything away and begins anew.
    ///
    /// # Errors
    /// [`IndexError::Io`] where the folder cannot be written.
    pub fn reset(&self) -> Result<()> {
        self.rest();
        let mut index = self.index.lock();
        let (new, reader, _) = create(&self.folder)?;
        *index = new;
        *self.reader.lock() = reader;
        self.reached.store(0, Ordering::Release);
        Ok(())
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
        self.reader.lock().searcher()
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
            *writer = Some(self.index.lock().writer_with_num_threads(1, WRITER_BYTES)?);
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
        extract.categories.iter().for_each(|category| document.add_text(fields.category, category));
        extract.objects.iter().for_each(|object| document.add_text(fields.objects, object));
        document.add_pre_tokenized_text(fields.words, tokens(&extract.words));
        document.add_pre_tokenized_text(fields.pairs, tokens(&extract.pairs));
        document
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.rest();
    }
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

fn tokens(placed: &[Placed]) -> PreTokenizedString {
    let token = |placed: &Placed| Token { position: placed.position, text: placed.term.clone(), ..Token::default() };
    PreTokenizedString { text: String::new(), tokens: placed.iter().map(token).collect() }
}

type Found = (tantivy::Index, IndexReader, Seq);

/// The index that is there, whole and of this source; or why not.
fn existing(folder: &Path, source: &Source) -> std::result::Result<Found, String> {
    if !folder.join("meta.json").exists() {
        return Err("there was none".into());
    }
    let damaged = |error: &dyn std::fmt::Display| format!("it was damaged ({error})");
    let index = tantivy::Index::open_in_dir(folder).map_err(|error| damaged(&error))?;
    let metas = index.load_metas().map_err(|error| damaged(&error))?;
    let stamp = metas.payload.as_deref().and_then(|payload| serde_json::from_str::<Stamp>(payload).ok());
    let stamp = stamp.filter(|_| index.schema() == schema().0);
    let stamp = stamp.ok_or("it was not finished, or of another version")?;
    if stamp.source != *source {
        return Err("it was of other settings, or of another collection".into());
    }
    let broken = index.validate_checksum().map_err(|error| damaged(&error))?;
    if let Some(file) = broken.iter().next() {
        return Err(damaged(&file.display()));
    }
    let reader = open_reader(&index).map_err(|error| damaged(&error))?;
    Ok((index, reader, stamp.reached))
}

/// An empty index in the place of whatever is in the folder.
fn create(folder: &Path) -> Result<Found> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    fs::create_dir_all(folder)?;
    let index = tantivy::Index::create_in_dir(folder, schema().0)?;
    let reader = open_reader(&index)?;
    Ok((index, reader, Seq(0)))
}

fn open_reader(index: &tantivy::Index) -> tantivy::Result<IndexReader> {
    index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()
}
