//! The values that an office adds to a record while it handles the matter. The service shows them with the record and never compares them.

use serde::Serialize;

use crate::collection::Role;
use crate::columns;
use crate::record::{Row, Value};

/// Maximum length of a value of a [`Handling`], in characters. The row holds the whole value.
pub const MAX_VALUE_CHARS: usize = 1000;

/// The values of a record with the roles `category`, `status`, `unit` and `reply`. If several members of the row have
/// the same role, the first of them with a value is used. A value is shortened to 1,000 characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Handling {
    /// The category of the matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, required = false))]
    pub category: Option<String>,
    /// The status of the matter at the office.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, required = false))]
    pub status: Option<String>,
    /// The unit that handles the matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, required = false))]
    pub unit: Option<String>,
    /// The reply to the petitioner.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, required = false))]
    pub reply: Option<String>,
}

impl Handling {
    /// Returns the values of `row` that describe the handling; `None` if there are none. The role of a member is the role that
    /// `role_of_field` returns for its name; without such a field, the role that the name suggests. O(members of the row).
    pub fn of(role_of_field: impl Fn(&str) -> Option<Role>, row: &Row) -> Option<Self> {
        let roles = Self::roles(role_of_field, row);
        Self::by_roles(&roles, row)
    }

    /// Returns the roles of the members of `row`, in the order of the members, as [`Handling::of`] determines them. O(members of the row).
    pub fn roles(role_of_field: impl Fn(&str) -> Option<Role>, row: &Row) -> Vec<Option<Role>> {
        let names: Vec<&str> = row.names().collect();
        let kinds = columns::kinds_of(names.iter().copied());
        let roles = names.iter().zip(kinds);
        roles.map(|(name, kind)| role_of_field(name).or_else(|| kind.and_then(columns::ColumnKind::role))).collect()
    }

    /// Returns the values of `row` that describe the handling, by the roles of its members; `None` if there are none. O(members of the row).
    pub fn by_roles(roles: &[Option<Role>], row: &Row) -> Option<Self> {
        let mut handling = Self::default();
        for (name, role) in row.names().zip(roles) {
            let value = match role {
                Some(Role::Category) => &mut handling.category,
                Some(Role::Status) => &mut handling.status,
                Some(Role::Unit) => &mut handling.unit,
                Some(Role::Reply) => &mut handling.reply,
                _ => continue,
            };
            if value.is_none() {
                *value = text(row, name);
            }
        }
        (handling != Self::default()).then_some(handling)
    }
}

/// Returns the trimmed and cut text of a member; `None` if the member has no text.
fn text(row: &Row, name: &str) -> Option<String> {
    let (Value::Text(text) | Value::Literal(text)) = row.value(name)? else { return None };
    let text = text.trim();
    (!text.is_empty()).then(|| text.chars().take(MAX_VALUE_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::{Field, Settings};

    fn handling(settings: &Settings, json: &str) -> Option<Handling> {
        Handling::of(|name| settings.field(name).map(|field| field.role), &Row::parse(json.as_bytes()).unwrap())
    }

    #[test]
    fn names_of_members_say_what_the_office_wrote() {
        let found = handling(
            &Settings::default(),
            r#"{"content":"路灯","办理状态":" 已办结 ","承办单位":"城管局","答复内容":"","诉求类别":"市政"}"#,
        );
        let expected = Handling {
            category: Some("市政".into()),
            status: Some("已办结".into()),
            unit: Some("城管局".into()),
            reply: None,
        };
        assert_eq!(found, Some(expected));
        assert_eq!(handling(&Settings::default(), r#"{"content":"路灯","办理状态":null}"#), None);
    }

    #[test]
    fn the_settings_count_for_more_than_the_name() {
        let mut settings = Settings::default();
        settings.fields.extend([Field::new("stage", Role::Status), Field::new("办理状态", Role::Ignore)]);
        let found = handling(&settings, r#"{"办理状态":"x","stage":3}"#).unwrap();
        assert_eq!(found.status.as_deref(), Some("3"));
    }

    #[test]
    fn a_long_reply_is_cut() {
        let reply = "答".repeat(MAX_VALUE_CHARS + 5);
        let found = handling(&Settings::default(), &format!(r#"{{"答复内容":"{reply}"}}"#)).unwrap();
        assert_eq!(found.reply.unwrap().chars().count(), MAX_VALUE_CHARS);
    }
}
