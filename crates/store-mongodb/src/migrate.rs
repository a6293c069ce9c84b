//! Applies each migration once. Only one instance at a time does this.
//!
//! The lock is a document that expires by the clock of the server and is renewed during the work. The lock of a crashed instance
//! expires after at most [`LOCK_SECONDS`]. The next instance then begins again, because every statement may be repeated.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::TryStreamExt;
use mongodb::bson::{Document, doc};
use mongodb::{Client, Database};

use super::documents::META;
use super::retry::{self, CallDeadline};
use super::schema::{
    self, ActualCollection, ActualIndex, AppliedMigration, RequiredCollection, RequiredIndex, SchemaDifference,
    SchemaMigration, ShardKey, State, Status,
};
use doppel_store::{Result, StoreError};

const MIGRATIONS: &str = "migrations";
const LOCK: &str = "migration_lock";
const LOCK_SECONDS: i32 = 30;
const RENEW: Duration = Duration::from_secs(10);
const NAMESPACE_EXISTS: i32 = 48;
const NAMESPACE_NOT_FOUND: i32 = 26;
const INDEX_NOT_FOUND: i32 = 27;
/// An index with this key exists under another name.
const INDEX_OPTIONS_CONFLICT: i32 = 85;

/// Applies migrations to one database.
pub(super) struct SchemaMigrator<'a> {
    pub(super) client: &'a Client,
    pub(super) database: &'a Database,
    pub(super) on_cluster: bool,
    pub(super) clock: super::Clock,
    /// The longest time to wait for another instance that migrates.
    pub(super) connect_timeout: Duration,
}

