//! Warnings about members of rows that no setting uses: doppel never compares a column whose name differs from the name in the settings, and nobody
//! would notice. The answer to the first record of a collection contains the warning, when a correction is cheap.

use doppel_core::collection::Settings;
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
    let is_unused = |name: &&str| settings.role_of(name).is_none();
    let mut unused = row.names().filter(is_unused);
    let mut found: Vec<_> =
        unused.by_ref().take(MOST).map(|name| Violation::new(child("", name), CODE, DETAIL)).collect();
    let more = unused.count();
    if more > 0 {
        found.push(Violation::new("", CODE, format!("and {more} more members that no field of the settings names")));
    }
    found
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
}
