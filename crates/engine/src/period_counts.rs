//! Counts of the records of a period: by the parts of the period, by verdict, and by the values that the office wrote beside the records.
//!
//! The days, the verdict and the values of each record are kept in memory, some sixty bytes for each record, from the first request for the
//! counts of a collection on. Each request reads the change feed before it counts, so that its counts have every record that was
//! acknowledged before. Records that were deleted or replaced are not counted.
//!
//! Failpoint (feature `failpoints`): `counts::reading`, after all records of a collection were read.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::boxed;
use crate::context::Context;
use crate::held::{HeldCollections, ReadingProgress, drop_beside};
use crate::queue::own_time;
use crate::runner::point;
use crate::tasks::Window;
use crate::{Engine, Error, Result, off_thread};
use doppel_core::collection::{CollectionName, Role, Settings};
use doppel_core::handling::Handling;
use doppel_core::record::{RecordId, Row, Value};
use doppel_core::verdict::VerdictKind;
use doppel_store::changes::{Change, ChangeKind};
use doppel_store::decisions::{Judgement, RecordPair};
use doppel_store::{CollectionNumber, Seq, StoreError, StoredRecord};

/// Largest number of records, of all collections together, that are kept for counts: some 130 MB. Of a larger collection the latest records
/// are kept.
pub const MOST_HELD: usize = 2 << 20;
/// One part in so many may be held above the largest number, so that many of the earliest records are removed at a time.
const SLACK: usize = 16;
/// Number of noted changes above which they are applied before all are read: some 10 MB.
const MOST_NOTED: usize = 1 << 16;
/// Number of records that are read from the store at once.
const PIECE: usize = 256;
/// Longest time that a request waits for the reading of a large collection.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest number of different values of a role that are told apart.
const MOST_VALUES: usize = 10_000;
/// Largest length of a value in characters; longer values are cut.
const MAX_VALUE_CHARS: usize = 60;
/// The roles by which records are counted.
const ROLES: [Role; 3] = [Role::Category, Role::Unit, Role::Status];
/// Largest number of fields of role `whole` by which records are counted.
const MOST_WHOLES: usize = 2;
/// Largest number of values of a field of role `whole` by which records are counted. A field with more values classifies nothing.
const MOST_WHOLE_VALUES: usize = 200;
/// Largest number of decisions that are read to count those of a period: some hundredths of a second.
const MOST_DECISIONS: usize = 20_000;

