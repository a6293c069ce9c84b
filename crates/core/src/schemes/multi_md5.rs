//! Multiple MD5 (data cleaning with MD5, 2008; after Tianwang): an ordered list of fingerprints, which is looked up by its first
//! fingerprints.
//!
//! The list contains the MD5 of the value of each lead field with synonyms replaced (or of "" without a value), then the MD5 of the distinct
//! words in heavy order (falling frequency, ties by their bytes). Each fingerprint occurs only once, at its first position. A record has no list
//! if it has fewer than `pre` distinct words, or if it has none of the lead fields.
//!
//! Keys: with `key: all` H of the first `pre` fingerprints together; with `any` H of each of these fingerprints with its position. Two
//! records match if they share more than `t` fingerprints and at least `share` of the shorter list. The method does not find records whose
//! first fingerprints differ, so that its keys are not complete.
//!
//! Together with the exact stage this is the hybrid method of the paper. Signing is O(words × log words); comparing is linear in the
//! lists after they are sorted.

use super::hash::{Md5, city64_bytes};
use super::reading::Reading;
use super::{Scheme, Signature, is_share};
use crate::collection::{Field, LeadKey, MultiMd5Params};

/// The `multi_md5` scheme of a collection.
#[derive(Clone, Debug)]
pub struct MultiMd5 {
    params: MultiMd5Params,
    /// The positions of the lead fields.
    leads: Vec<Option<u8>>,
}

impl MultiMd5 {
    /// Makes the scheme with these parameters, for records with these fields.
    pub fn new(params: &MultiMd5Params, fields: &[Field]) -> Self {
        let names = params.lead_fields.iter();
        let leads = names.map(|name| fields.iter().position(|field| field.name == *name).map(|at| at as u8));
        Self { leads: leads.collect(), params: params.clone() }
    }
}

impl Scheme for MultiMd5 {
    fn name(&self) -> &'static str {
        "multi_md5"
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        let words = reading.heavy_words();
        if words.len() < self.params.pre as usize {
            return None;
        }
        let fields = &reading.document().fields;
        let leads = self.leads.iter().map(|lead| fields.iter().find(|field| Some(field.position) == *lead));
        let values: Vec<_> = leads.map(|found| found.map(|field| reading.merged(field))).collect();
        if !values.is_empty() && values.iter().all(Option::is_none) {
            return None;
        }
        let mut leads: Vec<Md5> = Vec::with_capacity(values.len());
        for value in values {
            let lead = Md5::of(value.as_deref().unwrap_or_default());
            if !leads.contains(&lead) {
                leads.push(lead);
            }
        }
        let words = words.iter().map(|word| Md5::of(word.term)).filter(|word| !leads.contains(word));
        Some(Signature::Digests(leads.iter().copied().chain(words).collect()))
    }

    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>) {
        let Signature::Digests(digests) = signature else { return };
        let first = digests.iter().take(self.params.pre as usize);
        match self.params.key {
            LeadKey::All => keys.push(city64_bytes(&first.flat_map(|digest| digest.0).collect::<Vec<_>>())),
            LeadKey::Any => keys.extend(first.enumerate().map(|(position, digest)| {
                let mut bytes = [0; 17];
                bytes[0] = position as u8;
                bytes[1..].copy_from_slice(&digest.0);
                city64_bytes(&bytes)
            })),
        }
    }

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        let (Signature::Digests(a), Signature::Digests(b)) = (a, b) else { return false };
        let sorted_a = sorted(a);
        let sorted_b = sorted(b);
        let shared = sorted_a.iter().filter(|digest| sorted_b.binary_search(digest).is_ok()).count();
        shared > self.params.t as usize && is_share(shared, self.params.share, sorted_a.len().min(sorted_b.len()))
    }
}

