//! Connects to MongoDB, and checks that the server is usable: a replica set or a cluster, recent enough, with a primary.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::options::{Acknowledgment, ClientOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern};
use mongodb::{Client, Database};

use super::documents::{BLOCKS, COLLECTIONS, RECORDS, SIGNATURES};
use super::retry;
use doppel_store::{Result, StoreError};

/// The oldest version of the server on which the guarantees were tested.
const OLDEST: [i32; 2] = [6, 0];
/// Largest allowed difference between the clocks of a server and an instance.
const MOST_SKEW: Duration = Duration::from_secs(2);
/// Time between two comparisons of the clocks. Clocks drift by seconds in days, or jump when they are set.
const WATCH_CLOCK_EVERY: Duration = Duration::from_secs(30);
/// Number of seconds for which the transaction of a crashed instance may hold the latch of a collection without a warning.
const LONG_TRANSACTIONS_S: i64 = 15;

/// The kind of deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerTopology {
    ReplicaSet,
    /// A sharded cluster behind mongos.
    Cluster,
}

/// Returns the write concern of every write: a majority of the members has written it to the journal. A replica set may be
/// configured to acknowledge before the journal is written (`writeConcernMajorityJournalDefault`), so that each write requests the
/// journal.
pub(super) fn durable() -> WriteConcern {
    WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build()
}

/// Returns the same write concern for commands that the driver does not change.
pub(super) fn durable_document() -> Document {
    doc! { "w": "majority", "j": true }
}

fn wrong_uri(error: &mongodb::error::Error) -> StoreError {
    StoreError::Internal(format!("store.uri cannot be used: {}", retry::summary(error)))
}

/// A client, and the kind of its connection.
pub(super) struct ServerClient {
    pub(super) client: Client,
    /// True if the client uses one server only, whatever its role.
    pub(super) is_direct: bool,
}
/// Returns a client for `uri`. Waits for a server or a connection are limited by `wait`, the number of connections by `pool`.
pub(super) async fn client(uri: &str, wait: Duration, pool: u32) -> Result<ServerClient> {
    let options = options(uri, wait, pool).await?;
    let is_direct = options.direct_connection == Some(true);
    Ok(ServerClient { client: Client::with_options(options).map_err(|error| wrong_uri(&error))?, is_direct })
}

async fn options(uri: &str, wait: Duration, pool: u32) -> Result<ClientOptions> {
    let mut options = ClientOptions::parse(uri).await.map_err(|error| wrong_uri(&error))?;
    options.app_name.get_or_insert_with(|| "doppel".into());
    options.server_selection_timeout = Some(wait);
    options.connect_timeout = Some(wait);
    options.max_pool_size.get_or_insert(pool);
    // The guarantees depend on these settings. The URI must not weaken them.
    options.read_concern = Some(ReadConcern::majority());
    options.write_concern = Some(durable());
    options.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
    options.retry_reads = Some(true);
    options.retry_writes = Some(true);
    Ok(options)
}

/// Returns the time of the server in microseconds since 1970.
pub(super) async fn time(client: &Client) -> mongodb::error::Result<u64> {
    let hello = client.database("admin").run_command(doc! { "hello": 1 }).await?;
    let time = hello.get_datetime("localTime").map_err(mongodb::error::Error::custom)?;
    Ok(u64::try_from(time.timestamp_millis()).unwrap_or(0) * 1_000)
}

/// Describes the difference between the clocks of this machine and the server if it is more than [`MOST_SKEW`], because the times of
/// records would then disagree with the times of other instances. `asked` and `answered` are the times of this machine before and after the
/// request, in microseconds since 1970.
fn clock_fault(hello: &Document, asked: u64, answered: u64) -> Option<String> {
    let time = hello.get_datetime("localTime").ok()?;
    let time = i128::from(time.timestamp_millis()) * 1_000;
    let behind = time - i128::from(answered);
    let ahead = i128::from(asked) - time;
    let most = MOST_SKEW.as_micros() as i128;
    let (skew, direction) = if behind > most { (behind, "behind") } else { (ahead, "ahead of") };
    (skew > most).then(|| {
        let seconds = skew / 1_000_000;
        format!("the clock of this machine is {seconds} s {direction} that of the MongoDB server; set both right (NTP)")
    })
}

