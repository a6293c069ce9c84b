//! The MongoDB store: records in a replica set or a sharded cluster, which any number of instances use at once.
//!
//! An instance keeps no state except caches (the cache of collections is limited by [`Options::staleness`]), so that it may stop at
//! any time. All changes of a collection are transactions in one order. Each transaction first changes the document of the
//! collection (`latch`). Changes of records that wait at the same moment share a transaction (`commit`), which does the following:
//!
//! 1. It raises the number of commits in the document of the collection. This takes the latch, returns the generations, and draws
//!    the seqs.
//! 2. It reads the records with the ids, the digests and keys, and the pages of the buckets (`postings`, `read`) in one round trip.
//!    For a large batch, it needs one round trip for the ids, one for the pages, and one for every 32 digests or keys that the
//!    cache does not contain. Then it reads the texts of the candidates (`propose`) in one round trip, however many records there
//!    are.
//! 3. It judges each record against the candidates and against the records before it in the batch.
//! 4. It inserts the records with their verdicts and their signatures, and adds entries to the highest page of each bucket, or to a new
//!    page if 128 entries were added to the highest page. It never adds entries to an older page.
//! 5. It commits. After a conflict it begins again at 1; after a commit with an unknown result it commits again; the deadline ends
//!    both (`retry`).
//!
//! A lookup reads in a snapshot: the state at one moment, which a majority has confirmed, never a part of a replacement. Round
//! trips of a lookup: 1 for the collection, digest, keys and blocks (2 if any one match is enough, because the blocks are then read
//! only if the digest has no match; `finds`), 1 more for every 256 records that share any of 32 keys, and 1 for the texts. On a
//! cluster, each of these needs its own round trip, and so does each key with many records.
//!
//! Every generation of the collection is written; only the live generation is looked up. `generations` announces generations,
//! `filing` fills them.
//!
//! A seq is a number in the order of commits, which the transaction draws. Numbers that a batch did not need stay unused. After a majority
//! has confirmed the commit of a seq, the seq always belongs to the same content. `documents` describes the stored documents;
//! `docs/mongodb.md` describes the database for its users.
//!
//! Public functions return boxed futures, so that only this crate compiles them and not every crate that awaits them.

mod admin;
mod changes;
mod commit;
mod counts;
mod decisions;
mod doctor;
mod documents;
mod filing;
mod fill;
mod find;
mod finds;
mod frequencies;
mod full_lists;
mod generations;
mod interned;
mod key_ring;
mod latch;
mod migrate;
mod posting_cache;
mod postings;
mod propose;
mod read;
mod repair;
mod retry;
mod schema;
mod server;
mod spread;
mod sweep;
mod tasks;
mod values;
mod write;

use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::{CollectionOptions, ReadConcern};
use mongodb::{Client, Collection, Database};

use self::retry::{CallDeadline, TransactionRunner};
use self::server::{ServerClient, ServerTopology};
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::{
    CandidateJudge, CollectionSpec, CollectionState, LookupEnd, LookupQuery, LookupResult, RegisterOutcome,
    Registration, RemovalCondition, Result, Seq, SnapshotReader, Store, StoreError, StoreUsage, StoredRecord, request,
};

pub use self::schema::{State, Status};

/// The functions from which a store takes the time and unique names. The store reads no clock itself.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Returns the time in microseconds since 1970.
    pub micros: fn() -> u64,
    /// Returns the time (RFC 3339, UTC).
    pub now: fn() -> String,
    /// Returns a name that no other process uses.
    pub unique_id: fn() -> String,
}

/// Settings of a MongoDB store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The source of the time.
    pub clock: Clock,
    /// Every call is answered within this time, if necessary with [`StoreError::Unavailable`].
    pub deadline: Duration,
    /// The longest time for which the settings of a collection may be answered from memory. Registrations always check the
    /// generation.
    pub staleness: Duration,
    /// The longest time to wait for a server, and for another instance that migrates the schema.
    pub connect_timeout: Duration,
    /// Largest number of connections to each server.
    pub pool: u32,
    /// True if one joined command may read ids, digests, keys and pages, which only saves time. The store never joins on a cluster.
    pub joins: bool,
    /// True if connecting applies pending migrations. Otherwise connecting fails if a migration is pending.
    pub migrate: bool,
}

impl Options {
    /// Returns the default settings.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            deadline: Duration::from_secs(5),
            staleness: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(60),
            pool: 64,
            joins: true,
            migrate: true,
        }
    }
}

