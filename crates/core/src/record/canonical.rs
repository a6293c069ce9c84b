//! The content of a row in one form, for hashing it.

use serde_json::value::RawValue;

use super::{Row, entries_of};

impl Row {
    /// Its content in one form: those of two rows are equal where [`Row::same_content`] says so. O(depth × bytes).
    pub fn canonical(&self) -> String {
        let mut canonical = String::with_capacity(self.json.len());
        let mut entries = entries_of(&self.json).unwrap_or_default();
        entries.retain(|(key, _)| key != "id");
        write_entries(&entries, &mut canonical);
        canonical
    }
}

/// Writes entries, which are sorted, as those of two rows are compared.
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

/// Writes a value as it is compared with another one.
fn write_value(raw: &str, canonical: &mut String) {
    let text = || serde_json::from_str::<String>(raw).ok();
    let list = || serde_json::from_str::<Vec<&RawValue>>(raw).ok();
    match raw.as_bytes().first() {
        Some(b'"') if let Some(text) = text() => write_text(&text, canonical),
        Some(b'[') if let Some(list) = list() => {
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

/// Length and text: no text can be taken for another one with what follows it.
fn write_text(text: &str, canonical: &mut String) {
    canonical.push_str(&format!("{}\"", text.len()));
    canonical.push_str(text);
}
