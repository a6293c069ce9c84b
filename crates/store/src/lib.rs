//! The contract of all stores.
//!
//! A store keeps records and answers lookups. It does not decide which records match: it collects candidates and asks a [`CandidateJudge`].
//! The conformance suite checks that every implementation keeps these promises:
//!
//! * **Atomic.** [`Store::register`] looks up and inserts as one step. Among simultaneous registrations that pairwise match, only the first
//!   committed record is not a duplicate, and the others name it.
//! * **Durable.** When a call that changes something returns `Ok`, the change survives a crash at any later instant.
//! * **Whole.** After a crash a record is either complete (content, verdict, id, index entries) or absent.
//! * **Ordered.** `seq` follows commit order among records that match; a record never names a record with a higher `seq`.
//! * **Guarded.** If a change depends on data that its caller has read before, the change names the state of these data, and the store
//!   compares this state in the same atomic step. A decision needs both records ([`DecisionStore::decide`]). A removal may need an
//!   unchanged record ([`Store::remove_if`]). A change of a task, a key ring, a named value or the document frequencies needs the present
//!   version.
//! * **Findable.** After `Ok` every lookup sees the change; before it, no lookup does.
//! * **Cancel-safe.** If a caller stops waiting, the change is still made completely or not at all.
//!
//! A store reads, orders and writes data. The decisions that follow from the data are the same for all stores; they are in [`rules`].
//!
//! A store on a server answers within a deadline; all calls of one request share one deadline ([`request`]).
//!
//! Errors: [`StoreError`] shows how the caller can react. A failed call has changed nothing. The exception is [`StoreError::Unknown`]: the
//! change may have been made or not, and repeating the call is safe. Every call may return `Unavailable`, and `Internal` after damage or
//! because of a bug. Every change may return `Unknown` and `DiskFull`. Changes that free space (`remove`, `drop_collection`,
//! `drop_generation`) or end work that needs space (`complete_generation`, `activate_generation`, `put_task`) return `DiskFull` only if no
//! space is left at all. `# Errors` of each call lists its other errors.

#![warn(missing_docs)]

pub mod accounts;
pub mod changes;
#[cfg(feature = "testkit")]
pub mod conformance;
pub mod content;
pub mod decisions;
pub mod frequencies;
pub mod generations;
pub mod keys;
#[cfg(feature = "testkit")]
pub mod model;
pub mod removal;
pub mod request;
pub mod rules;
pub mod snapshot;
pub mod stages;
pub mod tasks;
pub mod values;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

pub use self::changes::ChangeFeed;
pub use self::decisions::DecisionStore;
pub use self::frequencies::FrequencyStore;
pub use self::generations::GenerationStore;
pub use self::keys::KeyStore;
pub use self::removal::{KeptDuplicate, RecordVersion, RemovalCondition};
pub use self::snapshot::SnapshotReader;
pub use self::tasks::TaskStore;
pub use self::values::ValueStore;

use self::content::{HashKey, RecordContent};
use self::generations::{GenerationState, PairSource};
use self::stages::{RegistrationStage, StageSpan};
use doppel_core::collection::{CollectionName, Keep, Settings};
use doppel_core::index::{HammingRange, IndexFull, Via};
pub use doppel_core::numbers::{GenerationId, Seq};
use doppel_core::record::RecordId;
use doppel_core::schemes::Signature;
use doppel_core::schemes::profile::{Digest, Signed};
use doppel_core::verdict::{Fingerprint, Match, Verdict};

/// The number of a collection. It is assigned when the collection is created and never used again, even if another collection gets the same name
/// later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CollectionNumber(pub u32);

