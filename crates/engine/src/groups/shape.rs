//! How a group hangs together, what it would become if people decided, and how alike the two records of a pair are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use super::{GroupView, Groups, MAX_MEMBERS};
use crate::answers::PairView;
use crate::context::Context;
use crate::judge::contrasted;
use crate::read_records::ReadRecord;
use crate::{Engine, Error, Result, off_thread};
use doppel_core::collection::CollectionName;
use doppel_core::index::groups::{Decision, Group, GroupSet};
use doppel_core::record::RecordId;
use doppel_core::similarity::Replacements;
use doppel_store::Seq;

/// Most members of which a shape tells: ten times a large one. Beyond, the earliest.
const MAX_SHAPED: usize = 10_000;

/// A member of a group.
#[derive(Clone, Debug)]
pub struct MemberShape {
    /// The record.
    pub id: RecordId,
    /// When it was submitted, or stored where it does not say.
    pub time: Option<Timestamp>,
    /// Its place among the petitioners.
    pub petitioner: Option<usize>,
}

/// Who wrote about a matter.
#[derive(Clone, Debug)]
pub struct PetitionerShape {
    /// Their earliest record: it says who they are.
    pub example: RecordId,
    /// How many are theirs.
    pub records: usize,
    /// Time of the earliest.
    pub first: Option<Timestamp>,
    /// Time of the latest.
    pub last: Option<Timestamp>,
}

/// How a group hangs together.
#[derive(Clone, Debug)]
pub struct GroupShape {
    /// What lists show.
    pub group: GroupView,
    /// Its records in the order they were registered, at most 10,000.
    pub members: Vec<MemberShape>,
    /// Who they are of, most records first.
    pub petitioners: Vec<PetitionerShape>,
    /// Places of the members that tell most of how it hangs together: the ends of its single links, then the earliest.
    pub drawn: Vec<usize>,
    /// The pairs between those, as places of members.
    pub pairs: Vec<(usize, usize)>,
    /// Pairs without which it would fall in two, at most 1000.
    pub bridges: Vec<PairView>,
    /// Pairs that would join it to another group, at most 1000.
    pub cut: Vec<PairView>,
    /// Pairs that a person rejected, at most 1000.
    pub rejected: Vec<PairView>,
}

/// What a person might decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supposed {
    /// The one record.
    pub one: RecordId,
    /// The other.
    pub other: RecordId,
    /// Whether they are the same matter.
    pub same: bool,
}

/// How alike two stored records are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Likeness {
    /// Whether they have the same text.
    pub exact: bool,
    /// The verified similarity, 0 to 1.
    pub similarity: f64,
}

impl Engine {
    /// The group that a record is in, with how it hangs together: pairs are told between at most `drawn` of its members. O(members +
    /// pairs) of its component.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`], [`Error::UnknownRecord`]; [`Error::Ungrouped`] where it is in no group.
    pub async fn group_shape(&self, collection: &CollectionName, id: &RecordId, drawn: usize) -> Result<GroupShape> {
        self.stored(collection, id).await?;
        let (id, name) = (id.clone(), collection.clone());
        self.with_groups(collection, move |groups| {
            let group = groups.group_of(&id).ok_or(Error::Ungrouped(name))?;
            Ok(groups.shape(&group, drawn))
        })
        .await
    }

    /// What would become of the records of a group, and of those named, if people decided so: the groups they would be in, by first
    /// record, and by themselves those that would be in none. Nothing is changed. O(members + pairs) of the components.
    ///
    /// # Errors
    /// As for [`Engine::group_shape`].
    pub async fn groups_if(
        &self,
        collection: &CollectionName,
        id: &RecordId,
        supposed: &[Supposed],
    ) -> Result<Vec<Vec<RecordId>>> {
        self.stored(collection, id).await?;
        let (id, name, supposed) = (id.clone(), collection.clone(), supposed.to_vec());
        self.with_groups(collection, move |groups| {
            let group = groups.group_of(&id).ok_or(Error::Ungrouped(name))?;
            let named = groups.suppose(&group, &supposed);
            Ok(named.into_iter().map(|members| members.into_iter().map(|seq| groups.id(seq)).collect()).collect())
        })
        .await
    }

    /// How alike the records of each pair are, by the settings of today; `None` where one is gone. O(pairs) comparisons.
    ///
    /// # Errors
    /// [`Error::UnknownCollection`].
    pub async fn how_alike(
        &self,
        collection: &CollectionName,
        pairs: &[(RecordId, RecordId)],
    ) -> Result<Vec<Option<Likeness>>> {
        let context = self.context(collection).await?;
        let mut read: HashMap<&RecordId, Option<Arc<ReadRecord>>> = HashMap::new();
        for id in pairs.iter().flat_map(|(one, other)| [one, other]) {
            if !read.contains_key(id) {
                let record = self.store.record(collection, id).await?;
                read.insert(id, record.and_then(|record| context.keep(&record)));
            }
        }
        let both = |(one, other): &(RecordId, RecordId)| Some((read[one].clone()?, read[other].clone()?));
        let both: Vec<_> = pairs.iter().map(both).collect();
        off_thread(move || {
            Ok(both.iter().map(|both| both.as_ref().map(|(one, other)| likeness(&context, one, other))).collect())
        })
        .await
    }
}

