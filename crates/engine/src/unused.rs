//! Warnings about members of rows that no setting uses: doppel never compares a column whose name differs from the name in the settings, and nobody
//! would notice. The answer to the first record of a collection contains the warning, when a correction is cheap. Later answers contain it only if a
//! record loses its time or its petitioner.

use doppel_core::collection::{Role, Settings};
use doppel_core::columns::{ColumnKind, kind_of};
use doppel_core::error_code::ErrorCode;
use doppel_core::record::Row;
use doppel_core::violation::{Violation, child};

/// Largest number of members that one answer names.
const MOST: usize = 20;
const CODE: ErrorCode = ErrorCode::UnusedMember;
const DETAIL: &str = "no field of the collection's settings has this name: the member is stored but never compared; to compare it, \
                      name it in fields (before there are records, PUT the collection; later, POST /v1/admin/reindex)";

/// Returns a warning for each member of `row` that has no role under `settings`, except `id`. Fields with role `ignore` count as named. The
/// warnings contain names, not values.
pub(super) fn unused_members(settings: &Settings, row: &Row) -> Vec<Violation> {
    let mut unused = row.names().filter(|name| settings.role_of(name).is_none());
    let mut found: Vec<_> =
        unused.by_ref().take(MOST).map(|name| Violation::new(child("", name), CODE, DETAIL)).collect();
    let more = unused.count();
    if more > 0 {
        found.push(Violation::new("", CODE, format!("and {more} more members that no field of the settings names")));
    }
    found
}

/// Returns a warning for each member of `row` that by its name contains the time or the petitioner, although no field of `settings` has this
/// name and the row has no other member of this role. O(members × fields).
pub(super) fn overlooked_members(settings: &Settings, row: &Row) -> Vec<Violation> {
    let overlooked = row.names().filter(|name| is_overlooked(settings, row, name));
    overlooked.map(|name| Violation::new(child("", name), CODE, DETAIL)).collect()
}

fn is_overlooked(settings: &Settings, row: &Row, name: &str) -> bool {
    if settings.role_of(name).is_some() {
        return false;
    }
    let role = kind_of(name).and_then(ColumnKind::role);
    let Some(role) = role.filter(|role| matches!(role, Role::Time | Role::Identity)) else { return false };
    !row.names().any(|name| settings.role_of(name) == Some(role))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(json: &str) -> Row {
        Row::parse(json.as_bytes()).unwrap()
    }

    #[test]
    fn a_warning_contains_the_name_of_a_member_and_not_its_value() {
        let found =
            unused_members(&Settings::default(), &row(r#"{"id":"1","content":"x","来电人":"secret","a/b":null}"#));
        let pointers: Vec<_> = found.iter().map(|one| (one.pointer.as_str(), one.code)).collect();
        assert_eq!(pointers, [("/来电人", CODE), ("/a~1b", CODE)]);
        assert!(found.iter().all(|one| !one.detail.contains("secret")));
        let many: Vec<_> = (0..30).map(|n| format!("\"n{n}\":1")).collect();
        let found = unused_members(&Settings::default(), &row(&format!("{{{}}}", many.join(","))));
        assert_eq!((found.len(), found[MOST].detail.starts_with("and 10 more")), (MOST + 1, true));
    }

    #[test]
    fn a_time_or_a_petitioner_that_is_lost_is_named_with_every_record() {
        let overlooked = |json: &str| {
            let found = overlooked_members(&Settings::default(), &row(json));
            found.into_iter().map(|one| one.pointer).collect::<Vec<_>>()
        };
        assert_eq!(
            overlooked(r#"{"content":"x","来电人":"secret","推送时间":"2026-01-02"}"#),
            ["/来电人", "/推送时间"]
        );
        assert!(
            overlooked(r#"{"content":"x","user":"a","来电人":"secret","time":"2026-01-02","推送时间":"y"}"#).is_empty()
        );
        assert!(overlooked(r#"{"content":"x","备注":"z","办理单位":"y"}"#).is_empty());
    }
}
