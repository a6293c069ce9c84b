//! What came in lately, newest first, with what people decided about it: what a clerk works through.
//!
//! The order is that of arrival (`seq`), never the client's time. A page is found by walking back through the numbers of the collection,
//! so that it needs no index and sees what was stored a moment ago.

use jiff::Timestamp;

use crate::answers::RecordView;
use crate::decisions::DecisionView;
use crate::{Engine, PAGE_BYTES, READ_AT_ONCE, Result};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_core::verdict::VerdictKind;
use doppel_store::decisions::{Judgement, RecordPair};
use doppel_store::{Seq, StoredRecord};

/// Most numbers that are walked back through for one page: some tens of milliseconds. Where fewer arrivals than wanted were found in
/// them, the page says where to go on.
const MOST_WALKED: u64 = 8 << 10;
/// Most repeats whose decision is looked up for one page: each is a read, of a millisecond where the store is a server.
const MOST_LOOKED_UP: usize = 1_000;

/// Which arrivals.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Given one of these verdicts; any where there are none.
    pub verdicts: Vec<VerdictKind>,
    /// Stored from this time on.
    pub since: Option<Timestamp>,
    /// Only repeats about which nobody has decided yet.
    pub undecided: bool,
}

/// A record that came in.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The record.
    pub record: RecordView,
    /// What was ever decided about it and the record that it repeats.
    pub decision: Option<DecisionView>,
}

/// A page of arrivals.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Newest first.
    pub items: Vec<Arrival>,
    /// Where the next page begins: before this seq. `None` at the end.
    pub next: Option<Seq>,
}

impl Arrival {
    /// Whether a person's word about it and the record that it repeats holds.
    pub fn is_decided(&self) -> bool {
        self.decision.as_ref().is_some_and(|decision| decision.judgement != Judgement::Withdrawn)
    }

    fn is_awaited(&self) -> bool {
        self.record.verdict.duplicate_of.is_some() && !self.is_decided()
    }
}

impl Engine {
    /// The arrivals before the seq `before`, newest first: at most `limit`, and no more once they hold 8 MiB of rows. O(numbers walked
    /// back through), of which there are at most some thousands.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    pub async fn arrivals(
        &self,
        collection: &CollectionName,
        wanted: &Wanted,
        before: Option<Seq>,
        limit: usize,
    ) -> Result<Arrivals> {
        let last = self.store.last_change(collection).await?.0;
        let mut end = before.map_or(last + 1, |before| before.0.min(last + 1));
        let (mut items, mut bytes, mut looked_up) = (Vec::new(), 0, 0);
        let stop = end.saturating_sub(MOST_WALKED);
        // No record has number 0.
        while end > stop.max(1) {
            let begin = end.saturating_sub(READ_AT_ONCE as u64).max(1);
            let records = self.newest_first(collection, begin, end).await?;
            let is_older = |record: &StoredRecord| wanted.since.is_some_and(|since| is_before(record, since));
            // Clocks of several instances differ: one record that seems older ends nothing.
            if !records.is_empty() && records.iter().all(is_older) {
                return Ok(Arrivals { items, next: None });
            }
            for record in records {
                if is_older(&record) {
                    continue;
                }
                let (seq, length) = (record.seq, record.content.bytes());
                looked_up += usize::from(record.verdict.duplicate_of.is_some());
                let arrival = self.arrival(collection, wanted, record).await?;
                bytes += arrival.as_ref().map_or(0, |_| length);
                items.extend(arrival);
                if items.len() == limit || bytes >= PAGE_BYTES || looked_up >= MOST_LOOKED_UP {
                    return Ok(Arrivals { items, next: Some(seq).filter(|seq| seq.0 > 1) });
                }
            }
            end = begin;
        }
        Ok(Arrivals { items, next: Some(Seq(end)).filter(|end| end.0 > 1) })
    }

    async fn newest_first(&self, collection: &CollectionName, begin: u64, end: u64) -> Result<Vec<StoredRecord>> {
        let seqs: Vec<Seq> = (begin..end).map(Seq).collect();
        let mut records = self.store.records_at(collection, &seqs).await?;
        records.sort_unstable_by_key(|record| std::cmp::Reverse(record.seq));
        Ok(records)
    }

    async fn arrival(
        &self,
        collection: &CollectionName,
        wanted: &Wanted,
        record: StoredRecord,
    ) -> Result<Option<Arrival>> {
        let kind = record.verdict.kind;
        let is_repeat = matches!(kind, VerdictKind::ExactDuplicate | VerdictKind::NearDuplicate);
        if !wanted.verdicts.is_empty() && !wanted.verdicts.contains(&kind) || wanted.undecided && !is_repeat {
            return Ok(None);
        }
        let decision = match &record.verdict.duplicate_of {
            Some(original) => self.decision_if_any(collection, &record.id, original).await?,
            None => None,
        };
        let mut arrival = Arrival { record: self.view(collection, record).await?, decision };
        // The record that it repeated is gone.
        arrival.decision = arrival.decision.filter(|_| arrival.record.verdict.duplicate_of.is_some());
        Ok(Some(arrival).filter(|arrival| !wanted.undecided || arrival.is_awaited()))
    }

    /// What people hold of a record and the one that it was found to repeat; `None` where nobody decided, it repeats none, or that one is
    /// gone.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
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

