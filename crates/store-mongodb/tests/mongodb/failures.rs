//! Transient errors of a server or a router: calls are repeated within the deadline, or return an error with the time of the next attempt.
//! No such error is reported as a bug. The tests use the failpoints of mongod.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::mongod::{ReplicaSet, database};
use crate::pair::patient_put;
use doppel_store::conformance::{SampleJudge, SampleRecord, SampleSigning, TestCollection, stored};
use doppel_store::request::one_request;
use doppel_store::tasks::{TaskPut, TaskState};
use doppel_store::{
    GenerationId, LookupEnd, LookupQuery, RegisterOutcome, RegistrationMode, Result, Store, StoreError,
};
use doppel_store_mongodb::{Clock, MongoStore, Options};

/// MaxTimeMSExpired, FailedToSatisfyReadPreference, NetworkInterfaceExceededTimeLimit, StaleChunkHistory, ExceededTimeLimit, Interrupted,
/// StaleConfig.
const CODES: [i32; 7] = [50, 133, 202, 250, 262, 11_601, 13_388];
/// All commands that the store sends.
const COMMANDS: [&str; 8] =
    ["find", "aggregate", "getMore", "insert", "update", "delete", "findAndModify", "commitTransaction"];
/// The same commands in groups: reads, writes, commits.
const KINDS: [&[&str]; 3] =
    [&["find", "aggregate", "getMore"], &["insert", "update", "delete", "findAndModify"], &["commitTransaction"]];
const DEADLINE: Duration = Duration::from_millis(1_500);
/// The time by which a busy machine may exceed a deadline.
const SLACK: Duration = Duration::from_secs(2);

/// Connects a store. A test can make the commands of this store fail without effect on other commands.
async fn failing_store(set: &ReplicaSet, application: &str, deadline: Duration) -> (MongoStore, Arc<dyn Store>) {
    let uri = format!("{}&appName={application}", set.uri());
    let options = Options { deadline, staleness: Duration::ZERO, ..crate::mongod::options() };
    let store = MongoStore::connect(&uri, &database(application), options).await.expect("a connection");
    (store.clone(), Arc::new(store))
}

