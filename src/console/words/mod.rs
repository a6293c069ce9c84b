//! The texts of the interface. Each language has a table, which is a constant of the same type. A text that is missing in a language is
//! therefore an error at compile time.
//!
//! Tables contain no data: a text with data is a function. The terms are those of the regulations (初件, 重件, 同人, 相同信访事项, 相关信访事项, 筛重).

mod en;
mod files;
mod groups;
mod quality;
mod tables;
mod work;
mod zh;

use axum::http::{HeaderMap, header};

pub use files::*;
pub use groups::*;
pub use quality::*;
pub use tables::*;
pub use work::*;

/// A language of the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    /// Simplified Chinese: that of the offices, and so the one that is taken where nothing is said
    #[default]
    #[value(name = "zh")]
    Chinese,
    /// English
    #[value(name = "en")]
    English,
}

impl Language {
    /// All languages, in the order in which the pages offer them.
    pub const ALL: [Self; 2] = [Self::Chinese, Self::English];

    /// Returns the tag of the language (BCP 47).
    pub fn tag(self) -> &'static str {
        match self {
            Self::Chinese => "zh-CN",
            Self::English => "en",
        }
    }

    /// Returns the name of the language in the language itself.
    pub fn own_name(self) -> &'static str {
        match self {
            Self::Chinese => "中文",
            Self::English => "English",
        }
    }

    /// Returns the texts in the language.
    pub fn words(self) -> &'static Words {
        match self {
            Self::Chinese => &zh::WORDS,
            Self::English => &en::WORDS,
        }
    }

    /// Returns the language of a tag; the region in the tag is ignored.
    pub fn parse(tag: &str) -> Option<Self> {
        let primary = tag.trim().split(['-', '_']).next().unwrap_or_default();
        Self::ALL.into_iter().find(|language| language.tag().split('-').next() == Some(&primary.to_ascii_lowercase()))
    }

    /// Returns the supported language that the browser prefers most.
    pub fn accepted(headers: &HeaderMap) -> Option<Self> {
        let accepted = headers.get(header::ACCEPT_LANGUAGE)?.to_str().ok()?;
        let weighed = accepted.split(',').filter_map(|range| {
            let (tag, parameters) = range.split_once(';').unwrap_or((range, ""));
            let quality = parameters.trim().strip_prefix("q=").map_or(Some(1.0), |q| q.trim().parse::<f32>().ok())?;
            Some((Self::parse(tag)?, quality)).filter(|_| quality > 0.0)
        });
        // If several languages have the same weight, the first counts.
        let best = weighed.fold(None, |best: Option<(Self, f32)>, (language, quality)| match best {
            Some((_, before)) if before >= quality => best,
            _ => Some((language, quality)),
        });
        best.map(|(language, _)| language)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(text: &str) -> Option<Language> {
        Language::accepted(&HeaderMap::from_iter([(header::ACCEPT_LANGUAGE, text.parse().unwrap())]))
    }

    #[test]
    fn the_best_language_of_ours_is_taken() {
        let table = [
            ("en-US,en;q=0.9", Some(Language::English)),
            ("zh-TW, en;q=0.5", Some(Language::Chinese)),
            ("fr, en;q=0.3, zh;q=0.7", Some(Language::Chinese)),
            ("en, zh", Some(Language::English)),
            ("zh;q=0, en;q=0.1", Some(Language::English)),
            ("fr", None),
            ("*", None),
            ("", None),
        ];
        for (header, language) in table {
            assert_eq!(accepted(header), language, "{header}");
        }
        assert_eq!(Language::accepted(&HeaderMap::new()), None);
        assert_eq!(Language::default(), Language::Chinese);
    }
}