/// The number of records that have no value, in the table of a role.
const NO_VALUE: u32 = 0;
/// The number of all values above [`MOST_VALUES`].
const OTHER_VALUE: u32 = 1;
const FIRST_VALUE: usize = 2;

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
    /// The first day of each part of the period, ascending. Days are those of the collection's time zone.
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

    fn add(&mut self, record: &CountedRecord) {
        let count = match record.verdict {
            VerdictKind::Original => &mut self.original,
            VerdictKind::ExactDuplicate => &mut self.exact,
            VerdictKind::NearDuplicate => &mut self.near,
            VerdictKind::TooShort => &mut self.too_short,
        };
        *count += 1;
        self.replied += u64::from(record.has_reply);
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
    /// The values with the most records, the most usual one first.
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

/// The parts of a record by which it is counted.
#[derive(Clone, Copy, Debug)]
struct CountedRecord {
    seq: Seq,
    /// Keyed hash of the id.
    id: u64,
    /// The own day and the day of receipt, in the order of [`CountedTime`].
    days: [Option<Date>; 2],
    /// The numbers of its values.
    values: [u32; ROLES.len() + MOST_WHOLES],
    verdict: VerdictKind,
    has_reply: bool,
}

/// The different values of a role, each with a number.
#[derive(Debug, Default)]
struct ValueNames {
    numbers: HashMap<String, u32>,
    names: Vec<String>,
}

impl ValueNames {
    /// Returns the number of a value. The first call for a value gives it a number.
    fn number(&mut self, value: Option<&str>) -> u32 {
        let Some(value) = value.map(str::trim).filter(|value| !value.is_empty()) else { return NO_VALUE };
        let end = value.char_indices().nth(MAX_VALUE_CHARS).map_or(value.len(), |(end, _)| end);
        let value = &value[..end];
        match self.numbers.get(value) {
            Some(number) => *number,
            None if self.names.len() >= MOST_VALUES => OTHER_VALUE,
            None => {
                let number = (FIRST_VALUE + self.names.len()) as u32;
                self.numbers.insert(value.to_owned(), number);
                self.names.push(value.to_owned());
                number
            }
        }
    }
}

/// The members of the last row. Most rows have the same members.
#[derive(Debug, Default)]
struct MemberRoles {
    names: Vec<String>,
    roles: Vec<Option<Role>>,
}

/// The records of one collection as they are counted.
struct CollectionCounts {
    collection: CollectionNumber,
    settings: Settings,
    zone: TimeZone,
    /// The names of the fields of role `whole` by which records are counted.
    wholes: Vec<String>,
    members: MemberRoles,
    values: [ValueNames; ROLES.len() + MOST_WHOLES],
    hasher: RandomState,
    /// In commit order.
    records: Vec<CountedRecord>,
    /// The changed records by the hashes of their ids; `None` for a removed record. [`CollectionCounts::settle`] applies them.
    changed: HashMap<u64, Option<CountedRecord>>,
    /// True if a changed record may be among the records.
    must_search: bool,
    /// The changes up to this number are applied.
    followed_to: Seq,
    /// Number of records of the collection, whether they are held or not. Kept only if early records are not held.
    stored: u64,
    /// Largest number of records that are held.
    most: usize,
    /// True if early records are not held, because there are too many.
    is_cut: bool,
}

impl CollectionCounts {
    fn new(context: &Context, followed_to: Seq, most: usize) -> Self {
        let settings = context.state.settings.clone();
        let fields = settings.fields.iter().zip(settings.titles());
        let wholes = fields.filter(|(field, is_title)| field.role == Role::Whole && !is_title);
        Self {
            collection: context.state.number,
            zone: TimeZone::get(&settings.time_zone).unwrap_or(TimeZone::UTC),
            wholes: wholes.take(MOST_WHOLES).map(|(field, _)| field.name.clone()).collect(),
            members: MemberRoles::default(),
            values: Default::default(),
            hasher: RandomState::new(),
            records: Vec::new(),
            changed: HashMap::new(),
            must_search: false,
            followed_to,
            stored: 0,
            most,
            is_cut: false,
            settings,
        }
    }

    /// True if these are the records of the collection, read by its present settings.
    fn is_of(&self, context: &Context) -> bool {
        self.collection == context.state.number && self.settings == context.state.settings
    }

    fn hash(&self, id: &RecordId) -> u64 {
        self.hasher.hash_one(id.as_str())
    }

    fn day(&self, time: Timestamp) -> Date {
        time.to_zoned(self.zone.clone()).date()
    }

    /// Reads the parts of a record by which it is counted. O(bytes of its row).
    fn read(&mut self, record: &StoredRecord) -> CountedRecord {
        let row = record.content.read();
        let own = own_time(&record.content, row.as_ref(), &self.settings, &self.zone);
        let mut read = CountedRecord {
            seq: record.seq,
            id: self.hash(&record.id),
            days: [own, record.stored_at.parse().ok()].map(|time| time.map(|time| self.day(time))),
            values: [NO_VALUE; ROLES.len() + MOST_WHOLES],
            verdict: record.verdict.kind,
            has_reply: false,
        };
        let Some(row) = row else { return read };
        let handling = self.handling(&row);
        let wholes = self.wholes.iter().map(|name| match row.value(name) {
            Some(Value::Text(text) | Value::Literal(text)) => Some(text.as_str()),
            _ => None,
        });
        let written = [&handling.category, &handling.unit, &handling.status].map(Option::as_deref);
        let values = written.into_iter().chain(wholes);
        for ((number, names), value) in read.values.iter_mut().zip(&mut self.values).zip(values) {
            *number = names.number(value);
        }
        read.has_reply = handling.reply.is_some();
        read
    }

    fn handling(&mut self, row: &Row) -> Handling {
        if !row.names().eq(self.members.names.iter()) {
            let roles = Handling::roles(|name| self.settings.field(name).map(|field| field.role), row);
            self.members = MemberRoles { names: row.names().map(str::to_owned).collect(), roles };
        }
        Handling::by_roles(&self.members.roles, row).unwrap_or_default()
    }

    /// Adds records that are later than all held ones.
    fn append(&mut self, records: &[StoredRecord]) {
        for record in records {
            let read = self.read(record);
            self.records.push(read);
        }
        self.remove_earliest();
    }

    fn remove_earliest(&mut self) {
        if self.records.len() > self.most + self.most / SLACK {
            self.records.drain(..self.records.len() - self.most);
            self.is_cut = true;
        }
    }

    /// Notes changes, which are in their order.
    fn note(&mut self, changes: Vec<Change>) {
        let last = self.records.last().map_or(Seq(0), |record| record.seq);
        for Change { id, kind, .. } in changes {
            let is_new = matches!(&kind, ChangeKind::Created(record) if record.seq > last);
            let read = match kind {
                ChangeKind::Created(record) | ChangeKind::Replaced(record) | ChangeKind::Updated(record) => {
                    Some(self.read(&record))
                }
                ChangeKind::Removed => None,
                ChangeKind::Decided { .. } => continue,
            };
            self.must_search |= !is_new;
            self.changed.insert(self.hash(&id), read);
        }
    }

    /// Applies the noted changes. O(new records), or O(held records) if held records changed.
    fn settle(&mut self) {
        let changed = std::mem::take(&mut self.changed);
        let must_search = std::mem::take(&mut self.must_search);
        if must_search {
            self.records.retain(|record| !changed.contains_key(&record.id));
        }
        // A changed record before the held ones stays out.
        let earliest = self.records.first().filter(|_| self.is_cut).map_or(Seq(0), |record| record.seq);
        let first_added = if must_search { 0 } else { self.records.len() };
        self.records.extend(changed.into_values().flatten().filter(|record| record.seq >= earliest));
        self.records[first_added..].sort_by_key(|record| record.seq);
        self.remove_earliest();
        if must_search {
            self.forget_unused_values();
        }
    }

    /// Forgets the values that no held record has, so that they do not take the numbers of others. O(held records).
    fn forget_unused_values(&mut self) {
        for (role, values) in self.values.iter_mut().enumerate() {
            let mut is_used = vec![false; FIRST_VALUE + values.names.len()];
            self.records.iter().for_each(|record| is_used[record.values[role] as usize] = true);
            let mut numbers: Vec<u32> = (0..FIRST_VALUE as u32).collect();
            let mut used = ValueNames::default();
            for (name, is_used) in std::mem::take(&mut values.names).into_iter().zip(&is_used[FIRST_VALUE..]) {
                numbers.push(if *is_used { used.number(Some(&name)) } else { NO_VALUE });
            }
            *values = used;
            for record in &mut self.records {
                record.values[role] = numbers[record.values[role] as usize];
            }
        }
    }

    fn usual_time(&self) -> CountedTime {
        let is_dated = self.records.iter().any(|record| record.days[CountedTime::Own as usize].is_some());
        if is_dated { CountedTime::Own } else { CountedTime::Receipt }
    }

    /// Counts a period. O(held records).
    fn count(&self, question: &PeriodQuestion) -> PeriodCounts {
        let by = question.by.unwrap_or_else(|| self.usual_time());
        let mut parts = vec![RecordTally::default(); question.begins.len()];
        let mut tables =
            self.values.each_ref().map(|values| vec![RecordTally::default(); FIRST_VALUE + values.names.len()]);
        let mut undated = 0;
        let mut span: Option<(Date, Date)> = None;
        for record in &self.records {
            let Some(day) = record.days[by as usize] else {
                undated += 1;
                continue;
            };
            span = Some(span.map_or((day, day), |(first, last)| (first.min(day), last.max(day))));
            let part = question.begins.partition_point(|begin| *begin <= day).checked_sub(1);
            let Some(part) = part.filter(|_| day < question.end) else { continue };
            parts[part].add(record);
            for (table, value) in tables.iter_mut().zip(record.values) {
                table[value as usize].add(record);
            }
        }
        let sources =
            ROLES.map(ValueSource::Role).into_iter().chain(self.wholes.iter().cloned().map(ValueSource::Field));
        let tables = sources.zip(&tables).zip(&self.values).filter_map(|((source, table), values)| {
            let is_whole = matches!(source, ValueSource::Field(_));
            let is_listed = !is_whole || values.names.len() <= MOST_WHOLE_VALUES;
            is_listed.then(|| value_table(source, table, &values.names, question.most_values))
        });
        let tables = tables.filter(|table| !table.listed.is_empty() || table.others.total() > 0).collect();
        let left_out = if self.is_cut { self.stored.saturating_sub(self.records.len() as u64) } else { 0 };
        PeriodCounts { by, parts, tables, undated, span, left_out }
    }
}

fn value_table(source: ValueSource, table: &[RecordTally], names: &[String], most: usize) -> ValueTable {
    let counted = names.iter().zip(&table[FIRST_VALUE..]).filter(|(_, tally)| tally.total() > 0);
    let mut listed: Vec<(String, RecordTally)> = counted.map(|(name, tally)| (name.clone(), *tally)).collect();
    listed.sort_by(|(a, of_a), (b, of_b)| Reverse(of_a.total()).cmp(&Reverse(of_b.total())).then_with(|| a.cmp(b)));
    let rest = listed.split_off(most.min(listed.len()));
    let unlisted = rest.iter().map(|(_, tally)| tally);
    let others = RecordTally::sum(unlisted.chain([&table[OTHER_VALUE as usize]]));
    ValueTable { source, listed, others, without: table[NO_VALUE as usize] }
}

/// The counts of the collections that requests asked for.
pub(super) type AllCounts = HeldCollections<CountsEntry>;

/// The counts of a collection. They are locked while they are brought up to date.
#[derive(Default)]
pub(super) struct CountsEntry(Arc<tokio::sync::Mutex<Option<CollectionCounts>>>);

impl Engine {
    /// Counts the records of a period. O(held records), plus the changes since the previous request. The first request reads all records of
    /// the collection, and the reading goes on if the request has waited for five seconds.
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
            // Only the request whose turn it is starts a task, so that requests that do not wait any longer leave nothing behind.
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

    /// Reads all records of a collection; of a collection with more than [`MOST_HELD`] records the latest ones.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IfDuplicate;
    use crate::testing::{LETTER, LetterDesk, id};
    use doppel_core::collection::Field;
    use serde_json::json;

    async fn put(desk: &LetterDesk, name: &str, row: serde_json::Value) {
        let row = Row::parse(row.to_string().as_bytes()).unwrap();
        desk.engine.register(&desk.name, Some(id(name)), row, IfDuplicate::Keep).await.unwrap();
    }

    async fn counted(desk: &LetterDesk, by: Option<CountedTime>, begins: &[&str], end: &str) -> PeriodCounts {
        let begins = begins.iter().map(|day| day.parse().unwrap()).collect();
        let question = PeriodQuestion { by, begins, end: end.parse().unwrap(), most_values: 2 };
        match desk.engine.period_counts(&desk.name, question).await.unwrap() {
            CountsAnswer::Counted(counts) => counts,
            CountsAnswer::Reading(..) => panic!("a small collection is read at once"),
        }
    }

    #[tokio::test]
    async fn values_that_no_record_has_any_more_are_forgotten() {
        let desk = LetterDesk::with(&[]).await;
        for unit in ["城管局", "住建局", "水务局"] {
            put(&desk, "a", json!({"content": LETTER, "time": "2024-03-01", "承办单位": unit})).await;
            put(&desk, unit, json!({"content": LETTER, "time": "2024-03-01", "承办单位": "信访局"})).await;
            counted(&desk, None, &["2024-03-01"], "2024-03-02").await;
        }
        let entry = desk.engine.counts.entry(&desk.name);
        let held = entry.0.lock().await;
        let mut names = held.as_ref().unwrap().values[1].names.clone();
        names.sort();
        assert_eq!(names, ["信访局", "水务局"]);
        drop(held);
        let counts = counted(&desk, None, &["2024-03-01"], "2024-03-02").await;
        let units = counts.tables[0].listed.iter().map(|(name, tally)| (name.as_str(), tally.total()));
        assert_eq!(units.collect::<Vec<_>>(), [("信访局", 3), ("水务局", 1)]);
    }

    /// Changes records at random, in feeds of random length, and compares the held records with a model.
    #[tokio::test]
    async fn after_any_changes_the_latest_records_are_held() {
        const MOST: usize = 16;
        let desk = LetterDesk::with(&["a"]).await;
        let context = desk.engine.context(&desk.name).await.unwrap();
        let stored = desk.engine.store.records(&desk.name, Seq(0), 1).await.unwrap();
        for seed in 1..=200_u64 {
            let mut counts = CollectionCounts::new(&context, Seq(0), MOST);
            let mut model: Vec<StoredRecord> = Vec::new();
            let mut feed = Vec::new();
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            for number in 1..=120_u64 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let chosen = (random >> 16) as usize % model.len().max(1);
                let mut record = stored[0].clone();
                record.seq = Seq(number);
                record.id = id(&format!("r{number}"));
                let kind = match random % 8 {
                    0..4 => {
                        model.push(record.clone());
                        ChangeKind::Created(record.clone())
                    }
                    _ if model.is_empty() => continue,
                    4 => {
                        record.id = model.remove(chosen).id;
                        model.push(record.clone());
                        ChangeKind::Replaced(record.clone())
                    }
                    5 => {
                        model[chosen].verdict.kind = VerdictKind::NearDuplicate;
                        record = model[chosen].clone();
                        ChangeKind::Updated(record.clone())
                    }
                    _ => {
                        record = model.remove(chosen);
                        ChangeKind::Removed
                    }
                };
                feed.push(Change { number: Seq(number), id: record.id, kind });
                if random.is_multiple_of(3) {
                    counts.note(std::mem::take(&mut feed));
                }
                if random.is_multiple_of(5) {
                    counts.settle();
                }
            }
            counts.note(feed);
            counts.settle();
            let held: Vec<_> = counts.records.iter().map(|record| (record.seq, record.verdict)).collect();
            let latest: Vec<_> = model.iter().map(|record| (record.seq, record.verdict.kind)).collect();
            assert!(
                held.len() <= MOST + MOST / SLACK && latest.ends_with(&held),
                "seed {seed}: {held:?} of {latest:?}"
            );
            assert!(counts.is_cut || held.len() == latest.len(), "seed {seed}");
        }
    }

    fn totals(counts: &PeriodCounts) -> Vec<u64> {
        counts.parts.iter().map(RecordTally::total).collect()
    }

    #[tokio::test]
    async fn records_are_counted_by_day_verdict_and_value_and_every_change_is_followed() {
        let desk = LetterDesk::with(&[]).await;
        let mut settings = Settings::default();
        settings.fields.push(Field::new("区域", Role::Whole));
        desk.engine.put_collection(&desk.name, settings).await.unwrap();
        // 16:30 of the day before in UTC is the next day in the time zone of the collection.
        put(
            &desk,
            "a",
            json!({"content": LETTER, "time": "2024-02-29T16:30:00Z", "承办单位": "城管局", "区域": "东区"}),
        )
        .await;
        put(
            &desk,
            "b",
            json!({"content": LETTER, "time": "2024-03-02", "承办单位": "城管局", "区域": "东区", "答复内容": "已修好"}),
        )
        .await;
        put(&desk, "c", json!({"content": "好", "time": "some day", "承办单位": "住建局"})).await;
        let march = ["2024-03-01", "2024-03-02"];
        let counts = counted(&desk, None, &march, "2024-03-03").await;
        assert_eq!((counts.by, counts.undated, counts.left_out), (CountedTime::Own, 1, 0));
        assert_eq!(
            counts.parts,
            [
                RecordTally { original: 1, ..RecordTally::default() },
                RecordTally { exact: 1, replied: 1, ..RecordTally::default() }
            ]
        );
        assert_eq!(counts.span, Some(("2024-03-01".parse().unwrap(), "2024-03-02".parse().unwrap())));
        let both = RecordTally { original: 1, exact: 1, replied: 1, ..RecordTally::default() };
        let [unit, area] = &counts.tables[..] else { panic!("two tables: {:?}", counts.tables) };
        assert_eq!((&unit.source, &unit.listed), (&ValueSource::Role(Role::Unit), &vec![("城管局".to_owned(), both)]));
        assert_eq!(
            (&area.source, &area.listed),
            (&ValueSource::Field("区域".into()), &vec![("东区".to_owned(), both)])
        );

        // The bounds of a period are days, and the last day is not in it.
        assert_eq!(totals(&counted(&desk, None, &["2024-03-01"], "2024-03-02").await), [1]);
        assert_eq!(totals(&counted(&desk, None, &["2024-02-01"], "2024-03-01").await), [0]);

        put(&desk, "b", json!({"content": LETTER, "time": "2024-03-01", "承办单位": "城管局"})).await;
        put(&desk, "d", json!({"content": LETTER, "time": "2024-03-01"})).await;
        assert_eq!(totals(&counted(&desk, None, &march, "2024-03-03").await), [3, 0]);
        desk.engine.remove(&desk.name, &id("a")).await.unwrap();
        put(
            &desk,
            "d",
            json!({"content": "幸福小区门口的垃圾三天没有清运，气味难闻，请派人处理", "time": "2024-03-02"}),
        )
        .await;
        assert_eq!(totals(&counted(&desk, None, &march, "2024-03-03").await), [1, 1]);
        let received = counted(&desk, Some(CountedTime::Receipt), &["2026-01-01"], "2026-01-02").await;
        assert_eq!((totals(&received), received.undated), (vec![3], 0));
    }

    #[tokio::test]
    async fn without_own_times_records_are_counted_by_receipt() {
        let desk = LetterDesk::with(&["a", "b"]).await;
        let counts = counted(&desk, None, &["2026-01-01"], "2026-02-01").await;
        assert_eq!((counts.by, totals(&counts), counts.tables), (CountedTime::Receipt, vec![2], vec![]));
        let own = counted(&desk, Some(CountedTime::Own), &["2026-01-01"], "2026-02-01").await;
        assert_eq!((own.undated, totals(&own), own.span), (2, vec![0], None));
    }

    #[tokio::test]
    async fn values_beyond_the_longest_list_are_counted_together() {
        let desk = LetterDesk::with(&[]).await;
        for (name, unit) in [("a", "甲"), ("b", "乙"), ("c", "乙"), ("d", "丙"), ("e", "")] {
            put(&desk, name, json!({"content": LETTER, "time": "2024-03-01", "承办单位": unit})).await;
        }
        let counts = counted(&desk, None, &["2024-03-01"], "2024-03-02").await;
        let table = &counts.tables[0];
        let listed: Vec<(&str, u64)> =
            table.listed.iter().map(|(value, tally)| (value.as_str(), tally.total())).collect();
        assert_eq!((listed, table.others.total(), table.without.total()), (vec![("乙", 2), ("丙", 1)], 1, 1));
    }

    #[tokio::test]
    async fn decisions_are_counted_by_the_time_of_the_last_one_about_a_pair() {
        let desk = LetterDesk::with(&["a", "b", "c"]).await;
        desk.decide("a", "b", Judgement::Same).await;
        desk.decide("a", "b", Judgement::NotSame).await;
        desk.decide("a", "c", Judgement::Same).await;
        desk.decide("b", "c", Judgement::Same).await;
        desk.decide("b", "c", Judgement::Withdrawn).await;
        let from = "2026-01-01T00:00:00Z".parse().ok();
        let counts = desk.engine.decision_counts(&desk.name, Window { from, to: None }).await.unwrap();
        assert_eq!(counts, Some(JudgementCounts { same: 1, same_event: 0, not_same: 1 }));
        let before = desk.engine.decision_counts(&desk.name, Window { from: None, to: from }).await.unwrap();
        assert_eq!(before, Some(JudgementCounts::default()));
    }
}
