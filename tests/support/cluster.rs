//! A real sharded cluster of two shards for tests, with a router of the tests instead of mongos.
//!
//! The config server, the shards, `shardCollection`, snapshots at one cluster time and two-phase commits are MongoDB's. [`CommandRouter`]
//! understands the wire protocol and decides which shard gets which command. Its placement rule is not that of mongos: [`hash`]
//! decides the shard of documents of a collection with a hashed key; ranges of other keys begin on the first shard and are split and moved
//! on command. A collection that has documents when it is sharded stays on the first shard until [`CommandRouter::spread`] moves its documents, as
//! on a real cluster before the balancer runs. Shards receive commands without versions: stale routing itself is not tested, but the errors
//! that a router returns for it are.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use mongodb::bson::{Bson, Document, Timestamp, doc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::RwLock;

use crate::mongod::MongodProcess;

const SHARDS: usize = 2;
const OP_REPLY: i32 = 1;
const OP_QUERY: i32 = 2004;
const OP_MSG: i32 = 2013;
/// The largest number of bytes of documents in one answer to a client, well below the 16 MB of a document.
const MOST_ANSWER_BYTES: usize = 8 << 20;
/// Number of documents that a shard returns at once.
const SHARD_BATCH: i32 = 100_000;
/// Number of committed transactions that are remembered, so that a commit may be repeated.
const MOST_FINISHED: usize = 10_000;
/// Commands that define collections and go to every shard that holds the collection.
const DEFINITIONS: [&str; 6] = ["create", "collMod", "createIndexes", "dropIndexes", "drop", "dropDatabase"];

/// A config server, two shards and a router.
pub struct ShardedCluster {
    config: MongodProcess,
    shards: [MongodProcess; SHARDS],
    router: CommandRouter,
}

impl ShardedCluster {
    /// Starts an empty cluster.
    pub async fn start() -> Self {
        let first = MongodProcess::new();
        first.start(&["--shardsvr", "--replSet", "shard0"]);
        first.wait().await;
        first.initiate("shard0", doc! {}).await;
        Self::around(first).await
    }

    /// Turns a replica set of one member with the name `shard0` into the first shard of a cluster. The member is restarted.
    pub async fn from_set(member: MongodProcess) -> Self {
        member.kill();
        member.start(&["--shardsvr", "--replSet", "shard0"]);
        member.wait_for_primary().await;
        Self::around(member).await
    }

    async fn around(first: MongodProcess) -> Self {
        let config = MongodProcess::new();
        let second = MongodProcess::new();
        config.start(&["--configsvr", "--replSet", "config"]);
        second.start(&["--shardsvr", "--replSet", "shard1"]);
        for member in [&config, &second] {
            member.wait().await;
        }
        config.initiate("config", doc! { "configsvr": true }).await;
        second.initiate("shard1", doc! {}).await;
        for (number, port) in [(0, first.port), (1, second.port)] {
            let shard = format!("shard{number}/127.0.0.1:{port}");
            let add = doc! { "_configsvrAddShard": shard, "writeConcern": { "w": "majority" } };
            config.ask(add).await.expect("the shard is added");
        }
        let router = CommandRouter::start([first.port, second.port], config.port).await;
        Self { config, shards: [first, second], router }
    }

    /// Returns the URI for doppel.
    pub fn uri(&self) -> String {
        format!("mongodb://127.0.0.1:{}/", self.router.port)
    }

    pub fn router(&self) -> &CommandRouter {
        &self.router
    }

    /// Kills a shard, as a power failure would.
    pub fn kill(&self, shard: usize) {
        self.shards[shard].kill();
    }

    /// Starts a killed shard again and waits until it accepts writes.
    pub async fn restart(&self, shard: usize) {
        self.shards[shard].start(&["--shardsvr", "--replSet", &format!("shard{shard}")]);
        self.shards[shard].wait_for_primary().await;
    }

    /// Returns the number of documents of a collection on each shard.
    pub async fn documents(&self, database: &str, collection: &str) -> [u64; SHARDS] {
        let mut all = [0; SHARDS];
        for (shard, count) in self.shards.iter().zip(&mut all) {
            let documents = shard.client().await.database(database).collection::<Document>(collection);
            *count = documents.count_documents(doc! {}).await.expect("a count");
        }
        all
    }
}

/// The placement of the documents of a sharded collection.
#[derive(Clone, Debug)]
enum DocumentPlacement {
    /// All documents are on the first shard.
    First,
    /// [`hash`] decides the shard.
    Hashed,
    /// A key of several numbers decides: the lowest key of each range except the first, and the shard of the range.
    Ranges { fields: Vec<String>, first: usize, bounds: BTreeMap<Vec<i64>, usize> },
}

#[derive(Clone, Debug)]
struct ShardedCollection {
    key: Document,
    placement: DocumentPlacement,
    /// Time of the last move. Older snapshots and transactions do not know the present places of the documents.
    since: Timestamp,
}

/// A transaction on the shards that take part in it.
#[derive(Clone, Debug, Default)]
struct ShardTransaction {
    participants: Vec<usize>,
    read_concern: Document,
    at: Option<Timestamp>,
}

/// Identifies a transaction: the session and the number of the transaction.
type TransactionKey = (Vec<u8>, i64);

/// The route of a command: its name, its collection, and the number of shards, or `unsharded`.
pub type CommandRoute = (String, String, String);

#[derive(Default)]
struct ClientTransactions {
    open: HashMap<TransactionKey, ShardTransaction>,
    finished: VecDeque<(TransactionKey, ShardTransaction)>,
}

