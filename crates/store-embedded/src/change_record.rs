//! A change of one record, from the call to the committer: what is stored under the id is read, what to do follows from it, then
//! the change is sequenced, judged and handed over. Registrations, replacements, updates and removals take the same way.
//!
//! Between sequencing and handing over nothing is awaited, so a caller that stops waiting cannot leave a change half-way.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::claims::Claim;
use super::collection::Collection;
use super::conclude::conclude_early;
use super::judging;
use super::layout::{self, IndexEntry};
use super::pending::PendingRemoval;
use super::pipeline::{
    Answer, AnswerReceiver, Change, Effect, JudgedRegistration, RecordChange, Removal, Reply, Ticket, Update,
};
use super::sequencer;
use super::shared_state::SharedState;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::rules::plan::{self as rules, FiledDigest, FiledText, Moment, Standing, plan};
use doppel_store::stages::{Span, Stage};
use doppel_store::{
    GenerationId, Judge, Registered, Registration, RemovalCondition, Result, Seq, StoreError, StoredRecord,
};

/// A change of one record, as it is asked for.
pub(super) enum Request<'a> {
    /// Stores a record, replaces or updates it.
    Register(&'a Registration, &'a Arc<dyn Judge>),
    /// Removes a record, where a condition is given only if it holds.
    Remove { collection: &'a CollectionName, id: &'a RecordId, condition: Option<&'a RemovalCondition> },
}

impl Request<'_> {
    pub(super) fn collection(&self) -> &CollectionName {
        match self {
            Self::Register(registration, _) => &registration.collection,
            Self::Remove { collection, .. } => collection,
        }
    }

    /// Tells who judges the record, if anybody does, how long a stage took.
    pub(super) fn took(&self, stage: Stage, span: Span) {
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

/// What came of an attempt to begin a change.
pub(super) enum Begun {
    /// Nothing to do, or refused.
    Answered(Result<Answer>),
    /// The committer will answer.
    Sent(AnswerReceiver),
    /// The claim is on a collection that is no longer this one: the directory was opened again, or the collection dropped.
    CollectionReplaced,
}

/// What is to be done, given what is stored under the id.
enum Plan<'a> {
    Nothing(Answer),
    Store { registration: &'a Registration, judge: &'a Arc<dyn Judge>, replaced: Option<PendingRemoval> },
    Update { registration: &'a Registration, record: StoredRecord, missing: Vec<GenerationId> },
    Remove { id: &'a RecordId, removal: PendingRemoval, condition: Option<&'a RemovalCondition> },
}

impl SharedState {
    /// Begins a change.
    pub(super) fn begin(&self, request: &Request<'_>, claim: Claim, permit: OwnedSemaphorePermit) -> Begun {
        self.try_begin(request, claim, permit).unwrap_or_else(|error| Begun::Answered(Err(error)))
    }

    fn try_begin(&self, request: &Request<'_>, claim: Claim, permit: OwnedSemaphorePermit) -> Result<Begun> {
        let began = Instant::now();
        let collection = self.collection(request.collection())?;
        if !claim.is_of(&collection.claims) {
            return Ok(Begun::CollectionReplaced);
        }
        let plan = self.plan(&collection, request)?;
        let (reply, answer) = oneshot::channel();
        let (ticket, effect) = match plan {
            Plan::Nothing(answer) => return Ok(Begun::Answered(Ok(answer))),
            Plan::Store { registration, judge, replaced } => {
                self.store(&collection, (registration, judge), replaced, began)?
            }
            Plan::Update { registration, record, missing } => {
                let value = layout::encode_record(&record)?;
                let filed = registration.generations().filter(|(generation, _)| missing.contains(generation));
                let entry = |signed| layout::encode_entry(&IndexEntry::of(signed, true));
                let filings = filed.map(|(generation, signed)| (generation, entry(signed))).collect();
                let (ticket, number) = sequencer::update(&collection, &self.committer, registration)?;
                registration.sequenced.notify();
                (ticket, Effect::Update(Update { record, value, number, filings }))
            }
            Plan::Remove { id, removal, condition } => match sequencer::remove(&collection, &self.committer, removal) {
                Some((ticket, number)) => {
                    let condition = condition.cloned().map(Box::new);
                    (ticket, Effect::Remove(Removal { id: id.clone(), number, condition }))
                }
                None => return Ok(Begun::Answered(Ok(Answer::Removed(false)))),
            },
        };
        let reply = Reply { reply, claim, permit };
        ticket.deliver(|rollback| Change::Record(Box::new(RecordChange { effect, rollback, reply })));
        Ok(Begun::Sent(answer))
    }

    /// Sequences and judges a record to be stored, whose plan was begun at `began`.
    fn store(
        &self,
        collection: &Arc<Collection>,
        (registration, judge): (&Registration, &Arc<dyn Judge>),
        replaced: Option<PendingRemoval>,
        began: Instant,
    ) -> Result<(Ticket, Effect)> {
        let (ticket, pending, proposals) = sequencer::store(collection, &self.committer, registration, replaced)?;
        registration.sequenced.notify();
        let proposed = Span::since(began);
        judge.took(Stage::Propose, proposed);
        let (matches, truncated) = judging::judge(&self.disk, collection, registration, proposals, judge.as_ref())?;
        judge.took(Stage::Verify, Span::since(proposed.ended));
        let (judge, mode) = (Arc::clone(judge), registration.mode);
        let judged = JudgedRegistration { pending, matches, truncated, judge, mode, conclusion: None };
        Ok((ticket, Effect::Register(conclude_early(judged))))
    }

    fn plan<'a>(&self, collection: &Collection, request: &Request<'a>) -> Result<Plan<'a>> {
        let (live, standby, keep) = {
            let state = collection.sequencer.lock();
            if let Request::Register(registration, _) = request {
                state.check(registration)?;
            }
            (state.live, state.standby.clone(), state.keep)
        };
        let generations = std::iter::once(live).chain(standby.iter().copied());
        let stored = self.stored(collection, request.id(), generations)?;
        match *request {
            Request::Register(registration, judge) => {
                Ok(match plan(registration, Moment { live, standby: &standby, keep, decided: Seq(0) }, stored)? {
                    rules::Plan::Create => Plan::Store { registration, judge, replaced: None },
                    rules::Plan::Replace(stored) => {
                        Plan::Store { registration, judge, replaced: Some(stored.removal(live)) }
                    }
                    rules::Plan::Unchanged(Stored { record, .. }) => {
                        Plan::Nothing(Answer::Registered(Registered::Unchanged(record)))
                    }
                    rules::Plan::Update(stored, missing) => {
                        Plan::Update { registration, record: registration.updated(stored.record), missing }
                    }
                })
            }
            Request::Remove { id, condition, .. } => {
                // The claim on the id keeps the version as it is until the removal is committed. The committer compares the rest.
                let is_meant =
                    |stored: &Stored| condition.is_none_or(|condition| stored.record.version() == condition.version);
                let removal = stored.filter(is_meant).map(|stored| stored.removal(live));
                let nothing = Plan::Nothing(Answer::Removed(false));
                Ok(removal.map_or(nothing, |removal| Plan::Remove { id, removal, condition }))
            }
        }
    }

    /// What is stored under `id`, and how the generations have it filed. The caller holds the claim, so it stays true; but one
    /// that is being built may file it yet.
    fn stored(
        &self,
        collection: &Collection,
        id: &RecordId,
        generations: impl Iterator<Item = GenerationId>,
    ) -> Result<Option<Stored>> {
        let view = self.disk.view();
        let number = collection.number;
        let Some(seq) = self.disk.seq_of(&view, number, id)? else { return Ok(None) };
        let missing = || StoreError::Internal("an id on disk names a record that is not there".into());
        let record = self.disk.record(&view, number, seq, true)?.ok_or_else(missing)?;
        let mut entries = Vec::new();
        for generation in generations {
            let entry = self.disk.entry(&view, number, generation, seq)?;
            entries.extend(entry.map(|entry| (generation, entry)));
        }
        Ok(Some(Stored { record, entries }))
    }
}

