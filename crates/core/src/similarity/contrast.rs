//! Contrast: what two texts both name, and what one names where the other names something else.
//!
//! Names are compared leniently: people abbreviate, mistype, and leave districts out. A name counts as shared when it, or what
//! stands before its ending, occurs anywhere in the other text, or when the other text has one like it. Only where *each* text
//! names something that the other does not is there a difference: the longer of two letters may always say more. Names weigh
//! what their document frequency says, so that the city that everybody lives in is neither evidence for nor against.

use std::collections::HashSet;

use crate::schemes::frequencies::{Frequencies, name_code};
use crate::text::objects::NamedObject;
use crate::text::shingles::counts;
use crate::verdict::{Difference, ObjectKind};

/// Most that names count for, in rare names, on either side.
const MOST_NAMES: f64 = 2.0;
/// Most that names and numbers together agree by.
pub(super) const MOST_AGREEING: f64 = 2.5;
/// A number that both texts hold: strong evidence.
const SAME_NUMBER: f64 = 1.0;
/// Numbers of one kind, none of them the same.
const OTHER_NUMBER: f64 = 1.5;
/// Districts, none of them the same.
const OTHER_DISTRICT: f64 = 1.0;
/// Most differences that are named.
const MAX_DIFFERENCES: usize = 8;
/// Names at least so long may differ by one character.
const TYPO_CHARS: usize = 4;

/// Names that weigh no more than this tell nothing: everybody names them.
pub(super) const TELLING_AT_ALL: f64 = 0.05;

/// Names that weigh less than this are not shown as differences: everybody names them.
const TELLING: f64 = 0.2;

/// Whether it names something in particular, not where in the country it is.
fn is_particular(object: &&NamedObject) -> bool {
    object.kind != ObjectKind::District
}

/// What stands before the ending of a name names the thing by itself if it has so many characters: two are often a common word.
const CORE_CHARS: usize = 3;

/// An abbreviation of at least so many characters may end otherwise than the name.
const ABBREVIATED_CHARS: usize = 3;

/// Kinds whose names are numbers: the same or not.
const NUMBERS: [ObjectKind; 3] = [ObjectKind::Plate, ObjectKind::Number, ObjectKind::Line];

/// What two texts name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contrast {
    /// What both name, in rare names.
    pub agreeing: f64,
    /// Whether both name one road, place or water, however common it is.
    pub same_place: bool,
    /// What each names instead of the other's, in rare names.
    pub differing: f64,
    /// Whether each names something that the other does not, word for word.
    pub other_names: bool,
    /// The differences, most telling first.
    pub differs: Vec<Difference>,
}

/// A text and the things it names.
#[derive(Clone, Debug)]
pub struct Named {
    objects: Vec<NamedObject>,
    /// Letters and digits of the text, nothing else.
    compact: String,
}

impl Named {
    /// A text in normal form with what it names.
    pub fn new(text: &str, objects: Vec<NamedObject>) -> Self {
        let mut compact = String::with_capacity(text.len());
        compact.extend(text.chars().filter(|&c| counts(c)));
        Self { objects, compact }
    }

    /// The things named.
    pub fn objects(&self) -> &[NamedObject] {
        &self.objects
    }

    /// The names as a set of bits, never none: where each of two sets has a bit that the other has not, each text names something
    /// that the other does not ([`Contrast::other_names`]).
    pub fn bits(&self, frequencies: Option<&Frequencies>) -> u64 {
        let names = telling(&self.objects, weight(frequencies)).into_iter();
        names.fold(1, |bits, name| bits | 2 << (name_code(name) % 63))
    }
}

/// A text as far as it says whether something is named in it.
pub trait Naming {
    /// The things that it names.
    fn objects(&self) -> &[NamedObject];

    /// Whether its letters and digits hold these. May be `true` where that is not known.
    fn holds(&self, name: &str) -> bool;

