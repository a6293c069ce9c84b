//! Many locks that are allocated in groups at the first write, so that an empty index needs little memory.

use std::sync::OnceLock;

use parking_lot::RwLock;

/// Number of locks that are allocated together. A group of tables or stripes needs 200 to 400 bytes. The keys of one record lie in as many
/// groups as it has keys, and there may be thousands of collections with a few records each.
const GROUP_SIZE: usize = 8;
/// Number of groups whose addresses are allocated together.
const GROUPS_PER_BRANCH: usize = 8;
const LOCKS_PER_BRANCH: usize = GROUP_SIZE * GROUPS_PER_BRANCH;

type Group<T> = Box<[RwLock<T>; GROUP_SIZE]>;
type Branch<T> = Box<[OnceLock<Group<T>>; GROUPS_PER_BRANCH]>;

/// A fixed number of locks, a multiple of [`LOCKS_PER_BRANCH`], each protecting a default value until it is written to. The locks are
/// the leaves of a tree of three levels, of which only the root is allocated at first.
pub(super) struct LazyLocks<T>(Box<[OnceLock<Branch<T>>]>);

impl<T: Default> LazyLocks<T> {
    pub(super) fn new(count: usize) -> Self {
        Self((0..count / LOCKS_PER_BRANCH).map(|_| OnceLock::new()).collect())
    }

    /// Returns the lock `number`; `None` if it was not allocated yet, so that its value is the default value.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&RwLock<T>> {
        let branch = self.0[number / LOCKS_PER_BRANCH].get()?;
        branch[number / GROUP_SIZE % GROUPS_PER_BRANCH].get().map(|group| &group[number % GROUP_SIZE])
    }

    /// Returns the lock `number`, and allocates it if necessary.
    #[inline]
    pub(super) fn make(&self, number: usize) -> &RwLock<T> {
        let branch =
            self.0[number / LOCKS_PER_BRANCH].get_or_init(|| Box::new(std::array::from_fn(|_| OnceLock::new())));
        let group = &branch[number / GROUP_SIZE % GROUPS_PER_BRANCH];
        &group.get_or_init(|| Box::new(std::array::from_fn(|_| RwLock::default())))[number % GROUP_SIZE]
    }

    /// Returns all allocated locks with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &RwLock<T>)> {
        self.groups().flat_map(|(first, group)| (first..).zip(&**group))
    }

    /// Memory of the locks in bytes, without memory that the values allocate.
    pub(super) fn memory_usage(&self) -> usize {
        let branches: usize = self.branches().map(|(_, branch)| size_of_val(&**branch)).sum();
        let groups: usize = self.groups().map(|(_, group)| size_of_val(&**group)).sum();
        size_of_val(&*self.0) + branches + groups
    }

    /// Returns the allocated groups, each with the number of its first lock.
    fn groups(&self) -> impl Iterator<Item = (usize, &Group<T>)> {
        self.branches().flat_map(|(first, branch)| {
            let groups = (first..).step_by(GROUP_SIZE).zip(&**branch);
            groups.filter_map(|(first, group)| Some((first, group.get()?)))
        })
    }

    /// Returns the allocated branches, each with the number of its first lock.
    fn branches(&self) -> impl Iterator<Item = (usize, &Branch<T>)> {
        let branches = (0..).step_by(LOCKS_PER_BRANCH).zip(&*self.0);
        branches.filter_map(|(first, branch)| Some((first, branch.get()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_write_allocates_the_group_of_the_lock_and_no_other() {
        let locks = LazyLocks::<Vec<u8>>::new(4_096);
        let empty = locks.memory_usage();
        assert!(empty < 1_025 && locks.get(70).is_none() && locks.iter().next().is_none(), "{empty}");
        locks.make(70).write().push(1);
        assert_eq!(*locks.get(70).unwrap().read(), [1]);
        assert!(locks.get(64).is_some() && locks.get(71).is_some() && locks.get(63).is_none());
        assert_eq!(locks.iter().map(|(number, _)| number).collect::<Vec<_>>(), (64..72).collect::<Vec<_>>());
        let branch = size_of::<[OnceLock<Group<Vec<u8>>>; GROUPS_PER_BRANCH]>();
        assert_eq!(locks.memory_usage() - empty, branch + GROUP_SIZE * size_of::<RwLock<Vec<u8>>>());
    }
}
