//! Migrations: the numbered files of `migrations/`, which are compiled in.
//!
//! This module has no side effects. [`plan`] compares the files with the list of applied migrations in a database. [`required`]
//! computes the schema that this version needs from the files, and [`compare`] compares this schema with the collections of a
//! database. `migrate` makes the changes.

use mongodb::bson::{Bson, Document, doc};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use doppel_store::{Result, StoreError};

const FILES: [(&str, &str); 7] = [
    ("0001_first_schema", include_str!("../../../migrations/0001_first_schema.json")),
    ("0002_reindex_and_decisions", include_str!("../../../migrations/0002_reindex_and_decisions.json")),
    ("0003_one_commit_order", include_str!("../../../migrations/0003_one_commit_order.json")),
    ("0004_change_feed", include_str!("../../../migrations/0004_change_feed.json")),
    ("0005_checkpoints", include_str!("../../../migrations/0005_checkpoints.json")),
    ("0006_commit_orders_on_all_shards", include_str!("../../../migrations/0006_commit_orders_on_all_shards.json")),
    ("0007_decisions_about_events", include_str!("../../../migrations/0007_decisions_about_events.json")),
];

/// The collections, and the indexes with their collections, that MongoDB compresses with zstd. They take the most space: the texts of
/// records need a quarter less space than with snappy, the usual compression of collections, and the index of posting keys half of its
/// space without compression. MongoDB compresses a collection or an index only from its creation, so that a database of an earlier
/// version stays as it is.
const COMPRESSED: [(&str, Option<&str>); 2] = [("records", None), ("signatures", Some("keys"))];

/// Returns the storage options of a new collection, or of a new index of the collection, if it is compressed with zstd.
pub(super) fn storage_options(collection: &str, index: Option<&str>) -> Option<Document> {
    let options = doc! { "wiredTiger": { "configString": "block_compressor=zstd" } };
    COMPRESSED.contains(&(collection, index)).then_some(options)
}

#[derive(Clone, Debug)]
pub(super) struct SchemaMigration {
    pub(super) number: i32,
    pub(super) name: String,
    pub(super) checksum: String,
    pub(super) content: MigrationContent,
}

/// The content of a migration file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MigrationContent {
    pub(super) summary: String,
    pub(super) collections: Vec<CollectionSchema>,
}

/// The changes of one collection.
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
    /// Stages of an aggregation that rewrites the documents and ends with `$merge`. They are idempotent.
    #[serde(default)]
    pub(super) rewrite: Vec<serde_json::Value>,
    /// True if the collection is dropped.
    #[serde(default)]
    pub(super) drop: bool,
}

/// An index of a collection.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IndexSchema {
    pub(super) name: String,
    pub(super) key: serde_json::Value,
    #[serde(default)]
    pub(super) unique: IndexUniqueness,
    /// The filter of the documents that the index contains. Without a filter, it contains all documents.
    #[serde(default)]
    pub(super) partial: Option<serde_json::Value>,
}

/// States whether an index is unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "serde_json::Value")]
pub(super) enum IndexUniqueness {
    #[default]
    No,
    Yes,
    UnlessSharded,
}

impl From<serde_json::Value> for IndexUniqueness {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Bool(true) => Self::Yes,
            serde_json::Value::String(text) if text == "unless sharded" => Self::UnlessSharded,
            _ => Self::No,
        }
    }
}

/// A migration that was applied to a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AppliedMigration {
    pub(super) number: i32,
    pub(super) name: String,
    pub(super) checksum: String,
    pub(super) at: String,
    /// True if the shard keys were also applied.
    pub(super) sharded: bool,
}

/// The state of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The migration was applied at this time (RFC 3339, UTC).
    Applied(String),
    /// The migration is not applied yet.
    Pending,
    /// The migration was applied on a replica set. Its shard keys must still be applied on this cluster.
    ShardKeysPending,
    /// The file was changed after the migration was applied.
    Edited,
    /// The migration was applied by a newer version of doppel.
    Unknown,
}

/// A line of `doppel migrate --status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Number and name of the file.
    pub name: String,
    /// The purpose of the migration.
    pub summary: String,
    /// The state of the migration.
    pub state: State,
}

/// Returns all migrations of this build.
pub(super) fn migrations() -> Result<Vec<SchemaMigration>> {
    FILES.iter().map(|(name, text)| parse(name, text)).collect()
}

fn parse(name: &str, text: &str) -> Result<SchemaMigration> {
    let number = name.split('_').next().and_then(|number| number.parse().ok());
    let content = serde_json::from_str(text).map_err(|error| migration_error(name, &error.to_string()))?;
    let checksum = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    let number = number.ok_or_else(|| migration_error(name, "the name does not begin with a number"))?;
    Ok(SchemaMigration { number, name: (*name).to_owned(), checksum, content })
}

