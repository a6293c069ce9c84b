//! Finds the connected components of the pairs. The first pass keeps 4 bytes per record. The second pass visits group by group with the
//! pairs, and processes as many groups at once as fit into memory.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::copies::SharedPairs;
use super::spill::PairSpill;
use doppel_core::index::groups::{BatchGroups, Group, GroupSet};

/// Bytes of memory for each pair of a group; a group needs this amount once more than it has pairs. A group has at most one member more than pairs,
/// and a member needs the most memory.
const BYTES_PER_PAIR: u64 = 120;
/// Bytes of memory for a member of a group whose pairs are not kept.
const BYTES_PER_MEMBER: u64 = 120;

/// A union-find structure of positions. The lowest position of a set identifies the set.
#[derive(Clone, Default)]
pub(super) struct UnionFind {
    parents: Vec<u32>,
}

impl UnionFind {
    /// Creates `count` sets of one position each.
    pub(super) fn new(count: usize) -> Self {
        Self { parents: (0..count as u32).collect() }
    }

    /// Joins the sets of two positions.
    pub(super) fn join(&mut self, a: u32, b: u32) {
        let a = self.root(a);
        let b = self.root(b);
        self.parents[a.max(b) as usize] = a.min(b);
    }

    /// Returns the lowest position of the set of `at`. Takes amortised O(log n).
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

    /// Visits every group of the pairs, with the set of its pairs. The components come in the order of their lowest positions, and the groups of a
    /// component one after the other. `copies` returns the number of equal records of a position. The function reads the pairs once for all
    /// components that fit into `memory` bytes, at least for one component.
    pub(super) fn each_group(
        &mut self,
        pairs: &mut PairSpill,
        memory: usize,
        copies: impl Fn(u64) -> usize,
        mut visit: impl FnMut(&Group, &GroupSet) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut sizes = BTreeMap::<u32, u64>::new();
        pairs.each(|[a, ..]| {
            *sizes.entry(self.root(a)).or_default() += 1;
            anyhow::Ok(())
        })?;
        let sizes = sizes.into_iter().map(|(root, pairs)| (root, (pairs + 1) * BYTES_PER_PAIR));
        for components in that_fit(sizes, memory as u64) {
            let mut groups = GroupSet::new();
            pairs.each(|[a, b, _]| {
                if components.contains(&self.root(a)) {
                    groups.add_pair(a.into(), b.into());
                }
                anyhow::Ok(())
            })?;
            groups.groups_of_copies(&copies).try_for_each(|group| visit(&group, &groups))?;
        }
        Ok(())
    }

    /// Visits every group of the pairs, and of the lists in `shared`, in the order of [`UnionFind::each_group`]. The function reads the pairs once
    /// for all components whose members fit into `memory` bytes, at least for one component.
    pub(super) fn each_group_of_records(
        &mut self,
        pairs: &mut PairSpill,
        shared: &SharedPairs,
        memory: usize,
        mut visit: impl FnMut(&Group) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut sizes = vec![0_u32; self.parents.len()];
        (0..self.parents.len() as u32).for_each(|at| sizes[self.root(at) as usize] += 1);
        let sizes = (0..).zip(sizes).filter(|(_, members)| *members > 1);
        let sizes = sizes.map(|(root, members)| (root, u64::from(members) * BYTES_PER_MEMBER));
        for components in that_fit(sizes, memory as u64) {
            let mut groups = BatchGroups::new();
            for letter in shared.letters() {
                if components.contains(&self.root(letter.earlier[0] as u32)) {
                    groups.add_copies(&letter.earlier, &letter.copies);
                }
            }
            pairs.each(|[a, b, _]| {
                if components.contains(&self.root(a)) {
                    groups.add_pair(a.into(), b.into());
                }
                anyhow::Ok(())
            })?;
            groups.groups().try_for_each(|group| visit(&group))?;
        }
        Ok(())
    }
}

/// Divides components, given by their lowest position and their bytes, into series that fit into `memory` bytes, at least one component each.
/// Returns the lowest positions of the first and the last component of each series.
fn that_fit(sizes: impl Iterator<Item = (u32, u64)>, memory: u64) -> Vec<RangeInclusive<u32>> {
    let mut sizes = sizes.peekable();
    let mut series = Vec::new();
    while let Some((first, mut taken)) = sizes.next() {
        let mut last = first;
        while let Some((root, more)) = sizes.next_if(|(_, more)| taken + more <= memory) {
            (last, taken) = (root, taken + more);
        }
        series.push(first..=last);
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(memory: usize, of_records: bool) -> Vec<Group> {
        let mut spill = PairSpill::new(&std::env::temp_dir(), usize::MAX);
        let mut components = UnionFind::new(10);
        for pair in [[4, 9, 0], [0, 2, 0], [2, 3, 0], [5, 6, 0], [6, 7, 0], [5, 7, 0], [9, 1, 0]] {
            spill.push(pair).unwrap();
            components.join(pair[0], pair[1]);
        }
        let mut found = Vec::new();
        let visited = match of_records {
            true => components.each_group_of_records(&mut spill, &SharedPairs::default(), memory, |group| {
                found.push(group.clone());
                Ok(())
            }),
            false => components.each_group(
                &mut spill,
                memory,
                |_| 1,
                |group, _| {
                    found.push(group.clone());
                    Ok(())
                },
            ),
        };
        visited.unwrap();
        found
    }

    #[test]
    fn the_memory_changes_how_often_pairs_are_read_and_not_the_groups() {
        let all = groups(usize::MAX, false);
        let members: Vec<_> = all.iter().map(|group| group.members.clone()).collect();
        assert_eq!(members, [vec![0, 2, 3], vec![1, 4, 9], vec![5, 6, 7]]);
        assert_eq!(groups(0, false), all);
        assert_eq!([groups(0, true), groups(usize::MAX, true)], [all.clone(), all]);
    }
}
