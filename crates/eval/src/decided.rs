//! Turns the decisions of people in a collection into judgements of related records.
//!
//! A pair that people decided to be the same matter is judged as the same matter if the comparison of its texts does not find it, because a
//! ranking serves to find such pairs. A pair that the comparison of texts finds says nothing about a ranking, whether people confirmed it
//! or not. Such a duplicate of a query is left out of the query's ranking. Other records are also left out if they are known to belong to
//! the same matter but were not judged for the query: a duplicate of a record that was judged the same, and a record that was judged the
//! same as such a record. A pair that was decided not to be the same matter is judged 0, even if its texts match. Each record of a judged
//! pair is a query.

use std::collections::{BTreeMap, BTreeSet};

use super::dataset::LabelledSet;
use super::metrics::PositionPair;
use super::related::{QueryJudgements, SAME};
use doppel_core::collection::Settings;
use doppel_core::index::groups::GroupSet;
use doppel_core::record::RecordId;
use doppel_engine::Error;
use doppel_engine::replay::find_duplicates;

/// Memory for sketches, in bytes.
const SKETCH_BYTES: usize = 64 << 20;

/// A decision about two records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairDecision {
    /// The first record.
    pub a: RecordId,
    /// The second record.
    pub b: RecordId,
    /// True if they concern the same matter.
    pub same: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DecisionUse {
    /// Number of pairs of one matter that the comparison of texts does not find. A ranking should find them.
    pub same: usize,
    /// Number of pairs of one matter that the comparison of texts finds. They are left out.
    pub found_by_text: usize,
    /// Number of pairs that are not one matter.
    pub not_same: usize,
    /// Number of pairs with a record that no longer exists.
    pub gone: usize,
}

/// Returns the judgements that follow from decisions about records of `set`, and the use of the decisions. O(records) for the duplicates
/// among all records.
///
/// # Errors
/// Validated settings cause no error.
pub fn judgements(
    set: &LabelledSet,
    settings: &Settings,
    decided: impl IntoIterator<Item = PairDecision>,
) -> Result<(QueryJudgements, DecisionUse), Error> {
    let mut used = DecisionUse::default();
    let found = duplicates(set, settings)?;
    let mut judged: BTreeMap<PositionPair, bool> = BTreeMap::new();
    for PairDecision { a, b, same } in decided {
        match (set.positions.get(&a), set.positions.get(&b)) {
            (Some(a), Some(b)) if a != b => _ = judged.insert(PositionPair::new(*a, *b), same),
            _ => used.gone += 1,
        }
    }
    let mut matters = GroupSet::new();
    let same = judged.iter().filter(|(_, same)| **same).map(|(pair, _)| pair);
    found
        .iter()
        .filter(|pair| judged.get(pair) != Some(&false))
        .chain(same)
        .for_each(|PositionPair(a, b)| matters.add_pair(u64::from(*a), u64::from(*b)));

    let mut judgements = QueryJudgements::default();
    for (pair, same) in &judged {
        match (same, found.contains(pair)) {
            (true, true) => used.found_by_text += 1,
            (true, false) => used.same += 1,
            (false, _) => used.not_same += 1,
        }
        if *same && found.contains(pair) {
            continue;
        }
        for (query, other) in [(pair.0, pair.1), (pair.1, pair.0)] {
            let rel = if *same { SAME } else { 0 };
            judgements.queries.entry(query).or_default().insert(other, rel);
        }
    }
    let mut members: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
    for PositionPair(a, b) in found.iter().chain(judged.keys()) {
        for record in [a, b] {
            let matter = matters.component_of(u64::from(*record));
            matter.into_iter().for_each(|matter| _ = members.entry(matter).or_default().insert(*record));
        }
    }
    for (query, judged) in &judgements.queries {
        // Nothing is known about the matter of this query, except that some records do not belong to it.
        let alone = u64::MAX - u64::from(*query);
        let matter = matters.component_of(u64::from(*query));
        judgements.matters.insert(*query, matter.unwrap_or(alone));
        let known = matter.and_then(|matter| members.get(&matter)).into_iter().flatten();
        let left_out = known.filter(|record| *record != query && !judged.contains_key(record)).copied().collect();
        judgements.left_out.insert(*query, left_out);
    }
    Ok((judgements, used))
}

/// Returns the pairs of records of `set` that the comparison of their texts finds, by the rules of the service. Uses all cores.
fn duplicates(set: &LabelledSet, settings: &Settings) -> Result<BTreeSet<PositionPair>, Error> {
    let pairs = find_duplicates(settings, &set.batch(), SKETCH_BYTES, |_| ())?;
    Ok(pairs.into_iter().map(|[one, other]| PositionPair::new(one, other)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::Preset;
    use doppel_core::record::Row;

    fn set(texts: &[&str]) -> LabelledSet {
        let mut set = LabelledSet::default();
        for (number, text) in (0..).zip(texts) {
            let row = serde_json::json!({ "content": text }).to_string();
            set.add_as(id(number), Row::parse(row.as_bytes()).unwrap()).unwrap();
        }
        set
    }

    fn id(number: u32) -> RecordId {
        RecordId::new(&number.to_string()).unwrap()
    }

    fn decided(a: u32, b: u32, same: bool) -> PairDecision {
        PairDecision { a: id(a), b: id(b), same }
    }

    const LAMPS: &str = "枫叶里小区南门外的路灯连续三晚没有亮,夜间行人看不清台阶,请尽快安排检修";

    #[test]
    fn only_what_texts_do_not_show_is_looked_for_and_what_is_known_besides_is_left_out() {
        let again = format!("{LAMPS},谢谢");
        let set = set(&[
            LAMPS,
            &again,
            "南门那边晚上黑漆漆的,老人差点摔跤,已经好几天了也没人管",
            "石榴湾小区西门的垃圾堆了一个星期,气味难闻",
            "晚上回家要打手电,小区外面一盏灯都不亮",
        ]);
        let said =
            [decided(0, 1, true), decided(1, 2, true), decided(2, 4, true), decided(0, 3, false), decided(0, 9, true)];
        let (judgements, used) = judgements(&set, &Settings::preset(Preset::Default), said).unwrap();
        assert_eq!(used, DecisionUse { same: 2, found_by_text: 1, not_same: 1, gone: 1 });
        assert_eq!(judgements.queries[&0], [(3, 0)].into(), "its duplicate is none of the judged");
        assert_eq!(judgements.queries[&1], [(2, 2)].into());
        assert_eq!(judgements.queries[&2], [(1, 2), (4, 2)].into());
        assert_eq!(judgements.queries[&3], [(0, 0)].into());
        assert_eq!(judgements.left_out[&0], [1, 2, 4].into());
        assert_eq!(judgements.left_out[&1], [0, 4].into());
        assert_eq!(judgements.left_out[&2], [0].into());
        assert!(judgements.left_out[&3].is_empty());
        let matters = &judgements.matters;
        assert!(matters[&0] == matters[&4] && matters[&0] != matters[&3], "{matters:?}");
    }

    #[test]
    fn a_pair_that_matches_and_was_refused_stays_in_the_ranking() {
        let again = format!("{LAMPS},谢谢");
        let set = set(&[LAMPS, &again]);
        let (judgements, used) = judgements(&set, &Settings::preset(Preset::Default), [decided(1, 0, false)]).unwrap();
        assert_eq!(used, DecisionUse { not_same: 1, ..DecisionUse::default() });
        assert_eq!(judgements.queries[&0], BTreeMap::from([(1, 0)]));
        assert!(judgements.left_out.values().all(BTreeSet::is_empty));
    }
}
