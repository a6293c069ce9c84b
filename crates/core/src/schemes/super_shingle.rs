//! Super-shingles (DSC-SS; Broder et al. 1997): a few hashes of groups of minima, some of which must be equal.
//!
//! The minimum over the record's shingles (runs of `units` units, as in [`shingle`](super::shingle)) is computed for each of `perms`
//! permutations. Consecutive minima form `groups` groups. The hash of a group is H(number of the group in one byte ‖ its minima, little endian).
//! Permutation i maps the hash x of a shingle to splitmix64(x ⊕ splitmix64(i)).
//!
//! Every group is a key, and records with at least `agree` equal groups match, so that the keys are complete. Signing is O(length × perms),
//! comparing O(groups).

use super::hash::{city64_bytes, splitmix64};
use super::reading::Reading;
use super::runs::ShingleRuns;
use super::{Scheme, Signature, common, hashes};
use crate::collection::SuperShingleParams;

/// The `super_shingle` scheme of a collection.
#[derive(Clone, Debug)]
pub struct SuperShingle {
    params: SuperShingleParams,
    permutations: ShinglePermutations,
}

impl SuperShingle {
    /// Makes the scheme with these parameters.
    pub fn new(params: &SuperShingleParams) -> Self {
        Self { permutations: ShinglePermutations::new(params.perms), params: params.clone() }
    }
}

impl Scheme for SuperShingle {
    fn name(&self) -> &'static str {
        "super_shingle"
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        let minima = self.permutations.minima(reading, self.params.units)?;
        let group = (self.params.perms / self.params.groups.max(1)).max(1) as usize;
        hashes(minima.chunks_exact(group).enumerate().map(|(number, minima)| band_hash(number, minima)).collect())
    }

    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>) {
        if let Signature::Hashes(groups) = signature {
            keys.extend_from_slice(groups);
        }
    }

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        let (Signature::Hashes(a), Signature::Hashes(b)) = (a, b) else { return false };
        common(a, b) >= self.params.agree as usize
    }

    fn key_implies_match(&self) -> bool {
        self.params.agree == 1
    }
}

/// Returns H(number in one byte ‖ `minima`, little endian), the hash of a group of minima or of a band.
pub(super) fn band_hash(number: usize, minima: &[u64]) -> u64 {
    let mut bytes = Vec::with_capacity(1 + 8 * minima.len());
    bytes.push(number as u8);
    bytes.extend(minima.iter().flat_map(|minimum| minimum.to_le_bytes()));
    city64_bytes(&bytes)
}

/// Pseudo-random permutations of hashes, by number.
#[derive(Clone, Debug)]
pub(super) struct ShinglePermutations(Box<[u64]>);

impl ShinglePermutations {
    pub(super) fn new(count: u32) -> Self {
        Self((0..u64::from(count)).map(splitmix64).collect())
    }

    /// Returns the smallest hash of a shingle under each permutation; `None` for a record without shingles. O(length × permutations).
    pub(super) fn minima(&self, reading: &Reading<'_>, units: u8) -> Option<Vec<u64>> {
        let mut minima = vec![u64::MAX; self.0.len()];
        let mut any = false;
        ShingleRuns::of(reading.input()).for_each(units.into(), |hash| {
            any = true;
            for (minimum, seed) in minima.iter_mut().zip(&self.0) {
                *minimum = (*minimum).min(splitmix64(hash ^ seed));
            }
        });
        any.then_some(minima)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::brute_force::{PAIRS, hold, texts};
    use super::super::hash::city64;
    use super::super::tests::{document, reading};
    use super::*;
    use crate::collection::Role;
    use crate::text::units::units;

    /// Computes the minima by their definition, from a set of shingles.
    pub(crate) fn naive_minima(text: &str, run: usize, count: u64) -> Option<Vec<u64>> {
        let units: Vec<&str> = units(text).map(|range| &text[range]).collect();
        let run = run.min(units.len());
        let shingles: BTreeSet<u64> = match run {
            0 => return None,
            _ => units.windows(run).map(|run| city64(&run.join("\u{1F}"))).collect(),
        };
        (0..count).map(|i| shingles.iter().map(|x| splitmix64(x ^ splitmix64(i))).min()).collect()
    }

    #[test]
    fn groups_equal_those_of_another_implementation() {
        let params = SuperShingleParams { units: 2, perms: 4, groups: 2, agree: 1 };
        let document = document(&[(Role::Text, "小区夜市a1")]);
        let expected = [0x32ea_189a_d790_70cb, 0x77dd_03fa_0b1a_adac];
        let found = SuperShingle::new(&params).sign(&reading(&document, &PAIRS, &[1]));
        assert_eq!(found, Some(Signature::Hashes(expected.into())));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn it_finds_exactly_the_pairs_of_the_definition(
            texts in texts(), units in 1..4_u8, group in 1..4_u32, groups in 1..6_u32, agree in 1..3_u32,
        ) {
            let agree = agree.min(groups);
            let params = SuperShingleParams { units, perms: group * groups, groups, agree };
            let count = u64::from(params.perms);
            hold(&SuperShingle::new(&params), &texts, true, |a, b| {
                let Some(a) = naive_minima(a, units.into(), count) else { return false };
                let Some(b) = naive_minima(b, units.into(), count) else { return false };
                let equal = a.chunks(group as usize).zip(b.chunks(group as usize)).filter(|(a, b)| a == b).count();
                equal >= agree as usize
            })?;
        }
    }
}
