//! The working queue of a clerk: the latest arrivals of a collection that meet conditions, in an order of the clerk's choice, with totals.
//!
//! The engine finds a queue by a walk back through the seqs of the collection. A walk passes at most [`MOST_WALKED`] seqs and ends earlier after
//! [`MOST_DUPLICATES`] duplicates or [`MOST_BYTES`] of rows. Its totals and its order cover the records that it passed, and the answer states where
//! the next walk begins.

use std::collections::HashMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::arrivals::{Arrival, ArrivalFilter, BackwardWalk};
use crate::boxed;
use crate::context::Context;
use crate::record_filter::PreparedFilter;
use crate::tasks::Window;
use crate::{Engine, Result};
use doppel_core::collection::{CollectionName, Role, Settings};
use doppel_core::record::{RecordId, Row, Value};
use doppel_core::text::time;
use doppel_core::verdict::{Match, Relation, VIA_EXACT, Verdict};
use doppel_store::content::RecordContent;
use doppel_store::decisions::{Judgement, RecordPair};
use doppel_store::{Seq, StoredRecord};

/// Largest number of seqs that the walk for a queue passes: some tens of milliseconds.
pub const MOST_WALKED: u64 = 8 << 10;
/// Largest number of duplicates whose decision is read for a queue.
const MOST_DUPLICATES: usize = 4_000;
/// Largest number of these duplicates if the store is a server: each read takes a millisecond.
const MOST_DUPLICATES_OF_SERVER: usize = 1_000;
/// Bytes of rows after which a walk ends.
const MOST_BYTES: usize = 64 << 20;
/// Largest number of seqs that the walk for the numbers of one collection on the start page passes.
const MOST_COUNTED: u64 = 2 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueOrder {
    /// The latest arrival first.
    #[default]
    Newest,
    /// First the duplicate whose probability is nearest to one half; duplicates with the same text come after all others, and originals at the end.
    Uncertain,
    /// Duplicates with the same text first, then the duplicate with the highest probability, and originals at the end.
    Probable,
    /// The record with the latest own time first, and records without a time at the end.
    RecordTime,
}

/// The selection of a queue.
#[derive(Clone, Debug, Default)]
pub struct QueueFilter {
    /// The conditions on the arrival.
    pub arrival: ArrivalFilter,
    /// Only records whose own time is in this window.
    pub time: Window,
    /// Only duplicates with at least this probability.
    pub least: Option<f64>,
    /// Only duplicates with a probability below this value.
    pub below: Option<f64>,
    /// Only duplicates with the same text as the record that they duplicate.
    pub same_text: bool,
    /// Only duplicates of a record that names the same petitioner.
    pub same_petitioner: bool,
    /// Only records up to this seq.
    pub up_to: Option<Seq>,
}

/// An arrival of a queue, without its row.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuedRecord {
    pub id: RecordId,
    /// The number of the record in commit order.
    pub seq: Seq,
    /// True if the record has the same text as the record that it duplicates. An exact duplicate of one record may duplicate an earlier record with
    /// a similar text.
    pub same_text: bool,
    /// The record that this record duplicates, and the number of rulings about the pair; `None` for an original.
    pub repeats: Option<RepeatedRecord>,
    /// The probability that the record and the record that it duplicates are about one matter; 1 if both have the same text.
    pub probability: Option<f64>,
    /// The time of the record's submission.
    pub time: Option<Timestamp>,
}

/// The record that an arrival duplicates.
#[derive(Clone, Debug, PartialEq)]
pub struct RepeatedRecord {
    pub id: RecordId,
    /// Number of rulings about the arrival and this record.
    pub rulings: usize,
    /// The judgement about the two that holds.
    pub judgement: Judgement,
}

/// The queue of a collection.
#[derive(Clone, Debug)]
pub struct RecordQueue {
    /// All records of the queue, in its order.
    pub records: Vec<QueuedRecord>,
    /// Number of duplicates with the same text as the record that they duplicate.
    pub exact: usize,
    /// Number of other duplicates.
    pub near: usize,
    /// Seq before which the next walk begins; `None` if the walk reached the first record.
    pub next: Option<Seq>,
}

