//! Decisions: people's judgements of pairs of records. A decision names ids and not contents, so that it survives a replacement, a reindex and an
//! export. It is deleted with each of its records and with its collection.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Result, Seq, StoreError};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;

/// Largest number of rulings about one pair. An office with more changes of mind about a pair has a problem that the store cannot solve.
pub const MAX_RULINGS: usize = 1000;

/// Checks that a pair with `kept` rulings may get another one.
///
/// # Errors
/// `TooManyRulings` if `kept` has reached [`MAX_RULINGS`].
pub fn check_rulings(kept: usize) -> Result<()> {
    let most = MAX_RULINGS;
    if kept >= most { Err(StoreError::TooManyRulings { most }) } else { Ok(()) }
}

/// A person's judgement of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// Both records concern the same matter. They match, whatever their scores are.
    Same,
    /// The records concern different matters. They do not match, whatever their scores are.
    NotSame,
    /// The earlier judgement is withdrawn. The scores decide again.
    Withdrawn,
}

/// A judgement with its author and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ruling {
    /// The judgement.
    pub judgement: Judgement,
    /// The person who decided, if known.
    pub by: Option<String>,
    /// The reason, if the person gave one.
    pub note: Option<String>,
    /// The time of the decision (RFC 3339, UTC).
    pub at: String,
}

/// Two different ids, the lower first: a pair has no direction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordPair {
    a: RecordId,
    b: RecordId,
}

impl RecordPair {
    /// The pair of two ids; `None` when they are equal.
    pub fn new(one: RecordId, other: RecordId) -> Option<Self> {
        match one.cmp(&other) {
            std::cmp::Ordering::Less => Some(Self { a: one, b: other }),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(Self { a: other, b: one }),
        }
    }

    /// The lower id.
    pub fn a(&self) -> &RecordId {
        &self.a
    }

    /// The higher id.
    pub fn b(&self) -> &RecordId {
        &self.b
    }

    /// The id that is not `id`, if `id` is one of the two.
    pub fn other(&self, id: &RecordId) -> Option<&RecordId> {
        if *id == self.a { Some(&self.b) } else { (*id == self.b).then_some(&self.a) }
    }
}

/// All rulings about a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The two records.
    pub pair: RecordPair,
    /// The rulings in order. Never empty; the last ruling is in force.
    pub rulings: Vec<Ruling>,
}

impl Decision {
    /// Returns true for `Same` and false for `NotSame`; `None` if the decision was withdrawn.
    pub fn same(&self) -> Option<bool> {
        match self.rulings.last()?.judgement {
            Judgement::Same => Some(true),
            Judgement::NotSame => Some(false),
            Judgement::Withdrawn => None,
        }
    }
}

/// The decisions of a store.
#[async_trait]
pub trait Decisions {
    /// Adds a ruling about a pair, and returns all rulings about the pair, including rulings that other callers made at the same time. The records do not need to
    /// exist. [`Store::remove`](super::Store::remove) deletes the rulings about a record; a replacement of the record keeps them.
    ///
    /// # Errors
    /// `UnknownCollection`; `TooManyRulings` at [`MAX_RULINGS`].
    async fn decide(&self, name: &CollectionName, pair: RecordPair, ruling: Ruling) -> Result<Decision>;

    /// Returns the decision about a pair.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn decision(&self, name: &CollectionName, pair: &RecordPair) -> Result<Option<Decision>>;

    /// Returns the seq of the last change of a decision that this process knows, 0 if there was none. A caller asks this before
    /// [`Decisions::decisions_of`] and passes the value with its registration, so that the store can refuse a registration that is based on outdated
    /// decisions. `None` if the store always knows the latest decisions. Answered from memory.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn decisions_as_of(&self, name: &CollectionName) -> Result<Option<Seq>> {
        let _ = name;
        Ok(None)
    }

    /// Returns all decisions about the record `id`, ordered by the other id.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn decisions_of(&self, name: &CollectionName, id: &RecordId) -> Result<Vec<Decision>>;

    /// Returns at most `limit` decisions of a collection after the pair `after`, ordered by pair.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn decisions(&self, name: &CollectionName, after: Option<&RecordPair>, limit: usize)
    -> Result<Vec<Decision>>;

    /// Replaces the decision about a pair with a complete decision, to move a collection to another store.
    ///
    /// # Errors
    /// `UnknownCollection`. The number of rulings is not checked.
    async fn put_decision(&self, name: &CollectionName, decision: Decision) -> Result<()>;
}
