//! Makes ids for rows without one. The same rows get the same ids each time.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use sha2::{Digest, Sha256};

/// Number of bytes of the hash in an id: enough that no two texts have the same hash.
const HASH_BYTES: usize = 16;

/// The source of the ids that the command makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum MakeIds {
    /// FILE-LINE: the file's name without extension, and the line number
    Line,
    /// Makes the id from the content of the row, independent of its position. If n - 1 earlier rows have the same content, the id ends with -n
    Content,
}

/// Makes ids from the content of rows. It keeps about 50 bytes per row, to number repeated rows.
#[derive(Debug, Default)]
pub(super) struct ContentIds(HashMap<[u8; HASH_BYTES], u32>);

impl ContentIds {
    /// Returns the id of the next row. The order of its members does not matter.
    pub(super) fn next(&mut self, json: &str) -> String {
        let members: BTreeMap<String, serde_json::Value> = serde_json::from_str(json).unwrap_or_default();
        let canonical = serde_json::to_string(&members).unwrap_or_else(|_| json.to_owned());
        let hash: [u8; 32] = Sha256::digest(canonical.as_bytes()).into();
        let mut short = [0; HASH_BYTES];
        short.copy_from_slice(&hash[..HASH_BYTES]);
        let hex: String = short.iter().map(|byte| format!("{byte:02x}")).collect();
        let count = self.0.entry(short).or_default();
        *count += 1;
        if *count == 1 { format!("c-{hex}") } else { format!("c-{hex}-{count}") }
    }
}

/// The ids of one file, so that no row replaces an earlier row. It keeps about 20 bytes per row.
#[derive(Debug, Default)]
pub(super) struct GivenIds(HashMap<u64, u32>);

impl GivenIds {
    /// Records a row. Returns false if an earlier row has the same id and other content.
    pub(super) fn note(&mut self, id: &str, json: &str) -> bool {
        let content = short_hash(json) as u32;
        *self.0.entry(short_hash(id)).or_insert(content) == content
    }
}

fn short_hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Adds an id to `json`, an object without an id.
pub(super) fn insert_id(json: &str, id: &str) -> String {
    let id = serde_json::Value::from(id);
    let fields = json.strip_prefix('{').unwrap_or(json);
    // An id of `null` counts as a missing id, but the key must not occur twice.
    let null = serde_json::from_str::<serde_json::Map<_, _>>(json).ok().filter(|row| row.contains_key("id"));
    match null {
        Some(mut row) => {
            row.insert("id".into(), id);
            serde_json::Value::Object(row).to_string()
        }
        None if fields.trim_start().starts_with('}') => format!("{{\"id\":{id}}}"),
        None => format!("{{\"id\":{id},{fields}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{ContentIds, GivenIds, insert_id};

    #[test]
    fn a_row_with_the_id_of_another_row_is_noticed() {
        let mut ids = GivenIds::default();
        assert!(ids.note("a", "{1}") && ids.note("b", "{2}") && ids.note("a", "{1}"));
        assert!(!ids.note("a", "{2}") && ids.note("a", "{1}"));
    }

    #[test]
    fn an_id_is_put_before_the_fields_as_they_came() {
        assert_eq!(insert_id(r#"{"a": 1.50}"#, "x-1"), r#"{"id":"x-1","a": 1.50}"#);
        assert_eq!(insert_id("{ }", "x-1"), r#"{"id":"x-1"}"#);
        assert_eq!(insert_id(r#"{"id":null,"a":1}"#, "x-1"), r#"{"id":"x-1","a":1}"#);
    }

    #[test]
    fn what_says_the_same_has_the_same_id_but_for_its_number() {
        let mut ids = ContentIds::default();
        let first = ids.next(r#"{"a":"x","b":"y"}"#);
        assert_eq!(ids.next(r#"{"b":"y","a":"x"}"#), format!("{first}-2"));
        assert_ne!(ids.next(r#"{"a":"x"}"#), first);
        assert_eq!(ContentIds::default().next(r#"{"a":"x","b":"y"}"#), first);
    }
}
