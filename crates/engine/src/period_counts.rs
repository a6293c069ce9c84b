//! Counts of the records of a period: by the parts of the period, by verdict, and by the other values of the office in the records.
//!
//! The days, the verdict and the values of each record are kept in memory, some sixty bytes for each record, from the first request for the
//! counts of a collection on. Each request reads the change feed before it counts, so that its counts have every record that was
//! acknowledged before. Records that were deleted or replaced are not counted.
//!
//! Failpoint (feature `failpoints`): `counts::reading`, after all records of a collection were read.

mod counted_records;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::civil::Date;

use self::counted_records::CollectionCounts;
use crate::boxed;
use crate::context::Context;
use crate::held::{HeldCollections, ReadingProgress, drop_beside};
use crate::runner::point;
use crate::tasks::Window;
use crate::{Engine, Error, Result, off_thread};
use doppel_core::collection::{CollectionName, Role};
use doppel_core::verdict::VerdictKind;
use doppel_store::decisions::{Judgement, RecordPair};
use doppel_store::{Seq, StoreError};

/// Largest number of records, of all collections together, that are kept for counts: some 130 MB. Of a larger collection the latest records
/// are kept.
pub const MOST_HELD: usize = 2 << 20;
/// Number of noted changes above which they are applied before all are read: some 10 MB.
const MOST_NOTED: usize = 1 << 16;
/// Number of records that are read from the store at once.
const PIECE: usize = 256;
/// Longest time that a request waits for the reading of a large collection.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest number of decisions that are read to count the decisions of a period. Reading them takes some hundredths of a second.
const MOST_DECISIONS: usize = 20_000;

/// The time by which records are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedTime {
    /// The time of the submission that a record contains.
    Own,
    /// The time at which the present content of a record was stored.
    Receipt,
}

#[derive(Clone, Debug)]
pub struct PeriodQuestion {
    /// The time by which records are counted. `None`: by their own time if a record of the collection has one, otherwise by receipt.
    pub by: Option<CountedTime>,
    /// The first day of each part of the period, ascending. Days are in the collection's time zone.
    pub begins: Vec<Date>,
    /// The first day after the period.
    pub end: Date,
    /// Largest number of values of a role that are listed.
    pub most_values: usize,
}

/// Numbers of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordTally {
    pub original: u64,
    /// Duplicates with the same text.
    pub exact: u64,
    /// Duplicates with a similar text.
    pub near: u64,
    /// Records that are too short for a comparison.
    pub too_short: u64,
    /// Records of any verdict that have a reply.
    pub replied: u64,
}

impl RecordTally {
    /// Returns the number of all records.
    pub fn total(&self) -> u64 {
        self.original + self.exact + self.near + self.too_short
    }

    /// Returns the number of duplicates.
    pub fn repeats(&self) -> u64 {
        self.exact + self.near
    }

    /// Returns the number of records with a verdict.
    pub fn of(&self, kind: VerdictKind) -> u64 {
        match kind {
            VerdictKind::Original => self.original,
            VerdictKind::ExactDuplicate => self.exact,
            VerdictKind::NearDuplicate => self.near,
            VerdictKind::TooShort => self.too_short,
        }
    }

    pub fn sum<'a>(tallies: impl IntoIterator<Item = &'a Self>) -> Self {
        tallies.into_iter().fold(Self::default(), |sum, tally| Self {
            original: sum.original + tally.original,
            exact: sum.exact + tally.exact,
            near: sum.near + tally.near,
            too_short: sum.too_short + tally.too_short,
            replied: sum.replied + tally.replied,
        })
    }
}

/// The source of the values of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// The members of this role: category, unit or status.
    Role(Role),
    /// The field of role `whole` with this name.
    Field(String),
}

/// The records of a period by their values of one role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueTable {
    pub source: ValueSource,
    /// The values with the most records, the most frequent value first.
    pub listed: Vec<(String, RecordTally)>,
    /// The records with other values.
    pub others: RecordTally,
    /// The records without a value.
    pub without: RecordTally,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeriodCounts {
    /// The time by which the records were counted.
    pub by: CountedTime,
    /// The counts of each part of the period.
    pub parts: Vec<RecordTally>,
    /// The tables of the roles of which a record of the period has a value.
    pub tables: Vec<ValueTable>,
    /// Number of records of the collection without such a time. They are in no period.
    pub undated: u64,
    /// The days of the earliest and of the latest record of the collection.
    pub span: Option<(Date, Date)>,
    /// Number of early records of the collection that are not counted, because the collection is too large.
    pub left_out: u64,
}

/// The answer to a question about a period.
#[derive(Clone, Debug)]
pub enum CountsAnswer {
    Counted(PeriodCounts),
    /// The records are being read for the first time: number of records that are read, and of all records.
    Reading(u64, u64),
}

/// Numbers of decisions of people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JudgementCounts {
    /// Decisions that two records concern the same matter.
    pub same: u64,
    /// Decisions that two records report one event.
    pub same_event: u64,
    /// Decisions that two records concern different matters.
    pub not_same: u64,
}

/// The counts of the collections that requests asked for.
pub(super) type AllCounts = HeldCollections<CountsEntry>;

/// The counts of a collection. They are locked while they are brought up to date.
#[derive(Default)]
pub(super) struct CountsEntry(Arc<tokio::sync::Mutex<Option<CollectionCounts>>>);

