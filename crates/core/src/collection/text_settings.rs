//! The settings by which text becomes words.

use serde::{Deserialize, Serialize};

use crate::facts::Place;

/// The way in which text is cut into words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SegmenterKind {
    /// Dictionary words (jieba).
    #[default]
    Jieba,
    /// Runs of two characters.
    Chars2,
    /// Runs of three characters.
    Chars3,
}

/// Words that carry no meaning and are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum StopWords {
    /// A list by its name. The only name is `"default"`.
    Named(StopList),
    /// Exactly the words of this list.
    These(Vec<String>),
}

/// The lists of stop words that are part of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StopList {
    /// Particles, pronouns and the polite phrases of petitions.
    Default,
}

/// The settings by which text becomes words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TextSettings {
    /// The way in which text is cut.
    pub segmenter: SegmenterKind,
    /// True if jieba guesses words that are not in its dictionary.
    pub hmm: bool,
    /// Words that are added to the dictionary.
    pub user_words: Vec<String>,
    /// Words that are left out.
    pub stop_words: StopWords,
    /// Groups of words with one meaning. Before weighting, each word is replaced by the first word of its group.
    pub synonyms: Vec<Vec<String>>,
    /// True if traditional characters are read as simplified ones.
    pub simplify: bool,
    /// True if contacts, links, file names, hashtags, signatures, greetings and closing phrases are removed before
    /// texts are compared. Records that are equal except for these parts match, however short or common they are. A
    /// collection in which a channel reads lines does not remove these parts. The preset `default` does.
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub remove_noise: bool,
    /// The places that the office knows, with their aliases. In names of texts an alias counts as the name of its
    /// place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false, max_items = 10000))]
    pub places: Vec<Place>,
}

impl Default for TextSettings {
    fn default() -> Self {
        Self {
            segmenter: SegmenterKind::Jieba,
            hmm: false,
            user_words: Vec::new(),
            stop_words: StopWords::Named(StopList::Default),
            synonyms: Vec::new(),
            simplify: true,
            remove_noise: false,
            places: Vec::new(),
        }
    }
}
