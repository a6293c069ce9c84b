//! A real sharded cluster of two shards for tests, with a test router instead of mongos.
//!
//! The config server, the shards, `shardCollection`, snapshots at one cluster time and two-phase commits are the ones of MongoDB.
//! [`CommandRouter`] understands the wire protocol and decides which shard gets which command. Its placement rule is not the rule of
//! mongos: [`hash`] decides the shard of documents of a collection with a hashed key; ranges of other keys begin on the first shard and are
//! split and moved on command. A collection that has documents when it is sharded stays on the first shard until [`CommandRouter::spread`]
//! moves its documents, as on a real cluster before the balancer runs. Shards receive commands without versions: stale routing is not
//! tested, but the errors that a router returns for stale routing are tested.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

#[path = "cluster/commands.rs"]
mod commands;
#[path = "cluster/moves.rs"]
mod moves;
#[path = "cluster/placement.rs"]
mod placement;
#[path = "cluster/transactions.rs"]
mod transactions;
#[path = "cluster/wire.rs"]
mod wire;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use mongodb::bson::{Bson, Document, Timestamp, doc};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::RwLock;

use self::placement::{DocumentPlacement, ShardedCollection};
use self::transactions::ClientTransactions;
use self::wire::{OP_MSG, OP_QUERY, OP_REPLY, parse, receive, send};
use crate::mongod::MongodProcess;

const SHARDS: usize = 2;
/// Number of documents that a shard returns at once.
const SHARD_BATCH: i32 = 100_000;
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

    /// Kills a shard, with the effect of a power failure.
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

/// The route of a command: its name, its collection, and the number of shards, or `unsharded`.
pub type CommandRoute = (String, String, String);

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
                    // A client closes its connection, or a shard is down. Both sides connect again.
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

/// The connections of one client to the shards and to the config server (the last connection). They are opened when they are needed.
#[derive(Default)]
struct ShardConnections([Option<TcpStream>; SHARDS + 1]);

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no panic before")
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

fn error(code: i32, name: &str, message: &str) -> Document {
    doc! { "ok": 0.0, "code": code, "codeName": name, "errmsg": message }
}

/// Returns the error of a real router for a shard without a primary.
fn no_shard() -> Document {
    error(133, "FailedToSatisfyReadPreference", "no primary of the shard answers")
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
                    // Drivers expect the name of a collection, even if the command has no collection.
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
            // If a shard is down, its connection is not used again, and the client gets the error of a router.
            _ => state.handle(&mut connections, &name, command).await.unwrap_or_else(|_| no_shard()),
        };
        if !is_silent {
            let mut body = vec![0, 0, 0, 0, 0];
            reply.to_writer(&mut body).map_err(io::Error::other)?;
            send(&mut stream, id, OP_MSG, &body).await?;
        }
    }
}
