//! A change of one record, from the call to the committer. It reads the stored record with the id and makes a plan from this record; then
//! it sequences, judges and delivers the change. Registrations, replacements, updates and removals take these steps.
//!
//! Nothing is awaited between sequencing and delivery, so that a caller that stops waiting cannot interrupt a change.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::claims::RecordClaim;
use super::collection::Collection;
use super::conclude::conclude_early;
use super::judging;
use super::layout::{self, IndexEntry};
use super::pending::PendingRemoval;
use super::pipeline::{
    AnswerReceiver, ChangeAnswer, ChangeEffect, ChangeReply, ContentUpdate, JudgedRegistration, PipelineChange,
    RecordChange, RecordRemoval, Ticket,
};
use super::sequencer;
use super::shared_state::SharedState;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::rules::plan::{self as rules, CollectionMoment, FiledDigest, FiledText, StandingRecord, plan};
use doppel_store::stages::{RegistrationStage, StageSpan};
use doppel_store::{
    CandidateJudge, GenerationId, RegisterOutcome, Registration, RemovalCondition, Result, Seq, StoreError,
    StoredRecord,
};

pub(super) enum ChangeRequest<'a> {
    /// Stores, replaces or updates a record.
    Register(&'a Registration, &'a Arc<dyn CandidateJudge>),
    /// Removes a record; if a condition is given, only if the condition holds.
    Remove { collection: &'a CollectionName, id: &'a RecordId, condition: Option<&'a RemovalCondition> },
}

impl ChangeRequest<'_> {
    pub(super) fn collection(&self) -> &CollectionName {
        match self {
            Self::Register(registration, _) => &registration.collection,
            Self::Remove { collection, .. } => collection,
        }
    }

    /// Reports the duration of a stage to the judge, if there is one.
    pub(super) fn took(&self, stage: RegistrationStage, span: StageSpan) {
        if let Self::Register(_, judge) = self {
            judge.took(stage, span);
        }
    }

    pub(super) fn id(&self) -> &RecordId {
        match self {
            Self::Register(registration, _) => &registration.id,
            Self::Remove { id, .. } => id,
        }
    }
}

/// The result of an attempt to begin a change.
pub(super) enum BeginOutcome {
    /// The change is done, or was refused.
    Answered(Result<ChangeAnswer>),
    /// The committer will answer.
    Sent(AnswerReceiver),
    /// The claim belongs to an earlier collection, because the directory was opened again or the collection was dropped.
    CollectionReplaced,
}

/// The plan for a change, which depends on the stored record with the id.
enum ChangePlan<'a> {
    Nothing(ChangeAnswer),
    Store { registration: &'a Registration, judge: &'a Arc<dyn CandidateJudge>, replaced: Option<PendingRemoval> },
    Update { registration: &'a Registration, record: StoredRecord, missing: Vec<GenerationId> },
    Remove { id: &'a RecordId, removal: PendingRemoval, condition: Option<&'a RemovalCondition> },
}

impl SharedState {
    /// Starts a change.
    pub(super) fn begin(
        &self,
        request: &ChangeRequest<'_>,
        claim: RecordClaim,
        permit: OwnedSemaphorePermit,
    ) -> BeginOutcome {
        self.try_begin(request, claim, permit).unwrap_or_else(|error| BeginOutcome::Answered(Err(error)))
    }

    fn try_begin(
        &self,
        request: &ChangeRequest<'_>,
        claim: RecordClaim,
        permit: OwnedSemaphorePermit,
    ) -> Result<BeginOutcome> {
        let began = Instant::now();
        let collection = self.collection(request.collection())?;
        if !claim.is_of(&collection.claims) {
            return Ok(BeginOutcome::CollectionReplaced);
        }
        let plan = self.plan(&collection, request)?;
        let (reply, answer) = oneshot::channel();
        let (ticket, effect) = match plan {
            ChangePlan::Nothing(answer) => return Ok(BeginOutcome::Answered(Ok(answer))),
            ChangePlan::Store { registration, judge, replaced } => {
                self.store(&collection, registration, judge, replaced, began)?
            }
            ChangePlan::Update { registration, record, missing } => {
                let value = layout::encode_record(&record)?;
                let mut filings = Vec::new();
                for (generation, signed) in registration.generations() {
                    if missing.contains(&generation) {
                        filings.push((generation, layout::encode_entry(&IndexEntry::of(signed, true))));
                    }
                }
                let (ticket, number) = sequencer::update(&collection, &self.committer, registration)?;
                registration.sequenced.notify();
                (ticket, ChangeEffect::Update(ContentUpdate { record, value, number, filings }))
            }
            ChangePlan::Remove { id, removal, condition } => {
                match sequencer::remove(&collection, &self.committer, removal) {
                    Some((ticket, number)) => {
                        let condition = condition.cloned().map(Box::new);
                        (ticket, ChangeEffect::Remove(RecordRemoval { id: id.clone(), number, condition }))
                    }
                    None => return Ok(BeginOutcome::Answered(Ok(ChangeAnswer::Removed(false)))),
                }
            }
        };
        let reply = ChangeReply { reply, claim, permit };
        ticket.deliver(|rollback| PipelineChange::Record(Box::new(RecordChange { effect, rollback, reply })));
        Ok(BeginOutcome::Sent(answer))
    }