impl SchemaMigrator<'_> {
    /// Returns the states of all migrations.
    pub(super) async fn status(&self) -> Result<Vec<Status>> {
        Ok(schema::plan(&schema::migrations()?, &self.applied().await?, self.on_cluster))
    }

    /// Applies pending migrations and repairs differences. Returns the names of the applied migrations and of the repaired parts.
    pub(super) async fn apply(&self) -> Result<Vec<String>> {
        let plan = self.status().await?;
        schema::check(&plan)?;
        let is_applied = plan.iter().all(|status| matches!(status.state, State::Applied(_)));
        let differences = if is_applied { self.differences().await? } else { Vec::new() };
        let is_done =
            differences.iter().all(|(_, difference)| matches!(difference, SchemaDifference::OtherShardKey(_)));
        if is_applied && is_done {
            return Ok(Vec::new());
        }
        let holder = (self.clock.unique_id)();
        self.lock(&holder).await?;
        let outcome = tokio::select! {
            outcome = self.apply_pending() => outcome,
            lost = self.keep_lock(&holder) => Err(lost),
        };
        let meta = self.database.collection::<Document>(META);
        // If this fails, the lock expires.
        let _ = meta.delete_one(doc! { "_id": LOCK, "holder": &holder }).await;
        outcome
    }

    /// Returns the differences between the database and the schema that this version needs, with the names of the collections.
    pub(super) async fn differences(&self) -> Result<Vec<(String, SchemaDifference)>> {
        let required = schema::required(&schema::migrations()?, self.on_cluster)?;
        let actual = self.actual().await?;
        let all = required.iter().flat_map(|collection| {
            let found = schema::compare(collection, actual.get(&collection.name));
            found.into_iter().map(|difference| (collection.name.clone(), difference))
        });
        Ok(all.collect())
    }

    /// Applies pending migrations, and then repairs the remaining differences: shard keys and their indexes after a move to a
    /// cluster, and changes by an administrator or an earlier version. After each step, the running service can use the schema, so
    /// that an interrupted run can be repeated.
    async fn apply_pending(&self) -> Result<Vec<String>> {
        // The states are read again under the lock, because another instance may have migrated meanwhile.
        let plan = self.status().await?;
        schema::check(&plan)?;
        let migrations = schema::migrations()?;
        let mut done = Vec::new();
        for (migration, status) in migrations.iter().zip(&plan) {
            if status.state != State::Pending {
                continue;
            }
            self.apply_one(migration).await?;
            tracing::info!(migration = migration.name, "migration applied");
            done.push(migration.name.clone());
        }
        let required = schema::required(&migrations, self.on_cluster)?;
        for (name, difference) in self.differences().await? {
            if let Some(collection) = required.iter().find(|collection| collection.name == name) {
                let mended = self.mend(collection, &difference).await?;
                // A repair that belongs to a migration of this run is not listed.
                done.extend(mended.filter(|_| plan.iter().all(|status| status.state != State::Pending)));
            }
        }
        for (migration, status) in migrations.iter().zip(&plan) {
            if self.on_cluster && schema::has_shard_keys(migration) {
                self.note_sharded(migration.number).await?;
                if status.state == State::ShardKeysPending {
                    done.push(format!("shard keys of {}", migration.name));
                }
            }
        }
        Ok(done)
    }

    /// Repairs one difference. Returns the name of the repaired part.
    async fn mend(&self, collection: &RequiredCollection, difference: &SchemaDifference) -> Result<Option<String>> {
        let name = &collection.name;
        let mended = match difference {
            SchemaDifference::MissingCollection => {
                self.prepare(name, collection.validator.clone()).await?;
                for index in &collection.indexes {
                    self.create_index(name, index).await?;
                }
                if let Some(key) = &collection.shard_key {
                    self.shard(name, key.clone()).await?;
                }
                format!("collection {name}")
            }
            SchemaDifference::Validator => {
                self.prepare(name, collection.validator.clone()).await?;
                format!("validator of {name}")
            }
            SchemaDifference::MissingIndex(index) => {
                self.create_index(name, index).await?;
                format!("index {} of {name}", index.name)
            }
            SchemaDifference::OtherIndex(index) => {
                self.drop_index(name, &index.name).await?;
                self.create_index(name, index).await?;
                format!("index {} of {name}", index.name)
            }
            SchemaDifference::UniqueIndex(index) => {
                self.drop_index(name, index).await?;
                format!("index {index} of {name}, which was unique")
            }
            SchemaDifference::MissingShardKey(key) => {
                self.shard(name, key.clone()).await?;
                format!("shard key of {name}")
            }
            SchemaDifference::OtherShardKey(_) => {
                tracing::warn!(difference = difference.describe(name), "the schema needs an administrator");
                return Ok(None);
            }
        };
        tracing::info!(mended, "schema repaired");
        Ok(Some(mended))
    }

    /// Applies a migration without its shard keys.
    async fn apply_one(&self, migration: &SchemaMigration) -> Result<()> {
        for collection in &migration.content.collections {
            let name = &collection.name;
            if collection.drop {
                self.run(doc! { "drop": name }, &[NAMESPACE_NOT_FOUND]).await?;
                continue;
            }
            self.prepare(name, collection.validator.as_ref().map(schema::to_document).transpose()?).await?;
            for index in &collection.indexes {
                self.create_index(name, &RequiredIndex::of(index, self.on_cluster)?).await?;
            }
            for index in &collection.drop_indexes {
                self.drop_index(name, index).await?;
            }
            if !collection.rewrite.is_empty() {
                let stages = collection.rewrite.iter().map(schema::to_document).collect::<Result<Vec<_>>>()?;
                self.run(doc! { "aggregate": name, "pipeline": stages, "cursor": {} }, &[]).await?;
            }
        }
        let applied = doc! {
            "_id": migration.number, "name": &migration.name, "checksum": &migration.checksum,
            "at": (self.clock.now)(), "sharded": false,
        };
        let migrations = self.database.collection::<Document>(MIGRATIONS);
        let own = doc! { "_id": migration.number };
        self.patiently(|| migrations.replace_one(own.clone(), &applied).upsert(true).into_future()).await.map(drop)
    }

    /// Stores a note that the shard keys of a migration are applied.
    async fn note_sharded(&self, number: i32) -> Result<()> {
        let migrations = self.database.collection::<Document>(MIGRATIONS);
        let noted = doc! { "$set": { "sharded": true } };
        self.patiently(|| migrations.update_one(doc! { "_id": number }, noted.clone()).into_future()).await.map(drop)
    }

    /// Creates the collection if necessary, and sets its validator.
    async fn prepare(&self, name: &str, validator: Option<Document>) -> Result<()> {
        let mut rules = Document::new();
        if let Some(validator) = validator {
            rules.insert("validator", validator);
            rules.extend(doc! { "validationLevel": "strict", "validationAction": "error" });
        }
        let mut create = doc! { "create": name };
        create.extend(rules.clone());
        if let Some(options) = schema::storage_options(name, None) {
            create.insert("storageEngine", options);
        }
        self.run(create, &[NAMESPACE_EXISTS]).await?;
        if !rules.is_empty() {
            let mut modify = doc! { "collMod": name };
            modify.extend(rules);
            self.run(modify, &[]).await?;
        }
        Ok(())
    }

    async fn create_index(&self, collection: &str, index: &RequiredIndex) -> Result<()> {
        let mut wanted = doc! { "key": &index.key, "name": &index.name };
        if index.unique {
            wanted.insert("unique", true);
        }
        if let Some(partial) = &index.partial {
            wanted.insert("partialFilterExpression", partial);
        }
        // If any name is allowed, the index may exist under another name.
        let accepted: &[i32] = if index.any_name { &[INDEX_OPTIONS_CONFLICT] } else { &[] };
        if let Some(options) = schema::storage_options(collection, Some(&index.name)) {
            let mut compressed = wanted.clone();
            compressed.insert("storageEngine", options);
            let create = doc! { "createIndexes": collection, "indexes": [compressed] };
            // The index of an earlier version has other storage options. The command without these options compares it.
            if self.run(create, &[INDEX_OPTIONS_CONFLICT]).await? {
                return Ok(());
            }
        }
        self.run(doc! { "createIndexes": collection, "indexes": [wanted] }, accepted).await.map(drop)
    }

    async fn drop_index(&self, collection: &str, index: &str) -> Result<()> {
        self.run(doc! { "dropIndexes": collection, "index": index }, &[INDEX_NOT_FOUND]).await.map(drop)
    }

    async fn shard(&self, collection: &str, key: Document) -> Result<()> {
        let admin = self.client.database("admin");
        let name = format!("{}.{collection}", self.database.name());
        for command in [doc! { "enableSharding": self.database.name() }, doc! { "shardCollection": name, "key": key }] {
            self.patiently(|| admin.run_command(command.clone()).into_future()).await?;
        }
        Ok(())
    }

    /// Reads the collections of the database, by name.
    async fn actual(&self) -> Result<HashMap<String, ActualCollection>> {
        let mut all = HashMap::new();
        let listing =
            self.patiently(|| async { self.database.list_collections().await?.try_collect::<Vec<_>>().await });
        for specification in listing.await? {
            let collection = self.database.collection::<Document>(&specification.name);
            let listing = self.patiently(|| async {
                match collection.list_indexes().await {
                    Ok(listed) => listed.try_collect::<Vec<_>>().await,
                    // The collection was dropped after it was listed.
                    Err(error) if retry::code(&error) == Some(NAMESPACE_NOT_FOUND) => Ok(Vec::new()),
                    Err(error) => Err(error),
                }
            });
            let listed = listing.await?;
            let indexes = listed.into_iter().map(|index| {
                let options = index.options.unwrap_or_default();
                let name = options.name.unwrap_or_default();
                let unique = options.unique.unwrap_or(false);
                ActualIndex { name, key: index.keys, unique, partial: options.partial_filter_expression }
            });
            let indexes = indexes.collect();
            let shard_key = if self.on_cluster { self.shard_key(&specification.name).await } else { ShardKey::None };
            let validator = specification.options.validator;
            all.insert(specification.name, ActualCollection { validator, indexes, shard_key });
        }
        Ok(all)
    }

    /// Reads the shard key of a collection from the configuration of the cluster.
    async fn shard_key(&self, collection: &str) -> ShardKey {
        let name = format!("{}.{collection}", self.database.name());
        let collections = self.client.database("config").collection::<Document>("collections");
        match collections.find_one(doc! { "_id": name }).await {
            Ok(Some(found)) => found.get_document("key").map_or(ShardKey::Unknown, |key| ShardKey::Key(key.clone())),
            Ok(None) => ShardKey::None,
            Err(error) => {
                let reason = retry::summary(&error);
                tracing::debug!(collection, reason, "the shard key of a collection cannot be read");
                ShardKey::Unknown
            }
        }
    }

    /// Runs a command, and repeats it after transient errors, for at most [`SchemaMigrator::connect_timeout`].
    async fn patiently<T, F>(&self, mut command: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = mongodb::error::Result<T>>,
    {
        let deadline = CallDeadline::after(self.connect_timeout);
        for attempt in 0.. {
            match command().await {
                Err(error) if retry::is_transient(&error) && retry::pause(attempt, deadline).await.is_ok() => {}
                done => return done.map_err(|error| failed(&error)),
            }
        }
        Err(StoreError::Internal("a command was repeated without an end".into()))
    }

    /// Runs a command. Returns false if the database answers with one of the `accepted` error codes.
    async fn run(&self, mut command: Document, accepted: &[i32]) -> Result<bool> {
        command.insert("writeConcern", super::server::durable_document());
        let run = self.patiently(|| async {
            match self.database.run_command(command.clone()).await {
                Err(error) if retry::code(&error).is_some_and(|code| accepted.contains(&code)) => Ok(false),
                done => done.map(|_| true),
            }
        });
        run.await
    }

    async fn applied(&self) -> Result<Vec<AppliedMigration>> {
        let migrations = self.database.collection::<Document>(MIGRATIONS);
        let listing = self.patiently(|| async {
            migrations.find(doc! {}).sort(doc! { "_id": 1 }).await?.try_collect::<Vec<_>>().await
        });
        let mut found = Vec::new();
        for document in listing.await? {
            found.push(AppliedMigration {
                number: document.get_i32("_id").map_err(super::documents::damaged)?,
                name: text_of(&document, "name"),
                checksum: text_of(&document, "checksum"),
                at: text_of(&document, "at"),
                sharded: document.get_bool("sharded").unwrap_or(false),
            });
        }
        Ok(found)
    }

    async fn lock(&self, holder: &str) -> Result<()> {
        let deadline = CallDeadline::after(self.connect_timeout);
        let free = doc! { "_id": LOCK, "holder": "", "until": mongodb::bson::DateTime::from_millis(0) };
        for attempt in 0.. {
            match self.database.collection::<Document>(META).insert_one(&free).await {
                Err(error) if !retry::is_duplicate_key(&error) && !retry::is_transient(&error) => {
                    return Err(failed(&error));
                }
                _ => {}
            }
            // The clock of the server decides, not the clocks of the instances.
            if self.take_lock(holder, doc! { "$expr": { "$lt": ["$until", "$$NOW"] } }).await? {
                return Ok(());
            }
            if retry::pause(attempt, deadline).await.is_err() {
                break;
            }
        }
        Err(StoreError::Unavailable {
            reason: "another instance is migrating the database".into(),
            retry_after_s: LOCK_SECONDS as u32,
        })
    }

    /// Renews the lock. Returns the error when the lock is lost.
    async fn keep_lock(&self, holder: &str) -> StoreError {
        loop {
            tokio::time::sleep(RENEW).await;
            match self.take_lock(holder, doc! { "holder": holder }).await {
                Ok(true) => {}
                Ok(false) => {
                    return StoreError::Internal("the migration lock was lost; run doppel migrate again".into());
                }
                Err(error) => return error,
            }
        }
    }

    async fn take_lock(&self, holder: &str, condition: Document) -> Result<bool> {
        let mut filter = doc! { "_id": LOCK };
        filter.extend(condition);
        let until = doc! { "$dateAdd": { "startDate": "$$NOW", "unit": "second", "amount": LOCK_SECONDS } };
        let update = vec![doc! { "$set": { "holder": holder, "until": until } }];
        let meta = self.database.collection::<Document>(META);
        let taken = self.patiently(|| meta.find_one_and_update(filter.clone(), update.clone()).into_future()).await?;
        Ok(taken.is_some())
    }
}

/// Returns a text field of a document; empty if it is missing.
fn text_of(document: &Document, key: &str) -> String {
    document.get_str(key).unwrap_or_default().to_owned()
}
/// Converts an error of a schema command. The message of the server is kept, because it concerns names and options that an
/// administrator must correct.
fn failed(error: &mongodb::error::Error) -> StoreError {
    match &*error.kind {
        mongodb::error::ErrorKind::Command(command) if !retry::is_away(error) => {
            StoreError::Internal(format!("the database refused a migration: {}", command.message))
        }
        _ => retry::fatal(error),
    }
}
