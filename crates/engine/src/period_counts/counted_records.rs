//! The records of a collection in the form for counting.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::{CountedTime, PeriodCounts, PeriodQuestion, RecordTally, ValueSource, ValueTable};
use crate::context::Context;
use crate::queue::own_time;
use doppel_core::collection::{Role, Settings};
use doppel_core::handling::Handling;
use doppel_core::record::{RecordId, Row, Value};
use doppel_core::verdict::VerdictKind;
use doppel_store::changes::{Change, ChangeKind};
use doppel_store::{CollectionNumber, Seq, StoredRecord};

/// The held records may exceed the largest number by one part in this number, so that many of the earliest records are removed at a time.
pub(super) const SLACK: usize = 16;
/// Largest number of different values of a role that are counted separately.
const MOST_VALUES: usize = 10_000;
/// Largest length of a value in characters; longer values are cut.
const MAX_VALUE_CHARS: usize = 60;
/// The roles by which records are counted.
const ROLES: [Role; 3] = [Role::Category, Role::Unit, Role::Status];
/// Largest number of fields of role `whole` by which records are counted.
const MOST_WHOLES: usize = 2;
/// Largest number of values of a field of role `whole` by which records are counted. A field with more values classifies nothing.
const MOST_WHOLE_VALUES: usize = 200;

/// The number of records that have no value, in the table of a role.
const NO_VALUE: u32 = 0;
/// The number of all values above [`MOST_VALUES`].
const OTHER_VALUE: u32 = 1;
const FIRST_VALUE: usize = 2;

/// The parts of a record by which it is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedRecord {
    pub(super) seq: Seq,
    /// Keyed hash of the id.
    id: u64,
    /// The own day and the day of receipt, in the order of [`CountedTime`].
    days: [Option<Date>; 2],
    /// The numbers of its values.
    values: [u32; ROLES.len() + MOST_WHOLES],
    pub(super) verdict: VerdictKind,
    has_reply: bool,
}

/// The different values of a role, each with a number.
#[derive(Debug, Default)]
pub(super) struct ValueNames {
    numbers: HashMap<String, u32>,
    pub(super) names: Vec<String>,
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

/// The records of one collection in the form for counting.
pub(super) struct CollectionCounts {
    collection: CollectionNumber,
    settings: Settings,
    zone: TimeZone,
    /// The names of the fields of role `whole` by which records are counted.
    wholes: Vec<String>,
    members: MemberRoles,
    pub(super) values: [ValueNames; ROLES.len() + MOST_WHOLES],
    hasher: RandomState,
    /// In commit order.
    pub(super) records: Vec<CountedRecord>,
    /// The changed records by the hashes of their ids; `None` for a removed record. [`CollectionCounts::settle`] applies them.
    pub(super) changed: HashMap<u64, Option<CountedRecord>>,
    /// True if a changed record may be among the records.
    must_search: bool,
    /// The changes up to this number are applied.
    pub(super) followed_to: Seq,
    /// Number of records of the collection, whether they are held or not. Kept only if early records are not held.
    pub(super) stored: u64,
    /// Largest number of records that are held.
    most: usize,
    /// True if early records are not held, because there are too many.
    pub(super) is_cut: bool,
}

impl CollectionCounts {
    pub(super) fn new(context: &Context, followed_to: Seq, most: usize) -> Self {
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
    pub(super) fn is_of(&self, context: &Context) -> bool {
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

    /// Adds records that are later than all held records.
    pub(super) fn append(&mut self, records: &[StoredRecord]) {
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
    pub(super) fn note(&mut self, changes: Vec<Change>) {
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
    pub(super) fn settle(&mut self) {
        let changed = std::mem::take(&mut self.changed);
        let must_search = std::mem::take(&mut self.must_search);
        if must_search {
            self.records.retain(|record| !changed.contains_key(&record.id));
        }
        // A changed record that is earlier than all held records is not added.
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
    pub(super) fn count(&self, question: &PeriodQuestion) -> PeriodCounts {
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

impl RecordTally {
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
