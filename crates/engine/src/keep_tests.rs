//! Tests that a collection that keeps no text finds the same as a collection with the same settings that keeps all texts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use crate::groups::GroupSelection;
use crate::lookup::SimilarSelection;
use crate::testing::id;
use crate::{Engine, Error, IfDuplicate, Options};
use doppel_core::collection::{Channel, CollectionName, Keep, Preset, Settings};
use doppel_core::record::Row;
use doppel_core::verdict::Match;
use doppel_store::decisions::Judgement;
use doppel_store::model::ModelStore;

const CLAUSES: [&str; 6] = [
    "三号路从学校到桥头的路灯坏了半个月没有人修",
    "晚上行人看不清台阶，已经有两位老人摔倒受伤",
    "幸福小区门口的垃圾堆放了三天没有人来清运",
    "楼下夜市每天营业到凌晨两点，噪音让人无法入睡",
    "公交车站牌被大风吹倒以后一直没有重新安装",
    "自来水从上周开始发黄，烧开以后仍然有铁锈的味道",
];

fn clause(number: u64, factor: u64) -> &'static str {
    CLAUSES[((number * factor + factor) % 6) as usize]
}

fn letter(number: u64) -> Row {
    let content = match number % 4 {
        0 => format!("{}。{}。", clause(number, 1), clause(number, 5)),
        1 => format!("{}，{}，请有关部门尽快派人处理，附近居民都盼着答复。", clause(number, 1), clause(number, 5)),
        2 => format!("您好，{}！{}", clause(number, 5), clause(number, 3)),
        _ => clause(number, 1).to_owned(),
    };
    let row = json!({ "content": content, "user": format!("用户{}", number % 3), "time": "2026-03-01 08:00:00" });
    Row::parse(row.to_string().as_bytes()).unwrap()
}

fn engine() -> Engine {
    static TICKS: AtomicU64 = AtomicU64::new(0);
    let options = Options {
        auto_create: false,
        max_auto_created: usize::MAX,
        automatic_reindex: true,
        sketch_bytes: crate::SKETCH_BYTES,
        event_records: crate::EVENT_RECORDS,
        now: || format!("2026-01-01T00:00:00.{:06}Z", TICKS.fetch_add(1, Ordering::Relaxed)),
        micros: || 1,
        new_id: String::new,
        random: || Some([7; 32]),
    };
    Engine::new(Arc::new(ModelStore::default()), options)
}

fn shown(found: &Match) -> String {
    let Match { id, via, distance, similarity, jaccard, containment, relation, time, .. } = found;
    format!("{id} {via:?} {distance:?} {similarity:?} {jaccard:?} {containment:?} {relation:?} {time:?}")
}

/// Returns all answers of a collection to the same requests in the same order.
async fn answers(settings: Settings) -> Vec<String> {
    let engine = engine();
    let name = CollectionName::new("letters").unwrap();
    let keeps_text = settings.keeps_text();
    engine.put_collection(&name, settings).await.unwrap();
    let mut answers = Vec::new();
    for number in 0..48 {
        let under = id(&format!("r{}", number % 40));
        let done = engine.register(&name, Some(under), letter(number), IfDuplicate::Keep).await.unwrap();
        answers.push(format!("{:?} {:?} {:?}", done.outcome, done.verdict.kind, done.verdict.duplicate_of));
        answers.extend(done.verdict.similar.iter().map(shown));
    }
    for number in 0..8 {
        let wanted = SimilarSelection::matches(20);
        let list = engine.similar(&name, letter(number + 50), wanted).await.unwrap();
        answers.extend(list.similar.iter().map(shown));
    }
    let decided = crate::testing::opinion(Judgement::NotSame, "desk");
    engine.decide(&name, &id("r1"), &id("r2"), decided).await.unwrap();
    let (groups, _) = engine.groups(&name, &GroupSelection::default(), None, 100).await.unwrap();
    answers.extend(groups.iter().map(|group| format!("{group:?}")));
    let records = engine
        .records(&name, &crate::record_filter::RecordFilter::default(), doppel_store::Seq(0), 100)
        .await
        .unwrap()
        .items;
    assert!(records.iter().all(|record| record.row.is_some() == keeps_text && record.read().is_some() == keeps_text));
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_channel_finds_the_same_with_and_without_texts() {
    let mut found = 0;
    for channel in Channel::all_defaults() {
        let channel = match channel {
            Channel::Minhash(params) => Channel::Minhash(doppel_core::collection::MinhashParams { units: 8, ..params }),
            other => other,
        };
        let bare = Settings { channels: vec![channel], ..Settings::preset(Preset::Signatures) };
        if !bare.validate().is_empty() {
            continue;
        }
        let whole = Settings { keep: Keep::All, ..bare.clone() };
        let name = bare.channels[0].scheme();
        assert_eq!(answers(bare).await, answers(whole).await, "{name}");
        found += 1;
    }
    assert_eq!(found, 7, "number of schemes that work without texts");
    let bare = Settings::preset(Preset::Signatures);
    assert_eq!(answers(bare.clone()).await, answers(Settings { keep: Keep::All, ..bare }).await);
}

/// Returns the number of groups of a collection.
async fn count_groups(engine: &Engine, name: &CollectionName) -> usize {
    engine.groups(name, &GroupSelection::default(), None, 10).await.unwrap().0.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_withdrawn_decision_restores_the_recorded_pair_and_no_texts_are_counted() {
    let engine = engine();
    let name = CollectionName::new("letters").unwrap();
    engine.put_collection(&name, Settings::preset(Preset::Signatures)).await.unwrap();
    for number in ["a", "b"] {
        engine.register(&name, Some(id(number)), letter(0), IfDuplicate::Keep).await.unwrap();
    }
    let not_same = crate::testing::opinion(Judgement::NotSame, "desk");
    let withdrawn = crate::testing::opinion(Judgement::Withdrawn, "desk");
    assert_eq!(count_groups(&engine, &name).await, 1);
    engine.decide(&name, &id("a"), &id("b"), not_same).await.unwrap();
    assert_eq!(count_groups(&engine, &name).await, 0);
    engine.withdraw(&name, &id("a"), &id("b"), withdrawn).await.unwrap();
    assert_eq!(count_groups(&engine, &name).await, 1, "the pair that the registration recorded is restored");
    assert!(engine.count_frequencies(&name).await.unwrap().is_none());
    assert!(matches!(engine.stored_row(&name, &id("a")).await, Err(Error::TextNotKept(..))));
    assert_eq!(count_groups(&engine, &name).await, 1);
}
