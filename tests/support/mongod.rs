//! Real MongoDB servers for tests: replica sets on the loopback interface, with data in temporary folders.
//!
//! `DOPPEL_TEST_MONGODB_URI` names a server to use instead (tests that stop servers always start their own). Otherwise the tests use a
//! mongod on PATH, or the mongod that `scripts/get-mongod` fetches. On a machine without mongod the tests fail, and the message names the
//! command to run.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of it")]

#[allow(clippy::duplicate_mod, reason = "each file of this folder is included by itself")]
#[path = "ports.rs"]
mod ports;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use mongodb::bson::{Document, doc};
use mongodb::options::{ClientOptions, SelectionCriteria};

/// Longest wait for a server or an election on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The code of the error that a server returns only together with more information.
const STALE_CONFIG: i32 = 13_388;

/// A mongod process. Dropping this value kills the process and removes its folder.
pub struct MongodProcess {
    child: Mutex<Option<Child>>,
    pub port: u16,
    folder: tempfile::TempDir,
}

/// A replica set.
pub struct ReplicaSet {
    members: Vec<MongodProcess>,
    name: String,
}

/// Returns the path of a mongod, which is fetched if necessary.
pub fn mongod() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .map(|folder| folder.join("scripts/get-mongod"))
            .find(|script| script.exists())
            .expect("the repository's scripts");
        let output = Command::new(script).stderr(Stdio::inherit()).output().expect("scripts/get-mongod can be run");
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert!(
            output.status.success() && Path::new(&path).is_file(),
            "no mongod on this machine: run scripts/get-mongod and see why it fails, put a mongod (6.0 or newer) on PATH, \
             or set DOPPEL_TEST_MONGODB_URI to a replica set that tests may fill"
        );
        PathBuf::from(path)
    })
}

impl MongodProcess {
    pub fn new() -> Self {
        let port = ports::free_port();
        let folder = tempfile::Builder::new().prefix("doppel-mongod").tempdir().expect("a temporary folder");
        Self { child: Mutex::new(None), port, folder }
    }

    /// Starts the server with these arguments in addition to the usual arguments.
    pub fn start(&self, arguments: &[&str]) {
        let log = std::fs::File::create(self.folder.path().join("log")).expect("a log file");
        let data = self.folder.path().join("data");
        std::fs::create_dir_all(&data).expect("a folder for data");
        let mut command = Command::new(mongod());
        command.args(["--bind_ip", "127.0.0.1", "--port", &self.port.to_string(), "--wiredTigerCacheSizeGB", "0.5"]);
        command.args(["--setParameter", "transactionLifetimeLimitSeconds=10"]);
        // [`ReplicaSet::fail`] needs this parameter.
        command.args(["--setParameter", "enableTestCommands=1"]);
        command.args(["--setParameter", "diagnosticDataCollectionEnabled=false", "--dbpath"]).arg(data);
        command.args(arguments);
        let child = command.stdin(Stdio::null()).stdout(log).stderr(Stdio::null()).spawn().expect("mongod starts");
        *self.child.lock().expect("no panic before") = Some(child);
    }

