//! The weighted majority of 64 bits: the inner loop of Simhash.
//!
//! The sums are stored bit-sliced: plane k contains, for all 64 positions, bit k of the sum of the weights whose hash has this position set.
//! Adding a hash is a carry-save addition of one word (about five operations, and one more plane every second time). Wide registers are not
//! needed, and every machine computes the same bits with the same code. Compared with cutting the text into words the time is negligible, so
//! that there is no vectorised version.

/// Sums weighted hashes and returns the majority of each bit. The sum of all weights must stay below 2^64. A weight is at most 1000 × 2^21 (see
/// the Simhash scheme) and the body limit bounds the text, so that the sum stays below 2^56.
#[derive(Clone, Debug)]
pub struct BitCounter {
    planes: [u64; 64],
    /// Words that wait at their planes for a second word, so that each plane passes on a carry only half as often.
    waiting: [u64; 64],
    /// Bit k is set if `waiting[k]` contains a word.
    occupied: u64,
    total: u64,
}

impl Default for BitCounter {
    fn default() -> Self {
        Self { planes: [0; 64], waiting: [0; 64], occupied: 0, total: 0 }
    }
}

impl BitCounter {
    /// Adds `weight` to the sum of every bit that is set in `hash`, and subtracts it from the sums of the other bits.
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
        // The loop ends at plane 63 at the latest, because the total is below 2^64.
        while plane < 64 {
            if self.occupied >> plane & 1 == 0 {
                self.waiting[plane] = word;
                self.occupied |= 1 << plane;
                return;
            }
            let sum = self.planes[plane];
            let waiting = self.waiting[plane];
            let half = sum ^ waiting;
            self.planes[plane] = half ^ word;
            word = (sum & waiting) | (half & word);
            self.occupied &= !(1 << plane);
            plane += 1;
        }
    }

    /// Returns the majority. Bit i is set if the hashes with bit i have more weight than the hashes without it. A tie gives 0.
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
        // Let W be the total weight and C the weight of the hashes with the bit set. 2C > W is the same as C > ⌊W/2⌋, which is compared for all
        // positions at once.
        let half = self.total / 2;
        let mut greater = 0;
        let mut equal = u64::MAX;
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

    /// Computes the majority by its definition, one bit at a time.
    fn naive(weighted: &[(u64, u64)]) -> u64 {
        (0..64).filter(|&bit| sum_of_bit(weighted, bit) > 0).fold(0, |bits, bit| bits | 1 << bit)
    }

    fn sum_of_bit(weighted: &[(u64, u64)], bit: u32) -> i128 {
        weighted.iter().map(|&(h, w)| if h >> bit & 1 == 1 { i128::from(w) } else { -i128::from(w) }).sum()
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
        fn the_majority_equals_that_of_counting_bit_by_bit(
            weighted in prop::collection::vec((any::<u64>(), prop_oneof![0..8_u64, 0..(1_u64 << 31)]), 0..60),
        ) {
            prop_assert_eq!(counted(&weighted), naive(&weighted));
        }
    }
}