/// The numbers of one collection for the start page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingCounts {
    /// Number of duplicates without a decision.
    pub undecided: usize,
    /// Number of records that arrived since the time of the request.
    pub arrived: usize,
    /// True if all records were counted; otherwise the numbers are lower bounds.
    pub is_complete: bool,
}

impl Engine {
    /// Returns the queue of the records before the seq `before`. O(seqs that the walk passes), at most [`MOST_WALKED`].
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    #[boxed]
    pub async fn queue(
        &self,
        collection: &CollectionName,
        wanted: &QueueFilter,
        order: QueueOrder,
        before: Option<Seq>,
    ) -> Result<RecordQueue> {
        let context = self.context(collection).await?;
        let reading = QueueReading::new(&context, wanted, order);
        // The walk begins at `up_to`.
        let begin = [before, wanted.up_to.map(Seq::next)].into_iter().flatten().min();
        let mut walk = BackwardWalk::begin(self, collection, begin, MOST_WALKED).await?;
        let mut found = QueueWalk::default();
        let most_duplicates = self.most_duplicates();
        while let Some(records) = walk.next().await? {
            if wanted.arrival.are_too_old(&records) {
                return Ok(found.queue(order, None));
            }
            for record in records {
                let seq = record.seq;
                found.bytes += record.content.bytes();
                if let Some(queued) = reading.accepted(&record) {
                    self.add_to_queue(collection, wanted, record, queued, &mut found).await?;
                }
                if found.duplicates >= most_duplicates || found.bytes >= MOST_BYTES {
                    return Ok(found.queue(order, Some(seq).filter(|seq| seq.0 > 1)));
                }
            }
        }
        Ok(found.queue(order, walk.rest()))
    }

    fn most_duplicates(&self) -> usize {
        if self.store.is_shared() { MOST_DUPLICATES_OF_SERVER } else { MOST_DUPLICATES }
    }

    async fn add_to_queue(
        &self,
        collection: &CollectionName,
        wanted: &QueueFilter,
        record: StoredRecord,
        mut found: QueuedRecord,
        walk: &mut QueueWalk,
    ) -> Result<()> {
        let StoredRecord { verdict, duplicate_of_seq, .. } = record;
        let is_duplicate = verdict.kind.is_duplicate();
        walk.duplicates += usize::from(verdict.duplicate_of.is_some());
        let original = verdict.duplicate_of.clone();
        if let Some((pair, id)) = original.and_then(|id| Some((RecordPair::new(found.id.clone(), id.clone())?, id))) {
            let decision = self.store.decision(collection, &pair).await?;
            let rulings = decision.as_ref().map_or(0, |decision| decision.rulings.len());
            let judgement = decision.and_then(|decision| decision.holding()).unwrap_or(Judgement::Withdrawn);
            found.repeats = Some(RepeatedRecord { id, rulings, judgement });
        }
        let is_awaited = found.repeats.as_ref().is_some_and(|repeats| repeats.judgement == Judgement::Withdrawn);
        if wanted.arrival.undecided && !is_awaited {
            return Ok(());
        }
        let (_, is_gone) = self.as_it_is_now(collection, verdict, duplicate_of_seq).await?;
        found.repeats = found.repeats.filter(|_| !is_gone);
        if !wanted.arrival.undecided || !is_gone {
            walk.exact += usize::from(found.same_text);
            walk.near += usize::from(is_duplicate && !found.same_text);
            walk.records.push(found);
        }
        Ok(())
    }

    /// Returns the arrivals with these seqs, in this order. Records that are gone are left out. O(seqs) reads.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    #[boxed]
    pub async fn arrivals_at(&self, collection: &CollectionName, seqs: &[Seq]) -> Result<Vec<Arrival>> {
        let records = self.store.records_at(collection, seqs).await?;
        let mut by_seq: HashMap<Seq, StoredRecord> = records.into_iter().map(|record| (record.seq, record)).collect();
        let mut arrivals = Vec::with_capacity(seqs.len());
        for seq in seqs {
            let Some(record) = by_seq.remove(seq) else { continue };
            arrivals.extend(self.arrival(collection, &ArrivalFilter::default(), record).await?);
        }
        Ok(arrivals)
    }

