//! The features of a pair of records that may report one event.
//!
//! Two reports of one event share little text: mostly one name and the kind of problem. So the features measure the
//! rarity of what both records contain, the agreement of their kinds of problems, the time between them, and the
//! names and numbers that contradict each other. Products of features are features too, because a logistic regression adds:
//! one name in common is evidence only if the problem is the same.

use super::collection::{EventCollection, NameWeight, RecordParts, WeighedRecord};
use super::model::EventModel;
use super::rarity::CodeSet;
use super::record::EventRecord;
use crate::evidence::{FeatureVector, MAX_VALUE, features};
use crate::similarity::district_level;
use crate::text::objects::NamedObject;
use crate::verdict::ObjectKind;

features! {
    EventFeature;
    /// Cosine of the rarities of the pairs of characters: how much text both share.
    PairCosine "pair_cosine" For;
    /// Cosine of the rarities of the words. Words separate names and problems from the characters of other words.
    WordCosine "word_cosine" For;
    /// Share of the shorter text's rarity that the other text contains. A short order lies within a long letter.
    PairContainment "pair_containment" For;
    /// Rarity of the rarest run of three characters in both texts. A name of three characters identifies an object.
    RarestRun "rarest_run" For;
    /// Mean rarity of the three rarest runs of three characters in both texts.
    RareRuns "rare_runs" For;
    /// The part of the mean rarity of these runs above .7: nearly no other record contains them.
    VeryRareRuns "very_rare_runs" For;
    /// The cosine above the cosine of the last candidate. A common report has many candidates that are equally near.
    AboveBackground "above_background" For;
    /// The cosine as a share of the best cosine of either record.
    ShareOfBest "share_of_best" For;
    /// 1 / (1 + rank) of the better rank of each record among the candidates of the other.
    BetterRank "better_rank" For;
    /// 1 / (1 + rank) of the worse rank. Reports of one event are near each other from both sides.
    WorseRank "worse_rank" For;
    /// Rarity of the rarest name of a place or an organisation in both texts.
    NameAgrees "name_agrees" For;
    /// Sum of the rarities of the names in both texts, at most 2.
    NamesAgree "names_agree" For;
    /// Share of the shorter text's words, by rarity, that both texts contain, names left out: the words of the problem.
    ProblemWords "problem_words" For;
    /// Logarithm of the rarity of these words.
    ProblemWeight "problem_weight" For;
    /// Cosine of the kinds of problems.
    ProblemCosine "problem_cosine" For;
    /// 1 if the strongest kind of problem of both records is the same.
    MainProblemAgrees "main_problem_agrees" For;
    /// Share of the rarity of the titles' pairs of characters that both titles contain.
    TitleSimilarity "title_similarity" For;
    /// Share of a title's rarity that the other record contains, the larger of both directions.
    TitleContained "title_contained" For;
    /// 1 if both name the same bus line or vehicle.
    IdentifiersAgree "identifiers_agree" For;
    /// Number of kinds of number in an address of which both contain the same value, at most 2.
    NumbersAgree "numbers_agree" For;
    /// 1 if both contain the same number of an order.
    ReferencesAgree "references_agree" For;
    /// 1 if both have the same petitioner.
    SamePetitioner "same_petitioner" For;
    /// Product of the rarity of the common name and the cosine of the problems: the same place and the same problem.
    NameAndProblem "name_and_problem" For;
    /// Product of the rarity of the common name and the share of the words of the problem.
    NameAndWords "name_and_words" For;
    /// Product of the rarity of the common name and the contained title.
    NameAndTitle "name_and_title" For;
    /// Product of the rarity of the common runs and the cosine of the problems, for objects that no rule recognises.
    RunsAndProblem "runs_and_problem" For;
    /// Product of the part of the rarity of common runs above .7 and the cosine of the problems.
    RareRunsAndProblem "rare_runs_and_problem" For;
    /// Product of the worse rank and the cosine of the problems.
    RankAndProblem "rank_and_problem" For;
    /// Product of the worse rank and the rarity of the common name.
    RankAndName "rank_and_name" For;
    /// Product of the rarity of the common name and nearness in time, 1 / (1 + days / 7).
    NameAndNearness "name_and_nearness" For;
    /// 1 if the texts have no name of a place or an organisation in common.
    NoCommonName "no_common_name" Against;
    /// Rarity of the names that only one text contains, the smaller sum of the two sides, at most 2.
    NamesDiffer "names_differ" Against;
    /// The value of `NamesDiffer` if the texts have no name in common, otherwise 0.
    OnlyOtherNames "only_other_names" Against;
    /// Rarity of the names that only one text contains, the larger sum of the two sides, at most 3.
    OtherNames "other_names" Against;
    /// Number of kinds of number in an address of which both contain values, but no common one, at most 2.
    NumbersDiffer "numbers_differ" Against;
    /// 1 if both name lines or vehicles, but no common one.
    IdentifiersDiffer "identifiers_differ" Against;
    /// 1 if both name districts, but no common one.
    DistrictsDiffer "districts_differ" Against;
    /// 1 if both have kinds of problems, but no common one.
    ProblemsDiffer "problems_differ" Against;
    /// Product of the rarity of the common name and the lack of agreement of the problems, .3 - cosine: one place, two
    /// problems.
    NameWithOtherProblem "name_with_other_problem" Against;
    /// Logarithm of the days between the records, ln(1 + days) / 7; .5 if a time is missing.
    DaysApart "days_apart" Against;
    /// Years between the records, at most 4.
    YearsApart "years_apart" Against;
    /// 15 / (15 + characters of the shorter text). A few words in common are no event in common.
    Shortness "shortness" Against;
    /// Product of the shortness and the cosine: two short texts about nothing in particular.
    ShortAndAlike "short_and_alike" Against;
    /// Product of the lack of a common name and the cosine: alike by their form only.
    NamelessAndAlike "nameless_and_alike" Against;
    /// Product of the rarity of the names that only one text contains and the cosine: one form about two objects.
    OtherNamesAndAlike "other_names_and_alike" Against;
    /// Product of the same rarity without a common name and the cosine of the problems: one problem at two places.
    OtherNamesAndProblem "other_names_and_problem" Against;
    /// Product of the number of other numbers and the cosine: one form about two addresses.
    OtherNumbersAndAlike "other_numbers_and_alike" Against;
    /// Logarithm of the ratio of the lengths.
    LengthRatio "length_ratio" Against;
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
/// Number of characters at which the shortness is one half.
const HALF_SHORT: f64 = 15.0;
/// Seconds of a day.
const DAY_S: f64 = 86_400.0;
/// The divisor of the logarithm of days: e^7 days are three years.
const LOG_DAYS: f64 = 7.0;
const YEAR_DAYS: f64 = 365.0;
const WEEK_DAYS: f64 = 7.0;

const ADDRESS_NUMBERS: [ObjectKind; 6] = [
    ObjectKind::HouseNumber,
    ObjectKind::Building,
    ObjectKind::Unit,
    ObjectKind::Room,
    ObjectKind::Phase,
    ObjectKind::VillageGroup,
];
const IDENTIFIERS: [ObjectKind; 2] = [ObjectKind::Plate, ObjectKind::Line];

/// The places of two records among the candidates of each other. They change with the other records of the collection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PairRanks {
    /// The larger cosine of the last candidates of both records.
    pub(super) background: f64,
    /// The larger cosine of the first candidates of both records.
    pub(super) best: f64,
    /// 1 / (1 + rank) of each record among the candidates of the other; 0 if it is none of them.
    pub(super) inverse_ranks: [f64; 2],
}

