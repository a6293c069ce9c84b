//! The rule that chooses the buckets of the block index for a Hamming radius, so that no fingerprint within the radius is missed.
//!
//! A fingerprint has four 16-bit blocks, Q1 (bits 63-48) to Q4 (bits 15-0). For a radius r = 4q + a, 0 ≤ a ≤ 3, a lookup probes all values
//! within q bits of the first a + 1 blocks, and all values within q − 1 bits of the other blocks (none if q = 0). This is complete: a
//! fingerprint that no probe finds differs in at least (a + 1)(q + 1) + (3 − a)·q = r + 1 bits. The method is multi-index hashing (Norouzi,
//! Punjani, Fleet 2012), with the larger radius q on as few blocks as possible.
//!
//! The probes depend only on the radius, so that they are computed once. A lookup XORs each mask into its block.

use std::sync::LazyLock;

/// Largest radius that can be probed. It needs 2,788 probes, which cost about as much as a scan of a small collection.
pub const MAX_RADIUS: u8 = 15;

/// One bucket to search: the value of block number `block`, XOR `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Probe {
    /// 0 is Q1 (bits 63-48), 3 is Q4 (bits 15-0).
    pub block: u8,
    /// The bits to flip.
    pub mask: u16,
}

impl Probe {
    /// Returns the value of the bucket to search for `fingerprint`.
    pub fn value(self, fingerprint: u64) -> u16 {
        block(fingerprint, self.block) ^ self.mask
    }
}

/// Returns the 16-bit block number `index` (0 to 3) of a fingerprint.
pub fn block(fingerprint: u64, index: u8) -> u16 {
    (fingerprint >> (48 - 16 * u32::from(index))) as u16
}

/// Returns the probes of `radius` (at most [`MAX_RADIUS`]), fewest flipped bits first, so that near records are found early. Costs nothing
/// after the first call.
pub fn probes(radius: u8) -> &'static [Probe] {
    static TABLES: LazyLock<Vec<Vec<Probe>>> = LazyLock::new(|| (0..=MAX_RADIUS).map(compute).collect());
    &TABLES[usize::from(radius.min(MAX_RADIUS))]
}

fn compute(radius: u8) -> Vec<Probe> {
    let within = i32::from(radius / 4);
    let remainder = radius % 4;
    let mut found = Vec::new();
    for flipped in 0..=within {
        for block in 0..4 {
            let allowed = if block <= remainder { within } else { within - 1 };
            if flipped <= allowed {
                let masks = (0..=u16::MAX).filter(|mask| mask.count_ones() as i32 == flipped);
                found.extend(masks.map(|mask| Probe { block, mask }));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_number_of_probes_is_the_one_documented() {
        let expected = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 20), (7, 68), (8, 188), (11, 548), (12, 1108), (15, 2788)];
        for (radius, count) in expected {
            assert_eq!(probes(radius).len(), count, "radius {radius}");
        }
    }

    #[test]
    fn no_probe_occurs_twice_and_near_ones_come_first() {
        for radius in 0..=MAX_RADIUS {
            let list = probes(radius);
            assert_eq!(list.iter().collect::<HashSet<_>>().len(), list.len());
            assert!(list.is_sorted_by_key(|probe| probe.mask.count_ones()));
        }
    }

    #[test]
    fn q1_is_the_most_significant_block() {
        let value = 0x1111_2222_3333_4444;
        assert_eq!([0, 1, 2, 3].map(|index| block(value, index)), [0x1111, 0x2222, 0x3333, 0x4444]);
    }

    #[test]
    fn every_distribution_of_the_radius_over_the_blocks_is_probed() {
        // Only the number of different bits in each block matters, so that testing all distributions is a proof.
        for radius in 0..=MAX_RADIUS {
            let reach: Vec<Option<u32>> = (0..4)
                .map(|b| probes(radius).iter().filter(|p| p.block == b).map(|p| p.mask.count_ones()).max())
                .collect();
            for code in 0..17u32.pow(4) {
                let split = [code % 17, code / 17 % 17, code / 289 % 17, code / 4913];
                if split.iter().sum::<u32>() <= u32::from(radius) {
                    assert!((0..4).any(|b| reach[b].is_some_and(|reach| split[b] <= reach)), "{radius}: {split:?}");
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn every_fingerprint_within_the_radius_shares_a_probed_key(
            query: u64, radius in 0..=MAX_RADIUS, flips in prop::collection::vec(0..64u32, 0..16),
        ) {
            let stored = flips.iter().take(radius.into()).fold(query, |bits, flip| bits ^ (1 << flip));
            prop_assert!(probes(radius).iter().any(|probe| probe.value(query) == block(stored, probe.block)));
        }
    }
}
