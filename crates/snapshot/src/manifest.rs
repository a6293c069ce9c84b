//! What a snapshot consists of: written last, so that without it there is none.
//!
//! A JSON file of exactly this form, so that every byte of it is checked:
//!
//! ```text
//! {"sha256":"<64 digits, of what stands behind "snapshot":>",
//! "snapshot":{"format":1,"id":"20260301T021500.123Z", …}}
//! ```

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::chunk::ChunkId;
use crate::{Error, Result};
use doppel_store::snapshot::Moment;

/// Version of the manifest and of how a repository and a stream look.
pub(crate) const FORMAT: u32 = 1;

const BEFORE_HASH: &[u8] = b"{\"sha256\":\"";
const BEFORE_BODY: &[u8] = b"\",\n\"snapshot\":";
const END: &[u8] = b"}\n";

/// Names a snapshot by the time it is of, in UTC: `20260301T021500.123Z`. In a repository names ascend in the order of writing: one that
/// would not come after the latest, because it is of the same millisecond or a clock was wrong, is called as that one is, with `-2`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SnapshotId(String);

impl SnapshotId {
    /// Of a time as RFC 3339 in UTC.
    ///
    /// # Errors
    /// When it is none.
    pub fn at(time: &str) -> Result<Self, String> {
        time.replace(['-', ':'], "").parse()
    }

    /// The first name after this one.
    #[must_use]
    pub(crate) fn next(&self) -> Self {
        let (time, number) = self.parts();
        Self(format!("{time}-{}", number.saturating_add(1)))
    }

    /// The time, and which of those named by it: 1 for the first.
    fn parts(&self) -> (&str, u32) {
        let numbered = self.0.rsplit_once("Z-").and_then(|(time, number)| Some((time.len() + 1, number.parse().ok()?)));
        numbered.map_or((&self.0, 1), |(length, number)| (&self.0[..length], number))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Ord for SnapshotId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for SnapshotId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for SnapshotId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // It is the name of a file.
        let fine = |c: char| c.is_ascii_digit() || matches!(c, 'T' | 'Z' | '.' | '-');
        let begins = text.as_bytes().first().is_some_and(u8::is_ascii_digit);
        match begins && text.len() <= 40 && text.chars().all(fine) && text.contains('Z') {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("{text:?} names no snapshot; they are called like 20260301T021500.123Z")),
        }
    }
}

impl TryFrom<String> for SnapshotId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<SnapshotId> for String {
    fn from(id: SnapshotId) -> Self {
        id.0
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the format.
    pub format: u32,
    /// Its name.
    pub id: SnapshotId,
    /// The moment that it shows, RFC 3339 in UTC.
    pub taken_at: String,
    /// The program that wrote it, with its version.
    pub written_by: String,
    /// Of which store, and how far that had come.
    pub store: Moment,
    /// The spaces that have anything in them, in order.
    pub spaces: Vec<SpaceEntry>,
}

/// A space of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceEntry {
    /// Its name.
    pub name: String,
    /// Its chunks, in order.
    pub chunks: Vec<ChunkEntry>,
}

/// A chunk of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkEntry {
    /// Its name.
    pub sha256: ChunkId,
    /// Pairs in it.
    pub entries: u64,
    /// Bytes of its content.
    pub bytes: u64,
    /// Bytes of its file.
    pub stored: u64,
}

impl Manifest {
    /// All chunks, in order, with the names of their spaces.
    pub fn chunks(&self) -> impl Iterator<Item = (&str, &ChunkEntry)> {
        self.spaces.iter().flat_map(|space| space.chunks.iter().map(|chunk| (&*space.name, chunk)))
    }

    /// Bytes of all files it needs, itself apart.
    pub fn stored_bytes(&self) -> u64 {
        self.chunks().map(|(_, chunk)| chunk.stored).sum()
    }

    /// Bytes of everything that is in it.
    pub fn content_bytes(&self) -> u64 {
        self.chunks().map(|(_, chunk)| chunk.bytes).sum()
    }

    /// Live records of all collections.
    pub fn records(&self) -> u64 {
        self.store.collections.iter().map(|collection| collection.records).sum()
    }

