//! What is kept of a record's content: the row as it came, or nothing but keyed hashes.
//!
//! A store that is given [`Content::Hashes`] is never given the row. So where a collection keeps no text, none is in its records, its
//! journal or its change feed: there is nothing to leave out.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use doppel_core::collection::Keep;
use doppel_core::record::{self, Row};
use doppel_core::text::Document;

/// The content of a record, as far as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The row as it was received: a JSON object.
    Row(Arc<str>),
    /// No text; see [`Keep::Signatures`].
    Hashes(Box<ContentHashes>),
}

/// What stays of a row of which no text is kept: what tells whether another one says the same, comes from the same petitioner, and
/// when it was submitted. Equality only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentHashes {
    /// Of the whole row, in its canonical form.
    pub row: KeyedHash,
    /// Of each of the petitioner's values, in the order of their fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identity: Vec<KeyedHash>,
    /// When the matter was submitted (RFC 3339, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

impl Content {
    /// The row, if it is kept.
    pub fn row(&self) -> Option<&Arc<str>> {
        match self {
            Self::Row(row) => Some(row),
            Self::Hashes(_) => None,
        }
    }

    /// What stays where the row is not kept.
    pub fn hashes(&self) -> Option<&ContentHashes> {
        match self {
            Self::Row(_) => None,
            Self::Hashes(hashes) => Some(hashes),
        }
    }

    /// Reads the row; `None` where it is not kept, or cannot be read.
    pub fn read(&self) -> Option<Row> {
        Row::parse(self.row()?.as_bytes()).ok()
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Row(row) => row.len(),
            Self::Hashes(hashes) => size_of_val(&**hashes) + hashes.identity.len() * size_of::<KeyedHash>(),
        }
    }

    /// Whether a collection that keeps so much may hold it.
    pub fn is_kept_by(&self, keep: Keep) -> bool {
        match self {
            Self::Row(_) => keep == Keep::All,
            Self::Hashes(_) => keep == Keep::Signatures,
        }
    }

    /// Whether both say the same, whatever the order of keys and white space in their rows.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Row(one), Self::Row(other)) => record::same_content(one, other),
            (Self::Hashes(one), Self::Hashes(other)) => one.row == other.row,
            _ => false,
        }
    }
}

impl From<&Row> for Content {
    fn from(row: &Row) -> Self {
        Self::Row(Arc::clone(row.json()))
    }
}

impl ContentHashes {
    /// Whether one of the petitioner's values has this hash.
    pub fn is_by(&self, identity: &KeyedHash) -> bool {
        self.identity.contains(identity)
    }
}

/// A hash that says nothing to whoever has not got the collection's key: what it is of is short enough to be guessed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct KeyedHash(pub [u8; 32]);

/// What a collection's hashes are keyed by; drawn when it is made, and kept with it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HashKey(KeyedHash);

impl HashKey {
    /// A key of random bytes.
    pub fn new(random: [u8; 32]) -> Self {
        Self(KeyedHash(random))
    }

    /// Its bytes, to be stored.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0.0
    }

    /// What stays of a row that was read as `document`. O(bytes).
    pub fn hashes(&self, row: &Row, document: &Document) -> ContentHashes {
        ContentHashes {
            row: self.hash(0, &row.canonical()),
            identity: document.identity_values().map(|value| self.identity(value)).collect(),
            time: document.time.map(|time| time.to_string()),
        }
    }

    /// The hash of one of a petitioner's values, normalised.
    pub fn identity(&self, value: &str) -> KeyedHash {
        self.hash(1, value)
    }

    /// The key is of a fixed length and no hash is told to anybody, so that there is nothing to be gained by appending to a text.
    fn hash(&self, kind: u8, text: &str) -> KeyedHash {
        KeyedHash(Sha256::new().chain_update(self.bytes()).chain_update([kind]).chain_update(text).finalize().into())
    }
}

/// Shows nothing of it.
impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey")
    }
}

impl fmt::Debug for KeyedHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from(*self))
    }
}

impl From<KeyedHash> for String {
    fn from(hash: KeyedHash) -> Self {
        hash.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl TryFrom<String> for KeyedHash {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let digits = text.as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
        let hash = bytes.and_then(|bytes| bytes.try_into().ok()).map(Self);
        hash.filter(|_| digits.len() == 64 && digits.iter().all(u8::is_ascii_hexdigit))
            .ok_or("a keyed hash is 64 hexadecimal digits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(json: &str) -> Row {
        Row::parse(json.as_bytes()).unwrap()
    }

    #[test]
    fn a_keyed_hash_comes_back_from_its_digits_and_from_nothing_else() {
        let hash = HashKey::new([7; 32]).identity("李");
        assert_eq!(KeyedHash::try_from(String::from(hash)), Ok(hash));
        for wrong in ["", "0", "+1", &"0".repeat(63), &"g".repeat(64), &"+1".repeat(32), &"0".repeat(66)] {
            assert!(KeyedHash::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
        assert_eq!(format!("{:?}", HashKey::new([7; 32])), "HashKey");
    }

    #[test]
    fn hashes_tell_equal_rows_and_petitioners_and_another_key_tells_nothing() {
        let document = |identity: &str| Document { identity: Some(identity.to_owned()), ..Document::default() };
        let (key, another) = (HashKey::new([1; 32]), HashKey::new([2; 32]));
        let one = key.hashes(&row(r#"{"id":1,"a":"\u8def","b":2}"#), &document("李\u{1f}12"));
        let same = key.hashes(&row(r#"{"b":2, "a":"路"}"#), &document("李\u{1f}12"));
        assert_eq!(one, same);
        assert!(one.is_by(&key.identity("12")) && one.is_by(&key.identity("李")) && !one.is_by(&key.identity("1")));
        let content = |hashes: &ContentHashes| Content::Hashes(Box::new(hashes.clone()));
        assert!(content(&one).is_same(&content(&same)));
        let other = key.hashes(&row(r#"{"a":"路","b":2.0}"#), &document("李"));
        assert!(!content(&one).is_same(&content(&other)));
        assert!(!content(&one).is_same(&Content::from(&row(r#"{"a":"路","b":2}"#))));
        let elsewhere = another.hashes(&row(r#"{"a":"路","b":2}"#), &document("李\u{1f}12"));
        assert!(elsewhere.row != one.row && elsewhere.identity != one.identity);
    }
}
