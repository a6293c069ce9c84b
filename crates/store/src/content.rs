//! The stored content of a record: the original row, or only keyed hashes.
//!
//! A store that receives [`RecordContent::Hashes`] never receives the row. A collection that keeps no text therefore has no text in its records,
//! its journal or its change feed.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use doppel_core::collection::Keep;
use doppel_core::record::{self, Row};
use doppel_core::text::Document;

/// The stored content of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordContent {
    /// The original row, a JSON object.
    Row(Arc<str>),
    /// Hashes instead of text; see [`Keep::Signatures`].
    Hashes(Box<ContentHashes>),
}

/// The stored content of a row whose text is not kept. It contains the time of the record, and hashes that show whether another row has the
/// same content or the same petitioner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentHashes {
    /// The hash of the whole row in its canonical form.
    pub row: KeyedHash,
    /// The hash of each identity value, in the order of the fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identity: Vec<KeyedHash>,
    /// The time of the record (RFC 3339, UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

impl RecordContent {
    /// Returns the row, if it is kept.
    pub fn row(&self) -> Option<&Arc<str>> {
        match self {
            Self::Row(row) => Some(row),
            Self::Hashes(_) => None,
        }
    }

    /// Returns the hashes, if the row is not kept.
    pub fn hashes(&self) -> Option<&ContentHashes> {
        match self {
            Self::Row(_) => None,
            Self::Hashes(hashes) => Some(hashes),
        }
    }

    /// Parses the row; `None` if it is not kept or cannot be parsed.
    pub fn read(&self) -> Option<Row> {
        Row::parse(self.row()?.as_bytes()).ok()
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Row(row) => row.len(),
            Self::Hashes(hashes) => size_of_val(&**hashes) + hashes.identity.len() * size_of::<KeyedHash>(),
        }
    }

    /// True if a collection with this setting may contain the content.
    pub fn is_kept_by(&self, keep: Keep) -> bool {
        match self {
            Self::Row(_) => keep == Keep::All,
            Self::Hashes(_) => keep == Keep::Signatures,
        }
    }

    /// True if both contents are equal, without regard to the order of keys and to white space in the rows.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Row(one), Self::Row(other)) => record::same_content(one, other),
            (Self::Hashes(one), Self::Hashes(other)) => one.row == other.row,
            _ => false,
        }
    }
}

impl From<&Row> for RecordContent {
    fn from(row: &Row) -> Self {
        Self::Row(Arc::clone(row.json()))
    }
}

impl ContentHashes {
    /// True if one of the identity values has this hash.
    pub fn is_by(&self, identity: &KeyedHash) -> bool {
        self.identity.contains(identity)
    }
}

/// A hash with the key of a collection. Without the key, a person cannot find the short hashed values by trying all possible values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct KeyedHash(pub [u8; 32]);

/// The key of a collection's hashes. It is drawn when the collection is created, and stored with it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HashKey(KeyedHash);

impl HashKey {
    /// Makes a key of random bytes.
    pub fn new(random: [u8; 32]) -> Self {
        Self(KeyedHash(random))
    }

    /// Returns the bytes of the key, to store them.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0.0
    }

    /// Computes the hashes of a row that was read as `document`. O(bytes).
    pub fn hashes(&self, row: &Row, document: &Document) -> ContentHashes {
        ContentHashes {
            row: self.hash(0, &row.canonical()),
            identity: document.identity_values().map(|value| self.identity(value)).collect(),
            time: document.time.map(|time| time.to_string()),
        }
    }

    /// Computes the hash of a normalised identity value.
    pub fn identity(&self, value: &str) -> KeyedHash {
        self.hash(1, value)
    }

    /// A plain SHA-256 with the key in front is sufficient: the key has a fixed length and hashes are never shown, so that an attack by
    /// length extension is not possible.
    fn hash(&self, kind: u8, text: &str) -> KeyedHash {
        KeyedHash(Sha256::new().chain_update(self.bytes()).chain_update([kind]).chain_update(text).finalize().into())
    }
}

/// Does not show the key.
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
        let bytes = digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        let bytes: Option<Vec<u8>> = bytes.collect();
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
    fn a_keyed_hash_is_parsed_only_from_its_digits() {
        let hash = HashKey::new([7; 32]).identity("李");
        assert_eq!(KeyedHash::try_from(String::from(hash)), Ok(hash));
        for wrong in ["", "0", "+1", &"0".repeat(63), &"g".repeat(64), &"+1".repeat(32), &"0".repeat(66)] {
            assert!(KeyedHash::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
        assert_eq!(format!("{:?}", HashKey::new([7; 32])), "HashKey");
    }

    #[test]
    fn equal_rows_and_petitioners_have_equal_hashes_only_with_the_same_key() {
        let key = HashKey::new([1; 32]);
        let another = HashKey::new([2; 32]);
        let one = key.hashes(&row(r#"{"id":1,"a":"\u8def","b":2}"#), &document("李\u{1f}12"));
        let same = key.hashes(&row(r#"{"b":2, "a":"路"}"#), &document("李\u{1f}12"));
        assert_eq!(one, same);
        assert!(one.is_by(&key.identity("12")) && one.is_by(&key.identity("李")) && !one.is_by(&key.identity("1")));
        assert!(content(&one).is_same(&content(&same)));
        let other = key.hashes(&row(r#"{"a":"路","b":2.0}"#), &document("李"));
        assert!(!content(&one).is_same(&content(&other)));
        assert!(!content(&one).is_same(&RecordContent::from(&row(r#"{"a":"路","b":2}"#))));
        let elsewhere = another.hashes(&row(r#"{"a":"路","b":2}"#), &document("李\u{1f}12"));
        assert!(elsewhere.row != one.row && elsewhere.identity != one.identity);
    }

    fn document(identity: &str) -> Document {
        Document { identity: Some(identity.to_owned()), ..Document::default() }
    }

    fn content(hashes: &ContentHashes) -> RecordContent {
        RecordContent::Hashes(Box::new(hashes.clone()))
    }
}
