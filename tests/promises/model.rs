//! Random operations on a store and on the model have the same results.

use std::sync::Arc;

use doppel_core::index::Entry;
use doppel_core::verdict::{Match, Verdict};
use doppel_store::conformance::{SampleRecord, SampleSigning, TestCollection, id};
use doppel_store::decisions::{Judgement, RecordPair, Ruling};
use doppel_store::generations::{FiledSignatures, GenerationPhase, RecordMatches};
use doppel_store::model::ModelStore;
use doppel_store::{
    GenerationId, KeptDuplicate, RegisterOutcome, RegistrationMode, RemovalCondition, Seq, Store, StoreError,
    StoredRecord,
};
use doppel_store_embedded::{EmbeddedOptions, EmbeddedStore};
use doppel_store_mongodb::MongoStore;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum ModelCall {
    Put(SampleRecord),
    Skip(SampleRecord),
    Remove(String),
    /// Removes the first record if it still has its current version and the second record still exists.
    RemoveIf(String, String),
    Find(SampleRecord, Option<String>),
    Reopen,
    Beside(OtherChange),
}

/// A change of the data that is stored in addition to the records.
#[derive(Clone, Debug)]
enum OtherChange {
    Confirmed(SampleRecord, String),
    Begin(bool),
    File(usize),
    Complete,
    Activate(GenerationId),
    Drop(GenerationId),
    Pairs(String, Vec<String>),
    Decide(String, String, Judgement),
    Profile(bool),
    Frequencies(u32),
    Look,
}

/// Returns samples with few ids, few keys and few fingerprints, so that nearly all of them share ids, keys or fingerprints.
fn samples() -> impl Strategy<Value = SampleRecord> {
    let keys = proptest::collection::btree_set(0u64..9, 0..5);
    let fingerprint = proptest::option::of(prop_oneof![0u64..16, Just(u64::MAX), Just(u64::MAX ^ 0b1111)]);
    (0..10u8, keys, fingerprint, 0..2u8).prop_map(|(id, keys, fingerprint, note)| {
        let keys: Vec<u64> = keys.into_iter().collect();
        SampleRecord { fingerprint, ..SampleRecord::with_keys(format!("r{id}"), keys) }.noted(&note.to_string())
    })
}

fn ops() -> impl Strategy<Value = ModelCall> {
    prop_oneof![
        6 => samples().prop_map(ModelCall::Put),
        3 => samples().prop_map(ModelCall::Skip),
        2 => any_id().prop_map(ModelCall::Remove),
        2 => (any_id(), any_id()).prop_map(|(id, kept)| ModelCall::RemoveIf(id, kept)),
        3 => (samples(), proptest::option::of(any_id())).prop_map(|(sample, except)| ModelCall::Find(sample, except)),
        1 => Just(ModelCall::Reopen),
    ]
}

fn any_id() -> prop::strategy::Map<std::ops::Range<u8>, impl Fn(u8) -> String> {
    (0..10u8).prop_map(|id| format!("r{id}"))
}

fn ops_with_generations() -> impl Strategy<Value = ModelCall> {
    let beside = prop_oneof![
        2 => (samples(), any_record_id()).prop_map(|(sample, other)| OtherChange::Confirmed(sample, other)),
        2 => any::<bool>().prop_map(OtherChange::Begin),
        2 => (1..6usize).prop_map(OtherChange::File),
        3 => Just(OtherChange::Complete),
        3 => (1..5u32).prop_map(GenerationId).prop_map(OtherChange::Activate),
        1 => (1..5u32).prop_map(GenerationId).prop_map(OtherChange::Drop),
        1 => (any_record_id(), proptest::collection::vec(any_record_id(), 0..3)).prop_map(|(id, earlier)| OtherChange::Pairs(id, earlier)),
        2 => (any_record_id(), any_record_id(), any_judgement()).prop_map(|(a, b, judgement)| OtherChange::Decide(a, b, judgement)),
        1 => any::<bool>().prop_map(OtherChange::Profile),
        2 => (0..4u32).prop_map(OtherChange::Frequencies),
        2 => Just(OtherChange::Look),
    ];
    prop_oneof![3 => ops(), 2 => beside.prop_map(ModelCall::Beside)]
}

