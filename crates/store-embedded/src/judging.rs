//! The second stage of a registration, in the thread of the caller: decides which candidates match.
//!
//! It reads the candidates and asks a judge about them; lookups (`find`) do the same. The number of bytes that a query may read is
//! bounded ([`MAX_CANDIDATE_BYTES`]), so that similar texts of a megabyte do not delay others by seconds. Work of more than about a
//! millisecond is announced to the runtime as blocking.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::collection::Collection;
use super::disk::{Disk, PublishedView};
use super::generation::Generation;
use super::keys::GenerationKey;
use super::pending::PendingRegistration;
use super::pipeline::{CandidateProposal, ConditionalMatch, SequencedProposals};
use doppel_core::index::{Proposal, Via};
use doppel_core::record::RecordId;
use doppel_core::verdict::Match;
use doppel_store::rules::proposals::confirmed_first;
use doppel_store::{CandidateJudge, CandidateRecord, Registration, Result, StoreError, StoredRecord};

/// Largest number of bytes of candidates that are read for a query, the best first. Further candidates are not judged, and the
/// result is truncated.
const MAX_CANDIDATE_BYTES: usize = 32 << 20;
/// Number of candidates that are read before the work is announced as blocking.
const SHORT_CANDIDATES: usize = 24;
/// Number of bytes of candidates that are read before the work is announced as blocking, also the limit for a single candidate.
/// Candidates that are dismissed without reading cost almost nothing.
const SHORT_BYTES: usize = 64 << 10;

/// Returns the matches of a registration, and whether a limit removed candidates.
///
/// # Errors
/// [`StoreError::Internal`] if the disk cannot be read or the judge panics.
pub(super) fn judge(
    disk: &Disk,
    collection: &Collection,
    registration: &Registration,
    mut proposals: SequencedProposals,
    judge: &dyn CandidateJudge,
) -> Result<(Vec<ConditionalMatch>, bool)> {
    put_confirmed_first(disk, collection, registration, &mut proposals)?;
    let keys = GenerationKey { number: collection.number, generation: registration.generation };
    let (matches, cut) = catch_unwind(AssertUnwindSafe(|| judge_all(disk, keys, &proposals.items, judge)))
        .unwrap_or_else(|_| Err(StoreError::Internal("judging a candidate panicked".into())))?;
    Ok((matches, proposals.truncated || cut))
}

