//! Contrast: the names that two texts share, and the names that only one of them contains.
//!
//! Names are compared leniently, because people abbreviate, make typing errors, and leave out districts. A name counts
//! as shared if the name, or its part before the ending, occurs anywhere in the other text, or if the other text has a
//! similar name. There is a difference only if *each* text has a name that the other text lacks, because the longer of
//! two letters may always contain more. The weight of a name depends on its document frequency, so that the city in
//! which everybody lives is no evidence.

use std::sync::Arc;

use crate::schemes::frequencies::{Frequencies, name_code};
use crate::text::objects::numerals::{is_numeral, value};
use crate::text::objects::{MAX_OBJECTS, NamedObject};
use crate::text::problems::topic_cosine;
use crate::text::shingles::{counts, digit_form};
use crate::verdict::{Difference, ObjectKind};

/// The weight of the names of a text that has as many rare names as a text can have.
const MOST_NAMES: f64 = MAX_OBJECTS as f64;
/// Maximum number of names on one side only that are counted.
const MOST_OTHER_NAMES: u8 = 2;
/// Maximum number of kinds of number that are counted.
const MOST_NUMBERS: u8 = 2;
/// Maximum number of differences in the list.
const MAX_DIFFERENCES: usize = 8;
/// Maximum number of names of one text alone in a list.
const MAX_ONLY_NAMES: usize = 16;
/// Minimum length of names that may differ by one character, in characters.
const TYPO_CHARS: usize = 4;

/// Names with less weight are not shown as differences, because many records contain them.
const TELLING: f64 = 0.2;

/// True for a kind that names a particular object, and not a region of the country.
fn is_particular(kind: ObjectKind) -> bool {
    kind != ObjectKind::District
}

/// Minimum length of the part of a name before its ending, in characters, that identifies the object alone. Two
/// characters are often a common word.
const CORE_CHARS: usize = 3;

/// Minimum length of an abbreviation, in characters, that may have another ending than the name.
const ABBREVIATED_CHARS: usize = 3;

/// Kinds whose names are numbers. Two numbers are either equal or different.
pub(super) const NUMBERS: [ObjectKind; 9] = [
    ObjectKind::Plate,
    ObjectKind::Number,
    ObjectKind::Line,
    ObjectKind::HouseNumber,
    ObjectKind::Building,
    ObjectKind::Unit,
    ObjectKind::Room,
    ObjectKind::Phase,
    ObjectKind::VillageGroup,
];

/// Groups of characters that distinguish names: if one character of a group replaces another one, the name belongs to
/// another object.
const OPPOSITES: [&str; 9] =
    ["东西南北中", "上中下", "前中后", "左右", "内外", "大中小", "新老旧", "经纬", "甲乙丙丁戊己庚辛"];

/// The comparison of the names in two texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contrast {
    /// Weight of the names that both texts contain, in rare names.
    pub names_agree: f64,
    /// Weight of the names that only one text contains, in rare names: the smaller value of the two sides.
    pub names_differ: f64,
    /// Number of names that only one text contains, however common they are: the smaller number of the two sides, at
    /// most 2.
    pub other_names: u8,
    /// True if both texts name districts of one level, for example towns, and no common one of this level.
    pub districts_differ: bool,
    /// True if both texts name the same bus line, metro line or vehicle.
    pub identifiers_agree: bool,
    /// True if both texts name bus lines, metro lines or vehicles, and no value of one kind is the same.
    pub identifiers_differ: bool,
    /// True if both texts name bus lines or metro lines, and each names another one first. A letter names its subject
    /// first.
    pub subjects_differ: bool,
    /// The largest weight of a contact (a telephone number, an account) that both texts contain, 0 to 1. Different
    /// contacts are no evidence.
    pub contacts_agree: f64,
    /// How far both texts report the same kinds of problems, 0 to 1. It is 0 if the texts have no contact in common, because nothing else
    /// needs it.
    pub problems_agree: f64,
    /// True if both texts cite the same order or petition. Different ones are no evidence, because a person calls more
    /// than once.
    pub references_agree: bool,
    /// Number of kinds of number in an address of which both texts contain values, but no common one; at most 2.
    pub numbers_differ: u8,
    /// Number of kinds of number, identifiers included, of which each text contains a value that the other text does
    /// not, although they share another value; at most 2.
    pub numbers_substituted: u8,
    /// The differences, the most significant first.
    pub differs: Vec<Difference>,
    /// The names that only the first and only the second text contains, at most 16 of each.
    pub only_names: [Vec<String>; 2],
}

