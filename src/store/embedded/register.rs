//! Steps one and two of a registration, and the same for removals: take a place in line, then judge on the caller's own
//! thread. Between taking the place and handing over to the writer nothing is awaited, so a caller that stops waiting
//! cannot leave a change half-way.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::candidates::{bytes_of, for_each};
use super::core::Core;
use super::layout::{self, IndexEntry};
use super::line::{Claim, Collection, Fate, Line, Pending, Ticket, Undo};
use super::writer::{Job, Outcome, Registering, Reply, Settlement};
use crate::collection::CollectionName;
use crate::index::Proposal;
use crate::record::{RecordId, Row};
use crate::store::{Candidate, Judge, Registered, Registration, Result, Seq, StoreError, StoredRecord};
use crate::verdict::Match;

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

impl Core {
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

    /// Begins a removal.
    pub(super) fn begin_remove(
        &self,
        name: &CollectionName,
        id: &RecordId,
        claim: Claim,
        permit: OwnedSemaphorePermit,
    ) -> Begun {
        let begun = self.check_claim(name, &claim).and_then(|moved| match moved {
            Some(begun) => Ok(begun),
            None => self.remove_claimed(claim, id, permit),
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
        let old = self.stored(collection, &registration.id)?;
        if let Some((record, Some(_))) = &old
            && record.digest == registration.signed.digest
        {
            let record = record.clone();
            return self.update_claimed(claim, record, registration, permit);
        }
        let old = old.map(|(record, entry)| removable(&record, entry));
        let replaces = old.is_some();
        let (ticket, proposals) = self.sequence(collection, registration, old)?;
        registration.placed.signal();
        let (reply, answer) = oneshot::channel();
        match self.judge(collection, &proposals.items, judge) {
            Ok((matches, cut)) => {
                let truncated = proposals.truncated || cut;
                let reply = Reply { reply, _claim: claim, _permit: permit };
                let judge = Arc::clone(judge);
                let skip = registration.mode == crate::store::Mode::SkipDuplicate;
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
        registration: &Registration,
        permit: OwnedSemaphorePermit,
    ) -> Result<Begun> {
        let same = Row::parse(record.row.as_bytes()).is_ok_and(|row| row.same_content(&registration.row));
        if same {
            return Ok(Begun::Answered(Ok(Outcome::Registered(Registered::Unchanged(record)))));
        }
        record.row = Arc::clone(registration.row.json());
        record.stored_at.clone_from(&registration.now);
        let value = layout::encode_record(&record)?;
        let (reply, answer) = oneshot::channel();
        let collection = &claim.collection;
        let ticket = {
            let mut line = collection.line.lock();
            check_open(&line, collection, registration)?;
            line.ticket(collection, &self.writer, Undo::default())
        };
        registration.placed.signal();
        let reply = Reply { reply, _claim: claim, _permit: permit };
        ticket.deliver(|_| Job::Update { record: Box::new(record), value, reply });
        Ok(Begun::Sent(answer))
    }

    fn remove_claimed(&self, claim: Claim, id: &RecordId, permit: OwnedSemaphorePermit) -> Result<Begun> {
        let collection = &claim.collection;
        let Some((record, entry)) = self.stored(collection, id)? else {
            return Ok(Begun::Answered(Ok(Outcome::Removed(false))));
        };
        let (reply, answer) = oneshot::channel();
        let ticket = {
            let mut line = collection.line.lock();
            if line.dropped {
                return Ok(Begun::Answered(Ok(Outcome::Removed(false))));
            }
            let fate = Arc::new(Fate::default());
            let (seq, entry) = removable(&record, entry);
            line.leaving.insert(seq, Arc::clone(&fate));
            let undo = Undo { coming: None, leaving: Some((seq, entry, fate)) };
            line.ticket(collection, &self.writer, undo)
        };
        let reply = Reply { reply, _claim: claim, _permit: permit };
        let id = id.clone();
        ticket.deliver(|undo| Job::Remove { id, undo, reply });
        Ok(Begun::Sent(answer))
    }

    /// What is stored under `id`; without its index entry if that is damaged. The caller holds the claim, so it stays true.
    fn stored(&self, collection: &Collection, id: &RecordId) -> Result<Option<(StoredRecord, Option<IndexEntry>)>> {
        let view = self.disk.view();
        let Some(seq) = self.disk.seq_of(&view, collection.number, id)? else { return Ok(None) };
        let generation = collection.live.load().id;
        let record = self.disk.record(&view, collection.number, seq, true)?;
        let entry = self.disk.entry(&view, collection.number, generation, seq)?;
        match record {
            Some(record) => Ok(Some((record, entry))),
            None => Err(StoreError::Internal("an id on disk names a record that is not there".into())),
        }
    }

    /// Step one: a seq, the proposals, the place in line.
    fn sequence(
        &self,
        collection: &Arc<Collection>,
        registration: &Registration,
        old: Option<(Seq, IndexEntry)>,
    ) -> Result<(Ticket, Sequenced)> {
        let signed = &registration.signed;
        let mut line = collection.line.lock();
        check_open(&line, collection, registration)?;
        let generation = collection.live.load();
        let seq = line.next_seq;
        let proposals = generation.propose(signed);
        generation.insert(seq, signed).map_err(StoreError::Limit)?;
        line.next_seq += 1;
        let fate = Arc::new(Fate::default());
        // Before its own old record is marked as leaving: a record never matches itself.
        let own = old.as_ref().map(|(seq, _)| *seq);
        let items = proposals.items.iter().filter(|proposal| Some(proposal.seq) != own);
        let items = items.map(|proposal| Proposed::new(*proposal, &line)).collect();
        let pending = Arc::new(Pending {
            fate: Arc::clone(&fate),
            record: fresh_record(registration, seq),
            signed: Arc::clone(signed),
        });
        line.pending.insert(seq, Arc::clone(&pending));
        let leaving = old.map(|(seq, entry)| (seq, entry, Arc::clone(&fate)));
        if let Some((old_seq, ..)) = &leaving {
            line.leaving.insert(*old_seq, fate);
        }
        let undo = Undo { coming: Some(pending), leaving };
        let ticket = line.ticket(collection, &self.writer, undo);
        Ok((ticket, Sequenced { items, truncated: proposals.truncated }))
    }

    /// Step two: asks the judge about each proposal. Also whether the budget for reading cut some off.
    fn judge(
        &self,
        collection: &Collection,
        items: &[Proposed],
        judge: &Arc<dyn Judge>,
    ) -> Result<(Vec<Judged>, bool)> {
        catch_unwind(AssertUnwindSafe(|| self.judge_all(collection, items, judge)))
            .unwrap_or_else(|_| Err(StoreError::Internal("judging a candidate panicked".into())))
    }

    fn judge_all(
        &self,
        collection: &Collection,
        items: &[Proposed],
        judge: &Arc<dyn Judge>,
    ) -> Result<(Vec<Judged>, bool)> {
        let mut matches = Vec::new();
        // Taken after the proposals, so whatever was published by then is in it.
        let view = self.disk.view();
        let place = (collection.number, collection.live.load().id);
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

/// What a removal needs to know. A damaged entry was left out of the index, so there is little to take out of it.
fn removable(record: &StoredRecord, entry: Option<IndexEntry>) -> (Seq, IndexEntry) {
    let digest_key = record.digest.key();
    let bare = || IndexEntry { digest_key, fingerprint: None, keys: Vec::new(), signatures: Vec::new() };
    (record.seq, entry.unwrap_or_else(bare))
}

/// The proposals of a registration.
struct Sequenced {
    items: Vec<Proposed>,
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

fn fresh_record(registration: &Registration, seq: Seq) -> StoredRecord {
    StoredRecord {
        id: registration.id.clone(),
        seq,
        row: Arc::clone(registration.row.json()),
        digest: registration.signed.digest,
        verdict: layout::blank_verdict(),
        duplicate_of_seq: None,
        stored_at: registration.now.clone(),
    }
}

fn check_open(line: &Line, collection: &Collection, registration: &Registration) -> Result<()> {
    if line.dropped {
        return Err(StoreError::UnknownCollection(registration.collection.clone()));
    }
    let (given, live) = (registration.generation, collection.live.load().id);
    if given == live { Ok(()) } else { Err(StoreError::StaleGeneration { given, live }) }
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
