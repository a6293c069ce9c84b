//! Reports the use of the members of rows. A member without a field in the settings is stored and never compared, and the user should know
//! this.

use std::collections::HashSet;

use serde::Serialize;

use doppel_core::collection::{Field, Role};
use doppel_core::columns::shown_role;

/// Largest number of names that are kept: twice the largest number of names of a row. Rows with ever new names have no real columns.
const MOST: usize = 1024;

/// The names of the members of rows except `id`, in the order of their first occurrence.
#[derive(Debug, Default)]
pub(super) struct ColumnNames {
    names: Vec<String>,
    seen: HashSet<String>,
    /// Number of rows that were accepted.
    taken: usize,
}

impl ColumnNames {
    /// Records the names of one row. Takes O(names).
    pub(super) fn note<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            if !self.seen.contains(name) && self.names.len() < MOST {
                self.seen.insert(name.to_owned());
                self.names.push(name.to_owned());
            }
        }
    }

    /// Returns the names that are new since the last call.
    pub(super) fn take_new(&mut self) -> Vec<String> {
        let new = self.names[self.taken..].to_vec();
        self.taken = self.names.len();
        new
    }

    /// Returns the uses of the members under settings with these fields.
    pub(super) fn uses(&self, fields: &[Field]) -> ColumnUses {
        let mut uses = ColumnUses::default();
        for name in &self.names {
            let field = fields.iter().find(|field| field.name == *name);
            match field.map(|field| field.role).or_else(|| shown_role(name)) {
                Some(role) => uses.used.push(ColumnUse { name: name.clone(), role }),
                None => uses.unused.push(name.clone()),
            }
        }
        uses
    }
}

/// The used members with their roles, and the unused members.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct ColumnUses {
    used: Vec<ColumnUse>,
    /// The unused members, which are stored unchanged and never compared.
    unused: Vec<String>,
}

#[derive(Debug, PartialEq, Serialize)]
struct ColumnUse {
    name: String,
    role: Role,
}

impl ColumnUses {
    /// Describes the used members, and the unused members if there are any.
    pub(super) fn lines(&self) -> (String, Option<String>) {
        let used = self.used.iter().map(|one| format!("{} ({})", one.name, role_name(one.role).unwrap_or_default()));
        let used = used.collect::<Vec<_>>().join(", ");
        let unused = (!self.unused.is_empty()).then(|| self.unused.join(", "));
        (if used.is_empty() { "none is used".into() } else { used }, unused)
    }

    /// Returns the warning, with its remedy, that some of these `names` are not used.
    pub(super) fn warning(&self, names: &[String]) -> Option<String> {
        let unused: Vec<&str> = self.unused.iter().filter(|name| names.contains(name)).map(String::as_str).collect();
        let roles = "text, whole, identity, time, url, category, status, unit, reply, or ignore";
        (!unused.is_empty()).then(|| {
            format!(
                "columns not used: {}; doppel stores them unchanged and never compares them, because no field of the \
                    settings names them; to use them, name them in the settings with their role ({roles})",
                unused.join(", ")
            )
        })
    }
}

fn role_name(role: Role) -> Option<String> {
    Some(serde_json::to_value(role).ok()?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_field_names_is_said_once_and_what_is_used_with_its_role() {
        let fields = [field("标题", Role::Text), field("姓名", Role::Identity), field("note", Role::Ignore)];
        let mut columns = ColumnNames::default();
        columns.note(["标题", "来电人", "姓名"].into_iter());
        let new = columns.take_new();
        assert_eq!(columns.uses(&fields).lines(), ("标题 (text), 姓名 (identity)".into(), Some("来电人".into())));
        assert!(columns.uses(&fields).warning(&new).is_some_and(|said| said.starts_with("columns not used: 来电人;")));
        columns.note(["标题", "note", "来电人"].into_iter());
        let new = columns.take_new();
        assert_eq!((new.as_slice(), columns.uses(&fields).warning(&new)), (&["note".to_owned()][..], None));
        assert_eq!(columns.uses(&[]).lines().0, "none is used");
    }

    fn field(name: &str, role: Role) -> Field {
        Field { name: name.into(), role, ..serde_json::from_str(r#"{"name":"x","role":"text"}"#).unwrap() }
    }
}
