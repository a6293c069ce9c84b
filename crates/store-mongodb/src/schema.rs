//! Migrations: the numbered files of `migrations/`, compiled in, and what is to be done with them.
//!
//! Pure: [`plan`] compares the files with what a database says was applied. `migrate` carries it out.

use mongodb::bson::{Bson, Document};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use doppel_store::{Result, StoreError};

/// Name and text of every migration, in order.
const FILES: [(&str, &str); 5] = [
    ("0001_first_schema", include_str!("../../../migrations/0001_first_schema.json")),
    ("0002_reindex_and_decisions", include_str!("../../../migrations/0002_reindex_and_decisions.json")),
    ("0003_one_commit_order", include_str!("../../../migrations/0003_one_commit_order.json")),
    ("0004_change_feed", include_str!("../../../migrations/0004_change_feed.json")),
    ("0005_checkpoints", include_str!("../../../migrations/0005_checkpoints.json")),
];

/// One numbered change.
#[derive(Clone, Debug)]
pub(super) struct Migration {
    pub(super) number: i32,
    pub(super) name: String,
    pub(super) checksum: String,
    pub(super) content: Content,
}

/// What a file says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Content {
    pub(super) summary: String,
    pub(super) collections: Vec<CollectionSchema>,
}

/// What is to be so of one collection.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CollectionSchema {
    pub(super) name: String,
    #[serde(default)]
    pub(super) validator: Option<serde_json::Value>,
    #[serde(default)]
    pub(super) indexes: Vec<IndexSchema>,
    #[serde(default)]
    pub(super) drop_indexes: Vec<String>,
    #[serde(default)]
    pub(super) shard: Option<serde_json::Value>,
    /// Stages that make the documents anew and end with `$merge`; running them twice is running them once.
    #[serde(default)]
    pub(super) rewrite: Vec<serde_json::Value>,
    /// Whether the collection goes.
    #[serde(default)]
    pub(super) drop: bool,
}

/// An index.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IndexSchema {
    pub(super) name: String,
    pub(super) key: serde_json::Value,
    #[serde(default)]
    pub(super) unique: Unique,
    /// The filter of the documents that it holds; all where there is none.
    #[serde(default)]
    pub(super) partial: Option<serde_json::Value>,
}

/// Whether an index is unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "serde_json::Value")]
pub(super) enum Unique {
    #[default]
    No,
    Yes,
    UnlessSharded,
}

impl From<serde_json::Value> for Unique {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Bool(true) => Self::Yes,
            serde_json::Value::String(text) if text == "unless sharded" => Self::UnlessSharded,
            _ => Self::No,
        }
    }
}

/// A migration that a database says was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) number: i32,
    pub(super) name: String,
    pub(super) checksum: String,
    pub(super) at: String,
    /// Whether its shard keys were applied too.
    pub(super) sharded: bool,
}

/// How a migration stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Applied, when (RFC 3339, UTC).
    Applied(String),
    /// Not yet applied.
    Pending,
    /// Applied on a replica set; its shard keys are still to be applied on this cluster.
    ShardKeysPending,
    /// The file was changed after it was applied.
    Edited,
    /// Applied by a newer doppel.
    Unknown,
}

/// One line of `doppel migrate --status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Number and name of the file.
    pub name: String,
    /// What it does.
    pub summary: String,
    /// How it stands.
    pub state: State,
}

/// All migrations of this build.
pub(super) fn migrations() -> Result<Vec<Migration>> {
    FILES.iter().map(|(name, text)| parse(name, text)).collect()
}

fn parse(name: &str, text: &str) -> Result<Migration> {
    let wrong = |reason: String| StoreError::Internal(format!("migration {name}: {reason}"));
    let number = name.split('_').next().and_then(|number| number.parse().ok());
    let content = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let checksum = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    let number = number.ok_or_else(|| wrong("the name does not begin with a number".into()))?;
    Ok(Migration { number, name: (*name).to_owned(), checksum, content })
}

