//! Channels: the schemes with their parameters, in the form in which a client writes them. [`crate::schemes`] describes
//! the schemes, one file each. [`super::ranges`] holds the allowed values.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The hash function that maps a feature to 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum HashFunction {
    /// CityHash64 v1.1.
    #[default]
    City64,
    /// First half of MurmurHash3 x64 128.
    Murmur3,
    /// BKDR with a finaliser.
    Bkdr,
    /// The multiplicative hash of the usual public Simhash code.
    Classic,
}

/// The weight of a feature. `tf`: term frequency. `tf_len`: term frequency times the length of the word in
/// characters. `tf_idf`: term frequency times inverse document frequency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Weighting {
    /// Term frequency.
    #[default]
    Tf,
    /// Term frequency times the length of the word in characters.
    TfLen,
    /// Term frequency times inverse document frequency. The document frequencies do not change within a generation.
    TfIdf,
}

/// The rule that selects the words of a record as its lookup keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "`keys` is a number from 1 to 64, \"all\" or \"prefix\"")]
pub enum TermKeys {
    /// This number of the rarest words, 1 to 64.
    Rarest(u32),
    /// A rule.
    Named(NamedKeys),
}

/// A rule that selects words as keys. With both rules every match is found. `all`: every word; the most common word
/// then determines the speed. `prefix`: as many of the rarest words as necessary so that all matches share one of
/// them; `scam` does not have this rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum NamedKeys {
    /// Every word. Every match is found, but the most common word decides the speed.
    All,
    /// The rarest words, as many as needed so that every match shares one of them. Every match is found with fewer
    /// keys. `scam` cannot have this rule, because no such number exists for it.
    Prefix,
}

/// The punctuation marks at which a feature code takes characters. `full_stop`: the mark 。 alone. `sentence`: the
/// marks 。 ! ?. `any`: all characters that are not letters, digits or white space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Marks {
    /// Only 。
    FullStop,
    /// The marks 。 ! ?
    #[default]
    Sentence,
    /// Every mark: all characters that are not letters, digits or white space.
    Any,
}

/// The shingles that the sample of a text prefers. `any`: the shingles with the smallest hashes, so that all shingles
/// have the same chance. `rare`: shingles of text that is rare in the collection, because very common keys would
/// propose almost every record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Prefer {
    /// The shingles with the smallest hashes. All shingles have the same chance.
    #[default]
    Any,
    /// Shingles of text that is rare by the generation's document frequencies. Keys of very common text would propose
    /// almost every record.
    Rare,
}

impl Prefer {
    fn is_any(&self) -> bool {
        *self == Self::Any
    }
}

/// The way in which the first fingerprints become lookup keys. `all`: all of them together form one key. `any`: each
/// of them, with its position, is one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum LeadKey {
    /// One key of all first fingerprints together.
    #[default]
    All,
    /// One key of each first fingerprint and its position.
    Any,
}

/// The places at which a text is cut into segments: `"clause"`, `"sentence"` or `"lines:n"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Split {
    /// At every character that is neither a letter nor a digit.
    #[default]
    Clause,
    /// After each of 。 ! ?
    Sentence,
    /// After this number of lines, 1 to 1,000.
    Lines(u32),
}

impl TryFrom<String> for Split {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let lines = text.strip_prefix("lines:").and_then(|number| number.parse().ok());
        match (text.as_str(), lines) {
            ("clause", _) => Ok(Self::Clause),
            ("sentence", _) => Ok(Self::Sentence),
            (_, Some(lines @ 1..=1000)) => Ok(Self::Lines(lines)),
            _ => Err("`split` is \"clause\", \"sentence\" or \"lines:n\" with n from 1 to 1000".into()),
        }
    }
}

impl From<Split> for String {
    fn from(split: Split) -> Self {
        split.to_string()
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clause => f.write_str("clause"),
            Self::Sentence => f.write_str("sentence"),
            Self::Lines(lines) => write!(f, "lines:{lines}"),
        }
    }
}

/// Declares the parameters of schemes. Each scheme gets a struct; its fields, their documentation and their defaults
/// are in one place.
macro_rules! parameters {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $kind:ty = $default:expr,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $kind,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    )*};
}

