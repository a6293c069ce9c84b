//! The settings by which text becomes words.

use serde::{Deserialize, Serialize};

use crate::facts::Place;

/// The method that cuts text into words. `jieba`: words of a dictionary. `chars2`, `chars3`: overlapping sequences of
/// two or three characters.
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

/// The words that are left out because they have no meaning for the comparison: the name of a list, or the words
/// themselves.
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

/// The settings that cut text into words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TextSettings {
    /// The method that cuts text into words.
    pub segmenter: SegmenterKind,
    /// True if jieba also recognises words that are not in its dictionary.
    pub hmm: bool,
    /// Words that are added to the dictionary.
    pub user_words: Vec<String>,
    /// Words that are left out.
    pub stop_words: StopWords,
    /// Groups of words with one meaning. Before features are weighted, each word is replaced with the first word of
    /// its group.
    pub synonyms: Vec<Vec<String>>,
    /// True to read traditional characters as simplified characters.
    pub simplify: bool,
    /// True to remove contacts, links, file names, hashtags, signatures, greetings and closing phrases before texts
    /// are compared. Records that differ only in these parts match, even if they are short or common. If a channel of
    /// the collection reads lines, these parts are not removed. The preset `default` has the value true.
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub remove_noise: bool,
    /// The office's list of places, with their aliases. When names in texts are compared, an alias counts as the name
    /// of its place.
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
