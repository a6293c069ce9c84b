use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

type Pairs = BTreeSet<(u64, u64)>;

/// The same by brute force.
#[derive(Default)]
struct Model {
    found: Pairs,
    decided: BTreeMap<(u64, u64), Decision>,
}

impl Model {
    fn pairs(&self) -> Pairs {
        let with = |decision| self.decided.iter().filter(move |(_, d)| **d == decision).map(|(pair, _)| *pair);
        let found = self.found.iter().filter(|pair| !self.decided.contains_key(pair)).copied();
        found.chain(with(Decision::Same)).collect()
    }

    fn groups(&self) -> Vec<Group> {
        let pairs = self.pairs();
        let within =
            |members: &BTreeSet<u64>, pair: &(u64, u64)| members.contains(&pair.0) && members.contains(&pair.1);
        let groups = components(&pairs).into_iter().map(|members| {
            let own: Pairs = pairs.iter().copied().filter(|pair| within(&members, pair)).collect();
            let without = |pair: &(u64, u64)| own.iter().copied().filter(|other| other != pair).collect::<Pairs>();
            let is_bridge =
                |pair: &&(u64, u64)| !components(&without(pair)).iter().any(|members| within(members, pair));
            let different = self.decided.iter().filter(|(_, decision)| **decision == Decision::Different);
            let rejected: Vec<_> = different.map(|(pair, _)| *pair).filter(|pair| within(&members, pair)).collect();
            let summary = Summary { first: 0, size: members.len(), pairs: own.len() };
            Group {
                pairs: own.len(),
                density: summary.density(),
                bridges: own.iter().filter(is_bridge).copied().collect(),
                contested: !rejected.is_empty(),
                rejected,
                chained: summary.chained(),
                members: members.into_iter().collect(),
            }
        });
        groups.collect()
    }
}

