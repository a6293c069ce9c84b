//! MinHash with bands (Broder 1997; Indyk, Motwani 1998). The share of equal minima estimates the resemblance of two texts.
//!
//! The signature contains, for each of `bands` × `rows` permutations, the minimum over the record's shingles (runs of `units` units, as in
//! [`shingle`](super::shingle); the permutations are the same as in [`super_shingle`](super::super_shingle)). Each band of `rows`
//! consecutive minima, hashed with its number, is a key. Texts of resemblance r share a key with probability 1 − (1 − r^rows)^bands. Two
//! records match if the share of equal minima is at least `t`.
//!
//! The source documents do not use MinHash; it is included because most other systems use it. The keys are not complete. Signing is
//! O(length × bands × rows), comparing O(bands × rows).

use super::reading::Reading;
use super::super_shingle::{ShinglePermutations, band_hash};
use super::{Scheme, Signature, is_share};
use crate::collection::MinhashParams;

/// The `minhash` scheme of a collection.
#[derive(Clone, Debug)]
pub struct MinhashScheme {
    params: MinhashParams,
    permutations: ShinglePermutations,
}

impl MinhashScheme {
    /// Makes the scheme with these parameters.
    pub fn new(params: &MinhashParams) -> Self {
        Self { permutations: ShinglePermutations::new(params.bands * params.rows), params: params.clone() }
    }
}

impl Scheme for MinhashScheme {
    fn name(&self) -> &'static str {
        "minhash"
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        self.permutations.minima(reading, self.params.units).map(|minima| Signature::Minima(minima.into()))
    }

    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>) {
        if let Signature::Minima(minima) = signature {
            let bands = minima.chunks_exact(self.params.rows as usize).enumerate();
            keys.extend(bands.map(|(number, minima)| band_hash(number, minima)));
        }
    }

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        let (Signature::Minima(a), Signature::Minima(b)) = (a, b) else { return false };
        let equal = a.iter().zip(b).filter(|(a, b)| a == b).count();
        a.len() == b.len() && is_share(equal, self.params.t, a.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::brute_force::{PAIRS, at_least, hold, texts};
    use super::super::super_shingle::tests::naive_minima;
    use super::super::tests::{document, reading};
    use super::*;
    use crate::collection::Role;

    #[test]
    fn minima_and_keys_equal_those_of_another_implementation() {
        let scheme = MinhashScheme::new(&MinhashParams { units: 2, bands: 2, rows: 2, t: 0.3 });
        let document = document(&[(Role::Text, "小区夜市a1")]);
        let signature = scheme.sign(&reading(&document, &PAIRS, &[1])).unwrap();
        let minima = [0x420d_0d56_81d3_2484, 0x0f8b_fadb_0295_6d3f, 0x2861_a266_25a6_d3da, 0x1d05_b3e0_4e9b_b386];
        assert_eq!(signature, Signature::Minima(minima.into()));
        let mut keys = Vec::new();
        scheme.keys(&signature, &mut keys);
        assert_eq!(keys, [0x77dd_03fa_0b1a_adac, 0x32ea_189a_d790_70cb]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]
        #[test]
        fn it_finds_only_pairs_of_the_definition(
            texts in texts(), units in 1..4_u8, bands in 1..6_u32, rows in 1..4_u32,
            t in prop::sample::select(vec![0.0, 0.3, 0.5, 1.0]),
        ) {
            let count = bands * rows;
            hold(&MinhashScheme::new(&MinhashParams { units, bands, rows, t }), &texts, false, |a, b| {
                let Some(a) = naive_minima(a, units.into(), count.into()) else { return false };
                let Some(b) = naive_minima(b, units.into(), count.into()) else { return false };
                at_least(a.iter().zip(&b).filter(|(a, b)| a == b).count(), t, count as usize)
            })?;
        }
    }
}
