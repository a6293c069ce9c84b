//! Tests of two sets of records that one pair links, with the model store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use super::{GroupDetail, GroupSelection, SupposedDecision};
use crate::decisions::Opinion;
use crate::idempotency::RegistrationId;
use crate::tasks::{Purge, Survivor, Window};
use crate::{Engine, IfDuplicate, Options};
use doppel_core::collection::CollectionName;
use doppel_core::record::{RecordId, Row};
use doppel_store::Seq;
use doppel_store::decisions::Judgement;
use doppel_store::model::ModelStore;

/// Returns a number larger than all earlier ones.
fn tick() -> u64 {
    static TICKS: AtomicU64 = AtomicU64::new(1_767_225_600_000_000);
    TICKS.fetch_add(1, Ordering::Relaxed)
}

fn id(text: &str) -> RecordId {
    RecordId::new(text).unwrap()
}

/// Returns Han characters that texts of other subjects do not contain.
fn text(subject: u32, length: u32) -> String {
    (0..length).filter_map(|at| char::from_u32(0x4e00 + subject * 500 + at * 7)).collect()
}

struct TwoSetsDesk {
    engine: Engine,
    name: CollectionName,
}

impl TwoSetsDesk {
    /// Registers, for each of two subjects, five copies and one letter (`a5`, `b5`) that also contains a passage of a third subject. This
    /// passage links the two letters.
    async fn with_two_sets() -> Self {
        let now = || "2026-01-01T00:00:00Z".to_owned();
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
        for (set, subject) in [("a", 1), ("b", 2)] {
            for at in 0..6 {
                let more = if at == 5 { text(3, 90) } else { String::new() };
                let row = json!({ "content": text(subject, 40) + &more }).to_string();
                let row = Row::parse(row.as_bytes()).unwrap();
                let id = id(&format!("{set}{at}"));
                desk.engine.register(&desk.name, Some(id), row, IfDuplicate::Keep).await.unwrap();
            }
        }
        desk
    }

    /// Returns the names and sizes of all groups, as listed.
    async fn listed(&self) -> Vec<(String, usize)> {
        let (views, _) = self.engine.groups(&self.name, &GroupSelection::default(), None, 100).await.unwrap();
        views.into_iter().map(|view| (view.id.to_string(), view.size)).collect()
    }

    async fn group(&self, of: &str) -> GroupDetail {
        self.engine.group_of(&self.name, &id(of), 30).await.unwrap()
    }

    async fn rule(&self, judgement: Judgement) {
        let pair = [id("a5"), id("b5")];
        let opinion = Opinion { judgement, by: None, note: None };
        let ruled = match judgement {
            Judgement::Withdrawn => self.engine.withdraw(&self.name, &pair[0], &pair[1], opinion).await,
            _ => self.engine.decide(&self.name, &pair[0], &pair[1], opinion).await,
        };
        ruled.unwrap();
    }

    /// Registers a letter about a subject, by a petitioner, with a time.
    async fn letter(&self, name: &str, subject: u32, user: &str, time: &str) {
        let row = json!({ "content": text(subject, 40), "user": user, "time": time }).to_string();
        let row = Row::parse(row.as_bytes()).unwrap();
        self.engine.register(&self.name, Some(id(name)), row, IfDuplicate::Keep).await.unwrap();
    }

    /// Returns the groups into which the group of the record `of` would fall with the decisions `supposed`; each group as the ids of its members,
    /// joined by spaces.
    async fn supposed(&self, of: &str, supposed: &[(&str, &str, bool)]) -> Vec<String> {
        let supposed: Vec<SupposedDecision> = supposed
            .iter()
            .map(|(one, other, same)| SupposedDecision { one: id(one), other: id(other), same: *same })
            .collect();
        let groups = self.engine.groups_if(&self.name, &id(of), &supposed).await.unwrap();
        groups.iter().map(|members| members.iter().map(RecordId::as_str).collect::<Vec<_>>().join(" ")).collect()
    }
}

fn ids(group: &GroupDetail) -> Vec<&str> {
    group.members.iter().map(RecordId::as_str).collect()
}

/// Returns the pairs that would join a group to another one.
fn cut_pairs(group: &GroupDetail) -> Vec<(String, String)> {
    group.cut.iter().map(|pair| (pair.earlier.to_string(), pair.later.to_string())).collect()
}

