//! The manifest of a snapshot lists its chunks. It is written last, so that an unfinished snapshot has no manifest.
//!
//! A manifest is a JSON file of exactly this form; a change of any byte is found:
//!
//! ```text
//! {"sha256":"<64 digits, the hash of the value of "snapshot">",
//! "snapshot":{"format":1,"id":"20260301T021500.123Z", …}}
//! ```

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::chunk::ChunkId;
use crate::{Error, Result};
use doppel_store::snapshot::SnapshotMoment;

/// Version of the manifest, and of the layout of a repository and of a stream.
pub(crate) const FORMAT: u32 = 1;

const BEFORE_HASH: &[u8] = b"{\"sha256\":\"";
const BEFORE_BODY: &[u8] = b"\",\n\"snapshot\":";
const END: &[u8] = b"}\n";

/// The name of a snapshot: the time at which it was taken, in UTC, for example `20260301T021500.123Z`. In a repository the names ascend in
/// the order of writing. If the time is not later than the latest name (the same millisecond, or a wrong clock), the snapshot gets the
/// latest name with the next number: `20260301T021500.123Z-2`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SnapshotId(String);

impl SnapshotId {
    /// Makes the name of a snapshot that was taken at `time`, RFC 3339 in UTC.
    ///
    /// # Errors
    /// `time` is not such a time.
    pub fn at(time: &str) -> Result<Self, String> {
        time.replace(['-', ':'], "").parse()
    }

    /// Returns the name that follows this name: the same time with the next number.
    #[must_use]
    pub(crate) fn next(&self) -> Self {
        let (time, number) = self.parts();
        Self(format!("{time}-{}", number.saturating_add(1)))
    }

    /// Returns the time and the number among the names with this time, from 1.
    fn parts(&self) -> (&str, u32) {
        let numbered = self.0.rsplit_once("Z-").and_then(|(time, number)| Some((time.len() + 1, number.parse().ok()?)));
        numbered.map_or((&self.0, 1), |(length, number)| (&self.0[..length], number))
    }

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
        if is_valid_name(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("{text:?} is not the name of a snapshot; a name looks like 20260301T021500.123Z"))
        }
    }
}

/// True for a text that is safe as a file name, because it cannot lead to another folder.
fn is_valid_name(text: &str) -> bool {
    text.as_bytes().first().is_some_and(u8::is_ascii_digit)
        && text.len() <= 40
        && text.chars().all(|c| c.is_ascii_digit() || matches!(c, 'T' | 'Z' | '.' | '-'))
        && text.contains('Z')
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

/// The description of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    pub id: SnapshotId,
    /// The time at which the store was read, RFC 3339 in UTC.
    pub taken_at: String,
    /// Name and version of the program that wrote the snapshot.
    pub written_by: String,
    /// The store that was read, and its state at that moment.
    pub store: SnapshotMoment,
    /// The spaces that contain at least one pair, in order.
    pub spaces: Vec<SpaceEntry>,
}

/// A space of a snapshot: a part of the store with separate keys, such as the records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceEntry {
    pub name: String,
    /// The chunks, in the order of their keys.
    pub chunks: Vec<ChunkEntry>,
}

/// A chunk of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkEntry {
    pub sha256: ChunkId,
    /// Number of pairs in the chunk.
    pub entries: u64,
    /// Length of the content in bytes, before compression.
    pub bytes: u64,
    /// Length of the file in bytes.
    pub stored: u64,
}

impl Manifest {
    /// Returns all chunks in order, each with the name of its space.
    pub fn chunks(&self) -> impl Iterator<Item = (&str, &ChunkEntry)> {
        self.spaces.iter().flat_map(|space| space.chunks.iter().map(|chunk| (&*space.name, chunk)))
    }

    /// Size in bytes of all chunk files of the snapshot.
    pub fn stored_bytes(&self) -> u64 {
        self.chunks().map(|(_, chunk)| chunk.stored).sum()
    }

    /// Size in bytes of the content of all chunks, before compression.
    pub fn content_bytes(&self) -> u64 {
        self.chunks().map(|(_, chunk)| chunk.bytes).sum()
    }

    /// Number of live records in all collections.
    pub fn records(&self) -> u64 {
        self.store.collections.iter().map(|collection| collection.records).sum()
    }

    /// Returns the bytes of the file.
    ///
    /// # Errors
    /// The manifest cannot be written as JSON; no case is known.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let body = serde_json::to_vec(self).map_err(|error| Error::Refused(error.to_string()))?;
        let hash = ChunkId::of_bytes(&body).to_string();
        Ok([BEFORE_HASH, hash.as_bytes(), BEFORE_BODY, &body, END].concat())
    }

    /// Parses the bytes of the file called `file`.
    ///
    /// # Errors
    /// [`Error::Damaged`]; [`Error::Refused`] if a newer version wrote the file.
    pub(crate) fn decode(bytes: &[u8], file: &str) -> Result<Self> {
        let body = checked_body(bytes).map_err(|damage| Error::damaged(file, damage))?;
        let FormatVersion { format } = parse_body(body, file)?;
        if format > FORMAT {
            return Err(Error::Refused(format!(
                "{file} has format {format}, but this program knows formats up to {FORMAT}; use a newer version of the program"
            )));
        }
        parse_body(body, file)
    }
}

/// Returns the value of `snapshot`, whose hash was compared. The error describes the damage.
fn checked_body(bytes: &[u8]) -> Result<&[u8], &'static str> {
    let rest = bytes.strip_prefix(BEFORE_HASH).ok_or("it does not begin like a snapshot")?;
    let (hash, rest) = rest.split_at_checked(64).ok_or("it is cut off")?;
    let rest = rest.strip_prefix(BEFORE_BODY).ok_or("it does not begin like a snapshot")?;
    let body = rest.strip_suffix(END).ok_or("it is cut off")?;
    if ChunkId::of_bytes(body).to_string().as_bytes() != hash {
        return Err("its checksum is not the one that it states");
    }
    Ok(body)
}

fn parse_body<'a, T: Deserialize<'a>>(body: &'a [u8], file: &str) -> Result<T> {
    serde_json::from_slice(body).map_err(|error| Error::damaged(file, format!("it cannot be read ({error})")))
}

#[derive(Deserialize)]
struct FormatVersion {
    format: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let chunk = ChunkEntry { sha256: ChunkId::of_bytes(b"x"), entries: 3, bytes: 100, stored: 60 };
        Manifest {
            format: FORMAT,
            id: SnapshotId::at("2026-03-01T02:15:00.123Z").expect("a time"),
            taken_at: "2026-03-01T02:15:00.123Z".into(),
            written_by: "doppel 0.1.0".into(),
            store: SnapshotMoment { kind: "embedded".into(), format: 3, collections: Vec::new() },
            spaces: vec![SpaceEntry { name: "records".into(), chunks: vec![chunk, chunk] }],
        }
    }

    #[test]
    fn a_manifest_survives_encoding_and_any_changed_or_missing_byte_is_found() {
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
    fn the_error_for_a_newer_format_asks_for_a_newer_program() {
        let newer = Manifest { format: FORMAT + 1, ..manifest() }.encode().expect("a file");
        let error = Manifest::decode(&newer, "s").expect_err("it is newer").to_string();
        assert!(error.contains("newer version of the program"), "{error}");
    }

    #[test]
    fn a_path_is_not_a_snapshot_name() {
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
