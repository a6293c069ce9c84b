//! The rules that settings must meet.

use std::collections::HashSet;

use super::{
    Channel, Field, Form, Keep, Retention, Role, Settings, StopList, StopWords, TextFormat, TextSettings, Verify, keep,
    ranges, scope,
};
use crate::error_code::ErrorCode;
use crate::evidence::EvidenceModel;
use crate::facts::{MAX_ALIASES, MAX_PLACE_CHARS, MAX_PLACES, MIN_PLACE_CHARS, Place, repeated_place};
use crate::similarity::MIN_FORM_CHARS;
use crate::text::shingles;
use crate::violation::Violation;

/// Maximum number of fields of a collection that have a role.
pub const MAX_FIELDS: usize = 128;
/// Maximum number of channels of a collection. Each channel adds keys to a record, so that the record needs more memory and time.
pub const MAX_CHANNELS: usize = 8;
/// Maximum number of user words, stop words and synonyms together. Each collection has its words in memory.
pub const MAX_LEXICON_ENTRIES: usize = 100_000;
/// Maximum length of a lexicon entry, in characters. A longer entry is not a word but a sentence.
pub const MAX_LEXICON_CHARS: usize = 64;

/// Maximum number of placeholders: values of identity fields that name no person.
pub const MAX_PLACEHOLDERS: usize = 1000;

/// Maximum number of forms of a collection.
pub const MAX_FORMS: usize = 64;
/// Maximum number of passages of a form.
pub const MAX_FORM_PASSAGES: usize = 64;
/// Maximum size of the passages of all forms of a collection in bytes.
pub const MAX_FORM_BYTES: usize = 64 << 10;
/// Maximum length of a passage of a form, in letters, digits and Han characters.
pub const MAX_PASSAGE_CHARS: usize = 2_000;

/// Maximum retention in days: a century. A client that wants to keep records longer gives no retention.
pub const MAX_RETENTION_DAYS: u32 = 36_500;

impl Settings {
    /// Returns all errors in these settings; an empty list if they can be used.
    pub fn validate(&self) -> Vec<Violation> {
        // The code destructures the settings, so that it does not compile with a new setting until the rule of this setting is written
        // here.
        let Self {
            fields,
            text,
            channels,
            verify,
            min_features: _,
            host_aliases,
            placeholders,
            scope: _,
            time_zone,
            retention,
            keep,
        } = self;
        let mut found = Vec::new();
        validate_fields(fields, &mut found);
        validate_text(text, &mut found);
        validate_channels(channels, fields, &mut found);
        if let Some(Verify { shingle, duplicate, unsure, rarity: _, objects: _, forms, model, .. }) = verify {
            validate_forms(forms, &mut found);
            if let Some(Err(error)) = model.as_ref().map(EvidenceModel::of_learned) {
                found.push(Violation::new("/verify/model", ErrorCode::InvalidModel, error.to_string()));
            }
            within("/verify/shingle", u32::from(*shingle), 1, 16, &mut found);
            share("/verify/duplicate", *duplicate, &mut found);
            share("/verify/unsure", *unsure, &mut found);
            if unsure > duplicate {
                found.push(Violation::new(
                    "/verify/unsure",
                    ErrorCode::OutOfRange,
                    format!("{unsure} is above the lowest probability of a match, {duplicate}"),
                ));
            }
        }
        validate_hosts(host_aliases, &mut found);
        validate_placeholders(placeholders, &mut found);
        scope::validate(self, &mut found);
        if let Some(Retention { days }) = retention {
            within("/retention/days", *days, 1, MAX_RETENTION_DAYS, &mut found);
        }
        if !is_zone(time_zone) {
            found.push(Violation::new(
                "/time_zone",
                ErrorCode::UnknownTimeZone,
                "give an IANA name such as \"Asia/Shanghai\"",
            ));
        }
        if *keep == Keep::Signatures {
            keep::validate(self, &mut found);
        }
        found
    }
}

/// True if `name` is the name of an IANA time zone. False for offsets and for the names of the zone of this machine, although the library
/// accepts both.
fn is_zone(name: &str) -> bool {
    let named = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_+-/".contains(&b));
    let lower = name.to_ascii_lowercase();
    let of_the_machine = ["local", "localtime", "posixrules", "leapseconds", "factory", "unknown", "etc/unknown"];
    let copies = ["posix/", "right/"];
    named
        && !of_the_machine.contains(&&*lower)
        && !copies.iter().any(|folder| lower.starts_with(folder))
        && jiff::tz::TimeZone::get(name).is_ok()
}

