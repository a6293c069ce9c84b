//! Checks that the indexes follow the changes of the store.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use doppel_core::collection::CollectionName;
use doppel_engine::{Engine, IfDuplicate, Options};
use doppel_search::query::SearchQuery;
use doppel_search::service::{AsOf, OfficeModel, SearchAnswer, SearchError, SearchOptions, SearchService};
use doppel_search::weights::Weights;
use doppel_store::Store;
use doppel_store::model::ModelStore;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{id, letter, row};

const SOON: Duration = Duration::from_secs(20);

pub(crate) fn engine(store: &Arc<ModelStore>) -> Engine {
    let options = Options {
        auto_create: true,
        max_auto_created: usize::MAX,
        automatic_reindex: false,
        sketch_bytes: doppel_engine::SKETCH_BYTES,
        event_records: doppel_engine::EVENT_RECORDS,
        now: || "2026-01-01T00:00:00Z".to_owned(),
        micros: || 1_767_225_600_000_000,
        new_id: || "new".to_owned(),
        random: || Some([7; 32]),
    };
    let store: Arc<dyn Store> = Arc::clone(store) as Arc<dyn Store>;
    Engine::new(store, options)
}

pub(crate) struct RunningService {
    pub(crate) engine: Engine,
    pub(crate) search: SearchService,
    stop: CancellationToken,
    task: JoinHandle<()>,
    pub(crate) name: CollectionName,
}

impl RunningService {
    fn start(store: &Arc<ModelStore>, folder: &Path) -> Self {
        Self::start_with(store, folder, None)
    }

    pub(crate) fn start_with(store: &Arc<ModelStore>, folder: &Path, model: Option<OfficeModel>) -> Self {
        let engine = engine(store);
        let options = SearchOptions { folder: folder.to_owned(), weights: Weights::default(), changes_kept: 1_000_000 };
        let search = SearchService::new(engine.clone(), options, model);
        let stop = CancellationToken::new();
        let task = tokio::spawn(search.clone().run(stop.clone()));
        Self { engine, search, stop, task, name: CollectionName::new("letters").expect("a name") }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("it ends in order");
    }

    pub(crate) async fn put(&self, name: &str, content: &str) {
        let registered = self.engine.register(&self.name, Some(id(name)), letter(content), IfDuplicate::Keep).await;
        registered.expect("a registration");
    }

    async fn found(&self, text: &str) -> Result<(Vec<String>, AsOf), SearchError> {
        let wanted = SearchQuery { text: text.into(), limit: 100, ..SearchQuery::default() };
        let SearchAnswer { hits, as_of, .. } = self.search.search(&self.name, wanted).await?;
        let mut ids: Vec<_> = hits.hits.iter().map(|hit| hit.id.to_string()).collect();
        ids.sort();
        Ok((ids, as_of))
    }