#[tokio::test]
async fn two_sets_with_one_link_are_two_groups_until_a_person_confirms_the_pair() {
    let desk = TwoSetsDesk::with_two_sets().await;
    let two = [("a0".to_owned(), 6), ("b0".to_owned(), 6)];
    assert_eq!(desk.listed().await, two);
    let a = desk.group("a5").await;
    let b = desk.group("b2").await;
    assert_eq!(
        (ids(&a), ids(&b)),
        (vec!["a0", "a1", "a2", "a3", "a4", "a5"], vec!["b0", "b1", "b2", "b3", "b4", "b5"])
    );
    assert_eq!((a.group.pairs, a.group.density, a.bridges.len(), a.truncated), (15, 1.0, 0, false));
    let expected = [("a5".to_owned(), "b5".to_owned())];
    assert_eq!(cut_pairs(&a), expected);
    assert_eq!(cut_pairs(&b), expected);

    desk.rule(Judgement::Same).await;
    assert_eq!(desk.listed().await, [("a0".to_owned(), 12)]);
    let both = desk.group("b0").await;
    assert_eq!((both.group.pairs, both.bridges.len(), both.cut.len(), both.group.contested), (31, 1, 0, false));
    desk.rule(Judgement::Withdrawn).await;
    assert_eq!(desk.listed().await, two);
    desk.rule(Judgement::NotSame).await;
    assert_eq!(desk.listed().await, two);
    let a = desk.group("a0").await;
    assert_eq!((a.cut.len(), a.group.contested), (0, false), "a rejected pair belongs to no group");
}

#[tokio::test]
async fn a_purge_leaves_one_record_of_each_set() {
    let desk = TwoSetsDesk::with_two_sets().await;
    let purge = Purge { keep: Survivor::First, near: true, dry_run: true, window: Window::default() };
    let found = desk.engine.find_superfluous(&desk.name, purge, |_| {}).await.unwrap();
    assert_eq!((found.groups, found.changed, found.delete.len()), (2, 0, 10));
    assert!(found.delete.iter().all(|which| which.id.as_str()[..1] == which.kept.id.as_str()[..1]));
}

/// Registers records about two matters: the first by three petitioners, one of whom wrote twice; the second by one petitioner, who wrote
/// three times, long ago.
async fn hot_and_cold() -> TwoSetsDesk {
    let desk = TwoSetsDesk::with_two_sets().await;
    for (name, subject, user, time) in [
        ("h1", 11, "甲", "2025-01-01T00:00:00Z"),
        ("h2", 11, "乙", "2026-03-01T00:00:00Z"),
        ("h3", 11, "丙", "2026-03-02T00:00:00Z"),
        ("h4", 11, "丙", "2026-03-05T00:00:00Z"),
        ("c1", 12, "丁", "2025-03-01T00:00:00Z"),
        ("c2", 12, "丁", "2025-03-02T00:00:00Z"),
        ("c3", 12, "丁", "2025-03-02T00:00:00Z"),
    ] {
        desk.letter(name, subject, user, time).await;
    }
    desk
}

fn at(time: &str) -> jiff::Timestamp {
    time.parse().unwrap()
}

#[tokio::test]
async fn hot_issues_are_the_matters_with_most_petitioners_in_the_time_range() {
    let desk = hot_and_cold().await;
    let begins = [at("2026-02-28T00:00:00Z"), at("2026-03-02T00:00:00Z"), at("2026-03-04T00:00:00Z")];
    let hot = desk.engine.hot_issues(&desk.name, &begins, 0, 10).await.unwrap();
    assert_eq!((hot.total, hot.items[0].group.id.as_str()), (1, "h1"));
    let issue = &hot.items[0];
    assert_eq!((issue.recent, &issue.trend[..]), (3, &[1, 1, 1][..]), "the trend leaves older records out");
    assert_eq!((issue.group.size, issue.group.petitioners, issue.group.recent_petitioners), (4, 3, 2));
    assert_eq!(issue.latest.iter().map(RecordId::as_str).collect::<Vec<_>>(), ["h4", "h3", "h2", "h1"]);
    let all = desk.engine.hot_issues(&desk.name, &[at("2000-01-01T00:00:00Z")], 0, 10).await.unwrap();
    let names: Vec<&str> = all.items.iter().map(|issue| issue.group.id.as_str()).collect();
    assert_eq!(names, ["h1", "c1", "a0", "b0"], "number of petitioners before number of records");
    let part = desk.engine.hot_issues(&desk.name, &[at("2000-01-01T00:00:00Z")], 1, 2).await.unwrap();
    assert_eq!((part.total, part.items.len(), part.items[0].group.id.as_str()), (4, 2, "c1"));
}

