//! An engine over the model store with letters, for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::decisions::Opinion;
use crate::runner::TaskRunner;
use crate::{Engine, IfDuplicate, Options};
use doppel_core::collection::CollectionName;
use doppel_core::record::{RecordId, Row};
use doppel_core::verdict::Verdict;
use doppel_store::decisions::Judgement;
use doppel_store::model::ModelStore;

/// The text of a usual letter.
pub(super) const LETTER: &str = "路灯损坏已有三个月，夜间行人来往不便，请有关部门尽快派人修理并告知结果";

/// An engine and a collection of letters.
pub(super) struct LetterDesk {
    pub(super) engine: Engine,
    pub(super) name: CollectionName,
}

fn tick() -> u64 {
    static TICKS: AtomicU64 = AtomicU64::new(0);
    TICKS.fetch_add(1, Ordering::Relaxed)
}

/// Returns another time at every call, within one second.
fn now() -> String {
    format!("2026-01-01T00:00:00.{:06}Z", tick() % 1_000_000)
}

pub(super) fn id(text: &str) -> RecordId {
    RecordId::new(text).unwrap()
}

/// Returns a person's decision.
pub(super) fn opinion(judgement: Judgement, by: &str) -> Opinion {
    Opinion { judgement, by: Some(by.into()), note: None }
}

impl LetterDesk {
    /// Creates a collection with the same letter under each of `ids`.
    pub(super) async fn with(ids: &[&str]) -> Self {
        Self::at(ids, now).await
    }

    /// Creates a collection as [`LetterDesk::with`] does, with the given clock.
    pub(super) async fn at(ids: &[&str], now: fn() -> String) -> Self {
        let options = Options {
            auto_create: true,
            max_auto_created: usize::MAX,
            automatic_reindex: false,
            sketch_bytes: crate::SKETCH_BYTES,
            event_records: crate::EVENT_RECORDS,
            now,
            micros: tick,
            new_id: || tick().to_string(),
            random: || Some([7; 32]),
        };
        let engine = Engine::new(Arc::new(ModelStore::default()), options);
        let desk = Self { engine, name: CollectionName::new("letters").unwrap() };
        for id in ids {
            desk.put(id, LETTER).await;
        }
        desk
    }

    /// Registers a letter. Returns its verdict.
    pub(super) async fn verdict(&self, text: &str, content: &str) -> Verdict {
        let row = Row::parse(json!({ "content": content }).to_string().as_bytes()).unwrap();
        self.engine.register(&self.name, Some(id(text)), row, IfDuplicate::Keep).await.unwrap().verdict
    }

    /// Counts the document frequencies of all letters and indexes the letters again.
    pub(super) async fn recount(&self) {
        let tasks = TaskRunner::start(&self.engine);
        self.engine.recount(&self.name).await.unwrap();
        while !self.engine.unfinished_tasks().await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tasks.end(Duration::ZERO).await;
    }

    pub(super) async fn put(&self, text: &str, content: &str) {
        let row = Row::parse(json!({ "content": content }).to_string().as_bytes()).unwrap();
        self.engine.register(&self.name, Some(id(text)), row, IfDuplicate::Keep).await.unwrap();
    }

    pub(super) async fn decide(&self, one: &str, other: &str, judgement: Judgement) {
        let one = id(one);
        let other = id(other);
        let decision = opinion(judgement, "desk");
        let done = match judgement {
            Judgement::Withdrawn => self.engine.withdraw(&self.name, &one, &other, decision).await,
            _ => self.engine.decide(&self.name, &one, &other, decision).await,
        };
        done.unwrap();
    }
}
