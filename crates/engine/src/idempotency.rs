//! Repeating a registration that has no id of its own.
//!
//! Who is not told whether a request was done sends it again. With an id that is harmless; without one the second is a record of
//! its own, the duplicate of the first. An idempotency key settles it: the id is made of the key, for one content alone
//! ([`Registration::write_once`](doppel_store::Registration::write_once)). So the key is kept as long as the record, by whatever store, on
//! whatever instance, and costs nothing.

use sha2::{Digest, Sha256};
use uuid::Builder;

use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;

/// Under which id a row is registered.
#[derive(Clone, Debug)]
pub enum Under {
    /// This one.
    Id(RecordId),
    /// The row's own, or a new one.
    Own,
    /// The row's own, or the one made of this key.
    Key(IdempotencyKey),
    /// This one, if no other content is stored under it.
    Unused(RecordId),
}

impl From<Option<RecordId>> for Under {
    fn from(id: Option<RecordId>) -> Self {
        id.map_or(Self::Own, Self::Id)
    }
}

/// What names a registration among those of its collection.
#[derive(Clone, Debug)]
pub struct IdempotencyKey(Vec<u8>);

impl IdempotencyKey {
    /// The key that `caller` gave; keys of different callers are different.
    pub fn new(caller: &str, key: &str) -> Self {
        // Lengths keep the parts apart.
        let length = (caller.len() as u64).to_be_bytes();
        Self([&length, caller.as_bytes(), key.as_bytes(), &[0]].concat())
    }

    /// The key of one line of a body.
    #[must_use]
    pub fn of_line(&self, number: u64) -> Self {
        Self([&self.0[..], &number.to_be_bytes(), &[1]].concat())
    }

    /// The id made of it: a UUIDv8 of its SHA-256.
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
    fn collections_callers_keys_and_lines_have_ids_of_their_own() {
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