async fn repeat_petitioners(desk: &TwoSetsDesk, since: &str) -> Vec<super::RepeatPetitioner> {
    desk.engine.repeat_petitioners(&desk.name, at(since), 0, 10).await.unwrap().items
}

/// Returns the example of each petitioner, with the numbers of all records, of recent records and of matters.
fn counts_of(found: &[super::RepeatPetitioner]) -> Vec<(String, usize, usize, usize)> {
    found.iter().map(|one| (one.example.to_string(), one.records, one.recent, one.matters)).collect()
}

#[tokio::test]
async fn repeat_petitioners_have_several_records_about_one_matter() {
    let desk = hot_and_cold().await;
    let late = repeat_petitioners(&desk, "2026-02-28T00:00:00Z").await;
    assert_eq!(counts_of(&late), [("h3".into(), 2, 2, 1)]);
    assert_eq!((late[0].first, late[0].last), (Some(at("2026-03-02T00:00:00Z")), Some(at("2026-03-05T00:00:00Z"))));
    // Another matter of the same petitioner.
    desk.letter("n1", 13, "丙", "2026-03-06T00:00:00Z").await;
    desk.letter("n2", 13, "丙", "2026-03-07T00:00:00Z").await;
    let all = repeat_petitioners(&desk, "2000-01-01T00:00:00Z").await;
    assert_eq!(counts_of(&all), [("h3".into(), 4, 4, 2), ("c1".into(), 3, 3, 1)]);
    assert_eq!(
        all[0].most.iter().map(|matter| (matter.id.as_str(), matter.records)).collect::<Vec<_>>(),
        [("h3", 2), ("n1", 2)]
    );
}

#[tokio::test]
async fn supposed_decisions_show_the_resulting_groups_and_change_nothing() {
    let desk = TwoSetsDesk::with_two_sets().await;
    let a = "a0 a1 a2 a3 a4 a5";
    let b = "b0 b1 b2 b3 b4 b5";
    assert_eq!(desk.supposed("a0", &[]).await, [a]);
    assert_eq!(desk.supposed("a0", &[("b5", "a5", true)]).await, [format!("{a} {b}")]);
    assert_eq!(desk.supposed("a0", &[("a5", "b5", false)]).await, [a, b]);
    assert_eq!(desk.supposed("a0", &[("a0", "a1", false)]).await, [a], "other pairs link the two");
    desk.rule(Judgement::Same).await;
    assert_eq!(desk.supposed("b1", &[]).await, [format!("{a} {b}")]);
    assert_eq!(desk.supposed("b1", &[("a5", "b5", false)]).await, [a, b]);
    assert_eq!(desk.listed().await, [("a0".to_owned(), 12)], "unchanged");
    desk.letter("x", 21, "甲", "").await;
    desk.letter("y", 21, "甲", "").await;
    assert_eq!(desk.supposed("x", &[("x", "y", false)]).await, ["x", "y"], "in no group");
}

#[tokio::test]
async fn a_shape_draws_the_ends_of_single_links_first() {
    let desk = TwoSetsDesk::with_two_sets().await;
    desk.rule(Judgement::Same).await;
    let shape = desk.engine.group_shape(&desk.name, &id("b2"), 3).await.unwrap();
    let drawn: Vec<&str> = shape.drawn.iter().map(|place| shape.members[*place].id.as_str()).collect();
    assert_eq!((drawn, shape.members.len()), (vec!["a0", "a5", "b5"], 12));
    assert_eq!(shape.pairs, [(0, 5), (5, 11)]);
    assert_eq!(shape.bridges.iter().map(|pair| pair.later.as_str()).collect::<Vec<_>>(), ["b5"]);
    let pairs = [(id("a0"), id("a1")), (id("a5"), id("b5")), (id("a0"), id("nobody"))];
    let alike = desk.engine.how_alike(&desk.name, &pairs).await.unwrap();
    assert!(alike[0].is_some_and(|alike| alike.exact && alike.similarity == 1.0), "{alike:?}");
    assert!(
        alike[1].is_some_and(|alike| !alike.exact && alike.similarity > 0.3 && alike.similarity < 1.0),
        "{alike:?}"
    );
    assert_eq!(alike[2], None);
}

