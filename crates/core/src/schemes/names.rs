//! Common names: records that name the same two objects, for example a bus line and a stop, or a road and a shop, or that name one object
//! and contain the same contact.
//!
//! This stage is not a channel. It belongs to every collection that removes noise and keeps texts; its position is after the copy stage.
//! Short records about one matter often have no run of words in common, but they name the same objects. Each key is a hash of two names of
//! the record, without their endings, because people leave endings out, or of a name and a contact. Records that share a key are only
//! candidates: verification decides, and without verification they are no matches.
//!
//! A record has at most [`MOST_KEYS`] keys: the pairs of the rarest names by the document frequencies of the generation, and of equally
//! rare pairs the pairs with the smallest hashes, so that two records choose the same pairs. Pairs of common names are left out. O(names²),
//! at most [`MOST_NAMES`]² pairs.

use std::sync::Arc;

use super::frequencies::{Frequencies, name_code};
use super::hash::{city64, city64_bytes};
use super::reading::Reading;
use super::{Scheme, Signature, common, hashes};
use crate::collection::Settings;
use crate::text::objects::NamedObject;
use crate::verdict::ObjectKind;

/// The name of the stage in [`Match::via`](crate::verdict::Match::via).
pub const NAME: &str = crate::verdict::VIA_NAMES;

/// Largest number of names whose pairs are considered: the rarest names. A list of the stops of a bus line has more.
const MOST_NAMES: usize = 12;
/// Largest number of contacts that are combined with names: the rarest contacts. An announcement may list the numbers of all offices.
const MOST_CONTACTS: usize = 2;
/// Largest number of keys of a record.
const MOST_KEYS: usize = 16;
/// The smallest mean weight of two names of each class, the rarest class first. Pairs of more common names have no key.
const CLASSES: [f32; 2] = [0.5, 0.2];

/// The scheme that proposes records with common names, see the module.
#[derive(Clone, Debug)]
pub struct CommonNames {
    frequencies: Arc<Frequencies>,
}

impl CommonNames {
    /// Makes the stage with the document frequencies of the generation, if it has any.
    pub fn new(frequencies: Option<Arc<Frequencies>>) -> Self {
        Self { frequencies: frequencies.unwrap_or_else(Frequencies::built_in) }
    }

    /// Returns the distinct names that may be part of a key, the rarest first.
    fn rarest_names(&self, objects: &[NamedObject]) -> Vec<RankedName> {
        let specific = objects.iter().filter(|object| is_specific(object.kind));
        let mut names: Vec<RankedName> = specific
            .map(|object| RankedName {
                weight: self.frequencies.weight(name_code(&object.name)),
                hash: city64(object.core()),
            })
            .collect();
        // If names differ only in their endings, only the rarest one counts.
        names.sort_unstable_by(|a, b| a.hash.cmp(&b.hash).then(b.weight.total_cmp(&a.weight)));
        names.dedup_by_key(|name| name.hash);
        names.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        names.truncate(MOST_NAMES);
        names
    }

    /// Returns the rarest contacts of a text.
    fn rarest_contacts(&self, codes: &[u64]) -> Vec<RankedName> {
        let mut contacts: Vec<RankedName> =
            codes.iter().map(|code| RankedName { weight: self.frequencies.weight(*code), hash: *code }).collect();
        contacts.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.hash.cmp(&b.hash)));
        contacts.dedup_by_key(|contact| contact.hash);
        contacts.truncate(MOST_CONTACTS);
        contacts
    }
}

/// A name or a contact with its rarity.
#[derive(Clone, Copy, Debug)]
struct RankedName {
    /// The weight of the name, 0 to 1, which is 1 for a rare name.
    weight: f32,
    /// The hash of the name without its ending, or the code of the contact.
    hash: u64,
}

/// The key of two names, or of a name and a contact. Keys are ordered by class, then by hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RankedKey {
    /// The class of rarity, 0 for rare names. It is not part of the key, because the weight of a name depends on its ending.
    class: usize,
    key: u64,
}

impl RankedKey {
    /// Returns the key of two names; `None` if both are common.
    fn of(one: RankedName, other: RankedName) -> Option<Self> {
        let mean = (one.weight + other.weight) / 2.0;
        let class = CLASSES.iter().position(|least| mean >= *least)?;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&one.hash.min(other.hash).to_le_bytes());
        bytes[8..].copy_from_slice(&one.hash.max(other.hash).to_le_bytes());
        Some(Self { class, key: city64_bytes(&bytes) })
    }
}