/// The part of the measurement of a pair that does not depend on other records.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PairMeasure {
    /// The log-odds without the features of the ranks.
    pub(super) log_odds: f64,
    /// The values of the features from which the features of the ranks are made.
    pair_cosine: f32,
    problem_cosine: f32,
    name_agrees: f32,
}

impl PairMeasure {
    /// Measures the records at two different positions.
    pub(super) fn of(collection: &EventCollection, model: &EventModel, a: u32, b: u32) -> Self {
        use EventFeature as F;
        let features = unranked_features(collection.parts(a), collection.parts(b));
        Self {
            log_odds: model.log_odds(&features),
            pair_cosine: features.get(F::PairCosine) as f32,
            problem_cosine: features.get(F::ProblemCosine) as f32,
            name_agrees: features.get(F::NameAgrees) as f32,
        }
    }

    /// Returns the log-odds of the pair. O(features).
    pub(super) fn ranked(&self, model: &EventModel, ranks: &PairRanks) -> f64 {
        use EventFeature as F;
        let mut features = EventFeatures([0.0; EVENT_FEATURE_COUNT]);
        features.set(F::PairCosine, f64::from(self.pair_cosine));
        features.set(F::ProblemCosine, f64::from(self.problem_cosine));
        features.set(F::NameAgrees, f64::from(self.name_agrees));
        let without = model.log_odds(&features);
        set_ranks(&mut features, ranks);
        self.log_odds + model.log_odds(&features) - without
    }
}

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

    fn cosine(&self, a: &CodeSet, b: &CodeSet) -> f64 {
        share(self.squared, f64::from(a.norm) * f64::from(b.norm))
    }

    fn containment(&self, a: &CodeSet, b: &CodeSet) -> f64 {
        share(self.shared, f64::from(a.total.min(b.total)))
    }
}