impl CollectionNumber {
    /// Returns the next number.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for CollectionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The state of a collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectionState {
    /// The number. Two states belong to the same collection exactly if their numbers are equal. It is not encoded, because it is part of the
    /// keys of the collection's data.
    #[serde(skip)]
    pub number: CollectionNumber,
    /// The name.
    pub name: CollectionName,
    /// The settings.
    pub settings: Settings,
    /// The live generation.
    pub generation: GenerationId,
    /// The digest of the profile of the live generation, in hexadecimal.
    pub profile: String,
    /// The time of creation (RFC 3339, UTC) by the clock of the creating process. Only for display; do not compare it.
    pub created_at: String,
    /// The time at which the live generation was begun (RFC 3339, UTC); `None` if it was begun with the collection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_since: Option<String>,
    /// [`GenerationState::scan_end`] of the live generation; 0 for the first generation.
    #[serde(default)]
    pub scan_end: Seq,
    /// The generations whose pairs together are the pairs of the collection, while the live generation lacks pairs of records that were
    /// registered under another generation. Empty if the live generation has all pairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pair_sources: Vec<PairSource>,
    /// The version of the document frequencies that the collection uses; 0 before the first count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frequencies: u32,
    /// The key of the content hashes, if the collection keeps no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash_key: Option<HashKey>,
    /// The standby generations, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<GenerationState>,
}

fn is_zero(version: &u32) -> bool {
    *version == 0
}

impl CollectionState {
    /// Makes the state of a new collection with its first generation.
    pub fn first(number: CollectionNumber, spec: CollectionSpec) -> Self {
        let CollectionSpec { name, settings, profile, hash_key, now } = spec;
        Self {
            number,
            name,
            settings,
            generation: GenerationId(1),
            profile,
            created_at: now,
            live_since: None,
            scan_end: Seq(0),
            pair_sources: Vec::new(),
            frequencies: 0,
            hash_key,
            others: Vec::new(),
        }
    }
}

/// The specification of a new collection, or of new settings for a collection.
#[derive(Clone, Debug)]
pub struct CollectionSpec {
    /// The name.
    pub name: CollectionName,
    /// The validated settings.
    pub settings: Settings,
    /// The digest of the profile, in hexadecimal.
    pub profile: String,
    /// [`CollectionState::hash_key`] of a new collection. An existing collection keeps its key.
    pub hash_key: Option<HashKey>,
    /// The present time (RFC 3339, UTC).
    pub now: String,
}

/// A stored record.
#[derive(Clone, Debug)]
pub struct StoredRecord {
    /// The id.
    pub id: RecordId,
    /// The position in commit order.
    pub seq: Seq,
    /// The content.
    pub content: RecordContent,
    /// The digest under the generation `digest_generation`. Another generation may read another text from the row and have another digest.
    pub digest: Digest,
    /// The generation to which `digest` belongs: the generation that was live when the record was stored or last updated, or the generation for
    /// which a candidate is judged; 0 if it is not known. The verdict may belong to an earlier generation, because updates keep it.
    pub digest_generation: GenerationId,
    /// The verdict. The store does not keep `Match::seq` in it.
    pub verdict: Verdict,
    /// The seq of `verdict.duplicate_of` at the time of the verdict. It shows whether this record was replaced since then.
    pub duplicate_of_seq: Option<Seq>,
    /// The time at which the record was stored or last updated (RFC 3339, UTC).
    pub stored_at: String,
}

/// A signed record to be registered.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The collection.
    pub collection: CollectionName,
    /// The generation with whose profile the record was signed. If another generation is live, the result is [`StoreError::StaleGeneration`].
    pub generation: GenerationId,
    /// The id.
    pub id: RecordId,
    /// The content in the form that the collection keeps. For content in another form, the result is [`StoreError::StaleGeneration`].
    pub content: RecordContent,
    /// The signatures for the live generation.
    pub signed: Arc<Signed>,
    /// The signatures for each standby generation, ascending. If the collection has other standby generations, the result is
    /// [`StoreError::StaleGeneration`].
    pub others: Vec<(GenerationId, Arc<Signed>)>,
    /// Records that match by decision. They are candidates by [`Via::DECISION`] even if the index does not propose them.
    pub confirmed: Vec<RecordId>,
    /// Records that do not match by decision. The judge takes them into account.
    pub refused: Vec<RecordId>,
    /// The state of the decisions on which the registration is based (see [`DecisionStore::decisions_as_of`]). If a decision about the
    /// record changed later, the result is [`StoreError::StaleGeneration`].
    pub decisions_as_of: Option<Seq>,
    /// The treatment of duplicates.
    pub mode: RegistrationMode,
    /// True if the id may only be used for this content. If a record with other content has the id, this record stays, and the result is
    /// [`StoreError::IdTaken`].
    pub write_once: bool,
    /// The present time (RFC 3339, UTC).
    pub now: String,
    /// Notified when the registration has its place in the sequence.
    pub sequenced: SequencedNotifier,
}