fn sorted(digests: &[Md5]) -> Vec<Md5> {
    let mut digests = digests.to_vec();
    digests.sort_unstable();
    digests.dedup();
    digests
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::brute_force::{PAIRS, at_least, heavy, hold, texts};
    use super::super::tests::{document, reading};
    use super::*;
    use crate::collection::{Role, TextSettings};
    use crate::text::words::Words;

    fn leading(params: &MultiMd5Params) -> MultiMd5 {
        MultiMd5::new(params, &["title", "contact"].map(|name| Field::new(name, Role::Whole)))
    }

    fn keys(scheme: &MultiMd5, fields: &[(Role, &str)]) -> Option<Vec<u64>> {
        let document = document(fields);
        let signature = scheme.sign(&reading(&document, &PAIRS, &[1; 4]))?;
        let mut keys = Vec::new();
        scheme.keys(&signature, &mut keys);
        Some(keys)
    }

    #[test]
    fn the_list_has_lead_fields_before_words_and_its_beginning_is_the_key() {
        // Words of two characters: 夜市 occurs twice, then 区夜 and 小区 occur once and follow in the order of their bytes.
        let fields = [(Role::Text, "小区夜市"), (Role::Text, "夜市")];
        let plain = leading(&MultiMd5Params::default());
        let document = document(&fields);
        let expected = ["夜市", "区夜", "小区"].map(Md5::of);
        assert_eq!(plain.sign(&reading(&document, &PAIRS, &[1, 1])), Some(Signature::Digests(expected.into())));
        assert_eq!(keys(&plain, &fields), Some(vec![0x5c79_035e_f6b4_af77]));
        let any = leading(&MultiMd5Params { key: LeadKey::Any, ..MultiMd5Params::default() });
        assert_eq!(
            keys(&any, &fields),
            Some(vec![0x295a_01b0_e298_fa74, 0x4af0_e666_46aa_f451, 0xb17a_9216_783b_5079])
        );
    }

    #[test]
    fn lead_fields_come_first_and_at_least_one_is_required() {
        let lead_fields = vec!["title".to_owned(), "contact".to_owned()];
        let scheme = leading(&MultiMd5Params { lead_fields, pre: 2, ..MultiMd5Params::default() });
        let text = (Role::Text, "小区夜市");
        assert_eq!(sign(&scheme, &[text]), None);
        let signature = sign(&scheme, &[(Role::Whole, "番茄"), text]);
        let Some(Signature::Digests(list)) = signature else { panic!("it has a title") };
        assert_eq!(list[..2], [Md5::of("番茄"), Md5::of("")]);
        assert_eq!(list.len(), 2 + 3, "the words follow but for the one that leads");
        let signature = sign(&scheme, &[(Role::Whole, "番茄"), (Role::Text, "。")]);
        assert_eq!(signature, None, "one word is less than pre");
    }

    /// Signs fields of which the last is not a lead field.
    fn sign(scheme: &MultiMd5, fields: &[(Role, &str)]) -> Option<Signature> {
        let mut document = document(fields);
        document.fields.last_mut().unwrap().position = 7;
        scheme.sign(&reading(&document, &PAIRS, &[1; 8]))
    }

    #[test]
    fn each_fingerprint_occurs_once_and_equal_short_lists_match() {
        let lead_fields = vec!["title".to_owned(), "contact".to_owned()];
        let scheme = leading(&MultiMd5Params { lead_fields, pre: 2, t: 1, share: 1.0, ..MultiMd5Params::default() });
        // The title is also a word of the text, and both lead fields are equal.
        let fields = [(Role::Whole, "夜市"), (Role::Whole, "夜市"), (Role::Text, "区夜市")];
        let document = document(&fields);
        let signature = scheme.sign(&reading(&document, &PAIRS, &[1; 4])).unwrap();
        assert_eq!(signature, Signature::Digests(["夜市", "区夜"].map(Md5::of).into()));
        assert!(scheme.compare(&signature, &signature));
        // Older versions stored repeated fingerprints.
        let repeated = Signature::Digests(["夜市", "夜市", "夜市", "区夜"].map(Md5::of).into());
        assert!(scheme.compare(&signature, &repeated) && scheme.compare(&repeated, &repeated));
    }

    #[test]
    fn synonyms_in_lead_fields_have_the_same_fingerprint() {
        let words = Words::new(&TextSettings {
            synonyms: vec![vec!["番茄".into(), "西红柿".into()]],
            ..TextSettings::default()
        });
        let scheme = leading(&MultiMd5Params { lead_fields: vec!["title".into()], ..MultiMd5Params::default() });
        let [first, second] = ["番茄价格", "西红柿价格"].map(|title| {
            let document = document(&[(Role::Whole, title), (Role::Text, "供应新鲜蔬菜,价格公道")]);
            scheme.sign(&reading(&document, &words, &[1; 2])).unwrap()
        });
        assert_eq!(first, second);
        let Signature::Digests(list) = second else { panic!("it has a title") };
        assert_eq!(list[0], Md5::of("番茄价格"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]
        #[test]
        fn it_finds_only_pairs_of_the_definition(
            texts in texts(), pre in 1..4_u32, t in 0..6_u32, share in prop::sample::select(vec![0.0, 0.5, 0.7, 1.0]),
            key in prop::sample::select(vec![LeadKey::All, LeadKey::Any]),
        ) {
            let scheme = leading(&MultiMd5Params { pre, t, share, key, lead_fields: Vec::new() });
            hold(&scheme, &texts, false, |a, b| {
                let a: BTreeSet<_> = heavy(a).into_iter().collect();
                let b: BTreeSet<_> = heavy(b).into_iter().collect();
                let shared = a.intersection(&b).count();
                let least = a.len().min(b.len());
                least >= pre as usize && shared > t as usize && at_least(shared, share, least)
            })?;
        }
    }
}