/// The names of places and organisations in two records.
#[derive(Clone, Debug, Default)]
struct NameOverlap {
    /// The rarest common name.
    rarest: f64,
    /// Sum of the rarities of the common names.
    shared: f64,
    /// Sums of the rarities of the names that only one record contains.
    only: [f64; 2],
    /// The common names, as written in either record.
    names: Vec<String>,
}

impl NameOverlap {
    fn add(&mut self, side: usize, from: &EventRecord, weights: &[NameWeight], to: &EventRecord) {
        for weight in weights {
            let object = &from.objects()[usize::from(weight.object)];
            let rarity = f64::from(weight.rarity);
            if contains_name(to, object) {
                self.rarest = self.rarest.max(rarity);
                // A common name is found from both sides.
                self.shared += rarity / 2.0;
                self.names.push(object.name.clone());
            } else {
                self.only[side] += rarity;
            }
        }
    }
}

/// True if a record contains a name, a similar name, or the part of the name before its ending.
pub(super) fn contains_name(record: &EventRecord, object: &NamedObject) -> bool {
    let core = object.core();
    record.named.names(object) || core.chars().nth(CORE_CHARS - 1).is_some() && record.named.holds_core(object, core)
}

/// Returns the features of two different records, without those of the ranks. The order does not matter. O(length + names × names).
pub(super) fn unranked_features(a: RecordParts<'_>, b: RecordParts<'_>) -> EventFeatures {
    let records = [a.record, b.record];
    let weighed = [a.weighed, b.weighed];
    let mut features = EventFeatures([0.0; EVENT_FEATURE_COUNT]);
    set_text(&mut features, weighed);
    let names = set_names(&mut features, records, weighed);
    set_words(&mut features, weighed, &names);
    set_problems(&mut features, weighed);
    set_numbers(&mut features, records);
    set_circumstances(&mut features, records);
    set_products(&mut features, records);
    features
}

fn set_text(features: &mut EventFeatures, [a, b]: [&WeighedRecord; 2]) {
    use EventFeature as F;
    let pairs = CodeOverlap::of(&a.pairs, &b.pairs);
    features.set(F::PairCosine, pairs.cosine(&a.pairs, &b.pairs));
    features.set(F::PairContainment, pairs.containment(&a.pairs, &b.pairs));
    let triples = CodeOverlap::of(&a.triples, &b.triples);
    let rare_runs = triples.rarest.iter().sum::<f64>() / triples.rarest.len() as f64;
    features.set(F::RarestRun, triples.rarest[0]);
    features.set(F::RareRuns, rare_runs);
    features.set(F::VeryRareRuns, rare_runs - VERY_RARE);
    let title = CodeOverlap::of(&a.title, &b.title);
    let titles = f64::from(a.title.total + b.title.total) - title.shared;
    features.set(F::TitleSimilarity, share(title.shared, titles));
    features.set(F::TitleContained, part_in(&a.title, &b.pairs).max(part_in(&b.title, &a.pairs)));
}

/// Returns the part of a title that is in a text.
fn part_in(title: &CodeSet, text: &CodeSet) -> f64 {
    share(CodeOverlap::of(title, text).shared, f64::from(title.total))
}

/// Sets the features that depend on other records. `PairCosine`, `ProblemCosine` and `NameAgrees` must be set.
pub(super) fn set_ranks(features: &mut EventFeatures, ranks: &PairRanks) {
    use EventFeature as F;
    let cosine = features.get(F::PairCosine);
    let [one, other] = ranks.inverse_ranks;
    features.set(F::AboveBackground, cosine - ranks.background);
    features.set(F::ShareOfBest, share(cosine, ranks.best));
    features.set(F::BetterRank, one.max(other));
    features.set(F::WorseRank, one.min(other));
    features.set(F::RankAndProblem, one.min(other) * features.get(F::ProblemCosine));
    features.set(F::RankAndName, one.min(other) * features.get(F::NameAgrees));
}

fn set_words(features: &mut EventFeatures, [a, b]: [&WeighedRecord; 2], names: &NameOverlap) {
    use EventFeature as F;
    let words = CodeOverlap::of(&a.words, &b.words);
    features.set(F::WordCosine, words.cosine(&a.words, &b.words));
    // A common name of n rarities takes about as many rarities of words.
    let problem = (words.shared - names.shared).max(0.0);
    let shorter = (f64::from(a.words.total.min(b.words.total)) - names.shared).max(problem);
    features.set(F::ProblemWords, share(problem, shorter));
    features.set(F::ProblemWeight, problem.ln_1p());
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
    let has_no_common = f64::from(u8::from(names.names.is_empty()));
    let smaller = names.only[0].min(names.only[1]).min(2.0);
    features.set(F::NameAgrees, names.rarest);
    features.set(F::NamesAgree, names.shared.min(2.0));
    features.set(F::NoCommonName, has_no_common);
    features.set(F::NamesDiffer, smaller);
    features.set(F::OnlyOtherNames, smaller * has_no_common);
    features.set(F::OtherNames, names.only[0].max(names.only[1]).min(3.0));
    names
}