struct RouterState {
    shards: [u16; SHARDS],
    config: u16,
    sharded: Mutex<HashMap<String, ShardedCollection>>,
    versions: Mutex<HashMap<String, Document>>,
    /// The latest cluster time that was seen, with its signature.
    clock: Mutex<(Timestamp, Option<Document>)>,
    transactions: Mutex<ClientTransactions>,
    cursors: Mutex<HashMap<i64, VecDeque<Document>>>,
    next_cursor: AtomicI64,
    routes: Mutex<BTreeMap<CommandRoute, u64>>,
    /// Commands lock it for reading; a move of documents locks it for writing.
    moving: RwLock<()>,
}

/// Listens on the loopback interface and routes commands. Dropping this value stops the router.
pub struct CommandRouter {
    port: u16,
    state: Arc<RouterState>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for CommandRouter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl CommandRouter {
    async fn start(shards: [u16; SHARDS], config: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let zero = Timestamp { time: 1, increment: 1 };
        let state = Arc::new(RouterState {
            shards,
            config,
            sharded: Mutex::default(),
            versions: Mutex::default(),
            clock: Mutex::new((zero, None)),
            transactions: Mutex::default(),
            cursors: Mutex::default(),
            next_cursor: AtomicI64::new(1),
            routes: Mutex::default(),
            moving: RwLock::default(),
        });
        let accepting = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&accepting);
                tokio::spawn(async move {
                    // A client closes its connection, or a shard is gone: both sides connect again.
                    let _ = serve(&state, stream).await;
                });
            }
        });
        Self { port, state, task }
    }

    /// Returns how often each kind of command took each route since the start or the last call.
    pub fn take_routes(&self) -> BTreeMap<CommandRoute, u64> {
        std::mem::take(&mut *lock(&self.state.routes))
    }

    /// Moves the documents of a collection with a hashed key to their shards. Aborts open transactions.
    pub async fn spread(&self, database: &str, collection: &str) {
        let _alone = self.state.moving.write().await;
        let mut connections = ShardConnections::default();
        self.state
            .move_documents(&mut connections, &format!("{database}.{collection}"), &DocumentPlacement::Hashed)
            .await;
    }
}

/// The connections of one client to the shards and to the config server (the last one). They are opened when they are needed.
#[derive(Default)]
struct ShardConnections([Option<TcpStream>; SHARDS + 1]);

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no panic before")
}