fn any_record_id() -> prop::strategy::Map<std::ops::Range<u8>, impl Fn(u8) -> String> {
    (0..10u8).prop_map(|id| format!("r{id}"))
}

fn any_judgement() -> impl Strategy<Value = Judgement> {
    prop_oneof![Just(Judgement::Same), Just(Judgement::NotSame), Just(Judgement::Withdrawn)]
}

fn show_match(found: &Match) -> String {
    format!("{} {:?} {:?}", found.id, found.via, found.distance)
}

/// Shows a verdict without its sequence numbers, which differ between stores.
fn show_verdict(verdict: &Verdict) -> String {
    let similar: Vec<_> = verdict.similar.iter().map(show_match).collect();
    let Verdict { kind, duplicate_of, fingerprint, generation, .. } = verdict;
    format!("{kind:?} {duplicate_of:?} {fingerprint:?} {generation} {similar:?}")
}

fn show_record(record: &StoredRecord) -> String {
    format!("{} {:?} {:?} {}", record.id, record.content, record.digest, show_verdict(&record.verdict))
}

fn show(outcome: &RegisterOutcome) -> String {
    match outcome {
        RegisterOutcome::Created(record) => format!("created {}", show_record(record)),
        RegisterOutcome::Replaced(record) => format!("replaced {}", show_record(record)),
        RegisterOutcome::Updated(record) => format!("updated {}", show_record(record)),
        RegisterOutcome::Unchanged(record) => format!("unchanged {}", show_record(record)),
        RegisterOutcome::Skipped(verdict) => format!("skipped {}", show_verdict(verdict)),
    }
}

async fn apply(desk: &TestCollection, op: &ModelCall) -> Vec<String> {
    match op {
        ModelCall::Put(sample) => vec![put(desk, sample, RegistrationMode::Put, &[]).await],
        ModelCall::Skip(sample) => vec![put(desk, sample, RegistrationMode::SkipDuplicate, &[]).await],
        ModelCall::Remove(id) => vec![desk.remove(id).await.to_string()],
        ModelCall::RemoveIf(of, kept) => vec![remove_if(desk, of, kept).await],
        ModelCall::Find(sample, except) => {
            desk.find_within(sample, except.as_deref(), &[]).await.iter().map(show_match).collect()
        }
        ModelCall::Reopen => desk.all().await.iter().map(show_record).collect(),
        ModelCall::Beside(OtherChange::Look) => beside(desk).await,
        ModelCall::Beside(change) => vec![apply_beside(desk, change).await],
    }
}

async fn put(desk: &TestCollection, sample: &SampleRecord, mode: RegistrationMode, confirmed: &[&str]) -> String {
    show(&desk.try_put_confirmed(sample, mode, confirmed).await.expect("a registration"))
}

/// Removes a record as a duplicate of `kept`. The two records form a set.
async fn remove_if(desk: &TestCollection, of: &str, kept: &str) -> String {
    let (Some(record), Some(kept)) = (desk.get(of).await, desk.get(kept).await) else { return "no record".into() };
    let mut set = vec![record.id.clone(), kept.id.clone()];
    set.sort_unstable();
    let kept = KeptDuplicate { id: kept.id.clone(), version: kept.version(), set: set.into() };
    let unchanged = RemovalCondition::unchanged(desk.state().await.number, &record);
    let condition = RemovalCondition { kept: Some(kept), ..unchanged };
    outcome(desk.store.remove_if(&desk.name, &record.id, condition).await)
}