fn validate_fields(fields: &[Field], found: &mut Vec<Violation>) {
    if fields.len() > MAX_FIELDS {
        found.push(Violation::new(
            "/fields",
            ErrorCode::OutOfRange,
            format!("at most {MAX_FIELDS} fields may have a role"),
        ));
    }
    if !fields.iter().any(|field| matches!(field.role, Role::Text | Role::Whole | Role::Url)) {
        found.push(Violation::new(
            "/fields",
            ErrorCode::NoContentField,
            "name at least one field of role text, whole or url",
        ));
    }
    for (index, Field { name, role, weight, format }) in fields.iter().enumerate() {
        if name.is_empty() || name == "id" || name.contains('\0') {
            let detail = "a field name is not empty, holds no NUL character, and is not \"id\", which names the record";
            found.push(Violation::new(format!("/fields/{index}/name"), ErrorCode::InvalidName, detail));
        }
        if fields[..index].iter().any(|earlier| earlier.name == *name) {
            found.push(Violation::new(
                format!("/fields/{index}/name"),
                ErrorCode::DuplicateName,
                "the field is named twice",
            ));
        }
        if let Some(weight) = weight {
            within(&format!("/fields/{index}/weight"), u32::from(*weight), 1, 1000, found);
        }
        if *format == TextFormat::Html && !matches!(role, Role::Text | Role::Whole) {
            let detail = "\"html\" is for fields of role text or whole";
            found.push(Violation::new(format!("/fields/{index}/format"), ErrorCode::InvalidValue, detail));
        }
    }
}

fn validate_text(text: &TextSettings, found: &mut Vec<Violation>) {
    let TextSettings { segmenter: _, hmm: _, user_words, stop_words, synonyms, simplify: _, remove_noise: _, places } =
        text;
    let stop_words: &[String] = match stop_words {
        StopWords::Named(StopList::Default) => &[],
        StopWords::These(words) => words,
    };
    validate_words("/text/user_words", user_words, found);
    validate_words("/text/stop_words", stop_words, found);
    for (index, group) in synonyms.iter().enumerate() {
        validate_words(&format!("/text/synonyms/{index}"), group, found);
    }
    validate_places(places, found);
    let names: usize = places.iter().map(|place| 1 + place.aliases.len()).sum();
    let total = user_words.len() + stop_words.len() + synonyms.iter().map(Vec::len).sum::<usize>() + names;
    if total > MAX_LEXICON_ENTRIES {
        let detail = format!("{total} words; at most {MAX_LEXICON_ENTRIES} in all lists together");
        found.push(Violation::new("/text", ErrorCode::TooManyWords, detail));
    }
    for (index, group) in synonyms.iter().enumerate() {
        if group.len() < 2 {
            let detail = "a group of synonyms has at least two words";
            found.push(Violation::new(format!("/text/synonyms/{index}"), ErrorCode::OutOfRange, detail));
        }
    }
}

fn validate_places(places: &[Place], found: &mut Vec<Violation>) {
    if places.len() > MAX_PLACES {
        let detail = format!("at most {MAX_PLACES} places");
        found.push(Violation::new("/text/places", ErrorCode::TooManyWords, detail));
    }
    for (index, place) in places.iter().enumerate() {
        if place.aliases.len() > MAX_ALIASES {
            let detail = format!("at most {MAX_ALIASES} aliases");
            found.push(Violation::new(format!("/text/places/{index}/aliases"), ErrorCode::TooManyWords, detail));
        }
        if !place.has_valid_names() {
            let detail = format!(
                "a name of a place has {MIN_PLACE_CHARS} to {MAX_PLACE_CHARS} characters, no space at its ends, no control characters and no | ; 、, \
                 and does not begin with =, +, - or @"
            );
            found.push(Violation::new(format!("/text/places/{index}"), ErrorCode::InvalidWord, detail));
        }
    }
    if let Some(index) = repeated_place(places) {
        let detail = "an earlier place has one of these names";
        found.push(Violation::new(format!("/text/places/{index}"), ErrorCode::DuplicateName, detail));
    }
}

fn validate_words(pointer: &str, words: &[String], found: &mut Vec<Violation>) {
    for (index, word) in words.iter().enumerate() {
        if !is_entry(word) {
            let detail = format!("a word has 1 to {MAX_LEXICON_CHARS} characters");
            found.push(Violation::new(format!("{pointer}/{index}"), ErrorCode::InvalidWord, detail));
        }
    }
}

fn validate_channels(channels: &[Channel], fields: &[Field], found: &mut Vec<Violation>) {
    if channels.len() > MAX_CHANNELS {
        found.push(Violation::new("/channels", ErrorCode::OutOfRange, format!("at most {MAX_CHANNELS} channels")));
    }
    if channels.iter().filter(|channel| matches!(channel, Channel::Simhash(_))).count() > 1 {
        let detail = "a record has one fingerprint: at most one simhash channel";
        found.push(Violation::new("/channels", ErrorCode::DuplicateChannel, detail));
    }
    for (index, channel) in channels.iter().enumerate() {
        ranges::validate(channel, &format!("/channels/{index}"), fields, found);
    }
}

