//! Document frequencies of a collection: how common pieces of text are in it.
//!
//! The engine counts them over a sample of the records and encodes them; a store only keeps the bytes. They belong to the
//! collection and not to a generation, and are the same for every instance. Versions count from 1; version 0 is none.

use async_trait::async_trait;

use super::{Result, Seq, StoreError};
use doppel_core::collection::CollectionName;

/// Most bytes of document frequencies that a store keeps: they are written whole, at once.
pub const MAX_FREQUENCIES_BYTES: usize = 4 << 20;

/// Keeping document frequencies, and choosing the records to count them over. Durable and cancel-safe as all of
/// [`Store`](super::Store).
#[async_trait]
pub trait Frequencies {
    /// Makes `bytes` the document frequencies of a collection, as version `version`, if the version in force is the one
    /// before; whether it did. Of several calls with one version exactly one does. Durable and visible to every instance
    /// ([`CollectionState::frequencies`](super::CollectionState::frequencies)) when it returns `true`; a crash leaves the
    /// version before or this one, whole. Lookups and registrations continue meanwhile. Repeated after an unknown outcome it
    /// may return `false` because it did: the state then shows the version.
    ///
    /// # Errors
    /// `UnknownCollection`; `FrequenciesTooLarge` above [`MAX_FREQUENCIES_BYTES`].
    async fn put_frequencies(&self, name: &CollectionName, version: u32, bytes: Vec<u8>) -> Result<bool>;

    /// The document frequencies of this version, if it is the one in force or the one before it, for who has read the state a
    /// moment ago; `None` of any other, and of 0.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn frequencies(&self, name: &CollectionName, version: u32) -> Result<Option<Vec<u8>>>;

    /// Seqs of live records, ascending: all of them where there are at most `limit`; else about `limit` (never more), spread
    /// evenly over the collection, so that every record is as likely to be among them as any other. Which ones they are depends
    /// on the version in force; those of one content may be among them only together. Records stored or removed meanwhile may be
    /// among them or not.
    ///
    /// Cost: in memory a walk over the index, some nanoseconds a record; in a database O(`limit`) index entries. No record is
    /// read.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn sample(&self, name: &CollectionName, limit: usize) -> Result<Vec<Seq>>;
}

/// Refuses what is too large to be written at once.
///
/// # Errors
/// `FrequenciesTooLarge` above [`MAX_FREQUENCIES_BYTES`].
pub fn check_size(bytes: &[u8]) -> Result<()> {
    let (given, most) = (bytes.len(), MAX_FREQUENCIES_BYTES);
    if given > most { Err(StoreError::FrequenciesTooLarge { given, most }) } else { Ok(()) }
}

/// Where a sample begins, as a fraction of 2^64 of the collection: far from where those of the versions before began.
pub fn sample_start(version: u32) -> u64 {
    // Multiples of the golden ratio's fraction lie as far apart as so many points can.
    (u64::from(version) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Chooses `limit` of `count` records by their places in order, in equal steps.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    count: u64,
    limit: u64,
    start: u64,
}

impl Steps {
    /// For the sample that begins at [`sample_start`] of `version`.
    pub fn new(count: u64, limit: usize, version: u32) -> Self {
        let start = (u128::from(sample_start(version)) * u128::from(count)) >> 64;
        Self { count, limit: limit as u64, start: start as u64 }
    }

    /// Whether the record at `index` is chosen: of the indexes below `count` exactly `limit` are, or all.
    pub fn take(self, index: u64) -> bool {
        let Self { count, limit, start } = self;
        let shifted = u128::from(index) * u128::from(limit) + u128::from(start);
        limit >= count || shifted % u128::from(count) < u128::from(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(count: u64, limit: usize, version: u32) -> Vec<u64> {
        let steps = Steps::new(count, limit, version);
        (0..count).filter(|index| steps.take(*index)).collect()
    }

    #[test]
    fn exactly_as_many_are_chosen_as_wanted_and_no_gap_is_larger_than_another_by_more_than_one() {
        for (count, limit) in [(10, 3), (10, 9), (1000, 7), (1000, 500), (1000, 999), (4096, 64)] {
            for version in [0, 1, 2, 77] {
                let chosen = chosen(count, limit, version);
                assert_eq!(chosen.len(), limit, "{limit} of {count}");
                let gaps: Vec<u64> = chosen.windows(2).map(|pair| pair[1] - pair[0]).collect();
                let (least, most) = (gaps.iter().min().unwrap(), gaps.iter().max().unwrap());
                assert!(most - least <= 1, "{limit} of {count}: {gaps:?}");
            }
        }
    }

    #[test]
    fn all_are_chosen_where_there_are_no_more_and_none_where_none_are_wanted() {
        for count in [0, 1, 5] {
            assert_eq!(chosen(count, 5, 3), (0..count).collect::<Vec<_>>());
        }
        assert_eq!(chosen(3, usize::MAX, 0), [0, 1, 2]);
        assert!(chosen(3, 0, 0).is_empty());
    }

    #[test]
    fn over_the_versions_every_place_is_chosen_about_equally_often() {
        let mut times = [0_u32; 50];
        for version in 0..1000 {
            chosen(50, 10, version).into_iter().for_each(|index| times[index as usize] += 1);
        }
        assert!(times.iter().all(|times| (180..=220).contains(times)), "{times:?}");
    }
}
