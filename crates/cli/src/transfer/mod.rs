//! Copies a collection between stores: `doppel export` writes a file, and `doppel import --exported` reads it.
//!
//! ```text
//! {"doppel_export": {"version": 1, "collection": "letters", "settings": {…}, "records": 2, "exported_at": "…"}}
//! {"decision": {"a": "…", "b": "…", "rulings": [{"judgement": "same", "by": …, "note": …, "at": "…"}]}}
//! {"handling": {"event": "…", "members": ["…"], "steps": [{"status": "assigned", "unit": …, "note": …, "by": …, "at": "…"}]}}
//! {"record": {"id": "…", "row": {…}, "seq": 17, "stored_at": "…", "verdict": {…}}}
//! {"end": {"records": 2, "decisions": 1, "handlings": 1}}
//! ```
//! The file has one JSON object per line: the header, the decisions in the order of their pairs, the handling of
//! events by their first records, the records in seq order, and the end.
//! Rows are written byte by byte. A file without the end is incomplete.
//!
//! An import registers the records again in this order, after the decisions, so that similar records, groups and checks are the same as before. The
//! store makes new values of `seq`, `stored_at` and the verdict. The new verdict is the verdict of the record among the records that the new
//! collection has at this time. In the file, these values are only information for people.

mod export;
mod restore;
#[cfg(feature = "search")]
mod whole;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::progress::CommandProgress;
use crate::store;
use doppel_config::{self as config, StoreKind};
use doppel_core::collection::{CollectionName, Settings};
use doppel_core::record::RecordId;
use doppel_core::verdict::Verdict;
use doppel_engine::Engine;
use doppel_engine::events::handling::StoredHandling;
use doppel_store::decisions::Ruling;
use doppel_store::{Seq, Store};
use doppel_store_embedded::Opening;

pub(super) use self::export::to_file;
pub use self::export::{ExportArgs, run};
pub(super) use self::restore::{CollectionImport, restore};
#[cfg(feature = "search")]
pub(super) use self::whole::{ExportedCollection, whole};

/// Version of the file format. It is increased if an older program could misread the file.
const VERSION: u32 = 1;
/// The word that means the configured database in the place of a directory.
pub(super) const MONGODB: &str = "mongodb";
/// Largest size of a line: a row, its verdict, and some space.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ExportLine {
    DoppelExport(Box<ExportHeader>),
    Decision(DecisionLine),
    Handling(HandlingLine),
    Record(Box<RecordLine>),
    End(ExportEnd),
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct ExportHeader {
    version: u32,
    collection: CollectionName,
    settings: Settings,
    /// Number of records at the start of the export, for the progress.
    records: u64,
    /// Number of records whose document frequencies the collection uses; `None` if it uses none, or in a file of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counted: Option<u64>,
    exported_at: String,
}

/// A line of an export with the decision about a pair.
#[derive(Debug, Serialize, Deserialize)]
struct DecisionLine {
    a: RecordId,
    b: RecordId,
    rulings: Vec<Ruling>,
}

/// A line with the handling of an event.
#[derive(Debug, Serialize, Deserialize)]
struct HandlingLine {
    /// The id of the record under which the history is stored.
    event: RecordId,
    #[serde(flatten)]
    handling: StoredHandling,
}

/// A line with a record. Only the id and the row are read.
#[derive(Debug, Serialize, Deserialize)]
struct RecordLine {
    id: RecordId,
    row: Box<RawValue>,
    #[serde(default, skip_deserializing)]
    seq: Seq,
    #[serde(default, skip_deserializing)]
    stored_at: String,
    #[serde(default, skip_deserializing)]
    verdict: Option<Verdict>,
}

/// The last line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ExportEnd {
    pub(super) records: u64,
    pub(super) decisions: u64,
    #[serde(default)]
    pub(super) handlings: u64,
}

/// Opens a store that the command line names: the directory of an embedded store, or `mongodb` for the database of the configuration.
///
/// # Errors
/// The store cannot be opened. The error contains the remedy.
async fn open(named: &str, opening: Opening, config: config::StoreConfig) -> anyhow::Result<Arc<dyn Store>> {
    if named == MONGODB {
        return open_mongodb(config).await;
    }
    if named.contains("://") {
        bail!(
            "{named} is no directory; for the MongoDB database of the configuration write {MONGODB}; stop a running \
                service with an embedded store first"
        );
    }
    let config = config::StoreConfig { kind: StoreKind::Embedded, data: PathBuf::from(named), ..config };
    match opening {
        Opening::Existing => store::open_existing(&config).await,
        Opening::CreateIfEmpty => store::open(&config).await,
    }
}

/// Opens the MongoDB database of the configuration.
///
/// # Errors
/// The configuration names no database, or the database cannot be opened.
pub(super) async fn open_mongodb(config: config::StoreConfig) -> anyhow::Result<Arc<dyn Store>> {
    let config = config::StoreConfig { kind: StoreKind::Mongodb, ..config };
    let uri = config.mongodb_uri()?;
    if uri.reveal().is_empty() {
        bail!(
            "the configuration names no database; set store.uri or store.uri_file (or DOPPEL_STORE__URI), or give --config FILE"
        );
    }
    store::open(&config).await
}

fn engine(store: &Arc<dyn Store>) -> Engine {
    Engine::new(Arc::clone(store), store::engine_options())
}

/// Makes the progress for this number of records.
fn progress_of(records: u64) -> CommandProgress {
    let progress = CommandProgress::new();
    progress.phase("records", Some(records));
    progress
}
