use super::counted_records::SLACK;
use super::*;
use crate::IfDuplicate;
use crate::testing::{LETTER, LetterDesk, id};
use doppel_core::collection::{Field, Settings};
use doppel_core::record::Row;
use doppel_store::StoredRecord;
use doppel_store::changes::{Change, ChangeKind};
use serde_json::json;

async fn put(desk: &LetterDesk, name: &str, row: serde_json::Value) {
    let row = Row::parse(row.to_string().as_bytes()).unwrap();
    desk.engine.register(&desk.name, Some(id(name)), row, IfDuplicate::Keep).await.unwrap();
}

async fn counted(desk: &LetterDesk, by: Option<CountedTime>, begins: &[&str], end: &str) -> PeriodCounts {
    let begins = begins.iter().map(|day| day.parse().unwrap()).collect();
    let question = PeriodQuestion { by, begins, end: end.parse().unwrap(), most_values: 2 };
    match desk.engine.period_counts(&desk.name, question).await.unwrap() {
        CountsAnswer::Counted(counts) => counts,
        CountsAnswer::Reading(..) => panic!("a small collection is read at once"),
    }
}

#[tokio::test]
async fn values_that_no_record_has_any_more_are_forgotten() {
    let desk = LetterDesk::with(&[]).await;
    for unit in ["城管局", "住建局", "水务局"] {
        put(&desk, "a", json!({"content": LETTER, "time": "2024-03-01", "承办单位": unit})).await;
        put(&desk, unit, json!({"content": LETTER, "time": "2024-03-01", "承办单位": "信访局"})).await;
        counted(&desk, None, &["2024-03-01"], "2024-03-02").await;
    }
    let entry = desk.engine.counts.entry(&desk.name);
    let held = entry.0.lock().await;
    let mut names = held.as_ref().unwrap().values[1].names.clone();
    names.sort();
    assert_eq!(names, ["信访局", "水务局"]);
    drop(held);
    let counts = counted(&desk, None, &["2024-03-01"], "2024-03-02").await;
    let units = counts.tables[0].listed.iter().map(|(name, tally)| (name.as_str(), tally.total()));
    assert_eq!(units.collect::<Vec<_>>(), [("信访局", 3), ("水务局", 1)]);
}

/// Changes records at random, in feeds of random length, and compares the held records with a model.
#[tokio::test]
async fn after_any_changes_the_latest_records_are_held() {
    const MOST: usize = 16;
    let desk = LetterDesk::with(&["a"]).await;
    let context = desk.engine.context(&desk.name).await.unwrap();
    let stored = desk.engine.store.records(&desk.name, Seq(0), 1).await.unwrap();
    for seed in 1..=200_u64 {
        let mut counts = CollectionCounts::new(&context, Seq(0), MOST);
        let mut model: Vec<StoredRecord> = Vec::new();
        let mut feed = Vec::new();
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for number in 1..=120_u64 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let chosen = (random >> 16) as usize % model.len().max(1);
            let mut record = stored[0].clone();
            record.seq = Seq(number);
            record.id = id(&format!("r{number}"));
            let kind = match random % 8 {
                0..4 => {
                    model.push(record.clone());
                    ChangeKind::Created(record.clone())
                }
                _ if model.is_empty() => continue,
                4 => {
                    record.id = model.remove(chosen).id;
                    model.push(record.clone());
                    ChangeKind::Replaced(record.clone())
                }
                5 => {
                    model[chosen].verdict.kind = VerdictKind::NearDuplicate;
                    record = model[chosen].clone();
                    ChangeKind::Updated(record.clone())
                }
                _ => {
                    record = model.remove(chosen);
                    ChangeKind::Removed
                }
            };
            feed.push(Change { number: Seq(number), id: record.id, kind });
            if random.is_multiple_of(3) {
                counts.note(std::mem::take(&mut feed));
            }
            if random.is_multiple_of(5) {
                counts.settle();
            }
        }
        counts.note(feed);
        counts.settle();
        let held: Vec<_> = counts.records.iter().map(|record| (record.seq, record.verdict)).collect();
        let latest: Vec<_> = model.iter().map(|record| (record.seq, record.verdict.kind)).collect();
        assert!(held.len() <= MOST + MOST / SLACK && latest.ends_with(&held), "seed {seed}: {held:?} of {latest:?}");
        assert!(counts.is_cut || held.len() == latest.len(), "seed {seed}");
    }
}

fn totals(counts: &PeriodCounts) -> Vec<u64> {
    counts.parts.iter().map(RecordTally::total).collect()
}

