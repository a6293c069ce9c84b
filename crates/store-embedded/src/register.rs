//! Steps one and two of a registration, and the same for removals: take a place in line, then judge on the caller's own
//! thread. Between taking the place and handing over to the writer nothing is awaited, so a caller that stops waiting
//! cannot leave a change half-way.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::candidates::{bytes_of, for_each};
use super::layout::{self, IndexEntry};
use super::line::{Claim, Collection, Fate, Leaving, Line, Pending, Ticket, Undo};
use super::shared_state::SharedState;
use super::writer::{Job, Outcome, Registering, Reply, Settlement};
use doppel_core::collection::CollectionName;
use doppel_core::index::{Proposal, Via};
use doppel_core::record::RecordId;
use doppel_core::verdict::Match;
use doppel_store::{Candidate, GenerationId, Judge, Registered, Registration, Result, Seq, StoreError, StoredRecord};

/// What came of an attempt to begin a change.
pub(super) enum Begun {
    /// Nothing to do, or refused.
    Answered(Result<Outcome>),
    /// The writer will answer.
    Sent(oneshot::Receiver<Result<Outcome>>),
    /// The claim is on a collection that is no longer this one: the directory was opened again, or the collection dropped.
    Moved,
}

/// A match, and on what it depends.
pub(super) struct Judged {
    pub(super) found: Match,
    /// Holds only if this fate ends so.
    pub(super) condition: Option<(Arc<Fate>, bool)>,
}

impl SharedState {
    /// Begins a registration.
    pub(super) fn begin_register(
        &self,
        registration: &Registration,
        judge: &Arc<dyn Judge>,
        claim: Claim,
        permit: OwnedSemaphorePermit,
    ) -> Begun {
        let begun = self.check_claim(&registration.collection, &claim).and_then(|moved| match moved {
            Some(begun) => Ok(begun),
            None => self.register_claimed(claim, registration, judge, permit),
        });
        begun.unwrap_or_else(|error| Begun::Answered(Err(error)))
    }

    /// Begins a removal; with `only`, of the record that has this seq.
    pub(super) fn begin_remove(
        &self,
        name: &CollectionName,
        (id, only): (&RecordId, Option<Seq>),
        claim: Claim,
        permit: OwnedSemaphorePermit,
    ) -> Begun {
        let begun = self.check_claim(name, &claim).and_then(|moved| match moved {
            Some(begun) => Ok(begun),
            None => self.remove_claimed(claim, (id, only), permit),
        });
        begun.unwrap_or_else(|error| Begun::Answered(Err(error)))
    }

    fn check_claim(&self, name: &CollectionName, claim: &Claim) -> Result<Option<Begun>> {
        let same = Arc::ptr_eq(&self.collection(name)?, &claim.collection);
        Ok((!same).then_some(Begun::Moved))
    }

    fn register_claimed(
        &self,
        claim: Claim,
        registration: &Registration,
        judge: &Arc<dyn Judge>,
        permit: OwnedSemaphorePermit,
    ) -> Result<Begun> {
        let collection = &Arc::clone(&claim.collection);
        let generations = {
            let line = collection.line.lock();
            check_open(&line, registration)?;
            line.generations()
        };
        let old = self.stored(collection, &registration.id, &generations)?;
        if let Some(old) = &old {
            registration.check_content(&old.record.row)?;
        }
        if let Some(old) = &old
            && let Some(filings) = old.reads_the_same(registration)
        {
            let record = old.record.clone();
            return self.update_claimed(claim, record, filings, registration, permit);
        }
        let old = old.map(|old| old.leaving(registration.generation));
        let replaces = old.is_some();
        let (ticket, mut proposals) = self.sequence(collection, registration, old)?;
        registration.placed.signal();
        let (reply, answer) = oneshot::channel();
        let confirmed = self.confirm(collection, registration, &mut proposals);
        match confirmed.and_then(|()| self.judge((collection.number, registration.generation), &proposals.items, judge))
        {
            Ok((matches, cut)) => {
                let truncated = proposals.truncated || cut;
                let reply = Reply { reply, _claim: claim, _permit: permit };
                let judge = Arc::clone(judge);
                let skip = registration.mode == doppel_store::Mode::SkipDuplicate;
                let work = Registering { matches, truncated, judge, skip, replaces, reply };
                ticket.deliver(|undo| Job::Register(Box::new(work.prepare(undo))));
                Ok(Begun::Sent(answer))
            }
            Err(error) => {
                drop(ticket);
                Err(error)
            }
        }
    }

