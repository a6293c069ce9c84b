//! Collections and their settings: the fields of a record, the reading of its text, the channels that propose
//! duplicates, and the verification that accepts them.
//!
//! [`Settings`] is the JSON that a client writes. [`Settings::validate`] alone decides whether the settings are valid.
//! [`Settings::profile_source`] alone decides which part of the settings changes a signature, and thus names a
//! generation.

mod channels;
mod keep;
pub mod ranges;
mod scope;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::columns::{self, ColumnKind};
use crate::error_code::ErrorCode;
use crate::evidence::{EvidenceModel, LearnedModel};
use crate::facts::{MAX_ALIASES, MAX_PLACE_CHARS, MAX_PLACES, MIN_PLACE_CHARS, Place, repeated_place};
use crate::similarity::MIN_FORM_CHARS;
use crate::text::shingles;
use crate::violation::Violation;

pub use channels::*;
pub use keep::Keep;
pub use scope::{MatchScope, ScopeExclusion, ScopeRole, ScopeValues, ScopedRecord};

/// Maximum number of fields of a collection that have a role.
pub const MAX_FIELDS: usize = 128;
/// Maximum number of channels of a collection. Each channel adds keys to a record, and so makes the record more costly.
pub const MAX_CHANNELS: usize = 8;
/// Maximum number of user words, stop words and synonyms together. Each collection holds all of its own in memory.
pub const MAX_LEXICON_ENTRIES: usize = 100_000;
/// Maximum length of a lexicon entry, in characters. A longer entry is no word but a sentence.
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

/// The name of a collection: `[a-z0-9][a-z0-9_-]{0,63}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^[a-z0-9][a-z0-9_-]{0,63}$"))]
#[serde(transparent)]
pub struct CollectionName(Arc<str>);

impl CollectionName {
    /// Checks that `text` is a valid name, and returns the name.
    ///
    /// # Errors
    /// The rule for names, in words for the client.
    pub fn new(text: &str) -> Result<Self, String> {
        match text.as_bytes() {
            [first, rest @ ..] if begins_name(*first) && rest.len() < 64 && rest.iter().all(|b| continues_name(*b)) => {
                Ok(Self(text.into()))
            }
            _ => {
                Err("a collection name is 1 to 64 of a-z, 0-9, \"_\" and \"-\", and starts with a letter or a digit"
                    .into())
            }
        }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn begins_name(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn continues_name(byte: u8) -> bool {
    begins_name(byte) || byte == b'_' || byte == b'-'
}

impl fmt::Display for CollectionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for CollectionName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

/// The role of a field.
///
/// * `text`: running text. It is cut into words.
/// * `whole`: a short value that counts as one feature with the weight of the field.
/// * `identity`: a value that names the petitioner. It decides `relation`. It is part of a signature only if the field
///   is given a weight.
/// * `time`: the time when the matter was submitted. These forms are read: RFC 3339; year, month and day as
///   `2018-01-05`, `2018/1/5`, `2018.1.5`, `20180105` or `2018年1月5日`, with or without a time of day (`8:30`,
///   `08:30:15`, `8时30分`, `下午3:05`, `3:05 PM`; 24:00 is midnight of the next day), in the collection's `time_zone`. If
///   there are several time fields, the first one that can be read counts. A value that cannot be read (two digits of
///   the year, the day first, seconds since 1970) stays in the row and gives no time; the answer then has the warning
///   `unreadable_time`.
/// * `url`: a web address.
/// * `category`, `status`, `unit`, `reply`: the category of the matter, its progress, the unit that handles the matter,
///   and the answer to the petitioner. They are shown beside the record and never compared. A member whose name has one
///   of these meanings (办理状态, 承办单位, 答复内容 and the like) has the role although no field names the member.
/// * `ignore`: a value that is stored and otherwise ignored, as if no field named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Running text. It is cut into words.
    Text,
    /// A short value that counts as one feature with the weight of the field.
    Whole,
    /// A value that names the petitioner. It decides `relation`. It is part of a signature only if the field is given a
    /// weight.
    Identity,
    /// The time when the matter was submitted. The description of `Role` lists the forms that are read.
    Time,
    /// A web address.
    Url,
    /// The category of the matter, in the words of the office. It is shown and never compared.
    Category,
    /// The progress of the matter. It is shown and never compared.
    Status,
    /// The unit that handles the matter. It is shown and never compared.
    Unit,
    /// The answer to the petitioner. It is shown and never compared.
    Reply,
    /// A value that is stored and otherwise ignored, as if no field named it.
    Ignore,
}

impl Role {
    /// The roles of the values that are shown beside a record, in the order of display.
    pub const SHOWN: [Self; 4] = [Self::Category, Self::Status, Self::Unit, Self::Reply];

    /// True if values of this role are never compared and change no signature.
    pub fn is_only_shown(self) -> bool {
        self == Self::Ignore || Self::SHOWN.contains(&self)
    }
}

/// A named field and its role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// The key in the row.
    pub name: String,
    /// The role of the field.
    pub role: Role,
    /// Factor on the weights of the field's features. The default is 2 for `whole` fields and 1 for all others.
    ///
    /// A field of role `identity` or `time` that is given a weight is also a feature, as a `whole` field is: the
    /// document of 2015 treats every column but the long text in this way. The value is still no content: the exact
    /// stage and the schemes other than `simhash` leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// The format of the value.
    #[serde(default, skip_serializing_if = "TextFormat::is_plain")]
    pub format: TextFormat,
}

/// The format of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TextFormat {
    /// Plain text.
    #[default]
    Plain,
    /// HTML: the text that a browser would show is compared. Only `text` and `whole` fields can have this format.
    Html,
}