/// Returns the shard of a document whose hashed key is `value`: FNV-1a over its encoding, with mixed bits, so that the last byte of a
/// text also decides.
fn hash(value: &Bson) -> usize {
    let bytes = doc! { "k": value.clone() }.to_vec().expect("a key can be encoded");
    let hashed = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (hashed ^ (hashed >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) as usize % SHARDS
}

fn is_ok(reply: &Document) -> bool {
    match reply.get("ok") {
        Some(Bson::Double(ok)) => *ok == 1.0,
        Some(Bson::Int32(ok)) => *ok == 1,
        _ => false,
    }
}

fn number(value: Option<&Bson>) -> i64 {
    match value {
        Some(Bson::Int32(value)) => i64::from(*value),
        Some(Bson::Int64(value)) => *value,
        Some(Bson::Double(value)) => *value as i64,
        _ => 0,
    }
}

/// Returns the place of a value in an order of numbers or of texts.
fn order(value: Option<&Bson>) -> (i64, String) {
    (number(value), value.and_then(Bson::as_str).unwrap_or_default().to_owned())
}

fn error(code: i32, name: &str, message: &str) -> Document {
    doc! { "ok": 0.0, "code": code, "codeName": name, "errmsg": message }
}

/// Returns the error of a real router for a shard without a primary.
fn no_shard() -> Document {
    error(133, "FailedToSatisfyReadPreference", "no primary of the shard answers")
}

/// Returns the error of a real router if documents have moved since a transaction or a snapshot began.
fn moved() -> Document {
    let mut error = error(250, "StaleChunkHistory", "documents were moved since");
    error.insert("errorLabels", ["TransientTransactionError"]);
    error
}

impl DocumentPlacement {
    /// Returns the shards that have documents that `filter` may find.
    fn shards(&self, filter: &Document) -> BTreeSet<usize> {
        match self {
            Self::First => BTreeSet::from([0]),
            Self::Hashed => {
                values(filter.get("_id")).map_or_else(all_shards, |ids| ids.iter().map(|id| hash(id)).collect())
            }
            Self::Ranges { fields, first, bounds } => {
                let mut keys = vec![Vec::new()];
                for field in fields {
                    let Some(values) = values(filter.get(field)) else {
                        // For a prefix of the key, returns the shards of all ranges that may contain the prefix.
                        return match keys.as_slice() {
                            [prefix] if !prefix.is_empty() => {
                                let below =
                                    bounds.range(..prefix.clone()).next_back().map_or(*first, |(_, shard)| *shard);
                                let within = bounds.iter().filter(|(bound, _)| bound.starts_with(prefix));
                                within.map(|(_, shard)| *shard).chain([below]).collect()
                            }
                            _ => all_shards(),
                        };
                    };
                    keys = keys.iter().flat_map(|key| longer_keys(key, &values)).collect();
                }
                let ranges = keys.into_iter().map(|key| bounds.range(..=key).next_back());
                ranges.map(|range| range.map_or(*first, |(_, shard)| *shard)).collect()
            }
        }
    }
}

fn all_shards() -> BTreeSet<usize> {
    (0..SHARDS).collect()
}

/// Returns `key` with each of `values` behind it.
fn longer_keys(key: &[i64], values: &[&Bson]) -> Vec<Vec<i64>> {
    values.iter().map(|value| [key, &[number(Some(*value))]].concat()).collect()
}

/// Returns the values that a filter allows for a field, if it lists them.
fn values(condition: Option<&Bson>) -> Option<Vec<&Bson>> {
    match condition? {
        Bson::Document(operators) if operators.keys().any(|key| key.starts_with('$')) => {
            operators.get_array("$in").ok().map(|values| values.iter().collect())
        }
        value => Some(vec![value]),
    }
}

/// Returns the key of a transaction, if the command belongs to a transaction.
fn transaction_key(command: &Document) -> Option<TransactionKey> {
    if command.get_bool("autocommit").unwrap_or(true) {
        return None;
    }
    let Some(Bson::Binary(session)) = command.get_document("lsid").ok()?.get("id") else { return None };
    Some((session.bytes.clone(), number(command.get("txnNumber"))))
}

impl RouterState {
    /// Sends a command to a shard and reads its answer. The number after the last shard means the config server.
    async fn ask(
        &self,
        connections: &mut ShardConnections,
        shard: usize,
        mut command: Document,
    ) -> io::Result<Document> {
        {
            let clock = lock(&self.clock);
            if let (false, Some(time)) = (shard == SHARDS, &clock.1) {
                command.insert("$clusterTime", time.clone());
            }
        }
        let mut stream = match connections.0[shard].take() {
            Some(stream) => stream,
            None => {
                let port = if shard == SHARDS { self.config } else { self.shards[shard] };
                let stream = TcpStream::connect(("127.0.0.1", port)).await?;
                stream.set_nodelay(true)?;
                stream
            }
        };
        let mut body = vec![0, 0, 0, 0, 0];
        command.to_writer(&mut body).map_err(io::Error::other)?;
        send(&mut stream, 0, OP_MSG, &body).await?;
        let (_, _, _, body) = receive(&mut stream).await?;
        let reply = Document::from_reader(&body[5..]).map_err(io::Error::other)?;
        // A connection is used again only if its last answer was read completely.
        connections.0[shard] = Some(stream);
        if let (false, Ok(time)) = (shard == SHARDS, reply.get_document("$clusterTime")) {
            let mut clock = lock(&self.clock);
            if let Ok(at) = time.get_timestamp("clusterTime")
                && at > clock.0
            {
                *clock = (at, Some(time.clone()));
            }
        }
        Ok(reply)
    }

    /// Works like [`RouterState::ask`] for several shards at once. Returns the answers by shard.
    async fn ask_all(
        &self,
        connections: &mut ShardConnections,
        commands: BTreeMap<usize, Document>,
    ) -> BTreeMap<usize, Document> {
        let mut taken = Vec::new();
        for (shard, command) in commands {
            let mut own = ShardConnections::default();
            own.0[shard] = connections.0[shard].take();
            taken.push((shard, own, command));
        }
        let asked = taken.into_iter().map(|(shard, mut own, command)| async move {
            let reply = self.ask(&mut own, shard, command).await;
            (shard, own, reply)
        });
        let mut replies = BTreeMap::new();
        for (shard, mut own, reply) in join_all(asked).await {
            connections.0[shard] = own.0[shard].take();
            replies.insert(shard, reply.unwrap_or_else(|_| no_shard()));
        }
        replies
    }

    /// Returns all documents that a shard finds for a find or an aggregation, and its first answer. If this answer is an error, there are
    /// no documents.
    async fn rows(
        &self,
        connections: &mut ShardConnections,
        shard: usize,
        command: Document,
    ) -> io::Result<(Vec<Document>, Document)> {
        let belongs: Document = ["lsid", "txnNumber", "autocommit", "$db"]
            .into_iter()
            .filter_map(|field| Some((field.to_owned(), command.get(field)?.clone())))
            .collect();
        let collection =
            command.iter().next().and_then(|(_, name)| name.as_str()).unwrap_or("$cmd.aggregate").to_owned();
        let first = self.ask(connections, shard, command).await?;
        let mut rows = Vec::new();
        let mut reply = first.clone();
        loop {
            if !is_ok(&reply) {
                return Ok((Vec::new(), reply));
            }
            let Ok(cursor) = reply.get_document("cursor") else { return Ok((rows, first)) };
            let batch = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch"));
            rows.extend(batch.into_iter().flatten().filter_map(Bson::as_document).cloned());
            let id = number(cursor.get("id"));
            if id == 0 {
                return Ok((rows, first));
            }
            let mut more = doc! { "getMore": id, "collection": &collection };
            more.extend(belongs.clone());
            reply = self.ask(connections, shard, more).await?;
        }
    }

    fn placement(&self, database: &str, collection: &str) -> Option<ShardedCollection> {
        lock(&self.sharded).get(&format!("{database}.{collection}")).cloned()
    }

    fn note(&self, command: &str, collection: &str, sharded: bool, shards: usize) {
        let route = if sharded { format!("{shards} of {SHARDS}") } else { "unsharded".to_owned() };
        *lock(&self.routes).entry((command.to_owned(), collection.to_owned(), route)).or_default() += 1;
    }

    /// Returns the command for the shard. In a transaction the first command to a shard starts the transaction there, at the cluster time
    /// that all shards of the transaction share.
    fn prepared(&self, shard: usize, command: &Document) -> Document {
        let mut command = command.clone();
        let Some(key) = transaction_key(&command) else { return command };
        let latest = lock(&self.clock).0;
        let mut transactions = lock(&self.transactions);
        let transaction = transactions.open.entry(key).or_default();
        command.remove("startTransaction");
        let after =
            command.get_document("readConcern").ok().and_then(|concern| concern.get_timestamp("afterClusterTime").ok());
        if let Ok(concern) = command.get_document("readConcern") {
            transaction.read_concern = concern.clone();
            transaction.read_concern.remove("afterClusterTime");
        }
        command.remove("readConcern");
        if !transaction.participants.contains(&shard) {
            let at = *transaction.at.get_or_insert_with(|| after.map_or(latest, |after| after.max(latest)));
            let mut concern = transaction.read_concern.clone();
            concern.insert("level", "snapshot");
            concern.insert("atClusterTime", at);
            command.insert("readConcern", concern);
            command.insert("startTransaction", true);
            if transaction.participants.is_empty() {
                command.insert("coordinator", true);
            }
            transaction.participants.push(shard);
        }
        command
    }

    /// True if a transaction or a snapshot is older than the last move of documents of the collection.
    fn is_stale(&self, command: &Document, sharded: &ShardedCollection) -> bool {
        let own =
            transaction_key(command).and_then(|key| lock(&self.transactions).open.get(&key).and_then(|own| own.at));
        let snapshot =
            command.get_document("readConcern").ok().and_then(|concern| concern.get_timestamp("atClusterTime").ok());
        own.or(snapshot).is_some_and(|at| at < sharded.since)
    }

    async fn abort_all(&self, connections: &mut ShardConnections) -> io::Result<()> {
        let open: Vec<(TransactionKey, ShardTransaction)> = lock(&self.transactions).open.clone().into_iter().collect();
        for ((session, number), transaction) in open {
            for shard in transaction.participants {
                let id =
                    mongodb::bson::Binary { subtype: mongodb::bson::spec::BinarySubtype::Uuid, bytes: session.clone() };
                let abort = doc! {
                    "abortTransaction": 1, "lsid": { "id": id }, "txnNumber": number, "autocommit": false, "$db": "admin",
                };
                self.ask(connections, shard, abort).await?;
            }
        }
        Ok(())
    }

    /// Creates a collection on the second shard with the options and indexes that it has on the first shard.
    async fn copy_definition(
        &self,
        connections: &mut ShardConnections,
        database: &str,
        collection: &str,
    ) -> io::Result<()> {
        let list = doc! { "listCollections": 1, "filter": { "name": collection }, "$db": database };
        let (found, _) = self.rows(connections, 0, list).await?;
        let mut create = doc! { "create": collection };
        if let Some(options) = found.first().and_then(|found| found.get_document("options").ok()) {
            create.extend(options.clone());
        }
        create.insert("$db", database);
        self.ask(connections, 1, create).await?;
        let (indexes, _) = self.rows(connections, 0, doc! { "listIndexes": collection, "$db": database }).await?;
        let indexes: Vec<Document> =
            indexes.into_iter().filter(|index| index.get_str("name").is_ok_and(|name| name != "_id_")).collect();
        if !indexes.is_empty() {
            let create = doc! { "createIndexes": collection, "indexes": indexes, "$db": database };
            let reply = self.ask(connections, 1, create).await?;
            assert!(is_ok(&reply), "{reply}");
        }
        Ok(())
    }

    async fn shard_collection(&self, connections: &mut ShardConnections, command: &Document) -> io::Result<Document> {
        let name = command.get_str("shardCollection").unwrap_or_default().to_owned();
        let (database, collection) = name.split_once('.').unwrap_or((&name, ""));
        let key = command.get_document("key").cloned().unwrap_or_default();
        let any = doc! { "find": collection, "filter": {}, "limit": 1, "$db": database };
        let is_empty = self.rows(connections, 0, any).await?.0.is_empty();
        let version = lock(&self.versions).get(database).cloned().unwrap_or_default();
        let create = doc! {
            "_shardsvrCreateCollection": collection, "shardKey": key.clone(), "databaseVersion": version,
            "writeConcern": { "w": "majority" }, "$db": database,
        };
        let reply = self.ask(connections, 0, create).await?;
        if !is_ok(&reply) {
            return Ok(reply);
        }
        let is_hashed = key.values().any(|kind| kind.as_str() == Some("hashed"));
        let placement = match (is_hashed, is_empty) {
            (true, true) => DocumentPlacement::Hashed,
            (true, false) => DocumentPlacement::First,
            (false, _) => {
                DocumentPlacement::Ranges { fields: key.keys().cloned().collect(), first: 0, bounds: BTreeMap::new() }
            }
        };
        let since = Timestamp { time: 1, increment: 1 };
        lock(&self.sharded).entry(name).or_insert(ShardedCollection { key, placement, since });
        Ok(doc! { "ok": 1.0 })
    }

    /// Moves the documents of a collection to the shards of `target`, and stores the new placement. Aborts open transactions. No command
    /// may run meanwhile.
    async fn move_documents(&self, connections: &mut ShardConnections, name: &str, target: &DocumentPlacement) {
        let (database, collection) = name.split_once('.').expect("a database and a collection");
        self.abort_all(connections).await.expect("transactions are aborted");
        self.copy_definition(connections, database, collection).await.expect("the collection is defined");
        for from in 0..SHARDS {
            let all = doc! { "find": collection, "filter": {}, "batchSize": SHARD_BATCH, "$db": database };
            let (rows, _) = self.rows(connections, from, all).await.expect("the shard answers");
            let moved: Vec<Document> = rows.into_iter().filter(|row| !target.shards(row).contains(&from)).collect();
            for moved in moved.chunks(1_000) {
                let ids: Vec<Bson> = moved.iter().filter_map(|row| row.get("_id").cloned()).collect();
                let concern = doc! { "w": "majority" };
                let insert = doc! {
                    "insert": collection, "documents": moved.to_vec(), "writeConcern": &concern, "$db": database,
                };
                let delete = doc! {
                    "delete": collection, "deletes": [{ "q": { "_id": { "$in": ids } }, "limit": 0 }],
                    "writeConcern": concern, "$db": database,
                };
                for (shard, command) in [(SHARDS - 1 - from, insert), (from, delete)] {
                    let reply = self.ask(connections, shard, command).await.expect("the shard answers");
                    assert!(is_ok(&reply) && !reply.contains_key("writeErrors"), "{reply}");
                }
            }
        }
        let since = lock(&self.clock).0;
        if let Some(sharded) = lock(&self.sharded).get_mut(name) {
            (sharded.placement, sharded.since) = (target.clone(), since);
        }
    }

    /// Moves a range of documents to another shard.
    async fn move_range(&self, connections: &mut ShardConnections, command: &Document) -> Document {
        let _alone = self.moving.write().await;
        let target = command.get_str("to").ok().and_then(|name| name.strip_prefix("shard")?.parse().ok()).unwrap_or(0);
        let name = command.get_str("moveChunk").unwrap_or_default().to_owned();
        let before = lock(&self.sharded).get(&name).map(|sharded| sharded.placement.clone());
        let reply = self.change_ranges(command, Some(target));
        let after = lock(&self.sharded).get(&name).map(|sharded| sharded.placement.clone());
        if let (true, Some(before), Some(after)) = (is_ok(&reply), before, after) {
            if let Some(sharded) = lock(&self.sharded).get_mut(&name) {
                sharded.placement = before;
            }
            self.move_documents(connections, &name, &after).await;
        }
        reply
    }

    /// Splits a range, or assigns it to another shard.
    fn change_ranges(&self, command: &Document, target: Option<usize>) -> Document {
        let Some((_, Bson::String(name))) = command.iter().next() else { return error(9, "FailedToParse", "no name") };
        let mut sharded = lock(&self.sharded);
        let Some(ShardedCollection { placement: DocumentPlacement::Ranges { fields, first, bounds }, .. }) =
            sharded.get_mut(name)
        else {
            return error(118, "NamespaceNotSharded", "no ranges");
        };
        let at = command.get_document("middle").or_else(|_| command.get_document("find"));
        let Ok(at) = at else { return error(9, "FailedToParse", "no key") };
        let at: Vec<i64> = fields.iter().map(|field| number(at.get(field))).collect();
        let owner = bounds.range(..=at.clone()).next_back().map(|(bound, shard)| (bound.clone(), *shard));
        match (target, owner) {
            (None, owner) => _ = bounds.entry(at).or_insert(owner.map_or(*first, |(_, shard)| shard)),
            (Some(target), Some((bound, _))) => _ = bounds.insert(bound, target),
            (Some(target), None) => *first = target,
        }
        doc! { "ok": 1.0 }
    }

    /// Commits or aborts on all shards of the transaction. For more than one shard, it uses the two-phase commit of the server.
    async fn end_transaction(
        &self,
        connections: &mut ShardConnections,
        is_commit: bool,
        command: Document,
    ) -> io::Result<Document> {
        let Some(key) = transaction_key(&command) else { return Ok(error(251, "NoSuchTransaction", "no transaction")) };
        let transaction = {
            let transactions = lock(&self.transactions);
            let finished =
                || transactions.finished.iter().find(|(other, _)| *other == key).map(|(_, known)| known.clone());
            transactions.open.get(&key).cloned().or_else(finished)
        };
        let Some(transaction) = transaction.filter(|transaction| !transaction.participants.is_empty()) else {
            let mut gone = error(251, "NoSuchTransaction", "the transaction is not known");
            gone.insert("errorLabels", ["TransientTransactionError"]);
            return Ok(if is_commit {
                gone
            } else {
                doc! { "ok": 1.0 }
            });
        };
        let mut command = command;
        command.remove("startTransaction");
        let reply = if !is_commit {
            let all = transaction.participants.iter().map(|shard| (*shard, command.clone())).collect();
            self.ask_all(connections, all).await;
            doc! { "ok": 1.0 }
        } else {
            let shards = transaction.participants.len();
            self.note("commitTransaction", "", true, shards);
            if shards > 1 {
                command.remove("commitTransaction");
                let names = transaction.participants.iter().map(|shard| doc! { "shardId": format!("shard{shard}") });
                let mut two_phase =
                    doc! { "coordinateCommitTransaction": 1, "participants": names.collect::<Vec<_>>() };
                two_phase.extend(command);
                command = two_phase;
            }
            let shard = transaction.participants[0];
            self.ask_all(connections, BTreeMap::from([(shard, command)])).await.remove(&shard).unwrap_or_else(no_shard)
        };
        if is_ok(&reply) {
            let mut transactions = lock(&self.transactions);
            if transactions.open.remove(&key).is_some() {
                transactions.finished.push_back((key, transaction));
            }
            if transactions.finished.len() > MOST_FINISHED {
                transactions.finished.pop_front();
            }
        }
        Ok(reply)
    }

    /// Returns an answer with the first of `rows`. The others wait for getMore.
    fn answer(
        &self,
        name: &str,
        rows: Vec<Document>,
        first: &Document,
        at: Option<Timestamp>,
        batch: &str,
        id: i64,
    ) -> Document {
        let mut rows = VecDeque::from(rows);
        let mut sent = Vec::new();
        let mut bytes = 0;
        while let Some(row) = rows.front() {
            bytes += row.to_vec().map_or(0, |row| row.len());
            if !sent.is_empty() && bytes > MOST_ANSWER_BYTES {
                break;
            }
            sent.extend(rows.pop_front());
        }
        let id = if rows.is_empty() { 0 } else { id };
        if id != 0 {
            lock(&self.cursors).insert(id, rows);
        }
        let mut cursor = doc! { batch: sent, "id": id, "ns": name };
        if let Some(at) = at {
            cursor.insert("atClusterTime", at);
        }
        let mut reply = first.clone();
        reply.insert("cursor", cursor);
        reply
    }

    async fn find(
        &self,
        connections: &mut ShardConnections,
        name: &str,
        mut command: Document,
    ) -> io::Result<Document> {
        let database = command.get_str("$db").unwrap_or_default().to_owned();
        let collection = command.get_str(name).unwrap_or_default().to_owned();
        let sharded = self.placement(&database, &collection);
        let pipeline = command.get_array("pipeline").ok().cloned().unwrap_or_default();
        let matched = pipeline.first().and_then(Bson::as_document).and_then(|stage| stage.get_document("$match").ok());
        let filter = command.get_document("filter").ok().or(matched).cloned().unwrap_or_default();
        let shards = sharded.as_ref().map_or_else(|| BTreeSet::from([0]), |sharded| sharded.placement.shards(&filter));
        self.note(name, &collection, sharded.is_some(), shards.len());
        if let Some(sharded) = &sharded
            && self.is_stale(&command, sharded)
        {
            return Ok(moved());
        }
        let sort = command.get_document("sort").ok().cloned().unwrap_or_default();
        if name == "find" {
            command.insert("batchSize", SHARD_BATCH);
            if let Ok(projection) = command.get_document_mut("projection")
                && !projection.is_empty()
                && projection.iter().any(|(field, value)| field != "_id" && number(Some(value)) == 1)
            {
                // The merge needs the fields that the order uses.
                sort.keys().for_each(|field| _ = projection.entry(field.clone()).or_insert_with(|| Bson::Int32(1)));
            }
        } else {
            command.insert("cursor", doc! { "batchSize": SHARD_BATCH });
        }
        let is_snapshot = command
            .get_document("readConcern")
            .is_ok_and(|concern| concern.get_str("level").is_ok_and(|level| level == "snapshot"));
        let mut at = None;
        if is_snapshot && transaction_key(&command).is_none() {
            let latest = lock(&self.clock).0;
            let concern = command.get_document("readConcern").cloned().unwrap_or_default();
            let after = concern.get_timestamp("afterClusterTime").map_or(latest, |after| after.max(latest));
            let chosen = concern.get_timestamp("atClusterTime").unwrap_or(after);
            command.insert("readConcern", doc! { "level": "snapshot", "atClusterTime": chosen });
            at = Some(chosen);
        }
        let mut taken = Vec::new();
        for shard in shards {
            let mut own = ShardConnections::default();
            own.0[shard] = connections.0[shard].take();
            taken.push((shard, own, self.prepared(shard, &command)));
        }
        let asked = taken.into_iter().map(|(shard, mut own, command)| async move {
            let rows = self.rows(&mut own, shard, command).await;
            (shard, own, rows)
        });
        let mut rows = Vec::new();
        let mut first = None;
        for (shard, mut own, found) in join_all(asked).await {
            connections.0[shard] = own.0[shard].take();
            let Ok((found, reply)) = found else { return Ok(no_shard()) };
            if !is_ok(&reply) {
                return Ok(reply);
            }
            rows.extend(found);
            first.get_or_insert(reply);
        }
        let is_count = pipeline.last().and_then(Bson::as_document).and_then(|stage| stage.get_document("$group").ok());
        if let Some(group) = is_count
            && matches!(group.get("_id"), Some(Bson::Int32(_)))
            && rows.len() > 1
        {
            let sum: i64 = rows.iter().map(|row| number(row.get("n"))).sum();
            rows = vec![doc! { "_id": 1, "n": sum as i32 }];
        }
        for (field, direction) in sort.iter().collect::<Vec<_>>().into_iter().rev() {
            rows.sort_by_key(|row| order(row.get(field)));
            if number(Some(direction)) < 0 {
                rows.reverse();
            }
        }
        let limit = number(command.get("limit"));
        if limit > 0 {
            rows.truncate(limit as usize);
        }
        let id = self.next_cursor.fetch_add(1, Ordering::Relaxed);
        let name = format!("{database}.{collection}");
        Ok(self.answer(&name, rows, &first.unwrap_or_default(), at, "firstBatch", id))
    }

    async fn write(&self, connections: &mut ShardConnections, name: &str, command: Document) -> io::Result<Document> {
        let list = match name {
            "insert" => "documents",
            "update" => "updates",
            _ => "deletes",
        };
        let database = command.get_str("$db").unwrap_or_default().to_owned();
        let collection = command.get_str(name).unwrap_or_default().to_owned();
        let sharded = self.placement(&database, &collection);
        let mut parts: BTreeMap<usize, Vec<Bson>> = BTreeMap::new();
        for statement in command.get_array(list).into_iter().flatten() {
            let Some(document) = statement.as_document() else { continue };
            let filter = if name == "insert" { document } else { document.get_document("q").unwrap_or(document) };
            let shards =
                sharded.as_ref().map_or_else(|| BTreeSet::from([0]), |sharded| sharded.placement.shards(filter));
            let is_multi = document.get_bool("multi").unwrap_or(false)
                || document.get("limit").is_some_and(|limit| number(Some(limit)) == 0);
            if shards.len() > 1 && !is_multi {
                return Ok(error(61, "ShardKeyNotFound", "a change of one document must name its shard key"));
            }
            for shard in shards {
                parts.entry(shard).or_default().push(statement.clone());
            }
        }
        self.note(name, &collection, sharded.is_some(), parts.len());
        if let Some(sharded) = &sharded
            && self.is_stale(&command, sharded)
        {
            return Ok(moved());
        }
        let mut commands = BTreeMap::new();
        for (shard, statements) in parts {
            let mut part = command.clone();
            part.insert(list, statements);
            commands.insert(shard, self.prepared(shard, &part));
        }
        let replies = self.ask_all(connections, commands).await;
        if let Some(bad) = replies.values().find(|reply| !is_ok(reply) || reply.contains_key("writeErrors")) {
            return Ok(bad.clone());
        }
        let Some(mut merged) = replies.values().next().cloned() else { return Ok(doc! { "ok": 1.0, "n": 0 }) };
        for field in ["n", "nModified"] {
            if merged.contains_key(field) {
                merged.insert(field, replies.values().map(|reply| number(reply.get(field))).sum::<i64>() as i32);
            }
        }
        if let Some(concern) = replies.values().find_map(|reply| reply.get("writeConcernError")) {
            merged.insert("writeConcernError", concern.clone());
        }
        Ok(merged)
    }

    async fn find_and_modify(&self, connections: &mut ShardConnections, command: Document) -> io::Result<Document> {
        let database = command.get_str("$db").unwrap_or_default().to_owned();
        let collection = command.get_str("findAndModify").unwrap_or_default().to_owned();
        let sharded = self.placement(&database, &collection);
        let filter = command.get_document("query").cloned().unwrap_or_default();
        let shards = sharded.as_ref().map_or_else(|| BTreeSet::from([0]), |sharded| sharded.placement.shards(&filter));
        self.note("findAndModify", &collection, sharded.is_some(), shards.len());
        let Some(&shard) = shards.first().filter(|_| shards.len() == 1) else {
            return Ok(error(61, "ShardKeyNotFound", "a change of one document must name its shard key"));
        };
        if let Some(sharded) = &sharded
            && self.is_stale(&command, sharded)
        {
            return Ok(moved());
        }
        self.ask(connections, shard, self.prepared(shard, &command)).await
    }

    async fn handle(
        &self,
        connections: &mut ShardConnections,
        name: &str,
        mut command: Document,
    ) -> io::Result<Document> {
        command.remove("recoveryToken");
        let database = command.get_str("$db").unwrap_or_default().to_owned();
        let collection = command.get_str(name).unwrap_or_default().to_owned();
        if database == "config" {
            return self.ask(connections, SHARDS, command).await;
        }
        if name == "moveChunk" {
            return Ok(self.move_range(connections, &command).await);
        }
        let _shared = self.moving.read().await;
        match name {
            "commitTransaction" => self.end_transaction(connections, true, command).await,
            "abortTransaction" => self.end_transaction(connections, false, command).await,
            "find" | "aggregate" | "listCollections" | "listIndexes" => {
                if name.starts_with("list") {
                    let (rows, first) = self.rows(connections, 0, self.prepared(0, &command)).await?;
                    if !is_ok(&first) {
                        return Ok(first);
                    }
                    let id = self.next_cursor.fetch_add(1, Ordering::Relaxed);
                    // Drivers expect the name of a collection, even if there is none.
                    let namespace = format!("{database}.$cmd.{name}");
                    return Ok(self.answer(&namespace, rows, &first, None, "firstBatch", id));
                }
                self.find(connections, name, command).await
            }
            "getMore" => {
                let id = number(command.get("getMore"));
                let Some(rows) = lock(&self.cursors).remove(&id) else {
                    return Ok(error(43, "CursorNotFound", "the cursor is not known"));
                };
                let name = format!("{database}.{}", command.get_str("collection").unwrap_or_default());
                Ok(self.answer(&name, rows.into(), &doc! { "ok": 1.0 }, None, "nextBatch", id))
            }
            "killCursors" => {
                let ids = command.get_array("cursors").cloned().unwrap_or_default();
                ids.iter().for_each(|id| _ = lock(&self.cursors).remove(&number(Some(id))));
                Ok(
                    doc! { "ok": 1.0, "cursorsKilled": ids, "cursorsNotFound": [], "cursorsAlive": [], "cursorsUnknown": [] },
                )
            }
            "insert" | "update" | "delete" => self.write(connections, name, command).await,
            "findAndModify" => self.find_and_modify(connections, command).await,
            "count" => {
                let shards = if self.placement(&database, &collection).is_some() { SHARDS } else { 1 };
                let all = (0..shards).map(|shard| (shard, self.prepared(shard, &command))).collect();
                let replies = self.ask_all(connections, all).await;
                if let Some(bad) = replies.values().find(|reply| !is_ok(reply)) {
                    return Ok(bad.clone());
                }
                Ok(doc! { "ok": 1.0, "n": replies.values().map(|reply| number(reply.get("n"))).sum::<i64>() as i32 })
            }
            "enableSharding" => {
                let name = command.get_str(name).unwrap_or_default().to_owned();
                let create = doc! {
                    "_configsvrCreateDatabase": &name, "primaryShardId": "shard0", "writeConcern": { "w": "majority" },
                    "$db": "admin",
                };
                let reply = self.ask(connections, SHARDS, create).await?;
                if let Ok(version) = reply.get_document("databaseVersion") {
                    lock(&self.versions).insert(name, version.clone());
                }
                Ok(reply)
            }
            "shardCollection" => self.shard_collection(connections, &command).await,
            "split" => Ok(self.change_ranges(&command, None)),
            "listShards" => {
                let shards = (0..SHARDS).map(|shard| doc! { "_id": format!("shard{shard}"), "state": 1 });
                Ok(doc! { "shards": shards.collect::<Vec<_>>(), "ok": 1.0 })
            }
            _ if DEFINITIONS.contains(&name) => {
                let everywhere = name == "dropDatabase"
                    || self
                        .placement(&database, &collection)
                        .is_some_and(|sharded| !matches!(sharded.placement, DocumentPlacement::First));
                let shards = if everywhere { SHARDS } else { 1 };
                let all = (0..shards).map(|shard| (shard, command.clone())).collect();
                let mut replies = self.ask_all(connections, all).await;
                // The second shard may not have the collection yet.
                let bad = replies.values().find(|reply| !is_ok(reply) && number(reply.get("code")) != 26).cloned();
                Ok(bad.or_else(|| replies.remove(&0)).unwrap_or_else(no_shard))
            }
            _ => {
                self.note(name, &collection, false, 1);
                self.ask(connections, 0, self.prepared(0, &command)).await
            }
        }
    }
}

/// Turns the answer of a shard to `hello` into the answer of a router.
fn as_router(mut hello: Document) -> Document {
    let of_a_set = [
        "setName",
        "setVersion",
        "hosts",
        "primary",
        "me",
        "electionId",
        "secondary",
        "lastWrite",
        "isreplicaset",
        "topologyVersion",
    ];
    of_a_set.iter().for_each(|field| _ = hello.remove(*field));
    hello.insert("msg", "isdbgrid");
    hello
}

async fn receive(stream: &mut TcpStream) -> io::Result<(i32, i32, i32, Vec<u8>)> {
    let length = stream.read_i32_le().await?;
    let id = stream.read_i32_le().await?;
    let to = stream.read_i32_le().await?;
    let kind = stream.read_i32_le().await?;
    let mut body = vec![0; usize::try_from(length - 16).map_err(io::Error::other)?];
    stream.read_exact(&mut body).await?;
    Ok((id, to, kind, body))
}

async fn send(stream: &mut TcpStream, to: i32, kind: i32, body: &[u8]) -> io::Result<()> {
    let mut message = Vec::with_capacity(body.len() + 16);
    for field in [body.len() as i32 + 16, 1, to, kind] {
        message.extend(field.to_le_bytes());
    }
    message.extend(body);
    stream.write_all(&message).await
}

fn unreadable_message() -> io::Error {
    io::Error::other("a message cannot be read")
}

/// Returns the length that a section of a message states at `at`.
fn length_at(body: &[u8], at: usize) -> io::Result<usize> {
    let bytes = body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map(|bytes| i32::from_le_bytes(bytes) as usize).ok_or_else(unreadable_message)
}

/// Returns the command of an OP_MSG with its sections joined, its name, and true if no answer is wanted.
fn parse(body: &[u8]) -> io::Result<(String, Document, bool)> {
    let flags =
        u32::from_le_bytes(body.get(..4).and_then(|flags| flags.try_into().ok()).ok_or_else(unreadable_message)?);
    let end = body.len() - if flags & 1 == 1 { 4 } else { 0 };
    let mut command = Document::new();
    let mut sequences = Vec::new();
    let mut at = 4;
    while at < end {
        let kind = body[at];
        at += 1;
        let size = length_at(body, at)?;
        let section = body.get(at..at + size).ok_or_else(unreadable_message)?;
        if kind == 0 {
            command = Document::from_reader(section).map_err(io::Error::other)?;
        } else {
            let name_end = section[4..].iter().position(|byte| *byte == 0).ok_or_else(unreadable_message)? + 4;
            let name = String::from_utf8_lossy(&section[4..name_end]).into_owned();
            let mut documents = Vec::new();
            let mut rest = &section[name_end + 1..];
            while !rest.is_empty() {
                documents.push(Bson::from(Document::from_reader(&mut rest).map_err(io::Error::other)?));
            }
            sequences.push((name, documents));
        }
        at += size;
    }
    let name = command.keys().next().cloned().ok_or_else(unreadable_message)?;
    sequences.into_iter().for_each(|(name, documents)| _ = command.insert(name, documents));
    Ok((name, command, flags & 2 == 2))
}

/// Answers one client until it closes the connection.
async fn serve(state: &RouterState, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut connections = ShardConnections::default();
    loop {
        let (id, _, kind, body) = receive(&mut stream).await?;
        if kind == OP_QUERY {
            // Only the first message of a connection has this form: flags, the name with its zero byte, two numbers, the command.
            let name_end = body[4..].iter().position(|byte| *byte == 0).ok_or_else(|| io::Error::other("no name"))? + 5;
            let mut hello = Document::from_reader(&body[name_end + 8..]).map_err(io::Error::other)?;
            hello.insert("$db", "admin");
            let hello = as_router(state.ask(&mut connections, 0, hello).await?);
            let mut reply = [0; 20].to_vec();
            reply[16] = 1;
            hello.to_writer(&mut reply).map_err(io::Error::other)?;
            send(&mut stream, id, OP_REPLY, &reply).await?;
            continue;
        }
        let (name, mut command, is_silent) = parse(&body)?;
        let reply = match name.as_str() {
            "hello" | "isMaster" | "ismaster" => {
                ["topologyVersion", "maxAwaitTimeMS"].iter().for_each(|field| _ = command.remove(*field));
                as_router(state.ask(&mut connections, 0, command).await?)
            }
            // If a shard is gone, its connection is not used again, and the client gets the error of a router.
            _ => state.handle(&mut connections, &name, command).await.unwrap_or_else(|_| no_shard()),
        };
        if !is_silent {
            let mut body = vec![0, 0, 0, 0, 0];
            reply.to_writer(&mut body).map_err(io::Error::other)?;
            send(&mut stream, id, OP_MSG, &body).await?;
        }
    }
}
