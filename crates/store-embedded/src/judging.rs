//! The second stage of a registration, on the caller's own thread: which of the proposals are matches.
//!
//! Candidates are read and a judge is asked about them; lookups (`find`) read them in the same way. What a query may read is
//! bounded ([`MAX_CANDIDATE_BYTES`]), so that near copies of a text of a megabyte delay nobody by seconds. What takes more
//! than about a millisecond is announced to the runtime as blocking.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::collection::Collection;
use super::disk::Disk;
use super::generation::Generation;
use super::pending::PendingRegistration;
use super::pipeline::{ConditionalMatch, Proposals, Proposed};
use doppel_core::index::{Proposal, Via};
use doppel_core::record::RecordId;
use doppel_core::verdict::Match;
use doppel_store::rules::proposals::confirmed_first;
use doppel_store::{Candidate, CollectionNumber, GenerationId, Judge, Registration, Result, StoreError, StoredRecord};

/// Candidates of this many bytes are read for a query, best first. Those behind are not verified, and the answer is truncated.
const MAX_CANDIDATE_BYTES: usize = 32 << 20;
/// What comes after this many candidates that had to be read is announced as blocking ...
const SHORT_CANDIDATES: usize = 24;
/// ... or after this many bytes of them, and one that has more itself. Those dismissed unread are no work to speak of.
const SHORT_BYTES: usize = 64 << 10;

/// The matches of a registration, and whether a limit cut some off.
///
/// # Errors
/// [`StoreError::Internal`] when the disk cannot be read or the judge panics.
pub(super) fn judge(
    disk: &Disk,
    collection: &Collection,
    registration: &Registration,
    mut proposals: Proposals,
    judge: &dyn Judge,
) -> Result<(Vec<ConditionalMatch>, bool)> {
    put_confirmed_first(disk, collection, registration, &mut proposals)?;
    let keys = (collection.number, registration.generation);
    let (matches, cut) = catch_unwind(AssertUnwindSafe(|| judge_all(disk, keys, &proposals.items, judge)))
        .unwrap_or_else(|_| Err(StoreError::Internal("judging a candidate panicked".into())))?;
    Ok((matches, proposals.truncated || cut))
}

fn judge_all(
    disk: &Disk,
    keys: (CollectionNumber, GenerationId),
    items: &[Proposed],
    judge: &dyn Judge,
) -> Result<(Vec<ConditionalMatch>, bool)> {
    let mut matches = Vec::new();
    // Taken after the proposals, so whatever was published by then is in it.
    let view = disk.view();
    let stored = items.iter().filter(|item| item.registration.is_none());
    judge.expects(&stored.map(|item| item.proposal.seq).collect::<Vec<_>>());
    let cut = for_each(items, |item| {
        let (bytes, found) = match &item.registration {
            Some(pending) => judge_pending(pending, &item.proposal, judge),
            None => judge_stored(disk, &view, keys, &item.proposal, judge)?,
        };
        matches.extend(found.map(|found| ConditionalMatch { found, condition: item.condition() }));
        Ok(ControlFlow::Continue(bytes))
    })?;
    Ok((matches, cut))
}

/// Asks about a record that is not published yet.
fn judge_pending(pending: &PendingRegistration, proposal: &Proposal, judge: &dyn Judge) -> (usize, Option<Match>) {
    let found = judge.judge(&Candidate {
        record: &pending.record,
        via: proposal.via,
        fingerprint: proposal.fingerprint,
        signatures: &pending.signed.signatures,
        seq_is_immutable: false,
    });
    (bytes_of(&pending.record), found)
}

/// Loads a published record and asks about it: the bytes read, and the match. A record that is not published is none.
pub(super) fn judge_stored(
    disk: &Disk,
    view: &fjall::Snapshot,
    (number, generation): (CollectionNumber, GenerationId),
    proposal: &Proposal,
    judge: &dyn Judge,
) -> Result<(usize, Option<Match>)> {
    if judge.dismisses(proposal.seq, proposal.via) {
        return Ok((0, None));
    }
    let Some(record) = disk.record(view, number, proposal.seq, false)? else { return Ok((0, None)) };
    let signatures = if judge.needs_signatures() {
        disk.entry(view, number, generation, proposal.seq)?.map(|entry| entry.signatures).unwrap_or_default()
    } else {
        Vec::new()
    };
    let (via, fingerprint) = (proposal.via, proposal.fingerprint);
    let candidate = Candidate { record: &record, via, fingerprint, signatures: &signatures, seq_is_immutable: true };
    let bytes = bytes_of(&record);
    let found = if bytes > SHORT_BYTES { blocking(|| judge.judge(&candidate)) } else { judge.judge(&candidate) };
    Ok((bytes, found))
}

