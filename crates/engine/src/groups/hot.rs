//! What is hot of late: the matters that most people wrote about, and the people who wrote most about one matter.
//!
//! Only groups with a record in the time asked about are looked at: O(members of all groups) to find them, O(members + pairs) of
//! their components to rank them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::{GroupView, Groups};
use crate::context::Context;
use crate::read_records::ReadRecord;
use crate::{Engine, Result, off_thread};
use doppel_core::collection::CollectionName;
use doppel_core::index::groups::Group;
use doppel_core::record::RecordId;
use doppel_core::verdict::ObjectKind;
use doppel_store::Seq;

/// Records of a matter that are read to find what they name: the latest. Enough to see what most of them name, and few enough to
/// do it for all matters of a page.
const SAMPLED: usize = 8;
/// Matters of a petitioner that are named; the others are counted.
const MOST_MATTERS: usize = 3;

/// A part of a ranking.
#[derive(Clone, Debug)]
pub struct Ranked<T> {
    /// Best first.
    pub items: Vec<T>,
    /// How many there are in all.
    pub total: usize,
}

impl<T> Ranked<T> {
    fn part(items: Vec<T>, skip: usize, limit: usize) -> Self {
        let total = items.len();
        Self { items: items.into_iter().skip(skip).take(limit).collect(), total }
    }
}

/// A matter with records of late.
#[derive(Clone, Debug)]
pub struct HotIssue {
    /// The group.
    pub group: GroupView,
    /// Its records in the time asked about.
    pub recent: usize,
    /// How many of them in each part of that time.
    pub trend: Vec<usize>,
    /// Its latest records, a few.
    pub latest: Vec<RecordId>,
}

/// Somebody who wrote more than once about one matter.
#[derive(Clone, Debug)]
pub struct RepeatPetitioner {
    /// One of their records: it says who they are.
    pub example: RecordId,
    /// Their records about matters that they wrote about more than once.
    pub records: usize,
    /// Those of them in the time asked about.
    pub recent: usize,
    /// How many such matters.
    pub matters: usize,
    /// The first of these, most records first.
    pub most: Vec<Matter>,
    /// Time of the earliest.
    pub first: Option<Timestamp>,
    /// Time of the latest.
    pub last: Option<Timestamp>,
}

/// A matter that a petitioner wrote about.
#[derive(Clone, Debug)]
pub struct Matter {
    /// Their earliest record in it.
    pub id: RecordId,
    /// How many records of theirs it has.
    pub records: usize,
}

/// What records name most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MostNamed {
    /// What it is.
    pub kind: ObjectKind,
    /// Its name, normalised.
    pub name: String,
    /// How many of the records that were read name it.
    pub records: usize,
    /// How many were read.
    pub of: usize,
}

/// What one petitioner wrote about one or more matters.
#[derive(Clone, Debug)]
struct Wrote {
    earliest: Seq,
    records: usize,
    recent: usize,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    /// Earliest record of theirs in each matter, and their number of records in it.
    matters: Vec<(Seq, usize)>,
}

impl Engine {
    /// The matters with records since the first of `begins`, those of most petitioners first, then of most records; `limit` of
    /// them after the first `skip`. `begins` are the beginnings of the parts of a trend, ascending; the last part has no end. O(members
    /// of all groups), and O(members + pairs) of those with such records.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    pub async fn hot_issues(
        &self,
        collection: &CollectionName,
        begins: &[Timestamp],
        skip: usize,
        limit: usize,
    ) -> Result<Ranked<HotIssue>> {
        let (since, begins) = (begins.first().copied().unwrap_or(Timestamp::MAX), begins.to_vec());
        self.with_groups(collection, move |groups| {
            let issues = groups.since(since).into_iter().map(|group| groups.issue(&group, since, &begins));
            let mut issues: Vec<HotIssue> = issues.collect();
            // Of equals the one whose group began first: the order in which they come.
            issues.sort_by_key(|issue| std::cmp::Reverse((issue.group.recent_petitioners, issue.recent)));
            Ok(Ranked::part(issues, skip, limit))
        })
        .await
    }

    /// Those who wrote more than once about one matter, and at least once since `since`: most records since then first, then most
    /// in all; `limit` of them after the first `skip`. Of matters that nobody wrote about since then nothing is counted. Costs what
    /// [`Engine::hot_issues`] does.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    pub async fn repeat_petitioners(
        &self,
        collection: &CollectionName,
        since: Timestamp,
        skip: usize,
        limit: usize,
    ) -> Result<Ranked<RepeatPetitioner>> {
        self.with_groups(collection, move |groups| {
            let mut all: HashMap<u64, Wrote> = HashMap::new();
            for group in groups.since(since) {
                for (petitioner, wrote) in groups.by_petitioner(&group, since) {
                    if wrote.records > 1 {
                        all.entry(petitioner).and_modify(|before| before.add(&wrote)).or_insert(wrote);
                    }
                }
            }
            let mut all: Vec<Wrote> = all.into_values().filter(|wrote| wrote.recent > 0).collect();
            all.sort_by_key(|wrote| (std::cmp::Reverse((wrote.recent, wrote.records)), wrote.earliest));
            let Ranked { items, total } = Ranked::part(all, skip, limit);
            Ok(Ranked { items: items.into_iter().map(|wrote| groups.petitioner(wrote)).collect(), total })
        })
        .await
    }

    /// The road, place, water, organisation or district that most of these records name; of equals the one that says most of
    /// where. `None` where none is named by two of them, or by the only one. O(records) reads, of texts that are mostly
    /// remembered.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    pub async fn most_named(&self, collection: &CollectionName, ids: &[RecordId]) -> Result<Option<MostNamed>> {
        let context = self.context(collection).await?;
        let mut read = Vec::with_capacity(ids.len());
        for id in ids {
            let record = self.store.record(collection, id).await?;
            read.extend(record.and_then(|record| context.keep(&record)));
        }
        off_thread(move || Ok(most_named(&context, &read))).await
    }
}

