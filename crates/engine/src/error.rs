//! The reasons why the engine refuses a request.

use crate::PAGE_BYTES;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::violation::Violation;
use doppel_store::{GenerationId, StoreError};

/// The reason why the engine refuses a request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The collection does not exist.
    #[error("collection {0} does not exist; create it with PUT /v1/collections/{0}")]
    UnknownCollection(CollectionName),
    /// The record does not exist.
    #[error("collection {0} has no record with this id")]
    UnknownRecord(CollectionName, RecordId),
    /// The generation does not exist.
    #[error("collection {0} has no generation {1} apart from the live one")]
    UnknownGeneration(CollectionName, GenerationId),
    /// The generation under construction was begun by a version of doppel with other rules.
    #[error(
        "generation {1} of collection {0} was begun by another version of doppel, which has other rules; reindex again"
    )]
    OutdatedGeneration(CollectionName, GenerationId),
    /// The record is in no group.
    #[error("the record is in no group: no record of collection {0} is similar")]
    Ungrouped(CollectionName),
    /// A person decided that these two records are not the same matter.
    #[error("a person decided that records {0} and {1} are not the same matter; withdraw that decision first")]
    RejectedPair(RecordId, RecordId),
    /// A split would reject too many pairs.
    #[error("{0} pairs link these records with the rest, and at most 1000 can be rejected at once; name fewer records")]
    TooManyLinks(usize),
    /// Nobody decided about the pair.
    #[error("collection {0} has no decision about these two records")]
    UnknownDecision(CollectionName),
    /// The settings have no form with this name.
    #[error(
        "collection {0} has no form with this name; GET /v1/collections/{0} lists its forms (settings.verify.forms)"
    )]
    UnknownForm(CollectionName),
    /// The record is in no event.
    #[error("this record of collection {0} is in no event: no other record that is compared reports the same problem")]
    NoEvent(CollectionName),
    /// Others change the handling of an event all the time.
    #[error("the handling of this event in collection {0} was changed by others at the same time; try again")]
    HandlingChanged(CollectionName),
    /// The handling of an event has too many steps.
    #[error("the handling of this event has {0} steps, the most there can be")]
    TooManySteps(usize),
    /// A record that is to be merged into an event is not compared.
    #[error(
        "record {0} is in no event and can be in none: it has no text, or it is one of the earliest records, which are left out"
    )]
    NotCompared(RecordId),
    /// The records of the collection are being read for the first time.
    #[error("the events of collection {collection} are being found: {done} of {all} records are read; ask again later")]
    EventsNotReady { collection: CollectionName, done: u64, all: u64 },
    /// The task does not exist.
    #[error("there is no such task; GET /v1/tasks lists all tasks")]
    UnknownTask,
    /// The collection already has an unfinished task.
    #[error("collection {0} has an unfinished task; wait for it or cancel it: /v1/tasks/{1}")]
    TaskRunning(CollectionName, String),
    /// The record would create the collection, but the largest number of collections that records may create is reached.
    #[error(
        "there are {1} collections, the most that records may create (collections.max_auto_created); create this one \
         with PUT /v1/collections/{0}"
    )]
    TooManyCollections(CollectionName, usize),
    #[error("a key with the name {0:?} exists; revoke it first, or choose another name")]
    KeyExists(String),
    /// No key with this name was created while the service ran.
    #[error("there is no key with the name {0:?}; GET /v1/admin/keys lists the keys that can be revoked")]
    UnknownKey(String),
    /// The largest number of keys is reached.
    #[error("there are {most} keys, the largest number; revoke keys that nobody uses", most = doppel_store::keys::MOST_KEYS)]
    TooManyKeys,
    #[error("an account with the name {0:?} exists; choose another name")]
    AccountExists(String),
    /// No account has this name.
    #[error("there is no account with the name {0:?}; GET /v1/admin/accounts lists the accounts")]
    UnknownAccount(String),
    /// Somebody changed the account after the caller read it.
    #[error(
        "somebody changed the account {0:?} meanwhile, and nothing is stored; read it again and repeat your change"
    )]
    AccountChanged(String),
    /// The largest number of accounts is reached.
    #[error("there are {most} accounts, the largest number; remove accounts of people who left", most = doppel_store::accounts::MOST_ACCOUNTS)]
    TooManyAccounts,
    /// The request is not possible in the present state of the collection or the task.
    #[error("{0}")]
    Conflict(String),
    /// The request needs texts, but the collection keeps no text.
    #[error("{1}: collection {0} keeps no text of its records (\"keep\": \"signatures\")")]
    TextNotKept(CollectionName, &'static str),
    /// The requested rows are too large for one answer.
    #[error("the rows of this answer are more than {} MiB; name the columns you need (fields=title,time) or lower the limit", PAGE_BYTES >> 20)]
    RowsTooLarge,
    /// The request is well-formed but not acceptable.
    #[error("{}", summary(.0))]
    Invalid(Vec<Violation>),
    /// One side of a pair (`a` or `b`) is unknown or not acceptable.
    #[error("{1}")]
    Side(&'static str, Box<Error>),
    /// The store refused.
    #[error(transparent)]
    Store(StoreError),
    /// A bug: a computation ended abnormally.
    #[error("a computation ended abnormally")]
    Crashed,
}

fn summary(violations: &[Violation]) -> String {
    match violations {
        [only] => only.detail.clone(),
        many => format!("the request has {} errors", many.len()),
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::UnknownCollection(name) => Self::UnknownCollection(name),
            StoreError::UnknownGeneration { collection, generation } => Self::UnknownGeneration(collection, generation),
            other => Self::Store(other),
        }
    }
}

/// The result of a call of the engine.
pub type Result<T> = std::result::Result<T, Error>;
