//! From a row to words: normalise, convert, segment, drop and merge.
//!
//! Pure and synchronous: no I/O, no clock.

/// A row read under a collection's settings: its content fields normalised, in settings order. Not yet cut into words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Content fields (`text`, `whole`, `url`) that are not empty after normalisation, in settings order.
    pub fields: Vec<DocumentField>,
    /// The petitioner, if the row names one: all `identity` values, normalised and joined.
    pub identity: Option<String>,
    /// When the matter was submitted, if the row says so.
    pub time: Option<jiff::Timestamp>,
}

/// A content field of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentField {
    /// Position in the settings' `fields`.
    pub position: u8,
    /// Its role: `text`, `whole` or `url`.
    pub role: crate::collection::Role,
    /// The normalised value, never empty.
    pub text: String,
}

impl Document {
    /// The text that verification and the text schemes read: the `text` and `whole` fields joined by U+000A.
    pub fn joined(&self) -> String {
        let content = self.fields.iter().filter(|field| field.role != crate::collection::Role::Url);
        content.map(|field| field.text.as_str()).collect::<Vec<_>>().join("\n")
    }
}