fn migration_error(name: &str, reason: &str) -> StoreError {
    StoreError::Internal(format!("migration {name}: {reason}"))
}
/// True if a migration contains shard keys.
pub(super) fn has_shard_keys(migration: &SchemaMigration) -> bool {
    migration.content.collections.iter().any(|collection| collection.shard.is_some())
}

/// Returns the state of every migration, the migrations of this build first.
pub(super) fn plan(migrations: &[SchemaMigration], applied: &[AppliedMigration], on_cluster: bool) -> Vec<Status> {
    let known = migrations.iter().map(|migration| {
        let found = applied.iter().find(|applied| applied.number == migration.number);
        let shards = has_shard_keys(migration);
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

/// A collection of the schema that this version needs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RequiredCollection {
    pub(super) name: String,
    pub(super) validator: Option<Document>,
    pub(super) indexes: Vec<RequiredIndex>,
    /// The shard key; `None` on a replica set and for collections that stay on one shard.
    pub(super) shard_key: Option<Document>,
}

/// An index that a collection must have.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RequiredIndex {
    pub(super) name: String,
    pub(super) key: Document,
    pub(super) unique: bool,
    pub(super) partial: Option<Document>,
    /// True if the index may have any name, because no query names it.
    pub(super) any_name: bool,
}

/// A collection as it is in a database.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ActualCollection {
    pub(super) validator: Option<Document>,
    pub(super) indexes: Vec<ActualIndex>,
    /// The shard key; [`ShardKey::Unknown`] if the user may not read it.
    pub(super) shard_key: ShardKey,
}

/// The shard key of a collection in a database.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum ShardKey {
    #[default]
    None,
    Key(Document),
    Unknown,
}

/// An index as it is in a database.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ActualIndex {
    pub(super) name: String,
    pub(super) key: Document,
    pub(super) unique: bool,
    pub(super) partial: Option<Document>,
}

/// A difference between a database and the schema that this version needs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SchemaDifference {
    MissingCollection,
    Validator,
    MissingIndex(RequiredIndex),
    /// An index of this name exists and is different.
    OtherIndex(RequiredIndex),
    /// The shard key does not allow this unique index.
    UniqueIndex(String),
    MissingShardKey(Document),
    /// The collection has another shard key.
    OtherShardKey(Document),
}

impl SchemaDifference {
    /// Describes the difference of the collection `name`, and how to repair it.
    pub(super) fn describe(&self, name: &str) -> String {
        let migrate = "run doppel migrate";
        match self {
            Self::MissingCollection => format!("the collection {name} is missing; {migrate}"),
            Self::Validator => format!("the validator of {name} is not the one that this version needs; {migrate}"),
            Self::MissingIndex(index) => format!("{name} lacks the index {}; {migrate}", index.name),
            Self::OtherIndex(index) => {
                format!("the index {} of {name} has another key or other options; {migrate}", index.name)
            }
            Self::UniqueIndex(index) => {
                format!("the unique index {index} of {name} cannot be kept on a cluster; {migrate}")
            }
            Self::MissingShardKey(key) => format!("{name} is not sharded by {}; {migrate}", in_words(key)),
            Self::OtherShardKey(key) => {
                format!("{name} is sharded by another key than {}; change it with reshardCollection", in_words(key))
            }
        }
    }
}

fn in_words(key: &Document) -> String {
    let fields = key.iter().map(|(field, kind)| match kind {
        Bson::String(kind) => format!("{field} ({kind})"),
        _ => field.clone(),
    });
    fields.collect::<Vec<_>>().join(", ")
}

/// Returns the schema that results from all of `migrations`. The collections have the order in which they first occur.
pub(super) fn required(migrations: &[SchemaMigration], on_cluster: bool) -> Result<Vec<RequiredCollection>> {
    let mut all: Vec<RequiredCollection> = Vec::new();
    for collection in migrations.iter().flat_map(|migration| &migration.content.collections) {
        if collection.drop {
            all.retain(|known| known.name != collection.name);
            continue;
        }
        let at = all.iter().position(|known| known.name == collection.name).unwrap_or_else(|| {
            let name = collection.name.clone();
            let indexes = Vec::new();
            all.push(RequiredCollection { name, validator: None, indexes, shard_key: None });
            all.len() - 1
        });
        let known = &mut all[at];
        if let Some(validator) = &collection.validator {
            known.validator = Some(to_document(validator)?);
        }
        for index in &collection.indexes {
            let index = RequiredIndex::of(index, on_cluster)?;
            known.indexes.retain(|other| other.name != index.name);
            known.indexes.push(index);
        }
        known.indexes.retain(|index| !collection.drop_indexes.contains(&index.name));
        if let (true, Some(key)) = (on_cluster, &collection.shard) {
            known.shard_key = Some(to_document(key)?);
        }
    }
    for collection in &mut all {
        collection.indexes.extend(collection.shard_key.as_ref().and_then(hashed_index));
    }
    Ok(all)
}

