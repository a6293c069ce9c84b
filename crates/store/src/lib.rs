//! What every store promises.
//!
//! A store keeps records and answers lookups. What counts as a match is not its business: it collects candidates
//! and asks a [`Judge`]. Its promises, held by one conformance suite over every implementation:
//!
//! * **Atomic.** [`Store::register`] looks up and inserts as one step. Among simultaneous registrations that pairwise
//!   match, exactly the first committed is not a duplicate, and the others name it.
//! * **Durable.** When a call that changes something returns `Ok`, the change survives a crash at any later instant.
//! * **Whole.** A crash leaves a record wholly present or wholly absent: content, verdict, id, index entries.
//! * **Ordered.** `seq` follows commit order among records that match; a record never names one with a higher `seq`.
//! * **Guarded.** A change that rests on what its caller has read says what that was, and the store compares in the same atomic step:
//!   a decision needs both records ([`Decisions::decide`]), a removal may need an unchanged record ([`Store::remove_if`]), a task, a
//!   key ring, a checkpoint or document frequencies a version.
//! * **Findable.** After `Ok` every lookup sees the change; before it, no lookup does.
//! * **Cancel-safe.** A caller that stops waiting does not stop the change half-way.
//!
//! What follows from what a store has read is decided in [`rules`], once for all of them: a store reads, orders and writes.
//!
//! A store that asks a server answers within a deadline; calls that serve one request share it ([`request`]).
//!
//! Errors: [`StoreError`] says what the caller can do. A failed call has changed nothing, except that
//! [`StoreError::Unknown`] leaves open whether it did; repeating the call is then safe. Every call may give `Unavailable`, and
//! `Internal` where something is damaged or there is a bug. Every change may give `Unknown` and `DiskFull`; those that make room
//! (`remove`, `drop_collection`, `drop_generation`), or end what takes room (`complete_generation`, `activate_generation`,
//! `put_task`), only when the last bytes are gone. What else may happen is under `# Errors` of each call.

pub mod changes;
pub mod checkpoints;
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

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

pub use self::changes::Changes;
pub use self::checkpoints::Checkpoints;
pub use self::decisions::Decisions;
pub use self::frequencies::Frequencies;
pub use self::generations::Generations;
pub use self::keys::Keys;
pub use self::removal::{KeptDuplicate, RecordVersion, RemovalCondition};
pub use self::snapshot::SnapshotReader;
pub use self::tasks::Tasks;

use self::content::{Content, HashKey};
use self::generations::{GenerationState, PairSource};
use self::stages::{Span, Stage};
use doppel_core::collection::{CollectionName, Keep, Settings};
use doppel_core::index::{Ball, IndexFull, Via};
pub use doppel_core::numbers::{GenerationId, Seq};
use doppel_core::record::RecordId;
use doppel_core::schemes::Signature;
use doppel_core::schemes::profile::{Digest, Signed};
use doppel_core::verdict::{Fingerprint, Match, Verdict, VerdictKind};

/// Names a collection for ever: given when it is created, and never again, not to one created under the same name later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CollectionNumber(pub u32);