    /// The file.
    ///
    /// # Errors
    /// None that is known of.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let body = serde_json::to_vec(self).map_err(|error| Error::Refused(error.to_string()))?;
        let hash = ChunkId::of(&body).to_string();
        Ok([BEFORE_HASH, hash.as_bytes(), BEFORE_BODY, &body, END].concat())
    }

    /// What a file says, of the name `what`.
    ///
    /// # Errors
    /// [`Error::Damaged`]; [`Error::Refused`] where a newer version wrote it.
    pub(crate) fn decode(bytes: &[u8], what: &str) -> Result<Self> {
        let damaged = |how: &str| Error::damaged(what, how);
        let rest = bytes.strip_prefix(BEFORE_HASH).ok_or_else(|| damaged("it does not begin as a snapshot does"))?;
        let (hash, rest) = rest.split_at_checked(64).ok_or_else(|| damaged("it is cut off"))?;
        let rest = rest.strip_prefix(BEFORE_BODY).ok_or_else(|| damaged("it does not begin as a snapshot does"))?;
        let body = rest.strip_suffix(END).ok_or_else(|| damaged("it is cut off"))?;
        if ChunkId::of(body).to_string().as_bytes() != hash {
            return Err(damaged("it does not have the checksum that it says"));
        }
        let unreadable = |error: serde_json::Error| damaged(&format!("it cannot be read ({error})"));
        let Version { format } = serde_json::from_slice(body).map_err(unreadable)?;
        if format > FORMAT {
            return Err(Error::Refused(format!(
                "{what} has format {format}, this program knows up to {FORMAT}; use the newer program version"
            )));
        }
        serde_json::from_slice(body).map_err(unreadable)
    }
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let chunk = ChunkEntry { sha256: ChunkId::of(b"x"), entries: 3, bytes: 100, stored: 60 };
        Manifest {
            format: FORMAT,
            id: SnapshotId::at("2026-03-01T02:15:00.123Z").expect("a time"),
            taken_at: "2026-03-01T02:15:00.123Z".into(),
            written_by: "doppel 0.1.0".into(),
            store: Moment { kind: "embedded".into(), format: 3, collections: Vec::new() },
            spaces: vec![SpaceEntry { name: "records".into(), chunks: vec![chunk, chunk] }],
        }
    }

    #[test]
    fn it_comes_back_and_every_changed_or_missing_byte_is_noticed() {
        let bytes = manifest().encode().expect("a file");
        assert_eq!(Manifest::decode(&bytes, "s").expect("a manifest"), manifest());
        assert!(serde_json::from_slice::<serde_json::Value>(&bytes).is_ok(), "it is JSON");
        for at in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..at], "s").is_err(), "cut at {at}");
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            let error = Manifest::decode(&flipped, "the file s").expect_err("a flipped bit").to_string();
            assert!(error.contains("the file s"), "{error}");
        }
        assert!(Manifest::decode(&[&bytes[..], b"x"].concat(), "s").is_err(), "something behind it");
    }

    #[test]
    fn one_of_a_newer_version_says_so() {
        let newer = Manifest { format: FORMAT + 1, ..manifest() }.encode().expect("a file");
        let error = Manifest::decode(&newer, "s").expect_err("it is newer").to_string();
        assert!(error.contains("newer program"), "{error}");
    }

    #[test]
    fn a_name_is_no_path() {
        assert_eq!(manifest().id.as_str(), "20260301T021500.123Z");
        for wrong in ["", "../x", "2026/Z", "..", "Z", "20260301", "2026 Z", ".2026Z"] {
            assert!(wrong.parse::<SnapshotId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_ascend_with_time_and_number() {
        let mut names = vec![manifest().id];
        (2..=12).for_each(|number| {
            let next = names[names.len() - 1].next();
            assert_eq!(next.as_str(), format!("20260301T021500.123Z-{number}"));
            assert_eq!(next.as_str().parse::<SnapshotId>().as_ref(), Ok(&next));
            names.push(next);
        });
        names.push(SnapshotId::at("2026-03-01T02:15:00.124Z").expect("a time"));
        assert!(names.is_sorted());
    }
}
