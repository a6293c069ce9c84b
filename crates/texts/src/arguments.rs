//! The option `--lang`. It applies to every command, and is read before the command line is parsed, because it decides the language of help
//! and errors.

use std::ffi::{OsStr, OsString};

use crate::Language;

const OPTION: &str = "--lang";

/// A command line without `--lang`, and its language.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandLine {
    pub arguments: Vec<OsString>,
    /// The last language that `--lang` names; `None` without `--lang`.
    pub language: Option<Language>,
}

impl CommandLine {
    /// Removes `--lang` from the arguments. A `--lang` without a known language stays, so that the parser refuses it. Everything after `--`
    /// stays.
    pub fn new(given: impl Iterator<Item = OsString>) -> Self {
        let mut given = given.peekable();
        let mut read = Self { arguments: Vec::new(), language: None };
        while let Some(argument) = given.next() {
            let value = match argument.to_str() {
                Some("--") => {
                    read.arguments.push(argument);
                    read.arguments.extend(given);
                    break;
                }
                Some(OPTION) => given.peek().and_then(|value| known(value)),
                Some(text) => text.strip_prefix(OPTION).and_then(|rest| rest.strip_prefix('=')).and_then(of_text),
                None => None,
            };
            match value {
                Some(language) => {
                    read.language = Some(language);
                    if argument == OPTION {
                        given.next();
                    }
                }
                None => read.arguments.push(argument),
            }
        }
        read
    }
}

fn known(value: &OsStr) -> Option<Language> {
    value.to_str().and_then(of_text)
}

/// Returns the language that a value of `--lang` names.
fn of_text(value: &str) -> Option<Language> {
    parse(value).ok()
}

/// Parses a value of `--lang`.
///
/// # Errors
/// The names of all languages.
pub fn parse(value: &str) -> Result<Language, String> {
    Language::parse(value).ok_or_else(|| "give zh-CN or en".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_is_taken_out_of_the_command_line_wherever_it_stands() {
        let table: [(&[&str], &[&str], Option<Language>); 7] = [
            (&["--lang", "zh-CN", "import", "a"], &["import", "a"], Some(Language::Chinese)),
            (&["import", "--lang=zh", "a"], &["import", "a"], Some(Language::Chinese)),
            (&["import", "a", "--lang", "en"], &["import", "a"], Some(Language::English)),
            (&["import", "--lang"], &["import", "--lang"], None),
            (&["import", "--lang", "fr"], &["import", "--lang", "fr"], None),
            (&["import", "--", "--lang", "en"], &["import", "--", "--lang", "en"], None),
            (&["import", "--language", "en"], &["import", "--language", "en"], None),
        ];
        for (given, arguments, language) in table {
            let arguments = arguments.iter().map(OsString::from).collect();
            assert_eq!(CommandLine::new(given.iter().map(OsString::from)), CommandLine { arguments, language });
        }
    }
}