impl CollectionNumber {
    /// The one after it.
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

/// A collection as the store knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CollectionState {
    /// Which one it is. Two states are of one collection if they have the same number, whatever their names and times. Not
    /// encoded: a store keeps it in the collection's keys.
    #[serde(skip)]
    pub number: CollectionNumber,
    /// Its name.
    pub name: CollectionName,
    /// Its settings.
    pub settings: Settings,
    /// The generation that answers.
    pub generation: GenerationId,
    /// Digest of the profile the generation was built with, in hexadecimal.
    pub profile: String,
    /// When it was created (RFC 3339, UTC), by the clock of whoever created it: to be shown, not to be compared.
    pub created_at: String,
    /// When the live generation was begun, where that was later (RFC 3339, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_since: Option<String>,
    /// [`GenerationState::scan_end`] of the live generation: 0 for the first.
    #[serde(default)]
    pub scan_end: Seq,
    /// The generations whose pairs together are the pairs of the collection, while the live generation lacks pairs of records that
    /// were registered under another one. Empty: the live generation has all pairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pair_sources: Vec<PairSource>,
    /// Version of its document frequencies in force; 0: none were counted yet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub frequencies: u32,
    /// What the hashes of its contents are keyed by, where no text is kept.
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
    /// A new collection, with its first generation.
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

/// A new collection, or new settings of one.
#[derive(Clone, Debug)]
pub struct CollectionSpec {
    /// Its name.
    pub name: CollectionName,
    /// Its settings, validated.
    pub settings: Settings,
    /// Digest of the profile, in hexadecimal.
    pub profile: String,
    /// [`CollectionState::hash_key`] of a new one; one that exists keeps its own.
    pub hash_key: Option<HashKey>,
    /// When (RFC 3339, UTC).
    pub now: String,
}

/// A record as stored.
#[derive(Clone, Debug)]
pub struct StoredRecord {
    /// Its id.
    pub id: RecordId,
    /// Its position in commit order.
    pub seq: Seq,
    /// Its content.
    pub content: Content,
    /// Its digest as the generation `digest_generation` read it. Another one may read another text: what the digest is there,
    /// its row says.
    pub digest: Digest,
    /// Whose `digest` is: of the generation that was live when the record was stored or last updated, or of the one that a
    /// candidate is shown for; 0 where that is not known. Not that of the verdict, which outlasts updates.
    pub digest_generation: GenerationId,
    /// The verdict it was given. `Match::seq` inside is not kept.
    pub verdict: Verdict,
    /// The seq of `verdict.duplicate_of` at the time of the verdict: shows whether that record is still the same.
    pub duplicate_of_seq: Option<Seq>,
    /// When it was stored or last updated (RFC 3339, UTC).
    pub stored_at: String,
}

/// A record to be registered, signed.
#[derive(Clone, Debug)]
pub struct Registration {
    /// Where.
    pub collection: CollectionName,
    /// The generation whose profile signed it; another live one gives [`StoreError::StaleGeneration`].
    pub generation: GenerationId,
    /// Under which id.
    pub id: RecordId,
    /// Its content, as far as the collection keeps it; another than it keeps gives [`StoreError::StaleGeneration`].
    pub content: Content,
    /// Its signatures.
    pub signed: Arc<Signed>,
    /// Its signatures for each standby generation, ascending; others than there are give [`StoreError::StaleGeneration`].
    pub others: Vec<(GenerationId, Arc<Signed>)>,
    /// Records that match by decision, whatever the index says: candidates by [`Via::DECISION`].
    pub confirmed: Vec<RecordId>,
    /// Records that do not match by decision: the judge knows.
    pub refused: Vec<RecordId>,
    /// As of when the decisions are that it rests on (see [`Decisions::decisions_as_of`]); a later change of one about it gives
    /// [`StoreError::StaleGeneration`].
    pub decisions_as_of: Option<Seq>,
    /// What to do when the id is taken or a duplicate is found.
    pub mode: Mode,
    /// Whether the id is for this content alone: where it is taken with other content, that stays, and the answer is
    /// [`StoreError::IdTaken`].
    pub write_once: bool,
    /// When (RFC 3339, UTC).
    pub now: String,
    /// Notified when the registration is sequenced.
    pub sequenced: SequencedNotifier,
}

impl Registration {
    /// The generations that it is signed for, the live one first.
    pub fn generations(&self) -> impl Iterator<Item = (GenerationId, &Signed)> {
        let others = self.others.iter().map(|(generation, signed)| (*generation, signed.as_ref()));
        std::iter::once((self.generation, self.signed.as_ref())).chain(others)
    }