impl Contrast {
    /// True if each text contains a name or a number that contradicts the other text.
    pub fn is_contradicting(&self) -> bool {
        self.other_names > 0 || self.identifiers_differ || self.numbers_differ > 0 || self.districts_differ
    }

    /// Returns the contrast as it would be if both texts, `a` and `b`, contained the same rare contact, too.
    #[must_use]
    pub fn with_common_contact(self, a: &NamesInText, b: &NamesInText) -> Self {
        Self { contacts_agree: 1.0, problems_agree: topic_cosine(&a.compact, &b.compact), ..self }
    }

    /// Returns the contrast of texts that agree as much as two texts can, with or without a common contact.
    pub(super) fn most_agreeing(contacts: bool) -> Self {
        Self {
            names_agree: MOST_NAMES,
            identifiers_agree: true,
            contacts_agree: f64::from(contacts),
            problems_agree: f64::from(contacts),
            references_agree: true,
            ..Self::default()
        }
    }
}

/// A text and the objects that it names.
#[derive(Clone, Debug, Default)]
pub struct NamesInText {
    objects: Arc<[NamedObject]>,
    /// The letters and digits of the text, in the [`digit_form`].
    compact: String,
    /// The codes of the contacts that were removed from the text.
    contacts: Box<[u64]>,
}

impl NamesInText {
    /// Creates the value from a text in normal form and its objects.
    pub fn new(text: &str, objects: impl Into<Arc<[NamedObject]>>) -> Self {
        let objects = objects.into();
        let mut compact = String::with_capacity(text.len());
        compact.extend(text.chars().filter(|&c| counts(c)).map(digit_form));
        Self { objects, compact, contacts: Box::default() }
    }

    /// Returns the value with the contacts of the text, see [`Document::contacts`](crate::text::Document::contacts).
    #[must_use]
    pub fn with_contacts(self, contacts: &[u64]) -> Self {
        Self { contacts: contacts.into(), ..self }
    }

    /// True if contacts were removed from the text.
    pub(super) fn has_contacts(&self) -> bool {
        !self.contacts.is_empty()
    }

    /// Returns the name of the first bus line or metro line.
    fn subject(&self) -> Option<&str> {
        first_of(ObjectKind::Line, self).map(|object| &*object.name)
    }

    /// Returns the objects.
    pub fn objects(&self) -> &[NamedObject] {
        &self.objects
    }

    /// Returns the letters and digits of the text.
    pub(crate) fn compact(&self) -> &str {
        &self.compact
    }

    /// True if the letters and digits of the text contain this name.
    pub(crate) fn holds(&self, name: &str) -> bool {
        if name.chars().all(|c| digit_form(c) == c) {
            return self.compact.contains(name);
        }
        self.compact.contains(&name.chars().map(digit_form).collect::<String>())
    }

    /// True if the text names an object: by its name, by the part before the ending, or by a similar name.
    pub(crate) fn names(&self, object: &NamedObject) -> bool {
        let holds_core = telling_core(object).is_some_and(|core| self.holds_core(object, core));
        holds_core || self.holds(&object.name) || self.objects.iter().any(|other| is_alike(object, other))
    }

    /// True if the text contains the part of a name before its ending, and not only in the name of something else: 桃园路, 桃园小区.
    pub(crate) fn holds_core(&self, object: &NamedObject, core: &str) -> bool {
        self.holds(core) && !self.objects.iter().any(|other| other.core() == core && are_other_sorts(object, other))
    }
}

/// True if the endings of two names show that one is, for example, a road and the other an estate.
fn are_other_sorts(a: &NamedObject, b: &NamedObject) -> bool {
    const SORTS: [ObjectKind; 3] = [ObjectKind::Road, ObjectKind::Place, ObjectKind::Water];
    a.kind != b.kind && SORTS.contains(&a.kind) && SORTS.contains(&b.kind)
}

/// Returns the part of a name before its ending, if that part identifies the object alone. It does not if it ends with
/// a number or a side: a longer number begins with the same digits, and a side distinguishes objects with the same
/// name.
pub(super) fn telling_core(object: &NamedObject) -> Option<&str> {
    let core = object.core();
    (core.chars().nth(CORE_CHARS - 1).is_some() && !core.ends_with(tells_apart)).then_some(core)
}