impl TextFormat {
    fn is_plain(&self) -> bool {
        *self == Self::Plain
    }
}

impl Field {
    /// Creates a field with the usual weight and plain values.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self { name: name.into(), role, weight: None, format: TextFormat::Plain }
    }

    /// True if the field's value is a separate feature, besides the effect of its role.
    pub fn is_column(&self) -> bool {
        matches!(self.role, Role::Identity | Role::Time) && self.weight.is_some()
    }

    /// Returns the factor on the weights of this field's features.
    pub fn weight(&self) -> u16 {
        self.weight.unwrap_or(if self.role == Role::Whole { 2 } else { 1 })
    }
}

/// The way in which text is cut into words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SegmenterKind {
    /// Dictionary words (jieba).
    #[default]
    Jieba,
    /// Runs of two characters.
    Chars2,
    /// Runs of three characters.
    Chars3,
}

/// Words that carry no meaning and are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum StopWords {
    /// A list by its name. The only name is `"default"`.
    Named(StopList),
    /// Exactly the words of this list.
    These(Vec<String>),
}

/// The lists of stop words that are part of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StopList {
    /// Particles, pronouns and the polite phrases of petitions.
    Default,
}

/// The settings by which text becomes words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TextSettings {
    /// The way in which text is cut.
    pub segmenter: SegmenterKind,
    /// True if jieba guesses words that are not in its dictionary.
    pub hmm: bool,
    /// Words that are added to the dictionary.
    pub user_words: Vec<String>,
    /// Words that are left out.
    pub stop_words: StopWords,
    /// Groups of words with one meaning. Before weighting, each word is replaced by the first word of its group.
    pub synonyms: Vec<Vec<String>>,
    /// True if traditional characters are read as simplified ones.
    pub simplify: bool,
    /// True if contacts, links, file names, hashtags, signatures, greetings and closing phrases are removed before
    /// texts are compared. Records that are equal except for these parts match, however short or common they are. A
    /// collection in which a channel reads lines does not remove these parts. The preset `default` does.
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub remove_noise: bool,
    /// The places that the office knows, with their aliases. In names of texts an alias counts as the name of its
    /// place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false, max_items = 10000))]
    pub places: Vec<Place>,
}

impl Default for TextSettings {
    fn default() -> Self {
        Self {
            segmenter: SegmenterKind::Jieba,
            hmm: false,
            user_words: Vec::new(),
            stop_words: StopWords::Named(StopList::Default),
            synonyms: Vec::new(),
            simplify: true,
            remove_noise: false,
            places: Vec::new(),
        }
    }
}

