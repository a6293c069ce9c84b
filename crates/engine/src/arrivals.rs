//! The latest arrivals of a collection, newest first, with the decisions about them: the working list of a clerk.
//!
//! The order is the order of arrival (`seq`), never the client's time. A page is found by a walk back through the seqs of the collection,
//! so that it needs no index and includes the newest records.

use jiff::Timestamp;

use crate::answers::RecordView;
use crate::boxed;
use crate::decisions::DecisionView;
use crate::record_filter::RecordFilter;
use crate::{Engine, PAGE_BYTES, READ_AT_ONCE, Result};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::verdict::VerdictKind;
use doppel_store::decisions::{Judgement, RecordPair};
use doppel_store::{Seq, StoredRecord};

/// Largest number of seqs that the walk for one page passes; the walk takes some tens of milliseconds. If the walk finds fewer arrivals than
/// requested, the page states where the next walk begins.
const MOST_WALKED: u64 = 8 << 10;
/// Largest number of duplicates whose decision is read for one page: each read takes a millisecond if the store is a server.
const MOST_LOOKED_UP: usize = 1_000;

/// The selection of arrivals.
#[derive(Clone, Debug, Default)]
pub struct ArrivalFilter {
    /// The verdicts of the arrivals; any verdict if the list is empty.
    pub verdicts: Vec<VerdictKind>,
    /// Time from which on the arrivals were stored.
    pub since: Option<Timestamp>,
    /// True to select only duplicates about which nobody has decided yet.
    pub undecided: bool,
    /// The conditions on the other values of the office in the arrivals.
    pub record: RecordFilter,
}

/// A record that arrived, with the decision about it.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub record: RecordView,
    /// The decision about the arrival and the record that it duplicates; it may be withdrawn. `None` if people never decided about the pair.
    pub decision: Option<DecisionView>,
}

/// A page of arrivals.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Newest first.
    pub items: Vec<Arrival>,
    /// Seq before which the next page begins; `None` at the end.
    pub next: Option<Seq>,
}

impl Arrival {
    /// True if a decision about it and the record that it duplicates holds.
    pub fn is_decided(&self) -> bool {
        self.decision.as_ref().is_some_and(|decision| decision.judgement != Judgement::Withdrawn)
    }

    fn is_awaited(&self) -> bool {
        self.record.verdict.duplicate_of.is_some() && !self.is_decided()
    }
}

/// A walk back through the seqs of a collection, newest record first. Each step reads at most [`READ_AT_ONCE`] seqs.
pub(crate) struct BackwardWalk<'a> {
    engine: &'a Engine,
    collection: &'a CollectionName,
    /// The walk has passed all seqs from this seq on.
    end: u64,
    /// The last seq that the walk passes.
    last: u64,
}

impl<'a> BackwardWalk<'a> {
    /// Begins a walk at the seq before `before`, or at the latest seq. The walk passes at most `most` seqs.
    pub(crate) async fn begin(
        engine: &'a Engine,
        collection: &'a CollectionName,
        before: Option<Seq>,
        most: u64,
    ) -> Result<Self> {
        let latest = engine.store.last_change(collection).await?.next();
        let end = before.map_or(latest, |before| before.min(latest)).0;
        // No record has seq 0.
        Ok(Self { engine, collection, end, last: end.saturating_sub(most).max(1) })
    }

    /// Returns the records of the next seqs, perhaps an empty list; `None` at the end of the walk.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<StoredRecord>>> {
        if self.end <= self.last {
            return Ok(None);
        }
        let begin = self.end.saturating_sub(READ_AT_ONCE as u64).max(self.last);
        let seqs: Vec<Seq> = (begin..self.end).map(Seq).collect();
        let mut records = self.engine.store.records_at(self.collection, &seqs).await?;
        records.sort_unstable_by_key(|record| std::cmp::Reverse(record.seq));
        self.end = begin;
        Ok(Some(records))
    }

    /// Returns the seq before which another walk continues; `None` if this walk has passed all seqs.
    pub(crate) fn rest(&self) -> Option<Seq> {
        Some(Seq(self.end)).filter(|end| end.0 > 1)
    }
}

impl Engine {
    /// Returns the arrivals before the seq `before`, newest first: at most `limit`, and no more after they hold 8 MiB of rows. O(seqs that
    /// the walk passes), at most some thousands.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    #[boxed]
    pub async fn arrivals(
        &self,
        collection: &CollectionName,
        wanted: &ArrivalFilter,
        before: Option<Seq>,
        limit: usize,
    ) -> Result<Arrivals> {
        let context = self.context(collection).await?;
        let prepared = wanted.record.prepared(&context);
        let mut walk = BackwardWalk::begin(self, collection, before, MOST_WALKED).await?;
        let mut items = Vec::new();
        let mut bytes = 0;
        let mut looked_up = 0;
        while let Some(records) = walk.next().await? {
            if wanted.are_too_old(&records) {
                return Ok(Arrivals { items, next: None });
            }
            for record in records {
                if wanted.is_too_old(&record) || !prepared.accepts(&record) {
                    continue;
                }
                let seq = record.seq;
                let length = record.content.bytes();
                looked_up += usize::from(record.verdict.duplicate_of.is_some());
                let arrival = self.arrival(collection, wanted, record).await?;
                bytes += arrival.as_ref().map_or(0, |_| length);
                items.extend(arrival);
                if items.len() == limit || bytes >= PAGE_BYTES || looked_up >= MOST_LOOKED_UP {
                    return Ok(Arrivals { items, next: Some(seq).filter(|seq| seq.0 > 1) });
                }
            }
        }
        Ok(Arrivals { items, next: walk.rest() })
    }