/// How every migration stands, those of this build first.
pub(super) fn plan(migrations: &[Migration], applied: &[Applied], on_cluster: bool) -> Vec<Status> {
    let known = migrations.iter().map(|migration| {
        let found = applied.iter().find(|applied| applied.number == migration.number);
        let shards = migration.content.collections.iter().any(|collection| collection.shard.is_some());
        let state = match found {
            None => State::Pending,
            Some(found) if found.checksum != migration.checksum => State::Edited,
            Some(found) if on_cluster && shards && !found.sharded => State::ShardKeysPending,
            Some(found) => State::Applied(found.at.clone()),
        };
        Status { name: migration.name.clone(), summary: migration.content.summary.clone(), state }
    });
    let newer = applied.iter().filter(|applied| migrations.iter().all(|known| known.number != applied.number));
    let newer =
        newer.map(|applied| Status { name: applied.name.clone(), summary: String::new(), state: State::Unknown });
    known.chain(newer).collect()
}

/// Refuses to go on where a file was edited or the database is newer.
pub(super) fn check(plan: &[Status]) -> Result<()> {
    for Status { name, state, .. } in plan {
        let reason = match state {
            State::Edited => "was edited after it was applied; restore the file and write a new migration instead",
            State::Unknown => "was applied by a newer doppel; run that version, or restore a backup of before",
            State::Applied(_) | State::Pending | State::ShardKeysPending => continue,
        };
        return Err(StoreError::Internal(format!("migration {name} {reason}")));
    }
    Ok(())
}

/// A JSON object as BSON, keys in their order, numbers as Int32 where they fit.
pub(super) fn to_document(value: &serde_json::Value) -> Result<Document> {
    match to_bson(value) {
        Bson::Document(document) => Ok(document),
        _ => Err(StoreError::Internal("a migration gives a value where an object belongs".into())),
    }
}

fn to_bson(value: &serde_json::Value) -> Bson {
    match value {
        serde_json::Value::Null => Bson::Null,
        serde_json::Value::Bool(value) => Bson::Boolean(*value),
        serde_json::Value::Number(number) => match (number.as_i64().map(i32::try_from), number.as_i64()) {
            (Some(Ok(small)), _) => Bson::Int32(small),
            (_, Some(large)) => Bson::Int64(large),
            _ => Bson::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Bson::String(text.clone()),
        serde_json::Value::Array(items) => Bson::Array(items.iter().map(to_bson).collect()),
        serde_json::Value::Object(map) => {
            Bson::Document(map.iter().map(|(key, value)| (key.clone(), to_bson(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(migration: &Migration, sharded: bool) -> Applied {
        let Migration { number, name, checksum, content: _ } = migration.clone();
        Applied { number, name, checksum, at: "2026-01-01T00:00:00Z".into(), sharded }
    }

    #[test]
    fn the_files_parse_and_are_numbered_without_gaps_and_none_is_left_out() {
        let numbers: Vec<i32> = migrations().unwrap().iter().map(|migration| migration.number).collect();
        assert_eq!(numbers, (1..=FILES.len() as i32).collect::<Vec<_>>());
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        assert_eq!(files.filter(|path| path.extension().is_some_and(|end| end == "json")).count(), FILES.len());
    }

    #[test]
    fn an_edited_file_and_a_newer_database_are_refused_with_the_remedy() {
        let known = migrations().unwrap();
        let mut edited = applied(&known[0], false);
        edited.checksum = "0".repeat(64);
        let error = check(&plan(&known, &[edited], false)).unwrap_err().to_string();
        assert!(error.contains("restore the file"), "{error}");
        let newer = Applied { number: 9999, name: "9999_later".into(), ..applied(&known[0], false) };
        let error = check(&plan(&known, &[newer], false)).unwrap_err().to_string();
        assert!(error.contains("9999_later") && error.contains("newer doppel"), "{error}");
    }

    #[test]
    fn shard_keys_are_still_to_do_when_a_database_moves_to_a_cluster() {
        let known = migrations().unwrap();
        let done = [applied(&known[0], false)];
        assert!(matches!(plan(&known, &done, false)[0].state, State::Applied(_)));
        assert_eq!(plan(&known, &done, true)[0].state, State::ShardKeysPending);
        assert!(matches!(plan(&known, &[applied(&known[0], true)], true)[0].state, State::Applied(_)));
    }

    #[test]
    fn the_order_of_index_keys_is_kept() {
        let value: serde_json::Value = serde_json::from_str(r#"{"c":1,"g":1,"b":1,"p":1,"a":4294967296}"#).unwrap();
        let document = to_document(&value).unwrap();
        assert_eq!(document.keys().collect::<Vec<_>>(), ["c", "g", "b", "p", "a"]);
        assert_eq!((document.get("c"), document.get("a")), (Some(&Bson::Int32(1)), Some(&Bson::Int64(1 << 32))));
    }
}