    /// Counts the duplicates without a decision, and the records that arrived since `since`, among the latest records: at most 2,048 seqs.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    #[boxed]
    pub async fn waiting_counts(&self, collection: &CollectionName, since: Timestamp) -> Result<WaitingCounts> {
        let today = ArrivalFilter { since: Some(since), ..ArrivalFilter::default() };
        let wanted = ArrivalFilter { undecided: true, ..ArrivalFilter::default() };
        let mut walk = BackwardWalk::begin(self, collection, None, MOST_COUNTED).await?;
        let mut counts = WaitingCounts::default();
        let mut duplicates = 0;
        let mut bytes = 0;
        while let Some(records) = walk.next().await? {
            for record in records {
                counts.arrived += usize::from(!today.is_too_old(&record));
                bytes += record.content.bytes();
                if record.verdict.duplicate_of.is_some() {
                    duplicates += 1;
                    let arrival = self.arrival(collection, &wanted, record).await?;
                    counts.undecided += usize::from(arrival.is_some());
                }
                if duplicates >= MOST_DUPLICATES_OF_SERVER || bytes >= MOST_BYTES {
                    return Ok(counts);
                }
            }
        }
        counts.is_complete = walk.rest().is_none();
        Ok(counts)
    }
}

/// The conditions of a queue in the form in which they are compared with records.
struct QueueReading<'a> {
    wanted: &'a QueueFilter,
    prepared: PreparedFilter<'a>,
    settings: &'a Settings,
    zone: TimeZone,
    /// True if the times of records are needed.
    reads_time: bool,
}

impl<'a> QueueReading<'a> {
    fn new(context: &'a Context, wanted: &'a QueueFilter, order: QueueOrder) -> Self {
        let settings = &context.state.settings;
        Self {
            wanted,
            prepared: wanted.arrival.record.prepared(context),
            settings,
            zone: TimeZone::get(&settings.time_zone).unwrap_or(TimeZone::UTC),
            reads_time: order == QueueOrder::RecordTime || wanted.time != Window::default(),
        }
    }

    /// Returns the record if it meets all conditions that need no other record.
    fn accepted(&self, record: &StoredRecord) -> Option<QueuedRecord> {
        let QueueFilter { arrival, time, least, below, same_text, same_petitioner, up_to: _ } = self.wanted;
        let verdict = &record.verdict;
        let is_wanted = arrival.verdicts.is_empty() || arrival.verdicts.contains(&verdict.kind);
        if !is_wanted || arrival.undecided && !verdict.kind.is_duplicate() || arrival.is_too_old(record) {
            return None;
        }
        let probability = probability(verdict);
        let is_same_text = repeats_same_text(verdict);
        if *same_text && !is_same_text {
            return None;
        }
        let is_least = least.is_none_or(|least| probability.is_some_and(|probability| probability >= least));
        let is_below = below.is_none_or(|below| probability.is_some_and(|probability| probability < below));
        if !is_least || !is_below || *same_petitioner && !repeats_own(verdict) || !self.prepared.accepts(record) {
            return None;
        }
        let row = if self.reads_time { record.content.read() } else { None };
        let own_time = own_time(&record.content, row.as_ref(), self.settings, &self.zone);
        let is_within = *time == Window::default() || time.holds(own_time);
        is_within.then(|| QueuedRecord {
            id: record.id.clone(),
            seq: record.seq,
            same_text: is_same_text,
            repeats: None,
            probability,
            time: own_time,
        })
    }
}

/// Returns the time of the submission that a record contains. `row` is the row of the content, if it is kept.
pub(crate) fn own_time(
    content: &RecordContent,
    row: Option<&Row>,
    settings: &Settings,
    zone: &TimeZone,
) -> Option<Timestamp> {
    if let RecordContent::Hashes(hashes) = content {
        return hashes.time.as_deref()?.parse().ok();
    }
    let fields = settings.fields.iter().filter(|field| field.role == Role::Time);
    let mut texts = fields.filter_map(|field| match row?.value(&field.name)? {
        Value::Text(text) | Value::Literal(text) => Some(text),
        Value::Null | Value::Nested => None,
    });
    texts.find_map(|text| time::parse(text, zone))
}