    /// The standby generations that it is signed for.
    pub fn standby(&self) -> Vec<GenerationId> {
        self.others.iter().map(|(generation, _)| *generation).collect()
    }
}

/// Notifies a waiter that a registration is sequenced: of those begun later, none that could match it precedes it in commit
/// order. A store calls [`SequencedNotifier::notify`] as soon as that is so. One that never does notifies by dropping the
/// registration when it has ended.
#[derive(Clone, Debug, Default)]
pub struct SequencedNotifier(Option<Arc<parking_lot::Mutex<Option<oneshot::Sender<()>>>>>);

impl SequencedNotifier {
    /// With the end on which to wait. The wait ends at the latest when all copies are dropped.
    pub fn new() -> (Self, oneshot::Receiver<()>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Some(Arc::new(parking_lot::Mutex::new(Some(sender))))), receiver)
    }

    /// Whether somebody may be waiting.
    pub fn is_awaited(&self) -> bool {
        self.0.as_ref().is_some_and(|sender| sender.lock().is_some())
    }

    /// The registration is sequenced. Further calls do nothing.
    pub fn notify(&self) {
        if let Some(sender) = self.0.as_ref().and_then(|sender| sender.lock().take()) {
            // Nobody need be waiting.
            let _ = sender.send(());
        }
    }
}

/// When a record came in, and what it was found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its seq.
    pub seq: Seq,
    /// When its present content was stored, RFC 3339.
    pub stored_at: String,
    /// The verdict that it was given.
    pub verdict: VerdictKind,
}

/// What a registration does when the id is taken, or when it turns out a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Replace what is there (see [`Registered`]); keep duplicates.
    Put,
    /// As `Put`, but store nothing when there is a duplicate.
    SkipDuplicate,
}

/// How a registration ended.
#[derive(Clone, Debug)]
pub enum Registered {
    /// Stored under a new id.
    Created(StoredRecord),
    /// The id was there with another digest, in the live generation or in a standby one that has the record filed: removed,
    /// and registered anew with a new seq, never matching itself.
    Replaced(StoredRecord),
    /// The id was there with the same digest in every generation that has it filed, other fields differed: content updated, seq
    /// and verdict kept. Generations that have not are filed along, under the new content.
    Updated(StoredRecord),
    /// The id was there with the same content: nothing done.
    Unchanged(StoredRecord),
    /// [`Mode::SkipDuplicate`] and a duplicate was found: nothing stored.
    Skipped(Verdict),
}

/// A record that the index proposed, with what a judge may look at.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The record, its verdict blank: it may not be known yet, and no rule may depend on it.
    pub record: &'a StoredRecord,
    /// What proposed it.
    pub via: Via,
    /// Its fingerprint, if it has one.
    pub fingerprint: Option<Fingerprint>,
    /// Its signatures, one per channel; empty unless [`Judge::needs_signatures`].
    pub signatures: &'a [Option<Signature>],
    /// Whether its seq names this content for ever: the record is published, in a store that never reuses a seq.
    pub seq_is_immutable: bool,
}

