//! Turns a row into words: normalises, converts, cuts, and drops or replaces words.
//!
//! This module is pure and synchronous: it has no I/O and no clock. A [`Reader`] turns a row into a [`Document`] (the
//! row's content fields in normal form). [`words::Words`] cuts a document's text into words. Both are O(length) and
//! depend only on the row and the settings.

pub mod convert;
pub mod html;
mod identity;
pub mod lexicon;
pub mod normalise;
pub mod objects;
pub mod problems;
pub mod reader;
pub mod segment;
pub mod shingles;
pub mod time;
pub mod units;
pub mod url;
pub mod words;

use sha2::{Digest, Sha256};

use crate::collection::{ScopeValues, ScopedRecord, SegmenterKind, StopList, StopWords, TextSettings};
use crate::violation::Violation;

pub use identity::identity_form;
pub use reader::{Reader, read_mapped};

/// Version of the rules of this module (the normal form, and the definitions of words and units). Every change that
/// gives some text other words or units must raise it, so that a new profile results.
const RULES: u32 = 1;

/// Returns the name of everything besides the settings that decides how text is read. It is part of every profile's
/// digest.
pub fn version(settings: &TextSettings) -> String {
    let (major, minor, update) = unicode_normalization::UNICODE_VERSION;
    let mut version = format!("text {RULES}; unicode {major}.{minor}.{update}");
    if settings.simplify {
        version += "; fast2s 0.3.1";
    }
    if settings.segmenter == SegmenterKind::Jieba {
        version = version + "; " + segment::DICTIONARY;
    }
    if settings.stop_words == StopWords::Named(StopList::Default) {
        let digest = Sha256::digest(lexicon::DEFAULT_STOP_WORDS);
        version += "; stop words ";
        version.extend(digest.iter().take(8).map(|byte| format!("{byte:02x}")));
    }
    version
}

/// A row that was read by a collection's settings: its content fields are normalised, in the order of the settings, and
/// not yet cut into words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Content fields (`text`, `whole`, `url`) that are not empty after normalisation, in the order of the settings.
    pub fields: Vec<DocumentField>,
    /// Values of other fields that are features ([`Field::is_column`](crate::collection::Field::is_column)), in the
    /// order of the settings.
    pub columns: Vec<DocumentField>,
    /// The codes of the contacts in the text ([`contact_codes`](crate::facts::contact_codes)), if contacts are removed.
    pub contacts: Vec<u64>,
    /// The petitioner, if the row names one: all `identity` values, normalised and joined.
    pub identity: Option<String>,
    /// The time when the matter was submitted, if the row contains it.
    pub time: Option<jiff::Timestamp>,
    /// The values that the conditions of the settings' `match` compare; empty unless the conditions read any.
    pub scope: ScopeValues,
    /// Values that could not be read, but are no reason to refuse the row. The warnings contain no text of the record.
    pub warnings: Vec<Violation>,
}

/// Contacts and noise that were removed from a value.
#[derive(Clone, Debug, PartialEq)]
pub struct RemovedNoise {
    /// The whole normalised value.
    pub whole: String,
    /// The removed spans of `whole`, in characters, ascending and disjoint.
    pub spans: Vec<std::ops::Range<u32>>,
}

impl RemovedNoise {
    /// Returns for each character of the compared text its position in `whole` and the character; `None` for a space
    /// that replaces removed text. There is no space at an end, or next to another space. O(length).
    pub fn kept(&self) -> Vec<Option<(u32, char)>> {
        let mut kept = Vec::with_capacity(self.whole.len() / 3);
        let mut spans = self.spans.iter().peekable();
        for (at, c) in (0..).zip(self.whole.chars()) {
            while spans.next_if(|span| span.end <= at).is_some() {}
            let next = spans.peek().is_none_or(|span| at < span.start).then_some((at, c));
            if !is_space(next) || kept.last().is_some_and(|last| !is_space(*last)) {
                kept.push(next);
            }
        }
        kept.pop_if(|last| is_space(*last));
        kept
    }
}

