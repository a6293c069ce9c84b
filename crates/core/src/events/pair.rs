//! The features of a pair of records that may report one event.
//!
//! Two reports of one event share little text: mostly one name and the kind of problem. So the features measure the
//! rarity of what both records contain, the agreement of their kinds of problems, the time between them, and the
//! names and numbers that contradict each other. Products of features are features too, because a logistic regression adds:
//! one name in common is evidence only if the problem is the same.

use super::collection::{NameWeight, ProblemWeight, RecordParts, WeighedRecord};
use super::rarity::CodeSet;
use super::record::EventRecord;
use crate::evidence::{FeatureVector, MAX_VALUE, features};
use crate::similarity::district_level;
use crate::text::objects::NamedObject;
use crate::verdict::ObjectKind;

features! {
    EventFeature;
    /// Mean rarity above .7 of the three rarest runs of three characters in both texts. A name of three characters
    /// identifies an object, and nearly no other record contains it.
    VeryRareRuns "very_rare_runs" For;
    /// Sum of the rarities of the names of places and organisations in both texts, at most 2.
    NamesAgree "names_agree" For;
    /// Rarity of the rarest common name of a place that is no road and no water. Along a road or a river there are
    /// several events at a time.
    PlaceAgrees "place_agrees" For;
    /// Cosine of the topics of the problems. Two people describe one problem by kinds that have a topic in common.
    TopicCosine "topic_cosine" For;
    /// Share of a title's rarity that the other record contains, the larger of both directions.
    TitleContained "title_contained" For;
    /// 1 if both name the same bus line or vehicle.
    IdentifiersAgree "identifiers_agree" For;
    /// 1 if the texts have no name of a place or an organisation in common.
    NoCommonName "no_common_name" Against;
    /// Rarity of the names that only one text contains, the smaller sum of the two sides, at most 2.
    NamesDiffer "names_differ" Against;
    /// Rarity of the names that only one text contains, the larger sum of the two sides, at most 3.
    OtherNames "other_names" Against;
    /// Number of kinds of number in an address of which both contain values, but no common one, at most 2.
    NumbersDiffer "numbers_differ" Against;
    /// 1 if both name lines or vehicles, but no common one.
    IdentifiersDiffer "identifiers_differ" Against;
    /// 1 if both name districts of one level, but no common one.
    DistrictsDiffer "districts_differ" Against;
    /// Product of the rarity of the rarest common name and the lack of agreement of the kinds of problems, .3 - cosine: one place, two
    /// problems.
    NameWithOtherProblem "name_with_other_problem" Against;
    /// Years between the records beyond the first two, at most 4. One nuisance may last for two years.
    YearsApart "years_apart" Against;
    /// Product of the rarity of the names that only one text contains and the cosine of the texts: one form about two
    /// objects.
    OtherNamesAndAlike "other_names_and_alike" Against;
    /// Product of the same rarity without a common name and the cosine of the kinds of problems: one problem at two places.
    OtherNamesAndProblem "other_names_and_problem" Against;
    /// Product of the number of other numbers and the cosine of the texts: one form about two addresses.
    OtherNumbersAndAlike "other_numbers_and_alike" Against;
}

/// Number of features.
pub const EVENT_FEATURE_COUNT: usize = EventFeature::ALL.len();

/// The features of a pair, in the order of [`EventFeature::ALL`]. Each value is at least 0 and at most
/// [`MAX_VALUE`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventFeatures([f64; EVENT_FEATURE_COUNT]);

impl FeatureVector<EVENT_FEATURE_COUNT> for EventFeatures {
    fn values(&self) -> &[f64; EVENT_FEATURE_COUNT] {
        &self.0
    }
}

impl EventFeatures {
    /// Returns the value of a feature.
    pub fn get(&self, feature: EventFeature) -> f64 {
        self.0[feature as usize]
    }

    /// Creates the features with these values, in the order of [`EventFeature::ALL`].
    pub fn from_values(values: [f64; EVENT_FEATURE_COUNT]) -> Self {
        Self(values.map(|value| value.clamp(0.0, MAX_VALUE)))
    }

    fn set(&mut self, feature: EventFeature, value: f64) {
        self.0[feature as usize] = value.clamp(0.0, MAX_VALUE);
    }
}

/// Rarity above which a run counts as very rare.
const VERY_RARE: f64 = 0.7;
/// Cosine of problems below which they differ.
const OTHER_PROBLEM: f64 = 0.3;
/// Minimum length of the part of a name before its ending that a text may contain in place of the name, in characters.
const CORE_CHARS: usize = 2;
/// Seconds of a day.
const DAY_S: f64 = 86_400.0;
const YEAR_DAYS: f64 = 365.0;
/// Number of years between records that do not count against one event. Leaving one source out,
/// without invented events and topics of problems, B-cubed recall / precision of the hotline set are .751/.903 with 0 years, .758/.922 with 1
/// year, .758/.931 with 2 years, and .761/.914 without the feature.
const LASTING_YEARS: f64 = 2.0;