#[tokio::test]
async fn records_are_counted_by_day_verdict_and_value_and_every_change_is_followed() {
    let desk = LetterDesk::with(&[]).await;
    let mut settings = Settings::default();
    settings.fields.push(Field::new("区域", Role::Whole));
    desk.engine.put_collection(&desk.name, settings).await.unwrap();
    // 16:30 of the day before in UTC is the next day in the time zone of the collection.
    put(&desk, "a", json!({"content": LETTER, "time": "2024-02-29T16:30:00Z", "承办单位": "城管局", "区域": "东区"}))
        .await;
    put(
        &desk,
        "b",
        json!({"content": LETTER, "time": "2024-03-02", "承办单位": "城管局", "区域": "东区", "答复内容": "已修好"}),
    )
    .await;
    put(&desk, "c", json!({"content": "好", "time": "some day", "承办单位": "住建局"})).await;
    let march = ["2024-03-01", "2024-03-02"];
    let counts = counted(&desk, None, &march, "2024-03-03").await;
    assert_eq!((counts.by, counts.undated, counts.left_out), (CountedTime::Own, 1, 0));
    assert_eq!(
        counts.parts,
        [
            RecordTally { original: 1, ..RecordTally::default() },
            RecordTally { exact: 1, replied: 1, ..RecordTally::default() }
        ]
    );
    assert_eq!(counts.span, Some(("2024-03-01".parse().unwrap(), "2024-03-02".parse().unwrap())));
    let both = RecordTally { original: 1, exact: 1, replied: 1, ..RecordTally::default() };
    let [unit, area] = &counts.tables[..] else { panic!("two tables: {:?}", counts.tables) };
    assert_eq!((&unit.source, &unit.listed), (&ValueSource::Role(Role::Unit), &vec![("城管局".to_owned(), both)]));
    assert_eq!((&area.source, &area.listed), (&ValueSource::Field("区域".into()), &vec![("东区".to_owned(), both)]));

    // The bounds of a period are days, and the last day is not in it.
    assert_eq!(totals(&counted(&desk, None, &["2024-03-01"], "2024-03-02").await), [1]);
    assert_eq!(totals(&counted(&desk, None, &["2024-02-01"], "2024-03-01").await), [0]);

    put(&desk, "b", json!({"content": LETTER, "time": "2024-03-01", "承办单位": "城管局"})).await;
    put(&desk, "d", json!({"content": LETTER, "time": "2024-03-01"})).await;
    assert_eq!(totals(&counted(&desk, None, &march, "2024-03-03").await), [3, 0]);
    desk.engine.remove(&desk.name, &id("a")).await.unwrap();
    put(&desk, "d", json!({"content": "幸福小区门口的垃圾三天没有清运，气味难闻，请派人处理", "time": "2024-03-02"}))
        .await;
    assert_eq!(totals(&counted(&desk, None, &march, "2024-03-03").await), [1, 1]);
    let received = counted(&desk, Some(CountedTime::Receipt), &["2026-01-01"], "2026-01-02").await;
    assert_eq!((totals(&received), received.undated), (vec![3], 0));
}

#[tokio::test]
async fn without_own_times_records_are_counted_by_receipt() {
    let desk = LetterDesk::with(&["a", "b"]).await;
    let counts = counted(&desk, None, &["2026-01-01"], "2026-02-01").await;
    assert_eq!((counts.by, totals(&counts), counts.tables), (CountedTime::Receipt, vec![2], vec![]));
    let own = counted(&desk, Some(CountedTime::Own), &["2026-01-01"], "2026-02-01").await;
    assert_eq!((own.undated, totals(&own), own.span), (2, vec![0], None));
}

#[tokio::test]
async fn values_beyond_the_longest_list_are_counted_together() {
    let desk = LetterDesk::with(&[]).await;
    for (name, unit) in [("a", "甲"), ("b", "乙"), ("c", "乙"), ("d", "丙"), ("e", "")] {
        put(&desk, name, json!({"content": LETTER, "time": "2024-03-01", "承办单位": unit})).await;
    }
    let counts = counted(&desk, None, &["2024-03-01"], "2024-03-02").await;
    let table = &counts.tables[0];
    let listed: Vec<(&str, u64)> = table.listed.iter().map(|(value, tally)| (value.as_str(), tally.total())).collect();
    assert_eq!((listed, table.others.total(), table.without.total()), (vec![("乙", 2), ("丙", 1)], 1, 1));
}

#[tokio::test]
async fn decisions_are_counted_by_the_time_of_the_last_one_about_a_pair() {
    let desk = LetterDesk::with(&["a", "b", "c"]).await;
    desk.decide("a", "b", Judgement::Same).await;
    desk.decide("a", "b", Judgement::NotSame).await;
    desk.decide("a", "c", Judgement::Same).await;
    desk.decide("b", "c", Judgement::Same).await;
    desk.decide("b", "c", Judgement::Withdrawn).await;
    let from = "2026-01-01T00:00:00Z".parse().ok();
    let counts = desk.engine.decision_counts(&desk.name, Window { from, to: None }).await.unwrap();
    assert_eq!(counts, Some(JudgementCounts { same: 1, same_event: 0, not_same: 1 }));
    let before = desk.engine.decision_counts(&desk.name, Window { from: None, to: from }).await.unwrap();
    assert_eq!(before, Some(JudgementCounts::default()));
}
