//! The generator's random numbers: splitmix64. It is written here, so that no release of a library can change a sample.
//!
//! It uses integers only: the same seed gives the same numbers on every machine and in every version. It must not be used for secrets.

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub(super) struct RandomStream(u64);

impl RandomStream {
    /// Creates the stream for `parts`, in this order. Streams of different parts are unrelated.
    pub(super) fn of(parts: &[u64]) -> Self {
        Self(parts.iter().fold(0x6A09_E667_F3BC_C908, |state, part| mix(state ^ mix(*part))))
    }

    /// Returns the next 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Returns a number below `bound`, which is at least 1. The numbers are uniform up to about 2^-32.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Returns a number from `least` to `most`, both included.
    pub(super) fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most - least + 1)
    }

    /// True in `percent` of a hundred draws.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of `items`, which must not be empty.
    pub(super) fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }

    /// Puts `items` into a random order.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// Applies the finaliser of splitmix64: a bijection of 64-bit numbers in which every output bit depends on every input bit.
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_splitmix64() {
        // The published test values of splitmix64 for seed 1234567.
        let mut rng = RandomStream(1_234_567);
        assert_eq!(rng.next(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn draws_stay_within_their_bounds_and_reach_them() {
        let mut rng = RandomStream::of(&[1, 2]);
        let draws: Vec<_> = (0..2000).map(|_| rng.between(3, 7)).collect();
        assert_eq!(draws.iter().min(), Some(&3));
        assert_eq!(draws.iter().max(), Some(&7));
    }

    #[test]
    fn the_order_of_the_parts_matters() {
        assert_ne!(RandomStream::of(&[1, 2]).next(), RandomStream::of(&[2, 1]).next());
    }
}
