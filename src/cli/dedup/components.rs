//! What hangs together by pairs: first by number alone, 4 bytes a record, then group by group with its pairs, as many groups
//! at a time as fit in the memory given.

use std::collections::BTreeMap;

use super::spill::Spill;
use doppel_core::index::groups::{Group, GroupSet};

/// Bytes that a group takes while it is gone through, for each of its pairs and one more: it has at most one member more than
/// pairs, and a member takes most.
const BYTES_PER_PAIR: u64 = 120;

/// Union-find over positions; a set is named by its lowest.
#[derive(Clone, Default)]
pub(super) struct Components {
    parents: Vec<u32>,
}

impl Components {
    /// Each of `count` positions alone.
    pub(super) fn new(count: usize) -> Self {
        Self { parents: (0..count as u32).collect() }
    }

    /// Puts the two positions, and all that hangs on them, together.
    pub(super) fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b) as usize] = a.min(b);
    }

    /// The lowest position that hangs together with this one. Amortised O(log n).
    pub(super) fn root(&mut self, mut at: u32) -> u32 {
        loop {
            let parent = self.parents[at as usize];
            if parent == at {
                return at;
            }
            let above = self.parents[parent as usize];
            self.parents[at as usize] = above;
            at = above;
        }
    }

    /// Visits every group that the pairs make, with a set that holds its pairs: what hangs together by lowest position, and the
    /// pieces of it one after the other. A position stands for so many equal records. The pairs are read once for as much as
    /// fits in `memory` bytes, at least all that hangs together with one position.
    pub(super) fn each_group(
        &mut self,
        pairs: &mut Spill,
        memory: usize,
        copies: impl Fn(u64) -> usize,
        mut visit: impl FnMut(&Group, &GroupSet) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut sizes = BTreeMap::<u32, u64>::new();
        pairs.each(|[a, ..]| {
            *sizes.entry(self.root(a)).or_default() += 1;
            anyhow::Ok(())
        })?;
        let mut sizes = sizes.into_iter().map(|(root, pairs)| (root, (pairs + 1) * BYTES_PER_PAIR)).peekable();
        while let Some((first, mut taken)) = sizes.next() {
            let mut last = first;
            while let Some((root, more)) = sizes.next_if(|(_, more)| taken + more <= memory as u64) {
                (last, taken) = (root, taken + more);
            }
            let mut groups = GroupSet::new();
            pairs.each(|[a, b, _]| {
                if (first..=last).contains(&self.root(a)) {
                    groups.add_pair(a.into(), b.into());
                }
                anyhow::Ok(())
            })?;
            groups.groups_of_copies(&copies).try_for_each(|group| visit(&group, &groups))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_changes_how_often_pairs_are_read_and_not_the_groups() {
        let pairs = [[4, 9, 0], [0, 2, 0], [2, 3, 0], [5, 6, 0], [6, 7, 0], [5, 7, 0], [9, 1, 0]];
        let groups = |memory| {
            let mut spill = Spill::new(&std::env::temp_dir(), usize::MAX);
            let mut components = Components::new(10);
            for pair in pairs {
                spill.push(pair).unwrap();
                components.join(pair[0], pair[1]);
            }
            let mut found = Vec::new();
            let keep = |group: &Group, _: &GroupSet| {
                found.push(group.clone());
                Ok(())
            };
            components.each_group(&mut spill, memory, |_| 1, keep).unwrap();
            found
        };
        let members: Vec<_> = groups(usize::MAX).into_iter().map(|group| group.members).collect();
        assert_eq!(members, [vec![0, 2, 3], vec![1, 4, 9], vec![5, 6, 7]]);
        assert_eq!(groups(0), groups(usize::MAX));
    }
}
