use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

type PairSet = BTreeSet<(u64, u64)>;
type MemberSet = BTreeSet<u64>;

/// Computes the groups by brute force, from their definition.
#[derive(Default)]
struct GroupModel {
    found: PairSet,
    decided: BTreeMap<(u64, u64), Decision>,
}

impl GroupModel {
    fn pairs(&self) -> PairSet {
        let confirmed = self.decided.iter().filter(|(_, decision)| **decision == Decision::Same).map(|(pair, _)| *pair);
        let found = self.found.iter().filter(|pair| !self.decided.contains_key(pair)).copied();
        found.chain(confirmed).collect()
    }

    fn groups(&self) -> Vec<Group> {
        let all = self.pairs();
        components(&all).iter().flat_map(|members| self.pieces(members, &all)).collect()
    }

    /// Returns the groups of a component, by the definition in `pieces`.
    fn pieces(&self, members: &MemberSet, all: &PairSet) -> Vec<Group> {
        let pairs = inside(members, all);
        let bridges: PairSet = pairs.iter().copied().filter(|pair| is_bridge(&pairs, pair)).collect();
        let cores = components(&(&pairs - &bridges));
        let mut cut = PairSet::new();
        if members.len() >= 10 && cores.len() > 1 {
            let far = distances(members, &pairs, &bridges);
            let unconfirmed = bridges.iter().filter(|pair| self.decided.get(pair) != Some(&Decision::Same));
            let cut_pairs = unconfirmed.filter(|pair| nearest(&cores, &far, pair.0) != nearest(&cores, &far, pair.1));
            cut = cut_pairs.copied().collect();
        }
        let pieces = components(&(&pairs - &cut));
        pieces.into_iter().map(|piece| self.group(piece, &pairs, &bridges)).collect()
    }

    fn group(&self, members: MemberSet, pairs: &PairSet, bridges: &PairSet) -> Group {
        let own = inside(&members, pairs);
        let different = self.decided.iter().filter(|(_, decision)| **decision == Decision::Different);
        let rejected = inside(&members, &different.map(|(pair, _)| *pair).collect());
        let density = density(members.len(), own.len());
        Group {
            pairs: own.len(),
            density,
            bridges: inside(&members, bridges).into_iter().collect(),
            cut: pairs.iter().copied().filter(|(a, b)| members.contains(a) != members.contains(b)).collect(),
            contested: !rejected.is_empty(),
            rejected: rejected.into_iter().collect(),
            chained: is_chained(members.len(), density),
            members: members.into_iter().collect(),
        }
    }
}

/// True if the ends of the pair are in different components without it.
fn is_bridge(pairs: &PairSet, pair: &(u64, u64)) -> bool {
    let others = pairs.iter().copied().filter(|other| other != pair).collect();
    !components(&others).iter().any(|members| within(members, pair))
}

/// Returns the position of the core that is the fewest bridges away from a member.
fn nearest(cores: &[MemberSet], far: &BTreeMap<(u64, u64), usize>, member: u64) -> Option<usize> {
    (0..cores.len()).min_by_key(|&at| (cores[at].iter().map(|&other| far[&(other, member)]).min(), at))
}

fn within(members: &MemberSet, pair: &(u64, u64)) -> bool {
    members.contains(&pair.0) && members.contains(&pair.1)
}

fn inside(members: &MemberSet, pairs: &PairSet) -> PairSet {
    pairs.iter().copied().filter(|pair| within(members, pair)).collect()
}

/// Returns the smallest number of bridges between any two members (Floyd and Warshall).
fn distances(members: &MemberSet, pairs: &PairSet, bridges: &PairSet) -> BTreeMap<(u64, u64), usize> {
    let mut far = BTreeMap::new();
    for &a in members {
        for &b in members {
            let pair = (a.min(b), a.max(b));
            let direct = if pairs.contains(&pair) { usize::from(bridges.contains(&pair)) } else { 1000 };
            far.insert((a, b), if a == b { 0 } else { direct });
        }
    }
    for via in members {
        for a in members {
            for b in members {
                let round = far[&(*a, *via)] + far[&(*via, *b)];
                far.entry((*a, *b)).and_modify(|far| *far = round.min(*far));
            }
        }
    }
    far
}

/// Returns the connected components, sorted by first member.
fn components(pairs: &PairSet) -> Vec<MemberSet> {
    let mut groups: Vec<MemberSet> = Vec::new();
    for &(a, b) in pairs {
        let (touched, others): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.contains(&a) || group.contains(&b));
        groups = others;
        groups.push(touched.into_iter().flatten().chain([a, b]).collect());
    }
    groups.sort_by_key(|group| group.first().copied());
    groups
}