fn validate_placeholders(placeholders: &[String], found: &mut Vec<Violation>) {
    if placeholders.len() > MAX_PLACEHOLDERS {
        let detail = format!("at most {MAX_PLACEHOLDERS} values");
        found.push(Violation::new("/placeholders", ErrorCode::TooManyWords, detail));
    }
    for (index, text) in placeholders.iter().enumerate() {
        if !is_entry(text) {
            let detail = format!("a value has 1 to {MAX_LEXICON_CHARS} characters");
            found.push(Violation::new(format!("/placeholders/{index}"), ErrorCode::InvalidWord, detail));
        }
    }
}

fn validate_forms(forms: &[Form], found: &mut Vec<Violation>) {
    if forms.len() > MAX_FORMS {
        found.push(Violation::new("/verify/forms", ErrorCode::TooManyForms, format!("at most {MAX_FORMS} forms")));
    }
    let bytes: usize = forms.iter().flat_map(|form| &form.passages).map(String::len).sum();
    if bytes > MAX_FORM_BYTES {
        let detail = format!("the passages of all forms have {bytes} bytes; at most {MAX_FORM_BYTES}");
        found.push(Violation::new("/verify/forms", ErrorCode::TooManyWords, detail));
    }
    for (index, Form { name, passages }) in forms.iter().enumerate() {
        let at = format!("/verify/forms/{index}");
        if !is_entry(name) {
            let detail = format!("a name has 1 to {MAX_LEXICON_CHARS} characters");
            found.push(Violation::new(format!("{at}/name"), ErrorCode::InvalidWord, detail));
        }
        if forms[..index].iter().any(|earlier| earlier.name == *name) {
            found.push(Violation::new(format!("{at}/name"), ErrorCode::Repeated, "another form has this name"));
        }
        if passages.is_empty() || passages.len() > MAX_FORM_PASSAGES {
            let detail = format!("a form has 1 to {MAX_FORM_PASSAGES} passages");
            found.push(Violation::new(format!("{at}/passages"), ErrorCode::OutOfRange, detail));
        }
        for (number, passage) in passages.iter().enumerate() {
            let counted = shingles::counted(passage);
            if !(MIN_FORM_CHARS..=MAX_PASSAGE_CHARS).contains(&counted) || passage.contains('\0') {
                let detail =
                    format!("a passage has {MIN_FORM_CHARS} to {MAX_PASSAGE_CHARS} letters, digits or Han characters");
                found.push(Violation::new(format!("{at}/passages/{number}"), ErrorCode::OutOfRange, detail));
            }
        }
    }
}

fn validate_hosts(aliases: &[Vec<String>], found: &mut Vec<Violation>) {
    let total: usize = aliases.iter().map(Vec::len).sum();
    if total > MAX_LEXICON_ENTRIES {
        let detail = format!("{total} names; at most {MAX_LEXICON_ENTRIES} in all groups together");
        found.push(Violation::new("/host_aliases", ErrorCode::TooManyWords, detail));
    }
    let mut seen = HashSet::new();
    for (index, group) in aliases.iter().enumerate() {
        let at = format!("/host_aliases/{index}");
        if group.len() < 2 {
            found.push(Violation::new(&at, ErrorCode::OutOfRange, "a group has at least two names of one host"));
        }
        for (position, host) in group.iter().enumerate() {
            let sound =
                (1..=253).contains(&host.len()) && !host.contains(|c: char| c.is_whitespace() || "/:?#@".contains(c));
            if !sound {
                let detail = "a host name has 1 to 253 bytes, without scheme, port or path";
                found.push(Violation::new(format!("{at}/{position}"), ErrorCode::InvalidName, detail));
            } else if !seen.insert(host.to_lowercase()) {
                found.push(Violation::new(
                    format!("{at}/{position}"),
                    ErrorCode::DuplicateName,
                    "the host is named twice",
                ));
            }
        }
    }
}

/// True if a text is not empty and not longer than an entry of a lexicon.
fn is_entry(text: &str) -> bool {
    !text.trim().is_empty() && text.chars().count() <= MAX_LEXICON_CHARS && !text.contains('\0')
}

pub(super) fn within(pointer: &str, value: u32, least: u32, most: u32, found: &mut Vec<Violation>) {
    if !(least..=most).contains(&value) {
        found.push(Violation::new(pointer, ErrorCode::OutOfRange, format!("{value} is outside {least} to {most}")));
    }
}

fn share(pointer: &str, value: f64, found: &mut Vec<Violation>) {
    if !(0.0..=1.0).contains(&value) {
        found.push(Violation::new(pointer, ErrorCode::OutOfRange, format!("{value} is outside 0 to 1")));
    }
}