impl Registration {
    /// Returns the generations with their signatures, the live generation first.
    pub fn generations(&self) -> impl Iterator<Item = (GenerationId, &Signed)> {
        let others = self.others.iter().map(|(generation, signed)| (*generation, signed.as_ref()));
        std::iter::once((self.generation, self.signed.as_ref())).chain(others)
    }

    /// Returns the standby generations for which the record is signed.
    pub fn standby(&self) -> Vec<GenerationId> {
        self.others.iter().map(|(generation, _)| *generation).collect()
    }
}

/// Notifies a waiter that a registration is sequenced: no later registration that could match it can precede it in commit order. A store calls
/// [`SequencedNotifier::notify`] as soon as this is true. If a store never calls it, dropping the finished registration notifies the waiter.
#[derive(Clone, Debug, Default)]
pub struct SequencedNotifier(Option<Arc<parking_lot::Mutex<Option<oneshot::Sender<()>>>>>);

impl SequencedNotifier {
    /// Makes a notifier and the receiver on which to wait. The wait ends at the latest when all copies of the notifier are dropped.
    pub fn new() -> (Self, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Some(Arc::new(parking_lot::Mutex::new(Some(sender))))), receiver)
    }

    /// True if a waiter may exist.
    pub fn is_awaited(&self) -> bool {
        self.0.as_ref().is_some_and(|sender| sender.lock().is_some())
    }

    /// Notifies the waiter. Further calls do nothing.
    pub fn notify(&self) {
        if let Some(sender) = self.0.as_ref().and_then(|sender| sender.lock().take()) {
            // Sending fails if there is no waiter any more.
            let _ = sender.send(());
        }
    }
}

/// The treatment of duplicates by a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrationMode {
    /// Store the record, also if it is a duplicate. A record with the same id is replaced or updated (see [`RegisterOutcome`]).
    Put,
    /// Like `Put`, but store nothing if the record is a duplicate.
    SkipDuplicate,
}

/// The outcome of a registration.
#[derive(Clone, Debug)]
pub enum RegisterOutcome {
    /// The record was stored under a new id.
    Created(StoredRecord),
    /// A record with the same id had another digest in the live generation, or in a standby generation that has filed it. It was removed,
    /// and the new record was registered with a new seq. The new record never matches the removed record.
    Replaced(StoredRecord),
    /// A record with the same id had the same digest in every generation that has filed it, but other fields. Its content was updated; seq
    /// and verdict stay. Generations that had not filed the record before have filed the new content.
    Updated(StoredRecord),
    /// A record with the same id and the same content exists. Nothing was changed.
    Unchanged(StoredRecord),
    /// Nothing was stored, because the mode is [`RegistrationMode::SkipDuplicate`] and a duplicate was found.
    Skipped(Verdict),
}

/// A record that the index proposed, with the data for a judge.
#[derive(Clone, Copy, Debug)]
pub struct CandidateRecord<'a> {
    /// The record with an empty verdict. The verdict may not be known yet, and no rule may depend on it.
    pub record: &'a StoredRecord,
    /// The sources that proposed the record.
    pub via: Via,
    /// The fingerprint, if the record has one.
    pub fingerprint: Option<Fingerprint>,
    /// The signatures, one for each channel; empty unless [`CandidateJudge::needs_signatures`].
    pub signatures: &'a [Option<Signature>],
    /// True if the seq will always belong to this content, because the record is published and the store never uses a seq again.
    pub seq_is_immutable: bool,
}

