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

/// The largest value of a feature.
pub const MAX_VALUE: f64 = 4.0;

/// Weight at which the features of the shared weight and of the longest run are one half, in shingles that are rare in
/// the collection. Two short enquiries share about this weight; more shared text is hardly more evidence.
const HALF_SHARED_WEIGHT: f64 = 8.0;

/// Minimum plain Jaccard similarity of texts that are nearly the same. In such texts, only the differences can
/// distinguish two matters on one form.
pub const NEAR_JACCARD: f64 = 0.6;
/// Number of shingles of a text at which [`Feature::NearShortness`] is one half.
const HALF_SHORT: f64 = 8.0;
/// Maximum number of shingles of a text in which a replaced word or number counts in full.
const SHORT_SHINGLES: f64 = 60.0;

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
    /// Texts that are not near: Jaccard similarity of the shingle sets; every shingle has the same weight.
    FarJaccard "far_jaccard" For;
    /// Texts that are not near: share of the shorter text's shingles that the longer text contains. A second letter
    /// that quotes the first one contains it.
    FarContainment "far_containment" For;
    /// Texts that are not near: Jaccard similarity of the shingle sets weighted by rarity. Rare shared text concerns
    /// the matter, common text belongs to the form.
    FarWeightedJaccard "far_weighted_jaccard" For;
    /// Texts that are not near: weighted containment, for the same reason.
    FarWeightedContainment "far_weighted_containment" For;
    /// Texts that are not near: the weight of the longest run of text that both texts contain, r / (r + 8). Letters
    /// about one matter have a passage in common; letters on one form share many short phrases.
    FarLongestRun "far_longest_run" For;
    /// Texts that are not near: the weight of the names that both texts contain (places, roads, organisations), at most
    /// 1, because the first common name is nearly all of the evidence.
    FarNamesAgree "far_names_agree" For;
    /// Texts that are not near: 1 if both texts name the same bus line, metro line or vehicle.
    FarIdentifiersAgree "far_identifiers_agree" For;
    /// Texts that are not near: 1 if both texts cite the same order or petition.
    FarReferencesAgree "far_references_agree" For;
    /// Texts that are not near: 1 if both texts name districts, but no common one.
    FarDistrictsDiffer "far_districts_differ" Against;
    /// Texts that are not near: the weight of the names that only one of them contains, the smaller value of the two
    /// sides. The longer of two letters may always contain more names.
    FarNamesDiffer "far_names_differ" Against;
    /// Texts that are not near: the number of names that only one of them contains, the smaller number of the two
    /// sides.
    FarOtherNames "far_other_names" Against;
    /// Texts that are not near: 1 if both texts name lines or vehicles, but no common one.
    FarIdentifiersDiffer "far_identifiers_differ" Against;
    /// Texts that are not near: number of places with another number, at most 4.
    FarNumbersReplaced "far_numbers_replaced" Against;
    /// Texts that are not near: sum of the weights of the places with other words of two to eight characters; the
    /// sum is at most 4. The weight of a place is the weight of its words.
    FarWordsReplaced "far_words_replaced" Against;
    /// Texts that are not near: number of places where such words are part of a name that only one of the texts
    /// contains, at most 4.
    FarNamesReplaced "far_names_replaced" Against;
    /// 1 if the texts are nearly the same, see [`NEAR_JACCARD`]. Copies of one text share nearly all of it, however
    /// common the text is in the collection.
    Near "near" For;
    /// Texts that are nearly the same: weighted containment.
    NearWeightedContainment "near_weighted_containment" For;
    /// Texts that are nearly the same: the weight of the shared shingles, s / (s + 8).
    NearSharedWeight "near_shared_weight" For;
    /// Texts that are nearly the same: 8 / (n + 8) for n shingles of the shorter text. A few words in common are no
    /// matter in common.
    NearShortness "near_shortness" Against;
    /// Texts that are nearly the same: 1 if each has a name that the other lacks and the text is short, less in a long
    /// text. On a form the name identifies the matter, however common the name is. A long letter also contains many
    /// other names.
    NearOtherNames "near_other_names" Against;
    /// Texts that are nearly the same: 1 if both texts name lines or vehicles, but no common one.
    NearIdentifiersDiffer "near_identifiers_differ" Against;
    /// Texts that are nearly the same: 1 if both contain numbers of one kind, but no common one.
    NearNumbersDiffer "near_numbers_differ" Against;
    /// Texts that are nearly the same: 1 if each contains a number of one kind that the other does not, although they
    /// share another number.
    NearNumbersSubstituted "near_numbers_substituted" Against;
    /// Texts that are nearly the same: share of the changes that are other numbers, in a short text. In a long text a
    /// number is more often an amount or a date.
    NearNumbersReplaced "near_numbers_replaced" Against;
    /// Texts that are nearly the same: share of the changes that are other words of two to eight characters, by the
    /// weight of the words, in a short text. On a form these words name the object. A single other character is taken
    /// for a typing error.
    NearWordsReplaced "near_words_replaced" Against;
    /// Texts that are nearly the same: places where such words are part of a name that only one of the texts contains;
    /// 1 if there are two places, because a letter names its object more than once.
    NearNamesReplaced "near_names_replaced" Against;
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
        let alignment = Alignment::most_favourable(overlap);
        let near = || Self::near(overlap, contrast, &alignment);
        (Self::far(overlap, contrast, &alignment), (overlap.plain.jaccard >= NEAR_JACCARD).then(near))
    }

    fn far(overlap: &Overlap, contrast: &Contrast, alignment: &Alignment) -> Self {
        let Overlap { plain, shared, a, b, fewer: _ } = *overlap;
        let mut features = Self::default();
        features.set(Feature::FarJaccard, plain.jaccard);
        features.set(Feature::FarContainment, plain.containment);
        features.set(Feature::FarWeightedJaccard, share(shared, a + b - shared));
        features.set(Feature::FarWeightedContainment, share(shared, a.min(b)));
        let longest_run = alignment.longest_run.min(shared);
        features.set(Feature::FarLongestRun, longest_run / (longest_run + HALF_SHARED_WEIGHT));
        features.set(Feature::FarNamesAgree, contrast.names_agree.min(1.0));
        features.set(Feature::FarIdentifiersAgree, f64::from(contrast.identifiers_agree));
        features.set(Feature::FarReferencesAgree, f64::from(contrast.references_agree));
        features.set(Feature::FarDistrictsDiffer, f64::from(contrast.districts_differ));
        features.set(Feature::FarNamesDiffer, contrast.names_differ);
        features.set(Feature::FarOtherNames, f64::from(contrast.other_names));
        features.set(Feature::FarIdentifiersDiffer, f64::from(contrast.identifiers_differ));
        features.set(Feature::FarNumbersReplaced, f64::from(alignment.numbers));
        features.set(Feature::FarWordsReplaced, alignment.words);
        features.set(Feature::FarNamesReplaced, f64::from(alignment.names));
        features
    }

    fn near(overlap: &Overlap, contrast: &Contrast, alignment: &Alignment) -> Self {
        let Overlap { shared, a, b, fewer, plain: _ } = *overlap;
        let shortness = (SHORT_SHINGLES / fewer.max(1) as f64).min(1.0);
        let replaced = |places: f64| places.min(1.0) * alignment.share * shortness;
        let mut features = Self::default();
        features.set(Feature::Near, 1.0);
        features.set(Feature::NearWeightedContainment, share(shared, a.min(b)));
        features.set(Feature::NearSharedWeight, shared / (shared + HALF_SHARED_WEIGHT));
        features.set(Feature::NearShortness, HALF_SHORT / (fewer as f64 + HALF_SHORT));
        features.set(Feature::NearOtherNames, f64::from(contrast.other_names.min(1)) * shortness);
        features.set(Feature::NearIdentifiersDiffer, f64::from(contrast.identifiers_differ));
        features.set(Feature::NearNumbersDiffer, f64::from(contrast.numbers_differ.min(1)));
        features.set(Feature::NearNumbersSubstituted, f64::from(contrast.numbers_substituted.min(1)));
        features.set(Feature::NearNumbersReplaced, replaced(f64::from(alignment.numbers)));
        features.set(Feature::NearWordsReplaced, replaced(alignment.words));
        features.set(Feature::NearNamesReplaced, f64::from(alignment.names.min(2)) / 2.0);
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

fn share(shared: f64, of: f64) -> f64 {
    if of > 0.0 { (shared / of).min(1.0) } else { 0.0 }
}