#[derive(Clone, Copy, Debug)]
enum GroupStep {
    Add(u64, u64),
    Leave(u64),
    Confirm(u64, u64),
    Reject(u64, u64),
    Withdraw(u64, u64),
}

fn pair() -> impl Strategy<Value = (u64, u64)> {
    (0..14_u64, 0..14_u64)
}

fn steps() -> impl Strategy<Value = Vec<GroupStep>> {
    let step = prop_oneof![
        8 => pair().prop_map(|(a, b)| GroupStep::Add(a, b)),
        2 => (0..14_u64).prop_map(GroupStep::Leave),
        1 => pair().prop_map(|(a, b)| GroupStep::Confirm(a, b)),
        2 => pair().prop_map(|(a, b)| GroupStep::Reject(a, b)),
        1 => pair().prop_map(|(a, b)| GroupStep::Withdraw(a, b)),
    ];
    prop::collection::vec(step, 0..60)
}

fn apply(set: &mut GroupSet, model: &mut GroupModel, step: GroupStep) {
    match step {
        GroupStep::Add(a, b) => {
            set.add_pair(a, b);
            model.found.extend(ordered(a, b));
        }
        GroupStep::Leave(member) => {
            set.remove_member(member);
            model.found.retain(|pair| pair.0 != member && pair.1 != member);
            model.decided.retain(|pair, _| pair.0 != member && pair.1 != member);
        }
        GroupStep::Confirm(a, b) => {
            set.confirm(a, b);
            model.decided.extend(ordered(a, b).map(|pair| (pair, Decision::Same)));
        }
        GroupStep::Reject(a, b) => {
            set.reject(a, b);
            model.decided.extend(ordered(a, b).map(|pair| (pair, Decision::Different)));
        }
        GroupStep::Withdraw(a, b) => {
            set.withdraw(a, b);
            ordered(a, b).map(|pair| model.decided.remove(&pair));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn groups_equal_those_of_brute_force_after_every_step(steps in steps()) {
        let mut set = GroupSet::new();
        let mut model = GroupModel::default();
        for step in steps {
            apply(&mut set, &mut model, step);
            let expected = model.groups();
            prop_assert_eq!(set.groups().collect::<Vec<_>>(), &expected[..], "after {:?}", step);
            let pairs = model.pairs();
            for group in &expected {
                for &member in &group.members {
                    prop_assert_eq!(set.group_of(member), Some(group.clone()));
                    let mut others: Vec<_> = set.pairs_of(member).collect();
                    others.sort_unstable();
                    let brute = pairs.iter().filter(|pair| pair.0 == member || pair.1 == member);
                    let brute = brute.map(|pair| pair.0 + pair.1 - member);
                    prop_assert_eq!(others, brute.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>());
                }
            }
            prop_assert_eq!(set.places.len(), expected.iter().map(|group| group.members.len()).sum::<usize>());
        }
    }
}

/// Generates a tree of crowds of one to five members, which single links join. Members have numbers in random order. Returns all pairs in one
/// order, all pairs in another order, and the confirmed links.
fn crowds() -> impl Strategy<Value = [Vec<(u64, u64)>; 3]> {
    let crowd = (1..6_usize, any::<[prop::sample::Index; 3]>(), prop::bool::weighted(0.15));
    let numbers = Just((0..40).collect::<Vec<u64>>()).prop_shuffle();
    let graphs = (prop::collection::vec(crowd, 2..8), numbers).prop_map(|(crowds, mut numbers)| {
        let mut pairs = Vec::new();
        let mut confirmed = Vec::new();
        let mut made: Vec<Vec<u64>> = Vec::new();
        for (size, [parent, here, there], is_confirmed) in crowds {
            let members = numbers.split_off(numbers.len() - size);
            pairs.extend(
                (0..size).flat_map(|at| (0..at).map(move |before| (at, before))).map(|(a, b)| (members[a], members[b])),
            );
            if !made.is_empty() {
                let before: &Vec<u64> = parent.get(&made);
                let link = (*there.get(before), *here.get(&members));
                pairs.push(link);
                confirmed.extend(Some(link).filter(|_| is_confirmed));
            }
            made.push(members);
        }
        (pairs, confirmed)
    });
    graphs.prop_flat_map(|(pairs, confirmed)| {
        (Just(pairs.clone()), Just(pairs).prop_shuffle(), Just(confirmed))
            .prop_map(|(one, other, confirmed)| [one, other, confirmed])
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_order_of_pairs_does_not_change_the_groups([pairs, other_order, confirmed] in crowds()) {
        let mut one = GroupSet::new();
        let mut model = GroupModel::default();
        pairs.iter().for_each(|&(a, b)| apply(&mut one, &mut model, GroupStep::Add(a, b)));
        confirmed.iter().for_each(|&(a, b)| apply(&mut one, &mut model, GroupStep::Confirm(a, b)));
        let groups: Vec<Group> = one.groups().collect();
        prop_assert_eq!(&groups, &model.groups());

        let mut other = GroupSet::new();
        confirmed.iter().for_each(|&(a, b)| other.confirm(b, a));
        other_order.iter().for_each(|&(a, b)| other.add_pair(b, a));
        prop_assert_eq!(&groups, &other.groups().collect::<Vec<_>>());

        for group in &groups {
            for &member in &group.members {
                prop_assert_eq!(one.group_of(member), Some(group.clone()));
            }
        }
    }

    #[test]
    fn confirming_a_cut_pair_joins_two_groups_and_withdrawing_separates_them([pairs, _, confirmed] in crowds()) {
        let mut set = set(pairs);
        confirmed.iter().for_each(|&(a, b)| set.confirm(a, b));
        let before: Vec<Group> = set.groups().collect();
        let cut: PairSet = before.iter().flat_map(|group| group.cut.iter().copied()).collect();
        for &(a, b) in &cut {
            set.confirm(a, b);
            let joined = set.group_of(a).unwrap();
            prop_assert!(joined.members.contains(&b) && joined.bridges.contains(&(a, b)));
            prop_assert_eq!(set.groups().count(), before.len() - 1, "the other groups stay");
            set.withdraw(a, b);
            prop_assert_eq!(&set.groups().collect::<Vec<_>>(), &before);
        }
        cut.iter().for_each(|&(a, b)| set.confirm(a, b));
        prop_assert!(set.groups().all(|group| group.cut.is_empty()));
        prop_assert_eq!(set.groups().count(), before.len() - cut.len());
    }
}

/// Returns all pairs of `members`.
fn crowd(members: std::ops::Range<u64>) -> impl Iterator<Item = (u64, u64)> + Clone {
    members.clone().flat_map(move |a| (a + 1..members.end).map(move |b| (a, b)))
}

fn members(set: &GroupSet) -> Vec<Vec<u64>> {
    set.groups().map(|group| group.members).collect()
}

#[test]
fn a_single_link_does_not_join_crowds_of_ten_or_more_members() {
    // Two crowds, and a chain of three between them. The record in the middle is equally far from both crowds.
    let two = crowd(10..13).chain(crowd(20..24));
    let small = set(two.clone().chain([(12, 1), (1, 20)]));
    assert_eq!((small.groups().count(), small.group_of(1).unwrap().cut), (1, vec![]), "eight");
    let mut set = set(two.chain([(12, 3), (3, 2), (2, 1), (1, 20)]));
    assert_eq!(members(&set), [vec![1, 20, 21, 22, 23], vec![2, 3, 10, 11, 12]]);
    let group = set.group_of(2).unwrap();
    assert_eq!((&group.bridges[..], &group.cut[..]), (&[(2, 3), (3, 12)][..], &[(1, 2)][..]));
    assert_eq!((group.pairs, group.density, group.chained), (5, 0.5, false), "the numbers describe the piece");
    set.reject(20, 11);
    assert!(set.groups().all(|group| !group.contested), "the rejected records are in different groups");
    set.add_pair(21, 11);
    assert_eq!(set.groups().count(), 1, "a second path connects the two crowds");
    assert!(set.group_of(1).unwrap().contested);
}

#[test]
fn pairs_of_a_member_with_copies_are_no_single_links() {
    assert_eq!(chain_groups(|_| 1), [[1, 2, 3, 4, 5]]);
    assert_eq!(chain_groups(|member| if member == 1 || member == 5 { 4 } else { 1 }), [vec![1, 2, 3], vec![4, 5]]);
    assert_eq!(chain_groups(|_| 2), [[1, 2, 3, 4, 5]], "no link is single");
    assert_eq!(
        chain_groups(|member| if member == 1 || member == 5 { 3 } else { 1 }),
        [[1, 2, 3, 4, 5]],
        "nine records"
    );
}

/// Returns the members of the groups of a chain from 1 to 5, whose members have copies.
fn chain_groups(copies: fn(u64) -> usize) -> Vec<Vec<u64>> {
    let chain = set([(1, 2), (2, 3), (3, 4), (4, 5)]);
    chain.groups_of_copies(copies).map(|group| group.members).collect()
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
fn a_decision_overrides_later_matches_and_can_be_changed() {
    let mut set = GroupSet::new();
    set.reject(1, 2);
    set.add_pair(1, 2);
    assert_eq!((set.groups().count(), set.decision(2, 1)), (0, Some(Decision::Different)));
    set.confirm(2, 1);
    assert_eq!(set.groups().count(), 1);
    set.reject(1, 2);
    set.withdraw(1, 2);
    assert_eq!((set.groups().count(), set.decision(1, 2)), (1, None), "the records match");
    set.confirm(3, 4);
    set.withdraw(3, 4);
    assert_eq!(set.groups().count(), 1, "these do not");
}

#[test]
fn a_long_thin_group_is_chained_and_copies_of_a_letter_are_not() {
    let chain = set((0..11).map(|n| (n, n + 1)));
    let group = chain.group_of(0).unwrap();
    assert!(group.chained && group.bridges.len() == 11 && group.members.len() == 12);
    assert!(!set((0..8).map(|n| (n, n + 1))).group_of(0).unwrap().chained, "small");
    // Each copy forms pairs with the 256 earliest copies, like a lookup.
    let copies = set((1..1000_u64).flat_map(|n| (0..n.min(256)).map(move |m| (m, n))));
    let group = copies.group_of(999).unwrap();
    assert_eq!((group.members.len(), group.density, group.chained), (1000, 1.0, false));
}

#[test]
fn a_chain_of_a_hundred_thousand_members_does_not_overflow_the_stack() {
    let group = set((0..100_000).map(|n| (n, n + 1))).group_of(7).unwrap();
    assert_eq!((group.members.len(), group.bridges.len()), (100_001, 100_000));
}

/// Returns copies of a letter, each in a pair with the `earliest` first copies.
fn copies(first: u64, count: u64, earliest: u64) -> impl Iterator<Item = (u64, u64)> {
    (1..count).flat_map(move |n| (0..n.min(earliest)).map(move |m| (first + m, first + n)))
}

proptest! {
    #[test]
    fn crowds_with_many_pairs_are_divided_as_the_definition_says(
        crowds in prop::collection::vec((3u64..30, 1u64..20), 1..4),
        more in prop::collection::vec((0u64..90, 0u64..90), 0..6),
    ) {
        let mut set = GroupSet::new();
        let mut model = GroupModel::default();
        let crowds = (0..).step_by(30).zip(&crowds).flat_map(|(first, &(count, earliest))| copies(first, count, earliest));
        for (a, b) in crowds.chain(more).filter(|(a, b)| a != b) {
            set.add_pair(a, b);
            model.found.insert((a.min(b), a.max(b)));
        }
        prop_assert_eq!(set.groups().collect::<Vec<_>>(), model.groups());
    }

    #[test]
    fn the_groups_of_a_batch_are_those_of_its_pairs(
        lists in prop::collection::vec((1u64..5, 1u64..6), 0..4),
        pairs in prop::collection::btree_set((0u64..40, 0u64..40), 0..50),
    ) {
        let mut set = GroupSet::new();
        let mut batch = BatchGroups::new();
        // Each list has ten members.
        for (first, &(earlier, copies)) in (0..).step_by(10).zip(&lists) {
            let ids: Vec<u64> = (first..first + earlier + copies).collect();
            let (earlier, copies) = ids.split_at(earlier as usize);
            batch.add_copies(earlier, copies);
            earlier.iter().for_each(|&a| copies.iter().for_each(|&b| set.add_pair(a, b)));
        }
        for (a, b) in pairs {
            if a < b && !set.pairs_of(a).any(|other| other == b) {
                batch.add_pair(a, b);
                set.add_pair(a, b);
            }
        }
        prop_assert_eq!(batch.groups().collect::<Vec<_>>(), set.groups().collect::<Vec<_>>());
    }
}

#[test]
fn twenty_thousand_copies_with_a_single_link_are_two_groups() {
    let all = copies(0, 20_000, 256).chain(copies(200_000, 20, 256)).chain([(19_999, 200_007)]);
    let set = set(all);
    let sizes: Vec<usize> = set.groups().map(|group| group.members.len()).collect();
    assert_eq!(sizes, [20_000, 20]);
    assert_eq!(set.components().collect::<Vec<_>>(), [(0, 20_020)]);
}
