//! Single-Pass clustering: the baseline that the paper of 2015 replaces by filing under blocks.
//!
//! Fingerprints are taken in the order given. Each is compared with the clusters' representatives (their first members) in
//! the order of creation, and joins the first within the radius; if there is none, it opens a cluster. O(n) at best, when all
//! are alike; n(n − 1)/2 comparisons at worst, when none are. What it finds depends on the order: two that are near each other
//! but not near the same representative part, so pairs are lost ([`Clusters::loses`]). Kept as a measured baseline; to find
//! pairs, use [`join`](super::join).

use crate::verdict::Fingerprint;

/// What Single-Pass found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clusters {
    /// The cluster of each fingerprint.
    pub of: Vec<u32>,
    /// Position of the representative of each cluster.
    pub representatives: Vec<u32>,
    /// Comparisons made.
    pub comparisons: u64,
}

impl Clusters {
    /// Whether the pair at these positions parted.
    pub fn loses(&self, a: usize, b: usize) -> bool {
        self.of[a] != self.of[b]
    }
}

/// Clusters `fingerprints`, fewer than 2^32, in their order.
pub fn single_pass(fingerprints: &[Fingerprint], radius: u8) -> Clusters {
    let mut clusters = Clusters { of: Vec::with_capacity(fingerprints.len()), ..Clusters::default() };
    // Beside each other, so that the scan reads nothing else.
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

    fn run(values: &[u64], radius: u8) -> Clusters {
        single_pass(&values.iter().copied().map(Fingerprint).collect::<Vec<_>>(), radius)
    }

    #[test]
    fn each_joins_the_first_cluster_whose_first_member_is_near() {
        let clusters = run(&[0b0000, 0b1111_1111, 0b0111, 0b0000_1111, 0b0001], 3);
        // The fourth is four bits from both representatives.
        assert_eq!(clusters.of, [0, 1, 0, 2, 0]);
        assert_eq!((clusters.representatives, clusters.comparisons), (vec![0, 1, 3], 5));
    }

    #[test]
    fn what_is_found_depends_on_the_order() {
        let (a, b, c) = (0b000_000, 0b000_111, 0b111_111);
        let lost = run(&[a, b, c], 3);
        assert!(!lost.loses(0, 1) && lost.loses(1, 2), "b and c are near, but b joined a");
        let kept = run(&[b, a, c], 3);
        assert!(!kept.loses(0, 1) && !kept.loses(0, 2));
    }

    #[test]
    fn at_best_one_comparison_each_and_at_worst_all() {
        assert_eq!(run(&[7; 100], 3).comparisons, 99);
        let apart: Vec<u64> = (0..16).map(|n| 0xf << (4 * n)).collect();
        assert_eq!(run(&apart, 3).comparisons, 16 * 15 / 2);
    }
}