/// True if the two characters name opposite sides or other members of a series.
pub(super) fn are_opposites(a: char, b: char) -> bool {
    a != b && OPPOSITES.iter().any(|opposites| opposites.contains(a) && opposites.contains(b))
}

fn tells_apart(c: char) -> bool {
    is_numeral(c) || OPPOSITES.iter().any(|opposites| opposites.contains(c))
}

/// True if two names may well belong to one object; the order does not matter.
/// [`NameChars`](super::prefilter::NameChars) must accept every such pair.
pub(super) fn is_alike(a: &NamedObject, b: &NamedObject) -> bool {
    let [core_a, core_b] = [a.core(), b.core()];
    let are_long = [core_a, core_b].iter().all(|core| core.chars().nth(1).is_some());
    // The name of an authority contains the name of its district.
    let same_sort = is_particular(a.kind) == is_particular(b.kind);
    let contained = same_sort
        && are_long
        && !(core_a == core_b && are_other_sorts(a, b))
        && (core_a.contains(core_b) || core_b.contains(core_a));
    let comparable = a.kind == b.kind && !core_a.is_empty() && !core_b.is_empty();
    (contained || (comparable && is_variant(a, b))) && !are_siblings(&a.name, &b.name)
}

/// True if one of two names is an abbreviation of the other, or contains a typing error.
fn is_variant(a: &NamedObject, b: &NamedObject) -> bool {
    let [chars_a, chars_b] = [a, b].map(|object| object.name.chars().count());
    let begin_alike = a.name.chars().next() == b.name.chars().next();
    let end_alike = a.name.chars().last() == b.name.chars().last();
    let abbreviated = (end_alike || (begin_alike && chars_a.min(chars_b) >= ABBREVIATED_CHARS))
        && (is_subsequence(&a.name, &b.name) || is_subsequence(&b.name, &a.name));
    let mistyped = chars_a.min(chars_b) >= TYPO_CHARS && is_one_edit(&a.name, &b.name);
    let swapped = a.kind == ObjectKind::Organisation
        && chars_a == chars_b
        && chars_a >= TYPO_CHARS
        && sorted_chars(&a.name) == sorted_chars(&b.name);
    abbreviated || mistyped || swapped || numbers_at_end(&a.name, &b.name).is_some_and(|(x, y)| x == y)
}

fn sorted_chars(name: &str) -> Vec<char> {
    let mut chars: Vec<char> = name.chars().collect();
    chars.sort_unstable();
    chars
}

/// True if only a number or a side distinguishes two names: First and Second School, East and West Road. The parts
/// after it must be equal. The parts before it must also be equal, but one name may have a district in front.
fn are_siblings(a: &str, b: &str) -> bool {
    if let Some((x, y)) = numbers_at_end(a, b) {
        return x != y;
    }
    let (a, b) = without_common_end(a, b, |_| false);
    let Some(((x, a), (y, b))) = last_char(a).zip(last_char(b)) else { return false };
    are_opposites(x, y) && (a.ends_with(b) || b.ends_with(a))
}

/// Returns the numbers of two names that differ only in a number.
fn numbers_at_end(a: &str, b: &str) -> Option<(u64, u64)> {
    let (a, b) = without_common_end(a, b, is_numeral);
    let [before_a, before_b] = [a, b].map(|name| name.trim_end_matches(is_numeral));
    let [number_a, number_b] = [&a[before_a.len()..], &b[before_b.len()..]];
    let differ = !number_a.is_empty() && !number_b.is_empty() && number_a != number_b;
    (differ && (before_a.ends_with(before_b) || before_b.ends_with(before_a)))
        .then(|| (value(number_a), value(number_b)))
}

/// Removes the characters that two names have in common at the end, up to the first character that `stops`.
fn without_common_end<'a>(mut a: &'a str, mut b: &'a str, stops: impl Fn(char) -> bool) -> (&'a str, &'a str) {
    while let Some(((x, rest_a), (y, rest_b))) = last_char(a).zip(last_char(b))
        && x == y
        && !stops(x)
    {
        (a, b) = (rest_a, rest_b);
    }
    (a, b)
}

fn last_char(text: &str) -> Option<(char, &str)> {
    let mut chars = text.chars();
    chars.next_back().map(|last| (last, chars.as_str()))
}

