//! Pending changes: registrations and removals that are sequenced and not published, and their outcomes.
//!
//! A match with a record that is not published yet, or that is being removed, holds only if this other change ends in a certain
//! way: its [`MatchCondition`] is the [`CommitOutcome`] of the other change. The condition is checked when the change with the match is
//! settled, after all changes that were sequenced before it.

use std::sync::{Arc, OnceLock};

use super::layout::IndexEntry;
use doppel_core::schemes::profile::Signed;
use doppel_store::{GenerationId, Seq, StoredRecord};

/// True if a sequenced change is part of a batch. Unknown until the committer has settled the change.
#[derive(Debug, Default)]
pub(super) struct CommitOutcome(OnceLock<bool>);

impl CommitOutcome {
    /// Sets the outcome. Only the committer calls it, once for each change.
    pub(super) fn settle(&self, committed: bool) {
        // The two parts of a replacement share one outcome.
        let _ = self.0.set(committed);
    }

    pub(super) fn is_committed(&self) -> bool {
        self.0.get() == Some(&true)
    }

    pub(super) fn is_rolled_back(&self) -> bool {
        self.0.get() == Some(&false)
    }
}

#[derive(Debug)]
pub(super) enum MatchCondition {
    /// The match holds if a registration is committed.
    Committed(Arc<CommitOutcome>),
    /// The match holds if a removal is rolled back.
    RolledBack(Arc<CommitOutcome>),
}

impl MatchCondition {
    /// True if the match holds. The change that it depends on must be settled.
    pub(super) fn holds(&self) -> bool {
        match self {
            Self::Committed(outcome) => outcome.is_committed(),
            Self::RolledBack(outcome) => outcome.is_rolled_back(),
        }
    }
}

/// A registration that is in the index and not yet published.
#[derive(Debug)]
pub(super) struct PendingRegistration {
    pub(super) outcome: Arc<CommitOutcome>,
    /// The record without its verdict, which may not be known yet.
    pub(super) record: StoredRecord,
    /// The generation that was live when the registration was sequenced, in which it is judged.
    pub(super) generation: GenerationId,
    pub(super) signed: Arc<Signed>,
    /// The signatures for the standby generations.
    pub(super) standby: Vec<(GenerationId, Arc<Signed>)>,
}

impl PendingRegistration {
    /// Returns the signatures for each generation that existed when the registration was sequenced.
    pub(super) fn signatures(&self) -> impl Iterator<Item = (GenerationId, &Arc<Signed>)> {
        let standby = self.standby.iter().map(|(generation, signed)| (*generation, signed));
        std::iter::once((self.generation, &self.signed)).chain(standby)
    }

    /// Returns the signatures for one generation.
    pub(super) fn signed_for(&self, generation: GenerationId) -> Option<&Arc<Signed>> {
        self.signatures().find(|(id, _)| *id == generation).map(|(_, signed)| signed)
    }
}

/// A published record that is removed or replaced, unless the change is rolled back.
#[derive(Debug)]
pub(super) struct PendingRemoval {
    pub(super) seq: Seq,
    pub(super) outcome: Arc<CommitOutcome>,
    /// The entries in the generations: the entries that were known when the removal was sequenced; after it is settled, all.
    pub(super) entries: Vec<(GenerationId, IndexEntry)>,
}

impl PendingRemoval {
    pub(super) fn entry(&self, generation: GenerationId) -> Option<&IndexEntry> {
        self.entries.iter().find(|(id, _)| *id == generation).map(|(_, entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_holds_only_after_the_other_change_has_the_required_outcome() {
        for (settled, committed, rolled_back) in
            [(None, false, false), (Some(true), true, false), (Some(false), false, true)]
        {
            let outcome = Arc::new(CommitOutcome::default());
            settled.into_iter().for_each(|committed| outcome.settle(committed));
            let holds = (
                MatchCondition::Committed(Arc::clone(&outcome)).holds(),
                MatchCondition::RolledBack(Arc::clone(&outcome)).holds(),
            );
            assert_eq!(holds, (committed, rolled_back), "{settled:?}");
        }
    }
}