fn is_before(record: &StoredRecord, since: Timestamp) -> bool {
    record.stored_at.parse::<Timestamp>().is_ok_and(|stored| stored < since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Desk;

    fn ids(arrivals: &Arrivals) -> Vec<&str> {
        arrivals.items.iter().map(|arrival| arrival.record.id.as_str()).collect()
    }

    #[tokio::test]
    async fn arrivals_come_newest_first_in_pages_that_leave_none_out() {
        let desk = Desk::with(&["a", "b", "c"]).await;
        desk.put("d", "幸福小区门口的垃圾三天没有清运，气味难闻，请派人处理").await;
        let (all, repeats) =
            (Wanted::default(), Wanted { verdicts: vec![VerdictKind::ExactDuplicate], ..Wanted::default() });
        let arrivals = |wanted, before, limit| desk.engine.arrivals(&desk.name, wanted, before, limit);
        assert_eq!(ids(&arrivals(&all, None, 10).await.unwrap()), ["d", "c", "b", "a"]);
        assert_eq!(ids(&arrivals(&repeats, None, 10).await.unwrap()), ["c", "b"]);
        let first = arrivals(&all, None, 3).await.unwrap();
        let rest = arrivals(&all, first.next, 3).await.unwrap();
        assert_eq!((ids(&first), ids(&rest), rest.next), (vec!["d", "c", "b"], vec!["a"], None));
    }

    #[tokio::test]
    async fn what_was_decided_is_shown_and_left_out_of_what_awaits_a_decision() {
        let desk = Desk::with(&["a", "b", "c"]).await;
        let (any, undecided) = (Wanted::default(), Wanted { undecided: true, ..Wanted::default() });
        let arrivals = |wanted| desk.engine.arrivals(&desk.name, wanted, None, 10);
        assert_eq!(ids(&arrivals(&undecided).await.unwrap()), ["c", "b"], "a first case awaits none");
        desk.decide("a", "b", Judgement::NotSame).await;
        assert_eq!(ids(&arrivals(&undecided).await.unwrap()), ["c"]);
        let all = arrivals(&any).await.unwrap();
        assert_eq!(all.items.iter().map(Arrival::is_decided).collect::<Vec<_>>(), [false, true, false]);
        desk.decide("a", "b", Judgement::Withdrawn).await;
        assert_eq!(ids(&arrivals(&undecided).await.unwrap()), ["c", "b"]);
    }

    #[tokio::test]
    async fn nothing_older_than_what_is_asked_for_is_read() {
        let desk = Desk::with(&["a", "b"]).await;
        let later: Timestamp = "2026-01-01T00:00:01Z".parse().unwrap();
        let wanted = |since| Wanted { since: Some(since), ..Wanted::default() };
        let found = desk.engine.arrivals(&desk.name, &wanted(later), None, 10).await.unwrap();
        assert!(found.items.is_empty() && found.next.is_none());
        let earlier = later - jiff::SignedDuration::from_secs(3600);
        assert_eq!(ids(&desk.engine.arrivals(&desk.name, &wanted(earlier), None, 10).await.unwrap()), ["b", "a"]);
    }
}