/// Decides which candidates match. The engine implements this, and the store calls it.
pub trait CandidateJudge: Send + Sync {
    /// Returns the match, if `candidate` matches. A pure function. It may take as long as the comparison of two texts.
    fn judge(&self, candidate: &CandidateRecord<'_>) -> Option<Match>;

    /// True if the judge can exclude a record before the store loads it, from data in the memory of the judge. A store calls this only for
    /// records for which [`CandidateRecord::seq_is_immutable`] would be true.
    fn dismisses(&self, _seq: Seq, _via: Via) -> bool {
        false
    }

    /// Announces the records for which the store will call [`CandidateJudge::dismisses`] next, so that the judge can load its data about
    /// them together. The call is optional.
    fn expects(&self, _seqs: &[Seq]) {}

    /// A store that never uses a seq again calls this after it has published the registered record under `seq`, and before it answers.
    /// Takes microseconds.
    fn stored(&self, _seq: Seq) {}

    /// Reports the time of a stage of the store's work for this record, once for each stage. Takes less than a microsecond and does not block.
    fn took(&self, _stage: RegistrationStage, _span: StageSpan) {}

    /// True if the store must fill [`CandidateRecord::signatures`]. All judges of one generation return the same value.
    fn needs_signatures(&self) -> bool;

    /// Determines the verdict from all matches.
    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict;
}

/// The query of a lookup that stores nothing.
#[derive(Clone, Debug)]
pub struct LookupQuery {
    /// The collection.
    pub collection: CollectionName,
    /// The generation with whose profile the query was signed.
    pub generation: GenerationId,
    /// The digest; `None` if only a fingerprint is looked up.
    pub digest: Option<Digest>,
    /// The fingerprints to find by Hamming distance.
    pub hamming: Option<HammingRange>,
    /// The posting keys.
    pub signed: Option<Arc<Signed>>,
    /// A record that must not be found: the record that the query is about.
    pub except: Option<RecordId>,
    /// Records that match by decision. They are candidates by [`Via::DECISION`] even if the index does not propose them.
    pub confirmed: Vec<RecordId>,
}

/// The end of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupEnd {
    /// The lookup ends at the first match that it finds.
    FirstMatch,
    /// The lookup finds all matches.
    Exhausted,
}

/// The result of a lookup.
#[derive(Clone, Debug, Default)]
pub struct LookupResult {
    /// The matches, in the order in which they were found.
    pub matches: Vec<Match>,
    /// True if a limit ended the search early.
    pub truncated: bool,
}

/// The size of a store.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StoreUsage {
    /// Number of live records in all collections.
    pub records: u64,
    /// Memory of all indexes in bytes.
    pub index_bytes: u64,
    /// Size on disk in bytes; the value may be some seconds old.
    pub disk_bytes: u64,
    /// Free bytes on the volume.
    pub free_bytes: u64,
}

/// The result of examining a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExaminationReport {
    /// Number of examined records.
    pub records: u64,
    /// Number of examined page entries.
    pub entries: u64,
    /// The faults: collection, record, description.
    pub faults: Vec<(String, String, String)>,
    /// Number of records whose faults were repaired.
    pub mended: u64,
}

