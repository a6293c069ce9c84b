//! Channels: the schemes with their parameters, as a client writes them. What they mean is in [`crate::schemes`], one file
//! each; which values are allowed is in [`super::ranges`].

use std::fmt;

use serde::{Deserialize, Serialize};

/// The function that turns a feature into 64 bits.
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

/// What a feature counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Weighting {
    /// Term frequency.
    #[default]
    Tf,
    /// Term frequency times the word's length in characters.
    TfLen,
    /// Term frequency times inverse document frequency, frozen per generation.
    TfIdf,
}

/// Which of a record's words are its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "`keys` is a number from 1 to 64, \"all\" or \"prefix\"")]
pub enum TermKeys {
    /// The rarest so many, 1 to 64.
    Rarest(u32),
    /// A rule.
    Named(NamedKeys),
}

/// Rules by which words become keys: both find every match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum NamedKeys {
    /// Every word: complete, and as slow as the commonest word.
    All,
    /// The rarest words as far as a match must share one of them: complete, and fewer. Not for `scam`, where no such
    /// bound exists.
    Prefix,
}

/// Which marks a feature code stands around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Marks {
    /// 。
    FullStop,
    /// 。 ! ?
    #[default]
    Sentence,
    /// Every mark: whatever is neither letter, digit nor white space.
    Any,
}

/// Which shingles of a text a sample holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Prefer {
    /// Those with the smallest hashes: any is as likely as any other.
    #[default]
    Any,
    /// Those of rare text, as far as the generation's document frequencies know: keys of what everybody writes would propose
    /// everybody.
    Rare,
}

impl Prefer {
    fn is_any(&self) -> bool {
        *self == Self::Any
    }
}

/// How a lookup key is made of the first fingerprints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum LeadKey {
    /// All of them together: one key.
    #[default]
    All,
    /// Each with its position: as many keys.
    Any,
}

/// Where a text is cut into segments: `"clause"`, `"sentence"` or `"lines:n"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Split {
    /// At everything that is neither letter nor digit.
    #[default]
    Clause,
    /// After 。 ! ?
    Sentence,
    /// After so many lines, 1 to 1,000.
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

/// Declares the parameters of schemes: a struct each, with its fields, their documentation and their defaults in one place.
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
        /// Hash of a feature.
        hash: HashFunction = HashFunction::City64,
        /// Weight of a feature.
        weighting: Weighting = Weighting::Tf,
        /// Greatest Hamming distance of a match, 0 to 15.
        radius: u8 = 3,
    }

    /// Parameters of the `shingle` scheme.
    ShingleParams {
        /// Units (a Han character, or a run of letters or digits) in a shingle, 1 to 32.
        units: u8 = 8,
        /// Fewest and most hashes kept of a record, 1 to 256; between them one for every 25 units.
        keep: [u16; 2] = [12, 96],
        /// Keep every hash that is 0 modulo this instead, 2 to 64.
        #[serde(rename = "mod", skip_serializing_if = "Option::is_none")]
        modulus: Option<u8> = None,
        /// Least resemblance of the samples; 0 accepts any shared shingle, which makes sense under verification.
        t: f64 = 0.1,
        /// Which shingles are kept first; not with `mod`.
        #[serde(skip_serializing_if = "Prefer::is_any")]
        prefer: Prefer = Prefer::Any,
    }

    /// Parameters of the `md5` scheme.
    Md5Params {
        /// Whether only letters and digits count.
        strip: bool = false,
    }

    /// Parameters of the `multi_md5` scheme.
    MultiMd5Params {
        /// How many of the first fingerprints make the lookup key, 1 to 8. A record has at least as many words.
        pre: u32 = 3,
        /// A match shares more fingerprints than this, 0 to 1,000.
        t: u32 = 5,
        /// Least share of the shorter list that is shared, 0 to 1.
        share: f64 = 0.5,
        /// Fields whose whole values come before the words, at most 8, each of role text, whole or url.
        lead_fields: Vec<String> = Vec::new(),
        /// Whether the first fingerprints are looked up together or each alone.
        key: LeadKey = LeadKey::All,
    }

    /// Parameters of the `super_shingle` scheme (DSC-SS).
    SuperShingleParams {
        /// Units in a shingle, 1 to 32.
        units: u8 = 3,
        /// Number of minima, 1 to 256.
        perms: u32 = 84,
        /// Number of groups of minima, 1 to 256; divides `perms`.
        groups: u32 = 21,
        /// A match has at least so many equal groups, 1 to `groups`.
        agree: u32 = 2,
    }

    /// Parameters of the `minhash` scheme.
    MinhashParams {
        /// Units in a shingle, 1 to 32.
        units: u8 = 3,
        /// Number of bands, 1 to 128: the lookup keys.
        bands: u32 = 42,
        /// Minima in a band, 1 to 16.
        rows: u32 = 3,
        /// Least share of equal minima, 0 to 1.
        t: f64 = 0.3,
    }

    /// Parameters of the `i_match` scheme.
    IMatchParams {
        /// Least normalised inverse document frequency of a word that counts, 0 to 1.
        low: f64 = 0.5,
        /// Greatest one, `low` to 1.
        high: f64 = 0.8,
        /// Fewer words that count than this give no signature, 1 to 100.
        min: u32 = 5,
        /// Number of further signatures, each without a random third of the words, 0 to 20.
        lexicons: u32 = 0,
    }

    /// Parameters of the `segments` scheme.
    SegmentsParams {
        /// Where the text is cut: `clause`, `sentence` or `lines:n` with n from 1 to 1,000.
        #[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^(clause|sentence|lines:[0-9]+)$"))]
        split: Split = Split::Clause,
        /// Segments of fewer units are left out, 1 to 100.
        min_units: u32 = 8,
        /// A match shares at least so many segments, 1 to 1,000.
        agree: u32 = 1,
        /// Least share of the segments of the record with fewer that is shared, 0 to 1.
        share: f64 = 0.5,
    }

    /// Parameters of the `tianwang1` scheme.
    AbstractParams {
        /// Length of the beginning that is compared, 32 to 4,096: a character of ASCII counts 1, any other 2.
        bytes: u32 = 512,
    }

    /// Parameters of the `tianwang2` and `tianwang5` schemes.
    KeywordParams {
        /// Number of words, 3 to 50: the most frequent ones.
        n: u32 = 5,
    }

    /// Parameters of the `tianwang3` and `tianwang4` schemes.
    KeywordVectorParams {
        /// Number of words, 3 to 50: the most frequent ones.
        n: u32 = 5,
        /// The distance of a match is below this, 0 to 1.
        epsilon: f64 = 0.05,
    }

    /// Parameters of the `feature_code` scheme (特征码).
    FeatureCodeParams {
        /// Han characters taken on either side of a mark, 2 to 16.
        k: u32 = 5,
        /// The marks.
        marks: Marks = Marks::Sentence,
        /// Least share of the shorter code that is shared, 0 to 1.
        share: f64 = 0.3,
    }

    /// Parameters of the `vsm` scheme (vector space model).
    VsmParams {
        /// Weight of a word.
        weighting: Weighting = Weighting::Tf,
        /// Least cosine, 0 to 1.
        t: f64 = 0.75,
        /// The words that are keys: the rarest so many (1 to 64), `all`, or `prefix`.
        keys: TermKeys = TermKeys::Rarest(8),
    }

    /// Parameters of the `boolean` scheme.
    BooleanParams {
        /// Least Dice coefficient, 0 to 1.
        t: f64 = 0.6,
        /// The words that are keys: the rarest so many (1 to 64), `all`, or `prefix`.
        keys: TermKeys = TermKeys::Rarest(8),
    }

    /// Parameters of the `scam` scheme.
    ScamParams {
        /// How far the counts of a word may differ, above 2, at most 10.
        epsilon: f64 = 2.5,
        /// Least similarity, 0 to 1.
        t: f64 = 0.8,
        /// The words that are keys: the rarest so many (1 to 64), or `all`.
        keys: TermKeys = TermKeys::Rarest(8),
    }
}

