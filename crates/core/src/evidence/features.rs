//! The features of a pair of records: the numbers that are the input of the evidence model.
//!
//! Each feature is a number of at least 0 and at most [`MAX_VALUE`]. Its [`Sign`] is the direction in which it may
//! count: the fit keeps the coefficient on that side of 0. So bounds of the features give a bound of the probability
//! ([`PairFeatures::bounds`]).

use crate::similarity::{Alignment, Contrast, Overlap};

/// The values of the `N` features of a pair, in a fixed order.
pub trait FeatureVector<const N: usize> {
    /// Returns all values.
    fn values(&self) -> &[f64; N];
}

/// The name and the sign of a feature, as the file of a model and the fit need them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureRule {
    /// The name in the file of a model.
    pub name: &'static str,
    /// The direction in which the feature may count.
    pub sign: Sign,
}

/// The version of the values of the features. Raise it with each change of a constant or rule of a feature, so that
/// coefficients that were learned before are not applied to other values.
pub(super) const FEATURE_VERSION: u32 = 5;

/// The largest value of a feature.
pub const MAX_VALUE: f64 = 4.0;

/// Weight of shingles, in rare ones, that is added to the weight of the shorter text when the share of it is measured.
/// A text whose shingles together weigh half a rare one, and which another text contains, has a share of one half.
const ADDED_WEIGHT: f64 = 0.5;
/// Number of shingles of the shorter text at which half of the plain measures remains. Most of a text of a few words can
/// be in another text by chance.
const HALF_PLAIN: f64 = 6.0;
/// Weight of names, in rare ones, that is added to the weight of all names when the share of the different ones is
/// measured. A name that nearly all records contain (weight .01) is then a sixth of a full difference.
const ADDED_NAMES: f64 = 0.05;

/// Value of other identifiers. No pair of the labelled sets with other lines or plates concerns one matter, so the
/// pull towards zero alone bounds the coefficient. A larger value weakens this pull.
const OTHER_IDENTIFIERS: f64 = MAX_VALUE;
/// Minimum plain Jaccard similarity of texts that are nearly the same. In such texts, only the differences can
/// distinguish two matters on one form.
pub const NEAR_JACCARD: f64 = 0.6;
/// Number of shingles of a text at which [`Feature::NearShortness`] is one half.
const HALF_SHORT: f64 = 8.0;
/// Maximum number of shingles of a text in which another name counts in full, if the texts are nearly the same.
const FULL_NAME_SHINGLES: f64 = 60.0;
/// Maximum number of shingles of a text in which another number counts in full, if the texts are not near.
const FULL_NUMBER_SHINGLES: f64 = 30.0;
/// Maximum number of places with another number that are counted in texts that are not near.
const MOST_NUMBERS_REPLACED: u8 = 2;

/// The direction in which a feature may count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A larger value never lowers the probability.
    For,
    /// A larger value never raises the probability.
    Against,
}