/// A store in a MongoDB database. Cloning it is cheap.
#[derive(Clone)]
pub struct MongoStore {
    shared: Arc<SharedStore>,
}

struct SharedStore {
    client: Client,
    database: Database,
    topology: ServerTopology,
    options: Options,
    retry: TransactionRunner,
    cache: admin::CollectionCache,
    commits: commit::CommitQueues,
    latch_queues: latch::LatchQueues,
    posting_caches: posting_cache::PostingCaches,
    full_lists: full_lists::FullLists,
    counts: counts::RecordCounts,
    last_commits: changes::LastCommitsSender,
    /// The unique name of this instance.
    instance: String,
    closed: AtomicBool,
}

impl MongoStore {
    /// Connects, checks the server, and applies pending migrations if [`Options::migrate`] is true.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if no server answers in time, [`StoreError::Internal`] with the remedy if the server is
    /// standalone or too old, or if its schema is wrong.
    pub fn connect<'a>(uri: &'a str, database: &'a str, options: Options) -> BoxFuture<'a, Result<Self>> {
        Box::pin(async move {
            // The wait is shorter than the deadline, so that a call can try a second server before it must answer.
            let wait = (options.deadline / 2).max(Duration::from_millis(200));
            server::check_database(database)?;
            let server = server::client(uri, wait, options.pool).await?;
            let topology = wait_for_server(&server, &options).await?;
            let database = server.client.database(database);
            let store = Self {
                shared: Arc::new(SharedStore {
                    client: server.client,
                    database,
                    topology,
                    retry: TransactionRunner::default(),
                    cache: admin::CollectionCache::default(),
                    commits: commit::CommitQueues::default(),
                    latch_queues: latch::LatchQueues::default(),
                    posting_caches: posting_cache::PostingCaches::default(),
                    full_lists: full_lists::FullLists::default(),
                    counts: counts::RecordCounts::default(),
                    last_commits: changes::LastCommitsSender::default(),
                    instance: (options.clock.unique_id)(),
                    closed: AtomicBool::new(false),
                    options,
                }),
            };
            if store.shared.options.migrate {
                store.migrate().await?;
            } else {
                let status = store.migrations().await?;
                schema::check(&status)?;
                if let Some(pending) = status.iter().find(|status| status.state == State::Pending) {
                    let name = &pending.name;
                    return Err(StoreError::Internal(format!("migration {name} is pending; run doppel migrate")));
                }
            }
            store.finish_drops();
            tokio::spawn(changes::watch_commits(Arc::downgrade(&store.shared)));
            tokio::spawn(server::watch_clock(Arc::downgrade(&store.shared)));
            Ok(store)
        })
    }

    /// Opens a database to show or apply migrations. Applies and checks nothing itself.
    ///
    /// # Errors
    /// As [`MongoStore::connect`], except the errors of the schema.
    pub fn inspect<'a>(uri: &'a str, database: &'a str, options: Options) -> BoxFuture<'a, Result<Schema>> {
        Box::pin(async move {
            let wait = (options.deadline / 2).max(Duration::from_millis(200));
            server::check_database(database)?;
            let server = server::client(uri, wait, options.pool).await?;
            let topology = wait_for_server(&server, &options).await?;
            let database = server.client.database(database);
            Ok(Schema { client: server.client, database, topology, options })
        })
    }

    /// Returns the states of all migrations.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn migrations(&self) -> BoxFuture<'_, Result<Vec<Status>>> {
        Box::pin(async move { self.shared.migrator().status().await })
    }

    /// Applies pending migrations and repairs differences from the schema that this version needs. Returns the names of the applied
    /// migrations and of the repaired collections.
    ///
    /// # Errors
    /// If a migration was edited or is unknown to this build, or if the database refuses.
    pub fn migrate(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async move { self.shared.migrator().apply().await })
    }

    /// Returns the number of transactions that this instance began and the number of their attempts.
    pub fn attempts(&self) -> (u64, u64) {
        self.shared.retry.counts()
    }

    /// Runs a change in a separate task, so that the change is completed even if its caller stops waiting. The deadline of the
    /// request still applies.
    async fn detached<T: Send + 'static>(&self, change: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        self.shared.check_open()?;
        let done = tokio::spawn(request::continued(change)).await;
        done.unwrap_or_else(|_| Err(StoreError::Internal("a change of the store panicked".into())))
    }
}