const ADDRESS_NUMBERS: [ObjectKind; 6] = [
    ObjectKind::HouseNumber,
    ObjectKind::Building,
    ObjectKind::Unit,
    ObjectKind::Room,
    ObjectKind::Phase,
    ObjectKind::VillageGroup,
];
const IDENTIFIERS: [ObjectKind; 2] = [ObjectKind::Plate, ObjectKind::Line];

/// The common part of two sets of codes.
#[derive(Clone, Copy, Debug, Default)]
struct CodeOverlap {
    /// Sum of the rarities.
    shared: f64,
    /// Sum of the squared rarities.
    squared: f64,
    /// The largest rarities, descending.
    rarest: [f64; 3],
}

impl CodeOverlap {
    fn of(a: &CodeSet, b: &CodeSet) -> Self {
        let mut found = Self::default();
        let mut others = b.codes.iter().copied().peekable();
        for (code, rarity) in a.codes.iter().copied().zip(&a.rarities) {
            while others.next_if(|other| *other < code).is_some() {}
            if others.next_if_eq(&code).is_some() {
                found.add(f64::from(rarity.get()));
            }
        }
        found
    }

    fn add(&mut self, rarity: f64) {
        self.shared += rarity;
        self.squared += rarity * rarity;
        let mut lower = rarity;
        for place in &mut self.rarest {
            if lower > *place {
                std::mem::swap(place, &mut lower);
            }
        }
    }

    /// Returns the cosine of the rarities of two sets, 0 to 1.
    fn cosine(&self, a: &CodeSet, b: &CodeSet) -> f64 {
        share(self.squared, f64::from(a.norm) * f64::from(b.norm))
    }
}

/// The names of places and organisations in two records.
#[derive(Clone, Debug, Default)]
struct NameOverlap {
    /// Rarity of the rarest common name; 0 without a common name.
    rarest: f64,
    /// Rarity of the rarest common name of a place that is no road and no water.
    rarest_place: f64,
    /// Sum of the rarities of the common names.
    shared: f64,
    /// Sums of the rarities of the names that only one record contains.
    only: [f64; 2],
    /// True if at least one name is common.
    is_any_common: bool,
}

impl NameOverlap {
    /// Returns the rarity of the names that only one text contains, the smaller sum of the two sides, at most 2.
    fn differing(&self) -> f64 {
        self.only[0].min(self.only[1]).min(2.0)
    }

    fn add(&mut self, side: usize, from: &EventRecord, weights: &[NameWeight], to: &EventRecord) {
        for weight in weights {
            let object = &from.objects()[usize::from(weight.object)];
            let rarity = f64::from(weight.rarity);
            if !contains_name(to, object) {
                self.only[side] += rarity;
                continue;
            }
            self.is_any_common = true;
            self.rarest = self.rarest.max(rarity);
            if object.kind == ObjectKind::Place {
                self.rarest_place = self.rarest_place.max(rarity);
            }
            // A common name is found from both sides.
            self.shared += rarity / 2.0;
        }
    }
}

/// True if a record contains a name, a similar name, or the part of the name before its ending.
pub(super) fn contains_name(record: &EventRecord, object: &NamedObject) -> bool {
    let core = object.core();
    record.named.names(object) || core.chars().nth(CORE_CHARS - 1).is_some() && record.named.holds_core(object, core)
}

/// Returns the features of two different records. They do not depend on other records, except for the counted rarities.
/// The order does not matter. O(length + names × names).
pub(super) fn pair_features(a: RecordParts<'_>, b: RecordParts<'_>) -> EventFeatures {
    let records = [a.record, b.record];
    let weighed = [a.weighed, b.weighed];
    let mut features = EventFeatures([0.0; EVENT_FEATURE_COUNT]);
    let likeness = set_text(&mut features, weighed);
    let names = set_names(&mut features, records, weighed);
    set_problems(&mut features, weighed, &names);
    set_numbers(&mut features, records, likeness);
    set_circumstances(&mut features, records);
    features.set(EventFeature::OtherNamesAndAlike, features.get(EventFeature::NamesDiffer) * likeness);
    features
}

/// Sets the features of the texts. Returns the cosine of the rarities of the pairs of characters.
fn set_text(features: &mut EventFeatures, [a, b]: [&WeighedRecord; 2]) -> f64 {
    use EventFeature as F;
    let triples = CodeOverlap::of(&a.triples, &b.triples);
    let rare_runs = triples.rarest.iter().sum::<f64>() / triples.rarest.len() as f64;
    features.set(F::VeryRareRuns, rare_runs - VERY_RARE);
    features.set(F::TitleContained, part_in(&a.title, &b.pairs).max(part_in(&b.title, &a.pairs)));
    CodeOverlap::of(&a.pairs, &b.pairs).cosine(&a.pairs, &b.pairs)
}

/// Returns the part of a title that is in a text.
fn part_in(title: &CodeSet, text: &CodeSet) -> f64 {
    share(CodeOverlap::of(title, text).shared, f64::from(title.total))
}