/// The errors of a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The collection does not exist.
    #[error("collection {0} does not exist")]
    UnknownCollection(CollectionName),
    /// The collection exists already.
    #[error("collection {0} exists already")]
    CollectionExists(CollectionName),
    /// The decision is about a record that does not exist.
    #[error("no record has the id {0}")]
    UnknownRecord(RecordId),
    /// The registration is [`Registration::write_once`], and a record with other content has the id.
    #[error("the id {0} is taken by a record with other content")]
    IdTaken(RecordId),
    /// The new settings would change the profile of a collection with records.
    #[error("the new settings change signatures, and collection {0} has records; send them to POST /v1/admin/reindex")]
    ProfileConflict(CollectionName),
    /// The new settings keep other parts of the content of records than the collection.
    #[error(
        "collection {name} was made with \"keep\": \"{kept}\", which cannot be changed: text that was not stored \
            cannot be recovered, and text that was stored is in backups; make another collection for records that are \
            kept otherwise",
        kept = keep.name()
    )]
    KeepConflict {
        /// The name of the collection.
        name: CollectionName,
        /// The setting with which the collection was created.
        keep: Keep,
    },
    /// The caller has signed for generations that differ from the generations of the collection. Read the state of the collection again and
    /// repeat the call.
    #[error("the generations of the collection have changed since generation {given} was signed; {live} is live")]
    StaleGeneration {
        /// The generation of the request.
        given: GenerationId,
        /// The live generation.
        live: GenerationId,
    },
    /// The collection has no such standby generation.
    #[error("collection {collection} has no generation {generation} apart from the live one")]
    UnknownGeneration {
        /// The name of the collection.
        collection: CollectionName,
        /// The requested generation.
        generation: GenerationId,
    },
    /// The request needs a standby generation, but this generation is live.
    #[error("generation {0} is the live one; name another generation, or activate another one first")]
    GenerationLive(GenerationId),
    /// The generation is not complete yet.
    #[error("generation {0} is still being built; wait for its task to end, or cancel it")]
    GenerationBuilding(GenerationId),
    /// The collection has the largest allowed number of generations, including the live one.
    #[error("the collection has {most} generations, the most there can be; drop one first")]
    TooManyGenerations {
        /// The limit.
        most: usize,
    },
    /// The pair has the largest allowed number of rulings.
    #[error("these two records have {most} decisions, the largest number; the last decision holds")]
    TooManyRulings {
        /// The limit.
        most: usize,
    },
    /// The document frequencies are too large to be written in one step.
    #[error("document frequencies of {given} bytes are given, at most {most} are kept; keep fewer of them")]
    FrequenciesTooLarge {
        /// The size of the frequencies in bytes.
        given: usize,
        /// The limit, in bytes.
        most: usize,
    },
    /// Not all changes after the requested number are known: the log has forgotten some changes, or the number is above the number of the
    /// last change.
    #[error(
        "the feed no longer has all changes of collection {collection} from {after} on; read its records again, then \
            continue from {last}"
    )]
    ChangesForgotten {
        /// The name of the collection.
        collection: CollectionName,
        /// The number of the request.
        after: Seq,
        /// The number of the last change. A reader that reads all records and decisions after this error can continue from this number.
        last: Seq,
    },
    /// The index of a generation is full.
    #[error(transparent)]
    IndexFull(#[from] IndexFull),
    /// The collection has records, and only an empty collection can be filled in bulk.
    #[error("collection {0} has records; only an empty one can be filled")]
    NotEmpty(CollectionName),
    /// The volume is full. Nothing was written, and reads continue. If the volume becomes full during a write, the error is
    /// [`StoreError::Unknown`].
    #[error(
        "{free} bytes are free on the data volume, {needed} must stay free; make room, writes resume by themselves"
    )]
    DiskFull {
        /// Number of free bytes.
        free: u64,
        /// Number of bytes that must stay free.
        needed: u64,
    },
    /// The store cannot be used at the moment. It recovers by itself, or when its server is available again.
    #[error("the store is not available: {reason}")]
    Unavailable {
        /// The reason.
        reason: String,
        /// Number of seconds after which the caller should try again.
        retry_after_s: u32,
    },
    /// This kind of store does not support the operation.
    #[error("{0}")]
    Unsupported(&'static str),
    /// The change may have been made or not. Repeating the call is safe.
    #[error("the outcome of the write is unknown: {0}; repeat it")]
    Unknown(String),
    /// The data on disk is damaged, or there is a bug.
    #[error("store failure: {0}")]
    Internal(String),
}

/// The result of a store call.
pub type Result<T> = std::result::Result<T, StoreError>;

