//! Tests of the properties of a whole sample.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::*;

fn sample(records: u64, seed: u64) -> RecordSample {
    RecordSample::new(&SampleOptions { records, seed, duplicates: 0.1, forms: 0.0, labels: true, until: UNTIL })
}

fn digest<T: Serialize>(items: impl Iterator<Item = T>) -> String {
    let mut sha = Sha256::new();
    for item in items {
        sha.update(serde_json::to_vec(&item).unwrap());
        sha.update(b"\n");
    }
    sha.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_same_options_give_the_same_bytes_for_ever() {
    let sample = sample(400, 7);
    let digests = [digest(sample.records()), digest(sample.groups()), digest(sample.hard_negatives())];
    let golden = [
        "bbf443a45d95e7f9557fa9f39fa19aa63317124f53a97727c97daf8892f0fb11",
        "717253431c7781591227098c7183c1388ba69898e4f9ec11e33f97e88e8bba0c",
        "c82b73670005577fc26f0d75528ebbdd862b8a2cb871ef31db6cb0630865fbb9",
    ];
    assert_eq!(digests, golden);
}

#[test]
fn a_record_does_not_depend_on_those_made_before_it() {
    let sample = sample(300, 3);
    let in_order: Vec<_> = sample.records().collect();
    for position in [299, 0, 150] {
        assert_eq!(sample.record(position), in_order[position as usize]);
    }
}

#[test]
fn another_seed_gives_other_records() {
    let [one, other] = [1, 2].map(|seed| sample(50, seed).records().map(|record| record.content).collect::<Vec<_>>());
    assert_ne!(one, other);
}

#[test]
fn about_the_share_asked_for_repeats_another_record() {
    for share in [0.0, 0.1, 0.4] {
        let sample = RecordSample::new(&SampleOptions {
            records: 10_000,
            seed: 5,
            duplicates: share,
            forms: 0.0,
            labels: false,
            until: UNTIL,
        });
        let clusters = sample.letters.clusters().filter(|cluster| matches!(cluster.bond, ClusterBond::Copies(_)));
        let copies = clusters.map(|cluster| cluster.size - 1).sum::<u64>() as f64 / 10_000.0;
        assert!((copies - share).abs() < 0.02, "asked for {share}, got {copies}");
    }
}

#[test]
fn members_of_a_group_are_distinct_records_and_the_original_comes_first() {
    let sample = sample(2_000, 11);
    let mut seen = std::collections::BTreeSet::new();
    for group in sample.groups() {
        assert!(group.members.len() >= 2 && group.members[0] == group.original && group.members.is_sorted());
        assert!(group.members.into_iter().all(|member| seen.insert(member)), "a record in two groups");
    }
    assert!(seen.len() > 200);
}

#[test]
fn copies_overlap_with_their_originals_and_exact_ones_wholly() {
    for group in sample(2_000, 13).groups() {
        assert!(group.kind != "exact" || group.min_jaccard == 1.0, "{group:?}");
        assert!(group.kind != "affix" || group.max_jaccard > 0.2, "{group:?}");
    }
}

#[test]
fn unrelated_records_rarely_overlap_even_on_the_same_topic() {
    let sample = RecordSample::new(&SampleOptions {
        records: 500,
        seed: 17,
        duplicates: 0.0,
        forms: 0.0,
        labels: true,
        until: UNTIL,
    });
    let mut topics: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for record in sample.records() {
        topics.entry(record.label.clone().unwrap()).or_default().push(text(&record));
    }
    let mut pairs = 0;
    let mut alike = 0;
    for texts in topics.values() {
        for (n, a) in texts.iter().enumerate() {
            for b in &texts[..n.min(12)] {
                pairs += 1;
                alike += usize::from(overlap(a, b).jaccard >= 0.3);
            }
        }
    }
    assert!(pairs > 3_000 && alike * 500 < pairs, "{alike} of {pairs} unrelated pairs reach 0.3");
}

#[test]
fn most_runs_of_eight_characters_are_found_in_no_or_few_other_records() {
    let sample = RecordSample::new(&SampleOptions {
        records: 1_000,
        seed: 29,
        duplicates: 0.0,
        forms: 0.0,
        labels: false,
        until: UNTIL,
    });
    let mut records_with: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for record in sample.records() {
        let units = units(&record.content);
        let runs: std::collections::BTreeSet<_> = units.windows(8).collect();
        for run in runs {
            *records_with.entry(run.to_vec()).or_default() += 1;
        }
    }
    let all: u64 = records_with.values().sum();
    let pairs: u64 = records_with.values().map(|count| count * (count - 1) / 2).sum();
    assert!(pairs > 0 && pairs * 8 < all, "{pairs} pairs of records share one of {all} runs");
}

/// Returns the characters without punctuation. A number is one unit.
fn units(text: &str) -> Vec<String> {
    let mut units: Vec<String> = Vec::new();
    let mut in_number = false;
    for c in text.chars().filter(|c| c.is_alphanumeric()) {
        match units.last_mut().filter(|_| in_number && c.is_ascii_digit()) {
            Some(number) => number.push(c),
            None => units.push(c.to_string()),
        }
        in_number = c.is_ascii_digit();
    }
    units
}

#[test]
fn look_alikes_stay_below_what_verification_accepts() {
    for pair in sample(4_000, 19).hard_negatives() {
        assert!(pair.jaccard < 0.3 && pair.containment < 0.6, "{pair:?}");
    }
}

#[test]
fn lengths_are_those_of_a_mailbox() {
    let sample = RecordSample::new(&SampleOptions {
        records: 2_000,
        seed: 23,
        duplicates: 0.0,
        forms: 0.0,
        labels: false,
        until: UNTIL,
    });
    let mut lengths: Vec<_> = sample.records().map(|record| record.content.chars().count()).collect();
    lengths.sort_unstable();
    let short = lengths[100];
    let median = lengths[1_000];
    let longest = lengths[1_999];
    assert!(short < 80 && (220..=330).contains(&median) && longest > 2_000, "{short} {median} {longest}");
}

fn orders(records: u64, seed: u64, forms: f64) -> RecordSample {
    RecordSample::new(&SampleOptions { records, seed, duplicates: 0.1, forms, labels: true, until: UNTIL })
}

#[test]
fn the_same_share_of_orders_gives_the_same_bytes_for_ever() {
    let sample = orders(400, 7, 0.4);
    let digests = [digest(sample.records()), digest(sample.groups()), digest(sample.pairs())];
    let golden = [
        "ccc27300b2e489f062a08c1cccb888c972498da380aff220355a6dff9241acc9",
        "1ee0d4f687e356b24e7833a4050c36dbe7fb316294b116032718f12f52e44d24",
        "898265b7f2093088b57b04cbca58ad922a4a6f85a66f3e340805d7b8942c3a10",
    ];
    assert_eq!(digests, golden);
}

#[test]
fn the_share_asked_for_are_orders_and_none_are_labelled_without_them() {
    for (share, expected) in [(0.0, 0), (0.25, 99), (1.0, 394)] {
        let sample = orders(400, 3, share);
        assert_eq!(sample.layout.hot, 6, "these are neither letters nor orders");
        let found = sample
            .records()
            .filter(|record| {
                record
                    .label
                    .as_deref()
                    .is_some_and(|label: &str| label.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
            })
            .count();
        assert_eq!((found, sample.pairs().count() > 0), (expected, share > 0.0), "{share}");
    }
}

#[test]
fn an_order_does_not_depend_on_the_records_made_before_it() {
    let sample = orders(300, 3, 0.5);
    let in_order: Vec<_> = sample.records().collect();
    assert!((0..300).rev().all(|position| sample.record(position) == in_order[position as usize]));
}

#[test]
fn pairs_labelled_same_are_those_of_the_groups_of_orders_and_templates_share_a_form_and_no_group() {
    let sample = orders(3_000, 11, 0.6);
    let forms: BTreeMap<_, _> = sample.records().map(|record| (record.id, record.label)).collect();
    let mut grouped = std::collections::BTreeSet::new();
    for group in sample.groups().filter(|group| group.kind == ORDER) {
        assert!(group.members.is_sorted() && group.members[0] == group.original && group.strength >= 1);
        for (n, b) in group.members.iter().enumerate() {
            grouped.extend(group.members[..n].iter().map(|a| (a.clone(), b.clone())));
        }
    }
    let (same, templates): (Vec<_>, Vec<_>) = sample.pairs().partition(|pair| pair.label == "same");
    assert_eq!(same.into_iter().map(|pair| (pair.a, pair.b)).collect::<std::collections::BTreeSet<_>>(), grouped);
    assert!(grouped.len() > 100 && templates.len() > 3_000);
    let signs = ["company", "number", "person", "place", "question"];
    for pair in templates {
        assert!(pair.label == "template" && pair.a < pair.b && forms[&pair.a] == forms[&pair.b], "{pair:?}");
        assert!(!pair.signs.is_empty() && pair.signs.iter().all(|sign| signs.contains(sign)), "{pair:?}");
        assert!(!grouped.contains(&(pair.a, pair.b)));
    }
}

#[test]
fn most_orders_that_share_much_text_are_about_different_matters() {
    let pairs: Vec<_> = orders(2_000, 5, 1.0).pairs().filter(|pair: &LabelledPair| pair.jaccard >= 0.3).collect();
    let same = pairs.iter().filter(|pair| pair.label == "same").count();
    assert!(same > 100 && pairs.len() > 2 * same, "{same} of {}", pairs.len());
}

#[test]
fn families_are_the_members_of_the_groups_of_letters_and_orders() {
    let sample = orders(600, 13, 0.5);
    assert!(
        sample
            .families()
            .map(|family: Vec<u64>| family.into_iter().map(id).collect::<Vec<_>>())
            .eq(sample.groups().map(|group| group.members))
    );
}

/// Characters that may follow a number in figures: measure words (and the usual typing error of 辆), and the first characters of names of
/// measures.
const MEASURES: &str = "个年月日号天点元万栋单楼米公次户人名张份盏辆件条厘分组路室度平岁时小星趟级套亩斤只台口节\
    种页秒段本处夜步声家层期棵批头道位遍项班工多热周里桌车桶所回倍档字顿块跤拨样俩根片站";

#[test]
fn every_number_has_a_measure_and_is_possible() {
    for seed in [1, 2, 3] {
        for record in orders(600, seed, 0.4).records().filter(|record| !record.content.contains('\u{3000}')) {
            let text = fast2s::convert(&format!("{} {}", record.title, record.content));
            let signs: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
            for end in (1..signs.len()).filter(|at| signs[at - 1].is_ascii_digit() && !signs[*at].is_ascii_digit()) {
                let begin = signs[..end].iter().rposition(|c| !c.is_ascii_digit()).map_or(0, |at| at + 1);
                let before: String = signs[begin.saturating_sub(2)..begin].iter().collect();
                let names = before.ends_with(|c: char| c.is_ascii_alphabetic() || c == '·') || before == "分机";
                if names || end - begin > 4 || !signs[end].is_alphabetic() || signs[end].is_ascii() {
                    continue;
                }
                let number: String = signs[begin..end].iter().collect();
                assert!(MEASURES.contains(signs[end]), "{number}{} in {text}", signs[end]);
                assert!(number != "0" || before.ends_with('.'), "a number of nothing in {text}");
            }
        }
    }
}

#[test]
fn no_text_has_an_unfilled_slot_or_two_marks_in_sequence() {
    let marks = ['，', '。', '；', '、', '！', '？', '：'];
    for seed in [4, 5, 6] {
        let options = SampleOptions { records: 800, seed, duplicates: 0.0, forms: 0.4, labels: true, until: UNTIL };
        for record in RecordSample::new(&options).records() {
            let text = format!("{}\n{}", record.title, record.content);
            assert!(!text.contains(['{', '}', '[', ']', '|']), "{text}");
            assert!(!record.content.is_empty() && !record.content.starts_with(marks), "{text}");
            let signs: Vec<char> = text.chars().collect();
            assert!(!signs.windows(2).any(|pair: &[char]| pair.iter().all(|sign| marks.contains(sign))), "{text}");
        }
    }
}

#[test]
fn all_records_are_received_in_the_days_up_to_the_last_one() {
    let until = Date::constant(2024, 2, 29);
    for records in [1, 7, 59, 60, 700] {
        let options = SampleOptions { records, seed: 8, duplicates: 0.1, forms: 0.4, labels: false, until };
        let times: Vec<String> = RecordSample::new(&options).records().map(|record| record.time).collect();
        assert!(times.is_sorted() && times.iter().all(|time| time.as_str() >= "2023-09-03"), "{times:?}");
        assert!(times.iter().all(|time| time[..10] <= *"2024-02-29"), "{times:?}");
    }
}

#[test]
fn every_record_has_the_fields_of_a_register() {
    for record in orders(800, 9, 0.4).records() {
        assert!(record.unit.starts_with(&record.district) && record.unit.len() > record.district.len(), "{record:?}");
        assert!(!record.district.is_empty() && !record.status.is_empty() && !record.category.is_empty(), "{record:?}");
        let invented = record.phone.starts_with("100") && record.phone.len() == 11;
        assert!(record.phone.is_empty() || (invented && !record.user.is_empty()), "{record:?}");
    }
}

#[test]
fn many_people_write_about_the_hot_event_in_other_words_within_a_few_days() {
    for [records, expected] in [[60, 6], [1_000, 16], [3_000, 24]] {
        let sample = orders(records, 10 + records, 0.4);
        let all: BTreeMap<String, GeneratedRecord> =
            sample.records().map(|record| (record.id.clone(), record)).collect();
        let hot: Vec<SampleGroup> = sample.groups().filter(|group| group.kind == "hot_event").collect();
        let [group] = &hot[..] else { panic!("one hot event, not {}", hot.len()) };
        let members: Vec<&GeneratedRecord> = group.members.iter().map(|id| &all[id]).collect();
        let users: std::collections::BTreeSet<_> = members.iter().map(|record| &record.user).collect();
        assert_eq!([users.len() as u64, members.len() as u64], [expected, expected], "each has another petitioner");
        let days = members.iter().map(|record| record.time[..10].parse::<Date>().unwrap());
        let [first, last] = [days.clone().min().unwrap(), days.max().unwrap()];
        assert!(first.until(last).unwrap().get_days() <= 4, "{first} to {last}");
        assert!(members.iter().all(|record| record.category == members[0].category && record.unit == members[0].unit));
        assert!(group.max_jaccard < 0.5 && group.min_jaccard < 0.1, "{group:?}");
    }
    let without = SampleOptions { records: 500, seed: 1, duplicates: 0.0, forms: 0.4, labels: false, until: UNTIL };
    assert_eq!(RecordSample::new(&without).groups().count(), 0);
}