/// Shows an outcome. An error that is a refusal has its own text.
fn outcome<T: std::fmt::Debug>(outcome: doppel_store::Result<T>) -> String {
    match outcome {
        Ok(value) => format!("{value:?}"),
        Err(
            refused @ (StoreError::UnknownGeneration { .. }
            | StoreError::GenerationLive(_)
            | StoreError::GenerationBuilding(_)
            | StoreError::TooManyGenerations { .. }
            | StoreError::UnknownRecord(_)
            | StoreError::ProfileConflict(_)),
        ) => refused.to_string(),
        Err(error) => panic!("{error}"),
    }
}

async fn apply_beside(desk: &TestCollection, change: &OtherChange) -> String {
    let store = &desk.store;
    let name = &desk.name;
    let state = desk.state().await;
    let building = state.others.iter().find(|other| other.phase == GenerationPhase::Building);
    match change {
        OtherChange::Look => beside(desk).await.concat(),
        OtherChange::Confirmed(sample, other) => put(desk, sample, RegistrationMode::Put, &[other]).await,
        OtherChange::Begin(noted) => {
            outcome(store.begin_generation(desk.generation_spec(profile_name(*noted))).await.map(|begun| begun.id))
        }
        OtherChange::File(count) => {
            let Some(begun) = building else { return "nothing is built".into() };
            let signed =
                |record: &StoredRecord| SampleRecord::of_record(record).signed_as(SampleSigning::of(&begun.profile));
            let batch = desk
                .all()
                .await
                .iter()
                .rev()
                .take(*count)
                .map(|record: &StoredRecord| FiledSignatures {
                    id: record.id.clone(),
                    seq: record.seq,
                    signed: signed(record),
                })
                .collect();
            outcome(store.file(name, begun.id, batch).await)
        }
        OtherChange::Complete => {
            let Some(begun) = building else { return "nothing is built".into() };
            let filed = desk.file_rest(begun).await;
            outcome(store.complete_generation(name, begun.id).await.map(|()| filed))
        }
        OtherChange::Activate(generation) => {
            outcome(store.activate_generation(name, *generation).await.map(|state| state.generation))
        }
        OtherChange::Drop(generation) => outcome(store.drop_generation(name, *generation).await),
        OtherChange::Pairs(of, earlier) => {
            let Some(record) = desk.get(of).await else { return "no record".into() };
            let mut seqs = Vec::new();
            for other in earlier {
                seqs.extend(desk.get(other).await.map(|other| other.seq));
            }
            seqs.sort_unstable();
            let pairs = vec![RecordMatches { seq: record.seq, earlier: seqs }];
            outcome(store.put_pairs(name, state.generation, pairs).await)
        }
        OtherChange::Decide(a, b, judgement) => {
            let Some(pair) = RecordPair::new(id(a), id(b)) else { return "one record".into() };
            let ruling = Ruling {
                judgement: *judgement,
                by: None,
                note: None,
                at: "2026-01-04T00:00:00Z".into(),
                original: None,
            };
            outcome(store.decide(name, pair, ruling, None).await)
        }
        OtherChange::Profile(noted) => {
            outcome(store.update_collection(desk.spec(profile_name(*noted))).await.map(|state| state.generation))
        }
        OtherChange::Frequencies(version) => {
            outcome(store.put_frequencies(name, *version, format!("version {version}").into_bytes()).await)
        }
    }
}

fn profile_name(noted: bool) -> &'static str {
    if noted { "noted" } else { "p1" }
}

