//! Many locks that are allocated in groups at the first write, so that an empty index needs little memory.

use std::sync::OnceLock;

use parking_lot::RwLock;

/// Number of locks that are allocated together. Such a group of tables or stripes has two to four hundred bytes. The keys of one record
/// lie in as many groups as it has keys, and there may be thousands of collections with a few records each.
const GROUP_SIZE: usize = 8;

type Group<T> = Box<[RwLock<T>; GROUP_SIZE]>;

/// A fixed number of locks, a multiple of [`GROUP_SIZE`], each protecting a default value until it is written to.
pub(super) struct LazyLocks<T>(Box<[OnceLock<Group<T>>]>);

impl<T: Default> LazyLocks<T> {
    pub(super) fn new(count: usize) -> Self {
        Self((0..count / GROUP_SIZE).map(|_| OnceLock::new()).collect())
    }

    /// Returns the lock `number`; `None` if it was not allocated yet, so that its value is the default value.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&RwLock<T>> {
        self.0[number / GROUP_SIZE].get().map(|group| &group[number % GROUP_SIZE])
    }

    /// Returns the lock `number`, and allocates it if necessary.
    #[inline]
    pub(super) fn make(&self, number: usize) -> &RwLock<T> {
        let group = self.0[number / GROUP_SIZE].get_or_init(|| Box::new(std::array::from_fn(|_| RwLock::default())));
        &group[number % GROUP_SIZE]
    }

    /// Returns all allocated locks with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &RwLock<T>)> {
        let made = self.0.iter().enumerate().filter_map(|(at, group)| Some((at * GROUP_SIZE, group.get()?)));
        made.flat_map(|(first, group)| (first..).zip(&**group))
    }

    /// Memory of the locks in bytes, without memory that the values allocate.
    pub(super) fn memory_usage(&self) -> usize {
        let groups = self.0.iter().filter_map(OnceLock::get);
        size_of_val(&*self.0) + groups.map(|group| size_of_val(&**group)).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_write_allocates_the_group_of_the_lock_and_no_other() {
        let locks = LazyLocks::<Vec<u8>>::new(4_096);
        let empty = locks.memory_usage();
        assert!(empty < 8_193 && locks.get(70).is_none() && locks.iter().next().is_none(), "{empty}");
        locks.make(70).write().push(1);
        assert_eq!(*locks.get(70).unwrap().read(), [1]);
        assert!(locks.get(64).is_some() && locks.get(71).is_some() && locks.get(63).is_none());
        assert_eq!(locks.iter().map(|(number, _)| number).collect::<Vec<_>>(), (64..72).collect::<Vec<_>>());
        assert_eq!(locks.memory_usage() - empty, GROUP_SIZE * size_of::<RwLock<Vec<u8>>>());
    }
}