/// Returns the match with the record that a record duplicates.
fn match_with_original(verdict: &Verdict) -> Option<&Match> {
    let original = verdict.duplicate_of.as_ref()?;
    verdict.similar.iter().find(|found| found.id == *original)
}

/// True if a record has the same text as the record that it duplicates.
pub fn repeats_same_text(verdict: &Verdict) -> bool {
    // A record with the same web address may have another text.
    match_with_original(verdict).is_some_and(|found| found.via.iter().any(|via| via == VIA_EXACT))
}

/// Returns the probability that a duplicate and the record that it duplicates are about one matter.
pub fn probability(verdict: &Verdict) -> Option<f64> {
    let found = match_with_original(verdict)?;
    if found.is_exact() { Some(1.0) } else { found.probability.or(found.similarity) }
}

/// True if the record duplicates a record of the same petitioner.
fn repeats_own(verdict: &Verdict) -> bool {
    match_with_original(verdict).is_some_and(|found| found.relation == Some(Relation::Repeat))
}

/// The records that a walk has found.
#[derive(Default)]
struct QueueWalk {
    records: Vec<QueuedRecord>,
    exact: usize,
    near: usize,
    duplicates: usize,
    bytes: usize,
}

impl QueueWalk {
    fn queue(self, order: QueueOrder, next: Option<Seq>) -> RecordQueue {
        let Self { mut records, exact, near, .. } = self;
        // The sort keeps the order of arrival where the keys are equal.
        match order {
            QueueOrder::Newest => {}
            QueueOrder::Uncertain => records.sort_by(|a, b| certainty(a).total_cmp(&certainty(b))),
            QueueOrder::Probable => {
                records.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
            }
            QueueOrder::RecordTime => records.sort_by_key(|record| std::cmp::Reverse(record.time)),
        }
        RecordQueue { records, exact, near, next }
    }
}

/// Returns the distance of the probability from one half; a larger value for the same text, and the largest without a probability.
fn certainty(record: &QueuedRecord) -> f64 {
    match (record.same_text, record.probability) {
        (true, _) => 1.0,
        (_, Some(probability)) => (probability - 0.5).abs(),
        (_, None) => 2.0,
    }
}