impl Engine {
    /// Counts the records of a period. O(held records), plus the changes since the previous request. The first request reads all records of the
    /// collection; if this takes longer than five seconds, the request ends and the reading continues.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn period_counts(&self, collection: &CollectionName, question: PeriodQuestion) -> Result<CountsAnswer> {
        self.context(collection).await?;
        let entry = self.counts.entry(collection);
        let engine = self.clone();
        let name = collection.clone();
        let updating = async {
            // Only the request that holds the lock starts a task, so that a cancelled request leaves no task behind.
            let mut kept = Arc::clone(&entry.0).lock_owned().await;
            let updated = Arc::clone(&entry);
            let task = tokio::spawn(async move {
                // The settings may have changed while the request waited for its turn.
                let context = engine.context(&name).await?;
                let result = engine.bring_counts_up_to_date(&context, &updated.reading, &mut kept).await;
                updated.set_held(kept.as_ref().map_or(0, |counts| counts.records.len()));
                engine.counts.make_room(&name, MOST_HELD);
                result.map(|()| kept)
            });
            task.await
        };
        let Ok(updated) = tokio::time::timeout(PATIENCE, updating).await else {
            let ReadingProgress { done, all } = &entry.reading;
            return Ok(CountsAnswer::Reading(done.load(Ordering::Relaxed), all.load(Ordering::Relaxed)));
        };
        let kept = updated.unwrap_or(Err(Error::Crashed))?;
        let counted =
            off_thread(move || kept.as_ref().map_or(Err(Error::Crashed), |counts| Ok(counts.count(&question))));
        Ok(CountsAnswer::Counted(counted.await?))
    }

    async fn bring_counts_up_to_date(
        &self,
        context: &Context,
        reading: &ReadingProgress,
        kept: &mut Option<CollectionCounts>,
    ) -> Result<()> {
        let name = &context.state.name;
        drop_beside(kept.take_if(|counts| !counts.is_of(context)));
        let mut may_begin_again = true;
        loop {
            let followed_to = match kept {
                Some(counts) => counts.followed_to,
                None => kept.insert(self.read_counts(context, reading).await?).followed_to,
            };
            let page = match self.store.changes(name, followed_to, PIECE).await {
                // The changes were forgotten between two requests, or while the records were read.
                Err(StoreError::ChangesForgotten { .. }) if may_begin_again => {
                    tracing::info!(collection = %name, "the records are read again for counts, because changes were forgotten");
                    may_begin_again = false;
                    drop_beside(kept.take());
                    continue;
                }
                page => page?,
            };
            let Some(mut counts) = kept.take() else { continue };
            let more = page.more;
            let applied = off_thread(move || {
                counts.note(page.changes);
                counts.followed_to = page.next;
                if !more || counts.changed.len() > MOST_NOTED {
                    counts.settle();
                }
                Ok(counts)
            });
            let counts = kept.insert(applied.await?);
            if !more {
                if counts.is_cut {
                    counts.stored = self.store.count(name).await?;
                }
                return Ok(());
            }
        }
    }

    /// Reads all records of a collection; if the collection has more than [`MOST_HELD`] records, reads the latest of them.
    async fn read_counts(&self, context: &Context, reading: &ReadingProgress) -> Result<CollectionCounts> {
        let name = &context.state.name;
        let mut counts = CollectionCounts::new(context, self.store.last_change(name).await?, MOST_HELD);
        let stored = self.store.count(name).await?;
        reading.begin(stored);
        let mut after = Seq(0);
        let mut passed = 0;
        loop {
            let piece = self.store.records(name, after, PIECE).await?;
            let Some(last) = piece.last() else { break };
            after = last.seq;
            passed += piece.len() as u64;
            reading.done.store(passed, Ordering::Relaxed);
            if passed + MOST_HELD as u64 <= stored {
                counts.is_cut = true;
                continue;
            }
            let appended = off_thread(move || {
                counts.append(&piece);
                Ok(counts)
            });
            counts = appended.await?;
        }
        off_thread(|| {
            point("counts::reading");
            Ok(())
        })
        .await?;
        Ok(counts)
    }

    /// Counts the decisions that people made in a range of time and that hold; `None` if the collection has too many decisions. O(decisions).
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn decision_counts(
        &self,
        collection: &CollectionName,
        window: Window,
    ) -> Result<Option<JudgementCounts>> {
        let mut counts = JudgementCounts::default();
        let mut after: Option<RecordPair> = None;
        let mut passed = 0;
        loop {
            let piece = self.store.decisions(collection, after.as_ref(), PIECE).await?;
            let Some(last) = piece.last() else { return Ok(Some(counts)) };
            after = Some(last.pair.clone());
            passed += piece.len();
            if passed > MOST_DECISIONS {
                return Ok(None);
            }
            for decision in piece {
                let Some(ruling) = decision.rulings.last().filter(|ruling| window.holds(ruling.at.parse().ok())) else {
                    continue;
                };
                match ruling.judgement {
                    Judgement::Same => counts.same += 1,
                    Judgement::SameEvent => counts.same_event += 1,
                    Judgement::NotSame => counts.not_same += 1,
                    Judgement::Withdrawn => {}
                }
            }
        }
    }
}
