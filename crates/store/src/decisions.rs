//! Decisions: what people said about pairs of records. A decision names ids, not contents, so it outlives replacement, reindexing
//! and export. It is deleted with each of its two records, with all its notes, and with its collection.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Result, Seq, Store, StoreError};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;

/// Decisions read at a time when all decisions of a collection are looked through.
const PAGE: usize = 1_000;

/// Most rulings kept about one pair; the office that needs more has a process to mend first.
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
    /// The records report one event, but neither repeats the other. They do not match, whatever their scores are, and belong to one
    /// event.
    SameEvent,
    /// The records concern different matters. They do not match, whatever their scores are, and belong to different events.
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
    /// The record of the pair that the person chose as the original of its group, with the judgement `same`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = RecordId, required = false))]
    pub original: Option<RecordId>,
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
    /// Returns the judgement that holds; `None` if the decision was withdrawn.
    pub fn holding(&self) -> Option<Judgement> {
        self.rulings.last().map(|ruling| ruling.judgement).filter(|judgement| *judgement != Judgement::Withdrawn)
    }

    /// Returns whether the two records match by the decision; `None` if the decision was withdrawn.
    pub fn same(&self) -> Option<bool> {
        self.holding().map(|judgement| judgement == Judgement::Same)
    }
}

/// The state of a pair on which a person's ruling is based.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenState {
    /// Number of rulings about the pair that the person had seen.
    pub rulings: usize,
    /// Seq of a commit that is not after the person's look at the two records. A record that was replaced since has a higher seq.
    pub as_of: Seq,
}

/// The result of a ruling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RulingOutcome {
    /// The ruling was added; the decision contains it.
    Added(Decision),
    /// The last ruling about the pair says the same: nothing was added.
    Repeated(Decision),
    /// The pair has other rulings than the caller had seen, or has none that could be withdrawn: nothing was added. `None`: nothing is
    /// ruled about the pair.
    Refused(Option<Decision>),
    /// A record of the pair was replaced since the caller had seen it: nothing was added. `None`: nothing is ruled about the pair.
    Replaced(Option<Decision>),
}

impl RulingOutcome {
    /// The decision as it is now; `None` if nothing is ruled about the pair.
    pub fn decision(self) -> Option<Decision> {
        match self {
            Self::Added(decision) | Self::Repeated(decision) => Some(decision),
            Self::Refused(decision) | Self::Replaced(decision) => decision,
        }
    }
}

/// Keeping decisions.
#[async_trait]
pub trait DecisionStore {
    /// Adds a ruling about a pair of records, in one atomic step with the look at what it rests on: both records must be there, and the
    /// pair must be in the state that the caller has seen, if the caller states it. A ruling that says what the last one says adds
    /// nothing. `rules::ruling` is the rule. [`Store::remove`] deletes the rulings about a record; replacing a
    /// record does not.
    ///
    /// # Errors
    /// `UnknownCollection`; `UnknownRecord` for a record that is not there; `TooManyRulings` at [`MAX_RULINGS`].
    async fn decide(
        &self,
        name: &CollectionName,
        pair: RecordPair,
        ruling: Ruling,
        seen: Option<SeenState>,
    ) -> Result<RulingOutcome>;

    /// Deletes all rulings about a pair if at least one of its records is not there; true if rulings were deleted. For decisions that
    /// [`DecisionStore::put_decision`] or an earlier build left without a record.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn drop_orphaned_decision(&self, name: &CollectionName, pair: &RecordPair) -> Result<bool>;

    /// Returns the decision about a pair.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn decision(&self, name: &CollectionName, pair: &RecordPair) -> Result<Option<Decision>>;

    /// Returns the seq of the last change of a decision that this process knows, 0 if there was none. A caller asks this before
    /// [`DecisionStore::decisions_of`] and passes the value with its registration, so that the store can refuse a registration that is based on outdated
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

    /// Stores a whole decision and replaces all rulings about its pair: for moving collections between stores. The records need not exist
    /// yet. A caller that stores decisions before records must call [`DecisionStore::drop_orphaned_decision`] at the end.
    ///
    /// # Errors
    /// `UnknownCollection`. The number of rulings is not checked.
    async fn put_decision(&self, name: &CollectionName, decision: Decision) -> Result<()>;
}

/// Returns the decisions of a collection about a record that does not exist: each pair, with the id of a missing record. Earlier versions
/// left such decisions if a record was deleted during a decision about it. Memory: these pairs.
///
/// # Errors
/// `UnknownCollection`.
pub async fn orphaned_decisions(store: &dyn Store, name: &CollectionName) -> Result<Vec<(RecordPair, RecordId)>> {
    let mut after = None;
    let mut orphaned = Vec::new();
    loop {
        let page = store.decisions(name, after.as_ref(), PAGE).await?;
        let Some(last) = page.last() else { return Ok(orphaned) };
        after = Some(last.pair.clone());
        for Decision { pair, .. } in page {
            for id in [pair.a(), pair.b()] {
                // Read again: a record that was deleted since the page was read took its decisions along.
                if store.record(name, id).await?.is_none() && store.decision(name, &pair).await?.is_some() {
                    orphaned.push((pair.clone(), id.clone()));
                    break;
                }
            }
        }
    }
}