/// Decides about candidates: the rules of the engine, asked by the store.
pub trait Judge: Send + Sync {
    /// The match, if `candidate` is one. Pure; may take as long as reading two texts.
    fn judge(&self, candidate: &Candidate<'_>) -> Option<Match>;

    /// Whether a record can be ruled out before it is loaded, from what is remembered of it. Only asked about records of which
    /// [`Candidate::seq_is_immutable`] would be true.
    fn dismisses(&self, _seq: Seq, _via: Via) -> bool {
        false
    }

    /// Told which records [`Judge::dismisses`] will be asked about next, so that what is remembered of them can be fetched together.
    /// Nothing depends on it.
    fn expects(&self, _seqs: &[Seq]) {}

    /// Called when the record judged for is published under `seq`, in a store that never reuses a seq; before the answer goes
    /// out. Takes microseconds.
    fn stored(&self, _seq: Seq) {}

    /// Called with when a stage of the store's work for this record began and ended, once for each stage that it had; for measuring. Takes
    /// less than a microsecond, and does not block.
    fn took(&self, _stage: Stage, _span: Span) {}

    /// Whether [`Candidate::signatures`] must be filled; the same for all judges of one generation.
    fn needs_signatures(&self) -> bool;

    /// The verdict drawn from all matches.
    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict;
}

/// A lookup that stores nothing.
#[derive(Clone, Debug)]
pub struct Query {
    /// Where.
    pub collection: CollectionName,
    /// The generation whose profile signed it.
    pub generation: GenerationId,
    /// The digest, unless only a fingerprint is asked about.
    pub digest: Option<Digest>,
    /// Fingerprints near one.
    pub ball: Option<Ball>,
    /// Posting keys.
    pub signed: Option<Arc<Signed>>,
    /// A record that is not to be found: the one asked about.
    pub except: Option<RecordId>,
    /// Records that match by decision, whatever the index says: candidates by [`Via::DECISION`].
    pub confirmed: Vec<RecordId>,
}

/// How far a lookup goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Any one match answers the question.
    FirstMatch,
    /// All of them.
    Exhausted,
}

/// What a lookup found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Matches, in the order found.
    pub matches: Vec<Match>,
    /// Whether a limit cut the search short.
    pub truncated: bool,
}

/// What a store holds, in bytes and records.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Live records over all collections.
    pub records: u64,
    /// Bytes of all in-memory indexes.
    pub index_bytes: u64,
    /// Bytes on disk, some seconds ago.
    pub disk_bytes: u64,
    /// Bytes free on the volume.
    pub free_bytes: u64,
}

/// What an examination of a store found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExaminationReport {
    /// Records.
    pub records: u64,
    /// Entries of pages.
    pub entries: u64,
    /// What is wrong: collection, record, and what in words.
    pub faults: Vec<(String, String, String)>,
    /// How many of the records with faults were mended.
    pub mended: u64,
}

