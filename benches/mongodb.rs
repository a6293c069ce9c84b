//! Measures the MongoDB store on a replica set of one member on this machine. `cargo bench --bench mongodb -- 1000000` sets the number of
//! fingerprints (default 100,000). Every figure has a baseline from the same run.

#![allow(clippy::disallowed_methods, reason = "a bench makes its own time, files and settings")]
#![allow(clippy::print_stdout, reason = "the report")]

#[path = "../tests/support/mongod.rs"]
mod mongod;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use doppel_core::collection::{Channel, CollectionName, Preset, Settings, SimhashChannel};
use doppel_core::index::HammingRange;
use doppel_core::record::{RecordId, Row};
use doppel_core::schemes::Signature;
use doppel_core::schemes::profile::{Digest, Signed};
use doppel_core::verdict::{Fingerprint, Match, Verdict, VerdictInputs};
use doppel_store::content::RecordContent;
use doppel_store::generations::{FiledSignatures, GenerationSpec, GenerationStore as _};
use doppel_store::{
    CandidateJudge, CandidateRecord, CollectionSpec, GenerationId, LookupEnd, LookupQuery, Registration,
    RegistrationMode, Seq, SequencedNotifier, Store,
};
use doppel_store_mongodb::MongoStore;
use mongodb::bson::{Bson, Document, RawDocumentBuf, doc};

const SLICE: Duration = Duration::from_secs(5);
const RADIUS: u8 = 3;
/// Number of records in one call of `file`.
const FILED_AT_ONCE: usize = 1000;

fn spread(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) ^ (mixed >> 31)
}

fn signed(fingerprint: u64, number: u64) -> Signed {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&spread(number ^ 0xD1).to_le_bytes());
    digest[8..16].copy_from_slice(&number.to_le_bytes());
    let signatures = vec![Some(Signature::Fingerprint(Fingerprint(fingerprint)))];
    Signed { digest: Digest(digest), features: 100, too_short: false, signatures, keys: Vec::new() }
}

/// Returns a row that is about as long as a short petition.
fn row(number: u64) -> String {
    let text = "小区门口道路积水影响居民出行".repeat(12);
    format!("{{\"title\":\"{number}\",\"content\":\"{number} {text}\"}}")
}

struct Near(Fingerprint);

impl CandidateJudge for Near {
    fn judge(&self, candidate: &CandidateRecord<'_>) -> Option<Match> {
        let distance = self.0.distance(candidate.fingerprint?);
        (distance <= RADIUS).then(|| Match {
            via: vec!["simhash".into()],
            distance: Some(distance),
            ..Match::unmeasured(candidate.record.id.clone(), candidate.record.seq)
        })
    }

    fn needs_signatures(&self) -> bool {
        false
    }

    fn conclude(&self, matches: Vec<Match>, truncated: bool) -> Verdict {
        Verdict::conclude(
            matches,
            VerdictInputs {
                too_short: false,
                fingerprint: Some(self.0),
                generation: GenerationId(1),
                truncated,
                statistics: 0,
            },
        )
    }
}

fn id(text: &str) -> RecordId {
    RecordId::new(text).expect("a valid id")
}

/// Measures calls per second and percentiles of `call` with `clients` callers during [`SLICE`].
async fn measure<F>(name: &str, clients: usize, call: impl Fn(u64) -> F + Send + Sync + 'static)
where
    F: Future<Output = ()> + Send,
{
    let call = Arc::new(call);
    let next = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let callers = (0..clients).map(|_| {
        let call = Arc::clone(&call);
        let next = Arc::clone(&next);
        tokio::spawn(async move {
            let mut times = Vec::new();
            while start.elapsed() < SLICE {
                let asked = Instant::now();
                call(next.fetch_add(1, Ordering::Relaxed)).await;
                times.push(asked.elapsed());
            }
            times
        })
    });
    let mut times = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        times.extend(caller.await.expect("no caller panics"));
    }
    let rate = times.len() as f64 / start.elapsed().as_secs_f64();
    println!("{name:46} {clients:3} clients {rate:8.0}/s  {}", percentiles(&mut times));
}

fn percentiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() * share / 1000).min(times.len() - 1)].as_secs_f64() * 1e3;
    format!("p50 {:8.2} ms  p99 {:8.2} ms  ({} calls)", at(500), at(990), times.len())
}

#[derive(Clone)]
struct Bench {
    store: MongoStore,
    name: CollectionName,
    database: mongodb::Database,
}

