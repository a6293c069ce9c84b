//! The languages of people, and the choice between them.

use std::ffi::OsStr;
use std::sync::OnceLock;

/// A language of the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Language {
    /// Simplified Chinese. The default, because the offices use it
    #[default]
    #[value(name = "zh", alias = "zh-CN")]
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

    /// Returns the language of a tag; the region in the tag is ignored.
    pub fn parse(tag: &str) -> Option<Self> {
        let primary = tag.trim().split(['-', '_']).next().unwrap_or_default();
        Self::ALL.into_iter().find(|language| language.tag().split('-').next() == Some(&primary.to_ascii_lowercase()))
    }

    /// Returns the supported language that a client prefers most, from its header `Accept-Language`.
    pub fn accepted(header: &str) -> Option<Self> {
        let weighed = header.split(',').filter_map(|range| {
            let (tag, parameters) = range.split_once(';').unwrap_or((range, ""));
            let quality = parameters.trim().strip_prefix("q=").map_or(Some(1.0), |q| q.trim().parse::<f32>().ok())?;
            Some((Self::parse(tag)?, quality)).filter(|_| quality > 0.0)
        });
        // If several languages have the same weight, the first language counts.
        let best = weighed.fold(None, |best: Option<(Self, f32)>, (language, quality)| match best {
            Some((_, before)) if before >= quality => best,
            _ => Some((language, quality)),
        });
        best.map(|(language, _)| language)
    }

    /// Returns the language of the command line for the variables that `variable` reads: `DOPPEL_LANG`, otherwise the locale. A variable
    /// that is empty counts as unset, and any locale other than Chinese means English.
    pub fn of_environment(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Self {
        let mut values = ["DOPPEL_LANG", "LC_ALL", "LC_MESSAGES", "LANG"].into_iter().map(variable);
        let chosen = values.next().flatten().and_then(|value| value.to_str().and_then(Self::parse));
        let locale = values.flatten().find(|value| !value.is_empty());
        chosen.or_else(|| Self::of_locale(locale.as_deref()?)).unwrap_or(Self::English)
    }

    fn of_locale(locale: &OsStr) -> Option<Self> {
        Self::parse(locale.to_str()?.split('.').next()?)
    }
}

/// The language of the command line.
static OF_PROCESS: OnceLock<Language> = OnceLock::new();

/// Sets the language of the command line, once.
pub fn set_of_process(language: Language) {
    let _ = OF_PROCESS.set(language);
}

/// Returns the language of the command line; English if nobody has set one.
pub fn of_process() -> Language {
    OF_PROCESS.get().copied().unwrap_or(Language::English)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(Language::accepted(header), language, "{header}");
        }
        assert_eq!(Language::default(), Language::Chinese);
    }

    #[test]
    fn the_environment_chooses_the_language_of_the_command_line() {
        let table: [(&[(&str, &str)], Language); 7] = [
            (&[], Language::English),
            (&[("LANG", "zh_CN.UTF-8")], Language::Chinese),
            (&[("LANG", "zh_CN.UTF-8"), ("LC_ALL", "C.UTF-8")], Language::English),
            (&[("LANG", "de_DE.UTF-8"), ("LC_MESSAGES", "zh_CN")], Language::Chinese),
            (&[("LANG", "zh_CN.UTF-8"), ("DOPPEL_LANG", "en")], Language::English),
            (&[("LANG", "C"), ("DOPPEL_LANG", "zh-CN")], Language::Chinese),
            (&[("LC_ALL", ""), ("LANG", "zh_CN.UTF-8")], Language::Chinese),
        ];
        for (variables, expected) in table {
            let language = Language::of_environment(|name| {
                variables.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into())
            });
            assert_eq!(language, expected, "{variables:?}");
        }
    }
}
