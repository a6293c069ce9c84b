//! The first stage of a change: the one place that decides what comes before what.
//!
//! In one critical section a change takes its position, reads the index and changes it. The committer settles changes strictly
//! in the order of their positions, so each may rely on all earlier ones being settled before it.

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_channel::Sender;

use super::collection::{Collection, SequencerState};
use super::pending::{PendingRegistration, PendingRemoval};
use super::pipeline::{Message, Proposals, Proposed, Rollback, Ticket};
use doppel_core::index::Proposal;
use doppel_core::verdict::Verdict;
use doppel_store::{Registration, Result, Seq};

/// Sequences a record to be stored: gives it a seq, asks the index for proposals, and files it. `replaced` is what is stored
/// under its id: never among the proposals, since a record does not match itself.
///
/// # Errors
/// As [`SequencerState::check`]; `IndexFull`.
pub(super) fn store(
    collection: &Arc<Collection>,
    committer: &Sender<Message>,
    registration: &Registration,
    replaced: Option<PendingRemoval>,
) -> Result<(Ticket, Arc<PendingRegistration>, Proposals)> {
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

/// Sequences other content under the same seq, which the index need not know. With the number of the change.
///
/// # Errors
/// As [`SequencerState::check`].
pub(super) fn update(
    collection: &Arc<Collection>,
    committer: &Sender<Message>,
    registration: &Registration,
) -> Result<(Ticket, Seq)> {
    let mut state = collection.sequencer.lock();
    state.check(registration)?;
    let number = state.draw();
    Ok((take(&mut state, Rollback::nothing(collection), committer), number))
}

/// Sequences what changes no record: with the number of the change; `None` where the whole collection is dropped.
pub(super) fn other(collection: &Arc<Collection>, committer: &Sender<Message>) -> Option<(Ticket, Seq)> {
    let mut state = collection.sequencer.lock();
    if state.dropped {
        return None;
    }
    let number = state.draw();
    Some((take(&mut state, Rollback::nothing(collection), committer), number))
}

/// Sequences a removal, with the number of the change; `None` where the whole collection is dropped.
pub(super) fn remove(
    collection: &Arc<Collection>,
    committer: &Sender<Message>,
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

/// Sequences nothing: only a position behind all changes so far.
pub(super) fn barrier(collection: &Arc<Collection>, committer: &Sender<Message>) -> Ticket {
    take(&mut collection.sequencer.lock(), Rollback::nothing(collection), committer)
}

/// Notes what is to be removed, and takes a position.
fn take(state: &mut SequencerState, rollback: Rollback, committer: &Sender<Message>) -> Ticket {
    if let Some(removal) = &rollback.removal {
        state.removals.insert(removal.seq, Arc::clone(&removal.outcome));
    }
    Ticket::next(state, rollback, committer)
}

/// What was proposed, but for the record with the seq `own`, and what else is under way.
fn proposals(
    state: &SequencerState,
    registration: &Registration,
    found: doppel_core::index::Proposals,
    own: Option<Seq>,
) -> Proposals {
    let proposed = |proposal: Proposal| Proposed {
        proposal,
        registration: state.registrations.get(&proposal.seq).cloned(),
        removal: state.removals.get(&proposal.seq).cloned(),
    };
    let items = found.items.into_iter().filter(|proposal| Some(proposal.seq) != own).map(proposed).collect();
    let (mut confirmed_registrations, mut removals) = (Vec::new(), HashMap::new());
    if !registration.confirmed.is_empty() {
        let all = state.registrations.values().cloned();
        confirmed_registrations = all.filter(|pending| registration.confirmed.contains(&pending.record.id)).collect();
        removals.clone_from(&state.removals);
    }
    Proposals { items, confirmed_registrations, removals, truncated: found.truncated }
}

/// The record as it is before there is a verdict. The two halves of a replacement share one outcome.
fn pending(registration: &Registration, seq: Seq, replaced: Option<&PendingRemoval>) -> PendingRegistration {
    PendingRegistration {
        outcome: replaced.map_or_else(Arc::default, |removal| Arc::clone(&removal.outcome)),
        record: registration.record(seq, Verdict::blank(), None),
        generation: registration.generation,
        signed: Arc::clone(&registration.signed),
        standby: registration.others.clone(),
    }
}
