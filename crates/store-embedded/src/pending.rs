//! What is sequenced and not yet published: registrations and removals, and how each of them ends.
//!
//! A match with a record that is not published yet, or is about to be removed, holds only if that change ends one way: its
//! [`Condition`] is that change's [`CommitOutcome`]. It is checked when the change that found the match is settled, which is after
//! every change sequenced before it.

use std::sync::{Arc, OnceLock};

use super::layout::IndexEntry;
use doppel_core::schemes::profile::Signed;
use doppel_store::{GenerationId, Seq, StoredRecord};

/// Whether a sequenced change is part of a batch; not known before the committer has settled it.
#[derive(Debug, Default)]
pub(super) struct CommitOutcome(OnceLock<bool>);

impl CommitOutcome {
    /// Says how it ended; the committer does, once.
    pub(super) fn settle(&self, committed: bool) {
        // The two halves of a replacement share one outcome.
        let _ = self.0.set(committed);
    }

    pub(super) fn is_committed(&self) -> bool {
        self.0.get() == Some(&true)
    }

    pub(super) fn is_rolled_back(&self) -> bool {
        self.0.get() == Some(&false)
    }
}

/// On what a match depends.
#[derive(Debug)]
pub(super) enum Condition {
    /// On a registration that must be committed.
    Committed(Arc<CommitOutcome>),
    /// On a removal that must be rolled back.
    RolledBack(Arc<CommitOutcome>),
}

impl Condition {
    /// Whether the match holds. Asked when the change it depends on is settled.
    pub(super) fn holds(&self) -> bool {
        match self {
            Self::Committed(outcome) => outcome.is_committed(),
            Self::RolledBack(outcome) => outcome.is_rolled_back(),
        }
    }
}

/// A registration that is in the index but not yet published.
#[derive(Debug)]
pub(super) struct PendingRegistration {
    pub(super) outcome: Arc<CommitOutcome>,
    /// Without a verdict: it may not be known yet.
    pub(super) record: StoredRecord,
    /// The generation that was live when it was sequenced: the one it was judged in.
    pub(super) generation: GenerationId,
    pub(super) signed: Arc<Signed>,
    /// Its signatures for the standby generations.
    pub(super) standby: Vec<(GenerationId, Arc<Signed>)>,
}

impl PendingRegistration {
    /// Its signatures for each generation that there was when it was sequenced.
    pub(super) fn signatures(&self) -> impl Iterator<Item = (GenerationId, &Arc<Signed>)> {
        let standby = self.standby.iter().map(|(generation, signed)| (*generation, signed));
        std::iter::once((self.generation, &self.signed)).chain(standby)
    }

    /// Its signatures for one generation.
    pub(super) fn signed_for(&self, generation: GenerationId) -> Option<&Arc<Signed>> {
        self.signatures().find(|(id, _)| *id == generation).map(|(_, signed)| signed)
    }
}

/// A published record that is to be removed or replaced, unless the change is rolled back.
#[derive(Debug)]
pub(super) struct PendingRemoval {
    pub(super) seq: Seq,
    pub(super) outcome: Arc<CommitOutcome>,
    /// How generations have it filed, as far as was known when it was sequenced; when it is settled, all of them.
    pub(super) entries: Vec<(GenerationId, IndexEntry)>,
}

impl PendingRemoval {
    /// How a generation has it filed.
    pub(super) fn entry(&self, generation: GenerationId) -> Option<&IndexEntry> {
        self.entries.iter().find(|(id, _)| *id == generation).map(|(_, entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_holds_when_the_change_it_depends_on_ended_as_it_must_and_not_before_that_is_known() {
        for (settled, committed, rolled_back) in
            [(None, false, false), (Some(true), true, false), (Some(false), false, true)]
        {
            let outcome = Arc::new(CommitOutcome::default());
            settled.into_iter().for_each(|committed| outcome.settle(committed));
            let holds = (
                Condition::Committed(Arc::clone(&outcome)).holds(),
                Condition::RolledBack(Arc::clone(&outcome)).holds(),
            );
            assert_eq!(holds, (committed, rolled_back), "{settled:?}");
        }
    }
}
