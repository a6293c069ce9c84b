//! The use cases: what can be asked of doppel, apart from how it is asked (HTTP, command line) and where it is kept.
//!
//! The engine knows no status code and no file format. It validates, signs with the collection's profile, lets the store
//! look up and insert, and judges what the store proposes.

pub mod answers;

use std::sync::Arc;

use crate::collection::{CollectionName, Settings};
use crate::engine::answers::{Check, Collection, Explanation, Page, RecordView, Registration, SimilarList};
use crate::record::{RecordId, Row};
use crate::store::{Seq, Store, StoreError, Usage};
use crate::verdict::Fingerprint;
use crate::violation::Violation;

/// What to do when a registration finds a duplicate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IfDuplicate {
    /// Store it all the same: the office keeps every record.
    #[default]
    Keep,
    /// Store nothing and say what it repeats.
    Skip,
}

/// One side of an explanation.
#[derive(Clone, Debug)]
pub enum Side {
    /// A stored record.
    Stored(RecordId),
    /// A row given with the question.
    Given(Row),
}

/// Choices of the engine that are not a collection's.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a write to an unknown collection creates it with preset `default`.
    pub auto_create: bool,
}

/// Why the engine refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The collection does not exist.
    #[error("collection {0} does not exist; create it with PUT /v1/collections/{0}")]
    UnknownCollection(CollectionName),
    /// The record does not exist.
    #[error("collection {0} has no record {1}")]
    UnknownRecord(CollectionName, RecordId),
    /// Well-formed but not acceptable.
    #[error("{} problem(s) in the request", .0.len())]
    Invalid(Vec<Violation>),
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;

/// The use cases over one store. Cheap to clone and safe to share.
#[derive(Clone)]
pub struct Engine {
    store: Arc<dyn Store>,
    options: Options,
}

impl Engine {
    /// An engine over `store`.
    pub fn new(store: Arc<dyn Store>, options: Options) -> Self {
        Self { store, options }
    }

    /// Registers `row` under `id`; without one, under the row's own id or a new UUIDv7.
    pub async fn register(
        &self,
        collection: &CollectionName,
        id: Option<RecordId>,
        row: Row,
        if_duplicate: IfDuplicate,
    ) -> Result<Registration> {
        todo!()
    }

    /// "Is this a duplicate?" Stops at the first match, stores nothing.
    pub async fn check(&self, collection: &CollectionName, row: Row) -> Result<Check> {
        todo!()
    }

    /// All records similar to `row`, best first, at most `limit`. Stores nothing. A row whose id is stored does not find itself.
    pub async fn similar(&self, collection: &CollectionName, row: Row, limit: usize) -> Result<SimilarList> {
        todo!()
    }

    /// All records similar to a stored one.
    pub async fn similar_to(&self, collection: &CollectionName, id: &RecordId, limit: usize) -> Result<SimilarList> {
        todo!()
    }

    /// All records whose fingerprint lies within `radius` (the channel's own unless given, 0 to 15), nearest first, unverified.
    pub async fn similar_to_fingerprint(
        &self,
        collection: &CollectionName,
        fingerprint: Fingerprint,
        radius: Option<u8>,
        limit: usize,
    ) -> Result<SimilarList> {
        todo!()
    }

    /// What two records share and where they differ.
    pub async fn explain(&self, collection: &CollectionName, a: Side, b: Side) -> Result<Explanation> {
        todo!()
    }

    /// One record with its verdict.
    pub async fn record(&self, collection: &CollectionName, id: &RecordId) -> Result<RecordView> {
        todo!()
    }

    /// Records with a seq above `after`, in seq order, at most `limit`; the page says where the next begins.
    pub async fn records(&self, collection: &CollectionName, after: Seq, limit: usize) -> Result<Page<RecordView>> {
        todo!()
    }

    /// Removes a record everywhere.
    pub async fn remove(&self, collection: &CollectionName, id: &RecordId) -> Result<()> {
        todo!()
    }

    /// Creates a collection (`true`) or changes its settings (`false`).
    pub async fn put_collection(&self, name: &CollectionName, settings: Settings) -> Result<(Collection, bool)> {
        todo!()
    }

    /// One collection.
    pub async fn collection(&self, name: &CollectionName) -> Result<Collection> {
        todo!()
    }

    /// All collections, by name.
    pub async fn collections(&self) -> Result<Vec<Collection>> {
        todo!()
    }

    /// Removes a collection with everything in it.
    pub async fn drop_collection(&self, name: &CollectionName) -> Result<()> {
        todo!()
    }

    /// Whether writes would be accepted now; the error says why not.
    pub async fn ready(&self) -> Result<()> {
        Ok(self.store.ready().await?)
    }

    /// What the store holds.
    pub async fn usage(&self) -> Result<Usage> {
        Ok(self.store.usage().await?)
    }

    /// Finishes what was begun and lets go of the store.
    pub async fn close(&self) -> Result<()> {
        Ok(self.store.close().await?)
    }
}
