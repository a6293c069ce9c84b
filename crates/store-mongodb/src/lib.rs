//! The MongoDB store: records on a replica set (or a cluster), any number of instances at once.
//!
//! An instance keeps no state but a cache of collections ([`Options::staleness`]); all of them may be stopped at any
//! instant. All changes of a collection are transactions in one order, each of which begins with its document (`latch`), and those of
//! records that wait at the same moment share one (`commit`):
//!
//! 1. raise the number of commits in the collection's document: that is the latch, says the generations, and draws the seqs;
//! 2. read what stands under the ids, the digests and keys, the pages of the buckets (`postings`, `read`): one round trip; of a large batch
//!    one for the ids, one for the pages, and one for every 32 digests or keys that it does not remember; and the texts that these propose (`propose`): one round trip, however many records;
//! 3. judge each record against these and those before it in the batch;
//! 4. insert the records with their verdicts, their signatures, and push to the highest page of each bucket, or to the next when that
//!    was pushed to 128 times; no older page is reopened;
//! 5. commit. A conflict begins again at 1, an unknown commit is committed again, the deadline ends both (`retry`).
//!
//! Lookups read in a snapshot: one instant, majority committed, never half a replacement. Round trips of a lookup: the collection,
//! digest, keys and blocks 1 (2 where any one match will do: the blocks only if the digest has none; `finds`), 1 more for every 256
//! records that share any of 32 keys, texts 1. On a cluster each of these alone, and each such key.
//!
//! All of it in every generation of the collection; only the live one is looked up. `generations` announces others, `filing`
//! fills them.
//!
//! A seq is a number in the order of commits, drawn by the transaction that commits under it. Numbers that a batch did not need stay
//! unused. Up to a commit that a majority has confirmed, a seq names one content for ever.
//! `documents` shows what is stored; `docs/mongodb.md` is for readers of the database.
//!
//! The futures of public functions are boxed, so that this crate compiles them and not every crate that waits for them.

mod admin;
mod changes;
mod checkpoints;
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
mod write;

use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::options::{CollectionOptions, ReadConcern};
use mongodb::{Client, Collection, Database};

use self::retry::{Deadline, Retry};
use self::server::Topology;
use doppel_core::collection::CollectionName;
use doppel_core::record::RecordId;
use doppel_store::{
    Arrival, CollectionSpec, CollectionState, Found, Judge, Query, Registered, Registration, RemovalCondition, Result,
    Seq, SnapshotReader, Store, StoreError, StoredRecord, Until, Usage, request,
};

pub use self::schema::{State, Status};

/// Where a store takes the time and unique names from; it reads no clock itself.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Microseconds since 1970.
    pub micros: fn() -> u64,
    /// Now (RFC 3339, UTC).
    pub now: fn() -> String,
    /// A name that no other process has.
    pub unique_id: fn() -> String,
}

/// Choices of a MongoDB store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it takes the time from.
    pub clock: Clock,
    /// Within this every call is answered, be it with [`StoreError::Unavailable`].
    pub deadline: Duration,
    /// How long a collection's settings may be answered from memory. Registrations check the generation anyway.
    pub staleness: Duration,
    /// How long to wait for a server when connecting, and for another instance that is migrating.
    pub connect_timeout: Duration,
    /// Most connections to each server.
    pub pool: u32,
    /// Whether ids, digests, keys and pages may be read in one joined command. Clusters never do; elsewhere it only saves time.
    pub joins: bool,
    /// Whether pending migrations are applied when connecting; refused otherwise.
    pub migrate: bool,
}