/// Why a store refused.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No such collection.
    #[error("collection {0} does not exist")]
    UnknownCollection(CollectionName),
    /// The collection is there already.
    #[error("collection {0} exists already")]
    CollectionExists(CollectionName),
    /// A decision about a record that is not there.
    #[error("no record has the id {0}")]
    UnknownRecord(RecordId),
    /// A [`Registration::write_once`] under an id that has other content.
    #[error("the id {0} is taken by a record with other content")]
    IdTaken(RecordId),
    /// The settings would change the profile of a collection with records.
    #[error("the new settings change signatures, and collection {0} has records; send them to POST /v1/admin/reindex")]
    ProfileConflict(CollectionName),
    /// The settings would keep more of records, or less, than the collection was made for.
    #[error(
        "collection {name} was made with \"keep\": \"{kept}\", which cannot be changed: what was left out cannot be had again, and \
         what was kept is in backups; make another collection for records that are kept otherwise",
        kept = keep.name()
    )]
    KeepConflict {
        /// Of which collection.
        name: CollectionName,
        /// What it was made with.
        keep: Keep,
    },
    /// The caller signed for other generations than there are; read the collection again and repeat.
    #[error("the collection's generations are not those that generation {given} was signed beside; {live} is live")]
    StaleGeneration {
        /// Signed with.
        given: GenerationId,
        /// Live.
        live: GenerationId,
    },
    /// No such generation beside the live one.
    #[error("collection {collection} has no generation {generation} beside the live one")]
    UnknownGeneration {
        /// Of which collection.
        collection: CollectionName,
        /// Which one.
        generation: GenerationId,
    },
    /// Asked for is a generation beside the live one, and this one is live.
    #[error("generation {0} is the live one; name one beside it, or activate another one first")]
    GenerationLive(GenerationId),
    /// The generation is not complete yet.
    #[error("generation {0} is still being built; wait for its task to end, or cancel it")]
    GenerationBuilding(GenerationId),
    /// The collection has as many generations as it may, the live one included.
    #[error("the collection has {most} generations, the most there can be; drop one first")]
    TooManyGenerations {
        /// The limit.
        most: usize,
    },
    /// As many rulings about a pair are kept as may be.
    #[error("{most} rulings about these two records are kept, the most there can be; the last one holds")]
    TooManyRulings {
        /// The limit.
        most: usize,
    },
    /// Document frequencies are too large to be written at once.
    #[error("document frequencies of {given} bytes are given, at most {most} are kept; keep fewer of them")]
    FrequenciesTooLarge {
        /// Bytes given.
        given: usize,
        /// The limit, in bytes.
        most: usize,
    },
    /// Not all changes behind the number asked from are known: they are logged no more, or the number is above the last one.
    #[error(
        "changes of collection {collection} from {after} on are not all known any more; read its records anew, then go on from \
         {last}"
    )]
    ChangesForgotten {
        /// Of which collection.
        collection: CollectionName,
        /// The number asked from.
        after: Seq,
        /// The number of its last change: whoever reads all records and decisions behind this answer goes on from here.
        last: Seq,
    },
    /// The index of a generation takes no further record.
    #[error(transparent)]
    IndexFull(#[from] IndexFull),
    /// Only an empty collection can be filled in bulk.
    #[error("collection {0} has records; only an empty one can be filled")]
    NotEmpty(CollectionName),
    /// The volume is full: nothing was written, reads go on. One that fills up during a write gives [`StoreError::Unknown`].
    #[error(
        "{free} bytes are free on the data volume, {needed} must stay free; make room, writes resume by themselves"
    )]
    DiskFull {
        /// Bytes free.
        free: u64,
        /// Bytes that must stay free.
        needed: u64,
    },
    /// The store cannot be used now; it mends itself or waits for its server.
    #[error("the store is not available: {reason}")]
    Unavailable {
        /// What is the matter.
        reason: String,
        /// Seconds after which trying again makes sense.
        retry_after_s: u32,
    },
    /// This kind of store does not do that.
    #[error("{0}")]
    Unsupported(&'static str),
    /// It is open whether the change was made. Repeating the call is safe.
    #[error("the outcome of the write is unknown: {0}; repeat it")]
    Unknown(String),
    /// The data on disk is not what it should be, or a bug.
    #[error("store failure: {0}")]
    Internal(String),
}

/// Shorthand.
pub type Result<T> = std::result::Result<T, StoreError>;