fn most_named(context: &Context, read: &[Arc<ReadRecord>]) -> Option<MostNamed> {
    let mut named: HashMap<(ObjectKind, &str), (usize, usize)> = HashMap::new();
    for record in read {
        for object in record.named(|text| context.named(text)).objects() {
            let at = named.len();
            if precision(object.kind) > 0 {
                named.entry((object.kind, &object.name)).or_insert((0, at)).0 += 1;
            }
        }
    }
    let rank = |((kind, _), (records, at)): &((ObjectKind, &str), (usize, usize))| {
        (*records, precision(*kind), std::cmp::Reverse(*at))
    };
    let ((kind, name), (records, _)) = named.into_iter().max_by_key(rank)?;
    let best = MostNamed { kind, name: name.to_owned(), records, of: read.len() };
    Some(best).filter(|best| best.records > 1 || best.of == 1)
}

/// How much a name says of where something is; 0 where nothing.
fn precision(kind: ObjectKind) -> u8 {
    match kind {
        ObjectKind::Place => 5,
        ObjectKind::Road => 4,
        ObjectKind::Water => 3,
        ObjectKind::Organisation => 2,
        ObjectKind::District => 1,
        ObjectKind::Plate
        | ObjectKind::Number
        | ObjectKind::Line
        | ObjectKind::Amount
        | ObjectKind::HouseNumber
        | ObjectKind::Building
        | ObjectKind::Unit
        | ObjectKind::Room
        | ObjectKind::Phase
        | ObjectKind::VillageGroup => 0,
    }
}

impl Wrote {
    /// Adds what the same person wrote about another matter.
    fn add(&mut self, other: &Self) {
        self.earliest = self.earliest.min(other.earliest);
        self.records += other.records;
        self.recent += other.recent;
        self.first = earlier(self.first, other.first);
        self.last = self.last.max(other.last);
        self.matters.extend(&other.matters);
    }
}

/// The earlier of two times, as far as there are any.
fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}

impl Groups {
    /// The groups with a record from `since` on, by first member of their component.
    fn since(&self, since: Timestamp) -> Vec<Group> {
        let is_recent =
            |seq: u64| self.members.get(&Seq(seq)).is_some_and(|member| member.time.is_some_and(|time| time >= since));
        let mut recent: Vec<u64> = self.members.keys().map(|seq| seq.0).filter(|seq| is_recent(*seq)).collect();
        recent.sort_unstable();
        let (mut seen, mut found) = (HashSet::new(), Vec::new());
        for seq in recent {
            if seen.contains(&seq) {
                continue;
            }
            let groups = self.beside(seq);
            seen.extend(groups.iter().flat_map(|group| group.members.iter().copied()));
            let recent = groups.iter().filter(|group| group.members.iter().any(|seq| is_recent(*seq)));
            found.extend(recent.cloned());
        }
        found.sort_unstable_by_key(|group| group.members[0]);
        found
    }

    fn issue(&self, group: &Group, since: Timestamp, begins: &[Timestamp]) -> HotIssue {
        let mut trend = vec![0; begins.len()];
        let mut dated = Vec::with_capacity(group.members.len());
        for member in self.of(group) {
            let Some(time) = member.time else { continue };
            dated.push((time, &member.id));
            let part = begins.partition_point(|begin| *begin <= time);
            if let Some(count) = part.checked_sub(1).and_then(|part| trend.get_mut(part)) {
                *count += 1;
            }
        }
        dated.sort_unstable_by(|a, b| b.cmp(a));
        HotIssue {
            group: self.view(group, since),
            recent: trend.iter().sum(),
            latest: dated.into_iter().take(SAMPLED).map(|(_, id)| id.clone()).collect(),
            trend,
        }
    }

    /// What each petitioner wrote about a matter.
    fn by_petitioner(&self, group: &Group, since: Timestamp) -> BTreeMap<u64, Wrote> {
        let mut found: BTreeMap<u64, Wrote> = BTreeMap::new();
        for seq in &group.members {
            let Some(member) = self.members.get(&Seq(*seq)) else { continue };
            let Some(petitioner) = member.petitioner else { continue };
            let new = || Wrote {
                earliest: Seq(*seq),
                records: 0,
                recent: 0,
                first: None,
                last: None,
                matters: vec![(Seq(*seq), 0)],
            };
            let wrote = found.entry(petitioner).or_insert_with(new);
            wrote.records += 1;
            wrote.recent += usize::from(member.time.is_some_and(|time| time >= since));
            wrote.first = earlier(wrote.first, member.time);
            wrote.last = wrote.last.max(member.time);
            wrote.matters[0].1 = wrote.records;
        }
        found
    }

    fn petitioner(&self, mut wrote: Wrote) -> RepeatPetitioner {
        wrote.matters.sort_by_key(|(first, records)| (std::cmp::Reverse(*records), *first));
        let matter = |(first, records): &(Seq, usize)| Matter { id: self.id(first.0), records: *records };
        RepeatPetitioner {
            example: self.id(wrote.earliest.0),
            records: wrote.records,
            recent: wrote.recent,
            matters: wrote.matters.len(),
            most: wrote.matters.iter().take(MOST_MATTERS).map(matter).collect(),
            first: wrote.first,
            last: wrote.last,
        }
    }
}
