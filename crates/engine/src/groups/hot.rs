//! Rankings of recent matters: the matters with most petitioners, and the petitioners with most records about one matter.
//!
//! Only groups with a record in the time range of the request are ranked: O(members of all groups) to find them, O(members + pairs) of
//! their components to rank them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::{CollectionGroups, GroupView};
use crate::boxed;
use crate::context::Context;
use crate::read_records::ReadRecord;
use crate::{Engine, Result, off_thread};
use doppel_core::collection::CollectionName;
use doppel_core::index::groups::Group;
use doppel_core::record::RecordId;
use doppel_core::verdict::ObjectKind;
use doppel_store::Seq;

/// Number of records of a matter that are read for the names in their texts: the latest records. The number is enough to find the names that most
/// of them contain, and small enough for all matters of a page.
const SAMPLED: usize = 8;
/// Largest number of matters of a petitioner that are listed; the others are counted.
const MOST_MATTERS: usize = 3;

#[derive(Clone, Debug)]
pub struct RankingPart<T> {
    /// Best first.
    pub items: Vec<T>,
    /// Number of items in the whole ranking.
    pub total: usize,
}

impl<T> RankingPart<T> {
    fn part(items: Vec<T>, skip: usize, limit: usize) -> Self {
        let total = items.len();
        Self { items: items.into_iter().skip(skip).take(limit).collect(), total }
    }
}

/// A matter with records in the time range.
#[derive(Clone, Debug)]
pub struct HotIssue {
    pub group: GroupView,
    /// Number of its records in the time range.
    pub recent: usize,
    /// Number of its records in each part of the time range.
    pub trend: Vec<usize>,
    /// Ids of its latest records.
    pub latest: Vec<RecordId>,
}

/// A petitioner with several records about one matter.
#[derive(Clone, Debug)]
pub struct RepeatPetitioner {
    /// One of their records, which contains their name.
    pub example: RecordId,
    /// Number of their records about matters about which they wrote more than once.
    pub records: usize,
    /// Number of these records in the time range.
    pub recent: usize,
    pub matters: usize,
    /// The matters with most of their records, most records first.
    pub most: Vec<PetitionerMatter>,
    /// Time of the earliest record.
    pub first: Option<Timestamp>,
    /// Time of the latest record.
    pub last: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub struct PetitionerMatter {
    /// The earliest record of the petitioner about the matter.
    pub id: RecordId,
    /// Number of their records about the matter.
    pub records: usize,
}

/// The name that most records contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MostNamed {
    pub kind: ObjectKind,
    /// The name, normalised.
    pub name: String,
    /// Number of records that contain the name.
    pub records: usize,
    /// Number of records that were read.
    pub of: usize,
}

/// The records of one petitioner about one or more matters.
#[derive(Clone, Debug)]
struct PetitionerRecords {
    earliest: Seq,
    records: usize,
    recent: usize,
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    /// For each matter, the earliest record and the number of records of the petitioner.
    matters: Vec<(Seq, usize)>,
}

impl Engine {
    /// Returns the matters with records since the first of `begins`: most petitioners first, then most records; `limit` matters after the
    /// first `skip`. `begins` are the beginnings of the parts of a trend, ascending; the last part has no end. O(members of all groups),
    /// and O(members + pairs) of the groups with such records.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    #[boxed]
    pub async fn hot_issues(
        &self,
        collection: &CollectionName,
        begins: &[Timestamp],
        skip: usize,
        limit: usize,
    ) -> Result<RankingPart<HotIssue>> {
        let since = begins.first().copied().unwrap_or(Timestamp::MAX);
        let begins = begins.to_vec();
        self.with_groups(collection, move |groups| {
            let issues = groups.since(since).into_iter().map(|group| groups.issue(&group, since, &begins));
            let mut issues: Vec<HotIssue> = issues.collect();
            // The sort is stable: of equal matters, the matter with the earliest group comes first.
            issues.sort_by_key(|issue| std::cmp::Reverse((issue.group.recent_petitioners, issue.recent)));
            Ok(RankingPart::part(issues, skip, limit))
        })
        .await
    }