    /// Same digest: the content may still differ.
    fn update_claimed(
        &self,
        claim: Claim,
        mut record: StoredRecord,
        filings: Vec<(GenerationId, Vec<u8>)>,
        registration: &Registration,
        permit: OwnedSemaphorePermit,
    ) -> Result<Begun> {
        if registration.is_of(&record.row) {
            return Ok(Begun::Answered(Ok(Outcome::Registered(Registered::Unchanged(record)))));
        }
        record.row = Arc::clone(registration.row.json());
        (record.digest, record.digest_generation) = (registration.signed.digest, registration.generation);
        record.stored_at.clone_from(&registration.now);
        let value = layout::encode_record(&record)?;
        let (reply, answer) = oneshot::channel();
        let collection = &claim.collection;
        let ticket = {
            let mut line = collection.line.lock();
            check_open(&line, registration)?;
            line.ticket(collection, &self.writer, Undo::default())
        };
        registration.placed.signal();
        let reply = Reply { reply, _claim: claim, _permit: permit };
        ticket.deliver(|_| Job::Update { record: Box::new(record), value, filings, reply });
        Ok(Begun::Sent(answer))
    }

    fn remove_claimed(
        &self,
        claim: Claim,
        (id, only): (&RecordId, Option<Seq>),
        permit: OwnedSemaphorePermit,
    ) -> Result<Begun> {
        let collection = &claim.collection;
        let (live, generations) = {
            let line = collection.line.lock();
            (line.live, line.generations())
        };
        let old = self.stored(collection, id, &generations)?;
        let Some(old) = old.filter(|old| only.is_none_or(|seq| old.record.seq == seq)) else {
            return Ok(Begun::Answered(Ok(Outcome::Removed(false))));
        };
        let (reply, answer) = oneshot::channel();
        let ticket = {
            let mut line = collection.line.lock();
            if line.dropped {
                return Ok(Begun::Answered(Ok(Outcome::Removed(false))));
            }
            let leaving = old.leaving(live);
            line.leaving.insert(leaving.seq, Arc::clone(&leaving.fate));
            let undo = Undo { coming: None, leaving: Some(leaving) };
            line.ticket(collection, &self.writer, undo)
        };
        let reply = Reply { reply, _claim: claim, _permit: permit };
        let id = id.clone();
        ticket.deliver(|undo| Job::Remove { id, undo, reply });
        Ok(Begun::Sent(answer))
    }

    /// What is stored under `id`, and how the generations have it filed. The caller holds the claim, so it stays true; but one
    /// that is being built may file it yet.
    fn stored(&self, collection: &Collection, id: &RecordId, generations: &[GenerationId]) -> Result<Option<Old>> {
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
        Ok(Some(Old { record, entries }))
    }

    /// Step one: a seq, the proposals, the place in line.
    fn sequence(
        &self,
        collection: &Arc<Collection>,
        registration: &Registration,
        old: Option<Leaving>,
    ) -> Result<(Ticket, Sequenced)> {
        let signed = &registration.signed;
        let mut line = collection.line.lock();
        check_open(&line, registration)?;
        let generation = collection.live();
        let seq = line.next_seq;
        let proposals = generation.propose(signed);
        generation.insert(seq, signed)?;
        line.next_seq += 1;
        let fate = old.as_ref().map_or_else(Arc::default, |old| Arc::clone(&old.fate));
        // Before its own old record is marked as leaving: a record never matches itself.
        let own = old.as_ref().map(|old| old.seq);
        let items = proposals.items.iter().filter(|proposal| Some(proposal.seq) != own);
        let items = items.map(|proposal| Proposed::new(*proposal, &line)).collect();
        let under_way = UnderWay::of(&registration.confirmed, &line);
        let pending = Arc::new(Pending {
            fate: Arc::clone(&fate),
            record: fresh_record(registration, seq),
            generation: registration.generation,
            signed: Arc::clone(signed),
            others: registration.others.clone(),
        });
        line.pending.insert(seq, Arc::clone(&pending));
        if let Some(leaving) = &old {
            line.leaving.insert(leaving.seq, fate);
        }
        let undo = Undo { coming: Some(pending), leaving: old };
        let ticket = line.ticket(collection, &self.writer, undo);
        Ok((ticket, Sequenced { items, under_way, truncated: proposals.truncated }))
    }

