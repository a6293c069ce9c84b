//! The number of records of a collection, without counting them for each request.
//!
//! The database counts by scanning an index, which takes half a millisecond for a thousand records, and every page of the console needs the
//! count. Therefore, an instance stores the count together with the commit after which it was counted. Later commits of this instance
//! update the count, also commits during the counting. A commit of another instance, or a commit with an unknown outcome, makes the count
//! invalid, and the next request counts again.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;

use super::documents::{RECORDS, StoredNumber};
use super::{SharedStore, records_of};
use doppel_core::collection::CollectionName;
use doppel_store::{Result, Seq};

/// Number of remembered commits of a collection: some seconds of commits, which are added to a count that began before them.
const REMEMBERED_COMMITS: usize = 1024;

/// A commit of this instance.
#[derive(Clone, Copy, Debug)]
struct CountedCommit {
    /// The last number before the numbers that the commit drew.
    before: Seq,
    /// The last number that the commit drew.
    last: Seq,
    /// The change of the number of records.
    gained: i64,
}

/// The remembered count and commits of a collection: at most 24 kB.
#[derive(Default)]
struct CollectionCount {
    /// A commit, and the number of records after this commit.
    known: Option<(Seq, u64)>,
    /// The commits of this instance, in order.
    own: VecDeque<CountedCommit>,
}

impl CountedCommit {
    /// Returns the count after this commit if `counted` is the count directly before this commit; otherwise `counted`.
    fn carry_on(self, counted: (Seq, u64)) -> (Seq, u64) {
        let (after, records) = counted;
        match self.before == after {
            true => (self.last, records.saturating_add_signed(self.gained)),
            false => (after, records),
        }
    }
}

#[derive(Default)]
pub(super) struct RecordCounts(Mutex<HashMap<StoredNumber, CollectionCount>>);

impl RecordCounts {
    /// Returns the number of records after the commit `last`, if it is known.
    fn at(&self, number: StoredNumber, last: Seq) -> Option<u64> {
        let known = self.0.lock().get(&number)?.known?;
        (known.0 == last).then_some(known.1)
    }

    /// Stores the number of records after the commit `after`.
    fn put(&self, number: StoredNumber, after: Seq, records: u64) {
        let mut all = self.0.lock();
        let counted = all.entry(number).or_default();
        if counted.known.is_none_or(|(known, _)| known < after) {
            counted.known = Some(counted.own.iter().fold((after, records), |known, commit| commit.carry_on(known)));
        }
    }

    /// Notes a commit of this instance that a majority has confirmed. It drew `drawn` numbers up to `last` and changed the number
    /// of records by `gained`.
    pub(super) fn committed(&self, number: StoredNumber, last: Seq, drawn: u64, gained: i64) {
        let mut all = self.0.lock();
        let counted = all.entry(number).or_default();
        if counted.own.len() == REMEMBERED_COMMITS {
            counted.own.pop_front();
        }
        let commit = CountedCommit { before: last.before(drawn), last, gained };
        counted.own.push_back(commit);
        counted.known = counted.known.map(|known| commit.carry_on(known));
    }

    /// Removes a dropped collection.
    pub(super) fn forget(&self, number: StoredNumber) {
        self.0.lock().remove(&number);
    }
}

impl SharedStore {
    /// Returns the number of records. One round trip, and a second one to count if another instance changed the collection.
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
    fn commits_without_a_gap_update_a_count_and_others_make_it_invalid() {
        let counts = RecordCounts::default();
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
        assert_eq!(counts.at(1, Seq(13)), Some(49), "an older count does not replace a newer one");
        counts.forget(1);
        assert_eq!(counts.at(1, Seq(13)), None);
    }

    #[test]
    fn commits_during_the_counting_are_added() {
        let counts = RecordCounts::default();
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
        assert_eq!(remembered, Some(REMEMBERED_COMMITS), "the number of remembered commits is bounded");
    }
}
