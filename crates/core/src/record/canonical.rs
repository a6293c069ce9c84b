//! The content of a row in a canonical form, as input of a hash.

use serde_json::value::RawValue;

use super::{Row, entries_of};

impl Row {
    /// Returns the content in a canonical form. The forms of two rows are equal if [`Row::same_content`] is true for
    /// the rows. O(depth × bytes).
    pub fn canonical(&self) -> String {
        let mut canonical = String::with_capacity(self.json.len());
        let mut entries = entries_of(&self.json).unwrap_or_default();
        entries.retain(|(key, _)| key != "id");
        write_entries(&entries, &mut canonical);
        canonical
    }
}

/// Writes sorted entries in the form in which the entries of two rows are compared.
fn write_entries(entries: &[(String, &RawValue)], canonical: &mut String) {
    canonical.push('{');
    for (key, value) in entries {
        write_text(key, canonical);
        canonical.push(':');
        write_value(value.get(), canonical);
        canonical.push(',');
    }
    canonical.push('}');
}

/// Writes a value in the form in which values are compared.
fn write_value(raw: &str, canonical: &mut String) {
    match raw.as_bytes().first() {
        Some(b'"') if let Ok(text) = serde_json::from_str::<String>(raw) => write_text(&text, canonical),
        Some(b'[') if let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(raw) => {
            canonical.push('[');
            for value in list {
                write_value(value.get(), canonical);
                canonical.push(',');
            }
            canonical.push(']');
        }
        Some(b'{') if let Some(entries) = entries_of(raw) => write_entries(&entries, canonical),
        _ => canonical.push_str(raw),
    }
}

/// Writes the length of a text and the text, so that the end of the text is always clear.
fn write_text(text: &str, canonical: &mut String) {
    canonical.push_str(&format!("{}\"", text.len()));
    canonical.push_str(text);
}