parameters! {
    /// Parameters of the `simhash` scheme.
    SimhashParams {
        /// The hash function for features.
        hash: HashFunction = HashFunction::City64,
        /// The weight of a feature.
        weighting: Weighting = Weighting::Tf,
        /// Maximum Hamming distance of a match in bits, 0 to 15.
        radius: u8 = 3,
    }

    /// Parameters of the `shingle` scheme.
    ShingleParams {
        /// Number of units (a Han character, or a run of letters or digits) in a shingle, 1 to 32.
        units: u8 = 8,
        /// Minimum and maximum number of hashes that are kept for a record, 1 to 256. Between these limits, one hash
        /// is kept for every 25 units.
        keep: [u16; 2] = [12, 96],
        /// If given, the sample has every hash that is divisible by this number instead, 2 to 64.
        #[serde(rename = "mod", skip_serializing_if = "Option::is_none")]
        modulus: Option<u8> = None,
        /// Minimum resemblance of the samples, 0 to 1. 0 accepts any common shingle, which is useful if matches are
        /// verified.
        t: f64 = 0.1,
        /// The shingles that are preferred. It cannot be combined with `mod`.
        #[serde(skip_serializing_if = "Prefer::is_any")]
        prefer: Prefer = Prefer::Any,
    }

    /// Parameters of the `md5` scheme.
    Md5Params {
        /// True if only letters and digits count.
        strip: bool = false,
    }

    /// Parameters of the `multi_md5` scheme.
    MultiMd5Params {
        /// Number of the first fingerprints that form the lookup key, 1 to 8. A record needs at least this number of
        /// words.
        pre: u32 = 3,
        /// Records match if they have more common fingerprints than this number, 0 to 1,000.
        t: u32 = 5,
        /// Minimum share of the shorter list of fingerprints that the longer list also contains, 0 to 1.
        share: f64 = 0.5,
        /// Fields whose whole values come before the words: at most 8, each of role `text`, `whole` or `url`.
        lead_fields: Vec<String> = Vec::new(),
        /// The way in which the first fingerprints become lookup keys.
        key: LeadKey = LeadKey::All,
    }

    /// Parameters of the `super_shingle` scheme (DSC-SS).
    SuperShingleParams {
        /// Number of units in a shingle, 1 to 32.
        units: u8 = 3,
        /// Number of minima, 1 to 256.
        perms: u32 = 84,
        /// Number of groups of minima, 1 to 256. It must divide `perms`.
        groups: u32 = 21,
        /// Minimum number of equal groups of a match, 1 to `groups`.
        agree: u32 = 2,
    }

    /// Parameters of the `minhash` scheme.
    MinhashParams {
        /// Number of units in a shingle, 1 to 32.
        units: u8 = 3,
        /// Number of bands, 1 to 128. Each band is a lookup key.
        bands: u32 = 42,
        /// Number of minima in a band, 1 to 16.
        rows: u32 = 3,
        /// Minimum share of equal minima, 0 to 1.
        t: f64 = 0.3,
    }

    /// Parameters of the `i_match` scheme.
    IMatchParams {
        /// Minimum normalised inverse document frequency of a used word, 0 to 1.
        low: f64 = 0.5,
        /// Maximum normalised inverse document frequency of a used word, `low` to 1.
        high: f64 = 0.8,
        /// Minimum number of used words, 1 to 100. A record with fewer used words gets no signature.
        min: u32 = 5,
        /// Number of additional signatures, each of which leaves out a random third of the words, 0 to 20.
        lexicons: u32 = 0,
    }

    /// Parameters of the `segments` scheme.
    SegmentsParams {
        /// The places at which the text is cut: `clause`, `sentence` or `lines:n` with n from 1 to 1,000.
        #[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^(clause|sentence|lines:[0-9]+)$"))]
        split: Split = Split::Clause,
        /// Minimum number of units in a segment, 1 to 100. Shorter segments are left out.
        min_units: u32 = 8,
        /// Minimum number of common segments of a match, 1 to 1,000.
        agree: u32 = 1,
        /// Minimum share of the segments of the shorter record that both records contain, 0 to 1.
        share: f64 = 0.5,
    }

    /// Parameters of the `tianwang1` scheme.
    AbstractParams {
        /// Length of the compared beginning of the text, 32 to 4,096. An ASCII character counts 1, any other
        /// character 2.
        bytes: u32 = 512,
    }

    /// Parameters of the `tianwang2` and `tianwang5` schemes.
    KeywordParams {
        /// Number of the most frequent words that are used, 3 to 50.
        n: u32 = 5,
    }

    /// Parameters of the `tianwang3` and `tianwang4` schemes.
    KeywordVectorParams {
        /// Number of the most frequent words that are used, 3 to 50.
        n: u32 = 5,
        /// Upper limit of the distance between matching records, 0 to 1.
        epsilon: f64 = 0.05,
    }

    /// Parameters of the `feature_code` scheme (特征码).
    FeatureCodeParams {
        /// Number of Han characters that are taken before and after each mark, 2 to 16.
        k: u32 = 5,
        /// The punctuation marks at which characters are taken.
        marks: Marks = Marks::Sentence,
        /// Minimum share of the shorter code that the other code also contains, 0 to 1.
        share: f64 = 0.3,
    }

    /// Parameters of the `vsm` scheme (vector space model).
    VsmParams {
        /// Weight of a word.
        weighting: Weighting = Weighting::Tf,
        /// Minimum cosine, 0 to 1.
        t: f64 = 0.75,
        /// The words that are keys: a number of the rarest words (1 to 64), `all`, or `prefix`.
        keys: TermKeys = TermKeys::Rarest(8),
    }

    /// Parameters of the `boolean` scheme.
    BooleanParams {
        /// Minimum Dice coefficient, 0 to 1.
        t: f64 = 0.6,
        /// The words that are keys: a number of the rarest words (1 to 64), `all`, or `prefix`.
        keys: TermKeys = TermKeys::Rarest(8),
    }

    /// Parameters of the `scam` scheme.
    ScamParams {
        /// Upper limit of r + 1/r, where r is the ratio of the counts of a word in both texts; above 2 and at most
        /// 10.
        epsilon: f64 = 2.5,
        /// Minimum similarity, 0 to 1.
        t: f64 = 0.8,
        /// The words that are keys: a number of the rarest words (1 to 64), or `all`.
        keys: TermKeys = TermKeys::Rarest(8),
    }
}

