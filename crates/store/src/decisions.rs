//! Decisions: what people said about pairs of records. They name ids, not contents, so they outlive replacement, reindexing
//! and export; they are deleted with a record and with their collection.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Result, Seq, StoreError};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;

/// Most rulings kept about one pair; the office that needs more has a process to mend first.
pub const MAX_RULINGS: usize = 1000;

/// Whether a pair about which so many rulings are kept may get another one.
///
/// # Errors
/// `TooManyRulings` from [`MAX_RULINGS`] on.
pub fn check_rulings(kept: usize) -> Result<()> {
    let most = MAX_RULINGS;
    if kept >= most { Err(StoreError::TooManyRulings { most }) } else { Ok(()) }
}

/// What a person says of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// The same matter: a match, whatever the scores say.
    Same,
    /// Not the same matter: no match, whatever the scores say.
    NotSame,
    /// Withdrawn: the scores decide again.
    Withdrawn,
}

/// One judgement, by whom and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ruling {
    /// What was decided.
    pub judgement: Judgement,
    /// Who decided, if it was said.
    pub by: Option<String>,
    /// Why, if it was said.
    pub note: Option<String>,
    /// When (RFC 3339, UTC).
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

/// All that was ruled about a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Which records.
    pub pair: RecordPair,
    /// What was ruled, in order; the last one holds. Never empty.
    pub rulings: Vec<Ruling>,
}

impl Decision {
    /// What holds; `None` when it was withdrawn.
    pub fn same(&self) -> Option<bool> {
        match self.rulings.last()?.judgement {
            Judgement::Same => Some(true),
            Judgement::NotSame => Some(false),
            Judgement::Withdrawn => None,
        }
    }
}

/// Keeping decisions.
#[async_trait]
pub trait Decisions {
    /// Adds a ruling about a pair; all rulings about it, those of others at the same time included. The records need not
    /// exist; [`Store::remove`](super::Store::remove) deletes the rulings about a record, replacing it does not.
    ///
    /// # Errors
    /// `UnknownCollection`; `TooManyRulings` at [`MAX_RULINGS`].
    async fn decide(&self, name: &CollectionName, pair: RecordPair, ruling: Ruling) -> Result<Decision>;

    /// What was ruled about a pair.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn decision(&self, name: &CollectionName, pair: &RecordPair) -> Result<Option<Decision>>;

    /// As of when [`Decisions::decisions_of`] is asked: the seq of the last change of a decision that this process knows of, 0 where
    /// none was ever made. A registration carries it, so that one that rests on earlier decisions is refused. `None` where decisions
    /// are known at once. Answered from memory.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn decisions_as_of(&self, name: &CollectionName) -> Result<Option<Seq>> {
        let _ = name;
        Ok(None)
    }

    /// All decisions that name `id`, ordered by the other id.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn decisions_of(&self, name: &CollectionName, id: &RecordId) -> Result<Vec<Decision>>;

    /// Decisions of a collection after the pair `after`, ordered by pair: at most `limit`.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn decisions(&self, name: &CollectionName, after: Option<&RecordPair>, limit: usize)
    -> Result<Vec<Decision>>;

    /// Puts a whole decision in place of what was ruled about its pair: for moving collections between stores.
    ///
    /// # Errors
    /// `UnknownCollection`. How many rulings there are is not looked at.
    async fn put_decision(&self, name: &CollectionName, decision: Decision) -> Result<()>;
}
