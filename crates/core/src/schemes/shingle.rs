//! Sampled shingles: DSC (Broder et al. 1997) with a bottom-k sample.
//!
//! A shingle is a run of `units` consecutive units (see [`units`](crate::text::units)) of one `text` or `whole` field, or the whole field if it
//! has fewer units. Its hash is CityHash64 of the units, joined by U+001F. A record keeps the smallest distinct hashes of all its fields; the
//! number is `clamp(units of the record / 25, keep[0], keep[1])`. With `mod` m it keeps instead every hash that is 0 modulo m, at most the
//! [`MAX_HASHES`] smallest. Copies of a passage therefore keep the same shingles, at any place in the text and with any punctuation.
//!
//! With `prefer: "rare"` the two highest bits of a hash are the class of its text: how common the text is by the document frequencies of
//! the generation ([`Frequencies`]; the built-in frequencies if the generation has none). The smallest hashes are then the hashes of rare
//! text. In addition, a quarter of this number of keys are taken from any text, by the other bits. Copies of a letter that thousands of
//! people send share these keys.
//!
//! Every kept hash is a key. Two samples match if they share a hash and their resemblance is at least `t`. The resemblance is the share of the k
//! smallest hashes of both samples that are in both. k is the size of the smaller sample, but at least `keep[0]`; a sample with fewer hashes
//! contains all hashes of its record. With `mod` the resemblance is the Jaccard similarity of the samples.
//!
//! Signing is O(length + kept × ln(length)), comparing is linear in the samples.

use std::sync::Arc;

use super::frequencies::Frequencies;
use super::reading::Reading;
use super::runs::ShingleRuns;
use super::{Scheme, Signature, is_share};
use crate::collection::{Prefer, ShingleParams};
use crate::text::shingles::for_each_of_three;

/// A record keeps one hash for each 25 units, between the bounds of `keep`.
const UNITS_PER_HASH: usize = 25;
/// Largest number of hashes that `mod` keeps, because `mod` itself sets no bound. A text of some megabytes reaches it.
pub const MAX_HASHES: usize = 1 << 16;

/// The smallest mean weight of a run of the first, second and third class. Runs with a lower weight have the last class.
const CLASSES: [f64; 3] = [0.5, 0.2, 0.05];

/// If half (1 / 2) of the smallest number of keys lie on rare text, keys on more common text are left out.
const ENOUGH_OF: usize = 2;

/// The `shingle` scheme of a collection.
#[derive(Clone, Debug)]
pub struct ShingleScheme {
    params: ShingleParams,
    frequencies: Arc<Frequencies>,
}

impl ShingleScheme {
    /// Makes the scheme with these parameters and frequencies.
    pub fn new(params: &ShingleParams, frequencies: Option<Arc<Frequencies>>) -> Self {
        Self { params: params.clone(), frequencies: frequencies.unwrap_or_else(Frequencies::built_in) }
    }

    fn is_modular(&self) -> bool {
        self.params.modulus.is_some()
    }
}

impl Scheme for ShingleScheme {
    fn name(&self) -> &'static str {
        "shingle"
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        let runs = ShingleRuns::of(reading.input());
        let run = usize::from(self.params.units);
        let kept = match self.params.modulus {
            Some(modulus) => {
                let mut kept = Vec::new();
                runs.for_each(run, |hash| {
                    if hash.is_multiple_of(modulus.into()) {
                        kept.push(hash);
                    }
                });
                kept.sort_unstable();
                kept.dedup();
                kept.truncate(MAX_HASHES);
                kept
            }
            None => {
                let [least, most] = self.params.keep.map(usize::from);
                let capacity = (runs.units() / UNITS_PER_HASH).clamp(least, most);
                match self.params.prefer {
                    Prefer::Any => {
                        let mut smallest = SmallestValues::new(capacity);
                        runs.for_each(run, |hash| smallest.offer(hash));
                        smallest.kept
                    }
                    Prefer::Rare => {
                        let enough = least.div_ceil(ENOUGH_OF);
                        preferring_rare(&runs, run, capacity, enough, &self.frequencies)
                    }
                }
            }
        };
        (!kept.is_empty()).then(|| Signature::Hashes(kept.into()))
    }

    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>) {
        if let Signature::Hashes(hashes) = signature {
            keys.extend_from_slice(hashes);
        }
    }

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        let (Signature::Hashes(a), Signature::Hashes(b)) = (a, b) else { return false };
        let most = match self.is_modular() {
            true => usize::MAX,
            false => a.len().min(b.len()).max(self.params.keep[0].into()),
        };
        if self.key_implies_match() {
            return shared_of_smallest(a, b, usize::MAX).0 > 0;
        }
        let (shared, of) = shared_of_smallest(a, b, most);
        shared > 0 && is_share(shared, self.params.t, of)
    }

    fn key_implies_match(&self) -> bool {
        self.params.t == 0.0
    }

    fn prefers_rare_text(&self) -> bool {
        self.params.modulus.is_none() && self.params.prefer == Prefer::Rare
    }
}