/// A store of records. See the module for its promises.
#[async_trait]
pub trait Store:
    ChangeFeed
    + GenerationStore
    + DecisionStore
    + TaskStore
    + FrequencyStore
    + ValueStore
    + KeyStore
    + Send
    + Sync
    + 'static
{
    /// Creates a collection with its first generation (1).
    ///
    /// # Errors
    /// `CollectionExists`.
    async fn create_collection(&self, spec: CollectionSpec) -> Result<Arc<CollectionState>>;

    /// Gives a collection new settings. A new profile is allowed only for a collection without records, and starts a new generation.
    ///
    /// # Errors
    /// `UnknownCollection`; `KeepConflict` if the settings keep other content; `ProfileConflict` if the profile changes and the collection has
    /// records.
    async fn update_collection(&self, spec: CollectionSpec) -> Result<Arc<CollectionState>>;

    /// Returns the state of a collection; `None` if the collection does not exist. Called for every request, so that the answer comes from
    /// memory and is shared.
    ///
    /// # Errors
    /// `Unavailable` if the store is closed or cannot be reached.
    async fn collection(&self, name: &CollectionName) -> Result<Option<Arc<CollectionState>>>;

    /// Returns all collections, sorted by name.
    ///
    /// # Errors
    /// Only the errors of every call.
    async fn collections(&self) -> Result<Vec<Arc<CollectionState>>>;

    /// Returns the number of live records of a collection.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn count(&self, name: &CollectionName) -> Result<u64>;

    /// Removes a collection with all its data. Returns false if the collection did not exist.
    ///
    /// # Errors
    /// Only the errors of every change.
    async fn drop_collection(&self, name: &CollectionName) -> Result<bool>;

    /// Looks up and inserts in one atomic step.
    ///
    /// # Errors
    /// `UnknownCollection`; `StaleGeneration` if the record is signed for other generations or has other content than the collection keeps;
    /// `IdTaken` if the registration is `write_once` and a record with other content has the id; `IndexFull`.
    async fn register(&self, registration: Registration, judge: Arc<dyn CandidateJudge>) -> Result<RegisterOutcome>;

    /// Removes a record and all decisions about it. Returns true if the record existed.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn remove(&self, collection: &CollectionName, id: &RecordId) -> Result<bool>;

    /// Removes a record and all decisions about it if `condition` holds. Returns true if the record was removed. The condition is checked
    /// in the same atomic step as the removal, so that a change that was acknowledged before the removal is never lost.
    ///
    /// # Errors
    /// `UnknownCollection`. A condition that does not hold, and an id that no record has, give `false`.
    async fn remove_if(&self, collection: &CollectionName, id: &RecordId, condition: RemovalCondition) -> Result<bool>;

    /// Looks up without storing.
    ///
    /// # Errors
    /// `UnknownCollection`; `StaleGeneration` if the query is signed for another generation than the live generation.
    async fn find(&self, query: LookupQuery, judge: Arc<dyn CandidateJudge>, until: LookupEnd) -> Result<LookupResult>;

    /// Returns the record `id`, if it exists.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn record(&self, collection: &CollectionName, id: &RecordId) -> Result<Option<StoredRecord>>;

    /// Returns at most `limit` records with a seq above `after`, in seq order.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn records(&self, collection: &CollectionName, after: Seq, limit: usize) -> Result<Vec<StoredRecord>>;

    /// Returns the existing records with these seqs, in seq order, each once. All rows are in memory at the same time, so that callers
    /// should request a few hundred at most.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn records_at(&self, collection: &CollectionName, seqs: &[Seq]) -> Result<Vec<StoredRecord>>;

    /// Returns the seqs among `seqs` under which a record is stored now, ascending, each once. Callers should request a few thousand at
    /// most.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn stored_seqs(&self, collection: &CollectionName, seqs: &[Seq]) -> Result<Vec<Seq>> {
        Ok(self.records_at(collection, seqs).await?.into_iter().map(|record| record.seq).collect())
    }

    /// Checks that the store accepts writes.
    ///
    /// # Errors
    /// `DiskFull` or `Unavailable`: the error that a registration would have now.
    async fn ready(&self) -> Result<()>;

    /// Checks that the disk has more space than registrations need, so that derived data such as a search index may be written. The check
    /// is fast.
    ///
    /// # Errors
    /// `DiskFull`; `Unavailable` if the directory of the store is missing. A store on other machines always returns `Ok`.
    async fn check_room(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the size of the store. Reads the counters of the indexes, but not their entries.
    ///
    /// # Errors
    /// Only the errors of every call.
    async fn usage(&self) -> Result<StoreUsage>;

    /// Returns a reader of the complete content at this moment; see [`snapshot`].
    ///
    /// # Errors
    /// `Unsupported` if the store is backed up by other means.
    async fn snapshot(&self) -> Result<Box<dyn SnapshotReader>>;

    /// Completes all running changes, syncs and closes the store. Later calls fail with [`StoreError::Unavailable`].
    ///
    /// # Errors
    /// `Unavailable` if the changes do not end in time; `Internal` if the last sync fails. The store is closed in both cases.
    async fn close(&self) -> Result<()>;
}
