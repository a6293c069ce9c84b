//! From a row to words: normalise, convert, segment, drop and merge.
//!
//! Pure and synchronous: no I/O, no clock. A [`Reader`] turns a row into a [`Document`] (its content fields in normal
//! form); [`words::Words`] cuts a document's text into words. Both are O(length) and depend on nothing but the row
//! and the settings.

pub mod convert;
pub mod html;
mod identity;
pub mod lexicon;
pub mod normalise;
pub mod objects;
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

/// Version of this module's own rules (normal form, what a word and what a unit is). Raise it with every change that gives
/// some text other words or units, so that a new profile results.
const RULES: u32 = 1;

/// Names everything beside the settings that decides how text is read: part of every profile's digest.
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

/// A row read under a collection's settings: its content fields normalised, in settings order. Not yet cut into words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Content fields (`text`, `whole`, `url`) that are not empty after normalisation, in settings order.
    pub fields: Vec<DocumentField>,
    /// Values of other fields that are features ([`Field::is_column`](crate::collection::Field::is_column)), in settings order.
    pub columns: Vec<DocumentField>,
    /// The petitioner, if the row names one: all `identity` values, normalised and joined.
    pub identity: Option<String>,
    /// When the matter was submitted, if the row says so.
    pub time: Option<jiff::Timestamp>,
    /// The values that the conditions of the settings' `match` compare; empty unless the conditions read any.
    pub scope: ScopeValues,
    /// What was left unread, and is no reason to refuse the row. No record text.
    pub warnings: Vec<Violation>,
}

/// Contacts and noise that were removed from a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Removed {
    /// The whole normalised value.
    pub whole: String,
    /// The removed spans of `whole`, in characters, ascending and disjoint.
    pub spans: Vec<std::ops::Range<u32>>,
}

impl Removed {
    /// Of each character of the compared text its position in `whole` and itself; `None` for a space that stands for removed text. No space
    /// stands at an end or beside another. O(length).
    pub fn kept(&self) -> Vec<Option<(u32, char)>> {
        let is_space = |kept: &Option<(u32, char)>| kept.is_none_or(|(_, c)| c == ' ');
        let (mut kept, mut spans) = (Vec::with_capacity(self.whole.len() / 3), self.spans.iter().peekable());
        for (at, c) in (0..).zip(self.whole.chars()) {
            while spans.next_if(|span| span.end <= at).is_some() {}
            let next = spans.peek().is_none_or(|span| at < span.start).then_some((at, c));
            if !is_space(&next) || kept.last().is_some_and(|last| !is_space(last)) {
                kept.push(next);
            }
        }
        kept.pop_if(|last| is_space(last));
        kept
    }
}

/// A content field of a document, or a column.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentField {
    /// Position in the settings' `fields`.
    pub position: u8,
    /// Its role: `text`, `whole` or `url`; of a column `identity` or `time`.
    pub role: crate::collection::Role,
    /// The normalised value without contacts and noise, never empty: what is compared.
    pub text: String,
    /// What was removed from the normalised value to give `text`; `None` where nothing was.
    pub removed: Option<Box<Removed>>,
    /// Of a `whole` field or a column, the value with synonyms replaced, where that is another: the feature that it is. Filled by
    /// [`Profile::read`](crate::schemes::profile::Profile::read), which has the words.
    pub merged: Option<String>,
    /// Where lines of the value ended, as offsets in `text`, ascending; the last line's end is not among them. Only read
    /// for collections with a channel that asks for lines: normal form makes a line break a space like any other.
    pub line_ends: Vec<u32>,
}

impl DocumentField {
    /// The whole normalised value, contacts and noise included.
    pub fn whole(&self) -> &str {
        self.removed.as_ref().map_or(&self.text, |removed| &removed.whole)
    }
}

impl Document {
    /// Whether no content field has anything in it. Such a row says nothing that could be compared: it must not be
    /// registered, for two of them would have equal digests without being duplicates.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The petitioner's values, normalised.
    pub fn identity_values(&self) -> impl Iterator<Item = &str> {
        self.identity.iter().flat_map(|values| values.split(reader::SEPARATOR))
    }

    /// Whether one of the petitioner's values is `identity`, which is normalised.
    pub fn is_by(&self, identity: &str) -> bool {
        !identity.is_empty() && self.identity_values().any(|value| value == identity)
    }

    /// Whether both are of the same petitioner: one value is equal. `None` where either names nobody.
    pub fn has_same_petitioner(&self, other: &Self) -> Option<bool> {
        let theirs: Vec<&str> = other.identity_values().collect();
        (self.identity.is_some() && other.identity.is_some())
            .then(|| self.identity_values().any(|value| theirs.contains(&value)))
    }

    /// Returns the record as the conditions of `match` see it.
    pub fn scoped(&self) -> ScopedRecord<'_> {
        ScopedRecord { time: self.time, values: &self.scope }
    }

    /// Whether both name the same address in the same field of role `url`.
    pub fn shares_address(&self, other: &Self) -> bool {
        let mut addresses = self.fields.iter().filter(|field| field.role == crate::collection::Role::Url);
        addresses
            .any(|own| other.fields.iter().any(|theirs| own.position == theirs.position && own.text == theirs.text))
    }

    /// The text that verification and the text schemes read: the `text` and `whole` fields joined by U+000A.
    pub fn joined(&self) -> String {
        let content = self.fields.iter().filter(|field| field.role != crate::collection::Role::Url);
        content.map(|field| field.text.as_str()).collect::<Vec<_>>().join("\n")
    }
}