    /// Sequences and judges a record to be stored. `began` is the time at which its plan began.
    fn store(
        &self,
        collection: &Arc<Collection>,
        registration: &Registration,
        judge: &Arc<dyn CandidateJudge>,
        replaced: Option<PendingRemoval>,
        began: Instant,
    ) -> Result<(Ticket, ChangeEffect)> {
        let (ticket, pending, proposals) = sequencer::store(collection, &self.committer, registration, replaced)?;
        registration.sequenced.notify();
        let proposed = StageSpan::since(began);
        judge.took(RegistrationStage::Propose, proposed);
        let (matches, truncated) = judging::judge(&self.disk, collection, registration, proposals, judge.as_ref())?;
        judge.took(RegistrationStage::Verify, StageSpan::since(proposed.ended));
        let judge = Arc::clone(judge);
        let mode = registration.mode;
        let judged = JudgedRegistration { pending, matches, truncated, judge, mode, conclusion: None };
        Ok((ticket, ChangeEffect::Register(conclude_early(judged))))
    }

    fn plan<'a>(&self, collection: &Collection, request: &ChangeRequest<'a>) -> Result<ChangePlan<'a>> {
        let (live, standby, keep) = {
            let state = collection.sequencer.lock();
            if let ChangeRequest::Register(registration, _) = request {
                state.check(registration)?;
            }
            (state.live, state.standby.clone(), state.keep)
        };
        let generations = std::iter::once(live).chain(standby.iter().copied());
        let stored = self.stored(collection, request.id(), generations)?;
        match *request {
            ChangeRequest::Register(registration, judge) => Ok(
                match plan(registration, CollectionMoment { live, standby: &standby, keep, decided: Seq(0) }, stored)? {
                    rules::RegistrationPlan::Create => ChangePlan::Store { registration, judge, replaced: None },
                    rules::RegistrationPlan::Replace(stored) => {
                        ChangePlan::Store { registration, judge, replaced: Some(stored.removal(live)) }
                    }
                    rules::RegistrationPlan::Unchanged(StoredVersion { record, .. }) => {
                        ChangePlan::Nothing(ChangeAnswer::Registered(RegisterOutcome::Unchanged(record)))
                    }
                    rules::RegistrationPlan::Update(stored, missing) => {
                        ChangePlan::Update { registration, record: registration.updated(stored.record), missing }
                    }
                },
            ),
            ChangeRequest::Remove { id, condition, .. } => {
                // The claim on the id prevents changes of the version until the removal is committed. The committer checks the
                // other conditions.
                let removal = stored
                    .filter(|stored| condition.is_none_or(|condition| stored.record.version() == condition.version))
                    .map(|stored| stored.removal(live));
                let nothing = ChangePlan::Nothing(ChangeAnswer::Removed(false));
                Ok(removal.map_or(nothing, |removal| ChangePlan::Remove { id, removal, condition }))
            }
        }
    }

    /// Reads the record with this id and its entries in the generations. The caller holds the claim, so that the result stays
    /// valid, except that a generation that is being built may add the record.
    fn stored(
        &self,
        collection: &Collection,
        id: &RecordId,
        generations: impl Iterator<Item = GenerationId>,
    ) -> Result<Option<StoredVersion>> {
        let view = self.disk.view();
        let number = collection.number;
        let Some(seq) = self.disk.seq_of(&view, number, id)? else { return Ok(None) };
        let record = self.disk.record(&view, number, seq, true)?;
        let record =
            record.ok_or_else(|| StoreError::Internal("an id on disk names a record that is not there".into()))?;
        let mut entries = Vec::new();
        for generation in generations {
            let entry = self.disk.entry(&view, number, generation, seq)?;
            entries.extend(entry.map(|entry| (generation, entry)));
        }
        Ok(Some(StoredVersion { record, entries }))
    }
}

/// The record with an id.
struct StoredVersion {
    record: StoredRecord,
    /// The index entries in the generations, without damaged entries.
    entries: Vec<(GenerationId, IndexEntry)>,
}

impl StoredVersion {
    fn entry(&self, generation: GenerationId) -> Option<&IndexEntry> {
        self.entries.iter().find(|(id, _)| *id == generation).map(|(_, entry)| entry)
    }

    /// Returns the removal of the record. A damaged entry is not in the index, so that only the digest key must be removed.
    fn removal(self, live: GenerationId) -> PendingRemoval {
        let digest_key = self.record.digest.key();
        let bare = IndexEntry { digest_key, fingerprint: None, keys: Vec::new(), signatures: Vec::new() };
        let damaged = self.entry(live).is_none().then_some((live, bare));
        let entries = self.entries.into_iter().chain(damaged).collect();
        PendingRemoval { seq: self.record.seq, outcome: Arc::default(), entries }
    }
}

impl StandingRecord for StoredVersion {
    fn record(&self) -> &StoredRecord {
        &self.record
    }

    /// An entry contains only the key of the digest; the record contains the digest of one generation.
    fn text_in(&self, generation: GenerationId) -> Option<FiledText> {
        let entry = self.entry(generation)?;
        let digest = match self.record.digest_generation == generation {
            true => FiledDigest::Whole(self.record.digest),
            false => FiledDigest::Key(entry.digest_key),
        };
        Some(FiledText { seq: self.record.seq, digest })
    }
}