fn set_names(
    features: &mut EventFeatures,
    [a, b]: [&EventRecord; 2],
    [weighed_a, weighed_b]: [&WeighedRecord; 2],
) -> NameOverlap {
    use EventFeature as F;
    let mut names = NameOverlap::default();
    names.add(0, a, &weighed_a.names, b);
    names.add(1, b, &weighed_b.names, a);
    features.set(F::NamesAgree, names.shared.min(2.0));
    features.set(F::PlaceAgrees, names.rarest_place);
    features.set(F::NoCommonName, f64::from(!names.is_any_common));
    features.set(F::NamesDiffer, names.differing());
    features.set(F::OtherNames, names.only[0].max(names.only[1]).min(3.0));
    names
}

fn set_problems(features: &mut EventFeatures, [a, b]: [&WeighedRecord; 2], names: &NameOverlap) {
    use EventFeature as F;
    let cosine = problem_cosine(&a.problems, &b.problems);
    let both = !a.problems.is_empty() && !b.problems.is_empty();
    features.set(F::TopicCosine, problem_cosine(&a.topics, &b.topics));
    if !names.is_any_common {
        features.set(F::OtherNamesAndProblem, names.differing() * cosine);
    }
    let lack = if both { (OTHER_PROBLEM - cosine).max(0.0) } else { 0.0 };
    features.set(F::NameWithOtherProblem, names.rarest * lack);
}

/// Returns the inner product of two vectors of length 1. O(kinds × kinds).
fn problem_cosine(a: &[ProblemWeight], b: &[ProblemWeight]) -> f64 {
    let common = a.iter().filter_map(|own| Some((own, b.iter().find(|other| other.class == own.class)?)));
    common.map(|(own, other)| f64::from(own.weight) * f64::from(other.weight)).sum()
}

/// The comparison of the values of one kind of object in two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueComparison {
    /// At least one of the records has no value.
    Missing,
    /// The records have a common value.
    Agree,
    /// Both have values, but no common one.
    Differ,
}

/// Compares the values of one kind of object in two records.
pub(super) fn compare_values(a: &EventRecord, b: &EventRecord, kind: ObjectKind) -> ValueComparison {
    if a.values(kind).next().is_none() || b.values(kind).next().is_none() {
        return ValueComparison::Missing;
    }
    match a.values(kind).any(|value| b.values(kind).any(|other| other == value)) {
        true => ValueComparison::Agree,
        false => ValueComparison::Differ,
    }
}

fn set_numbers(features: &mut EventFeatures, [a, b]: [&EventRecord; 2], likeness: f64) {
    use EventFeature as F;
    use ValueComparison::{Agree, Differ};
    features.set(F::NumbersDiffer, kinds_with(a, b, &ADDRESS_NUMBERS, Differ).min(2.0));
    features.set(F::OtherNumbersAndAlike, features.get(F::NumbersDiffer) * likeness);
    features.set(F::IdentifiersAgree, kinds_with(a, b, &IDENTIFIERS, Agree).min(1.0));
    features.set(F::IdentifiersDiffer, kinds_with(a, b, &IDENTIFIERS, Differ).min(1.0));
    features.set(F::DistrictsDiffer, f64::from(districts_differ(a, b)));
}

/// Returns the number of kinds whose values compare as `wanted`.
fn kinds_with(a: &EventRecord, b: &EventRecord, kinds: &[ObjectKind], wanted: ValueComparison) -> f64 {
    kinds.iter().filter(|kind| compare_values(a, b, **kind) == wanted).count() as f64
}

/// True if both records name districts of one level, and no common one of this level.
fn districts_differ(a: &EventRecord, b: &EventRecord) -> bool {
    let [(ours, ours_common), (theirs, theirs_common)] = [district_levels(a, b), district_levels(b, a)];
    ours & theirs & !ours_common & !theirs_common != 0
}

/// Returns the levels of the districts that a record names, and of those that the other record contains, as bits.
fn district_levels(record: &EventRecord, other: &EventRecord) -> (u8, u8) {
    let districts = record.objects().iter().filter(|object| object.kind == ObjectKind::District);
    districts.fold((0, 0), |(all, common), district| {
        let level = district_level(&district.name);
        (all | level, common | if contains_name(other, district) { level } else { 0 })
    })
}

fn set_circumstances(features: &mut EventFeatures, [a, b]: [&EventRecord; 2]) {
    use EventFeature as F;
    features.set(F::YearsApart, days_apart(a, b).map_or(0.0, |days| days / YEAR_DAYS - LASTING_YEARS));
}

/// Returns the days between two records; `None` if a time is missing.
fn days_apart(a: &EventRecord, b: &EventRecord) -> Option<f64> {
    Some(a.time?.abs_diff(b.time?) as f64 / DAY_S)
}

fn share(part: f64, of: f64) -> f64 {
    if of > 0.0 { (part / of).min(1.0) } else { 0.0 }
}
