//! The document frequencies of a collection: the share of its records that contain a piece of text.
//!
//! The engine counts them in a sample of the records and encodes them; a store only keeps the bytes. They belong to the collection, not to a
//! generation, and are the same for every instance. Versions count from 1; version 0 means that there are none.

use async_trait::async_trait;

use super::{Result, Seq, StoreError};
use doppel_core::collection::CollectionName;

/// Largest size of encoded document frequencies in bytes, because they are written in one step.
pub const MAX_FREQUENCIES_BYTES: usize = 4 << 20;

/// The document frequencies of a store, and the choice of the records in which they are counted. Durable and cancel-safe like all of
/// [`Store`](super::Store).
#[async_trait]
pub trait FrequencyStore {
    /// Stores `bytes` as version `version` of the document frequencies if the present version is the one before it. Returns false if it is not. If several
    /// callers store the same version, exactly one succeeds. When the call returns true, the version is durable and visible to every instance
    /// ([`CollectionState::frequencies`](super::CollectionState::frequencies)). After a crash the collection has this version or the one before, complete.
    /// Lookups and registrations continue during the call. If a caller repeats the call after an unknown outcome, it may return false although the first
    /// call succeeded; the state of the collection then shows the version.
    ///
    /// # Errors
    /// `UnknownCollection`; `FrequenciesTooLarge` above [`MAX_FREQUENCIES_BYTES`].
    async fn put_frequencies(&self, name: &CollectionName, version: u32, bytes: Vec<u8>) -> Result<bool>;

    /// Returns the document frequencies of this version, if it is the present version or the one before it (a caller may have read the state of the collection
    /// just before a change). `None` for all other versions and for 0.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn frequencies(&self, name: &CollectionName, version: u32) -> Result<Option<Vec<u8>>>;

    /// Returns seqs of live records, ascending. If there are at most `limit` records, it returns all. Otherwise it returns about `limit` (never more),
    /// evenly spread over the collection, so that every record has the same chance to be chosen. The choice depends on the present version. Records with
    /// the same content may be chosen only together. Records that are stored or removed during the call may be included or not.
    ///
    /// Cost: for a store in memory a pass over the index, some nanoseconds a record; for a database O(`limit`) index entries. Reads no record.
    ///
    /// # Errors
    /// `UnknownCollection`.
    async fn sample(&self, name: &CollectionName, limit: usize) -> Result<Vec<Seq>>;
}

/// Checks the size of encoded document frequencies.
///
/// # Errors
/// `FrequenciesTooLarge` above [`MAX_FREQUENCIES_BYTES`].
pub fn check_size(bytes: &[u8]) -> Result<()> {
    let given = bytes.len();
    let most = MAX_FREQUENCIES_BYTES;
    if given > most { Err(StoreError::FrequenciesTooLarge { given, most }) } else { Ok(()) }
}

/// Returns the beginning of a sample, as a fraction of the collection in units of 2^-64. It is far from the beginnings for earlier versions.
pub fn sample_start(version: u32) -> u64 {
    // Multiples of the golden ratio are spread evenly over the interval.
    (u64::from(version) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Chooses `limit` of `count` records in equal steps, by their positions.
#[derive(Clone, Copy, Debug)]
pub struct EqualSteps {
    count: u64,
    limit: u64,
    start: u64,
}

impl EqualSteps {
    /// Makes the steps of the sample that begins at [`sample_start`] of `version`.
    pub fn new(count: u64, limit: usize, version: u32) -> Self {
        let start = (u128::from(sample_start(version)) * u128::from(count)) >> 64;
        Self { count, limit: limit as u64, start: start as u64 }
    }

    /// True if the record at position `index` is chosen. Of the positions below `count` exactly `limit` are chosen, or all.
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
        let steps = EqualSteps::new(count, limit, version);
        (0..count).filter(|index| steps.take(*index)).collect()
    }

    #[test]
    fn exactly_limit_records_are_chosen_in_nearly_equal_gaps() {
        for (count, limit) in [(10, 3), (10, 9), (1000, 7), (1000, 500), (1000, 999), (4096, 64)] {
            for version in [0, 1, 2, 77] {
                let chosen = chosen(count, limit, version);
                assert_eq!(chosen.len(), limit, "{limit} of {count}");
                let gaps: Vec<u64> = chosen.windows(2).map(|pair| pair[1] - pair[0]).collect();
                let least = gaps.iter().min().unwrap();
                let most = gaps.iter().max().unwrap();
                assert!(most - least <= 1, "{limit} of {count}: {gaps:?}");
            }
        }
    }

    #[test]
    fn all_records_are_chosen_if_there_are_few_and_none_if_the_limit_is_zero() {
        for count in [0, 1, 5] {
            assert_eq!(chosen(count, 5, 3), (0..count).collect::<Vec<_>>());
        }
        assert_eq!(chosen(3, usize::MAX, 0), [0, 1, 2]);
        assert!(chosen(3, 0, 0).is_empty());
    }

    #[test]
    fn over_many_versions_every_position_is_chosen_about_equally_often() {
        let mut times = [0_u32; 50];
        for version in 0..1000 {
            chosen(50, 10, version).into_iter().for_each(|index| times[index as usize] += 1);
        }
        assert!(times.iter().all(|times| (180..=220).contains(times)), "{times:?}");
    }
}
