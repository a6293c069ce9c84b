//! Measures a replica set and a cluster of two shards with 1, 8 and 64 clients, in one collection and in ten: lookups and registrations a
//! second, their durations compared with the duration of one journalled insert, and the shards that their commands use.
//!
//! `DOPPEL_TEST_FIGURES` is the number of calls for each figure (1,000 for acceptance). The figures are printed; the test asserts only
//! which shards the commands use.

#![allow(clippy::print_stdout, reason = "figures of a run")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cluster_of_two::{CommandRoute, ShardedCluster};
use crate::mongod::database;
use crate::pair::spread;
use doppel_store::conformance::{SampleJudge, SampleRecord, TestCollection};
use doppel_store::{LookupEnd, RegistrationMode, Store};
use doppel_store_mongodb::{MongoStore, Options};
use mongodb::bson::{Document, doc};
use mongodb::options::WriteConcern;

/// Number of posting keys of a sample, about as many as a letter has with the preset `default`.
const KEYS: u64 = 20;

/// The calls of one figure: their durations, and the time for all of them.
struct CallTimes {
    each: Vec<Duration>,
    whole: Duration,
}

impl CallTimes {
    /// Runs `calls` calls of `call` by `clients` clients at once.
    async fn measure<F>(calls: u64, clients: u64, call: impl Fn(u64) -> F + Clone + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send,
    {
        let start = Instant::now();
        let tasks = (0..clients).map(|client| {
            let call = call.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                for number in (client..calls.max(clients)).step_by(clients as usize) {
                    let began = Instant::now();
                    call(number).await;
                    times.push(began.elapsed());
                }
                times
            })
        });
        let mut each = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            each.extend(task.await.expect("no call fails"));
        }
        each.sort_unstable();
        Self { each, whole: start.elapsed() }
    }

    fn median(&self) -> Duration {
        self.each[self.each.len() / 2]
    }

    /// Returns the speed and the durations. `baseline` is the duration of one journalled insert.
    fn describe(&self, baseline: Option<Duration>) -> String {
        let late = self.each[(self.each.len() * 99 / 100).min(self.each.len() - 1)];
        let median = self.median();
        let rate = self.each.len() as f64 / self.whole.as_secs_f64();
        let inserts = baseline
            .map_or(String::new(), |insert| format!(", {:.1} inserts", median.as_secs_f64() / insert.as_secs_f64()));
        format!("{rate:6.0}/s, p50 {median:6.1?}{inserts}, p99 {late:6.1?}")
    }
}

fn sample(number: u64) -> SampleRecord {
    let keys: Vec<u64> = (0..KEYS).map(|key| spread(number * KEYS + key)).collect();
    SampleRecord { fingerprint: Some(spread(number ^ 0xABCD)), ..SampleRecord::with_keys(format!("r{number}"), keys) }
}

/// Describes the routes of the commands of `calls` calls: the number of commands for each call, and the shards that they use.
fn describe_routes(routes: &BTreeMap<CommandRoute, u64>, calls: u64) -> String {
    let all: u64 = routes.values().sum();
    let mut lists = Vec::new();
    for ((command, collection, shards), count) in routes {
        if command == "find" && collection == "signatures" {
            lists.push(format!("{:.2} of {shards}", per_call(*count, calls)));
        }
    }
    format!(
        "{:.1} commands a call; commits of one shard {} and of two {}; finds of posting lists a call: {}",
        per_call(all, calls),
        commits(routes, "1 of 2"),
        commits(routes, "2 of 2"),
        lists.join(", ")
    )
}

fn per_call(count: u64, calls: u64) -> f64 {
    count as f64 / calls as f64
}

/// Returns the number of commits that used these shards.
fn commits(routes: &BTreeMap<CommandRoute, u64>, shards: &str) -> u64 {
    let own = routes.iter().filter(|((command, _, asked), _)| command == "commitTransaction" && asked == shards);
    own.map(|(_, count)| *count).sum()
}