impl Options {
    /// The usual choices.
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

/// A store in a MongoDB database; see the module. Cheap to clone.
#[derive(Clone)]
pub struct MongoStore {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    database: Database,
    topology: Topology,
    options: Options,
    retry: Retry,
    cache: admin::Cache,
    commits: commit::Commits,
    latch_queues: latch::LatchQueues,
    posting_caches: posting_cache::PostingCaches,
    full_lists: full_lists::FullLists,
    counts: counts::Counts,
    last_commits: changes::LastCommitsSender,
    /// The name of this instance among others.
    instance: String,
    closed: AtomicBool,
}

impl MongoStore {
    /// Connects, checks that the server will do, and applies pending migrations if told to.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when no server answers in time, [`StoreError::Internal`] with the remedy when it is
    /// standalone, too old, or its schema does not fit.
    pub fn connect<'a>(uri: &'a str, database: &'a str, options: Options) -> BoxFuture<'a, Result<Self>> {
        Box::pin(async move {
            // Shorter than the deadline, so that a call can try a second server before it must answer.
            let wait = (options.deadline / 2).max(Duration::from_millis(200));
            server::check_database(database)?;
            let client = server::client(uri, wait, options.pool).await?;
            let topology = wait_for_server(&client, &options).await?;
            let (client, _) = client;
            let database = client.database(database);
            let store = Self {
                shared: Arc::new(Shared {
                    client,
                    database,
                    topology,
                    retry: Retry::default(),
                    cache: admin::Cache::default(),
                    commits: commit::Commits::default(),
                    latch_queues: latch::LatchQueues::default(),
                    posting_caches: posting_cache::PostingCaches::default(),
                    full_lists: full_lists::FullLists::default(),
                    counts: counts::Counts::default(),
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

    /// Opens a database for [`MongoStore::migrations`] and [`MongoStore::migrate`] alone: nothing is applied or checked.
    ///
    /// # Errors
    /// As [`MongoStore::connect`], the schema apart.
    pub fn inspect<'a>(uri: &'a str, database: &'a str, options: Options) -> BoxFuture<'a, Result<Schema>> {
        Box::pin(async move {
            let wait = (options.deadline / 2).max(Duration::from_millis(200));
            server::check_database(database)?;
            let client = server::client(uri, wait, options.pool).await?;
            let topology = wait_for_server(&client, &options).await?;
            let (client, _) = client;
            let database = client.database(database);
            Ok(Schema { client, database, topology, options })
        })
    }

    /// How the migrations stand.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn migrations(&self) -> BoxFuture<'_, Result<Vec<Status>>> {
        Box::pin(async move { self.shared.migrator().status().await })
    }

    /// Applies pending migrations and mends what differs from the schema that this version needs; the names of what was applied or
    /// mended.
    ///
    /// # Errors
    /// When a migration was edited, or is unknown to this build, or the database refuses.
    pub fn migrate(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async move { self.shared.migrator().apply().await })
    }

    /// Transactions begun by this instance, and the attempts they took.
    pub fn attempts(&self) -> (u64, u64) {
        self.shared.retry.counts()
    }

    /// Runs a change in a task of its own: a caller that stops waiting does not stop it half-way. The deadline stays that of the request.
    async fn detached<T: Send + 'static>(&self, change: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        self.shared.check_open()?;
        let done = tokio::spawn(request::continued(change)).await;
        done.unwrap_or_else(|_| Err(StoreError::Internal("a change of the store panicked".into())))
    }
}

/// The schema of a database, for `doppel migrate`.
pub struct Schema {
    client: Client,
    database: Database,
    topology: Topology,
    options: Options,
}

impl Schema {
    fn migrator(&self) -> migrate::Migrator<'_> {
        migrator(&self.client, &self.database, self.topology, &self.options)
    }

    /// How the migrations stand.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn status(&self) -> BoxFuture<'_, Result<Vec<Status>>> {
        Box::pin(async move { self.migrator().status().await })
    }

    /// What differs from the schema that this version needs, and what mends it: validators, indexes and, on a cluster, shard keys. Empty
    /// before the first migration, since everything is pending then.
    ///
    /// # Errors
    /// When the database cannot be read.
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

    /// Applies pending migrations and mends what differs from the schema that this version needs; the names of what was applied or
    /// mended.
    ///
    /// # Errors
    /// When a migration was edited, or is unknown to this build, or the database refuses.
    pub fn apply(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async move { self.migrator().apply().await })
    }
}

fn migrator<'a>(
    client: &'a Client,
    database: &'a Database,
    topology: Topology,
    options: &Options,
) -> migrate::Migrator<'a> {
    let on_cluster = topology == Topology::Cluster;
    migrate::Migrator { client, database, on_cluster, clock: options.clock, connect_timeout: options.connect_timeout }
}

