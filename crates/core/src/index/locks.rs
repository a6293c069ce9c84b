//! Many locks, made in groups when first written to: an index that holds nothing costs next to nothing.

use std::sync::OnceLock;

use parking_lot::RwLock;

/// Locks made together: of tables and stripes, two to three kilobytes.
const TOGETHER: usize = 64;

type Group<T> = Box<[RwLock<T>]>;

/// A fixed number of locks, a multiple of [`TOGETHER`], each protecting a default value until it is written to.
pub(super) struct Locks<T>(Box<[OnceLock<Group<T>>]>);

impl<T: Default> Locks<T> {
    pub(super) fn new(count: usize) -> Self {
        Self((0..count / TOGETHER).map(|_| OnceLock::new()).collect())
    }

    /// The lock `number`; `None` while what it protects is the default value.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&RwLock<T>> {
        self.0[number / TOGETHER].get().map(|group| &group[number % TOGETHER])
    }

    /// The lock `number`, to write to.
    #[inline]
    pub(super) fn make(&self, number: usize) -> &RwLock<T> {
        let group = self.0[number / TOGETHER].get_or_init(|| (0..TOGETHER).map(|_| RwLock::default()).collect());
        &group[number % TOGETHER]
    }

    /// All that were made, with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &RwLock<T>)> {
        let made = self.0.iter().enumerate().filter_map(|(at, group)| Some((at * TOGETHER, group.get()?)));
        made.flat_map(|(first, group)| (first..).zip(group))
    }

    /// Bytes of the locks, without what the values allocate.
    pub(super) fn memory_usage(&self) -> usize {
        let groups = self.0.iter().filter_map(OnceLock::get);
        size_of_val(&*self.0) + groups.map(|group| size_of_val(&**group)).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_written_to_are_made_with_their_neighbours_and_no_others() {
        let locks = Locks::<Vec<u8>>::new(4_096);
        let empty = locks.memory_usage();
        assert!(empty < 2_048 && locks.get(70).is_none() && locks.iter().next().is_none(), "{empty}");
        locks.make(70).write().push(1);
        assert_eq!(*locks.get(70).unwrap().read(), [1]);
        assert!(locks.get(64).is_some() && locks.get(127).is_some() && locks.get(63).is_none());
        assert_eq!(locks.iter().map(|(number, _)| number).collect::<Vec<_>>(), (64..128).collect::<Vec<_>>());
        assert_eq!(locks.memory_usage() - empty, 64 * size_of::<RwLock<Vec<u8>>>());
    }
}