/// Prints the figures of one database. `cluster` is the cluster that `uri` leads to, if it leads to one.
async fn print_figures(title: &str, uri: &str, cluster: Option<&ShardedCluster>) {
    let calls: u64 = std::env::var("DOPPEL_TEST_FIGURES").ok().and_then(|value| value.parse().ok()).unwrap_or(16);
    let name = database("figures");
    let options = Options { deadline: Duration::from_secs(60), ..crate::mongod::options() };
    let store: Arc<dyn Store> = Arc::new(MongoStore::connect(uri, &name, options).await.expect("a connection"));
    let client = mongodb::Client::with_uri_str(uri).await.expect("a client");
    let mut first = 0;
    for collections in [1, 10] {
        let mut desks = Vec::new();
        for number in 0..collections {
            desks.push(TestCollection::new(&store, &format!("c{collections}-{number}")).await);
        }
        let desks = Arc::new(desks);
        for clients in [1, 8, 64] {
            let plain = client.database(&name).collection::<Document>("plain");
            let row = sample(1).content().bytes();
            let insert = CallTimes::measure(calls, clients, move |number| {
                let plain = plain.clone();
                async move {
                    let document = doc! { "number": number as i64, "row": "x".repeat(row) };
                    let inserted = plain.insert_one(document).write_concern(durable()).await;
                    inserted.expect("an insert");
                }
            });
            let insert = insert.await.median();
            if let Some(cluster) = cluster {
                cluster.router().take_routes();
            }
            let place = Arc::clone(&desks);
            let puts = CallTimes::measure(calls, clients, move |number| {
                let desk = place[number as usize % place.len()].clone();
                async move {
                    drop(desk.try_put(&sample(first + number), RegistrationMode::Put).await.expect("a registration"));
                }
            });
            let puts = puts.await;
            let routes = cluster.map(|cluster| cluster.router().take_routes());
            let counted = puts.each.len() as u64;
            let place = Arc::clone(&desks);
            let finds = CallTimes::measure(calls, clients, move |number| {
                let desk = place[number as usize % place.len()].clone();
                async move {
                    let sample = sample(first + number);
                    let judge = SampleJudge::of(&sample, false);
                    let found = desk.store.find(desk.query(&sample, None), judge, LookupEnd::Exhausted).await;
                    assert_eq!(found.expect("a lookup").matches.len(), 1);
                }
            });
            let finds = finds.await;
            println!("{title}, {collections} collections, {clients} clients:");
            println!("  registrations {}", puts.describe(Some(insert)));
            println!("  lookups       {}", finds.describe(Some(insert)));
            if let (Some(routes), Some(cluster)) = (routes, cluster) {
                println!("  a registration: {}", describe_routes(&routes, counted));
                println!("  a lookup:       {}", describe_routes(&cluster.router().take_routes(), counted));
                let latches =
                    routes.keys().filter(|(command, name, _)| command == "findAndModify" && name == "collections");
                assert!(latches.clone().count() > 0 && latches.clone().all(|(_, _, asked)| asked == "1 of 2"));
            }
            first += 1_000_000;
        }
    }
    if let Some(cluster) = cluster {
        let documents = cluster.documents(&name, "collections").await;
        println!("{title}: orders of commits on the shards: {documents:?}");
        assert!(documents.iter().all(|count| *count > 0), "all orders of commits are on one shard: {documents:?}");
    }
}

fn durable() -> WriteConcern {
    WriteConcern::builder().w(mongodb::options::Acknowledgment::Majority).journal(true).build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_collections_commit_on_several_shards() {
    let server = crate::mongod::SharedMongod::start().await;
    print_figures("one replica set", server.uri(), None).await;
    drop(server);
    let cluster = ShardedCluster::start().await;
    print_figures("two shards", &cluster.uri(), Some(&cluster)).await;
}