    /// Puts the records that match by decision before all others, as they were when the registration was sequenced: nobody
    /// cuts them off.
    fn confirm(&self, collection: &Collection, registration: &Registration, found: &mut Sequenced) -> Result<()> {
        if registration.confirmed.is_empty() {
            return Ok(());
        }
        // Taken after the place in line: what is not under way by then is in it, and nothing later is.
        let view = self.disk.view();
        let live = collection.live();
        let UnderWay { pending, leaving } = std::mem::take(&mut found.under_way);
        for id in registration.confirmed.iter().filter(|id| **id != registration.id) {
            let coming: Vec<_> = pending.iter().filter(|pending| pending.record.id == *id).collect();
            let stored = self.disk.seq_of(&view, collection.number, id)?;
            if let Some(seq) = stored.filter(|seq| coming.iter().all(|pending| pending.record.seq != *seq)) {
                let fingerprint = self.disk.fingerprint(&view, (collection.number, registration.generation), seq)?;
                let proposal = Proposal { slot: live.slot(seq), seq, via: Via::DECISION, fingerprint };
                confirm_in(&mut found.items, proposal, None, leaving.get(&seq).cloned());
            }
            for pending in coming {
                let (seq, fingerprint) = (pending.record.seq, pending.signed.fingerprint());
                let proposal = Proposal { slot: live.slot(seq), seq, via: Via::DECISION, fingerprint };
                confirm_in(&mut found.items, proposal, Some(Arc::clone(pending)), None);
            }
        }
        Ok(())
    }

    /// Step two: asks the judge about each proposal. Also whether the budget for reading cut some off.
    fn judge(
        &self,
        place: (u32, GenerationId),
        items: &[Proposed],
        judge: &Arc<dyn Judge>,
    ) -> Result<(Vec<Judged>, bool)> {
        catch_unwind(AssertUnwindSafe(|| self.judge_all(place, items, judge)))
            .unwrap_or_else(|_| Err(StoreError::Internal("judging a candidate panicked".into())))
    }

    fn judge_all(
        &self,
        place: (u32, GenerationId),
        items: &[Proposed],
        judge: &Arc<dyn Judge>,
    ) -> Result<(Vec<Judged>, bool)> {
        let mut matches = Vec::new();
        // Taken after the proposals, so whatever was published by then is in it.
        let view = self.disk.view();
        let truncated = for_each(items, |item| {
            let (bytes, found) = match &item.pending {
                Some(pending) => {
                    let found = judge.judge(&Candidate {
                        record: &pending.record,
                        via: item.proposal.via,
                        fingerprint: item.proposal.fingerprint,
                        signatures: &pending.signed.signatures,
                        lasting: false,
                    });
                    (bytes_of(&pending.record), found)
                }
                None => self.judge_stored(&view, place, &item.proposal, judge.as_ref())?,
            };
            let condition = match (&item.pending, &item.leaving) {
                (Some(pending), _) => Some((Arc::clone(&pending.fate), true)),
                (None, Some(fate)) => Some((Arc::clone(fate), false)),
                (None, None) => None,
            };
            matches.extend(found.map(|found| Judged { found, condition }));
            Ok(ControlFlow::Continue(bytes))
        })?;
        Ok((matches, truncated))
    }
}

/// What is stored under an id.
struct Old {
    record: StoredRecord,
    /// How generations have it filed. Damaged entries are left out.
    entries: Vec<(GenerationId, IndexEntry)>,
}

