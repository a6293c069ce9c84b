//! The texts of the interface: one table per language, each a constant of one type, so that a text that is missing in a language
//! does not compile.
//!
//! Data is never a part of a table; what a text says of it is a function. The words of the trade are those of the regulations
//! (初件, 重件, 同人, 相同信访事项, 相关信访事项, 筛重).

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
    /// All of them, in the order in which they are offered.
    pub const ALL: [Self; 2] = [Self::Chinese, Self::English];

    /// Its tag (BCP 47).
    pub fn tag(self) -> &'static str {
        match self {
            Self::Chinese => "zh-CN",
            Self::English => "en",
        }
    }

    /// What it calls itself.
    pub fn own_name(self) -> &'static str {
        match self {
            Self::Chinese => "中文",
            Self::English => "English",
        }
    }

    /// Its texts.
    pub fn words(self) -> &'static Words {
        match self {
            Self::Chinese => &zh::WORDS,
            Self::English => &en::WORDS,
        }
    }

    /// The language that a tag is of, whatever the region.
    pub fn parse(tag: &str) -> Option<Self> {
        let primary = tag.trim().split(['-', '_']).next().unwrap_or_default();
        Self::ALL.into_iter().find(|language| language.tag().split('-').next() == Some(&primary.to_ascii_lowercase()))
    }

    /// The first of ours among those that a browser accepts, best first.
    pub fn accepted(headers: &HeaderMap) -> Option<Self> {
        let accepted = headers.get(header::ACCEPT_LANGUAGE)?.to_str().ok()?;
        let weighed = accepted.split(',').filter_map(|range| {
            let (tag, parameters) = range.split_once(';').unwrap_or((range, ""));
            let quality = parameters.trim().strip_prefix("q=").map_or(Some(1.0), |q| q.trim().parse::<f32>().ok())?;
            Some((Self::parse(tag)?, quality)).filter(|_| quality > 0.0)
        });
        // The first of several that weigh the same.
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
