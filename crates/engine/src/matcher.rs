//! Matching without a store: records pass through an index in their order, as in the service. A reindex, a batch and the test whether two
//! records match use this module.
//!
//! The caller *proposes* candidates for a record and then *inserts* the record, one record after the other, in microseconds each.
//! Candidates are *judged* on any thread.

use std::sync::Arc;

use crate::Result;
use crate::context::{Context, SignedRow};
use crate::decisions::RecordRulings;
use crate::judge::RecordJudge;
use doppel_core::index::{Entry, GenerationIndex, Proposal, Proposals};
use doppel_core::schemes::Signature;
use doppel_core::schemes::profile::Signed;
use doppel_core::text::Document;
use doppel_core::verdict::Match;
use doppel_store::{CandidateJudge, CandidateRecord, Seq, StoreError, StoredRecord};

/// An index of records, which are identified by their seqs. It may be shared between threads.
pub(super) struct RecordMatcher {
    pub(super) context: Arc<Context>,
    index: GenerationIndex,
}

impl RecordMatcher {
    /// Creates an empty index.
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self { context, index: GenerationIndex::new() }
    }

    /// Loads records with the index entries of a generation. Their seqs are greater than all earlier seqs.
    ///
    /// # Errors
    /// `IndexFull`.
    pub(super) fn load(&self, entries: Vec<Entry>) -> Result<()> {
        Ok(self.index.load(entries, |_| ()).map(drop).map_err(StoreError::from)?)
    }

    /// Returns the earlier records that the index proposes for a record, and inserts the record. One call at a time, with ascending `seq`.
    ///
    /// # Errors
    /// `IndexFull`.
    pub(super) fn place(&self, seq: Seq, signed: &Signed) -> Result<Proposals> {
        let proposals = self.propose(signed);
        self.index.insert_signed(seq, signed).map_err(StoreError::from)?;
        Ok(proposals)
    }

    /// Returns the records that the index proposes.
    pub(super) fn propose(&self, signed: &Signed) -> Proposals {
        self.index.propose(&self.context.lookup(signed))
    }

    /// Combines a record with its proposals. Decisions of people are left out, because they belong to no generation.
    pub(super) fn case(&self, seq: Seq, subject: SignedRow, proposals: Proposals) -> MatchCase {
        let judge = RecordJudge::new(Arc::clone(&self.context), subject, RecordRulings::default());
        MatchCase { seq, judge: judge.ignoring_status(), proposals }
    }

    /// Returns the size of the index in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        self.index.memory_usage().total()
    }
}

/// A record with the proposals of the index.
pub(super) struct MatchCase {
    pub(super) seq: Seq,
    judge: RecordJudge,
    pub(super) proposals: Proposals,
}

impl MatchCase {
    /// Returns the text of the record.
    pub(super) fn document(&self) -> &Document {
        self.judge.document()
    }

    /// Removes proposals that can be refused without reading the record, and stores the sketch of the record for later records.
    pub(super) fn dismiss(&mut self) {
        self.judge.stored(self.seq);
        self.judge.expects(&self.proposals.items.iter().map(|proposal| proposal.seq).collect::<Vec<_>>());
        self.proposals.items.retain(|proposal| !self.judge.dismisses(proposal.seq, proposal.via));
    }

    /// Judges one proposal. `signatures` may be empty if the context does not need them.
    pub(super) fn judge(
        &self,
        proposal: &Proposal,
        record: &StoredRecord,
        signatures: &[Option<Signature>],
    ) -> Option<Match> {
        let Proposal { via, fingerprint, .. } = *proposal;
        self.judge.judge(&CandidateRecord { record, via, fingerprint, signatures, seq_is_immutable: true })
    }
}

/// True if the scores match two stored records, in an index that contains only these two.
pub(super) fn would_match(context: &Arc<Context>, record: &StoredRecord, earlier: &StoredRecord) -> bool {
    let (Some(ours), Some(theirs)) = (subject_of(context, record), subject_of(context, earlier)) else { return false };
    let alone = RecordMatcher::new(Arc::clone(context));
    if alone.place(earlier.seq, &theirs.signed).is_err() {
        return false;
    }
    let proposals = alone.propose(&ours.signed);
    let case = alone.case(record.seq, ours, proposals);
    case.proposals.items.iter().any(|proposal| case.judge(proposal, earlier, &theirs.signed.signatures).is_some())
}

fn subject_of(context: &Context, record: &StoredRecord) -> Option<SignedRow> {
    let (document, signed) = context.sign_stored(record);
    Some(SignedRow { document: document?, signed: Arc::new(signed), named: None })
}
