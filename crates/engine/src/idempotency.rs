//! Repetition of a registration that has no id.
//!
//! A client that gets no answer sends its request again. This is harmless if the row has an id; otherwise the second request stores another
//! record, a duplicate of the first. An idempotency key prevents this: the id is derived from the key, and may be used for one content only
//! ([`Registration::write_once`](doppel_store::Registration::write_once)). Therefore the key lives as long as the record, in any store and
//! on any instance, and needs no storage.

use sha2::{Digest, Sha256};
use uuid::Builder;

use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;

/// The id under which a row is to be registered.
#[derive(Clone, Debug)]
pub enum RegistrationId {
    Id(RecordId),
    /// The row's own id, or a new id.
    Own,
    /// The row's own id, or the id that is derived from this key.
    Key(IdempotencyKey),
    /// This id, if no other content is stored under it.
    Unused(RecordId),
}

impl From<Option<RecordId>> for RegistrationId {
    fn from(id: Option<RecordId>) -> Self {
        id.map_or(Self::Own, Self::Id)
    }
}

/// The name of a registration in its collection.
#[derive(Clone, Debug)]
pub struct IdempotencyKey(Vec<u8>);

impl IdempotencyKey {
    /// Creates the key that `caller` gave. Keys of different callers differ.
    pub fn new(caller: &str, key: &str) -> Self {
        // The length separates the parts.
        let length = (caller.len() as u64).to_be_bytes();
        Self([&length, caller.as_bytes(), key.as_bytes(), &[0]].concat())
    }

    /// Returns the key of one line of a body.
    #[must_use]
    pub fn of_line(&self, number: u64) -> Self {
        Self([&self.0[..], &number.to_be_bytes(), &[1]].concat())
    }

    /// Returns the id that is derived from the key: a UUIDv8 of its SHA-256.
    pub(super) fn id(&self, collection: &CollectionName) -> Option<RecordId> {
        let mut hash = Sha256::new();
        hash.update(collection.as_str());
        hash.update([0]);
        hash.update(&self.0);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        RecordId::new(&Builder::from_custom_bytes(bytes).into_uuid().to_string()).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn collections_callers_keys_and_lines_have_different_ids() {
        let mut ids = BTreeSet::new();
        for collection in ["letters", "letter"] {
            let collection = CollectionName::new(collection).unwrap();
            for (caller, key) in [("", "ab"), ("a", "b"), ("ab", ""), ("", "a"), ("", "a\0")] {
                let key = IdempotencyKey::new(caller, key);
                assert_eq!(key.id(&collection), key.clone().id(&collection));
                for key in [key.clone(), key.of_line(1), key.of_line(2)] {
                    let id = key.id(&collection).unwrap();
                    assert_eq!(id.as_str().parse::<uuid::Uuid>().unwrap().get_version_num(), 8);
                    ids.insert(id.as_str().to_owned());
                }
            }
        }
        assert_eq!(ids.len(), 2 * 5 * 3);
    }
}