impl Old {
    fn entry(&self, generation: GenerationId) -> Option<&IndexEntry> {
        self.entries.iter().find(|(id, _)| *id == generation).map(|(_, entry)| entry)
    }

    /// Whether every generation that has it filed reads the same text in the new content: then what those must be given that
    /// have not. Texts are told apart by the keys of their digests, all that is filed of them; where the record's digest is
    /// this generation's, by that.
    fn reads_the_same(&self, registration: &Registration) -> Option<Vec<(GenerationId, Vec<u8>)>> {
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
    fn leaving(self, live: GenerationId) -> Leaving {
        let digest_key = self.record.digest.key();
        let bare = || IndexEntry { digest_key, fingerprint: None, keys: Vec::new(), signatures: Vec::new() };
        let damaged = self.entry(live).is_none().then(|| (live, bare()));
        let entries = self.entries.into_iter().chain(damaged).collect();
        Leaving { seq: self.record.seq, fate: Arc::default(), entries }
    }
}

/// The proposals of a registration.
struct Sequenced {
    items: Vec<Proposed>,
    under_way: UnderWay,
    truncated: bool,
}

/// A proposal, and what else was on its way when it was made.
struct Proposed {
    proposal: Proposal,
    pending: Option<Arc<Pending>>,
    leaving: Option<Arc<Fate>>,
}

impl Proposed {
    fn new(proposal: Proposal, line: &Line) -> Self {
        let pending = line.pending.get(&proposal.seq).cloned();
        let leaving = line.leaving.get(&proposal.seq).cloned();
        Self { proposal, pending, leaving }
    }
}

/// What was sequenced and unpublished when a registration with confirmed pairs took its place.
#[derive(Default)]
struct UnderWay {
    /// Registrations of the records that match by decision.
    pending: Vec<Arc<Pending>>,
    leaving: HashMap<Seq, Arc<Fate>>,
}

impl UnderWay {
    fn of(confirmed: &[RecordId], line: &Line) -> Self {
        if confirmed.is_empty() {
            return Self::default();
        }
        let named = line.pending.values().filter(|pending| confirmed.contains(&pending.record.id));
        Self { pending: named.cloned().collect(), leaving: line.leaving.clone() }
    }
}

/// Puts a record that matches by decision in front; if the index proposes it, too, as one proposal.
fn confirm_in(
    items: &mut Vec<Proposed>,
    proposal: Proposal,
    pending: Option<Arc<Pending>>,
    leaving: Option<Arc<Fate>>,
) {
    let found = items.iter().position(|item| item.proposal.seq == proposal.seq);
    let mut item = found.map_or(Proposed { proposal, pending, leaving }, |at| items.remove(at));
    item.proposal.via = item.proposal.via.with(Via::DECISION);
    items.insert(0, item);
}

fn fresh_record(registration: &Registration, seq: Seq) -> StoredRecord {
    StoredRecord {
        id: registration.id.clone(),
        seq,
        row: Arc::clone(registration.row.json()),
        digest: registration.signed.digest,
        digest_generation: registration.generation,
        verdict: layout::blank_verdict(),
        duplicate_of_seq: None,
        stored_at: registration.now.clone(),
    }
}

fn check_open(line: &Line, registration: &Registration) -> Result<()> {
    if line.dropped {
        return Err(StoreError::UnknownCollection(registration.collection.clone()));
    }
    let (given, live) = (registration.generation, line.live);
    let beside = registration.others.iter().map(|(id, _)| id);
    if given == live && beside.eq(&line.others) { Ok(()) } else { Err(StoreError::StaleGeneration { given, live }) }
}

impl Registering {
    /// Concludes at once what depends on nothing; the writer then only has to write.
    fn prepare(self, undo: Undo) -> Settlement {
        let settled = self.matches.iter().all(|judged| judged.condition.is_none());
        let mut settlement = Settlement { work: self, undo, ready: None };
        if settled {
            // A judge that panics here panics again in the writer, which turns it into an error.
            settlement.ready = catch_unwind(AssertUnwindSafe(|| settlement.conclude())).ok();
        }
        settlement
    }
}
