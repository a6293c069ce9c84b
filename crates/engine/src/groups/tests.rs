//! Two crowds that one pair links, over the model store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use super::{GroupDetail, Order};
use crate::decisions::Opinion;
use crate::tasks::{Purge, Survivor, Window};
use crate::{Engine, IfDuplicate, Options};
use doppel_core::collection::CollectionName;
use doppel_core::record::{RecordId, Row};
use doppel_store::decisions::Judgement;
use doppel_store::model::ModelStore;

/// A number above all before.
fn tick() -> u64 {
    static TICKS: AtomicU64 = AtomicU64::new(1_767_225_600_000_000);
    TICKS.fetch_add(1, Ordering::Relaxed)
}

fn id(text: &str) -> RecordId {
    RecordId::new(text).unwrap()
}

/// Han characters that other subjects do not have.
fn text(subject: u32, length: u32) -> String {
    (0..length).filter_map(|at| char::from_u32(0x4e00 + subject * 500 + at * 7)).collect()
}

struct Desk {
    engine: Engine,
    name: CollectionName,
}

impl Desk {
    /// Of each of two subjects five copies and a letter, `a5` and `b5`, that goes on to what both letters go on to.
    async fn with_two_crowds() -> Self {
        let now = || "2026-01-01T00:00:00Z".to_owned();
        let options = Options {
            auto_create: true,
            max_auto_created: usize::MAX,
            automatic_reindex: false,
            now,
            micros: tick,
            new_id: || tick().to_string(),
        };
        let engine = Engine::new(Arc::new(ModelStore::default()), options);
        let desk = Self { engine, name: CollectionName::new("letters").unwrap() };
        for (crowd, subject) in [("a", 1), ("b", 2)] {
            for at in 0..6 {
                let more = if at == 5 { text(3, 50) } else { String::new() };
                let row = json!({ "content": text(subject, 40) + &more }).to_string();
                let row = Row::parse(row.as_bytes()).unwrap();
                let id = id(&format!("{crowd}{at}"));
                desk.engine.register(&desk.name, Some(id), row, IfDuplicate::Keep).await.unwrap();
            }
        }
        desk
    }

    /// Names and sizes of all groups, as listed.
    async fn listed(&self) -> Vec<(String, usize)> {
        let (views, _) = self.engine.groups(&self.name, (Order::Size, 30), 2, None, 100).await.unwrap();
        views.into_iter().map(|view| (view.id.to_string(), view.size)).collect()
    }

    async fn group(&self, of: &str) -> GroupDetail {
        self.engine.group_of(&self.name, &id(of), 30).await.unwrap()
    }

    async fn rule(&self, judgement: Judgement) {
        let (pair, opinion) = ([id("a5"), id("b5")], Opinion { judgement, by: None, note: None });
        let ruled = match judgement {
            Judgement::Withdrawn => self.engine.withdraw(&self.name, &pair[0], &pair[1], opinion).await,
            _ => self.engine.decide(&self.name, &pair[0], &pair[1], opinion).await,
        };
        ruled.unwrap();
    }
}

fn ids(group: &GroupDetail) -> Vec<&str> {
    group.members.iter().map(RecordId::as_str).collect()
}

#[tokio::test]
async fn two_crowds_that_one_pair_links_are_two_groups_until_a_person_confirms_the_pair() {
    let desk = Desk::with_two_crowds().await;
    let two = [("a0".to_owned(), 6), ("b0".to_owned(), 6)];
    assert_eq!(desk.listed().await, two);
    let (a, b) = (desk.group("a5").await, desk.group("b2").await);
    assert_eq!(
        (ids(&a), ids(&b)),
        (vec!["a0", "a1", "a2", "a3", "a4", "a5"], vec!["b0", "b1", "b2", "b3", "b4", "b5"])
    );
    assert_eq!((a.group.pairs, a.group.density, a.bridges.len(), a.truncated), (15, 1.0, 0, false));
    let link = |group: &GroupDetail| {
        let cut = group.cut.iter().map(|pair| (pair.earlier.to_string(), pair.later.to_string()));
        cut.collect::<Vec<_>>()
    };
    assert_eq!((link(&a), link(&b)), (vec![("a5".into(), "b5".into())], vec![("a5".into(), "b5".into())]));

    desk.rule(Judgement::Same).await;
    assert_eq!(desk.listed().await, [("a0".to_owned(), 12)]);
    let both = desk.group("b0").await;
    assert_eq!((both.group.pairs, both.bridges.len(), both.cut.len(), both.group.contested), (31, 1, 0, false));
    desk.rule(Judgement::Withdrawn).await;
    assert_eq!(desk.listed().await, two);
    desk.rule(Judgement::NotSame).await;
    assert_eq!(desk.listed().await, two);
    let a = desk.group("a0").await;
    assert_eq!((a.cut.len(), a.group.contested), (0, false), "no pair, and of no group");
}

#[tokio::test]
async fn a_purge_leaves_one_record_of_each_crowd() {
    let desk = Desk::with_two_crowds().await;
    let purge = Purge { keep: Survivor::First, near: true, dry_run: true, window: Window::default() };
    let found = desk.engine.find_superfluous(&desk.name, purge, |_| {}).await.unwrap();
    assert_eq!((found.groups, found.changed, found.delete.len()), (2, 0, 10));
    assert!(found.delete.iter().all(|which| which.id.as_str()[..1] == which.kept.as_str()[..1]));
}