/// Declares the schemes. Each scheme is a variant with its name in JSON.
macro_rules! channels {
    ($($(#[$doc:meta])* $variant:ident($params:ty) = $name:literal,)*) => {
        /// A scheme with its parameters. A scheme is a method that proposes candidates.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(tag = "scheme")]
        #[cfg_attr(feature = "openapi", schema(rename_all = "snake_case"))]
        pub enum Channel {
            $($(#[$doc])* #[serde(rename = $name)] $variant($params),)*
        }

        /// The names of all schemes, as in JSON.
        pub const SCHEMES: &[&str] = &[$($name),*];

        impl Channel {
            /// Returns the name of the scheme, as in JSON.
            pub fn scheme(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                }
            }

            /// Returns every scheme with its defaults, in the order of [`SCHEMES`].
            pub fn all_defaults() -> Vec<Self> {
                vec![$(Self::$variant(Default::default())),*]
            }
        }
    };
}

channels! {
    /// Compares 64-bit Simhash fingerprints by their Hamming distance.
    Simhash(SimhashParams) = "simhash",
    /// Compares sampled shingles (DSC).
    Shingle(ShingleParams) = "shingle",
    /// Compares the MD5 of all fields.
    Md5(Md5Params) = "md5",
    /// Compares the MD5 of every word. The first of these fingerprints are lookup keys.
    MultiMd5(MultiMd5Params) = "multi_md5",
    /// Compares groups of minima of the hashes of shingles (DSC-SS).
    SuperShingle(SuperShingleParams) = "super_shingle",
    /// Compares minima of the hashes of shingles, grouped in bands (MinHash).
    Minhash(MinhashParams) = "minhash",
    /// Compares one hash of all words that are neither common nor rare.
    IMatch(IMatchParams) = "i_match",
    /// Compares hashes of clauses, sentences or lines.
    Segments(SegmentsParams) = "segments",
    /// Compares the MD5 of the beginning of the text.
    Tianwang1(AbstractParams) = "tianwang1",
    /// Compares the MD5 of the most frequent words, ordered by frequency.
    Tianwang2(KeywordParams) = "tianwang2",
    /// Like `tianwang2`, but also compares the frequencies of the words.
    Tianwang3(KeywordVectorParams) = "tianwang3",
    /// Like `tianwang5`, but also compares the frequencies of the words.
    Tianwang4(KeywordVectorParams) = "tianwang4",
    /// Compares the MD5 of the most frequent words, in any order.
    Tianwang5(KeywordParams) = "tianwang5",
    /// Compares codes of the characters next to the ends of sentences (feature codes, 特征码).
    FeatureCode(FeatureCodeParams) = "feature_code",
    /// Compares word vectors by their cosine.
    Vsm(VsmParams) = "vsm",
    /// Compares the sets of words by their Dice coefficient.
    Boolean(BooleanParams) = "boolean",
    /// Compares the counts of words that occur about equally often in both texts (SCAM).
    Scam(ScamParams) = "scam",
}

impl Channel {
    /// True if the scheme needs the ends of lines.
    pub fn reads_lines(&self) -> bool {
        matches!(self, Self::Segments(SegmentsParams { split: Split::Lines(_), .. }))
    }
}

/// The position of a channel in the settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelPosition(pub u8);

impl ChannelPosition {
    /// Returns the position as an index into a list with one element for each channel.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Maximum Hamming distance of near fingerprints, 0 to 15 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Radius(pub u8);

/// The part of the `simhash` channel that a lookup needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimhashChannel {
    /// The position of the channel.
    pub position: ChannelPosition,
    /// The radius of the channel.
    pub radius: Radius,
}

impl SimhashChannel {
    /// Returns the first channel of the settings, with a radius of this number of bits.
    pub const fn first(bits: u8) -> Self {
        Self { position: ChannelPosition(0), radius: Radius(bits) }
    }
}
