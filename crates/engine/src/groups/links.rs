//! The links between records that the groups of a collection make known.

use std::collections::BTreeSet;

use super::CollectionGroups;
use doppel_core::events::KnownLink;
use doppel_core::index::groups::Decision;
use doppel_store::Seq;

/// A link between two records, the earlier record first.
pub(crate) type GroupLink = ([Seq; 2], KnownLink);

impl CollectionGroups {
    /// Returns the decisions, and the pairs of the groups: a group without decisions has one pair for each member after the first. O(members +
    /// pairs of groups with decisions).
    pub(super) fn links(&self) -> Vec<GroupLink> {
        let mut links = Vec::new();
        let mut decided: BTreeSet<u64> = BTreeSet::new();
        for (pair, decision) in self.set.decisions() {
            decided.extend(pair);
            let link = match decision {
                Decision::Same => KnownLink::Same,
                Decision::Different if self.of_one_event.contains(&pair.into()) => KnownLink::SameEvent,
                Decision::Different => KnownLink::NotSame,
            };
            links.push((pair.map(Seq), link));
        }
        for group in self.set.groups() {
            if !group.members.iter().any(|member| decided.contains(member)) {
                let first = Seq(group.members[0]);
                links.extend(group.members[1..].iter().map(|member| ([first, Seq(*member)], KnownLink::Match)));
                continue;
            }
            for member in &group.members {
                let matches = self.set.pairs_of(*member).filter(|other| {
                    other > member
                        && group.members.binary_search(other).is_ok()
                        && self.set.decision(*member, *other).is_none()
                });
                links.extend(matches.map(|other| ([Seq(*member), Seq(other)], KnownLink::Match)));
            }
        }
        links
    }
}