fn set_problems(features: &mut EventFeatures, [a, b]: [&WeighedRecord; 2]) {
    use EventFeature as F;
    let mut cosine = 0.0;
    for own in &a.problems {
        let other = b.problems.iter().find(|other| other.kind == own.kind);
        cosine += other.map_or(0.0, |other| f64::from(own.weight) * f64::from(other.weight));
    }
    let both = !a.problems.is_empty() && !b.problems.is_empty();
    features.set(F::ProblemCosine, cosine);
    features.set(F::MainProblemAgrees, f64::from(u8::from(both && main_problem(a) == main_problem(b))));
    features.set(F::ProblemsDiffer, f64::from(u8::from(both && cosine == 0.0)));
    let lack = if both { (OTHER_PROBLEM - cosine).max(0.0) } else { 0.0 };
    features.set(F::NameWithOtherProblem, features.get(F::NameAgrees) * lack);
}

/// Returns the strongest kind of problem of a record.
fn main_problem(record: &WeighedRecord) -> Option<u8> {
    let strongest = record.problems.iter().max_by(|a, b| a.weight.total_cmp(&b.weight));
    strongest.map(|strongest| strongest.kind)
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

fn set_numbers(features: &mut EventFeatures, [a, b]: [&EventRecord; 2]) {
    use EventFeature as F;
    use ValueComparison::{Agree, Differ};
    features.set(F::NumbersAgree, kinds_with(a, b, &ADDRESS_NUMBERS, Agree).min(2.0));
    features.set(F::NumbersDiffer, kinds_with(a, b, &ADDRESS_NUMBERS, Differ).min(2.0));
    features.set(F::IdentifiersAgree, kinds_with(a, b, &IDENTIFIERS, Agree).min(1.0));
    features.set(F::IdentifiersDiffer, kinds_with(a, b, &IDENTIFIERS, Differ).min(1.0));
    features.set(F::ReferencesAgree, kinds_with(a, b, &[ObjectKind::Number], Agree));
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
    let days = days_apart(a, b);
    features.set(F::DaysApart, days.map_or(0.5, |days| days.ln_1p() / LOG_DAYS));
    features.set(F::YearsApart, days.map_or(0.0, |days| days / YEAR_DAYS));
    let same_petitioner = a.petitioner.is_some() && a.petitioner == b.petitioner;
    features.set(F::SamePetitioner, f64::from(u8::from(same_petitioner)));
    let shorter = f64::from(a.length.min(b.length));
    let longer = f64::from(a.length.max(b.length));
    features.set(F::Shortness, HALF_SHORT / (HALF_SHORT + shorter));
    features.set(F::LengthRatio, ((longer + 1.0) / (shorter + 1.0)).ln());
}

/// Returns the days between two records; `None` if a time is missing.
fn days_apart(a: &EventRecord, b: &EventRecord) -> Option<f64> {
    Some(a.time?.abs_diff(b.time?) as f64 / DAY_S)
}

fn set_products(features: &mut EventFeatures, [a, b]: [&EventRecord; 2]) {
    use EventFeature as F;
    let products = [
        (F::NameAndProblem, F::NameAgrees, F::ProblemCosine),
        (F::NameAndWords, F::NameAgrees, F::ProblemWords),
        (F::NameAndTitle, F::NameAgrees, F::TitleContained),
        (F::RunsAndProblem, F::RareRuns, F::ProblemCosine),
        (F::RareRunsAndProblem, F::VeryRareRuns, F::ProblemCosine),
        (F::ShortAndAlike, F::Shortness, F::PairCosine),
        (F::NamelessAndAlike, F::NoCommonName, F::PairCosine),
        (F::OtherNamesAndAlike, F::NamesDiffer, F::PairCosine),
        (F::OtherNamesAndProblem, F::OnlyOtherNames, F::ProblemCosine),
        (F::OtherNumbersAndAlike, F::NumbersDiffer, F::PairCosine),
    ];
    for (product, one, other) in products {
        features.set(product, features.get(one) * features.get(other));
    }
    let nearness = days_apart(a, b).map_or(0.0, |days| 1.0 / (1.0 + days / WEEK_DAYS));
    features.set(F::NameAndNearness, features.get(F::NameAgrees) * nearness);
}

fn share(part: f64, of: f64) -> f64 {
    if of > 0.0 { (part / of).min(1.0) } else { 0.0 }
}