/// The settings of verification. Verification accepts pairs that probably concern the same matter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Verify {
    /// Number of characters in a shingle, 1 to 16.
    pub shingle: u8,
    /// Lowest probability of a match, 0 to 1.
    pub duplicate: f64,
    /// Lowest probability, 0 to 1, of a pair that is no match but is shown if the request asks for templates.
    pub unsure: f64,
    /// True if rare text of the collection has more weight than common text. If false, all text has the same weight.
    pub rarity: bool,
    /// True if the objects that the texts name (places, roads, companies, plates, numbers) count: equal objects speak
    /// for a match, different objects speak against it.
    pub objects: bool,
    /// The forms of the collection. Records on a form are compared by what fills it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub forms: Vec<Form>,
    /// The evidence model that was fitted to the decisions of the office; the model of doppel if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<LearnedModel>,
    #[serde(rename = "jaccard", skip_serializing)]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    #[doc(hidden)]
    pub former_jaccard: FormerThreshold,
    #[serde(rename = "containment", skip_serializing)]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    #[doc(hidden)]
    pub former_containment: FormerThreshold,
    #[serde(rename = "evidence", skip_serializing)]
    #[cfg_attr(feature = "openapi", schema(ignore))]
    #[doc(hidden)]
    pub former_evidence: FormerThreshold,
}

/// Text that many records share because somebody fills it in. It says nothing about the matter of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Form {
    /// The name, which distinguishes the form from the others of the collection.
    pub name: String,
    /// The passages that are the same in all records on the form.
    pub passages: Vec<String>,
}

/// A threshold that [`Verify::duplicate`] replaced. Stored settings may contain one. Its value is read and ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormerThreshold;

impl<'de> Deserialize<'de> for FormerThreshold {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl Verify {
    /// Members of `verify` that are read and ignored: thresholds that [`Verify::duplicate`] replaced.
    pub const FORMER: [&str; 3] = ["jaccard", "containment", "evidence"];
}

impl Default for Verify {
    fn default() -> Self {
        Self {
            shingle: 3,
            duplicate: 0.5,
            unsure: 0.2,
            rarity: true,
            objects: true,
            forms: Vec::new(),
            model: None,
            former_jaccard: FormerThreshold,
            former_containment: FormerThreshold,
            former_evidence: FormerThreshold,
        }
    }
}

/// Ready-made settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// The settings with the best results on real petitions: Simhash, sampled shingles, verification.
    #[default]
    Default,
    /// The settings of the 2015 paper: Simhash alone, every column but the long text as a whole with weight 2, term
    /// frequency, radius 3.
    Paper,
    /// Settings that keep no text (`keep`): Simhash and sampled shingles. The comparison of signatures alone gives the
    /// verdict.
    Signatures,
}

/// All settings of a collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The fields with a role, in the order in which their texts are joined.
    pub fields: Vec<Field>,
    /// The settings by which text becomes words.
    pub text: TextSettings,
    /// The channels that propose candidates, in addition to the exact stage.
    pub channels: Vec<Channel>,
    /// The settings of the verification that accepts candidates. `null`: each channel's own comparison accepts them.
    pub verify: Option<Verify>,
    /// Records with fewer distinct features are `too_short`: only the exact stage can match them.
    pub min_features: u16,
    /// Groups of names of one web site. Each name in an address is read as the first name of its group.
    pub host_aliases: Vec<Vec<String>>,
    /// Values of `identity` fields that name no person, in addition to the built-in ones (匿名, 无, ***, 不愿透露, 某先生 and the
    /// like).
    pub placeholders: Vec<String>,
    /// The conditions that a pair of records must meet to match, whatever their texts say.
    #[serde(rename = "match")]
    pub scope: MatchScope,
    /// Time zone of times without an offset (IANA name).
    pub time_zone: String,
    /// How long records are kept; for ever if not given. It belongs to the collection and not to a generation of its
    /// index: the activation of another generation does not change it.
    pub retention: Option<Retention>,
    /// The parts of each record that are kept. They can only be chosen when the collection is created.
    pub keep: Keep,
}

