//! Ids for rows that have none, the same ones each time.

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest, Sha256};

/// Bytes of the hash that an id is made of: enough that no two texts have the same.
const HASH_BYTES: usize = 16;

/// What ids are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum MakeIds {
    /// FILE-LINE: the file's name without extension, and the line number
    Line,
    /// What the row says, wherever it stands; a row that says the same as n - 1 before it has -n at the end
    Content,
}

/// Ids made of what rows say. Some 50 bytes are kept of each row, so that repetitions are told apart.
#[derive(Debug, Default)]
pub(super) struct ContentIds(HashMap<[u8; HASH_BYTES], u32>);

impl ContentIds {
    /// The id of the next row. The order of its members does not matter.
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

/// `json`, an object without an id, with one.
pub(super) fn insert_id(json: &str, id: &str) -> String {
    let id = serde_json::Value::from(id);
    let fields = json.strip_prefix('{').unwrap_or(json);
    // An id of null is no id, but the key may not stand there twice.
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
    use super::{ContentIds, insert_id};

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