/// True if the characters of `short` occur in `long` in their order.
fn is_subsequence(short: &str, long: &str) -> bool {
    let mut long = long.chars();
    short.chars().all(|c| long.any(|other| other == c))
}

/// True if one replaced, added or removed character makes the two texts equal.
fn is_one_edit(a: &str, b: &str) -> bool {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let front = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let back = a[front..].iter().rev().zip(b[front..].iter().rev()).take_while(|(x, y)| x == y).count();
    a.len().max(b.len()) - front - back <= 1
}

/// Returns the weight of a name by its frequency; without `frequencies`, all names have the same weight.
pub(super) fn weight(object: &NamedObject, frequencies: Option<&Frequencies>) -> f64 {
    f64::from(frequencies.map_or(1.0, |frequencies| frequencies.weight(name_code(&object.name))))
}

/// True for a kind that is a name, and not a number or an amount.
pub(super) fn is_name(kind: ObjectKind) -> bool {
    !NUMBERS.contains(&kind) && kind != ObjectKind::Amount
}

/// The summary of the names in one of two texts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Side {
    /// Weight of the names that the other text also contains.
    shared: f64,
    /// Weight of the names that only this text contains.
    only: f64,
    /// Number of the names that only this text contains.
    only_count: u8,
    /// The levels of the districts that the text names, see [`district_level`].
    levels: u8,
    /// The levels of the districts that the other text also names.
    common_levels: u8,
}

impl Side {
    /// Adds a name. `shared` is true if the other text also contains it.
    pub(super) fn add(&mut self, name: WeighedName, shared: bool) {
        self.levels |= name.level;
        if shared {
            self.shared += name.weight;
            self.common_levels |= name.level;
        } else {
            self.only += name.weight;
            self.only_count = self.only_count.saturating_add(u8::from(name.is_particular));
        }
    }
}

/// A name ([`is_name`]) with its weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeighedName {
    /// The weight; 0 for a district.
    weight: f64,
    is_particular: bool,
    /// The level of a district, see [`district_level`]; 0 for other names.
    level: u8,
}

impl WeighedName {
    /// Weighs a name by its frequency; without `frequencies`, all names have the same weight.
    pub(super) fn of(object: &NamedObject, frequencies: Option<&Frequencies>) -> Self {
        match is_particular(object.kind) {
            true => Self { weight: weight(object, frequencies), is_particular: true, level: 0 },
            false => Self { weight: 0.0, is_particular: false, level: district_level(&object.name) },
        }
    }
}

/// Names of provinces without their ending.
const PROVINCES: &str = "云南 吉林 四川 安徽 山东 山西 广东 江苏 江西 河北 河南 浙江 海南 湖北 湖南 甘肃 福建 贵州 辽宁 陕西 青海 \
    黑龙江 内蒙古 广西 西藏 宁夏 新疆 台湾";

/// Returns a bit for the level of a district: province, city, district or county, town or street. People leave out the
/// ending of provinces and of cities.
pub(crate) fn district_level(name: &str) -> u8 {
    const LEVELS: [&[char]; 4] = [&['省'], &['市', '州', '盟'], &['区', '县', '旗'], &['镇', '乡', '道', '办']];
    let is_province = name.ends_with("自治区") || PROVINCES.split_whitespace().any(|province| province == name);
    match is_province {
        true => 1,
        false => 1 << LEVELS.iter().position(|ends| name.ends_with(*ends)).unwrap_or(1),
    }
}

/// True if both texts name districts of one level, and no common one of this level. A text that only names the city does
/// not contradict a text that only names the street.
fn districts_differ(a: Side, b: Side) -> bool {
    a.levels & b.levels & !a.common_levels & !b.common_levels != 0
}

/// The comparison of the numbers of one kind in two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberComparison {
    /// At least one of the texts has no number.
    Missing,
    /// Both texts have a common number, and at most one of them has further numbers.
    Agree,
    /// Both texts have a common number, and each has further numbers.
    Substituted,
    /// Both texts have numbers, but no common one.
    Differ,
}

impl NumberComparison {
    /// Compares the numbers of one kind. The arguments are the number of values in each text, and the number of common
    /// values.
    pub(super) fn of(a: usize, b: usize, common: usize) -> Self {
        match common {
            _ if a == 0 || b == 0 => Self::Missing,
            0 => Self::Differ,
            _ if a > common && b > common => Self::Substituted,
            _ => Self::Agree,
        }
    }
}