/// Sends `hello`. Returns the reply, and the times of this machine before and after the request, in microseconds since 1970.
async fn timed_hello(database: &Database, own: fn() -> u64) -> mongodb::error::Result<(Document, u64, u64)> {
    let asked = own();
    let hello = database.run_command(doc! { "hello": 1 }).await?;
    Ok((hello, asked, own()))
}

/// Reads the properties of the server, and returns an error if it is not usable. `own` returns the time of this machine in
/// microseconds since 1970.
pub(super) async fn inspect(server: &ServerClient, own: fn() -> u64) -> Result<ServerTopology> {
    let ServerClient { client, is_direct } = server;
    let admin = client.database("admin");
    let asked = own();
    let hello = admin.run_command(doc! { "hello": 1 }).selection_criteria(any_member()).await;
    let hello = hello.map_err(|error| no_server(&error))?;
    let answered = own();
    let topology = topology(&hello)?;
    // If the URI names a replica set, any member may answer first.
    if *is_direct && hello.get_bool("secondary").unwrap_or(false) {
        return Err(StoreError::Internal(
            "store.uri connects to a secondary directly; leave directConnection out and name the replica set (replicaSet=…)".into(),
        ));
    }
    if let Some(fault) = clock_fault(&hello, asked, answered) {
        return Err(StoreError::Internal(format!("{fault}, then start again")));
    }
    let build = admin.run_command(doc! { "buildInfo": 1 }).selection_criteria(any_member()).await;
    check_version(build.map_err(|error| retry::fatal(&error))?.get_str("version").unwrap_or_default())?;
    let parameter = doc! { "getParameter": 1, "transactionLifetimeLimitSeconds": 1 };
    // The command needs a privilege that an instance may lack.
    if let Ok(reply) = admin.run_command(parameter).selection_criteria(any_member()).await
        && let Some(seconds) = whole(&reply, "transactionLifetimeLimitSeconds")
        && seconds > LONG_TRANSACTIONS_S
    {
        tracing::warn!(
            seconds,
            "after a crash of an instance a collection may stay locked for transactionLifetimeLimitSeconds; set it to 10"
        );
    }
    Ok(topology)
}

fn any_member() -> SelectionCriteria {
    SelectionCriteria::ReadPreference(ReadPreference::Nearest { options: None })
}
/// Messages of the driver about unusable servers: a part of the message, its meaning, and true if the error is permanent.
const FAULTS: [(&str, &str, bool); 9] = [
    (
        "UnknownIssuer",
        "its certificate is not signed by an authority that this machine trusts; name the authority's file: tlsCAFile=…",
        true,
    ),
    ("NotValidForName", "its certificate is for another host name; name the host as the certificate does", true),
    ("Expired", "its certificate has expired, or the clock of this machine is wrong", true),
    ("invalid peer certificate", "its certificate cannot be used; see the server's TLS settings", true),
    ("InvalidContentType", "it does not speak TLS; leave tls=true out of the URI, or turn TLS on at the server", true),
    ("tls handshake eof", "it does not speak TLS; leave tls=true out of the URI, or turn TLS on at the server", true),
    ("unexpected end of file", "it closes connections at once: perhaps it wants TLS; try tls=true in the URI", false),
    ("Connection refused", "nothing listens there; start the server, or name the right host and port", false),
    ("failed to lookup address", "the host name is not known; check it", false),
];

