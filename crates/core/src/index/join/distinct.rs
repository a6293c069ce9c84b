//! The sorted fingerprints of a batch, with the places of equal fingerprints.

use std::ops::Range;

use rayon::prelude::*;

/// Number of entries that a thread reads at a time.
const CHUNK: usize = 1 << 20;
/// Number of entries that are sorted at a time.
const GROUP: usize = 1 << 15;
/// Largest number of groups, as a power of two; see `MAX_GROUPS` of the join.
const MAX_GROUP_BITS: u32 = 10;
/// Number of upper bits by which a position is looked up.
const HEAD_BITS: u32 = 16;

/// A batch of fingerprints that is ready for a join. The position of a fingerprint is the index of its first occurrence in ascending order.
/// Takes 12 bytes a fingerprint, and a quarter of a megabyte.
#[derive(Clone, Debug)]
pub struct Distinct {
    /// All fingerprints, ascending, with repetitions.
    values: Vec<u64>,
    /// The place of each fingerprint in the input; ascending among equal fingerprints.
    places: Vec<u32>,
    /// For each value of the upper bits, the first position of a fingerprint with this value or a higher one.
    heads: Vec<u32>,
    /// Number of positions that a thread reads at a time.
    chunk_size: usize,
}

/// The error that a batch has more fingerprints than a join can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} fingerprints are more than can be joined at once (2^32 - 1)")]
pub struct TooMany(usize);

impl Distinct {
    /// Sorts `fingerprints` on all cores. O(n log n). Takes 16 bytes a fingerprint while it sorts, in addition to the input.
    ///
    /// # Errors
    /// There are 2^32 or more fingerprints.
    pub fn of(fingerprints: &[u64]) -> Result<Self, TooMany> {
        u32::try_from(fingerprints.len()).map_err(|_| TooMany(fingerprints.len()))?;
        Ok(Self::sorted(fingerprints, CHUNK, GROUP))
    }

    pub(super) fn sorted(fingerprints: &[u64], chunk_size: usize, group_size: usize) -> Self {
        let bits = (fingerprints.len() / group_size).max(1).ilog2().min(MAX_GROUP_BITS);
        let layers: Vec<(Vec<u32>, Vec<u32>)> = fingerprints
            .par_chunks(chunk_size)
            .map(|chunk| places_by(chunk, 1 << bits, |value| (value >> 1 >> (63 - bits)) as usize))
            .collect();
        let mut values = vec![0; fingerprints.len()];
        let mut places = vec![0; fingerprints.len()];
        let mut parts = Vec::with_capacity(1 << bits);
        let mut values_left = &mut values[..];
        let mut places_left = &mut places[..];
        for group in 0..1 << bits {
            let size = layers.iter().map(|(_, ends)| range(ends, group).len()).sum();
            let (values, places);
            (values, values_left) = values_left.split_at_mut(size);
            (places, places_left) = places_left.split_at_mut(size);
            parts.push((values, places));
        }
        parts.into_par_iter().enumerate().for_each(|(group, (values, places))| {
            let mut part: Vec<(u64, u32)> = Vec::with_capacity(values.len());
            for (chunk, (order, ends)) in layers.iter().enumerate() {
                let places = order[range(ends, group)].iter().map(|at| (chunk * chunk_size) as u32 + at);
                part.extend(places.map(|place| (fingerprints[place as usize], place)));
            }
            match part.len() {
                many if many > CHUNK => part.par_sort_unstable(),
                _ => part.sort_unstable(),
            }
            for ((value, place), from) in values.iter_mut().zip(places).zip(part) {
                (*value, *place) = from;
            }
        });
        drop(layers);
        let heads = heads(&values);
        Self { values, places, heads, chunk_size }
    }

    /// Number of fingerprints in the batch, with repetitions.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True if the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the fingerprint at a position.
    pub fn value(&self, position: u32) -> u64 {
        self.values[position as usize]
    }

    /// Returns the position of a fingerprint. Takes some hundred nanoseconds.
    pub fn position(&self, value: u64) -> Option<u32> {
        let head = (value >> (64 - HEAD_BITS)) as usize;
        let start = self.heads[head] as usize;
        let end = self.heads[head + 1] as usize;
        let at = start + self.values[start..end].partition_point(|&other| other < value);
        (self.values.get(at) == Some(&value)).then_some(at as u32)
    }

    /// Returns the places of the fingerprint at `position` in the input, ascending: one place or more.
    pub fn places(&self, position: u32) -> &[u32] {
        let rest = &self.values[position as usize..];
        let count = rest.iter().take_while(|&&value| value == rest[0]).count();
        &self.places[position as usize..position as usize + count]
    }

    /// Returns the position of every different fingerprint, ascending.
    pub fn positions(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.values.len()).filter(|&at| self.is_first(at)).map(|at| at as u32)
    }

    /// Memory in bytes.
    pub fn memory_usage(&self) -> usize {
        self.values.capacity() * 8 + (self.places.capacity() + self.heads.capacity()) * 4
    }

    /// Divides the positions into ranges for the threads.
    pub(super) fn chunks(&self) -> impl IndexedParallelIterator<Item = Range<usize>> + '_ {
        let size = self.chunk_size;
        let chunks = self.values.len().div_ceil(size);
        (0..chunks).into_par_iter().map(move |chunk| chunk * size..(chunk * size + size).min(self.values.len()))
    }

    /// Returns the different values whose first occurrence lies in the range.
    pub(super) fn values_from(&self, range: Range<usize>) -> impl Iterator<Item = u64> + '_ {
        let before = range.start.checked_sub(1).map(|at| self.values[at]);
        let mut last = before.unwrap_or_else(|| self.values.first().map_or(0, |first| !first));
        self.values[range].iter().copied().filter(move |&value| {
            let first = value != last;
            last = value;
            first
        })
    }

    fn is_first(&self, at: usize) -> bool {
        at == 0 || self.values[at - 1] != self.values[at]
    }
}

/// Sorts the places of `chunk` by group. Also returns the end of each group.
fn places_by(chunk: &[u64], groups: usize, group: impl Fn(u64) -> usize) -> (Vec<u32>, Vec<u32>) {
    let mut ends = vec![0_u32; groups];
    chunk.iter().for_each(|&value| ends[group(value)] += 1);
    let mut start = 0;
    for end in &mut ends {
        let count = *end;
        *end = start;
        start += count;
    }
    let mut order = vec![0; chunk.len()];
    for (at, &value) in (0_u32..).zip(chunk) {
        let end = &mut ends[group(value)];
        order[*end as usize] = at;
        *end += 1;
    }
    (order, ends)
}

fn range(ends: &[u32], group: usize) -> Range<usize> {
    let start = group.checked_sub(1).map_or(0, |before| ends[before]);
    start as usize..ends[group] as usize
}

fn heads(values: &[u64]) -> Vec<u32> {
    let mut heads = vec![0; (1 << HEAD_BITS) + 1];
    values.iter().for_each(|value| heads[(value >> (64 - HEAD_BITS)) as usize + 1] += 1);
    for at in 1..heads.len() {
        heads[at] += heads[at - 1];
    }
    heads
}
