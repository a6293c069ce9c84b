//! Random operations on a store and on the model: every answer is the same.

#[path = "support/mongod.rs"]
mod mongod;

use std::sync::Arc;

use doppel::store::conformance::{Desk, Sample};
use doppel::store::embedded::{EmbeddedStore, Options};
use doppel::store::model::ModelStore;
use doppel::store::mongo::MongoStore;
use doppel::store::{Mode, Registered, Store, StoredRecord, Until};
use doppel::verdict::{Match, Verdict};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Put(Sample),
    Skip(Sample),
    Remove(String),
    Find(Sample, Option<String>),
    Reopen,
}

/// Few ids, few keys, few fingerprints: nearly everything meets.
fn samples() -> impl Strategy<Value = Sample> {
    let keys = proptest::collection::btree_set(0u64..9, 0..5);
    let fingerprint = proptest::option::of(prop_oneof![0u64..16, Just(u64::MAX), Just(u64::MAX ^ 0b1111)]);
    (0..10u8, keys, fingerprint, 0..2u8).prop_map(|(id, keys, fingerprint, note)| {
        let keys: Vec<u64> = keys.into_iter().collect();
        Sample { fingerprint, ..Sample::with_keys(format!("r{id}"), keys) }.noted(&note.to_string())
    })
}

fn ops() -> impl Strategy<Value = Op> {
    let id = || (0..10u8).prop_map(|id| format!("r{id}"));
    prop_oneof![
        6 => samples().prop_map(Op::Put),
        3 => samples().prop_map(Op::Skip),
        2 => id().prop_map(Op::Remove),
        3 => (samples(), proptest::option::of(id())).prop_map(|(sample, except)| Op::Find(sample, except)),
        1 => Just(Op::Reopen),
    ]
}

fn show_match(found: &Match) -> String {
    format!("{} {:?} {:?}", found.id, found.via, found.distance)
}

/// All of a verdict but seqs, which are each store's own.
fn show_verdict(verdict: &Verdict) -> String {
    let similar: Vec<_> = verdict.similar.iter().map(show_match).collect();
    format!("{:?} {:?} {:?} {similar:?}", verdict.kind, verdict.duplicate_of, verdict.fingerprint)
}

fn show_record(record: &StoredRecord) -> String {
    format!("{} {} {:?} {}", record.id, record.row, record.digest, show_verdict(&record.verdict))
}

fn show(outcome: &Registered) -> String {
    match outcome {
        Registered::Created(record) => format!("created {}", show_record(record)),
        Registered::Replaced(record) => format!("replaced {}", show_record(record)),
        Registered::Updated(record) => format!("updated {}", show_record(record)),
        Registered::Unchanged(record) => format!("unchanged {}", show_record(record)),
        Registered::Skipped(verdict) => format!("skipped {}", show_verdict(verdict)),
    }
}

async fn apply(desk: &Desk, op: &Op) -> Vec<String> {
    match op {
        Op::Put(sample) => vec![show(&desk.try_put(sample, Mode::Put).await.expect("a registration"))],
        Op::Skip(sample) => vec![show(&desk.try_put(sample, Mode::SkipDuplicate).await.expect("a registration"))],
        Op::Remove(id) => vec![desk.remove(id).await.to_string()],
        Op::Find(sample, except) => {
            let found = desk.find_all(sample, except.as_deref(), Until::Exhausted).await;
            let mut found: Vec<String> = found.matches.iter().map(show_match).collect();
            found.sort();
            found
        }
        Op::Reopen => desk.all().await.iter().map(show_record).collect(),
    }
}

/// A record's verdict names a record that is still the one it meant exactly if the seqs agree.
async fn still_same(desk: &Desk) -> Vec<bool> {
    let mut same = Vec::new();
    for record in desk.all().await {
        if let Some(id) = &record.verdict.duplicate_of {
            same.push(desk.get(id.as_str()).await.map(|named| named.seq) == record.duplicate_of_seq);
        }
    }
    same
}

fn open(dir: &std::path::Path) -> Arc<dyn Store> {
    Arc::new(EmbeddedStore::open(dir, Options::default()).expect("the directory opens"))
}

/// `open` opens the store again and again; what it held is there each time.
async fn compare(ops: Vec<Op>, open: impl AsyncFn() -> Arc<dyn Store>) {
    let model: Arc<dyn Store> = Arc::new(ModelStore::default());
    let model = Desk::new(&model, "desk").await;
    let mut desk = Desk::new(&open().await, "desk").await;
    for (step, op) in ops.iter().chain([&Op::Reopen]).enumerate() {
        if matches!(op, Op::Reopen) {
            drop(desk);
            desk = Desk::existing(&open().await, "desk");
        }
        assert_eq!(apply(&desk, op).await, apply(&model, op).await, "step {step}: {op:?}");
    }
    assert_eq!(still_same(&desk).await, still_same(&model).await);
    let counts = (desk.store.count(&desk.name).await, model.store.count(&model.name).await);
    assert_eq!(counts.0.expect("a count"), counts.1.expect("a count"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_embedded_store_answers_like_the_model(ops in proptest::collection::vec(ops(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let dir = tempfile::tempdir().expect("a temporary directory");
        runtime.block_on(compare(ops, async || open(dir.path())));
    }
}

#[test]
fn the_mongodb_store_answers_like_the_model() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let server = runtime.block_on(mongod::Shared::start());
    let config = ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() };
    let outcome = proptest::test_runner::TestRunner::new(config).run(&proptest::collection::vec(ops(), 1..40), |ops| {
        let database = mongod::database("model");
        let open = async || {
            let opening = MongoStore::connect(server.uri(), &database, mongod::options());
            let store: Arc<dyn Store> = Arc::new(opening.await.expect("a connection"));
            store
        };
        runtime.block_on(compare(ops, open));
        runtime.block_on(mongod::drop_database(server.uri(), &database));
        Ok(())
    });
    outcome.expect("the same answers");
}
