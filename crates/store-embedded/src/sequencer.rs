//! The first stage of a change: it decides the order of changes.
//!
//! In one critical section, a change takes its position, reads the index and changes it. Therefore exactly one of several equal records
//! that arrive together is the original. The committer settles changes strictly in the order of their positions, so that all earlier
//! changes are settled before a change is settled.

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_channel::Sender;

use super::collection::{Collection, SequencerState};
use super::pending::{PendingRegistration, PendingRemoval};
use super::pipeline::{CandidateProposal, CommitterMessage, Rollback, SequencedProposals, Ticket};
use doppel_core::verdict::Verdict;
use doppel_store::{Registration, Result, Seq};

/// Sequences a record to be stored: draws a seq, asks the index for candidates, and adds the record to the index. `replaced` is the
/// stored record with the same id. It is never a candidate, because a record does not match itself.
///
/// # Errors
/// As [`SequencerState::check`]; `IndexFull`.
pub(super) fn store(
    collection: &Arc<Collection>,
    committer: &Sender<CommitterMessage>,
    registration: &Registration,
    replaced: Option<PendingRemoval>,
) -> Result<(Ticket, Arc<PendingRegistration>, SequencedProposals)> {
    let mut state = collection.sequencer.lock();
    state.check(registration)?;
    let live = collection.live();
    let seq = state.next_seq;
    let found = live.propose(&registration.signed);
    live.insert(seq, &registration.signed)?;
    state.draw();
    let own = replaced.as_ref().map(|removal| removal.seq);
    let proposals = proposals(&state, registration, found, own);
    let pending = Arc::new(pending(registration, seq, replaced.as_ref()));
    state.registrations.insert(seq, Arc::clone(&pending));
    let registered = Some(Arc::clone(&pending));
    let rollback = Rollback { collection: Arc::clone(collection), registration: registered, removal: replaced };
    Ok((take(&mut state, rollback, committer), pending, proposals))
}

/// Sequences other content with the same seq, which does not change the index. Returns also the number of the change.
///
/// # Errors
/// As [`SequencerState::check`].
pub(super) fn update(
    collection: &Arc<Collection>,
    committer: &Sender<CommitterMessage>,
    registration: &Registration,
) -> Result<(Ticket, Seq)> {
    let mut state = collection.sequencer.lock();
    state.check(registration)?;
    let number = state.draw();
    Ok((take(&mut state, Rollback::nothing(collection), committer), number))
}

/// Sequences a change that changes no record. Returns also the number of the change; `None` if the collection is dropped.
pub(super) fn other(collection: &Arc<Collection>, committer: &Sender<CommitterMessage>) -> Option<(Ticket, Seq)> {
    let mut state = collection.sequencer.lock();
    if state.dropped {
        return None;
    }
    let number = state.draw();
    Some((take(&mut state, Rollback::nothing(collection), committer), number))
}

/// Sequences a removal. Returns also the number of the change; `None` if the collection is dropped.
pub(super) fn remove(
    collection: &Arc<Collection>,
    committer: &Sender<CommitterMessage>,
    removal: PendingRemoval,
) -> Option<(Ticket, Seq)> {
    let mut state = collection.sequencer.lock();
    if state.dropped {
        return None;
    }
    let number = state.draw();
    let rollback = Rollback { collection: Arc::clone(collection), registration: None, removal: Some(removal) };
    Some((take(&mut state, rollback, committer), number))
}

/// Takes a position behind all present changes, without a change.
pub(super) fn barrier(collection: &Arc<Collection>, committer: &Sender<CommitterMessage>) -> Ticket {
    take(&mut collection.sequencer.lock(), Rollback::nothing(collection), committer)
}

/// Records which record is to be removed, and takes a position.
fn take(state: &mut SequencerState, rollback: Rollback, committer: &Sender<CommitterMessage>) -> Ticket {
    if let Some(removal) = &rollback.removal {
        state.removals.insert(removal.seq, Arc::clone(&removal.outcome));
    }
    Ticket::next(state, rollback, committer)
}

/// Returns the candidates, except the record with the seq `own`, with their pending changes.
fn proposals(
    state: &SequencerState,
    registration: &Registration,
    found: doppel_core::index::Proposals,
    own: Option<Seq>,
) -> SequencedProposals {
    let mut items = Vec::new();
    for proposal in found.items.into_iter().filter(|proposal| Some(proposal.seq) != own) {
        let registration = state.registrations.get(&proposal.seq).cloned();
        let removal = state.removals.get(&proposal.seq).cloned();
        items.push(CandidateProposal { proposal, registration, removal });
    }
    let mut confirmed_registrations = Vec::new();
    let mut removals = HashMap::new();
    if !registration.confirmed.is_empty() {
        let all = state.registrations.values().cloned();
        confirmed_registrations = all.filter(|pending| registration.confirmed.contains(&pending.record.id)).collect();
        removals.clone_from(&state.removals);
    }
    SequencedProposals { items, confirmed_registrations, removals, truncated: found.truncated }
}

/// Returns the record, which has no verdict yet. The two parts of a replacement share one outcome.
fn pending(registration: &Registration, seq: Seq, replaced: Option<&PendingRemoval>) -> PendingRegistration {
    PendingRegistration {
        outcome: replaced.map_or_else(Arc::default, |removal| Arc::clone(&removal.outcome)),
        record: registration.record(seq, Verdict::blank(), None),
        generation: registration.generation,
        signed: Arc::clone(&registration.signed),
        standby: registration.others.clone(),
    }
}