/// The schema of a database, for the command `doppel migrate`.
pub struct Schema {
    client: Client,
    database: Database,
    topology: ServerTopology,
    options: Options,
}

impl Schema {
    fn migrator(&self) -> migrate::SchemaMigrator<'_> {
        migrator(&self.client, &self.database, self.topology, &self.options)
    }

    /// Returns the states of all migrations.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn status(&self) -> BoxFuture<'_, Result<Vec<Status>>> {
        Box::pin(async move { self.migrator().status().await })
    }

    /// Describes the differences from the schema that this version needs, each with its remedy: validators, indexes and, on a
    /// cluster, shard keys. Returns nothing while a migration is pending, because the migration may remove the differences.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn differences(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async move {
            let migrator = self.migrator();
            if migrator.status().await?.iter().any(|status| status.state == State::Pending) {
                return Ok(Vec::new());
            }
            let found = migrator.differences().await?;
            Ok(found.into_iter().map(|(name, difference)| difference.describe(&name)).collect())
        })
    }

    /// Applies pending migrations and repairs differences from the schema that this version needs. Returns the names of the applied
    /// migrations and of the repaired collections.
    ///
    /// # Errors
    /// If a migration was edited or is unknown to this build, or if the database refuses.
    pub fn apply(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async move { self.migrator().apply().await })
    }
}

fn migrator<'a>(
    client: &'a Client,
    database: &'a Database,
    topology: ServerTopology,
    options: &Options,
) -> migrate::SchemaMigrator<'a> {
    let on_cluster = topology == ServerTopology::Cluster;
    migrate::SchemaMigrator {
        client,
        database,
        on_cluster,
        clock: options.clock,
        connect_timeout: options.connect_timeout,
    }
}

async fn wait_for_server(server: &ServerClient, options: &Options) -> Result<ServerTopology> {
    let deadline = CallDeadline::after(options.connect_timeout);
    for attempt in 0.. {
        match server::inspect(server, options.clock.micros).await {
            Err(StoreError::Unavailable { reason, retry_after_s }) => {
                if retry::pause(attempt, deadline).await.is_err() {
                    return Err(StoreError::Unavailable { reason, retry_after_s });
                }
            }
            done => return done,
        }
    }
    Err(StoreError::Internal("waiting for the server ended without a reason".into()))
}

impl SharedStore {
    fn migrator(&self) -> migrate::SchemaMigrator<'_> {
        migrator(&self.client, &self.database, self.topology, &self.options)
    }

    /// Returns the deadline of a call that begins now: the time that remains of its request.
    fn deadline(&self) -> CallDeadline {
        CallDeadline::of_request(request::began(), self.options.deadline)
    }

    fn documents(&self, name: &str) -> Collection<Document> {
        self.database.collection(name)
    }

    fn raw(&self, name: &str) -> Collection<RawDocumentBuf> {
        self.database.collection(name)
    }

    /// Returns a collection for reads in a session. Its read concern is `snapshot`, because the driver prefers the read concern of the
    /// collection (otherwise `majority`) to that of the session, and the reads of the session would then show different moments. In a
    /// transaction, the read concern of the transaction applies.
    fn in_session(&self, name: &str) -> Collection<RawDocumentBuf> {
        let options = CollectionOptions::builder().read_concern(ReadConcern::snapshot()).build();
        self.database.collection_with_options(name, options)
    }

    fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Unavailable { reason: "the store is closed".into(), retry_after_s: 5 });
        }
        Ok(())
    }

    /// Runs a read, and repeats the read after transient errors until the deadline.
    async fn read<T, F>(&self, deadline: CallDeadline, mut read: impl FnMut() -> F + Send) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, retry::TxnError>> + Send,
    {
        self.check_open()?;
        let mut last = None;
        let mut unconfirmed = None;
        for attempt in 0.. {
            match tokio::time::timeout_at(deadline.at(), read()).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(retry::TxnError::Store(error))) => return Err(error),
                Ok(Err(retry::TxnError::Driver(error))) if retry::is_transient(&error) => last = Some(error),
                Ok(Err(retry::TxnError::Driver(error))) => return Err(retry::fatal(&error)),
                Ok(Err(retry::TxnError::Conflict)) => {}
                Ok(Err(retry::TxnError::Unconfirmed(code))) => unconfirmed = Some(code),
                Err(_) => break,
            }
            if retry::pause(attempt, deadline).await.is_err() {
                break;
            }
        }
        Err(match (unconfirmed, last) {
            (Some(code), _) => retry::unconfirmed(code),
            (None, Some(error)) => retry::fatal(&error),
            (None, None) => retry::no_answer(),
        })
    }
}