/// Returns the index that a hashed shard key needs. `shardCollection` creates the index if the collection is empty, and otherwise
/// returns an error.
fn hashed_index(shard_key: &Document) -> Option<RequiredIndex> {
    let (field, kind) = shard_key.iter().next()?;
    let is_hashed = kind.as_str() == Some("hashed");
    is_hashed.then(|| RequiredIndex {
        name: format!("{field}_hashed"),
        key: shard_key.clone(),
        unique: false,
        partial: None,
        any_name: true,
    })
}

impl RequiredIndex {
    pub(super) fn of(index: &IndexSchema, on_cluster: bool) -> Result<Self> {
        let unique =
            index.unique == IndexUniqueness::Yes || (index.unique == IndexUniqueness::UnlessSharded && !on_cluster);
        // The name differs from the name of the unique index, so that both can exist while one replaces the other.
        let name = match index.unique {
            IndexUniqueness::UnlessSharded if on_cluster => format!("{}_not_unique", index.name),
            _ => index.name.clone(),
        };
        let partial = index.partial.as_ref().map(to_document).transpose()?;
        let any_name = index.unique == IndexUniqueness::UnlessSharded;
        Ok(Self { name, key: to_document(&index.key)?, unique, partial, any_name })
    }

    fn is(&self, actual: &ActualIndex) -> bool {
        same_key(&self.key, &actual.key) && self.unique == actual.unique && self.partial == actual.partial
    }
}

/// True if two keys have the same fields in the same order with the same kinds. The types of numbers may differ.
fn same_key(one: &Document, other: &Document) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|((field, kind), (other_field, other_kind))| {
            field == other_field && without_number_type(kind) == without_number_type(other_kind)
        })
}

/// Converts integers to doubles.
fn without_number_type(value: &Bson) -> Bson {
    match value {
        Bson::Int64(number) => Bson::Double(*number as f64),
        Bson::Int32(number) => Bson::Double(f64::from(*number)),
        other => other.clone(),
    }
}

/// Returns the differences of one collection in an order in which they can be repaired while the service runs: missing parts before
/// parts that must be removed.
pub(super) fn compare(required: &RequiredCollection, actual: Option<&ActualCollection>) -> Vec<SchemaDifference> {
    let Some(actual) = actual else { return vec![SchemaDifference::MissingCollection] };
    let mut differences = Vec::new();
    if required.validator.is_some() && required.validator != actual.validator {
        differences.push(SchemaDifference::Validator);
    }
    for index in &required.indexes {
        let named = actual.indexes.iter().find(|other| other.name == index.name);
        let there = actual.indexes.iter().any(|other| index.is(other) && (index.any_name || other.name == index.name));
        match named {
            _ if there => {}
            Some(_) => differences.push(SchemaDifference::OtherIndex(index.clone())),
            None => differences.push(SchemaDifference::MissingIndex(index.clone())),
        }
    }
    let Some(key) = &required.shard_key else { return differences };
    let refused = actual.indexes.iter().filter(|index| index.unique && !begins_with(&index.key, key));
    differences.extend(refused.map(|index| SchemaDifference::UniqueIndex(index.name.clone())));
    match &actual.shard_key {
        ShardKey::Key(actual) if same_key(actual, key) => {}
        ShardKey::Key(_) => differences.push(SchemaDifference::OtherShardKey(key.clone())),
        ShardKey::None => differences.push(SchemaDifference::MissingShardKey(key.clone())),
        ShardKey::Unknown => {}
    }
    differences
}

/// True if the first fields of an index key are the shard key.
fn begins_with(index_key: &Document, shard_key: &Document) -> bool {
    let first: Document = index_key.clone().into_iter().take(shard_key.len()).collect();
    same_key(&first, shard_key)
}
/// Returns an error if a file was edited or the database is newer than this build.
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