fn sample(number: u64) -> SampleRecord {
    let key = number * 10 + 1;
    SampleRecord {
        fingerprint: Some((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        ..SampleRecord::with_keys(format!("r{number}"), [key, key + 2])
    }
}

/// Runs the steps of a reindex.
async fn reindex(desk: &TestCollection) -> Result<GenerationId> {
    let begun = desk.store.begin_generation(desk.generation_spec("p1")).await?;
    desk.store.complete_generation(&desk.name, begun.id).await?;
    desk.store.activate_generation(&desk.name, begun.id).await?;
    desk.store.drop_generation(&desk.name, desk_previous(begun.id)).await?;
    Ok(begun.id)
}

fn desk_previous(id: GenerationId) -> GenerationId {
    GenerationId(id.0 - 1)
}

async fn find(desk: &TestCollection, sample: &SampleRecord) -> Result<usize> {
    let state = desk.store.collection(&desk.name).await?.expect("the collection is there");
    let query = LookupQuery { generation: state.generation, ..desk.query(sample, None) };
    let found = desk.store.find(query, SampleJudge::of(sample, false), LookupEnd::Exhausted).await?;
    Ok(found.matches.len())
}

/// True if the error is transient for the caller.
fn is_passing<T>(outcome: &Result<T>) -> bool {
    matches!(outcome, Err(StoreError::Unavailable { .. } | StoreError::Unknown(_)))
}

fn task(desk: &TestCollection, at: i32) -> TaskState {
    TaskState::asked_for(
        format!("task{at}"),
        desk.name.clone(),
        "purge",
        serde_json::json!({}),
        "2026-01-01T00:00:00Z".into(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_few_transient_errors_fail_no_call() {
    let set = ReplicaSet::start(1).await;
    let (_, store) = failing_store(&set, "few", Duration::from_secs(20)).await;
    for (at, code) in CODES.into_iter().enumerate() {
        let desk = TestCollection::new(&store, &format!("code{code}")).await;
        for number in 0..4 {
            desk.put(&sample(number)).await;
        }
        // One kind of command fails at a time, so that each place that sends the command gets the error.
        for (kind, commands) in KINDS.into_iter().enumerate() {
            let context = format!("{commands:?} with code {code}");
            set.fail("few", commands, code, 2).await;
            assert_eq!(find(&desk, &sample(2)).await.map_err(|error| error.to_string()), Ok(1), "check: {context}");
            set.fail("few", commands, code, 2).await;
            let live = desk.state().await.generation;
            let state = desk.state().await;
            let fresh = sample(100 + kind as u64);
            let registration = desk.registration_for(&state, &fresh, RegistrationMode::Put);
            let put = store.register(registration, SampleJudge::within(&fresh, live, SampleSigning::of("p1"))).await;
            // A commit with an unknown result may have been made by the first attempt.
            assert!(
                matches!(put, Ok(RegisterOutcome::Created(_) | RegisterOutcome::Unchanged(_))),
                "put: {context}: {put:?}"
            );
            set.fail("few", commands, code, 2).await;
            let again = desk.put_in_all(&SampleRecord { keys: vec![5, 7], ..fresh.clone() }).await;
            assert!(
                matches!(again, RegisterOutcome::Replaced(_) | RegisterOutcome::Unchanged(_)),
                "replace: {context}: {again:?}"
            );
            set.fail("few", commands, code, 2).await;
            assert!(desk.remove(&fresh.id).await, "remove: {context}");
            assert!(desk.get(&fresh.id).await.is_none());
        }
        for (kind, commands) in KINDS.into_iter().enumerate() {
            let made = TestCollection::new(&store, &format!("made{at}-{kind}")).await;
            stored(made.put(&sample(1)).await);
            set.fail("few", commands, code, 2).await;
            let done = reindex(&made).await.map_err(|error| error.to_string());
            assert_eq!(done, Ok(GenerationId(2)), "reindex: {commands:?} with code {code}");
            set.stop_failing().await;
        }
        set.fail("few", &COMMANDS, code, 3).await;
        let put = store.put_task(task(&desk, code)).await.expect("a task");
        assert!(matches!(put, TaskPut::Stored(_)), "task with code {code}: {put:?}");
        set.stop_failing().await;
        assert_eq!(desk.all().await.len(), 4, "code {code}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lasting_transient_errors_are_no_bugs_and_no_answer_is_late() {
    let set = ReplicaSet::start(1).await;
    let (whole, store) = failing_store(&set, "long", DEADLINE).await;
    let desk = TestCollection::new(&store, "errors").await;
    patient_put(&desk, &sample(1)).await;
    for code in CODES {
        set.fail("long", &COMMANDS, code, i32::MAX).await;
        let began = Instant::now();
        assert!(is_passing(&find(&desk, &sample(1)).await), "check with code {code}");
        assert!(began.elapsed() < DEADLINE * 2 + SLACK, "two calls with code {code}: {:?}", began.elapsed());
        let began = Instant::now();
        let put = desk.try_put(&sample(7), RegistrationMode::Put).await;
        assert!(is_passing(&put), "put with code {code}: {put:?}");
        assert!(began.elapsed() < DEADLINE + SLACK, "put with code {code}: {:?}", began.elapsed());
        assert!(is_passing(&reindex(&desk).await), "reindex with code {code}");
        assert!(
            is_passing(&store.create_collection(TestCollection::existing(&store, "new").spec("p1")).await),
            "creation, code {code}"
        );
        set.fail("long", &["commitTransaction"], code, i32::MAX).await;
        let put = desk.try_put(&sample(8), RegistrationMode::Put).await;
        assert!(is_passing(&put), "commit with code {code}: {put:?}");
        set.stop_failing().await;
    }
    let report = whole.examine(false, false).await.expect("it can be examined");
    assert!(report.faults.is_empty(), "{:?}", report.faults);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_calls_of_one_request_share_one_deadline() {
    let set = ReplicaSet::start(1).await;
    let (_, store) = failing_store(&set, "shared", DEADLINE).await;
    let desk = TestCollection::new(&store, "shared").await;
    set.fail("shared", &COMMANDS, 262, i32::MAX).await;
    let began = Instant::now();
    one_request(async {
        for _ in 0..4 {
            assert!(is_passing(&find(&desk, &sample(1)).await));
            assert!(is_passing(&desk.try_put(&sample(1), RegistrationMode::Put).await));
        }
    })
    .await;
    assert!(began.elapsed() < DEADLINE + SLACK, "{:?}", began.elapsed());
    set.stop_failing().await;
}

/// The difference of [`skewed_clock`] from the right time in microseconds.
static AHEAD: AtomicI64 = AtomicI64::new(0);

fn skewed_clock() -> u64 {
    jiff::Timestamp::now().as_microsecond().saturating_add(AHEAD.load(Ordering::Relaxed)).unsigned_abs()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_clock_jumps_is_not_ready_until_the_clock_is_right_again() {
    let server = crate::mongod::SharedMongod::start().await;
    let name = database("clock");
    let clock = Clock { micros: skewed_clock, ..crate::mongod::options().clock };
    let options = Options { clock, ..crate::mongod::options() };
    let store = MongoStore::connect(server.uri(), &name, options).await.expect("a connection");
    store.ready().await.expect("the clocks agree");
    AHEAD.store(3_600_000_000, Ordering::Relaxed);
    let refused = store.ready().await.expect_err("an hour ahead").to_string();
    assert!(refused.contains("ahead of that of the MongoDB server") && refused.contains("NTP"), "{refused}");
    AHEAD.store(0, Ordering::Relaxed);
    store.ready().await.expect("the clocks agree again");
    crate::mongod::drop_database(server.uri(), &name).await;
}
