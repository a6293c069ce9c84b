//! Checks that the vectors follow the changes of the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use doppel_core::collection::CollectionName;
use doppel_engine::IfDuplicate;
use doppel_search::embedder::{EmbedError, EmbedderOptions, TextEmbedder};
use doppel_search::service::OfficeModel;
use doppel_search::vectors::{VectorState, VectorsView};
use doppel_store::ChangeFeed as _;
use doppel_store::model::ModelStore;
use parking_lot::Mutex;

use crate::following::{RunningService, engine};
use crate::{id, letter};

const SOON: Duration = Duration::from_secs(30);

/// A model whose vectors have a number for each of some characters.
#[derive(Default)]
struct CharacterModel {
    /// The error of all requests; `None` if requests succeed.
    trouble: Mutex<Option<EmbedError>>,
    /// Number of texts that got a vector, without the probe.
    embedded: AtomicUsize,
}

#[async_trait]
impl TextEmbedder for CharacterModel {
    async fn embed(&self, texts: &[String], _: Duration) -> Result<Vec<Vec<f32>>, EmbedError> {
        if let Some(trouble) = self.trouble.lock().clone() {
            return Err(trouble);
        }
        self.embedded.fetch_add(texts.len() - 1, Ordering::AcqRel);
        Ok(texts.iter().map(|text| vector(text)).collect())
    }
}

fn vector(text: &str) -> Vec<f32> {
    "路灯井盖垃圾噪音公交车站".chars().map(|c| 0.1 + text.matches(c).count() as f32).collect()
}

fn start(store: &Arc<ModelStore>, folder: &Path, model: &Arc<CharacterModel>) -> RunningService {
    let options = EmbedderOptions {
        model: "characters".into(),
        prefix: String::new(),
        max_chars: 500,
        batch: 2,
        timeout: Duration::from_millis(300),
        weight: Some(1.0),
    };
    let embedder = Arc::clone(model) as Arc<dyn TextEmbedder>;
    RunningService::start_with(store, folder, Some(OfficeModel { embedder, options }))
}

impl RunningService {
    /// Waits until the vectors meet a condition.
    async fn wait_until(&self, condition: impl Fn(&VectorsView) -> bool) -> VectorsView {
        let begin = Instant::now();
        loop {
            let view = self.search.vectors(&self.name).await;
            if let Ok(view) = &view
                && condition(view)
            {
                return view.clone();
            }
            assert!(begin.elapsed() < SOON, "{view:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn has(&self, vectors: u64) -> VectorsView {
        self.wait_until(|view| view.vectors == vectors && view.as_of.behind == 0 && view.building.is_none()).await
    }
}

/// Returns the files below the folder of the vectors.
fn vector_files(folder: &Path) -> Vec<PathBuf> {
    let folders = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let folders = folders.filter(|path| path.display().to_string().contains("doppel-vectors-"));
    folders
        .flat_map(|path| std::fs::read_dir(path).expect("a folder"))
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removal_during_an_outage_overwrites_the_vector() {
    let store = Arc::new(ModelStore::default());
    let folder = tempfile::tempdir().expect("a folder");
    let model = Arc::new(CharacterModel::default());
    let running = start(&store, folder.path(), &model);
    running.put("a", "三号路的路灯不亮").await;
    running.put("b", "五号路的井盖破损").await;
    running.has(2).await;
    *model.trouble.lock() = Some(EmbedError::Unreachable("no connection".into()));
    running.put("c", "七号路的垃圾没有人清运").await;
    running.wait_until(|view| view.waiting.is_some()).await;
    running.engine.remove(&running.name, &id("a")).await.expect("a removal");
    let view = running.wait_until(|view| view.vectors == 1).await;
    assert!(view.as_of.behind > 0);
    let answer = running.search.related(&running.name, letter("公交车站"), None, 10).await.expect("an answer");
    assert_eq!(answer.vectors, Some(VectorState::Unavailable));
    *model.trouble.lock() = None;
    running.has(2).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_catch_up_after_the_feed_has_forgotten_changes_and_send_no_text_again() {
    let store = Arc::new(ModelStore::default());
    let folder = tempfile::tempdir().expect("a folder");
    let model = Arc::new(CharacterModel::default());
    let running = start(&store, folder.path(), &model);
    for number in 0..7 {
        running.put(&format!("r{number}"), &format!("{number}号路的路灯不亮,{number}号楼的垃圾没有人清运")).await;
    }
    running.has(7).await;
    let name = running.name.clone();
    running.stop().await;
    let engine = engine(&store);
    engine.remove(&name, &id("r1")).await.expect("a removal");
    engine.remove(&name, &id("r3")).await.expect("a removal");
    engine.register(&name, Some(id("new")), letter("八号路的井盖破损"), IfDuplicate::Keep).await.expect("a record");
    store.forget_changes(&name, 0).await.expect("forgotten");
    let again = start(&store, folder.path(), &model);
    again.has(6).await;
    assert_eq!(model.embedded.load(Ordering::Acquire), 8);
    again.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_was_restored_from_an_earlier_backup_has_the_vectors_of_its_own_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = Arc::new(CharacterModel::default());
    let running = start(&Arc::new(ModelStore::default()), folder.path(), &model);
    running.put("a", "三号路的路灯不亮").await;
    running.put("b", "五号路的井盖破损").await;
    running.put("c", "七号路的垃圾没有人清运").await;
    running.has(3).await;
    running.stop().await;
    // The store of the backup has the first record, and gives the number of the second record to another record.
    let store = Arc::new(ModelStore::default());
    let restored = engine(&store);
    let name = CollectionName::new("letters").expect("a name");
    for (record, content) in [("a", "三号路的路灯不亮"), ("d", "八号路的公交车站没有雨棚")] {
        let registered = restored.register(&name, Some(id(record)), letter(content), IfDuplicate::Keep).await;
        registered.expect("a registration");
    }
    let running = start(&store, folder.path(), &model);
    running.has(2).await;
    assert_eq!(model.embedded.load(Ordering::Acquire), 3 + 1, "an unchanged text is not sent again");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_and_missing_files_are_made_again() {
    let store = Arc::new(ModelStore::default());
    let folder = tempfile::tempdir().expect("a folder");
    let model = Arc::new(CharacterModel::default());
    let running = start(&store, folder.path(), &model);
    for number in 0..6 {
        running.put(&format!("r{number}"), &format!("{number}号路的路灯不亮,{number}号楼的垃圾没有人清运")).await;
    }
    running.has(6).await;
    running.stop().await;
    let path =
        vector_files(folder.path()).into_iter().find(|path| path.extension().is_some_and(|end| end == "vectors"));
    let path = path.expect("a file of vectors");
    let mut bytes = std::fs::read(&path).expect("a file");
    bytes[30] ^= 1;
    std::fs::write(&path, &bytes[..bytes.len() - 3]).expect("a file");
    let running = start(&store, folder.path(), &model);
    running.has(6).await;
    assert_eq!(model.embedded.load(Ordering::Acquire), 6 + 2, "the damaged row and the torn one");
    running.stop().await;
    for file in vector_files(folder.path()) {
        std::fs::write(file, "{").expect("a file");
    }
    let running = start(&store, folder.path(), &model);
    running.has(6).await;
    let name = running.name.clone();
    running.engine.drop_collection(&name).await.expect("a drop");
    let begin = Instant::now();
    while !vector_files(folder.path()).is_empty() {
        assert!(begin.elapsed() < SOON, "files are left");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    running.stop().await;
}
