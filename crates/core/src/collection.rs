//! Collections and their settings: the fields of a record, the reading of its text, the channels that propose
//! duplicates, and the verification that accepts them.
//!
//! [`Settings`] is the JSON that a client writes. [`Settings::validate`] alone decides whether the settings are valid.
//! [`Settings::profile_source`] alone decides which part of the settings changes a signature. This part identifies a generation.

mod channels;
mod fields;
mod keep;
mod name;
mod presets;
pub mod ranges;
mod scope;
mod text_settings;
mod validate;
mod verify;

use serde::{Deserialize, Serialize};

use crate::columns::{self, ColumnKind};

pub use channels::*;
pub use fields::{Field, Role, TextFormat};
pub use keep::Keep;
pub use name::CollectionName;
pub use presets::Preset;
pub use scope::{MatchScope, ScopeExclusion, ScopeRole, ScopeValues, ScopedRecord};
pub use text_settings::{SegmenterKind, StopList, StopWords, TextSettings};
pub use validate::{
    MAX_CHANNELS, MAX_FIELDS, MAX_FORM_BYTES, MAX_FORM_PASSAGES, MAX_FORMS, MAX_LEXICON_CHARS, MAX_LEXICON_ENTRIES,
    MAX_PASSAGE_CHARS, MAX_PLACEHOLDERS, MAX_RETENTION_DAYS,
};
pub use verify::{Form, FormerThreshold, Verify};

/// All settings of a collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The fields that have a role, in the order in which their texts are joined.
    pub fields: Vec<Field>,
    /// The settings that cut text into words.
    pub text: TextSettings,
    /// The channels that propose candidates, in addition to the exact stage.
    pub channels: Vec<Channel>,
    /// The settings of the verification, which accepts or rejects candidates. With `null`, each channel accepts
    /// candidates by its own comparison.
    pub verify: Option<Verify>,
    /// Minimum number of distinct features. A record with fewer features is `too_short`: only the exact stage can
    /// match it.
    pub min_features: u16,
    /// Groups of host names of one web site. In addresses, each name of a group is replaced with the first name.
    pub host_aliases: Vec<Vec<String>>,
    /// Values of `identity` fields that name no person, in addition to the built-in values (匿名, 无, ***, 不愿透露, 某先生 and
    /// similar values).
    pub placeholders: Vec<String>,
    /// The conditions that a pair of records must meet to match, even if their texts are equal.
    #[serde(rename = "match")]
    pub scope: MatchScope,
    /// Time zone of times without an offset (IANA name).
    pub time_zone: String,
    /// The time for which records are kept; `null` means forever. It belongs to the collection and not to a
    /// generation: the activation of another generation does not change it.
    pub retention: Option<Retention>,
    /// The content that is kept of each record. It cannot change after the collection is created.
    pub keep: Keep,
}

/// The time for which the records of a collection are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Number of days of 24 hours after which a record is deleted. The days count from the time when the present
    /// content of the record was stored (`stored_at`). Every record has this time, and no client can choose it.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 36_500))]
    pub days: u32,
}

/// True if a field of this name is a title.
fn is_title_name(name: &str) -> bool {
    columns::kind_of(name) == Some(ColumnKind::Title)
}

impl Settings {
    /// Returns the role of a member of a row: the role of the field with the name of the member. Without such a field, returns the role
    /// that the name suggests, but only if values of this role are only shown.
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

    /// Returns the part of the settings that changes a signature, in a canonical form. Two settings with equal sources (and equal
    /// dictionaries) give every record the same signatures. `verify`, `placeholders`, `match`, `time_zone`, `retention` and `keep` are left
    /// out on purpose. Fields that are only shown are also left out, if they come after all other fields.
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
