//! A seeded permutation of `0..n` without a table: a Feistel network with cycle walking.
//!
//! It distributes the members of a group over the whole file, but each record can still be computed alone. The expected time is O(1) (fewer
//! than four steps on average), without memory.

use super::rng::mix;

const ROUNDS: u64 = 6;

/// A permutation of `0..n` and its inverse.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexPermutation {
    n: u64,
    half_bits: u32,
    key: u64,
}

impl IndexPermutation {
    /// Creates the permutation of `0..n` for `key`.
    pub(super) fn new(n: u64, key: u64) -> Self {
        let bits = 64 - n.saturating_sub(1).leading_zeros();
        Self { n, half_bits: bits.div_ceil(2).max(1), key }
    }

    /// Returns the image of `index`, which must be below n.
    pub(super) fn forward(self, index: u64) -> u64 {
        self.walk(index, |value| (0..ROUNDS).fold(value, |value, round| self.round(value, round)))
    }

    /// Returns the number whose image is `index`, which must be below n.
    pub(super) fn backward(self, index: u64) -> u64 {
        self.walk(index, |value| {
            let swapped = self.swap(value);
            self.swap((0..ROUNDS).rev().fold(swapped, |value, round| self.round(value, round)))
        })
    }

    fn swap(self, value: u64) -> u64 {
        self.join(self.right(value), self.left(value))
    }

    /// Repeats `step` until the result is below n. The domain of a step is a power of four, so that one step may lead outside `0..n`.
    fn walk(self, index: u64, step: impl Fn(u64) -> u64) -> u64 {
        let mut value = step(index);
        while value >= self.n {
            value = step(value);
        }
        value
    }

    fn round(self, value: u64, round: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let mixed = mix(self.right(value) ^ mix(self.key ^ round)) & mask;
        self.join(self.right(value), self.left(value) ^ mixed)
    }

    fn left(self, value: u64) -> u64 {
        value >> self.half_bits
    }

    fn right(self, value: u64) -> u64 {
        value & ((1u64 << self.half_bits) - 1)
    }

    fn join(self, left: u64, right: u64) -> u64 {
        (left << self.half_bits) | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_reached_once_and_the_inverse_leads_back() {
        for n in [1, 2, 3, 17, 64, 1000, 4097] {
            let permutation = IndexPermutation::new(n, 42);
            let mut images: Vec<_> = (0..n).map(|i| permutation.forward(i)).collect();
            assert!((0..n).all(|i| permutation.backward(images[i as usize]) == i), "inverse of {n}");
            images.sort_unstable();
            assert!(images.into_iter().eq(0..n), "bijection of {n}");
        }
    }

    #[test]
    fn neighbours_are_scattered() {
        let permutation = IndexPermutation::new(1_000_000, 7);
        let near = (0..1000).filter(|i| permutation.forward(*i).abs_diff(permutation.forward(i + 1)) < 10_000);
        assert!(near.count() < 100);
    }
}
