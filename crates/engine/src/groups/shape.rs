//! The shape of a group: its links, the groups after supposed decisions, and the similarity of pairs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use super::petitioners::PetitionerKeys;
use super::{CollectionGroups, GroupView};
use crate::answers::PairView;
use crate::boxed;
use crate::context::Context;
use crate::judge::contrasted;
use crate::read_records::ReadRecord;
use crate::{Engine, Error, Result, off_thread};
use doppel_core::collection::CollectionName;
use doppel_core::index::groups::{Decision, Group, GroupSet};
use doppel_core::record::RecordId;
use doppel_core::similarity::Alignment;
use doppel_store::Seq;

/// Largest number of members in a shape: ten times a large group. A larger group is cut to its earliest members.
const MAX_SHAPED: usize = 10_000;

/// A member of a group.
#[derive(Clone, Debug)]
pub struct MemberShape {
    pub id: RecordId,
    /// Time of its submission, or of its storage if the record does not contain the time.
    pub time: Option<Timestamp>,
    /// Index of its petitioner in [`GroupShape::petitioners`].
    pub petitioner: Option<usize>,
}

/// A petitioner of a matter.
#[derive(Clone, Debug)]
pub struct PetitionerShape {
    /// The earliest record of the petitioner, which contains the name.
    pub example: RecordId,
    /// Number of their records.
    pub records: usize,
    /// Time of the earliest record.
    pub first: Option<Timestamp>,
    /// Time of the latest record.
    pub last: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub struct GroupShape {
    /// The description of the group in lists.
    pub group: GroupView,
    /// The members of the group in the order of registration, at most 10,000.
    pub members: Vec<MemberShape>,
    /// The petitioners of the group, most records first.
    pub petitioners: Vec<PetitionerShape>,
    /// Indices of the members to draw: the ends of single links, then the earliest members.
    pub drawn: Vec<usize>,
    /// The pairs between the drawn members, as indices of members.
    pub pairs: Vec<(usize, usize)>,
    /// Pairs that alone connect two parts of the group, at most 1000.
    pub bridges: Vec<PairView>,
    /// Pairs that would join the group to another group, at most 1000.
    pub cut: Vec<PairView>,
    /// Pairs that a person rejected, at most 1000.
    pub rejected: Vec<PairView>,
}

/// A decision that a person might make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupposedDecision {
    pub one: RecordId,
    pub other: RecordId,
    /// True if they are the same matter.
    pub same: bool,
}

/// The similarity of two stored records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairSimilarity {
    /// True if they have the same text.
    pub exact: bool,
    /// The verified similarity, 0 to 1.
    pub similarity: f64,
}

impl Engine {
    /// Returns the group of a record, with its shape: the pairs between at most `drawn` of its members. O(members + pairs) of its
    /// component.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`]; [`Error::Ungrouped`] if the record is in no group.
    #[boxed]
    pub async fn group_shape(&self, collection: &CollectionName, id: &RecordId, drawn: usize) -> Result<GroupShape> {
        self.stored(collection, id).await?;
        let id = id.clone();
        let name = collection.clone();
        self.with_groups(collection, move |groups| {
            let group = groups.group_of(&id).ok_or(Error::Ungrouped(name))?;
            Ok(groups.shape(&group, drawn))
        })
        .await
    }

    /// Returns the groups in which the members of a group and the named records would be with supposed decisions, by first record; a record that
    /// would be in no group forms a list of one record. Changes nothing. O(members + pairs) of the components.
    ///
    /// # Errors
    /// The errors of [`Engine::group_shape`].
    #[boxed]
    pub async fn groups_if(
        &self,
        collection: &CollectionName,
        id: &RecordId,
        supposed: &[SupposedDecision],
    ) -> Result<Vec<Vec<RecordId>>> {
        self.stored(collection, id).await?;
        let id = id.clone();
        let name = collection.clone();
        let supposed = supposed.to_vec();
        self.with_groups(collection, move |groups| {
            let group = groups.group_of(&id).ok_or(Error::Ungrouped(name))?;
            let named = groups.suppose(&group, &supposed);
            Ok(named.into_iter().map(|members| members.into_iter().map(|seq| groups.id(seq)).collect()).collect())
        })
        .await
    }

    /// Returns the similarity of each pair by the present settings; `None` if a record of the pair is gone. O(pairs) comparisons.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    #[boxed]
    pub async fn how_alike(
        &self,
        collection: &CollectionName,
        pairs: &[(RecordId, RecordId)],
    ) -> Result<Vec<Option<PairSimilarity>>> {
        let context = self.context(collection).await?;
        let mut read: HashMap<&RecordId, Option<Arc<ReadRecord>>> = HashMap::new();
        for id in pairs.iter().flat_map(|(one, other)| [one, other]) {
            if !read.contains_key(id) {
                let record = self.store.record(collection, id).await?;
                read.insert(id, record.and_then(|record| context.keep(&record)));
            }
        }
        let both = pairs.iter().map(|(one, other)| read[one].clone().zip(read[other].clone()));
        let both: Vec<_> = both.collect();
        off_thread(move || {
            Ok(both.iter().map(|both| both.as_ref().map(|(one, other)| likeness(&context, one, other))).collect())
        })
        .await
    }
}

fn likeness(context: &Context, one: &ReadRecord, other: &ReadRecord) -> PairSimilarity {
    if one.digest.is_some() && one.digest == other.digest {
        return PairSimilarity { exact: true, similarity: 1.0 };
    }
    // Without verification, all pairs that the channels find count as equally similar.
    let Some(verifier) = &context.verifier else { return PairSimilarity { exact: false, similarity: 1.0 } };
    let weighed = verifier.weigh(one.shingles(|text| verifier.shingles(text)).clone());
    let overlap = verifier.overlap(&weighed, other.shingles(|text| verifier.shingles(text)));
    let named = one.named(|text| context.named(text));
    let contrast = contrasted(verifier, named, other.named(|text| context.named(text)));
    PairSimilarity {
        exact: false,
        similarity: verifier.evidence(&overlap, &contrast, &Alignment::default()).similarity,
    }
}