    pub fn kill(&self) {
        if let Some(mut child) = self.child.lock().expect("no panic before").take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub async fn client(&self) -> mongodb::Client {
        let uri = format!("mongodb://127.0.0.1:{}/?directConnection=true", self.port);
        let mut options = ClientOptions::parse(uri).await.expect("a valid URI");
        options.server_selection_timeout = Some(Duration::from_secs(2));
        options.selection_criteria =
            Some(SelectionCriteria::ReadPreference(mongodb::options::ReadPreference::Nearest { options: None }));
        mongodb::Client::with_options(options).expect("a client")
    }

    pub async fn ask(&self, command: Document) -> mongodb::error::Result<Document> {
        self.client().await.database("admin").run_command(command).await
    }

    /// Makes the server a replica set of one member, with `more` in its configuration, and waits until it accepts writes.
    pub async fn initiate(&self, set: &str, more: Document) {
        let members = [doc! { "_id": 0, "host": format!("127.0.0.1:{}", self.port) }];
        let mut config = doc! { "_id": set, "members": members.to_vec() };
        config.extend(more);
        self.ask(doc! { "replSetInitiate": config }).await.expect("the set is initiated");
        self.wait_for_primary().await;
    }

    /// Waits until the server accepts writes.
    pub async fn wait_for_primary(&self) {
        let start = Instant::now();
        loop {
            let hello = self.ask(doc! { "hello": 1 }).await;
            if hello.is_ok_and(|hello| hello.get_bool("isWritablePrimary").unwrap_or(false)) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "mongod takes no writes on port {}", self.port);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn wait(&self) {
        let start = Instant::now();
        while self.ask(doc! { "hello": 1 }).await.is_err() {
            assert!(start.elapsed() < PATIENCE, "mongod does not answer on port {}", self.port);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for MongodProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server without a replica set.
pub struct StandaloneMongod(MongodProcess);

impl StandaloneMongod {
    pub async fn start() -> Self {
        let member = MongodProcess::new();
        member.start(&[]);
        member.wait().await;
        Self(member)
    }

    pub fn uri(&self) -> String {
        format!("mongodb://127.0.0.1:{}/", self.0.port)
    }
}

impl ReplicaSet {
    /// Starts a set of `members` and waits for its primary.
    pub async fn start(members: usize) -> Self {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let set =
            Self { members: (0..members).map(|_| MongodProcess::new()).collect(), name: format!("doppel{number}") };
        for member in &set.members {
            member.start(&["--replSet", &set.name]);
        }
        for member in &set.members {
            member.wait().await;
        }
        let list = set.members.iter().enumerate();
        let list = list.map(|(at, member)| doc! { "_id": at as i32, "host": format!("127.0.0.1:{}", member.port) });
        let config = doc! {
            "_id": &set.name, "members": list.collect::<Vec<_>>(),
            "settings": { "electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500 },
        };
        set.members[0].ask(doc! { "replSetInitiate": config }).await.expect("the set is initiated");
        set.primary().await;
        set
    }

    /// Returns the URI for doppel.
    pub fn uri(&self) -> String {
        let hosts: Vec<String> = self.members.iter().map(|member| format!("127.0.0.1:{}", member.port)).collect();
        format!("mongodb://{}/?replicaSet={}", hosts.join(","), self.name)
    }

    /// Waits for a primary. Returns its position.
    pub async fn primary(&self) -> usize {
        let start = Instant::now();
        loop {
            for (at, member) in self.members.iter().enumerate() {
                let running = member.child.lock().expect("no panic before").is_some();
                if running
                    && let Ok(hello) = member.ask(doc! { "hello": 1 }).await
                    && hello.get_bool("isWritablePrimary").unwrap_or(false)
                {
                    return at;
                }
            }
            assert!(start.elapsed() < PATIENCE, "the replica set elects no primary");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Makes the primary step down.
    pub async fn step_down(&self) {
        let primary = self.primary().await;
        // The primary refuses to step down until a secondary has caught up. The next call tries again.
        let _ = self.members[primary].ask(doc! { "replSetStepDown": 5, "secondaryCatchUpPeriodSecs": 2 }).await;
    }

    /// Makes the primary answer the next `times` of these commands with an error. Only clients with the name `application` are affected.
    pub async fn fail(&self, application: &str, commands: &[&str], code: i32, times: i32) {
        let mut data = doc! { "failCommands": commands.to_vec(), "errorCode": code, "appName": application };
        if code == STALE_CONFIG {
            let zero = mongodb::bson::Timestamp { time: 1, increment: 0 };
            let epoch = mongodb::bson::oid::ObjectId::from_bytes([0; 12]);
            data.insert("errorExtraInfo", doc! {
                "ns": "doppel.records", "vReceived": zero, "vReceivedEpoch": epoch, "vReceivedTimestamp": zero, "shardId": "shard0",
            });
        }
        let fail = doc! { "configureFailPoint": "failCommand", "mode": { "times": times }, "data": data };
        self.members[self.primary().await].ask(fail).await.expect("the failpoint is set");
    }

    /// Ends [`ReplicaSet::fail`]. Returns the number of errors that were returned.
    pub async fn stop_failing(&self) -> i64 {
        let off = doc! { "configureFailPoint": "failCommand", "mode": "off" };
        let reply = self.members[self.primary().await].ask(off).await.expect("the failpoint is removed");
        reply.get_i64("count").or_else(|_| reply.get_i32("count").map(i64::from)).unwrap_or(0)
    }

    /// Kills a member, with the effect of a power failure.
    pub fn kill(&self, member: usize) {
        self.members[member].kill();
    }

    /// Starts a killed member again.
    pub async fn restart(&self, member: usize) {
        self.members[member].start(&["--replSet", &self.name]);
        self.members[member].wait().await;
    }
}

/// A replica set of one member that all tests of a program share; or the server of `DOPPEL_TEST_MONGODB_URI`.
pub struct SharedMongod {
    uri: String,
    _set: Option<ReplicaSet>,
}

impl SharedMongod {
    /// Starts the replica set, or uses the given server.
    pub async fn start() -> Self {
        match std::env::var("DOPPEL_TEST_MONGODB_URI") {
            Ok(uri) => Self { uri, _set: None },
            Err(_) => {
                let set = ReplicaSet::start(1).await;
                Self { uri: set.uri(), _set: Some(set) }
            }
        }
    }

    pub fn uri(&self) -> &str {
        &self.uri
    }
}

/// Returns a database name that no other test uses.
pub fn database(test: &str) -> String {
    let id = uuid::Uuid::now_v7().simple().to_string();
    format!("doppel_{test}_{}", &id[id.len() - 12..])
}

/// Removes the database of a test, so that a server that outlives the tests does not become full.
pub async fn drop_database(uri: &str, name: &str) {
    let client = mongodb::Client::with_uri_str(uri).await.expect("a client");
    client.database(name).drop().await.expect("the database is dropped");
}

/// Returns the usual options of a MongoDB store.
pub fn options() -> doppel_store_mongodb::Options {
    doppel_store_mongodb::Options::new(doppel_store_mongodb::Clock {
        micros: || jiff::Timestamp::now().as_microsecond().unsigned_abs(),
        now: || format!("{:.3}", jiff::Timestamp::now()),
        unique_id: || uuid::Uuid::now_v7().to_string(),
    })
}
