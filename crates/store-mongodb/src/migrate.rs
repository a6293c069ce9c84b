//! Carries migrations out, each once, one instance at a time.
//!
//! The lock is a document with an expiry by the server's clock, renewed while work goes on: a holder that crashed keeps
//! it for [`LOCK_SECONDS`] at most, and since every statement may be repeated, the next one simply begins again.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::{Client, Database};

use super::documents::META;
use super::retry::{self, Deadline};
use super::schema::{self, Applied, Migration, State, Status, Unique};
use doppel_store::{Result, StoreError};

const MIGRATIONS: &str = "migrations";
const LOCK: &str = "migration_lock";
const LOCK_SECONDS: i32 = 30;
const RENEW: Duration = Duration::from_secs(10);
const NAMESPACE_EXISTS: i32 = 48;
const NAMESPACE_NOT_FOUND: i32 = 26;
const INDEX_NOT_FOUND: i32 = 27;

/// Migrations against one database.
pub(super) struct Migrator<'a> {
    pub(super) client: &'a Client,
    pub(super) database: &'a Database,
    pub(super) on_cluster: bool,
    pub(super) clock: super::Clock,
    /// How long to wait for another instance that is migrating.
    pub(super) connect_timeout: Duration,
}

impl Migrator<'_> {
    /// How every migration stands.
    pub(super) async fn status(&self) -> Result<Vec<Status>> {
        Ok(schema::plan(&schema::migrations()?, &self.applied().await?, self.on_cluster))
    }

    /// Applies what is pending; the names of what was applied.
    pub(super) async fn apply(&self) -> Result<Vec<String>> {
        let plan = self.status().await?;
        schema::check(&plan)?;
        if plan.iter().all(|status| matches!(status.state, State::Applied(_))) {
            return Ok(Vec::new());
        }
        let holder = (self.clock.unique_id)();
        self.lock(&holder).await?;
        let outcome = tokio::select! {
            outcome = self.apply_pending() => outcome,
            lost = self.keep_lock(&holder) => Err(lost),
        };
        let meta = self.database.collection::<Document>(META);
        // If this fails the lock expires by itself.
        let _ = meta.delete_one(doc! { "_id": LOCK, "holder": &holder }).await;
        outcome
    }

    async fn apply_pending(&self) -> Result<Vec<String>> {
        // Again under the lock: another instance may have been faster.
        let plan = self.status().await?;
        schema::check(&plan)?;
        let mut done = Vec::new();
        for (migration, status) in schema::migrations()?.iter().zip(&plan) {
            if matches!(status.state, State::Applied(_)) {
                continue;
            }
            self.apply_one(migration).await?;
            tracing::info!(migration = migration.name, "migration applied");
            done.push(migration.name.clone());
        }
        Ok(done)
    }

    async fn apply_one(&self, migration: &Migration) -> Result<()> {
        for collection in &migration.content.collections {
            if collection.drop {
                self.run(doc! { "drop": &collection.name }, &[NAMESPACE_NOT_FOUND]).await?;
                continue;
            }
            self.prepare(collection).await?;
            for index in &collection.indexes {
                let unique = match index.unique {
                    Unique::Yes => true,
                    Unique::UnlessSharded => !self.on_cluster,
                    Unique::No => false,
                };
                let mut wanted = doc! { "key": schema::to_document(&index.key)?, "name": &index.name };
                if unique {
                    wanted.insert("unique", true);
                }
                if let Some(partial) = &index.partial {
                    wanted.insert("partialFilterExpression", schema::to_document(partial)?);
                }
                self.run(doc! { "createIndexes": &collection.name, "indexes": [wanted] }, &[]).await?;
            }
            for name in &collection.drop_indexes {
                self.run(doc! { "dropIndexes": &collection.name, "index": name }, &[INDEX_NOT_FOUND]).await?;
            }
            if !collection.rewrite.is_empty() {
                let stages = collection.rewrite.iter().map(schema::to_document).collect::<Result<Vec<_>>>()?;
                self.run(doc! { "aggregate": &collection.name, "pipeline": stages, "cursor": {} }, &[]).await?;
            }
            if let (true, Some(key)) = (self.on_cluster, &collection.shard) {
                self.shard(&collection.name, schema::to_document(key)?).await?;
            }
        }
        let applied = doc! {
            "_id": migration.number, "name": &migration.name, "checksum": &migration.checksum,
            "at": (self.clock.now)(), "sharded": self.on_cluster,
        };
        let migrations = self.database.collection::<Document>(MIGRATIONS);
        let replaced = migrations.replace_one(doc! { "_id": migration.number }, applied).upsert(true).await;
        replaced.map(drop).map_err(|error| failed(&error))
    }

    /// The collection exists with its validator.
    async fn prepare(&self, collection: &schema::CollectionSchema) -> Result<()> {
        let mut rules = Document::new();
        if let Some(validator) = &collection.validator {
            rules.insert("validator", schema::to_document(validator)?);
            rules.extend(doc! { "validationLevel": "strict", "validationAction": "error" });
        }
        let mut create = doc! { "create": &collection.name };
        create.extend(rules.clone());
        self.run(create, &[NAMESPACE_EXISTS]).await?;
        if !rules.is_empty() {
            let mut modify = doc! { "collMod": &collection.name };
            modify.extend(rules);
            self.run(modify, &[]).await?;
        }
        Ok(())
    }

    async fn shard(&self, collection: &str, key: Document) -> Result<()> {
        let admin = self.client.database("admin");
        let name = format!("{}.{collection}", self.database.name());
        admin.run_command(doc! { "enableSharding": self.database.name() }).await.map_err(|error| failed(&error))?;
        let sharded = admin.run_command(doc! { "shardCollection": name, "key": key }).await;
        sharded.map(drop).map_err(|error| failed(&error))
    }

    async fn run(&self, mut command: Document, accepted: &[i32]) -> Result<()> {
        command.insert("writeConcern", super::server::durable_document());
        match self.database.run_command(command).await {
            Ok(_) => Ok(()),
            Err(error) if retry::code(&error).is_some_and(|code| accepted.contains(&code)) => Ok(()),
            Err(error) => Err(failed(&error)),
        }
    }

    async fn applied(&self) -> Result<Vec<Applied>> {
        let migrations = self.database.collection::<Document>(MIGRATIONS);
        let mut cursor = migrations.find(doc! {}).sort(doc! { "_id": 1 }).await.map_err(|error| failed(&error))?;
        let mut found = Vec::new();
        while cursor.advance().await.map_err(|error| failed(&error))? {
            let document = cursor.deserialize_current().map_err(|error| failed(&error))?;
            let text = |key: &str| document.get_str(key).unwrap_or_default().to_owned();
            found.push(Applied {
                number: document.get_i32("_id").map_err(super::documents::damaged)?,
                name: text("name"),
                checksum: text("checksum"),
                at: text("at"),
                sharded: document.get_bool("sharded").unwrap_or(false),
            });
        }
        Ok(found)
    }

    async fn lock(&self, holder: &str) -> Result<()> {
        let deadline = Deadline::after(self.connect_timeout);
        let free = doc! { "_id": LOCK, "holder": "", "until": mongodb::bson::DateTime::from_millis(0) };
        for attempt in 0.. {
            match self.database.collection::<Document>(META).insert_one(&free).await {
                Err(error) if !retry::is_duplicate_key(&error) => return Err(failed(&error)),
                _ => {}
            }
            // The server's clock decides, whatever those of the instances say.
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

    /// Ends when the lock is lost.
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
        let taken = meta.find_one_and_update(filter, update).await.map_err(|error| failed(&error))?;
        Ok(taken.is_some())
    }
}

/// Schema errors keep the server's words: they are about names and options, and someone has to act on them.
fn failed(error: &mongodb::error::Error) -> StoreError {
    match &*error.kind {
        mongodb::error::ErrorKind::Command(command) if !retry::is_away(error) => {
            StoreError::Internal(format!("the database refused a migration: {}", command.message))
        }
        _ => retry::fatal(error),
    }
}