/// Defines an enumeration of features: each has a variant, a name in files, and a sign.
macro_rules! features {
    ($enumeration:ident; $($(#[$doc:meta])* $variant:ident $name:literal $sign:ident;)*) => {
        /// A feature of a pair. The comment of each feature gives the reason why the feature should matter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $enumeration {
            $($(#[$doc])* $variant,)*
        }

        impl $enumeration {
            /// All features, in the order of their values.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name in the file of a model and in answers.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the direction in which the feature may count.
            pub fn sign(self) -> $crate::evidence::Sign {
                match self { $(Self::$variant => $crate::evidence::Sign::$sign,)* }
            }

            /// The names and signs of all features, in the order of their values.
            pub const RULES: [$crate::evidence::FeatureRule; Self::ALL.len()] =
                [$($crate::evidence::FeatureRule { name: $name, sign: $crate::evidence::Sign::$sign },)*];
        }
    };
}

pub(crate) use features;

features! {
    Feature;
    /// For texts that are not near copies: Jaccard similarity of the shingle sets, less in short texts.
    FarJaccard "far_jaccard" For;
    /// For texts that are not near copies: share of the shorter text's shingles that the longer text contains, less in short texts.
    /// A second letter that quotes the first one contains it.
    FarContainment "far_containment" For;
    /// For texts that are not near copies: the same share, weighted by rarity. Rare shared text concerns the matter, common text
    /// belongs to the form. The share is less if the text has little weight.
    FarWeightedContainment "far_weighted_containment" For;
    /// For texts that are not near copies: the weight of the names that both texts contain (places, roads, organisations), at most
    /// 1, because the first common name is nearly all of the evidence; times the weighted share of the common text. The
    /// same name in another context is another matter in the same place.
    FarNamesAgree "far_names_agree" For;
    /// For texts that are not near copies: the weight of the names that both texts contain, as a share of the weight of all names,
    /// times the weighted share of the common text. A second call about one place names this place and no other.
    FarNamesShared "far_names_shared" For;
    /// For texts that are not near copies: 1 if both texts name the same bus line, metro line or vehicle.
    FarIdentifiersAgree "far_identifiers_agree" For;
    /// For texts that are not near copies: 1 if both texts cite the same order or petition.
    FarReferencesAgree "far_references_agree" For;
    /// For texts that are not near copies: 1 if both texts contain the same contact, name the same rare object and report the same kinds of
    /// problems, less if many texts contain the contact or the name. A person who calls again uses other words for the same
    /// problem. The contact alone is no evidence, because one person writes about several matters.
    FarContactAndName "far_contact_and_name" For;
    /// For texts that are not near copies: 1 if both texts name districts of one level, but no common one of this level.
    FarDistrictsDiffer "far_districts_differ" Against;
    /// For texts that are not near copies: the weight of the names that only one of them contains, the smaller value of the two
    /// sides, as a share of the weight of these names and of the common names. The longer of two letters may always
    /// contain more names, and two lists of stops may differ in some of them.
    FarNamesDiffer "far_names_differ" Against;
    /// For texts that are not near copies: 4 if both texts name lines or vehicles, but no common one.
    FarIdentifiersDiffer "far_identifiers_differ" Against;
    /// For texts that are not near copies: 1 if each names another line first. A letter names its subject first.
    FarSubjectsDiffer "far_subjects_differ" Against;
    /// For texts that are not near copies: number of places with another number, at most 2, less in a long text.
    FarNumbersReplaced "far_numbers_replaced" Against;
    /// For texts that are not near copies: share of the changes that replace a name that only one of the texts contains.
    FarNamesReplaced "far_names_replaced" Against;
    /// For texts that are not near copies: share of the changes that replace a word of one kind of problem with a word of another kind.
    FarProblemsReplaced "far_problems_replaced" Against;
    /// 1 if the texts are nearly the same, see [`NEAR_JACCARD`]. Copies of one text share nearly all of it, however
    /// common the text is in the collection.
    Near "near" For;
    /// For near copies: weighted containment.
    NearWeightedContainment "near_weighted_containment" For;
    /// For near copies: 8 / (n + 8) for n shingles of the shorter text. A few words in common are no
    /// matter in common.
    NearShortness "near_shortness" Against;
    /// For near copies: 1 if each has a name that the other lacks and the text is short, less in a long
    /// text. On a form the name identifies the matter, however common the name is. A long letter also contains many
    /// other names.
    NearOtherNames "near_other_names" Against;
    /// For near copies: 4 if both texts name lines or vehicles, but no common one.
    NearIdentifiersDiffer "near_identifiers_differ" Against;
    /// For near copies: 1 if both contain numbers of one kind, but no common one.
    NearNumbersDiffer "near_numbers_differ" Against;
    /// For near copies: 1 if each contains a number of one kind that the other does not, although they
    /// share another number.
    NearNumbersSubstituted "near_numbers_substituted" Against;
    /// For near copies: share of the changes that are other numbers. If nothing else has changed, the
    /// number distinguishes two matters on one form. A letter that was written again also has other changes.
    NearNumbersReplaced "near_numbers_replaced" Against;
    /// For near copies: share of the changes that replace a name that only one of the texts contains, for
    /// the same reason.
    NearNamesReplaced "near_names_replaced" Against;
    /// For near copies: share of the changes that replace a word of one kind of problem with a word of another kind: the lift and the
    /// water pipe of one building.
    NearProblemsReplaced "near_problems_replaced" Against;
}

/// Number of features.
pub const FEATURE_COUNT: usize = Feature::ALL.len();

/// The features of a pair, in the order of [`Feature::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PairFeatures([f64; FEATURE_COUNT]);

impl PairFeatures {
    /// Returns the features of two texts. O(1).
    pub fn of(overlap: &Overlap, contrast: &Contrast, alignment: &Alignment) -> Self {
        match overlap.plain.jaccard >= NEAR_JACCARD {
            true => Self::near(overlap, contrast, alignment),
            false => Self::far(overlap, contrast, alignment),
        }
    }

    /// Returns two bounds of the features of two texts. One of them is at least as favourable in every feature as
    /// [`PairFeatures::of`], if `overlap` is at least the true overlap, and `contrast` agrees no less and differs no
    /// more than the true contrast. The bounds do not tell whether the texts are near. The second bound is `None` if
    /// the texts cannot be near. O(1).
    pub fn bounds(overlap: &Overlap, contrast: &Contrast) -> (Self, Option<Self>) {
        let alignment = Alignment::default();
        let near = (overlap.plain.jaccard >= NEAR_JACCARD).then(|| Self::near(overlap, contrast, &alignment));
        (Self::far(overlap, contrast, &alignment), near)
    }

    fn far(overlap: &Overlap, contrast: &Contrast, alignment: &Alignment) -> Self {
        let Overlap { plain, fewer, .. } = *overlap;
        let size = fewer as f64 / (fewer as f64 + HALF_PLAIN);
        let containment = weighted_containment(overlap);
        let names = contrast.names_agree + contrast.names_differ + ADDED_NAMES;
        let numbers = f64::from(alignment.numbers.min(MOST_NUMBERS_REPLACED));
        let mut features = Self::default();
        features.set(Feature::FarJaccard, plain.jaccard * size);
        features.set(Feature::FarContainment, plain.containment * size);
        features.set(Feature::FarWeightedContainment, containment);
        features.set(Feature::FarNamesAgree, contrast.names_agree.min(1.0) * containment);
        features.set(Feature::FarNamesShared, contrast.names_agree / names * containment);
        features.set(Feature::FarIdentifiersAgree, f64::from(contrast.identifiers_agree));
        features.set(Feature::FarReferencesAgree, f64::from(contrast.references_agree));
        let contact_and_name = contrast.contacts_agree * contrast.names_agree.min(1.0);
        features.set(Feature::FarContactAndName, contact_and_name * contrast.problems_agree);
        features.set(Feature::FarDistrictsDiffer, f64::from(contrast.districts_differ));
        features.set(Feature::FarNamesDiffer, contrast.names_differ / names);
        features.set(Feature::FarIdentifiersDiffer, identifiers_differ(contrast));
        features.set(Feature::FarSubjectsDiffer, f64::from(contrast.subjects_differ));
        features.set(Feature::FarNumbersReplaced, numbers * shortness(overlap, FULL_NUMBER_SHINGLES));
        features.set(Feature::FarNamesReplaced, alignment.name_share);
        features.set(Feature::FarProblemsReplaced, alignment.problem_share);
        features
    }

    fn near(overlap: &Overlap, contrast: &Contrast, alignment: &Alignment) -> Self {
        let mut features = Self::default();
        features.set(Feature::Near, 1.0);
        features.set(Feature::NearWeightedContainment, weighted_containment(overlap));
        features.set(Feature::NearShortness, HALF_SHORT / (overlap.fewer as f64 + HALF_SHORT));
        features.set(
            Feature::NearOtherNames,
            f64::from(contrast.other_names.min(1)) * shortness(overlap, FULL_NAME_SHINGLES),
        );
        features.set(Feature::NearIdentifiersDiffer, identifiers_differ(contrast));
        features.set(Feature::NearNumbersDiffer, f64::from(contrast.numbers_differ.min(1)));
        features.set(Feature::NearNumbersSubstituted, f64::from(contrast.numbers_substituted.min(1)));
        features.set(Feature::NearNumbersReplaced, alignment.number_share);
        features.set(Feature::NearNamesReplaced, alignment.name_share);
        features.set(Feature::NearProblemsReplaced, alignment.problem_share);
        features
    }

    /// Creates the features with these values, in the order of [`Feature::ALL`].
    pub fn from_values(values: [f64; FEATURE_COUNT]) -> Self {
        Self(values.map(|value| value.clamp(0.0, MAX_VALUE)))
    }

    /// Returns the value of a feature.
    pub fn get(&self, feature: Feature) -> f64 {
        self.0[feature as usize]
    }

    /// Returns all values, in the order of [`Feature::ALL`].
    pub fn values(&self) -> &[f64; FEATURE_COUNT] {
        &self.0
    }

    fn set(&mut self, feature: Feature, value: f64) {
        self.0[feature as usize] = value.clamp(0.0, MAX_VALUE);
    }
}

impl FeatureVector<FEATURE_COUNT> for PairFeatures {
    fn values(&self) -> &[f64; FEATURE_COUNT] {
        &self.0
    }
}

/// Returns the share of the lighter text that both texts contain, by weight.
fn weighted_containment(overlap: &Overlap) -> f64 {
    overlap.shared / (overlap.a.min(overlap.b) + ADDED_WEIGHT)
}

fn identifiers_differ(contrast: &Contrast) -> f64 {
    if contrast.identifiers_differ { OTHER_IDENTIFIERS } else { 0.0 }
}

/// Returns 1 for a text of at most `full` shingles, less for a longer one.
fn shortness(overlap: &Overlap, full: f64) -> f64 {
    (full / overlap.fewer.max(1) as f64).min(1.0)
}