/// Returns the value by which a run is sampled. The values of rare text are the smallest.
fn key(class: u64, hash: u64) -> u64 {
    class << 62 | hash >> 2
}

/// Returns the class of a run's text, from 0 for rare text to 3 for text in most records.
fn class(text: &str, frequencies: &Frequencies) -> u64 {
    let mut sum = 0.0;
    let mut count = 0;
    for_each_of_three(text, |code| {
        sum += f64::from(frequencies.weight(code));
        count += 1;
    });
    // A text that is shorter than a counted shingle has no frequency.
    if count == 0 { 0 } else { CLASSES.iter().take_while(|least| sum < **least * f64::from(count)).count() as u64 }
}

/// The runs with the smallest hashes are examined first: three times as many as are kept. Usually enough of them are rare.
const TRIED: usize = 3;
/// A quarter (1 / 4) of the keys are taken of any text, so that copies of a letter that many people send share keys even if each person
/// adds text.
const OF_ANY_TEXT: usize = 4;

/// Returns the `capacity` smallest keys, and in addition the smallest hashes of any text, ascending. If the rarest classes together have
/// `enough` keys, the keys of the more common classes are left out. O(length), and O(kept) lookups of frequencies if most text is rare.
fn preferring_rare(
    runs: &ShingleRuns,
    run: usize,
    capacity: usize,
    enough: usize,
    frequencies: &Frequencies,
) -> Vec<u64> {
    let of_any = capacity.div_ceil(OF_ANY_TEXT);
    let below = ((TRIED * capacity) as u128) << 62;
    let bound = (below / runs.units().max(1) as u128).min(u64::MAX.into()) as u64;
    // Runs are taken in the order of their hashes until enough keys are on rare text.
    let mut keys = Vec::with_capacity(2 * capacity);
    let mut rare = 0;
    for (hash, from, to) in runs_up_to(bound, runs, run, capacity) {
        keys.push(key(class(runs.text(from..to), frequencies), hash << 2));
        rare += usize::from(keys.last().is_some_and(|key| key >> 62 == 0));
        if rare == capacity && keys.len() >= of_any {
            break;
        }
    }
    if rare < capacity {
        let all = runs_up_to(u64::MAX, runs, run, capacity).into_iter();
        keys = all.map(|(hash, from, to)| key(class(runs.text(from..to), frequencies), hash << 2)).collect();
    }
    let any: Vec<u64> = keys.iter().copied().take(of_any).collect();
    keys.sort_unstable();
    keys.truncate(capacity);
    leave_out_common(&mut keys, enough);
    keys.extend(any);
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Returns the upper bits of the hashes of runs, ascending, each with the start and the end of its run. Leaves out hashes whose upper bits
/// are above `bound`.
fn runs_up_to(bound: u64, runs: &ShingleRuns, run: usize, capacity: usize) -> Vec<(u64, u32, u32)> {
    let mut selected = Vec::with_capacity(2 * TRIED * capacity);
    runs.for_each_at(run, |hash, at| {
        if hash >> 2 <= bound {
            selected.push((hash >> 2, at.start, at.end));
        }
    });
    selected.sort_unstable();
    selected.dedup_by_key(|(hash, ..)| *hash);
    selected
}

/// Finds the class with which the number of keys reaches `enough`, and removes the keys of all later classes.
fn leave_out_common(kept: &mut Vec<u64>, enough: usize) {
    if let Some(last) = kept.get(enough.saturating_sub(1)) {
        let class = last >> 62;
        kept.truncate(kept.partition_point(|key| key >> 62 <= class));
    }
}

/// Returns how many of the `most` smallest values of two ascending lists are in both, and how many values were considered.
fn shared_of_smallest(a: &[u64], b: &[u64], most: usize) -> (usize, usize) {
    let mut i = 0;
    let mut j = 0;
    let mut shared = 0;
    let mut seen = 0;
    while seen < most {
        match (a.get(i), b.get(j)) {
            (None, None) => break,
            (Some(x), Some(y)) if x == y => {
                shared += 1;
                i += 1;
                j += 1;
            }
            (Some(x), Some(y)) if x > y => j += 1,
            (Some(_), _) => i += 1,
            (None, Some(_)) => j += 1,
        }
        seen += 1;
    }
    (shared, seen)
}

/// Keeps the smallest distinct values, ascending. Most offers cost only one comparison.
struct SmallestValues {
    capacity: usize,
    kept: Vec<u64>,
    /// Values at or above this bound are not kept.
    bound: u64,
}

impl SmallestValues {
    fn new(capacity: usize) -> Self {
        Self { capacity, kept: Vec::with_capacity(capacity + 1), bound: u64::MAX }
    }

    #[inline]
    fn offer(&mut self, value: u64) {
        if value < self.bound || self.kept.len() < self.capacity {
            self.insert(value);
        }
    }

    fn insert(&mut self, value: u64) {
        if let Err(at) = self.kept.binary_search(&value) {
            self.kept.insert(at, value);
            self.kept.truncate(self.capacity);
            if self.kept.len() == self.capacity {
                self.bound = self.kept.last().copied().unwrap_or(u64::MAX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::brute_force::at_least;
    use super::super::hash::{city64, city64_bytes};
    use super::super::tests::{document, reading};
    use super::*;
    use crate::collection::{Channel, Preset, Role, Settings, TextSettings};
    use crate::text::shingles::codes;
    use crate::text::units::units;
    use crate::text::words::Words;

    /// Computes a sample by its definition, from strings of all shingles.
    fn naive(fields: &[&str], params: &ShingleParams) -> Vec<u64> {
        let mut hashes = BTreeSet::new();
        let mut total = 0;
        for text in fields {
            let field: Vec<&str> = units(text).map(|range| &text[range]).collect();
            total += field.len();
            let run = field.len().min(params.units.into());
            if run > 0 {
                hashes.extend(field.windows(run).map(|run| city64(&run.join("\u{1F}"))));
            }
        }
        match params.modulus {
            Some(modulus) => hashes.into_iter().filter(|hash| hash % u64::from(modulus) == 0).collect(),
            None => {
                let keep = (total / 25).clamp(params.keep[0].into(), params.keep[1].into());
                hashes.into_iter().take(keep).collect()
            }
        }
    }

    fn sign(fields: &[&str], params: &ShingleParams) -> Option<Vec<u64>> {
        let words = Words::new(&TextSettings::default());
        let document = document(&fields.iter().map(|text| (Role::Text, *text)).collect::<Vec<_>>());
        match ShingleScheme::new(params, None).sign(&reading(&document, &words, &[1, 1])) {
            Some(Signature::Hashes(hashes)) => Some(hashes.into()),
            Some(_) => unreachable!("shingle gives hashes"),
            None => None,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn signatures_equal_those_of_the_definition(
            a in "[小区楼下夜市噪音扰民物业ab1, 。]{0,120}", b in "[小区楼下夜市噪音扰民]{0,20}",
            run in 1..12_u8, least in 1..20_u16, more in 0..20_u16, modulus in prop::option::of(2..6_u8),
        ) {
            let params = ShingleParams { units: run, keep: [least, least + more], modulus, t: 0.1, prefer: Prefer::Any };
            let expected = naive(&[&a, &b], &params);
            prop_assert_eq!(sign(&[&a, &b], &params).unwrap_or_default(), expected);
        }

        #[test]
        fn rare_keys_are_the_smallest_of_the_rarest_classes_and_some_of_any(
            a in "[请有关部门核实处理小区楼下夜市噪音扰民物业ab1, 。]{0,200}", b in "[请有关部门核实处理]{0,20}",
            run in 1..12_u8, least in 1..20_u16, more in 0..20_u16,
        ) {
            let params = ShingleParams { units: run, keep: [least, least + more], modulus: None, t: 0.0, prefer: Prefer::Rare };
            let frequencies = Frequencies::built_in();
            let mut keys = BTreeSet::new();
            let mut total = 0;
            for text in [&a, &b] {
                let field: Vec<&str> = units(text).map(|range| &text[range]).collect();
                total += field.len();
                for run in field.windows(field.len().min(run.into()).max(1)) {
                    let codes = codes(&run.concat(), 3);
                    let mean = codes.iter().map(|&code| f64::from(frequencies.weight(code))).sum::<f64>() / codes.len() as f64;
                    let short = run.concat().chars().count() < 3;
                    let class = if short { 0 } else { [0.5, 0.2, 0.05].iter().filter(|least| mean < **least).count() as u64 };
                    keys.insert(class << 62 | city64(&run.join("\u{1F}")) >> 2);
                }
            }
            let keep = (total / 25).clamp(params.keep[0].into(), params.keep[1].into());
            let mut any: Vec<u64> = keys.iter().copied().collect();
            any.sort_by_key(|key| key << 2);
            let mut expected: Vec<u64> = keys.into_iter().take(keep).collect();
            if let Some(last) = expected.get(usize::from(least).div_ceil(2) - 1).map(|key| key >> 62) {
                expected.retain(|key| key >> 62 <= last);
            }
            let expected: BTreeSet<u64> = expected.into_iter().chain(any.into_iter().take(keep.div_ceil(4))).collect();
            let expected: Vec<u64> = expected.into_iter().collect();
            prop_assert_eq!(sign(&[&a, &b], &params).unwrap_or_default(), expected);
        }

        #[test]
        fn comparing_is_symmetric_and_zero_accepts_exactly_a_shared_key(
            a in prop::collection::btree_set(0..40_u64, 1..20), b in prop::collection::btree_set(0..40_u64, 1..20),
            t in prop::sample::select(vec![0.0, 0.1, 0.5, 1.0]), modulus in prop::option::of(2..3_u8),
        ) {
            let scheme = ShingleScheme::new(&ShingleParams { t, modulus, keep: [4, 20], ..ShingleParams::default() }, None);
            let [ours, theirs] = [&a, &b].map(|set| Signature::Hashes(set.iter().copied().collect()));
            let found = scheme.compare(&ours, &theirs);
            prop_assert_eq!(found, scheme.compare(&theirs, &ours));
            let shares = a.intersection(&b).count() > 0;
            prop_assert!(!found || shares);
            if scheme.key_implies_match() {
                prop_assert_eq!(found, shares);
            }
            // The definition of resemblance.
            let most = if modulus.is_some() { usize::MAX } else { a.len().min(b.len()).max(4) };
            let union: Vec<u64> = a.union(&b).copied().take(most).collect();
            let both = union.iter().filter(|hash| a.contains(hash) && b.contains(hash)).count();
            prop_assert_eq!(found, (t == 0.0 && shares) || (both > 0 && at_least(both, t, union.len())));
        }
    }

    /// These keys must not change unless `RARITY_RULES` of the profile changes, because stores contain them.
    #[test]
    fn golden_keys_of_rare_text() {
        let text = "来电人反映柳塘区雁坪路鹤鸣小区北门外的旧水塔倾斜得厉害，塔顶铁梯松动，刮风时响个不停，请有关部门核实处理并答复。";
        let preset = Settings::preset(Preset::Default);
        for (settings, count, hash) in
            [(preset.clone(), 17, 11_167_961_557_356_128_393), (preset.unverified(), 16, 3_664_479_211_715_228_527)]
        {
            let Some(Channel::Shingle(params)) = settings.channels.last() else { unreachable!() };
            let keys = sign(&[text], params).unwrap();
            let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
            assert_eq!((keys.len(), city64_bytes(&bytes)), (count, hash), "{keys:x?}");
        }
    }

    #[test]
    fn a_short_field_is_one_shingle_and_runs_do_not_cross_fields() {
        let params = ShingleParams { units: 3, ..ShingleParams::default() };
        assert_eq!(sign(&["噪音", "夜市"], &params).unwrap().len(), 2);
        assert_eq!(sign(&["噪音"], &params), Some(vec![city64("噪\u{1F}音")]));
        assert_eq!(sign(&["。,"], &params), None);
    }

    #[test]
    fn punctuation_does_not_matter() {
        let params = ShingleParams::default();
        let a = sign(&["小区楼下夜市,噪音扰民!物业不管。"], &params);
        assert_eq!(a, sign(&["小区楼下夜市 噪音扰民 物业,不管"], &params));
        assert!(a.is_some());
    }
}