/// How long the records of a collection are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Number of days, of 24 hours each, after which a record is deleted. They are counted from the time when the
    /// present content of the record was stored (`stored_at`). Every record has this time, and no sender can choose it.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 36_500))]
    pub days: u32,
}

/// Maximum retention in days: a century. A client that wants to keep records longer gives no retention.
pub const MAX_RETENTION_DAYS: u32 = 36_500;

impl Default for Settings {
    fn default() -> Self {
        Self::preset(Preset::Default)
    }
}

/// Units of a run and smallest number of features of a record, if the texts of candidates are compared. `docs/quality.md`
/// has the measurements.
const VERIFIED_RUN: u8 = 7;
const VERIFIED_FEATURES: u16 = 2;
/// Smallest number of features of a record whose signature alone is compared.
const UNVERIFIED_FEATURES: u16 = 4;

/// The names of fields that an automatically created collection knows, by role.
const ALIASES: &[(Role, &[&str])] = &[
    (
        Role::Text,
        &["title", "subject", "标题", "主题", "留言主题", "content", "body", "text", "内容", "留言详情", "诉求内容"],
    ),
    (Role::Identity, &["user", "petitioner", "姓名", "留言用户", "信访人"]),
    (Role::Time, &["time", "date", "时间", "留言时间", "登记时间"]),
];

/// True if a field of this name is a title.
fn is_title_name(name: &str) -> bool {
    columns::kind_of(name) == Some(ColumnKind::Title)
}

impl Settings {
    /// Returns the settings of `preset`, with the built-in field names.
    pub fn preset(preset: Preset) -> Self {
        let paper = preset == Preset::Paper;
        let named = ALIASES.iter().flat_map(|(role, names)| names.iter().map(|name| (*role, *name)));
        let fields = named.map(|(role, name)| match paper && is_title_name(name) {
            // A title is one whole feature.
            true => Field { weight: Some(2), ..Field::new(name, Role::Whole) },
            false if paper && role != Role::Text => Field { weight: Some(2), ..Field::new(name, role) },
            false => Field::new(name, role),
        });
        Self {
            fields: fields.collect(),
            text: TextSettings { remove_noise: !paper, ..TextSettings::default() },
            channels: match preset {
                Preset::Paper => vec![simhash(Weighting::Tf)],
                // Nothing is verified. So a match needs a quarter of a larger sample, and the sample prefers text that
                // is rare by the built-in list.
                Preset::Signatures => {
                    let sample = ShingleParams { units: 8, keep: [64, 96], t: 0.25, ..ShingleParams::default() };
                    vec![simhash(Weighting::TfLen), Channel::Shingle(ShingleParams { prefer: Prefer::Rare, ..sample })]
                }
                // Verification reads the texts themselves. So one common shingle is enough to propose a candidate.
                Preset::Default => vec![
                    simhash(Weighting::TfLen),
                    Channel::Shingle(ShingleParams {
                        units: VERIFIED_RUN,
                        keep: [16, 96],
                        t: 0.0,
                        prefer: Prefer::Rare,
                        ..ShingleParams::default()
                    }),
                ],
            },
            verify: (preset == Preset::Default).then(Verify::default),
            min_features: if preset == Preset::Default { VERIFIED_FEATURES } else { UNVERIFIED_FEATURES },
            host_aliases: Vec::new(),
            placeholders: Vec::new(),
            scope: MatchScope::default(),
            time_zone: "Asia/Shanghai".into(),
            retention: None,
            keep: if preset == Preset::Signatures { Keep::Signatures } else { Keep::All },
        }
    }

    /// Returns the defaults for a collection that keeps signatures alone: nothing can be verified, so that short texts have
    /// only exact matches, and runs are so long that their hashes spell no text.
    #[must_use]
    pub fn unverified(mut self) -> Self {
        self.min_features = UNVERIFIED_FEATURES;
        for channel in &mut self.channels {
            if let Channel::Shingle(params) = channel {
                params.units = ShingleParams::default().units;
            }
        }
        self
    }

