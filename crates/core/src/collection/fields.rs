//! The fields of a record and their roles.

use serde::{Deserialize, Serialize};

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

/// A field of the row, with its role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// The key of the field in the row.
    pub name: String,
    /// The role of the field.
    pub role: Role,
    /// Factor by which the weights of the field's features are multiplied. The default is 2 for `whole` fields and 1
    /// for all others.
    ///
    /// A field of role `identity` or `time` with a weight is also a feature, like a `whole` field, because the
    /// document of 2015 uses every column except the long text in this way. The value still does not belong to the
    /// content: the exact stage and the schemes other than `simhash` do not use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// The format of the value.
    #[serde(default, skip_serializing_if = "TextFormat::is_plain")]
    pub format: TextFormat,
}

/// The format of a value. `plain`: plain text. `html`: HTML, of which the text that a browser would show is compared;
/// only for fields of role `text` or `whole`.
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
