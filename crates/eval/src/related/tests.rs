//! Tests of the measures and of the files of judgements.

use super::*;

#[test]
fn measures_are_those_of_the_textbook() {
    let judged = BTreeMap::from([(1, 2), (2, 2), (3, 1), (4, 0)]);
    let ranking = [4, 1, 9, 3, 8, 7, 2];
    let quality = RankingQuality::of([(&judged, &ranking[..])]);
    let gain = 3.0 / 3_f64.log2() + 1.0 / 5_f64.log2() + 3.0 / 8_f64.log2();
    let best = 3.0 + 3.0 / 3_f64.log2() + 1.0 / 4_f64.log2();
    assert_eq!((quality.recall_at_5, quality.recall_at_10, quality.mrr), (0.5, 1.0, 0.5));
    assert!((quality.ndcg_at_10 - gain / best).abs() < 1e-12);
}

#[test]
fn queries_without_a_record_of_the_same_matter_count_for_ndcg_alone() {
    let same = BTreeMap::from([(1, 2)]);
    let useful = BTreeMap::from([(1, 1)]);
    let none = BTreeMap::from([(1, 0)]);
    let quality = RankingQuality::of([(&same, &[1][..]), (&useful, &[2, 1][..]), (&none, &[][..])]);
    assert_eq!((quality.recall_at_5, quality.mrr), (1.0, 1.0));
    assert!((quality.ndcg_at_10 - f64::midpoint(1.0, 1.0 / 3_f64.log2())).abs() < 1e-12);
}

#[test]
fn judgements_that_cannot_be_used_name_the_line_and_the_remedy() {
    let records = "{\"id\":\"a\",\"content\":\"x\"}\n{\"id\":\"b\",\"content\":\"y\"}";
    let set = LabelledSet::read(("r", records.as_bytes()), ("g", &b""[..])).unwrap();
    let read = |lines: &str| QueryJudgements::read(&set, ("j", lines.as_bytes())).map_err(|error| error.to_string());
    let line = r#"{"query":"a","id":"b","rel":2}"#;
    assert_eq!(read(line).unwrap().same(), 1);
    assert!(read(&format!("{line}\n{line}")).unwrap_err().starts_with("j line 2: b is judged twice for a"));
    assert_eq!(
        read(r#"{"query":"a","id":"z","rel":2}"#).unwrap_err(),
        "j line 1: the record z is not among the records"
    );
    assert!(read(r#"{"query":"a","id":"b","rel":3}"#).unwrap_err().contains("give 2, 1 or 0"));
}