/// Puts the records that match by decision before all others, as they were when the registration was sequenced: no limit
/// cuts them off.
fn put_confirmed_first(
    disk: &Disk,
    collection: &Collection,
    registration: &Registration,
    proposals: &mut Proposals,
) -> Result<()> {
    if registration.confirmed.is_empty() {
        return Ok(());
    }
    // Taken after the position: what is not under way by then is in it, and nothing later is.
    let view = disk.view();
    let (live, keys) = (collection.live(), (collection.number, registration.generation));
    let Proposals { items, confirmed_registrations, removals, .. } = proposals;
    let mut confirmed = Vec::new();
    for id in registration.confirmed.iter().filter(|id| **id != registration.id) {
        let unpublished: Vec<_> = confirmed_registrations.iter().filter(|pending| pending.record.id == *id).collect();
        let stored = confirmed_proposal(disk, &view, keys, &live, id)?;
        let stored = stored.filter(|stored| unpublished.iter().all(|pending| pending.record.seq != stored.seq));
        confirmed.extend(stored.map(|proposal| Proposed {
            proposal,
            registration: None,
            removal: removals.get(&proposal.seq).cloned(),
        }));
        confirmed.extend(unpublished.into_iter().map(|pending| {
            let (seq, fingerprint) = (pending.record.seq, pending.signed.fingerprint());
            let proposal = Proposal { slot: live.slot(seq), seq, via: Via::DECISION, fingerprint };
            Proposed { proposal, registration: Some(Arc::clone(pending)), removal: None }
        }));
    }
    confirmed_first(items, confirmed);
    Ok(())
}

/// What proposes a published record that matches by decision.
pub(super) fn confirmed_proposal(
    disk: &Disk,
    view: &fjall::Snapshot,
    keys: (CollectionNumber, GenerationId),
    live: &Generation,
    id: &RecordId,
) -> Result<Option<Proposal>> {
    let Some(seq) = disk.seq_of(view, keys.0, id)? else { return Ok(None) };
    let fingerprint = disk.fingerprint(view, keys, seq)?;
    Ok(Some(Proposal { slot: live.slot(seq), seq, via: Via::DECISION, fingerprint }))
}

/// Calls `visit` for each of `items` in order. It says how many bytes it has read, or that it has had enough. Whether the budget
/// ended before the items did.
pub(super) fn for_each<T>(items: &[T], mut visit: impl FnMut(&T) -> Result<ControlFlow<(), usize>>) -> Result<bool> {
    let (mut bytes_read, mut records_read) = (0, 0);
    let mut some = |items: &[T], most_bytes: usize, most_records: usize| -> Result<ControlFlow<(), usize>> {
        for (at, item) in items.iter().enumerate() {
            if bytes_read >= most_bytes || records_read >= most_records {
                return Ok(ControlFlow::Continue(at));
            }
            match visit(item)? {
                ControlFlow::Continue(bytes) => {
                    bytes_read += bytes;
                    records_read += usize::from(bytes > 0);
                }
                enough => return Ok(enough),
            }
        }
        Ok(ControlFlow::Continue(items.len()))
    };
    let ControlFlow::Continue(done) = some(items, SHORT_BYTES, SHORT_CANDIDATES)? else { return Ok(false) };
    let rest = &items[done..];
    if rest.is_empty() {
        return Ok(false);
    }
    let ended = blocking(|| some(rest, MAX_CANDIDATE_BYTES, usize::MAX))?;
    Ok(ended.continue_value().is_some_and(|done| done < rest.len()))
}

/// What a record counts against the budget.
pub(super) fn bytes_of(record: &StoredRecord) -> usize {
    record.content.bytes()
}

/// Runs `work`, which is long, here; the runtime, if it can, moves other work away meanwhile.
pub(super) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    let multi = Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    if multi { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(sizes: &[usize]) -> (usize, bool) {
        let mut visited = 0;
        let truncated = for_each(sizes, |bytes| {
            visited += 1;
            Ok(ControlFlow::Continue(*bytes))
        });
        (visited, truncated.expect("no visit fails"))
    }

    #[test]
    fn the_best_candidates_are_read_until_the_budget_is_used_up() {
        assert_eq!(visited(&[1 << 20; 256]), (32, true));
        assert_eq!(visited(&[1 << 20; 32]), (32, false));
        assert_eq!(visited(&[MAX_CANDIDATE_BYTES + 1, 1]), (1, true));
        assert_eq!(visited(&[1000; 256]), (256, false));
        assert_eq!(visited(&[]), (0, false));
    }

    #[test]
    fn who_has_enough_has_left_nothing_out() {
        let mut visited = 0;
        let truncated = for_each(&[(); 100], |()| {
            visited += 1;
            Ok(if visited == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(1) })
        });
        assert_eq!((visited, truncated.expect("no visit fails")), (3, false));
    }
}
