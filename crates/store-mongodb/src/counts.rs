//! How many records a collection has, without counting them each time.
//!
//! The database counts by walking an index, half a millisecond for a thousand records, and every page of the console asks. So a count is
//! remembered with the commit after which it was true. This instance's own commits carry it on, also those that were made while it was
//! counted; a commit of another instance, or one whose outcome is not known, ends that, and the next question counts anew.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use super::documents::{Number, RECORDS};
use super::{Shared, records_of};
use doppel_core::collection::CollectionName;
use doppel_store::{Result, Seq};

/// Own commits that are remembered of a collection, for a count that began before them: some seconds of them.
const REMEMBERED_COMMITS: usize = 1024;

/// A commit of this instance.
#[derive(Clone, Copy, Debug)]
struct Commit {
    /// The last number before those that it drew, and the last of them.
    before: Seq,
    last: Seq,
    /// Records that there are more since.
    gained: i64,
}

/// What is known of a collection: at most 24 kB.
#[derive(Default)]
struct Counted {
    /// The commit that the count holds after, and the count.
    known: Option<(Seq, u64)>,
    /// Own commits, in order.
    own: VecDeque<Commit>,
}

impl Commit {
    /// What is known behind it: the count carried on where it follows that without a gap.
    fn carry_on(self, (after, records): (Seq, u64)) -> (Seq, u64) {
        match self.before == after {
            true => (self.last, records.saturating_add_signed(self.gained)),
            false => (after, records),
        }
    }
}

/// Counts by collection.
#[derive(Default)]
pub(super) struct Counts(Mutex<HashMap<Number, Counted>>);

impl Counts {
    /// The count after the commit `last`, if it is known.
    fn at(&self, number: Number, last: Seq) -> Option<u64> {
        let known = self.0.lock().get(&number)?.known?;
        (known.0 == last).then_some(known.1)
    }

    /// Notes what was counted after the commit `after`.
    fn put(&self, number: Number, after: Seq, records: u64) {
        let mut all = self.0.lock();
        let counted = all.entry(number).or_default();
        if counted.known.is_none_or(|(known, _)| known < after) {
            counted.known = Some(counted.own.iter().fold((after, records), |known, commit| commit.carry_on(known)));
        }
    }

    /// Notes a commit of this instance that a majority has confirmed: it drew `drawn` numbers up to `last`, and there are `gained` more
    /// records since, or fewer.
    pub(super) fn committed(&self, number: Number, last: Seq, drawn: u64, gained: i64) {
        let mut all = self.0.lock();
        let counted = all.entry(number).or_default();
        if counted.own.len() == REMEMBERED_COMMITS {
            counted.own.pop_front();
        }
        let commit = Commit { before: last.before(drawn), last, gained };
        counted.own.push_back(commit);
        counted.known = counted.known.map(|known| commit.carry_on(known));
    }

    /// Forgets a collection that was dropped.
    pub(super) fn forget(&self, number: Number) {
        self.0.lock().remove(&number);
    }
}

impl Shared {
    /// Number of records. One round trip, and another one to count where others have changed the collection.
    pub(super) async fn count(&self, name: &CollectionName) -> Result<u64> {
        self.read(self.deadline(), || async {
            let mut session = self.snapshot().await?;
            let (number, last) = self.last_commit_in(&mut session, name).await?;
            if let Some(records) = self.counts.at(number, last) {
                return Ok(records);
            }
            let records = self.in_session(RECORDS).count_documents(records_of(number)).session(&mut session).await?;
            self.counts.put(number, last, records);
            Ok(records)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_carried_on_by_commits_without_a_gap_and_by_no_others() {
        let counts = Counts::default();
        counts.committed(1, Seq(5), 5, 5);
        assert_eq!(counts.at(1, Seq(5)), None, "nothing was counted yet");
        counts.put(1, Seq(5), 40);
        counts.committed(1, Seq(8), 3, 2);
        assert_eq!((counts.at(1, Seq(8)), counts.at(1, Seq(5)), counts.at(2, Seq(8))), (Some(42), None, None));
        counts.committed(1, Seq(12), 3, 3);
        assert_eq!(counts.at(1, Seq(12)), None, "number 9 is another instance's commit");
        counts.put(1, Seq(12), 50);
        counts.put(1, Seq(10), 1);
        counts.committed(1, Seq(13), 1, -1);
        assert_eq!(counts.at(1, Seq(13)), Some(49), "an older count replaces no newer one");
        counts.forget(1);
        assert_eq!(counts.at(1, Seq(13)), None);
    }

    #[test]
    fn what_was_committed_while_it_was_counted_is_added() {
        let counts = Counts::default();
        counts.put(1, Seq(10), 10);
        counts.committed(1, Seq(12), 1, 1);
        for last in 13..=20 {
            counts.committed(1, Seq(last), 1, 1);
        }
        counts.put(1, Seq(15), 100);
        assert_eq!(counts.at(1, Seq(20)), Some(105));
        for last in 21..=2_000 {
            counts.committed(1, Seq(last), 1, 0);
        }
        assert_eq!(counts.at(1, Seq(2_000)), Some(105));
        let remembered = counts.0.lock().get(&1).map(|counted| counted.own.len());
        assert_eq!(remembered, Some(REMEMBERED_COMMITS), "they are bounded");
    }
}
