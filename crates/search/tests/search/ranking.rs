//! Tests of the ranking of related records.

use std::collections::{HashMap, HashSet};

use doppel_search::extract::RowExtract;
use doppel_search::weights::Weights;
use serde_json::json;

use crate::{RandomNumbers, commit, id, letter, new_index, put, row};

/// Weights with which only the words count.
const WORDS_ONLY: Weights =
    Weights { repeats: 1e9, coverage: 0.0, objects: 0.0, category: 0.0, identity: 0.0, time: 0.0, days: 1.0 };

#[test]
fn the_same_matter_in_other_words_ranks_above_another_matter_on_the_same_form() {
    let (_folder, index) = new_index();
    put(&index, "lamps", 1, &letter("河口新区三号路的路灯已经连续多日不亮，晚上行走十分危险，居民多次报修没有结果。"));
    put(&index, "dark", 2, &letter("三号路晚上一片漆黑，灯坏了一个月，希望尽快维修路灯。"));
    put(&index, "waste", 3, &letter("幸福小区门口的垃圾已经连续多日没有清运，居民多次反映没有结果。"));
    put(&index, "bus", 4, &letter("十七路公交车早高峰间隔太长，请增加班次。"));
    commit(&index, 4);
    let asked = index.extractor().extract(&letter("三号路的路灯坏了，晚上很黑，请维修。")).expect("a row");
    let found = index.related(&asked, None, 10, &Weights::default()).expect("an answer");
    let ids: Vec<_> = found.iter().map(|found| found.id.as_str()).collect();
    assert_eq!(ids[..2], ["dark", "lamps"]);
    assert!(
        found.is_sorted_by(|a, b| a.score >= b.score) && found.iter().all(|found| (0.0..=1.0).contains(&found.score))
    );
    let text = "三号路晚上一片漆黑，灯坏了一个月，希望尽快维修路灯。";
    let terms = &found[0].terms;
    assert!((1..=5).contains(&terms.len()) && terms.iter().all(|term| text.contains(term)), "{terms:?}");
    let same = index.extractor().extract(&letter("十七路公交车早高峰间隔太长，请增加班次。")).expect("a row");
    let itself = index.related(&same, None, 1, &Weights::default()).expect("an answer");
    assert!(itself[0].id == id("bus") && itself[0].score > 0.95, "{itself:?}");
    let others = index.related(&same, Some(&id("bus")), 10, &Weights::default()).expect("an answer");
    assert!(others.iter().all(|other| other.id != id("bus")));
}

#[test]
fn among_equal_texts_the_nearer_in_time_ranks_first_unless_the_petitioner_weighs_more() {
    let (_folder, index) = new_index();
    let letter = |content: &str, time: &str, user: &str| row(&json!({"content": content, "time": time, "user": user}));
    put(&index, "far", 1, &letter("路灯不亮请维修", "2020-01-01", "甲"));
    put(&index, "near", 2, &letter("路灯不亮请维修", "2024-03-01", "乙"));
    put(&index, "other", 3, &letter("井盖破损请更换", "2024-03-01", "丙"));
    commit(&index, 3);
    let asked = index.extractor().extract(&letter("路灯不亮", "2024-03-02", "甲")).expect("a row");
    let found = index.related(&asked, None, 10, &Weights { identity: 0.0, ..Weights::default() }).expect("an answer");
    assert_eq!(found[0].id, id("near"));
    assert_eq!((found[0].same_petitioner, found[1].same_petitioner), (Some(false), Some(true)));
    let found = index.related(&asked, None, 10, &Weights { identity: 9.0, ..Weights::default() }).expect("an answer");
    assert_eq!(found[0].id, id("far"), "the weight of the petitioner is high");
}

#[test]
fn a_high_coverage_weight_ranks_records_with_more_of_the_question_first() {
    let (_folder, index) = new_index();
    put(&index, "often", 1, &letter("路灯，路灯，路灯，路灯"));
    put(&index, "both", 2, &letter(&format!("路灯，井盖，{}", "学校，医院，公交，地铁，".repeat(10))));
    (3..20).for_each(|seq| put(&index, &seq.to_string(), seq, &letter("噪音，垃圾，停水")));
    commit(&index, 20);
    let asked = index.extractor().extract(&letter("路灯，井盖")).expect("a row");
    for (coverage, expected) in [(0.0, "often"), (2.0, "both")] {
        let found = index.related(&asked, None, 10, &Weights { coverage, ..WORDS_ONLY }).expect("an answer");
        assert!(found.iter().all(|found| (0.0..=1.0).contains(&found.score)));
        assert_eq!(found[0].id.as_str(), expected, "coverage {coverage}");
    }
}

#[test]
fn the_score_of_the_text_is_bm25() {
    let (_folder, index) = new_index();
    let mut numbers = RandomNumbers(7);
    // The index stores such short lengths exactly; longer lengths are rounded.
    let texts: Vec<Vec<String>> =
        (0..60).map(|_| (0..3 + numbers.below(30)).map(|_| format!("w{}", numbers.below(40))).collect()).collect();
    for (at, text) in texts.iter().enumerate() {
        put(&index, &format!("r{at}"), at as u64 + 1, &letter(&text.join(" ")));
    }
    commit(&index, 60);
    let average = texts.iter().map(Vec::len).sum::<usize>() as f32 / texts.len() as f32;
    for asked in &texts[..20] {
        let extract = RowExtract { words: asked.join("\u{1F}"), ..RowExtract::default() };
        let found = index.related(&extract, None, 60, &WORDS_ONLY).expect("an answer");
        let own = bm25(&texts, average, asked, asked);
        let scores: HashMap<_, _> = found.iter().map(|found| (found.id.as_str().to_owned(), found.score)).collect();
        for (at, text) in texts.iter().enumerate() {
            let expected = (bm25(&texts, average, asked, text) / own).min(1.0);
            let given = scores.get(&format!("r{at}")).copied();
            // For a longer question only its best terms find candidates.
            let is_short = asked.iter().collect::<HashSet<_>>().len() <= 16;
            let Some(given) = given.or(is_short.then_some(0.0)) else { continue };
            assert!((given - expected).abs() < 1e-3, "r{at}: {given} and not {expected}");
        }
    }
}

/// Computes the BM25 score of `text` for the question `asked` among 60 texts, by the formula.
fn bm25(texts: &[Vec<String>], average_length: f32, asked: &[String], text: &[String]) -> f32 {
    let mut score = 0.0;
    for term in asked.iter().collect::<HashSet<_>>() {
        let document_frequency = texts.iter().filter(|text| text.contains(term)).count() as f32;
        let idf = (1.0 + (60.0 - document_frequency + 0.5) / (document_frequency + 0.5)).ln();
        let in_question = count_term(asked, term);
        let in_text = count_term(text, term);
        let length = text.len() as f32 / average_length;
        score += in_question * idf * 2.2 * in_text / (in_text + 1.2 * (0.25 + 0.75 * length));
    }
    score
}

fn count_term(text: &[String], term: &str) -> f32 {
    text.iter().filter(|other| *other == term).count() as f32
}
