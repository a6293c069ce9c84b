//! Reading candidates and asking a judge about them, for registrations and lookups alike.
//!
//! What a query may read is bounded ([`MAX_CANDIDATE_BYTES`]), so that near copies of a text of a megabyte hold nobody up for
//! seconds. What takes more than about a millisecond is announced to the runtime as blocking.

use std::ops::ControlFlow;

use super::shared_state::SharedState;
use doppel_core::index::Proposal;
use doppel_core::verdict::Match;
use doppel_store::{Candidate, Judge, Result, StoredRecord};

/// Candidates of this many bytes are read for a query, best first. Those behind are not verified, and the answer is truncated.
const MAX_CANDIDATE_BYTES: usize = 32 << 20;
/// What comes after this many candidates that had to be read is announced as blocking ...
const SHORT_CANDIDATES: usize = 24;
/// ... or after this many bytes of them, and one that has more itself. Those dismissed unread are no work to speak of.
const SHORT_BYTES: usize = 64 << 10;

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

impl SharedState {
    /// Loads a published record and asks about it: the bytes read, and the match. A record that is not published is none.
    pub(super) fn judge_stored(
        &self,
        view: &fjall::Snapshot,
        (number, generation): (u32, u32),
        proposal: &Proposal,
        judge: &dyn Judge,
    ) -> Result<(usize, Option<Match>)> {
        if judge.dismisses(proposal.seq, proposal.via) {
            return Ok((0, None));
        }
        let Some(record) = self.disk.record(view, number, proposal.seq, false)? else { return Ok((0, None)) };
        let signatures = if judge.needs_signatures() {
            self.disk.entry(view, number, generation, proposal.seq)?.map(|entry| entry.signatures).unwrap_or_default()
        } else {
            Vec::new()
        };
        let (via, fingerprint) = (proposal.via, proposal.fingerprint);
        let candidate = Candidate { record: &record, via, fingerprint, signatures: &signatures, lasting: true };
        let bytes = bytes_of(&record);
        let found = if bytes > SHORT_BYTES { blocking(|| judge.judge(&candidate)) } else { judge.judge(&candidate) };
        Ok((bytes, found))
    }
}

/// What a record counts against the budget.
pub(super) fn bytes_of(record: &StoredRecord) -> usize {
    record.row.len()
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
