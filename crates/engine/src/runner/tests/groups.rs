//! Tests of groups while another generation is built and goes live: a group that was listed never shrinks.

use super::*;
use tokio::task::JoinHandle;

/// The groups that were listed, each with all its members.
#[derive(Default)]
struct ListedGroups(BTreeSet<BTreeSet<String>>);

impl ListedGroups {
    /// Reads the groups. Fails if the members of a group that was listed before are not in one group any more.
    async fn look(&mut self, office: &TaskOffice, when: &str) {
        let now = office.groups().await;
        for before in &self.0 {
            assert!(now.iter().any(|group| group.is_superset(before)), "{when}: {before:?} is not one group any more");
        }
        self.0 = now;
    }
}

/// Creates an office whose tasks do not run unless a test runs them.
fn without_runner(store: &Arc<ModelStore>) -> TaskOffice {
    let name = CollectionName::new("letters").unwrap();
    TaskOffice { engine: instance(Arc::clone(store), now), name, draining: CancellationToken::new() }
}

/// A linear congruential generator.
struct SeededRandom(u64);

impl SeededRandom {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_use_the_pairs_of_the_previous_generation_until_the_live_one_has_all_pairs() {
    let store = Arc::new(ModelStore::default());
    let office = without_runner(&store);
    filled(&office, 20, 2).await;
    let engine = &office.engine;
    let name = &office.name;
    let mut shown = ListedGroups::default();
    shown.look(&office, "before").await;
    assert!(shown.0.len() >= 15, "the letters form groups: {}", shown.0.len());
    let settings = engine.settings(name).await.unwrap();
    let begun = engine.begin_generation(name, &settings, None, Vec::new()).await.unwrap();
    for matter in 0..20 {
        office.put(&format!("{matter}-during"), &letter(matter, 3), json!({})).await;
    }
    shown.look(&office, "records came during the reindex").await;
    let mut rebuild = engine.rebuild(name, begun.id, doppel_store::Seq(0), |_| ()).await.unwrap();
    while rebuild.step(begun.scan_end).await.unwrap().is_some() {}
    engine.complete_generation(name, begun.id).await.unwrap();
    engine.activate_generation(name, begun.id).await.unwrap();
    shown.look(&office, "the new generation is live").await;
    for matter in 0..5 {
        office.put(&format!("{matter}-after"), &letter(matter, 2), json!({})).await;
    }
    shown.look(&office, "records came after the switch").await;
    let group = shown.0.iter().find(|group| group.contains("3-0")).unwrap();
    assert_eq!(*group, set(&["3-0", "3-1", "3-during", "3-after"]));
    // Another process begins without groups in memory.
    let another = without_runner(&store);
    shown.look(&another, "seen by another process").await;
    let end = engine.store().last_change(name).await.unwrap().next();
    while rebuild.catch_up(end).await.unwrap().is_some() {}
    shown.look(&office, "the pairs are found").await;
    engine.complete_pairs(name, begun.id).await.unwrap();
    shown.look(&office, "the live generation has all pairs").await;
    shown.look(&another, "seen by another process at the end").await;
    assert_eq!(engine.collection(name).await.unwrap().generation, begun.id);
    engine.drop_generation(name, GenerationId(1)).await.unwrap();
    shown.look(&office, "the former generation is dropped").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "a test says what seed it ran with")]
async fn groups_never_shrink_during_reindexes_that_are_killed_and_continued() {
    let seed = std::env::var("DOPPEL_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(38_u64);
    println!("DOPPEL_TEST_SEED={seed}");
    let mut random = SeededRandom(seed);
    let store = Arc::new(ModelStore::default());
    let office = without_runner(&store);
    filled(&office, 30, 2).await;
    let mut shown = ListedGroups::default();
    let mut number = 0;
    for round in 0..2 {
        let work = Work::Reindex(Reindex {
            settings: None,
            activate: true,
            keep_previous: false,
            records_per_second: Some(2_000),
            counts_all: true,
        });
        let task = office.engine.begin_task(&office.name, work).await.unwrap();
        let mut runner: Option<(JoinHandle<()>, TaskOffice)> = None;
        loop {
            let is_finished = office.engine.task(&task.id).await.unwrap().status.is_finished();
            shown.look(&office, &format!("round {round}, {number} records came")).await;
            if is_finished {
                break;
            }
            // A process takes a task within two seconds. Most processes live longer.
            match random.below(300) {
                // The process is killed, and its memory is lost.
                0 => {
                    if let Some((running, _)) = runner.take() {
                        running.abort();
                        let _ = running.await;
                    }
                }
                1..150 => {
                    let matter = random.below(30) as usize;
                    office.put(&format!("r{number}"), &letter(matter, number % 4), json!({})).await;
                    number += 1;
                }
                _ => tokio::time::sleep(Duration::from_millis(random.below(20))).await,
            }
            if runner.is_none() {
                let process = without_runner(&store);
                let running = tokio::spawn(super::super::run(process.engine.clone(), process.draining.clone()));
                runner = Some((running, process));
            }
        }
        let task = office.engine.task(&task.id).await.unwrap();
        assert_eq!((task.status, &task.error), (TaskStatus::Succeeded, &None), "round {round}");
    }
    assert!(office.store_state().await.pair_sources.is_empty(), "the live generation has all pairs");
}
