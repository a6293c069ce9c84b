//! The text of a record that is sent to a model.

use std::fmt::Write as _;

use doppel_core::collection::{Role, Settings};
use doppel_core::facts::{FactReader, contact_and_noise_spans};
use doppel_core::record::Row;
use doppel_core::schemes::hash::city64;
use doppel_core::text::{Reader, RemovedNoise};

/// Reads the texts of the rows of one collection.
pub struct EmbeddingTexts {
    reader: Reader,
    max_chars: usize,
}

impl EmbeddingTexts {
    /// Makes a reader for a collection with these validated settings.
    pub fn new(settings: &Settings, max_chars: usize) -> Self {
        Self { reader: Reader::new(settings), max_chars }
    }

    /// Returns the text of a row for the model: its fields of role `text` in normal form, without contacts and noise (whatever the settings
    /// are), cut to `max_chars` characters. The text is empty if the row has no text or cannot be read. O(bytes of the row).
    pub fn text(&self, row: &Row) -> String {
        let document = self.reader.read(row).unwrap_or_default();
        let mut text = String::new();
        for field in document.fields.iter().filter(|field| field.role == Role::Text) {
            let masked = without_contacts(field.whole());
            if !masked.is_empty() {
                let separator = if text.is_empty() { "" } else { "\n" };
                // Writing to a string does not fail.
                let _ = write!(text, "{separator}{masked}");
            }
        }
        first_chars(&text, self.max_chars).to_owned()
    }
}

/// Returns the hash of a text, which shows whether the text has changed.
pub(crate) fn text_hash(text: &str) -> u64 {
    city64(text)
}

/// Returns the first characters of a text, at most `count`.
pub(crate) fn first_chars(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(end, _)| &text[..end])
}

/// Returns a normalised text with a space in place of each contact and of noise.
fn without_contacts(whole: &str) -> String {
    let spans = contact_and_noise_spans(&FactReader::without_places().shapes(whole));
    if spans.is_empty() {
        return whole.to_owned();
    }
    let removed = RemovedNoise { whole: whole.to_owned(), spans };
    removed.kept().into_iter().map(|kept| kept.map_or(' ', |(_, c)| c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(row: &str, max_chars: usize) -> String {
        EmbeddingTexts::new(&Settings::default(), max_chars).text(&Row::parse(row.as_bytes()).unwrap())
    }

    #[test]
    fn contacts_never_reach_the_model() {
        let row = r#"{"id":"1","user":"赵一","title":"路灯不亮","content":"幸福路3号的路灯坏了,联系电话:13812345678,身份证号110101199003071234,邮箱a@b.cn"}"#;
        let text = text(row, 500);
        assert!(text.starts_with("路灯不亮\n幸福路3号的路灯坏了"), "{text}");
        for contact in ["1381", "110101", "a@b", "赵一"] {
            assert!(!text.contains(contact), "{text}");
        }
    }

    #[test]
    fn a_long_text_is_cut_and_a_row_without_text_has_none() {
        assert_eq!(text(r#"{"id":"1","content":"路灯坏了三天没有人修"}"#, 4), "路灯坏了");
        assert_eq!(text(r#"{"id":"1","content":"13812345678"}"#, 64), "");
        assert_eq!(text(r#"{"id":"1","content":{"a":1}}"#, 64), "");
    }
}