    /// Waits until a search finds exactly the records `expected`.
    async fn finds(&self, text: &str, expected: &[&str]) {
        let begin = Instant::now();
        loop {
            let found = self.found(text).await;
            if found.as_ref().is_ok_and(|(found, as_of)| found == expected && as_of.behind == 0) {
                return;
            }
            assert!(begin.elapsed() < SOON, "{text} finds {found:?}, not {expected:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The question arrives directly after the first record, before the collection has a follower, and again after the collection was dropped
/// and created under the same name.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_waits_for_an_index_that_is_being_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(ModelStore::default());
    let running = RunningService::start(&store, folder.path());
    for round in 0..5 {
        running.put(&format!("letter-{round}"), "河口新区三号路的路灯连续多日不亮").await;
        let (_, as_of) = running.found("路灯").await.expect("an answer, perhaps of an index that is behind");
        assert!(as_of.number.0 + as_of.behind > 0);
        running.engine.drop_collection(&running.name).await.expect("it is dropped");
    }
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn searches_follow_registrations_replacements_and_removals_also_after_a_restart() {
    let store = Arc::new(ModelStore::default());
    let folder = tempfile::tempdir().expect("a folder");
    let running = RunningService::start(&store, folder.path());
    assert!(matches!(running.found("路灯").await, Err(SearchError::UnknownCollection(_))));
    running.put("a", "三号路的路灯不亮").await;
    running.put("b", "五号路的路灯不亮").await;
    running.finds("路灯", &["a", "b"]).await;
    running.put("b", "五号路的井盖破损").await;
    running.engine.remove(&running.name, &id("a")).await.expect("a removal");
    running.finds("路灯", &[]).await;
    running.finds("井盖", &["b"]).await;
    let answer = running.search.related(&running.name, letter("井盖破损"), None, 10).await.expect("an answer");
    assert_eq!((answer.related[0].id.clone(), answer.as_of.behind, answer.vectors), (id("b"), 0, None));
    running.stop().await;
    // This record arrives while no service runs.
    let engine = engine(&store);
    let name = CollectionName::new("letters").expect("a name");
    engine.register(&name, Some(id("c")), letter("七号路的井盖破损"), IfDuplicate::Keep).await.expect("a registration");
    let again = RunningService::start(&store, folder.path());
    again.finds("井盖", &["b", "c"]).await;
    again.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_is_built_again_if_the_store_has_deleted_changes_that_it_has_not_read() {
    let store = Arc::new(ModelStore::default());
    let folder = tempfile::tempdir().expect("a folder");
    let running = RunningService::start(&store, folder.path());
    for at in 0..5 {
        running.put(&format!("r{at}"), "三号路的路灯不亮").await;
    }
    running.finds("路灯", &["r0", "r1", "r2", "r3", "r4"]).await;
    let name = running.name.clone();
    running.stop().await;
    let engine = engine(&store);
    engine.remove(&name, &id("r1")).await.expect("a removal");
    engine.remove(&name, &id("r3")).await.expect("a removal");
    store_of(&engine).forget_changes(&name, 0).await.expect("forgotten");
    let again = RunningService::start(&store, folder.path());
    again.finds("路灯", &["r0", "r2", "r4"]).await;
    again.stop().await;
}

fn store_of(engine: &Engine) -> &dyn Store {
    engine.store()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_collection_leaves_no_files_and_a_new_one_of_the_same_name_is_empty() {
    let store = Arc::new(ModelStore::default());
    let folder = tempfile::tempdir().expect("a folder");
    let running = RunningService::start(&store, folder.path());
    running.put("a", "三号路的路灯不亮").await;
    running.finds("路灯", &["a"]).await;
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    running.engine.drop_collection(&running.name).await.expect("a drop");
    let begin = Instant::now();
    while std::fs::read_dir(folder.path()).expect("a folder").count() > 0 {
        assert!(begin.elapsed() < SOON, "files are left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    running.put("z", "五号路的井盖破损").await;
    running.finds("路灯", &[]).await;
    running.finds("井盖", &["z"]).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_change_of_settings_records_are_read_with_the_new_settings() {
    let store = Arc::new(ModelStore::default());
    let folder = tempfile::tempdir().expect("a folder");
    let running = RunningService::start(&store, folder.path());
    let name = running.name.clone();
    let row = row(&json!({"content": "三号路的路灯不亮", "处理": "已经转交市政公司"}));
    running.engine.register(&name, Some(id("a")), row, IfDuplicate::Keep).await.expect("a registration");
    running.finds("路灯", &["a"]).await;
    running.finds("市政公司", &[]).await;
    let state = store.collection(&name).await.expect("a look").expect("it is there");
    let mut settings = state.settings.clone();
    settings.text.synonyms = vec![vec!["路灯".into(), "街灯".into()]];
    // The test removes the record first, because the model store accepts new settings only for an empty collection. (The engine would start a
    // reindex for a collection with records.)
    running.engine.remove(&name, &id("a")).await.expect("a removal");
    running.engine.put_collection(&name, settings).await.expect("new settings");
    running.put("b", "街灯坏了").await;
    running.finds("路灯", &["b"]).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_is_damaged_while_the_service_runs_is_built_again() {
    let store = Arc::new(ModelStore::default());
    let folder = tempfile::tempdir().expect("a folder");
    let running = RunningService::start(&store, folder.path());
    running.put("a", "三号路的路灯不亮").await;
    running.finds("路灯", &["a"]).await;
    for entry in std::fs::read_dir(folder.path().join("doppel-index-1")).expect("its folder").flatten() {
        std::fs::remove_file(entry.path()).expect("a file");
    }
    running.put("b", "五号路的路灯不亮").await;
    running.finds("路灯", &["a", "b"]).await;
    running.stop().await;
}