/// Returns the contrast of two sides and of the numbers of both texts. `numbers` compares the numbers of a kind. The
/// result does not list the differences.
pub(super) fn weigh_up(a: Side, b: Side, numbers: impl Fn(ObjectKind) -> NumberComparison) -> Contrast {
    use NumberComparison::{Agree, Differ, Substituted};
    let mut found = Contrast {
        names_agree: a.shared.max(b.shared),
        names_differ: a.only.min(b.only),
        other_names: a.only_count.min(b.only_count).min(MOST_OTHER_NAMES),
        districts_differ: districts_differ(a, b),
        ..Contrast::default()
    };
    for kind in NUMBERS {
        let compared = numbers(kind);
        let agrees = matches!(compared, Agree | Substituted);
        match kind {
            ObjectKind::Number => {
                found.references_agree = agrees;
                continue;
            }
            ObjectKind::Plate | ObjectKind::Line => {
                found.identifiers_agree |= agrees;
                found.identifiers_differ |= compared == Differ;
            }
            _ => found.numbers_differ += u8::from(compared == Differ),
        }
        found.numbers_substituted += u8::from(compared == Substituted);
    }
    for count in [&mut found.numbers_substituted, &mut found.numbers_differ] {
        *count = (*count).min(MOST_NUMBERS);
    }
    found
}

/// Compares the names in two texts. O(names × (names + length)).
pub fn contrast(a: &NamesInText, b: &NamesInText, frequencies: Option<&Frequencies>) -> Contrast {
    let (side_a, only_a) = split(a, b, frequencies);
    let (side_b, only_b) = split(b, a, frequencies);
    let found = weigh_up(side_a, side_b, |kind| same_number(kind, a.objects(), b.objects()));
    let mut differs = Vec::new();
    for kind in NUMBERS.into_iter().rev() {
        if same_number(kind, a.objects(), b.objects()) != NumberComparison::Differ {
            continue;
        }
        differs.extend(first_of(kind, a).zip(first_of(kind, b)).map(|(a, b)| Difference {
            kind,
            a: a.name.clone(),
            b: b.name.clone(),
        }));
    }
    if side_a.only.min(side_b.only) > 0.0 {
        let [only_a, only_b] = [&only_a, &only_b].map(|only| sorted(only, is_particular, frequencies));
        pair_up(only_a, only_b, &mut differs);
    }
    if found.districts_differ {
        let [only_a, only_b] = [&only_a, &only_b].map(|only| sorted(only, |kind| !is_particular(kind), frequencies));
        pair_up(only_a, only_b, &mut differs);
    }
    differs.truncate(MAX_DIFFERENCES);
    let contacts_agree = contacts_agree(a, b, frequencies);
    Contrast {
        subjects_differ: a.subject().zip(b.subject()).is_some_and(|(a, b)| a != b),
        contacts_agree,
        problems_agree: if contacts_agree > 0.0 { topic_cosine(&a.compact, &b.compact) } else { 0.0 },
        differs,
        only_names: [shown_names(&only_a), shown_names(&only_b)],
        ..found
    }
}

fn shown_names(only: &[&NamedObject]) -> Vec<String> {
    let particular = only.iter().filter(|object| is_particular(object.kind));
    particular.take(MAX_ONLY_NAMES).map(|object| object.name.clone()).collect()
}

/// Returns the largest weight of a common contact; 0 if there is none. The number of an office is in many texts.
fn contacts_agree(a: &NamesInText, b: &NamesInText, frequencies: Option<&Frequencies>) -> f64 {
    let common = a.contacts.iter().filter(|code| b.contacts.contains(code));
    let weights = common.map(|code| frequencies.map_or(1.0, |frequencies| f64::from(frequencies.weight(*code))));
    weights.fold(0.0, f64::max)
}

/// Splits the names of a text by whether the other text contains them: returns their weights, and the names that the
/// other text lacks.
fn split<'a>(
    of: &'a NamesInText,
    other: &NamesInText,
    frequencies: Option<&Frequencies>,
) -> (Side, Vec<&'a NamedObject>) {
    let mut side = Side::default();
    let mut only = Vec::new();
    for object in of.objects().iter().filter(|object| is_name(object.kind)) {
        let shared = other.names(object);
        side.add(WeighedName::of(object, frequencies), shared);
        only.extend((!shared).then_some(object));
    }
    (side, only)
}

