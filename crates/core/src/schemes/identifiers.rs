//! Common identifiers: records with the same contact (a telephone or identity number), licence plate, or number of an order or a document.
//!
//! This stage is no channel. It belongs to the collections that have the stage of common names, and its position is after that stage. A
//! forwarded call for help and a second call of one person often have nothing in common but the telephone number. Each key is the hash of one
//! identifier. Records that share a key are only candidates: verification decides, and without verification they are no matches.
//!
//! An identifier that more than about one record in 150 contains has no key, so that the telephone number of an office in its letters
//! proposes nothing. A record has at most [`MOST_KEYS`] keys. O(names + contacts).

use std::sync::Arc;

use super::frequencies::{Frequencies, name_code};
use super::hash::city64_bytes;
use super::reading::Reading;
use super::{Scheme, Signature, common, hashes};
use crate::verdict::ObjectKind;

/// The name of the stage in [`Match::via`](crate::verdict::Match::via).
pub const NAME: &str = crate::verdict::VIA_IDENTIFIERS;

/// Largest number of keys of a record: those with the smallest hashes, so that two records choose the same ones. A list of contacts has more.
const MOST_KEYS: usize = 8;
/// The smallest weight of an identifier with a key, see [`Frequencies::weight`].
const LEAST_WEIGHT: f32 = 0.5;

/// The scheme that proposes records with common identifiers, see the module.
#[derive(Clone, Debug)]
pub struct CommonIdentifiers {
    frequencies: Arc<Frequencies>,
}

impl CommonIdentifiers {
    /// Makes the stage with the document frequencies of the generation, if it has any.
    pub fn new(frequencies: Option<Arc<Frequencies>>) -> Self {
        Self { frequencies: frequencies.unwrap_or_else(Frequencies::built_in) }
    }
}

/// True for the kinds of objects that identify a matter alone.
fn is_identifier(kind: ObjectKind) -> bool {
    matches!(kind, ObjectKind::Plate | ObjectKind::Number)
}

impl Scheme for CommonIdentifiers {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        let objects = reading.names().iter().filter(|object| is_identifier(object.kind));
        let codes = reading.document().contacts.iter().copied().chain(objects.map(|object| name_code(&object.name)));
        let rare = codes.filter(|code| self.frequencies.weight(*code) >= LEAST_WEIGHT);
        let mut keys: Vec<u64> = rare.map(|code| city64_bytes(&code.to_le_bytes())).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.truncate(MOST_KEYS);
        hashes(keys)
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
}

#[cfg(test)]
mod tests {
    use super::super::frequencies::{Counter, Kinds, SAMPLED_SHINGLE};
    use super::super::tests::{document, reading};
    use super::*;
    use crate::collection::{Role, TextSettings};
    use crate::text::Document;
    use crate::text::words::Words;

    /// Returns the keys of a text from which these contacts were removed.
    fn keys(text: &str, contacts: &[u64], frequencies: Option<Arc<Frequencies>>) -> Vec<u64> {
        let document = Document { contacts: contacts.to_vec(), ..document(&[(Role::Text, text)]) };
        let words = Words::new(&TextSettings::default());
        let scheme = CommonIdentifiers::new(frequencies);
        let mut keys = Vec::new();
        if let Some(signature) = scheme.sign(&reading(&document, &words, &[1])) {
            scheme.keys(&signature, &mut keys);
        }
        keys
    }

    #[test]
    fn each_contact_plate_and_number_is_a_key() {
        let first = keys("楼下停水已经三天", &[5, 9], None);
        assert_eq!(first.len(), 2);
        assert_eq!(keys("请尽快送水", &[9, 6], None).iter().filter(|key| first.contains(key)).count(), 1);
        let plate = keys("川A8K123占道停放", &[], None);
        assert_eq!(plate.len(), 1);
        assert_eq!(keys("川A8K123又停在消防通道上", &[], None), plate);
        assert_ne!(keys("川A8K124又停在消防通道上", &[], None), plate);
        assert!(keys("雁坪路的路灯不亮", &[], None).is_empty(), "a road identifies no matter alone");
    }

    #[test]
    fn a_list_of_contacts_has_a_bounded_number_of_keys() {
        let many: Vec<u64> = (0..20).collect();
        assert_eq!(keys("名单", &many, None).len(), MOST_KEYS);
    }

    #[test]
    fn a_contact_that_many_records_contain_has_no_key() {
        let mut counter = Counter::new(Kinds::of([SAMPLED_SHINGLE], true));
        for number in 0..1_000 {
            counter.observe(if number % 50 == 0 { vec![7, 10_000 + number] } else { vec![10_000 + number] });
        }
        let counted = Frequencies::decode(1, &counter.encode(1_000)).map(Arc::new);
        assert!(counted.is_some());
        assert_eq!(keys("请尽快送水", &[7, 8], counted).len(), 1);
    }
}
