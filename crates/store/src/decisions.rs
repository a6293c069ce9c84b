//! Decisions: the judgements of people about pairs of records. A decision names the ids of records, not their contents. It therefore stays
//! valid when a record is replaced, when the collection is reindexed, and after an export and import. A decision and all its notes are
//! deleted with each of its two records, and with the collection.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Result, Seq, Store, StoreError};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;

/// Number of decisions that are read at a time when a caller reads all decisions of a collection.
const PAGE: usize = 1_000;

/// Largest number of rulings about one pair. An office that needs more rulings must first repair its process.
pub const MAX_RULINGS: usize = 1000;

/// Checks that a pair with `kept` rulings may get another ruling.
///
/// # Errors
/// `TooManyRulings` if `kept` has reached [`MAX_RULINGS`].
pub fn check_rulings(kept: usize) -> Result<()> {
    let most = MAX_RULINGS;
    if kept >= most { Err(StoreError::TooManyRulings { most }) } else { Ok(()) }
}

/// A person's judgement of a pair. `same`: the records concern the same matter. `same_event`: the records report one event, but are not duplicates.
/// `not_same`: the records concern different matters and different events. `withdrawn`: an earlier judgement is withdrawn, and the scores apply
/// again.
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

/// A judgement with its author and time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ruling {
    /// The judgement.
    pub judgement: Judgement,
    /// The person who made the ruling; `null` if unknown.
    pub by: Option<String>,
    /// The reason; `null` if the person gave none.
    pub note: Option<String>,
    /// The time of the ruling (RFC 3339, UTC).
    pub at: String,
    /// The record of the pair that the person chose as the original of the group; only with the judgement `same`.
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
    /// Makes the pair of two ids; `None` if they are equal.
    pub fn new(one: RecordId, other: RecordId) -> Option<Self> {
        match one.cmp(&other) {
            std::cmp::Ordering::Less => Some(Self { a: one, b: other }),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(Self { a: other, b: one }),
        }
    }

    /// Returns the lower id.
    pub fn a(&self) -> &RecordId {
        &self.a
    }

    /// Returns the higher id.
    pub fn b(&self) -> &RecordId {
        &self.b
    }

    /// Returns the other id of the pair; `None` if `id` is not an id of the pair.
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
    /// A seq that is not after the moment at which the person looked at the two records. A record that was replaced later has a higher seq.
    pub as_of: Seq,
}

/// The result of a ruling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RulingOutcome {
    /// The ruling was added; the decision contains it.
    Added(Decision),
    /// The last ruling about the pair says the same: nothing was added.
    Repeated(Decision),
    /// The pair has other rulings than the caller had seen, or has no ruling that could be withdrawn. Nothing was added. `None`: the pair
    /// has no ruling.
    Refused(Option<Decision>),
    /// A record of the pair was replaced after the caller had seen it. Nothing was added. `None`: the pair has no ruling.
    Replaced(Option<Decision>),
}

impl RulingOutcome {
    /// Returns the present decision; `None` if the pair has no ruling.
    pub fn decision(self) -> Option<Decision> {
        match self {
            Self::Added(decision) | Self::Repeated(decision) => Some(decision),
            Self::Refused(decision) | Self::Replaced(decision) => decision,
        }
    }
}

/// The decisions of a store.
#[async_trait]
pub trait DecisionStore {
    /// Adds a ruling about a pair of records. In the same atomic step the store checks that both records exist and, if the caller states
    /// which state of the pair it has seen, that the pair is still in this state. A ruling that says the same as the last ruling adds
    /// nothing. `rules::ruling` contains the rule. [`Store::remove`] deletes the rulings about a record; replacing a record does not.
    ///
    /// # Errors
    /// `UnknownCollection`; `UnknownRecord` for a record that does not exist; `TooManyRulings` at [`MAX_RULINGS`].
    async fn decide(
        &self,
        name: &CollectionName,
        pair: RecordPair,
        ruling: Ruling,
        seen: Option<SeenState>,
    ) -> Result<RulingOutcome>;

    /// Deletes all rulings about a pair if at least one of its records does not exist. Returns true if rulings were deleted. The call
    /// removes decisions that [`DecisionStore::put_decision`] or an earlier version left without a record.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn drop_orphaned_decision(&self, name: &CollectionName, pair: &RecordPair) -> Result<bool>;

    /// Returns the decision about a pair.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn decision(&self, name: &CollectionName, pair: &RecordPair) -> Result<Option<Decision>>;

    /// Returns the seq of the last change of a decision that this process knows, 0 before the first change. A caller reads this seq before
    /// it calls [`DecisionStore::decisions_of`], and passes the seq with its registration, so that the store can refuse a registration that
    /// is based on outdated decisions. `None` if the store always knows the latest decisions. The answer comes from memory.
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

    /// Stores a whole decision and replaces all rulings about its pair: for moving a collection between stores. The records need not exist
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
                // Read again: if a record was deleted after the page was read, its decisions were deleted with it.
                if store.record(name, id).await?.is_none() && store.decision(name, &pair).await?.is_some() {
                    orphaned.push((pair.clone(), id.clone()));
                    break;
                }
            }
        }
    }
}