/// Returns the names of the chosen kinds that tell something, the largest weights first.
fn sorted(
    objects: &[&NamedObject],
    chosen: impl Fn(ObjectKind) -> bool,
    frequencies: Option<&Frequencies>,
) -> Vec<NamedObject> {
    let mut sorted = Vec::new();
    for object in objects.iter().copied().filter(|object| chosen(object.kind)) {
        if weight(object, frequencies) >= TELLING || !is_particular(object.kind) {
            sorted.push(object.clone());
        }
    }
    sorted.sort_by(|x, y| weight(y, frequencies).total_cmp(&weight(x, frequencies)));
    sorted
}

/// Pairs the names of both lists in their order, as far as possible of the same kind.
fn pair_up(only_a: Vec<NamedObject>, mut only_b: Vec<NamedObject>, differs: &mut Vec<Difference>) {
    for a in only_a {
        if only_b.is_empty() {
            return;
        }
        let b = only_b.remove(only_b.iter().position(|b| b.kind == a.kind).unwrap_or(0));
        differs.push(Difference { kind: a.kind, a: a.name, b: b.name });
    }
}

fn first_of(kind: ObjectKind, named: &NamesInText) -> Option<&NamedObject> {
    named.objects().iter().find(|object| object.kind == kind)
}

/// Compares the numbers of one kind in two lists.
fn same_number(kind: ObjectKind, a: &[NamedObject], b: &[NamedObject]) -> NumberComparison {
    let [a, b] = [a, b].map(|objects| {
        let numbers = objects.iter().filter(|object| object.kind == kind);
        numbers.map(|object| object.name.clone()).collect::<Vec<_>>()
    });
    NumberComparison::of(a.len(), b.len(), a.iter().filter(|number| b.contains(number)).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::TextSettings;
    use crate::text::words::Words;

    fn between(a: &str, b: &str) -> Contrast {
        let words = Words::new(&TextSettings::default());
        let [a, b] = [a, b].map(|text| NamesInText::new(text, words.objects(text)));
        contrast(&a, &b, None)
    }

    #[track_caller]
    fn differ(a: &str, b: &str, kind: ObjectKind, names: (&str, &str)) {
        let found = between(a, b);
        let expected = Difference { kind, a: names.0.into(), b: names.1.into() };
        assert!(found.differs.contains(&expected), "{a} {b} {found:?}");
    }

    #[track_caller]
    fn agree(a: &str, b: &str) {
        let found = between(a, b);
        let agrees = found.names_agree >= 1.0 || found.identifiers_agree || found.references_agree;
        let differs = found.names_differ > 0.0 || found.numbers_differ > 0 || found.identifiers_differ;
        assert!(agrees && !differs && found.differs.is_empty(), "{a} {b} {found:?}");
    }

    #[test]
    fn another_place_company_plate_or_order_is_a_difference() {
        differ("反映雁坪路路灯不亮", "反映松岗路路灯不亮", ObjectKind::Road, ("雁坪路", "松岗路"));
        differ("鹤鸣小区停水", "梧桐湾小区停水", ObjectKind::Place, ("鹤鸣小区", "梧桐湾小区"));
        differ("要求联通处理信号差", "要求电信处理信号差", ObjectKind::Organisation, ("联通", "电信"));
        differ("移车粤b7k3m9", "移车粤b2h8t1", ObjectKind::Plate, ("粤b7k3m9", "粤b2h8t1"));
        differ("催办工单20240561", "催办工单20240987", ObjectKind::Number, ("20240561", "20240987"));
        differ("雨花区停电", "望城区停电", ObjectKind::District, ("雨花区", "望城区"));
    }

    #[test]
    fn another_number_or_side_is_another_thing_however_alike_the_name() {
        use ObjectKind::{Organisation, Place, Road};
        differ("松岗一路停水", "松岗二路停水", Road, ("松岗1路", "松岗2路"));
        differ("学府东路停水", "学府西路停水", Road, ("学府东路", "学府西路"));
        differ("松岗1路停水", "松岗11路停水", ObjectKind::Line, ("1路", "11路"));
        differ("青石桥1路停水", "青石桥12路停水", ObjectKind::Line, ("1路", "12路"));
        differ("松岗十路停水", "松岗十二路停水", Road, ("松岗10路", "松岗12路"));
        differ("柳塘经三路停水", "柳塘纬三路停水", Road, ("柳塘经3路", "柳塘纬3路"));
        differ("青石桥东路停水", "柳塘青石桥西路停水", Road, ("青石桥东路", "柳塘青石桥西路"));
        differ("松岗上村停水", "松岗下村停水", Place, ("松岗上村", "松岗下村"));
        differ("投诉柳塘第一小学", "投诉柳塘第二小学", Organisation, ("柳塘1小", "柳塘2小"));
        differ("投诉柳塘一中收费", "投诉柳塘二中收费", Organisation, ("柳塘1中", "柳塘2中"));
    }

    #[test]
    fn siblings_are_the_same_but_for_one_number_or_side() {
        let siblings = [
            ("甲栋", "乙栋"),
            ("东门", "西门"),
            ("一路", "2路"),
            ("十路", "二十路"),
            ("第二院", "柳塘第一院"),
            ("左岸", "右岸"),
        ];
        let others = [
            ("松岗路", "松岗一路"),
            ("松岗12路", "松岗十二路"),
            ("南湖小区", "西安南湖小区"),
            ("中心小学", "小学"),
            ("东路", "路"),
            ("东山路", "西湖路"),
            ("松岗一路", "雁坪二路"),
            ("", "一"),
            ("二一", "二十一"),
        ];
        for (expected, pairs) in [(true, &siblings[..]), (false, &others[..])] {
            for (a, b) in pairs {
                assert_eq!((are_siblings(a, b), are_siblings(b, a)), (expected, expected), "{a} {b}");
            }
        }
    }

    #[test]
    fn people_abbreviate_mistype_and_leave_out() {
        agree("反映雁坪路路灯不亮", "柳塘区雁坪路的路灯还是不亮");
        agree("白石县柳塘区鹤鸣小区停水", "鹤鸣小区停水");
        agree("投诉柳塘第一小学乱收费", "投诉柳塘一小乱收费");
        agree("学府东路停水", "学府路停水");
        agree("松岗10路停水", "松岗十路停水");
        agree("上海中山医院收费", "中山医院收费");
        agree("柳塘中心小学收费", "柳塘小学收费");
        agree("投诉柳塘第一中学", "投诉柳塘一中收费");
        agree("梧桐湾花园三期漏水", "梧桐弯花园三期漏水");
        agree("投诉鑫海集团", "投诉海鑫集团");
        agree("订单20240561没有退款", "请处理订单20240561");
    }

    #[test]
    fn a_common_contact_agrees_and_other_contacts_are_no_evidence() {
        for (a, b, agree) in [(&[1, 2][..], &[2, 3][..], 1.0), (&[1], &[2], 0.0), (&[1], &[], 0.0)] {
            let [a, b] = [a, b].map(|contacts| NamesInText::new("鹤鸣小区停水", Vec::new()).with_contacts(contacts));
            assert_eq!(contrast(&a, &b, None).contacts_agree, agree);
        }
    }

    #[test]
    fn another_first_line_is_another_subject() {
        assert!(between("建议27路加站,方便换乘58路", "建议58路加站,方便换乘27路").subjects_differ);
        assert!(!between("建议27路加站,方便换乘58路", "建议27路加站").subjects_differ);
    }

    #[test]
    fn the_longer_text_may_name_more() {
        let found = between("鹤鸣小区停水", "鹤鸣小区停水,雁坪路也停水,云帆超市关门");
        assert_eq!((found.names_differ, found.differs.len()), (0.0, 0));
    }

    #[test]
    fn what_everybody_names_is_neither_for_nor_against() {
        use crate::schemes::frequencies::Counter;
        let mut counter = Counter::default();
        (0..2_000).for_each(|_| counter.observe([name_code("雁坪路"), name_code("松岗路")]));
        let common = Frequencies::decode(1, &counter.encode(2_000)).unwrap();
        let words = Words::new(&TextSettings::default());
        let [a, b] = ["雁坪路停水", "松岗路停水"].map(|text| NamesInText::new(text, words.objects(text)));
        let found = contrast(&a, &b, Some(&common));
        assert!(found.names_differ < 0.05 && found.differs.is_empty(), "{found:?}");
    }
}
