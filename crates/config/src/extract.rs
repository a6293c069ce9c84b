//! Extracts a configuration from TOML values. An error has the path of the wrong value and the kind of the mistake, from which the
//! message makes a suggestion.

use std::fmt::{self, Display};

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;
use toml::{Table, Value};

/// A mistake and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfigMistake {
    /// The keys and positions from the root to the wrong value, or to the unknown key.
    pub(super) path: Vec<String>,
    pub(super) kind: MistakeKind,
}

/// The kinds of mistakes that get a suggestion. They contain no values, because some values are secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MistakeKind {
    UnknownKey {
        name: String,
        known: &'static [&'static str],
    },
    UnknownVariant {
        name: String,
        known: &'static [&'static str],
    },
    /// The value has the wrong type or range. The text is the name of the required type.
    WrongValue(String),
    MissingKey(&'static str),
    Other(String),
}

impl ConfigMistake {
    fn new(kind: MistakeKind) -> Self {
        Self { path: Vec::new(), kind }
    }

    /// Adds the part of the path that is above the known parts.
    fn below(mut self, part: impl Into<String>) -> Self {
        self.path.insert(0, part.into());
        self
    }
}

impl Display for ConfigMistake {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "wrong value at {}", self.path.join("."))
    }
}

impl std::error::Error for ConfigMistake {}

impl Error for ConfigMistake {
    fn custom<T: Display>(said: T) -> Self {
        Self::new(MistakeKind::Other(said.to_string()))
    }

    fn invalid_type(_: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::new(MistakeKind::WrongValue(wanted.to_string()))
    }

    fn invalid_value(_: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::new(MistakeKind::WrongValue(wanted.to_string()))
    }

    fn invalid_length(_: usize, wanted: &dyn Expected) -> Self {
        Self::new(MistakeKind::WrongValue(wanted.to_string()))
    }

    fn unknown_variant(name: &str, known: &'static [&'static str]) -> Self {
        Self::new(MistakeKind::UnknownVariant { name: name.to_owned(), known })
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        Self::new(MistakeKind::UnknownKey { name: name.to_owned(), known })
    }

    fn missing_field(name: &'static str) -> Self {
        Self::new(MistakeKind::MissingKey(name))
    }
}

/// Extracts a configuration or a part of one.
///
/// # Errors
/// The first mistake.
pub(super) fn extract<T: DeserializeOwned>(values: Table) -> Result<T, ConfigMistake> {
    T::deserialize(ConfigValue(Value::Table(values)))
}

/// A value of the configuration as a source for serde.
struct ConfigValue(Value);

impl<'de> Deserializer<'de> for ConfigValue {
    type Error = ConfigMistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigMistake> {
        match self.0 {
            Value::String(text) => visitor.visit_string(text),
            Value::Integer(number) => visitor.visit_i64(number),
            Value::Float(number) => visitor.visit_f64(number),
            Value::Boolean(flag) => visitor.visit_bool(flag),
            Value::Datetime(time) => visitor.visit_string(time.to_string()),
            Value::Array(items) => visitor.visit_seq(ConfigItems { items: items.into_iter(), position: 0 }),
            Value::Table(table) => visitor.visit_map(ConfigEntries { entries: table.into_iter(), value: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ConfigMistake> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ConfigMistake> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ConfigMistake> {
        match self.0 {
            Value::String(text) => {
                let text: StrDeserializer<'_, ConfigMistake> = text.as_str().into_deserializer();
                text.deserialize_enum(name, variants, visitor)
            }
            _ => Err(ConfigMistake::new(MistakeKind::WrongValue("a string".into()))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map
        struct identifier ignored_any
    }
}

struct ConfigItems {
    items: std::vec::IntoIter<Value>,
    position: usize,
}

impl<'de> SeqAccess<'de> for ConfigItems {
    type Error = ConfigMistake;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, ConfigMistake> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let position = self.position;
        self.position += 1;
        seed.deserialize(ConfigValue(item)).map(Some).map_err(|mistake| mistake.below(position.to_string()))
    }
}

/// The keys and values of a table.
struct ConfigEntries {
    entries: toml::map::IntoIter<String, Value>,
    /// The entry whose key was read last.
    value: Option<(String, Value)>,
}

impl<'de> MapAccess<'de> for ConfigEntries {
    type Error = ConfigMistake;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, ConfigMistake> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        let read = seed
            .deserialize(key.as_str().into_deserializer())
            .map_err(|mistake: ConfigMistake| mistake.below(key.as_str()))?;
        self.value = Some((key, value));
        Ok(Some(read))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ConfigMistake> {
        let (key, value) = self.value.take().ok_or_else(|| ConfigMistake::custom("a value was read before its key"))?;
        seed.deserialize(ConfigValue(value)).map_err(|mistake| mistake.below(key))
    }
}