/// Connected components, by first member.
fn components(pairs: &Pairs) -> Vec<BTreeSet<u64>> {
    let mut groups: Vec<BTreeSet<u64>> = Vec::new();
    for &(a, b) in pairs {
        let touches = |group: &BTreeSet<u64>| group.contains(&a) || group.contains(&b);
        let (touched, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(touches);
        groups = others;
        groups.push(touched.into_iter().flatten().chain([a, b]).collect());
    }
    groups.sort_by_key(|group| group.first().copied());
    groups
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Add(u64, u64),
    Remove(u64, u64),
    Leave(u64),
    Confirm(u64, u64),
    Reject(u64, u64),
    Withdraw(u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pair = || (0..14_u64, 0..14_u64);
    let step = prop_oneof![
        8 => pair().prop_map(|(a, b)| Step::Add(a, b)),
        2 => pair().prop_map(|(a, b)| Step::Remove(a, b)),
        2 => (0..14_u64).prop_map(Step::Leave),
        1 => pair().prop_map(|(a, b)| Step::Confirm(a, b)),
        2 => pair().prop_map(|(a, b)| Step::Reject(a, b)),
        1 => pair().prop_map(|(a, b)| Step::Withdraw(a, b)),
    ];
    prop::collection::vec(step, 0..60)
}

fn take(set: &mut GroupSet, model: &mut Model, step: Step) {
    let key = |a, b| ordered(a, b);
    match step {
        Step::Add(a, b) => {
            set.add_pair(a, b);
            model.found.extend(key(a, b));
        }
        Step::Remove(a, b) => {
            set.remove_pair(a, b);
            key(a, b).map(|pair| model.found.remove(&pair));
        }
        Step::Leave(member) => {
            set.remove_member(member);
            model.found.retain(|pair| pair.0 != member && pair.1 != member);
            model.decided.retain(|pair, _| pair.0 != member && pair.1 != member);
        }
        Step::Confirm(a, b) => {
            set.confirm(a, b);
            model.decided.extend(key(a, b).map(|pair| (pair, Decision::Same)));
        }
        Step::Reject(a, b) => {
            set.reject(a, b);
            model.decided.extend(key(a, b).map(|pair| (pair, Decision::Different)));
        }
        Step::Withdraw(a, b) => {
            set.withdraw(a, b);
            key(a, b).map(|pair| model.decided.remove(&pair));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn groups_are_those_of_brute_force_whatever_comes_and_goes(steps in steps()) {
        let (mut set, mut model) = (GroupSet::new(), Model::default());
        for step in steps {
            take(&mut set, &mut model, step);
            let expected = model.groups();
            prop_assert_eq!(set.groups().collect::<Vec<_>>(), &expected[..], "after {:?}", step);
            let pairs = model.pairs();
            for group in &expected {
                let summary = Summary { first: group.members[0], size: group.members.len(), pairs: group.pairs };
                for &member in &group.members {
                    prop_assert_eq!(set.summary_of(member), Some(summary));
                    let mut others: Vec<_> = set.pairs_of(member).collect();
                    others.sort_unstable();
                    let with = |pair: &(u64, u64)| pair.0 == member || pair.1 == member;
                    let brute = pairs.iter().copied().filter(with).map(|pair| pair.0 + pair.1 - member);
                    prop_assert_eq!(others, brute.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>());
                }
            }
            prop_assert_eq!(set.places.len(), expected.iter().map(|group| group.members.len()).sum::<usize>());
            prop_assert_eq!(set.summaries(0).count(), set.len());
        }
    }
}

fn set(pairs: impl IntoIterator<Item = (u64, u64)>) -> GroupSet {
    let mut set = GroupSet::new();
    pairs.into_iter().for_each(|(a, b)| set.add_pair(a, b));
    set
}

#[test]
fn a_rejected_pair_inside_a_chain_leaves_one_contested_group() {
    let mut set = set([(1, 2), (2, 3), (1, 3)]);
    set.reject(3, 1);
    let group = set.group_of(1).unwrap();
    assert_eq!((&group.members[..], group.pairs, group.contested), (&[1, 2, 3][..], 2, true));
    assert_eq!((&group.rejected[..], &group.bridges[..]), (&[(1, 3)][..], &[(1, 2), (2, 3)][..]));
    set.withdraw(1, 3);
    let group = set.group_of(3).unwrap();
    assert!(!group.contested && group.bridges.is_empty() && group.pairs == 3);
}

#[test]
fn a_decision_beats_what_is_found_later_and_may_be_changed() {
    let mut set = GroupSet::new();
    set.reject(1, 2);
    set.add_pair(1, 2);
    assert!(set.is_empty() && set.decision(2, 1) == Some(Decision::Different));
    set.confirm(2, 1);
    assert_eq!(set.len(), 1);
    set.remove_pair(1, 2);
    assert_eq!(set.len(), 1, "confirmed, though no longer found");
    set.withdraw(1, 2);
    assert!(set.is_empty() && set.decision(1, 2).is_none());
}

#[test]
fn a_long_thin_group_is_chained_and_copies_of_a_letter_are_not() {
    let chain = set((0..11).map(|n| (n, n + 1)));
    let group = chain.group_of(0).unwrap();
    assert!(group.chained && group.bridges.len() == 11 && group.members.len() == 12);
    assert!(!set((0..8).map(|n| (n, n + 1))).group_of(0).unwrap().chained, "small");
    // Each copy names the 256 earliest, as a lookup does.
    let copies = set((1..1000_u64).flat_map(|n| (0..n.min(256)).map(move |m| (m, n))));
    let summary = copies.summary_of(999).unwrap();
    assert_eq!((summary.first, summary.size, summary.density(), summary.chained()), (0, 1000, 1.0, false));
}

#[test]
fn a_chain_of_a_hundred_thousand_needs_no_deep_stack() {
    let group = set((0..100_000).map(|n| (n, n + 1))).group_of(7).unwrap();
    assert_eq!((group.members.len(), group.bridges.len()), (100_001, 100_000));
}

#[test]
fn lists_go_on_from_a_first_member() {
    let set = set([(5, 6), (1, 9), (3, 4)]);
    assert_eq!(set.summaries(3).map(|summary| summary.first).collect::<Vec<_>>(), [3, 5]);
    assert!(set.memory_usage() > 0);
}