    /// Whether it names a thing, under this name, what stands before its ending, or one like it.
    fn names(&self, object: &NamedObject) -> bool {
        let core = object.core();
        self.holds(&object.name)
            || (core.chars().nth(CORE_CHARS - 1).is_some() && self.holds(core))
            || self.objects().iter().any(|other| is_alike(object, other))
    }
}

impl Naming for Named {
    fn objects(&self) -> &[NamedObject] {
        &self.objects
    }

    fn holds(&self, name: &str) -> bool {
        self.compact.contains(name)
    }
}

/// Whether two names may well be of one thing.
fn is_alike(a: &NamedObject, b: &NamedObject) -> bool {
    let ([core_a, core_b], [chars_a, chars_b]) =
        ([a.core(), b.core()], [&a.name, &b.name].map(|name| name.chars().count()));
    let long = |core: &str| core.chars().nth(1).is_some();
    if long(core_a) && long(core_b) && (core_a.contains(core_b) || core_b.contains(core_a)) {
        return true;
    }
    if a.kind != b.kind || core_a.is_empty() || core_b.is_empty() {
        return false;
    }
    let ends = |name: &str| (name.chars().next(), name.chars().last());
    let ((first_a, last_a), (first_b, last_b)) = (ends(&a.name), ends(&b.name));
    let abbreviated = (last_a == last_b || (first_a == first_b && chars_a.min(chars_b) >= ABBREVIATED_CHARS))
        && (is_subsequence(&a.name, &b.name) || is_subsequence(&b.name, &a.name));
    let mistyped = chars_a.min(chars_b) >= TYPO_CHARS && is_one_edit(&a.name, &b.name);
    let swapped = a.kind == ObjectKind::Organisation && chars_a == chars_b && chars_a >= TYPO_CHARS && {
        let sorted = |name: &str| {
            let mut chars: Vec<char> = name.chars().collect();
            chars.sort_unstable();
            chars
        };
        sorted(&a.name) == sorted(&b.name)
    };
    abbreviated || mistyped || swapped
}

/// Whether the characters of `short` occur in `long` in their order.
fn is_subsequence(short: &str, long: &str) -> bool {
    let mut long = long.chars();
    short.chars().all(|c| long.any(|other| other == c))
}

/// Whether one character replaced, added or left out makes one of the other.
fn is_one_edit(a: &str, b: &str) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let front = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let back = a[front..].iter().rev().zip(b[front..].iter().rev()).take_while(|(x, y)| x == y).count();
    a.len().max(b.len()) - front - back <= 1
}

/// What names weigh.
fn weight(frequencies: Option<&Frequencies>) -> impl Fn(&&NamedObject) -> f64 + Copy {
    move |object| f64::from(frequencies.map_or(1.0, |frequencies| frequencies.weight(name_code(&object.name))))
}

fn is_name(object: &&NamedObject) -> bool {
    !NUMBERS.contains(&object.kind) && object.kind != ObjectKind::Amount
}

/// Compares what two texts name. O(names × (names + length)).
///
/// Where a side's [`Naming::holds`] says `true` of what is not known, they agree no less and differ no more than they do.
pub fn contrast(a: &impl Naming, b: &impl Naming, frequencies: Option<&Frequencies>) -> Contrast {
    let weight = weight(frequencies);
    let mut found = Contrast::default();
    let (names_a, names_b) = (telling(a.objects(), weight), telling(b.objects(), weight));
    found.other_names = !names_a.is_subset(&names_b) && !names_b.is_subset(&names_a);
    let ((shared_a, only_a), (shared_b, only_b)) = (split(a, b), split(b, a));
    let sum = |objects: &[&NamedObject]| {
        objects.iter().copied().filter(is_particular).map(|object| weight(&object)).sum::<f64>()
    };
    let is_place =
        |object: &NamedObject| matches!(object.kind, ObjectKind::Road | ObjectKind::Place | ObjectKind::Water);
    found.same_place = shared_a.iter().chain(&shared_b).copied().any(is_place);
    found.agreeing = sum(&shared_a).max(sum(&shared_b)).min(MOST_NAMES);
    found.differing = sum(&only_a).min(sum(&only_b)).min(MOST_NAMES);
    if found.differing > 0.0 {
        pair_up(&only_a, &only_b, is_particular, weight, &mut found.differs);
    }
    let district = |object: &&NamedObject| !is_particular(object);
    if only_a.iter().any(district) && only_b.iter().any(district) {
        found.differing += OTHER_DISTRICT;
        pair_up(&only_a, &only_b, district, weight, &mut found.differs);
    }
    for kind in NUMBERS {
        compare_numbers(kind, a.objects(), b.objects(), &mut found);
    }
    found.agreeing = found.agreeing.min(MOST_AGREEING);
    found.differs.truncate(MAX_DIFFERENCES);
    found
}

