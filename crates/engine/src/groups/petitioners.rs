//! The petitioners of the members of a group. One equal value of several identity fields is enough for two records to be of the same
//! petitioner; the relation is continued within a group, so that a name alone, a name with a number, and the number alone are one petitioner.

use std::collections::HashMap;

use super::CollectionGroups;
use doppel_store::Seq;

/// The petitioner of each member that names one, by its seq. A petitioner is the hash of the first identity value of their earliest member.
pub(super) type PetitionerKeys = HashMap<u64, u64>;

/// Sets of values, each a tree of which the root is the set.
#[derive(Default)]
struct ValueSets {
    parents: Vec<usize>,
}

impl ValueSets {
    fn add(&mut self) -> usize {
        self.parents.push(self.parents.len());
        self.parents.len() - 1
    }

    fn root(&mut self, mut at: usize) -> usize {
        while self.parents[at] != at {
            self.parents[at] = self.parents[self.parents[at]];
            at = self.parents[at];
        }
        at
    }

    /// Joins two sets. The older root stays the root, which is the value of the earlier member.
    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        self.parents[one.max(other)] = one.min(other);
    }
}

impl CollectionGroups {
    /// Returns the petitioners of members, which are in the order of registration. O(identity values), almost.
    pub(super) fn petitioner_keys(&self, members: &[u64]) -> PetitionerKeys {
        let mut sets = ValueSets::default();
        let mut places: HashMap<u64, usize> = HashMap::new();
        let mut values: Vec<u64> = Vec::new();
        for member in members.iter().filter_map(|seq| self.members.get(&Seq(*seq))) {
            let mut first = None;
            for value in &member.identity {
                let place = *places.entry(*value).or_insert_with(|| {
                    values.push(*value);
                    sets.add()
                });
                match first {
                    None => first = Some(place),
                    Some(first) => sets.join(first, place),
                }
            }
        }
        let mut keys = PetitionerKeys::with_capacity(members.len());
        for seq in members {
            let Some(first) = self.members.get(&Seq(*seq)).and_then(|member| member.identity.first()) else { continue };
            keys.insert(*seq, values[sets.root(places[first])]);
        }
        keys
    }
}