fn likeness(context: &Context, one: &ReadRecord, other: &ReadRecord) -> Likeness {
    if one.digest.is_some() && one.digest == other.digest {
        return Likeness { exact: true, similarity: 1.0 };
    }
    // Who does not verify pairs calls all alike that the channels find.
    let Some(verifier) = &context.verifier else { return Likeness { exact: false, similarity: 1.0 } };
    let shingles = |text: &str| verifier.shingles(text);
    let overlap = verifier.overlap(&verifier.weigh(one.shingles(shingles).clone()), other.shingles(shingles));
    let named = |text: &str| context.named(text);
    let contrast = contrasted(verifier, one.named(named), other.named(named));
    Likeness { exact: false, similarity: verifier.evidence(&overlap, &contrast, &Replacements::default()).similarity }
}

impl Groups {
    fn shape(&self, group: &Group, drawn: usize) -> GroupShape {
        let seqs = &group.members[..group.members.len().min(MAX_SHAPED)];
        let petitioners = self.petitioners(seqs);
        let place: HashMap<u64, usize> =
            petitioners.iter().enumerate().map(|(place, (petitioner, _))| (*petitioner, place)).collect();
        let members = seqs.iter().map(|seq| &self.members[&Seq(*seq)]).map(|member| MemberShape {
            id: member.id.clone(),
            time: member.time,
            petitioner: member.petitioner.and_then(|petitioner| place.get(&petitioner).copied()),
        });
        let drawn = telling(group, seqs, drawn);
        let pair = |(earlier, later): &(u64, u64)| PairView { earlier: self.id(*earlier), later: self.id(*later) };
        let listed = |pairs: &[(u64, u64)]| pairs.iter().take(MAX_MEMBERS).map(pair).collect();
        GroupShape {
            group: self.view(group, Timestamp::MIN),
            members: members.collect(),
            petitioners: petitioners.into_iter().map(|(_, petitioner)| petitioner).collect(),
            pairs: self.pairs_between(group, seqs, &drawn),
            drawn,
            bridges: listed(&group.bridges),
            cut: listed(&group.cut),
            rejected: listed(&group.rejected),
        }
    }

    /// By petitioner, most records first, of equals the earliest.
    fn petitioners(&self, seqs: &[u64]) -> Vec<(u64, PetitionerShape)> {
        let mut found: BTreeMap<u64, (u64, PetitionerShape)> = BTreeMap::new();
        for seq in seqs {
            let member = &self.members[&Seq(*seq)];
            let Some(petitioner) = member.petitioner else { continue };
            let new =
                || PetitionerShape { example: member.id.clone(), records: 0, first: member.time, last: member.time };
            let (_, shape) = found.entry(petitioner).or_insert_with(|| (*seq, new()));
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
        let of = |place: &usize| {
            let others = self.set.pairs_of(seqs[*place]).filter_map(|other| places.get(&other).copied());
            others.filter(|other| other > place).map(|other| (*place, other)).collect::<Vec<_>>()
        };
        let mut pairs: Vec<(usize, usize)> = drawn.iter().flat_map(of).collect();
        pairs.sort_unstable();
        debug_assert!(pairs.len() <= group.pairs);
        pairs
    }

    /// The groups of the members and of those named if it was so decided.
    fn suppose(&self, group: &Group, supposed: &[Supposed]) -> Vec<Vec<u64>> {
        let seq = |id: &RecordId| self.by_id.get(id).map(|seq| seq.0);
        let known = |supposed: &Supposed| Some((seq(&supposed.one)?, seq(&supposed.other)?, supposed.same));
        let supposed: Vec<(u64, u64, bool)> = supposed.iter().filter_map(known).collect();
        let mut touched: BTreeSet<u64> = group.members.iter().copied().collect();
        touched.extend(supposed.iter().flat_map(|(one, other, _)| [*one, *other]));
        let mut set = self.around(&touched);
        for (one, other, same) in supposed {
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

    /// The components of these members, by themselves.
    fn around(&self, members: &BTreeSet<u64>) -> GroupSet {
        let (mut set, mut seen) = (GroupSet::new(), members.clone());
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

/// Places of the members to draw: the ends of single links and of rejected pairs, then the earliest.
fn telling(group: &Group, seqs: &[u64], most: usize) -> Vec<usize> {
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