    /// Returns the petitioners with more than one record about one matter, of which at least one is later than `since`: most records since then
    /// first, then most records; `limit` petitioners after the first `skip`. Matters without a record since then do not count. Same complexity as
    /// [`Engine::hot_issues`].
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    #[boxed]
    pub async fn repeat_petitioners(
        &self,
        collection: &CollectionName,
        since: Timestamp,
        skip: usize,
        limit: usize,
    ) -> Result<RankingPart<RepeatPetitioner>> {
        self.with_groups(collection, move |groups| {
            let mut all: HashMap<u64, PetitionerRecords> = HashMap::new();
            for group in groups.since(since) {
                for (petitioner, wrote) in groups.by_petitioner(&group, since) {
                    if wrote.records > 1 {
                        all.entry(petitioner).and_modify(|before| before.add(&wrote)).or_insert(wrote);
                    }
                }
            }
            let mut all: Vec<PetitionerRecords> = all.into_values().filter(|wrote| wrote.recent > 0).collect();
            all.sort_by_key(|wrote| (std::cmp::Reverse((wrote.recent, wrote.records)), wrote.earliest));
            let RankingPart { items, total } = RankingPart::part(all, skip, limit);
            Ok(RankingPart { items: items.into_iter().map(|wrote| groups.petitioner(wrote)).collect(), total })
        })
        .await
    }

    /// Returns the road, place, water, organisation or district that most of these records name; of equal names, the name with the most precise
    /// location. `None` if no name occurs in two of the records, or in the only record. O(records) reads, most of them from memory.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`](crate::Error::UnknownCollection).
    #[boxed]
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
    let named = named.into_iter();
    let ((kind, name), (records, _)) =
        named.max_by_key(|((kind, _), (records, at))| (*records, precision(*kind), std::cmp::Reverse(*at)))?;
    let best = MostNamed { kind, name: name.to_owned(), records, of: read.len() };
    Some(best).filter(|best| best.records > 1 || best.of == 1)
}

/// Returns the precision of the location that a name of this kind gives; 0 for none.
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

impl PetitionerRecords {
    /// Creates the list for one matter, of which `earliest` is the first record.
    fn begun_at(earliest: Seq) -> Self {
        Self { earliest, records: 0, recent: 0, first: None, last: None, matters: vec![(earliest, 0)] }
    }

    /// Adds the records of the same petitioner about another matter.
    fn add(&mut self, other: &Self) {
        self.earliest = self.earliest.min(other.earliest);
        self.records += other.records;
        self.recent += other.recent;
        self.first = earlier(self.first, other.first);
        self.last = self.last.max(other.last);
        self.matters.extend(&other.matters);
    }
}

/// Returns the earlier of two times; `None` without a time.
fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    [one, other].into_iter().flatten().min()
}

impl CollectionGroups {
    /// Returns the groups with a record from `since` on, by first member.
    fn since(&self, since: Timestamp) -> Vec<Group> {
        let recent = self.members.iter().filter(|(_, member)| member.is_since(since));
        let mut recent: Vec<u64> = recent.map(|(seq, _)| seq.0).collect();
        recent.sort_unstable();
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        for seq in recent {
            if seen.contains(&seq) {
                continue;
            }
            let groups = self.component_groups(seq);
            seen.extend(groups.iter().flat_map(|group| group.members.iter().copied()));
            let recent = groups.iter().filter(|group| self.of(group).any(|member| member.is_since(since)));
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

    /// Returns the records of each petitioner about a matter.
    fn by_petitioner(&self, group: &Group, since: Timestamp) -> BTreeMap<u64, PetitionerRecords> {
        let mut found: BTreeMap<u64, PetitionerRecords> = BTreeMap::new();
        let keys = self.petitioner_keys(&group.members);
        for seq in &group.members {
            let Some(member) = self.members.get(&Seq(*seq)) else { continue };
            let Some(petitioner) = keys.get(seq) else { continue };
            let wrote = found.entry(*petitioner).or_insert_with(|| PetitionerRecords::begun_at(Seq(*seq)));
            wrote.records += 1;
            wrote.recent += usize::from(member.time.is_some_and(|time| time >= since));
            wrote.first = earlier(wrote.first, member.time);
            wrote.last = wrote.last.max(member.time);
            wrote.matters[0].1 = wrote.records;
        }
        found
    }

    fn petitioner(&self, mut wrote: PetitionerRecords) -> RepeatPetitioner {
        wrote.matters.sort_by_key(|(first, records)| (std::cmp::Reverse(*records), *first));
        RepeatPetitioner {
            example: self.id(wrote.earliest.0),
            records: wrote.records,
            recent: wrote.recent,
            matters: wrote.matters.len(),
            most: wrote
                .matters
                .iter()
                .take(MOST_MATTERS)
                .map(|(first, records)| PetitionerMatter { id: self.id(first.0), records: *records })
                .collect(),
            first: wrote.first,
            last: wrote.last,
        }
    }
}