fn judge_all(
    disk: &Disk,
    keys: GenerationKey,
    items: &[CandidateProposal],
    judge: &dyn CandidateJudge,
) -> Result<(Vec<ConditionalMatch>, bool)> {
    let mut matches = Vec::new();
    // The view is taken after the proposals, so that it contains all records that were published then.
    let view = disk.numbered_view();
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

/// Judges a record that is not published yet.
fn judge_pending(
    pending: &PendingRegistration,
    proposal: &Proposal,
    judge: &dyn CandidateJudge,
) -> (usize, Option<Match>) {
    let found = judge.judge(&CandidateRecord {
        record: &pending.record,
        via: proposal.via,
        fingerprint: proposal.fingerprint,
        signatures: &pending.signed.signatures,
        seq_is_immutable: false,
    });
    (bytes_of(&pending.record), found)
}

/// Reads and judges a published record. Returns the number of bytes read, and the match. A record that is not published gives no
/// match.
pub(super) fn judge_stored(
    disk: &Disk,
    view: &PublishedView,
    keys: GenerationKey,
    proposal: &Proposal,
    judge: &dyn CandidateJudge,
) -> Result<(usize, Option<Match>)> {
    if judge.dismisses(proposal.seq, proposal.via) {
        return Ok((0, None));
    }
    let Some(record) = disk.candidate(view, keys.number, proposal.seq)? else { return Ok((0, None)) };
    let signatures = if judge.needs_signatures() {
        disk.entry(&view.snapshot, keys.number, keys.generation, proposal.seq)?
            .map(|entry| entry.signatures)
            .unwrap_or_default()
    } else {
        Vec::new()
    };
    let via = proposal.via;
    let fingerprint = proposal.fingerprint;
    let candidate =
        CandidateRecord { record: &record, via, fingerprint, signatures: &signatures, seq_is_immutable: true };
    let bytes = bytes_of(&record);
    let found = if bytes > SHORT_BYTES { blocking(|| judge.judge(&candidate)) } else { judge.judge(&candidate) };
    if found.is_some() {
        disk.keep_candidate(view, keys.number, record);
    }
    Ok((bytes, found))
}

/// Puts the records that match by a decision before all others, in their state when the registration was sequenced, so that no
/// limit removes them.
fn put_confirmed_first(
    disk: &Disk,
    collection: &Collection,
    registration: &Registration,
    proposals: &mut SequencedProposals,
) -> Result<()> {
    if registration.confirmed.is_empty() {
        return Ok(());
    }
    // The view is taken after the position, so that it contains every earlier change that is not pending any more, and no later
    // change.
    let view = disk.view();
    let live = collection.live();
    let keys = GenerationKey { number: collection.number, generation: registration.generation };
    let SequencedProposals { items, confirmed_registrations, removals, .. } = proposals;
    let mut confirmed = Vec::new();
    for id in registration.confirmed.iter().filter(|id| **id != registration.id) {
        let unpublished: Vec<_> = confirmed_registrations.iter().filter(|pending| pending.record.id == *id).collect();
        let stored = confirmed_proposal(disk, &view, keys, &live, id)?;
        let stored = stored.filter(|stored| unpublished.iter().all(|pending| pending.record.seq != stored.seq));
        confirmed.extend(stored.map(|proposal| CandidateProposal {
            proposal,
            registration: None,
            removal: removals.get(&proposal.seq).cloned(),
        }));
        confirmed.extend(unpublished.into_iter().map(|pending| {
            let seq = pending.record.seq;
            let fingerprint = pending.signed.fingerprint();
            let proposal = Proposal { slot: live.slot(seq), seq, via: Via::DECISION, fingerprint };
            CandidateProposal { proposal, registration: Some(Arc::clone(pending)), removal: None }
        }));
    }
    confirmed_first(items, confirmed);
    Ok(())
}

/// Returns the proposal of a published record that matches by a decision.
pub(super) fn confirmed_proposal(
    disk: &Disk,
    view: &fjall::Snapshot,
    keys: GenerationKey,
    live: &Generation,
    id: &RecordId,
) -> Result<Option<Proposal>> {
    let Some(seq) = disk.seq_of(view, keys.number, id)? else { return Ok(None) };
    let fingerprint = disk.fingerprint(view, keys, seq)?;
    Ok(Some(Proposal { slot: live.slot(seq), seq, via: Via::DECISION, fingerprint }))
}

/// Calls `visit` for each of `items` in order, until the limit of bytes is reached. `visit` returns the number of bytes that it
/// read, or stops the iteration. Returns true if the limit was reached before the last item.
pub(super) fn for_each<T>(items: &[T], mut visit: impl FnMut(&T) -> Result<ControlFlow<(), usize>>) -> Result<bool> {
    let mut bytes_read = 0;
    let mut records_read = 0;
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

/// Returns the size of a record that counts for the limit, in bytes.
pub(super) fn bytes_of(record: &StoredRecord) -> usize {
    record.content.bytes()
}

/// Runs long `work` in this thread. If the runtime has several threads, it moves its other tasks away first.
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
    fn the_best_candidates_are_read_up_to_the_limit() {
        assert_eq!(visited(&[1 << 20; 256]), (32, true));
        assert_eq!(visited(&[1 << 20; 32]), (32, false));
        assert_eq!(visited(&[MAX_CANDIDATE_BYTES + 1, 1]), (1, true));
        assert_eq!(visited(&[1000; 256]), (256, false));
        assert_eq!(visited(&[]), (0, false));
    }

    #[test]
    fn a_visit_that_stops_does_not_truncate_the_result() {
        let mut visited = 0;
        let truncated = for_each(&[(); 100], |()| {
            visited += 1;
            Ok(if visited == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(1) })
        });
        assert_eq!((visited, truncated.expect("no visit fails")), (3, false));
    }
}