/// Declares the schemes: a variant each, its name in JSON following from it.
macro_rules! channels {
    ($($(#[$doc:meta])* $variant:ident($params:ty) = $name:literal,)*) => {
        /// A scheme with its parameters: one way by which candidates are proposed.
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
            /// The scheme's name, as in JSON.
            pub fn scheme(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                }
            }

            /// Every scheme with its defaults, in the order of [`SCHEMES`].
            pub fn all_defaults() -> Vec<Self> {
                vec![$(Self::$variant(Default::default())),*]
            }
        }
    };
}

channels! {
    /// 64-bit Simhash within a Hamming radius.
    Simhash(SimhashParams) = "simhash",
    /// Sampled shingles (DSC).
    Shingle(ShingleParams) = "shingle",
    /// MD5 of all fields.
    Md5(Md5Params) = "md5",
    /// MD5 of every word, looked up by the first ones.
    MultiMd5(MultiMd5Params) = "multi_md5",
    /// Groups of minima of shingles (DSC-SS).
    SuperShingle(SuperShingleParams) = "super_shingle",
    /// Minima of shingles in bands.
    Minhash(MinhashParams) = "minhash",
    /// One hash of the words that are neither common nor rare.
    IMatch(IMatchParams) = "i_match",
    /// Hashes of clauses, sentences or lines.
    Segments(SegmentsParams) = "segments",
    /// MD5 of the beginning of the text.
    Tianwang1(AbstractParams) = "tianwang1",
    /// MD5 of the most frequent words in their order.
    Tianwang2(KeywordParams) = "tianwang2",
    /// As `tianwang2`, and their frequencies.
    Tianwang3(KeywordVectorParams) = "tianwang3",
    /// As `tianwang5`, and their frequencies.
    Tianwang4(KeywordVectorParams) = "tianwang4",
    /// MD5 of the most frequent words, whatever their order.
    Tianwang5(KeywordParams) = "tianwang5",
    /// What stands around the ends of sentences (特征码).
    FeatureCode(FeatureCodeParams) = "feature_code",
    /// Cosine of word vectors.
    Vsm(VsmParams) = "vsm",
    /// Dice coefficient of word sets.
    Boolean(BooleanParams) = "boolean",
    /// Words that occur about as often in both.
    Scam(ScamParams) = "scam",
}

impl Channel {
    /// Whether the scheme asks where lines end.
    pub fn reads_lines(&self) -> bool {
        matches!(self, Self::Segments(SegmentsParams { split: Split::Lines(_), .. }))
    }
}

/// The position of a channel in the settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelPosition(pub u8);

impl ChannelPosition {
    /// As an index into what there is one of for each channel.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Greatest Hamming distance at which fingerprints are near, 0 to 15 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Radius(pub u8);

/// What of the `simhash` channel a lookup needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimhashChannel {
    /// Its position.
    pub position: ChannelPosition,
    /// Its radius.
    pub radius: Radius,
}

impl SimhashChannel {
    /// The first channel of the settings, with a radius of so many bits.
    pub const fn first(bits: u8) -> Self {
        Self { position: ChannelPosition(0), radius: Radius(bits) }
    }
}