/// What is stored under an id.
struct Stored {
    record: StoredRecord,
    /// How generations have it filed. Damaged entries are left out.
    entries: Vec<(GenerationId, IndexEntry)>,
}

impl Stored {
    fn entry(&self, generation: GenerationId) -> Option<&IndexEntry> {
        self.entries.iter().find(|(id, _)| *id == generation).map(|(_, entry)| entry)
    }

    /// What its removal needs to know. A damaged entry was left out of the index, so there is little to take out of it.
    fn removal(self, live: GenerationId) -> PendingRemoval {
        let digest_key = self.record.digest.key();
        let bare = || IndexEntry { digest_key, fingerprint: None, keys: Vec::new(), signatures: Vec::new() };
        let damaged = self.entry(live).is_none().then(|| (live, bare()));
        let entries = self.entries.into_iter().chain(damaged).collect();
        PendingRemoval { seq: self.record.seq, outcome: Arc::default(), entries }
    }
}

impl Standing for Stored {
    fn record(&self) -> &StoredRecord {
        &self.record
    }

    /// All that is filed of a digest is its key; the record has the digest of one generation.
    fn text_in(&self, generation: GenerationId) -> Option<FiledText> {
        let entry = self.entry(generation)?;
        let digest = match self.record.digest_generation == generation {
            true => FiledDigest::Whole(self.record.digest),
            false => FiledDigest::Key(entry.digest_key),
        };
        Some(FiledText { seq: self.record.seq, digest })
    }
}