fn no_server(error: &mongodb::error::Error) -> StoreError {
    if !retry::is_away(error) {
        return retry::fatal(error);
    }
    // The message of the driver contains addresses and the errors of each server, but no part of a record.
    let said = error.to_string();
    if said.contains("Set Name:") && !said.contains("Address:") {
        return StoreError::Internal(
            "no server at store.uri is of the replica set that the URI names (replicaSet=…); rs.status().set says its name".into(),
        );
    }
    let fault = FAULTS.iter().find(|(sign, ..)| said.contains(sign));
    match fault {
        Some((_, meaning, true)) => {
            StoreError::Internal(format!("the MongoDB server at store.uri cannot be used: {meaning}"))
        }
        Some((_, meaning, false)) => StoreError::Unavailable {
            reason: format!("no MongoDB server answers at store.uri: {meaning}"),
            retry_after_s: 2,
        },
        None => StoreError::Unavailable {
            reason: format!(
                "no MongoDB server answers at store.uri ({}); a new replica set must be initiated once: \
                 mongosh --eval 'rs.initiate()'",
                retry::summary(error)
            ),
            retry_after_s: 2,
        },
    }
}

/// Returns an error for databases that MongoDB uses itself.
pub(super) fn check_database(name: &str) -> Result<()> {
    match name {
        "admin" | "config" | "local" => Err(StoreError::Internal(format!(
            "store.database is {name:?}, which MongoDB keeps for itself; name another, for example \"doppel\""
        ))),
        _ => Ok(()),
    }
}

fn topology(hello: &Document) -> Result<ServerTopology> {
    if hello.get_str("msg").is_ok_and(|kind| kind == "isdbgrid") {
        return Ok(ServerTopology::Cluster);
    }
    if hello.contains_key("setName") {
        return Ok(ServerTopology::ReplicaSet);
    }
    let remedy = match hello.get_bool("isreplicaset") {
        Ok(true) => "the replica set is not initiated; run once: mongosh --eval 'rs.initiate()'",
        _ => {
            "the MongoDB server stands alone and has no transactions; make it a replica set of one: restart it with \
             mongod --replSet rs0, then run once: mongosh --eval 'rs.initiate()'"
        }
    };
    Err(StoreError::Internal(remedy.into()))
}

fn check_version(version: &str) -> Result<()> {
    let mut parts = version.split('.').map(|part| part.parse::<i32>().unwrap_or(0));
    let found = [parts.next().unwrap_or(0), parts.next().unwrap_or(0)];
    if found >= OLDEST {
        return Ok(());
    }
    let [major, minor] = OLDEST;
    Err(StoreError::Internal(format!(
        "the MongoDB server has version {version}; {major}.{minor} or newer is needed, upgrade it"
    )))
}

/// Checks that the primary accepts writes and that the clocks agree. A router always reports that it accepts writes.
///
/// # Errors
/// [`StoreError::Unavailable`].
pub(super) async fn check_primary(database: &Database, own: fn() -> u64) -> Result<()> {
    let (hello, asked, answered) = timed_hello(database, own).await.map_err(|error| retry::fatal(&error))?;
    if !hello.get_bool("isWritablePrimary").unwrap_or(false) {
        return Err(StoreError::Unavailable { reason: "the replica set has no primary".into(), retry_after_s: 2 });
    }
    match clock_fault(&hello, asked, answered) {
        Some(reason) => Err(StoreError::Unavailable { reason, retry_after_s: WATCH_CLOCK_EVERY.as_secs() as u32 }),
        None => Ok(()),
    }
}

/// Checks that the primary of each shard answers for the collections that a registration uses. A find without a shard key asks all
/// shards that contain a part of the collection.
///
/// # Errors
/// [`StoreError::Unavailable`] if a shard does not answer.
pub(super) async fn check_shards(database: &Database) -> Result<()> {
    let checks = [COLLECTIONS, RECORDS, SIGNATURES, BLOCKS].map(|name| async move {
        let any = database.collection::<Document>(name);
        // The filter is empty so that it reaches all shards. Reading one document costs each shard a fraction of a millisecond.
        any.find_one(doc! {}).projection(doc! { "_id": 1 }).await
    });
    for check in futures_util::future::join_all(checks).await {
        check.map_err(|error| retry::fatal(&error))?;
    }
    Ok(())
}