/// True for the kinds of objects that identify a matter together with a second object. Districts are too large. Parts of an address and
/// sums have meaning only beside a name.
fn is_specific(kind: ObjectKind) -> bool {
    match kind {
        ObjectKind::Road
        | ObjectKind::Place
        | ObjectKind::Water
        | ObjectKind::Organisation
        | ObjectKind::Plate
        | ObjectKind::Number
        | ObjectKind::Line => true,
        ObjectKind::District
        | ObjectKind::Amount
        | ObjectKind::HouseNumber
        | ObjectKind::Building
        | ObjectKind::Unit
        | ObjectKind::Room
        | ObjectKind::Phase
        | ObjectKind::VillageGroup => false,
    }
}

/// True if records of a collection with these settings have keys of names. It does not depend on verification, so that verification can be
/// changed without a reindex.
pub fn applies(settings: &Settings) -> bool {
    settings.text.remove_noise && settings.keeps_text()
}

impl Scheme for CommonNames {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        let names = self.rarest_names(reading.names());
        let mut keys: Vec<RankedKey> = Vec::new();
        for (at, name) in names.iter().enumerate() {
            keys.extend(names[at + 1..].iter().filter_map(|other| RankedKey::of(*name, *other)));
        }
        for contact in self.rarest_contacts(&reading.document().contacts) {
            keys.extend(names.iter().filter_map(|name| RankedKey::of(contact, *name)));
        }
        keys.sort_unstable();
        keys.truncate(MOST_KEYS);
        hashes(keys.into_iter().map(|ranked| ranked.key).collect())
    }

    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>) {
        if let Signature::Hashes(hashes) = signature {
            keys.extend_from_slice(hashes);
        }
    }

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        let (Signature::Hashes(a), Signature::Hashes(b)) = (a, b) else { return false };
        common(a, b) > 0
    }

    fn key_implies_match(&self) -> bool {
        true
    }

    fn prefers_rare_text(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{document, reading};
    use super::*;
    use crate::collection::{Role, TextSettings};
    use crate::text::Document;
    use crate::text::words::Words;

    /// Returns the keys of a text.
    fn keys(text: &str) -> Vec<u64> {
        keys_with(text, &[])
    }

    /// Returns the keys of a text from which contacts with these codes were removed.
    fn keys_with(text: &str, contacts: &[u64]) -> Vec<u64> {
        let document = Document { contacts: contacts.to_vec(), ..document(&[(Role::Text, text)]) };
        let words = Words::new(&TextSettings::default());
        let scheme = CommonNames::new(None);
        let mut keys = Vec::new();
        if let Some(signature) = scheme.sign(&reading(&document, &words, &[1])) {
            scheme.keys(&signature, &mut keys);
        }
        keys
    }

    fn share(a: &str, b: &str) -> bool {
        has_common_key(&keys(a), &keys(b))
    }

    fn has_common_key(a: &[u64], b: &[u64]) -> bool {
        a.iter().any(|key| b.contains(key))
    }

    #[test]
    fn texts_in_other_words_share_a_key_if_they_name_the_same_two_objects() {
        assert!(share("建议812路在雁坪路设站", "雁坪路没有站点,812路能不能停一下"));
        assert!(!share("建议812路在雁坪路设站", "建议812路早一点发车"), "only one common name");
        assert!(!share("建议812路在雁坪路设站", "建议812路在槐树岭路设站"));
        assert!(keys("路灯不亮已经很多天了").is_empty());
    }

    #[test]
    fn names_that_differ_in_their_endings_are_one_name() {
        assert!(share("雁坪路与槐树岭小区之间没有路灯", "雁坪大道和槐树岭村的路灯不亮"));
        assert!(keys("雁坪路到雁坪小区没有路灯").is_empty(), "one name");
    }

    #[test]
    fn texts_with_one_contact_share_a_key_if_they_name_the_same_object() {
        let first = keys_with("槐树岭路没有路灯", &[1, 2]);
        assert!(has_common_key(&first, &keys_with("槐树岭路的灯修了吗", &[2])));
        assert!(!has_common_key(&first, &keys_with("槐树岭路的灯修了吗", &[3])), "another contact");
        assert!(!has_common_key(&first, &keys_with("梧桐湾小区停水", &[2])), "another object");
        assert!(keys_with("噪声很大", &[1, 2]).is_empty(), "no object");
        assert_eq!(keys_with("槐树岭路没有路灯", &[1, 2, 3, 4]).len(), MOST_CONTACTS);
    }

    #[test]
    fn a_long_list_of_names_has_a_bounded_number_of_keys() {
        let roads: Vec<String> = "甲乙丙丁戊己庚辛壬癸子丑寅卯".chars().map(|name| format!("{name}坪路")).collect();
        assert_eq!(keys(&format!("建议812路停{}", roads.join("、"))).len(), MOST_KEYS);
    }
}