    /// Returns the role of a member of a row: the role of the field with its name. Without such a field, the role that
    /// its name says, if values of that role are only shown.
    pub fn role_of(&self, member: &str) -> Option<Role> {
        match self.field(member) {
            Some(field) => Some(field.role),
            None => columns::shown_role(member),
        }
    }

    /// Returns the field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Returns for each field whether it is a title. A title is a `text` or `whole` field with a usual name of a title.
    /// If no field has such a name, the first of several `text` fields is the title.
    pub fn titles(&self) -> Vec<bool> {
        let named: Vec<_> = self
            .fields
            .iter()
            .map(|field| matches!(field.role, Role::Text | Role::Whole) && is_title_name(&field.name))
            .collect();
        let mut texts = (0..).zip(&self.fields).filter(|(_, field)| field.role == Role::Text).map(|(at, _)| at);
        match (texts.next(), texts.next()) {
            (Some(first), Some(_)) if !named.contains(&true) => (0..self.fields.len()).map(|at| at == first).collect(),
            _ => named,
        }
    }

    /// Returns all errors in these settings; an empty list if they can be used.
    pub fn validate(&self) -> Vec<Violation> {
        // The settings are destructured, so that a new setting does not compile before its rule of validity is written
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

    /// Returns the part of the settings that changes a signature, in a canonical form. Two settings with equal sources
    /// (and equal dictionaries) give every record the same signatures. `verify`, `placeholders`, `match`, `time_zone`,
    /// `retention` and `keep` are left out on purpose. Fields that are only shown are also left out, if they stand
    /// after all other fields.
    pub fn profile_source(&self) -> serde_json::Value {
        let Self {
            fields,
            text,
            channels,
            verify: _,
            min_features,
            host_aliases,
            placeholders: _,
            scope: _,
            time_zone: _,
            retention: _,
            keep: _,
        } = self;
        let last = fields.iter().rposition(|field| !Role::SHOWN.contains(&field.role));
        let fields = &fields[..last.map_or(0, |last| last + 1)];
        let mut source =
            serde_json::json!({ "fields": fields, "text": text, "channels": channels, "min_features": min_features });
        // The member is left out while its value is the default, because sources of older versions do not have it.
        if !text.remove_noise
            && let Some(text) = source["text"].as_object_mut()
        {
            text.remove("remove_noise");
        }
        if !host_aliases.is_empty() {
            source["host_aliases"] = serde_json::json!(host_aliases);
        }
        source
    }

    /// Returns the `simhash` channel, if there is one.
    pub fn simhash(&self) -> Option<SimhashChannel> {
        (0..).zip(&self.channels).find_map(|(position, channel)| match channel {
            Channel::Simhash(params) => {
                Some(SimhashChannel { position: ChannelPosition(position), radius: Radius(params.radius) })
            }
            _ => None,
        })
    }
}

fn simhash(weighting: Weighting) -> Channel {
    Channel::Simhash(SimhashParams { weighting, ..SimhashParams::default() })
}

/// True if `name` is the name of an IANA time zone. Names of the machine's own zone and offsets are refused, although
/// the library accepts both.
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
        let chars = word.chars().count();
        if word.trim().is_empty() || chars > MAX_LEXICON_CHARS || word.contains('\0') {
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
        if text.trim().is_empty() || text.chars().count() > MAX_LEXICON_CHARS || text.contains('\0') {
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
        if name.trim().is_empty() || name.chars().count() > MAX_LEXICON_CHARS || name.contains('\0') {
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
    let mut seen = std::collections::HashSet::new();
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

fn within(pointer: &str, value: u32, least: u32, most: u32, found: &mut Vec<Violation>) {
    if !(least..=most).contains(&value) {
        found.push(Violation::new(pointer, ErrorCode::OutOfRange, format!("{value} is outside {least} to {most}")));
    }
}

fn share(pointer: &str, value: f64, found: &mut Vec<Violation>) {
    if !(0.0..=1.0).contains(&value) {
        found.push(Violation::new(pointer, ErrorCode::OutOfRange, format!("{value} is outside 0 to 1")));
    }
}
