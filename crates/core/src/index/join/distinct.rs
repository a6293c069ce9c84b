//! Fingerprints sorted, equal ones together.

use std::ops::Range;

use rayon::prelude::*;

/// Entries a thread reads at a time.
const CHUNK: usize = 1 << 20;
/// Entries sorted at a time.
const GROUP: usize = 1 << 15;
/// Most groups: see `MAX_GROUPS` of the join.
const MAX_GROUP_BITS: u32 = 10;
/// Bits by which a position is looked up.
const HEAD_BITS: u32 = 16;

/// A batch of fingerprints, ready to be joined. A fingerprint is named by its position: that of the first of its
/// equals in ascending order. 12 bytes each, and a quarter of a megabyte.
#[derive(Clone, Debug)]
pub struct Distinct {
    /// Ascending; equal ones repeated.
    values: Vec<u64>,
    /// Where each stood in the input; ascending among equals.
    places: Vec<u32>,
    /// For each value of the upper bits, the first position with it or above.
    heads: Vec<u32>,
    /// Positions that a thread reads at a time.
    chunk_size: usize,
}

/// More fingerprints than can be joined at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} fingerprints are more than can be joined at once (2^32 - 1)")]
pub struct TooMany(usize);

impl Distinct {
    /// Sorts `fingerprints` on all cores. O(n log n); 16 bytes each while it does, beside the fingerprints given.
    ///
    /// # Errors
    /// When they are more than positions can name.
    pub fn of(fingerprints: &[u64]) -> Result<Self, TooMany> {
        u32::try_from(fingerprints.len()).map_err(|_| TooMany(fingerprints.len()))?;
        Ok(Self::sorted(fingerprints, CHUNK, GROUP))
    }

    pub(super) fn sorted(fingerprints: &[u64], chunk_size: usize, group_size: usize) -> Self {
        let bits = (fingerprints.len() / group_size).max(1).ilog2().min(MAX_GROUP_BITS);
        let group = |value: u64| (value >> 1 >> (63 - bits)) as usize;
        let layers: Vec<(Vec<u32>, Vec<u32>)> =
            fingerprints.par_chunks(chunk_size).map(|chunk| places_by(chunk, 1 << bits, group)).collect();
        let (mut values, mut places) = (vec![0; fingerprints.len()], vec![0; fingerprints.len()]);
        let mut parts = Vec::with_capacity(1 << bits);
        let (mut values_left, mut places_left) = (&mut values[..], &mut places[..]);
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

    /// Number of fingerprints, equal ones each counted.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The fingerprint at a position.
    pub fn value(&self, position: u32) -> u64 {
        self.values[position as usize]
    }

    /// The position of a fingerprint. Some hundred nanoseconds.
    pub fn position(&self, value: u64) -> Option<u32> {
        let head = (value >> (64 - HEAD_BITS)) as usize;
        let (start, end) = (self.heads[head] as usize, self.heads[head + 1] as usize);
        let at = start + self.values[start..end].partition_point(|&other| other < value);
        (self.values.get(at) == Some(&value)).then_some(at as u32)
    }

    /// Where the fingerprint at `position` stood in the input, ascending: one place or more.
    pub fn places(&self, position: u32) -> &[u32] {
        let rest = &self.values[position as usize..];
        let count = rest.iter().take_while(|&&value| value == rest[0]).count();
        &self.places[position as usize..position as usize + count]
    }

    /// The position of every different fingerprint, ascending.
    pub fn positions(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.values.len()).filter(|&at| self.is_first(at)).map(|at| at as u32)
    }

    /// Bytes allocated.
    pub fn memory_usage(&self) -> usize {
        self.values.capacity() * 8 + (self.places.capacity() + self.heads.capacity()) * 4
    }

    /// Stretches of positions, for threads.
    pub(super) fn chunks(&self) -> impl IndexedParallelIterator<Item = Range<usize>> + '_ {
        let size = self.chunk_size;
        let chunks = self.values.len().div_ceil(size);
        (0..chunks).into_par_iter().map(move |chunk| chunk * size..(chunk * size + size).min(self.values.len()))
    }

    /// The different values that begin in a stretch.
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

/// The places of `chunk` sorted by group, and where each group ends.
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