/// Keeps records and answers lookups; see the module for its promises.
#[async_trait]
pub trait Store:
    Changes + Generations + Decisions + Tasks + Frequencies + Checkpoints + Keys + Send + Sync + 'static
{
    /// Creates a collection with its first generation (1).
    ///
    /// # Errors
    /// `CollectionExists`.
    async fn create_collection(&self, spec: CollectionSpec) -> Result<Arc<CollectionState>>;

    /// Gives a collection new settings. A new profile is allowed only while it has no records, and starts a new generation.
    ///
    /// # Errors
    /// `UnknownCollection`; `KeepConflict` where they keep something else; `ProfileConflict` where the profile is another and there
    /// are records.
    async fn update_collection(&self, spec: CollectionSpec) -> Result<Arc<CollectionState>>;

    /// The collection, if it exists. Asked on every request: an in-memory answer, shared and not copied.
    ///
    /// # Errors
    /// `Unavailable` where the store is closed or cannot be asked; a name that no collection has is `None`.
    async fn collection(&self, name: &CollectionName) -> Result<Option<Arc<CollectionState>>>;

    /// All collections, by name.
    ///
    /// # Errors
    /// Nothing but what every call may give.
    async fn collections(&self) -> Result<Vec<Arc<CollectionState>>>;

    /// Number of live records of a collection.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn count(&self, name: &CollectionName) -> Result<u64>;

    /// Removes a collection with everything in it; whether it was there.
    ///
    /// # Errors
    /// Nothing but what every change may give; a name that no collection has is `false`.
    async fn drop_collection(&self, name: &CollectionName) -> Result<bool>;

    /// Looks up and inserts in one atomic step.
    ///
    /// # Errors
    /// `UnknownCollection`; `StaleGeneration` when the collection has other generations than it is signed for, or keeps another kind of
    /// content; `IdTaken` where it is written once and other content has the id; `IndexFull`.
    async fn register(&self, registration: Registration, judge: Arc<dyn Judge>) -> Result<Registered>;

    /// Removes a record everywhere, with all decisions about it; whether it was there.
    ///
    /// # Errors
    /// `UnknownCollection`. An id that no record has is `false`.
    async fn remove(&self, collection: &CollectionName, id: &RecordId) -> Result<bool>;

    /// Removes a record everywhere if `condition` holds; true if the record was removed. The condition is compared with what is
    /// stored in the same atomic step as the removal: a change that was acknowledged before the removal is never lost to it.
    ///
    /// # Errors
    /// `UnknownCollection`. A condition that does not hold, and an id that no record has, give `false`.
    async fn remove_if(&self, collection: &CollectionName, id: &RecordId, condition: RemovalCondition) -> Result<bool>;

    /// Looks up without storing.
    ///
    /// # Errors
    /// `UnknownCollection`; `StaleGeneration` when another generation is live than the query is signed for.
    async fn find(&self, query: Query, judge: Arc<dyn Judge>, until: Until) -> Result<Found>;

    /// One record.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn record(&self, collection: &CollectionName, id: &RecordId) -> Result<Option<StoredRecord>>;

    /// Up to `limit` records with a seq above `after`, in seq order.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn records(&self, collection: &CollectionName, after: Seq, limit: usize) -> Result<Vec<StoredRecord>>;

    /// Those of the records with these seqs that are there, in seq order, each once. All rows are in memory at the same time: ask
    /// for some hundred at most.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn records_at(&self, collection: &CollectionName, seqs: &[Seq]) -> Result<Vec<StoredRecord>>;

    /// When the records with a seq from `first` on and before `end` came in, and their verdicts, in seq order.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn arrivals(&self, collection: &CollectionName, first: Seq, end: Seq) -> Result<Vec<Arrival>> {
        let seqs: Vec<Seq> = (first.0..end.0).map(Seq).collect();
        let records = self.records_at(collection, &seqs).await?;
        let arrival = |record: StoredRecord| Arrival {
            seq: record.seq,
            stored_at: record.stored_at,
            verdict: record.verdict.kind,
        };
        Ok(records.into_iter().map(arrival).collect())
    }

    /// Whether writes would be accepted now; the error says why not.
    ///
    /// # Errors
    /// `DiskFull` or `Unavailable`: what a registration would be given now.
    async fn ready(&self) -> Result<()>;

    /// Whether there is room for more than records, such as an index beside them, which leaves to registrations what they need. Cheap.
    ///
    /// # Errors
    /// `DiskFull`, or `Unavailable` where the store's directory is gone. A store on other machines does not know.
    async fn check_room(&self) -> Result<()> {
        Ok(())
    }

    /// What it holds. Costs a walk over the indexes' bookkeeping, not over their entries.
    ///
    /// # Errors
    /// Nothing but what every call may give.
    async fn usage(&self) -> Result<Usage>;

    /// Shows all that it holds at this moment, see [`snapshot`].
    ///
    /// # Errors
    /// `Unsupported` where it is copied by other means.
    async fn snapshot(&self) -> Result<Box<dyn SnapshotReader>>;

    /// Finishes what was begun, syncs and closes. Calls after it fail with [`StoreError::Unavailable`].
    ///
    /// # Errors
    /// `Unavailable` where it does not come to an end in time, `Internal` when the last sync fails; it is closed all the same.
    async fn close(&self) -> Result<()>;
}
