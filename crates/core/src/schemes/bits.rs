//! Weighted majority of 64 bits: the inner loop of Simhash.
//!
//! Bit-sliced: plane k holds, for all 64 positions at once, bit k of the sum of the weights whose hash has that bit set.
//! Adding a hash is a carry-save addition of one word (some five operations, one more plane every second time), so no
//! wide registers are needed and every machine computes the same bits by the same code. In figures this is within a few
//! per cent of nothing beside cutting the text, which is why there is no second, vectorised version.

/// Sums weighted hashes and tells the majority of each bit. The sum of all weights must stay below 2^64; a weight is at
/// most 1000 × 2^21 (see the Simhash scheme) and texts are bounded by the body limit, so it stays below 2^56.
#[derive(Clone, Debug)]
pub struct BitCounter {
    planes: [u64; 64],
    /// A word waiting at a plane for a second one, so that carries move on half as often at each plane.
    waiting: [u64; 64],
    /// Bit k: `waiting[k]` holds a word.
    occupied: u64,
    total: u64,
}

impl Default for BitCounter {
    fn default() -> Self {
        Self { planes: [0; 64], waiting: [0; 64], occupied: 0, total: 0 }
    }
}

impl BitCounter {
    /// Adds `weight` to the sum of every bit set in `hash`, and takes it from the others.
    #[inline]
    pub fn add(&mut self, hash: u64, weight: u64) {
        self.total += weight;
        let mut rest = weight;
        while rest != 0 {
            self.add_at(rest.trailing_zeros() as usize, hash);
            rest &= rest - 1;
        }
    }

    #[inline]
    fn add_at(&mut self, mut plane: usize, mut word: u64) {
        // The loop ends at plane 63 at the latest: the total is below 2^64.
        while plane < 64 {
            if self.occupied >> plane & 1 == 0 {
                self.waiting[plane] = word;
                self.occupied |= 1 << plane;
                return;
            }
            let (sum, waiting) = (self.planes[plane], self.waiting[plane]);
            let half = sum ^ waiting;
            self.planes[plane] = half ^ word;
            word = (sum & waiting) | (half & word);
            self.occupied &= !(1 << plane);
            plane += 1;
        }
    }

    /// Bit i is set when the weights of the hashes with bit i outweigh those without: sum > 0. A tie gives 0.
    pub fn majority(mut self) -> u64 {
        for plane in 0..64 {
            if self.occupied >> plane & 1 == 1 {
                let mut word = self.waiting[plane];
                for sum in &mut self.planes[plane..] {
                    (*sum, word) = (*sum ^ word, *sum & word);
                    if word == 0 {
                        break;
                    }
                }
            }
        }
        // With weight W in all, C of it on set bits: 2C > W is C > ⌊W/2⌋, compared for all positions at once.
        let half = self.total / 2;
        let (mut greater, mut equal) = (0, u64::MAX);
        for plane in (0..64).rev() {
            let sum = self.planes[plane];
            if half >> plane & 1 == 0 {
                greater |= equal & sum;
                equal &= !sum;
            } else {
                equal &= sum;
            }
        }
        greater
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, one bit at a time.
    fn naive(weighted: &[(u64, u64)]) -> u64 {
        let sum = |bit: u32| -> i128 {
            weighted.iter().map(|&(h, w)| if h >> bit & 1 == 1 { i128::from(w) } else { -i128::from(w) }).sum()
        };
        (0..64).filter(|&bit| sum(bit) > 0).fold(0, |bits, bit| bits | 1 << bit)
    }

    fn counted(weighted: &[(u64, u64)]) -> u64 {
        let mut counter = BitCounter::default();
        weighted.iter().for_each(|&(hash, weight)| counter.add(hash, weight));
        counter.majority()
    }

    #[test]
    fn a_tie_gives_zero() {
        assert_eq!(counted(&[]), 0);
        assert_eq!(counted(&[(0b1100, 1), (0b1010, 1)]), 0b1000);
        assert_eq!(counted(&[(u64::MAX, 2), (0, 1), (0, 1)]), 0);
    }

    #[test]
    fn the_greatest_weights_do_not_overflow() {
        let heaviest = 1000 << 21;
        let many = vec![(u64::MAX, heaviest); 10_000];
        assert_eq!(counted(&many), u64::MAX);
        assert_eq!(counted(&[(1, u64::MAX)]), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn the_majority_is_that_of_counting_bit_by_bit(
            weighted in prop::collection::vec((any::<u64>(), prop_oneof![0..8_u64, 0..(1_u64 << 31)]), 0..60),
        ) {
            prop_assert_eq!(counted(&weighted), naive(&weighted));
        }
    }
}