async fn wait_for_server(client: &(Client, bool), options: &Options) -> Result<Topology> {
    let deadline = Deadline::after(options.connect_timeout);
    for attempt in 0.. {
        match server::inspect(client, options.clock.micros).await {
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

impl Shared {
    fn migrator(&self) -> migrate::Migrator<'_> {
        migrator(&self.client, &self.database, self.topology, &self.options)
    }

    /// Until when the call that begins now must have answered: as long as is left of its request.
    fn deadline(&self) -> Deadline {
        Deadline::of_request(request::began(), self.options.deadline)
    }

    fn documents(&self, name: &str) -> Collection<Document> {
        self.database.collection(name)
    }

    fn raw(&self, name: &str) -> Collection<RawDocumentBuf> {
        self.database.collection(name)
    }

    /// For reading in a session: in a snapshot all reads show one instant only where the collection itself says so, since the
    /// driver lets what a collection says of reading (here `majority`) go before what the session says. In a transaction, what the
    /// transaction says counts.
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

    /// Runs a read under the deadline, again and again while it fails for a reason that passes.
    async fn read<T, F>(&self, deadline: Deadline, mut read: impl FnMut() -> F + Send) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, retry::TxnError>> + Send,
    {
        self.check_open()?;
        let (mut last, mut unconfirmed) = (None, None);
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
        let (shared, name) = (Arc::clone(&self.shared), name.clone());
        self.detached(async move { sweep::drop_collection(shared, &name).await }).await
    }

    async fn register(&self, registration: Registration, judge: Arc<dyn Judge>) -> Result<Registered> {
        let shared = Arc::clone(&self.shared);
        self.detached(async move { shared.register(Arc::new(registration), judge).await }).await
    }

    async fn remove(&self, collection: &CollectionName, id: &RecordId) -> Result<bool> {
        let (shared, collection, id) = (Arc::clone(&self.shared), collection.clone(), id.clone());
        self.detached(async move { shared.remove(&collection, &id, None).await }).await
    }

    async fn remove_if(&self, collection: &CollectionName, id: &RecordId, condition: RemovalCondition) -> Result<bool> {
        let (shared, collection, id) = (Arc::clone(&self.shared), collection.clone(), id.clone());
        self.detached(async move { shared.remove(&collection, &id, Some(Arc::new(condition))).await }).await
    }

    async fn find(&self, query: Query, judge: Arc<dyn Judge>, until: Until) -> Result<Found> {
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

    async fn arrivals(&self, collection: &CollectionName, first: Seq, end: Seq) -> Result<Vec<Arrival>> {
        self.shared.arrivals(collection, first, end).await
    }

    async fn ready(&self) -> Result<()> {
        let shared = &self.shared;
        shared.check_open()?;
        let checks = async {
            server::check_primary(&shared.database, shared.options.clock.micros).await?;
            match shared.topology {
                Topology::ReplicaSet => Ok(()),
                Topology::Cluster => server::check_shards(&shared.database).await,
            }
        };
        tokio::time::timeout_at(shared.deadline().at(), checks).await.unwrap_or_else(|_| Err(retry::no_answer()))
    }

    async fn usage(&self) -> Result<Usage> {
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

/// The filter of all records of a collection.
fn records_of(number: documents::Number) -> Document {
    doc! { "_id.c": number }
}