/// The names of a text that another names too, and the others.
fn split<'a>(of: &'a impl Naming, other: &impl Naming) -> (Vec<&'a NamedObject>, Vec<&'a NamedObject>) {
    of.objects().iter().filter(is_name).partition(|object| other.names(object))
}

/// The names that weigh more than [`TELLING_AT_ALL`], where `weight` says what a name weighs.
fn telling(objects: &[NamedObject], weight: impl Fn(&&NamedObject) -> f64) -> HashSet<&str> {
    let telling = |object: &&NamedObject| is_name(object) && is_particular(object) && weight(object) > TELLING_AT_ALL;
    objects.iter().filter(telling).map(|object| object.name.as_str()).collect()
}

/// Names of both lists side by side: of one kind as far as possible, those that weigh most first.
fn pair_up(
    only_a: &[&NamedObject],
    only_b: &[&NamedObject],
    chosen: impl Fn(&&NamedObject) -> bool,
    weight: impl Fn(&&NamedObject) -> f64,
    differs: &mut Vec<Difference>,
) {
    let by_weight = |objects: &[&NamedObject]| {
        let telling = |object: &&NamedObject| chosen(object) && (weight(object) >= TELLING || !is_particular(object));
        let mut sorted: Vec<NamedObject> = objects.iter().copied().filter(telling).cloned().collect();
        sorted.sort_by(|x, y| weight(&y).total_cmp(&weight(&x)));
        sorted
    };
    let (sorted_a, mut sorted_b) = (by_weight(only_a), by_weight(only_b));
    for a in sorted_a {
        if sorted_b.is_empty() {
            return;
        }
        let b = sorted_b.remove(sorted_b.iter().position(|b| b.kind == a.kind).unwrap_or(0));
        differs.push(Difference { kind: a.kind, a: a.name, b: b.name });
    }
}