/// Compares the clocks every [`WATCH_CLOCK_EVERY`]. Logs when they begin and cease to differ, until the store is closed or dropped.
pub(super) async fn watch_clock(shared: std::sync::Weak<super::SharedStore>) {
    let mut was_wrong = false;
    loop {
        tokio::time::sleep(WATCH_CLOCK_EVERY).await;
        let Some(shared) = shared.upgrade().filter(|shared| shared.check_open().is_ok()) else { return };
        let asking = timed_hello(&shared.database, shared.options.clock.micros);
        // If the request fails, other requests also fail and report the error.
        let Ok(Ok((hello, asked, answered))) = tokio::time::timeout(shared.options.deadline, asking).await else {
            continue;
        };
        let fault = clock_fault(&hello, asked, answered);
        match &fault {
            Some(fault) if !was_wrong => tracing::error!(fault, "not ready until the clocks agree"),
            None if was_wrong => tracing::info!("the clocks agree again"),
            _ => {}
        }
        was_wrong = fault.is_some();
    }
}

/// Returns a number in a reply of the server, whatever its type.
pub(super) fn whole(document: &Document, key: &str) -> Option<i64> {
    use mongodb::bson::Bson;
    match document.get(key)? {
        Bson::Int32(value) => Some(i64::from(*value)),
        Bson::Int64(value) => Some(*value),
        Bson::Double(value) => Some(*value as i64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_write_waits_for_the_journals_of_a_majority_whatever_the_uri_says() {
        for uri in ["mongodb://127.0.0.1", "mongodb://127.0.0.1/?w=1&journal=false"] {
            let options = options(uri, Duration::from_secs(1), 1).await.unwrap();
            let concern = options.write_concern.unwrap();
            assert_eq!((&concern.w, concern.journal), (&Some(Acknowledgment::Majority), Some(true)), "{uri}");
            let as_sent = mongodb::bson::serialize_to_document(&concern).unwrap();
            assert_eq!(as_sent, durable_document(), "commands say the same");
        }
    }

    #[test]
    fn a_standalone_server_is_refused_with_the_command_that_makes_it_a_replica_set() {
        let error = topology(&doc! { "isWritablePrimary": true }).unwrap_err().to_string();
        assert!(error.contains("mongod --replSet rs0") && error.contains("rs.initiate()"), "{error}");
        let error = topology(&doc! { "isreplicaset": true }).unwrap_err().to_string();
        assert!(error.contains("rs.initiate()"), "{error}");
        assert_eq!(topology(&doc! { "setName": "rs0" }).unwrap(), ServerTopology::ReplicaSet);
        assert_eq!(topology(&doc! { "msg": "isdbgrid" }).unwrap(), ServerTopology::Cluster);
    }

    #[test]
    fn a_clock_that_differs_is_refused_with_the_size_and_direction_of_the_difference() {
        let hello = doc! { "localTime": mongodb::bson::DateTime::from_millis(100_000) };
        for near in [98_000_000, 100_000_000, 102_000_000] {
            assert_eq!(clock_fault(&hello, near, near), None, "{near}");
        }
        let behind = clock_fault(&hello, 40_000_000, 40_000_000).unwrap();
        assert!(behind.contains("60 s behind"), "{behind}");
        let ahead = clock_fault(&hello, 3_700_000_000, 3_700_000_000).unwrap();
        assert!(ahead.contains("3600 s ahead"), "{ahead}");
        assert_eq!(clock_fault(&hello, 96_000_000, 104_000_000), None, "an answer may take its time");
        assert!(clock_fault(&hello, 104_000_000, 109_000_000).is_some());
    }

    #[test]
    fn a_server_that_is_too_old_is_refused_with_the_required_version() {
        for old in ["5.0.31", "4.4.9", "", "x"] {
            let error = check_version(old).unwrap_err().to_string();
            assert!(error.contains("6.0 or newer"), "{error}");
        }
        assert!(["6.0.5", "7.0.0", "8.2.1", "10.0.0"].iter().all(|version| check_version(version).is_ok()));
    }
}