/// The original, the number of petitioners and the largest number of records of one of them, of the group of records that are registered in
/// this order.
async fn group_of_rows(rows: &[serde_json::Value]) -> (String, usize, usize) {
    let desk = TwoSetsDesk::with_two_sets().await;
    let name = CollectionName::new("dated").unwrap();
    let fields = json!([{"name": "content", "role": "text"}, {"name": "user", "role": "identity"},
        {"name": "phone", "role": "identity"}, {"name": "time", "role": "time"}]);
    let settings = doppel_core::collection::Settings {
        fields: serde_json::from_value(fields).unwrap(),
        ..doppel_core::collection::Settings::default()
    };
    desk.engine.put_collection(&name, settings).await.unwrap();
    for row in rows {
        let mut row = row.clone();
        row["content"] = json!(text(7, 40));
        let row = Row::parse(row.to_string().as_bytes()).unwrap();
        desk.engine.register(&name, RegistrationId::Own, row, IfDuplicate::Keep).await.unwrap();
    }
    let first = id(rows[0]["id"].as_str().unwrap());
    let group = desk.engine.group_of(&name, &first, 30).await.unwrap().group;
    (group.original.to_string(), group.petitioners, group.most_by_one)
}

#[tokio::test]
async fn the_original_does_not_depend_on_the_order_of_registration() {
    let row = |id: &str, time: &str| json!({"id": id, "time": time});
    let mut rows = vec![
        row("n", ""),
        row("c", "2025-03-03"),
        row("b", "2025-03-01 08:00:00"),
        row("a", "2025-03-01 08:00:00"),
        row("d", "2025-03-02"),
    ];
    for _ in 0..rows.len() {
        rows.rotate_left(1);
        assert_eq!(group_of_rows(&rows).await.0, "a", "{rows:?}");
    }
    // Without times the order of registration decides.
    assert_eq!(group_of_rows(&[row("z", ""), row("y", "")]).await.0, "z");
}

#[tokio::test]
async fn one_equal_identity_value_makes_one_petitioner() {
    let row = |id: &str, user: &str, phone: &str| json!({"id": id, "user": user, "phone": phone});
    let rows = [
        row("a", "李娟", ""),
        row("b", "王强", "139-0000-1111"),
        row("c", "李娟", "13900002222"),
        row("d", "匿名", "13900002222"),
        row("e", "匿名", ""),
        row("f", "", "+86 13900001111"),
    ];
    let (_, petitioners, most) = group_of_rows(&rows).await;
    assert_eq!((petitioners, most), (2, 3), "李娟 wrote a, c and d; 王强 wrote b and f; e names nobody");
}

#[tokio::test]
async fn groups_that_are_read_while_their_generation_is_dropped_are_complete() {
    let desk = TwoSetsDesk::with_two_sets().await;
    let engine = &desk.engine;
    let name = &desk.name;
    let listed = desk.listed().await;
    // The first step of a request for groups.
    let context = engine.context(name).await.unwrap();
    // Before the next step of the request, a reindex makes another generation live and drops the generation that the request knows.
    let settings = engine.settings(name).await.unwrap();
    let begun = engine.begin_generation(name, &settings, None, Vec::new()).await.unwrap();
    let mut rebuild = engine.rebuild(name, begun.id, Seq(0), |_| ()).await.unwrap();
    while rebuild.step(begun.scan_end).await.unwrap().is_some() {}
    engine.complete_generation(name, begun.id).await.unwrap();
    engine.activate_generation(name, begun.id).await.unwrap();
    engine.complete_pairs(name, begun.id).await.unwrap();
    engine.drop_generation(name, context.state.generation).await.unwrap();
    let read = engine.read_current(context, None).await.unwrap();
    let sizes: Vec<usize> = read.set.groups().map(|group| group.members.len()).collect();
    assert_eq!(sizes, listed.iter().map(|(_, size)| *size).collect::<Vec<_>>());
}
