//! Single-pass clustering: the baseline of the paper of 2015, which the paper replaces with the block index.
//!
//! The algorithm reads the fingerprints in the given order. It compares each with the representatives (the first members) of the clusters
//! in the order of their creation. The fingerprint joins the first cluster within the radius; without one, it opens a new cluster. This
//! takes O(n) if all fingerprints are near each other, and n(n − 1)/2 comparisons if no two are. The result depends on the order: two near
//! fingerprints that are not near the same representative end in different clusters, so that their pair is lost
//! ([`SinglePassClusters::loses`]). The module exists for measurements; use [`join`](super::join) to find pairs.

use crate::verdict::Fingerprint;

/// The result of single-pass clustering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinglePassClusters {
    /// The cluster of each fingerprint.
    pub of: Vec<u32>,
    /// The position of the representative of each cluster.
    pub representatives: Vec<u32>,
    /// Number of comparisons.
    pub comparisons: u64,
}

impl SinglePassClusters {
    /// True if the two fingerprints at these positions are in different clusters.
    pub fn loses(&self, a: usize, b: usize) -> bool {
        self.of[a] != self.of[b]
    }
}

/// Clusters `fingerprints` in their order. There must be fewer than 2^32.
pub fn single_pass(fingerprints: &[Fingerprint], radius: u8) -> SinglePassClusters {
    let mut clusters =
        SinglePassClusters { of: Vec::with_capacity(fingerprints.len()), ..SinglePassClusters::default() };
    // The representatives' fingerprints in one list, so that a scan reads nothing else.
    let mut heads: Vec<Fingerprint> = Vec::new();
    for (position, &fingerprint) in (0_u32..).zip(fingerprints) {
        let found = heads.iter().position(|head| head.distance(fingerprint) <= radius);
        clusters.comparisons += found.map_or(heads.len(), |found| found + 1) as u64;
        let cluster = found.unwrap_or_else(|| {
            heads.push(fingerprint);
            clusters.representatives.push(position);
            heads.len() - 1
        });
        clusters.of.push(cluster as u32);
    }
    clusters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(values: &[u64], radius: u8) -> SinglePassClusters {
        single_pass(&values.iter().copied().map(Fingerprint).collect::<Vec<_>>(), radius)
    }

    #[test]
    fn a_fingerprint_joins_the_first_cluster_with_a_near_representative() {
        let clusters = run(&[0b0000, 0b1111_1111, 0b0111, 0b0000_1111, 0b0001], 3);
        // The fourth fingerprint differs in four bits from both representatives.
        assert_eq!(clusters.of, [0, 1, 0, 2, 0]);
        assert_eq!((clusters.representatives, clusters.comparisons), (vec![0, 1, 3], 5));
    }

    #[test]
    fn the_result_depends_on_the_order() {
        let [a, b, c] = [0b000_000, 0b000_111, 0b111_111];
        let lost = run(&[a, b, c], 3);
        assert!(!lost.loses(0, 1) && lost.loses(1, 2), "b and c are near, but b joined a");
        let kept = run(&[b, a, c], 3);
        assert!(!kept.loses(0, 1) && !kept.loses(0, 2));
    }

    #[test]
    fn equal_fingerprints_need_one_comparison_each_and_distant_ones_need_all() {
        assert_eq!(run(&[7; 100], 3).comparisons, 99);
        let apart: Vec<u64> = (0..16).map(|n| 0xf << (4 * n)).collect();
        assert_eq!(run(&apart, 3).comparisons, 16 * 15 / 2);
    }
}
