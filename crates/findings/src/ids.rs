//! Finds rows of a file with the same id.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

use doppel_core::record::RecordId;

/// Number of bytes of the hash of an id. With this number, two different ids practically never have the same hash.
const HASH_BYTES: usize = 16;

/// The ids of the rows of a file, each with the number of the first row that has it. It takes about 30 bytes for each id.
#[derive(Default)]
pub struct RowIds(HashMap<[u8; HASH_BYTES], u64>);

impl RowIds {
    /// Records the id of the row with this number. Returns the number of the first row with this id, which may be the row itself.
    pub fn first(&mut self, id: &RecordId, number: u64) -> u64 {
        *self.0.entry(short_hash(id)).or_insert(number)
    }

    /// Returns the number of the first row with this id, if such a row exists.
    pub fn get(&self, id: &RecordId) -> Option<u64> {
        self.0.get(&short_hash(id)).copied()
    }
}

fn short_hash(id: &RecordId) -> [u8; HASH_BYTES] {
    let hash: [u8; 32] = Sha256::digest(id.as_str()).into();
    let mut short = [0; HASH_BYTES];
    short.copy_from_slice(&hash[..HASH_BYTES]);
    short
}
