//! Steps one and two of a registration, and the same for removals: take a place in line, then judge on the caller's own
//! thread. Between taking the place and handing over to the writer nothing is awaited, so a caller that stops waiting
//! cannot leave a change half-way.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

use super::core::Core;
use super::layout::{self, IndexEntry};
use super::line::{Claim, Collection, Fate, Line, Pending, Ticket, Undo};
use super::writer::{Job, Outcome, Registering, Reply, Settlement};
use crate::collection::CollectionName;
use crate::index::Proposal;
use crate::record::{RecordId, Row};
use crate::store::{Candidate, Judge, Registered, Registration, Result, Seq, StoreError, StoredRecord};
use crate::verdict::Match;

/// More candidates than this, or more bytes of text, and the judging is announced to the runtime as blocking.
const SHORT_CANDIDATES: usize = 24;

/// What came of an attempt to begin a change.
pub(super) enum Begun {
    /// Nothing to do, or refused.
    Answered(Result<Outcome>),
    /// The writer will answer.
    Sent(oneshot::Receiver<Result<Outcome>>),
    /// Someone else is changing the same id: wait, then begin again.
    Busy(watch::Receiver<()>),
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
        permit: OwnedSemaphorePermit,
    ) -> Begun {
        let claimed = self.claim(&registration.collection, &registration.id);
        let (collection, claim) = match claimed {
            Ok(Ok(claimed)) => claimed,
            Ok(Err(busy)) => return Begun::Busy(busy),
            Err(error) => return Begun::Answered(Err(error)),
        };
        match self.register_claimed(&collection, claim, registration, judge, permit) {
            Ok(begun) => begun,
            Err(error) => Begun::Answered(Err(error)),
        }
    }

    /// Begins a removal.
    pub(super) fn begin_remove(&self, name: &CollectionName, id: &RecordId, permit: OwnedSemaphorePermit) -> Begun {
        let (collection, claim) = match self.claim(name, id) {
            Ok(Ok(claimed)) => claimed,
            Ok(Err(busy)) => return Begun::Busy(busy),
            Err(error) => return Begun::Answered(Err(error)),
        };
        match self.remove_claimed(&collection, claim, id, permit) {
            Ok(begun) => begun,
            Err(error) => Begun::Answered(Err(error)),
        }
    }

    #[expect(clippy::type_complexity, reason = "a pair, or what to wait for, or an error: used twice, here only")]
    fn claim(
        &self,
        name: &CollectionName,
        id: &RecordId,
    ) -> Result<std::result::Result<(Arc<Collection>, Claim), watch::Receiver<()>>> {
        let collection = self.collection(name)?;
        Ok(collection.claim(id).map(|claim| (collection, claim)))
    }

    fn register_claimed(
        &self,
        collection: &Arc<Collection>,
        claim: Claim,
        registration: &Registration,
        judge: &Arc<dyn Judge>,
        permit: OwnedSemaphorePermit,
    ) -> Result<Begun> {
        let old = self.stored(collection, &registration.id)?;
        if let Some((record, _)) = &old
            && record.digest == registration.signed.digest
        {
            let record = record.clone();
            return self.update_claimed(collection, claim, record, registration, permit);
        }
        let replaces = old.is_some();
        let (ticket, proposals) = self.sequence(collection, registration, old)?;
        registration.placed.signal();
        let (reply, answer) = oneshot::channel();
        let judged = self.judge(collection, &proposals.items, judge);
        let truncated = proposals.truncated;
        match judged {
            Ok(matches) => {
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
        collection: &Arc<Collection>,
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

    fn remove_claimed(
        &self,
        collection: &Arc<Collection>,
        claim: Claim,
        id: &RecordId,
        permit: OwnedSemaphorePermit,
    ) -> Result<Begun> {
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
            line.leaving.insert(record.seq, Arc::clone(&fate));
            let undo = Undo { coming: None, leaving: Some((record.seq, entry, fate)) };
            line.ticket(collection, &self.writer, undo)
        };
        let reply = Reply { reply, _claim: claim, _permit: permit };
        let id = id.clone();
        ticket.deliver(|undo| Job::Remove { id, undo, reply });
        Ok(Begun::Sent(answer))
    }

    /// What is stored under `id`. The caller holds the claim, so it stays true.
    fn stored(&self, collection: &Collection, id: &RecordId) -> Result<Option<(StoredRecord, IndexEntry)>> {
        let view = self.disk.view();
        let Some(seq) = self.disk.seq_of(&view, collection.number, id)? else { return Ok(None) };
        let generation = collection.live.load().id;
        let record = self.disk.record(&view, collection.number, seq, true)?;
        let entry = self.disk.entry(&view, collection.number, generation, seq)?;
        match record.zip(entry) {
            Some(found) => Ok(Some(found)),
            None => Err(StoreError::Internal("an id on disk names a record that is not there".into())),
        }
    }

    /// Step one: a seq, the proposals, the place in line.
    fn sequence(
        &self,
        collection: &Arc<Collection>,
        registration: &Registration,
        old: Option<(StoredRecord, IndexEntry)>,
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
        let own = old.as_ref().map(|(record, _)| record.seq);
        let items = proposals.items.iter().filter(|proposal| Some(proposal.seq) != own);
        let items = items.map(|proposal| Proposed::new(*proposal, &line)).collect();
        let pending = Arc::new(Pending {
            fate: Arc::clone(&fate),
            record: fresh_record(registration, seq),
            signed: Arc::clone(signed),
        });
        line.pending.insert(seq, Arc::clone(&pending));
        let leaving = old.map(|(record, entry)| (record.seq, entry, Arc::clone(&fate)));
        if let Some((old_seq, ..)) = &leaving {
            line.leaving.insert(*old_seq, fate);
        }
        let undo = Undo { coming: Some(pending), leaving };
        let ticket = line.ticket(collection, &self.writer, undo);
        Ok((ticket, Sequenced { items, truncated: proposals.truncated }))
    }

    /// Step two: asks the judge about each proposal.
    fn judge(&self, collection: &Collection, items: &[Proposed], judge: &Arc<dyn Judge>) -> Result<Vec<Judged>> {
        let judging = || blocking(items.len() > SHORT_CANDIDATES, || self.judge_all(collection, items, judge));
        catch_unwind(AssertUnwindSafe(judging))
            .unwrap_or_else(|_| Err(StoreError::Internal("judging a candidate panicked".into())))
    }

    fn judge_all(&self, collection: &Collection, items: &[Proposed], judge: &Arc<dyn Judge>) -> Result<Vec<Judged>> {
        let mut matches = Vec::new();
        // Taken after the proposals, so whatever was published by then is in it.
        let view = self.disk.view();
        let generation = collection.live.load().id;
        for item in items {
            let found = match &item.pending {
                Some(pending) => judge.judge(&Candidate {
                    record: &pending.record,
                    via: item.proposal.via,
                    fingerprint: item.proposal.fingerprint,
                    signatures: &pending.signed.signatures,
                    lasting: false,
                }),
                None => self.judge_stored(&view, collection.number, generation, &item.proposal, judge.as_ref())?,
            };
            let condition = match (&item.pending, &item.leaving) {
                (Some(pending), _) => Some((Arc::clone(&pending.fate), true)),
                (None, Some(fate)) => Some((Arc::clone(fate), false)),
                (None, None) => None,
            };
            matches.extend(found.map(|found| Judged { found, condition }));
        }
        Ok(matches)
    }

    /// Loads a published record and asks about it; a record that is not published is no match.
    pub(super) fn judge_stored(
        &self,
        view: &fjall::Snapshot,
        number: u32,
        generation: u32,
        proposal: &Proposal,
        judge: &dyn Judge,
    ) -> Result<Option<Match>> {
        if judge.dismisses(proposal.seq, proposal.via) {
            return Ok(None);
        }
        let Some(record) = self.disk.record(view, number, proposal.seq, false)? else { return Ok(None) };
        let signatures = if judge.needs_signatures() {
            self.disk.entry(view, number, generation, proposal.seq)?.map(|entry| entry.signatures).unwrap_or_default()
        } else {
            Vec::new()
        };
        let (via, fingerprint) = (proposal.via, proposal.fingerprint);
        Ok(judge.judge(&Candidate { record: &record, via, fingerprint, signatures: &signatures, lasting: true }))
    }
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

/// Runs `work` here; if it is long and the runtime can, tells it to move other work away meanwhile.
pub(super) fn blocking<T>(long: bool, work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    let multi = || Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if long && multi() { tokio::task::block_in_place(work) } else { work() }
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