    /// Returns a record with the decision about it, if it meets the conditions on verdicts and decisions.
    pub(crate) async fn arrival(
        &self,
        collection: &CollectionName,
        wanted: &ArrivalFilter,
        record: StoredRecord,
    ) -> Result<Option<Arrival>> {
        let kind = record.verdict.kind;
        let is_wanted = wanted.verdicts.is_empty() || wanted.verdicts.contains(&kind);
        if !is_wanted || wanted.undecided && !kind.is_duplicate() {
            return Ok(None);
        }
        let decision = match &record.verdict.duplicate_of {
            Some(original) => self.decision_if_any(collection, &record.id, original).await?,
            None => None,
        };
        let mut arrival = Arrival { record: self.view(collection, record).await?, decision };
        // Without `duplicate_of` the record that it duplicated is gone.
        arrival.decision = arrival.decision.filter(|_| arrival.record.verdict.duplicate_of.is_some());
        Ok(Some(arrival).filter(|arrival| !wanted.undecided || arrival.is_awaited()))
    }

    /// Returns the decision about a record and the record that it duplicates; `None` if nobody decided, the record is no duplicate, or the
    /// other record is gone.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    #[boxed]
    pub async fn judged(&self, collection: &CollectionName, record: &RecordView) -> Result<Option<Judgement>> {
        let Some(original) = &record.verdict.duplicate_of else { return Ok(None) };
        let decision = self.decision_if_any(collection, &record.id, original).await?;
        Ok(decision.map(|decision| decision.judgement).filter(|judgement| *judgement != Judgement::Withdrawn))
    }

    async fn decision_if_any(
        &self,
        collection: &CollectionName,
        one: &RecordId,
        other: &RecordId,
    ) -> Result<Option<DecisionView>> {
        let Some(pair) = RecordPair::new(one.clone(), other.clone()) else { return Ok(None) };
        Ok(self.store.decision(collection, &pair).await?.map(DecisionView::from))
    }
}

impl ArrivalFilter {
    /// True if the record was stored before the selected time.
    pub(crate) fn is_too_old(&self, record: &StoredRecord) -> bool {
        let Some(since) = self.since else { return false };
        record.stored_at.parse::<Timestamp>().is_ok_and(|stored| stored < since)
    }

    /// True if a walk is at records that were stored before the selected time. Clocks of several instances differ: a single record that
    /// seems older does not end a walk.
    pub(crate) fn are_too_old(&self, records: &[StoredRecord]) -> bool {
        !records.is_empty() && records.iter().all(|record| self.is_too_old(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::LetterDesk;

    fn ids(arrivals: &Arrivals) -> Vec<&str> {
        arrivals.items.iter().map(|arrival| arrival.record.id.as_str()).collect()
    }

    async fn page(desk: &LetterDesk, wanted: &ArrivalFilter, before: Option<Seq>, limit: usize) -> Arrivals {
        desk.engine.arrivals(&desk.name, wanted, before, limit).await.unwrap()
    }

    #[tokio::test]
    async fn arrivals_are_listed_newest_first_in_pages_without_gaps() {
        let desk = LetterDesk::with(&["a", "b", "c"]).await;
        desk.put("d", "幸福小区门口的垃圾三天没有清运，气味难闻，请派人处理").await;
        let all = ArrivalFilter::default();
        let duplicates = ArrivalFilter { verdicts: vec![VerdictKind::ExactDuplicate], ..ArrivalFilter::default() };
        assert_eq!(ids(&page(&desk, &all, None, 10).await), ["d", "c", "b", "a"]);
        assert_eq!(ids(&page(&desk, &duplicates, None, 10).await), ["c", "b"]);
        let first = page(&desk, &all, None, 3).await;
        let rest = page(&desk, &all, first.next, 3).await;
        assert_eq!((ids(&first), ids(&rest), rest.next), (vec!["d", "c", "b"], vec!["a"], None));
    }

    #[tokio::test]
    async fn decisions_are_listed_and_decided_arrivals_are_not_among_the_undecided() {
        let desk = LetterDesk::with(&["a", "b", "c"]).await;
        let any = ArrivalFilter::default();
        let undecided = ArrivalFilter { undecided: true, ..ArrivalFilter::default() };
        assert_eq!(ids(&page(&desk, &undecided, None, 10).await), ["c", "b"], "an original needs no decision");
        desk.decide("a", "b", Judgement::NotSame).await;
        assert_eq!(ids(&page(&desk, &undecided, None, 10).await), ["c"]);
        let all = page(&desk, &any, None, 10).await;
        assert_eq!(all.items.iter().map(Arrival::is_decided).collect::<Vec<_>>(), [false, true, false]);
        desk.decide("a", "b", Judgement::Withdrawn).await;
        assert_eq!(ids(&page(&desk, &undecided, None, 10).await), ["c", "b"]);
    }

    #[tokio::test]
    async fn records_stored_before_the_selected_time_are_left_out() {
        let desk = LetterDesk::with(&["a", "b"]).await;
        let later: Timestamp = "2026-01-01T00:00:01Z".parse().unwrap();
        let found = page(&desk, &ArrivalFilter { since: Some(later), ..ArrivalFilter::default() }, None, 10).await;
        assert!(found.items.is_empty() && found.next.is_none());
        let earlier = later - jiff::SignedDuration::from_secs(3600);
        let wanted = ArrivalFilter { since: Some(earlier), ..ArrivalFilter::default() };
        assert_eq!(ids(&page(&desk, &wanted, None, 10).await), ["b", "a"]);
    }
}