/// Shows all data that is stored in addition to the records, with ids instead of sequence numbers.
async fn beside(desk: &TestCollection) -> Vec<String> {
    let state = desk.state().await;
    let records = desk.all().await;
    let others: Vec<_> = state.others.iter().map(|other| (other.id, other.phase, &other.profile)).collect();
    let mut shown = vec![format!("{} {} {} {others:?}", state.generation, state.profile, state.frequencies)];
    for version in 0..5 {
        shown.push(format!("{:?}", desk.store.frequencies(&desk.name, version).await.expect("a look")));
    }
    for generation in (1..8).map(GenerationId) {
        for filed in desk.filed(generation).await {
            let Entry { seq, digest_key, fingerprint, keys } = filed;
            shown.push(format!("{generation} {} {digest_key} {fingerprint:?} {keys:?}", id_of_seq(seq, &records)));
        }
        for pairs in desk.store.pairs(&desk.name, generation, Seq(0), usize::MAX).await.expect("a page") {
            let earlier: Vec<&str> = pairs.earlier.iter().map(|seq| id_of_seq(*seq, &records)).collect();
            shown.push(format!("{generation} {} matches {earlier:?}", id_of_seq(pairs.seq, &records)));
        }
    }
    let decisions = desk.store.decisions(&desk.name, None, usize::MAX).await.expect("a list");
    shown.extend(decisions.iter().map(|decision| format!("{decision:?}")));
    shown
}

fn id_of_seq(seq: Seq, records: &[StoredRecord]) -> &str {
    records.iter().find(|record| record.seq == seq).map_or("gone", |record| record.id.as_str())
}

/// Returns for each verdict whether the record that it names is still the same record, which the sequence numbers show.
async fn still_same(desk: &TestCollection) -> Vec<bool> {
    let mut same = Vec::new();
    for record in desk.all().await {
        if let Some(id) = &record.verdict.duplicate_of {
            same.push(desk.get(id.as_str()).await.map(|named| named.seq) == record.duplicate_of_seq);
        }
    }
    same
}

fn open(dir: &std::path::Path) -> Arc<dyn Store> {
    Arc::new(EmbeddedStore::open(dir, EmbeddedOptions::default()).expect("the directory opens"))
}

/// Runs the operations on both. `open` opens the store repeatedly, and the content of the store is there each time.
async fn compare(ops: Vec<ModelCall>, open: impl AsyncFn() -> Arc<dyn Store>) {
    let model: Arc<dyn Store> = Arc::new(ModelStore::default());
    let model = TestCollection::new(&model, "desk").await;
    let mut desk = TestCollection::new(&open().await, "desk").await;
    for (step, op) in ops.iter().chain([&ModelCall::Reopen]).enumerate() {
        if matches!(op, ModelCall::Reopen) {
            drop(desk);
            desk = TestCollection::existing(&open().await, "desk");
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
    fn the_embedded_store_answers_like_the_model(ops in proptest::collection::vec(ops_with_generations(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let dir = tempfile::tempdir().expect("a temporary directory");
        let ops = ops.into_iter().chain([ModelCall::Reopen, ModelCall::Beside(OtherChange::Look)]).collect();
        runtime.block_on(compare(ops, async || open(dir.path())));
    }
}

#[test]
fn the_mongodb_store_answers_like_the_model() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let server = runtime.block_on(crate::mongod::SharedMongod::start());
    let config = ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() };
    let ops = proptest::collection::vec(ops_with_generations(), 1..60);
    let outcome = proptest::test_runner::TestRunner::new(config).run(&ops, |ops| {
        let database = crate::mongod::database("model");
        let ops = ops.into_iter().chain([ModelCall::Reopen, ModelCall::Beside(OtherChange::Look)]).collect();
        runtime.block_on(compare(ops, async || {
            // The announcement of a generation waits until the deadline.
            let deadline = std::time::Duration::from_millis(1500);
            let options = doppel_store_mongodb::Options { deadline, ..crate::mongod::options() };
            let opening = MongoStore::connect(server.uri(), &database, options);
            let store: Arc<dyn Store> = Arc::new(opening.await.expect("a connection"));
            store
        }));
        runtime.block_on(crate::mongod::drop_database(server.uri(), &database));
        Ok(())
    });
    outcome.expect("the same answers");
}