fn compare_numbers(kind: ObjectKind, a: &[NamedObject], b: &[NamedObject], found: &mut Contrast) {
    let is_one = |object: &&NamedObject| object.kind == kind;
    let (Some(first_a), Some(first_b)) = (a.iter().find(is_one), b.iter().find(is_one)) else { return };
    if b.iter().filter(is_one).any(|number| a.iter().filter(is_one).any(|other| other.name == number.name)) {
        found.agreeing += SAME_NUMBER;
    } else {
        found.differing += OTHER_NUMBER;
        found.differs.insert(0, Difference { kind, a: first_a.name.clone(), b: first_b.name.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::TextSettings;
    use crate::text::words::Words;

    fn between(a: &str, b: &str) -> Contrast {
        let words = Words::new(&TextSettings::default());
        let named = |text: &str| Named::new(text, words.objects(text));
        contrast(&named(a), &named(b), None)
    }

    #[track_caller]
    fn differ(a: &str, b: &str, kind: ObjectKind, names: (&str, &str)) {
        let found = between(a, b);
        let expected = Difference { kind, a: names.0.into(), b: names.1.into() };
        assert!(found.differing >= 1.0 && found.differs.contains(&expected), "{a} {b} {found:?}");
    }

    #[track_caller]
    fn agree(a: &str, b: &str) {
        let found = between(a, b);
        assert!(found.agreeing >= 1.0 && found.differing == 0.0 && found.differs.is_empty(), "{a} {b} {found:?}");
    }

    #[test]
    fn another_place_company_plate_or_order_is_a_difference() {
        differ("反映雁坪路路灯不亮", "反映松岗路路灯不亮", ObjectKind::Road, ("雁坪路", "松岗路"));
        differ("鹤鸣小区停水", "梧桐湾小区停水", ObjectKind::Place, ("鹤鸣小区", "梧桐湾小区"));
        differ("要求联通处理信号差", "要求电信处理信号差", ObjectKind::Organisation, ("联通", "电信"));
        differ("移车粤b7k3m9", "移车粤b2h8t1", ObjectKind::Plate, ("粤b7k3m9", "粤b2h8t1"));
        differ("催办工单20240561", "催办工单20240987", ObjectKind::Number, ("20240561", "20240987"));
        differ("柳塘区停电", "白石县停电", ObjectKind::District, ("柳塘区", "白石县"));
    }

    #[test]
    fn people_abbreviate_mistype_and_leave_out() {
        agree("反映雁坪路路灯不亮", "柳塘区雁坪路的路灯还是不亮");
        agree("白石县柳塘区鹤鸣小区停水", "鹤鸣小区停水");
        agree("投诉柳塘第一小学乱收费", "投诉柳塘一小乱收费");
        agree("梧桐湾花园三期漏水", "梧桐弯花园三期漏水");
        agree("投诉鑫海集团", "投诉海鑫集团");
        agree("订单20240561没有退款", "请处理订单20240561");
    }

    #[test]
    fn the_longer_text_may_name_more() {
        let found = between("鹤鸣小区停水", "鹤鸣小区停水,雁坪路也停水,云帆超市关门");
        assert_eq!((found.differing, found.differs.len()), (0.0, 0));
    }

    #[test]
    fn bits_that_differ_on_both_sides_mean_names_that_do() {
        let words = Words::new(&TextSettings::default());
        let named = |text: &str| Named::new(text, words.objects(text));
        let texts =
            ["雁坪路停水", "松岗路停水", "鹤鸣小区停水", "雁坪路鹤鸣小区停水", "停水", "柳塘区停水", "松岗路鹤鸣小区"];
        let mut seen = [0; 2];
        for (a, b) in texts.iter().flat_map(|a| texts.iter().map(move |b| (named(a), named(b)))) {
            let (bits_a, bits_b) = (a.bits(None), b.bits(None));
            let differ = bits_a & !bits_b != 0 && bits_b & !bits_a != 0;
            let found = contrast(&a, &b, None);
            assert!(bits_a != 0 && (!differ || found.other_names), "{a:?} {b:?}");
            seen[usize::from(differ)] += 1;
        }
        assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
        assert!(!between("雁坪路停水", "雁坪路鹤鸣小区停水").other_names, "one may say more");
        assert!(between("梧桐湾花园三期漏水", "梧桐弯花园三期漏水").other_names, "a typo is none of a copy");
    }

    #[test]
    fn what_everybody_names_is_neither_for_nor_against() {
        use crate::schemes::frequencies::Counter;
        let mut counter = Counter::default();
        (0..2_000).for_each(|_| counter.observe([name_code("雁坪路"), name_code("松岗路")]));
        let common = Frequencies::decode(1, &counter.encode(2_000)).unwrap();
        let words = Words::new(&TextSettings::default());
        let named = |text: &str| Named::new(text, words.objects(text));
        let found = contrast(&named("雁坪路停水"), &named("松岗路停水"), Some(&common));
        assert!(found.differing < 0.05 && found.differs.is_empty(), "{found:?}");
    }
}
