use super::*;
use crate::testing::{LETTER, LetterDesk, id};
use doppel_store::decisions::Judgement;

#[test]
fn the_confidence_interval_is_wilsons() {
    let table = [(0, 10, 0.0, 0.2775), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (1, 1, 0.2065, 1.0)];
    for (count, of, low, high) in table {
        let (found_low, found_high) = wilson(count, of);
        assert!((found_low - low).abs() < 1e-4 && (found_high - high).abs() < 1e-4, "{count} of {of}");
    }
    assert_eq!(wilson(0, 0), (0.0, 1.0));
    for of in 1..200 {
        for count in 0..=of {
            let (low, high) = wilson(count, of);
            let share = count as f64 / of as f64;
            assert!(0.0 <= low && low <= share + 1e-12 && share <= high + 1e-12 && high <= 1.0, "{count} of {of}");
            // The bounds solve (share - p)² = z² p (1 - p) / n.
            for end in [low, high] {
                let solved = (share - end).powi(2) - Z * Z * end * (1.0 - end) / of as f64;
                assert!(solved.abs() < 1e-9, "{count} of {of}: {end}");
            }
        }
    }
}

#[test]
fn a_band_includes_its_lower_edge_and_the_last_band_both_edges() {
    let edges = (0..=10).map(|tenth| f64::from(tenth) / 10.0);
    assert_eq!(edges.map(band).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9]);
    assert_eq!([0.0999, 0.2999, 0.9999, 0.1 + 0.2].map(band), [0, 2, 9, 3]);
    assert_eq!([-1.0, f64::NAN, 7.0].map(band), [0, 0, 9]);
}

#[test]
fn counts_of_decided_pairs_equal_a_simple_count() {
    let mut state = 7_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let pairs: Vec<(f64, bool, bool)> =
        (0..3_000).map(|_| (next(10_001) as f64 / 10_000.0, next(3) > 0, next(4) > 0)).collect();
    let counts = QualityCounts::of(pairs.iter().copied());
    let count = |wanted: &dyn Fn(&(f64, bool, bool)) -> bool| pairs.iter().filter(|pair| wanted(pair)).count() as u64;
    for (at, said) in counts.bands.iter().enumerate() {
        let low = at as f64 / 10.0;
        let high = if at == 9 { 2.0 } else { (at + 1) as f64 / 10.0 };
        let within = |pair: &(f64, bool, bool)| pair.0 >= low - 1e-9 && pair.0 < high - 1e-9;
        assert_eq!(said.same, count(&|pair| within(pair) && pair.1), "{at}");
        assert_eq!(said.not_same, count(&|pair| within(pair) && !pair.1), "{at}");
    }
    assert_eq!(
        counts.found,
        DecisionCounts { same: count(&|pair| pair.1 && pair.2), not_same: count(&|pair| !pair.1 && pair.2) }
    );
    assert_eq!(counts.missed.same, count(&|pair| pair.1 && !pair.2));
    assert_eq!(counts.found.total() + counts.missed.total(), 3_000);
    let (precision, (low, high)) = counts.found.precision().unwrap();
    assert!(low < precision && precision < high && counts.recall_at_most().unwrap() < 1.0);
    assert_eq!((QualityCounts::default().recall_at_most(), DecisionCounts::default().precision()), (None, None));
}

const WASTE: &str = "幸福小区门口的垃圾三天没有清运，气味难闻，苍蝇很多，请有关部门尽快派人处理并告知结果";

#[tokio::test]
async fn decisions_are_compared_with_the_pairs_that_were_found() {
    let desk = LetterDesk::with(&["a", "b", "c"]).await;
    desk.put("d", WASTE).await;
    desk.put("e", &format!("{LETTER}。另外，学校门口的人行道上停满了车，孩子只能走在马路中间，也请管一管")).await;
    let nothing = desk.engine.quality(&desk.name, None).await.unwrap();
    assert_eq!((nothing.counts, nothing.decisions, nothing.what_if), (QualityCounts::default(), 0, None));
    assert_eq!(nothing.recorded[9], 3, "the three copies: {:?}", nothing.recorded);
    assert_eq!(nothing.recorded.iter().sum::<u64>(), 6, "and the letter with more text");
    desk.decide("a", "b", Judgement::Same).await;
    desk.decide("a", "c", Judgement::NotSame).await;
    desk.decide("a", "d", Judgement::Same).await;
    desk.decide("b", "c", Judgement::Same).await;
    desk.decide("b", "c", Judgement::Withdrawn).await;
    let quality = desk.engine.quality(&desk.name, None).await.unwrap();
    assert_eq!(quality.counts.found, DecisionCounts { same: 1, not_same: 1 });
    assert_eq!(quality.counts.missed, DecisionCounts { same: 1, not_same: 0 }, "the pair was not found");
    assert_eq!(quality.counts.bands[9], DecisionCounts { same: 1, not_same: 1 });
    assert_eq!(quality.counts.recall_at_most(), Some(0.5));
    assert!(quality.has_all_decisions && quality.has_all_recorded);
    desk.engine.remove(&desk.name, &id("b")).await.unwrap();
    let quality = desk.engine.quality(&desk.name, None).await.unwrap();
    assert_eq!(quality.counts.found, DecisionCounts { same: 0, not_same: 1 }, "only records that exist");
}

#[tokio::test]
async fn a_pair_that_was_recorded_because_of_a_decision_does_not_count_as_found() {
    let desk = LetterDesk::with(&["a"]).await;
    desk.put("d", LETTER).await;
    desk.decide("a", "d", Judgement::Same).await;
    desk.put("d", WASTE).await;
    let quality = desk.engine.quality(&desk.name, None).await.unwrap();
    assert_eq!((quality.counts.found, quality.counts.missed.same), (DecisionCounts::default(), 1));
}

async fn what_if(desk: &LetterDesk, threshold: DuplicateThreshold) -> WhatIf {
    desk.engine.quality(&desk.name, Some(threshold)).await.unwrap().what_if.unwrap()
}

#[tokio::test]
async fn another_threshold_is_tried_on_the_pairs_that_were_found() {
    let desk = LetterDesk::with(&["a", "b"]).await;
    desk.put("e", &format!("{LETTER}。另外，学校门口的人行道上停满了车，孩子只能走在马路中间，也请管一管")).await;
    desk.decide("a", "e", Judgement::Same).await;
    let quality = desk.engine.quality(&desk.name, None).await.unwrap();
    let now = quality.threshold.unwrap();
    let same = what_if(&desk, now).await;
    assert_eq!((same.recorded, same.decided, same.of_recorded, same.of_decided), (0, DecisionCounts::default(), 3, 1));
    assert_eq!((same.falling.len(), same.staying.len()), (0, 2));
    let strict = what_if(&desk, DuplicateThreshold(1.0)).await;
    assert_eq!(
        (strict.recorded, strict.decided),
        (2, DecisionCounts { same: 1, not_same: 0 }),
        "exact copies still match"
    );
    assert_eq!((strict.falling.len(), strict.staying.len()), (2, 0));
    let decided = strict.falling.iter().find(|pair| pair.said == Some(true)).unwrap();
    assert_eq!((decided.later.as_str(), decided.earlier.as_str()), ("e", "a"));
    assert!(strict.falling[0].probability >= strict.falling[1].probability);
    let after = desk.engine.quality(&desk.name, None).await.unwrap();
    assert_eq!((after.threshold, after.recorded), (Some(now), quality.recorded), "unchanged");
}