impl Bench {
    /// Registers a record, also in a second generation if it exists.
    async fn put(&self, text: String, number: u64, fingerprint: u64, second: Option<GenerationId>) {
        let other = |generation| (generation, Arc::new(signed(spread(fingerprint), number)));
        let registration = Registration {
            collection: self.name.clone(),
            generation: GenerationId(1),
            id: id(&text),
            content: RecordContent::from(&Row::parse(row(number).as_bytes()).expect("a row")),
            signed: Arc::new(signed(fingerprint, number)),
            mode: RegistrationMode::Put,
            write_once: false,
            now: "2026-01-01T00:00:00Z".into(),
            others: second.map(other).into_iter().collect(),
            confirmed: Vec::new(),
            refused: Vec::new(),
            decisions_as_of: None,
            sequenced: SequencedNotifier::default(),
        };
        loop {
            match self.store.register(registration.clone(), Arc::new(Near(Fingerprint(fingerprint)))).await {
                Ok(_) => return,
                Err(doppel_store::StoreError::Unavailable { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn find(&self, fingerprint: u64) {
        let query = LookupQuery {
            collection: self.name.clone(),
            generation: GenerationId(1),
            digest: Some(signed(fingerprint, u64::MAX).digest),
            hamming: Some(HammingRange { centre: Fingerprint(fingerprint), within: SimhashChannel::first(RADIUS) }),
            signed: None,
            except: None,
            confirmed: Vec::new(),
        };
        self.store.find(query, Arc::new(Near(Fingerprint(fingerprint))), LookupEnd::Exhausted).await.expect("a lookup");
    }

    /// Prints the attempts per transaction since `before`, the earlier result of [`MongoStore::attempts`].
    fn print_attempts(&self, before: (u64, u64)) {
        let after = self.store.attempts();
        println!("  attempts a transaction: {:.3}", (after.1 - before.1) as f64 / (after.0 - before.0) as f64);
    }

    async fn sizes(&self) {
        let blocks = self.database.collection::<Document>("blocks");
        let sizes = vec![doc! { "$project": { "_id": 0, "s": { "$bsonSize": "$$ROOT" } } }];
        let mut cursor = blocks.aggregate(sizes).await.expect("sizes");
        let mut found = Vec::new();
        while cursor.advance().await.expect("a page") {
            found.push(cursor.current().get_i32("s").expect("a number"));
        }
        found.sort_unstable();
        let at = |share: usize| found[(found.len() * share / 1000).min(found.len() - 1)];
        println!("page bytes: p50 {} p99 {} max {} ({} pages)", at(500), at(990), at(1000), found.len());
    }
}

async fn lookups_and_registers(bench: &Bench, records: u64) {
    for clients in [1, 8, 64] {
        let asked = bench.clone();
        measure("lookup of an unknown fingerprint", clients, move |at| {
            let bench = asked.clone();
            async move { bench.find(spread(at ^ 0xABCD_0000_0000)).await }
        })
        .await;
    }
    let asked = bench.clone();
    measure("lookup of a known one, 2 bits away", 1, move |at| {
        let bench = asked.clone();
        async move { bench.find(spread(at % records) ^ 0b1001).await }
    })
    .await;
    for clients in [1, 8, 64] {
        let plain = bench.database.collection::<Document>("plain");
        measure("baseline: one journalled majority insert", clients, move |at| {
            let plain = plain.clone();
            async move {
                plain.insert_one(doc! { "at": at as i64, "row": row(at) }).await.expect("an insert");
            }
        })
        .await;
        let before = bench.store.attempts();
        let asked = bench.clone();
        measure("register", clients, move |at| {
            let bench = asked.clone();
            let number = (clients as u64) << 40 | at;
            async move { bench.put(format!("new-{clients}-{at}"), number, spread(number), None).await }
        })
        .await;
        bench.print_attempts(before);
    }
}

/// Measures a second generation next to the first: the speed of filing it, alone and together with writers, and its cost for the writers.
async fn second_generation(bench: &Bench) {
    let settings = bench.store.collection(&bench.name).await.expect("a look").expect("it is there").settings.clone();
    let spec = GenerationSpec {
        collection: bench.name.clone(),
        settings,
        based_on: None,
        profile: "second".into(),
        statistics: Vec::new(),
        now: String::new(),
    };
    let begun = bench.store.begin_generation(spec).await.expect("a generation");
    let filed = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let filing = tokio::spawn(file_all(bench.clone(), begun.id, Arc::clone(&filed)));
    let mut before = 0;
    let mut rate = |what: &str, since: Instant| {
        let now = filed.load(Ordering::Relaxed);
        println!("filing {what}: {:.0} records/s", (now - before) as f64 / since.elapsed().as_secs_f64());
        before = now;
    };
    tokio::time::sleep(SLICE * 2).await;
    rate("alone", start);
    let beside = Instant::now();
    register_in_both(bench, "register in two generations, beside filing", begun.id, 52).await;
    rate("beside 8 writers", beside);
    filing.await.expect("filing ends");
    let all = filed.load(Ordering::Relaxed);
    println!("filed {all} records in a second generation: {:.0}/s", all as f64 / start.elapsed().as_secs_f64());
    register_in_both(bench, "register in two generations", begun.id, 53).await;
}

async fn register_in_both(bench: &Bench, name: &str, second: GenerationId, series: u32) {
    let before = bench.store.attempts();
    let asked = bench.clone();
    measure(name, 8, move |at| {
        let bench = asked.clone();
        let number = 1 << series | at;
        async move { bench.put(format!("{series}-{at}"), number, spread(number), Some(second)).await }
    })
    .await;
    bench.print_attempts(before);
}

async fn file_all(bench: Bench, generation: GenerationId, filed: Arc<AtomicU64>) {
    let mut after = Seq(0);
    loop {
        let records = bench.store.records(&bench.name, after, FILED_AT_ONCE).await.expect("records");
        let Some(last) = records.last() else { return };
        after = last.seq;
        let filings = records.iter().map(|record| FiledSignatures {
            id: record.id.clone(),
            seq: record.seq,
            signed: Arc::new(signed(spread(record.seq.0 ^ 0xF11E), record.seq.0)),
        });
        let filings = filings.collect();
        filed.fetch_add(bench.store.file(&bench.name, generation, filings).await.expect("filed"), Ordering::Relaxed);
    }
}

async fn hot_bucket(bench: &Bench) {
    let before = bench.store.attempts();
    let asked = bench.clone();
    measure("register into one hot bucket", 64, move |at| {
        let bench = asked.clone();
        let number = 1 << 50 | at;
        let fingerprint = 0x00AA << 48 | spread(number) >> 16;
        async move { bench.put(format!("hot-{at}"), number, fingerprint, None).await }
    })
    .await;
    bench.print_attempts(before);
    let single = bench.database.collection::<Document>("single");
    measure("paper: read and push 4 documents, not atomic", 64, move |at| {
        let single = single.clone();
        let fingerprint = 0x00AA << 48 | spread(at) >> 16;
        async move {
            let keys: Vec<Bson> = (0..4_i64)
                .map(|block| Bson::Int64(block << 16 | (fingerprint >> (48 - 16 * block)) as i64 & 0xFFFF))
                .collect();
            let mut cursor = single.find(doc! { "_id": { "$in": &keys } }).await.expect("a read");
            while cursor.advance().await.expect("a document") {}
            for key in keys {
                let push =
                    doc! { "$push": { "list": { "bits_of_": fingerprint as i64, "record__": format!("hot-{at}") } } };
                // Several callers may insert the same new document at once. The paper does not cover this case; here the caller that fails
                // tries again.
                while single.update_one(doc! { "_id": key.clone() }, push.clone()).upsert(true).await.is_err() {}
            }
        }
    })
    .await;
}

/// Measures a burst of records of one matter. All have the same fingerprint, and each has another text.
async fn hot_family(bench: &Bench) {
    let before = bench.store.attempts();
    let asked = bench.clone();
    measure("register into one family, all alike", 64, move |at| {
        let bench = asked.clone();
        async move { bench.put(format!("alike-{at}"), 1 << 49 | at, spread(1 << 49), None).await }
    })
    .await;
    bench.print_attempts(before);
}

/// Measures the same push and read with pages and with the paper's single document, while a bucket grows.
async fn growth(database: &mongodb::Database) {
    println!(
        "one bucket, alone:   entries   push to its page     push to one document   read pages / 1,000   read one / 1,000"
    );
    let pages = database.collection::<Document>("grow_pages");
    let one = database.collection::<Document>("grow_one");
    let index = mongodb::IndexModel::builder().keys(doc! { "b": 1, "p": 1 }).build();
    pages.create_index(index).await.expect("an index");
    let entry = |at: u64| doc! { "bits_of_": spread(at) as i64, "record__": format!("record-{at:08}") };
    let mut filled = 0;
    for size in [0_u64, 1_000, 5_000, 15_000, 50_000, 100_000] {
        let fresh: Vec<Document> = (filled..size).map(entry).collect();
        for (chunk, entries) in fresh.chunks(128).enumerate() {
            let page = (filled / 128) as i64 + chunk as i64;
            pages
                .insert_one(doc! { "b": 1, "p": page, "n": entries.len() as i64, "list": entries.to_vec() })
                .await
                .expect("a page");
        }
        if !fresh.is_empty() {
            let push = doc! { "$push": { "list": { "$each": fresh } } };
            one.update_one(doc! { "_id": 1 }, push).upsert(true).await.expect("a push");
        }
        filled = size;
        let mut paged = Vec::new();
        let mut single = Vec::new();
        let next = 1_000_000 + size as i64;
        for at in 0..60 {
            let push = doc! { "$push": { "list": entry(at) }, "$inc": { "n": 1 } };
            let start = Instant::now();
            pages.update_one(doc! { "b": 1, "p": next }, push.clone()).upsert(true).await.expect("a push");
            paged.push(start.elapsed());
            let start = Instant::now();
            one.update_one(doc! { "_id": 1 }, doc! { "$push": { "list": entry(at) } })
                .upsert(true)
                .await
                .expect("a push");
            single.push(start.elapsed());
        }
        let thousands = (size.max(60) as f64) / 1000.0;
        let mut read_pages = Vec::new();
        let mut read_one = Vec::new();
        for _ in 0..10 {
            let start = Instant::now();
            let mut seen = count(pages.clone_with_type(), doc! { "b": 1 }).await;
            read_pages.push(start.elapsed().div_f64(thousands));
            let start = Instant::now();
            seen += count(one.clone_with_type(), doc! { "_id": 1 }).await;
            read_one.push(start.elapsed().div_f64(thousands));
            assert!(seen > 0);
        }
        let middle = |times: &mut Vec<Duration>| {
            times.sort_unstable();
            times[times.len() / 2].as_secs_f64() * 1e3
        };
        let figures = [&mut paged, &mut single, &mut read_pages, &mut read_one].map(middle);
        let [paged, single, read_pages, read_one] = figures;
        println!("{size:28} {paged:15.2} ms {single:20.2} ms {read_pages:17.3} ms {read_one:17.3} ms");
        pages.delete_one(doc! { "b": 1, "p": next }).await.expect("a removal");
    }
}

async fn count(collection: mongodb::Collection<RawDocumentBuf>, filter: Document) -> usize {
    let mut cursor = collection.find(filter).batch_size(1000).await.expect("a read");
    let mut near = 0;
    while cursor.advance().await.expect("a document") {
        for item in cursor.current().get_array("list").expect("a list") {
            let item = item.expect("an entry");
            let bits = item.as_document().and_then(|item| item.get_i64("bits_of_").ok()).expect("bits");
            near += usize::from((bits ^ 5).count_ones() < 64);
        }
    }
    near
}

async fn run(records: u64) {
    let server = mongod::SharedMongod::start().await;
    let name = mongod::database("bench");
    let store = MongoStore::connect(server.uri(), &name, mongod::options()).await.expect("a connection");
    let client = mongodb::Client::with_uri_str(server.uri()).await.expect("a client");
    let bench = Bench {
        store: store.clone(),
        name: CollectionName::new("bench").expect("a name"),
        database: client.database(&name),
    };
    let mut settings = Settings::preset(Preset::Paper);
    settings.channels.retain(|channel| matches!(channel, Channel::Simhash(_)));
    let spec = CollectionSpec {
        name: bench.name.clone(),
        settings,
        profile: "bench".into(),
        hash_key: None,
        now: String::new(),
    };
    store.create_collection(spec).await.expect("a collection");
    let empty = store.usage().await.expect("figures").disk_bytes;
    let start = Instant::now();
    let filling = (0..records).map(|at| (id(&format!("r{at}")), row(at), signed(spread(at), at)));
    store.fill(&bench.name, filling).await.expect("records");
    println!("{records} fingerprints, filled in bulk in {:.1} s", start.elapsed().as_secs_f64());
    // Data that is not on disk yet is not counted.
    client.database("admin").run_command(doc! { "fsync": 1 }).await.expect("a checkpoint");
    let bytes = store.usage().await.expect("figures").disk_bytes - empty;
    println!("bytes on disk a record: {} (rows of {} bytes)", bytes / records, row(0).len());
    bench.sizes().await;
    lookups_and_registers(&bench, records).await;
    hot_bucket(&bench).await;
    hot_family(&bench).await;
    second_generation(&bench).await;
    growth(&bench.database).await;
    mongod::drop_database(server.uri(), &name).await;
}

fn main() {
    let records = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(100_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run(records));
}