/// Converts a JSON object to BSON. The order of the keys is kept; numbers become Int32 if possible.
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

    fn applied(migration: &SchemaMigration, sharded: bool) -> AppliedMigration {
        let SchemaMigration { number, name, checksum, content: _ } = migration.clone();
        AppliedMigration { number, name, checksum, at: "2026-01-01T00:00:00Z".into(), sharded }
    }

    #[test]
    fn all_files_are_compiled_in_and_numbered_without_gaps() {
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
        let newer = AppliedMigration { number: 9999, name: "9999_later".into(), ..applied(&known[0], false) };
        let error = check(&plan(&known, &[newer], false)).unwrap_err().to_string();
        assert!(error.contains("9999_later") && error.contains("newer doppel"), "{error}");
    }

    #[test]
    fn shard_keys_are_pending_after_a_database_moves_to_a_cluster() {
        let known = migrations().unwrap();
        let done = [applied(&known[0], false)];
        assert!(matches!(plan(&known, &done, false)[0].state, State::Applied(_)));
        assert_eq!(plan(&known, &done, true)[0].state, State::ShardKeysPending);
        assert!(matches!(plan(&known, &[applied(&known[0], true)], true)[0].state, State::Applied(_)));
    }

    fn actual(required: &RequiredCollection) -> ActualCollection {
        ActualCollection {
            validator: required.validator.clone(),
            indexes: required.indexes.iter().map(actual_index).collect(),
            shard_key: required.shard_key.clone().map_or(ShardKey::None, ShardKey::Key),
        }
    }

    fn actual_index(index: &RequiredIndex) -> ActualIndex {
        let RequiredIndex { name, key, unique, partial, .. } = index.clone();
        ActualIndex { name, key, unique, partial }
    }
    #[test]
    fn a_schema_has_the_latest_validators_and_no_dropped_collections() {
        let all = required(&migrations().unwrap(), true).unwrap();
        assert!(all.iter().all(|collection| collection.name != "latches"), "0003 drops it");
        let collections = all.iter().find(|collection| collection.name == "collections").unwrap();
        let validator = collections.validator.clone().unwrap();
        assert!(!validator.to_string().contains("\"empty\""), "only 0001 and 0002 required this field");
        assert!(all.iter().all(|collection| compare(collection, Some(&actual(collection))).is_empty()));
        assert!(compare(&all[0], None) == [SchemaDifference::MissingCollection]);
    }

    #[test]
    fn the_schema_of_a_replica_set_differs_from_that_of_a_cluster_by_shard_keys_and_the_indexes_they_need() {
        let known = migrations().unwrap();
        let set = required(&known, false).unwrap();
        let cluster = required(&known, true).unwrap();
        let moved: Vec<(String, Vec<SchemaDifference>)> = set
            .iter()
            .zip(&cluster)
            .map(|(set, cluster)| (cluster.name.clone(), compare(cluster, Some(&actual(set)))))
            .filter(|(_, differences)| !differences.is_empty())
            .collect();
        let names: Vec<&str> = moved.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["collections", "records", "signatures", "blocks"]);
        let records: Vec<String> = moved[1].1.iter().map(short_description).collect();
        assert_eq!(records, ["index order_not_unique", "index _id_hashed", "unique order", "key _id (hashed)"]);
        assert_eq!(moved[3].1.iter().map(short_description).collect::<Vec<_>>(), ["key c, g, b"]);
        // A cluster of an earlier version has the same index with another name.
        let mut earlier = actual(&cluster[1]);
        earlier
            .indexes
            .iter_mut()
            .filter(|index| index.name == "order_not_unique")
            .for_each(|i| i.name = "order".into());
        assert!(compare(&cluster[1], Some(&earlier)).is_empty());
    }

    fn short_description(difference: &SchemaDifference) -> String {
        match difference {
            SchemaDifference::MissingIndex(index) => format!("index {}", index.name),
            SchemaDifference::UniqueIndex(name) => format!("unique {name}"),
            SchemaDifference::MissingShardKey(key) => format!("key {}", in_words(key)),
            other => format!("{other:?}"),
        }
    }
    #[test]
    fn each_difference_states_its_remedy() {
        let all = required(&migrations().unwrap(), true).unwrap();
        let blocks = all.iter().find(|collection| collection.name == "blocks").unwrap();
        let mut changed = actual(blocks);
        changed.validator = Some(Document::new());
        changed.indexes[0].unique = false;
        changed.shard_key = ShardKey::Key(to_document(&serde_json::json!({ "c": 1 })).unwrap());
        let said: Vec<String> =
            compare(blocks, Some(&changed)).iter().map(|difference| difference.describe("blocks")).collect();
        assert!(said[0].contains("validator of blocks") && said[0].contains("doppel migrate"), "{said:?}");
        assert!(said[1].contains("index page") && said[2].contains("reshardCollection"), "{said:?}");
        changed.shard_key = ShardKey::Unknown;
        assert_eq!(
            compare(blocks, Some(&changed)).len(),
            2,
            "a shard key that the user may not read causes no difference"
        );
    }

    #[test]
    fn the_order_of_index_keys_is_kept() {
        let value: serde_json::Value = serde_json::from_str(r#"{"c":1,"g":1,"b":1,"p":1,"a":4294967296}"#).unwrap();
        let document = to_document(&value).unwrap();
        assert_eq!(document.keys().collect::<Vec<_>>(), ["c", "g", "b", "p", "a"]);
        assert_eq!((document.get("c"), document.get("a")), (Some(&Bson::Int32(1)), Some(&Bson::Int64(1 << 32))));
    }
}
