//! Matching without a store: records pass through an index in their order, as they would in the service. A reindex, a batch and the
//! question whether two records match have it in common.
//!
//! *Propose* and *file* a record, one after the other, microseconds each; *judge* what is proposed, on any thread.

use std::sync::Arc;

use crate::Result;
use crate::context::{Context, Subject};
use crate::decisions::Rulings;
use crate::judge::RecordJudge;
use doppel_core::index::{Entry, GenerationIndex, Proposal, Proposals};
use doppel_core::schemes::Signature;
use doppel_core::schemes::profile::Signed;
use doppel_core::verdict::Match;
use doppel_store::{Candidate, Judge, Seq, StoreError, StoredRecord};

/// An index of records that are told apart by their seqs. Safe to share.
pub(super) struct Matcher {
    pub(super) context: Arc<Context>,
    index: GenerationIndex,
}

impl Matcher {
    /// With nothing filed.
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self { context, index: GenerationIndex::new() }
    }

    /// Files records as a generation has them filed, with seqs above those filed before.
    ///
    /// # Errors
    /// `IndexFull`.
    pub(super) fn load(&self, entries: Vec<Entry>) -> Result<()> {
        Ok(self.index.load(entries, |_| ()).map(drop).map_err(StoreError::from)?)
    }

    /// What the records filed before propose for one that is filed now. One call at a time, `seq` ascending.
    ///
    /// # Errors
    /// `IndexFull`.
    pub(super) fn place(&self, seq: Seq, signed: &Signed) -> Result<Proposals> {
        let proposals = self.propose(signed);
        self.index.insert_signed(seq, signed).map_err(StoreError::from)?;
        Ok(proposals)
    }

    /// What the records filed so far propose.
    pub(super) fn propose(&self, signed: &Signed) -> Proposals {
        self.index.propose(&self.context.lookup(signed))
    }

    /// A record with what is proposed for it. What people decided is left out: it is no property of a generation.
    pub(super) fn case(&self, seq: Seq, subject: Subject, proposals: Proposals) -> Case {
        let judge = RecordJudge::new(Arc::clone(&self.context), subject, Rulings::default());
        Case { seq, judge, proposals }
    }

    /// Bytes of its index.
    pub(super) fn memory_usage(&self) -> usize {
        self.index.memory_usage().total()
    }
}

/// A record with what is proposed for it.
pub(super) struct Case {
    pub(super) seq: Seq,
    judge: RecordJudge,
    pub(super) proposals: Proposals,
}

impl Case {
    /// Leaves out what need not be read to be ruled out, and remembers the record for those after it.
    pub(super) fn dismiss(&mut self) {
        self.judge.stored(self.seq);
        self.judge.expects(&self.proposals.items.iter().map(|proposal| proposal.seq).collect::<Vec<_>>());
        self.proposals.items.retain(|proposal| !self.judge.dismisses(proposal.seq, proposal.via));
    }

    /// The match with what was proposed, if it is one. `signatures` may be empty unless the context needs them.
    pub(super) fn judge(
        &self,
        &Proposal { via, fingerprint, .. }: &Proposal,
        record: &StoredRecord,
        signatures: &[Option<Signature>],
    ) -> Option<Match> {
        self.judge.judge(&Candidate { record, via, fingerprint, signatures, seq_is_immutable: true })
    }
}