/// True for a space and for a place at which something was removed.
fn is_space(kept: Option<(u32, char)>) -> bool {
    kept.is_none_or(|(_, c)| c == ' ')
}

/// A content field of a document, or a column.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentField {
    /// Position in the settings' `fields`.
    pub position: u8,
    /// The role: `text`, `whole` or `url` for a content field; `identity` or `time` for a column.
    pub role: crate::collection::Role,
    /// The normalised value without contacts and noise, which is compared. It is never empty.
    pub text: String,
    /// The parts that were removed from the normalised value; `None` if nothing was removed.
    pub removed: Option<Box<RemovedNoise>>,
    /// For a `whole` field or a column, the value with replaced synonyms, if it differs from `text`. This value is then
    /// the feature. [`Profile::read`](crate::schemes::profile::Profile::read), which has the words, sets it.
    pub merged: Option<String>,
    /// The ends of the lines of the value except the last one, as ascending offsets in `text`. They are only read for
    /// collections with a channel that needs lines, because the normal form turns a line break into a space.
    pub line_ends: Vec<u32>,
}

impl DocumentField {
    /// Returns the whole normalised value, with contacts and noise.
    pub fn whole(&self) -> &str {
        self.removed.as_ref().map_or(&self.text, |removed| &removed.whole)
    }

    /// True if everything is equal except the removed parts.
    fn has_same_text(&self, other: &Self) -> bool {
        let Self { position, role, text, removed: _, merged, line_ends } = self;
        (*position, *role) == (other.position, other.role)
            && *text == other.text
            && *merged == other.merged
            && *line_ends == other.line_ends
    }
}

impl Document {
    /// True if the document has no content field. There is nothing to compare in such a row. It must not be registered,
    /// because two such rows would have equal digests without being duplicates.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns the petitioner's values, normalised.
    pub fn identity_values(&self) -> impl Iterator<Item = &str> {
        self.identity.iter().flat_map(|values| values.split(reader::SEPARATOR))
    }

    /// True if one of the petitioner's values is `identity`, which must be normalised.
    pub fn is_by(&self, identity: &str) -> bool {
        !identity.is_empty() && self.identity_values().any(|value| value == identity)
    }

    /// Returns whether both documents have the same petitioner: at least one value is equal. `None` if one of them
    /// names no petitioner.
    pub fn has_same_petitioner(&self, other: &Self) -> Option<bool> {
        let theirs: Vec<&str> = other.identity_values().collect();
        (self.identity.is_some() && other.identity.is_some())
            .then(|| self.identity_values().any(|value| theirs.contains(&value)))
    }

    /// True if both texts contain the same contact.
    pub fn shares_contact(&self, other: &Self) -> bool {
        self.contacts.iter().any(|contact| other.contacts.contains(contact))
    }

    /// True if both documents have the same text to compare: the same fields without contacts and noise, and the same columns. The removed
    /// parts, the petitioner and the time may differ. O(length).
    pub fn has_same_text(&self, other: &Self) -> bool {
        self.fields.len() == other.fields.len()
            && self.columns.len() == other.columns.len()
            && self.fields.iter().zip(&other.fields).all(|(ours, theirs)| ours.has_same_text(theirs))
            && self.columns.iter().zip(&other.columns).all(|(ours, theirs)| ours.has_same_text(theirs))
    }

    /// Returns the record as the conditions of `match` see it.
    pub fn scoped(&self) -> ScopedRecord<'_> {
        ScopedRecord { time: self.time, values: &self.scope }
    }

    /// True if both documents have the same address in the same field of role `url`.
    pub fn shares_address(&self, other: &Self) -> bool {
        let mut addresses = self.fields.iter().filter(|field| field.role == crate::collection::Role::Url);
        addresses
            .any(|own| other.fields.iter().any(|theirs| own.position == theirs.position && own.text == theirs.text))
    }

    /// Returns the text that verification and the text schemes read: the `text` and `whole` fields, joined by U+000A.
    pub fn joined(&self) -> String {
        let content = self.fields.iter().filter(|field| field.role != crate::collection::Role::Url);
        content.map(|field| field.text.as_str()).collect::<Vec<_>>().join("\n")
    }
}
