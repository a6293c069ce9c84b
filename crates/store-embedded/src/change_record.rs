//! A change of one record, from the call to the committer: what is stored under the id is read, what to do follows from it, then
//! the change is sequenced, judged and handed over. Registrations, replacements, updates and removals take the same way.
//!
//! Between sequencing and handing over nothing is awaited, so a caller that stops waiting cannot leave a change half-way.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::claims::Claim;
use super::collection::Collection;
use super::conclude::conclude_early;
use super::judging;
use super::layout::{self, IndexEntry};
use super::pending::PendingRemoval;
use super::pipeline::{Answer, AnswerReceiver, Change, Effect, JudgedRegistration, RecordChange, Reply, Ticket};
use super::sequencer;
use super::shared_state::SharedState;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::{GenerationId, Judge, Registered, Registration, Result, Seq, StoreError, StoredRecord};

/// A change of one record, as it is asked for.
pub(super) enum Request<'a> {
    /// Stores a record, replaces or updates it.
    Register(&'a Registration, &'a Arc<dyn Judge>),
    /// Removes a record; with a seq only the one that has it.
    Remove { collection: &'a CollectionName, id: &'a RecordId, only: Option<Seq> },
}

impl Request<'_> {
    pub(super) fn collection(&self) -> &CollectionName {
        match self {
            Self::Register(registration, _) => &registration.collection,
            Self::Remove { collection, .. } => collection,
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
    Update { registration: &'a Registration, record: StoredRecord, filings: Vec<(GenerationId, Vec<u8>)> },
    Remove { id: &'a RecordId, removal: PendingRemoval },
}

impl SharedState {
    /// Begins a change.
    pub(super) fn begin(&self, request: &Request<'_>, claim: Claim, permit: OwnedSemaphorePermit) -> Begun {
        self.try_begin(request, claim, permit).unwrap_or_else(|error| Begun::Answered(Err(error)))
    }

    fn try_begin(&self, request: &Request<'_>, claim: Claim, permit: OwnedSemaphorePermit) -> Result<Begun> {
        let collection = self.collection(request.collection())?;
        if !claim.is_of(&collection.claims) {
            return Ok(Begun::CollectionReplaced);
        }
        let plan = self.plan(&collection, request)?;
        let (reply, answer) = oneshot::channel();
        let (ticket, effect) = match plan {
            Plan::Nothing(answer) => return Ok(Begun::Answered(Ok(answer))),
            Plan::Store { registration, judge, replaced } => self.store(&collection, registration, judge, replaced)?,
            Plan::Update { registration, record, filings } => {
                let value = layout::encode_record(&record)?;
                let ticket = sequencer::update(&collection, &self.committer, registration)?;
                registration.sequenced.notify();
                (ticket, Effect::Update { record, value, filings })
            }
            Plan::Remove { id, removal } => match sequencer::remove(&collection, &self.committer, removal) {
                Some(ticket) => (ticket, Effect::Remove(id.clone())),
                None => return Ok(Begun::Answered(Ok(Answer::Removed(false)))),
            },
        };
        let reply = Reply { reply, claim, permit };
        ticket.deliver(|rollback| Change::Record(Box::new(RecordChange { effect, rollback, reply })));
        Ok(Begun::Sent(answer))
    }

    /// Sequences and judges a record to be stored.
    fn store(
        &self,
        collection: &Arc<Collection>,
        registration: &Registration,
        judge: &Arc<dyn Judge>,
        replaced: Option<PendingRemoval>,
    ) -> Result<(Ticket, Effect)> {
        let (ticket, pending, proposals) = sequencer::store(collection, &self.committer, registration, replaced)?;
        registration.sequenced.notify();
        let (matches, truncated) = judging::judge(&self.disk, collection, registration, proposals, judge.as_ref())?;
        let (judge, mode) = (Arc::clone(judge), registration.mode);
        let judged = JudgedRegistration { pending, matches, truncated, judge, mode, conclusion: None };
        Ok((ticket, Effect::Register(conclude_early(judged))))
    }

    fn plan<'a>(&self, collection: &Collection, request: &Request<'a>) -> Result<Plan<'a>> {
        let (live, generations) = {
            let state = collection.sequencer.lock();
            if let Request::Register(registration, _) = request {
                state.check(registration)?;
            }
            (state.live, state.generations())
        };
        let stored = self.stored(collection, request.id(), &generations)?;
        match *request {
            Request::Register(registration, judge) => plan_registration(stored, registration, judge),
            Request::Remove { id, only, .. } => {
                let stored = stored.filter(|stored| only.is_none_or(|seq| stored.record.seq == seq));
                let removal = stored.map(|stored| stored.removal(live));
                Ok(removal.map_or(Plan::Nothing(Answer::Removed(false)), |removal| Plan::Remove { id, removal }))
            }
        }
    }

    /// What is stored under `id`, and how the generations have it filed. The caller holds the claim, so it stays true; but one
    /// that is being built may file it yet.
    fn stored(&self, collection: &Collection, id: &RecordId, generations: &[GenerationId]) -> Result<Option<Stored>> {
        let view = self.disk.view();
        let number = collection.number;
        let Some(seq) = self.disk.seq_of(&view, number, id)? else { return Ok(None) };
        let missing = || StoreError::Internal("an id on disk names a record that is not there".into());
        let record = self.disk.record(&view, number, seq, true)?.ok_or_else(missing)?;
        let mut entries = Vec::with_capacity(generations.len());
        for generation in generations {
            let entry = self.disk.entry(&view, number, *generation, seq)?;
            entries.extend(entry.map(|entry| (*generation, entry)));
        }
        Ok(Some(Stored { record, entries }))
    }
}

fn plan_registration<'a>(
    stored: Option<Stored>,
    registration: &'a Registration,
    judge: &'a Arc<dyn Judge>,
) -> Result<Plan<'a>> {
    let Some(stored) = stored else { return Ok(Plan::Store { registration, judge, replaced: None }) };
    registration.check_content(&stored.record.row)?;
    let Some(filings) = stored.same_text(registration) else {
        let replaced = Some(stored.removal(registration.generation));
        return Ok(Plan::Store { registration, judge, replaced });
    };
    let mut record = stored.record;
    // The same text: other fields may still differ.
    if registration.is_of(&record.row) {
        return Ok(Plan::Nothing(Answer::Registered(Registered::Unchanged(record))));
    }
    record.row = Arc::clone(registration.row.json());
    (record.digest, record.digest_generation) = (registration.signed.digest, registration.generation);
    record.stored_at.clone_from(&registration.now);
    Ok(Plan::Update { registration, record, filings })
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

    /// Whether every generation that has it filed reads the same text in the new content: then the index entries of those that
    /// do not have it filed yet. Texts are told apart by the keys of their digests, all that is filed of them; where the
    /// record's digest is this generation's, by that.
    fn same_text(&self, registration: &Registration) -> Option<Vec<(GenerationId, Vec<u8>)>> {
        let signed = &registration.signed;
        let own = self.record.digest_generation == registration.generation;
        let live = self.entry(registration.generation)?;
        if live.digest_key != signed.digest.key() || (own && self.record.digest != signed.digest) {
            return None;
        }
        let mut filings = Vec::new();
        for (generation, signed) in &registration.others {
            match self.entry(*generation) {
                Some(entry) if entry.digest_key != signed.digest.key() => return None,
                Some(_) => {}
                None => filings.push((*generation, layout::encode_entry(&IndexEntry::of(signed, true)))),
            }
        }
        Some(filings)
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
