//! Which facts of two texts agree and which contradict each other.

use super::similar_names::{self, Likeness};
use super::{Fact, FactGroup, FactKind};

/// Most facts of a text that are compared: a text with more of them is a list.
const MAX_FACTS: usize = 128;

/// Two facts, one of each text, as indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FactPair {
    /// Index of the fact of the first text.
    pub a: u32,
    /// Index of the fact of the second text.
    pub b: u32,
    /// Of a contradiction: true if it tells two objects apart by itself - other plates, other lines, other buildings of one estate,
    /// other house numbers on one road, other ordinals of one name.
    pub strong: bool,
}

/// What the facts of two texts say about each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactComparison {
    /// Facts with one value: objects, references and contacts. Each value once.
    pub agreeing: Vec<FactPair>,
    /// Objects with different values, of a kind of which the texts have no value in common. At most one pair for each kind.
    pub contradicting: Vec<FactPair>,
    /// Objects of the first and of the second text without a counterpart, of a kind of which other values agree.
    pub substituted: Vec<FactPair>,
    /// Objects of the first text that the second does not name, by index. Each value once.
    pub only_a: Vec<u32>,
    /// ... and the reverse.
    pub only_b: Vec<u32>,
}

/// Levels of an address, from the widest. Facts of one level are alternatives of each other.
const LEVELS: [&[FactKind]; 7] = [
    &[FactKind::District],
    &[FactKind::Town],
    &[FactKind::Village, FactKind::Road, FactKind::Estate],
    &[FactKind::HouseNumber, FactKind::Phase, FactKind::VillageGroup],
    &[FactKind::Building],
    &[FactKind::Unit],
    &[FactKind::Room],
];

/// Objects that are no part of an address.
const OTHERS: [FactKind; 6] = [
    FactKind::PublicPlace,
    FactKind::School,
    FactKind::Organisation,
    FactKind::Product,
    FactKind::Plate,
    FactKind::TransitLine,
];

/// True if the canonical form is a name, which is compared leniently.
fn is_name(kind: FactKind) -> bool {
    use FactKind::{District, Estate, Organisation, Product, PublicPlace, Road, School, Town, Village};
    matches!(kind, District | Town | Village | Road | Estate | PublicPlace | School | Organisation | Product)
}

/// True if other values of the kind tell objects apart by themselves.
fn is_telling(kind: FactKind) -> bool {
    use FactKind::{Building, HouseNumber, Phase, Plate, TransitLine, VillageGroup};
    matches!(kind, Plate | TransitLine | Building | HouseNumber | Phase | VillageGroup)
}

/// Compares the facts of two texts. O(facts of a × facts of b), at most 128 of each.
///
/// Numbers compare by value, names leniently. The address is compared level by level, from the widest: below the first level where
/// both texts have a value and the values differ, nothing contradicts any more.
pub fn compare(a: &[Fact], b: &[Fact]) -> FactComparison {
    let (a, b) = (Side::new(a), Side::new(b));
    let mut comparison = FactComparison::default();
    let matched = a.matches(&b, &mut comparison.agreeing);
    comparison.only_a = a.unmatched(&matched, |pair| pair.a);
    comparison.only_b = b.unmatched(&matched, |pair| pair.b);
    let mut above = true;
    for level in LEVELS {
        for &kind in level {
            above &= !pair_up(&a, &b, kind, above, &mut comparison);
        }
    }
    for kind in OTHERS {
        pair_up(&a, &b, kind, true, &mut comparison);
    }
    comparison
}

/// Pairs the objects of a kind that have no counterpart. Returns true if the values of the kind contradict each other.
fn pair_up(a: &Side<'_>, b: &Side<'_>, kind: FactKind, above: bool, comparison: &mut FactComparison) -> bool {
    let of_kind = |side: &Side<'_>, only: &[u32]| -> Vec<u32> {
        only.iter().copied().filter(|&at| side.facts[at as usize].kind == kind).collect()
    };
    let only = [of_kind(a, &comparison.only_a), of_kind(b, &comparison.only_b)];
    if only.iter().any(Vec::is_empty) {
        return false;
    }
    let agrees = comparison
        .agreeing
        .iter()
        .any(|pair| a.facts[pair.a as usize].kind == kind && b.facts[pair.b as usize].kind == kind);
    // Siblings stand for each other first.
    let likeness = |x: u32, y: u32| likeness(&a.facts[x as usize], &b.facts[y as usize]);
    let sibling =
        only[0].iter().find_map(|&x| only[1].iter().find(|&&y| likeness(x, y) == Likeness::Sibling).map(|&y| (x, y)));
    let (x, y) = sibling.unwrap_or((only[0][0], only[1][0]));
    let strong = sibling.is_some() || is_telling(kind);
    let pair = FactPair { a: x, b: y, strong };
    if agrees {
        comparison.substituted.push(pair);
    } else if above {
        comparison.contradicting.push(pair);
    }
    !agrees
}