impl CollectionGroups {
    fn shape(&self, group: &Group, drawn: usize) -> GroupShape {
        let seqs = &group.members[..group.members.len().min(MAX_SHAPED)];
        let keys = self.petitioner_keys(seqs);
        let petitioners = self.petitioners(seqs, &keys);
        let place: HashMap<u64, usize> =
            petitioners.iter().enumerate().map(|(place, (petitioner, _))| (*petitioner, place)).collect();
        let members = seqs.iter().map(|seq| (seq, &self.members[&Seq(*seq)])).map(|(seq, member)| MemberShape {
            id: member.id.clone(),
            time: member.time,
            petitioner: keys.get(seq).and_then(|petitioner| place.get(petitioner).copied()),
        });
        let drawn = members_to_draw(group, seqs, drawn);
        GroupShape {
            group: self.view(group, Timestamp::MIN),
            members: members.collect(),
            petitioners: petitioners.into_iter().map(|(_, petitioner)| petitioner).collect(),
            pairs: self.pairs_between(group, seqs, &drawn),
            drawn,
            bridges: self.pair_views(&group.bridges),
            cut: self.pair_views(&group.cut),
            rejected: self.pair_views(&group.rejected),
        }
    }

    /// Returns the petitioners, most records first; of equal petitioners, the petitioner with the earliest record first.
    fn petitioners(&self, seqs: &[u64], keys: &PetitionerKeys) -> Vec<(u64, PetitionerShape)> {
        let mut found: BTreeMap<u64, (u64, PetitionerShape)> = BTreeMap::new();
        for seq in seqs {
            let member = &self.members[&Seq(*seq)];
            let Some(petitioner) = keys.get(seq) else { continue };
            let (_, shape) = found.entry(*petitioner).or_insert_with(|| {
                let example = member.id.clone();
                (*seq, PetitionerShape { example, records: 0, first: member.time, last: member.time })
            });
            shape.records += 1;
            shape.first = [shape.first, member.time].into_iter().flatten().min();
            shape.last = shape.last.max(member.time);
        }
        let mut found: Vec<_> = found.into_iter().map(|(key, (seq, shape))| (seq, key, shape)).collect();
        found.sort_by_key(|(seq, _, shape)| (std::cmp::Reverse(shape.records), *seq));
        found.into_iter().map(|(_, key, shape)| (key, shape)).collect()
    }

    fn pairs_between(&self, group: &Group, seqs: &[u64], drawn: &[usize]) -> Vec<(usize, usize)> {
        let places: HashMap<u64, usize> = drawn.iter().map(|place| (seqs[*place], *place)).collect();
        let mut pairs = Vec::new();
        for place in drawn {
            let others = self.set.pairs_of(seqs[*place]).filter_map(|other| places.get(&other).copied());
            pairs.extend(others.filter(|other| other > place).map(|other| (*place, other)));
        }
        pairs.sort_unstable();
        debug_assert!(pairs.len() <= group.pairs);
        pairs
    }

    /// Returns the groups of the members and of the named records after the supposed decisions.
    fn suppose(&self, group: &Group, supposed: &[SupposedDecision]) -> Vec<Vec<u64>> {
        let mut decisions: Vec<(u64, u64, bool)> = Vec::with_capacity(supposed.len());
        for SupposedDecision { one, other, same } in supposed {
            if let (Some(one), Some(other)) = (self.by_id.get(one), self.by_id.get(other)) {
                decisions.push((one.0, other.0, *same));
            }
        }
        let mut touched: BTreeSet<u64> = group.members.iter().copied().collect();
        touched.extend(decisions.iter().flat_map(|(one, other, _)| [*one, *other]));
        let mut set = self.components_of(&touched);
        for (one, other, same) in decisions {
            if same { set.confirm(one, other) } else { set.reject(one, other) }
        }
        let mut groups = Vec::new();
        while let Some(first) = touched.pop_first() {
            let members = set.group_of(first).map_or_else(|| vec![first], |group| group.members);
            touched.retain(|member| members.binary_search(member).is_err());
            groups.push(members);
        }
        groups
    }

    /// Returns a copy of the components of these members.
    fn components_of(&self, members: &BTreeSet<u64>) -> GroupSet {
        let mut set = GroupSet::new();
        let mut seen = members.clone();
        let mut open: Vec<u64> = members.iter().copied().collect();
        while let Some(member) = open.pop() {
            for other in self.set.pairs_of(member) {
                set.add_pair(member, other);
                if self.set.decision(member, other) == Some(Decision::Same) {
                    set.confirm(member, other);
                }
                if seen.insert(other) {
                    open.push(other);
                }
            }
        }
        set
    }
}

/// Returns the indices of the members to draw, at most `most`: the ends of single links and of rejected pairs, then the earliest members.
fn members_to_draw(group: &Group, seqs: &[u64], most: usize) -> Vec<usize> {
    let links = group.bridges.iter().chain(&group.cut).chain(&group.rejected);
    let ends = links.flat_map(|(one, other)| [*one, *other]).filter_map(|seq| seqs.binary_search(&seq).ok());
    let mut drawn: BTreeSet<usize> = BTreeSet::new();
    for place in ends.chain(0..seqs.len()) {
        if drawn.len() == most {
            break;
        }
        drawn.insert(place);
    }
    drawn.into_iter().collect()
}