/// Returns the probability; more for the same text, and less than 0 without a probability.
fn rank(record: &QueuedRecord) -> f64 {
    match (record.same_text, record.probability) {
        (true, _) => 2.0,
        (_, probability) => probability.unwrap_or(-1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IfDuplicate;
    use crate::record_filter::RecordFilter;
    use crate::testing::{LETTER, LetterDesk};
    use doppel_core::record::Row;
    use serde_json::{Value as Json, json};

    async fn put(desk: &LetterDesk, id: &str, row: Json) {
        let row = Row::parse(row.to_string().as_bytes()).unwrap();
        desk.engine.register(&desk.name, RecordId::new(id).ok(), row, IfDuplicate::Keep).await.unwrap();
    }

    /// Registers an original, a near duplicate of the same petitioner, an exact duplicate, and another original.
    async fn office() -> LetterDesk {
        let desk = LetterDesk::with(&[]).await;
        put(&desk, "a", json!({"content": LETTER, "user": "甲", "time": "2024-03-04 09:00", "承办单位": "城管局"}))
            .await;
        let near = format!("{LETTER}。请答复");
        put(&desk, "b", json!({"content": near, "user": "甲", "time": "2024-03-01 09:00", "承办单位": "城管局"})).await;
        put(&desk, "c", json!({"content": LETTER, "user": "乙", "time": "2024-03-02 09:00", "承办单位": "住建局"}))
            .await;
        put(&desk, "d", json!({"content": "游泳馆的更衣室没有热水，冬天的课程无法进行，请尽快修复"})).await;
        desk
    }

    async fn ids(desk: &LetterDesk, wanted: &QueueFilter, order: QueueOrder) -> Vec<String> {
        let queue = desk.engine.queue(&desk.name, wanted, order, None).await.unwrap();
        queue.records.iter().map(|record| record.id.to_string()).collect()
    }

    fn undecided() -> QueueFilter {
        let arrival = ArrivalFilter { undecided: true, ..ArrivalFilter::default() };
        QueueFilter { arrival, ..QueueFilter::default() }
    }

    #[tokio::test]
    async fn a_queue_has_the_chosen_order_and_totals() {
        let desk = office().await;
        let all = QueueFilter::default();
        for (order, expected) in [
            (QueueOrder::Newest, ["d", "c", "b", "a"]),
            (QueueOrder::Uncertain, ["b", "c", "d", "a"]),
            (QueueOrder::Probable, ["c", "b", "d", "a"]),
            (QueueOrder::RecordTime, ["a", "c", "b", "d"]),
        ] {
            assert_eq!(ids(&desk, &all, order).await, expected, "{order:?}");
        }
        let queue = desk.engine.queue(&desk.name, &undecided(), QueueOrder::Newest, None).await.unwrap();
        assert_eq!((queue.records.len(), queue.exact, queue.near, queue.next), (2, 1, 1, None));
        assert_eq!(queue.records[0].repeats.as_ref().map(|repeats| repeats.id.as_str()), Some("a"));
        desk.decide("a", "b", Judgement::NotSame).await;
        assert_eq!(ids(&desk, &undecided(), QueueOrder::Newest).await, ["c"], "a decided record leaves the queue");
    }

    #[tokio::test]
    async fn a_queue_contains_the_records_that_meet_all_conditions() {
        let desk = office().await;
        let time = |from: Option<&str>, to: Option<&str>| Window {
            from: from.map(|from| from.parse().unwrap()),
            to: to.map(|to| to.parse().unwrap()),
        };
        let unit = RecordFilter { unit: Some("城管局".into()), ..RecordFilter::default() };
        let of_unit = ArrivalFilter { record: unit, ..ArrivalFilter::default() };
        for (wanted, expected) in [
            (QueueFilter { least: Some(0.1), ..undecided() }, vec!["c", "b"]),
            (QueueFilter { below: Some(0.1), ..undecided() }, vec![]),
            (QueueFilter { same_petitioner: true, ..undecided() }, vec!["b"]),
            (QueueFilter { arrival: of_unit, ..QueueFilter::default() }, vec!["b", "a"]),
            (QueueFilter { up_to: Some(Seq(2)), ..undecided() }, vec!["b"]),
            (QueueFilter { time: time(Some("2024-03-02T00:00:00Z"), None), ..QueueFilter::default() }, vec!["c", "a"]),
            (QueueFilter { time: time(None, Some("2024-03-02T00:00:00Z")), ..QueueFilter::default() }, vec!["b"]),
        ] {
            assert_eq!(ids(&desk, &wanted, QueueOrder::Newest).await, expected, "{wanted:?}");
        }
        let arrivals = desk.engine.arrivals_at(&desk.name, &[Seq(3), Seq(99), Seq(1)]).await.unwrap();
        assert_eq!(arrivals.iter().map(|arrival| arrival.record.id.as_str()).collect::<Vec<_>>(), ["c", "a"]);
    }

    #[tokio::test]
    async fn an_exact_copy_of_a_similar_record_has_not_the_text_of_the_original() {
        let desk = office().await;
        let near = format!("{LETTER}。请答复");
        put(&desk, "e", json!({"content": near, "user": "丙"})).await;
        let same_text = QueueFilter { same_text: true, ..undecided() };
        assert_eq!(ids(&desk, &same_text, QueueOrder::Newest).await, ["c"], "e copies b and duplicates a");
        let queue = desk.engine.queue(&desk.name, &undecided(), QueueOrder::Newest, None).await.unwrap();
        assert_eq!((queue.exact, queue.near), (1, 2));
    }

    #[tokio::test]
    async fn the_records_that_wait_are_counted() {
        let desk = office().await;
        let earlier = "2025-12-31T00:00:00Z".parse().unwrap();
        let later = "2026-01-02T00:00:00Z".parse().unwrap();
        let counts = desk.engine.waiting_counts(&desk.name, earlier).await.unwrap();
        assert_eq!(counts, WaitingCounts { undecided: 2, arrived: 4, is_complete: true });
        desk.decide("a", "b", Judgement::Same).await;
        let counts = desk.engine.waiting_counts(&desk.name, later).await.unwrap();
        assert_eq!(counts, WaitingCounts { undecided: 1, arrived: 0, is_complete: true });
    }
}