/// What two facts are to each other.
fn likeness(a: &Fact, b: &Fact) -> Likeness {
    if a.canonical.is_empty() || b.canonical.is_empty() {
        return Likeness::Different;
    }
    if is_name(a.kind) && is_name(b.kind) {
        return similar_names::compare(a.kind, &a.canonical, b.kind, &b.canonical);
    }
    if a.kind == b.kind && a.canonical == b.canonical { Likeness::Same } else { Likeness::Different }
}

/// The facts of one text that are compared.
struct Side<'f> {
    facts: &'f [Fact],
    /// Indexes of the facts with a value of their own, each value once.
    distinct: Vec<u32>,
}

impl<'f> Side<'f> {
    fn new(facts: &'f [Fact]) -> Self {
        let mut distinct: Vec<u32> = Vec::new();
        for (at, fact) in (0_u32..).zip(facts) {
            let counts = fact.kind.group() != FactGroup::Noise && !fact.canonical.is_empty();
            let known = |&other: &u32| {
                let other = &facts[other as usize];
                other.kind == fact.kind && other.canonical == fact.canonical
            };
            if counts && distinct.len() < MAX_FACTS && !distinct.iter().any(known) {
                distinct.push(at);
            }
        }
        Self { facts, distinct }
    }

    /// Adds the pairs that agree, each value of `self` once. Returns all pairs, also of values that agree with several.
    fn matches(&self, other: &Self, agreeing: &mut Vec<FactPair>) -> Vec<FactPair> {
        let mut all = Vec::new();
        for &a in &self.distinct {
            let equal = |b: &u32| likeness(&self.facts[a as usize], &other.facts[*b as usize]) == Likeness::Same;
            let mut first = true;
            for &b in other.distinct.iter().filter(|b| equal(b)) {
                let pair = FactPair { a, b, strong: false };
                all.push(pair);
                if first && !agreeing.iter().any(|other: &FactPair| other.b == b) {
                    agreeing.push(pair);
                    first = false;
                }
            }
        }
        all
    }

    /// The objects that are in none of the pairs.
    fn unmatched(&self, pairs: &[FactPair], index: impl Fn(&FactPair) -> u32) -> Vec<u32> {
        let object = |at: &u32| self.facts[*at as usize].kind.group() == FactGroup::Object;
        let alone = |at: &u32| !pairs.iter().any(|pair| index(pair) == *at);
        self.distinct.iter().copied().filter(object).filter(alone).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FactReader, PlaceList};
    use super::*;

    fn compared(a: &str, b: &str) -> String {
        let reader = FactReader::new(&PlaceList::default());
        let (facts_a, facts_b) = (reader.read(a, &[]), reader.read(b, &[]));
        let found = compare(&facts_a, &facts_b);
        let shown = |pairs: &[FactPair], sign: &str| {
            let pair = |pair: &FactPair| {
                let (a, b) = (&facts_a[pair.a as usize], &facts_b[pair.b as usize]);
                format!("{:?} {}{sign}{}{}", a.kind, a.canonical, b.canonical, if pair.strong { "!" } else { "" })
            };
            pairs.iter().map(pair).collect::<Vec<_>>()
        };
        let mut all = shown(&found.agreeing, "=");
        all.extend(shown(&found.contradicting, "/"));
        all.extend(shown(&found.substituted, "~"));
        all.join("; ")
    }

    #[test]
    fn numbers_agree_by_value_and_contradict_otherwise() {
        assert_eq!(compared("三号楼漏水", "3号楼漏水"), "Building 3=3");
        assert_eq!(compared("5号楼漏水", "58号楼漏水"), "Building 5/58!");
        assert_eq!(compared("86路晚点", "92路晚点"), "TransitLine 86路/92路!");
        assert_eq!(compared("86路和10路", "92路和10路"), "TransitLine 10路=10路; TransitLine 86路~92路!");
        assert_eq!(compared("湘a12345", "湘a12346"), "Plate 湘a12345/湘a12346!");
        assert_eq!(compared("红枫村3组", "红枫村5组"), "VillageGroup 3/5!");
        assert_eq!(compared("5号楼漏水", "漏水"), "");
    }

    #[test]
    fn an_address_contradicts_at_its_first_different_level_only() {
        assert_eq!(compared("5号楼2单元301室", "8号楼3单元402室"), "Building 5/8!");
        assert_eq!(compared("5号楼2单元301室", "5号楼3单元402室"), "Building 5=5; Unit 2/3");
        assert_eq!(compared("5号楼301室", "5号楼2单元402室"), "Building 5=5; Room 301/402");
    }

    #[test]
    fn contacts_and_references_agree_and_never_contradict() {
        assert_eq!(compared("电话13800001234", "电话13800001234"), "Phone 13800001234=13800001234");
        assert_eq!(compared("电话13800001234", "电话13900001234"), "");
        assert_eq!(compared("工单号20180101121976", "工单号20180101121977"), "");
        assert_eq!(compared("反映人:匿名", "反映人:匿名"), "");
    }
}
