//! Equal addresses: records with the same address in the same `url` field are exact duplicates, even if all other fields differ.
//!
//! This scheme is not a channel but part of the exact stage. It belongs to every collection with a field of role `url`, and its position is
//! after the channels. The signature is H of each address with the position of its field. Addresses are normalised (see
//! [`Addresses`](crate::text::url::Addresses)) and host aliases are replaced. Every hash is a key, and records with a common hash match, so
//! that the keys are complete. The scheme also signs records with too few features.

use super::hash::city64_bytes;
use super::reading::Reading;
use super::{Scheme, Signature, common, hashes};
use crate::collection::Role;

/// The name of the stage in [`Match::via`](crate::verdict::Match::via).
pub const NAME: &str = crate::verdict::VIA_URL;

/// The scheme that matches records with equal addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct EqualUrl;

impl Scheme for EqualUrl {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        let fields = reading.document().fields.iter().filter(|field| field.role == Role::Url);
        hashes(fields.map(|field| city64_bytes(&[&[field.position], field.text.as_bytes()].concat())).collect())
    }

    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>) {
        if let Signature::Hashes(addresses) = signature {
            keys.extend_from_slice(addresses);
        }
    }

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        matches!((a, b), (Signature::Hashes(a), Signature::Hashes(b)) if common(a, b) > 0)
    }

    fn key_implies_match(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::brute_force::PAIRS;
    use super::super::tests::{document, reading};
    use super::*;

    #[test]
    fn only_the_same_address_in_the_same_field_matches() {
        let first = sign(&[(Role::Url, "http://a.cn/1"), (Role::Text, "夜市")]).unwrap();
        let same = sign(&[(Role::Url, "http://a.cn/1"), (Role::Url, "http://a.cn/2")]).unwrap();
        let elsewhere = sign(&[(Role::Text, "夜市"), (Role::Url, "http://a.cn/1")]).unwrap();
        assert!(EqualUrl.compare(&first, &same) && !EqualUrl.compare(&first, &elsewhere));
        assert_eq!(sign(&[(Role::Text, "http://a.cn/1")]), None);
    }

    fn sign(fields: &[(Role, &str)]) -> Option<Signature> {
        let document = document(fields);
        EqualUrl.sign(&reading(&document, &PAIRS, &[1, 1]))
    }
}