#[async_trait]
impl Store for MongoStore {
    async fn create_collection(&self, spec: CollectionSpec) -> Result<Arc<CollectionState>> {
        let shared = Arc::clone(&self.shared);
        self.detached(async move { shared.create_collection(spec).await }).await
    }

    async fn update_collection(&self, spec: CollectionSpec) -> Result<Arc<CollectionState>> {
        let shared = Arc::clone(&self.shared);
        self.detached(async move { shared.update_collection(spec).await }).await
    }

    async fn collection(&self, name: &CollectionName) -> Result<Option<Arc<CollectionState>>> {
        self.shared.check_open()?;
        Ok(self.shared.cached(name).await?.map(|known| Arc::clone(&known.state)))
    }

    async fn collections(&self) -> Result<Vec<Arc<CollectionState>>> {
        self.shared.all_collections().await
    }

    async fn count(&self, name: &CollectionName) -> Result<u64> {
        self.shared.count(name).await
    }

    async fn drop_collection(&self, name: &CollectionName) -> Result<bool> {
        let shared = Arc::clone(&self.shared);
        let name = name.clone();
        self.detached(async move { sweep::drop_collection(shared, &name).await }).await
    }

    async fn register(&self, registration: Registration, judge: Arc<dyn CandidateJudge>) -> Result<RegisterOutcome> {
        let shared = Arc::clone(&self.shared);
        self.detached(async move { shared.register(Arc::new(registration), judge).await }).await
    }

    async fn remove(&self, collection: &CollectionName, id: &RecordId) -> Result<bool> {
        let shared = Arc::clone(&self.shared);
        let collection = collection.clone();
        let id = id.clone();
        self.detached(async move { shared.remove(&collection, &id, None).await }).await
    }

    async fn remove_if(&self, collection: &CollectionName, id: &RecordId, condition: RemovalCondition) -> Result<bool> {
        let shared = Arc::clone(&self.shared);
        let collection = collection.clone();
        let id = id.clone();
        self.detached(async move { shared.remove(&collection, &id, Some(Arc::new(condition))).await }).await
    }

    async fn find(&self, query: LookupQuery, judge: Arc<dyn CandidateJudge>, until: LookupEnd) -> Result<LookupResult> {
        self.shared.find(&query, judge.as_ref(), until).await
    }

    async fn record(&self, collection: &CollectionName, id: &RecordId) -> Result<Option<StoredRecord>> {
        self.shared.record(collection, id).await
    }

    async fn records(&self, collection: &CollectionName, after: Seq, limit: usize) -> Result<Vec<StoredRecord>> {
        self.shared.records(collection, after, limit).await
    }

    async fn records_at(&self, collection: &CollectionName, seqs: &[Seq]) -> Result<Vec<StoredRecord>> {
        self.shared.records_at(collection, seqs).await
    }

    async fn stored_seqs(&self, collection: &CollectionName, seqs: &[Seq]) -> Result<Vec<Seq>> {
        self.shared.stored_seqs(collection, seqs).await
    }

    async fn ready(&self) -> Result<()> {
        let shared = &self.shared;
        shared.check_open()?;
        let checks = async {
            server::check_primary(&shared.database, shared.options.clock.micros).await?;
            match shared.topology {
                ServerTopology::ReplicaSet => Ok(()),
                ServerTopology::Cluster => server::check_shards(&shared.database).await,
            }
        };
        tokio::time::timeout_at(shared.deadline().at(), checks).await.unwrap_or_else(|_| Err(retry::no_answer()))
    }

    async fn usage(&self) -> Result<StoreUsage> {
        self.shared.usage().await
    }

    async fn snapshot(&self) -> Result<Box<dyn SnapshotReader>> {
        Err(StoreError::Unsupported(
            "records in MongoDB are backed up by MongoDB's own means; docs/mongodb.md says how, under Backup",
        ))
    }

    async fn close(&self) -> Result<()> {
        self.shared.closed.store(true, Ordering::Release);
        Ok(())
    }
}

/// Returns the filter of all records of a collection.
fn records_of(number: documents::StoredNumber) -> Document {
    doc! { "_id.c": number }
}
