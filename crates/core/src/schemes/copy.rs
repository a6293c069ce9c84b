//! Equal copies: records whose texts are the same except for punctuation, white space, contacts and noise.
//!
//! This stage is not a channel. It belongs to every collection that removes noise and keeps texts; its position is after the channels and
//! the addresses. The signature is the *copy key*: a hash of the letters, digits and Han characters of the content in order. Digits and
//! single Chinese numerals count as equal. Titles are left out if the content is long enough to identify a matter alone, because people
//! give several titles to one letter. The key is complete: records with equal keys are candidates, however short or common their texts are.
//! Records with too few features are also signed.

use super::hash::city64;
use super::reading::Reading;
use super::{Scheme, Signature, common, hashes};
use crate::collection::{Role, Settings};
use crate::text::shingles::{counts, digit_form};
use crate::text::{Document, DocumentField};

/// The name of the stage in [`Match::via`](crate::verdict::Match::via).
pub const NAME: &str = crate::verdict::VIA_COPY;

/// Minimum length of the content for a key without the title, in characters. A shorter content ("same as above") has no meaning without its
/// title.
const CONTENT_CHARS: usize = 20;

/// The scheme that matches equal copies, see the module.
#[derive(Clone, Debug)]
pub struct EqualCopy {
    /// For each field of the settings, true if the field is a title.
    titles: Vec<bool>,
}

impl EqualCopy {
    /// Creates the stage of a collection with these settings.
    pub fn new(settings: &Settings) -> Self {
        Self { titles: settings.titles() }
    }
}

/// True if records of a collection with these settings have copy keys.
pub fn applies(settings: &Settings) -> bool {
    settings.text.remove_noise && settings.keeps_text()
}

impl EqualCopy {
    /// Returns the copy key of a document; `None` if its text contains no letter, digit or Han character. O(length).
    pub fn key(&self, document: &Document) -> Option<u64> {
        let content = compact(self.texts(document, false));
        let text = match content.chars().nth(CONTENT_CHARS - 1) {
            Some(_) => content,
            None => compact(document.fields.iter().filter(is_text).map(|field| &*field.text)),
        };
        (!text.is_empty()).then(|| city64(&text))
    }

    /// Returns the titles of a document, one after the other.
    pub fn title(&self, document: &Document) -> String {
        self.texts(document, true).collect::<Vec<_>>().join("\n")
    }

    /// Returns the texts of the fields that are titles, or of the fields that are not.
    fn texts<'a>(&'a self, document: &'a Document, titles: bool) -> impl Iterator<Item = &'a str> {
        let fields = document.fields.iter().filter(is_text);
        let fields = fields.filter(move |field| {
            let is_title = self.titles.get(usize::from(field.position)).copied().unwrap_or_default();
            is_title == titles
        });
        fields.map(|field| &*field.text)
    }
}

fn is_text(field: &&DocumentField) -> bool {
    matches!(field.role, Role::Text | Role::Whole)
}

impl Scheme for EqualCopy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sign(&self, reading: &Reading<'_>) -> Option<Signature> {
        hashes(self.key(reading.document()).into_iter().collect())
    }

    fn keys(&self, signature: &Signature, keys: &mut Vec<u64>) {
        if let Signature::Hashes(key) = signature {
            keys.extend_from_slice(key);
        }
    }

    fn compare(&self, a: &Signature, b: &Signature) -> bool {
        matches!((a, b), (Signature::Hashes(a), Signature::Hashes(b)) if common(a, b) > 0)
    }

    fn key_implies_match(&self) -> bool {
        true
    }
}

/// Returns the letters, digits and Han characters of some texts, one after the other. A sign that joins two digits to one number is kept:
/// 1.5 is not 15.
fn compact<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut compact = String::new();
    for text in texts {
        let mut chars = text.chars().peekable();
        let mut before = ' ';
        while let Some(c) = chars.next() {
            let joins = matches!(c, '.' | '-' | '/' | ':') && before.is_ascii_digit();
            if counts(c) || joins && chars.peek().is_some_and(char::is_ascii_digit) {
                compact.push(digit_form(c));
            }
            before = c;
        }
    }
    compact
}

#[cfg(test)]
mod tests {
    use super::super::brute_force::PAIRS;
    use super::super::tests::{document, reading};
    use super::*;

    fn key(title: &str, content: &str) -> Option<Signature> {
        let document = document(&[(Role::Text, title), (Role::Text, content)]);
        EqualCopy { titles: vec![true, false] }.sign(&reading(&document, &PAIRS, &[1, 1]))
    }

    #[test]
    fn punctuation_white_space_numerals_and_titles_do_not_change_the_key() {
        let letter = "河口新区三号路的污水井盖破损已经半个多月,请尽快更换。";
        assert_eq!(key("井盖", letter), key("再次反映", "河口新区3号路的污水井盖破损 已经半个多月;请尽快更换"));
        assert_ne!(key("井盖", letter), key("井盖", &letter.replace('三', "四")));
    }

    #[test]
    fn a_short_content_counts_with_its_title_and_punctuation_has_no_key() {
        assert_eq!(key("停电", "小区停电。物业不管。"), key("停电", "小区停电;物业不管;"));
        assert_ne!(key("鹤鸣小区停水", "同上"), key("梧桐湾停电", "同上"));
        assert_eq!(key("", "停电"), key("", "停电!"));
        assert_eq!(key("", "!?"), None);
    }
}
